/* A pool is closed while threads wait in it: they return, and the other end reads what was written, and then the end. */
#include "qbuf_common.h"

#define SIZE 100

struct waiting {
    int fd;
    int why;
};

static int open_end(const char *name, unsigned spin_us) {
    struct qb_options options;
    memset(&options, 0, sizeof options);
    options.timeout_ms = 20000;
    options.slots = 2;
    options.spin_us = spin_us;
    return qb_open(name, &options);
}

static void *reads(void *argument) {
    struct waiting *waiting = (struct waiting *)argument;
    void *in;
    size_t size;
    CHECK(qb_read(waiting->fd, &in, &size) == -1);
    waiting->why = errno;
    return NULL;
}

static void *writes(void *argument) {
    struct waiting *waiting = (struct waiting *)argument;
    char *p;
    do
        CHECK((p = (char *)qb_alloc(waiting->fd, SIZE)) != NULL);
    while (qb_write(waiting->fd, p, SIZE) == SIZE);
    waiting->why = errno;
    return NULL;
}

/* What the other end reads: one buffer at least, and the end. It cannot write any more then. */
static void other_end(const char *name, int go) {
    int fd = open_end(name, 0), buffers = 0;
    ssize_t got;
    void *in;
    size_t size;
    char byte, *p;
    CHECK(fd >= 0 && read(go, &byte, 1) == 1);
    while ((got = qb_read(fd, &in, &size)) == SIZE) {
        CHECK(qb_free(fd, in) == 0);
        buffers++;
    }
    CHECK(got == 0 && buffers >= 1);
    do
        CHECK((p = (char *)qb_alloc(fd, SIZE)) != NULL);
    while (qb_write(fd, p, SIZE) == SIZE);
    CHECK(errno == EPIPE);
    CHECK(qb_close(fd) == 0);
    exit(0);
}

static void close_while(const char *name, void *(*does)(void *), unsigned spin_us) {
    struct waiting waiting;
    pthread_t thread;
    int go[2], status;
    double began;
    pid_t child;
    char *p;
    CHECK(pipe(go) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0)
        other_end(name, go[0]);
    waiting.fd = open_end(name, spin_us);
    CHECK(waiting.fd >= 0 && (p = (char *)qb_alloc(waiting.fd, SIZE)) != NULL);
    CHECK(qb_write(waiting.fd, p, SIZE) == SIZE);
    CHECK(pthread_create(&thread, NULL, does, &waiting) == 0);
    pause_ms(200);
    began = now();
    CHECK(qb_close(waiting.fd) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(waiting.why == ECANCELED && now() - began < 5);
    FAILS(qb_close(waiting.fd), EBADF);
    CHECK(write(go[1], "x", 1) == 1);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(go[0]);
    close(go[1]);
}

int main(void) {
    /* Who is told of nothing waits for ever. */
    alarm(30);
    close_while(fresh_name("close-read"), reads, 0);
    close_while(fresh_name("close-write"), writes, 0);
    /* Who spins is told as well. */
    close_while(fresh_name("close-spin"), reads, 60000000);
    printf("who waits is told of the end\n");
    return 0;
}

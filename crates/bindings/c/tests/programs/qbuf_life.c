/* A process at the other end is killed: who does not wait learns it, too, and who polls is woken. */
#include "qbuf_common.h"

static int open_end(const char *name) {
    struct qb_options options;
    memset(&options, 0, sizeof options);
    options.timeout_ms = 20000;
    options.flags = QB_NONBLOCK;
    return qb_open(name, &options);
}

/* A child at the other end, which has passed one buffer, and is dead by now. Returns this end. */
static int widow(const char *name) {
    int fd, told[2];
    char byte;
    pid_t child;
    CHECK(pipe(told) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int own = open_end(name);
        char *p;
        CHECK(own >= 0 && (p = (char *)qb_alloc(own, 100)) != NULL);
        while (qb_write(own, p, 100) != 100)
            CHECK(errno == EAGAIN);
        CHECK(write(told[1], "x", 1) == 1);
        for (;;)
            pause();
    }
    fd = open_end(name);
    CHECK(fd >= 0 && read(told[0], &byte, 1) == 1);
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    close(told[0]);
    close(told[1]);
    return fd;
}

int main(void) {
    void *in;
    size_t size;
    char *p;
    double until;
    int fd;

    /* By reading alone. */
    fd = widow(fresh_name("life-read"));
    CHECK(qb_read(fd, &in, &size) == 100 && qb_free(fd, in) == 0);
    for (until = now() + 10; qb_read(fd, &in, &size) != 0;)
        CHECK(errno == EAGAIN && now() < until);
    CHECK(qb_read(fd, &in, &size) == 0);
    CHECK(qb_close(fd) == 0);

    /* By writing alone. */
    fd = widow(fresh_name("life-write"));
    for (until = now() + 10;;) {
        CHECK((p = (char *)qb_alloc(fd, 100)) != NULL && now() < until);
        if (qb_write(fd, p, 100) == 100)
            continue;
        if (errno == EPIPE)
            break;
        CHECK(errno == EAGAIN && qb_free(fd, p) == 0);
    }
    CHECK(qb_close(fd) == 0);

    /* In poll. */
    fd = widow(fresh_name("life-poll"));
    CHECK(qb_read(fd, &in, &size) == 100 && qb_free(fd, in) == 0);
    for (until = now() + 10;;) {
        ssize_t got = qb_read(fd, &in, &size);
        if (got == 0)
            break;
        CHECK(errno == EAGAIN && now() < until);
        CHECK(is_readable(fd, 5000));
    }
    CHECK(stats_of(fd).free_blocks == stats_of(fd).blocks);
    CHECK(qb_close(fd) == 0);
    printf("the dead are missed\n");
    return 0;
}

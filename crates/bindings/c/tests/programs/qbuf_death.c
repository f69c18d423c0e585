/* A process at the other end that is killed, while it has buffers, and while some are on their way to it. */
#include "qbuf_common.h"

/* Who only writes is told as well, long before there is no room. */
static void a_writer_is_told(void) {
    const char *name = fresh_name("unread");
    int fd, written = 0;
    void *out;
    ssize_t taken;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(qb_open(name, NULL) >= 0);
        for (;;)
            pause();
    }
    fd = qb_open(name, NULL);
    CHECK(fd >= 0 && kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    do {
        CHECK((out = qb_alloc(fd, 100)) != NULL);
        taken = qb_write(fd, out, 100);
        pause_ms(5);
    } while (taken == 100 && ++written < 1000);
    CHECK(taken == -1 && errno == EPIPE);
    CHECK(stats_of(fd).free_blocks == stats_of(fd).blocks);
    CHECK(qb_close(fd) == 0);
}

/* Its process lives on as another program, which has not heard of the buffers. */
static void another_program(void) {
    const char *name = fresh_name("exec");
    void *in;
    size_t size;
    double until;
    int fd;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int own = qb_open(name, NULL);
        void *out;
        CHECK(own >= 0 && (out = qb_alloc(own, 100)) != NULL);
        CHECK(qb_write(own, out, 100) == 100);
        execl("/bin/sleep", "sleep", "60", (char *)NULL);
        _exit(1);
    }
    fd = qb_open(name, NULL);
    until = now() + 20;
    CHECK(fd >= 0 && qb_read(fd, &in, &size) == 100 && qb_free(fd, in) == 0);
    CHECK(qb_read(fd, &in, &size) == 0 && now() < until);
    CHECK(stats_of(fd).free_blocks == stats_of(fd).blocks);
    CHECK(qb_close(fd) == 0);
    CHECK(waitpid(child, NULL, WNOHANG) == 0 && kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
}

int main(void) {
    int round;
    a_writer_is_told();
    another_program();
    for (round = 0; round < 10; round++) {
        const char *name = fresh_name("death");
        struct qb_options options;
        struct qb_stats stats;
        int fd, told[2];
        char byte;
        void *in;
        size_t size;
        double until;
        pid_t child;
        CHECK(pipe(told) == 0);
        child = fork();
        CHECK(child >= 0);
        memset(&options, 0, sizeof options);
        options.timeout_ms = 20000;
        if (child == 0) {
            int own = qb_open(name, &options);
            CHECK(own >= 0);
            CHECK(qb_read(own, &in, &size) == 10000 && qb_alloc(own, 20000) != NULL);
            /* One is on its way back. */
            CHECK(qb_write(own, in, 10000) == 10000);
            CHECK(write(told[1], "x", 1) == 1);
            for (;;)
                pause();
        }
        fd = qb_open(name, &options);
        CHECK(fd >= 0);
        while (stats_of(fd).user_blocks + stats_of(fd).transit_blocks < 20 * 3) {
            char *p = (char *)qb_alloc(fd, 10000);
            CHECK(p != NULL && qb_write(fd, p, 10000) == 10000);
        }
        CHECK(read(told[0], &byte, 1) == 1);
        if (round % 2 == 0)
            pause_ms(round);
        CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
        /* What it has sent is read, and then the end is told. */
        CHECK(qb_read(fd, &in, &size) == 10000 && qb_free(fd, in) == 0);
        CHECK(qb_read(fd, &in, &size) == 0);
        CHECK((in = qb_alloc(fd, 10000)) != NULL);
        CHECK(qb_write(fd, in, 10000) == -1 && errno == EPIPE);
        until = now() + 20;
        do {
            /* An allocation looks for the dead if it must; here reading the end did. */
            stats = stats_of(fd);
            CHECK(now() < until);
            pause_ms(1);
        } while (stats.free_blocks != stats.blocks);
        CHECK(stats.swept_clients == 1);
        CHECK(qb_close(fd) == 0);
        close(told[0]);
        close(told[1]);
    }
    printf("nothing is lost when a peer dies\n");
    return 0;
}

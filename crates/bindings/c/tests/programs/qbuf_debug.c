/* In debug mode a buffer that was passed, freed or wrapped faults: each in a child process, which must die of SIGSEGV. */
#include "qbuf_common.h"
#include <sys/resource.h>

static int by_environment;

static struct qb_options debugging(void) {
    struct qb_options options;
    memset(&options, 0, sizeof options);
    options.flags = by_environment ? 0 : QB_DEBUG;
    options.timeout_ms = 20000;
    return options;
}

static void use_after(int what) {
    struct qb_options options = debugging();
    struct rlimit none = {0, 0};
    volatile char *p;
    char *q;
    int fd, ends[2];
    setrlimit(RLIMIT_CORE, &none);
    if (what == 0) {
        fd = qb_open(fresh_name("debug"), &options);
    } else {
        fd = qb_open(NULL, &options);
    }
    CHECK(fd >= 0);
    if (what == 1) {
        int port, listener;
        listener = listening(&port);
        ends[0] = qmp_socket(AF_INET, SOCK_STREAM, 0);
        {
            struct sockaddr_in there = loopback(port);
            CHECK(qmp_setsockopt(ends[0], SOL_QMP, QMP_POOL, &fd, sizeof fd) == 0);
            CHECK(qmp_connect(ends[0], (struct sockaddr *)&there, sizeof there) == 0);
        }
        ends[1] = qmp_accept(listener, NULL, NULL);
        CHECK(ends[1] >= 0);
    }
    q = (char *)qb_alloc(fd, 5000);
    CHECK(q != NULL);
    memset(q, 1, 5000);
    p = q;
    switch (what) {
    case 0:
        CHECK(qb_write(fd, q, 5000) == 5000);
        break;
    case 1:
        CHECK(qb_write(ends[0], q, 5000) == 5000);
        break;
    case 2:
        CHECK(qb_free(fd, q) == 0);
        break;
    default:
        CHECK(qbuf_wrap(qbuf_register(fd), q, 5000) != NULL);
        break;
    }
    p[what * 100] = 1;
    exit(17);
}

/* The other end of the channel of the first. */
static void take_one(const char *name) {
    struct qb_options options = debugging();
    void *in;
    size_t size;
    int fd = qb_open(name, &options);
    CHECK(fd >= 0);
    CHECK(qb_read(fd, &in, &size) == 5000 && ((char *)in)[4999] == 1);
    /* It is ours: writing is allowed. */
    memset(in, 2, size);
    CHECK(qb_free(fd, in) == 0);
}

int main(void) {
    int what, status;
    for (by_environment = 0; by_environment < 2; by_environment++) {
        if (by_environment)
            setenv("PINNACE_QBUF_DEBUG", "1", 1);
        for (what = 0; what < 4; what++) {
            pid_t child = fork();
            CHECK(child >= 0);
            if (child == 0)
                use_after(what);
            if (what == 0) {
                char name[60];
                snprintf(name, sizeof name, "test-debug-%ld", (long)child);
                take_one(name);
            }
            CHECK(waitpid(child, &status, 0) == child);
            CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
        }
    }
    printf("every use after passing was caught\n");
    return 0;
}

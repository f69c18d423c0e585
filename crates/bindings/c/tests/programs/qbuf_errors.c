/* Every error, and how it is told; handles; what the statistics say. */
#include "qbuf_common.h"

#include <stddef.h>
#include <sys/time.h>
#include <sys/un.h>

static void nothing(int number) {
    (void)number;
}

int main(void) {
    struct qb_options options;
    struct qb_stats before, after;
    struct qbuf *buffer;
    qbuf_handle_t handle, other;
    size_t size = 7;
    char much[100], *p, *q;
    void *in = much;
    unsigned at;
    int fd, pair_of[2];
    pid_t child;

    /* qb_open */
    memset(&options, 0, sizeof options);
    options.flags = 1u << 30;
    FAILS(qb_open(NULL, &options), EINVAL);
    options.flags = 0;
    options.block_size = 5000;
    FAILS(qb_open(NULL, &options), EINVAL);
    options.block_size = 0;
    options.zones = 70000;
    FAILS(qb_open(NULL, &options), EINVAL);
    options.zones = 0;
    options.slots = 70000;
    FAILS(qb_open(NULL, &options), EINVAL);
    options.slots = 0;
    options.timeout_ms = 100;
    FAILS(qb_open("", &options), EINVAL);
    memset(much, 'x', sizeof much);
    much[99] = 0;
    FAILS(qb_open(much, &options), EINVAL);
    {
        double begin = now();
        FAILS(qb_open(fresh_name("nobody"), &options), ETIMEDOUT);
        CHECK(now() - begin > 0.09 && now() - begin < 10);
    }
    {
        /* Who has the name hears nobody, and as many call as can wait. */
        const char *name = fresh_name("deaf");
        struct sockaddr_un taken = {.sun_family = AF_UNIX};
        int length = snprintf(taken.sun_path + 1, sizeof taken.sun_path - 1, "pinnace-qbuf/%u/%s", geteuid(), name);
        socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
        int deaf = socket(AF_UNIX, SOCK_STREAM, 0), callers[8], count = 0;
        double begin = now();
        CHECK(bind(deaf, (struct sockaddr *)&taken, bytes) == 0 && listen(deaf, 0) == 0);
        do
            callers[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        while (connect(callers[count++], (struct sockaddr *)&taken, bytes) == 0 && count < 8);
        CHECK(count < 8 && errno == EAGAIN);
        FAILS(qb_open(name, &options), ETIMEDOUT);
        CHECK(now() - begin < 10);
        while (count > 0)
            close(callers[--count]);
        close(deaf);
    }
    {
        /* Who has the name says nothing, and signals come: they are no error. */
        const char *name = fresh_name("silent");
        struct sockaddr_un taken = {.sun_family = AF_UNIX};
        int length = snprintf(taken.sun_path + 1, sizeof taken.sun_path - 1, "pinnace-qbuf/%u/%s", geteuid(), name);
        struct sigaction action = {.sa_handler = nothing}, before;
        struct itimerval often = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
        int silent = socket(AF_UNIX, SOCK_STREAM, 0);
        CHECK(bind(silent, (struct sockaddr *)&taken,
                   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) == 0);
        CHECK(listen(silent, 100) == 0 && sigaction(SIGALRM, &action, &before) == 0);
        CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
        FAILS(qb_open(name, &options), ETIMEDOUT);
        CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0 && sigaction(SIGALRM, &before, NULL) == 0);
        close(silent);
    }

    /* Numbers that are no pools. */
    FAILS(qb_close(-1), EBADF);
    FAILS(qb_close(0), EBADF);
    NO_POINTER(qb_alloc(5000, 1), EBADF);
    FAILS(qb_free(5000, much), EBADF);
    FAILS(qb_write(5000, much, 1), EBADF);
    FAILS(qb_read(5000, &in, &size), EBADF);
    FAILS(qb_stats(5000, &before), EBADF);
    FAILS(qbuf_register(5000), EBADF);
    FAILS(qbuf_unregister(5000), EBADF);
    NO_POINTER(qbuf_wrap(5000, much, 1), EBADF);
    FAILS(qbuf_vfree(5000, NULL), EBADF);

    /* A pool of its own. */
    memset(&options, 0, sizeof options);
    options.zones = 2;
    fd = qb_open(NULL, &options);
    CHECK(fd >= 0);
    before = stats_of(fd);
    CHECK(before.zones == 2 && before.block_size == 4096 && before.blocks == 64 && before.free_blocks == 64);
    CHECK(before.clients == 1);
    FAILS(qb_stats(fd, NULL), EFAULT);
    NO_POINTER(qb_alloc(fd, 32 * 4096 + 1), EMSGSIZE);
    p = (char *)qb_alloc(fd, 32 * 4096);
    q = (char *)qb_alloc(fd, 1);
    CHECK(p != NULL && q != NULL);
    NO_POINTER(qb_alloc(fd, 32 * 4096), ENOMEM);
    memset(p, 1, 32 * 4096);
    CHECK(stats_of(fd).free_blocks == 31 && stats_of(fd).failed_allocs > 0);
    FAILS(qb_free(fd, NULL), EINVAL);
    FAILS(qb_free(fd, much), EINVAL);
    FAILS(qb_free(fd, q + 1), EINVAL);
    CHECK(qb_free(fd, p) == 0);
    FAILS(qb_free(fd, p), EPERM);
    FAILS(qb_write(fd, q, 1), ENOTCONN);
    FAILS(qb_read(fd, &in, &size), ENOTCONN);
    FAILS(qb_read(fd, NULL, &size), EFAULT);
    FAILS(qb_read(fd, &in, NULL), EFAULT);
    FAILS(qmp_send(fd, "x", 1, 0), ENOTSOCK);

    /* Handles. */
    handle = qbuf_register(fd);
    other = qbuf_register(fd);
    CHECK(handle > 0 && other > 0 && handle != other);
    p = (char *)qb_alloc(fd, 10000);
    CHECK(p != NULL);
    fill(p, 0, 10000);
    NO_POINTER(qbuf_wrap(handle, p, 0), EINVAL);
    NO_POINTER(qbuf_wrap(handle, p, 3 * 4096 + 1), EINVAL);
    NO_POINTER(qbuf_wrap(handle, much, 1), EINVAL);
    NO_POINTER(qbuf_wrap(handle, NULL, 1), EINVAL);
    buffer = qbuf_wrap(handle, p + 100, 9000);
    CHECK(buffer != NULL && buffer->blocks == 3 && buffer->length == 9000 && buffer->zone < 2);
    CHECK(is_intact((char *)buffer->address, 100, 9000));
    CHECK((char *)buffer->address == (char *)buffer->block_address[0] + 100);
    for (at = 1; at < buffer->blocks; at++)
        CHECK(is_intact((char *)buffer->block_address[at], at * 4096, 1000));
    CHECK(stats_of(fd).engine_blocks == 3);
    NO_POINTER(qbuf_wrap(handle, p, 1), EPERM);
    FAILS(qb_free(fd, p), EPERM);
    FAILS(qbuf_unregister(handle), EBUSY);
    FAILS(qbuf_vfree(other, buffer), EINVAL);
    FAILS(qbuf_vfree(handle, NULL), EINVAL);
    CHECK(qbuf_vfree(handle, buffer) == 0);
    FAILS(qbuf_vfree(handle, buffer), EINVAL);
    CHECK(qbuf_unregister(handle) == 0 && qbuf_unregister(other) == 0);
    FAILS(qbuf_unregister(handle), EBADF);
    CHECK(stats_of(fd).free_blocks == 63);
    CHECK(qb_free(fd, q) == 0 && stats_of(fd).free_blocks == 64);

    /* A child has none of it. */
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int own;
        NO_POINTER(qb_alloc(fd, 1), EBADF);
        FAILS(qb_close(fd), EBADF);
        own = qb_open(NULL, NULL);
        CHECK(own >= 0 && qb_alloc(own, 100) != NULL && qb_close(own) == 0);
        exit(0);
    }
    CHECK(child_succeeded(child));
    p = (char *)qb_alloc(fd, 1);
    CHECK(p != NULL && qb_free(fd, p) == 0);
    CHECK(qb_close(fd) == 0);
    FAILS(qb_close(fd), EBADF);

    /* A channel, of which either may be the first end. */
    {
        const char *name = fresh_name("channel");
        child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            fd = qb_open(name, NULL);
            CHECK(fd >= 0);
            /* It reads nothing until the other end is closed, and then it reads it all. */
            pause_ms(300);
            for (at = 0; qb_read(fd, &in, &size) > 0; at++)
                CHECK(size == 100 && is_intact((char *)in, at, 100) && qb_free(fd, in) == 0);
            CHECK(at == 4);
            /* As with every socket, the first may go without notice. */
            p = (char *)qb_alloc(fd, 1);
            CHECK(p != NULL && (qb_write(fd, p, 1) == 1 || errno == EPIPE));
            p = (char *)qb_alloc(fd, 1);
            CHECK(p != NULL);
            FAILS(qb_write(fd, p, 1), EPIPE);
            /* It was freed. */
            FAILS(qb_free(fd, p), EPERM);
            exit(0);
        }
        memset(&options, 0, sizeof options);
        options.slots = 4;
        options.flags = QB_NONBLOCK;
        if (getpid() % 2 == 0)
            pause_ms(50);
        fd = qb_open(name, &options);
        CHECK(fd >= 0);
        FAILS(qb_read(fd, &in, &size), EAGAIN);
        /* If the child was first there are 1024 slots. */
        for (at = 0; at < 4; at++) {
            p = (char *)qb_alloc(fd, 100);
            CHECK(p != NULL);
            FAILS(qb_write(fd, p, 0), EINVAL);
            FAILS(qb_write(fd, p, 4097), EMSGSIZE);
            fill(p, at, 100);
            CHECK(qb_write(fd, p, 100) == 100);
            FAILS(qb_write(fd, p, 100), EPERM);
            FAILS(qb_free(fd, p), EPERM);
        }
        FAILS(qb_write(fd, much, 1), EINVAL);
        after = stats_of(fd);
        CHECK(after.clients == 2);
        CHECK(qb_close(fd) == 0);
        CHECK(child_succeeded(child));
    }

    /* Sockets without a pool. */
    pair(pair_of);
    NO_POINTER(qb_alloc(pair_of[0], 1), EOPNOTSUPP);
    FAILS(qb_write(pair_of[0], much, 1), EOPNOTSUPP);
    FAILS(qb_close(pair_of[0]), EBADF);
    fd = qb_open(NULL, NULL);
    FAILS(qmp_setsockopt(pair_of[0], SOL_QMP, QMP_POOL, &fd, sizeof fd), EISCONN);
    CHECK(qb_close(fd) == 0 && qmp_close(pair_of[0]) == 0 && qmp_close(pair_of[1]) == 0);
    printf("every error was told\n");
    return 0;
}

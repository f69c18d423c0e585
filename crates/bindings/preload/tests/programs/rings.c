/* A program that may accept connections by io_uring, which sees the descriptor as the kernel has it. */
#include "harness.h"

/* As liburing has it: that it is there is what the library sees. */
int io_uring_queue_init(unsigned entries, void *ring, unsigned flags);
int io_uring_queue_init(unsigned entries, void *ring, unsigned flags)
{
    (void)entries, (void)ring, (void)flags;
    return -ENOSYS;
}

static void ring_server(int listener, int at)
{
    (void)at;
    CHECK(below(listener) == family());
    int fd = syscall(SYS_accept4, listener, NULL, NULL, 0);
    CHECK(fd >= 0);
    put(fd, "by tcp", 6);
}

static void ring_client(int to)
{
    want(dial(to), "by tcp");
}

static const struct side sides[] = { { "ring", ring_server, ring_client } };

HARNESS(sides)

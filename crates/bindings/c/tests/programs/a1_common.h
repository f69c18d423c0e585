/* What the programs about A1 share. */
#ifndef A1_COMMON_H
#define A1_COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "a1.h"

/* Ends the program with a message if something is not as it should be. */
#define CHECK(what)                                                      \
    do {                                                                 \
        if (!(what)) {                                                   \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
            exit(1);                                                     \
        }                                                                \
    } while (0)

/* The call must return this. */
#define IS(call, wanted)                                                                              \
    do {                                                                                              \
        long long got_ = (long long)(call), wanted_ = (long long)(wanted);                            \
        if (got_ != wanted_) {                                                                        \
            fprintf(stderr, "%s:%d: %s is %lld and not %s\n", __FILE__, __LINE__, #call, got_, #wanted); \
            exit(1);                                                                                  \
        }                                                                                             \
    } while (0)

#define UNUSED __attribute__((unused))
#define NEAR ((uint64_t)INADDR_LOOPBACK << 32)

UNUSED static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

UNUSED static void pause_ms(long ms) {
    struct timespec time;
    time.tv_sec = ms / 1000;
    time.tv_nsec = ms % 1000 * 1000000;
    nanosleep(&time, NULL);
}

UNUSED static struct a1_qos record(int options) {
    struct a1_qos qos;
    memset(&qos, 0, sizeof qos);
    qos.options = (uint16_t)options;
    qos.priority = 128;
    qos.largest_sent = qos.largest_received = 1 << 20;
    qos.outstanding = 16;
    return qos;
}

UNUSED static struct a1_qos reliable(void) {
    return record(A1_CHECKSUM | A1_RETRANSMISSION);
}

UNUSED static struct a1_qos raw(void) {
    return record(A1_CHECKSUM);
}

/* A socket at a port of this host that is chosen. */
UNUSED static int bound(struct a1_qos max) {
    int s = a1_socket();
    CHECK(s >= 0);
    IS(a1_bind(s, NEAR, &max), 0);
    return s;
}

/* One that listens. */
UNUSED static int listening(struct a1_qos max, uint64_t *addr) {
    int s = bound(max);
    IS(a1_listen(s, 16), 0);
    IS(a1_name(s, addr), 0);
    CHECK(*addr >> 32 == INADDR_LOOPBACK && (uint32_t)*addr > 0);
    return s;
}

/* Two ends of a connection: a socket with one sink, and one that was accepted. */
UNUSED static void pair(struct a1_qos qos, int ends[2]) {
    uint64_t there, peer, here;
    int listener = listening(qos, &there);
    ends[0] = bound(qos);
    IS(a1_add_sink(ends[0], there, &qos, NULL), 0);
    ends[1] = a1_accept(listener, &peer, 0, NULL);
    CHECK(ends[1] >= 0);
    IS(a1_name(ends[0], &here), 0);
    CHECK(peer == here);
    IS(a1_close(listener, 0), 0);
}

/* Bytes that tell where they are. */
UNUSED static char expected(size_t at) {
    return (char)((at * 2654435761u) >> 13);
}

UNUSED static void fill(char *data, size_t from, size_t size) {
    size_t at;
    for (at = 0; at < size; at++)
        data[at] = expected(from + at);
}

UNUSED static int is_intact(const char *data, size_t from, size_t size) {
    size_t at;
    for (at = 0; at < size; at++)
        if (data[at] != expected(from + at))
            return 0;
    return 1;
}

/* Whether the descriptor is readable within so many milliseconds. */
UNUSED static int is_readable(int fd, int timeout) {
    struct pollfd entry;
    entry.fd = fd;
    entry.events = POLLIN;
    entry.revents = 0;
    return poll(&entry, 1, timeout) == 1 && (entry.revents & POLLIN);
}

/* Waits for a child process; whether it was content. */
UNUSED static int child_succeeded(pid_t child) {
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

#endif

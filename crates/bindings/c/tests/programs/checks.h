/* What the programs of all interfaces share: checks, clocks, children, addresses. */
#ifndef CHECKS_H
#define CHECKS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))

/* What the library says of the last failure, where it has words for it. */
#ifndef WORDS
#define WORDS ""
#endif

/* Ends the program with a message if something is not as it should be. */
#define CHECK(what)                                                                                               \
    do {                                                                                                          \
        if (!(what)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s (errno %s) %s\n", __FILE__, __LINE__, #what, strerror(errno), WORDS); \
            exit(1);                                                                                              \
        }                                                                                                         \
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

/* The call must be false (-1 of calls that count is not), and say why. */
#define REFUSED(call, why)     \
    do {                       \
        errno = 0;             \
        CHECK(!(call));        \
        CHECK(errno == (why)); \
    } while (0)

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

/* Whether the descriptor is readable within so many milliseconds. */
UNUSED static int is_readable(int fd, int timeout) {
    struct pollfd entry;
    entry.fd = fd;
    entry.events = POLLIN;
    entry.revents = 0;
    return poll(&entry, 1, timeout) == 1 && (entry.revents & POLLIN);
}

/* Waits until somebody has written to a pipe. */
UNUSED static void await(int descriptor, void *data, size_t size) {
    CHECK(is_readable(descriptor, 30000));
    CHECK(read(descriptor, data, size) == (ssize_t)size);
}

/* Waits for a child process; whether it was content. */
UNUSED static int child_succeeded(pid_t child) {
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* A port of 127.0.0.`last`. */
UNUSED static struct sockaddr_in loopback_of(int last, int port) {
    struct sockaddr_in address;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(0x7F000000u + (uint32_t)last);
    address.sin_port = htons((uint16_t)port);
    return address;
}

UNUSED static struct sockaddr_in loopback(int port) {
    return loopback_of(1, port);
}

#endif

/* What the programs about VRP share. */
#ifndef VRP_COMMON_H
#define VRP_COMMON_H

#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "vrp.h"

/* Ends the program with a message if something is not as it should be. */
#define CHECK(what)                                                                                  \
    do {                                                                                             \
        if (!(what)) {                                                                               \
            fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #what, strerror(errno)); \
            exit(1);                                                                                 \
        }                                                                                            \
    } while (0)

/* The call must fail, and say why. */
#define FAILS(call, why)       \
    do {                       \
        errno = 0;             \
        CHECK(!(call));        \
        CHECK(errno == (why)); \
    } while (0)

static inline double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static inline int readable(int descriptor, int milliseconds) {
    struct pollfd entry;
    entry.fd = descriptor;
    entry.events = POLLIN;
    return poll(&entry, 1, milliseconds) == 1;
}

/* Waits until somebody has written to a pipe. */
static inline void await(int descriptor, void *data, size_t size) {
    CHECK(readable(descriptor, 30000));
    CHECK(read(descriptor, data, size) == (ssize_t)size);
}

/* Waits for a child process; whether it was content. */
static inline int child_succeeded(pid_t child) {
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Bytes that tell which frame they belong to, and where; never 0. */
static inline unsigned char expected(size_t frame, size_t at) {
    return (unsigned char)((at * 2654435761u + frame * 40503u) >> 13) | 1;
}

static inline unsigned char *filled(size_t frame, size_t size) {
    unsigned char *data = malloc(size + 1);
    size_t at;
    CHECK(data != NULL);
    for (at = 0; at < size; at++)
        data[at] = expected(frame, at);
    return data;
}

static inline int is_intact(const unsigned char *data, size_t frame, size_t size) {
    size_t at;
    for (at = 0; at < size; at++)
        if (data[at] != expected(frame, at))
            return 0;
    return 1;
}

/* Sends a frame in one go. */
static inline int send_frame(vrp_outgoing_t outgoing, size_t frame, size_t size) {
    unsigned char *data = filled(frame, size);
    vrp_buffer_t buffer = vrp_buffer_construct(data, size);
    int result, error;
    CHECK(buffer != NULL);
    result = vrp_outgoing_send_frame(outgoing, buffer);
    error = errno;
    vrp_buffer_destroy(buffer);
    free(data);
    errno = error;
    return result;
}

#endif

/* What the programs about VRP share. */
#ifndef VRP_COMMON_H
#define VRP_COMMON_H

#include "checks.h"

#include <pthread.h>
#include <stdint.h>
#include <sys/select.h>

#include "vrp.h"

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

static inline pthread_t start(void *(*run)(void *), void *argument) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run, argument) == 0);
    return thread;
}

static inline void join(pthread_t thread) {
    CHECK(pthread_join(thread, NULL) == 0);
}

#endif

/* What the programs about remote service requests share. */
#ifndef RSR_COMMON_H
#define RSR_COMMON_H

#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rsr.h"

/* Ends the program with a message if something is not as it should be. */
#define CHECK(what)                                                                                             \
    do {                                                                                                        \
        if (!(what)) {                                                                                          \
            fprintf(stderr, "%s:%d: not so: %s (%s; %s)\n", __FILE__, __LINE__, #what, strerror(errno), rsr_error()); \
            exit(1);                                                                                            \
        }                                                                                                       \
    } while (0)

/* The call must fail, and say why. */
#define FAILS(call, why)       \
    do {                       \
        errno = 0;             \
        CHECK(!(call));        \
        CHECK(errno == (why)); \
    } while (0)

/* Waits until somebody has written to a pipe. */
static inline void await(int descriptor, void *data, size_t size) {
    struct pollfd entry;
    entry.fd = descriptor;
    entry.events = POLLIN;
    CHECK(poll(&entry, 1, 30000) == 1);
    CHECK(read(descriptor, data, size) == (ssize_t)size);
}

#endif

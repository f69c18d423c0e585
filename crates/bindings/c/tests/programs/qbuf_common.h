/* What the programs about QBUF share. */
#ifndef QBUF_COMMON_H
#define QBUF_COMMON_H

#include "qmp_common.h"

#include "qbuf.h"

UNUSED static struct qb_stats stats_of(int fd) {
    struct qb_stats stats;
    CHECK(qb_stats(fd, &stats) == 0);
    return stats;
}

/* Ends the program if a call does not return NULL and say this. */
#define NO_POINTER(call, why)                                                                     \
    do {                                                                                          \
        errno = 0;                                                                                \
        if ((call) != NULL || errno != (why)) {                                                   \
            fprintf(stderr, "%s:%d: %s does not fail with %s but %s\n", __FILE__, __LINE__, #call, #why, strerror(errno)); \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

/* A name that no other test has. */
UNUSED static const char *fresh_name(const char *what) {
    static char name[60];
    snprintf(name, sizeof name, "test-%s-%ld", what, (long)getpid());
    return name;
}

#endif

/* What the examples share: connected loopback sockets, recognisable bytes, and a check that ends the program. */
#ifndef COMMON_H
#define COMMON_H

#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zcrp.h"

/* Ends the program with a message if something is not as it should be. */
#define CHECK(what)                                                                            \
    do {                                                                                       \
        if (!(what)) {                                                                         \
            fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #what, strerror(errno)); \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)

/* Two UDP sockets on the loopback interface, connected to each other: what one sends the other receives. Two programs on
 * two machines would each make one, bind it, and connect it to the other's address. */
static inline void udp_pair(int pair[2]) {
    struct sockaddr_in names[2];
    int i;
    for (i = 0; i < 2; i++) {
        socklen_t length = sizeof names[i];
        memset(&names[i], 0, sizeof names[i]);
        names[i].sin_family = AF_INET;
        names[i].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        pair[i] = socket(AF_INET, SOCK_DGRAM, 0);
        CHECK(pair[i] >= 0);
        CHECK(bind(pair[i], (struct sockaddr *)&names[i], sizeof names[i]) == 0);
        CHECK(getsockname(pair[i], (struct sockaddr *)&names[i], &length) == 0);
    }
    for (i = 0; i < 2; i++)
        CHECK(connect(pair[i], (struct sockaddr *)&names[1 - i], sizeof names[i]) == 0);
}

/* Bytes that tell which message they belong to, and where. */
static inline nbyte expected(nlong message, nlong at) {
    return (nbyte)((at * 2654435761u + message * 40503u) >> 13);
}

static inline void fill(struct zcrp_msg *message, nlong number, nlong size) {
    nlong at;
    for (at = 0; at < size; at++)
        message->buffer[at] = expected(number, at);
}

/* Whether the first `size` bytes are those of this message. */
static inline int is_intact(const struct zcrp_msg *message, nlong number, nlong size) {
    nlong at;
    for (at = 0; at < size; at++)
        if (message->buffer[at] != expected(number, at))
            return 0;
    return 1;
}

/* Waits for a child process; whether it was content. */
static inline int child_succeeded(pid_t child) {
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

#endif

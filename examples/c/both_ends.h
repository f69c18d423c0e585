/* What the numbered examples share: two connected ends in one program, and an end with words if something fails. */
#ifndef BOTH_ENDS_H
#define BOTH_ENDS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <pinnace.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program if the call has failed, and says why. */
#define MUST(call)                                             \
    do {                                                       \
        if (!(call)) {                                         \
            fprintf(stderr, "%s: %s\n", #call, pinnace_error()); \
            exit(1);                                           \
        }                                                      \
    } while (0)

/* Connects with a service to a listener of this program. In two programs, each would have one half of this. */
static inline void connect_both(const char *service, pinnace_connection_t **client, pinnace_connection_t **server) {
    char there[64];
    pinnace_listener_t *listener = pinnace_listen("127.0.0.1:0", NULL);
    pinnace_endpoint_t *endpoint = pinnace_endpoint_open(NULL, NULL);
    MUST(listener != NULL && endpoint != NULL);
    MUST(pinnace_listener_address(listener, there, sizeof there) > 0);
    MUST((*client = pinnace_endpoint_connect(endpoint, there, service)) != NULL);
    MUST((*server = pinnace_accept(listener, 8000)) != NULL);
    MUST(pinnace_listener_close(listener) == 0 && pinnace_endpoint_close(endpoint) == 0);
}

#endif

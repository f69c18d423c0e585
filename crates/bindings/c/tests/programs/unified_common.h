/* What the programs about the one interface share. */
#ifndef UNIFIED_COMMON_H
#define UNIFIED_COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "pinnace.h"

#define WORDS pinnace_error()
#include "checks.h"

#include <pthread.h>

/* Names of another language's do not help a program in C. */
static inline int is_in_terms_of_c(const char *text) {
    static const char *const foreign[] = {"Endpoint::", "Options::", "Connection::", "Service::", " recv_into", "send_all", "with flush",
                                          "read it piece", "`None`"};
    for (size_t at = 0; at < sizeof foreign / sizeof *foreign; at++)
        if (strstr(text, foreign[at]) != NULL)
            return 0;
    return 1;
}

/* The call must fail, and say why: in a number, and in words that have these in them. */
#define FAILS(call, why, words)                \
    do {                                       \
        REFUSED(call, why);                    \
        CHECK(strstr(WORDS, (words)) != NULL); \
        CHECK(is_in_terms_of_c(WORDS));        \
    } while (0)

/* Nothing takes longer, even on a machine that has other things to do. */
#define LONG 20000

/* A connection to a listener of this process, by a method or any (NULL), with a service; and its other end. */
static inline void pair_of(const char *method, const char *service, pinnace_connection_t **client,
                           pinnace_connection_t **server) {
    struct pinnace_options options = PINNACE_OPTIONS_INIT;
    pinnace_listener_t *listener = pinnace_listen("127.0.0.1:0", NULL);
    pinnace_endpoint_t *endpoint;
    char there[64];
    options.force = method;
    endpoint = pinnace_endpoint_open(NULL, &options);
    CHECK(listener != NULL && endpoint != NULL);
    CHECK(pinnace_listener_address(listener, there, sizeof there) > 0);
    *client = pinnace_endpoint_connect(endpoint, there, service);
    CHECK(*client != NULL);
    *server = pinnace_accept(listener, LONG);
    CHECK(*server != NULL);
    CHECK(pinnace_listener_close(listener) == 0 && pinnace_endpoint_close(endpoint) == 0);
}

#endif

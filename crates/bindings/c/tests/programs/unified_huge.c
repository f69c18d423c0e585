/* Messages that are too long, or longer than there is memory for, are an error, and not the end of the program: nothing is
 * copied before it is known that it may be sent. */
#include "unified_common.h"

#include "huge.h"

#define HUGE ((size_t)3 << 30)
/* More of them are copied. */
#define PARTS 300

static char *data;

static void nothing(const struct pinnace_completion *completion, void *argument) {
    (void)completion;
    (void)argument;
}

/* The connection is as good as before. */
static void still_works(pinnace_connection_t *client, pinnace_connection_t *server) {
    struct pinnace_received m = PINNACE_RECEIVED_INIT;
    CHECK(pinnace_send(client, "ahoy", 4) == 0);
    CHECK(pinnace_recv(server, &m, LONG) == 1 && m.length == 4 && memcmp(m.data, "ahoy", 4) == 0);
    pinnace_received_free(&m);
    CHECK(pinnace_close(client, LONG) == 0 && pinnace_close(server, LONG) == 0);
}

int main(void) {
    static const struct {
        const char *method;
        int why;
    } methods[] = {{"zcrp", ENOMEM}, {"xtp", ENOMEM}, {"qmp", ENOMEM}, {"vrp", ENOMEM}, {"a1", EMSGSIZE}};
    enum { METHODS = sizeof methods / sizeof *methods };
    pinnace_connection_t *client, *server, *clients[METHODS], *servers[METHODS];
    struct pinnace_received m = PINNACE_RECEIVED_INIT;
    struct pinnace_send_options options = PINNACE_SEND_OPTIONS_INIT;
    struct iovec parts[PARTS];
    options.done = nothing;
    data = huge(HUGE);
    for (size_t at = 0; at < PARTS; at++) {
        /* Not side by side: that would be one part. */
        parts[at].iov_base = data + (PARTS - 1 - at) * (HUGE / PARTS);
        parts[at].iov_len = HUGE / PARTS;
    }
    pair_of("zcrp", "largest=10", &client, &server);
    for (size_t at = 0; at < METHODS; at++)
        pair_of(methods[at].method, NULL, &clients[at], &servers[at]);
    limit_memory((size_t)256 << 20);
    FAILS(pinnace_send(client, data, HUGE) == 0, EMSGSIZE, "largest");
    FAILS(pinnace_try_send(client, data, HUGE) == 0, EMSGSIZE, "largest");
    FAILS(pinnace_sendv(client, parts, PARTS, &options, NULL) == 0, EMSGSIZE, "largest");
    FAILS(pinnace_transact(client, data, HUGE, &m, LONG) == 0, EMSGSIZE, "largest");
    still_works(client, server);
    for (size_t at = 0; at < METHODS; at++) {
        FAILS(pinnace_send(clients[at], data, HUGE) == 0, methods[at].why, "");
        FAILS(pinnace_try_send(clients[at], data, HUGE) == 0, methods[at].why, "");
        FAILS(pinnace_sendv(clients[at], parts, PARTS, &options, NULL) == 0, methods[at].why, "");
        still_works(clients[at], servers[at]);
    }
    printf("nothing was copied\n");
    return 0;
}

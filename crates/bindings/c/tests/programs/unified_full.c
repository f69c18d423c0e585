/* A queue that is full makes nobody wait who must not: with copies, and with memory that is lent. VRP is full only for a while:
 * its receiver refuses what its application does not take. */
#include "unified_common.h"

#define SIZE 300000

static void receive(pinnace_connection_t *server, int number) {
    struct pinnace_received m = PINNACE_RECEIVED_INIT;
    int found;
    CHECK(pinnace_recv(server, &m, LONG) == 1 && m.length == SIZE);
    memcpy(&found, m.data, sizeof found);
    CHECK(found == number);
    CHECK(pinnace_received_free(&m) == 0);
}

/* Sends until there has been no room for a while. Returns how many. */
static int fill(pinnace_connection_t *client, char *message) {
    int sent = 0, without = 0;
    while (without < 60) {
        memcpy(message, &sent, sizeof sent);
        if (pinnace_try_send(client, message, SIZE) == 0) {
            sent++;
            without = 0;
        } else {
            CHECK(errno == EAGAIN && strstr(pinnace_error(), "no room") != NULL);
            without++;
            usleep(5000);
        }
        CHECK(sent < 10000);
    }
    return sent;
}

/* The methods of the command line, or all that need nothing but a network. */
int main(int argc, char **argv) {
    const char *network[] = {"zcrp", "xtp", "qmp", "a1"};
    const char *const *methods = argc > 1 ? (const char *const *)argv + 1 : network;
    size_t count = argc > 1 ? (size_t)argc - 1 : sizeof network / sizeof *network;
    static char message[SIZE];
    for (size_t at = 0; at < count; at++) {
        struct pinnace_send_options options = PINNACE_SEND_OPTIONS_INIT;
        struct pinnace_received m = PINNACE_RECEIVED_INIT;
        struct iovec part = {message, SIZE};
        pinnace_connection_t *client, *server;
        pinnace_delivery_t *delivery = NULL;
        double before;
        int sent;
        pair_of(methods[at], "direction=duplex", &client, &server);
        sent = fill(client, message);
        CHECK(sent > 0);
        memcpy(message, &sent, sizeof sent);
        options.flags = PINNACE_DONT_WAIT;
        FAILS(pinnace_sendv(client, &part, 1, &options, &delivery) == 0, EAGAIN, methods[at]);
        CHECK(delivery == NULL);
        /* Whoever asks waits for room no longer than he said, and then has asked nothing: the messages below are all. */
        before = now();
        FAILS(pinnace_transact(client, message, SIZE, &m, 300) == 0, EAGAIN, "");
        CHECK(now() - before > 0.29 && now() - before < 10);
        for (int number = 0; number < sent; number++)
            receive(server, number);
        CHECK(pinnace_flush(client) == 0);
        CHECK(pinnace_sendv(client, &part, 1, &options, &delivery) == 0);
        receive(server, sent);
        CHECK(pinnace_delivery_wait(delivery, NULL, LONG) == 0);
        CHECK(pinnace_close(client, LONG) == 0 && pinnace_close(server, LONG) == 0);
        printf("%s ", methods[at]);
    }
    printf("are full at last\n");
    return 0;
}

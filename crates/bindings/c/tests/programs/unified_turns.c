/* Whoever waits for another thread's turn waits no longer than he said. */
#include "unified_common.h"

static void *read_for_ever(void *connection) {
    char byte;
    CHECK(pinnace_read(connection, &byte, 1, -1) == 1 && byte == 'r');
    return NULL;
}

static void *ask_for_ever(void *connection) {
    struct pinnace_received m = PINNACE_RECEIVED_INIT;
    CHECK(pinnace_transact(connection, "q", 1, &m, -1) == 0 && m.length == 1);
    CHECK(pinnace_received_free(&m) == 0);
    return NULL;
}

int main(void) {
    struct pinnace_received m = PINNACE_RECEIVED_INIT;
    pinnace_connection_t *client, *server;
    pthread_t thread;
    double before;
    char byte;
    pair_of(NULL, "direction=duplex", &client, &server);
    alarm(60);

    CHECK(pthread_create(&thread, NULL, read_for_ever, client) == 0);
    usleep(100000);
    before = now();
    FAILS(pinnace_read(client, &byte, 1, 0) >= 0, EAGAIN, "");
    FAILS(pinnace_read(client, &byte, 1, 100) >= 0, EAGAIN, "");
    CHECK(now() - before > 0.09 && now() - before < 5);
    CHECK(pinnace_send(server, "r", 1) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(pinnace_send(server, "s", 1) == 0 && pinnace_read(client, &byte, 1, LONG) == 1 && byte == 's');

    CHECK(pthread_create(&thread, NULL, ask_for_ever, client) == 0);
    CHECK(pinnace_recv(server, &m, LONG) == 1 && pinnace_received_free(&m) == 0);
    before = now();
    FAILS(pinnace_transact(client, "t", 1, &m, 100) == 0, EAGAIN, "");
    CHECK(now() - before > 0.09 && now() - before < 5);
    /* It was not sent. */
    FAILS(pinnace_recv(server, &m, 0) >= 0, EAGAIN, "");
    CHECK(pinnace_send(server, "a", 1) == 0 && pthread_join(thread, NULL) == 0);

    CHECK(pinnace_close(client, LONG) == 0 && pinnace_close(server, LONG) == 0);
    printf("nobody waited longer\n");
    return 0;
}

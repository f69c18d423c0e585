/* A response belongs to its request, also when an earlier one was given up. */
#include "unified_common.h"
#include <semaphore.h>

#define ROUNDS 3

/* Nobody waits for the answer any more. */
static sem_t is_late;

/* Answers with the request itself, and to the first of each round when it is late. */
static void *answer(void *server) {
    for (int count = 0; count < 2 * ROUNDS; count++) {
        struct pinnace_received m = PINNACE_RECEIVED_INIT;
        CHECK(pinnace_recv(server, &m, LONG) == 1);
        if (count % 2 == 0)
            CHECK(sem_wait(&is_late) == 0);
        CHECK(pinnace_send(server, m.data, m.length) == 0 && pinnace_received_free(&m) == 0);
    }
    return NULL;
}

int main(void) {
    struct pinnace_received m = PINNACE_RECEIVED_INIT;
    pinnace_connection_t *client, *server;
    pthread_t thread;
    CHECK(sem_init(&is_late, 0, 0) == 0);
    pair_of(NULL, "direction=duplex", &client, &server);
    CHECK(pthread_create(&thread, NULL, answer, server) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        FAILS(pinnace_transact(client, "ONE", 3, &m, 50) == 0, EAGAIN, "");
        if (round == 1) {
            CHECK(sem_post(&is_late) == 0);
            /* Who receives it has it, and nobody waits for it any more. */
            CHECK(pinnace_recv(client, &m, LONG) == 1 && m.length == 3 && memcmp(m.data, "ONE", 3) == 0);
            CHECK(pinnace_received_free(&m) == 0);
        } else {
            /* Waiting for what nobody wants counts, too. */
            FAILS(pinnace_transact(client, "none", 4, &m, 50) == 0, EAGAIN, "");
            CHECK(sem_post(&is_late) == 0);
        }
        CHECK(pinnace_transact(client, "TWO", 3, &m, LONG) == 0);
        CHECK(m.length == 3 && memcmp(m.data, "TWO", 3) == 0 && pinnace_received_free(&m) == 0);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pinnace_close(client, LONG) == 0 && pinnace_close(server, LONG) == 0);
    printf("each its own\n");
    return 0;
}

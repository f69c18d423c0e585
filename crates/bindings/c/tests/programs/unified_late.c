/* Who is overtaken is told of as missed, and is late when it comes; a program that knows nothing of that is not told. */
#include "unified_common.h"

#define LARGE (40u << 20)

/* struct pinnace_received as it was at first. */
struct first {
    size_t size;
    void *data;
    size_t length;
    const struct pinnace_range *holes;
    size_t hole_count;
    size_t message;
    char not_its_own[32];
};

int main(void) {
    struct pinnace_received m = PINNACE_RECEIVED_INIT;
    struct first old;
    pinnace_connection_t *client, *server;
    char *large = calloc(LARGE, 1);
    char *memory = malloc(LARGE);
    CHECK(large != NULL && memory != NULL);
    pair_of("vrp", "deadline=1ms order=yes largest=64MiB", &client, &server);
    /* What is behind it waits for a millisecond, and it takes longer. */
    CHECK(pinnace_send(client, large, LARGE) == 0 && pinnace_send(client, "ahoy", 4) == 0);
    CHECK(pinnace_recv(server, &m, LONG) == 1 && m.length == 4 && m.missed == 1 && !m.is_late);
    CHECK(pinnace_received_free(&m) == 0 && m.missed == 0);
    CHECK(pinnace_recv_into(server, memory, LARGE, &m, LONG) == 1 && m.length == LARGE && m.missed == 0 && m.is_late);
    CHECK(pinnace_received_free(&m) == 0 && !m.is_late);

    memset(&old, 7, sizeof old);
    old.size = offsetof(struct first, not_its_own);
    old.message = 0;
    CHECK(pinnace_send(client, "belay", 5) == 0);
    CHECK(pinnace_recv(server, (struct pinnace_received *)&old, LONG) == 1 && old.length == 5);
    CHECK(memcmp(old.data, "belay", 5) == 0 && old.hole_count == 0);
    CHECK(pinnace_received_free((struct pinnace_received *)&old) == 0 && old.length == 0);
    for (size_t at = 0; at < sizeof old.not_its_own; at++)
        CHECK(old.not_its_own[at] == 7);
    old.size--;
    FAILS(pinnace_recv(server, (struct pinnace_received *)&old, 0) >= 0, EINVAL, "PINNACE_RECEIVED_INIT");
    CHECK(pinnace_close(client, LONG) == 0 && pinnace_close(server, LONG) == 0);
    free(large);
    free(memory);
    printf("missed, and late\n");
    return 0;
}

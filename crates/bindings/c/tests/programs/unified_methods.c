/* Every method does the same: messages both ways, requests, a stream, another service on a live connection, explanations, an
 * orderly end. */
#include "unified_common.h"

static void *answer(void *argument) {
    pinnace_connection_t *server = argument;
    struct pinnace_received m = PINNACE_RECEIVED_INIT;
    while (pinnace_recv(server, &m, LONG) == 1) {
        char *text = m.data;
        for (size_t at = 0; at < m.length; at++)
            text[at] = (char)(text[at] - 'a' + 'A');
        CHECK(pinnace_send(server, text, m.length) == 0);
        CHECK(pinnace_received_free(&m) == 0);
    }
    return NULL;
}

static void requests(const char *method) {
    pinnace_connection_t *client, *server;
    struct pinnace_received m = PINNACE_RECEIVED_INIT;
    pthread_t thread;
    char text[4096];
    pair_of(method, "size=1KiB direction=duplex", &client, &server);
    CHECK(pthread_create(&thread, NULL, answer, server) == 0);
    for (int round = 0; round < 20; round++) {
        CHECK(pinnace_transact(client, "ahoy", 4, &m, LONG) == 0);
        CHECK(m.length == 4 && memcmp(m.data, "AHOY", 4) == 0);
        CHECK(pinnace_received_free(&m) == 0);
    }
    CHECK(pinnace_service(client, text, sizeof text) > 0 && strcmp(text, "size=1KiB direction=duplex") == 0);
    CHECK(pinnace_set_service(client, "size=2KiB direction=duplex") == 0);
    CHECK(pinnace_service(client, text, sizeof text) > 0 && strcmp(text, "size=2KiB direction=duplex") == 0);
    FAILS(pinnace_set_service(client, "size=2KiB") == 0, ENOTSUP, "direction");
    FAILS(pinnace_set_service(client, "sise=2KiB") == 0, EINVAL, "size=2KiB");
    CHECK(pinnace_explain_connection(client, text, sizeof text) > 0);
    CHECK(strncmp(text, method, strlen(method)) == 0 && strstr(text, "is taken\n") != NULL);
    CHECK(pinnace_peer(client, text, sizeof text) > 0 && strncmp(text, "127.0.0.1:", 10) == 0);
    CHECK(pinnace_shutdown(client, LONG) == 0 && pinnace_shutdown(client, LONG) == 0);
    FAILS(pinnace_send(client, "x", 1) == 0, EPIPE, "closed at this end");
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pinnace_close(server, LONG) == 0);
    CHECK(pinnace_recv(client, &m, LONG) == 0 && pinnace_recv(client, &m, LONG) == 0);
    CHECK(pinnace_close(client, LONG) == 0);
}

#define STREAM 1000000

static void *write_all(void *argument) {
    pinnace_connection_t *client = argument;
    static unsigned char bytes[STREAM];
    for (size_t at = 0; at < STREAM; at++)
        bytes[at] = (unsigned char)(at % 251);
    CHECK(pinnace_write(client, bytes, 300000) == 300000);
    CHECK(pinnace_write(client, bytes + 300000, 0) == 0);
    CHECK(pinnace_write(client, bytes + 300000, STREAM - 300000) == STREAM - 300000);
    CHECK(pinnace_flush(client) == 0 && pinnace_close(client, LONG) == 0);
    return NULL;
}

static void streams(const char *method) {
    pinnace_connection_t *client, *server;
    unsigned char piece[777];
    size_t at = 0;
    ssize_t count;
    pthread_t thread;
    pair_of(method, "size=64KiB largest=100kB", &client, &server);
    CHECK(pthread_create(&thread, NULL, write_all, client) == 0);
    while ((count = pinnace_read(server, piece, sizeof piece, LONG)) > 0)
        for (ssize_t next = 0; next < count; next++, at++)
            CHECK(piece[next] == (unsigned char)(at % 251));
    CHECK(count == 0 && at == STREAM);
    CHECK(pthread_join(thread, NULL) == 0 && pinnace_close(server, LONG) == 0);
}

static void *close_it(void *client) {
    pinnace_close(client, LONG);
    return NULL;
}

/* More than half of what a receiver of VRP keeps for an application that takes nothing. */
#define LARGE ((size_t)130 << 20)

/* Such a receiver refuses what there is no room for: a stream does not end before that as if it were whole. */
static void gap(void) {
    pinnace_connection_t *client, *server;
    static unsigned char piece[1 << 16];
    unsigned char *large = calloc(LARGE, 1);
    size_t all = 0, sent = 0;
    ssize_t count;
    pthread_t thread;
    CHECK(large != NULL);
    pair_of("vrp", "", &client, &server);
    while (sent < 100 && pinnace_send(client, large, LARGE) == 0)
        sent++;
    CHECK(sent < 100 && strstr(WORDS, "did not reach") != NULL);
    CHECK(pthread_create(&thread, NULL, close_it, client) == 0);
    while ((count = pinnace_read(server, piece, sizeof piece, LONG)) > 0)
        all += (size_t)count;
    CHECK(count < 0 && errno == EIO && strstr(WORDS, "missing here") != NULL);
    CHECK(all >= LARGE && pinnace_read(server, piece, sizeof piece, LONG) < 0);
    CHECK(pthread_join(thread, NULL) == 0);
    pinnace_close(server, 0);
    free(large);
}

/* The methods of the command line, or all that need nothing but a network. */
int main(int argc, char **argv) {
    const char *network[] = {"zcrp", "vrp", "xtp", "qmp", "a1"};
    const char *const *methods = argc > 1 ? (const char *const *)argv + 1 : network;
    size_t count = argc > 1 ? (size_t)argc - 1 : sizeof network / sizeof *network;
    for (size_t at = 0; at < count; at++) {
        requests(methods[at]);
        streams(methods[at]);
        if (strcmp(methods[at], "vrp") == 0)
            gap();
        printf("%s%c", methods[at], at + 1 < count ? ' ' : '\n');
        fflush(stdout);
    }
    return 0;
}

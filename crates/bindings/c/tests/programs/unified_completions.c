/* Whose the memory is: callbacks, deliveries, parts, receiving into memory of one's own. */
#include "unified_common.h"

#define MESSAGES 64
#define BYTES 100000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int completed;

static void done(const struct pinnace_completion *completion, void *argument) {
    CHECK(completion->size == sizeof *completion && completion->error == 0 && completion->text[0] == 0);
    CHECK(completion->hole_count == 0);
    /* It is ours again. */
    memset(argument, 0xEE, BYTES);
    pthread_mutex_lock(&lock);
    completed++;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

static void *receive(void *argument) {
    pinnace_connection_t *server = argument;
    static unsigned char memory[BYTES];
    struct pinnace_received m = PINNACE_RECEIVED_INIT;
    for (int number = 0; number < MESSAGES; number++) {
        CHECK(pinnace_recv_into(server, memory, sizeof memory, &m, LONG) == 1);
        CHECK(m.data == memory && m.length == BYTES && m.hole_count == 0 && m.message == 0);
        for (size_t at = 0; at < BYTES; at++)
            CHECK(memory[at] == (unsigned char)number);
    }
    return NULL;
}

static void callbacks(const char *method) {
    static unsigned char memory[MESSAGES][BYTES];
    pinnace_connection_t *client, *server;
    pthread_t thread;
    pair_of(method, "size=100kB", &client, &server);
    completed = 0;
    CHECK(pthread_create(&thread, NULL, receive, server) == 0);
    for (int number = 0; number < MESSAGES; number++) {
        struct pinnace_send_options options = PINNACE_SEND_OPTIONS_INIT;
        struct iovec part;
        memset(memory[number], number, BYTES);
        part.iov_base = memory[number];
        part.iov_len = BYTES;
        options.done = done;
        options.argument = memory[number];
        CHECK(pinnace_sendv(client, &part, 1, &options, NULL) == 0);
    }
    pthread_mutex_lock(&lock);
    while (completed < MESSAGES)
        CHECK(pthread_cond_wait(&changed, &lock) == 0);
    pthread_mutex_unlock(&lock);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pinnace_close(client, LONG) == 0 && pinnace_close(server, LONG) == 0);
}

/* A head, a body, and a tail that lies before both. */
static void large(pinnace_connection_t *client, pinnace_connection_t *server) {
    enum { TAIL = 5000, HEAD = 700, BODY = 300000 };
    static unsigned char memory[TAIL + 1 + HEAD + 1 + BODY];
    unsigned char *head = memory + TAIL + 1, *body = head + HEAD + 1;
    struct iovec array[3] = {{NULL, HEAD}, {NULL, BODY}, {NULL, TAIL}};
    struct pinnace_received m = PINNACE_RECEIVED_INIT;
    pinnace_delivery_t *delivery;
    array[0].iov_base = head;
    array[1].iov_base = body;
    array[2].iov_base = memory;
    for (size_t at = 0; at < sizeof memory; at++)
        memory[at] = (unsigned char)(at * 7 + at / 251);
    CHECK(pinnace_sendv(client, array, 3, NULL, &delivery) == 0);
    CHECK(pinnace_recv(server, &m, LONG) == 1 && m.length == HEAD + BODY + TAIL);
    CHECK(memcmp(m.data, head, HEAD) == 0 && memcmp((char *)m.data + HEAD, body, BODY) == 0);
    CHECK(memcmp((char *)m.data + HEAD + BODY, memory, TAIL) == 0);
    CHECK(pinnace_received_free(&m) == 0 && pinnace_delivery_wait(delivery, NULL, LONG) == 0);
}

static void parts(const char *method) {
    pinnace_connection_t *client, *server;
    pinnace_delivery_t *delivery;
    struct pinnace_completion completion = PINNACE_COMPLETION_INIT;
    struct pinnace_received m = PINNACE_RECEIVED_INIT;
    char text[] = "one, two, three";
    char small[8];
    struct iovec array[4] = {{NULL, 0}, {NULL, 5}, {NULL, 10}, {NULL, 0}};
    pair_of(method, "direction=duplex", &client, &server);
    /* Side by side, which is one piece; and apart. */
    array[1].iov_base = text;
    array[2].iov_base = text + 5;
    CHECK(pinnace_sendv(client, array, 4, NULL, &delivery) == 0);
    CHECK(pinnace_recv(server, &m, LONG) == 1 && m.length == 15 && memcmp(m.data, text, 15) == 0);
    CHECK(pinnace_received_free(&m) == 0 && pinnace_delivery_wait(delivery, &completion, LONG) == 0);
    array[1].iov_base = text + 10;
    array[2].iov_base = text;
    CHECK(pinnace_sendv(client, array, 4, NULL, &delivery) == 0);
    CHECK(pinnace_recv(server, &m, LONG) == 1 && m.length == 15 && memcmp(m.data, "threeone, two, ", 15) == 0);
    CHECK(pinnace_received_free(&m) == 0 && pinnace_delivery_wait(delivery, NULL, LONG) == 0);
    /* Large parts leave from where they lie. */
    large(client, server);
    /* Nothing is a message, too. */
    CHECK(pinnace_sendv(client, NULL, 0, NULL, &delivery) == 0);
    CHECK(pinnace_recv(server, &m, LONG) == 1 && m.length == 0 && m.data != NULL);
    CHECK(pinnace_received_free(&m) == 0 && pinnace_delivery_wait(delivery, NULL, LONG) == 0);
    /* A message that does not fit is the next again. */
    CHECK(pinnace_send(client, text, 15) == 0);
    FAILS(pinnace_recv_into(server, small, sizeof small, &m, LONG) >= 0, EMSGSIZE, "15 bytes, and the buffer 8");
    CHECK(pinnace_recv(server, &m, LONG) == 1 && m.length == 15);
    /* A message outlives its connection, and may be written to. */
    CHECK(pinnace_close(client, LONG) == 0 && pinnace_close(server, LONG) == 0);
    memset(m.data, 'x', m.length);
    CHECK(pinnace_received_free(&m) == 0);
}

int main(void) {
    const char *methods[] = {"zcrp", "vrp", "xtp", "qmp", "a1"};
    for (size_t at = 0; at < sizeof methods / sizeof *methods; at++) {
        callbacks(methods[at]);
        parts(methods[at]);
    }
    puts("all memory came back");
    return 0;
}

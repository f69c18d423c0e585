/* One source, several receivers: all get everything; they come, leave, and are cut off, and the source can tell. */
#include "unified_common.h"

#define SHIPS 3
#define MESSAGES 200

static pinnace_listener_t *listeners[SHIPS];
static char addresses[SHIPS][64];
static const char *peers[SHIPS];

static size_t length_of(int number) {
    return number % 40 == 0 ? 300000 : (size_t)(number * 37 % 5000);
}

static void *receive_all(void *argument) {
    pinnace_connection_t *connection = argument;
    struct pinnace_received m = PINNACE_RECEIVED_INIT;
    CHECK(strcmp(pinnace_method(connection), "a1") == 0);
    FAILS(pinnace_send(connection, "x", 1) == 0, ENOTSUP, "");
    for (int number = 0; number < MESSAGES; number++) {
        const unsigned char *bytes;
        CHECK(pinnace_recv(connection, &m, LONG) == 1);
        CHECK(m.length == length_of(number) && m.hole_count == 0);
        bytes = m.data;
        for (size_t at = 0; at < m.length; at++)
            CHECK(bytes[at] == (unsigned char)(number + (int)at));
        CHECK(pinnace_received_free(&m) == 0);
    }
    CHECK(pinnace_recv(connection, &m, LONG) == 0);
    CHECK(pinnace_close(connection, LONG) == 0);
    return NULL;
}

static struct pinnace_receiver receiver_at(pinnace_connection_t *source, size_t index) {
    struct pinnace_receiver receiver = PINNACE_RECEIVER_INIT;
    CHECK(pinnace_receiver_at(source, index, &receiver) == 1 && receiver.size == sizeof receiver);
    CHECK(receiver.is_in_group == 0 && receiver.skipped == 0);
    return receiver;
}

static void everything_arrives(void) {
    static unsigned char bytes[300000];
    pinnace_connection_t *source = pinnace_connect_all(peers, SHIPS, "multicast=3 largest=1MiB");
    struct pinnace_receiver receiver = PINNACE_RECEIVER_INIT;
    pthread_t threads[SHIPS];
    char text[64];
    CHECK(source != NULL && strcmp(pinnace_method(source), "a1") == 0);
    CHECK(pinnace_service(source, text, sizeof text) > 0 && strstr(text, "multicast=3") != NULL);
    for (int ship = 0; ship < SHIPS; ship++) {
        pinnace_connection_t *accepted = pinnace_accept(listeners[ship], LONG);
        CHECK(accepted != NULL && pthread_create(&threads[ship], NULL, receive_all, accepted) == 0);
    }
    for (int number = 0; number < MESSAGES; number++) {
        for (size_t at = 0; at < length_of(number); at++)
            bytes[at] = (unsigned char)(number + (int)at);
        CHECK(pinnace_send(source, bytes, length_of(number)) == 0);
    }
    CHECK(pinnace_flush(source) == 0);
    for (size_t ship = 0; ship < SHIPS; ship++) {
        receiver = receiver_at(source, ship);
        CHECK(strcmp(receiver.address, addresses[ship]) == 0 && receiver.state == PINNACE_RECEIVER_CONNECTED);
        CHECK(receiver.round_trip_us > 0);
    }
    CHECK(pinnace_receiver_at(source, SHIPS, &receiver) == 0);
    receiver.size = 8;
    FAILS(pinnace_receiver_at(source, 0, &receiver) >= 0, EINVAL, "PINNACE_RECEIVER_INIT");
    FAILS(pinnace_receiver_at(source, 0, NULL) >= 0, EINVAL, "NULL");
    /* Nothing comes back. */
    FAILS(pinnace_fd(source) >= 0, ENOTSUP, "one way");
    CHECK(pinnace_close(source, LONG) == 0);
    for (int ship = 0; ship < SHIPS; ship++)
        CHECK(pthread_join(threads[ship], NULL) == 0);
    puts("all three have everything");
}

static pinnace_connection_t *accepted_by(int ship) {
    pinnace_connection_t *connection = pinnace_accept(listeners[ship], LONG);
    CHECK(connection != NULL);
    return connection;
}

static void expect(pinnace_connection_t *connection, const char *text) {
    struct pinnace_received m = PINNACE_RECEIVED_INIT;
    CHECK(pinnace_recv(connection, &m, LONG) == 1);
    CHECK(m.length == strlen(text) && memcmp(m.data, text, m.length) == 0);
    CHECK(pinnace_received_free(&m) == 0);
}

static void they_come_and_go(void) {
    struct pinnace_options options = PINNACE_OPTIONS_INIT;
    pinnace_endpoint_t *endpoint;
    pinnace_connection_t *source, *first, *second, *third;
    static char bytes[1000];
    double begun;
    options.slow_receiver_ms = 300;
    endpoint = pinnace_endpoint_open(NULL, &options);
    CHECK(endpoint != NULL);
    source = pinnace_endpoint_connect_all(endpoint, peers, 2, "size=10KB");
    CHECK(source != NULL && pinnace_endpoint_close(endpoint) == 0);
    first = accepted_by(0);
    second = accepted_by(1);
    CHECK(pinnace_send(source, "both", 4) == 0);
    expect(first, "both");
    expect(second, "both");
    CHECK(pinnace_add_receiver(source, peers[2]) == 0);
    third = accepted_by(2);
    CHECK(pinnace_remove_receiver(source, addresses[0], LONG) == 0);
    CHECK(pinnace_send(source, "the others", 10) == 0);
    expect(second, "the others");
    expect(third, "the others");
    {
        struct pinnace_received m = PINNACE_RECEIVED_INIT;
        CHECK(pinnace_recv(first, &m, LONG) == 0);
    }
    CHECK(pinnace_close(first, LONG) == 0);
    CHECK(strcmp(receiver_at(source, 0).address, addresses[1]) == 0);
    CHECK(strcmp(receiver_at(source, 1).address, addresses[2]) == 0);
    FAILS(pinnace_add_receiver(source, peers[1]) == 0, ENOTSUP, "named twice");
    FAILS(pinnace_add_receiver(source, "127.0.0.1:9") == 0, ETIMEDOUT, "127.0.0.1:9");
    FAILS(pinnace_add_receiver(source, NULL) == 0, EINVAL, "peer is NULL");
    FAILS(pinnace_remove_receiver(source, addresses[0], 0) == 0, ENOTSUP, "no receiver");
    FAILS(pinnace_remove_receiver(source, "ship", 0) == 0, EINVAL, "`ship`");
    FAILS(pinnace_remove_receiver(source, NULL, 0) == 0, EINVAL, "address is NULL");

    /* The second leaves. */
    CHECK(pinnace_close(second, LONG) == 0);
    for (begun = now(); receiver_at(source, 0).state != PINNACE_RECEIVER_LEFT; pause_ms(5))
        CHECK(now() - begun < 20 && pinnace_send(source, "x", 1) == 0);
    /* It comes again; the third takes nothing any more, and is cut off. */
    CHECK(pinnace_add_receiver(source, peers[1]) == 0);
    second = accepted_by(1);
    for (begun = now(); receiver_at(source, 0).state != PINNACE_RECEIVER_TOO_SLOW;) {
        struct pinnace_received m = PINNACE_RECEIVED_INIT;
        CHECK(now() - begun < 20);
        CHECK(pinnace_send(source, bytes, sizeof bytes) == 0);
        CHECK(pinnace_recv(second, &m, LONG) == 1 && pinnace_received_free(&m) == 0);
    }
    CHECK(receiver_at(source, 1).state == PINNACE_RECEIVER_CONNECTED);
    CHECK(pinnace_close(source, LONG) == 0 && pinnace_close(second, LONG) == 0);
    pinnace_close(third, 0);
    puts("one left, one was too slow");
}

static void all_are_removed_and_others_added(void) {
    pinnace_connection_t *source = pinnace_connect_all(peers, 2, NULL), *first, *second, *third;
    struct pinnace_receiver receiver = PINNACE_RECEIVER_INIT;
    CHECK(source != NULL);
    first = accepted_by(0);
    second = accepted_by(1);
    CHECK(pinnace_remove_receiver(source, addresses[0], LONG) == 0);
    CHECK(pinnace_remove_receiver(source, addresses[1], LONG) == 0);
    CHECK(pinnace_receiver_at(source, 0, &receiver) == 0);
    CHECK(pinnace_add_receiver(source, peers[2]) == 0);
    third = accepted_by(2);
    CHECK(pinnace_send(source, "the only one", 12) == 0);
    expect(third, "the only one");
    CHECK(pinnace_close(source, LONG) == 0 && pinnace_close(third, LONG) == 0);
    CHECK(pinnace_close(first, LONG) == 0 && pinnace_close(second, LONG) == 0);
    puts("whoever comes last has everything");
}

static void what_is_wrong_is_told(void) {
    const char *twice[2] = {addresses[0], addresses[0]}, *nobody[2] = {addresses[0], NULL};
    const char *dead[2] = {addresses[0], "127.0.0.1:9"};
    pinnace_connection_t *one, *accepted;
    struct pinnace_receiver receiver = PINNACE_RECEIVER_INIT;
    FAILS(pinnace_connect_all(NULL, 2, NULL) != NULL, EINVAL, "peers are NULL");
    FAILS(pinnace_connect_all(NULL, 0, NULL) != NULL, ENOTSUP, "nobody is named");
    FAILS(pinnace_connect_all(nobody, 2, NULL) != NULL, EINVAL, "peer 1 is NULL");
    FAILS(pinnace_connect_all(twice, 2, NULL) != NULL, ENOTSUP, "named twice");
    FAILS(pinnace_connect_all(peers, 3, "multicast=2") != NULL, ENOTSUP, "3 are named");
    FAILS(pinnace_connect_all(peers, 2, "multicats=2") != NULL, EINVAL, "multicast=2");
    FAILS(pinnace_connect_all(dead, 2, NULL) != NULL, ETIMEDOUT, "127.0.0.1:9");
    FAILS(pinnace_accept(listeners[0], 0) != NULL, EAGAIN, "");
    /* One is a connection like any other, which gets no others. */
    one = pinnace_connect_all(peers, 1, "direction=duplex");
    accepted = accepted_by(0);
    CHECK(one != NULL && pinnace_receiver_at(one, 0, &receiver) == 0);
    FAILS(pinnace_add_receiver(one, peers[1]) == 0, ENOTSUP, "one peer");
    CHECK(pinnace_send(one, "ahoy", 4) == 0);
    expect(accepted, "ahoy");
    CHECK(pinnace_close(one, LONG) == 0 && pinnace_close(accepted, LONG) == 0);
}

int main(void) {
    for (int ship = 0; ship < SHIPS; ship++) {
        listeners[ship] = pinnace_listen("127.0.0.1:0", NULL);
        CHECK(listeners[ship] != NULL);
        CHECK(pinnace_listener_address(listeners[ship], addresses[ship], sizeof addresses[ship]) > 0);
        peers[ship] = addresses[ship];
    }
    everything_arrives();
    they_come_and_go();
    all_are_removed_and_others_added();
    what_is_wrong_is_told();
    return 0;
}

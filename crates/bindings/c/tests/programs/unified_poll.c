/* One loop around poll(2): a listener, and two connections of different methods, each by its one descriptor. */
#include "unified_common.h"

#define MESSAGES 50

static char there[64];

/* Two clients, one after the other, then in turns. */
static void *clients(void *unused) {
    struct pinnace_options options = PINNACE_OPTIONS_INIT;
    const char *methods[2] = {"zcrp", "xtp"};
    pinnace_connection_t *connections[2];
    for (int at = 0; at < 2; at++) {
        pinnace_endpoint_t *endpoint;
        options.force = methods[at];
        endpoint = pinnace_endpoint_open(NULL, &options);
        CHECK(endpoint != NULL);
        connections[at] = pinnace_endpoint_connect(endpoint, there, "size=1KiB");
        CHECK(connections[at] != NULL && strcmp(pinnace_method(connections[at]), methods[at]) == 0);
        CHECK(pinnace_endpoint_close(endpoint) == 0);
    }
    for (int number = 0; number < MESSAGES; number++) {
        for (int at = 0; at < 2; at++)
            CHECK(pinnace_send(connections[at], &number, sizeof number) == 0);
        if (number % 10 == 0)
            usleep(20000);
    }
    for (int at = 0; at < 2; at++)
        CHECK(pinnace_close(connections[at], LONG) == 0);
    return unused;
}

int main(void) {
    pinnace_listener_t *listener = pinnace_listen("127.0.0.1:0", NULL);
    pinnace_connection_t *connections[2];
    struct pollfd entries[3];
    int count = 0, ended = 0, next[2] = {0, 0};
    pthread_t thread;
    CHECK(listener != NULL && pinnace_listener_address(listener, there, sizeof there) > 0);
    CHECK(pinnace_accept(listener, 0) == NULL && errno == EAGAIN);
    CHECK(pthread_create(&thread, NULL, clients, NULL) == 0);
    entries[0].fd = pinnace_listener_fd(listener);
    CHECK(entries[0].fd >= 0);
    entries[0].events = POLLIN;
    while (ended < 2) {
        int ready = poll(entries, (nfds_t)(1 + count), LONG);
        CHECK(ready > 0);
        if (entries[0].revents & POLLIN) {
            pinnace_connection_t *connection;
            while ((connection = pinnace_accept(listener, 0)) != NULL) {
                CHECK(count < 2);
                connections[count++] = connection;
                entries[count].fd = pinnace_fd(connection);
                entries[count].events = POLLIN;
                /* What had come before the descriptor was asked for may not show: look once. */
                entries[count].revents = POLLIN;
                CHECK(entries[count].fd >= 0);
            }
            CHECK(errno == EAGAIN);
        }
        for (int at = 0; at < count; at++) {
            struct pinnace_received m = PINNACE_RECEIVED_INIT;
            int result;
            if (entries[1 + at].fd < 0 || !(entries[1 + at].revents & POLLIN))
                continue;
            while ((result = pinnace_recv(connections[at], &m, 0)) == 1) {
                int number;
                CHECK(m.length == sizeof number);
                memcpy(&number, m.data, sizeof number);
                CHECK(number == next[at]++);
                CHECK(pinnace_received_free(&m) == 0);
            }
            if (result < 0) {
                /* Nothing more for now; the descriptor is quiet until something comes. */
                CHECK(errno == EAGAIN);
                continue;
            }
            CHECK(next[at] == MESSAGES);
            CHECK(pinnace_close(connections[at], LONG) == 0);
            entries[1 + at].fd = -1;
            ended++;
        }
    }
    CHECK(pthread_join(thread, NULL) == 0 && pinnace_listener_close(listener) == 0);
    puts("both ended");
    return 0;
}

/* How connections end, and what poll and calls say of it. */
#include "qmp_common.h"

#define ALL (POLLIN | POLLOUT | POLLRDHUP)
#define SIZE 3000000

static void *read_slowly(void *fd) {
    static char data[50000];
    ssize_t size, all = 0;
    pause_ms(200);
    while ((size = qmp_recv(*(int *)fd, data, sizeof data, 0)) > 0)
        all += size;
    CHECK(size == 0 && all == SIZE);
    return NULL;
}

int main(void) {
    int ends[2], port, listener, round;
    char data[100], *much = (char *)calloc(1, SIZE);
    struct linger linger = {1, 0};
    pthread_t reader;
    double before;
    CHECK(much != NULL);

    /* Half closed. */
    pair(ends);
    CHECK(events_of(ends[0], ALL, 0) == POLLOUT);
    CHECK(qmp_send(ends[1], "abc", 3, 0) == 3 && qmp_shutdown(ends[1], SHUT_WR) == 0);
    CHECK(events_of(ends[0], POLLIN, 20000) == POLLIN);
    CHECK(qmp_recv(ends[0], data, sizeof data, MSG_WAITALL) == 3);
    CHECK(events_of(ends[0], POLLIN, 20000) == POLLIN && events_of(ends[0], ALL, 0) == ALL);
    CHECK(qmp_recv(ends[0], data, 1, 0) == 0 && qmp_recv(ends[0], data, 1, MSG_DONTWAIT) == 0);
    /* The other direction goes on. */
    CHECK(qmp_send(ends[0], "def", 3, 0) == 3);
    CHECK(qmp_recv(ends[1], data, 3, MSG_WAITALL) == 3 && memcmp(data, "def", 3) == 0);
    CHECK(qmp_shutdown(ends[0], SHUT_WR) == 0);
    CHECK(events_of(ends[1], POLLIN, 20000) & POLLIN);
    CHECK(qmp_recv(ends[1], data, 1, 0) == 0);
    CHECK(events_of(ends[0], ALL, 0) == (ALL | POLLHUP) && events_of(ends[1], 0, 0) == POLLHUP);
    CHECK(qmp_close(ends[0]) == 0 && qmp_close(ends[1]) == 0);

    /* Closed with something unread: the peer finds a reset. It is told whole, or not yet: poll looks while it comes. */
    for (round = 0; round < 200; round++) {
        pair(ends);
        CHECK(qmp_send(ends[0], "abc", 3, 0) == 3 && (events_of(ends[1], POLLIN, 20000) & POLLIN));
        CHECK(qmp_close(ends[1]) == 0);
        CHECK(events_of(ends[0], POLLIN, 20000) == (POLLIN | POLLERR | POLLHUP));
        CHECK(error_of(ends[0]) == ECONNRESET && error_of(ends[0]) == 0 && qmp_recv(ends[0], data, 1, 0) == 0);
        CHECK(qmp_close(ends[0]) == 0);
    }

    /* A linger of 0 is a reset, too. */
    pair(ends);
    CHECK(qmp_setsockopt(ends[1], SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
    CHECK(qmp_close(ends[1]) == 0);
    FAILS(qmp_recv(ends[0], data, 1, 0), ECONNRESET);
    CHECK(qmp_close(ends[0]) == 0);

    /* One of 20 s waits for the peer. */
    pair(ends);
    linger.l_linger = 20;
    CHECK(qmp_setsockopt(ends[0], SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
    CHECK(pthread_create(&reader, NULL, read_slowly, &ends[1]) == 0);
    before = now();
    send_all(ends[0], much, SIZE);
    CHECK(qmp_close(ends[0]) == 0);
    CHECK(now() - before > 0.15 && now() - before < 15);
    CHECK(pthread_join(reader, NULL) == 0 && qmp_close(ends[1]) == 0);

    /* Nobody reads any more. */
    pair(ends);
    CHECK(qmp_send(ends[1], "abc", 3, 0) == 3);
    CHECK(qmp_shutdown(ends[0], SHUT_RD) == 0 && qmp_recv(ends[0], data, 1, 0) == 0);
    CHECK(events_of(ends[0], POLLIN | POLLRDHUP, 0) == (POLLIN | POLLRDHUP));
    CHECK(qmp_send(ends[0], "def", 3, 0) == 3 && qmp_recv(ends[1], data, 3, MSG_WAITALL) == 3);
    CHECK(qmp_shutdown(ends[0], SHUT_RDWR) == 0);
    CHECK(qmp_recv(ends[1], data, 1, 0) == 0);
    CHECK(qmp_close(ends[0]) == 0 && qmp_close(ends[1]) == 0);

    /* Data come before the answer of connect does, and what is not accepted ends with its listener. */
    listener = listening(&port);
    ends[0] = qmp_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    {
        struct sockaddr_in there = loopback(port);
        FAILS(qmp_connect(ends[0], (struct sockaddr *)&there, sizeof there), EINPROGRESS);
        CHECK(qmp_send(ends[0], "early", 5, 0) == 5);
        ends[1] = qmp_accept(listener, NULL, NULL);
        CHECK(ends[1] >= 0 && qmp_recv(ends[1], data, 5, MSG_WAITALL) == 5 && memcmp(data, "early", 5) == 0);
        CHECK(qmp_close(ends[1]) == 0 && qmp_close(ends[0]) == 0);
        ends[0] = connected(port);
        CHECK(qmp_close(listener) == 0);
        CHECK(events_of(ends[0], POLLIN, 20000) & POLLIN);
        CHECK(qmp_recv(ends[0], data, 1, 0) <= 0);
        CHECK(qmp_close(ends[0]) == 0);
    }
    free(much);
    printf("every end is told\n");
    return 0;
}

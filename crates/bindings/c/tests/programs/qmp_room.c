/* There is room again for what could not be sent: the number of a socket says so, whatever was received meanwhile. */
#include "qmp_common.h"

#define CHUNK 65536

static char data[CHUNK];

/* Sends until nothing more is taken, also when some time has passed. */
static void fill_queue(int fd) {
    double until = now() + 20;
    int refused = 0;
    while (refused < 3) {
        CHECK(now() < until);
        if (qmp_send(fd, data, sizeof data, 0) >= 0) {
            refused = 0;
            continue;
        }
        CHECK(errno == EAGAIN);
        refused++;
        /* What was on its way has told its room by now; it is not what is looked for. */
        pause_ms(100);
    }
}

/* Sends until not all of something is taken. */
static void fill_short(int fd, int server) {
    double until = now() + 20;
    for (;;) {
        long sent = qmp_send(fd, data, sizeof data - 15, 0);
        CHECK(now() < until && (sent >= 0 || errno == EAGAIN));
        if (sent >= 0 && sent < (long)sizeof data - 15)
            return;
        if (sent < 0)
            while (qmp_recv(server, data, 1000, 0) < 0)
                pause_ms(1);
    }
}

/* The peer reads everything, and acknowledges it. */
static void drain(int fd) {
    int idle = 0;
    while (idle < 10) {
        if (qmp_recv(fd, data, sizeof data, 0) > 0) {
            idle = 0;
            continue;
        }
        CHECK(errno == EAGAIN);
        idle++;
        pause_ms(20);
    }
}

int main(void) {
    int port, listener, window = 65536, client, server, calls;
    struct sockaddr_in there;
    listener = qmp_socket(AF_INET, SOCK_STREAM, 0);
    there = loopback(0);
    CHECK(listener >= 0 && qmp_setsockopt(listener, SOL_QMP, QMP_WINDOW, &window, sizeof window) == 0);
    CHECK(qmp_bind(listener, (struct sockaddr *)&there, sizeof there) == 0 && qmp_listen(listener, 1) == 0);
    port = port_of(listener);
    there = loopback(port);
    client = qmp_socket(AF_INET, SOCK_STREAM, 0);
    CHECK(client >= 0 && qmp_setsockopt(client, SOL_QMP, QMP_WINDOW, &window, sizeof window) == 0);
    CHECK(qmp_connect(client, (struct sockaddr *)&there, sizeof there) == 0);
    server = qmp_accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    CHECK(server >= 0 && qmp_fcntl(client, F_SETFL, O_NONBLOCK) == 0);

    /* The room comes while others receive; that nothing was there is said last, and as often as you like. */
    fill_queue(client);
    drain(server);
    for (calls = 0; calls < 3; calls++)
        FAILS(qmp_recv(client, data, sizeof data, 0), EAGAIN);
    FAILS(qmp_recv(client, data, 1, MSG_PEEK), EAGAIN);
    CHECK(error_of(client) == 0);
    CHECK(is_readable(client, 5000));

    /* What was sent in part has found no room for the rest. */
    fill_short(client, server);
    drain(server);
    FAILS(qmp_recv(client, data, sizeof data, 0), EAGAIN);
    CHECK(is_readable(client, 5000));

    /* The same if something is received. */
    fill_queue(client);
    CHECK(qmp_send(server, "ahoy", 4, 0) == 4);
    drain(server);
    CHECK(qmp_recv(client, data, sizeof data, 0) == 4);
    CHECK(is_readable(client, 5000));

    /* Who has sent is told no more, but of what happens. */
    CHECK(qmp_send(client, data, 1, 0) == 1);
    drain(server);
    FAILS(qmp_recv(client, data, sizeof data, 0), EAGAIN);
    for (calls = 0; is_readable(client, 200); calls++) {
        CHECK(calls < 50);
        FAILS(qmp_recv(client, data, sizeof data, 0), EAGAIN);
    }

    /* Who has given up sending does not turn round for ever. */
    fill_queue(client);
    drain(server);
    for (calls = 0; is_readable(client, 200); calls++) {
        CHECK(calls < 100000);
        FAILS(qmp_recv(client, data, sizeof data, 0), EAGAIN);
    }
    CHECK(calls > 0);
    CHECK(qmp_close(client) == 0 && qmp_close(server) == 0 && qmp_close(listener) == 0);
    printf("room is told\n");
    return 0;
}

/* Echo on sockets that do not block, both ends in one thread, with qmp_poll. */
#include "qmp_common.h"

#define SIZE 2000000

int main(void) {
    int port, listener = listening(&port), server = -1, sent = 0, received = 0, echoed = 0, pending = 0, flag = 1, peeks = 0;
    struct sockaddr_in there = loopback(port);
    int client = qmp_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    char *data = (char *)malloc(SIZE), *back = (char *)malloc(SIZE), *between = (char *)malloc(SIZE);
    double until = now() + 50;
    CHECK(data != NULL && back != NULL && between != NULL && client >= 0);
    fill(data, 7, SIZE);
    CHECK(qmp_fcntl(client, F_GETFL, 0) == (O_RDWR | O_NONBLOCK) && qmp_fcntl(client, F_GETFD, 0) == FD_CLOEXEC);
    CHECK(qmp_fcntl(listener, F_GETFL, 0) == O_RDWR);
    CHECK(qmp_ioctl(listener, FIONBIO, &flag) == 0 && qmp_fcntl(listener, F_GETFL, 0) == (O_RDWR | O_NONBLOCK));
    FAILS(qmp_accept(listener, NULL, NULL), EAGAIN);
    FAILS(qmp_connect(client, (struct sockaddr *)&there, sizeof there), EINPROGRESS);
    CHECK(events_of(listener, POLLIN, 20000) == POLLIN);
    server = qmp_accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    CHECK(server >= 0);
    FAILS(qmp_accept(listener, NULL, NULL), EAGAIN);
    CHECK(events_of(client, POLLOUT, 20000) == POLLOUT);
    CHECK(error_of(client) == 0);
    CHECK(qmp_connect(client, (struct sockaddr *)&there, sizeof there) == 0);
    FAILS(qmp_connect(client, (struct sockaddr *)&there, sizeof there), EISCONN);
    FAILS(qmp_recv(client, back, 1, 0), EAGAIN);
    FAILS(qmp_recv(client, back, 1, MSG_PEEK), EAGAIN);
    while (received < SIZE) {
        struct pollfd entries[2];
        ssize_t size;
        CHECK(now() < until);
        entries[0].fd = client;
        entries[0].events = (short)(POLLIN | (sent < SIZE ? POLLOUT : 0));
        entries[1].fd = server;
        entries[1].events = (short)((pending < 500000 ? POLLIN : 0) | (pending > 0 ? POLLOUT : 0));
        CHECK(qmp_poll(entries, 2, 20000) > 0);
        CHECK(((entries[0].revents | entries[1].revents) & ~(POLLIN | POLLOUT)) == 0);
        if (entries[0].revents & POLLOUT) {
            /* What poll says holds. */
            size = qmp_send(client, data + sent, (size_t)(SIZE - sent), 0);
            CHECK(size > 0);
            sent += (int)size;
        }
        if (entries[1].revents & POLLIN) {
            if (peeks < 10) {
                char look = 0;
                CHECK(qmp_recv(server, &look, 1, MSG_PEEK) == 1 && look == data[echoed + pending]);
                peeks++;
            }
            size = qmp_recv(server, between + echoed + pending, (size_t)(SIZE - echoed - pending), 0);
            CHECK(size > 0);
            pending += (int)size;
        }
        if (entries[1].revents & POLLOUT) {
            size = qmp_send(server, between + echoed, (size_t)pending, 0);
            CHECK(size > 0);
            echoed += (int)size;
            pending -= (int)size;
        }
        if (entries[0].revents & POLLIN) {
            size = qmp_recv(client, back + received, (size_t)(SIZE - received), 0);
            CHECK(size > 0);
            received += (int)size;
        }
    }
    CHECK(memcmp(data, back, SIZE) == 0);
    /* The queue fills, and says so; reading makes room. */
    do {
        /* What is on its way makes room for a while; then nothing does. */
        for (sent = 0; sent < 200; sent++)
            if (qmp_send(client, data, SIZE / 2, 0) < 0)
                break;
        CHECK(errno == EAGAIN && sent < 200 && now() < until);
    } while (events_of(client, POLLOUT, 300) == POLLOUT);
    flag = 0;
    CHECK(qmp_ioctl(client, FIONBIO, &flag) == 0);
    /* A call may say so too. A queue that was full for a while may find room once more. */
    for (sent = 0; sent < 200; sent++)
        if (qmp_send(client, data, SIZE / 2, MSG_DONTWAIT) < 0)
            break;
    CHECK(errno == EAGAIN && sent < 200);
    while (events_of(client, POLLOUT, 0) == 0) {
        CHECK(now() < until);
        if (qmp_recv(server, between, SIZE, 0) < 0)
            CHECK(errno == EAGAIN);
    }
    CHECK(qmp_send(client, data, 1, MSG_DONTWAIT) == 1);
    CHECK(qmp_close(client) == 0 && qmp_close(server) == 0 && qmp_close(listener) == 0);
    free(data);
    free(back);
    free(between);
    printf("echoed on sockets that do not block\n");
    return 0;
}

/* One loop over the descriptors of a listener, of 20 connections, and of a sender. */
#include "a1_common.h"

#define CONNECTIONS 20
#define ROUNDS 30

static char data[200000];

static void *clients(void *argument) {
    uint64_t there = *(uint64_t *)argument;
    int sockets[CONNECTIONS], number, round;
    for (number = 0; number < CONNECTIONS; number++) {
        struct a1_qos qos = reliable();
        sockets[number] = bound(qos);
        IS(a1_add_sink(sockets[number], there, &qos, NULL), 0);
    }
    for (round = 0; round < ROUNDS; round++) {
        for (number = 0; number < CONNECTIONS; number++) {
            size_t size = (size_t)(number * 1009 + round);
            char *message = malloc(size + 1);
            uint32_t status;
            int fd = a1_fd(sockets[number]);
            memset(message, number + round, size);
            IS(a1_send(sockets[number], message, size, 0, NULL), size);
            /* The answer is waited for by the descriptor alone. */
            for (;;) {
                ssize_t got = a1_recv(sockets[number], message, size + 1, A1_DONTWAIT, &status);
                if (got != -EAGAIN) {
                    IS(got, 1);
                    break;
                }
                CHECK(is_readable(fd, 20000));
            }
            CHECK(message[0] == (char)size);
            free(message);
        }
    }
    for (number = 0; number < CONNECTIONS; number++)
        IS(a1_close(sockets[number], 5000), 0);
    return NULL;
}

int main(void) {
    struct a1_qos qos = reliable();
    uint64_t there;
    int listener = listening(qos, &there), ends[2];
    int sockets[CONNECTIONS], connected = 0, closed = 0, messages = 0, looks = 0, fd;
    pthread_t thread;
    uint32_t status;
    CHECK(pthread_create(&thread, NULL, clients, &there) == 0);
    while (closed < CONNECTIONS) {
        struct pollfd entries[1 + CONNECTIONS];
        int number;
        entries[0].fd = a1_fd(listener);
        entries[0].events = POLLIN;
        for (number = 0; number < connected; number++) {
            entries[1 + number].fd = sockets[number] < 0 ? -1 : a1_fd(sockets[number]);
            entries[1 + number].events = POLLIN;
        }
        CHECK(poll(entries, (nfds_t)(1 + connected), 20000) > 0);
        looks++;
        for (number = connected - 1; number >= 0; number--) {
            if (!(entries[1 + number].revents & POLLIN))
                continue;
            for (;;) {
                ssize_t size = a1_recv(sockets[number], data, sizeof data, A1_DONTWAIT, &status);
                char answer = (char)size;
                if (size == -EAGAIN)
                    break;
                CHECK(size >= 0);
                if (!(status & A1_START)) {
                    CHECK(status & A1_PEER_CLOSED);
                    IS(a1_close(sockets[number], 1000), 0);
                    sockets[number] = -1;
                    closed++;
                    break;
                }
                messages++;
                IS(a1_send(sockets[number], &answer, 1, 0, NULL), 1);
            }
        }
        if (entries[0].revents & POLLIN) {
            int accepted;
            while ((accepted = a1_accept(listener, NULL, A1_DONTWAIT, NULL)) >= 0)
                sockets[connected++] = accepted;
            IS(accepted, -EAGAIN);
        }
    }
    pthread_join(thread, NULL);
    CHECK(connected == CONNECTIONS && messages == CONNECTIONS * ROUNDS);
    /* It sleeps while nothing happens. */
    CHECK(looks < 20 * CONNECTIONS * ROUNDS);
    IS(a1_accept(listener, NULL, A1_DONTWAIT, NULL), -EAGAIN);
    CHECK(!is_readable(a1_fd(listener), 0));
    IS(a1_close(listener, 0), 0);

    /* Readable as long as something is there, and also of a socket with a sink; unreadable when it was read. */
    pair(qos, ends);
    fd = a1_fd(ends[1]);
    CHECK(fd >= 0 && fd == a1_fd(ends[1]));
    while (a1_recv(ends[1], data, sizeof data, A1_DONTWAIT, NULL) != -EAGAIN)
        CHECK(0);
    CHECK(!is_readable(fd, 50));
    IS(a1_send(ends[0], data, 100, 0, NULL), 100);
    IS(a1_send(ends[0], data, 200, 0, NULL), 200);
    CHECK(is_readable(fd, 5000));
    IS(a1_recv(ends[1], data, sizeof data, 0, NULL), 100);
    CHECK(is_readable(fd, 5000));
    IS(a1_recv(ends[1], data, 150, 0, NULL), 150);
    CHECK(is_readable(fd, 5000));
    IS(a1_recv(ends[1], data, sizeof data, 0, NULL), 50);
    IS(a1_recv(ends[1], data, sizeof data, A1_DONTWAIT, NULL), -EAGAIN);
    CHECK(!is_readable(fd, 200));
    fd = a1_fd(ends[0]);
    while (a1_recv(ends[0], data, sizeof data, A1_DONTWAIT, NULL) == -EAGAIN && is_readable(fd, 200))
        ;
    IS(a1_send(ends[1], data, 5, 0, NULL), 5);
    CHECK(is_readable(fd, 5000));
    IS(a1_recv(ends[0], data, sizeof data, 0, NULL), 5);
    IS(a1_close(ends[1], 1000), 0);
    CHECK(is_readable(fd, 5000));
    IS(a1_recv(ends[0], data, sizeof data, A1_DONTWAIT, &status), 0);
    CHECK(status & A1_PEER_CLOSED);
    CHECK(is_readable(fd, 0));
    IS(a1_close(ends[0], 1000), 0);
    puts("20 connections and a listener in one loop");
    return 0;
}

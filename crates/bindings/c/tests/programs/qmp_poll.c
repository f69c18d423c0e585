/* A loop with 50 connections, their listener, and a pipe, in one qmp_poll. */
#include "qmp_common.h"

#define COUNT 50
#define ROUNDS 20

static int port;

/* Half of the connections are those of other threads, so that several threads poll and block at once. */
static void *talk(void *at) {
    int fd = connected(port), round, number = *(int *)at;
    char out[1000], in[1000];
    for (round = 0; round < ROUNDS; round++) {
        size_t size = (size_t)(1 + (number * 37 + round * 101) % 1000);
        fill(out, (size_t)(number + round), size);
        send_all(fd, out, size);
        CHECK(qmp_recv(fd, in, size, MSG_WAITALL) == (ssize_t)size && memcmp(in, out, size) == 0);
    }
    CHECK(qmp_shutdown(fd, SHUT_WR) == 0 && qmp_recv(fd, in, 1, 0) == 0);
    CHECK(qmp_close(fd) == 0);
    return NULL;
}

int main(void) {
    struct pollfd entries[COUNT + 2];
    pthread_t threads[COUNT];
    int numbers[COUNT], ends[2], listener = listening(&port), count = 2, open = COUNT, beats = 0, at, accepted = 0;
    double until = now() + 50;
    CHECK(pipe(ends) == 0);
    entries[0].fd = listener;
    entries[0].events = POLLIN;
    entries[1].fd = ends[0];
    entries[1].events = POLLIN;
    for (at = 0; at < COUNT; at++) {
        numbers[at] = at;
        CHECK(pthread_create(&threads[at], NULL, talk, &numbers[at]) == 0);
    }
    while (open > 0 || beats < 10) {
        char data[4000];
        ssize_t size;
        CHECK(now() < until);
        if (beats < 10)
            CHECK(write(ends[1], "x", 1) == 1);
        CHECK(qmp_poll(entries, (nfds_t)count, 20000) > 0);
        if (entries[1].revents & POLLIN) {
            CHECK(read(ends[0], data, 1) == 1);
            beats++;
        }
        for (at = 2; at < count; at++) {
            if (entries[at].revents == 0)
                continue;
            CHECK(!(entries[at].revents & (POLLERR | POLLNVAL)));
            /* They block, and poll has said that they do not. */
            size = qmp_recv(entries[at].fd, data, sizeof data, 0);
            CHECK(size >= 0);
            if (size > 0) {
                send_all(entries[at].fd, data, (size_t)size);
            } else {
                CHECK(qmp_close(entries[at].fd) == 0);
                entries[at].fd = -1;
                open--;
            }
        }
        if (entries[0].revents & POLLIN) {
            CHECK(count < COUNT + 2);
            entries[count].fd = qmp_accept(listener, NULL, NULL);
            CHECK(entries[count].fd >= 0);
            entries[count].events = POLLIN;
            entries[count].revents = 0;
            count++;
            accepted++;
        }
    }
    CHECK(accepted == COUNT);
    for (at = 0; at < COUNT; at++)
        CHECK(pthread_join(threads[at], NULL) == 0);
    /* A time-out, and a pipe that has ended. */
    {
        double before = now();
        CHECK(qmp_poll(entries, 1, 100) == 0 && now() - before > 0.09 && now() - before < 5);
        CHECK(qmp_poll(NULL, 0, 10) == 0);
        close(ends[1]);
        while (read(ends[0], numbers, sizeof numbers) > 0)
            ;
        CHECK(qmp_poll(entries, 2, -1) == 1 && (entries[1].revents & POLLHUP));
    }
    CHECK(qmp_close(listener) == 0);
    CHECK(qmp_poll(entries, 1, -1) == 1 && entries[0].revents == POLLNVAL);
    printf("50 connections and a pipe in one loop\n");
    return 0;
}

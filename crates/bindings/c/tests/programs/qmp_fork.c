/* A child process has none of its parent's sockets, disturbs none of them, and may have its own. */
#include "qmp_common.h"

static volatile int done;

/* Keeps the library busy while the process forks. */
static void *keep_busy(void *nothing) {
    (void)nothing;
    while (!done) {
        int ends[2];
        char data[1000];
        pair(ends);
        send_all(ends[0], data, sizeof data);
        CHECK(qmp_recv(ends[1], data, sizeof data, MSG_WAITALL) == sizeof data);
        CHECK(qmp_close(ends[0]) == 0 && qmp_close(ends[1]) == 0);
    }
    return NULL;
}

int main(void) {
    int ends[2], port, listener = listening(&port), round;
    pthread_t busy;
    char data[100];
    pair(ends);
    memset(data, 0, sizeof data);
    CHECK(pthread_create(&busy, NULL, keep_busy, NULL) == 0);
    for (round = 0; round < 10; round++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            int own[2];
            /* It has the number, which is no socket here. */
            FAILS(qmp_send(ends[0], "no", 2, 0), ENOTSOCK);
            FAILS(qmp_recv(ends[0], data, 1, 0), ENOTSOCK);
            FAILS(qmp_accept(listener, NULL, NULL), ENOTSOCK);
            FAILS(qmp_close(ends[0]), ENOTSOCK);
            CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
            /* Sockets of its own, to its parent too. */
            pair(own);
            send_all(own[0], "child", 5);
            CHECK(qmp_recv(own[1], data, 5, MSG_WAITALL) == 5 && memcmp(data, "child", 5) == 0);
            CHECK(qmp_close(own[0]) == 0);
            if (round % 2 == 0)
                CHECK(qmp_close(own[1]) == 0);
            own[0] = connected(port);
            send_all(own[0], "parent", 6);
            if (round % 3 == 0)
                CHECK(qmp_close(own[0]) == 0);
            /* exit() closes the rest. */
            return 0;
        }
        {
            int peer = qmp_accept(listener, NULL, NULL);
            CHECK(peer >= 0 && qmp_recv(peer, data, 6, MSG_WAITALL) == 6 && memcmp(data, "parent", 6) == 0);
            CHECK(qmp_recv(peer, data, 1, 0) == 0);
            CHECK(qmp_close(peer) == 0);
        }
        CHECK(child_succeeded(child));
        send_all(ends[0], "still", 5);
        CHECK(qmp_recv(ends[1], data, 5, MSG_WAITALL) == 5 && memcmp(data, "still", 5) == 0);
    }
    done = 1;
    CHECK(pthread_join(busy, NULL) == 0);
    CHECK(qmp_close(ends[0]) == 0 && qmp_close(ends[1]) == 0 && qmp_close(listener) == 0);
    printf("parent and children do not meet\n");
    return 0;
}

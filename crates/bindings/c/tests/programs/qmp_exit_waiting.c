/* What was sent arrives, although the process exits while another thread waits on the socket: in a read, or in a poll; open
 * still, or closed by this one. */
#include "qmp_common.h"

#define SIZE 400000

static int the_socket;

static void *reading(void *unused) {
    char byte;
    qmp_recv(the_socket, &byte, 1, 0);
    return unused;
}

static void *polling(void *unused) {
    struct pollfd entry;
    entry.fd = the_socket;
    entry.events = POLLIN;
    qmp_poll(&entry, 1, -1);
    return unused;
}

int main(void) {
    int port, listener = listening(&port), round;
    static char data[SIZE];
    for (round = 0; round < 4; round++) {
        int fd, code;
        char byte;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            pthread_t thread;
            struct linger long_one = {1, 60};
            the_socket = connected(port);
            CHECK(pthread_create(&thread, NULL, round < 2 ? reading : polling, NULL) == 0);
            pause_ms(200);
            CHECK(qmp_setsockopt(the_socket, SOL_SOCKET, SO_LINGER, &long_one, sizeof long_one) == 0);
            fill(data, (size_t)round, SIZE);
            send_all(the_socket, data, SIZE);
            if (round % 2 == 0)
                CHECK(qmp_close(the_socket) == 0);
            exit(7);
        }
        fd = qmp_accept(listener, NULL, NULL);
        CHECK(fd >= 0);
        pause_ms(400);
        CHECK(qmp_recv(fd, data, SIZE, MSG_WAITALL) == SIZE && is_intact(data, (size_t)round, SIZE));
        CHECK(qmp_recv(fd, &byte, 1, 0) == 0);
        CHECK(waitpid(child, &code, 0) == child && WIFEXITED(code) && WEXITSTATUS(code) == 7);
        CHECK(qmp_close(fd) == 0);
    }
    CHECK(qmp_close(listener) == 0);
    printf("all of it came although somebody waited\n");
    return 0;
}

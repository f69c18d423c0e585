/* What was sent arrives, although the process has exited: closed or not, and although its reader is slow. */
#include "qmp_common.h"

#define SIZE 400000

int main(void) {
    int port, listener = listening(&port), round;
    static char data[SIZE];
    for (round = 0; round < 3; round++) {
        int fd, code;
        char byte;
        double before;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            fd = connected(port);
            fill(data, (size_t)round, SIZE);
            send_all(fd, data, SIZE);
            if (round == 0)
                CHECK(qmp_close(fd) == 0);
            exit(7);
        }
        fd = qmp_accept(listener, NULL, NULL);
        CHECK(fd >= 0);
        pause_ms(300);
        before = now();
        if (round < 2) {
            CHECK(qmp_recv(fd, data, SIZE, MSG_WAITALL) == SIZE && is_intact(data, (size_t)round, SIZE));
            CHECK(qmp_recv(fd, &byte, 1, 0) == 0);
        }
        /* The third is not read: the process goes all the same. */
        CHECK(waitpid(child, &code, 0) == child && WIFEXITED(code) && WEXITSTATUS(code) == 7);
        CHECK(now() - before < 15);
        CHECK(qmp_close(fd) == 0);
    }
    CHECK(qmp_close(listener) == 0);
    printf("all of it came after the exit\n");
    return 0;
}

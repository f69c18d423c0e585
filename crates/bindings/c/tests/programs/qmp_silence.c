/* A peer that does not answer any more is given up at the times of keep-alive, and of the user time-out. */
#include "qmp_common.h"

#include <sys/prctl.h>
#include <sys/wait.h>

static int set(int fd, int level, int name, int value) {
    int got = -1;
    socklen_t length = sizeof got;
    return qmp_setsockopt(fd, level, name, &value, sizeof value) == 0 && qmp_getsockopt(fd, level, name, &got, &length) == 0 &&
           got == value;
}

/* Keep-alive: asked after a second, and twice more. */
static void keep(int fd) {
    CHECK(set(fd, SOL_SOCKET, SO_KEEPALIVE, 1) && set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1));
    CHECK(set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1) && set(fd, IPPROTO_TCP, TCP_KEEPCNT, 2));
}

int main(void) {
    int numbers[2], port, fds[3], at, bad = 0;
    char byte;
    double begun;
    pid_t peer;
    CHECK(pipe(numbers) == 0);
    peer = fork();
    CHECK(peer >= 0);
    if (peer == 0) {
        int listener = listening(&port);
        /* However its parent ends. */
        CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
        CHECK(write(numbers[1], &port, sizeof port) == sizeof port);
        for (at = 0; at < 3; at++) {
            int fd = qmp_accept(listener, NULL, NULL);
            CHECK(fd >= 0 && qmp_send(fd, "x", 1, 0) == 1);
        }
        for (;;)
            pause();
    }
    CHECK(read(numbers[0], &port, sizeof port) == sizeof port);
    /* Before it is connected, afterwards, and the other one. */
    fds[0] = qmp_socket(AF_INET, SOCK_STREAM, 0);
    keep(fds[0]);
    {
        struct sockaddr_in there = loopback(port);
        CHECK(qmp_connect(fds[0], (struct sockaddr *)&there, sizeof there) == 0);
    }
    fds[1] = connected(port);
    keep(fds[1]);
    fds[2] = connected(port);
    CHECK(set(fds[2], IPPROTO_TCP, TCP_USER_TIMEOUT, 1500));
    FAILS(qmp_setsockopt(fds[2], IPPROTO_TCP, TCP_KEEPCNT, &bad, sizeof bad), EINVAL);
    for (at = 0; at < 3; at++)
        CHECK(qmp_recv(fds[at], &byte, 1, 0) == 1);
    /* A signal stops all threads of a process one after another: what is sent before may still be acknowledged. */
    CHECK(kill(peer, SIGSTOP) == 0 && waitpid(peer, NULL, WUNTRACED) == peer);
    begun = now();
    CHECK(qmp_send(fds[2], "y", 1, 0) == 1);
    for (at = 0; at < 3; at++)
        FAILS(qmp_recv(fds[at], &byte, 1, 0), ETIMEDOUT);
    CHECK(now() - begun > 1 && now() - begun < 20);
    CHECK(kill(peer, SIGKILL) == 0 && waitpid(peer, NULL, 0) == peer);
    for (at = 0; at < 3; at++)
        CHECK(qmp_close(fds[at]) == 0);
    printf("it is told how long it lasts\n");
    return 0;
}

/* A connection is established while the program does something else: the number of the socket says so all the same. */
#include "qmp_common.h"

/* A socket that connects, and has by now. */
static int begun(int port) {
    struct sockaddr_in there = loopback(port);
    int fd = qmp_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK(fd >= 0);
    FAILS(qmp_connect(fd, (struct sockaddr *)&there, sizeof there), EINPROGRESS);
    pause_ms(300);
    return fd;
}

int main(void) {
    int port, listener = listening(&port), fd, calls;
    struct sockaddr_in there = loopback(port);
    char byte;

    fd = begun(port);
    FAILS(qmp_recv(fd, &byte, 1, 0), EAGAIN);
    CHECK(is_readable(fd, 5000));
    CHECK(error_of(fd) == 0);
    CHECK(qmp_connect(fd, (struct sockaddr *)&there, sizeof there) == 0);
    /* It has been told. */
    FAILS(qmp_recv(fd, &byte, 1, 0), EAGAIN);
    for (calls = 0; is_readable(fd, 100); calls++) {
        CHECK(calls < 10);
        FAILS(qmp_recv(fd, &byte, 1, 0), EAGAIN);
    }
    CHECK(qmp_close(fd) == 0);

    /* SO_ERROR says the same as before, so who asks it may not know yet; but is not woken for ever. */
    fd = begun(port);
    CHECK(error_of(fd) == 0 && error_of(fd) == 0);
    CHECK(is_readable(fd, 5000));
    for (calls = 0; is_readable(fd, 100); calls++) {
        CHECK(calls < 100);
        FAILS(qmp_recv(fd, &byte, 1, 0), EAGAIN);
    }
    CHECK(qmp_close(fd) == 0 && qmp_close(listener) == 0);
    printf("it is told that it is established\n");
    return 0;
}

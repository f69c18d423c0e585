/* What the programs about QMP share. */
#ifndef QMP_COMMON_H
#define QMP_COMMON_H

#include "bytes.h"

#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#include "qmp.h"

/* The call must fail so. */
#define FAILS(call, why)                                                                          \
    do {                                                                                          \
        errno = 0;                                                                                \
        if ((call) != -1 || errno != (why)) {                                                     \
            fprintf(stderr, "%s:%d: %s does not fail with %s but %s\n", __FILE__, __LINE__, #call, #why, strerror(errno)); \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

UNUSED static int port_of(int fd) {
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    CHECK(qmp_getsockname(fd, (struct sockaddr *)&address, &length) == 0);
    CHECK(length == sizeof address && address.sin_family == AF_INET);
    return ntohs(address.sin_port);
}

/* A socket that listens on a free port. */
UNUSED static int listening(int *port) {
    struct sockaddr_in here = loopback(0);
    int fd = qmp_socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    CHECK(qmp_bind(fd, (struct sockaddr *)&here, sizeof here) == 0);
    CHECK(qmp_listen(fd, SOMAXCONN) == 0);
    *port = port_of(fd);
    CHECK(*port > 0);
    return fd;
}

UNUSED static int connected(int port) {
    struct sockaddr_in there = loopback(port);
    int fd = qmp_socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fd >= 0 && qmp_connect(fd, (struct sockaddr *)&there, sizeof there) == 0);
    return fd;
}

/* Two ends of a connection. */
UNUSED static void pair(int ends[2]) {
    int port, listener = listening(&port);
    ends[0] = connected(port);
    ends[1] = qmp_accept(listener, NULL, NULL);
    CHECK(ends[1] >= 0);
    CHECK(qmp_close(listener) == 0);
}

UNUSED static void send_all(int fd, const char *data, size_t size) {
    size_t at = 0;
    while (at < size) {
        ssize_t sent = qmp_send(fd, data + at, size - at, MSG_NOSIGNAL);
        CHECK(sent > 0);
        at += (size_t)sent;
    }
}

/* What poll says of one socket now. */
UNUSED static int events_of(int fd, int events, int timeout) {
    struct pollfd entry;
    entry.fd = fd;
    entry.events = (short)events;
    entry.revents = 0;
    if (qmp_poll(&entry, 1, timeout) != 1)
        CHECK(entry.revents == 0);
    return entry.revents;
}

UNUSED static int error_of(int fd) {
    int why = -1;
    socklen_t length = sizeof why;
    CHECK(qmp_getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &length) == 0 && length == sizeof why);
    return why;
}

#endif

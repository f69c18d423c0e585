/* Every option, as it is set and told. */
#include "qmp_common.h"

static int value_of(int fd, int level, int name) {
    int value = -77;
    socklen_t length = sizeof value;
    CHECK(qmp_getsockopt(fd, level, name, &value, &length) == 0 && length == sizeof value);
    return value;
}

static int set(int fd, int level, int name, int value) {
    return qmp_setsockopt(fd, level, name, &value, sizeof value);
}

int main(void) {
    int port, listener, fd, peer, at;
    static const int flags[] = {SO_REUSEADDR, SO_REUSEPORT, SO_KEEPALIVE};
    struct linger linger = {1, 3};
    struct timeval time = {2, 500000};
    struct sockaddr_in here = loopback(0);
    struct sockaddr_in6 v6;
    socklen_t length;
    char data[5];

    listener = qmp_socket(AF_INET, SOCK_STREAM, 0);
    CHECK(value_of(listener, SOL_SOCKET, SO_TYPE) == SOCK_STREAM);
    CHECK(value_of(listener, SOL_SOCKET, SO_DOMAIN) == AF_INET && value_of(listener, SOL_SOCKET, SO_PROTOCOL) == 0);
    CHECK(value_of(listener, SOL_SOCKET, SO_ERROR) == 0 && value_of(listener, SOL_SOCKET, SO_ACCEPTCONN) == 0);
    CHECK(value_of(listener, IPPROTO_TCP, TCP_NODELAY) == 1 && set(listener, IPPROTO_TCP, TCP_NODELAY, 1) == 0);
    for (at = 0; at < 3; at++) {
        CHECK(value_of(listener, SOL_SOCKET, flags[at]) == 0);
        CHECK(set(listener, SOL_SOCKET, flags[at], 1) == 0 && value_of(listener, SOL_SOCKET, flags[at]) == 1);
    }
    CHECK(set(listener, SOL_SOCKET, SO_SNDBUF, 5000) == 0 && value_of(listener, SOL_SOCKET, SO_SNDBUF) == 5000);

    /* QMP's own. */
    CHECK(value_of(listener, SOL_QMP, QMP_STATUS_EVERY) == 16 && value_of(listener, SOL_QMP, QMP_LINK) == QMP_LINK_UDP);
    CHECK(value_of(listener, SOL_QMP, QMP_STATE) == QMP_QUIESCENT);
    CHECK(set(listener, SOL_QMP, QMP_STATUS_EVERY, 4) == 0 && value_of(listener, SOL_QMP, QMP_STATUS_EVERY) == 4);
    CHECK(set(listener, SOL_QMP, QMP_WINDOW, 100000) == 0 && value_of(listener, SOL_QMP, QMP_WINDOW) == 100000);
    CHECK(set(listener, SOL_SOCKET, SO_RCVBUF, 200000) == 0 && value_of(listener, SOL_QMP, QMP_WINDOW) == 200000);
    CHECK(set(listener, SOL_QMP, QMP_GO_BACK_N, 1) == 0 && value_of(listener, SOL_QMP, QMP_GO_BACK_N) == 1);
    CHECK(set(listener, SOL_QMP, QMP_PEER_TIMEOUT, 9000) == 0 && value_of(listener, SOL_QMP, QMP_PEER_TIMEOUT) == 9000);
    CHECK(set(listener, SOL_QMP, QMP_LINK, QMP_LINK_IP36) == 0 && value_of(listener, SOL_QMP, QMP_LINK) == QMP_LINK_IP36);
    CHECK(set(listener, SOL_QMP, QMP_LINK, QMP_LINK_SHM) == 0 && value_of(listener, SOL_QMP, QMP_LINK) == QMP_LINK_SHM);
    CHECK(set(listener, SOL_QMP, QMP_LINK, QMP_LINK_ETHER) == 0 && value_of(listener, SOL_QMP, QMP_LINK) == QMP_LINK_ETHER);
    CHECK(set(listener, SOL_QMP, QMP_LINK, QMP_LINK_UDP) == 0 && value_of(listener, SOL_QMP, QMP_POOL) == -1);
    CHECK(value_of(listener, SOL_QMP, QMP_SAME_HOST) == 1);
    CHECK(set(listener, SOL_QMP, QMP_SAME_HOST, 0) == 0 && value_of(listener, SOL_QMP, QMP_SAME_HOST) == 0);
    FAILS(set(listener, SOL_QMP, QMP_LINK, 9), EINVAL);
    FAILS(set(listener, SOL_QMP, QMP_STATUS_EVERY, 0), EINVAL);
    FAILS(set(listener, SOL_QMP, QMP_WINDOW, 1000), EINVAL);
    FAILS(set(listener, SOL_QMP, QMP_PEER_TIMEOUT, -1), EINVAL);
    FAILS(set(listener, SOL_QMP, QMP_STATE, 1), ENOPROTOOPT);
    FAILS(set(listener, SOL_QMP, 99, 1), ENOPROTOOPT);
    FAILS(set(listener, SOL_SOCKET, SO_TYPE, 1), ENOPROTOOPT);
    FAILS(set(listener, SOL_SOCKET, SO_BROADCAST, 1), ENOPROTOOPT);
    FAILS(set(listener, 12345, 1, 1), ENOPROTOOPT);
    FAILS(qmp_setsockopt(listener, SOL_QMP, QMP_WINDOW, &at, 3), EINVAL);
    FAILS(qmp_setsockopt(listener, SOL_QMP, QMP_WINDOW, NULL, 4), EFAULT);
    FAILS(qmp_getsockopt(listener, SOL_QMP, QMP_WINDOW, NULL, &length), EFAULT);
    FAILS(qmp_getsockopt(listener, SOL_QMP, QMP_WINDOW, &at, NULL), EFAULT);
    FAILS(qmp_getsockopt(listener, SOL_QMP, 99, &at, &length), ENOPROTOOPT);
    length = (socklen_t)-1;
    FAILS(qmp_getsockopt(listener, SOL_QMP, QMP_WINDOW, &at, &length), EINVAL);
    length = 2;
    CHECK(qmp_getsockopt(listener, SOL_QMP, QMP_WINDOW, data, &length) == 0 && length == 2);

    CHECK(qmp_setsockopt(listener, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
    CHECK(qmp_setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
    time.tv_sec = 5;
    CHECK(qmp_setsockopt(listener, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time) == 0);
    time.tv_usec = 1000000;
    FAILS(qmp_setsockopt(listener, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time), EDOM);
    FAILS(qmp_setsockopt(listener, SOL_SOCKET, SO_SNDTIMEO, &time, 4), EINVAL);
    FAILS(qmp_setsockopt(listener, SOL_SOCKET, SO_LINGER, &linger, 4), EINVAL);

    CHECK(qmp_bind(listener, (struct sockaddr *)&here, sizeof here) == 0 && qmp_listen(listener, 5) == 0);
    CHECK(value_of(listener, SOL_SOCKET, SO_ACCEPTCONN) == 1 && value_of(listener, SOL_QMP, QMP_STATE) == QMP_LISTENING);
    FAILS(set(listener, SOL_QMP, QMP_WINDOW, 100000), EISCONN);
    CHECK(set(listener, SOL_SOCKET, SO_RCVBUF, 100000) == 0 && value_of(listener, SOL_QMP, QMP_WINDOW) == 200000);
    port = port_of(listener);
    fd = connected(port);
    FAILS(set(fd, SOL_QMP, QMP_STATUS_EVERY, 3), EISCONN);
    peer = qmp_accept(listener, NULL, NULL);
    CHECK(peer >= 0 && value_of(fd, SOL_QMP, QMP_STATE) == QMP_ACTIVE && value_of(peer, SOL_QMP, QMP_STATE) == QMP_ACTIVE);
    CHECK(value_of(fd, SOL_QMP, QMP_LINK) == QMP_LINK_UDP);

    /* What was accepted is as its listener. */
    memset(&linger, 0, sizeof linger);
    memset(&time, 0, sizeof time);
    length = sizeof linger;
    CHECK(qmp_getsockopt(peer, SOL_SOCKET, SO_LINGER, &linger, &length) == 0 && linger.l_onoff && linger.l_linger == 3);
    length = sizeof time;
    CHECK(qmp_getsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &time, &length) == 0 && length == sizeof time);
    CHECK(time.tv_sec == 2 && time.tv_usec == 500000);
    CHECK(qmp_getsockopt(peer, SOL_SOCKET, SO_SNDTIMEO, &time, &length) == 0 && time.tv_sec == 5);
    CHECK(value_of(peer, SOL_QMP, QMP_STATUS_EVERY) == 4);

    /* Both ways, with a status after every packet, and go-back-N. */
    send_all(fd, "ahoy", 4);
    CHECK(qmp_recv(peer, data, 4, MSG_WAITALL) == 4);
    CHECK(qmp_shutdown(fd, SHUT_WR) == 0 && qmp_recv(peer, data, 1, 0) == 0 && qmp_shutdown(peer, SHUT_WR) == 0);
    CHECK(qmp_recv(fd, data, 1, 0) == 0);
    CHECK(value_of(fd, SOL_QMP, QMP_STATE) != QMP_ACTIVE);
    CHECK(qmp_close(fd) == 0 && qmp_close(peer) == 0 && qmp_close(listener) == 0);

    /* IPv6, and IPv4 in it; an address that is cut. */
    listener = qmp_socket(AF_INET6, SOCK_STREAM, 0);
    CHECK(listener >= 0);
    memset(&v6, 0, sizeof v6);
    v6.sin6_family = AF_INET6;
    CHECK(qmp_listen(listener, 1) == 0);
    length = sizeof v6;
    CHECK(qmp_getsockname(listener, (struct sockaddr *)&v6, &length) == 0 && length == sizeof v6);
    CHECK(v6.sin6_family == AF_INET6 && v6.sin6_port != 0);
    fd = connected(ntohs(v6.sin6_port));
    peer = qmp_accept(listener, (struct sockaddr *)&v6, &length);
    CHECK(peer >= 0 && v6.sin6_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr));
    CHECK(ntohs(v6.sin6_port) == port_of(fd));
    length = 4;
    memset(&v6, 0, sizeof v6);
    CHECK(qmp_getpeername(fd, (struct sockaddr *)&v6, &length) == 0 && length == sizeof here && v6.sin6_flowinfo == 0);
    CHECK(qmp_close(fd) == 0 && qmp_close(peer) == 0 && qmp_close(listener) == 0);
    printf("every option\n");
    return 0;
}

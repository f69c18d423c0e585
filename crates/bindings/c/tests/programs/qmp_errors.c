/* Every error, and how it is told. */
#include "qmp_common.h"

static volatile sig_atomic_t pipes, alarms;

static void on_pipe(int signal) {
    (void)signal;
    pipes++;
}

static void on_alarm(int signal) {
    (void)signal;
    alarms++;
}

int main(void) {
    int port, listener = listening(&port), ends[2], other, pipe_ends[2], value = 0;
    struct sockaddr_in address = loopback(port);
    struct sockaddr *at = (struct sockaddr *)&address;
    struct sockaddr_in6 v6;
    struct sigaction action;
    struct timeval time;
    struct itimerval timer;
    struct pollfd entry;
    socklen_t length = sizeof address;
    char data[16] = "ahoy";
    double before;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_pipe;
    CHECK(sigaction(SIGPIPE, &action, NULL) == 0);
    action.sa_handler = on_alarm;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(pipe(pipe_ends) == 0);

    /* qmp_socket */
    FAILS(qmp_socket(AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
    FAILS(qmp_socket(AF_INET, SOCK_DGRAM, 0), ESOCKTNOSUPPORT);
    FAILS(qmp_socket(AF_INET, SOCK_STREAM, IPPROTO_UDP), EPROTONOSUPPORT);
    /* What programs say that were written for TCP. */
    value = qmp_socket(AF_INET, SOCK_STREAM, IPPROTO_TCP);
    CHECK(value >= 0 && qmp_close(value) == 0);

    /* Numbers that are no sockets, in every call. */
    for (value = 0; value < 3; value++) {
        int fd = value == 0 ? -1 : value == 1 ? 5000 : pipe_ends[0], why = value == 2 ? ENOTSOCK : EBADF;
        struct msghdr message;
        memset(&message, 0, sizeof message);
        FAILS(qmp_bind(fd, at, sizeof address), why);
        FAILS(qmp_listen(fd, 1), why);
        FAILS(qmp_accept(fd, NULL, NULL), why);
        FAILS(qmp_accept4(fd, NULL, NULL, 0), why);
        FAILS(qmp_connect(fd, at, sizeof address), why);
        FAILS(qmp_send(fd, data, 1, 0), why);
        FAILS(qmp_recv(fd, data, 1, 0), why);
        FAILS(qmp_sendmsg(fd, &message, 0), why);
        FAILS(qmp_recvmsg(fd, &message, 0), why);
        FAILS(qmp_shutdown(fd, SHUT_WR), why);
        FAILS(qmp_close(fd), why);
        FAILS(qmp_getsockopt(fd, SOL_SOCKET, SO_ERROR, &value, &length), why);
        FAILS(qmp_setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &value, sizeof value), why);
        FAILS(qmp_getsockname(fd, at, &length), why);
        FAILS(qmp_getpeername(fd, at, &length), why);
        FAILS(qmp_fcntl(fd, F_GETFL, 0), why);
        FAILS(qmp_ioctl(fd, FIONREAD, &value), why);
    }

    /* qmp_bind, qmp_listen */
    other = qmp_socket(AF_INET, SOCK_STREAM, 0);
    FAILS(qmp_bind(other, NULL, sizeof address), EFAULT);
    FAILS(qmp_bind(other, at, 1), EINVAL);
    FAILS(qmp_bind(other, at, sizeof address - 1), EINVAL);
    FAILS(qmp_bind(other, at, sizeof address), EADDRINUSE);
    memset(&v6, 0, sizeof v6);
    v6.sin6_family = AF_INET6;
    FAILS(qmp_bind(other, (struct sockaddr *)&v6, sizeof v6), EAFNOSUPPORT);
    FAILS(qmp_connect(other, (struct sockaddr *)&v6, sizeof v6), EAFNOSUPPORT);
    v6.sin6_family = AF_UNSPEC;
    FAILS(qmp_connect(other, (struct sockaddr *)&v6, sizeof v6), EAFNOSUPPORT);
    address.sin_addr.s_addr = htonl(0xc0000201); /* 192.0.2.1 is nobody's */
    FAILS(qmp_bind(other, at, sizeof address), EADDRNOTAVAIL);
    address = loopback(0);
    CHECK(qmp_bind(other, at, sizeof address) == 0);
    FAILS(qmp_bind(other, at, sizeof address), EINVAL);
    CHECK(qmp_listen(other, 1) == 0 && qmp_listen(other, 1) == 0);
    CHECK(qmp_close(other) == 0);
    FAILS(qmp_close(other), EBADF);

    /* A fresh socket */
    other = qmp_socket(AF_INET, SOCK_STREAM, 0);
    FAILS(qmp_accept(other, NULL, NULL), EINVAL);
    FAILS(qmp_send(other, data, 1, 0), ENOTCONN);
    FAILS(qmp_recv(other, data, 1, 0), ENOTCONN);
    FAILS(qmp_shutdown(other, SHUT_WR), ENOTCONN);
    FAILS(qmp_getpeername(other, at, &length), ENOTCONN);
    FAILS(qmp_fcntl(other, F_DUPFD, 0), EINVAL);
    FAILS(qmp_ioctl(other, TIOCOUTQ, &value), ENOTTY);
    FAILS(qmp_ioctl(other, FIONREAD, NULL), EFAULT);
    FAILS(qmp_getsockname(other, NULL, &length), EFAULT);
    FAILS(qmp_getsockname(other, at, NULL), EFAULT);

    /* Nobody listens; and then somebody does. */
    address = loopback(1);
    FAILS(qmp_connect(other, NULL, sizeof address), EFAULT);
    FAILS(qmp_connect(other, at, sizeof address), ECONNREFUSED);
    FAILS(qmp_connect(other, at, sizeof address), ECONNREFUSED);
    CHECK(error_of(other) == 0);
    CHECK(qmp_fcntl(other, F_SETFL, O_NONBLOCK) == 0);
    FAILS(qmp_connect(other, at, sizeof address), EINPROGRESS);
    CHECK(events_of(other, POLLOUT, 20000) == (POLLOUT | POLLERR | POLLHUP));
    CHECK(error_of(other) == ECONNREFUSED && error_of(other) == 0);
    FAILS(qmp_connect(other, at, sizeof address), EINPROGRESS);
    CHECK(events_of(other, POLLOUT, 20000) & POLLERR);
    FAILS(qmp_connect(other, at, sizeof address), ECONNREFUSED);
    FAILS(qmp_connect(other, at, sizeof address), EINPROGRESS);
    CHECK(events_of(other, POLLOUT, 20000) & POLLERR);
    FAILS(qmp_send(other, data, 1, MSG_NOSIGNAL), ECONNREFUSED);
    CHECK(qmp_close(other) == 0);
    other = qmp_socket(AF_INET, SOCK_STREAM, 0);
    FAILS(qmp_connect(other, at, sizeof address), ECONNREFUSED);
    address = loopback(port);
    CHECK(qmp_connect(other, at, sizeof address) == 0);
    FAILS(qmp_connect(other, at, sizeof address), EISCONN);
    FAILS(qmp_bind(other, at, sizeof address), EINVAL);
    FAILS(qmp_listen(other, 1), EINVAL);
    FAILS(qmp_connect(listener, at, sizeof address), EISCONN);
    FAILS(qmp_shutdown(other, 77), EINVAL);
    FAILS(qmp_accept4(listener, NULL, NULL, 0x7000), EINVAL);
    FAILS(qmp_accept(listener, at, NULL), EFAULT);
    FAILS(qmp_ioctl(listener, FIONREAD, &value), EINVAL);
    FAILS(qmp_send(listener, data, 1, 0), ENOTCONN);
    ends[0] = other;
    ends[1] = qmp_accept(listener, NULL, NULL);
    CHECK(ends[1] >= 0);

    /* Nobody answers: the time of the socket, and then that of the protocol. */
    other = qmp_socket(AF_INET, SOCK_STREAM, 0);
    value = 1000;
    CHECK(qmp_setsockopt(other, SOL_QMP, QMP_PEER_TIMEOUT, &value, sizeof value) == 0);
    time.tv_sec = 0;
    time.tv_usec = 100000;
    CHECK(qmp_setsockopt(other, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time) == 0);
    {
        /* A UDP socket that does not answer. */
        int silent = socket(AF_INET, SOCK_DGRAM, 0);
        struct sockaddr_in nobody = loopback(0);
        length = sizeof nobody;
        CHECK(bind(silent, (struct sockaddr *)&nobody, sizeof nobody) == 0);
        CHECK(getsockname(silent, (struct sockaddr *)&nobody, &length) == 0);
        before = now();
        FAILS(qmp_connect(other, (struct sockaddr *)&nobody, sizeof nobody), EINPROGRESS);
        CHECK(now() - before > 0.09 && now() - before < 1);
        FAILS(qmp_connect(other, (struct sockaddr *)&nobody, sizeof nobody), EALREADY);
        time.tv_usec = 0;
        CHECK(qmp_setsockopt(other, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time) == 0);
        FAILS(qmp_connect(other, (struct sockaddr *)&nobody, sizeof nobody), ETIMEDOUT);
        CHECK(qmp_close(other) == 0);
        close(silent);
    }

    /* Data */
    FAILS(qmp_send(ends[0], NULL, 1, 0), EFAULT);
    FAILS(qmp_recv(ends[0], NULL, 1, 0), EFAULT);
    FAILS(qmp_send(ends[0], data, (size_t)-1, 0), EINVAL);
    FAILS(qmp_send(ends[0], data, 1, MSG_OOB), EOPNOTSUPP);
    FAILS(qmp_recv(ends[0], data, 1, MSG_OOB), EOPNOTSUPP);
    CHECK(qmp_send(ends[0], NULL, 0, 0) == 0 && qmp_recv(ends[0], NULL, 0, 0) == 0);
    FAILS(qmp_recv(ends[0], data, 1, MSG_DONTWAIT), EAGAIN);
    time.tv_sec = 0;
    time.tv_usec = 100000;
    CHECK(qmp_setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
    before = now();
    FAILS(qmp_recv(ends[0], data, 1, 0), EAGAIN);
    FAILS(qmp_recv(ends[0], data, 1, MSG_PEEK), EAGAIN);
    FAILS(qmp_recv(ends[0], data, 1, MSG_WAITALL), EAGAIN);
    CHECK(now() - before > 0.28 && now() - before < 5);
    CHECK(qmp_send(ends[1], "ab", 2, 0) == 2);
    CHECK(qmp_recv(ends[0], data, 10, MSG_WAITALL) == 2);
    CHECK(qmp_setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time) == 0);
    {
        static char much[1 << 20];
        ssize_t sent = 0, all = 0;
        while (all < 1 << 30 && (sent = qmp_send(ends[0], much, sizeof much, 0)) > 0)
            all += sent;
        CHECK(sent < 0 && errno == EAGAIN);
    }
    CHECK(qmp_setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
    FAILS(qmp_accept(listener, NULL, NULL), EAGAIN);

    /* The stream has ended here. */
    CHECK(qmp_shutdown(ends[1], SHUT_WR) == 0 && qmp_shutdown(ends[1], SHUT_WR) == 0);
    FAILS(qmp_send(ends[1], data, 1, MSG_NOSIGNAL), EPIPE);
    CHECK(pipes == 0);
    FAILS(qmp_send(ends[1], data, 1, 0), EPIPE);
    CHECK(pipes == 1);

    /* A reset is told once. */
    CHECK(qmp_close(ends[1]) == 0);
    CHECK(events_of(ends[0], POLLERR, 20000) == (POLLERR | POLLHUP));
    /* The other stream had ended before. */
    CHECK(qmp_recv(ends[0], data, 1, 0) == 0);
    FAILS(qmp_send(ends[0], data, 1, 0), ECONNRESET);
    CHECK(qmp_recv(ends[0], data, 1, 0) == 0);
    FAILS(qmp_send(ends[0], data, 1, 0), EPIPE);
    CHECK(pipes == 2 && events_of(ends[0], 0, 0) == POLLHUP && error_of(ends[0]) == 0);
    FAILS(qmp_shutdown(ends[0], SHUT_WR), ENOTCONN);
    CHECK(qmp_close(ends[0]) == 0);

    /* qmp_poll */
    FAILS(qmp_poll(NULL, 1, 0), EFAULT);
    FAILS(qmp_poll(&entry, (nfds_t)-1, 0), EINVAL);
    memset(&timer, 0, sizeof timer);
    timer.it_value.tv_usec = 100000;
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    entry.fd = listener;
    entry.events = POLLIN;
    FAILS(qmp_poll(&entry, 1, 20000), EINTR);
    CHECK(alarms == 1);

    CHECK(qmp_close(listener) == 0);
    printf("every error was told\n");
    return 0;
}

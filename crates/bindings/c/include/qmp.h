/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * QMP, the quick message protocol: a reliable stream of bytes each way, for clusters, with the calls of BSD sockets. A
 * program moves by writing qmp_ before them.
 *
 *     client                                            server
 *
 *     int fd = qmp_socket(AF_INET, SOCK_STREAM, 0);     int fd = qmp_socket(AF_INET, SOCK_STREAM, 0);
 *     qmp_connect(fd, &server, sizeof server);          qmp_bind(fd, &here, sizeof here);
 *     qmp_send(fd, request, length, 0);                 qmp_listen(fd, SOMAXCONN);
 *     qmp_recv(fd, answer, sizeof answer, 0);           int peer = qmp_accept(fd, NULL, NULL);
 *     qmp_close(fd);                                    ...
 *
 * A socket is a descriptor of the system's, so its number is like no other's. Only the calls of this header do something with
 * it; use qmp_close, not close. What waits is qmp_poll, which takes other descriptors as well. poll(), select() and epoll may wait
 * for the number of a socket that does not block (O_NONBLOCK): it is readable (POLLIN) when there is something to receive, or
 * to accept, when a connection is established, and when there is room again for what could not be sent; go on with
 * calls until they say EAGAIN. Of a socket that blocks the number is always readable.
 *
 * All functions may be called from any thread. They return what those of BSD do, -1 with errno if they fail, and are not
 * interrupted by signals, but for qmp_poll. A child process made by fork() has none of its parent's sockets (ENOTSOCK: it
 * may close() their numbers), and may make its own; the parent's go on. They are closed on exec.
 *
 * Link with -lpinnace, or with libpinnace.a and what `pkg-config --static --libs pinnace` says.
 */

#ifndef QMP_H
#define QMP_H

/* Made from the library's source, crates/bindings/c/src/qmp. Do not edit. */

#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/types.h>

/**
 * The level of QMP's own options; SOL_SOCKET has those of every socket.
 */
#define SOL_QMP 5328208

/**
 * int: of so many consecutive packets with data one asks for the receiver's status; 1 to 65536, 16 by default. Set it before
 * qmp_bind and qmp_connect.
 */
#define QMP_STATUS_EVERY 1

/**
 * int: bytes that the peer may send ahead of you, and that you may have queued to it; 65536 to 1 GiB. By default chosen for
 * the path. Set it before qmp_bind and qmp_connect. SO_RCVBUF is the same.
 */
#define QMP_WINDOW 2

/**
 * int: what carries the packets, one of QMP_LINK_UDP to QMP_LINK_SHM. Set it before qmp_bind and qmp_connect; of a connected
 * socket it says what does.
 */
#define QMP_LINK 3

/**
 * int: not 0: repeat everything from the first lost byte on, instead of what is lost. Set it before qmp_bind and
 * qmp_connect.
 */
#define QMP_GO_BACK_N 4

/**
 * int, to be read only: where the socket stands, one of QMP_QUIESCENT to QMP_INACTIVE.
 */
#define QMP_STATE 5

/**
 * int: milliseconds for which a peer may be silent before it is given up; 0: as the library thinks. Set it before qmp_bind
 * and qmp_connect.
 */
#define QMP_PEER_TIMEOUT 6

/**
 * int: not 0: a peer on this host is reached through shared memory where both have the same daemon, and QMP_LINK_UDP is set.
 * The default. Set it before qmp_bind and qmp_connect.
 */
#define QMP_SAME_HOST 7

/**
 * int: a number of qb_open (qbuf.h): where buffers for qb_write and qb_read lie, and what arrives; -1 if it was not set. Set it
 * before qmp_bind and qmp_connect; sockets that are accepted have that of their listener. The pool stays, also when its number is
 * closed. (A connection through the daemon's shared memory uses the daemon's pool: allocate with the socket's number.)
 */
#define QMP_POOL 8

/**
 * UDP: the default.
 */
#define QMP_LINK_UDP 0

/**
 * IP protocol 36: needs CAP_NET_RAW.
 */
#define QMP_LINK_IP36 1

/**
 * Ethernet frames: needs CAP_NET_RAW.
 */
#define QMP_LINK_ETHER 2

/**
 * Memory shared with processes of this host, through the daemon, and nothing else.
 */
#define QMP_LINK_SHM 3

/**
 * Nothing was begun, or it is over.
 */
#define QMP_QUIESCENT 0

/**
 * It waits for others.
 */
#define QMP_LISTENING 1

/**
 * At least one of the two streams is open.
 */
#define QMP_ACTIVE 2

/**
 * Both streams are closed, and the end has not passed.
 */
#define QMP_INACTIVE 3

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Makes a socket. `domain` is AF_INET or AF_INET6, `type` SOCK_STREAM, with SOCK_NONBLOCK or SOCK_CLOEXEC or both added if
 * you like (every socket is closed on exec), and `protocol` 0 (or IPPROTO_TCP, which is the same here).
 *
 * Returns its number, or -1: EAFNOSUPPORT, ESOCKTNOSUPPORT, EPROTONOSUPPORT for another domain, type, protocol; EMFILE or
 * ENFILE: there are no descriptors left.
 *
 *     int fd = qmp_socket(AF_INET, SOCK_STREAM, 0);
 *     if (fd < 0)
 *         perror("qmp_socket");
 */
int qmp_socket(int domain,
               int type,
               int protocol);

/**
 * Gives a socket an address; port 0 picks one, which qmp_getsockname tells. Options of QMP's own cannot be set any more.
 *
 * Returns 0, or -1: EADDRINUSE: somebody has the port; EADDRNOTAVAIL: not an address of this host; EAFNOSUPPORT: not one of
 * the socket's domain; EINVAL: the socket has an address, or `length` is too small; EACCES, EPERM: the right is missing;
 * EFAULT, EBADF, ENOTSOCK.
 *
 *     struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(4000)};
 *     if (qmp_bind(fd, (struct sockaddr *)&here, sizeof here) != 0)
 *         perror("qmp_bind");
 */
int qmp_bind(int fd,
             const struct sockaddr *address,
             socklen_t length);

/**
 * Waits for others from now on. `backlog` is not looked at: how many may wait to be accepted is limited by memory. A socket
 * without an address gets one.
 *
 * Returns 0, or -1: EADDRINUSE: somebody listens there; EINVAL: the socket is connected; EBADF, ENOTSOCK.
 *
 *     qmp_listen(fd, SOMAXCONN);
 */
int qmp_listen(int fd,
               int backlog);

/**
 * Takes the next that has come, and waits for it (SO_RCVTIMEO). `address` and `length` may be NULL; otherwise they are told
 * who it is. The new socket has the options of the listening one, but blocks.
 *
 * Returns its number, or -1: EAGAIN: nobody is there, and the socket does not block, or the time is over; EINVAL: it does not
 * listen; EMFILE, ENFILE: no descriptors left, and who came is turned away; EFAULT, EBADF, ENOTSOCK.
 *
 *     int peer = qmp_accept(fd, NULL, NULL);
 */
int qmp_accept(int fd,
               struct sockaddr *address,
               socklen_t *length);

/**
 * qmp_accept with SOCK_NONBLOCK or SOCK_CLOEXEC or both in `flags`.
 *
 * Returns as qmp_accept; EINVAL also for other flags.
 *
 *     int peer = qmp_accept4(fd, NULL, NULL, SOCK_NONBLOCK);
 */
int qmp_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);

/**
 * Connects to a listening socket, and waits for its answer (SO_SNDTIMEO). A socket that does not block returns EINPROGRESS
 * at once, and becomes writable when it is known how it went: SO_ERROR, or the next qmp_connect, tells. Data may be sent
 * before. When it has failed it may be tried again.
 *
 * Returns 0, or -1: ECONNREFUSED: nobody listens there; ETIMEDOUT: nobody answers; EINPROGRESS: it goes on; EALREADY: it went
 * on already; EISCONN: the socket is connected, or listens; ENETUNREACH, EHOSTUNREACH: there is no way; EAFNOSUPPORT: not an
 * address of the socket's domain; EINVAL: `length` is too small; EFAULT, EBADF, ENOTSOCK.
 *
 *     if (qmp_connect(fd, (struct sockaddr *)&there, sizeof there) != 0 && errno != EINPROGRESS)
 *         perror("qmp_connect");
 */
int qmp_connect(int fd,
                const struct sockaddr *address,
                socklen_t length);

/**
 * Sends bytes: they are copied, and acknowledged later (qb_write of qbuf.h does not copy). Waits until all of them are taken;
 * a socket that does not block takes what there is room for, and so does MSG_DONTWAIT. SO_SNDTIMEO is how long it waits while
 * nothing is taken. MSG_NOSIGNAL: no SIGPIPE with EPIPE. MSG_MORE, MSG_DONTROUTE and MSG_CONFIRM do nothing.
 *
 * Returns how many bytes were taken, or -1: EAGAIN: no room now; EPIPE: the stream has ended here, and SIGPIPE is raised;
 * ECONNRESET: the peer has ended it; ETIMEDOUT: the peer is gone; ECONNREFUSED: nobody listened; ENOTCONN; EOPNOTSUPP: another
 * flag; EINVAL: too long; EFAULT, EBADF, ENOTSOCK. An error of the connection is told once; after that, sending is EPIPE.
 *
 *     ssize_t sent = qmp_send(fd, data, size, MSG_NOSIGNAL);
 */
ssize_t qmp_send(int fd,
                 const void *data,
                 size_t size,
                 int flags);

/**
 * Receives what is there, and waits for the first byte (SO_RCVTIMEO), but not with MSG_DONTWAIT or if the socket does not
 * block. MSG_PEEK: it stays there. MSG_WAITALL: waits until `data` is full (without MSG_PEEK).
 *
 * Returns how many bytes, 0 at the end of the stream, or -1: EAGAIN: nothing is there, or the time is over; ECONNRESET: the
 * peer has ended it in the middle; ETIMEDOUT: the peer is gone; ECONNREFUSED: nobody listened; ENOTCONN; EOPNOTSUPP: another
 * flag; EINVAL: too long; EFAULT, EBADF, ENOTSOCK. An error of the connection is told once; after that, the stream has ended.
 *
 *     while ((size = qmp_recv(fd, data, sizeof data, 0)) > 0)
 *         take(data, (size_t)size);
 */
ssize_t qmp_recv(int fd,
                 void *data,
                 size_t size,
                 int flags);

/**
 * qmp_send of several buffers in a row. An address and control data have no meaning here.
 *
 * Returns as qmp_send; EISCONN: there is an address; EMSGSIZE: more than 1024 buffers.
 *
 *     struct iovec parts[2] = {{&header, sizeof header}, {body, length}};
 *     struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
 *     ssize_t sent = qmp_sendmsg(fd, &message, 0);
 */
ssize_t qmp_sendmsg(int fd, const struct msghdr *message, int flags);

/**
 * qmp_recv into several buffers in a row. `msg_namelen`, `msg_controllen` and `msg_flags` become 0.
 *
 * Returns as qmp_recv; EMSGSIZE: more than 1024 buffers.
 *
 *     ssize_t size = qmp_recvmsg(fd, &message, MSG_WAITALL);
 */
ssize_t qmp_recvmsg(int fd, struct msghdr *message, int flags);

/**
 * Ends one half of the connection, or both: SHUT_WR: the peer reads what was sent, and then the end of the stream; SHUT_RD:
 * what comes is read by nobody, and the peer is not told; SHUT_RDWR.
 *
 * Returns 0, or -1: ENOTCONN; EINVAL: another `how`; EBADF, ENOTSOCK.
 *
 *     qmp_shutdown(fd, SHUT_WR);
 */
int qmp_shutdown(int fd,
                 int how);

/**
 * Closes a socket. What was sent still arrives, in the background; what has come and was not read, or SO_LINGER with 0 seconds,
 * makes that a reset (the peer gets ECONNRESET); SO_LINGER with more seconds waits so long for everything to be acknowledged. A
 * process that exits waits at most 5 s for its closed sockets. A call of another thread that waits on this socket goes on
 * waiting, and the socket is open until it returns.
 *
 * Returns 0, or -1: EBADF, ENOTSOCK: no socket.
 *
 *     qmp_close(fd);
 */
int qmp_close(int fd);

/**
 * Reads an option. Of SOL_SOCKET: SO_ERROR (what the connection has failed with, once), SO_TYPE, SO_DOMAIN, SO_PROTOCOL,
 * SO_ACCEPTCONN, SO_LINGER, SO_RCVTIMEO, SO_SNDTIMEO, SO_REUSEADDR, SO_REUSEPORT, SO_KEEPALIVE, SO_RCVBUF, SO_SNDBUF; of
 * IPPROTO_TCP: TCP_NODELAY (1), TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_USER_TIMEOUT; of SOL_QMP: all.
 *
 * Returns 0, or -1: ENOPROTOOPT: no such option; EINVAL: `*length` is negative; EFAULT, EBADF, ENOTSOCK.
 *
 *     int why;
 *     socklen_t length = sizeof why;
 *     qmp_getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &length);
 */
int qmp_getsockopt(int fd,
                   int level,
                   int name,
                   void *value,
                   socklen_t *length);

/**
 * Sets an option. Of SOL_SOCKET: SO_LINGER, SO_RCVTIMEO, SO_SNDTIMEO, SO_RCVBUF (QMP_WINDOW, and a wish once the socket is
 * bound), SO_KEEPALIVE; SO_REUSEADDR, SO_REUSEPORT and SO_SNDBUF are kept and do nothing; of IPPROTO_TCP: TCP_NODELAY, which
 * is so anyway, TCP_KEEPIDLE, TCP_KEEPINTVL and TCP_KEEPCNT (at which times of silence keep-alive gives the peer up with
 * ETIMEDOUT) and TCP_USER_TIMEOUT, all of them where that is earlier than QMP_PEER_TIMEOUT; of SOL_QMP: QMP_STATUS_EVERY, QMP_WINDOW, QMP_LINK, QMP_GO_BACK_N, QMP_PEER_TIMEOUT,
 * QMP_SAME_HOST, QMP_POOL.
 *
 * Returns 0, or -1: ENOPROTOOPT: no such option, or it is only read; EINVAL: not a value of it, or `length` is too small;
 * EDOM: not a time; EISCONN: too late, the socket is bound or connected; EFAULT, EBADF (also: QMP_POOL is no number of
 * qb_open), ENOTSOCK.
 *
 *     int every = 4;
 *     qmp_setsockopt(fd, SOL_QMP, QMP_STATUS_EVERY, &every, sizeof every);
 */
int qmp_setsockopt(int fd,
                   int level,
                   int name,
                   const void *value,
                   socklen_t length);

/**
 * Where the socket is. `*length` is the room at `address`, and then how long the address is, also if it was cut.
 *
 * Returns 0, or -1: EFAULT, EBADF, ENOTSOCK.
 *
 *     struct sockaddr_in here;
 *     socklen_t length = sizeof here;
 *     qmp_getsockname(fd, (struct sockaddr *)&here, &length);
 */
int qmp_getsockname(int fd, struct sockaddr *address, socklen_t *length);

/**
 * Where the other end is; otherwise as qmp_getsockname.
 *
 * Returns 0, or -1: ENOTCONN; EFAULT, EBADF, ENOTSOCK.
 *
 *     qmp_getpeername(fd, (struct sockaddr *)&there, &length);
 */
int qmp_getpeername(int fd, struct sockaddr *address, socklen_t *length);

/**
 * poll() for sockets of QMP and any other descriptors, mixed: POLLIN, POLLOUT, POLLRDHUP, POLLERR and POLLHUP are said as of
 * TCP's, and hold for the call that follows, also on sockets that block. Waits at most `timeout` milliseconds, or for ever if
 * that is negative.
 *
 * Returns how many entries have something, 0 if the time is over, or -1: EINTR: a signal came; EFAULT: no entries; EINVAL: too
 * many; ENOMEM. A closed number is POLLNVAL.
 *
 *     struct pollfd entries[2] = {{fd, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
 *     int ready = qmp_poll(entries, 2, -1);
 */
int qmp_poll(struct pollfd *entries,
             nfds_t count,
             int timeout);

/**
 * fcntl() for a socket: F_GETFL and F_SETFL with O_NONBLOCK, and F_GETFD and F_SETFD. It has always three arguments.
 *
 * Returns what fcntl() does, or -1: EINVAL: another command; EBADF, ENOTSOCK.
 *
 *     qmp_fcntl(fd, F_SETFL, O_NONBLOCK);
 */
int qmp_fcntl(int fd, int command, int argument);

/**
 * ioctl() for a socket: FIONREAD: how many bytes can be read; FIONBIO: not 0: it does not block any more.
 *
 * Returns 0, or -1: ENOTTY: another request; EINVAL: FIONREAD of a socket that listens; EFAULT, EBADF, ENOTSOCK.
 *
 *     int size;
 *     qmp_ioctl(fd, FIONREAD, &size);
 */
int qmp_ioctl(int fd, unsigned long request, int *argument);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* QMP_H */

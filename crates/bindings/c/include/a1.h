/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A1: messages with qualities of service, to one peer or to many. Every connection has at each end a record (struct a1_qos) of
 * rates, bursts, priority, sizes, and whether what is lost is sent again; it can change while messages flow.
 *
 *     sender                                            sink
 *
 *     int s = a1_socket();                              int s = a1_socket();
 *     a1_bind(s, 0, &max);                              a1_bind(s, here, &max);
 *     a1_add_sink(s, there, &qos, NULL);                a1_listen(s, 16);
 *     a1_add_sink(s, elsewhere, &qos, NULL);            int c = a1_accept(s, NULL, 0, NULL);
 *     a1_send(s, data, size, 0, &status);               size = a1_recv(c, data, sizeof data, 0, &status);
 *     a1_close(s, 5000);                                a1_close(c, 5000);
 *
 * Addresses are 64 bits: the host, an IPv4 address, shifted left by 32, and the UDP port; both as numbers, not in network order
 * ((uint64_t)INADDR_LOOPBACK << 32 | 4000). Hosts of 240.0.0.0/4 stand for IPv6 hosts (a1_map_host).
 *
 * All functions return 0 or more, or a negative errno (-EAGAIN, ...; errno itself is not set). A full window is yours to know:
 * calls wait, or with A1_DONTWAIT return at once, and most say in a status of 32 bits (enum a1_status) what is so. They may be
 * called from any thread, and are not interrupted by signals. A socket's number is like no descriptor's, and is given once:
 * after a1_close it is -EBADF for ever. A child process made by fork() has none of its parent's sockets (-EBADF), and may make its own.
 *
 * Link with -lpinnace, or with libpinnace.a and what `pkg-config --static --libs pinnace` says.
 */

#ifndef A1_H
#define A1_H

/* Made from the library's source, crates/bindings/c/src/a1. Do not edit. */

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/**
 * The bits of `flags`.
 */
enum a1_flags {
    /**
     * Do not wait: -EAGAIN instead.
     */
    A1_DONTWAIT = 1,
};

/**
 * The bits of `*status`.
 */
enum a1_status {
    /**
     * A message starts with these bytes.
     */
    A1_START = 1,
    /**
     * A message ends with these bytes.
     */
    A1_END = 2,
    /**
     * The peer has closed the connection (of several sinks: one of them).
     */
    A1_PEER_CLOSED = 4,
    /**
     * The connection was aborted: by the peer, or because it does not answer (of several sinks: one of them).
     */
    A1_ABORTED = 8,
    /**
     * As many messages as agreed are under way, and there is no room for another.
     */
    A1_WINDOW_FULL = 16,
    /**
     * More is queued than the rate lets leave now.
     */
    A1_RATE_EXCEEDED = 32,
    /**
     * A change of the quality of service is under way: the smaller of old and new holds.
     */
    A1_QOS_PENDING = 64,
    /**
     * The quality of service has changed. Told once.
     */
    A1_QOS_CHANGED = 128,
    /**
     * Without retransmission: data were lost before these bytes, or since the last ones.
     */
    A1_LOST = 256,
};

/**
 * The bits of `options` of a record.
 */
enum a1_options {
    /**
     * Datagrams have checksums of their own; without, those of UDP have to do.
     */
    A1_CHECKSUM = 1,
    /**
     * Reliable: what is lost is sent again. Without, raw: it is told (A1_LOST).
     */
    A1_RETRANSMISSION = 2,
};

/**
 * A record of quality of service: what one end of a connection does and bears. Checksum and retransmission must be the same at
 * both ends, and neither may send larger messages than the other receives (-ECONNREFUSED). Set all of it, or `= {0}` first.
 */
struct a1_qos {
    /**
     * A1_CHECKSUM, A1_RETRANSMISSION, both, or 0; other bits are -EINVAL.
     */
    uint16_t options;
    /**
     * Which connection of a socket sends first, of its sinks' and of those that it has accepted: 0 is the most urgent, 255 the
     * least. It shows where a1_set_link has said what the link carries.
     */
    uint8_t priority;
    /**
     * 0, or -EINVAL.
     */
    uint8_t reserved;
    /**
     * Bytes of a block, what a datagram carries: 1 to 65475. 0: as large as the path carries in one piece; where a connection
     * exists, or its maximum is known, what they have. The smaller of both ends' is in force.
     */
    uint32_t block_size;
    /**
     * Bytes per second that are sent, in the long run. 0: no limit.
     */
    uint64_t send_average;
    /**
     * Bytes that may be sent at once beyond that; at least a block.
     */
    uint32_t send_burst;
    /**
     * Bytes per second that may be received, in the long run. 0: no limit.
     */
    uint64_t receive_average;
    /**
     * Bytes that may be received at once beyond that.
     */
    uint32_t receive_burst;
    /**
     * Bytes of the largest message that is sent; longer ones are -EMSGSIZE.
     */
    uint32_t largest_sent;
    /**
     * Bytes of the largest message that is received.
     */
    uint32_t largest_received;
    /**
     * How many messages of the largest size may be under way and not consumed, each way. That, in blocks, is the window.
     */
    uint32_t outstanding;
    /**
     * Microseconds after which what has not left of a message is dropped. 0: never. With A1_RETRANSMISSION nothing is.
     */
    uint32_t deadline_us;
};

/**
 * A received message, where it arrived. It is yours until you free it: move `data` and `len` as you like, between `base` and
 * `base + size`, and pass it on; whoever is last calls `free_fn`.
 */
struct a1_buffer {
    /**
     * The memory, or NULL if there is none (of an empty message).
     */
    void *base;
    /**
     * Its bytes.
     */
    size_t size;
    /**
     * The message.
     */
    void *data;
    /**
     * Its bytes.
     */
    size_t len;
    /**
     * What frees it: a1_free_buffer.
     */
    void (*free_fn)(struct a1_buffer *buffer);
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Makes a socket, which is nothing yet: a1_bind makes something of it.
 *
 * Returns its number, which is none of a descriptor, or -EMFILE: two thousand million were made.
 *
 *     int s = a1_socket();
 */
int a1_socket(void);

/**
 * Binds a socket to an address of this host. `addr` is the host, an IPv4 address or one of a1_map_host, shifted left by 32, and the
 * UDP port. Host 0: all addresses of this host, IPv6 and IPv4; port 0: one is chosen, which a1_name tells. No connection of
 * the socket will have more than `max` says.
 *
 * Returns 0, or -EADDRINUSE: somebody has the port; -EADDRNOTAVAIL: not an address of this host; -EACCES: the right is
 * missing; -EINVAL: the socket is bound or was accepted, the port is above 65535, or `max` is impossible: options or reserved
 * that mean nothing, a block size above 65475, or a window of 2^20 blocks or more; -EFAULT: `max` is NULL; -EBADF.
 *
 *     struct a1_qos max = {.options = A1_CHECKSUM | A1_RETRANSMISSION, .largest_sent = 65536, .largest_received = 65536,
 *                          .outstanding = 16};
 *     a1_bind(s, (uint64_t)INADDR_LOOPBACK << 32 | 4000, &max);
 */
int a1_bind(int s,
            uint64_t addr,
            const struct a1_qos *max);

/**
 * Says what the link carries: all connections of the socket together, those that it accepts too, send no faster than `average`
 * bytes of datagrams a second (0: no limit) and `burst` bytes at once. Before a1_bind. Where that is the bottleneck, connections
 * of a lower priority wait for those of a higher one; without it nobody waits.
 *
 * Returns 0, or -EINVAL: the socket is bound or was accepted; -EBADF.
 *
 *     a1_set_link(s, 2500000, 6000);
 */
int a1_set_link(int s,
                uint64_t average,
                uint32_t burst);

/**
 * Tells the address of a socket. Its host is 0 if it is bound to all, or to one of IPv6 that a1_map_host has not named.
 *
 * Returns 0, or -EINVAL: it is not bound; -EFAULT: `addr` is NULL; -EBADF.
 *
 *     uint64_t here;
 *     if (a1_name(s, &here) == 0)
 *         printf("port %u\n", (unsigned)here);
 */
int a1_name(int s, uint64_t *addr);

/**
 * Lets others add this socket as a sink. At most `backlog` of them (at least one) wait for a1_accept; those beyond are refused.
 *
 * Returns 0, or -EADDRINUSE: it listens already; -EINVAL: it is not bound, or was accepted; -EBADF.
 *
 *     a1_listen(s, 16);
 */
int a1_listen(int s,
              int backlog);

/**
 * Takes the next that has come, and waits for it, but not with A1_DONTWAIT. `peer` is told its address (host 0: an IPv6 host that
 * a1_map_host has not named), `status` what is known of it; both may be NULL. The new socket sends to that peer, and receives
 * from it; a1_close it. It goes on when the listening one is closed.
 *
 * Returns its number, or -EAGAIN: nobody is there; -EINVAL: the socket does not listen, or another thread has closed it
 * meanwhile, or other flags; -EMFILE; -EBADF.
 *
 *     uint64_t peer;
 *     int c = a1_accept(s, &peer, 0, NULL);
 */
int a1_accept(int s,
              uint64_t *peer,
              int flags,
              uint32_t *status);

/**
 * Adds a destination of what a1_send sends from now on; the first one opens, each further one gets the same messages. Waits until
 * the listener at `addr` has accepted or refused. `initial`, within the socket's maximum, is this end's record. Each sink
 * has a connection of its own, and what it sends is received with a1_recv. `status` may be NULL.
 *
 * Returns 0, or -ECONNREFUSED: nobody listens there, or with too different a quality of service, or without room;
 * -ETIMEDOUT: nobody has answered for 128 s; -EPERM: beyond the maximum; -EEXIST: it is a sink already (one that has died is replaced);
 * -EHOSTUNREACH: a host of 240.0.0.0/4 that a1_map_host does not know; -EINVAL: the socket is not bound, or was accepted, host
 * or port are 0, the port is above 65535, or the record is impossible; -ENOBUFS: too many connections; -EFAULT: `initial` is
 * NULL; -EBADF.
 *
 *     if (a1_add_sink(s, (uint64_t)INADDR_LOOPBACK << 32 | 4000, &max, NULL) == -ECONNREFUSED)
 *         fputs("nobody listens\n", stderr);
 */
int a1_add_sink(int s,
                uint64_t addr,
                const struct a1_qos *initial,
                uint32_t *status);

/**
 * Ends a destination. It has 5 s to get what is queued, in the background, and gets nothing that is sent from now on.
 *
 * Returns 0, or -ENOENT: no sink has this address; -EINVAL, -EHOSTUNREACH: as a1_add_sink; -EBADF.
 *
 *     a1_remove_sink(s, (uint64_t)INADDR_LOOPBACK << 32 | 4000);
 */
int a1_remove_sink(int s, uint64_t addr);

/**
 * Sends one message: of a socket with sinks, to all of them; of one that was accepted, to its peer. It is copied, and
 * goes on by itself. If the window is full, waits until there is room; with A1_DONTWAIT that is -EAGAIN, and `status` says why:
 * A1_WINDOW_FULL, A1_RATE_EXCEEDED, or both. A sink that dies does not stop the others; A1_PEER_CLOSED and A1_ABORTED tell that one
 * has ended, until it is removed. `status` may be NULL.
 *
 * Returns `len`, or -EAGAIN; -EMSGSIZE: longer than the largest message, or more than 65535 blocks; -ENOMEM: there is no
 * memory for the copy; -ENOTCONN: there is no sink, or another thread has closed the socket meanwhile; -EPIPE: the peer (or the
 * last sink) has closed; -ECONNRESET, -ETIMEDOUT, -ECONNABORTED: it was aborted; -EINVAL: other flags; -EFAULT: `buf` is NULL, and
 * `len` not 0; -EBADF.
 *
 *     uint32_t status;
 *     if (a1_send(s, data, size, A1_DONTWAIT, &status) == -EAGAIN && (status & A1_WINDOW_FULL))
 *         skip(data);
 */
ssize_t a1_send(int s,
                const void *buf,
                size_t len,
                int flags,
                uint32_t *status);

/**
 * Receives bytes of one message, and waits for it, but not with A1_DONTWAIT: the whole message if there is room for it, otherwise
 * as much as there is room for, and the rest with the next calls. A1_START comes with its first bytes, A1_END with its last. Without
 * retransmission less may come, without A1_END, where something was lost; A1_LOST comes with what stands behind. Of several sinks,
 * one message after the other, in turn. `status` may be NULL, but only it tells an empty message from the end.
 *
 * Returns how many bytes; 0 with A1_PEER_CLOSED and without A1_START: the peer has closed (all sinks have), and everything was
 * read; or -EAGAIN: nothing is there, or not all of what would fill `buf`; -ECONNRESET: the peer has aborted, or closed before
 * everything had come; -ETIMEDOUT: it does not answer any more; -EPROTO: it broke the protocol; -ECONNABORTED: the connection was
 * ended here; -ENOTCONN: there is no sink; -EINVAL: `len` is 0 or too large, or other flags; -EFAULT: `buf` is NULL; -EBADF.
 *
 *     uint32_t status;
 *     ssize_t size = a1_recv(c, data, sizeof data, 0, &status);
 *     if (size == 0 && !(status & A1_START))
 *         puts("closed");
 *     else if (size >= 0 && (status & A1_END))
 *         take(data, (size_t)size);
 */
ssize_t a1_recv(int s,
                void *buf,
                size_t len,
                int flags,
                uint32_t *status);

/**
 * Receives a message without copying it, in the memory that it arrived in, and waits for it, but not with A1_DONTWAIT. `*out` is
 * yours until you free it, also after the socket was closed; it is NULL if there is none. Without retransmission it may be
 * a part, which `status` tells, and after a1_recv with too little room it is the rest.
 *
 * Returns its bytes, or as a1_recv; -EFAULT: `out` is NULL.
 *
 *     struct a1_buffer *b;
 *     ssize_t size = a1_recv_buffer(c, &b, 0, &status);
 *     if (b != NULL) {
 *         take(b->data, b->len);
 *         b->free_fn(b);
 *     }
 */
ssize_t a1_recv_buffer(int s,
                       struct a1_buffer **out,
                       int flags,
                       uint32_t *status);

/**
 * Frees a buffer of a1_recv_buffer: its memory is used again. NULL, one that is free already, and what is none are nothing.
 *
 *     a1_free_buffer(b);
 */
void a1_free_buffer(struct a1_buffer *buffer);

/**
 * Changes this end's record of quality of service, of a socket with sinks for all of them, and does not wait: A1_QOS_PENDING
 * until the peer has accepted it, perhaps with lower rates, and A1_QOS_CHANGED once then. Nothing is lost or reordered. Block
 * size, checksum and retransmission cannot change (block size 0: as it is). `status` may be NULL.
 *
 * Returns 0, or -EPERM: beyond the maximum, or in what cannot change: a new connection is needed; -ENOTCONN: there is no sink;
 * -EPIPE, -ECONNRESET, -ETIMEDOUT: the connection has ended; -EINVAL: the record is impossible; -EFAULT: it is NULL; -EBADF.
 *
 *     struct a1_qos qos;
 *     a1_getqos(s, &qos);
 *     qos.send_average = 1000000;
 *     a1_setqos(s, &qos, NULL);
 */
int a1_setqos(int s,
              const struct a1_qos *qos,
              uint32_t *status);

/**
 * Tells this end's record as it is in force: of several sinks, of the first that lives; of a socket without sinks, its
 * maximum, with the block size that was chosen.
 *
 * Returns 0, or -EINVAL: the socket is not bound; -EPIPE: nothing is known any more; -EFAULT: `qos` is NULL; -EBADF.
 *
 *     struct a1_qos qos;
 *     a1_getqos(s, &qos);
 */
int a1_getqos(int s, struct a1_qos *qos);

/**
 * Tells the round trip, smoothed, in microseconds: of several sinks, the longest. It is measured at the beginning, and every 100
 * ms while something is sent.
 *
 * Returns 0, or -EAGAIN: it has not been measured yet; -ENOTCONN: there is no sink; -EFAULT: `microseconds` is NULL; -EBADF.
 *
 *     uint32_t microseconds;
 *     if (a1_rtt(s, &microseconds) == 0)
 *         printf("%u us\n", (unsigned)microseconds);
 */
int a1_rtt(int s,
           uint32_t *microseconds);

/**
 * Lets `host`, one of 240.0.0.0/4, stand for an IPv6 host in this process from now on; the port of `to` does not count. There is one
 * table, for all sockets.
 *
 * Returns 0, or -EINVAL: the host is not one of 240.0.0.0/4; -EAFNOSUPPORT: `to` is not AF_INET6; -EFAULT: it is NULL.
 *
 *     struct sockaddr_in6 to = {.sin6_family = AF_INET6};
 *     inet_pton(AF_INET6, "2001:db8::1", &to.sin6_addr);
 *     a1_map_host(0xF0000001, &to);
 *     a1_add_sink(s, (uint64_t)0xF0000001 << 32 | 4000, &qos, NULL);
 */
int a1_map_host(uint32_t host,
                const struct sockaddr_in6 *to);

/**
 * Closes a socket: what was sent has `linger_ms` milliseconds to arrive (without retransmission: to leave), which is waited for;
 * then the peer, or all sinks, are told. The number is good for nothing from then on, whatever is returned. Connections that
 * were accepted go on, and keep the port. A process that exits closes what is open, and waits at most 5 s.
 *
 * Returns 0, or -ETIMEDOUT: something did not arrive in time; -ECONNRESET, -ECONNABORTED, -EPROTO: the connection had ended
 * otherwise (a sink that had died before does not count); -EBADF: no socket, or closed already.
 *
 *     a1_close(s, 5000);
 */
int a1_close(int s,
             uint32_t linger_ms);

/**
 * For a loop of your own: a descriptor that is readable (POLLIN) when a1_recv or a1_accept would not wait, and also when
 * something else has happened: there is room again, the quality of service has changed, some but not all of a message has come.
 * So: wait, call with A1_DONTWAIT until -EAGAIN, and wait again. It is to be polled and nothing else, and valid until
 * a1_close.
 *
 * Returns it, or -EMFILE, -ENFILE: there are no descriptors left; -EBADF.
 *
 *     struct pollfd entry = {.fd = a1_fd(c), .events = POLLIN};
 *     poll(&entry, 1, -1);
 */
int a1_fd(int s);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* A1_H */

/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * ZCRP, the zero copying reliable protocol: messages from one process to another, over datagram sockets that you have
 * connected, each received straight into the buffer that its receiver has named for it.
 *
 *     sender                                      receiver
 *
 *     int fd[2] = {control, units};               int fd[2] = {control, units};
 *     zcrp_send_init(fd);                         zcrp_rcv_init(fd);
 *     struct zcrp_msg *m = zcrp_alloc_msg(n);     struct zcrp_msg *m = zcrp_alloc_msg(n);
 *     memcpy(m->buffer, data, n);
 *     zcrp_send(m, n);                            zcrp_rcv(m, n);
 *     ... other work ...                          ... other work ...
 *     if (!zcrp_wait(m))                          if (!zcrp_wait(m))
 *         perror("sending");                          perror("receiving");
 *                                                 else
 *                                                     use(m->buffer, m->message_size);
 *     zcrp_free_msg(m);                           zcrp_free_msg(m);
 *     zcrp_send_close();                          zcrp_rcv_close();
 *
 * The n-th message sent goes into the n-th buffer received into. All functions may be called from any thread. Those that
 * fail say why in errno. Null pointers are refused with EINVAL. A child process made by fork() starts with nothing: call
 * zcrp_send_init and zcrp_rcv_init after fork(), not before.
 *
 * Link with -lpinnace, or with libpinnace.a and what `pkg-config --static --libs pinnace` says.
 */

#ifndef ZCRP_H
#define ZCRP_H

/* Made from the library's source, crates/bindings/c/src/abi.rs. Do not edit. */

#include <stdint.h>

/**
 * A receiver of its own: for programs that need more than the one of zcrp_rcv_init.
 */
struct zcrp_receiver;

/**
 * A sender of its own: for programs that need more than the one of zcrp_send_init.
 */
struct zcrp_sender;

/**
 * A byte; also a truth value, 1 or 0.
 */
typedef unsigned char nbyte;

/**
 * A size or a number.
 */
typedef uint32_t nlong;

/**
 * A message: a buffer, and what became of it.
 *
 * Made by zcrp_alloc_msg, never by hand, and never copied. Between zcrp_send or zcrp_rcv and the end (zcrp_wait has
 * returned, or zcrp_probe said 1) the message is under way: do not write to its buffer then, nor read it if it is being
 * received into.
 */
struct zcrp_msg {
    /**
     * The bytes. Yours to fill and to read while the message is not under way.
     */
    nbyte *buffer;
    /**
     * Set by zcrp_send and zcrp_rcv: the n-th message sent goes into the n-th received, counting from 0.
     */
    nlong number;
    /**
     * The size that was asked of zcrp_alloc_msg; after a receive, the size that was received.
     */
    nlong message_size;
    /**
     * Bytes behind `buffer`: more than the message may have, for the protocol's trailer.
     */
    nlong buffer_size;
    /**
     * The library's own.
     */
    void *private_[4];
};

/**
 * See zcrp_sender_open.
 */
typedef struct zcrp_sender zcrp_sender_t;

/**
 * See zcrp_receiver_open.
 */
typedef struct zcrp_receiver zcrp_receiver_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Allocates a message of `size` bytes, all zero. It can be used again and again, for sending and receiving anything that
 * is no longer than that; `size` may be 0.
 *
 * Returns NULL if there is no memory.
 */
struct zcrp_msg *zcrp_alloc_msg(nlong size);

/**
 * Frees a message. One that is under way goes on, and its memory is kept until it ends; nobody can wait for it any more.
 * NULL is nothing.
 */
void zcrp_free_msg(struct zcrp_msg *message);

/**
 * Makes this process a sender. Two descriptors of connected datagram sockets (UDP, or AF_UNIX): `file_descriptors[0]` is
 * the control channel, which the sender reads; `file_descriptors[1]` is the unit channel, which it writes. The same
 * descriptor twice is one duplex channel.
 *
 * The sockets stay yours: their flags and options are not changed, and you close them, whenever you like, since the
 * library uses duplicates. Do not read or write them yourself meanwhile.
 *
 * Returns 1, or 0 if the process is a sender already (EALREADY), if a descriptor is none of a connected datagram socket
 * (EBADF, ENOTSOCK, EINVAL), or if another sender or receiver reads the same socket and cannot share it (EBUSY).
 */
nbyte zcrp_send_init(int *file_descriptors);

/**
 * Makes this process a receiver, which reads units from `file_descriptors[1]` and writes to the control channel,
 * `file_descriptors[0]`. Otherwise as zcrp_send_init. A process may be both, also on one duplex channel.
 */
nbyte zcrp_rcv_init(int *file_descriptors);

/**
 * Begins to send the first `size` bytes of a message, and returns at once. They travel when the receiver has called
 * zcrp_rcv as often. Many messages may be under way.
 *
 * Returns 1, or 0 without taking a number: if `size` is more than the message was allocated for (EMSGSIZE), if the
 * message is under way (EBUSY), before zcrp_send_init and after zcrp_send_close (ENOTCONN), or if the peer has
 * disappeared (ETIMEDOUT).
 */
nbyte zcrp_send(struct zcrp_msg *message, nlong size);

/**
 * Begins to receive at most `size` bytes into a message, and returns at once. Bytes of the buffer beyond `size` are not
 * touched. Returns as zcrp_send does.
 */
nbyte zcrp_rcv(struct zcrp_msg *message, nlong size);

/**
 * Another name of zcrp_rcv.
 */
nbyte zcrp_recv(struct zcrp_msg *message, nlong size);

/**
 * Waits until a message is acknowledged in full, if it is being sent, or is here in full, if it is being received; the
 * thread that waits does the protocol's work. Several threads may wait for one message, and once it has ended, waiting
 * again gives the same answer.
 *
 * Returns 1, or 0 if it failed: it is longer than the receiver's `size` (EMSGSIZE; both ends are told, and later messages
 * go on), the peer has not been heard of for too long (ETIMEDOUT), the sender or receiver was closed (ECANCELED), the
 * socket failed (its error), or the message was never sent or received (EINVAL). A send that failed is not known to have
 * arrived.
 */
nlong zcrp_wait(struct zcrp_msg *message);

/**
 * Whether a message has ended, well or not (zcrp_wait then returns at once and says which). Never blocks, but moves the
 * protocol on, so asking in a loop is enough. Returns 1 or 0.
 */
nbyte zcrp_probe(struct zcrp_msg *message);

/**
 * Ends the sender of zcrp_send_init; what is under way fails (ECANCELED). It may be opened again afterwards. Also done
 * when the process exits. Returns 1, or 0 if there is none (ENOTCONN).
 */
nbyte zcrp_send_close(void);

/**
 * Ends the receiver of zcrp_rcv_init; what is under way fails (ECANCELED). For 40 ms more it repeats its newest
 * acknowledgement, which may have been lost, and answers repetitions; then the call returns. The receiver may be opened
 * again afterwards. Also done when the process exits. Returns 1, or 0 if there is none (ENOTCONN).
 */
nbyte zcrp_rcv_close(void);

/**
 * Sets a setting, for every sender and receiver that is opened from now on; 0 goes back to the default, which mostly
 * depends on the path. Survives fork().
 *
 *   unit_bytes                size of unit datagrams, 29 to 65,507; by default what the path carries
 *   control_bytes             size of control datagrams at most, 16 to 65,504
 *   window_units              units in transit at most
 *   window_bytes              bytes in transit at most
 *   rate                      bytes of unit datagrams a second at most; by default what the path takes
 *   congestion_fixed          a fixed window of so many bytes, and no congestion control: for closed networks
 *   congestion_cubic          1: the CUBIC congestion controller
 *   congestion_bbr            1: the BBR congestion controller; 2 to 50: of a path that loses up to so many percent
 *                             of what is sent by itself
 *   profile_internet          1: behave as on a shared network; by default loopback addresses and AF_UNIX are not
 *   profile_cluster           1: behave as on a network of our own
 *   peer_timeout_ms           when a silent peer counts as gone; 10,000 by default
 *   ack_units, ack_bytes      acknowledge when so much is unreported ...
 *   ack_delay_us              ... or after this time
 *   reorder_units             a gap counts as loss when so many later units have come ...
 *   reorder_delay_us          ... or after this time
 *   request_interval_ms       first repetition of a request, doubled up to request_interval_max_ms
 *   request_interval_max_ms
 *   idle_interval_ms          how often a sender says that it waits for a receiver
 *   timeout_floor_us          shortest retransmission time-out
 *   max_messages              messages under way at most, in each direction
 *   spin_us                   how long a waiting thread looks again before it sleeps; -1: for ever, 0: not at all
 *
 * Returns 1, or 0 if there is no such setting (ENOENT) or it cannot have this value (EINVAL).
 */
int zcrp_set(const char *name, long value);

/**
 * Tells a setting (see zcrp_set) or a counter by its name. A setting is told as it is in force at the sender of
 * zcrp_send_init, or else at the receiver of zcrp_rcv_init; if there is neither, as it was set, or 0.
 *
 * Counters are those of that sender and that receiver, or the last of them: messages_sent, units_sent, units_resent,
 * timeouts, messages_received, bytes_received, units_in_place, units_copied, bytes_copied, units_duplicate, and whatever
 * else the documentation lists. A name that both count is told as their sum; "sender.messages_failed" and
 * "receiver.messages_failed" are told apart.
 *
 * Returns -1 if there is no such name (ENOENT).
 */
long zcrp_get(const char *name);

/**
 * Opens another sender, as zcrp_send_init does. Messages are sent by zcrp_sender_send, and waited for by zcrp_wait and
 * zcrp_probe. Returns NULL where zcrp_send_init returns 0.
 */
zcrp_sender_t *zcrp_sender_open(const int *file_descriptors);

/**
 * As zcrp_send, with this sender.
 */
nbyte zcrp_sender_send(zcrp_sender_t *sender, struct zcrp_msg *message, nlong size);

/**
 * As zcrp_get, of this sender alone.
 */
long zcrp_sender_get(const zcrp_sender_t *sender, const char *name);

/**
 * As zcrp_send_close, with this sender, which is of no use any more. NULL is nothing.
 */
void zcrp_sender_close(zcrp_sender_t *sender);

/**
 * Opens another receiver, as zcrp_rcv_init does. Messages are received by zcrp_receiver_rcv, and waited for by zcrp_wait
 * and zcrp_probe. Returns NULL where zcrp_rcv_init returns 0.
 */
zcrp_receiver_t *zcrp_receiver_open(const int *file_descriptors);

/**
 * As zcrp_rcv, with this receiver.
 */
nbyte zcrp_receiver_rcv(zcrp_receiver_t *receiver, struct zcrp_msg *message, nlong size);

/**
 * As zcrp_get, of this receiver alone.
 */
long zcrp_receiver_get(const zcrp_receiver_t *receiver, const char *name);

/**
 * As zcrp_rcv_close, with this receiver, which is of no use any more. NULL is nothing.
 */
void zcrp_receiver_close(zcrp_receiver_t *receiver);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ZCRP_H */

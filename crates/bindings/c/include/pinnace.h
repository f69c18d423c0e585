/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Pinnace: messages between programs. Declare the service that you need, and get the transport that offers it most cheaply:
 * reliable messages in place, frames that may lose something within a contract, transactions, streams, shared memory.
 *
 *     receiver                                          sender
 *
 *     pinnace_listener_t *l =                           pinnace_connection_t *c = pinnace_connect(
 *         pinnace_listen("[::]:4747", NULL);                "pinnace://receiver:4747?loss=5%&run=4KiB");
 *     pinnace_connection_t *c = pinnace_accept(l, -1);
 *     struct pinnace_received m =
 *         PINNACE_RECEIVED_INIT;
 *     while (pinnace_recv(c, &m, -1) > 0) {             if (pinnace_send(c, frame, size) != 0)
 *         conceal(m.holes, m.hole_count);                   fputs(pinnace_error(), stderr);
 *         show(m.data, m.length);
 *         pinnace_received_free(&m);
 *     }
 *     pinnace_close(c, 1000);                           pinnace_close(c, 1000);
 *
 * The words of a service are in docs/src/explain.md: loss, run, critical, size, largest, deadline, lifespan, rate, burst,
 * priority, order, direction, in-place, pattern, checksum, prefer, path, multicast.
 *
 * Results: functions that return a number return -1 if they fail, those that return a pointer NULL; the reason is in errno,
 * and in words in pinnace_error. What errno says, where the function does not say more:
 *
 *     EINVAL        an argument that cannot be: NULL, a wrong size, an address without a port, a word that is no property of a
 *                   service
 *     EADDRNOTAVAIL a host without an address, or an address that is not of this host
 *     EBADF         a handle that was closed or freed, of another kind, of a parent process, or none at all
 *     EAGAIN        nothing has happened in the time that was given, or there is no room or no thread now; nothing is lost by it
 *     ECANCELED     another thread has closed what was waited on
 *     ENOTSUP       the method, or the service, cannot do this
 *     EMSGSIZE      a message is too long; ENOMEM: for the memory that the process has left
 *     E2BIG         a structure or a service says more than can be understood, or told to a peer
 *     EPIPE         this end has ended what it sends, or the peer has closed in order, and takes nothing any more
 *     ECONNRESET    the peer has broken off (pinnace_abort), or has closed where a response was due
 *     ETIMEDOUT     nobody answers, or not any more: the peer was killed, its host is down, or the network is
 *     ECONNREFUSED, EHOSTUNREACH
 *                   the peer does not want the connection, or there is no way to it
 *     ECONNABORTED, EPROTO, EIO
 *                   the peer has said what cannot be, the library's socket has failed, or a stream has a gap
 *
 * When the peer is not there any more, every method says the same:
 *
 *     the peer                               what sends, flushes, checks    what receives
 *     has closed in order, or has exited     EPIPE                          0: the end, behind what has come
 *     has broken off                         ECONNRESET                     ECONNRESET, behind what has come
 *     was killed, or is cut off              ETIMEDOUT                      ETIMEDOUT
 *
 * It takes a while until that is known. Of a peer that has closed, the library still takes for a moment what is sent to it, and
 * drops it; who is killed says nothing, and is missed when it has left unanswered for peer_timeout_ms what was sent (or asked,
 * after two seconds of silence, by pinnace_recv and pinnace_check). pinnace_flush and the completions say whether what was sent
 * before has arrived: if all has, they succeed, whatever has become of the peer since.
 *
 * Handles look like pointers and are none: each is given once, so one that was closed is EBADF for ever. NULL is EINVAL, and
 * pinnace_error then says as well what has failed before, so that a chain of calls may be checked at its end.
 *
 * Structures begin with their size: use the PINNACE_..._INIT macros, and a program works with later versions of the library.
 *
 * Threads: every function may be called from any thread, also for one connection at a time. A structure is used by one thread
 * at a time. Nothing is interrupted by signals. A child process made by fork() has none of its parent's handles (EBADF), and may
 * make its own. What is open when the process exits is closed; what was sent has a second to arrive.
 *
 * Time: milliseconds, as of poll(): 0 does not wait, less than 0 waits as long as it takes. Sizes are bytes.
 *
 * Link with -lpinnace, or with libpinnace.a and what `pkg-config --static --libs pinnace` says.
 */

#ifndef PINNACE_H
#define PINNACE_H

/* Made from the library's source, crates/bindings/c/src/unified. Do not edit. */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/** The version of this header; pinnace_version says that of the library. */
#define PINNACE_VERSION "0.1.0"
/** Nothing but defaults: struct pinnace_options options = PINNACE_OPTIONS_INIT; */
#define PINNACE_OPTIONS_INIT {sizeof(struct pinnace_options), NULL, NULL, 0, 0, 0, 0, 0, 0, NULL}
/** Nothing differs, and nobody is told. */
#define PINNACE_SEND_OPTIONS_INIT {sizeof(struct pinnace_send_options), 0, 0, 0, NULL, 0, 0, 0, NULL, NULL}
/** Nothing is told yet. */
#define PINNACE_COMPLETION_INIT {sizeof(struct pinnace_completion), 0, 0, NULL, NULL, 0}
/** Holds no message. */
#define PINNACE_RECEIVED_INIT {sizeof(struct pinnace_received), NULL, 0, NULL, 0, 0, 0, 0}
/** Nothing is known yet. */
#define PINNACE_RECEIVER_INIT {sizeof(struct pinnace_receiver), {0}, 0, 0, 0, 0}

/**
 * `loss_percent`, `run_bytes`, ... of struct pinnace_send_options count: the message has a loss contract of its own.
 */
#define PINNACE_OWN_CONTRACT 1

/**
 * A message that is sent must not wait for room: without it the call fails with EAGAIN, and the memory is yours.
 */
#define PINNACE_DONT_WAIT 2

/**
 * `state` of struct pinnace_receiver: it gets what is sent.
 */
#define PINNACE_RECEIVER_CONNECTED 0

/**
 * It has closed its connection.
 */
#define PINNACE_RECEIVER_LEFT 1

/**
 * It has held up the others for too long, and was cut off.
 */
#define PINNACE_RECEIVER_TOO_SLOW 2

/**
 * It does not answer any more.
 */
#define PINNACE_RECEIVER_LOST 3

/**
 * Messages to a peer and back, by the method that was chosen. See pinnace_connect.
 */
struct pinnace_connection;

/**
 * A message on its way, whose memory is the library's. See pinnace_sendv.
 */
struct pinnace_delivery;

/**
 * Where connections begin: an address to listen at, and settings. See pinnace_endpoint_open.
 */
struct pinnace_endpoint;

/**
 * Who accepts connections. See pinnace_listen.
 */
struct pinnace_listener;

/**
 * See pinnace_endpoint_open.
 */
typedef struct pinnace_endpoint pinnace_endpoint_t;

/**
 * Settings of an endpoint. Begin with PINNACE_OPTIONS_INIT, which is the defaults; what is 0 is the default.
 */
struct pinnace_options {
    /**
     * sizeof(struct pinnace_options).
     */
    size_t size;
    /**
     * This method or none: "shared-memory", "zcrp", "vrp", "xtp", "qmp", "a1". NULL: whichever is cheapest. The string is
     * yours again when the call returns.
     */
    const char *force;
    /**
     * None of these methods, separated by commas; or NULL.
     */
    const char *exclude;
    /**
     * The longest message that is received, in bytes. 0: 1 GiB.
     */
    uint64_t longest_message;
    /**
     * When a silent peer counts as gone, in milliseconds. 0: 10,000.
     */
    unsigned int peer_timeout_ms;
    /**
     * Connections that wait to be accepted, and those that are being set up; more are turned away. 0: 128.
     */
    unsigned int backlog;
    /**
     * When one receiver of several (pinnace_endpoint_connect_all) that holds up the others is cut off, in milliseconds. 0: 2,000.
     */
    unsigned int slow_receiver_ms;
    /**
     * Not 0: it is not cut off, but messages that it has no room for, and others have, are left out for it (`skipped` of struct
     * pinnace_receiver counts them).
     */
    int slow_receiver_skips;
    /**
     * How long pinnace_endpoint_connect and pinnace_endpoint_connect_all may take, in milliseconds, without the resolving of names.
     * 0: as long as it takes, which is some 7 seconds where nobody answers.
     */
    unsigned int connect_timeout_ms;
    /**
     * What bounds the bytes in transit: "bbr", "bbr:30%" (the path itself loses up to 30 %), "cubic", "fixed". NULL: by the path.
     */
    const char *congestion;
};

/**
 * See pinnace_listen.
 */
typedef struct pinnace_listener pinnace_listener_t;

/**
 * See pinnace_connect.
 */
typedef struct pinnace_connection pinnace_connection_t;

/**
 * What is known of a receiver of a connection to several (pinnace_endpoint_connect_all). Begin with PINNACE_RECEIVER_INIT.
 */
struct pinnace_receiver {
    /**
     * sizeof(struct pinnace_receiver).
     */
    size_t size;
    /**
     * Where its listener is, as text: "127.0.0.1:4747".
     */
    char address[64];
    /**
     * PINNACE_RECEIVER_CONNECTED, or why it is not there any more: PINNACE_RECEIVER_LEFT, PINNACE_RECEIVER_TOO_SLOW or
     * PINNACE_RECEIVER_LOST.
     */
    int state;
    /**
     * Whether it gets the messages from the service's multicast group, and not one by one.
     */
    int is_in_group;
    /**
     * Messages that were left out for it (slow_receiver_skips of struct pinnace_options).
     */
    uint64_t skipped;
    /**
     * From the source to it and back, in microseconds. 0: not measured yet.
     */
    uint64_t round_trip_us;
};

/**
 * Bytes from `offset` on, `length` of them.
 */
struct pinnace_range {
    /**
     * The first.
     */
    uint64_t offset;
    /**
     * How many.
     */
    uint64_t length;
};

/**
 * How a message ended. Begin with PINNACE_COMPLETION_INIT.
 */
struct pinnace_completion {
    /**
     * sizeof(struct pinnace_completion).
     */
    size_t size;
    /**
     * 0: it has arrived, as whole as was agreed. Otherwise why it has not, or nobody knows, as in errno.
     */
    int error;
    /**
     * Whether the receiver has said what it lacks (VRP). If not, nothing can be lost, or nobody knows.
     */
    int is_reported;
    /**
     * The error in words; "" if there is none. Valid as `holes` is.
     */
    const char *text;
    /**
     * What the receiver lacks, with permission: rising ranges that do not touch. NULL if there is none. In a callback valid
     * until it returns; of pinnace_delivery_wait until this thread waits for another delivery.
     */
    const struct pinnace_range *holes;
    /**
     * How many holes.
     */
    size_t hole_count;
};

/**
 * What differs for one message from the connection's service, and who is told of its end. Begin with
 * PINNACE_SEND_OPTIONS_INIT, by which nothing differs and nobody is told.
 */
struct pinnace_send_options {
    /**
     * sizeof(struct pinnace_send_options).
     */
    size_t size;
    /**
     * 0, or PINNACE_OWN_CONTRACT: the next four members say what may be lost of this message. A method that loses nothing
     * keeps any contract. With PINNACE_DONT_WAIT the call does not wait for room.
     */
    unsigned int flags;
    /**
     * The share that may be lost, in percent: 0 (nothing) to 100. It counts in steps of 0.39.
     */
    double loss_percent;
    /**
     * The longest run of bytes that may be lost. 0 is nothing, UINT64_MAX any.
     */
    uint64_t run_bytes;
    /**
     * What may not be lost; yours again when the call returns. NULL if there is none.
     */
    const struct pinnace_range *critical;
    /**
     * How many ranges that is.
     */
    size_t critical_count;
    /**
     * So many microseconds after the call the message is of no more use, and what may be lost of it is not repeated any
     * more. 0: as the service says.
     */
    uint64_t deadline_us;
    /**
     * So many microseconds after the call the sender drops it. 0: as the service says. Only VRP can (ENOTSUP).
     */
    uint64_t lifespan_us;
    /**
     * Called once when the message has ended and its memory is yours again, on a thread of the library's that does nothing
     * else: it may call any function of this header, and should not wait long. It must not throw, or leave by longjmp. NULL:
     * ask with pinnace_delivery_wait.
     */
    void (*done)(const struct pinnace_completion *completion, void *argument);
    /**
     * What `done` is given.
     */
    void *argument;
};

/**
 * See pinnace_sendv.
 */
typedef struct pinnace_delivery pinnace_delivery_t;

/**
 * A message that was received. Begin with PINNACE_RECEIVED_INIT; give it back with pinnace_received_free before you receive
 * into it again.
 */
struct pinnace_received {
    /**
     * sizeof(struct pinnace_received).
     */
    size_t size;
    /**
     * The bytes, where the method has put them; never NULL. They are yours, to read and to write, until
     * pinnace_received_free.
     */
    void *data;
    /**
     * How many.
     */
    size_t length;
    /**
     * What is missing of it, with permission: rising ranges that do not touch. They read as zeros. NULL if there is none.
     */
    const struct pinnace_range *holes;
    /**
     * How many holes.
     */
    size_t hole_count;
    /**
     * The library's.
     */
    size_t message;
    /**
     * How many messages before this one were not waited for any longer (VRP, of a service that wants order): each of them
     * comes later, or was given up by its sender.
     */
    uint64_t missed;
    /**
     * Whether it comes behind messages that were sent after it, although the service wants order (VRP).
     */
    int is_late;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of the library, "MAJOR.MINOR.PATCH". Compare with PINNACE_VERSION, that of this header.
 */
const char *pinnace_version(void);

/**
 * Why the last call of this thread that failed did, in words: who, by which method, and what may help. "" if none has.
 * Valid until the next one fails; the number is in errno.
 */
const char *pinnace_error(void);

/**
 * Reads a service, and writes it as it is understood: in its shortest form, the words in their order. `service` is words
 * ("loss=5% run=4KiB size=2MB"), a URI of which only the service counts, or NULL for the default, which is "".
 *
 * Writes at most `size` bytes, with the final zero. Returns the length that the text has, without the zero: if that is not
 * less than `size`, it was cut off. `string` may be NULL if `size` is 0. Returns -1 if it is not understood (EINVAL:
 * pinnace_error says which word, and what may be meant).
 */
int pinnace_service_text(const char *service,
                         char *string,
                         size_t size);

/**
 * Says which method would carry a service, at what cost, and why; what every other one offers; and what would change the
 * choice: a line each. Nothing is sent. `service` is as in pinnace_service_text; `peer` is "host" or "host:port", or NULL: the
 * host of the URI, or anywhere on the Internet. That no method can carry it is no error here: the first line says so.
 *
 * Writes as pinnace_service_text does, and returns the length. Returns -1 if the service is not understood (EINVAL), or the
 * peer has no address (EADDRNOTAVAIL).
 */
int pinnace_explain(const char *service,
                    const char *peer,
                    char *string,
                    size_t size);

/**
 * Opens an endpoint. `address` is "host:port", a UDP port of this host to listen at (port 0 picks one, "[::]:4747" is
 * every address); NULL makes one that only connects. `options` may be NULL.
 *
 * Returns NULL if the address is taken (EADDRINUSE), is not this host's or does not resolve (EADDRNOTAVAIL), or is none: it has
 * no port, or a scheme (EINVAL); if the options have a wrong size or name an unknown method (EINVAL), or say more than the
 * library knows (E2BIG). To be closed with pinnace_endpoint_close.
 */
pinnace_endpoint_t *pinnace_endpoint_open(const char *address,
                                          const struct pinnace_options *options);

/**
 * The address of an endpoint as text, "127.0.0.1:4747", as pinnace_connect takes it; "" if it only connects. Writes as
 * pinnace_service_text does, and returns the length, or -1 (EBADF).
 */
int pinnace_endpoint_address(pinnace_endpoint_t *endpoint, char *string, size_t size);

/**
 * Listens at an endpoint. `most` is what is accepted at most, a service as in pinnace_service_text: larger messages, higher
 * rates and longer bursts than it says are refused; what it does not say is not limited, and NULL limits nothing. That the
 * network is a cluster ("path=cluster") is believed of others if it says so, too.
 *
 * Returns NULL if somebody listens at this endpoint already (EADDRINUSE), if it only connects, or the service is not
 * understood (EINVAL). The listener stays when the endpoint is closed. To be closed with pinnace_listener_close.
 */
pinnace_listener_t *pinnace_endpoint_listen(pinnace_endpoint_t *endpoint,
                                            const char *most);

/**
 * Connects to whoever listens at `peer`: "host:port", or a URI, "pinnace://host:port?loss=5%&run=4KiB", whose service counts
 * if it has one; `service`, as in pinnace_service_text, counts otherwise. Both ends agree on the cheapest method that
 * meets the service. Waits for 7 seconds at most for each address, and for 17 for each method that does not get through.
 *
 * Returns NULL if the service, the URI or the address is not understood, has another scheme, no port or port 0 (EINVAL), if
 * the host has no address (EADDRNOTAVAIL), if no method can meet the service here (ENOTSUP), if nobody answers (ETIMEDOUT), or
 * the peer refuses (ECONNREFUSED) or is reached by no method (EHOSTUNREACH). pinnace_error says what was tried. To be closed
 * with pinnace_close.
 */
pinnace_connection_t *pinnace_endpoint_connect(pinnace_endpoint_t *endpoint,
                                               const char *peer,
                                               const char *service);

/**
 * Closes an endpoint. Its listener and its connections go on. Returns 0, or -1 if it is none (EBADF) or NULL (EINVAL).
 */
int pinnace_endpoint_close(pinnace_endpoint_t *endpoint);

/**
 * Listens at `address`, "host:port": pinnace_endpoint_open and pinnace_endpoint_listen in one, and returns NULL as they do.
 */
pinnace_listener_t *pinnace_listen(const char *address,
                                   const char *most);

/**
 * Connects to a URI, "pinnace://host:port?loss=5%&run=4KiB", or to "host:port" with the default service, by an endpoint with
 * the default options. As pinnace_endpoint_connect.
 */
pinnace_connection_t *pinnace_connect(const char *peer);

/**
 * The address that is listened at as text, "127.0.0.1:4747", as pinnace_connect takes it. Writes as pinnace_service_text
 * does, and returns the length, or -1 (EBADF).
 */
int pinnace_listener_address(pinnace_listener_t *listener,
                             char *string,
                             size_t size);

/**
 * The port that is listened at, or -1 (EBADF).
 */
int pinnace_listener_port(pinnace_listener_t *listener);

/**
 * A descriptor for poll, select and epoll: readable (POLLIN) while somebody waits to be accepted. It is the listener's: valid
 * until that is closed, not to be read from, and not to be closed. Returns -1 if there is none (EBADF, EMFILE).
 */
int pinnace_listener_fd(pinnace_listener_t *listener);

/**
 * Waits for the next connection, at most `timeout_ms` milliseconds; 0 does not wait, and less than 0 waits as long as it takes.
 *
 * Returns NULL if nobody has come in this time (EAGAIN), or another thread closes the listener (ECANCELED). To be closed with
 * pinnace_close.
 */
pinnace_connection_t *pinnace_accept(pinnace_listener_t *listener,
                                     int timeout_ms);

/**
 * Accepts no more. Connections that were accepted go on; who waits in pinnace_accept is told (ECANCELED) soon. Returns 0, or
 * -1 if it is none (EBADF) or NULL (EINVAL).
 */
int pinnace_listener_close(pinnace_listener_t *listener);

/**
 * Connects to several receivers at once: what is sent goes to all of them. `peers` are `count` strings, "host:port" or URIs
 * that say the same; each is that of an ordinary listener, which accepts an ordinary connection to receive from. Messages go
 * one way, by A1.
 *
 * `service` says how many receivers there are ("multicast=3"), and then so many have to be named; or through which IP
 * multicast group they may get the messages ("multicast=239.1.2.3:7000"), where those that cannot join it get them one by
 * one, as all do without a group. One that says nothing is taken to mean those that are named. A single one is connected to
 * as by pinnace_endpoint_connect.
 *
 * A message has arrived when all that are there then have it. A receiver that dies, or is too slow (struct pinnace_options),
 * is cut off, and pinnace_receiver_at says so; the others do not notice.
 *
 * Returns NULL as pinnace_endpoint_connect does, with the words for the receiver that does not answer or refuses, and then
 * nobody is connected; also if not as many are named as the service says, or one is named twice (ENOTSUP), or `peers` or one of
 * them is NULL (EINVAL). To be closed with pinnace_close.
 */
pinnace_connection_t *pinnace_endpoint_connect_all(pinnace_endpoint_t *endpoint,
                                                   const char *const *peers,
                                                   size_t count,
                                                   const char *service);

/**
 * Connects to several receivers at once, by an endpoint with the default options. As pinnace_endpoint_connect_all.
 */
pinnace_connection_t *pinnace_connect_all(const char *const *peers, size_t count, const char *service);

/**
 * Writes what is known of the receiver number `index`, from 0, in the order in which they were added, to `receiver`. Of a
 * connection with one peer there are none.
 *
 * Returns 1; 0 if there are not so many; or -1 (EBADF, or EINVAL: the size of `receiver` is wrong).
 */
int pinnace_receiver_at(pinnace_connection_t *connection,
                        size_t index,
                        struct pinnace_receiver *receiver);

/**
 * Adds a receiver, "host:port", to a connection that pinnace_connect_all has made to several; what is sent from then on goes to
 * it, too. One that is gone may be added again. Waits until it has accepted; other threads may send meanwhile.
 *
 * Returns 0; or -1 as pinnace_endpoint_connect_all, or if the connection has one peer (ENOTSUP).
 */
int pinnace_add_receiver(pinnace_connection_t *connection,
                         const char *peer);

/**
 * Removes the receiver with this address, as pinnace_receiver_at says it: it gets what was sent, within `linger_ms`
 * milliseconds (less than 0: as long as it takes), and then its connection ends; if there is not the time for that, not in
 * order. Waits for it.
 *
 * Returns 0; or -1 if there is none at this address (ENOTSUP), the address is none (EINVAL), or it did not get everything
 * (ETIMEDOUT, ...).
 */
int pinnace_remove_receiver(pinnace_connection_t *connection,
                            const char *address,
                            int linger_ms);

/**
 * What carries a connection: "shared-memory", "zcrp", "vrp", "xtp", "qmp" or "a1"; valid for ever. NULL if it is none (EBADF).
 */
const char *pinnace_method(pinnace_connection_t *connection);

/**
 * Where the peer's socket is, of the method that was chosen, as text. Writes as pinnace_service_text does, and returns the
 * length, or -1 (EBADF).
 */
int pinnace_peer(pinnace_connection_t *connection,
                 char *string,
                 size_t size);

/**
 * The service with which messages are sent, as text. Writes as pinnace_service_text does, and returns the length, or -1
 * (EBADF).
 */
int pinnace_service(pinnace_connection_t *connection, char *string, size_t size);

/**
 * Sends with another service from now on: `service` is as in pinnace_service_text, and what it does not say is the default.
 * The method stays, and so do direction, order, receivers and pattern.
 *
 * Returns 0; or -1, and nothing has changed, if the service is not understood (EINVAL), or the method does not meet it here
 * or cannot change to it (ENOTSUP: pinnace_error says why).
 */
int pinnace_set_service(pinnace_connection_t *connection,
                        const char *service);

/**
 * Says why it is this method: its offer, and those of the others, a line each. Writes as pinnace_service_text does, and
 * returns the length; or -1 if it is none (EBADF), or the service, as it is now, would not be carried by it (ENOTSUP: on the
 * accepting side the peer has chosen, by what it knew).
 */
int pinnace_explain_connection(pinnace_connection_t *connection,
                               char *string,
                               size_t size);

/**
 * A descriptor for poll, select and epoll: readable (POLLIN) when a message may have come, or the end of them; also without
 * a reason. Go on with pinnace_recv and a timeout of 0 until that fails with EAGAIN: then it is not readable any more until
 * something comes. Do so once when you have asked for it: what has come before need not make it readable. It is the
 * connection's: valid until that is closed, not to be read from, and not to be closed. Returns -1 if there is none (EBADF,
 * EMFILE), or nothing comes this way.
 */
int pinnace_fd(pinnace_connection_t *connection);

/**
 * Waits until everything that was sent has arrived; without a limit of time, but that of a peer that is silent
 * (peer_timeout_ms of struct pinnace_options). As pinnace_flush_within with less than 0.
 */
int pinnace_flush(pinnace_connection_t *connection);

/**
 * Waits until everything that was sent has arrived, at most `timeout_ms` milliseconds (0 does not wait, less than 0 waits as
 * long as it takes). What the peer has acknowledged stays acknowledged, whatever has become of it since.
 *
 * Returns 0; or -1 if it has not arrived in this time (EAGAIN: it goes on, and a later call waits again), another thread closes
 * the connection (ECANCELED), or something does not arrive: the peer has closed (EPIPE), has broken off (ECONNRESET), or does
 * not answer any more (ETIMEDOUT).
 */
int pinnace_flush_within(pinnace_connection_t *connection,
                         int timeout_ms);

/**
 * Tells whether the peer is there, as far as is known, and waits for nothing: for whoever neither sends nor receives for
 * long, but waits for input from elsewhere. A peer that has been silent for two seconds is asked, and a later call tells: call
 * it every second or so. Whoever sends or receives finds out by that.
 *
 * Returns 0; or -1 if the peer has closed and takes nothing any more (EPIPE), has broken off (ECONNRESET), or does not answer
 * (ETIMEDOUT: after peer_timeout_ms of struct pinnace_options). What has come before can still be received.
 */
int pinnace_check(pinnace_connection_t *connection);

/**
 * Sends no more: waits at most `linger_ms` milliseconds (less than 0: as long as it takes) for what was sent to arrive, and
 * tells the peer, whose pinnace_recv returns 0 behind the last message. What the peer sends can still be received.
 *
 * Returns 0; or -1 if not everything has arrived, or nobody knows. With ETIMEDOUT the end follows what was sent as long as the
 * connection is there, and a second call waits again: so a `linger_ms` of 0 ends what is sent and waits for nothing.
 */
int pinnace_shutdown(pinnace_connection_t *connection,
                     int linger_ms);

/**
 * Closes a connection whose content is not complete: what was sent and has not arrived is given up, and the peer, who could
 * not know otherwise that something is missing, gets an error (ECONNRESET, ...) behind what has come, and not 0. The handle is
 * gone, as with pinnace_close. May take a fifth of a second, and over a slow path two seconds.
 *
 * Returns 0; or -1 if it is none (EBADF) or NULL (EINVAL).
 */
int pinnace_abort(pinnace_connection_t *connection);

/**
 * Closes a connection: pinnace_shutdown, and the handle is gone, however that ended. Who waits in pinnace_recv is told
 * (ECANCELED) soon. Messages that were received stay until they are freed; of messages that were sent the completions
 * still come. Of what is given up then the peer is told as by pinnace_abort, which may take as long beyond `linger_ms`.
 *
 * Returns 0; or -1 if not everything has arrived, or nobody knows (ETIMEDOUT, ...), if it is none (EBADF) or NULL (EINVAL).
 */
int pinnace_close(pinnace_connection_t *connection,
                  int linger_ms);

/**
 * Sends a message: `length` bytes at `data`, which are copied, so they are yours when the call returns. It waits while the
 * method's queue is full, and not until the message has arrived: pinnace_flush and pinnace_close do.
 *
 * Returns 0; or -1 if `length` is more than 4,294,967,295, or than can be sent (EMSGSIZE), or than there is memory (ENOMEM), the
 * connection was closed at this end, or the peer has closed and takes nothing any more (EPIPE), it has one direction, which is
 * the other (ENOTSUP), the peer has broken off (ECONNRESET), or does not answer any more (ETIMEDOUT).
 */
int pinnace_send(pinnace_connection_t *connection,
                 const void *data,
                 size_t length);

/**
 * As pinnace_send, but does not wait: without room in the method's queue it returns -1 with EAGAIN, and nothing was sent. There
 * is room again when messages have arrived: completions tell of that (pinnace_sendv), and pinnace_flush waits for all.
 */
int pinnace_try_send(pinnace_connection_t *connection,
                     const void *data,
                     size_t length);

/**
 * Begins to send a message that lies in `count` parts (at most 1,024), without copying it: the memory is the library's, and
 * must not be changed or freed, until the completion says that it is yours again. The array itself is yours when the call
 * returns. Parts of fewer than 512 bytes on average, or more than 256 of them, are copied instead, since that costs less, and so
 * are parts of messages over shared memory, into their place there.
 *
 * Who is told of the completion: either the function `done` of the options, or, if `delivery` is not NULL, whoever calls
 * pinnace_delivery_wait with the handle that is written there. `options` may be NULL if `delivery` is not.
 *
 * It waits while the method's queue is full, unless the options have the flag PINNACE_DONT_WAIT: then it fails with EAGAIN.
 * Returns 0; or -1, and the memory is yours, as pinnace_send does; also if the method cannot do for one message what is asked
 * (ENOTSUP), if nobody would be told, or both (EINVAL).
 */
int pinnace_sendv(pinnace_connection_t *connection,
                  const struct iovec *parts,
                  int count,
                  const struct pinnace_send_options *options,
                  pinnace_delivery_t **delivery);

/**
 * Waits, at most `timeout_ms` milliseconds (0 does not wait, less than 0 waits as long as it takes), until a message has ended
 * and its memory is yours again. The handle is gone then, whatever became of the message. The waiting thread does the
 * method's work. `completion` may be NULL.
 *
 * Returns 0 if it has arrived, as whole as was agreed; that is what the method can tell: all of it is in the peer's memory.
 * Returns -1 with EAGAIN if it is still under way, and with EBUSY if another thread waits for it: the handle stays, and the
 * memory is the library's. Any other error is how the message ended, but for EBADF and EINVAL: no such delivery, a wrong size.
 */
int pinnace_delivery_wait(pinnace_delivery_t *delivery,
                          struct pinnace_completion *completion,
                          int timeout_ms);

/**
 * Writes to a connection as to a stream: `size` bytes, which are copied. Where a write ends says nothing to who reads. Waits
 * while the method's queue is full.
 *
 * Returns how many bytes were taken: `size`, or less if it failed behind them; or -1 as pinnace_send, or if the service may
 * lose something or does not keep the order (ENOTSUP).
 */
ptrdiff_t pinnace_write(pinnace_connection_t *connection,
                        const void *data,
                        size_t size);

/**
 * Waits for the next message, at most `timeout_ms` milliseconds (0 does not wait, less than 0 waits as long as it takes), and
 * fills `received`: the bytes lie where the method has put them, and are not copied. The waiting thread does the method's
 * work. Give the message back with pinnace_received_free, also after the connection was closed.
 *
 * Returns 1; 0 when the peer has closed and everything was received; or -1 if nothing came in this time (EAGAIN), another
 * thread closes the connection (ECANCELED), the message is longer than the endpoint's longest_message (EMSGSIZE), the peer has
 * broken off (ECONNRESET), or does not answer any more (ETIMEDOUT), or `received` still holds a message (EBUSY).
 */
int pinnace_recv(pinnace_connection_t *connection,
                 struct pinnace_received *received,
                 int timeout_ms);

/**
 * As pinnace_recv, into `size` bytes of yours at `buffer`, which are `data` then. The holes are the library's until
 * pinnace_received_free, which need not be called if there are none.
 *
 * Returns as pinnace_recv does; -1 with EMSGSIZE if the message is longer than that: it is the next to be received again, and
 * pinnace_error says how long it is.
 */
int pinnace_recv_into(pinnace_connection_t *connection,
                      void *buffer,
                      size_t size,
                      struct pinnace_received *received,
                      int timeout_ms);

/**
 * Gives a message back, and empties `received`. One that holds none, or whose message was given back before, is 0 as well.
 * Returns -1 if its size is wrong (EINVAL), or its message is none (EBADF): a copy of it was given back, or it was not
 * initialized.
 */
int pinnace_received_free(struct pinnace_received *received);

/**
 * Sends a request of `length` bytes, which are copied, and waits for the next message, which is the response. One request is
 * under way on a connection at a time: others wait for their turn. The other end receives requests, and sends responses, as
 * messages. The service must have two directions ("direction=duplex").
 *
 * Returns 0, and `received` has the response, as of pinnace_recv; or -1 as pinnace_send and pinnace_recv, or if the peer has
 * closed instead (ECONNRESET). After EAGAIN the response may still come: pinnace_recv receives it, and a later call of this
 * passes over it; where it may be lost as well (the service allows loss) that call is refused (ENOTSUP).
 */
int pinnace_transact(pinnace_connection_t *connection,
                     const void *request,
                     size_t length,
                     struct pinnace_received *received,
                     int timeout_ms);

/**
 * Reads from a connection as from a stream: what has come, at most `size` bytes; where a message ends says nothing. Waits as
 * pinnace_recv does. Do not mix it with pinnace_recv while a message is read in part.
 *
 * Returns the number of bytes; 0 at the end; or -1 as pinnace_recv, or if the service may lose something or does not keep the
 * order (ENOTSUP), or from where messages are missing on (the text says how many): it is never a shorter stream.
 */
ptrdiff_t pinnace_read(pinnace_connection_t *connection,
                       void *buffer,
                       size_t size,
                       int timeout_ms);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PINNACE_H */

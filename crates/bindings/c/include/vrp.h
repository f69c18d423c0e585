/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * VRP, the variable reliability protocol: frames from one process to another over UDP, of which as much may be lost as
 * their sender allows: how much, how much in a row, and which bytes not at all. The receiver is told what was.
 *
 *     sender                                            receiver
 *
 *                                                       void picture(vrp_in_buffer_t frame) {
 *                                                           int i;
 *                                                           for (i = 0; i < frame->loss_num; i++)
 *                                                               conceal(frame->lost[i], frame->loss_granularity);
 *                                                           show(frame->data, frame->size);
 *                                                       }
 *
 *     vrp_init();                                       vrp_init();
 *     vrp_outgoing_t out = vrp_outgoing_construct(      int port = 4000;
 *         "receiver", 4000, -1, -1, -1);                vrp_incoming_t in = vrp_incoming_construct(&port, picture);
 *     vrp_outgoing_connect(out);
 *     vrp_buffer_t b = vrp_buffer_construct(data, n);
 *     vrp_buffer_set_loss_rate(b, 64, 4096);            // the library runs by itself, or in a loop of yours:
 *     vrp_buffer_add_critical(b, data, 1024);           int fd = vrp_incoming_fd(in);
 *     if (vrp_outgoing_send_frame(out, b) != 0)         while (poll_until_readable(fd))
 *         perror("sending");                                vrp_incoming_read_callback(fd, in);
 *     vrp_buffer_destroy(b);
 *     vrp_outgoing_close(out);                          vrp_incoming_close(in);
 *     vrp_shutdown();                                   vrp_shutdown();
 *
 * All functions may be called from any thread; a buffer is changed by one at a time, and not while it is sent. What fails
 * says why in errno, functions without a result as well. Null pointers are refused with EINVAL, closed endpoints with
 * ECANCELED; what is open when the process exits is closed. A child process made by fork() has none of its parent's
 * endpoints.
 *
 * Link with -lpinnace, or with libpinnace.a and what `pkg-config --static --libs pinnace` says.
 */

#ifndef VRP_H
#define VRP_H

/* Made from the library's source, crates/bindings/c/src/vrp. Do not edit. */

#include <stddef.h>

/**
 * Memory to send, and what of it may be lost.
 */
struct vrp_buffer;

/**
 * A receiver of frames from everybody.
 */
struct vrp_incoming;

/**
 * A sender of frames to one destination.
 */
struct vrp_outgoing;

/**
 * See vrp_buffer_construct.
 */
typedef struct vrp_buffer *vrp_buffer_t;

/**
 * See vrp_outgoing_construct.
 */
typedef struct vrp_outgoing *vrp_outgoing_t;

/**
 * See vrp_incoming_construct.
 */
typedef struct vrp_incoming *vrp_incoming_t;

/**
 * A frame that was received within its contract. It, and everything it points to, is the handler's until that returns.
 */
struct vrp_in_buffer {
    /**
     * The frame. What was lost of it is zero.
     */
    void *data;
    /**
     * Its bytes, lost ones included.
     */
    size_t size;
    /**
     * What vrp_incoming_set_source was given, or NULL.
     */
    void *source;
    /**
     * How many packets were lost.
     */
    int loss_num;
    /**
     * Where: `loss_num` ascending pointers into `data`, one for each lost packet, also in a run of them. At each,
     * `loss_granularity` bytes are missing, or as many as there are up to the end of the frame. NULL if nothing was lost.
     */
    void **lost;
    /**
     * Bytes of a packet of this frame, also if nothing was lost.
     */
    size_t loss_granularity;
};

/**
 * See vrp_in_buffer.
 */
typedef struct vrp_in_buffer *vrp_in_buffer_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Gets ready. Call it once, before the others; if you do not, they work all the same.
 */
void vrp_init(void);

/**
 * Closes every endpoint, as vrp_outgoing_close and vrp_incoming_close do. From then on nothing is constructed (ECANCELED)
 * unless vrp_init is called again.
 */
void vrp_shutdown(void);

/**
 * Describes a frame: `size` bytes of your memory, which is neither copied nor freed. Nothing is said of what may be lost.
 * Returns NULL if `data` is NULL and `size` is not 0 (EINVAL).
 */
vrp_buffer_t vrp_buffer_construct(void *data,
                                  size_t size);

/**
 * Frees the description, not the data. NULL is nothing.
 */
void vrp_buffer_destroy(vrp_buffer_t buffer);

/**
 * Nothing of `size` bytes at `data`, which are a part of the buffer, may be lost. Call it again for more of them. Is no part
 * of the buffer what you give, sending it fails (EINVAL).
 */
void vrp_buffer_add_critical(vrp_buffer_t buffer,
                             void *data,
                             size_t size);

/**
 * What may be lost: `max`, the share of the packets in any window of the frame, 0 to 255 for nothing to everything, and
 * `cons`, the longest run of bytes, counted in whole packets. -1 stands for the default of the endpoint that sends it. If
 * either is not said anywhere nothing may be lost (but that is the receiver's decision). With another number, sending fails
 * (EINVAL).
 */
void vrp_buffer_set_loss_rate(vrp_buffer_t buffer,
                              int max,
                              int cons);

/**
 * Makes a sender of frames to a port of a host. `max` and `cons` are what may be lost of frames that do not say it, as in
 * vrp_buffer_set_loss_rate; -1: nothing is said. `packet_size` is the number of data bytes of a packet, 1 to 65501; -1: 2048,
 * or what the path carries in one piece if that is less. Nothing is sent yet.
 *
 * Returns NULL if there is no such host (EHOSTUNREACH, or what the system says), or the port or packet size is none
 * (EINVAL).
 */
vrp_outgoing_t vrp_outgoing_construct(const char *host,
                                      int port,
                                      int max,
                                      int cons,
                                      int packet_size);

/**
 * Finds out whether the receiver is there, and how long the way to it and back takes. If you do not call it, the first
 * frame does. Returns 0, or -1 if nobody has answered for 5 s (ETIMEDOUT), or the sender is closed (ECANCELED).
 */
int vrp_outgoing_connect(vrp_outgoing_t outgoing);

/**
 * The paper's name of vrp_outgoing_connect.
 */
int vrp_outgoing_open(vrp_outgoing_t outgoing);

/**
 * For a loop of your own: from the first call on, the library reads what comes for this sender only in
 * vrp_outgoing_read_callback, which you call whenever the descriptor is readable, and in calls that wait
 * (vrp_outgoing_send_frame, ...), which need no loop; its thread only sends, on time. The descriptor is to be polled and
 * nothing else, and valid until the sender is closed. Returns -1 if the sender is closed (ECANCELED).
 */
int vrp_outgoing_fd(vrp_outgoing_t outgoing);

/**
 * Reads what has come, and answers it. Never waits. `fd` is what vrp_outgoing_fd returned.
 */
void vrp_outgoing_read_callback(int fd, vrp_outgoing_t outgoing);

/**
 * Sends a frame, and returns when it has arrived within its contract. Any number of threads may send on one endpoint, also
 * the same buffer: their frames travel side by side.
 *
 * Returns 0, or -1 if the receiver has no room, or is closed meanwhile (ECONNREFUSED), nothing was heard of it for 5 s, as of
 * one that was closed before (ETIMEDOUT), it answered what cannot be (EPROTO), the frame is too large, or has too many critical parts for a header (EMSGSIZE), the
 * endpoint was closed (ECANCELED), or buffer or contract are not valid (EINVAL).
 */
int vrp_outgoing_send_frame(vrp_outgoing_t outgoing,
                            vrp_buffer_t buffer);

/**
 * Ends a sender: frames under way fail (ECANCELED), the receiver is told, and the handle is good for nothing.
 */
void vrp_outgoing_close(vrp_outgoing_t outgoing);

/**
 * Makes a receiver at `*port` of every address of this host, IPv6 and IPv4; 0 picks a port, and `*port` says which. `handler`
 * runs for every frame: on a thread of the library, or in vrp_incoming_read_callback if you have a loop of your own; one at a
 * time. While it runs senders are answered, and further frames wait for it. It may call the library, and must not throw, or
 * leave by longjmp.
 *
 * Returns NULL if the port is taken (EADDRINUSE) or none, or a pointer is NULL (EINVAL).
 */
vrp_incoming_t vrp_incoming_construct(int *port,
                                      void (*handler)(vrp_in_buffer_t buffer));

/**
 * What handlers that begin from now on find in their argument: whatever you like.
 */
void vrp_incoming_set_source(vrp_incoming_t incoming, void *source);

/**
 * For a loop of your own: from the first call on, the library reads what comes for this receiver only in
 * vrp_incoming_read_callback, which you call whenever the descriptor is readable; its thread only sends, on time (and reads
 * while a handler runs). A handler that runs is waited for; those that follow run in the callback. The descriptor is to be
 * polled and nothing else, and valid until the receiver is closed. Returns -1 if the receiver is closed (ECANCELED).
 */
int vrp_incoming_fd(vrp_incoming_t incoming);

/**
 * Reads what has come, answers it, and runs the handler for each frame that is complete. Never waits for more. `fd` is what
 * vrp_incoming_fd returned.
 */
void vrp_incoming_read_callback(int fd,
                                vrp_incoming_t incoming);

/**
 * Ends a receiver: frames that are not complete are refused, those that are handled, and the handle is good for nothing. No
 * handler runs any more when this returns, unless it is the handler that calls it.
 */
void vrp_incoming_close(vrp_incoming_t incoming);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* VRP_H */

/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Remote service requests: run a handler in another process, with typed arguments.
 *
 *     server                                            client
 *
 *     void add(rsr_request_t *r, void *unused) {
 *         int32_t a, b;
 *         rsr_request_get_i32(r, &a);
 *         rsr_request_get_i32(r, &b);
 *         printf("%d\n", a + b);
 *     }
 *     struct rsr_handler h = {1, add, NULL};
 *     rsr_endpoint_t *e =                               rsr_startpoint_t *s = rsr_startpoint_from_string(
 *         rsr_endpoint_open("vrp=[::]:4000", &h, 1);           "rsr:vrp=server:4000");
 *                                                       rsr_buffer_t *b = rsr_buffer_create();
 *                                                       rsr_buffer_put_i32(b, 2);
 *                                                       rsr_buffer_put_i32(b, 3);
 *                                                       if (rsr_send(s, 1, b) != 0)
 *                                                           fputs(rsr_error(), stderr);
 *
 * An endpoint owns handlers. A startpoint refers to an endpoint, and lists the methods by which it can be reached: `local`,
 * `vrp`, `zcrp`, `pinnace`; it can be written as text, and put into a buffer. Where the method can lose a part of a request, the
 * buffer says what may be lost, and the handler is told what was: rsr_request_get_... fails with ENODATA then.
 *
 * Endpoints, startpoints and rsr_send may be used by any thread; a buffer, and a request, by one at a time. What fails says
 * why in errno, and in words in rsr_error. Null pointers are refused with EINVAL; so are they by rsr_request_get_..., which then
 * reads nothing, and where the request has been read up to stays as it is. A child process made by fork() may use
 * nothing that its parent has opened, and opens its own.
 *
 * Link with -lpinnace, or with libpinnace.a and what `pkg-config --static --libs pinnace` says.
 */

#ifndef RSR_H
#define RSR_H

/* Made from the library's source, crates/bindings/c/src/rsr. Do not edit. */

#include <stddef.h>
#include <stdint.h>

/**
 * What a request carries: filled value by value, and sent as often as you like.
 */
struct rsr_buffer;

/**
 * A table of handlers that others can reach.
 */
struct rsr_endpoint;

/**
 * A request that has arrived: read value by value, in the order in which they were put.
 */
struct rsr_request;

/**
 * A reference to an endpoint: the methods that lead to it, in order of preference, with their addresses.
 */
struct rsr_startpoint;

/**
 * See rsr_endpoint_open.
 */
typedef struct rsr_endpoint rsr_endpoint_t;

/**
 * See rsr_handler.
 */
typedef struct rsr_request rsr_request_t;

/**
 * A handler, and what asks for it.
 */
struct rsr_handler {
    /**
     * The number that senders give.
     */
    uint16_t id;
    /**
     * What runs, on a thread of the library, with the request and `argument`. The request and whatever was read of it is
     * gone when it returns. It may send requests. It must not throw, or leave by longjmp.
     */
    void (*run)(rsr_request_t *request, void *argument);
    /**
     * Whatever you like.
     */
    void *argument;
};

/**
 * See rsr_startpoint_from_string.
 */
typedef struct rsr_startpoint rsr_startpoint_t;

/**
 * See rsr_buffer_create.
 */
typedef struct rsr_buffer rsr_buffer_t;

/**
 * Numbers from `low` on, below `high`.
 */
struct rsr_range {
    /**
     * The first.
     */
    size_t low;
    /**
     * The first behind.
     */
    size_t high;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Opens an endpoint with these handlers (`count` may be 0). `listen` says by which methods it can be reached, at which
 * addresses of this host, in order of preference: "vrp=0.0.0.0:4000,zcrp=192.0.2.1:4001,local="; where no address is
 * given the method finds one. NULL is every method: local (this process), vrp, zcrp, pinnace (whichever the one
 * interface chooses). One handler runs at a time.
 *
 * Returns NULL if a method is not there (EPROTONOSUPPORT) or cannot listen (its error), if `listen` is not well-formed or
 * a handler is NULL (EINVAL).
 */
rsr_endpoint_t *rsr_endpoint_open(const char *listen,
                                  const struct rsr_handler *handlers,
                                  size_t count);

/**
 * Adds a handler, or puts it in the place of the one that has its id. Returns 0, or -1 if it is NULL (EINVAL).
 */
int rsr_endpoint_set_handler(rsr_endpoint_t *endpoint, struct rsr_handler handler);

/**
 * The reference to give to others, to be freed with rsr_startpoint_free.
 */
rsr_startpoint_t *rsr_endpoint_startpoint(const rsr_endpoint_t *endpoint);

/**
 * What the endpoint has seen: requests, payload_bytes, requests_with_holes, lost_bytes, unknown_handlers,
 * malformed_headers, unsupported_flags, other_endpoints. Returns -1 if there is no such name (ENOENT).
 */
int64_t rsr_endpoint_counter(const rsr_endpoint_t *endpoint, const char *name);

/**
 * Takes no more requests, waits for the handlers of those that were taken, and frees the endpoint. In a handler of its
 * own it does not wait. NULL is nothing.
 */
void rsr_endpoint_close(rsr_endpoint_t *endpoint);

/**
 * Reads a reference: "rsr:METHOD=ADDRESS,...;id=HEX", as rsr_startpoint_to_string writes it. Without the id it is
 * whichever endpoint is found there. Returns NULL if the text is none (EINVAL).
 */
rsr_startpoint_t *rsr_startpoint_from_string(const char *string);

/**
 * Writes a reference down: at most `size` bytes with the final zero. Returns the length that it has, without the zero: if
 * that is not less than `size`, the text was cut off. `string` may be NULL if `size` is 0. Returns -1 if `startpoint` is
 * NULL (EINVAL).
 */
int rsr_startpoint_to_string(const rsr_startpoint_t *startpoint,
                             char *string,
                             size_t size);

/**
 * The same endpoint, reached by this method and no other. Returns NULL if the startpoint does not list it
 * (EPROTONOSUPPORT).
 */
rsr_startpoint_t *rsr_startpoint_via(const rsr_startpoint_t *startpoint, const char *method);

/**
 * Another reference to the same endpoint. NULL if `startpoint` is (EINVAL).
 */
rsr_startpoint_t *rsr_startpoint_copy(const rsr_startpoint_t *startpoint);

/**
 * Frees a reference. NULL is nothing.
 */
void rsr_startpoint_free(rsr_startpoint_t *startpoint);

/**
 * Runs a handler of an endpoint with what the buffer holds, and returns when the request is there; not when the handler
 * has run. The first method is taken that the startpoint lists, this library has, and whose probe does not fail. The
 * buffer stays yours, as it is.
 *
 * Returns 0, or -1 if no method leads to the endpoint (its error; EPROTONOSUPPORT if none is known here), if the request
 * may not have arrived (ETIMEDOUT, ECONNRESET, ...), or is too large (EMSGSIZE). rsr_error says what was tried.
 */
int rsr_send(const rsr_startpoint_t *startpoint,
             uint16_t handler,
             rsr_buffer_t *buffer);

/**
 * Why the last call of this thread that failed did, in words. Valid until the next one fails.
 */
const char *rsr_error(void);

/**
 * The handler that was asked for.
 */
uint16_t rsr_request_handler(const rsr_request_t *request);

/**
 * Who sent it, as the method writes it. Nobody vouches for it.
 */
const char *rsr_request_source(const rsr_request_t *request);

/**
 * The method that brought it.
 */
const char *rsr_request_method(const rsr_request_t *request);

/**
 * All bytes of a request, and how many: the values as they were put, in the sender's byte order. Those in holes mean
 * nothing.
 */
const void *rsr_request_payload(const rsr_request_t *request, size_t *size);

/**
 * What of the payload was lost, in bytes: ascending, disjoint ranges. Returns how many.
 */
size_t rsr_request_holes(const rsr_request_t *request, const struct rsr_range **holes);

/**
 * What was lost of the value that was read last, if reading it failed with ENODATA: ranges of the indices of an array, or
 * of bytes. Returns how many. Valid until the next value is read.
 */
size_t rsr_request_lost(const rsr_request_t *request,
                        const struct rsr_range **holes);

/**
 * Bytes that were not read yet.
 */
size_t rsr_request_remaining(const rsr_request_t *request);

/**
 * An empty buffer. Its numbers are written as this machine has them; whoever reads them converts.
 */
rsr_buffer_t *rsr_buffer_create(void);

/**
 * Frees a buffer. NULL is nothing.
 */
void rsr_buffer_free(rsr_buffer_t *buffer);

/**
 * Forgets what was put. What may be lost stays as it was said. Returns 0, or -1 if `buffer` is NULL (EINVAL), as do all
 * that follow.
 */
int rsr_buffer_clear(rsr_buffer_t *buffer);

/**
 * Bytes that were put.
 */
size_t rsr_buffer_size(const rsr_buffer_t *buffer);

/**
 * Lets the method lose up to `percent` of what is not critical, and no more than `run_bytes` of it in a row. At first,
 * nothing may be lost. Some methods lose nothing anyway. Fails if `percent` is none of 0 to 100 (EINVAL).
 */
int rsr_buffer_allow_loss(rsr_buffer_t *buffer, double percent, uint64_t run_bytes);

/**
 * What is put from now on must not be lost, up to the rsr_buffer_end_critical that belongs to it. Lengths and startpoints
 * are critical anyway.
 */
int rsr_buffer_begin_critical(rsr_buffer_t *buffer);

/**
 * See rsr_buffer_begin_critical. Fails if nothing was begun (EINVAL).
 */
int rsr_buffer_end_critical(rsr_buffer_t *buffer);

/**
 * Puts bytes, and before them their number. Fails if there is no memory for them (ENOMEM), as do strings and arrays.
 */
int rsr_buffer_put_bytes(rsr_buffer_t *buffer, const void *data, size_t size);

/**
 * Puts a string: UTF-8, otherwise it fails (EINVAL).
 */
int rsr_buffer_put_str(rsr_buffer_t *buffer, const char *string);

/**
 * Puts a reference to an endpoint, so that the handler can answer.
 */
int rsr_buffer_put_startpoint(rsr_buffer_t *buffer, const rsr_startpoint_t *startpoint);

/**
 * Gets bytes: a pointer into the request, valid until its handler returns. Returns 0, or -1: there are too few (ERANGE),
 * or some were lost (ENODATA), then rsr_request_lost says which; `*data` and `*size` are set all the same.
 */
int rsr_request_get_bytes(rsr_request_t *request,
                          const void **data,
                          size_t *size);

/**
 * Gets a string, valid until the handler returns. Returns 0, or -1: it is not all there (ERANGE), a byte of it was lost
 * (ENODATA), or it is no UTF-8, or has a zero in it (EBADMSG).
 */
int rsr_request_get_str(rsr_request_t *request, const char **string);

/**
 * Gets a reference to an endpoint, to be freed with rsr_startpoint_free. Returns NULL if it is not all there (ERANGE), was
 * lost (ENODATA), or is none (EBADMSG).
 */
rsr_startpoint_t *rsr_request_get_startpoint(rsr_request_t *request);

/**
 * Puts a uint8_t.
 */
int rsr_buffer_put_u8(rsr_buffer_t *buffer, uint8_t value);

/**
 * Puts an array of uint8_t, and before it its length.
 */
int rsr_buffer_put_u8_array(rsr_buffer_t *buffer, const uint8_t *values, size_t count);

/**
 * Gets a uint8_t. Returns 0, or -1 without setting it: the request ends before it (ERANGE; the position stays), or a byte
 * of it was lost (ENODATA).
 */
int rsr_request_get_u8(rsr_request_t *request,
                       uint8_t *value);

/**
 * Gets an array of uint8_t into `values`, which has room for so many; sets `*count` to its length (`count` may be NULL, and so
 * may `values` be without room). Returns 0, or -1: the request ends before it (ERANGE), there is not enough room (ENOBUFS; the
 * position stays, and `*count` says how much it takes), or some values were lost (ENODATA): all are set then, and
 * rsr_request_lost says which mean nothing.
 */
int rsr_request_get_u8_array(rsr_request_t *request,
                             uint8_t *values,
                             size_t room,
                             size_t *count);

/**
 * Puts a uint16_t.
 */
int rsr_buffer_put_u16(rsr_buffer_t *buffer, uint16_t value);

/**
 * Puts an array of uint16_t, and before it its length.
 */
int rsr_buffer_put_u16_array(rsr_buffer_t *buffer, const uint16_t *values, size_t count);

/**
 * Gets a uint16_t. Returns as rsr_request_get_u8.
 */
int rsr_request_get_u16(rsr_request_t *request, uint16_t *value);

/**
 * Gets an array of uint16_t. Returns as rsr_request_get_u8_array.
 */
int rsr_request_get_u16_array(rsr_request_t *request, uint16_t *values, size_t room, size_t *count);

/**
 * Puts a uint32_t.
 */
int rsr_buffer_put_u32(rsr_buffer_t *buffer, uint32_t value);

/**
 * Puts an array of uint32_t, and before it its length.
 */
int rsr_buffer_put_u32_array(rsr_buffer_t *buffer, const uint32_t *values, size_t count);

/**
 * Gets a uint32_t. Returns as rsr_request_get_u8.
 */
int rsr_request_get_u32(rsr_request_t *request, uint32_t *value);

/**
 * Gets an array of uint32_t. Returns as rsr_request_get_u8_array.
 */
int rsr_request_get_u32_array(rsr_request_t *request, uint32_t *values, size_t room, size_t *count);

/**
 * Puts a uint64_t.
 */
int rsr_buffer_put_u64(rsr_buffer_t *buffer, uint64_t value);

/**
 * Puts an array of uint64_t, and before it its length.
 */
int rsr_buffer_put_u64_array(rsr_buffer_t *buffer, const uint64_t *values, size_t count);

/**
 * Gets a uint64_t. Returns as rsr_request_get_u8.
 */
int rsr_request_get_u64(rsr_request_t *request, uint64_t *value);

/**
 * Gets an array of uint64_t. Returns as rsr_request_get_u8_array.
 */
int rsr_request_get_u64_array(rsr_request_t *request, uint64_t *values, size_t room, size_t *count);

/**
 * Puts an int8_t.
 */
int rsr_buffer_put_i8(rsr_buffer_t *buffer, int8_t value);

/**
 * Puts an array of int8_t, and before it its length.
 */
int rsr_buffer_put_i8_array(rsr_buffer_t *buffer, const int8_t *values, size_t count);

/**
 * Gets an int8_t. Returns as rsr_request_get_u8.
 */
int rsr_request_get_i8(rsr_request_t *request, int8_t *value);

/**
 * Gets an array of int8_t. Returns as rsr_request_get_u8_array.
 */
int rsr_request_get_i8_array(rsr_request_t *request, int8_t *values, size_t room, size_t *count);

/**
 * Puts an int16_t.
 */
int rsr_buffer_put_i16(rsr_buffer_t *buffer, int16_t value);

/**
 * Puts an array of int16_t, and before it its length.
 */
int rsr_buffer_put_i16_array(rsr_buffer_t *buffer, const int16_t *values, size_t count);

/**
 * Gets an int16_t. Returns as rsr_request_get_u8.
 */
int rsr_request_get_i16(rsr_request_t *request, int16_t *value);

/**
 * Gets an array of int16_t. Returns as rsr_request_get_u8_array.
 */
int rsr_request_get_i16_array(rsr_request_t *request, int16_t *values, size_t room, size_t *count);

/**
 * Puts an int32_t.
 */
int rsr_buffer_put_i32(rsr_buffer_t *buffer, int32_t value);

/**
 * Puts an array of int32_t, and before it its length.
 */
int rsr_buffer_put_i32_array(rsr_buffer_t *buffer, const int32_t *values, size_t count);

/**
 * Gets an int32_t. Returns as rsr_request_get_u8.
 */
int rsr_request_get_i32(rsr_request_t *request, int32_t *value);

/**
 * Gets an array of int32_t. Returns as rsr_request_get_u8_array.
 */
int rsr_request_get_i32_array(rsr_request_t *request, int32_t *values, size_t room, size_t *count);

/**
 * Puts an int64_t.
 */
int rsr_buffer_put_i64(rsr_buffer_t *buffer, int64_t value);

/**
 * Puts an array of int64_t, and before it its length.
 */
int rsr_buffer_put_i64_array(rsr_buffer_t *buffer, const int64_t *values, size_t count);

/**
 * Gets an int64_t. Returns as rsr_request_get_u8.
 */
int rsr_request_get_i64(rsr_request_t *request, int64_t *value);

/**
 * Gets an array of int64_t. Returns as rsr_request_get_u8_array.
 */
int rsr_request_get_i64_array(rsr_request_t *request, int64_t *values, size_t room, size_t *count);

/**
 * Puts a float.
 */
int rsr_buffer_put_f32(rsr_buffer_t *buffer, float value);

/**
 * Puts an array of float, and before it its length.
 */
int rsr_buffer_put_f32_array(rsr_buffer_t *buffer, const float *values, size_t count);

/**
 * Gets a float. Returns as rsr_request_get_u8.
 */
int rsr_request_get_f32(rsr_request_t *request, float *value);

/**
 * Gets an array of float. Returns as rsr_request_get_u8_array.
 */
int rsr_request_get_f32_array(rsr_request_t *request, float *values, size_t room, size_t *count);

/**
 * Puts a double.
 */
int rsr_buffer_put_f64(rsr_buffer_t *buffer, double value);

/**
 * Puts an array of double, and before it its length.
 */
int rsr_buffer_put_f64_array(rsr_buffer_t *buffer, const double *values, size_t count);

/**
 * Gets a double. Returns as rsr_request_get_u8.
 */
int rsr_request_get_f64(rsr_request_t *request, double *value);

/**
 * Gets an array of double. Returns as rsr_request_get_u8_array.
 */
int rsr_request_get_f64_array(rsr_request_t *request, double *values, size_t room, size_t *count);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* RSR_H */

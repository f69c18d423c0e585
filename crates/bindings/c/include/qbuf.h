/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * QBUF: buffers that change owners. A message is not copied: the ownership of the memory that it lies in passes on, to another
 * process of this host, for the same price whatever its size, or to the engine of a QMP socket, which sends straight from
 * there.
 *
 *     one process                                       another
 *
 *     int fd = qb_open("camera", NULL);                 int fd = qb_open("camera", NULL);
 *     char *p = qb_alloc(fd, size);                     void *p;
 *     draw(p, size);                                    size_t size;
 *     qb_write(fd, p, size);                            while (qb_read(fd, &p, &size) > 0) {
 *     ... p is not ours any more ...                        show(p, size);
 *     qb_close(fd);                                         qb_free(fd, p);
 *                                                       }
 *
 * With a socket of QMP (qmp.h): open a pool without a name, set it with QMP_POOL, and call qb_write and qb_read with the
 * socket's number.
 *
 * All functions may be called from any thread. What fails says why in errno. Using a buffer after it was passed or freed is a
 * defect that QB_DEBUG, or PINNACE_QBUF_DEBUG=1 in the environment, turns into a fault (SIGSEGV) at the line that does it;
 * passing or freeing it again is EPERM. What a process has when it dies goes back to the pool. A child process made by fork()
 * has none of its parent's pools (EBADF), and must not touch its buffers; it may open its own.
 *
 * Link with -lpinnace, or with libpinnace.a and what `pkg-config --static --libs pinnace` says.
 */

#ifndef QBUF_H
#define QBUF_H

/* Made from the library's source, crates/bindings/c/src/qbuf. Do not edit. */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/**
 * qb_options.flags: buffers that are passed or freed become inaccessible, so that using them faults (SIGSEGV). Also with
 * PINNACE_QBUF_DEBUG=1 in the environment. Costs a system call each time.
 */
#define QB_DEBUG 1

/**
 * qb_options.flags: all blocks are wired (mlock), as far as the system allows.
 */
#define QB_WIRED 2

/**
 * qb_options.flags: blocks are allocated by compare and swap instead of with a lock a zone.
 */
#define QB_LOCK_FREE 4

/**
 * qb_options.flags: pages of 2 MiB, which the system must have set aside; block_size must be as large.
 */
#define QB_HUGE_PAGES 8

/**
 * qb_options.flags: qb_read and qb_write do not wait (EAGAIN). poll() may wait for the number then: it is readable (POLLIN)
 * when there is something to read, and also, some 200 ms later at most, when the process at the other end has died.
 */
#define QB_NONBLOCK 16

/**
 * How a pool is opened. A member that is 0 is the default, so clear it first.
 */
struct qb_options {
    /**
     * Zones, of 32 blocks each: up to 65536 (64).
     */
    uint32_t zones;
    /**
     * QB_DEBUG and the like, or'ed.
     */
    uint32_t flags;
    /**
     * Bytes of a block: a power of two from 4096 on (4096). A buffer has at most 32 blocks.
     */
    size_t block_size;
    /**
     * How many buffers may be on their way in one direction: up to 65536 (1024).
     */
    uint32_t slots;
    /**
     * Microseconds that qb_read and qb_write look before they sleep (0): the least latency, for processor time.
     */
    uint32_t spin_us;
    /**
     * Milliseconds that qb_open waits for the other end; 0: as long as it takes.
     */
    uint32_t timeout_ms;
};

/**
 * See qbuf_register. Never 0.
 */
typedef int qbuf_handle_t;

/**
 * A buffer as the transport sees it.
 */
struct qbuf {
    /**
     * The zone that it lies in.
     */
    uint32_t zone;
    /**
     * How many blocks it has.
     */
    uint32_t blocks;
    /**
     * Where its data begin; with QB_DEBUG this is not the address that was wrapped.
     */
    void *address;
    /**
     * How many bytes of data there are.
     */
    size_t length;
    /**
     * The address of each block.
     */
    void **block_address;
};

/**
 * What is in a pool, and what has happened there.
 */
struct qb_stats {
    /**
     * Zones.
     */
    uint64_t zones;
    /**
     * Bytes of a block.
     */
    uint64_t block_size;
    /**
     * Blocks.
     */
    uint64_t blocks;
    /**
     * Of these: free.
     */
    uint64_t free_blocks;
    /**
     * Of these: with applications.
     */
    uint64_t user_blocks;
    /**
     * Of these: with engines, until they are acknowledged.
     */
    uint64_t engine_blocks;
    /**
     * Of these: on their way from one process to another.
     */
    uint64_t transit_blocks;
    /**
     * Of these: freed, but not yet back in their zone.
     */
    uint64_t deferred_blocks;
    /**
     * Processes, or parts of them, that have the pool.
     */
    uint64_t clients;
    /**
     * Allocations that found nothing.
     */
    uint64_t failed_allocs;
    /**
     * Zones that an allocation passed over because they were locked.
     */
    uint64_t busy_zones;
    /**
     * Frees that were put off because the zone was locked.
     */
    uint64_t deferred_frees;
    /**
     * Dead processes whose buffers were freed.
     */
    uint64_t swept_clients;
    /**
     * Blocks of dead processes that were freed.
     */
    uint64_t swept_blocks;
    /**
     * Locks of dead processes that were broken.
     */
    uint64_t broken_locks;
    /**
     * Words in the control structure that were not what they must be.
     */
    uint64_t corrupt_words;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Opens a pool of buffers. With a name: the pool of that name on this host, and one end of a channel in it: the first who
 * opens it makes both, and waits for the second, who gets the other end; both must be processes of one user. What one
 * writes the other reads. A third who opens the name is the first of another pair. Without a name (NULL): a pool of this
 * process, for buffers to and from sockets of QMP (QMP_POOL in qmp.h). `options` may be NULL; the second end takes the pool
 * as it is.
 *
 * Returns its number, or -1: EINVAL: a name that is empty or longer than 64 bytes, or options that cannot be; ETIMEDOUT:
 * nobody came within timeout_ms, or who has the name does not answer; EACCES: somebody else's process has the name; EPROTO:
 * the other end is another version; ENOMEM, EMFILE, ENFILE.
 *
 *     struct qb_options options = {.block_size = 65536};
 *     int fd = qb_open("camera", &options);
 */
int qb_open(const char *name,
            const struct qb_options *options);

/**
 * Closes a pool: the other end reads what was written, and then the end. Buffers that you still have go back to the pool, and
 * their addresses are good for nothing any more; those that a socket of QMP's sends, or a handle holds, stay until they are
 * freed. A thread that waits in qb_read or qb_write returns (ECANCELED).
 *
 * Returns 0, or -1: EBADF.
 *
 *     qb_close(fd);
 */
int qb_close(int fd);

/**
 * A buffer of at least `len` bytes; at most 32 blocks. What is in it is what its last owner left there. `fd` is a number of
 * qb_open, or a socket of QMP with a pool.
 *
 * Returns its address, or NULL: ENOMEM: no zone has so many free blocks in a row; EMSGSIZE: more than 32 blocks; EOPNOTSUPP:
 * a socket without a pool; EBADF.
 *
 *     char *data = qb_alloc(fd, 100000);
 */
void *qb_alloc(int fd,
               size_t len);

/**
 * Gives a buffer back that came from qb_alloc or qb_read.
 *
 * Returns 0, or -1: EINVAL: no buffer of this pool begins there; EPERM: it was passed on, or freed; EBADF.
 *
 *     qb_free(fd, data);
 */
int qb_free(int fd, void *p);

/**
 * Passes the first `len` bytes of a buffer on, without copying them: to the other end of the channel, whose buffer it is
 * then; or, if `fd` is a connected socket of QMP, into its stream: then the engine frees it when the peer has acknowledged
 * it. Either way it is not yours any more. Waits for room, unless QB_NONBLOCK, or the socket's O_NONBLOCK or SO_SNDTIMEO, says
 * otherwise.
 *
 * Returns `len`, or -1, and it is still yours: EAGAIN: no room now; EINVAL: no buffer of this pool begins there, or `len` is
 * 0; EPERM: it was passed on, or freed; EMSGSIZE: it is not as long; EOPNOTSUPP: a socket without a pool; ENOTCONN: nobody
 * is at the other end; EBADF. Or -1, and it is freed: EPIPE: the other end is closed (the first call after that may go without
 * notice, as with any socket); ECANCELED: another thread closed the pool meanwhile; and what else qmp_send says of the
 * connection.
 *
 *     if (qb_write(fd, data, size) < 0 && errno == EAGAIN)
 *         ...
 */
ssize_t qb_write(int fd,
                 void *p,
                 size_t len);

/**
 * The next buffer that comes: what the other end has written; or, if `fd` is a connected socket of QMP with a pool, bytes of
 * its stream, whose bounds say nothing. The library chooses the address. It is yours: give it back with qb_free, or pass it
 * on. Waits, unless QB_NONBLOCK, or the socket's O_NONBLOCK or SO_RCVTIMEO, says otherwise.
 *
 * Returns how many bytes, which is `*len` as well; 0 at the end, with NULL at `*p`; or -1: EAGAIN: nothing is there; ENOMEM:
 * the pool is empty; ECONNABORTED: the other end wrote what cannot be, and the channel is closed; EOPNOTSUPP: a socket
 * without a pool; ENOTCONN: nobody is at the other end; ECANCELED: another thread closed the pool meanwhile; EFAULT: a
 * pointer is NULL; EBADF; and what else qmp_recv says.
 *
 *     void *data;
 *     size_t size;
 *     while (qb_read(fd, &data, &size) > 0) {
 *         take(data, size);
 *         qb_free(fd, data);
 *     }
 */
ssize_t qb_read(int fd,
                void **p,
                size_t *len);

/**
 * Registers a user of a pool.
 *
 * Returns a handle for qbuf_wrap, or -1: EOPNOTSUPP: a socket without a pool; EBADF.
 *
 *     qbuf_handle_t handle = qbuf_register(fd);
 */
qbuf_handle_t qbuf_register(int fd);

/**
 * Ends a registration.
 *
 * Returns 0, or -1: EBUSY: buffers are wrapped; EBADF: no handle.
 *
 *     qbuf_unregister(handle);
 */
int qbuf_unregister(qbuf_handle_t handle);

/**
 * Makes `len` bytes at `p`, which may lie anywhere in a buffer of yours, a buffer of the transport: its pages are wired, as far
 * as the system allows, and it is not yours any more.
 *
 * Returns it, to be freed by qbuf_vfree, or NULL: EINVAL: no buffer of this pool is there, it is not as long, or `len` is 0;
 * EPERM: it was passed on, or freed; EBADF: no handle.
 *
 *     struct qbuf *buffer = qbuf_wrap(handle, data, size);
 */
struct qbuf *qbuf_wrap(qbuf_handle_t handle,
                       void *p,
                       size_t len);

/**
 * Unwires a buffer of qbuf_wrap, and frees it: the memory as well.
 *
 * Returns 0, or -1: EINVAL: no buffer of this handle; EBADF: no handle.
 *
 *     qbuf_vfree(handle, buffer);
 */
int qbuf_vfree(qbuf_handle_t handle, struct qbuf *buffer);

/**
 * What is in a pool, and what has happened there. Counted while others go on: the sums fit once they rest.
 *
 * Returns 0, or -1: EOPNOTSUPP: a socket without a pool; EFAULT, EBADF.
 *
 *     struct qb_stats stats;
 *     qb_stats(fd, &stats);
 */
int qb_stats(int fd, struct qb_stats *stats);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* QBUF_H */

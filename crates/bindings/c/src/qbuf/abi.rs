//! What C sees of QBUF. The comments here are the header's.
#![allow(non_camel_case_types, reason = "the names are the paper's")]
#![allow(clippy::missing_safety_doc, reason = "the comments are written for C, where nothing is safe")]

use super::buffers::{Buffers, How};
use super::{give, transfer};
use crate::descriptors::{self, Descriptor};
use crate::errors::{Errno, guard};
use libc::{c_char, c_int, c_void, ssize_t};
use pinnace_qbuf::{Pool, PoolOptions, Variant};
use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

/// qb_options.flags: buffers that are passed or freed become inaccessible, so that using them faults (SIGSEGV). Also with
/// PINNACE_QBUF_DEBUG=1 in the environment. Costs a system call each time.
pub const QB_DEBUG: u32 = 1;
/// qb_options.flags: all blocks are wired (mlock), as far as the system allows.
pub const QB_WIRED: u32 = 2;
/// qb_options.flags: blocks are allocated by compare and swap instead of with a lock a zone.
pub const QB_LOCK_FREE: u32 = 4;
/// qb_options.flags: pages of 2 MiB, which the system must have set aside; block_size must be as large.
pub const QB_HUGE_PAGES: u32 = 8;
/// qb_options.flags: qb_read and qb_write do not wait (EAGAIN). poll() may wait for the number then: it is readable (POLLIN)
/// when there is something to read, and also, some 200 ms later at most, when the process at the other end has died.
pub const QB_NONBLOCK: u32 = 16;

/// How a pool is opened. A member that is 0 is the default, so clear it first.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct qb_options {
    /// Zones, of 32 blocks each: up to 65536 (64).
    pub zones: u32,
    /// QB_DEBUG and the like, or'ed.
    pub flags: u32,
    /// Bytes of a block: a power of two from 4096 on (4096). A buffer has at most 32 blocks.
    pub block_size: usize,
    /// How many buffers may be on their way in one direction: up to 65536 (1024).
    pub slots: u32,
    /// Microseconds that qb_read and qb_write look before they sleep (0): the least latency, for processor time.
    pub spin_us: u32,
    /// Milliseconds that qb_open waits for the other end; 0: as long as it takes.
    pub timeout_ms: u32,
}

/// What is in a pool, and what has happened there.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct qb_stats {
    /// Zones.
    pub zones: u64,
    /// Bytes of a block.
    pub block_size: u64,
    /// Blocks.
    pub blocks: u64,
    /// Of these: free.
    pub free_blocks: u64,
    /// Of these: with applications.
    pub user_blocks: u64,
    /// Of these: with engines, until they are acknowledged.
    pub engine_blocks: u64,
    /// Of these: on their way from one process to another.
    pub transit_blocks: u64,
    /// Of these: freed, but not yet back in their zone.
    pub deferred_blocks: u64,
    /// Processes, or parts of them, that have the pool.
    pub clients: u64,
    /// Allocations that found nothing.
    pub failed_allocs: u64,
    /// Zones that an allocation passed over because they were locked.
    pub busy_zones: u64,
    /// Frees that were put off because the zone was locked.
    pub deferred_frees: u64,
    /// Dead processes whose buffers were freed.
    pub swept_clients: u64,
    /// Blocks of dead processes that were freed.
    pub swept_blocks: u64,
    /// Locks of dead processes that were broken.
    pub broken_locks: u64,
    /// Words in the control structure that were not what they must be.
    pub corrupt_words: u64,
}

/// A buffer as the transport sees it.
#[repr(C)]
#[derive(Debug)]
pub struct qbuf {
    /// The zone that it lies in.
    pub zone: u32,
    /// How many blocks it has.
    pub blocks: u32,
    /// Where its data begin; with QB_DEBUG this is not the address that was wrapped.
    pub address: *mut c_void,
    /// How many bytes of data there are.
    pub length: usize,
    /// The address of each block.
    pub block_address: *mut *mut c_void,
}

/// See qbuf_register. Never 0.
pub type qbuf_handle_t = c_int;

/// Opens a pool of buffers. With a name: the pool of that name on this host, and one end of a channel in it: the first who
/// opens it makes both, and waits for the second, who gets the other end; both must be processes of one user. What one
/// writes the other reads. A third who opens the name is the first of another pair. Without a name (NULL): a pool of this
/// process, for buffers to and from sockets of QMP (QMP_POOL in qmp.h). `options` may be NULL; the second end takes the pool
/// as it is.
///
/// Returns its number, or -1: EINVAL: a name that is empty or longer than 64 bytes, or options that cannot be; ETIMEDOUT:
/// nobody came within timeout_ms, or who has the name does not answer; EACCES: somebody else's process has the name; EPROTO:
/// the other end is another version; ENOMEM, EMFILE, ENFILE.
///
///     struct qb_options options = {.block_size = 65536};
///     int fd = qb_open("camera", &options);
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qb_open(name: *const c_char, options: *const qb_options) -> c_int {
    guard(-1, || {
        // SAFETY: C promises options, or NULL.
        let how = how(unsafe { options.as_ref() }.copied().unwrap_or_default())?;
        let buffers = if name.is_null() {
            Buffers::private(&how)?
        } else {
            // SAFETY: C promises a string.
            Buffers::named(unsafe { CStr::from_ptr(name) }.to_bytes(), &how)?
        };
        Ok(descriptors::current().insert(Descriptor::Buffers(Arc::new(buffers))))
    })
}

/// Closes a pool: the other end reads what was written, and then the end. Buffers that you still have go back to the pool, and
/// their addresses are good for nothing any more; those that a socket of QMP's sends, or a handle holds, stay until they are
/// freed. A thread that waits in qb_read or qb_write returns (ECANCELED).
///
/// Returns 0, or -1: EBADF.
///
///     qb_close(fd);
#[unsafe(no_mangle)]
pub extern "C" fn qb_close(fd: c_int) -> c_int {
    guard(-1, || {
        let table = descriptors::current();
        match table.find(fd)? {
            Descriptor::Buffers(buffers) => {
                buffers.close();
                drop::<Descriptor>(table.remove(fd)?);
            }
            Descriptor::Socket(_) => return Err(Errno(libc::EBADF)),
        }
        Ok(0)
    })
}

/// A buffer of at least `len` bytes; at most 32 blocks. What is in it is what its last owner left there. `fd` is a number of
/// qb_open, or a socket of QMP with a pool.
///
/// Returns its address, or NULL: ENOMEM: no zone has so many free blocks in a row; EMSGSIZE: more than 32 blocks; EOPNOTSUPP:
/// a socket without a pool; EBADF.
///
///     char *data = qb_alloc(fd, 100000);
#[unsafe(no_mangle)]
pub extern "C" fn qb_alloc(fd: c_int, len: usize) -> *mut c_void {
    guard(std::ptr::null_mut(), || {
        let pool = pool_of(fd)?;
        if len > pool.max_len() {
            return Err(Errno(libc::EMSGSIZE));
        }
        Ok(give(pool.alloc(len).ok_or(Errno(libc::ENOMEM))?).as_ptr().cast())
    })
}

/// Gives a buffer back that came from qb_alloc or qb_read.
///
/// Returns 0, or -1: EINVAL: no buffer of this pool begins there; EPERM: it was passed on, or freed; EBADF.
///
///     qb_free(fd, data);
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qb_free(fd: c_int, p: *mut c_void) -> c_int {
    guard(-1, || {
        let pointer = given(p)?;
        match descriptors::current().find(fd)? {
            Descriptor::Buffers(buffers) => buffers.free(pointer)?,
            Descriptor::Socket(socket) => drop(super::claim(&transfer::pool_of(&socket)?, pointer)?),
        }
        Ok(0)
    })
}

/// Passes the first `len` bytes of a buffer on, without copying them: to the other end of the channel, whose buffer it is
/// then; or, if `fd` is a connected socket of QMP, into its stream: then the engine frees it when the peer has acknowledged
/// it. Either way it is not yours any more. Waits for room, unless QB_NONBLOCK, or the socket's O_NONBLOCK or SO_SNDTIMEO, says
/// otherwise.
///
/// Returns `len`, or -1, and it is still yours: EAGAIN: no room now; EINVAL: no buffer of this pool begins there, or `len` is
/// 0; EPERM: it was passed on, or freed; EMSGSIZE: it is not as long; EOPNOTSUPP: a socket without a pool; ENOTCONN: nobody
/// is at the other end; EBADF. Or -1, and it is freed: EPIPE: the other end is closed (the first call after that may go without
/// notice, as with any socket); ECANCELED: another thread closed the pool meanwhile; and what else qmp_send says of the
/// connection.
///
///     if (qb_write(fd, data, size) < 0 && errno == EAGAIN)
///         ...
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qb_write(fd: c_int, p: *mut c_void, len: usize) -> ssize_t {
    guard(-1, || {
        let pointer = given(p)?;
        match descriptors::current().find(fd)? {
            Descriptor::Buffers(buffers) => buffers.write(pointer, len)?,
            Descriptor::Socket(socket) => transfer::write(&socket, pointer, len)?,
        }
        Ok(len.cast_signed())
    })
}

/// The next buffer that comes: what the other end has written; or, if `fd` is a connected socket of QMP with a pool, bytes of
/// its stream, whose bounds say nothing. The library chooses the address. It is yours: give it back with qb_free, or pass it
/// on. Waits, unless QB_NONBLOCK, or the socket's O_NONBLOCK or SO_RCVTIMEO, says otherwise.
///
/// Returns how many bytes, which is `*len` as well; 0 at the end, with NULL at `*p`; or -1: EAGAIN: nothing is there; ENOMEM:
/// the pool is empty; ECONNABORTED: the other end wrote what cannot be, and the channel is closed; EOPNOTSUPP: a socket
/// without a pool; ENOTCONN: nobody is at the other end; ECANCELED: another thread closed the pool meanwhile; EFAULT: a
/// pointer is NULL; EBADF; and what else qmp_recv says.
///
///     void *data;
///     size_t size;
///     while (qb_read(fd, &data, &size) > 0) {
///         take(data, size);
///         qb_free(fd, data);
///     }
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qb_read(fd: c_int, p: *mut *mut c_void, len: *mut usize) -> ssize_t {
    guard(-1, || {
        let (p, len) = (NonNull::new(p), NonNull::new(len));
        let (p, len) = p.zip(len).ok_or(Errno(libc::EFAULT))?;
        let received = match descriptors::current().find(fd)? {
            Descriptor::Buffers(buffers) => buffers.read()?,
            Descriptor::Socket(socket) => transfer::read(&socket)?,
        };
        let (address, size) = match received {
            Some(qbuf) => {
                let size = qbuf.len();
                (give(qbuf).as_ptr().cast(), size)
            }
            None => (std::ptr::null_mut(), 0),
        };
        // SAFETY: C promises both, and that they may be written.
        unsafe {
            p.write(address);
            len.write(size);
        }
        Ok(size.cast_signed())
    })
}

/// Registers a user of a pool.
///
/// Returns a handle for qbuf_wrap, or -1: EOPNOTSUPP: a socket without a pool; EBADF.
///
///     qbuf_handle_t handle = qbuf_register(fd);
#[unsafe(no_mangle)]
pub extern "C" fn qbuf_register(fd: c_int) -> qbuf_handle_t {
    guard(-1, || descriptors::current().handles().register(&pool_of(fd)?))
}

/// Ends a registration.
///
/// Returns 0, or -1: EBUSY: buffers are wrapped; EBADF: no handle.
///
///     qbuf_unregister(handle);
#[unsafe(no_mangle)]
pub extern "C" fn qbuf_unregister(handle: qbuf_handle_t) -> c_int {
    guard(-1, || {
        descriptors::current().handles().unregister(handle)?;
        Ok(0)
    })
}

/// Makes `len` bytes at `p`, which may lie anywhere in a buffer of yours, a buffer of the transport: its pages are wired, as far
/// as the system allows, and it is not yours any more.
///
/// Returns it, to be freed by qbuf_vfree, or NULL: EINVAL: no buffer of this pool is there, it is not as long, or `len` is 0;
/// EPERM: it was passed on, or freed; EBADF: no handle.
///
///     struct qbuf *buffer = qbuf_wrap(handle, data, size);
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qbuf_wrap(handle: qbuf_handle_t, p: *mut c_void, len: usize) -> *mut qbuf {
    guard(std::ptr::null_mut(), || descriptors::current().handles().wrap(handle, given(p)?, len))
}

/// Unwires a buffer of qbuf_wrap, and frees it: the memory as well.
///
/// Returns 0, or -1: EINVAL: no buffer of this handle; EBADF: no handle.
///
///     qbuf_vfree(handle, buffer);
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qbuf_vfree(handle: qbuf_handle_t, buffer: *mut qbuf) -> c_int {
    guard(-1, || {
        descriptors::current().handles().free(handle, buffer)?;
        Ok(0)
    })
}

/// What is in a pool, and what has happened there. Counted while others go on: the sums fit once they rest.
///
/// Returns 0, or -1: EOPNOTSUPP: a socket without a pool; EFAULT, EBADF.
///
///     struct qb_stats stats;
///     qb_stats(fd, &stats);
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qb_stats(fd: c_int, stats: *mut qb_stats) -> c_int {
    guard(-1, || {
        let pool = pool_of(fd)?;
        let stats = NonNull::new(stats).ok_or(Errno(libc::EFAULT))?;
        let now = pool.stats();
        let seen = qb_stats {
            zones: now.zones,
            block_size: now.block_bytes,
            blocks: now.blocks,
            free_blocks: now.free_blocks,
            user_blocks: now.user_blocks,
            engine_blocks: now.engine_blocks,
            transit_blocks: now.transit_blocks,
            deferred_blocks: now.deferred_blocks,
            clients: now.clients,
            failed_allocs: now.failed_allocs,
            busy_zones: now.busy_zones,
            deferred_frees: now.deferred_frees,
            swept_clients: now.swept_clients,
            swept_blocks: now.swept_blocks,
            broken_locks: now.broken_locks,
            corrupt_words: now.corrupt_words,
        };
        // SAFETY: C promises such a structure, which may be uninitialised.
        unsafe { stats.write(seen) };
        Ok(0)
    })
}

fn given(p: *mut c_void) -> Result<NonNull<u8>, Errno> {
    NonNull::new(p.cast()).ok_or(Errno(libc::EINVAL))
}

fn pool_of(fd: c_int) -> Result<Pool, Errno> {
    match descriptors::current().find(fd)? {
        Descriptor::Buffers(buffers) => Ok(buffers.pool().clone()),
        Descriptor::Socket(socket) => transfer::pool_of(&socket),
    }
}

fn how(options: qb_options) -> Result<How, Errno> {
    let qb_options { zones, flags, block_size, slots, spin_us, timeout_ms } = options;
    if flags & !(QB_DEBUG | QB_WIRED | QB_LOCK_FREE | QB_HUGE_PAGES | QB_NONBLOCK) != 0 || slots > 65_536 {
        return Err(Errno(libc::EINVAL));
    }
    let has = |flag: u32| flags & flag != 0;
    let or = PoolOptions::default();
    let pool = PoolOptions {
        zones: if zones == 0 { or.zones } else { zones },
        block_bytes: if block_size == 0 { or.block_bytes } else { block_size },
        variant: if has(QB_LOCK_FREE) { Variant::LockFree } else { or.variant },
        wired: has(QB_WIRED),
        guarded: has(QB_DEBUG) || std::env::var_os("PINNACE_QBUF_DEBUG").is_some_and(|value| value == "1"),
        huge_pages: has(QB_HUGE_PAGES),
        share_percent: or.share_percent,
    };
    Ok(How {
        pool,
        slots: if slots == 0 { 1024 } else { slots },
        is_blocking: !has(QB_NONBLOCK),
        spin: Duration::from_micros(spin_us.into()),
        timeout: (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms.into())),
    })
}

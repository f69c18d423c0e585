//! The functions that this library replaces, as the next library in the search order has them.
//!
//! Always true: a pointer is looked up once (all of them when the library is loaded) and never changes.

use core::ffi::{c_char, c_int, c_uint, c_ulong, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use libc::{
    epoll_event, iovec, loff_t, mmsghdr, msghdr, posix_spawn_file_actions_t, size_t, sockaddr, socklen_t, ssize_t,
};
use libc::{pid_t, posix_spawnattr_t, stat, timespec};

fn next(slot: &AtomicPtr<c_void>, name: &'static str) -> *mut c_void {
    let known = slot.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: `name` ends with a zero byte (see the macro).
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr().cast::<c_char>()) };
    slot.store(found, Ordering::Relaxed);
    found
}

static HAS_RINGS: AtomicBool = AtomicBool::new(false);

/// Whether the program has liburing, and so may ask the kernel for connections past the functions that are replaced here.
pub(crate) fn has_rings() -> bool {
    HAS_RINGS.load(Ordering::Relaxed)
}

macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        $(
            /// The next function of this name; ENOSYS if there is none.
            ///
            /// # Safety
            ///
            /// As the function's manual page says.
            pub(crate) unsafe fn $name($($argument: $type),*) -> $answer {
                let pointer = next(&slots::$name, concat!(stringify!($name), "\0"));
                if pointer.is_null() {
                    crate::sys::set_errno(libc::ENOSYS);
                    return -1;
                }
                // SAFETY: the C library's function of this name has this signature.
                let function: unsafe extern "C-unwind" fn($($type),*) -> $answer = unsafe { core::mem::transmute(pointer) };
                // SAFETY: the caller's promise.
                unsafe { function($($argument),*) }
            }
        )*

        #[allow(non_upper_case_globals, reason = "a slot has its function's name")]
        mod slots {
            use super::{AtomicPtr, c_void, null_mut};
            $(pub(super) static $name: AtomicPtr<c_void> = AtomicPtr::new(null_mut());)*
        }

        /// Looks up all of them.
        pub(crate) fn resolve() {
            $(next(&slots::$name, concat!(stringify!($name), "\0"));)*
            // SAFETY: the name ends with a zero byte.
            let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"io_uring_queue_init".as_ptr()) };
            HAS_RINGS.store(!found.is_null(), Ordering::Relaxed);
        }
    };
}

functions! {
    socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    listen(fd: c_int, backlog: c_int) -> c_int;
    accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int;
    connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int;
    shutdown(fd: c_int, how: c_int) -> c_int;
    getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int;
    getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int;
    setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int;
    close(fd: c_int) -> c_int;
    close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    dup(fd: c_int) -> c_int;
    dup2(old: c_int, new: c_int) -> c_int;
    dup3(old: c_int, new: c_int, flags: c_int) -> c_int;
    fcntl64(fd: c_int, command: c_int, argument: *mut c_void) -> c_int;
    ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int;
    posix_spawn_file_actions_adddup2(actions: *mut posix_spawn_file_actions_t, old: c_int, new: c_int) -> c_int;
    execve(path: *const c_char, words: *const *const c_char, environment: *const *const c_char) -> c_int;
    execvpe(file: *const c_char, words: *const *const c_char, environment: *const *const c_char) -> c_int;
    fexecve(fd: c_int, words: *const *const c_char, environment: *const *const c_char) -> c_int;
    execveat(folder: c_int, path: *const c_char, words: *const *const c_char, environment: *const *const c_char, flags: c_int) -> c_int;
    posix_spawn(child: *mut pid_t, path: *const c_char, actions: *const posix_spawn_file_actions_t, attributes: *const posix_spawnattr_t, words: *const *const c_char, environment: *const *const c_char) -> c_int;
    posix_spawnp(child: *mut pid_t, file: *const c_char, actions: *const posix_spawn_file_actions_t, attributes: *const posix_spawnattr_t, words: *const *const c_char, environment: *const *const c_char) -> c_int;
    fstat(fd: c_int, into: *mut stat) -> c_int;
    __fxstat(version: c_int, fd: c_int, into: *mut stat) -> c_int;
    epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int;
    sendto(fd: c_int, bytes: *const c_void, len: size_t, flags: c_int, to: *const sockaddr, to_len: socklen_t) -> ssize_t;
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    read(fd: c_int, into: *mut c_void, len: size_t) -> ssize_t;
    readv(fd: c_int, into: *const iovec, count: c_int) -> ssize_t;
    recv(fd: c_int, into: *mut c_void, len: size_t, flags: c_int) -> ssize_t;
    __read_chk(fd: c_int, into: *mut c_void, len: size_t, room: size_t) -> ssize_t;
    __recv_chk(fd: c_int, into: *mut c_void, len: size_t, room: size_t, flags: c_int) -> ssize_t;
    recvfrom(fd: c_int, into: *mut c_void, len: size_t, flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> ssize_t;
    __recvfrom_chk(fd: c_int, into: *mut c_void, len: size_t, room: size_t, flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> ssize_t;
    splice(from: c_int, from_place: *mut loff_t, to: c_int, to_place: *mut loff_t, len: size_t, flags: c_uint) -> ssize_t;
    recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int;
}

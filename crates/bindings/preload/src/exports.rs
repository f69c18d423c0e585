//! The functions that replace the C library's. Each keeps `errno` as it was when it succeeds.

#![allow(clippy::missing_safety_doc, reason = "as the manual page of the function says")]

use crate::sys::{self, End, Outcome};
use crate::table::{self, Notes};
use crate::{accept, carrier, connect, descriptor, exec, listener, message, options, real};
use core::ffi::{c_char, c_int, c_uint, c_ulong, c_void};

use libc::{
    epoll_event, iovec, loff_t, mmsghdr, msghdr, posix_spawn_file_actions_t, size_t, sockaddr, socklen_t, ssize_t,
};
use libc::{pid_t, posix_spawnattr_t, stat, timespec};

fn answer(saved: c_int, outcome: Outcome) -> c_int {
    match outcome {
        Ok(value) => {
            sys::set_errno(saved);
            value
        }
        Err(error) => {
            sys::set_errno(error);
            -1
        }
    }
}

/// Defines exported functions. In this crate's own tests they have no exported names, and replace nothing.
macro_rules! export {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty $body:block)*) => {
        $(
            $(#[$doc])*
            #[cfg_attr(not(test), unsafe(no_mangle))]
            pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $answer $body
        )*
    };
}

export! {
    /// A TCP socket stays one until it is connected or listens.
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        // SAFETY: no pointers.
        let fd = unsafe { real::socket(domain, kind, protocol) };
        if fd >= 0 {
            descriptor::given(fd);
            let is_tcp = matches!(domain, libc::AF_INET | libc::AF_INET6)
                && kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) == libc::SOCK_STREAM
                && matches!(protocol, 0 | libc::IPPROTO_TCP);
            if is_tcp {
                table::set_notes(fd, Notes::fresh());
            }
        }
        fd
    }

    /// A listener is bound already; its epoll descriptor would say ENOTSOCK.
    fn bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
        let bound = table::listener(fd).map_or(fd, |members| members.tcp);
        // SAFETY: the caller's promise.
        unsafe { real::bind(bound, address, len) }
    }

    fn listen(fd: c_int, backlog: c_int) -> c_int {
        answer(sys::errno(), listener::listen(fd, backlog))
    }

    fn accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
        // SAFETY: the caller's promise.
        answer(sys::errno(), unsafe { accept::accept4(fd, address, len, 0) })
    }

    fn accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
        // SAFETY: the caller's promise.
        answer(sys::errno(), unsafe { accept::accept4(fd, address, len, flags) })
    }

    fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
        // SAFETY: the caller's promise.
        answer(sys::errno(), unsafe { connect::connect(fd, address, len) })
    }

    fn shutdown(fd: c_int, how: c_int) -> c_int {
        match table::listener(fd) {
            // It wakes up whoever waits in accept().
            Some(members) => {
                let _ = sys::shutdown(members.unix, how);
                // SAFETY: no pointers.
                unsafe { real::shutdown(members.tcp, how) }
            }
            None => {
                carrier::shutting(fd, how);
                // SAFETY: no pointers.
                unsafe { real::shutdown(fd, how) }
            }
        }
    }

    fn getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
        // SAFETY: the caller's promise.
        answer(sys::errno(), unsafe { options::name(fd, End::Own, address, len) })
    }

    fn getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
        // SAFETY: the caller's promise.
        answer(sys::errno(), unsafe { options::name(fd, End::Peer, address, len) })
    }

    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int {
        // SAFETY: the caller's promise.
        answer(sys::errno(), unsafe { options::get(fd, level, name, value, len) })
    }

    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int {
        // SAFETY: the caller's promise.
        answer(sys::errno(), unsafe { options::set(fd, level, name, value, len) })
    }

    fn close(fd: c_int) -> c_int {
        answer(sys::errno(), descriptor::close(fd))
    }

    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        answer(sys::errno(), descriptor::close_range(first, last, flags))
    }

    fn closefrom(low: c_int) -> () {
        let _ = answer(sys::errno(), descriptor::close_range(low.max(0) as c_uint, c_uint::MAX, 0));
    }

    fn dup(fd: c_int) -> c_int {
        answer(sys::errno(), descriptor::dup(fd))
    }

    fn dup2(old: c_int, new: c_int) -> c_int {
        // SAFETY: no pointers.
        answer(sys::errno(), descriptor::dup_to(old, new, || unsafe { real::dup2(old, new) }))
    }

    fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
        // SAFETY: no pointers.
        answer(sys::errno(), descriptor::dup_to(old, new, || unsafe { real::dup3(old, new, flags) }))
    }

    fn fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
        // SAFETY: the caller's promise.
        answer(sys::errno(), unsafe { descriptor::fcntl(fd, command, argument) })
    }

    fn fcntl64(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
        // SAFETY: the caller's promise.
        answer(sys::errno(), unsafe { descriptor::fcntl(fd, command, argument) })
    }

    fn posix_spawn_file_actions_adddup2(actions: *mut posix_spawn_file_actions_t, old: c_int, new: c_int) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { descriptor::spawn_dup2(actions, old, new) }
    }

    /// Here and below: a program that is given a listener gets the library as well.
    fn execve(path: *const c_char, words: *const *const c_char, environment: *const *const c_char) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { exec::with_library(environment, false, |all| real::execve(path, words, all)) }
    }

    fn execvpe(file: *const c_char, words: *const *const c_char, environment: *const *const c_char) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { exec::with_library(environment, false, |all| real::execvpe(file, words, all)) }
    }

    fn fexecve(fd: c_int, words: *const *const c_char, environment: *const *const c_char) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { exec::with_library(environment, false, |all| real::fexecve(fd, words, all)) }
    }

    fn execveat(folder: c_int, path: *const c_char, words: *const *const c_char, environment: *const *const c_char, flags: c_int) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { exec::with_library(environment, false, |all| real::execveat(folder, path, words, all, flags)) }
    }

    fn execv(path: *const c_char, words: *const *const c_char) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { exec::with_library(exec::environment(), false, |all| real::execve(path, words, all)) }
    }

    fn execvp(file: *const c_char, words: *const *const c_char) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { exec::with_library(exec::environment(), false, |all| real::execvpe(file, words, all)) }
    }

    fn posix_spawn(child: *mut pid_t, path: *const c_char, actions: *const posix_spawn_file_actions_t, attributes: *const posix_spawnattr_t, words: *const *const c_char, environment: *const *const c_char) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { exec::with_library(environment, true, |all| real::posix_spawn(child, path, actions, attributes, words, all)) }
    }

    fn posix_spawnp(child: *mut pid_t, file: *const c_char, actions: *const posix_spawn_file_actions_t, attributes: *const posix_spawnattr_t, words: *const *const c_char, environment: *const *const c_char) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { exec::with_library(environment, true, |all| real::posix_spawnp(child, file, actions, attributes, words, all)) }
    }

    fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
        // SAFETY: the caller's promise.
        answer(sys::errno(), unsafe { descriptor::ioctl(fd, request, argument) })
    }

    /// A listener is a socket.
    fn fstat(fd: c_int, into: *mut stat) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { real::fstat(shown(fd), into) }
    }

    fn fstat64(fd: c_int, into: *mut stat) -> c_int {
        // SAFETY: the caller's promise; both structures are the same where a long has 64 bits.
        unsafe { real::fstat(shown(fd), into) }
    }

    fn __fxstat(version: c_int, fd: c_int, into: *mut stat) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { real::__fxstat(version, shown(fd), into) }
    }

    fn __fxstat64(version: c_int, fd: c_int, into: *mut stat) -> c_int {
        // SAFETY: the caller's promise; both structures are the same where a long has 64 bits.
        unsafe { real::__fxstat(version, shown(fd), into) }
    }

    fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
        // SAFETY: the caller's promise.
        answer(sys::errno(), unsafe { descriptor::epoll_ctl(epoll, operation, fd, event) })
    }

    fn sendto(fd: c_int, bytes: *const c_void, len: size_t, flags: c_int, to: *const sockaddr, to_len: socklen_t) -> ssize_t {
        // SAFETY: the caller's promise.
        unsafe { message::sendto(fd, bytes, len, flags, to, to_len) }
    }

    fn sendmsg(fd: c_int, bytes: *const msghdr, flags: c_int) -> ssize_t {
        // SAFETY: the caller's promise.
        unsafe { message::sendmsg(fd, bytes, flags) }
    }

    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { message::sendmmsg(fd, messages, count, flags) }
    }

    fn recvfrom(fd: c_int, into: *mut c_void, len: size_t, flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> ssize_t {
        // SAFETY: the caller's promise.
        unsafe {
            let room = if from.is_null() || from_len.is_null() { 0 } else { *from_len };
            message::receive(fd, len, flags, || {
                let received = real::recvfrom(fd, into, len, flags, from, from_len);
                if received >= 0 && room > 0 {
                    message::forget_sender(from.cast(), room, from_len);
                }
                received
            }, || if room > 0 { *from_len = 0 })
        }
    }

    fn __recvfrom_chk(fd: c_int, into: *mut c_void, len: size_t, size: size_t, flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> ssize_t {
        // SAFETY: the caller's promise.
        unsafe {
            let room = if from.is_null() || from_len.is_null() { 0 } else { *from_len };
            message::receive(fd, len, flags, || {
                let received = real::__recvfrom_chk(fd, into, len, size, flags, from, from_len);
                if received >= 0 && room > 0 {
                    message::forget_sender(from.cast(), room, from_len);
                }
                received
            }, || if room > 0 { *from_len = 0 })
        }
    }

    /// Here and below: only the end of a stream is looked at.
    fn read(fd: c_int, into: *mut c_void, len: size_t) -> ssize_t {
        // SAFETY: the caller's promise.
        carrier::ended(fd, unsafe { real::read(fd, into, len) }, len)
    }

    fn readv(fd: c_int, into: *const iovec, count: c_int) -> ssize_t {
        // SAFETY: the caller's promise.
        unsafe {
            let received = real::readv(fd, into, count);
            carrier::ended(fd, received, if received == 0 { message::asked_for(into, count as size_t) } else { 1 })
        }
    }

    fn recv(fd: c_int, into: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
        // SAFETY: the caller's promise.
        message::receive(fd, len, flags, || unsafe { real::recv(fd, into, len, flags) }, || {})
    }

    fn __read_chk(fd: c_int, into: *mut c_void, len: size_t, room: size_t) -> ssize_t {
        // SAFETY: the caller's promise.
        carrier::ended(fd, unsafe { real::__read_chk(fd, into, len, room) }, len)
    }

    fn __recv_chk(fd: c_int, into: *mut c_void, len: size_t, room: size_t, flags: c_int) -> ssize_t {
        // SAFETY: the caller's promise.
        message::receive(fd, len, flags, || unsafe { real::__recv_chk(fd, into, len, room, flags) }, || {})
    }

    fn splice(from: c_int, from_place: *mut loff_t, to: c_int, to_place: *mut loff_t, len: size_t, flags: c_uint) -> ssize_t {
        // SAFETY: the caller's promise.
        carrier::ended(from, unsafe { real::splice(from, from_place, to, to_place, len, flags) }, len)
    }

    fn recvmsg(fd: c_int, bytes: *mut msghdr, flags: c_int) -> ssize_t {
        // SAFETY: the caller's promise.
        unsafe { message::recvmsg(fd, bytes, flags) }
    }

    fn recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { message::recvmmsg(fd, messages, count, flags, timeout) }
    }
}

/// What describes a descriptor: of a listener, its TCP socket.
fn shown(fd: c_int) -> c_int {
    table::listener(fd).map_or(fd, |members| members.tcp)
}

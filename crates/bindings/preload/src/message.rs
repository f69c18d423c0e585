//! Messages with addresses: TCP ignores them where a Unix socket does not.

use crate::connect::{self, Refusal};
use crate::sys;
use crate::{accept, carrier, descriptor, internet, real, stream, table};
use core::ffi::{c_int, c_short, c_uint, c_void};
use core::ptr::null;
use libc::{mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t};

/// Whether a send() failed only because it named an address, which TCP does not look at once it is connected.
fn ignores_address(fd: c_int) -> bool {
    sys::errno() == libc::EISCONN && stream::find(fd).is_some()
}

/// A TCP socket that connects with its first bytes (MSG_FASTOPEN): converted, if there is a way.
fn opens_fast(fd: c_int, flags: c_int, to: &[u8]) -> bool {
    flags & libc::MSG_FASTOPEN != 0
        && internet::parse(to).is_some_and(|(family, to)| match connect::convert(fd, family, to) {
            Ok(()) => true,
            Err(Refusal::Tcp | Refusal::Final(_)) => false,
        })
}

/// sendto().
///
/// # Safety
///
/// As for sendto().
pub(crate) unsafe fn sendto(
    fd: c_int,
    bytes: *const c_void,
    len: size_t,
    flags: c_int,
    to: *const sockaddr,
    to_len: socklen_t,
) -> ssize_t {
    // SAFETY: the caller's promise, throughout.
    unsafe {
        if to.is_null() {
            return real::sendto(fd, bytes, len, flags, to, to_len);
        }
        if flags & libc::MSG_FASTOPEN != 0 && opens_fast(fd, flags, internet::borrow(to, to_len)) {
            return real::sendto(fd, bytes, len, flags & !libc::MSG_FASTOPEN, null(), 0);
        }
        let saved = sys::errno();
        let sent = real::sendto(fd, bytes, len, flags, to, to_len);
        if sent == -1 && ignores_address(fd) {
            sys::set_errno(saved);
            return real::sendto(fd, bytes, len, flags & !libc::MSG_FASTOPEN, null(), 0);
        }
        sent
    }
}

/// sendmsg().
///
/// # Safety
///
/// As for sendmsg().
pub(crate) unsafe fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller's promise, throughout.
    unsafe {
        if message.is_null() || (*message).msg_name.is_null() || (*message).msg_namelen == 0 {
            return real::sendmsg(fd, message, flags);
        }
        let bare = || {
            let mut bare = *message;
            bare.msg_name = core::ptr::null_mut();
            bare.msg_namelen = 0;
            real::sendmsg(fd, &raw const bare, flags & !libc::MSG_FASTOPEN)
        };
        let to = || internet::borrow((*message).msg_name.cast(), (*message).msg_namelen);
        if flags & libc::MSG_FASTOPEN != 0 && opens_fast(fd, flags, to()) {
            return bare();
        }
        let saved = sys::errno();
        let sent = real::sendmsg(fd, message, flags);
        if sent == -1 && ignores_address(fd) {
            sys::set_errno(saved);
            return bare();
        }
        sent
    }
}

/// sendmmsg().
///
/// # Safety
///
/// As for sendmmsg().
pub(crate) unsafe fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    // SAFETY: the caller's promise, throughout.
    unsafe {
        let saved = sys::errno();
        let sent = real::sendmmsg(fd, messages, count, flags);
        if sent != -1 || !ignores_address(fd) {
            return sent;
        }
        sys::set_errno(saved);
        // The first one names an address: one by one, without.
        let mut done = 0;
        while done < count {
            let message = messages.add(done as usize);
            let sent = sendmsg(fd, &raw const (*message).msg_hdr, flags);
            if sent == -1 {
                return if done == 0 { -1 } else { done as c_int };
            }
            (*message).msg_len = sent as c_uint;
            done += 1;
        }
        done as c_int
    }
}

/// A stream does not say who sent its bytes; a Unix socket does.
///
/// # Safety
///
/// `name` has `*len` bytes of room, of which the kernel filled the beginning.
pub(crate) unsafe fn forget_sender(name: *const c_void, room: socklen_t, len: *mut socklen_t) {
    if name.is_null() || len.is_null() {
        return;
    }
    // SAFETY: the caller's promise.
    let named = unsafe { internet::borrow(name.cast(), (*len).min(room)) };
    if stream::is_ours(named) || is_cut(named) {
        // SAFETY: the caller's promise.
        unsafe { *len = 0 };
    }
}

/// Whether it is the beginning of one of our names, in a buffer too small for it.
fn is_cut(named: &[u8]) -> bool {
    let beginning = b"\0pinnace/1";
    named.len() > 2
        && named[..2] == (libc::AF_UNIX as u16).to_ne_bytes()
        && named[2..].iter().zip(beginning).all(|(one, other)| one == other)
}

/// Receives as `call` does; bytes that are only to be counted (MSG_TRUNC) are not stored anywhere, as TCP has it, and then
/// `nameless` says that nobody sent them.
pub(crate) fn receive(
    fd: c_int,
    len: size_t,
    flags: c_int,
    call: impl FnOnce() -> ssize_t,
    nameless: impl FnOnce(),
) -> ssize_t {
    if let Some(error) = before(fd, len, flags) {
        sys::set_errno(error);
        return -1;
    }
    let received = if flags & libc::MSG_TRUNC != 0 && stream::find(fd).is_some() {
        let received = discard(fd, len, flags);
        if received >= 0 {
            nameless();
        }
        received
    } else {
        call()
    };
    carrier::ended(fd, received, len)
}

/// Flags that a Unix socket takes for something else.
const SPECIAL: c_int = libc::MSG_PEEK | libc::MSG_ERRQUEUE;

/// What a Unix socket does not do with the flags of receiving: there are no errors of its peers to be taken, instead of which it
/// would give bytes; and it would look at what there is without waiting for all. Answers with an error if that is all.
fn before(fd: c_int, wanted: size_t, flags: c_int) -> Option<c_int> {
    const LOOK_AT_ALL: c_int = libc::MSG_PEEK | libc::MSG_WAITALL;
    let waits = flags & LOOK_AT_ALL == LOOK_AT_ALL && flags & libc::MSG_DONTWAIT == 0;
    if !waits && flags & libc::MSG_ERRQUEUE == 0 || stream::find(fd).is_none() {
        return None;
    }
    if waits { wait_for(fd, wanted) } else { Some(libc::EAGAIN) }
}

/// Waits until there are so many bytes, or will be no more, or the time-out is over, or a signal comes.
fn wait_for(fd: c_int, wanted: size_t) -> Option<c_int> {
    const OVER: c_short = libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR;
    let is_blocking = sys::fcntl(fd, libc::F_GETFL, 0).is_ok_and(|flags| flags & libc::O_NONBLOCK == 0);
    let limit = sys::option::<libc::timeval>(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO).ok()?;
    let limit = limit.tv_sec.saturating_mul(1000).saturating_add((limit.tv_usec + 999) / 1000);
    let end = sys::milliseconds().saturating_add(if limit == 0 { i64::MAX } else { limit });
    let saved = sys::errno();
    while is_blocking && sys::unread(fd) < wanted && sys::milliseconds() < end {
        // What is there already wakes nobody a second time, so then it is looked now and then.
        let is_empty = sys::unread(fd) == 0;
        let mut poll = libc::pollfd { fd, events: if is_empty { libc::POLLIN } else { 0 } | OVER, revents: 0 };
        let pause = if is_empty { (end - sys::milliseconds()).clamp(0, 1000) } else { 1 };
        // The C library's function, not the bare call: a thread may be cancelled here.
        // SAFETY: the structure lives through the call.
        match unsafe { libc::poll(&raw mut poll, 1, pause as c_int) } {
            -1 if sys::errno() != libc::EINTR => break,
            -1 if !is_empty => break,
            -1 if !accept::restarts() => return Some(libc::EINTR),
            _ if poll.revents & OVER != 0 => break,
            _ => {}
        }
    }
    let is_late = is_blocking && sys::unread(fd) == 0 && sys::milliseconds() >= end;
    sys::set_errno(saved);
    // What would be waited for once more by the call itself.
    is_late.then_some(libc::EAGAIN)
}

/// Takes bytes of a stream, or looks at them, and says how many they are.
fn discard(fd: c_int, wanted: size_t, flags: c_int) -> ssize_t {
    let saved = sys::errno();
    let mut scratch = [0_u8; 4096];
    let flags = flags & !libc::MSG_TRUNC;
    let looks = flags & libc::MSG_PEEK != 0;
    let mut take = |len: size_t, flags: c_int| {
        let len = len.min(scratch.len());
        // SAFETY: there is room for so many bytes.
        unsafe { real::recv(fd, scratch.as_mut_ptr().cast(), len, flags) }
    };
    let mut done = take(wanted, if looks { flags & !libc::MSG_WAITALL } else { flags });
    let more = if flags & libc::MSG_WAITALL == 0 { flags | libc::MSG_DONTWAIT } else { flags };
    while !looks && done > 0 && (done as size_t) < wanted {
        // What ends or breaks the stream is left to the next call.
        if flags & libc::MSG_WAITALL == 0 && sys::unread(fd) == 0 {
            break;
        }
        match take(wanted - done as size_t, more) {
            count @ 1.. => done += count,
            _ => break,
        }
    }
    if done > 0 {
        sys::set_errno(saved);
        return if looks { done.max(wanted.min(sys::unread(fd)) as ssize_t) } else { done };
    }
    done
}

/// Looks at the descriptors that have come with a message: what their numbers were before is over, and a stream of another
/// host is to be known. By a stream of ours none come, as by TCP: the program would not know that it has them.
///
/// # Safety
///
/// The kernel has filled the message, which came by `fd`.
unsafe fn learn_received(fd: c_int, message: *mut msghdr) {
    // SAFETY: the caller's promise, throughout; descriptors need not be aligned.
    unsafe {
        if (*message).msg_controllen == 0 && (*message).msg_flags & libc::MSG_CTRUNC == 0 {
            return;
        }
        let is_stream = stream::find(fd).is_some();
        let mut header = libc::CMSG_FIRSTHDR(message);
        while let Some(part) = header.as_ref() {
            if (part.cmsg_level, part.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let len = part.cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
                let descriptors = libc::CMSG_DATA(header).cast::<c_int>();
                for index in 0..len / size_of::<c_int>() {
                    let fd = descriptors.add(index).read_unaligned();
                    if is_stream {
                        descriptor::given(fd);
                        sys::close(fd);
                    } else {
                        table::reset(fd);
                        carrier::learn(fd);
                    }
                }
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
        if is_stream {
            (*message).msg_controllen = 0;
            (*message).msg_flags &= !libc::MSG_CTRUNC;
        }
    }
}

/// How many bytes there is room for: where there is none, to receive none is no end.
///
/// # Safety
///
/// There are so many parts.
pub(crate) unsafe fn asked_for(parts: *const libc::iovec, count: size_t) -> size_t {
    // SAFETY: the caller's promise.
    (0..count).fold(0, |sum: size_t, part| sum.saturating_add(unsafe { (*parts.add(part)).iov_len }))
}

/// recvmsg().
///
/// # Safety
///
/// As for recvmsg().
pub(crate) unsafe fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller's promise, throughout.
    unsafe {
        if flags & SPECIAL != 0
            && !message.is_null()
            // Of other descriptors the kernel looks at the message, and says what is wrong with it.
            && stream::find(fd).is_some()
            && let Some(error) = before(fd, asked_for((*message).msg_iov, (*message).msg_iovlen), flags)
        {
            sys::set_errno(error);
            return -1;
        }
        if flags & libc::MSG_TRUNC != 0 && !message.is_null() && stream::find(fd).is_some() {
            let wanted = asked_for((*message).msg_iov, (*message).msg_iovlen);
            let received = discard(fd, wanted, flags);
            if received >= 0 {
                ((*message).msg_namelen, (*message).msg_controllen, (*message).msg_flags) = (0, 0, 0);
            }
            return carrier::ended(fd, received, wanted);
        }
        let room = if message.is_null() { 0 } else { (*message).msg_namelen };
        let received = real::recvmsg(fd, message, flags);
        if received >= 0 && room > 0 {
            forget_sender((*message).msg_name, room, &raw mut (*message).msg_namelen);
        }
        if received >= 0 {
            learn_received(fd, message);
        }
        let wanted = if received == 0 { asked_for((*message).msg_iov, (*message).msg_iovlen) } else { 1 };
        carrier::ended(fd, received, wanted)
    }
}

/// recvmmsg().
///
/// # Safety
///
/// As for recvmmsg().
pub(crate) unsafe fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut libc::timespec,
) -> c_int {
    // SAFETY: the caller's promise, throughout.
    unsafe {
        if flags & libc::MSG_ERRQUEUE != 0 && stream::find(fd).is_some() {
            sys::set_errno(libc::EAGAIN);
            return -1;
        }
        let received = real::recvmmsg(fd, messages, count, flags, timeout);
        let headers = || (0..received.max(0) as usize).map(|index| &raw mut (*messages.add(index)).msg_hdr);
        headers().for_each(|header| learn_received(fd, header));
        let foreign = |header: *mut msghdr| {
            // Neither nothing nor an internet address; how much room there was for it is no longer known.
            !(*header).msg_name.is_null() && !matches!((*header).msg_namelen, 0 | 16 | 28)
        };
        if headers().any(foreign) && stream::find(fd).is_some() {
            headers().for_each(|header| (*header).msg_namelen = 0);
        }
        // An end looks like messages without bytes: what was cut off is an error, after all that came before it.
        let is_end = |index: &usize| {
            let message = messages.add(*index);
            (*message).msg_len == 0 && asked_for((*message).msg_hdr.msg_iov, (*message).msg_hdr.msg_iovlen) > 0
        };
        match (0..received.max(0) as usize).find(is_end) {
            Some(end) if carrier::ended(fd, 0, 1) == -1 => {
                if end == 0 {
                    -1
                } else {
                    end as c_int
                }
            }
            _ => received,
        }
    }
}

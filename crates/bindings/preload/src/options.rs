//! Names and options of sockets: what TCP would have said.

use crate::name::Family;
use crate::sys::{self, End, Outcome};
use crate::table::{self, Members};
use crate::{carrier, internet, listener, patience, real, stream};
use core::ffi::{c_int, c_void};
use libc::{sockaddr, socklen_t};

/// getsockname() and getpeername().
///
/// # Safety
///
/// `address` and `len` are as for these functions.
pub(crate) unsafe fn name(fd: c_int, end: End, address: *mut sockaddr, len: *mut socklen_t) -> Outcome {
    let ask = |fd: c_int, address: *mut sockaddr, len: *mut socklen_t| {
        // SAFETY: the caller's promise, or a buffer of our own.
        let value = unsafe {
            match end {
                End::Own => real::getsockname(fd, address, len),
                End::Peer => real::getpeername(fd, address, len),
            }
        };
        if value == -1 { Err(sys::errno()) } else { Ok(value) }
    };
    let mut buffer = [0_u8; 128];
    let mut count = buffer.len() as socklen_t;
    match ask(fd, buffer.as_mut_ptr().cast(), &raw mut count) {
        Ok(_) => {}
        Err(libc::ENOTSOCK) => {
            let members = listener::find(fd).ok_or(libc::ENOTSOCK)?;
            return ask(members.tcp, address, len);
        }
        Err(error) => return Err(error),
    }
    let bytes = &buffer[..(count as usize).min(buffer.len())];
    if bytes.starts_with(&(libc::AF_UNIX as u16).to_ne_bytes())
        && let Some(stream) = stream::find(fd)
    {
        let shown = match end {
            End::Own => stream.own,
            End::Peer => stream.peer,
        };
        let (bytes, count) = internet::format(stream.family, shown);
        // SAFETY: the caller's promise.
        return unsafe { internet::store(&bytes[..count], address, len) };
    }
    // SAFETY: the caller's promise.
    unsafe { internet::store(bytes, address, len) }
}

/// getsockopt().
///
/// # Safety
///
/// `value` and `len` are as for getsockopt().
pub(crate) unsafe fn get(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> Outcome {
    // SAFETY: the caller's promise.
    let ask = |fd: c_int| match unsafe { real::getsockopt(fd, level, name, value, len) } {
        -1 => Err(sys::errno()),
        value => Ok(value),
    };
    match ask(fd) {
        Ok(done) => {
            if level == libc::SOL_SOCKET
                && matches!(name, libc::SO_DOMAIN | libc::SO_PROTOCOL)
                && sys::option::<c_int>(fd, level, libc::SO_DOMAIN) == Ok(libc::AF_UNIX)
                && let Some(stream) = stream::find(fd)
            {
                let answer = if name == libc::SO_PROTOCOL { libc::IPPROTO_TCP } else { stream.family.domain() };
                // SAFETY: the caller's promise.
                return unsafe { answer_number(answer, value, len) };
            }
            if (level, name) == (libc::SOL_SOCKET, libc::SO_ERROR)
                && let Some(error) = carrier::error(fd)
            {
                // SAFETY: the caller's promise.
                return unsafe { answer_number(error, value, len) };
            }
            Ok(done)
        }
        Err(libc::ENOTSOCK) => ask(listener::find(fd).ok_or(libc::ENOTSOCK)?.tcp),
        Err(error @ (libc::EOPNOTSUPP | libc::ENOPROTOOPT)) if level != libc::SOL_SOCKET => {
            let stream = stream::find(fd).ok_or(error)?;
            // SAFETY: the caller's promise.
            unsafe { get_of_stream(fd, stream.family, (level, name), value, len) }
        }
        Err(error) => Err(error),
    }
}

/// Answers as the kernel does for a number: what fits of it.
unsafe fn answer_number(number: c_int, value: *mut c_void, len: *mut socklen_t) -> Outcome {
    let bytes = number.to_ne_bytes();
    // SAFETY: the caller's promise: as for getsockopt().
    unsafe {
        let room = if len.is_null() { return Err(libc::EFAULT) } else { *len };
        if room > i32::MAX as u32 {
            return Err(libc::EINVAL);
        }
        internet::store(&bytes[..bytes.len().min(room as usize)], value.cast(), len)
    }
}

unsafe fn get_of_stream(
    fd: c_int,
    family: Family,
    (level, name): (c_int, c_int),
    value: *mut c_void,
    len: *mut socklen_t,
) -> Outcome {
    let notes = table::notes(fd);
    let known = match (level, name) {
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => Some(c_int::from(notes.no_delay())),
        (libc::IPPROTO_TCP, libc::TCP_CORK) => Some(c_int::from(notes.cork())),
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => Some(LOOPBACK_SEGMENT),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => Some(notes.user_timeout()),
        (libc::IPPROTO_TCP, name) => notes.keep_alive(name),
        _ => None,
    };
    if let Some(number) = known {
        // SAFETY: the caller's promise.
        return unsafe { answer_number(number, value, len) };
    }
    // What a TCP socket says that nobody touched.
    let fresh = sys::socket(family.domain(), libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0)?;
    // SAFETY: the caller's promise.
    let answer = unsafe { real::getsockopt(fresh, level, name, value, len) };
    let error = sys::errno();
    sys::close(fresh);
    if answer == -1 {
        return Err(error);
    }
    if (level, name) == (libc::IPPROTO_TCP, libc::TCP_INFO) {
        // SAFETY: the kernel just wrote `*len` bytes there.
        let info = unsafe { core::slice::from_raw_parts_mut(value.cast::<u8>(), *len as usize) };
        if let Some(state) = info.first_mut() {
            *state = state_of(fd);
        }
        for offset in [SEND_SEGMENT, SEND_SEGMENT + 4] {
            if let Some(field) = info.get_mut(offset..offset + 4) {
                field.copy_from_slice(&LOOPBACK_SEGMENT.to_ne_bytes());
            }
        }
    }
    Ok(answer)
}

/// `tcpi_state`, at the beginning of `struct tcp_info`.
const TCP_ESTABLISHED: u8 = 1;
const TCP_CLOSE: u8 = 7;
const TCP_CLOSE_WAIT: u8 = 8;

/// In which state TCP would be: whether the peer has ended or reset the connection.
fn state_of(fd: c_int) -> u8 {
    match sys::poll_now(fd, libc::POLLRDHUP) {
        events if events & libc::POLLERR != 0 => TCP_CLOSE,
        events if events & (libc::POLLRDHUP | libc::POLLHUP) != 0 => TCP_CLOSE_WAIT,
        _ => TCP_ESTABLISHED,
    }
}

/// Where `tcpi_snd_mss` is in `struct tcp_info`; `tcpi_rcv_mss` follows.
const SEND_SEGMENT: usize = 16;
/// The largest segment on the loopback interface.
const LOOPBACK_SEGMENT: c_int = 65483;
/// Options that promise something which a converted stream does not do.
const TCP_AUTHENTICATION: [c_int; 5] = [14, 32, 38, 39, 40];

/// Whether something was set that no stream of ours keeps: where packets go and may come from, keys, and notes of buffers
/// that have been sent.
pub(crate) fn is_tcp_only(fd: c_int) -> bool {
    let is_set = |(level, name)| sys::option::<c_int>(fd, level, name).is_ok_and(|value| value != 0);
    table::notes(fd).is_tcp_only()
        || sys::option::<[u8; 16]>(fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE).is_ok_and(|name| name[0] != 0)
        || [
            (libc::SOL_SOCKET, libc::SO_MARK),
            (libc::SOL_SOCKET, libc::SO_ZEROCOPY),
            (libc::IPPROTO_IP, libc::IP_TRANSPARENT),
            (libc::IPPROTO_IP, libc::IP_MINTTL),
            (libc::IPPROTO_IPV6, IPV6_MINHOPCOUNT),
        ]
        .into_iter()
        .any(is_set)
}

const IPV6_MINHOPCOUNT: c_int = 73;

/// setsockopt().
///
/// # Safety
///
/// `value` has `len` bytes.
pub(crate) unsafe fn set(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> Outcome {
    // SAFETY: the caller's promise.
    let ask = |fd: c_int| match unsafe { real::setsockopt(fd, level, name, value, len) } {
        -1 => Err(sys::errno()),
        value => Ok(value),
    };
    let is_key = level == libc::IPPROTO_TCP && TCP_AUTHENTICATION.contains(&name);
    match ask(fd) {
        Err(libc::ENOTSOCK) => {
            let Members { tcp, unix, .. } = listener::find(fd).ok_or(libc::ENOTSOCK)?;
            if is_key {
                return Err(libc::ENOPROTOOPT);
            }
            // What is accepted from now on inherits it.
            table::set_notes(unix, table::notes(unix).with_plain(false));
            ask(tcp)
        }
        Err(error @ (libc::EOPNOTSUPP | libc::ENOPROTOOPT)) => {
            let stream = stream::find(fd).ok_or(error)?;
            if level == libc::SOL_SOCKET {
                return if name == libc::SO_REUSEPORT { Ok(0) } else { Err(error) };
            }
            // SAFETY: the caller's promise.
            unsafe { set_of_stream(fd, stream.family, (level, name), value, len) }
        }
        Ok(done) => {
            if is_key {
                // The kernel does not tell whether there are any.
                table::set_notes(fd, table::notes(fd).with_tcp_only(true));
            }
            if level == libc::SOL_SOCKET {
                patience::changed(fd, level, name);
            }
            Ok(done)
        }
        outcome => outcome,
    }
}

unsafe fn set_of_stream(
    fd: c_int,
    family: Family,
    (level, name): (c_int, c_int),
    value: *const c_void,
    len: socklen_t,
) -> Outcome {
    if level == libc::IPPROTO_TCP && TCP_AUTHENTICATION.contains(&name) {
        return Err(libc::ENOPROTOOPT);
    }
    let number = if value.is_null() || (len as usize) < size_of::<c_int>() {
        None
    } else {
        // SAFETY: there are enough bytes; they need not be aligned.
        Some(unsafe { value.cast::<c_int>().read_unaligned() })
    };
    let notes = table::notes(fd);
    let changed = match (level, name, number) {
        (libc::IPPROTO_TCP, libc::TCP_NODELAY, Some(on)) => notes.with_no_delay(on != 0),
        (libc::IPPROTO_TCP, libc::TCP_CORK, Some(on)) => notes.with_cork(on != 0),
        (libc::IPPROTO_TCP, libc::TCP_QUICKACK, Some(_)) => notes,
        _ => {
            // A TCP socket says whether it would be allowed.
            let fresh = sys::socket(family.domain(), libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0)?;
            // SAFETY: the caller's promise.
            let answer = unsafe { real::setsockopt(fresh, level, name, value, len) };
            let error = sys::errno();
            sys::close(fresh);
            if answer == -1 {
                return Err(error);
            }
            match (level, number) {
                (libc::IPPROTO_TCP, Some(number)) if name == libc::TCP_USER_TIMEOUT => notes.with_user_timeout(number),
                (libc::IPPROTO_TCP, Some(number)) => notes.with_keep_alive(name, number),
                _ => notes,
            }
        }
    };
    table::set_notes(fd, changed);
    patience::changed(fd, level, name);
    Ok(0)
}

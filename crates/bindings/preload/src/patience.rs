//! Keep-alive and user time-out of the connections with other hosts, which the companion keeps: it is told what was set. On one
//! host nobody vanishes without a word.

use crate::name::Family;
use crate::sys::{self, Outcome};
use crate::table::{self, Notes};
use crate::{carrier, stream};
use core::ffi::c_int;

/// The times of keep-alive: idle, interval, count.
const TIMES: [c_int; 3] = [libc::TCP_KEEPIDLE, libc::TCP_KEEPINTVL, libc::TCP_KEEPCNT];

/// What a TCP socket has of it, beside SO_KEEPALIVE.
pub(crate) fn of_tcp(tcp: c_int) -> Notes {
    let number = |name| sys::option::<c_int>(tcp, libc::IPPROTO_TCP, name).unwrap_or(0);
    let notes = Notes::default().with_user_timeout(number(libc::TCP_USER_TIMEOUT));
    TIMES.into_iter().fold(notes, |notes, name| notes.with_keep_alive(name, number(name)))
}

/// Whether these are the values of a socket that nobody touched.
pub(crate) fn is_usual(notes: Notes, family: Family) -> bool {
    fresh(family).is_ok_and(|fresh| {
        notes.user_timeout() == 0 && TIMES.iter().all(|&name| notes.keep_alive(name) == fresh.keep_alive(name))
    })
}

fn fresh(family: Family) -> Outcome<Notes> {
    let fresh = sys::socket(family.domain(), libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0)?;
    let notes = of_tcp(fresh);
    sys::close(fresh);
    Ok(notes)
}

/// A stream was made with options that a socket had before: if they ask for anything, the companion is told.
pub(crate) fn born(fd: c_int) {
    if table::notes(fd).is_remote() && (is_kept_alive(fd) || table::notes(fd).user_timeout() != 0) {
        tell(fd);
    }
}

/// An option of a stream was set.
pub(crate) fn changed(fd: c_int, level: c_int, name: c_int) {
    let counts = match level {
        libc::SOL_SOCKET => name == libc::SO_KEEPALIVE,
        libc::IPPROTO_TCP => name == libc::TCP_USER_TIMEOUT || TIMES.contains(&name) && is_kept_alive(fd),
        _ => false,
    };
    if counts && table::notes(fd).is_remote() {
        tell(fd);
    }
}

fn is_kept_alive(fd: c_int) -> bool {
    sys::option::<c_int>(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE) == Ok(1)
}

/// If it cannot be told, the connection lasts as long as it would have without.
fn tell(fd: c_int) {
    let saved = sys::errno();
    let told = || {
        let family = stream::find(fd).ok_or(libc::ENOTSOCK)?.family;
        let notes = table::notes(fd);
        let mut times = [0; 3];
        for (time, name) in times.iter_mut().zip(TIMES) {
            *time = match notes.keep_alive(name) {
                Some(value) => value,
                None => fresh(family)?.keep_alive(name).unwrap_or(0),
            };
        }
        // The other end of the pair is the companion's; both know this one's number.
        let stream: u64 = sys::option(fd, libc::SOL_SOCKET, libc::SO_COOKIE)?;
        let [idle, interval, count] = times;
        let (on, user) = (i32::from(is_kept_alive(fd)), notes.user_timeout());
        carrier::tell(format_args!("1 BEAR {stream} {on} {idle} {interval} {count} {user}"))
    };
    let _: Outcome<()> = told();
    sys::set_errno(saved);
}

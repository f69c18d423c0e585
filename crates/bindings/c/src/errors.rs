//! Errors, as C knows them: numbers, and of the interfaces that have more to say, words.

use libc::{c_char, c_int};
use pinnace::{ConnectionError, EndpointError, Error, a1, vrp, xtp, zcrp};
use std::cell::RefCell;
use std::ffi::CString;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why a call failed: a value of `errno`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) c_int);

impl From<&io::Error> for Errno {
    fn from(error: &io::Error) -> Self {
        use io::ErrorKind as Kind;
        Self(error.raw_os_error().unwrap_or(match error.kind() {
            Kind::ResourceBusy => libc::EBUSY,
            Kind::WouldBlock => libc::EAGAIN,
            Kind::InvalidInput => libc::EINVAL,
            Kind::AddrInUse => libc::EADDRINUSE,
            Kind::AddrNotAvailable => libc::EADDRNOTAVAIL,
            Kind::PermissionDenied => libc::EPERM,
            Kind::ConnectionRefused => libc::ECONNREFUSED,
            Kind::ConnectionReset | Kind::UnexpectedEof => libc::ECONNRESET,
            Kind::ConnectionAborted => libc::ECONNABORTED,
            Kind::HostUnreachable => libc::EHOSTUNREACH,
            Kind::NotConnected => libc::ENOTCONN,
            Kind::BrokenPipe => libc::EPIPE,
            Kind::TimedOut => libc::ETIMEDOUT,
            Kind::OutOfMemory => libc::ENOMEM,
            Kind::Unsupported => libc::ENOTSUP,
            _ => libc::EIO,
        }))
    }
}

impl From<xtp::Refused> for Errno {
    fn from(refused: xtp::Refused) -> Self {
        use xtp::Refused;
        Self(match refused {
            Refused::TooManyContexts => libc::ENOBUFS,
            Refused::NoContext | Refused::Closed | Refused::ShutDown => libc::EPIPE,
            Refused::TooLarge { .. } => libc::EMSGSIZE,
            Refused::Empty | Refused::Sort | Refused::Unsupported => libc::EINVAL,
            Refused::Port => libc::EADDRINUSE,
            Refused::Full => libc::EAGAIN,
        })
    }
}

impl From<&ConnectionError> for Errno {
    fn from(error: &ConnectionError) -> Self {
        use ConnectionError as Connection;
        Self(match error {
            Connection::Unmet { .. } | Connection::Cannot { .. } | Connection::Unsuited(_) => libc::ENOTSUP,
            Connection::Malformed(_) => libc::EINVAL,
            Connection::ServiceTooLong { .. } => libc::E2BIG,
            Connection::MessageTooLong { .. } => libc::EMSGSIZE,
            Connection::NoAnswer { .. } => libc::ETIMEDOUT,
            Connection::Refused { .. } => libc::ECONNREFUSED,
            Connection::Unreached { .. } => libc::EHOSTUNREACH,
            Connection::Unfinished { .. } | Connection::BrokenOff { .. } => libc::ECONNRESET,
            Connection::Lost { source, .. } => Self::from(source).0,
            Connection::Closed | Connection::ListenerClosed | Connection::Left { .. } => libc::EPIPE,
            Connection::Undelivered { is_gone: true, .. } => libc::ETIMEDOUT,
            Connection::Full { .. } => libc::EAGAIN,
            _ => libc::EIO,
        })
    }
}

impl From<&Error> for Errno {
    fn from(error: &Error) -> Self {
        let of_failure = |failure: &zcrp::Failure| match failure {
            zcrp::Failure::TooLong => libc::EMSGSIZE,
            zcrp::Failure::PeerGone | zcrp::Failure::Swallowed => libc::ETIMEDOUT,
            zcrp::Failure::Closed => libc::ECANCELED,
        };
        let of_frame = |failure: &vrp::Failure| match failure {
            vrp::Failure::Refused => libc::ECONNREFUSED,
            vrp::Failure::PeerGone | vrp::Failure::Swallowed | vrp::Failure::Late => libc::ETIMEDOUT,
            vrp::Failure::Protocol | vrp::Failure::Breach => libc::EPROTO,
            vrp::Failure::Closed => libc::ECANCELED,
        };
        let of_unsent = |refused: &vrp::Refused| match refused {
            vrp::Refused::Closed => libc::ECANCELED,
            vrp::Refused::TooMany => libc::ENOBUFS,
            vrp::Refused::TooLarge | vrp::Refused::HeaderTooLarge => libc::EMSGSIZE,
            vrp::Refused::InvalidTerms => libc::EINVAL,
        };
        let of_connection = |failure: &a1::Failure| match failure {
            a1::Failure::Refused { .. } => libc::ECONNREFUSED,
            a1::Failure::TimedOut
            | a1::Failure::Abandoned
            | a1::Failure::Swallowed
            | a1::Failure::LingerOver
            | a1::Failure::TooSlow => libc::ETIMEDOUT,
            a1::Failure::AbortedByPeer | a1::Failure::Unfinished => libc::ECONNRESET,
            a1::Failure::Aborted => libc::ECONNABORTED,
            a1::Failure::Violation => libc::EPROTO,
        };
        let of_call = |refused: &a1::Refused| match refused {
            a1::Refused::TooManyConnections => libc::ENOBUFS,
            a1::Refused::NoConnection => libc::EPIPE,
            a1::Refused::NotConnected => libc::ENOTCONN,
            a1::Refused::TooLarge { .. } => libc::EMSGSIZE,
            a1::Refused::Full => libc::EAGAIN,
            a1::Refused::BeyondMaximum => libc::EPERM,
            a1::Refused::Impossible | a1::Refused::Sink => libc::EINVAL,
            a1::Refused::Listening => libc::EADDRINUSE,
            a1::Refused::ShutDown => libc::ECONNABORTED,
        };
        Self(match error.deciding() {
            Error::ConnectionFailed(failure) => of_connection(failure),
            Error::CallRefused(refused) => of_call(refused),
            Error::WindowFull(_) => libc::EAGAIN,
            Error::Io { source, .. } | Error::Listen { source, .. } => Self::from(source).0,
            Error::Failed(failure) => of_failure(failure),
            Error::Refused(zcrp::Refused::Closed(zcrp::Failure::Closed)) => libc::ENOTCONN,
            Error::Refused(zcrp::Refused::Closed(failure)) => of_failure(failure),
            Error::Refused(zcrp::Refused::TooMany) => libc::ENOBUFS,
            Error::FrameFailed(failure) => of_frame(failure),
            Error::FrameRefused(refused) => of_unsent(refused),
            Error::Endpoint(EndpointError::Link(error)) => Self::from(&**error).0,
            Error::Endpoint(EndpointError::ShutDown) => libc::ECANCELED,
            Error::Timeout => libc::EAGAIN,
            Error::TooLarge | Error::MessageTooLong(_) => libc::EMSGSIZE,
            Error::NoMemory(_) => libc::ENOMEM,
            Error::Connection(error) => Self::from(&**error).0,
            Error::ContextFailed(xtp::Failure::Refused { .. }) => libc::ECONNREFUSED,
            Error::ContextFailed(xtp::Failure::Unanswered | xtp::Failure::Abandoned | xtp::Failure::Swallowed) => {
                libc::ETIMEDOUT
            }
            Error::ContextFailed(xtp::Failure::Aborted) => libc::ECONNABORTED,
            Error::ContextFailed(_) | Error::NoResponse => libc::ECONNRESET,
            Error::ContextRefused(refused) => Self::from(*refused).0,
            Error::ReadOnly => libc::EACCES,
            _ => libc::EIO,
        })
    }
}

impl From<Error> for Errno {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

/// Why a call failed: in a number, and in words if there is more to say.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) errno: c_int,
    pub(crate) text: Option<String>,
}

impl Failure {
    /// With words of our own.
    pub(crate) fn new(errno: c_int, text: impl Into<String>) -> Self {
        Self { errno, text: Some(text.into()) }
    }
}

impl From<Errno> for Failure {
    fn from(Errno(errno): Errno) -> Self {
        Self { errno, text: None }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let errno = if is_given_up(&error) { libc::ECANCELED } else { Errno::from(&error).0 };
        Self::new(errno, words(&error))
    }
}

/// Whether a method says so that this end has given up what was under way.
pub(crate) fn is_given_up(error: &Error) -> bool {
    matches!(
        error,
        Error::ContextFailed(xtp::Failure::Aborted)
            | Error::ConnectionFailed(a1::Failure::Aborted)
            | Error::Failed(zcrp::Failure::Closed)
            | Error::FrameFailed(vrp::Failure::Closed)
    )
}

/// An error in words, in which what helps has the name that it has in C.
pub(crate) fn words(error: &Error) -> String {
    match error {
        Error::MessageTooLong(most) => format!(
            "a message is longer than {most} bytes, the most that this end receives: raise longest_message of struct \
             pinnace_options at the endpoint"
        ),
        Error::ConnectionFailed(failure @ a1::Failure::LingerOver) => {
            format!("{failure}: give it more time, or call pinnace_flush before")
        }
        error => error.to_string(),
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// As [`guard`], and keeps what failed in words.
pub(crate) fn told<R>(failed: R, body: impl FnOnce() -> Result<R, Failure>) -> R {
    guard(failed, || {
        let result = catch_unwind(AssertUnwindSafe(body));
        let result =
            result.unwrap_or_else(|_| Err(Failure::new(libc::EIO, "a defect of the library: please report it")));
        result.map_err(|Failure { errno, text }| {
            let text = text.unwrap_or_else(|| io::Error::from_raw_os_error(errno).to_string());
            // A thread that is ending has no place for it any more.
            let _ = LAST.try_with(|last| *last.borrow_mut() = CString::new(text).unwrap_or_default());
            Errno(errno)
        })
    })
}

/// Why the last call of this thread that failed did, in words; valid until the next one fails.
pub(crate) fn last() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// The same, for us.
pub(crate) fn last_text() -> String {
    LAST.try_with(|last| last.borrow().to_string_lossy().into_owned()).unwrap_or_default()
}

/// Runs the body of an exported function that returns a negative error, which a panic is as well: it must not unwind into C.
pub(crate) fn negative<R: From<i16>>(body: impl FnOnce() -> Result<R, Errno>) -> R {
    let why = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(result)) => return result,
        Ok(Err(Errno(why))) => why,
        Err(_) => libc::EIO,
    };
    // No system has so many errors.
    R::from(i16::try_from(why).map_or(-(libc::EIO as i16), |why| -why))
}

/// Runs the body of an exported function: an error becomes `errno` and `failed`, and so does a panic, which must not
/// unwind into C.
pub(crate) fn guard<R>(failed: R, body: impl FnOnce() -> Result<R, Errno>) -> R {
    let Errno(errno) = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(result)) => return result,
        Ok(Err(errno)) => errno,
        Err(_) => Errno(libc::EIO),
    };
    // SAFETY: the C library gives every thread an `errno`, valid as long as the thread.
    unsafe { *location() = errno };
    failed
}

#[cfg(not(target_os = "freebsd"))]
pub(crate) use libc::ENODATA as NO_DATA;
/// What FreeBSD has no name for.
#[cfg(target_os = "freebsd")]
pub(crate) use libc::ENOMSG as NO_DATA;

#[cfg(any(target_os = "netbsd", target_os = "openbsd", target_os = "android"))]
use libc::__errno as location;
#[cfg(target_os = "linux")]
use libc::__errno_location as location;
#[cfg(any(target_os = "macos", target_os = "ios", target_os = "freebsd"))]
use libc::__error as location;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_xtp_refuses_is_told_as_sockets_tell_it() {
        let errno = |refused| Errno::from(&Error::ContextRefused(refused)).0;
        assert_eq!(errno(xtp::Refused::Full), libc::EAGAIN);
        assert_eq!(errno(xtp::Refused::TooManyContexts), libc::ENOBUFS);
        assert_eq!(errno(xtp::Refused::Port), libc::EADDRINUSE);
        assert_eq!(errno(xtp::Refused::Closed), libc::EPIPE);
    }
}

//! Errors, as C knows them.

use libc::c_int;
use pinnace::zcrp::{Failure, Refused};
use pinnace::{EndpointError, Error, a1, vrp};

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why a call failed: a value of `errno`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) c_int);

impl From<&std::io::Error> for Errno {
    fn from(error: &std::io::Error) -> Self {
        use std::io::ErrorKind::{AddrInUse, InvalidInput, PermissionDenied, ResourceBusy};
        Self(error.raw_os_error().unwrap_or(match error.kind() {
            ResourceBusy => libc::EBUSY,
            InvalidInput => libc::EINVAL,
            AddrInUse => libc::EADDRINUSE,
            PermissionDenied => libc::EPERM,
            _ => libc::EIO,
        }))
    }
}

impl From<&Error> for Errno {
    fn from(error: &Error) -> Self {
        let of_failure = |failure: &Failure| match failure {
            Failure::TooLong => libc::EMSGSIZE,
            Failure::PeerGone => libc::ETIMEDOUT,
            Failure::Closed => libc::ECANCELED,
        };
        let of_frame = |failure: &vrp::Failure| match failure {
            vrp::Failure::Refused => libc::ECONNREFUSED,
            vrp::Failure::PeerGone | vrp::Failure::Late => libc::ETIMEDOUT,
            vrp::Failure::Protocol => libc::EPROTO,
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
            a1::Failure::TimedOut | a1::Failure::Abandoned | a1::Failure::LingerOver | a1::Failure::TooSlow => {
                libc::ETIMEDOUT
            }
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
        Self(match error {
            Error::ConnectionFailed(failure) => of_connection(failure),
            Error::CallRefused(refused) => of_call(refused),
            Error::WindowFull(_) => libc::EAGAIN,
            Error::Io { source, .. } => Self::from(source).0,
            Error::Failed(failure) => of_failure(failure),
            Error::Refused(Refused::Closed(Failure::Closed)) => libc::ENOTCONN,
            Error::Refused(Refused::Closed(failure)) => of_failure(failure),
            Error::Refused(Refused::TooMany) => libc::ENOBUFS,
            Error::FrameFailed(failure) => of_frame(failure),
            Error::FrameRefused(refused) => of_unsent(refused),
            Error::Endpoint(EndpointError::Link(error)) => Self::from(&**error).0,
            Error::Endpoint(EndpointError::ShutDown) => libc::ECANCELED,
            Error::Timeout => libc::EAGAIN,
            Error::TooLarge => libc::EMSGSIZE,
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

#[cfg(any(target_os = "netbsd", target_os = "openbsd", target_os = "android"))]
use libc::__errno as location;
#[cfg(target_os = "linux")]
use libc::__errno_location as location;
#[cfg(any(target_os = "macos", target_os = "ios", target_os = "freebsd"))]
use libc::__error as location;

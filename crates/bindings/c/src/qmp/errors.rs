//! What went wrong, as sockets say it.

use crate::errors::Errno;
use pinnace::{EndpointError, Error};
use pinnace_qmp::socket;
use std::io;

/// The errno of a failed association.
pub(super) fn of_failure(failure: socket::Errno) -> Errno {
    Errno(match failure {
        socket::Errno::Refused => libc::ECONNREFUSED,
        socket::Errno::TimedOut => libc::ETIMEDOUT,
        socket::Errno::Reset => libc::ECONNRESET,
        socket::Errno::Aborted => libc::ECONNABORTED,
        socket::Errno::NoBuffers => libc::ENOBUFS,
    })
}

/// The errno of what a call on a socket said.
pub(super) fn errno(error: &io::Error) -> Errno {
    let within = error.get_ref().and_then(|within| within.downcast_ref::<Error>());
    match within {
        Some(Error::Io { source, .. } | Error::Listen { source, .. }) => system(source),
        Some(Error::Endpoint(EndpointError::Link(source))) => system(source),
        Some(Error::Endpoint(_)) => Errno(libc::ECONNABORTED),
        Some(Error::ContextFailed(failure)) => of_failure(socket::Errno::of(*failure)),
        Some(Error::ContextRefused(refused)) => Errno::from(*refused),
        Some(Error::Timeout) => Errno(libc::EAGAIN),
        _ => system(error),
    }
}

fn system(error: &io::Error) -> Errno {
    use io::ErrorKind as Kind;
    Errno(error.raw_os_error().unwrap_or(match error.kind() {
        Kind::WouldBlock => libc::EAGAIN,
        Kind::BrokenPipe => libc::EPIPE,
        Kind::ConnectionReset => libc::ECONNRESET,
        Kind::ConnectionRefused => libc::ECONNREFUSED,
        Kind::TimedOut => libc::ETIMEDOUT,
        Kind::AddrInUse => libc::EADDRINUSE,
        Kind::AddrNotAvailable => libc::EADDRNOTAVAIL,
        Kind::PermissionDenied => libc::EACCES,
        Kind::OutOfMemory => libc::ENOMEM,
        Kind::Unsupported => libc::EOPNOTSUPP,
        _ => return Errno::from(error),
    }))
}

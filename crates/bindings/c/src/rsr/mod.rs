//! Remote service requests for C: `include/rsr.h` is generated from [`abi`] and [`values`].
//!
//! Always true: a failed call says why in `errno`, and in words in `rsr_error`; a child process starts with methods of its
//! own, whatever its parent had open.

pub mod abi;
pub mod values;

pub(crate) use crate::errors::{Failure, told as guard};

use crate::errors::Errno;
use libc::c_int;
use pinnace::rsr::{Cause, Context, Error, Local, Method, Obstacle, Unified, Vrp, Zcrp};
use pinnace_runtime::OfProcess;
use std::sync::Arc;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let mut tried = error.attempts().iter().map(|attempt| match &attempt.obstacle {
            Obstacle::Failed(cause) | Obstacle::FailedBefore(cause) => errno_of(cause),
            _ => libc::EPROTONOSUPPORT,
        });
        let errno = match &error {
            // What a method that is there says, before one that is not.
            Error::Unreachable(_) => tried.max_by_key(|&errno| errno != libc::EPROTONOSUPPORT).unwrap_or(libc::EINVAL),
            Error::TooLarge => libc::EMSGSIZE,
            Error::Malformed(_) => libc::EINVAL,
            _ => tried.next_back().unwrap_or(libc::EIO),
        };
        Self { errno, text: Some(error.to_string()) }
    }
}

fn errno_of(cause: &Cause) -> c_int {
    let system = |error: &std::io::Error| {
        error.raw_os_error().unwrap_or(match error.kind() {
            std::io::ErrorKind::ConnectionRefused => libc::ECONNREFUSED,
            std::io::ErrorKind::ConnectionReset => libc::ECONNRESET,
            std::io::ErrorKind::TimedOut => libc::ETIMEDOUT,
            std::io::ErrorKind::AddrInUse => libc::EADDRINUSE,
            std::io::ErrorKind::FileTooLarge => libc::EMSGSIZE,
            std::io::ErrorKind::InvalidInput => libc::EINVAL,
            _ => libc::EIO,
        })
    };
    let error = cause.downcast_ref::<pinnace::Error>().map(|error| Errno::from(error).0);
    error.or_else(|| cause.downcast_ref().map(system)).unwrap_or(libc::EIO)
}

/// The methods of this process, and the ways that it has opened.
#[derive(Debug)]
struct Methods(Context);

impl Default for Methods {
    fn default() -> Self {
        let methods: Vec<Arc<dyn Method>> = vec![
            Arc::new(Local::default()),
            Arc::new(Vrp::default()),
            Arc::new(Zcrp::default()),
            Arc::new(Unified::default()),
        ];
        Self(Context::with_methods(methods))
    }
}

/// Those of this process.
pub(crate) fn context() -> &'static Context {
    static METHODS: OfProcess<Methods> = OfProcess::new();
    &METHODS.get().0
}

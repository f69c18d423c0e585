//! What can go wrong with a request, and which methods were tried.

use super::Startpoint;
use super::startpoint::Way;
use std::fmt;
use std::sync::Arc;

/// Why a method did not do what was asked of it: any error, shared. `?` makes one.
#[derive(Clone)]
pub struct Cause(Arc<dyn std::error::Error + Send + Sync>);

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Cause {
    fn from(error: E) -> Self {
        Self(Arc::new(error))
    }
}

impl std::ops::Deref for Cause {
    type Target = dyn std::error::Error + Send + Sync;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A way that was tried, or passed over, and why it did not work.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Attempt {
    /// The method.
    pub method: String,
    /// Where the endpoint should have been.
    pub address: String,
    /// Why nothing went that way.
    pub obstacle: Obstacle,
}

/// Why nothing went by a method.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Obstacle {
    /// This process does not have the method.
    Unsupported,
    /// The startpoint does not list the method.
    NotListed {
        /// What it lists.
        listed: String,
    },
    /// The probe failed just now.
    Failed(Cause),
    /// The probe failed a few seconds ago, and was not repeated.
    FailedBefore(Cause),
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.method)?;
        if !self.address.is_empty() {
            write!(f, "={}", self.address)?;
        }
        match &self.obstacle {
            Obstacle::Unsupported => f.write_str(": this process does not have the method"),
            Obstacle::NotListed { listed } => write!(f, ": the startpoint does not list the method, but {listed}"),
            Obstacle::Failed(cause) => write!(f, ": {cause}"),
            Obstacle::FailedBefore(cause) => write!(f, ": {cause} (a few seconds ago; not tried again yet)"),
        }
    }
}

/// Why something did not work.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// None of the startpoint's methods led to the endpoint: nothing was sent.
    Unreachable(Vec<Attempt>),
    /// The request was sent by this method, and is not known to have arrived. It is not sent again by itself: a handler
    /// must not run twice.
    Failed(Attempt),
    /// A request has at most 4,294,967,275 bytes.
    TooLarge,
    /// A startpoint, or a way, is not well-formed.
    Malformed(String),
    /// The endpoint could not listen, or its threads not be started.
    Listen(Attempt),
}

impl Error {
    pub(super) fn malformed(what: impl Into<String>) -> Self {
        Self::Malformed(what.into())
    }

    pub(super) fn not_listed(method: &str, startpoint: &Startpoint) -> Self {
        let listed = startpoint.ways().iter().map(Way::method).collect::<Vec<_>>().join(", ");
        let obstacle = Obstacle::NotListed { listed };
        Self::Unreachable(vec![Attempt { method: method.to_owned(), address: String::new(), obstacle }])
    }

    /// The ways that were tried or passed over.
    pub fn attempts(&self) -> &[Attempt] {
        match self {
            Self::Unreachable(attempts) => attempts,
            Self::Failed(attempt) | Self::Listen(attempt) => std::slice::from_ref(attempt),
            Self::TooLarge | Self::Malformed(_) => &[],
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(attempts) => {
                f.write_str("no method leads to the endpoint")?;
                for (index, attempt) in attempts.iter().enumerate() {
                    write!(f, "{}{attempt}", if index == 0 { ": " } else { "; " })?;
                }
                Ok(())
            }
            Self::Failed(attempt) => write!(f, "the request may not have arrived: {attempt}"),
            Self::TooLarge => f.write_str("a request has at most 4,294,967,275 bytes"),
            Self::Malformed(what) => f.write_str(what),
            Self::Listen(attempt) => write!(f, "cannot listen: {attempt}"),
        }
    }
}

impl std::error::Error for Error {}

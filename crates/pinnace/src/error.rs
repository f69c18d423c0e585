//! What can go wrong, to whom, and what to do about it.

use crate::{Message, vrp};
use pinnace_runtime::{EndpointError, WaitError};
use pinnace_zcrp::{Failure, Refused};
use std::{fmt, io};

/// Why something did not work.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    Io {
        /// What was tried, and with what.
        action: String,
        /// What the system said.
        source: io::Error,
    },
    /// The message did not complete.
    Failed(Failure),
    /// The call was refused; no message number was taken.
    Refused(Refused),
    /// The frame was not delivered (VRP).
    FrameFailed(vrp::Failure),
    /// The frame was not accepted for sending; nothing left (VRP).
    FrameRefused(vrp::Refused),
    /// The endpoint is of no use any more.
    Endpoint(EndpointError),
    /// The deadline passed. What was begun goes on.
    Timeout,
    /// The message is larger than the protocol carries (4,294,967,295 bytes).
    TooLarge,
    /// A message in read-only memory was posted to receive into.
    ReadOnly,
}

impl Error {
    pub(crate) fn io(action: impl Into<String>, source: io::Error) -> Self {
        Self::Io { action: action.into(), source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { action, source } => write!(f, "{action}: {source}"),
            Self::Failed(failure) => failure.fmt(f),
            Self::Refused(refused) => refused.fmt(f),
            Self::FrameFailed(failure) => failure.fmt(f),
            Self::FrameRefused(refused) => refused.fmt(f),
            Self::Endpoint(error) => error.fmt(f),
            Self::Timeout => f.write_str("timed out; what was begun goes on"),
            Self::TooLarge => f.write_str("a message has at most 4,294,967,295 bytes; cut it into several"),
            Self::ReadOnly => f.write_str("the message lies in read-only memory and cannot be received into"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Failed(failure) => Some(failure),
            Self::Refused(refused) => Some(refused),
            Self::FrameFailed(failure) => Some(failure),
            Self::FrameRefused(refused) => Some(refused),
            Self::Endpoint(error) => Some(error),
            Self::Timeout | Self::TooLarge | Self::ReadOnly => None,
        }
    }
}

impl From<EndpointError> for Error {
    fn from(error: EndpointError) -> Self {
        Self::Endpoint(error)
    }
}

impl From<WaitError> for Error {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::Timeout => Self::Timeout,
            WaitError::Endpoint(error) => Self::Endpoint(error),
        }
    }
}

/// A message that did not go through, and why: the buffer is the caller's again.
#[derive(Debug)]
pub struct Unsent {
    /// The message, unless its endpoint was lost with it.
    pub message: Option<Message>,
    /// What happened.
    pub error: Error,
}

impl Unsent {
    pub(crate) fn new(message: impl Into<Option<Message>>, error: impl Into<Error>) -> Self {
        Self { message: message.into(), error: error.into() }
    }
}

impl fmt::Display for Unsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Unsent {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.error)
    }
}

impl From<Unsent> for Error {
    fn from(unsent: Unsent) -> Self {
        unsent.error
    }
}

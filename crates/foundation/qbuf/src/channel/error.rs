//! What can go wrong on a channel.

use std::io;

use super::ring::Corrupt;
use crate::{PoolError, Qbuf};

/// Why a channel did not do what it was asked for.
#[derive(Debug)]
#[non_exhaustive]
pub enum ChannelError {
    /// The descriptors are not those of a channel of this version, or the side is taken.
    Refused(&'static str),
    /// The ring is full: wait until it is writable.
    Full,
    /// The other side has closed its end, or died, and what it had sent before has been read.
    Closed,
    /// The other side wrote what cannot be. The channel is closed.
    Corrupt,
    /// The pool has no free run of blocks that is long enough, or this process has its share of it.
    NoMemory,
    /// The pool refused a block.
    Pool(PoolError),
    /// The system refused a call.
    Io(io::Error),
}

impl core::fmt::Display for ChannelError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Refused(why) => write!(f, "not a channel for us: {why}"),
            Self::Full => f.write_str("the ring is full"),
            Self::Closed => f.write_str("the other side has closed the channel"),
            Self::Corrupt => f.write_str("the other side corrupted the channel"),
            Self::NoMemory => f.write_str("the pool has no free buffer of this size for this process"),
            Self::Pool(error) => write!(f, "the pool refused: {error}"),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ChannelError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Pool(error) => Some(error),
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for ChannelError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Corrupt> for ChannelError {
    fn from(_: Corrupt) -> Self {
        Self::Corrupt
    }
}

impl From<ChannelError> for io::Error {
    fn from(error: ChannelError) -> Self {
        let kind = match error {
            ChannelError::Io(error) => return error,
            ChannelError::Full => io::ErrorKind::WouldBlock,
            ChannelError::Closed => io::ErrorKind::BrokenPipe,
            ChannelError::NoMemory => io::ErrorKind::OutOfMemory,
            ChannelError::Corrupt => io::ErrorKind::ConnectionAborted,
            ChannelError::Refused(_) | ChannelError::Pool(_) => io::ErrorKind::InvalidInput,
        };
        io::Error::new(kind, error)
    }
}

/// A qbuf that was not sent, and is still the caller's.
#[derive(Debug)]
pub enum Rejected {
    /// The ring is full, or the other side has not sat down yet: wait until it is writable.
    Full(Qbuf),
    /// The channel is closed for sending: by [`Channel::finish`](super::Channel::finish), by the other side, or for corruption.
    Closed(Qbuf),
    /// The qbuf belongs to another attachment than the channel does.
    Foreign(Qbuf),
}

impl core::fmt::Display for Rejected {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "the ring is full",
            Self::Closed(_) => "the channel is closed",
            Self::Foreign(_) => "the buffer is not of the channel's pool",
        })
    }
}

impl std::error::Error for Rejected {}

/// Keeps the kind of failure and frees the qbuf.
impl From<Rejected> for ChannelError {
    fn from(rejected: Rejected) -> Self {
        match rejected {
            Rejected::Full(_) => Self::Full,
            Rejected::Closed(_) => Self::Closed,
            Rejected::Foreign(_) => Self::Pool(PoolError::NotOwner),
        }
    }
}

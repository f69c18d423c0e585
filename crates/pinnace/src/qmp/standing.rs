//! What poll() tells of a stream.
//!
//! Always true: it is looked at once, under one lock. An association ends while others look at it: who asked for one thing
//! after the other heard of half an end.

use pinnace_qmp::State;
use pinnace_qmp::socket::Errno;

/// How a stream stands at one moment; see [`Stream::standing`](super::Stream::standing).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Standing {
    /// Bytes that can be read without waiting; over shared memory those of the next message, at least.
    pub readable_bytes: usize,
    /// Nothing is to be read any more: the next read finds the end, or why the connection failed.
    pub is_at_end: bool,
    /// A write would not wait.
    pub is_writable: bool,
    /// The state, as the paper draws it.
    pub state: State,
    /// The error that has ended the connection, if there is one (SO_ERROR).
    pub failure: Option<Errno>,
}

//! What poll() tells of a stream.
//!
//! Always true: what can be read, the end and its reason are looked at together, under one lock. An association ends while
//! others look at it: who asked for one thing after the other heard of half an end.

use pinnace_qmp::State;
use pinnace_qmp::socket::Errno;

/// How a stream stands at one moment; see [`Stream::standing`](super::Stream::standing).
///
/// ```
/// use pinnace::qmp::{Listener, Options, Stream};
/// # fn main() -> std::io::Result<()> {
/// let listener = Listener::bind("127.0.0.1:0", &Options::default())?;
/// let stream = Stream::connect(listener.local_addr(), &Options::default())?;
/// let standing = stream.standing();
/// assert!(standing.is_writable && standing.failure.is_none());
/// assert_eq!((standing.readable_bytes, standing.is_at_end, standing.is_readable()), (0, false, false));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Standing {
    /// Bytes that can be read without waiting; over shared memory those of the next message, at least.
    pub readable_bytes: usize,
    /// Nothing is to be read any more: the next read finds the end, or why the connection failed.
    pub is_at_end: bool,
    /// The peer's stream has ended, though bytes before the end may not have been read yet.
    pub has_peer_ended: bool,
    /// A write would not wait.
    pub is_writable: bool,
    /// The state, as the paper draws it.
    pub state: State,
    /// The error that has ended the connection, if there is one (SO_ERROR).
    pub failure: Option<Errno>,
}

impl Standing {
    /// A read would not wait: bytes are there, or the end.
    pub fn is_readable(&self) -> bool {
        self.readable_bytes > 0 || self.is_at_end
    }
}

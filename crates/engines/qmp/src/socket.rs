//! What the calls of a BSD socket mean to the engine (specs/qmp.md, Profile).

use crate::Profile;
use pinnace_core::{Address, BufferId, Time};
use pinnace_xtp::{Close, ContextId, ControlBlock, Failure, ListenerId, Output, Refused, Xtp};

/// Waits for others at the port of `block`. What a FIRST finds there answers with the FIRST's key and RTN; from then on
/// packets name the other end's own key, with RTN.
///
/// # Errors
/// [`Refused::Port`] if it is 0 or taken.
//= Q-4, Q-6
pub fn listen(engine: &mut Xtp, block: ControlBlock) -> Result<ListenerId, Refused> {
    engine.listen(block, Profile::SERVICES)
}

/// Sends a FIRST without data, at once. [`Event::Connected`](pinnace_xtp::Event::Connected) tells of the answer; data may
/// follow before it.
///
/// # Errors
/// [`Refused::TooManyContexts`], [`Refused::Port`].
//= Q-4, Q-7
pub fn connect(engine: &mut Xtp, now: Time, to: Address, block: ControlBlock) -> Result<ContextId, Refused> {
    let context = engine.open(now, to, block)?;
    engine.connect(now, context)?;
    Ok(context)
}

/// One write: `len` bytes of `buffer` from `offset` on, the last packet of which asks for a status. The buffer is the
/// engine's until [`Event::Sent`](pinnace_xtp::Event::Sent) gives it back: when the last packet that uses it has been
/// acknowledged. If the request for the status is lost, or the status, a timer finds out and asks again, with a new sync.
///
/// # Errors
/// [`Refused::Full`], [`Refused::Closed`], [`Refused::Empty`].
//= Q-8, Q-9, Q-10
pub fn write(
    engine: &mut Xtp,
    now: Time,
    context: ContextId,
    buffer: BufferId,
    offset: u64,
    len: u64,
) -> Result<u64, Refused> {
    engine.send(now, context, Output { offset, asks: true, ..Output::bytes(buffer, len) })
}

/// How a socket is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Linger {
    /// What was written goes on in the background.
    #[default]
    Background,
    /// Nothing does: SO_LINGER with 0 seconds.
    Zero,
}

/// Nothing more is written (SHUT_WR): the stream ends behind what was.
///
/// # Errors
/// [`Refused::NoContext`].
pub fn shut_write(engine: &mut Xtp, now: Time, context: ContextId) -> Result<(), Refused> {
    engine.finish(now, context)
}

/// The end of the last descriptor. What was received and not read, or a linger of 0, makes it a forced close, and the peer
/// finds its connection reset; otherwise both streams are closed in the background. True if it was forced.
///
/// # Errors
/// [`Refused::NoContext`].
pub fn close(engine: &mut Xtp, now: Time, context: ContextId, linger: Linger) -> Result<bool, Refused> {
    let is_unread = engine.readable(context).is_some_and(|readable| readable.len > 0);
    let is_forced = is_unread || linger == Linger::Zero;
    let result = engine.close(now, context, if is_forced { Close::Forced } else { Close::Full });
    engine.release(now, context);
    result.map(|()| is_forced)
}

/// The errno by which a socket tells of a failure, as its name on every system that has sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errno {
    /// Nobody listens there, or whoever listens refused: ECONNREFUSED.
    Refused,
    /// No answer: ETIMEDOUT.
    TimedOut,
    /// The peer ended it in the middle: ECONNRESET.
    Reset,
    /// It was ended here: ECONNABORTED.
    Aborted,
    /// The system has no room: ENOBUFS.
    NoBuffers,
}

impl Errno {
    /// How a socket tells of `failure`.
    pub const fn of(failure: Failure) -> Self {
        match failure {
            Failure::Refused { code: 1, .. } => Self::Refused,
            Failure::Unanswered | Failure::Abandoned | Failure::Swallowed => Self::TimedOut,
            Failure::Aborted => Self::Aborted,
            Failure::NoStorage => Self::NoBuffers,
            _ => Self::Reset,
        }
    }
}

//! What the engine tells the application.

use crate::{CastId, ConnectionId};
use pinnace_core::{Address, BufferId};
use pinnace_wire::a1::{self, Group, Qos, RejectCode};

/// What happened. Every connection that [`A1::open`](crate::A1::open) gave, or [`Event::Accepted`] told of, ends with one
/// [`Event::Closed`]; every message comes back with one [`Event::Sent`] or [`Event::Cast`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Somebody has opened a connection, and it was accepted.
    Accepted {
        /// The new connection.
        connection: ConnectionId,
        /// Where its datagrams come from and go to.
        peer: Address,
        /// What the peer calls itself.
        source: a1::Address,
        /// The peer's record.
        qos: Qos,
    },
    /// A sender to a group wants us to join: [`A1::answer_join`](crate::A1::answer_join) says whether we have.
    Join {
        /// Whose.
        connection: ConnectionId,
        /// Which group.
        group: Group,
    },
    /// A group is not needed any more: [`Event::Join`] told of it, and the join was answered with success.
    Leave {
        /// Which group.
        group: Group,
    },
    /// The peer has accepted the connection that was opened here.
    Connected {
        /// Whose.
        connection: ConnectionId,
    },
    /// There is more to read, or there will be no more: see [`A1::readable`](crate::A1::readable).
    Readable {
        /// Whose.
        connection: ConnectionId,
    },
    /// A message that was refused because the window was full has room now.
    Writable {
        /// Whose.
        connection: ConnectionId,
    },
    /// A message is needed no longer: its buffer is the application's again.
    Sent {
        /// Whose.
        connection: ConnectionId,
        /// Which message.
        ticket: u64,
        /// Its buffer.
        buffer: BufferId,
        /// Whether the peer has acknowledged it (without retransmission: whether all of it has left).
        delivered: bool,
    },
    /// A message to a set of sinks is needed no longer.
    Cast {
        /// Which set.
        cast: CastId,
        /// Which message.
        ticket: u64,
        /// Its buffer.
        buffer: BufferId,
        /// Sinks that it was delivered to, as [`Event::Sent`] has it.
        delivered: u32,
        /// Sinks that it was meant for.
        sinks: u32,
    },
    /// A message to a set of sinks that was refused has room now.
    CastWritable {
        /// Which set.
        cast: CastId,
    },
    /// The quality of service is another one: ours, as the peer has accepted it, or the peer's.
    QosChanged {
        /// Whose.
        connection: ConnectionId,
        /// Whether it was the peer who changed its record.
        by_peer: bool,
    },
    /// Storage that the driver allocated is not needed any more.
    Released {
        /// Which.
        buffer: BufferId,
    },
    /// The connection has ended. What was received may still be read; then [`A1::release`](crate::A1::release) it.
    Closed {
        /// Whose.
        connection: ConnectionId,
        /// How.
        result: Result<(), Failure>,
    },
    /// The engine has said good-bye after [`A1::shut_down`](crate::A1::shut_down).
    ShutDown,
}

/// Why a connection ended before its time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The peer refused it.
    Refused {
        /// Why.
        code: RejectCode,
        /// What it says about that.
        text: String,
    },
    /// Nobody has answered to OPEN.
    TimedOut,
    /// The peer has ceased to answer.
    Abandoned,
    /// The peer answers, but a block does not reach it however often it is repeated: a path may lose all long datagrams, and
    /// carry short ones. A connection with smaller blocks may get through.
    Swallowed,
    /// The peer ended it in the middle (CLOSE 1).
    AbortedByPeer,
    /// The peer closed it before we had received everything that it sent.
    Unfinished,
    /// It was closed here, and linger was over before everything was acknowledged.
    LingerOver,
    /// We ended it.
    Aborted,
    /// It held up the other sinks for too long.
    TooSlow,
    /// The peer broke the protocol.
    Violation,
}

impl core::fmt::Display for Failure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Refused { code, text } => {
                f.write_str(match code {
                    RejectCode::NoListener => "nobody listens there",
                    RejectCode::Qos => "the peer's quality of service is too different",
                    RejectCode::NoResources => "the peer has no room for another connection: try again later",
                    RejectCode::Malformed => "the peer does not understand the request",
                    RejectCode::NotAuthorised => "the peer does not let us in",
                })?;
                if text.is_empty() { Ok(()) } else { write!(f, " ({})", text.escape_debug()) }
            }
            Self::TimedOut => f.write_str("nobody answers there"),
            Self::Abandoned => f.write_str("the peer does not answer any more"),
            Self::Swallowed => f.write_str(
                "the peer answers, but its blocks do not reach it: the path may lose all datagrams of their size, and carry smaller ones",
            ),
            Self::AbortedByPeer => f.write_str("the peer ended the connection in the middle"),
            Self::Unfinished => f.write_str("the peer closed the connection before all that it sent had come"),
            Self::LingerOver => {
                f.write_str("the time for closing was over before the peer had acknowledged everything")
            }
            Self::Aborted => f.write_str("the connection was ended here"),
            Self::TooSlow => f.write_str("the sink held up the others for too long"),
            Self::Violation => f.write_str("the peer broke the protocol"),
        }
    }
}

impl core::error::Error for Failure {}

/// Why a call was refused. Nothing has happened then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refused {
    /// There are as many connections as allowed.
    TooManyConnections,
    /// There is no such connection, or it has ended (EPIPE).
    NoConnection,
    /// The connection is not accepted yet (ENOTCONN).
    NotConnected,
    /// The message is longer than the largest one agreed on, or has more than 65,535 blocks (EMSGSIZE).
    TooLarge {
        /// Bytes that a message may have.
        most: u64,
    },
    /// The window is full: wait for [`Event::Writable`] (EAGAIN).
    Full,
    /// Beyond the maximum, or in what cannot change: a new connection is needed (EPERM).
    BeyondMaximum,
    /// A block size of 0 or above 65,475 bytes, or a window of 2^20 blocks or more (EINVAL).
    Impossible,
    /// The connection is a sink of a set: send to the set (EINVAL).
    Sink,
    /// Somebody listens already (EADDRINUSE).
    Listening,
    /// The engine has been shut down.
    ShutDown,
}

impl core::fmt::Display for Refused {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::TooManyConnections => f.write_str("there are as many connections as allowed"),
            Self::NoConnection => f.write_str("there is no such connection, or it has ended"),
            Self::NotConnected => f.write_str("the connection is not accepted yet"),
            Self::TooLarge { most } => write!(f, "a message of this connection has at most {most} bytes"),
            Self::Full => f.write_str("the window is full"),
            Self::BeyondMaximum => f.write_str("this is beyond the maximum: it takes a new connection"),
            Self::Impossible => f.write_str("a block has 1 to 65,475 bytes, and a window less than 2^20 blocks"),
            Self::Sink => f.write_str("the connection is a sink of a set: send to the set"),
            Self::Listening => f.write_str("somebody listens here already"),
            Self::ShutDown => f.write_str("the endpoint has been shut down"),
        }
    }
}

impl core::error::Error for Refused {}

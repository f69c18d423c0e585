//! What the engine tells the application.

use pinnace_core::BufferId;

/// An end of something that the application began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A send ended: every unit was acknowledged, or the message is *not known to have arrived* (Z-15).
    Sent {
        /// The message's number, in the order of the calls.
        number: u64,
        /// The buffer, which belongs to the application again.
        buffer: BufferId,
        /// How it ended.
        result: Result<(), Failure>,
    },
    /// A receive ended.
    Received {
        /// The message's number, in the order of the calls.
        number: u64,
        /// The buffer, which belongs to the application again.
        buffer: BufferId,
        /// Bytes of the message, or why there is none.
        result: Result<u32, Failure>,
    },
    /// The sending half takes no more messages.
    SenderClosed(Failure),
    /// The receiving half takes no more messages, and has stopped answering.
    ReceiverClosed(Failure),
}

/// Why a message did not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The message is longer than the buffer that the receiver named (Z-16). Later messages go on.
    TooLong,
    /// Nothing was heard from the peer for the configured time while work was outstanding (Z-19).
    PeerGone,
    /// The peer says that it is there, but of what has begun nothing has arrived for three times that time, however often it was
    /// sent (Z-19): the path loses all datagrams of this size, or the peer was started again and knows nothing of it.
    Swallowed,
    /// This end was closed while the message was under way.
    Closed,
}

impl core::fmt::Display for Failure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::TooLong => "the message is longer than the receiver's buffer",
            Self::PeerGone => "the peer has not answered for too long; it may be gone",
            Self::Swallowed => "the peer is there, but units of this size do not arrive any more",
            Self::Closed => "the endpoint was closed before the message completed",
        })
    }
}

impl core::error::Error for Failure {}

/// Why a call was refused. No message number was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The half is closed, or its peer is gone.
    Closed(Failure),
    /// As many messages as [`Config::max_messages`](crate::Config::max_messages) are under way.
    TooMany,
}

impl core::fmt::Display for Refused {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Closed(failure) => write!(f, "the endpoint is closed: {failure}"),
            Self::TooMany => f.write_str("too many messages are under way; wait for some to complete"),
        }
    }
}

impl core::error::Error for Refused {}

//! What the engine tells the application.

use crate::{ContextId, ListenerId, Service};
use pinnace_core::{Address, BufferId};
use pinnace_wire::xtp::AddressSegment;

/// What happened. Every context that [`Xtp::open`](crate::Xtp::open) gave, or [`Event::Accepted`] told of, ends with one
/// [`Event::Closed`]; every output comes back with one [`Event::Sent`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A FIRST has come for a listener, and was accepted.
    Accepted {
        /// Who listened.
        listener: ListenerId,
        /// The new context.
        context: ContextId,
        /// Where its packets come from and go to.
        peer: Address,
        /// What the FIRST says about the addresses.
        address: AddressSegment,
        /// The service it asks for.
        service: Service,
    },
    /// The peer has answered for the first time.
    Connected {
        /// Whose.
        context: ContextId,
    },
    /// The peer of a context that [`Event::Accepted`] told of has shown that it hears us: it is where its packets come from.
    Shown {
        /// Whose.
        context: ContextId,
    },
    /// There is more to read, or the stream has ended: see [`Xtp::readable`](crate::Xtp::readable).
    Readable {
        /// Whose.
        context: ContextId,
    },
    /// An output is needed no longer: its buffer is the application's again.
    Sent {
        /// Whose.
        context: ContextId,
        /// Which output.
        ticket: u64,
        /// Its buffer.
        buffer: BufferId,
        /// Whether the peer has acknowledged it (streams without errors: whether it has left).
        delivered: bool,
    },
    /// A datagram has come whole, of [`Service::UnackDgram`] or [`Service::AckDgram`].
    Datagram {
        /// Who listened.
        listener: ListenerId,
        /// Who sent it.
        peer: Address,
        /// What its FIRST says about the addresses.
        address: AddressSegment,
        /// Whether it is acknowledged.
        service: Service,
        /// Storage of the driver's, with the message at its beginning; `None`: it is empty.
        buffer: Option<BufferId>,
        /// Bytes.
        len: u64,
        /// The number of the first of them.
        start: u64,
        /// The user's tag.
        btag: Option<[u8; 8]>,
        /// If an acknowledgement waits for the delivery (DREQ): call [`Xtp::delivered`](crate::Xtp::delivered) with it.
        context: Option<ContextId>,
    },
    /// A posted buffer was consumed to its end, and is the application's again.
    Filled {
        /// Whose.
        context: ContextId,
        /// Which.
        buffer: BufferId,
    },
    /// Storage that the driver allocated for a receive ring is not needed any more.
    Released {
        /// Which.
        buffer: BufferId,
    },
    /// The context has ended. What was received whole may still be read; then [`Xtp::release`](crate::Xtp::release) it.
    Closed {
        /// Whose.
        context: ContextId,
        /// How.
        result: Result<(), Failure>,
    },
    /// The engine has said good-bye after [`Xtp::shut_down`](crate::Xtp::shut_down).
    ShutDown,
}

/// Why a context ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The peer refused the context, or one of its packets, with this DIAG.
    Refused {
        /// The code of DIAG.
        code: u32,
        /// The value of DIAG.
        value: u32,
    },
    /// The peer has never answered.
    Unanswered,
    /// The peer does not answer any more.
    Abandoned,
    /// The peer answers, but nothing that is sent has arrived any more for three CTIMEOUTs, however often it was repeated.
    Swallowed,
    /// The peer gave the context up, or its host went down: DIAG 2.
    GivenUpByPeer {
        /// The value of DIAG.
        value: u32,
    },
    /// The peer does not know the context (any more).
    Unknown,
    /// The peer ended the association in the middle (END).
    Forced,
    /// The peer stopped reading before the end of our stream.
    StoppedReading,
    /// We ended it.
    Aborted,
    /// The peer broke the protocol, or says that we did (DIAG 6).
    Violation,
    /// Bytes were asked for that are no longer held (multicast).
    TooLate,
    /// There was no storage for what came.
    NoStorage,
}

impl core::fmt::Display for Failure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Refused { code: 1, value: 1 } => f.write_str("nobody listens there"),
            Self::Refused { code: 1, value: 2 } => f.write_str("the peer does not take these options"),
            Self::Refused { code: 1, value: 3 } => f.write_str("the peer does not know the format of the address"),
            Self::Refused { code: 1, value: 5 } => {
                f.write_str("the peer does not know the format of the traffic specifier")
            }
            Self::Refused { code: 1, value: 6 } => {
                f.write_str("the peer does not take so much traffic: lower the output rate")
            }
            Self::Refused { code: 1, value: 8 } => f.write_str("the peer does not offer this service"),
            Self::Refused { code: 1, value: 9 } => {
                f.write_str("the peer has no room for another context: try again later")
            }
            Self::Refused { code, value } => write!(f, "the peer refused it (DIAG {code}, {value})"),
            Self::Unanswered => f.write_str("the peer does not answer"),
            Self::Abandoned => f.write_str("the peer does not answer any more"),
            Self::Swallowed => f.write_str("the peer answers, but no data reach it any more"),
            Self::GivenUpByPeer { value: 10 } => f.write_str("the peer's host is going down"),
            Self::GivenUpByPeer { .. } => f.write_str("the peer gave the association up"),
            Self::Unknown => f.write_str("the peer does not know the association any more"),
            Self::Forced => f.write_str("the peer ended the association in the middle"),
            Self::StoppedReading => f.write_str("the peer stopped reading before the end"),
            Self::Aborted => f.write_str("the association was ended here"),
            Self::Violation => f.write_str("the peer broke the protocol, or says that we did"),
            Self::TooLate => f.write_str("the sender no longer holds what was missing"),
            Self::NoStorage => f.write_str("there was no storage for what came"),
        }
    }
}

impl core::error::Error for Failure {}

/// Why a call was refused. Nothing has happened then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refused {
    /// There are as many contexts as allowed.
    TooManyContexts,
    /// There is no such context, or it has ended.
    NoContext,
    /// Services 1 and 2 carry a message in one packet: it has at most so many bytes (EMSGSIZE).
    TooLarge {
        /// Bytes.
        most: u32,
    },
    /// A stream carries no empty message (EINVAL).
    Empty,
    /// A sort value above 65,535 does not fit xtp40 (EINVAL).
    Sort,
    /// The service or an option is not possible with this codec, or in this direction (EINVAL).
    Unsupported,
    /// The port is taken by another listener, or is 0 (EADDRINUSE, EINVAL).
    Port,
    /// The context's outgoing stream has been closed (EPIPE).
    Closed,
    /// The outgoing queue of the context is full: wait for [`Event::Sent`] (EAGAIN).
    Full,
    /// The engine has been shut down.
    ShutDown,
}

impl core::fmt::Display for Refused {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::TooManyContexts => f.write_str("there are as many contexts as allowed"),
            Self::NoContext => f.write_str("there is no such context, or it has ended"),
            Self::TooLarge { most } => write!(f, "this service carries at most {most} bytes in its one packet"),
            Self::Empty => f.write_str("a stream carries no empty message"),
            Self::Sort => f.write_str("a sort value above 65535 does not fit xtp40"),
            Self::Unsupported => f.write_str("the service or an option is not possible here"),
            Self::Port => f.write_str("the port is 0, or another listener has it"),
            Self::Closed => f.write_str("the outgoing stream has been closed"),
            Self::Full => f.write_str("the outgoing queue of the context is full"),
            Self::ShutDown => f.write_str("the endpoint has been shut down"),
        }
    }
}

impl core::error::Error for Refused {}

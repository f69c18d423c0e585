//! Names and small records of the interface.

use crate::Service;
use pinnace_core::{Address, BufferId, ContextKey};
use std::time::Duration;

/// A context of an engine. No two that ever live have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContextId(pub(crate) ContextKey);

/// A listener of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(pub(crate) u32);

/// What an application puts out: bytes that it does not touch until they come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// Where the bytes are.
    pub buffer: BufferId,
    /// The first of them.
    pub offset: u64,
    /// How many. 0 with `eom` is an empty message (services of one message only).
    pub len: u64,
    /// A message ends behind them.
    pub eom: bool,
    /// Eight bytes of the user's; a message begins with them.
    pub btag: Option<[u8; 8]>,
    /// The packet with the last byte asks for a status (SREQ).
    pub asks: bool,
    /// The packet with the last byte asks for a status when it has been delivered (DREQ).
    pub asks_when_delivered: bool,
    /// The stream ends behind them (WCLOSE).
    pub is_last: bool,
    /// They belong to the output before them: if there was room for that, there is for them.
    pub joins: bool,
}

impl Output {
    /// A whole message.
    pub const fn message(buffer: BufferId, len: u64) -> Self {
        Self { eom: true, ..Self::bytes(buffer, len) }
    }

    /// Some bytes of a stream.
    pub const fn bytes(buffer: BufferId, len: u64) -> Self {
        Self {
            buffer,
            offset: 0,
            len,
            eom: false,
            btag: None,
            asks: false,
            asks_when_delivered: false,
            is_last: false,
            joins: false,
        }
    }
}

/// How a context is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// We send what is queued and want no more: one exchange. For initiators; a responder closes fully.
    Abbreviated,
    /// We send what is queued; the peer goes on until it closes.
    Full,
    /// At once (END).
    Forced,
}

/// Numbers of a context, as they look on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Our key, without RTN.
    pub my_key: u64,
    /// The peer's, 0 if not known.
    pub peer_key: u64,
    /// Where its packets come from.
    pub peer: Address,
    /// Its service.
    pub service: Service,
    /// Our newest sync.
    pub sync: u32,
    /// The peer's newest.
    pub recv_sync: u32,
    /// The first byte of both streams.
    pub start: u64,
    /// The first byte of ours that is not acknowledged.
    pub acked: u64,
    /// One past the last byte that we sent.
    pub sent: u64,
    /// One past the last contiguous byte received.
    pub rseq: u64,
    /// One past the highest byte received.
    pub hseq: u64,
    /// The next byte to be delivered.
    pub dseq: u64,
    /// Ranges received beyond `rseq`.
    pub spans: Vec<(u64, u64)>,
    /// The first byte of ours that is lost and waits for its repetition.
    pub lost: Option<u64>,
    /// Bytes queued that have not left.
    pub queued: u64,
    /// Bytes under way.
    pub in_flight: u64,
    /// The smoothed round trip, once it has been measured.
    pub round_trip: Option<Duration>,
    /// The peer has answered.
    pub is_connected: bool,
    /// The peer has shown that it is where its packets come from, or need not: it is whom the application has named, the
    /// sender of a group that was joined, or nobody is asked to ([`Config::validates`](crate::Config::validates)). Until then
    /// anybody may have sent them.
    pub is_proved: bool,
    /// The peer's allocation has room for what is queued, or nothing is.
    pub is_allocated: bool,
    /// A status of ours carries our key: the peer has not used it yet.
    pub tells_key: bool,
    /// Our stream ends: nothing more is taken for it.
    pub is_shut: bool,
    /// Our stream has ended, and every byte of it is acknowledged.
    pub is_sent_whole: bool,
    /// The peer's stream has come whole.
    pub is_received_whole: bool,
    /// The association has ended, and late packets of the peer are still answered.
    pub is_in_time_wait: bool,
    /// The application has been told of the end.
    pub is_over: bool,
}

//! Names and small records of the interface.

use core::ops::{BitOr, BitOrAssign};
use core::time::Duration;
use pinnace_core::{Address, BufferId, BufferRange, ContextKey, Time};
use pinnace_wire::a1::Qos;

/// A connection of an engine. No two that ever live have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub(crate) ContextKey);

/// A connection, as the application knows it.
impl From<ConnectionId> for ContextKey {
    fn from(id: ConnectionId) -> Self {
        id.0
    }
}

/// A set of sinks that get the same messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CastId(pub(crate) u32);

/// A message that an application puts out: bytes that it does not touch until they come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// Where the bytes are.
    pub buffer: BufferId,
    /// The first of them.
    pub offset: u64,
    /// How many. 0 is a message, too.
    pub len: u64,
    /// Without retransmission, what has not left by then is dropped. `None`: the deadline of the record, if it has one.
    pub deadline: Option<Time>,
}

impl Output {
    /// A whole message.
    pub const fn new(buffer: BufferId, len: u64) -> Self {
        Self { buffer, offset: 0, len, deadline: None }
    }
}

/// The 32 bits that most calls tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Status(u32);

//= A-17
impl Status {
    /// Nothing to tell.
    pub const NONE: Self = Self(0);
    /// A message starts here.
    pub const START: Self = Self(1);
    /// A message ends here.
    pub const END: Self = Self(1 << 1);
    /// The peer has closed the connection.
    pub const PEER_CLOSED: Self = Self(1 << 2);
    /// The connection was aborted: by the peer, or because it does not answer.
    pub const ABORTED: Self = Self(1 << 3);
    /// The window is full.
    pub const WINDOW_FULL: Self = Self(1 << 4);
    /// More is sent than was agreed on.
    pub const RATE_EXCEEDED: Self = Self(1 << 5);
    /// The quality of service is being changed: the smaller of old and new holds.
    pub const QOS_PENDING: Self = Self(1 << 6);
    /// The quality of service has changed since it was asked for last.
    pub const QOS_CHANGED: Self = Self(1 << 7);
    /// Data were lost before this block (without retransmission).
    pub const LOST: Self = Self(1 << 8);

    /// The bits, as C has them.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether all bits of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// With the bits of `other`, if `condition`.
    #[must_use]
    pub const fn with_if(self, condition: bool, other: Self) -> Self {
        if condition { Self(self.0 | other.0) } else { self }
    }
}

impl BitOr for Status {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Status {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// What the application can take now: bytes of one message, without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readable {
    /// Where they lie; `None` if there are none, in an empty message.
    pub range: Option<BufferRange>,
    /// START and LOST hold for the first byte, END for the last.
    pub status: Status,
    /// They are all that there is, and will be, of their message, of which nothing has been consumed: its buffer can be
    /// taken ([`A1::take_message`](crate::A1::take_message)).
    pub is_whole: bool,
    /// No more bytes of their message follow them, or something is missing behind them: who waits for more of it waits in
    /// vain.
    pub is_final: bool,
}

impl Readable {
    /// How many bytes.
    pub fn len(&self) -> u32 {
        self.range.map_or(0, |range| range.len)
    }

    /// Whether it is an empty message.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a set of sinks does about one that holds up the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SlowSink {
    /// It is waited for: the slowest reliable sink bounds the window.
    #[default]
    Block,
    /// It is cut off, when it has stood still for so long. What it has no room for is kept for it until then, up to a limit; a group
    /// waits for it for 150 ms, or two of its time-outs. One that gets on is waited for.
    Drop {
        /// How long it is waited for.
        patience: Duration,
    },
    /// Messages that it has no room for, and another sink has, are left out for it, and counted ([`Facts::skipped`]). Nothing can be
    /// left out for a sink that has joined a group: that is treated as with [`SlowSink::Drop`], and cut off after a second.
    Degrade,
}

/// What is known of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Where its datagrams come from and go to.
    pub peer: Address,
    /// Our record, as it is in force.
    pub qos: Qos,
    /// The peer's.
    pub peer_qos: Qos,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Blocks that may be under way or not consumed, sending and receiving.
    pub windows: (u64, u64),
    /// The smoothed round trip, once there is a sample.
    pub round_trip: Option<Duration>,
    /// The shortest round trip of late.
    pub shortest_round_trip: Option<Duration>,
    /// Blocks that have left, repetitions not counted.
    pub sent: u64,
    /// Blocks of those that the peer has acknowledged.
    pub acked: u64,
    /// Blocks that the peer lets leave.
    pub edge: u64,
    /// Blocks that have never left.
    pub queued: u64,
    /// Blocks below have come, or are lost.
    pub expected: u64,
    /// Blocks that were lost on their way here (without retransmission).
    pub lost: u64,
    /// Blocks that were sent again.
    pub repeated: u64,
    /// Messages that were left out because the sink is slow.
    pub skipped: u64,
    /// The data come from a multicast group (at a sink), or go to one (at a source).
    pub has_joined: bool,
    /// Both ends have agreed, and none has ended it.
    pub is_open: bool,
    /// It has ended here, but the peer never answered CLOSE, however often that was repeated.
    pub is_unanswered: bool,
    /// WINDOW_FULL, RATE_EXCEEDED, QOS_PENDING, QOS_CHANGED, PEER_CLOSED and ABORTED, as they are now.
    pub status: Status,
}

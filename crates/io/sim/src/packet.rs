//! A datagram on its way through the network, and what can become of it.

use crate::HostId;
use pinnace_core::{Address, Ecn, Time, mix64};
use std::sync::Arc;

/// Bytes that IPv4 and UDP add to a datagram. Rates, queues and MTUs count them, as a router does.
pub const HEADER_BYTES: usize = 28;

/// A way through the network, from one host to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteId(pub(crate) u32);

/// Where on its way a packet is: the nodes count from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The way.
    pub route: RouteId,
    /// Nodes that it has passed.
    pub hop: usize,
    /// The host at the beginning.
    pub from: HostId,
    /// The host at the end.
    pub to: HostId,
}

/// A datagram on its way.
#[derive(Clone, Debug)]
pub struct Packet {
    /// A number of its own; a duplicate keeps the number of the original.
    pub number: u64,
    /// The train it left in: packets that left in one train have the same number here.
    pub train: u64,
    /// The address it claims to come from.
    pub source: Address,
    /// The address it goes to.
    pub destination: Address,
    /// Its ECN bits.
    pub ecn: Ecn,
    /// Whether the network may cut it where it is too large. What is cut is whole again at its end, and counts as whole on its
    /// way.
    pub may_be_cut: bool,
    /// When it left.
    pub sent_at: Time,
    /// Where it is.
    pub position: Position,
    /// Whether an adversary made it: it does not count as traffic that is under way.
    pub injected: bool,
    data: Arc<[u8]>,
    hash: u64,
}

impl Packet {
    /// A packet at `position`.
    pub fn new(number: u64, source: Address, destination: Address, position: Position, data: &[u8]) -> Self {
        let hash = hash(data);
        Self {
            number,
            train: number,
            source,
            destination,
            ecn: Ecn::NotCapable,
            may_be_cut: false,
            sent_at: Time::ZERO,
            position,
            injected: false,
            data: data.into(),
            hash,
        }
    }

    /// The bytes of the datagram.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Puts other bytes in place of the datagram's.
    pub fn set_data(&mut self, data: &[u8]) {
        self.hash = hash(data);
        self.data = data.into();
    }

    /// A hash of the bytes: the same on every machine.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Bytes with the headers of IP and UDP.
    pub fn wire_bytes(&self) -> usize {
        self.data.len() + HEADER_BYTES
    }
}

/// A quick hash, the same on every machine.
fn hash(data: &[u8]) -> u64 {
    let mut state = data.len() as u64;
    for chunk in data.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = (state ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        state ^= state >> 29;
    }
    mix64(state)
}

/// What happened to a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// A host sent it.
    Sent,
    /// A host read it.
    Delivered,
    /// An adversary sent it.
    Injected,
    /// Lost at random.
    LostRandom,
    /// Lost in a burst.
    LostBurst,
    /// Lost with its whole train.
    LostTrain,
    /// Lost because a queue was full.
    QueueFull,
    /// Lost because it was larger than the path carries.
    TooLarge,
    /// Damaged, and dropped by the checksum of the receiving host.
    Corrupted,
    /// Lost while the path was cut.
    Partitioned,
    /// Nobody has the address it goes to, or no way leads there.
    NoRoute,
    /// The host was dead.
    HostDown,
    /// The receive buffer of the host was full.
    ReceiveBufferFull,
    /// Its source is not the one that the host's socket is connected to.
    Stranger,
    /// Damaged, and passed on all the same. It goes on.
    Altered,
    /// Doubled: both go on.
    Duplicated,
    /// Held back, so that others can overtake it. It goes on.
    HeldBack,
    /// Marked as having met congestion. It goes on.
    Marked,
}

impl Fate {
    /// Every fate.
    pub const ALL: [Self; 18] = [
        Self::Sent,
        Self::Delivered,
        Self::Injected,
        Self::LostRandom,
        Self::LostBurst,
        Self::LostTrain,
        Self::QueueFull,
        Self::TooLarge,
        Self::Corrupted,
        Self::Partitioned,
        Self::NoRoute,
        Self::HostDown,
        Self::ReceiveBufferFull,
        Self::Stranger,
        Self::Altered,
        Self::Duplicated,
        Self::HeldBack,
        Self::Marked,
    ];

    /// Whether the datagram is gone, and somebody may miss it.
    pub const fn is_loss(self) -> bool {
        !matches!(
            self,
            Self::Sent
                | Self::Delivered
                | Self::Injected
                | Self::Stranger
                | Self::Altered
                | Self::Duplicated
                | Self::HeldBack
                | Self::Marked
        )
    }

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Delivered => "delivered",
            Self::Injected => "injected",
            Self::LostRandom => "lost",
            Self::LostBurst => "lost in a burst",
            Self::LostTrain => "lost with its train",
            Self::QueueFull => "queue full",
            Self::TooLarge => "too large",
            Self::Corrupted => "corrupted, dropped",
            Self::Partitioned => "partitioned",
            Self::NoRoute => "no route",
            Self::HostDown => "host down",
            Self::ReceiveBufferFull => "receive buffer full",
            Self::Stranger => "from a stranger, dropped",
            Self::Altered => "altered",
            Self::Duplicated => "duplicated",
            Self::HeldBack => "held back",
            Self::Marked => "marked",
        }
    }
}

impl core::fmt::Display for Fate {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

//! What the engine tells the application.

use core::ops::Range;
use core::time::Duration;
use pinnace_core::{Address, BufferId, LossContract};

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The first round trip was measured (V-S3), or the peer did not answer.
    Opened(Result<Duration, Failure>),
    /// A send ended.
    Sent {
        /// What [`Outgoing::send`](crate::Outgoing::send) returned.
        ticket: u64,
        /// The memory, which belongs to the application again.
        buffer: BufferId,
        /// How it ended.
        result: Result<Sent, Failure>,
    },
    /// The outgoing endpoint has said good-bye: nothing more leaves.
    OutgoingClosed,
    /// A frame was received within its contract. Its storage belongs to the application; what it takes of
    /// [`Limits::bytes`](crate::Limits::bytes) is free again after [`Incoming::release`](crate::Incoming::release).
    Received(Delivery),
    /// Storage of a frame that ended without delivery: free it.
    Released(BufferId),
    /// The incoming endpoint has said good-bye: nothing more leaves.
    IncomingClosed,
}

/// A frame that was sent, and acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Bytes of the frame.
    pub size: u64,
    /// `P`, bytes of every packet but the last.
    pub packet_bytes: u16,
    /// What was lost for good, as the receiver reports it; `None` from a receiver that does not say.
    pub loss: Option<LossSummary>,
}

/// What a frame has lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LossSummary {
    /// Packets of the frame.
    pub packets: u32,
    /// Packets lost with permission.
    pub lost: u32,
    /// The longest run of them, of those in `ranges`.
    pub longest_run: u32,
    /// Which, in rising order.
    pub ranges: Vec<Range<u32>>,
    /// Whether `ranges` names them all; a long report may not fit its packet.
    pub is_complete: bool,
}

impl LossSummary {
    /// The share of packets lost, 0 to 1.
    pub fn rate(&self) -> f64 {
        f64::from(self.lost) / f64::from(self.packets.max(1))
    }

    /// What was lost, in bytes of a frame of `size` bytes in packets of `packet_bytes`.
    pub fn holes(&self, size: u64, packet_bytes: u16) -> Vec<Range<u64>> {
        let packet = u64::from(packet_bytes);
        let bytes =
            |range: &Range<u32>| (u64::from(range.start) * packet).min(size)..(u64::from(range.end) * packet).min(size);
        self.ranges.iter().map(bytes).collect()
    }
}

/// A frame at a receiver: never the same for two frames of one endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(pub u64);

/// A frame that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Which.
    pub id: FrameId,
    /// Who sent it.
    pub source: Address,
    /// Its number at the sender.
    pub number: u16,
    /// The storage, `size` bytes. The bytes of holes are not defined: whoever hands it out makes them zero (V-R18).
    pub buffer: BufferId,
    /// Bytes of the frame.
    pub size: u32,
    /// `P`, bytes of every packet but the last.
    pub packet_bytes: u16,
    /// What was lost, in packets.
    pub loss: LossSummary,
    /// What was lost, in bytes: half-open, in rising order, not touching.
    pub holes: Vec<Range<u64>>,
    /// What could have been.
    pub contract: LossContract,
    /// The window over which its rate holds, in packets: `W'` (V-R5).
    pub window: u32,
    /// From the frame's header to its delivery.
    pub took: Duration,
}

/// Why a frame was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The receiver does not want it: no room, or it is of another turn (V-S4).
    Refused,
    /// Nothing valid was heard for the life time-out (V-S11).
    PeerGone,
    /// The receiver answers, but nothing was heard of this frame for the life time-out: packets of its size do not reach it.
    /// Or they were known not to, and of packets that do, more would be critical than a header can name.
    Swallowed,
    /// The receiver contradicts itself or us: acknowledgements of what was never sent, or a frame that it has lost (V-S6
    /// to V-S8).
    Protocol,
    /// The receiver has acknowledged the frame, and says that it lost what the contract does not allow it to lose.
    Breach,
    /// The frame's time was over ([`FrameSpec::give_up_at`](crate::FrameSpec::give_up_at)).
    Late,
    /// This end was closed.
    Closed,
}

impl core::fmt::Display for Failure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Refused => "the receiver refused the frame: it has no room for it, or takes it for an old one",
            Self::PeerGone => "the peer has not answered for too long; it may be gone",
            Self::Swallowed => {
                "the peer answers, but no data reach it: the path may lose all packets of their size, and carry smaller ones"
            }
            Self::Protocol => "the receiver answered what cannot be: it has lost the frame, or is not our receiver",
            Self::Breach => "the receiver reports losses that the frame's contract does not allow",
            Self::Late => "the frame could not be delivered within its contract before its time was over",
            Self::Closed => "the endpoint was closed before the frame was acknowledged",
        })
    }
}

impl core::error::Error for Failure {}

/// Why a call was refused. Nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The endpoint is closed.
    Closed,
    /// As many frames as [`Config::max_frames`](crate::Config::max_frames) are under way.
    TooMany,
    /// The frame is larger than 4,294,967,295 bytes, or has more than 2^24 packets.
    TooLarge,
    /// The critical ranges do not fit one datagram.
    HeaderTooLarge,
    /// A critical range lies outside the frame, the floor is above the rate, or a packet size or window is out of range.
    InvalidTerms,
}

impl core::fmt::Display for Refused {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Closed => "the endpoint is closed",
            Self::TooMany => "too many frames are under way; wait for some to complete",
            Self::TooLarge => "the frame is too large: 4,294,967,295 bytes or 16,777,216 packets are the most",
            Self::HeaderTooLarge => "the critical ranges do not fit into one datagram; join some of them",
            Self::InvalidTerms => {
                "the terms cannot be kept: a critical range outside the frame, a floor above the rate, or a packet \
                 size or window out of range"
            }
        })
    }
}

impl core::error::Error for Refused {}

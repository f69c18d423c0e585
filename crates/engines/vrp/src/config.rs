//! What can be set, with the specification's defaults.

use crate::Terms;
use core::time::Duration;
use pinnace_core::ControllerKind;

/// The configuration of an endpoint. The defaults are the specification's, and safe on the open Internet.
#[derive(Clone, Debug)]
pub struct Config {
    /// `P`, data bytes of a packet: 1 to 65,501. The default fits a path of 1,500 bytes.
    pub packet_bytes: u16,
    /// `W`: the history window of a frame and the most packets of it that are unacknowledged, 1 to 16,384. Travels with
    /// every frame if it is not 64.
    pub window: u16,
    /// What may be lost of frames that do not say it themselves.
    pub terms: Terms,
    /// What bounds the bytes in transit.
    pub congestion: ControllerKind,
    /// Never send faster than this, in bytes of datagrams a second.
    pub rate: Option<u64>,
    /// The most bytes of datagrams that leave at once, where sending is paced; who gets a processor late makes up for ten of
    /// these.
    pub burst: u64,
    /// A frame of which nothing valid was heard for so long ends (V-S11).
    pub life_timeout: Duration,
    /// Shortest retransmission time-out (V-S10).
    pub timeout_floor: Duration,
    /// How long FRAME_CLOSE waits for a frame header to ride in (V-S9).
    pub close_delay: Duration,
    /// Where nothing has left a measured path for so long a PING does, and is repeated until it is answered: so a receiver
    /// to which nothing is sent knows that its sender is there. `None`: never.
    pub keep_alive: Option<Duration>,
    /// Frames begin in the order in which they were sent, so that their numbers tell it: for a receiver that restores it.
    /// Otherwise a small frame overtakes large ones that have not begun (V-S12), and its number those of theirs.
    pub in_order: bool,
    /// Frames under way at most at a sender.
    pub max_frames: usize,
    /// The largest control packet sent, in bytes.
    pub control_bytes: usize,
    /// Whether data packets say that they understand ECN.
    pub ecn: bool,
    /// What a receiver allows others.
    pub limits: Limits,
    /// Where frame numbers and the epoch come from: fresh randomness for every endpoint (V-S2).
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            packet_bytes: 1466,
            window: 64,
            terms: Terms::default(),
            congestion: ControllerKind::Bbr,
            rate: None,
            burst: 65_535,
            life_timeout: Duration::from_secs(5),
            timeout_floor: Duration::from_millis(10),
            close_delay: Duration::from_millis(100),
            keep_alive: None,
            in_order: false,
            max_frames: 4096,
            control_bytes: 1472,
            ecn: true,
            limits: Limits::default(),
            seed: 0,
        }
    }
}

/// What a receiver lets others make it keep (V-R1, V-R17, specs/vrp.md section 1).
#[derive(Clone, Debug)]
pub struct Limits {
    /// Frames at a time.
    pub frames: usize,
    /// Bytes of storage and cells.
    pub bytes: u64,
    /// Packets of one frame.
    pub packets: u32,
    /// Senders of which anything is remembered.
    pub sources: usize,
    /// Early packets of one frame.
    pub early_packets: usize,
    /// Bytes of early packets in all.
    pub early_bytes: usize,
    /// Frames of which early packets are kept.
    pub early_frames: usize,
    /// How long early packets are kept.
    pub early_time: Duration,
    /// Frames delivered whose storage was not released: beyond, frames are refused.
    pub unreleased: usize,
    /// Answers to what belongs to no frame, waiting to leave: further ones are dropped.
    pub replies: usize,
    /// Where there is no room, a frame of which no data has come for so long gives way to a new one. `None`: never; what was
    /// accepted keeps its place for its life time-out, and what comes meanwhile is refused, as the specification has it
    /// (V-R1). For an endpoint that strangers can flood with headers, several of the longest round trips are of use.
    pub grace: Option<Duration>,
}

impl Limits {
    /// Frames, and their bytes, that a host may have taken without [telling](crate::Incoming::set_waiting) the engine: far less
    /// than makes it hold senders back.
    pub fn untold(&self) -> (usize, u64) {
        (self.unreleased / 16, self.bytes / 16)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frames: 1024,
            bytes: 256 << 20,
            packets: 1 << 24,
            sources: 4096,
            early_packets: 16,
            early_bytes: 256_000,
            early_frames: 1024,
            early_time: Duration::from_millis(200),
            unreleased: 65_536,
            replies: 1024,
            grace: None,
        }
    }
}

//! What an application says about a frame: the contract in bytes, deadlines, and packet sizes of its own.

use crate::Refused;
use core::ops::Range;
use pinnace_core::{BufferId, LossContract, Time};

/// A loss contract as applications speak it: in bytes, whatever the packets are (V-S13).
///
/// ```
/// use pinnace_vrp::Terms;
/// // The paper's: a quarter may be lost, 4 kB in a row at most, and nothing of the first kilobyte.
/// let terms = Terms { rate: Some(64), run_bytes: Some(4000), critical: vec![0..1000], ..Terms::default() };
/// let contract = terms.contract(100_000, 1000).unwrap();
/// assert_eq!((contract.rate, contract.run, contract.critical.to_string()), (64, 4, "[0,1)".into()));
/// assert!(terms.contract(500, 1000).is_err(), "the critical range is longer than the frame");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// The share that may be lost, 255 for everything. `None`: not said, so nothing may be lost (V-R5).
    pub rate: Option<u8>,
    /// The longest run of bytes that may be lost; `u64::MAX`: any. `None`: not said, so nothing may be lost (V-R5).
    pub run_bytes: Option<u64>,
    /// Bytes that may not be lost. Empty ranges are none.
    pub critical: Vec<Range<u64>>,
    /// The lower end of an interval of allowed loss: the rate in force is this while the path is not congested, and moves
    /// towards [`Terms::rate`] while it is.
    pub floor: Option<u8>,
}

impl Terms {
    /// Nothing may be lost.
    pub fn reliable() -> Self {
        Self::default()
    }

    /// The contract in packets of `packet_bytes`, for a frame of `size` bytes.
    ///
    /// # Errors
    /// [`Refused::InvalidTerms`] if a critical range lies outside the frame, or ends before it begins, or the floor is
    /// above the rate.
    //= V-S13
    pub fn contract(&self, size: u64, packet_bytes: u16) -> Result<LossContract, Refused> {
        let outside = |range: &Range<u64>| range.start > range.end || range.end > size;
        if self.critical.iter().any(outside) || self.floor.is_some_and(|floor| floor > self.rate.unwrap_or(0)) {
            return Err(Refused::InvalidTerms);
        }
        let (rate, run) = (self.rate.unwrap_or(0), self.run_bytes.unwrap_or(0));
        Ok(LossContract::of_bytes(rate, run, self.critical.iter().cloned(), u32::from(packet_bytes)))
    }
}

/// A frame to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameSpec {
    /// The memory.
    pub buffer: BufferId,
    /// Its bytes: at most 4,294,967,295.
    pub size: u64,
    /// What may be lost; `None`: what [`Config::terms`](crate::Config::terms) says.
    pub terms: Option<Terms>,
    /// `P`, if not the endpoint's: 1 to 65,501.
    pub packet_bytes: Option<u16>,
    /// Nobody asked for this `P`: it may be less where the path turns out to lose larger packets.
    pub takes_smaller_packets: bool,
    /// `W`, if not the endpoint's: 1 to 16,384 packets.
    pub window: Option<u16>,
    /// Nobody asked for this `W`: the frame may as well be one that was announced with another.
    pub takes_any_window: bool,
    /// From then on the sender no longer repeats what the contract lets it drop.
    pub repeat_until: Option<Time>,
    /// Then the frame ends with [`Failure::Late`](crate::Failure::Late), if it has not ended before.
    pub give_up_at: Option<Time>,
}

impl FrameSpec {
    /// `size` bytes of `buffer`, as the endpoint is configured.
    pub const fn new(buffer: BufferId, size: u64) -> Self {
        Self {
            buffer,
            size,
            terms: None,
            packet_bytes: None,
            takes_smaller_packets: false,
            window: None,
            takes_any_window: false,
            repeat_until: None,
            give_up_at: None,
        }
    }
}

//! The loss contract: how much of a frame may be lost, how much in a row, and what not at all; and the receiver's
//! decision, packet by packet, which losses it allows.
//!
//! A [`LossDecider`] keeps two bits per packet, *received* and *valid* (received, or lost with permission). A packet that is
//! decided and not valid *waits*: it was refused and must arrive. Decisions are taken once, at `next_expected`, while
//! packets come in; nothing is ever scanned again, so a packet costs the same whatever the window is.
//!
//! Always true: in any `window` packets below `next_expected` at most `max_lost` are lost with permission, no more than
//! `run` of them in a row, and none that is critical. So once the frame is complete the contract holds.
//= V-R2
//= V-R14

use core::ops::Range;

use crate::IntervalSet;

/// No sender is further ahead of what it has acknowledged: packets beyond are not stored.
pub const MAX_PACKETS_AHEAD: u32 = 16_384;

/// What may be lost of a frame.
///
/// ```
/// use pinnace_core::LossContract;
/// // A tenth may be lost, 5 kB in a row at most, and nothing of the first 100 bytes.
/// let contract = LossContract::of_bytes(26, 5_000, [0..100], 1_400);
/// assert_eq!((contract.rate, contract.run), (26, 3));
/// assert_eq!(contract.critical.to_string(), "[0,1)");
/// assert_eq!(contract.max_lost(64), 7);
/// ```
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct LossContract {
    /// The share that may be lost: 0 to 255 stands for nothing to everything.
    pub rate: u8,
    /// The longest run of packets that may be lost; 255 does not limit it.
    pub run: u8,
    /// Packets that may not be lost.
    pub critical: IntervalSet,
}

impl LossContract {
    /// Nothing may be lost.
    pub fn reliable() -> Self {
        Self::default()
    }

    /// A contract spoken in bytes, for packets of `packet_size` bytes.
    ///
    /// A run of bytes is that many whole packets, at most 255; every packet with a critical byte is critical. Empty
    /// ranges are none.
    //= V-S13
    pub fn of_bytes(rate: u8, run: u64, critical: impl IntoIterator<Item = Range<u64>>, packet_size: u32) -> Self {
        let size = u64::from(packet_size.max(1));
        let packets = |bytes: Range<u64>| bytes.start / size..bytes.end.div_ceil(size);
        Self {
            rate,
            run: u8::try_from(run / size).unwrap_or(u8::MAX),
            critical: critical.into_iter().filter(|bytes| bytes.start < bytes.end).map(packets).collect(),
        }
    }

    //= V-R5
    fn longest_run(&self) -> u32 {
        if self.run == u8::MAX { u32::MAX } else { u32::from(self.run) }
    }

    /// How many of `window` packets in a row may be lost, rounded to nearest.
    //= V-R5
    pub fn max_lost(&self, window: u32) -> u32 {
        max_lost(self.rate, window)
    }

    /// Whether a frame of `packets` packets may have lost `lost`, runs in rising order that do not touch: what a
    /// [`LossDecider`] lets go always may.
    ///
    /// ```
    /// use pinnace_core::LossContract;
    /// let contract = LossContract { rate: 26, run: 2, ..Default::default() };
    /// assert!(contract.permits(&[3..5, 70..72], 100, 20));
    /// assert!(!contract.permits(&[3..5, 20..21], 100, 20), "three of the packets 3 to 22");
    /// assert!(!contract.permits(&[3..6], 100, 64), "three in a row");
    /// ```
    pub fn permits(&self, lost: &[Range<u32>], packets: u32, window: u32) -> bool {
        let window = window.clamp(1, packets.max(1));
        let most = u64::from(self.max_lost(window));
        let run = self.longest_run();
        let (mut first, mut count) = (0, 0);
        // As many as in any other window are in one that ends with a run.
        lost.iter().all(|last| {
            let begin = last.end.saturating_sub(window);
            count += u64::from(last.end - last.start);
            while lost[first].end <= begin {
                count -= u64::from(lost[first].end - lost[first].start);
                first += 1;
            }
            let before = u64::from(begin.saturating_sub(lost[first].start));
            last.end - last.start <= run
                && count - before <= most
                && !self.critical.overlaps(u64::from(last.start)..u64::from(last.end))
        })
    }

    /// How many packets a frame may have lost in all.
    pub fn max_lost_of(&self, packets: u32, window: u32) -> u64 {
        let window = window.clamp(1, packets.max(1));
        u64::from(self.max_lost(window)) * u64::from(packets.div_ceil(window))
    }
}

fn max_lost(rate: u8, window: u32) -> u32 {
    ((u64::from(rate) * u64::from(window) + 127) / 255) as u32
}

/// What was decided about a packet that has not come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// It may be lost: it counts as valid.
    Lost(u32),
    /// It must arrive: it is to be asked for.
    Nack(u32),
}

/// What became of a packet that has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// It is new: its bytes belong in the frame. Otherwise they are to be dropped.
    pub stored: bool,
    /// Its answer names it (SINGLE_ACK): it was in the window on arrival, and is valid now.
    pub single_ack: bool,
}

/// The receiver's side of a [`LossContract`], for one frame.
///
/// ```
/// use pinnace_core::{Decision, LossContract, LossDecider};
/// let contract = LossContract { rate: 26, run: 1, ..Default::default() };
/// let mut frame = LossDecider::new(10, 64, contract);
/// let mut decisions = Vec::new();
/// frame.on_packet(0, |decision| decisions.push(decision));
/// frame.on_packet(3, |decision| decisions.push(decision)); // 1 and 2 are missing
/// assert_eq!(decisions, [Decision::Lost(1), Decision::Nack(2)]);
/// assert_eq!(frame.wait_point(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct LossDecider {
    packets: u32,
    /// The history: this many packets before `next_expected`.
    window: u32,
    max_lost: u32,
    max_run: u32,
    received: Bits,
    valid: Bits,
    next_expected: u32,
    wait_point: u32,
    /// Allowed losses in the history.
    history_lost: u32,
    /// Allowed losses in a row, up to `next_expected`.
    run: u32,
    /// Allowed losses in all.
    lost: u32,
    /// The critical packets not yet decided: the next range of them, and those behind it.
    critical: Range<u32>,
    critical_ahead: IntervalSet,
}

impl LossDecider {
    /// A frame of `packets` packets of which none has come; the contract's rate holds over `window` packets.
    ///
    /// Takes two bits a packet: the caller bounds `packets`.
    //= V-R1
    //= V-R5
    pub fn new(packets: u32, window: u32, contract: LossContract) -> Self {
        // A frame shorter than the window keeps its rate.
        let window = window.clamp(1, packets.max(1));
        let mut decider = Self {
            packets,
            window,
            max_lost: contract.max_lost(window),
            max_run: contract.longest_run(),
            received: Bits::new(packets),
            valid: Bits::new(packets),
            next_expected: 0,
            wait_point: 0,
            history_lost: 0,
            run: 0,
            lost: 0,
            critical: 0..0,
            critical_ahead: contract.critical,
        };
        decider.next_critical(0);
        decider
    }

    /// Packet `number` has come: decides about every packet before it that has not, in rising order, and about it.
    ///
    /// The losses told as allowed at or above [`wait_point`](Self::wait_point) afterwards are to be acknowledged one
    /// by one, so that the sender does not repeat them.
    //= V-R7
    //= V-R8
    //= V-R9
    //= V-R10
    //= V-R12
    //= V-R16
    //= V-R19
    pub fn on_packet(&mut self, number: u32, mut decide: impl FnMut(Decision)) -> Arrival {
        if number >= self.packets || number >= self.wait_point.saturating_add(MAX_PACKETS_AHEAD) {
            return Arrival { stored: false, single_ack: false };
        }
        let single_ack = number >= self.wait_point;
        if self.received.get(number) {
            return Arrival { stored: false, single_ack };
        }
        if number < self.next_expected {
            if self.valid.get(number) {
                // An allowed loss that arrives after all.
                self.lost -= 1;
                if number >= self.next_expected.saturating_sub(self.window) {
                    self.history_lost -= 1;
                }
            }
        } else {
            for missing in self.next_expected..number {
                decide(self.decide(missing));
            }
            self.leave_history(number);
            self.run = 0;
            self.next_expected = number + 1;
        }
        self.received.set(number);
        self.valid.set(number);
        if self.wait_point <= number {
            self.wait_point = self.valid.first_clear_from(self.wait_point).min(self.packets);
        }
        Arrival { stored: true, single_ack }
    }

    /// Whether packet `missing`, the next one expected, may be lost.
    //= V-R11
    fn decide(&mut self, missing: u32) -> Decision {
        self.leave_history(missing);
        self.next_expected = missing + 1;
        if self.run < self.max_run && self.history_lost < self.max_lost && !self.is_critical(missing) {
            self.run += 1;
            self.history_lost += 1;
            self.lost += 1;
            self.valid.set(missing);
            return Decision::Lost(missing);
        }
        self.run = 0;
        Decision::Nack(missing)
    }

    /// The history moves on to end at `newest`: what leaves it no longer counts.
    //= V-R3
    //= V-R4
    fn leave_history(&mut self, newest: u32) {
        if let Some(oldest) = newest.checked_sub(self.window)
            && self.valid.get(oldest)
            && !self.received.get(oldest)
        {
            self.history_lost -= 1;
        }
    }

    fn is_critical(&mut self, number: u32) -> bool {
        if number >= self.critical.end {
            self.next_critical(number);
        }
        self.critical.contains(&number)
    }

    /// Decisions only go forward, so every critical range is looked at once.
    fn next_critical(&mut self, from: u32) {
        self.critical_ahead.pop_front_below(u64::from(from));
        let clip = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        self.critical =
            self.critical_ahead.iter().next().map_or(u32::MAX..u32::MAX, |range| clip(range.start)..clip(range.end));
    }

    /// Changes the allowed share of loss for the decisions to come. What was allowed stays allowed.
    pub fn set_rate(&mut self, rate: u8) {
        self.max_lost = max_lost(rate, self.window);
    }

    /// The first packet that is not valid: everything before it has come or may be lost. Acknowledged up to here.
    pub const fn wait_point(&self) -> u32 {
        self.wait_point
    }

    /// The first packet about which nothing is decided.
    pub const fn next_expected(&self) -> u32 {
        self.next_expected
    }

    /// How many packets the frame has.
    pub const fn packets(&self) -> u32 {
        self.packets
    }

    /// Whether every packet has come or may be lost: the frame can be delivered.
    pub const fn is_complete(&self) -> bool {
        self.wait_point == self.packets
    }

    /// Whether packet `number` has come.
    pub fn is_received(&self, number: u32) -> bool {
        number < self.packets && self.received.get(number)
    }

    /// Whether packet `number` has come, or may be lost.
    pub fn is_valid(&self, number: u32) -> bool {
        number < self.packets && self.valid.get(number)
    }

    /// The runs of packets lost with permission so far, in rising order. Final once the frame is complete.
    //= V-R18
    pub fn lost(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        let mut from = 0;
        core::iter::from_fn(move || {
            let low = self.first_from(from, |valid, received| valid & !received)?;
            let high = self.first_from(low, |valid, received| !valid | received).unwrap_or(self.packets);
            from = high;
            Some(low..high)
        })
    }

    /// How many packets are lost with permission.
    pub const fn lost_count(&self) -> u32 {
        self.lost
    }

    /// The share of the frame that is lost with permission, 0 to 1.
    pub fn loss_rate(&self) -> f64 {
        f64::from(self.lost) / f64::from(self.packets.max(1))
    }

    /// The longest run of packets lost with permission.
    pub fn longest_run(&self) -> u32 {
        self.lost().map(|run| run.end - run.start).max().unwrap_or(0)
    }

    /// The first packet at or after `from` whose bit is set in what `pick` makes of the words.
    fn first_from(&self, from: u32, pick: impl Fn(u64, u64) -> u64) -> Option<u32> {
        let first = (from / 64) as usize;
        let words = self.valid.0.iter().zip(&self.received.0).enumerate().skip(first);
        for (index, (valid, received)) in words {
            let below = if index == first { (1 << (from % 64)) - 1 } else { 0 };
            let picked = pick(*valid, *received) & !below;
            if picked != 0 {
                let number = index as u32 * 64 + picked.trailing_zeros();
                return (number < self.packets).then_some(number);
            }
        }
        None
    }
}

/// One bit per packet.
#[derive(Clone, Debug)]
struct Bits(Vec<u64>);

impl Bits {
    fn new(len: u32) -> Self {
        Self(vec![0; len.div_ceil(64) as usize])
    }

    fn get(&self, index: u32) -> bool {
        self.0[(index / 64) as usize] & 1 << (index % 64) != 0
    }

    fn set(&mut self, index: u32) {
        self.0[(index / 64) as usize] |= 1 << (index % 64);
    }

    /// The first bit at or after `from` that is not set. May be one behind the last.
    fn first_clear_from(&self, from: u32) -> u32 {
        let mut at = from;
        while let Some(word) = self.0.get((at / 64) as usize) {
            let clear = !word >> (at % 64);
            if clear != 0 {
                return at + clear.trailing_zeros();
            }
            at = (at / 64 + 1) * 64;
        }
        at
    }
}

#[cfg(test)]
mod tests;

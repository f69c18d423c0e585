//! What a receiver says: one answer a frame and drain, and replies to what belongs to no frame.
//!
//! An answer of a frame that has brought much ends with the packets that the last answers acknowledged one by one: lost
//! answers do not cost repetitions.
//!
//! Always true: no more bytes leave for a frame than came for it; what does not fit is left out in the order of V-R13, and
//! the sender's deadlines repair it. A packet never has more than 1,472 bytes, and but for two reports of three no
//! more than the path is known to carry. Replies wait in a queue with a limit.

use super::frame::{Frame, State};
use crate::IncomingCounters;
use core::ops::Range;
use pinnace_core::{Address, SMALLEST_DATAGRAM};
use pinnace_wire::vrp::{ControlWriter, HEADER_BYTES, MAX_ANSWER_BYTES, MAX_REPORT_RANGES, REPORT_OVERFLOW, Tag};
use std::collections::VecDeque;

/// Bytes of ACK, SINGLE_ACK and NACK.
const ACK_BYTES: usize = 5;
const FRAME_OK_BYTES: usize = 3;
const ECN_ECHO_BYTES: usize = 6;
/// Bytes of a packet that says nothing but the cumulative ACK.
const PLAIN_BYTES: usize = ControlWriter::EMPTY_BYTES + ACK_BYTES;
/// No packet has room for more ranges.
const MOST_RANGES: usize = MAX_ANSWER_BYTES / 8;
/// So many answers bring as much of a report as one packet can hold; the next one what every path carries, and so on.
const SAID_WHOLE: u32 = 2;
/// Capacity that the lists of a frame may keep between answers.
const KEPT: usize = 256;
/// So many packets are acknowledged again behind what an answer has to say ...
const SAID_AGAIN: usize = 16;
/// ... where the frame could pay for so much more, so that nothing that is new is ever left out for it.
const WELL_PAID: u64 = 4 * MAX_ANSWER_BYTES as u64;

/// What an answer of a frame is to say, beside the cumulative ACK.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub(super) due: bool,
    pub(super) frame_ok: bool,
    /// Packets that came, and were in the window.
    arrivals: Vec<u32>,
    /// Packets that may be lost.
    losses: Vec<u32>,
    /// Packets to ask for.
    missing: Vec<u32>,
    /// How many of each have been said, once the first packet of the answer was written.
    written: Option<Written>,
    /// The newest packets that were acknowledged one by one. An answer that is lost would cost each a repetition, which looks
    /// to the sender as if the packet had been lost as well.
    said: VecDeque<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Written {
    arrivals: usize,
    missing: usize,
}

impl Notes {
    /// A header was accepted.
    pub(super) fn frame_ok() -> Self {
        Self { due: true, frame_ok: true, ..Self::default() }
    }

    pub(super) fn on_arrival(&mut self, packet: u32) {
        self.arrivals.push(packet);
    }

    /// What could never be said for lack of budget is not noted either: one packet may decide about thousands.
    pub(super) fn on_lost(&mut self, packet: u32, budget: u64) {
        if (ACK_BYTES * self.losses.len()) as u64 <= budget {
            self.losses.push(packet);
        }
    }

    pub(super) fn on_missing(&mut self, packet: u32, budget: u64) {
        if (ACK_BYTES * self.missing.len()) as u64 <= budget {
            self.missing.push(packet);
        }
    }

    /// Keeps the newest of what was acknowledged one by one.
    fn remember(&mut self) {
        let newest = self.arrivals.len().saturating_sub(SAID_AGAIN);
        self.said.extend(&self.arrivals[newest..]);
        self.said.drain(..self.said.len().saturating_sub(SAID_AGAIN));
    }

    fn clear(&mut self) {
        for list in [&mut self.arrivals, &mut self.losses, &mut self.missing] {
            list.clear();
            list.shrink_to(KEPT);
        }
        (self.due, self.frame_ok, self.written) = (false, false, None);
    }
}

/// The packets lost for good, as far as one packet can tell.
#[derive(Debug)]
pub(super) struct LossReport {
    ranges: Vec<(u32, u32)>,
    /// Ranges in all.
    count: usize,
    /// Packets lost in all.
    lost: u32,
    /// Answers that brought it.
    said: u32,
}

impl LossReport {
    pub(super) fn new(ranges: &[Range<u32>], lost: u32) -> Self {
        let kept = ranges.iter().take(MOST_RANGES).map(|range| (range.start, range.end - range.start)).collect();
        Self { ranges: kept, count: ranges.len(), lost, said: 0 }
    }

    /// Bytes of a report of so many ranges.
    fn bytes(ranges: usize) -> usize {
        8 * ranges + 2 * ranges.div_ceil(MAX_REPORT_RANGES).max(1)
    }

    /// Bytes of the least that can be said.
    fn least_bytes(&self) -> usize {
        Self::bytes(self.count.min(1))
    }

    /// Writes what fits `room` bytes; says whether that was anything.
    fn write(&self, writer: &mut ControlWriter<'_>, room: usize) -> bool {
        let room = room.min(writer.room());
        if room < self.least_bytes() {
            return false;
        }
        if self.count == 0 {
            return writer.push_report(&[]);
        }
        let is_whole = self.count == self.ranges.len() && Self::bytes(self.count) <= room;
        let mut said: Vec<(u32, u32)> = Vec::new();
        if is_whole {
            said.extend(&self.ranges);
        } else {
            let fit = (1..=self.ranges.len()).rev().find(|ranges| Self::bytes(ranges + 1) <= room);
            said.extend(&self.ranges[..fit.unwrap_or(0)]);
            said.push((REPORT_OVERFLOW, self.lost));
        }
        said.chunks(MAX_REPORT_RANGES).all(|chunk| writer.push_report(chunk))
    }
}

impl Frame {
    /// Writes the next packet of the frame's answer into `space` and returns its bytes; `None` when nothing is left to
    /// say, or nothing more may be said.
    //= V-R13
    pub(super) fn write_answer(&mut self, space: &mut [u8], counters: &mut IncomingCounters) -> Option<usize> {
        if !self.notes.due {
            return None;
        }
        let is_first = self.notes.written.is_none();
        self.prepare(is_first);
        let wait_point = self.wait_point();
        let most = space.len().min(self.most_bytes());
        let notes = &mut self.notes;
        let mut written = notes.written.unwrap_or_default();
        let singles = notes.arrivals.len() - written.arrivals;
        let nacks = notes.missing.len() - written.missing;
        let base = ControlWriter::EMPTY_BYTES
            + if notes.frame_ok { FRAME_OK_BYTES } else { 0 }
            + if wait_point > 0 { ACK_BYTES } else { 0 };
        let budget = usize::try_from(self.budget).unwrap_or(usize::MAX);
        let limit = budget.min(most);
        let is_worth_it = is_first || notes.frame_ok || (singles + nacks > 0 && limit >= base + ACK_BYTES);
        if limit < base || !is_worth_it {
            let left = u64::from(is_first) + (singles + nacks) as u64;
            counters.answers_withheld += left;
            notes.clear();
            return None;
        }
        let half = most / 2;
        let mut writer = ControlWriter::new(&mut space[..limit], self.number);
        if notes.frame_ok {
            writer.push(&Tag::FrameOk(self.number));
        }
        if wait_point > 0 {
            writer.push(&Tag::Ack(wait_point - 1));
        }
        // What is left once all acknowledgements are paid for, with the packets that they go on in.
        let listed = ACK_BYTES * (singles + nacks);
        let mut spare = budget.saturating_sub(base + listed + PLAIN_BYTES * (listed / half));
        let mut is_reported = false;
        if let State::Complete(report) = &self.state
            && wait_point > 0
        {
            // It goes with every ACK of a complete frame, but half of a packet is for what else is to be said.
            let room = writer.room().saturating_sub(listed).max(writer.room() / 2).min(spare);
            let before = writer.len();
            is_reported = report.write(&mut writer, room);
            counters.answers_withheld += u64::from(!is_reported);
            spare -= writer.len() - before;
        }
        if self.marks > 0 {
            let said = spare >= ECN_ECHO_BYTES && writer.push(&Tag::EcnEcho(self.marks));
            counters.answers_withheld += u64::from(!said);
        }
        while let Some(&packet) = notes.arrivals.get(written.arrivals)
            && writer.push(&Tag::SingleAck(packet))
        {
            written.arrivals += 1;
        }
        while let Some(&packet) = notes.missing.get(written.missing)
            && written.arrivals == notes.arrivals.len()
            && writer.push(&Tag::Nack(packet))
        {
            written.missing += 1;
            counters.packets_nacked += 1;
        }
        let is_last = (written.arrivals, written.missing) == (notes.arrivals.len(), notes.missing.len());
        if is_last && self.budget >= WELL_PAID {
            let again = notes.said.iter().rev().filter(|packet| **packet >= wait_point);
            // What does not fit was said before.
            let _ = again.copied().all(|packet| writer.push(&Tag::SingleAck(packet)));
        }
        let len = writer.finish();
        counters.controls_sent += 1;
        self.budget -= len as u64;
        if is_last {
            if let State::Complete(report) = &mut self.state {
                report.said += u32::from(is_reported);
            }
            notes.remember();
            notes.clear();
        } else {
            notes.written = Some(written);
            notes.frame_ok = false;
        }
        Some(len)
    }

    /// Bytes that an answer may have. The path brings the frame's packets; larger ones may all get lost in silence. A report is
    /// cut for that only where it was said whole in vain, since the sender asks again; and now and then whole again, should chance have
    /// lost it.
    //= V-R13
    fn most_bytes(&self) -> usize {
        if let State::Complete(report) = &self.state
            && report.said % (SAID_WHOLE + 1) < SAID_WHOLE
        {
            return MAX_ANSWER_BYTES;
        }
        let packet = self.size.min(u32::from(self.packet_bytes));
        (HEADER_BYTES + packet as usize).max(SMALLEST_DATAGRAM as usize)
    }

    /// Leaves out what a later packet of the batch has settled: losses that the cumulative ACK covers, and requests for
    /// packets that have come.
    //= V-R16
    fn prepare(&mut self, is_first: bool) {
        let wait_point = self.wait_point();
        let notes = &mut self.notes;
        if let State::Incomplete(incomplete) = &self.state {
            let decider = &incomplete.decider;
            notes.losses.retain(|packet| *packet >= wait_point && !decider.is_received(*packet));
            notes.arrivals.append(&mut notes.losses);
            if is_first {
                notes.missing.retain(|packet| !decider.is_valid(*packet));
            }
        } else {
            notes.losses.clear();
            notes.missing.clear();
            if let Some(written) = &mut notes.written {
                written.missing = 0;
            }
        }
        if is_first {
            notes.said.retain(|packet| !notes.arrivals.contains(packet));
            notes.written = Some(Written::default());
        }
    }
}

/// A control packet that belongs to no frame's block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) to: Address,
    /// The local address to send it from.
    pub(super) from: Option<Address>,
    pub(super) bytes: Vec<u8>,
}

impl Reply {
    /// A packet of frame `frame` with these tags; those that do not fit are left out.
    pub(super) fn new<'t>(
        to: Address,
        from: Option<Address>,
        frame: u16,
        len: usize,
        tags: impl IntoIterator<Item = Tag<'t>>,
    ) -> Self {
        let mut bytes = vec![0; len.clamp(ControlWriter::EMPTY_BYTES, MAX_ANSWER_BYTES)];
        let mut writer = ControlWriter::new(&mut bytes, frame);
        for tag in tags {
            writer.push(&tag);
        }
        let len = writer.finish();
        bytes.truncate(len);
        Self { to, from, bytes }
    }
}

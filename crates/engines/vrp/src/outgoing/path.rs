//! What the path carries. Some paths lose all large datagrams in silence and carry small ones: a tunnel whose word that
//! something does not fit is filtered. PINGs find that out, each of which has a size (RFC 8899): where those of a full packet
//! find no answer, smaller ones go with them, and frames begin with packets of the largest that was answered.
//!
//! Chance may lose the large ones as well. So larger ones are tried again for some minutes, and whatever arrives that is
//! larger counts. Always true: whoever is answered at once sends no PING more than without all this.

use super::frame::{OutFrame, State};
use super::header;
use super::{NOT_BEGUN, Outgoing, Path, full_datagram};
use crate::Failure;
use core::time::Duration;
use pinnace_core::{Address, Time, Train, step_below};
use pinnace_wire::vrp::HEADER_BYTES;

/// So many full PINGs go alone.
const ALONE: u32 = 2;
/// More than so many full ones have to be unanswered, where the path is open, before an answer to a smaller one says anything.
const UNANSWERED: u32 = 4;
/// So many of the smallest have to be answered meanwhile: chance loses small ones as well.
const ANSWERED: u32 = 4;
/// After so long larger ones are tried again, and then each time after twice as long.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// So often.
const RETRIES: u32 = 8;

/// Bytes of data in a packet that asks only what there is of a frame: enough for any short answer (V-R13).
const QUESTION_BYTES: usize = 32;

/// What is known of it.
#[derive(Debug, Default)]
pub(super) struct Carried {
    /// Larger datagrams are taken to get lost.
    limit: Option<u32>,
    /// Bytes of the PINGs that are full.
    top: u32,
    /// Of those, how many have left since anything of their size has arrived.
    unanswered: u32,
    /// Of the smallest, how many were answered meanwhile; and bytes of the largest one that was.
    answered: u32,
    best: u32,
    /// Bytes of the PINGs to send, the next one last.
    due: Vec<u32>,
    /// Larger ones are tried again then: of so many bytes, and how often they were.
    retry_at: Option<Time>,
    retry_bytes: u32,
    retries: u32,
}

impl Carried {
    /// Bytes of the largest datagram that gets through, if larger ones are taken to get lost.
    pub(super) fn limit(&self) -> Option<u32> {
        self.limit
    }

    /// Bytes that a datagram may have, of so many.
    pub(super) fn most(&self, bytes: usize) -> usize {
        self.limit.map_or(bytes, |limit| bytes.min(limit as usize))
    }

    /// Nobody waits for an answer any more.
    pub(super) fn stop(&mut self) {
        self.due.clear();
        self.forget();
    }

    /// What was asked so far says nothing.
    fn forget(&mut self) {
        (self.unanswered, self.answered, self.best) = (0, 0, 0);
    }

    pub(super) fn retry_at(&self) -> Option<Time> {
        self.retry_at
    }

    /// PINGs are due: one of `top` bytes, and where such have found no answer, one each of fewer.
    fn ask(&mut self, top: u32, usual: u32) {
        if self.top != top {
            self.top = top;
            self.forget();
        }
        self.due.clear();
        if self.unanswered >= ALONE {
            let below = |bytes: u32| if usual < bytes { Some(usual) } else { step_below(bytes) };
            self.due.extend(core::iter::successors(below(top), |bytes| below(*bytes)));
            self.due.reverse();
        }
        self.due.push(top);
    }

    /// Bytes of the PING that leaves now.
    pub(super) fn take_ping(&mut self) -> Option<u32> {
        let bytes = self.due.pop()?;
        self.unanswered += u32::from(bytes == self.top);
        Some(bytes)
    }

    /// A datagram of so many bytes has arrived.
    pub(super) fn on_arrived(&mut self, bytes: u32) {
        if bytes >= self.top {
            self.forget();
        }
    }

    /// A smaller PING than a full one was answered, of so many bytes. Bytes of the largest datagrams that get through, if that
    /// is clear now.
    fn on_small(&mut self, bytes: u32, is_open: bool) -> Option<u32> {
        self.answered += u32::from(step_below(bytes).is_none());
        self.best = self.best.max(bytes);
        // Whoever begins has nothing to lose.
        let is_clear = match is_open {
            true => self.unanswered > UNANSWERED && self.answered >= ANSWERED,
            false => self.unanswered > ALONE,
        };
        is_clear.then_some(self.best)
    }
}

impl Outgoing {
    /// The largest `P` that the path carries, where larger packets were found to get lost in silence.
    pub fn packet_limit(&self) -> Option<u16> {
        self.carried.limit().map(packet_bytes)
    }

    /// Bytes of a full packet's datagram on this path.
    pub(super) fn full(&self) -> usize {
        self.carried.most(full_datagram(&self.config))
    }

    /// Gives a frame packets that the path carries. Whether it can begin with them: of smaller packets so many more may be
    /// critical that no header names them all.
    //= V-S4
    pub(super) fn fit(&self, frame: &mut OutFrame) -> bool {
        let Some(most) = self.packet_limit() else { return true };
        frame.fit(most);
        header::check(&self.config, frame, None).is_ok()
    }

    /// A PING is due: a full one, and smaller ones where those have found no answer.
    //= V-S3
    pub(super) fn ask(&mut self) {
        let full = self.full() as u32;
        self.carried.ask(full, full);
    }

    /// A PING of so many bytes was answered.
    pub(super) fn on_carried(&mut self, now: Time, bytes: u32) {
        let is_more = self.carried.limit.is_some_and(|limit| bytes > limit);
        self.carried.on_arrived(bytes);
        let is_open = self.path == Path::Open;
        if is_more {
            let is_all = bytes >= self.carried.retry_bytes;
            self.carried.limit = Some(bytes).filter(|_| !is_all);
            self.carried.retry_at = self.carried.retry_at.filter(|_| !is_all);
        } else if bytes < self.carried.top
            && let Some(best) = self.carried.on_small(bytes, is_open)
        {
            self.carried.forget();
            let Carried { limit, top, retry_at, retry_bytes, retries, .. } = &mut self.carried;
            *retry_bytes = limit.map_or(*top, |_| (*retry_bytes).max(*top));
            (*limit, *retry_at, *retries) = (Some(best), Some(now + FIRST_RETRY), 0);
            self.counters.black_holes += 1;
            // No queue has lost the others: they say nothing of how much the path carries.
            self.congestion = self.config.congestion.build(self.full() as u64, now);
        } else {
            return;
        }
        let full = self.full();
        self.largest = self.slots.iter().flatten().map(|frame| frame.largest_datagram()).fold(full, usize::max);
        self.set_pace(now);
        for slot in 0..self.slots.len() {
            self.doubt(slot);
        }
    }

    pub(super) fn on_retry_timer(&mut self, now: Time) {
        if self.carried.retry_at.is_none_or(|at| at > now) {
            return;
        }
        let is_open = self.path == Path::Open;
        let Carried { due, retry_at, retries, retry_bytes, .. } = &mut self.carried;
        if is_open && !due.contains(retry_bytes) {
            due.push(*retry_bytes);
        }
        *retries += 1;
        *retry_at = (*retries < RETRIES).then(|| now + FIRST_RETRY * (1 << *retries));
    }

    /// A frame has been silent for a good part of its life. If its packets are large, the path is asked whether they are too
    /// large; and if they are taken to be, its receiver what there is of the frame.
    pub(super) fn sound(&mut self, now: Time, slot: usize) {
        let patience = self.patience_undoubled();
        let full = self.full() as u32;
        let Some(frame) = self.slots[slot].as_deref() else { return };
        let bytes = frame.largest_packet() as u32;
        let is_large = frame.state == State::Accepted && frame.has_pending() && step_below(bytes).is_some();
        if self.path != Path::Open || !is_large {
            return;
        }
        let is_known = self.carried.limit.is_some_and(|limit| bytes > limit);
        if self.carried.due.is_empty() {
            self.carried.ask(if is_known { full } else { bytes.max(full) }, full);
        }
        self.doubt(slot);
        if let Some(frame) = self.slots[slot].as_deref()
            && frame.is_doubted
            && now.since(frame.served_at) >= patience
        {
            self.questions.push_back((slot, frame.ticket));
        }
    }

    /// The frame's packets are taken to get lost. If nobody has asked for packets of this size, it can begin anew with smaller
    /// ones; but not before its receiver has said that it lacks something of it, when all that has left can have arrived: it must
    /// not be delivered twice. So nothing of it leaves meanwhile.
    ///
    /// Where numbers tell the order another number would be another place in it.
    fn doubt(&mut self, slot: usize) {
        let (limit, in_order) = (self.carried.limit, self.config.in_order);
        let Some(frame) = self.slots[slot].as_deref_mut() else { return };
        let is_too_large = limit.is_some_and(|limit| frame.largest_packet() > limit as usize);
        let may_begin_anew = is_too_large && !in_order && frame.takes_smaller_packets && !frame.is_announced;
        let was_doubted = core::mem::replace(&mut frame.is_doubted, may_begin_anew);
        if was_doubted && !may_begin_anew {
            let ticket = frame.ticket;
            self.again.extend(frame.queued().map(|packet| (slot, ticket, packet)));
            self.make_ready(slot);
        }
    }

    /// A data packet of a frame that has no such packet: its receiver answers it, and says up to where the frame has come.
    //= V-S8
    pub(super) fn poll_questions(&mut self, now: Time, train: &mut Train) -> bool {
        while let Some((slot, ticket)) = self.questions.pop_front() {
            let Some(frame) = self.frame_mut(slot, ticket).filter(|frame| frame.is_doubted) else { continue };
            frame.asked_at = Some(now);
            let mut bytes = [0; HEADER_BYTES + QUESTION_BYTES];
            bytes[..HEADER_BYTES].copy_from_slice(&frame.packet_header(frame.packets));
            train.single(Address::Peer, None, &bytes);
            self.counters.bytes_sent += bytes.len() as u64;
            return true;
        }
        false
    }

    /// The receiver has answered, and not acknowledged all of the frame: if that was what it was asked, the frame begins anew.
    pub(super) fn begin_anew_if_doubted(&mut self, now: Time, number: u16) {
        let Some(&slot) = self.by_number.get(&number) else { return };
        let is_asked = |frame: &OutFrame| frame.is_doubted && frame.asked_at.is_some();
        if !self.slots[slot].as_deref().is_some_and(is_asked) {
            return;
        }
        let (Some(limit), Some(old)) = (self.carried.limit, self.end(slot)) else { return };
        let frame = OutFrame::new(old.ticket, old.spec(), &self.config).map(|mut frame| {
            frame.fit(packet_bytes(limit));
            frame
        });
        match frame {
            Ok(mut frame) if header::check(&self.config, &frame, Some(limit)).is_ok() => {
                frame.timer = frame.give_up_at.map(|at| self.timers.insert(at, (NOT_BEGUN, frame.ticket)));
                // Frames wait in the order of their tickets.
                let at = self.waiting.partition_point(|other| other.ticket < frame.ticket);
                self.waiting.insert(at, Box::new(frame));
                self.counters.frames_begun_anew += 1;
                self.begin_waiting(now);
            }
            _ => self.report(&old, Err(Failure::Swallowed)),
        }
    }

    /// Why a frame ends of which nothing was heard for its life: whether its receiver has answered other things meanwhile, and
    /// packets like the frame's were found to get lost.
    pub(super) fn failure_of_silence(&self, frame: &OutFrame) -> Failure {
        let is_peer_there = self.ponged_at.is_some_and(|at| at > frame.heard_at);
        let is_too_large = self.carried.limit.is_some_and(|limit| frame.largest_datagram() > limit as usize);
        if is_peer_there && is_too_large { Failure::Swallowed } else { Failure::PeerGone }
    }
}

/// `P` of packets of so many bytes.
fn packet_bytes(datagram: u32) -> u16 {
    u16::try_from(datagram as usize - HEADER_BYTES).unwrap_or(u16::MAX)
}

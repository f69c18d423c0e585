//! Frames whose headers go ahead, so that they need not wait a round trip for the receiver's answer.
//!
//! Always true: an announcement is only a hint, and no send ends with one. Where order counts there is at most one, behind
//! all that was sent; what is sent next is its frame, or else its number is void.

use super::{OutFrame, Outgoing, Path, SMALL, State, header};
use crate::event::{Failure, Refused};
use crate::terms::FrameSpec;
use core::time::Duration;
use pinnace_core::Time;
use pinnace_wire::vrp::FRAME_NUMBERS;

/// How long a receiver keeps a frame of which nothing comes, if it was not told otherwise (specs/vrp.md, 2): whatever ours is, the
/// receiver may have this one.
const USUAL_LIFE: Duration = Duration::from_secs(5);
/// Numbers of frames that were too late, at most, of which nobody has asked.
const MOST_GIVEN_UP: usize = 1024;
/// So many frames later nobody waits for one any more, and so many numbers more it would be the name of another.
const LONG_AGO: u16 = FRAME_NUMBERS / 4;

/// A number that was announced, and that no frame comes with: who restores the order by the numbers need not wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Void {
    /// The number.
    pub number: u16,
    /// The receiver has refused the frame, and counts it so; or it may have: it has not answered.
    pub was_refused: bool,
}

impl Outgoing {
    /// Says that a frame of this size, these terms, and this `P` and `W` will be sent soon: its header goes ahead, and the frame
    /// that is sent then need not wait a round trip for the receiver's answer. The buffer and the deadlines of `frame` do not
    /// count.
    /// Only a hint: nothing happens if no such frame comes within two fifths of the life time-out, two seconds at most, or if it
    /// is small.
    ///
    /// # Errors
    /// [`Refused`], as the send would.
    pub fn announce(&mut self, now: Time, frame: FrameSpec) -> Result<(), Refused> {
        // Its number would come before those of frames that are sent before it.
        if self.config.in_order { Ok(()) } else { self.announce_any(now, frame) }
    }

    /// The same, of the very next frame, where order counts as well. Nothing happens while another one is announced, or a
    /// number is void and was not [taken](Outgoing::take_void).
    ///
    /// # Errors
    /// [`Refused`], as the send would.
    pub fn announce_next(&mut self, now: Time, frame: FrameSpec) -> Result<(), Refused> {
        let is_next = self.waiting.is_empty() || !self.config.in_order;
        let is_only = self.void.is_none() && self.announced().is_none();
        if is_next && is_only { self.announce_any(now, frame) } else { Ok(()) }
    }

    /// The number that an announcement has used in vain, where order counts; once.
    pub fn take_void(&mut self) -> Option<Void> {
        self.void.take()
    }

    /// The number of a frame that had begun when its time was over, where order counts: who restores the order need not wait for
    /// it any longer. Each once; of very many that nobody asks for, the last, and none of which nobody can tell any more which
    /// frame it was.
    pub fn take_given_up(&mut self) -> Option<u16> {
        let is_known = |number: &u16| self.next_number.wrapping_sub(*number) % FRAME_NUMBERS <= LONG_AGO;
        while let Some(number) = self.given_up.pop_front() {
            if is_known(&number) {
                return Some(number);
            }
        }
        None
    }

    pub(super) fn on_given_up(&mut self, slot: usize) {
        if let Some(frame) = self.slots[slot].as_deref()
            && self.config.in_order
            && !frame.is_announced
        {
            if self.given_up.len() >= MOST_GIVEN_UP {
                self.given_up.pop_front();
            }
            self.given_up.push_back(frame.number);
        }
    }

    /// Nothing is sent of what was announced.
    pub fn void_announced(&mut self) {
        while let Some(slot) = self.announced() {
            self.fail(slot, Failure::Closed);
        }
    }

    pub(super) fn on_announced_in_vain(&mut self, frame: &OutFrame, failure: Option<Failure>) {
        self.announcements -= 1;
        if self.config.in_order {
            let was_refused = failure == Some(Failure::Refused) || frame.state == State::Announced;
            self.void = Some(Void { number: frame.number, was_refused });
        }
    }

    fn announced(&self) -> Option<usize> {
        if self.announcements == 0 {
            return None;
        }
        self.slots.iter().position(|frame| frame.as_deref().is_some_and(|frame| frame.is_announced))
    }

    fn announce_any(&mut self, now: Time, frame: FrameSpec) -> Result<(), Refused> {
        if self.path != Path::Open || frame.size <= SMALL || self.frames_under_way() >= self.config.max_frames {
            return Ok(());
        }
        let ticket = self.next_ticket;
        let mut frame = OutFrame::new(ticket, FrameSpec { repeat_until: None, ..frame }, &self.config)?;
        header::check(&self.config, &frame, self.carried.limit())?;
        if !self.fit(&mut frame) {
            return Ok(());
        }
        let Some(number) = self.take_number() else { return Ok(()) };
        self.next_ticket += 1;
        frame.is_announced = true;
        self.announcements += 1;
        frame.give_up_at = Some(now + self.config.life_timeout.min(USUAL_LIFE) * 2 / 5);
        self.begin(now, Box::new(frame), number);
        Ok(())
    }

    /// Makes the frame of an announcement, if there is one that fits; returns its ticket.
    pub(super) fn fill_announced(&mut self, now: Time, spec: &FrameSpec) -> Option<u64> {
        if self.announcements == 0 {
            return None;
        }
        let terms = spec.terms.as_ref().unwrap_or(&self.config.terms);
        // The contract is spoken in packets and windows of them: with others it would be another.
        let packet_bytes = spec.packet_bytes.unwrap_or(self.config.packet_bytes);
        let window = spec.window.unwrap_or(self.config.window);
        let fits = |frame: &OutFrame| {
            let has_window = spec.takes_any_window || frame.window == window;
            let has_sizes = (u64::from(frame.size), frame.packet_bytes) == (spec.size, packet_bytes) && has_window;
            frame.is_announced && has_sizes && frame.terms == *terms
        };
        let slot = self.slots.iter().position(|frame| frame.as_deref().is_some_and(fits))?;
        let Self { slots, timers, config, announcements, .. } = self;
        let frame = slots[slot].as_deref_mut()?;
        frame.is_announced = false;
        *announcements -= 1;
        frame.buffer = spec.buffer;
        (frame.repeat_until, frame.give_up_at) = (spec.repeat_until, spec.give_up_at);
        (frame.takes_smaller_packets, frame.takes_any_window) = (spec.takes_smaller_packets, spec.takes_any_window);
        frame.heard_at = now;
        let ticket = frame.ticket;
        if let Some(timer) = frame.timer {
            timers.cancel(timer);
        }
        frame.timer = Some(timers.insert(frame.looks_at(now, config), (slot, ticket)));
        self.make_ready(slot);
        Some(ticket)
    }
}

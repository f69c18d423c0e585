//! What holds senders back while the application does not take what has come.
//!
//! VRP has no window that a receiver could close: a frame for which there is no room is refused, and that is the end of it.
//! Long before that, while much waits for the application, the last packet of a frame is treated as lost. It is answered
//! like any other, so that the frame stays alive, and without it the frame does not become complete; so its sender has it
//! under way, and soon as much as it may have. As soon as the application has taken enough, those packets are asked for.
//!
//! Always true: a frame is on the list at most once; a packet that is held back came at least once, so it may be asked for.
//= V-R1
//= V-R13

use super::Incoming;
use super::frame::Frame;
use crate::{Event, FrameId};
use pinnace_core::LossContract;
use std::collections::VecDeque;

/// What waits for the application, and who waits for that.
#[derive(Debug, Default)]
pub(super) struct Crowding {
    frames: usize,
    bytes: u64,
    /// Frames whose last packet was held back.
    held_back: VecDeque<(u32, FrameId)>,
}

impl Crowding {
    pub(super) fn on_delivered(&mut self, bytes: u64) {
        self.frames += 1;
        self.bytes += bytes;
    }

    /// What the application has released it has taken before.
    pub(super) fn on_released(&mut self, bytes: u64) {
        self.frames = self.frames.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// Whether a frame waits until there is room to take it. One of which everything may be lost does not: its sender would
/// rather lose it than wait.
pub(super) fn waits_for_room(contract: &LossContract) -> bool {
    (contract.rate, contract.run) != (u8::MAX, u8::MAX) || !contract.critical.is_empty()
}

impl Incoming {
    /// So many frames and bytes of those that were delivered still wait to be taken, although they may count until they are
    /// [released](Incoming::release). A host that says nothing is taken to release whatever the application takes; it need not
    /// say so of what is less than [`Limits::untold`](crate::Limits::untold).
    pub fn set_waiting(&mut self, frames: usize, bytes: u64) {
        let Crowding { frames: all, bytes: sum, .. } = &mut self.crowding;
        (*all, *sum) = (frames, bytes);
        // The host has not seen these yet.
        for event in &self.events {
            if let Event::Received(delivery) = event {
                self.crowding.on_delivered(u64::from(delivery.size));
            }
        }
        self.let_in();
    }

    /// Whether a frame of `size` bytes, and then as many as its sender may have under way, had better wait. One that waits for
    /// nobody, as far as is known, is always taken: or nobody would ever let it in.
    pub(super) fn is_crowded(&self, size: u32) -> bool {
        self.is_crowded_by(0, 0, u64::from(size))
    }

    /// The same, once `frames` of `bytes` more have become complete.
    fn is_crowded_by(&self, frames: usize, bytes: u64, size: u64) -> bool {
        let limits = &self.config.limits;
        let (frames, bytes) = (self.crowding.frames + frames, self.crowding.bytes.saturating_add(bytes));
        // What is left is for what is under way.
        let is_full = bytes.saturating_add(size) > limits.bytes / 8 * 5;
        frames > limits.unreleased / 2 || bytes > limits.untold().1 && is_full
    }

    /// The last packet of frame `index` has come and was not taken.
    pub(super) fn hold_back(&mut self, index: u32) {
        self.counters.packets_held_back += 1;
        if let Some(frame) = self.frames.get_mut(index)
            && !frame.is_held_back
        {
            frame.is_held_back = true;
            self.crowding.held_back.push_back((index, frame.id));
        }
    }

    /// Asks for what was held back, as far as there is room now.
    pub(super) fn let_in(&mut self) {
        let (mut frames, mut bytes) = (0, 0);
        while let Some(&(index, id)) = self.crowding.held_back.front() {
            let is_waiting = |frame: &&Frame| frame.id == id && frame.incomplete().is_some();
            if let Some(size) = self.frames.get(index).filter(is_waiting).map(|frame| u64::from(frame.size)) {
                if self.is_crowded_by(frames, bytes, size) {
                    return;
                }
                (frames, bytes) = (frames + 1, bytes + size);
                if let Some(frame) = self.frames.get_mut(index) {
                    frame.ask_for_last();
                }
                self.announce(index);
            }
            self.crowding.held_back.pop_front();
        }
    }
}

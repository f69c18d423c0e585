//! Blocks: where they are kept, how room is made for one, and how they end.

use super::frame::{Frame, State};
use super::{Incoming, Timer};
use crate::{Event, FrameId};
use core::time::Duration;
use pinnace_core::{Address, BufferId, Placed, Time};

/// Blocks by index. Indices are used again.
#[derive(Debug, Default)]
pub(super) struct Slab {
    frames: Vec<Option<Frame>>,
    free: Vec<u32>,
}

impl Slab {
    pub(super) fn len(&self) -> usize {
        self.frames.len() - self.free.len()
    }

    pub(super) fn get(&self, index: u32) -> Option<&Frame> {
        self.frames.get(index as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Frame> {
        self.frames.get_mut(index as usize)?.as_mut()
    }

    /// The index that the next block gets.
    pub(super) fn next_index(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.frames.len() as u32)
    }

    pub(super) fn insert(&mut self, frame: Frame) {
        match self.free.pop() {
            Some(index) => self.frames[index as usize] = Some(frame),
            None => self.frames.push(Some(frame)),
        }
    }

    fn remove(&mut self, index: u32) -> Option<Frame> {
        let frame = self.frames.get_mut(index as usize)?.take()?;
        self.free.push(index);
        Some(frame)
    }

    pub(super) fn indices(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.frames.len() as u32
    }
}

/// A sender that misses the answer to a finished frame asks again within its longest time-out (V-S10).
const LONGEST_TIMEOUT: Duration = Duration::from_secs(2);
/// Finished frames looked at for a new one.
const LOOKS: usize = 8;

impl Incoming {
    /// Makes room for a frame of `cost` bytes; says whether there is any.
    ///
    /// An accepted frame keeps its place until it is finished; then it gives way once nobody seems to ask about it any more: its
    /// sender may have gone without a word. Only where the configuration says so ([`Limits::grace`](crate::Limits::grace)), so
    /// that a flood of headers does not stop honest frames, the oldest block of which no data has come gives way, once it
    /// has had its time. Its number counts as not created, so a repetition of its header creates it again.
    //= V-R1
    pub(super) fn make_room(&mut self, now: Time, rx: &mut Placed<'_>, cost: u64) -> bool {
        let limits = &self.config.limits;
        let (frames, bytes, grace) = (limits.frames, limits.bytes, limits.grace);
        if self.delivered.len() >= limits.unreleased || self.delivered_bytes.saturating_add(cost) > bytes {
            return false;
        }
        while self.frames.len() >= frames || self.bytes.saturating_add(cost) > bytes {
            if self.frames.len() >= frames && self.evict_finished(now) {
                continue;
            }
            let Some(grace) = grace else { return false };
            let Some(&(index, id)) = self.empty.front() else { return false };
            let is_empty = |frame: &&Frame| frame.id == id && !frame.has_data && frame.incomplete().is_some();
            if let Some(frame) = self.frames.get(index).filter(is_empty) {
                if now < frame.created + grace {
                    return false;
                }
                self.counters.frames_evicted += 1;
                self.end_frame(index, Some(rx), true);
            }
            self.empty.pop_front();
        }
        true
    }

    /// Ends a finished frame whose sender had nothing to ask for longer than it would wait, if one is found soon.
    //= V-R17
    fn evict_finished(&mut self, now: Time) -> bool {
        for _ in 0..LOOKS {
            let Some((index, id)) = self.finished.pop_front() else { return false };
            let Some(frame) = self.frames.get(index).filter(|frame| frame.id == id) else { continue };
            if frame.heard + LONGEST_TIMEOUT <= now {
                self.counters.frames_evicted += 1;
                self.end_frame(index, None, false);
                return true;
            }
            self.finished.push_back((index, id));
        }
        false
    }

    /// Notes a finished frame.
    pub(super) fn push_finished(&mut self, index: u32, id: FrameId) {
        if self.finished.len() > 2 * self.config.limits.frames {
            let frames = &self.frames;
            self.finished.retain(|(index, id)| frames.get(*index).is_some_and(|frame| frame.id == *id));
        }
        self.finished.push_back((index, id));
    }

    /// Notes a new block of which no data has come.
    pub(super) fn push_empty(&mut self, index: u32, id: FrameId) {
        if self.empty.len() > 2 * self.config.limits.frames {
            let frames = &self.frames;
            self.empty.retain(|(index, id)| frames.get(*index).is_some_and(|frame| frame.id == *id && !frame.has_data));
        }
        self.empty.push_back((index, id));
    }

    /// Makes room for a sender; says whether there is any.
    pub(super) fn make_room_for(&mut self, address: &Address) -> bool {
        if self.sources.find(address).is_some() || self.sources.len() < self.config.limits.sources {
            return true;
        }
        match self.sources.oldest_idle() {
            Some(oldest) => {
                self.forget(&oldest);
                true
            }
            None => false,
        }
    }

    fn forget(&mut self, address: &Address) {
        if let Some(source) = self.sources.forget(address) {
            self.wheel.cancel(source.timer);
        }
    }

    /// Destroys the block `index`. An incomplete frame's storage goes back, at once during a read. With `undo`, it is as
    /// if the frame had never been created.
    //= V-R17
    pub(super) fn end_frame(&mut self, index: u32, rx: Option<&mut Placed<'_>>, undo: bool) {
        let Some(frame) = self.frames.remove(index) else { return };
        self.wheel.cancel(frame.timer);
        if let Some(source) = self.sources.end(&frame.source, frame.number, undo) {
            self.wheel.cancel(source.timer);
        }
        if let State::Incomplete(incomplete) = frame.state {
            self.bytes -= u64::from(frame.size) + incomplete.overhead;
            self.counters.frames_failed += 1;
            self.give_back(incomplete.buffer, rx);
        }
    }

    fn give_back(&mut self, buffer: BufferId, rx: Option<&mut Placed<'_>>) {
        match rx {
            Some(rx) => rx.release(buffer),
            None => self.events.push_back(Event::Released(buffer)),
        }
    }

    /// A new life of a sender: its old frames and numbers are of the past. Returns the life that has ended, if one has.
    //= V-S2
    pub(super) fn begin_life(&mut self, address: &Address, epoch: u32, rx: &mut Placed<'_>) -> Option<u32> {
        let blocks = self.sources.old_life(address, epoch)?;
        for index in blocks {
            self.end_frame(index, Some(rx), false);
        }
        let past = self.sources.find(address)?.epoch;
        self.forget(address);
        past
    }

    /// When a life time-out goes off.
    pub(super) fn life_timer(&mut self, now: Time, index: u32) -> pinnace_core::TimerHandle {
        self.wheel.insert(now + self.config.life_timeout, Timer::Life(index))
    }
}

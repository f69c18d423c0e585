//! What turns the engine's events into results for whoever waits.
//!
//! Always true: a message under way is owned here, and its buffer is in the table exactly as long, so the transport never
//! names memory that is gone; each result is taken once.

use crate::Message;
use crate::carrier::UnderWay;
use pinnace_core::{BufferId, Storage};
use pinnace_link::BufferTable;
use pinnace_runtime::EventSink;
use pinnace_vrp::{Delivery, Event, Failure, Limits, Sent};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// How a frame ended.
pub(super) type Outcome = (Message, Result<Sent, Failure>);

/// A frame that was sent.
#[derive(Debug)]
struct Slot {
    buffer: BufferId,
    message: Message,
    /// Nobody was promised that it arrives.
    is_expendable: bool,
    state: State,
}

#[derive(Debug)]
enum State {
    UnderWay { abandoned: bool },
    Ended(Result<Sent, Failure>),
}

impl Slot {
    /// Why the frame was lost, if it was: one whose time was over is dropped on purpose, and who closes gives up what is under
    /// way.
    fn loss(&self) -> Option<Failure> {
        match self.state {
            State::Ended(Err(failure)) if !self.is_expendable => {
                Some(failure).filter(|failure| !matches!(failure, Failure::Late | Failure::Closed))
            }
            _ => None,
        }
    }
}

/// Frames that have failed, although they were promised to arrive, their time was not over and nobody here has closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Losses {
    /// How many.
    pub(crate) frames: u64,
    /// Why the last of them did.
    pub(crate) failure: Failure,
}

/// The frames of a sender, by ticket.
#[derive(Debug, Default)]
pub(super) struct Sends {
    slots: BTreeMap<u64, Slot>,
    under_way: UnderWay,
    ended: usize,
    /// Those that failed, and for which nobody waits who would learn of it.
    untold: Option<Losses>,
    /// The peer had not answered for too long when the last frame ended.
    is_peer_gone: bool,
    opened: Option<Result<Duration, Failure>>,
    opening: bool,
    closed: bool,
}

impl Sends {
    /// This frame is under way. Of one that is expendable nobody is told that it was lost, unless he asks for it.
    pub(super) fn begin(&mut self, ticket: u64, buffer: BufferId, message: Message, is_expendable: bool) {
        self.under_way.begin(message.len());
        self.slots.insert(ticket, Slot { buffer, message, is_expendable, state: State::UnderWay { abandoned: false } });
    }

    fn end(&mut self, ticket: u64, result: Result<Sent, Failure>) {
        let Some(mut slot) = self.slots.remove(&ticket) else { return };
        let State::UnderWay { abandoned } = slot.state else { return };
        self.under_way.end(slot.message.len());
        self.is_peer_gone = matches!(result, Err(Failure::PeerGone));
        slot.state = State::Ended(result);
        if abandoned {
            self.note(slot.loss());
        } else {
            self.ended += 1;
            self.slots.insert(ticket, slot);
        }
    }

    /// Nobody asks what has become of this frame.
    fn note(&mut self, loss: Option<Failure>) {
        if let Some(failure) = loss {
            let frames = self.untold.map_or(0, |untold| untold.frames) + 1;
            self.untold = Some(Losses { frames, failure });
        }
    }

    /// Whether nothing was heard of the peer for too long, nor since.
    pub(super) fn is_peer_gone(&self) -> bool {
        self.is_peer_gone
    }

    /// Whether frames have failed of which nobody has been told.
    pub(super) fn has_untold(&self) -> bool {
        self.untold.is_some()
    }

    /// The frames that have failed while nobody waited for them, once.
    pub(super) fn take_untold(&mut self) -> Option<Losses> {
        self.untold.take()
    }

    /// All that have failed and were not asked for: those that nobody waits for only once.
    pub(super) fn take_losses(&mut self) -> Option<Losses> {
        let mut losses = self.untold.take();
        if self.ended > 0 {
            for failure in self.slots.values().filter_map(Slot::loss) {
                losses.get_or_insert(Losses { frames: 0, failure }).frames += 1;
            }
        }
        losses
    }

    /// Takes a frame that has ended.
    pub(super) fn take(&mut self, ticket: u64) -> Option<Outcome> {
        let slot = self.take_slot(ticket)?;
        let State::Ended(result) = slot.state else { return None };
        Some((slot.message, result))
    }

    fn take_slot(&mut self, ticket: u64) -> Option<Slot> {
        if !matches!(self.slots.get(&ticket)?.state, State::Ended(_)) {
            return None;
        }
        self.ended -= 1;
        self.slots.remove(&ticket)
    }

    /// How the frame ended, if it has; it stays where it is.
    pub(super) fn outcome(&self, ticket: u64) -> Option<Result<(), Failure>> {
        match &self.slots.get(&ticket)?.state {
            State::Ended(result) => Some(result.as_ref().map(drop).map_err(|failure| *failure)),
            State::UnderWay { .. } => None,
        }
    }

    /// Nobody will ask for this frame any more.
    pub(super) fn abandon(&mut self, ticket: u64) {
        if let Some(slot) = self.take_slot(ticket) {
            self.note(slot.loss());
        } else if let Some(Slot { state: State::UnderWay { abandoned }, .. }) = self.slots.get_mut(&ticket) {
            *abandoned = true;
        }
    }

    /// Gives a message back whose endpoint has failed: nothing reads it any more.
    pub(super) fn rescue(&mut self, ticket: u64, memory: &mut BufferTable) -> Option<Message> {
        let slot = self.slots.remove(&ticket)?;
        match slot.state {
            State::Ended(_) => self.ended -= 1,
            State::UnderWay { .. } => {
                memory.remove(slot.buffer);
                self.under_way.end(slot.message.len());
            }
        }
        Some(slot.message)
    }

    /// The first round trip is being measured, or was. Returns whether it has to be asked for.
    pub(super) fn begin_opening(&mut self) -> bool {
        if matches!(self.opened, Some(Err(_))) {
            self.opened = None;
        }
        let ask = self.opened.is_none() && !self.opening;
        self.opening |= ask;
        ask
    }

    /// How the measurement of the first round trip ended.
    pub(super) fn opened(&self) -> Option<Result<Duration, Failure>> {
        self.opened
    }

    /// Whether no frame is under way.
    pub(super) fn is_quiet(&self) -> bool {
        self.under_way.messages == 0
    }

    /// Whether another frame of so many bytes may begin without too much memory, or none ever will.
    pub(super) fn has_room(&self, len: usize) -> bool {
        self.under_way.has_room(len) || self.closed
    }

    /// Whether nothing leaves any more.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }
}

impl EventSink<Event> for Sends {
    fn handle_event(&mut self, event: Event, memory: &mut BufferTable) {
        match event {
            Event::Opened(result) => {
                self.opening = false;
                self.opened = Some(result);
            }
            Event::Sent { ticket, buffer, result } => {
                memory.remove(buffer);
                self.end(ticket, result);
            }
            Event::OutgoingClosed => self.closed = true,
            Event::Received(_) | Event::Released(_) | Event::IncomingClosed => {}
        }
    }

    fn is_outstanding(&self) -> bool {
        self.under_way.messages > 0 || self.opening
    }

    fn is_ready(&self) -> bool {
        self.ended > 0
    }
}

/// A frame that was received, its holes as they were found.
pub(super) type Arrival = (Delivery, Vec<u8>);

/// The frames of a receiver, until somebody takes them. As many as the engine's limits allow: it counts them until they
/// are released.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    queue: VecDeque<Arrival>,
    /// Bytes in it.
    bytes: u64,
    /// What was taken since the engine was told how much waits.
    untold: (usize, u64),
    /// How much of that the engine should be told of.
    tell_after: (usize, u64),
    closed: bool,
}

impl Arrivals {
    /// Those of a receiver with these limits. Its engine, which holds senders back while much waits to be taken, is told what
    /// was taken when it was so much, if it was not told before because some was dropped.
    pub(super) fn within(limits: &Limits) -> Self {
        Self { tell_after: limits.untold(), ..Self::default() }
    }

    /// Takes the oldest; says whether the engine should be [told](Arrivals::tell) of it.
    pub(super) fn take(&mut self) -> Option<(Arrival, bool)> {
        let arrival = self.queue.pop_front()?;
        let bytes = u64::from(arrival.0.size);
        self.bytes -= bytes;
        self.untold = (self.untold.0 + 1, self.untold.1 + bytes);
        Some((arrival, self.untold.0 > self.tell_after.0 || self.untold.1 > self.tell_after.1))
    }

    /// What waits, to tell the engine.
    pub(super) fn tell(&mut self) -> (usize, u64) {
        self.untold = (0, 0);
        (self.queue.len(), self.bytes)
    }

    /// Takes the oldest; the inner `None` means that none will come any more.
    pub(super) fn take_or_end(&mut self) -> Option<Option<(Arrival, bool)>> {
        self.take().map(Some).or_else(|| self.closed.then_some(None))
    }

    /// Frames that wait to be taken.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether nothing comes any more.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }
}

impl EventSink<Event> for Arrivals {
    fn handle_event(&mut self, event: Event, memory: &mut BufferTable) {
        match event {
            Event::Received(delivery) => {
                let storage = memory.take(delivery.buffer);
                debug_assert_eq!(storage.as_ref().map(|bytes| bytes.len() as u64), Some(u64::from(delivery.size)));
                if let Some(bytes) = storage {
                    self.bytes += u64::from(delivery.size);
                    self.queue.push_back((delivery, bytes));
                }
            }
            Event::Released(buffer) => Storage::release(memory, buffer),
            Event::IncomingClosed => self.closed = true,
            Event::Opened(_) | Event::Sent { .. } | Event::OutgoingClosed => {}
        }
    }

    fn is_outstanding(&self) -> bool {
        // Frames may come at any time, whether somebody waits for them or not.
        !self.closed
    }

    fn is_ready(&self) -> bool {
        !self.queue.is_empty() || self.closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(size: u64) -> Result<Sent, Failure> {
        Ok(Sent { size, packet_bytes: 1000, loss: None })
    }

    /// Tickets from here on are of frames that need not arrive.
    const EXPENDABLE: u64 = 100;

    /// A frame under way, its memory in the table.
    fn begin(sends: &mut Sends, memory: &mut BufferTable, ticket: u64) -> BufferId {
        let mut message = Message::with_capacity(8);
        // SAFETY: the message moves into `sends`, which keeps it until the buffer is out of the table.
        let buffer = unsafe { memory.insert(message.base(), 8) };
        sends.begin(ticket, buffer, message, ticket >= EXPENDABLE);
        buffer
    }

    #[test]
    fn frames_are_taken_once_and_in_any_order() {
        let (mut sends, mut memory) = (Sends::default(), BufferTable::new());
        let buffers = [5, 6, 9].map(|ticket| begin(&mut sends, &mut memory, ticket));
        assert!(sends.is_outstanding() && !sends.is_ready());
        sends.handle_event(Event::Sent { ticket: 6, buffer: buffers[1], result: sent(8) }, &mut memory);
        assert!(sends.take(5).is_none() && sends.outcome(5).is_none());
        assert_eq!([sends.outcome(6), sends.outcome(6)], [Some(Ok(())); 2]);
        assert!(sends.is_ready() && memory.generation(buffers[1]).is_none());
        assert_eq!(sends.take(6).unwrap().1, sent(8));
        assert!(sends.take(6).is_none());
        sends.abandon(5);
        sends.handle_event(Event::Sent { ticket: 5, buffer: buffers[0], result: Err(Failure::Late) }, &mut memory);
        assert!(sends.outcome(5).is_none() && sends.is_outstanding());
        assert!(sends.rescue(9, &mut memory).is_some() && memory.generation(buffers[2]).is_none());
        assert!(sends.slots.is_empty() && !sends.is_outstanding() && !sends.is_ready());
    }

    #[test]
    fn what_is_lost_is_told_once_if_nobody_waits_for_it() {
        let (mut sends, mut memory) = (Sends::default(), BufferTable::new());
        let buffers = [0, 1, 2, 3, 4].map(|ticket| begin(&mut sends, &mut memory, ticket));
        let expendable = [EXPENDABLE, EXPENDABLE + 1].map(|ticket| begin(&mut sends, &mut memory, ticket));
        for (ticket, buffer) in (EXPENDABLE..).zip(expendable) {
            sends.handle_event(Event::Sent { ticket, buffer, result: Err(Failure::Refused) }, &mut memory);
        }
        sends.abandon(EXPENDABLE);
        assert!(sends.take_untold().is_none() && sends.take_losses().is_none(), "it was not promised to arrive");
        assert_eq!(sends.take(EXPENDABLE + 1).unwrap().1, Err(Failure::Refused));
        let mut end = |sends: &mut Sends, ticket: usize, result| {
            sends.handle_event(Event::Sent { ticket: ticket as u64, buffer: buffers[ticket], result }, &mut memory);
        };
        sends.abandon(0);
        end(&mut sends, 0, Err(Failure::Refused));
        // Dropped behind its end, as well as before.
        end(&mut sends, 1, Err(Failure::Refused));
        sends.abandon(1);
        assert_eq!(sends.take_untold(), Some(Losses { frames: 2, failure: Failure::Refused }));
        assert_eq!(sends.take_untold(), None);
        // Whoever still has it can ask.
        assert!(!sends.is_peer_gone());
        end(&mut sends, 2, Err(Failure::PeerGone));
        assert!(sends.is_peer_gone());
        let held = Some(Losses { frames: 1, failure: Failure::PeerGone });
        assert_eq!((sends.take_untold(), sends.take_losses(), sends.take_losses()), (None, held, held));
        assert!(sends.take(2).is_some() && sends.take_losses().is_none());
        // On purpose, or well.
        end(&mut sends, 3, Err(Failure::Late));
        sends.abandon(3);
        end(&mut sends, 4, sent(8));
        sends.abandon(4);
        assert!(sends.take_losses().is_none() && sends.slots.is_empty());
    }

    #[test]
    fn a_round_trip_is_asked_for_once_and_again_after_a_failure() {
        let (mut sends, mut memory) = (Sends::default(), BufferTable::new());
        assert!(sends.begin_opening() && !sends.begin_opening());
        sends.handle_event(Event::Opened(Err(Failure::PeerGone)), &mut memory);
        assert_eq!(sends.opened(), Some(Err(Failure::PeerGone)));
        assert!(sends.begin_opening());
        sends.handle_event(Event::Opened(Ok(Duration::from_millis(1))), &mut memory);
        assert!(!sends.begin_opening() && sends.opened() == Some(Ok(Duration::from_millis(1))));
    }
}

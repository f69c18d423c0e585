//! The single-threaded core: one engine, one link, application memory and a clock.
//!
//! [`Driver::progress`] reads, handles, lets the timers fire, transmits and reports, and never waits. How a thread waits,
//! and which thread it is, is the business of [`Endpoint`](crate::Endpoint).
//!
//! Always true:
//! - the engine is drained when a method returns (transmission is suspended while the link is full, and after
//!   [`DriverConfig::trains_per_batch`] trains; then [`Progress::next`] says so);
//! - the clock is read once a turn and once a read that brought something, not once a datagram, and again behind a train of
//!   which the engine asks when it left;
//! - a train that the link did not take is sent again before any other, and never from memory that has changed hands
//!   since;
//! - a turn that finds nothing to do costs one read of the clock and one attempt to read the link.

use crate::Concerned;
use pinnace_core::{BufferId, Part};
use pinnace_core::{Driven, Engine, Move, PathEvent, Placed, PollAt, ReceivePlan, Time, Train, TrainLimits};
use pinnace_link::{BufferTable, Link, ReadBuffer, ReadOutcome, Received, SendOutcome, Sums};
use std::io;
use std::time::{Duration, Instant};

/// What turns an engine's events into something that the application waits for. Implemented by the layer above.
pub trait EventSink<Event> {
    /// The engine reports. Called with the endpoint's lock held: it must not call the endpoint. `memory` is there to
    /// take buffers back.
    fn handle_event(&mut self, event: Event, memory: &mut BufferTable);

    /// Whom it concerns what has happened since the last time this was asked, beside those who wait for anything. Asked after
    /// events.
    fn take_concerned(&mut self) -> Concerned {
        Concerned::EVERYBODY
    }

    /// Whether something is under way that needs a driver although the engine has no timer for it, such as a posted
    /// receive. Asked when an application thread leaves.
    fn is_outstanding(&self) -> bool {
        false
    }

    /// Whether completions are there for the application to take: the readiness descriptor tells of nothing else.
    fn is_ready(&self) -> bool {
        true
    }
}

/// Bytes of a read from which on it is throughput that counts.
const LONG_TRAIN: usize = 16 << 10;
/// A turn that is later than planned by more than this comes to a process that was stopped, or whose machine was: no scheduler
/// lets anybody wait so long. On the engine's clock it was not.
const STOPPED: Duration = Duration::from_secs(1);
/// Whoever drives the engine so seldom all the time is not stopped: from one such turn to the next this passes on its clock.
const STOPPED_APART: Duration = Duration::from_secs(10);
/// While the link is full, what is due may have to wait for it, and hides what is due behind it: so often it is looked at.
const LOOK_WHILE_FULL: Duration = Duration::from_millis(100);
/// Long trains that come later one after the other than this are each looked for as anything else is.
const TRAINS_APART: Duration = Duration::from_micros(50);

/// Batches of a [`Driver`].
#[derive(Clone, Copy, Debug)]
pub struct DriverConfig {
    /// Reads of the link in one turn, at most; 0 is as good as 1. The driver starts with one, so that an answer leaves at
    /// once, and goes up to this many while reads keep bringing something.
    pub reads_per_batch: usize,
    /// Trains sent in one turn, at most, so that acknowledgements are read in time; 0 is as good as 1.
    pub trains_per_batch: usize,
}

impl Default for DriverConfig {
    fn default() -> Self {
        Self { reads_per_batch: 4, trains_per_batch: 16 }
    }
}

pinnace_core::counters! {
    /// What a driver has seen since it was made.
    pub struct DriverCounters {
        /// Bytes that a read brought to another place than they belong, and that were copied.
        bytes_moved,
        /// Datagrams dropped because the read lost their end.
        datagrams_truncated,
        /// Datagrams without any bytes, dropped.
        datagrams_empty,
        /// Trains that the link did not take at once.
        trains_held,
        /// Trains given up: their memory changed hands while the link was full, or the path does not carry them.
        trains_discarded,
        /// Times that a timer of the engine fired.
        timers_fired,
    }
}

/// What one turn did.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Reads that brought something.
    pub reads: usize,
    /// Trains sent.
    pub trains: usize,
    /// Events handed to the sink.
    pub events: usize,
    /// The link is full; a train is held until it can be written to.
    pub blocked: bool,
    /// When to come again if nothing arrives (and the link, if it is full, stays so).
    pub next: PollAt,
    /// The clock at the beginning of the turn.
    pub now: Time,
}

impl Progress {
    /// Whether another turn at once is likely to find more.
    pub fn worked(&self) -> bool {
        self.reads > 0 || self.trains > 0 || self.events > 0 || self.next == PollAt::Now
    }
}

/// An engine on a link, for one thread.
#[derive(Debug)]
pub struct Driver<E, L> {
    engine: Driven<E>,
    link: L,
    memory: BufferTable,
    config: DriverConfig,
    batch: usize,
    plan: ReceivePlan,
    /// The engine may plan otherwise by now.
    stale: bool,
    reads: ReadBuffer,
    /// Always empty between two reads: kept for its allocation.
    pieces: Vec<&'static [u8]>,
    moves: Vec<Move>,
    train: Train,
    sums: Sums,
    /// `train` waits for the link.
    held: bool,
    /// The buffers of the held train, with their generations.
    pinned: Vec<(BufferId, Option<u32>)>,
    /// The engine may have more to send although nothing is held.
    unfinished: bool,
    /// What was held back has not been sent since.
    released: bool,
    /// The engine has asked that the network cut what is too large.
    may_be_cut: bool,
    epoch: Instant,
    now: Time,
    /// When the process had been stopped for the last time.
    stopped: Option<Time>,
    /// When the last read brought a long train, if it did.
    long_train: Option<Time>,
    counters: DriverCounters,
}

enum Read {
    Something,
    Empty,
}

impl<E: Engine, L: Link> Driver<E, L> {
    /// Puts `engine` on `link`. The engine's clock starts at zero, now.
    pub fn new(engine: E, link: L, config: DriverConfig) -> Self {
        Self {
            engine: Driven::new(engine),
            link,
            memory: BufferTable::new(),
            config,
            batch: 1,
            plan: ReceivePlan::new(),
            stale: true,
            reads: ReadBuffer::new(),
            pieces: Vec::new(),
            moves: Vec::new(),
            train: Train::new(TrainLimits::SINGLE),
            sums: Sums::default(),
            held: false,
            pinned: Vec::new(),
            unfinished: false,
            released: false,
            may_be_cut: false,
            epoch: Instant::now(),
            now: Time::ZERO,
            stopped: None,
            long_train: None,
            counters: DriverCounters::default(),
        }
    }

    /// The engine, to look at.
    pub fn engine(&self) -> &E {
        self.engine.engine()
    }

    /// The link, to look at.
    pub fn link(&self) -> &L {
        &self.link
    }

    /// The link, to change its settings.
    pub fn link_mut(&mut self) -> &mut L {
        &mut self.link
    }

    /// Application memory by name.
    pub fn memory(&mut self) -> &mut BufferTable {
        &mut self.memory
    }

    /// What the driver has seen.
    pub fn counters(&self) -> DriverCounters {
        self.counters
    }

    /// The clock as it was read last.
    pub fn last_now(&self) -> Time {
        self.now
    }

    /// Reads the clock. Time for which the process was stopped does not count: it has heard nobody then, and asked nobody, and would
    /// take whoever it talked with for gone.
    //= Z-19
    //= V-S11
    pub fn read_clock(&mut self) -> Time {
        let now = self.time_of(Instant::now());
        let before = std::mem::replace(&mut self.now, now);
        if self.now.since(before) > STOPPED {
            self.leave_out_stop(before);
        }
        self.now
    }

    /// Sets the clock back to when something was due, if that was `before` the process was stopped, or while it was.
    #[cold]
    fn leave_out_stop(&mut self, before: Time) {
        let planned = match self.engine.poll_at() {
            PollAt::Time(planned) => planned.max(before),
            PollAt::Now => before,
            PollAt::Ingress => return,
        };
        let late = self.now.since(planned);
        if late > STOPPED && self.stopped.is_none_or(|stopped| planned.since(stopped) >= STOPPED_APART) {
            self.epoch += late;
            self.now = planned;
            self.stopped = Some(planned);
        }
    }

    /// A moment on the engine's clock. Moments before the driver was made are its beginning.
    pub fn time_of(&self, instant: Instant) -> Time {
        Time::ZERO + instant.saturating_duration_since(self.epoch)
    }

    /// The engine to look at, and the memory to take buffers from: no call.
    pub(crate) fn look(&mut self) -> (&E, &mut BufferTable) {
        (self.engine.engine(), &mut self.memory)
    }

    /// Whether another long train is likely to follow soon: looking for it at once would slow down who sends it.
    pub fn expects_train(&self) -> bool {
        self.long_train.is_some_and(|at| self.now.since(at) < TRAINS_APART)
    }

    /// Whether a train waits for the link to take it.
    pub fn is_blocked(&self) -> bool {
        self.held
    }

    /// When to come again if nothing arrives. While the link is full, what is due waits for it: that is no reason to come at
    /// once, but in a while, for the timers behind it.
    pub fn next(&self) -> PollAt {
        let next = self.engine.poll_at();
        match next {
            PollAt::Now if self.held => PollAt::Time(self.now + LOOK_WHILE_FULL),
            PollAt::Time(at) if self.held && at <= self.now => PollAt::Time(self.now + LOOK_WHILE_FULL),
            _ if self.unfinished => PollAt::Now,
            _ => next,
        }
    }

    /// The application has stopped queueing ([`Engine::handle_hold`]): what was held back leaves with the next turn, before
    /// anything is read. The peer may wait for it, and each read is time that it waits longer.
    pub fn release(&mut self) {
        self.engine.handle_hold(false);
        self.unfinished = true;
        self.released = true;
    }

    /// A call of the application, at the time [`Driver::read_clock`] gives. `hold`: see [`Engine::handle_hold`]; `None`
    /// leaves it as it is. Follow it with [`Driver::drain`].
    pub fn call<R>(&mut self, hold: Option<bool>, call: impl FnOnce(&mut E, &mut BufferTable, Time) -> R) -> R {
        let now = self.read_clock();
        self.stale = true;
        self.unfinished = true;
        let memory = &mut self.memory;
        self.engine.call(|engine| {
            if let Some(hold) = hold {
                engine.handle_hold(hold);
            }
            call(engine, memory, now)
        })
    }

    /// Sends and reports what there is, after a call; reads nothing.
    ///
    /// # Errors
    /// Only what makes the link useless.
    pub fn drain(&mut self, sink: &mut impl EventSink<E::Event>) -> io::Result<Progress> {
        let mut progress = self.turn();
        self.flush(usize::MAX, sink, &mut progress)?;
        progress.next = self.next();
        Ok(progress)
    }

    /// One turn: reads, handles, lets timers fire, transmits and reports. Never waits.
    ///
    /// # Errors
    /// Only what makes the link useless.
    pub fn progress(&mut self, sink: &mut impl EventSink<E::Event>) -> io::Result<Progress> {
        self.one_turn(true, sink)
    }

    /// As [`Driver::progress`], but leaves what has arrived to somebody else: lets timers fire, transmits and reports.
    ///
    /// # Errors
    /// Only what makes the link useless.
    pub fn progress_without_reading(&mut self, sink: &mut impl EventSink<E::Event>) -> io::Result<Progress> {
        self.one_turn(false, sink)
    }

    fn one_turn(&mut self, reads: bool, sink: &mut impl EventSink<E::Event>) -> io::Result<Progress> {
        let trains = self.config.trains_per_batch.max(1);
        self.read_clock();
        let mut progress = self.turn();
        if std::mem::take(&mut self.released) {
            self.flush(trains, sink, &mut progress)?;
        }
        let has_more = reads && self.read_batch(&mut progress)?;
        if progress.reads > 0 || self.held || self.unfinished {
            self.flush(trains, sink, &mut progress)?;
        }
        if has_more && self.is_due() {
            // A timer should not fire for an answer that already waits in the socket.
            self.read_up_to(self.config.reads_per_batch, &mut progress)?;
            self.flush(trains, sink, &mut progress)?;
        }
        if self.is_due() {
            self.counters.timers_fired += 1;
            self.stale = true;
            self.engine.handle_timeout(self.now);
            self.unfinished = true;
            self.flush(trains, sink, &mut progress)?;
        }
        progress.blocked = self.held;
        progress.next = self.next();
        Ok(progress)
    }

    fn turn(&self) -> Progress {
        Progress { reads: 0, trains: 0, events: 0, blocked: self.held, next: PollAt::Ingress, now: self.now }
    }

    fn is_due(&self) -> bool {
        match self.engine.poll_at() {
            PollAt::Now => true,
            PollAt::Time(at) => at <= self.now,
            PollAt::Ingress => false,
        }
    }

    /// Reads a batch; returns whether there may be more. Small batches answer a lone datagram sooner: no second read stands
    /// before the reply. Full ones say that it is throughput that counts.
    fn read_batch(&mut self, progress: &mut Progress) -> io::Result<bool> {
        let most = self.config.reads_per_batch.max(1);
        let budget = self.batch.min(most);
        let is_full = self.read_up_to(budget, progress)?;
        self.batch = if is_full { (budget * 2).min(most) } else { progress.reads.max(1) };
        Ok(is_full)
    }

    /// Reads until so many reads have brought something; false if there was not as much.
    fn read_up_to(&mut self, budget: usize, progress: &mut Progress) -> io::Result<bool> {
        while progress.reads < budget {
            match self.read()? {
                Read::Something => progress.reads += 1,
                Read::Empty => return Ok(false),
            }
        }
        Ok(true)
    }

    fn read(&mut self) -> io::Result<Read> {
        if self.stale {
            self.plan.reset(self.link.datagrams_per_read());
            self.engine.plan_receive(&mut self.plan);
            self.plan.top_up(ReadBuffer::READ_BYTES);
            self.stale = false;
        }
        match self.link.receive(&self.plan, &self.memory, &mut self.reads)? {
            ReadOutcome::Received(received) => {
                // The turn may have begun long ago, and sent what this answers: that took some time.
                self.read_clock();
                self.handle(&received);
            }
            ReadOutcome::Unreachable => self.engine.handle_path_event(self.now, PathEvent::Unreachable),
            ReadOutcome::Empty => return Ok(Read::Empty),
        }
        self.stale = true;
        Ok(Read::Something)
    }

    fn handle(&mut self, received: &Received) {
        let mut total = received.bytes.min(self.plan.bytes());
        self.long_train = (total >= LONG_TRAIN).then_some(self.now);
        if received.truncated {
            self.counters.datagrams_truncated += 1;
            total -= last_datagram(total, received.segment);
        } else if total == 0 {
            self.counters.datagrams_empty += 1;
        }
        if total == 0 {
            return;
        }
        let mut pieces = relabel(std::mem::take(&mut self.pieces));
        // SAFETY: the link has just laid the plan out in `memory`; until they are settled below, what the engine releases
        // stays, and it writes nothing: it says what is to be moved.
        unsafe { self.reads.pieces(total, &mut pieces) };
        let mut placed = Placed::new(self.plan.slots(), &pieces, total, received.segment, &mut self.moves)
            .with_storage(&mut self.memory);
        self.engine.handle_datagrams(self.now, &received.meta, &mut placed);
        self.pieces = relabel(pieces);
        if !self.moves.is_empty() {
            self.counters.bytes_moved += self.moves.iter().map(|m| u64::from(m.to.len)).sum::<u64>();
            // SAFETY: as above; the pieces have been looked at.
            unsafe { self.reads.carry_out(&self.moves, &self.memory) };
            self.moves.clear();
        }
        // Only now: the pieces and the sources of the moves may have lain in storage that the engine released.
        self.memory.settle_released();
    }

    /// Transmits, then reports. Returns with the engine drained.
    fn flush(&mut self, trains: usize, sink: &mut impl EventSink<E::Event>, progress: &mut Progress) -> io::Result<()> {
        let sent = self.transmit(trains, progress);
        // Even if the link has just failed: what the engine has to say is not lost.
        while let Some(event) = self.engine.poll_event() {
            progress.events += 1;
            self.stale = true;
            sink.handle_event(event, &mut self.memory);
        }
        self.memory.settle_released();
        sent
    }

    fn transmit(&mut self, trains: usize, progress: &mut Progress) -> io::Result<()> {
        self.unfinished = false;
        if self.held {
            if !self.is_pinned() {
                self.counters.trains_discarded += 1;
            } else if !self.send()? {
                self.engine.transmit_blocked();
                return Ok(());
            } else {
                progress.trains += 1;
            }
            self.held = false;
        }
        loop {
            if progress.trains >= trains {
                self.engine.transmit_blocked();
                self.unfinished = true;
                return Ok(());
            }
            self.train.reset(self.link.train_limits());
            if !self.engine.poll_transmit(self.now, &mut self.train) {
                return Ok(());
            }
            if self.memory.has_joined() {
                self.train.split_payload(|range| self.memory.pieces(range));
            }
            // Once: a train that is held keeps what was written.
            self.train.fill_checksum(|range| self.memory.bytes(range), &mut self.sums);
            if !self.send()? {
                self.pin();
                self.engine.transmit_blocked();
                progress.blocked = true;
                return Ok(());
            }
            progress.trains += 1;
        }
    }

    /// Sends the train; returns false if the link is full.
    fn send(&mut self) -> io::Result<bool> {
        if !self.may_be_cut && self.engine.engine().may_be_cut() {
            self.may_be_cut = true;
            // Where that is not possible nothing changes.
            self.link.allow_fragmentation();
        }
        let mut outcome = self.link.send(&self.train, &self.memory)?;
        if let SendOutcome::TooLarge(fits) = outcome {
            let to = self.train.destination();
            self.engine.handle_path_event(self.now, PathEvent::TooLarge { to, fits });
            if self.link.allow_fragmentation() {
                outcome = self.link.send(&self.train, &self.memory)?;
            }
        }
        match outcome {
            SendOutcome::Sent if self.train.is_awaited() => {
                let left = self.time_of(Instant::now());
                // A stop in the middle of the call does not count.
                let is_late = left.since(self.now) > STOPPED;
                let left = if is_late { self.read_clock() } else { left };
                self.engine.handle_left(left);
            }
            SendOutcome::Sent => {}
            SendOutcome::Blocked => return Ok(false),
            SendOutcome::TooLarge(_) => self.counters.trains_discarded += 1,
            SendOutcome::Unreachable => self.engine.handle_path_event(self.now, PathEvent::Unreachable),
        }
        Ok(true)
    }

    /// Keeps the train for later, and notes whose memory it names.
    fn pin(&mut self) {
        self.held = true;
        self.counters.trains_held += 1;
        self.pinned.clear();
        for part in self.train.parts() {
            if let Part::Payload(range) = part
                && self.pinned.last().is_none_or(|(last, _)| *last != range.buffer)
            {
                self.pinned.push((range.buffer, self.memory.generation(range.buffer)));
            }
        }
    }

    /// Whether the memory of the held train still is what it was: a buffer may have been given back meanwhile, and its
    /// name may mean another.
    fn is_pinned(&self) -> bool {
        self.pinned
            .iter()
            .all(|(buffer, generation)| generation.is_some() && self.memory.generation(*buffer) == *generation)
    }

    /// Whether the engine loses nothing if its next timer is so much `late`.
    pub(crate) fn bears(&self, late: Duration) -> bool {
        self.engine.bears(late)
    }

    /// How long until `until`, from the last reading of the clock on.
    pub fn remaining(&self, until: Time) -> Duration {
        until.since(self.now)
    }
}

/// Bytes of the last datagram of a read.
fn last_datagram(total: usize, segment: usize) -> usize {
    if segment == 0 || segment >= total {
        return total;
    }
    match total % segment {
        0 => segment,
        short => short,
    }
}

/// An empty vector of slices for another lifetime, with the same allocation. (Collecting a vector's own iterator reuses
/// its memory; were it otherwise one day, it would only be slower.)
fn relabel<'a>(mut pieces: Vec<&[u8]>) -> Vec<&'a [u8]> {
    pieces.clear();
    pieces.into_iter().map(|_| -> &'a [u8] { &[] }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_datagram_of_a_read_is_found() {
        assert_eq!(last_datagram(100, 30), 10);
        assert_eq!(last_datagram(90, 30), 30);
        assert_eq!(last_datagram(20, 30), 20);
        assert_eq!(last_datagram(20, 0), 20);
    }

    #[test]
    fn relabelling_keeps_the_allocation() {
        let bytes = [1u8, 2, 3];
        let mut pieces: Vec<&[u8]> = Vec::with_capacity(100);
        pieces.push(&bytes);
        let (at, capacity) = (pieces.as_ptr().cast::<()>(), pieces.capacity());
        let again: Vec<&'static [u8]> = relabel(pieces);
        assert!(again.is_empty());
        assert_eq!((again.as_ptr().cast::<()>(), again.capacity()), (at, capacity));
    }
}

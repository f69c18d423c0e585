//! Building trains of units.
//!
//! Every unit announces the one that follows it on the channel (Z-7), so the next unit is chosen before the current one is
//! written, and what was announced goes first whatever happens meanwhile.

use super::{Sender, State, UnitRef};
use crate::Config;
use crate::path::Path;
use core::time::Duration;
use pinnace_core::{Address, BufferRange, DeliveryStamp, Time, Train, TrainLimits};
use pinnace_wire::zcrp::{TRAILER_BYTES, Unit, encode_idle};

/// How long a train may wait to become fuller.
const HOLD_AT_MOST: Duration = Duration::from_micros(100);

/// What one more train costs either end at least.
const TRAIN_TAKES: Duration = Duration::from_nanos(1500);

impl Sender {
    pub(crate) fn poll_transmit(&mut self, now: Time, train: &mut Train, path: &mut Path) -> bool {
        if self.closed.is_some() {
            return false;
        }
        self.poll_idle(now, train, path) || self.poll_units(now, train, path) || self.poll_asking(now, train, path)
    }

    //= Z-21
    fn poll_idle(&mut self, now: Time, train: &mut Train, path: &mut Path) -> bool {
        let announces = self.waiting > 0 && self.idle_due.is_some_and(|due| due <= now);
        let answers = self.idle_answer.is_some_and(|due| due <= now);
        if !announces && !answers {
            return false;
        }
        self.idle_answer = None;
        if !announces && self.transit.units_in_flight() > 0 {
            // What travels tells the receiver as much.
            return false;
        }
        self.send_idle(now, train, path)
    }

    /// Asks the peer to say something. Behind all units: a queue in which this lay might have no room for a large one, and then
    /// asking whether such arrive would be why they do not.
    fn poll_asking(&mut self, now: Time, train: &mut Train, path: &mut Path) -> bool {
        self.sizing.asks() && self.send_idle(now, train, path)
    }

    fn send_idle(&mut self, now: Time, train: &mut Train, path: &mut Path) -> bool {
        if !self.may_idle(path) {
            // An announcement leaves when more has come.
            return false;
        }
        path.pay(TRAILER_BYTES);
        self.sizing.on_asking();
        self.idle_due = Some(now + self.config.idle_interval);
        self.counters.idles_sent += 1;
        train.single(Address::Peer, None, &encode_idle(self.next_number() as u32));
        true
    }

    /// Whether an idle datagram may be sent now. A peer whose silence counts is asked in any case, or it would be thought
    /// gone; that ends with its silence.
    pub(super) fn may_idle(&self, path: &Path) -> bool {
        path.may_send(TRAILER_BYTES) || self.liveness.peer_reports_idle
    }

    /// Whether a datagram of `bytes` bytes may join what is in transit.
    //= Z-9
    fn window_open(&self, bytes: u64, path: &Path) -> bool {
        if self.transit.units_in_flight() == 0 {
            //= Z-8
            return true;
        }
        if !path.may_send(bytes as usize) {
            return false;
        }
        if self.probing {
            return true;
        }
        self.transit.units_in_flight() < self.config.window_units
            && self.transit.span() < Config::MAX_TRANSIT
            && self.transit.bytes_in_flight() + bytes <= self.congestion.window().min(self.config.window_bytes)
    }

    /// Whether it is better to wait for a fuller train. While plenty is in transit nothing is lost by waiting a moment,
    /// and many small trains would cost both ends more than they carry; while the application is still queueing,
    /// anything in transit will do.
    fn holds(&mut self, now: Time, train: &Train) -> bool {
        let in_flight = self.transit.bytes_in_flight();
        let limits = train.limits();
        let busy = in_flight >= 2 * limits.bytes as u64;
        if !(busy || self.held && in_flight > 0) || !self.again.is_empty() || self.is_full(limits) {
            self.held_since = None;
            return false;
        }
        let since = *self.held_since.get_or_insert(now);
        let over = busy && !self.held && since + HOLD_AT_MOST <= now;
        if over {
            self.held_since = None;
        }
        !over
    }

    /// Whether what may be sent now fills a train.
    fn is_full(&self, limits: TrainLimits) -> bool {
        let Some(next) = self.announced.or_else(|| self.next_ready()) else { return false };
        let unit = self.datagram_bytes(next) as u64;
        let train = (limits.bytes as u64).min(limits.segments as u64 * unit);
        let room =
            self.congestion.window().min(self.config.window_bytes).saturating_sub(self.transit.bytes_in_flight());
        self.ready_bytes.min(room) + unit > train
    }

    fn next_ready(&self) -> Option<UnitRef> {
        let &number = self.ready.front()?;
        self.message(number).map(|message| UnitRef { message: number, unit: message.next_unit })
    }

    /// When a train that waits to become fuller leaves as it is.
    pub(super) fn hold_ends(&self) -> Option<Time> {
        self.held_since.filter(|_| !self.held).map(|since| since + HOLD_AT_MOST)
    }

    fn poll_units(&mut self, now: Time, train: &mut Train, path: &mut Path) -> bool {
        let has_ready = self.ready.front().is_some_and(|number| !self.holds_end(*number));
        if self.announced.is_none() && self.again.is_empty() && !has_ready {
            self.held_since = None;
            return false;
        }
        let unit_bytes = u64::from(self.fragment) + TRAILER_BYTES as u64;
        if !self.window_open(unit_bytes, path) {
            // It has closed again while a train was waiting: an acknowledgement comes next, not a date.
            self.held_since = None;
            return false;
        }
        if self.holds(now, train) {
            return false;
        }
        let ready_at = self.pacer.ready_at(now, unit_bytes);
        if ready_at > now {
            self.paced_until = Some(ready_at);
            return false;
        }
        self.paced_until = None;
        let Some(first) = self.take_next() else {
            // What waited to be sent again has arrived after all: nothing may be outstanding any more.
            self.probing = false;
            self.update_liveness(now);
            return false;
        };
        self.write_train(now, train, path, first, self.pacer.available(now).max(unit_bytes));
        true
    }

    /// Writes units from `current` on, at most `budget` bytes, for as long as they follow regularly.
    fn write_train(&mut self, now: Time, train: &mut Train, path: &mut Path, mut current: UnitRef, budget: u64) {
        let in_flight = self.transit.bytes_in_flight();
        self.probing = false;
        let mut next = self.take_following(path, current);
        // Padding counts, and would be taken from the other half's answers.
        let pads = !path.is_limited();
        let segment = if pads { self.segment_bytes(current, next) } else { self.datagram_bytes(current) };
        train.begin(Address::Peer, segment);
        let stamp = self.delivery.on_sent(now, segment as u64, in_flight);
        if self.transit.units_in_flight() == 0 {
            self.timer = Some(now + self.timeout());
        }
        let mut first = true;
        loop {
            if !path.is_limited() && self.write_run(train, current, next, budget, &stamp, !first) {
                first = false;
                // What the run announced last is what follows it.
                let Some(following) = self.announced.take() else { break };
                current = following;
                next = self.take_following(path, current);
            }
            let bytes = self.datagram_bytes(current);
            let padding =
                next.filter(|_| pads).map_or(0, |next| self.padding(train, current, bytes, self.datagram_bytes(next)));
            self.write_unit(train, current, next, padding);
            self.transit.push(current.message, current.unit, (bytes + padding) as u32, &stamp, !first);
            first = false;
            let Some(following) = next else { break };
            let next_bytes = self.datagram_bytes(following);
            let fits = train.has_room(next_bytes) && (train.bytes() + next_bytes) as u64 <= budget;
            if !fits || !self.window_open(next_bytes as u64, path) {
                //= Z-7
                self.announced = Some(following);
                break;
            }
            current = following;
            next = self.take_following(path, current);
        }
        self.counters.units_sent += train.segments() as u64;
        self.congestion.on_sent(now, train.bytes() as u64, in_flight);
        self.pacer.take(now, train.bytes() as u64);
        // What has to wait for a proof waits for the peer, not for the application.
        if self.announced.is_none() && self.again.is_empty() && self.ready.is_empty() {
            self.delivery.on_app_limited(self.transit.bytes_in_flight());
        }
        self.update_liveness(now);
    }

    /// Writes the full units of one message from `current` on, as many as may go and one less, so that the unit behind
    /// them fits too: it is left in `announced`. Returns false, and does nothing, where there is no such run. The same
    /// as writing them one by one, for a fraction of the time.
    fn write_run(
        &mut self,
        train: &mut Train,
        current: UnitRef,
        next: Option<UnitRef>,
        budget: u64,
        stamp: &DeliveryStamp,
        extends: bool,
    ) -> bool {
        let UnitRef { message: number, unit } = current;
        let follows = next == Some(UnitRef { message: number, unit: unit + 1 });
        if !follows || !self.again.is_empty() || self.ready.front() != Some(&number) || self.sizing.holds_ends() {
            return false;
        }
        let (fragment, segment, limits) = (self.fragment, train.segment_size(), train.limits());
        let window = self.congestion.window().min(self.config.window_bytes);
        let bytes = (limits.bytes.saturating_sub(train.bytes()) as u64)
            .min(budget.saturating_sub(train.bytes() as u64))
            .min(window.saturating_sub(self.transit.bytes_in_flight()));
        let room = (bytes / segment as u64)
            .min(limits.segments.saturating_sub(train.segments()) as u64)
            .min((limits.parts.saturating_sub(train.parts().len()) / 2) as u64)
            .min(u64::from(self.config.window_units.saturating_sub(self.transit.units_in_flight())))
            .min(Config::MAX_TRANSIT.saturating_sub(self.transit.span()));
        let first = self.transit.next() as u32;
        let Some(message) = self.message_mut(number) else { return false };
        let count = room.saturating_sub(1).min(u64::from(message.units - 1 - unit)) as u32;
        if count < 2 || message.unit_bytes(unit, fragment) != segment || message.next_unit != unit + 2 {
            return false;
        }
        let before = message.unsent_bytes(fragment);
        for step in 0..count {
            let unit = unit + step;
            let trailer = Unit {
                message: number as u32,
                unit,
                sequence: first.wrapping_add(step),
                next: Some((number as u32, unit + 1)),
                length: fragment,
                is_last: false,
                refused: false,
            };
            let offset = u64::from(unit) * u64::from(fragment);
            train.datagram(BufferRange::new(message.buffer, offset, fragment), &trailer.encode());
        }
        message.next_unit = unit + count + 1;
        let sent_all = message.next_unit >= message.units;
        let after = message.unsent_bytes(fragment);
        self.ready_bytes -= before - after;
        if sent_all {
            self.ready.pop_front();
        }
        self.transit.push_run(number, unit, count, segment as u32, stamp, extends);
        self.announced = Some(UnitRef { message: number, unit: unit + count });
        true
    }

    /// Bytes of the datagrams of a train that begins with `current`: a last unit that is shorter than what follows it is
    /// padded if that is worth it, so that the train does not end with it.
    fn segment_bytes(&self, current: UnitRef, next: Option<UnitRef>) -> usize {
        let bytes = self.datagram_bytes(current);
        match next.map(|next| self.datagram_bytes(next)) {
            Some(next) if next > bytes && next - bytes <= self.most_padding(current, next) => next,
            _ => bytes,
        }
    }

    /// Padding that keeps the train regular, if the next unit can then follow in it. Only last units are ever short, so
    /// only they are padded.
    fn padding(&self, train: &Train, current: UnitRef, bytes: usize, next_bytes: usize) -> usize {
        let segment = train.segment_size();
        let short = segment - bytes;
        if short == 0 || short > self.most_padding(current, segment) || next_bytes > segment {
            return 0;
        }
        let room = train.limits();
        let fits = train.segments() + 2 <= room.segments && train.bytes() + segment + next_bytes <= room.bytes;
        if fits { short } else { 0 }
    }

    /// Padding that costs less than a further train: an eighth of a datagram; and where both ends are so fast that they would
    /// spend more time on a train than the padding takes to arrive, up to an eighth of the message. (The paper pads all.)
    fn most_padding(&self, last: UnitRef, datagram: usize) -> usize {
        let of_message = self.message(last.message).map_or(0, |message| message.size as usize / 8);
        let rate = self.fastest.value().unwrap_or(0);
        let while_a_train = u128::from(rate) * TRAIN_TAKES.as_nanos() / 1_000_000_000;
        (datagram / 8).max(of_message.min(while_a_train as usize))
    }

    fn write_unit(&mut self, train: &mut Train, current: UnitRef, next: Option<UnitRef>, padding: usize) {
        let sequence = self.transit.next() as u32;
        let fragment = self.fragment;
        let Some(message) = self.message(current.message) else { return };
        let (offset, length) = message.fragment_of(current.unit, fragment);
        let refused = message.state == State::Refusing;
        let unit = Unit {
            message: current.message as u32,
            unit: current.unit,
            sequence,
            next: next.map(|next| (next.message as u32, next.unit)),
            length,
            is_last: current.unit + 1 == message.units,
            refused,
        };
        train.payload(BufferRange::new(message.buffer, offset, length));
        let padding = padding + self.datagram_bytes(current) - TRAILER_BYTES - length as usize;
        if padding > 0 {
            train.zeros(padding);
            self.counters.padding_bytes_sent += padding as u64;
        }
        train.inline(&unit.encode());
        train.end_segment();
    }

    /// Bytes of a unit's datagram, without what is padded to keep a train regular.
    fn datagram_bytes(&self, unit: UnitRef) -> usize {
        let Some(message) = self.message(unit.message) else { return TRAILER_BYTES };
        let full = self.fragment as usize + TRAILER_BYTES;
        let is_hidden = message.is_end(unit.unit) && self.sizing.hides_ends(full as u32);
        if is_hidden { full } else { message.unit_bytes(unit.unit, self.fragment) }
    }

    /// Whether a message must not go on because the unit that comes next is its last.
    fn holds_end(&self, number: u64) -> bool {
        self.sizing.holds_ends() && self.message(number).is_some_and(|message| message.is_end(message.next_unit))
    }

    /// Pays for a unit that leaves, and takes the one behind it. A unit alone has none while nobody knows the peer: what
    /// follows is the next if it is acknowledged, and otherwise itself. So its answer comes at once, too (Z-11).
    fn take_following(&mut self, path: &mut Path, current: UnitRef) -> Option<UnitRef> {
        path.pay(self.datagram_bytes(current));
        let most = self.fragment as usize + TRAILER_BYTES;
        if path.may_send(most) { self.take_next() } else { None }
    }

    /// The unit that goes next: what was announced, then what has to be sent again, then what was never sent (Z-8).
    //= Z-8
    fn take_next(&mut self) -> Option<UnitRef> {
        if let Some(unit) = self.announced.take()
            && self.message(unit.message).is_some_and(|message| message.wants(unit.unit))
        {
            return Some(unit);
        }
        while let Some((message, low, high)) = self.again.front_mut() {
            let unit = UnitRef { message: *message, unit: *low };
            *low += 1;
            if *low >= *high {
                self.again.pop_front();
            }
            if self.message(unit.message).is_some_and(|message| message.wants(unit.unit)) {
                self.counters.units_resent += 1;
                return Some(unit);
            }
        }
        while let Some(&number) = self.ready.front() {
            if self.holds_end(number) {
                return None;
            }
            let fragment = self.fragment;
            let Some(message) = self.message_mut(number) else {
                self.ready.pop_front();
                continue;
            };
            let unit = message.next_unit;
            message.next_unit += 1;
            let sent_all = message.next_unit >= message.units;
            self.ready_bytes -= message.unit_bytes(unit, fragment) as u64;
            if sent_all {
                self.ready.pop_front();
            }
            return Some(UnitRef { message: number, unit });
        }
        None
    }
}

//! What happens when nothing comes: PINGs, headers and packets that were not answered in time, and frames whose time is
//! over.

use super::flights::{Cargo, Flight};
use super::frame::{OutFrame, State};
use super::{CLOSES_WAITING, NOT_BEGUN, Outgoing, Path, Probe, TIMEOUT_CAP};
use crate::{Event, Failure};
use core::time::Duration;
use pinnace_core::Time;

/// How often a silent peer is asked before its time-outs are over.
const PROBES: u32 = 6;

impl Outgoing {
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if self.closed {
            return;
        }
        self.on_ping_timer(now);
        self.on_alive_timer(now);
        self.on_retry_timer(now);
        self.on_flight_timer(now);
        self.on_probe_timer(now);
        while let Some((slot, ticket)) = self.timers.poll_expired(now) {
            self.on_life_timer(now, slot, ticket);
        }
        if self.allowed.is_due(now) {
            self.update_allowed_rate(now);
        }
        if self.paced_until.is_some_and(|until| until <= now) {
            self.paced_until = None;
        }
        self.start_close_timer(now);
        self.begin_waiting(now);
    }

    /// FRAME_CLOSE waits for a header to ride in, but not for long.
    //= V-S9
    pub(super) fn start_close_timer(&mut self, now: Time) {
        if self.closes.len() > CLOSES_WAITING {
            self.close_at = Some(now);
        } else if !self.closes.is_empty() {
            self.close_at.get_or_insert(now + self.config.close_delay);
        }
    }

    //= V-S10
    fn on_ping_timer(&mut self, now: Time) {
        let Path::Measuring { since, repeat_at, timeout } = self.path else { return };
        if now.since(since) >= self.config.life_timeout {
            self.path = Path::Unknown;
            self.carried.stop();
            self.pings.clear();
            self.events.push_back(Event::Opened(Err(Failure::PeerGone)));
            self.fail_all(Failure::PeerGone);
        } else if now >= repeat_at {
            let timeout = (timeout * 2).min(TIMEOUT_CAP);
            self.path = Path::Measuring { since, repeat_at: now + timeout, timeout };
            self.ask();
        }
    }

    /// Something has left, or has been answered.
    pub(super) fn show_life(&mut self, now: Time) {
        let Some(after) = self.config.keep_alive else { return };
        self.alive_at = (self.path == Path::Open).then_some(now + after);
        self.alive_wait = self.patience();
    }

    fn on_alive_timer(&mut self, now: Time) {
        let Some(longest) = self.config.keep_alive else { return };
        if self.alive_at.is_some_and(|at| at <= now) {
            self.ask();
            self.alive_at = Some(now + self.alive_wait.min(longest));
            self.alive_wait = (self.alive_wait * 2).min(longest);
        }
    }

    /// How long a transmission may be unanswered: the time-out, and never less than a quarter more than the round trip. On
    /// a path without noise the mean deviation goes to nothing, and the time-out with it to the round trip itself, so that
    /// every little queue would look like a loss.
    pub(super) fn patience(&self) -> Duration {
        let round_trip = self.rtt.smoothed().unwrap_or_default();
        self.rtt.timeout().max(round_trip + round_trip / 4).min(TIMEOUT_CAP)
    }

    /// The same, had no time-out doubled.
    pub(super) fn patience_undoubled(&self) -> Duration {
        let most = self.patience();
        self.rtt.smoothed().zip(self.rtt.deviation()).map_or(most, |(round_trip, deviation)| {
            (round_trip + (deviation * 4).max(round_trip / 4)).max(self.config.timeout_floor).min(most)
        })
    }

    /// What the doubling adds.
    pub(super) fn grace(&self) -> Duration {
        self.patience() - self.patience_undoubled()
    }

    /// When what is under way is given up. Each has its own deadline: the doubling that the loss of one packet causes is for
    /// what leaves afterwards, or the end of a frame that is lost together would be repeated packet by packet, each after
    /// twice the time. But what is learned of the path holds for all.
    //= V-S5
    pub(super) fn deadline(&self) -> impl Fn(&Flight) -> Time + use<> {
        let (patience, grace) = (self.patience_undoubled(), self.grace());
        move |flight| flight.stamp.sent_at + patience + flight.grace.min(grace)
    }

    /// Transmissions that were not answered in time.
    //= V-S5
    fn on_flight_timer(&mut self, now: Time) {
        let timeout = self.patience();
        let deadline = self.deadline();
        let mut expired = false;
        while let Some(flight) = self.flights.settle_oldest(|flight| deadline(flight) <= now) {
            expired = true;
            self.on_expired(now, &flight);
        }
        if expired {
            self.rtt.inflate(now);
            if now.since(self.heard_at) >= timeout {
                // Nothing at all came back.
                self.congestion.on_timeout(now);
            }
            self.end_batch(now);
        }
    }

    /// When a peer of which nothing comes is asked with one packet, however often time-outs have doubled: after twice the time
    /// that they would take without, and each time after twice as long again. A sender of small frames, one after the other,
    /// waited for a time-out after each loss, and where a tenth is lost they double more often than samples bring them down.
    //= V-S5
    pub(super) fn probe_at(&self) -> Option<Time> {
        let oldest = self.flights.oldest()?.stamp.sent_at;
        let count = self.probes();
        let wait = self.patience_undoubled().saturating_mul(2 << count.min(PROBES));
        (count < PROBES).then(|| oldest.max(self.heard_at).max(self.probe.at) + wait)
    }

    /// How often it was asked since it was heard of last.
    fn probes(&self) -> u32 {
        if self.probe.heard_at == self.heard_at { self.probe.count } else { 0 }
    }

    fn on_probe_timer(&mut self, now: Time) {
        if self.probe_at().is_none_or(|at| at > now) {
            return;
        }
        self.probe = Probe { count: self.probes() + 1, heard_at: self.heard_at, at: now };
        if let Some(&Flight { slot, ticket, .. }) = self.flights.oldest()
            && self.frame(slot, ticket).is_some()
        {
            self.urge(now, slot);
        }
    }

    fn on_expired(&mut self, now: Time, flight: &Flight) {
        self.note_loss(now, flight);
        let (slot, ticket) = (flight.slot, flight.ticket);
        match flight.cargo {
            Cargo::Header => {
                if self.frame(slot, ticket).is_some_and(|frame| frame.state == State::Announced) {
                    self.queue_header(slot);
                }
            }
            Cargo::Packet(packet) => {
                self.counters.packets_timed_out += 1;
                self.on_packet_expired(now, slot, ticket, packet);
            }
        }
    }

    fn on_packet_expired(&mut self, now: Time, slot: usize, ticket: u64, packet: u32) {
        let Some(frame) = self.frame_mut(slot, ticket) else { return };
        let is_late = frame.repeat_until.is_some_and(|until| until <= now);
        if !is_late || frame.must_repeat(packet) {
            if frame.send_again(now, packet, true).is_some() {
                self.again.push_back((slot, ticket, packet));
            }
        } else {
            frame.let_go(packet);
            self.counters.packets_let_go += 1;
            self.probe(now, slot);
        }
    }

    /// A frame whose late packets are let go still needs an answer: if nothing of it is under way any more, the packet
    /// goes again that makes the receiver say what it needs.
    pub(super) fn probe(&mut self, now: Time, slot: usize) {
        if self.slots[slot].as_deref().is_some_and(|frame| !frame.has_new() && !frame.is_under_way()) {
            self.ask_anew(now, slot);
        }
    }

    /// What of a frame makes its receiver answer goes again.
    fn ask_anew(&mut self, now: Time, slot: usize) {
        let Some(frame) = self.slots[slot].as_deref_mut() else { return };
        let packet = if frame.is_waited_for(frame.first) { Some(frame.first) } else { frame.last_pending() };
        if let Some(packet) = packet
            && let Some(flight) = frame.send_again(now, packet, true)
        {
            self.again.push_back((slot, frame.ticket, packet));
            self.flights.settle(flight);
        }
    }

    /// One packet of the frame, or its header, asks: it has been silent for a good part of its life, or the peer has. Where much
    /// is lost, the time-out may have doubled so often that few repetitions are left before its time is over, and no new packet
    /// measures the path. What left later may still be answered.
    fn urge(&mut self, now: Time, slot: usize) {
        match self.slots[slot].as_deref() {
            Some(frame) if frame.state == State::Announced => self.queue_header(slot),
            Some(frame) if frame.has_pending() => self.ask_anew(now, slot),
            _ => {}
        }
    }

    /// Silence counts from the last answer, or from when an answer began to be owed. A frame whose packets wait for their
    /// turn is owed none: it lives as long as the peer answers anything.
    //= V-S11
    fn on_life_timer(&mut self, now: Time, slot: usize, ticket: u64) {
        if slot == NOT_BEGUN {
            self.on_too_late_to_begin(ticket);
            return;
        }
        let patience = self.patience_undoubled();
        let Self { config, timers, heard_at, .. } = self;
        let Some(frame) = self.slots.get_mut(slot).and_then(|slot| slot.as_deref_mut()) else { return };
        if frame.ticket != ticket {
            return;
        }
        if frame.waits_for_us() {
            frame.heard_at = frame.heard_at.max(*heard_at);
        }
        if frame.ends_at(config) > now {
            frame.timer = Some(timers.insert(frame.looks_at(now, config), (slot, ticket)));
            let starves = frame.is_ready && frame.is_starving(now, config);
            let is_silent = frame.is_silent(now, config, patience);
            let is_quiet = frame.is_quiet(now, config);
            if starves {
                self.serve_first(slot, ticket);
            }
            if is_silent {
                self.urge(now, slot);
            }
            if is_quiet {
                self.sound(now, slot);
            }
            return;
        }
        frame.timer = None;
        let (late, is_lost) = (
            frame.give_up_at.is_some_and(|give_up_at| give_up_at <= now),
            frame.lost_at(config).is_some_and(|lost_at| lost_at <= now),
        );
        if !late && now.since(self.heard_at) >= self.config.life_timeout {
            // Who has answered nothing at all for a life will not answer what waits for its turn: that would have another
            // life then, a few frames at a time.
            self.fail_waiting(Failure::PeerGone);
            for other in 0..self.slots.len() {
                if self.slots[other].as_deref().is_some_and(OutFrame::waits_for_us) {
                    self.fail(other, Failure::PeerGone);
                }
            }
        }
        let failure = if late {
            self.on_given_up(slot);
            Failure::Late
        } else if is_lost {
            Failure::Protocol
        } else {
            self.slots[slot].as_deref().map_or(Failure::PeerGone, |frame| self.failure_of_silence(frame))
        };
        self.fail(slot, failure);
    }

    /// The frame's turn is now. Where the path carries little and loses much, all turns together may take longer than its
    /// receiver waits for a packet.
    //= V-S12
    fn serve_first(&mut self, slot: usize, ticket: u64) {
        if let Some(at) = self.ready.iter().position(|entry| *entry == (slot, ticket)) {
            self.ready.remove(at);
            self.ready.push_front((slot, ticket));
        }
    }

    /// The time of a frame is over that has not begun.
    fn on_too_late_to_begin(&mut self, ticket: u64) {
        // Tickets rise, and frames wait in the order of their tickets.
        if let Ok(index) = self.waiting.binary_search_by_key(&ticket, |frame| frame.ticket)
            && let Some(frame) = self.waiting.remove(index)
        {
            self.report(&frame, Err(Failure::Late));
        }
    }
}

//! What goes next, and what has left.

use super::flights::{Flights, Sent};
use super::path::{Doubt, Standstill};
use super::{Active, MAX_WINDOW, Outgoing};
use core::time::Duration;
use pinnace_core::{Path, Time, piece_of_burst};

/// Packets are not made smaller than this, which every path carries, whatever the burst.
const LEAST_PACED: u32 = 1400;

/// What the context says about sending, each time it asks for a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Most user bytes of a packet.
    pub(crate) max: u32,
    /// Most user bytes of any packet to come, a FIRST or not, to an address that is proved or not: the unit in which
    /// congestion is controlled. With a smaller one its smallest window would not hold two packets, and never grow.
    pub(crate) largest: u32,
    /// Bytes on the wire beside them.
    pub(crate) overhead: u32,
    /// The application is still queueing: the last packet does not ask.
    pub(crate) is_held: bool,
    /// NOFLOW: alloc does not count.
    pub(crate) no_flow: bool,
    /// NOERR: nothing is repeated.
    pub(crate) no_error: bool,
    /// The machine asks with every so-manyth packet; 0: the application decides.
    pub(crate) ask_every: u32,
    /// What is lost is repeated with all that follows it.
    pub(crate) go_back_n: bool,
}

/// A packet that may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) low: u64,
    /// User bytes; 0: an empty message.
    pub(crate) len: u32,
    pub(crate) eom: bool,
    pub(crate) btag: Option<[u8; 8]>,
    /// The stream ends behind it: WCLOSE.
    pub(crate) ends: bool,
    pub(crate) is_repetition: bool,
    /// The machine wants SREQ.
    pub(crate) asks: bool,
}

impl Cut {
    /// One past the last byte.
    pub(crate) fn high(&self) -> u64 {
        self.low + u64::from(self.len)
    }
}

/// What goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// This packet, now.
    Cut(Cut),
    /// Something, then.
    At(Time),
    Nothing,
}

/// Whether a packet asks for a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asking {
    No,
    /// SREQ.
    Status,
    /// DREQ: never a round-trip sample, never missing.
    Deferred,
    /// SREQ and DREQ: two answers name it, so it is no round-trip sample.
    Both,
    /// SREQ because WTIMER has expired.
    Expiry,
}

impl Outgoing {
    /// Bytes below may leave.
    //= X-8
    fn room_ends(&self, no_flow: bool) -> u64 {
        let most = self.acked + MAX_WINDOW;
        if no_flow { most } else { most.min(self.alloc) }
    }

    /// Bytes that may still be queued before alloc is used up.
    //= X-8
    pub(crate) fn room(&self, no_flow: bool) -> u64 {
        self.room_ends(no_flow).saturating_sub(self.queued)
    }

    /// The first byte that is lost and waits for its repetition.
    pub(crate) fn first_lost(&self) -> Option<u64> {
        self.active.as_deref().and_then(|active| active.flights.lost().min())
    }

    /// Bytes of the datagrams that the path is taken to carry, if it seems to lose all that are larger; told once.
    pub(crate) fn take_doubt(&mut self, now: Time) -> Option<u32> {
        let front = self.first_lost().filter(|first| *first == self.acked)?;
        let active = self.active.as_deref_mut()?;
        let fits = active.doubt.take(front)?;
        // No queue has lost them: it says nothing of how much the path carries.
        active.path.congestion = self.congestion.build(fits.into(), now);
        Some(fits)
    }

    /// Whether the peer's answers have said for so long that the first byte that it lacks, and has room for, has not come,
    /// however often it was repeated.
    pub(crate) fn is_at_standstill(&self, now: Time, patience: Duration) -> bool {
        let lacks = self.acked < self.sent.min(self.alloc);
        lacks && self.active.as_deref().is_some_and(|active| active.standstill.is_over(now, self.acked, patience))
    }

    /// The next byte that has to leave, if there is any.
    pub(super) fn next_offset(&self) -> Option<u64> {
        self.first_lost().or_else(|| (self.sent < self.queued).then_some(self.sent))
    }

    /// Whether bytes wait for alloc to rise.
    pub(crate) fn waits_for_room(&self, terms: &Terms) -> bool {
        self.next_offset().is_some_and(|offset| offset >= self.room_ends(terms.no_flow))
    }

    /// Whether something has to leave and alloc lets it; pace and congestion may still hold it back.
    pub(crate) fn has_to_send(&self, terms: &Terms) -> bool {
        match self.next_offset() {
            Some(offset) => offset < self.room_ends(terms.no_flow),
            None => self.chunks.is_empty_message_next(),
        }
    }

    /// Whether the last packets have left without asking, because the application was still queueing, and nothing comes
    /// that would ask for them.
    pub(crate) fn is_ask_owed(&self, terms: &Terms) -> bool {
        !terms.is_held && self.asks.is_unasked() && self.acked < self.sent && !self.has_to_send(terms)
    }

    /// What goes next: what is lost, oldest first, then new bytes.
    pub(crate) fn next(&self, now: Time, terms: &Terms) -> Next {
        let room_ends = self.room_ends(terms.no_flow);
        let Some(mut cut) = self.cut(terms, room_ends) else { return Next::Nothing };
        if self.is_crumb(&cut, terms, room_ends) {
            return Next::Nothing;
        }
        if cut.len > 0 {
            let wire = u64::from(cut.len) + u64::from(terms.overhead);
            if let Some(active) = self.active.as_deref() {
                let (in_flight, window) = (active.flights.bytes(), active.path.congestion.window());
                // A single packet may always be under way.
                if in_flight > 0 && in_flight.saturating_add(wire) > window {
                    return Next::Nothing;
                }
                let ready_at = active.path.pacer.ready_at(now, wire);
                if ready_at > now {
                    return Next::At(self.limit_ready_at(now, cut.len).max(ready_at));
                }
                let full = u64::from(terms.max) + u64::from(terms.overhead);
                cut.asks = in_flight.saturating_add(wire + full) > window;
            }
            let ready_at = self.limit_ready_at(now, cut.len);
            if ready_at > now {
                return Next::At(ready_at);
            }
        }
        cut.asks = cut.asks || self.asks(&cut, terms, room_ends);
        Next::Cut(cut)
    }

    /// Whether `cut` is small only because alloc ends there, while a status is on its way that may tell of more room. To
    /// send it would mean small packets for ever, each of which asks for the next (the silly window).
    fn is_crumb(&self, cut: &Cut, terms: &Terms, room_ends: u64) -> bool {
        let is_cut_short = cut.high() == room_ends && !cut.eom && !cut.ends;
        !cut.is_repetition && is_cut_short && cut.len < terms.max / 2 && self.asks.is_missing()
    }

    /// When so many user bytes may leave by the traffic specifier.
    pub(crate) fn limit_ready_at(&self, now: Time, len: u32) -> Time {
        self.limit.as_deref().map_or(now, |limit| limit.pacer.ready_at(now, u64::from(len)))
    }

    /// Whether it matters when the bytes leave that were committed.
    pub(crate) fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// User bytes of a packet, at most, where a rate was said.
    //= X-19
    pub(crate) fn paced_bytes(&self) -> Option<u32> {
        let pacer = self.limit.as_deref().map(|limit| &limit.pacer).filter(|pacer| pacer.rate().is_some())?;
        Some(piece_of_burst(pacer.burst(), LEAST_PACED))
    }

    /// Whether whoever comes so much `late` when a packet may leave loses nothing of the rate.
    //= X-19
    pub(crate) fn bears(&self, late: Duration) -> bool {
        let bytes = self.paced_bytes().unwrap_or(0);
        self.limit.as_deref().is_none_or(|limit| limit.pacer.bears(late, bytes.into()))
    }

    /// So many user bytes have left by `now`, which may be later than they were committed: what follows waits accordingly.
    //= X-19
    pub(crate) fn on_left(&mut self, now: Time, bytes: u64) {
        if let Some(limit) = &mut self.limit {
            limit.pacer.on_left(now, bytes);
        }
    }

    fn cut(&self, terms: &Terms, room_ends: u64) -> Option<Cut> {
        let most = u64::from(terms.max.max(1));
        let (low, bounds, is_repetition) = match self.first_lost() {
            Some(low) if low < room_ends => (low, self.repetition(low, (low + most).min(room_ends))?, true),
            Some(_) => return None,
            None if self.chunks.is_empty_message_next() => (self.sent, self.chunks.ahead(self.sent, self.sent)?, false),
            None if self.sent < self.queued && self.sent < room_ends => {
                (self.sent, self.chunks.ahead(self.sent, (self.sent + most).min(room_ends))?, false)
            }
            None => return None,
        };
        let super::chunks::Bounds { high, eom, btag } = bounds;
        let ends = self.has_end && high == self.queued;
        Some(Cut { low, len: (high - low) as u32, eom, btag, ends, is_repetition, asks: false })
    }

    /// A repetition has the cut that its bytes had the last time, or a finer one.
    //= X-17
    fn repetition(&self, low: u64, most: u64) -> Option<super::chunks::Bounds> {
        let high = self.active.as_deref()?.flights.packet_end(low)?.min(most);
        self.chunks.again(low, high)
    }

    /// Whether the machine wants a status for `cut`.
    fn asks(&self, cut: &Cut, terms: &Terms, room_ends: u64) -> bool {
        if cut.ends || (terms.ask_every > 0 && self.asks.packets_since() + 1 >= terms.ask_every) {
            return true;
        }
        match self.offset_behind(cut) {
            Some(offset) => offset >= room_ends,
            None => !terms.is_held,
        }
    }

    /// The next byte that has to leave behind `cut`.
    fn offset_behind(&self, cut: &Cut) -> Option<u64> {
        let high = cut.high();
        if !cut.is_repetition {
            return (high < self.queued).then_some(high);
        }
        let lost = self.active.as_deref()?.flights.lost();
        let ranges = lost.iter().find_map(|range| (range.end > high).then(|| range.start.max(high)));
        ranges.or_else(|| (self.sent < self.queued).then_some(self.sent))
    }

    /// The first packet of the stream as it was sent, for as long as nothing of it is acknowledged: a FIRST is repeated as
    /// it was.
    pub(crate) fn first(&self) -> Option<Cut> {
        let bounds = match self.chunks.first_empty() {
            Some(bounds) => bounds,
            None if self.acked == 0 && self.sent > 0 => self.repetition(0, u64::MAX)?,
            None => return None,
        };
        let super::chunks::Bounds { high, eom, btag } = bounds;
        let ends = self.has_end && high == self.queued;
        Some(Cut { low: 0, len: high as u32, eom, btag, ends, is_repetition: true, asks: true })
    }

    /// `cut` leaves now. Returns the sync for its header, the next one if it asks.
    pub(crate) fn commit(&mut self, now: Time, cut: &Cut, asking: Asking, terms: &Terms) -> u32 {
        (self.no_error, self.go_back_n) = (terms.no_error, terms.go_back_n);
        self.may_answer = false;
        let number = self.number;
        if cut.len == 0 {
            if !cut.is_repetition {
                self.chunks.advance_empty();
            }
        } else {
            self.number += 1;
            self.send(now, cut, number, terms);
            self.asks.on_packet(matches!(asking, Asking::Status | Asking::Both | Asking::Expiry));
        }
        // Before the first status nothing is lost: it is the FIRST of an expiry.
        let is_expiry = cut.is_repetition && !self.has_status && matches!(asking, Asking::Status | Asking::Both);
        let asking = if is_expiry { Asking::Expiry } else { asking };
        self.on_asking(now, asking);
        self.asks.ask(now, asking, number, cut.is_repetition)
    }

    fn send(&mut self, now: Time, cut: &Cut, number: u64, terms: &Terms) {
        let wire = u64::from(cut.len) + u64::from(terms.overhead);
        let (sent, kind) = (self.sent, self.congestion);
        let active = self.active.get_or_insert_with(|| {
            let mss = u64::from(terms.largest.max(cut.len)) + u64::from(terms.overhead);
            let (flights, path) = (Flights::new(sent), Path::new(kind, mss, now));
            Box::new(Active { flights, path, doubt: Doubt::default(), standstill: Standstill::default() })
        });
        let Active { flights, path, doubt, standstill } = &mut **active;
        let in_flight = flights.bytes();
        if cut.is_repetition && cut.low == self.acked {
            doubt.on_repeated(cut.low, cut.len + terms.overhead);
            standstill.on_repeated(now, cut.low);
        }
        let packet = Sent { low: cut.low, len: cut.len, overhead: terms.overhead, number, at: now };
        flights.send(&packet, || path.delivery.on_sent(now, wire, in_flight));
        path.on_sent(now, wire, in_flight);
        if terms.no_error {
            flights.forget_oldest();
        }
        //= X-19
        if let Some(limit) = &mut self.limit {
            limit.pacer.take(now, u64::from(cut.len));
        }
        if cut.high() > self.sent {
            self.sent = cut.high();
            self.chunks.advance(self.sent);
        }
        if self.sent == self.queued && flights.lost().is_empty() && flights.bytes() < path.congestion.window() {
            path.delivery.on_app_limited(flights.bytes());
        }
    }

    /// A control packet that asks leaves now. Returns its sync.
    pub(crate) fn ask(&mut self, now: Time, asking: Asking) -> u32 {
        self.on_asking(now, asking);
        self.asks.ask(now, asking, self.number, false)
    }

    /// A packet without data that asks leaves again. Returns its sync.
    pub(crate) fn ask_again(&mut self, now: Time, asking: Asking) -> u32 {
        self.on_asking(now, asking);
        self.asks.ask(now, asking, self.number, true)
    }

    fn on_asking(&mut self, now: Time, asking: Asking) {
        // Silence says something of the path only if an answer was owed.
        if asking == Asking::Expiry
            && self.asks.is_missing()
            && let Some(active) = self.active.as_deref_mut().filter(|active| active.flights.bytes() > 0)
        {
            active.path.on_timeout(now);
        }
    }
}

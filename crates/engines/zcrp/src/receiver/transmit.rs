//! What a receiver sends: requests, block acknowledgements, flow hints.

use super::Receiver;
use super::incoming::{Incoming, State};
use crate::Config;
use crate::path::Path;
use core::time::Duration;
use pinnace_core::{Address, Allowance, Time, Train};
use pinnace_wire::zcrp::{ControlWriter, DEFAULT_CONTROL_BYTES};

/// Pairs in the first request to a peer that introduced itself and has been sent little: it must fit three times the
/// 28 bytes of an idle datagram.
const CAUTIOUS_PAIRS: usize = 4;
/// Pairs in a request that is repeated: every path carries datagrams of the default size.
const REPEATED_PAIRS: usize = (DEFAULT_CONTROL_BYTES - 8) / 8;
/// Bytes of the largest and of the smallest acknowledgement sent.
const SPACE: usize = 512;
const MIN_REPORT: usize = 16;
/// What the smallest acknowledgement, or request, takes of what may be sent.
const LEAST: usize = MIN_REPORT + Allowance::LOWER_HEADERS as usize;
/// Requests that go together without waiting for more.
const PLENTY: usize = 64;
/// How long they may.
const WAIT_AT_MOST: Duration = Duration::from_micros(100);

impl Receiver {
    /// `answered`: the application has just sent something, so nothing needs to let it go first.
    pub(crate) fn poll_transmit(&mut self, now: Time, train: &mut Train, path: &mut Path, answered: bool) -> bool {
        if self.closed.is_some() {
            return self.farewell.is_some() && self.poll_report(now, train, path, answered);
        }
        if !answered && self.report.gives_way(now) {
            return false;
        }
        self.poll_report(now, train, path, answered)
            || self.poll_requests(now, train, path)
            || self.poll_flow(train, path)
    }

    /// The largest control datagram that may be sent now.
    fn capacity(&self, path: &Path) -> usize {
        path.largest(self.config.control_capacity()) & !3
    }

    /// What must be left for an acknowledgement that waits for its time: it says more than a request, and what is not
    /// acknowledged is sent again.
    fn owed(&self, path: &Path) -> usize {
        if path.is_limited() && self.report.is_unreported() { LEAST } else { 0 }
    }

    /// What must be left by a request that is repeated: as [`owed`](Self::owed), and for the question whether the peer is
    /// still there.
    fn kept_back(&self, now: Time, path: &Path) -> usize {
        self.owed(path) + if self.asks_at(path).is_some_and(|at| now < at) { LEAST } else { 0 }
    }

    /// Where little may be sent, one request is left for when half the time has passed after which a silent peer counts as
    /// gone: it may have nothing to say, and speaks when it is asked (Z-21).
    //= Z-19
    pub(super) fn asks_at(&self, path: &Path) -> Option<Time> {
        let may_ask = path.is_limited() && self.requested > self.base && path.may_send(MIN_REPORT + self.owed(path));
        self.liveness.half_time().filter(|_| may_ask)
    }

    /// Whether not even the smallest answer may be sent before more comes from the peer.
    pub(super) fn is_muted(&self, path: &Path) -> bool {
        self.capacity(path) < MIN_REPORT
    }

    /// Bytes that a report may take, with the headers below: a third of what may leave, because the newest part is said
    /// twice more at the end (Z-15).
    fn budget(path: &Path) -> usize {
        if path.is_limited() { (path.largest(usize::MAX) + Allowance::LOWER_HEADERS as usize) / 3 } else { usize::MAX }
    }

    fn put(train: &mut Train, path: &mut Path, datagram: &[u8]) {
        train.single(Address::Peer, None, datagram);
        path.pay(datagram.len());
    }

    //= Z-11
    fn poll_report(&mut self, now: Time, train: &mut Train, path: &mut Path, answered: bool) -> bool {
        let mut space = [0; SPACE];
        let Some(datagram) = self.write_report(now, &mut space, path, answered) else { return false };
        Self::put(train, path, datagram);
        true
    }

    /// Lets a report that is due ride as the short last datagram of a train of units: one call of the system for both.
    pub(crate) fn append_report(&mut self, now: Time, train: &mut Train, path: &mut Path) {
        let room = train.segment_size().min(SPACE);
        if self.closed.is_some() || room < MIN_REPORT || !train.has_room(room) {
            return;
        }
        let mut space = [0; SPACE];
        let Some(datagram) = self.write_report(now, &mut space[..room & !3], path, true) else { return };
        train.inline(datagram);
        train.end_segment();
        path.pay(datagram.len());
    }

    /// The next datagram of a report that is due, in `space`.
    fn write_report<'s>(&mut self, now: Time, space: &'s mut [u8], path: &Path, answered: bool) -> Option<&'s [u8]> {
        if !self.report.is_due(now, &self.config, answered) {
            return None;
        }
        if self.is_muted(path) {
            self.counters.answers_withheld += 1;
            return None;
        }
        let limit = self.capacity(path).min(space.len());
        let datagram = self.report.write(&mut space[..limit], Self::budget(path))?;
        self.counters.acknowledgements_sent += 1;
        Some(datagram)
    }

    /// How many messages a request may name that leaves so much of what may be sent.
    fn pairs(&self, path: &Path, left: usize) -> usize {
        let most = path.largest(usize::MAX).saturating_sub(left);
        let capacity = self.config.control_capacity().min(most) & !3;
        (capacity.saturating_sub(8) / 8).min(if self.cautious(path) { CAUTIOUS_PAIRS } else { usize::MAX })
    }

    //= Z-3
    //= Z-13
    fn poll_requests(&mut self, now: Time, train: &mut Train, path: &mut Path) -> bool {
        if self.repeating.is_some() {
            // The first one may have been too large for the path.
            let again = self.pairs(path, self.kept_back(now, path)).min(REPEATED_PAIRS);
            if again > 0 && self.poll_repetitions(now, train, path, again) {
                return true;
            }
        }
        let pairs = self.pairs(path, self.owed(path));
        let high = self.next_number().min(self.base + Config::REQUESTS_AHEAD);
        let fresh = high.saturating_sub(self.requested.max(self.base)) as usize;
        if fresh == 0 {
            return false;
        }
        if self.requests_wait(now, fresh, pairs) {
            return false;
        }
        self.waiting_since = None;
        if pairs == 0 {
            self.counters.answers_withheld += 1;
            return false;
        }
        self.requested = self.requested.max(self.base);
        let low = self.requested;
        let high = high.min(low + pairs as u64);
        self.write_request(now, train, path, low..high, |_| true);
        self.requested = high;
        true
    }

    /// Whether `fresh` requests wait for company: while the application is still posting, or the sender has more than
    /// twice as many others, and not for long.
    fn requests_wait(&mut self, now: Time, fresh: usize, pairs: usize) -> bool {
        let outstanding = self.requested.saturating_sub(self.base) as usize;
        let enough = if self.held { 0 } else { 2 * fresh };
        let wait = fresh < pairs.min(PLENTY) && outstanding > enough;
        if !wait {
            return false;
        }
        let since = *self.waiting_since.get_or_insert(now);
        self.held || now < since + WAIT_AT_MOST
    }

    /// When requests that wait for company leave alone.
    pub(super) fn requests_wait_until(&self) -> Option<Time> {
        self.waiting_since.filter(|_| !self.held).map(|since| since + WAIT_AT_MOST)
    }

    /// Whether the peer has shown too little of itself for a long answer.
    fn cautious(&self, path: &Path) -> bool {
        path.is_limited() && self.stride == 0
    }

    /// Requests again what has waited long enough (Z-13).
    fn poll_repetitions(&mut self, now: Time, train: &mut Train, path: &mut Path, pairs: usize) -> bool {
        let (first, most) = (self.config.request_interval, self.config.request_interval_max);
        let due = |message: &Incoming| {
            message.state == State::Posted && message.requested_at + interval(message, first, most) <= now
        };
        let low = self.repeating.take().unwrap_or(self.base).max(self.base);
        let Some(low) = (low..self.requested).find(|&number| self.message(number).is_some_and(due)) else {
            self.request_timer = self.next_repetition();
            return false;
        };
        let mut count = 0;
        let mut end = low;
        for number in low..self.requested {
            if count == pairs {
                break;
            }
            count += usize::from(self.message(number).is_some_and(due));
            end = number + 1;
        }
        self.counters.requests_repeated += count as u64;
        self.write_request(now, train, path, low..end, due);
        self.repeating = Some(end);
        true
    }

    fn next_repetition(&self) -> Option<Time> {
        let (first, most) = (self.config.request_interval, self.config.request_interval_max);
        let requested = self.requested.saturating_sub(self.base) as usize;
        let waiting = self.messages.iter().take(requested).filter(|message| message.state == State::Posted);
        waiting.map(|message| message.requested_at + interval(message, first, most)).min()
    }

    fn write_request(
        &mut self,
        now: Time,
        train: &mut Train,
        path: &mut Path,
        numbers: core::ops::Range<u64>,
        wanted: impl Fn(&Incoming) -> bool,
    ) {
        let mut space = vec![0; 8 + 8 * (numbers.end - numbers.start) as usize];
        let mut writer = ControlWriter::new(&mut space);
        for number in numbers {
            let Some(message) = self.messages.get_mut((number - self.base) as usize) else { break };
            if wanted(message) {
                message.requested_at = now;
                message.requests = message.requests.saturating_add(1);
                writer.push(number as u32);
                writer.push(message.capacity);
            }
        }
        let datagram = writer.request();
        self.counters.requests_sent += 1;
        let timer = now + self.config.request_interval;
        self.request_timer = Some(self.request_timer.map_or(timer, |earlier| earlier.min(timer)));
        Self::put(train, path, datagram);
    }

    //= Z-21
    fn poll_flow(&mut self, train: &mut Train, path: &mut Path) -> bool {
        // What may not leave yet leaves when more has come.
        if !self.flow_due || !path.may_send(16 + self.owed(path)) {
            return false;
        }
        self.flow_due = false;
        let mut space = [0; 16];
        let mut writer = ControlWriter::new(&mut space);
        writer.push((self.base + Config::REQUESTS_AHEAD - 1) as u32);
        // Reads bounce into 64 KiB of the driver's memory.
        writer.push(65_536);
        self.counters.flow_hints_sent += 1;
        Self::put(train, path, writer.flow());
        true
    }
}

/// How long after its last request a message is requested again: doubling from `first` to `most`.
fn interval(message: &Incoming, first: Duration, most: Duration) -> Duration {
    let doublings = u32::from(message.requests.saturating_sub(1)).min(16);
    first.saturating_mul(1 << doublings).min(most)
}

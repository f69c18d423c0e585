//! What has come over a connection of VRP, where frames overtake each other.
//!
//! Always true: where order is wanted a frame waits for those before it, as long as they are worth it and can still come;
//! each number counts once, as a message, a word of the connection's own, or missing.

use super::Received;
use super::alarm::Alarm;
use super::received::Position;
use super::silence::Silence;
use crate::Error;
use crate::endpoint::ConnectionError;
use crate::service::Method;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::task::Waker;
use std::time::{Duration, Instant};

/// How long a frame waits for those before it, if nothing says how long they are worth waiting for. Longer than a sender
/// goes on with a receiver that is silent; what its receiver refuses never comes.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// At most so long, if its receiver has refused some meanwhile: what it waits for may be one of these.
const REFUSED_PATIENCE: Duration = Duration::from_secs(1);
/// Numbers of frames, after which they begin again.
pub(super) const NUMBERS: u64 = 1 << 15;
/// No frame is waited for by so many behind it: its sender lets none be further ahead of one that is under way.
const FAR: u64 = NUMBERS / 4;

/// What has come.
#[derive(Debug)]
pub(super) struct Incoming {
    /// Who sends; `None` until it has said who it is.
    pub(super) source: Option<SocketAddr>,
    pub(super) is_ordered: bool,
    pub(super) patience: Duration,
    /// The number of the next frame, counted on without end.
    pub(super) next: Option<u64>,
    /// Frames that came before their turn, and when they did.
    pub(super) early: BTreeMap<u64, (crate::vrp::Received, Instant)>,
    /// Since when the next frame is waited for.
    pub(super) since: Option<Instant>,
    pub(super) silence: Silence,
    /// Makes the descriptor readable when it is time to look again.
    pub(super) alarm: Option<Alarm>,
    /// Numbers of the connection's own words that came before their turn.
    pub(super) words: BTreeSet<u64>,
    /// Numbers of messages that do not come any more, as their sender says.
    pub(super) given_up: BTreeSet<u64>,
    /// No message comes with a number from the next one up to here.
    pub(super) settled: Cell<u64>,
    /// Frames of the peer's refused, of which it is known that they are missing.
    pub(super) refused: u64,
    /// More have been refused.
    pub(super) is_hurried: bool,
    /// Messages that whoever received them had no room for.
    pub(super) again: VecDeque<Received>,
    /// The number behind the last frame.
    pub(super) end: Option<u64>,
    /// It was no end in order.
    pub(super) is_broken_off: bool,
    /// Numbers before it of words that were lost.
    pub(super) unheard: u64,
    /// The question whether it is there, and when it was asked.
    pub(super) asked: Option<(crate::vrp::Sending, Instant)>,
    /// The peer is gone, as far as is known: what is missing is not waited for, and this is said behind what has come.
    pub(super) gone: Option<Error>,
}

impl Incoming {
    /// Nobody has been heard. `timeout`: how long the peer may be silent.
    pub(super) fn new(is_ordered: bool, patience: Duration, timeout: Duration) -> Self {
        Self {
            source: None,
            is_ordered,
            patience,
            next: None,
            early: BTreeMap::new(),
            since: None,
            silence: Silence::new(timeout),
            alarm: None,
            words: BTreeSet::new(),
            given_up: BTreeSet::new(),
            settled: Cell::new(0),
            refused: 0,
            is_hurried: false,
            again: VecDeque::new(),
            end: None,
            is_broken_off: false,
            unheard: 0,
            asked: None,
            gone: None,
        }
    }

    /// The whole number of a frame: the nearest to the next one.
    pub(super) fn unwrap_number(&self, number: u16) -> u64 {
        let number = u64::from(number);
        let Some(next) = self.next else { return number + NUMBERS };
        let ahead = (number + NUMBERS - next % NUMBERS) % NUMBERS;
        if ahead < NUMBERS / 2 { next + ahead } else { (next + ahead).saturating_sub(NUMBERS) }
    }

    /// Everything below `next` has come, or is not waited for any longer. Returns how many messages those are that were
    /// expected, and have not come.
    pub(super) fn advance(&mut self, next: u64) -> u64 {
        let before = self.next.unwrap_or(next).min(next);
        let mut words = 0;
        if !self.words.is_empty() {
            let behind = self.words.split_off(&next);
            words = std::mem::replace(&mut self.words, behind).into_iter().filter(|number| *number >= before).count()
                as u64;
        }
        let mut next = next.max(self.next.unwrap_or(next));
        let missed = next - before - words;
        while self.words.remove(&next) {
            next += 1;
        }
        self.next = Some(next);
        if !self.given_up.is_empty() {
            self.given_up = self.given_up.split_off(&next);
        }
        missed
    }

    /// A message does not come any more: those behind it do not wait for it, and say that it is missing.
    pub(super) fn on_given_up(&mut self, number: u64) {
        // Its sender may not know that it is here.
        let is_missing = self.next.is_some_and(|next| next <= number) && !self.early.contains_key(&number);
        if self.is_ordered && is_missing {
            self.given_up.insert(number);
        }
    }

    /// A word of the connection's own has come.
    pub(super) fn on_word(&mut self, number: u64) {
        match self.next {
            Some(next) if number == next => {
                self.advance(number + 1);
            }
            Some(next) if number > next => {
                self.words.insert(number);
            }
            _ => {}
        }
    }

    pub(super) fn patience(&self) -> Duration {
        if self.is_hurried { self.patience.min(REFUSED_PATIENCE) } else { self.patience }
    }

    /// Messages that are missing before the end, once it has been said.
    pub(super) fn missing(&self) -> u64 {
        match (self.end, self.next) {
            (Some(end), Some(next)) if self.is_ordered => {
                let words = self.words.range(next..end.max(next)).count() as u64;
                end.saturating_sub(next).saturating_sub(words + self.unheard)
            }
            _ => 0,
        }
    }

    /// Whether frames before this one, the first of those that are early, have not come.
    fn waits_for_others(&self, first: u64) -> bool {
        let Some(next) = self.next.filter(|_| self.is_ordered) else { return false };
        let may_come = |number: &u64| !self.words.contains(number) && !self.given_up.contains(number);
        // Each number is looked at once: a peer may say a great many.
        let settled = self.settled.get().max(next);
        let awaited = (settled..first).find(may_come);
        self.settled.set(awaited.unwrap_or(first).max(settled));
        awaited.is_some()
    }

    /// Whether the frames before the first that is early are missing, and not waited for any longer.
    pub(super) fn gives_up(&self, now: Instant) -> bool {
        let (Some((&first, _)), Some((&newest, _))) = (self.early.first_key_value(), self.early.last_key_value())
        else {
            return false;
        };
        // Behind the end nothing comes, nor from who is gone, and what is so far behind the newest has been given up.
        let is_over = self.end.is_some()
            || self.gone.is_some()
            || self.next.is_some_and(|next| newest.saturating_sub(next) > FAR);
        self.waits_for_others(first) && (is_over || self.since.is_none_or(|since| since + self.patience() <= now))
    }

    /// Bytes of each message that is here and was not received.
    pub(super) fn kept(&self) -> impl Iterator<Item = usize> {
        self.again.iter().map(|received| received.len()).chain(self.early.values().map(|(frame, _)| frame.len()))
    }

    /// A frame that is due.
    pub(super) fn due(&mut self, now: Instant) -> Option<Received> {
        let first = *self.early.first_key_value()?.0;
        if self.waits_for_others(first) && !self.gives_up(now) {
            return None;
        }
        let is_late = self.is_ordered && self.next.is_some_and(|next| first < next);
        let missed = if is_late { 0 } else { self.advance(first) };
        let missed = if self.is_ordered { missed } else { 0 };
        self.advance(first + 1);
        let (frame, _) = self.early.remove(&first)?;
        self.since = self.early.first_key_value().map(|(_, &(_, came_at))| came_at);
        Some(Received::frame(frame, Position { missed, is_late }))
    }

    /// When to look again, where nothing is due.
    pub(super) fn look_at(&self, now: Instant) -> Instant {
        let asks_at = self.silence.asks_at(now, Duration::ZERO);
        self.since.map_or(asks_at, |since| asks_at.min(since + self.patience()))
    }

    /// Nobody waits any more for what is early, or finds out whether a silent peer is there; but an event loop may.
    pub(super) fn set_alarm(&mut self, now: Instant, waker: impl FnOnce() -> Option<Waker>) {
        let at = self.look_at(now);
        // One that has come may have been taken for what was looked for in vain: that wakes once more, and at once.
        if at <= now || self.alarm.as_ref().map(Alarm::at) != Some(at) {
            self.alarm = waker().map(|waker| Alarm::set(at, &waker));
        }
    }

    /// Whether nothing more comes.
    pub(super) fn is_over(&self) -> bool {
        self.early.is_empty() && self.end.is_some()
    }

    /// What a receiver is told then.
    pub(super) fn outcome(&self) -> Result<Option<Received>, Error> {
        if self.is_broken_off { Err(ConnectionError::BrokenOff { method: Method::Vrp }.into()) } else { Ok(None) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn incoming(next: u64) -> Incoming {
        Incoming { next: Some(next), ..Incoming::new(true, PATIENCE, Duration::from_secs(10)) }
    }

    #[test]
    fn words_that_overtake_messages_leave_no_gap() {
        let mut incoming = incoming(10);
        // 10 and 11 are messages that are repeated, 12 and 13 are words.
        incoming.on_word(13);
        incoming.on_word(12);
        assert_eq!((incoming.advance(11), incoming.next), (1, Some(11)));
        assert_eq!((incoming.advance(12), incoming.next), (1, Some(14)));
        incoming.on_word(14);
        assert_eq!((incoming.next, incoming.words.len()), (Some(15), 0));
        // One that came before, and is of no use.
        incoming.on_word(3);
        assert!(incoming.words.is_empty());
        // 15 to 19 are not waited for: 17 was no message.
        incoming.on_word(17);
        assert_eq!((incoming.advance(20), incoming.next, incoming.words.len()), (4, Some(20), 0));
    }

    /// Frame 15 came so much later than 12.
    const APART: Duration = Duration::from_secs(1);

    fn came(number: u64, at: Instant) -> (u64, (crate::vrp::Received, Instant)) {
        (number, (crate::vrp::Received::numbered(number as u16), at))
    }

    /// What is due of frames 10, 12 and 15, of which the first has come, and the second when it is first waited for: how many
    /// are missing before each.
    fn due_of(mut incoming: Incoming, now: Instant) -> Vec<(u64, bool)> {
        let since = incoming.since.unwrap();
        incoming.early.extend([came(12, since), came(15, since + APART)]);
        std::iter::from_fn(|| incoming.due(now)).map(|due| (due.missed(), due.is_late())).collect()
    }

    #[test]
    fn frames_do_not_wait_for_what_its_sender_has_given_up() {
        let now = Instant::now();
        let of = |given_up: &[u64], word: Option<u64>| {
            let mut incoming = Incoming { since: Some(now), ..incoming(11) };
            incoming.early.insert(12, came(12, now).1);
            given_up.iter().for_each(|number| incoming.on_given_up(*number));
            word.into_iter().for_each(|number| incoming.on_word(number));
            due_of(incoming, now)
        };
        assert_eq!(of(&[], None), []);
        assert_eq!(of(&[11], None), [(1, false)], "13 and 14 may come");
        assert_eq!(of(&[13, 11, 14], None), [(1, false), (2, false)]);
        assert_eq!(of(&[11, 14], Some(13)), [(1, false), (1, false)], "13 is no message");
        // It is here, or was, though its sender does not know; or it comes all the same.
        assert_eq!(of(&[10, 12, 15], None), []);
        let mut incoming = incoming(11);
        incoming.on_given_up(11);
        assert_eq!((incoming.advance(12), incoming.given_up.len()), (1, 0));
        let mut unordered = Incoming { is_ordered: false, ..incoming };
        unordered.on_given_up(20);
        assert!(unordered.given_up.is_empty());
    }

    #[test]
    fn frames_behind_a_gap_wait_unless_nothing_can_fill_it() {
        let now = Instant::now();
        let of = |end, newest: Option<u64>| {
            let mut incoming = Incoming { since: Some(now), end, ..incoming(11) };
            incoming.early.extend(newest.map(|newest| came(newest, now)));
            due_of(incoming, now)
        };
        assert_eq!(of(None, None), []);
        assert_eq!(of(None, Some(11 + FAR)), [], "11 may still be under way");
        assert_eq!(of(None, Some(12 + FAR)), [(1, false)], "11 is not, and 13 may be");
        assert_eq!(of(Some(16), None), [(1, false), (2, false)], "nothing comes behind the end");
        let patient = || Incoming { since: Some(now), ..incoming(11) };
        assert_eq!(due_of(patient(), now + PATIENCE), [(1, false)]);
        assert_eq!(
            due_of(patient(), now + PATIENCE + APART),
            [(1, false), (2, false)],
            "each waits as long as it is worth it"
        );
        let gone = Incoming { gone: Some(Error::Timeout), ..patient() };
        assert_eq!(due_of(gone, now), [(1, false), (2, false)], "nothing comes of who is gone");
    }

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Woken(AtomicU32);

    impl std::task::Wake for Woken {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn an_event_loop_is_woken_though_the_alarm_came_while_it_looked() {
        let woken = std::sync::Arc::new(Woken::default());
        let times = || woken.0.load(Ordering::Relaxed);
        let begin = Instant::now();
        let mut incoming = Incoming { since: Some(begin), patience: Duration::from_millis(20), ..incoming(11) };
        let set =
            |incoming: &mut Incoming, now| incoming.set_alarm(now, || Some(Waker::from(std::sync::Arc::clone(&woken))));
        set(&mut incoming, begin);
        while times() == 0 {
            assert!(begin.elapsed() < Duration::from_secs(10), "the alarm comes");
            std::thread::sleep(Duration::from_millis(1));
        }
        // Its sign was cleared by whoever looked, and found nothing due yet.
        set(&mut incoming, Instant::now());
        assert_eq!(times(), 2);
    }

    #[test]
    fn what_is_missing_before_the_end_are_messages() {
        let mut incoming = incoming(10);
        assert_eq!(incoming.missing(), 0);
        incoming.on_word(12);
        incoming.end = Some(15);
        incoming.on_word(15);
        assert_eq!(incoming.missing(), 4, "10, 11, 13 and 14");
        incoming.unheard = 2;
        assert_eq!(incoming.missing(), 2);
        incoming.advance(15);
        assert_eq!((incoming.next, incoming.missing()), (Some(16), 0));
        assert_eq!(Incoming { is_ordered: false, next: Some(3), ..incoming }.missing(), 0);
    }
}

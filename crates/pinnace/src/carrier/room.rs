//! How much may be under way of methods that queue whatever they are given: so much memory is had for a peer that is slow.

use super::{Sending, Special};
use crate::{Error, Message, Unsent};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Messages under way. VRP itself has a limit of twice as many.
const MOST_MESSAGES: usize = 2048;
/// Their bytes; one message goes alone, however long it is.
const MOST_BYTES: u64 = 64 << 20;

/// Who waits for room looks so often whether the peer has broken off.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// When whoever sends looks whether the peer has broken off.
#[derive(Debug)]
pub(super) struct Looks {
    epoch: Instant,
    /// In milliseconds from then on.
    next: AtomicU64,
    /// The peer has ended what it sends. It may break off what we send all the same, and nobody receives that any more.
    has_heard_end: AtomicBool,
}

impl Looks {
    pub(super) fn new() -> Self {
        Self {
            epoch: Instant::now(),
            next: AtomicU64::new(LOOK.as_millis() as u64),
            has_heard_end: AtomicBool::new(false),
        }
    }

    pub(super) fn has_heard_end(&self) -> bool {
        self.has_heard_end.load(Ordering::Relaxed)
    }

    pub(super) fn hear(&self, is_end: bool) {
        self.has_heard_end.fetch_or(is_end, Ordering::Relaxed);
    }

    /// `look`s for whoever has `waited`, if it is time: what the peer says behind its end nobody receives; whoever waits may
    /// be the only one who is about; and whoever only sends would hear of a break when nobody has answered for long.
    pub(super) fn check(&self, waited: Duration, look: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        if !waited.is_zero() || self.has_heard_end() || self.is_due() { look() } else { Ok(()) }
    }

    /// Whether [`LOOK`] is over; then it is not again for as long.
    fn is_due(&self) -> bool {
        let (now, next) = (self.epoch.elapsed().as_millis() as u64, self.next.load(Ordering::Relaxed));
        now >= next
            && self
                .next
                .compare_exchange(next, now + LOOK.as_millis() as u64, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

/// What is under way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UnderWay {
    pub(crate) messages: usize,
    pub(crate) bytes: u64,
}

impl UnderWay {
    /// A message of so many bytes has begun.
    pub(crate) fn begin(&mut self, len: usize) {
        self.messages += 1;
        self.bytes += len as u64;
    }

    /// One has ended.
    pub(crate) fn end(&mut self, len: usize) {
        self.messages = self.messages.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(len as u64);
    }

    /// Whether another one of so many bytes may begin.
    pub(crate) fn has_room(self, len: usize) -> bool {
        self.messages == 0 || (self.messages < MOST_MESSAGES && self.bytes + len as u64 <= MOST_BYTES)
    }
}

/// A carrier that takes a message at once, or says that there is no room.
pub(super) trait Bounded {
    /// Queues a message for which its sender has `waited`. Without room it is given back, with an error that
    /// [`Error::would_block`] knows.
    fn begin(&self, message: Message, special: Option<&Special>, waited: Duration) -> Result<Sending, Unsent>;

    /// Waits until there is room for so many bytes, or never will be, or it is so late.
    fn wait_for_room(&self, len: usize, until: Instant) -> Result<(), Error>;

    /// The same, for tasks, and for [`LOOK`].
    fn wait_for_room_async(&self, len: usize) -> impl Future<Output = Result<(), Error>> + Send;

    /// Reads what has arrived, without waiting.
    fn progress(&self) -> Result<(), Error>;
}

/// The message of a call that found no room; otherwise what the call has found.
fn unless_full(begun: Result<Sending, Unsent>) -> Result<Result<Sending, Unsent>, Message> {
    match begun {
        Err(Unsent { message: Some(message), error }) if error.would_block() => Err(message),
        begun => Ok(begun),
    }
}

/// Waits for room, until the deadline. Every [`LOOK`] [`Bounded::begin`] finds out whether the peer has broken off.
pub(super) fn send(
    to: &impl Bounded,
    mut message: Message,
    special: Option<&Special>,
    deadline: Option<Instant>,
) -> Result<Sending, Unsent> {
    let (mut since, mut waited) = (None, Duration::ZERO);
    loop {
        message = match unless_full(to.begin(message, special, waited)) {
            Ok(begun) => return begun,
            Err(message) => message,
        };
        let now = Instant::now();
        let since = *since.get_or_insert(now);
        if deadline.is_some_and(|deadline| deadline <= now) {
            return Err(Unsent::new(message, Error::Timeout));
        }
        let until = deadline.map_or(now + LOOK, |deadline| deadline.min(now + LOOK));
        if let Err(error) = to.wait_for_room(message.len(), until) {
            return Err(Unsent::new(message, error));
        }
        waited = since.elapsed();
    }
}

/// Does not wait.
pub(super) fn try_send(to: &impl Bounded, message: Message, special: Option<&Special>) -> Result<Sending, Unsent> {
    let message = match unless_full(to.begin(message, special, Duration::ZERO)) {
        Ok(begun) => return begun,
        Err(message) => message,
    };
    // What has been acknowledged meanwhile makes room.
    if let Err(error) = to.progress() {
        return Err(Unsent::new(message, error));
    }
    to.begin(message, special, Duration::ZERO)
}

/// Waits for room, as a task.
pub(super) async fn send_async(
    to: &impl Bounded,
    mut message: Message,
    special: Option<&Special>,
) -> Result<Sending, Unsent> {
    let (mut since, mut waited) = (None, Duration::ZERO);
    loop {
        message = match unless_full(to.begin(message, special, waited)) {
            Ok(begun) => return begun,
            Err(message) => message,
        };
        let since = *since.get_or_insert_with(Instant::now);
        if let Err(error) = to.wait_for_room_async(message.len()).await {
            return Err(Unsent::new(message, error));
        }
        waited = since.elapsed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_always_goes_and_more_have_a_limit() {
        let mut under_way = UnderWay::default();
        assert!(under_way.has_room(1 << 30));
        under_way.begin(1 << 30);
        assert!(!under_way.has_room(0) && !under_way.has_room(1));
        under_way.end(1 << 30);
        for _ in 0..MOST_MESSAGES {
            assert!(under_way.has_room(100));
            under_way.begin(100);
        }
        assert!(!under_way.has_room(0));
        under_way.end(100);
        assert!(under_way.has_room(100) && !under_way.has_room(64 << 20));
    }
}

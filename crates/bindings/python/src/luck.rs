//! Whether the thread of an event loop looks for a message itself.
//!
//! A loop hears of a message by way of the library's background thread, which costs a wake-up more than a socket does. Where
//! messages answer each other, the next is so near that the loop's thread does better to wait for it itself, as a thread does.
//!
//! Always true: a look is short, and so is all of them together where they were in vain lately; so a loop with other things to
//! do, or with connections on which little comes, is not held up.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Luck {
    /// 0 to [`MOST`]; halved by every look in vain.
    score: AtomicU32,
    calls: AtomicU32,
    /// How long a look that was not in vain took, in microseconds, on average.
    took: AtomicU32,
    /// When the loop had its last turn between two looks.
    turn: Mutex<Instant>,
}

const MOST: u32 = 16;
const ENOUGH: u32 = 4;
/// One of so many calls looks although there was no luck lately.
const CURIOUS: u32 = 32;
/// The shortest and the longest look, in microseconds.
const LOOKS: (u32, u32) = (100, 500);
/// So often the other tasks of a loop have their turn, although every look brings something.
const TURN: Duration = Duration::from_millis(1);

impl Luck {
    /// A connection that is new may look once.
    pub(crate) fn new() -> Self {
        Self {
            score: AtomicU32::new(ENOUGH),
            calls: AtomicU32::new(0),
            took: AtomicU32::new(LOOKS.0),
            turn: Mutex::new(Instant::now()),
        }
    }

    /// How long to look, if at all.
    pub(crate) fn look(&self) -> Option<Duration> {
        let is_worth_it = self.score.load(Ordering::Relaxed) >= ENOUGH
            || self.calls.fetch_add(1, Ordering::Relaxed) % CURIOUS == CURIOUS - 1;
        let look = self.took.load(Ordering::Relaxed).saturating_mul(2).clamp(LOOKS.0, LOOKS.1);
        is_worth_it.then(|| Duration::from_micros(look.into()))
    }

    /// Something has come after so long. Whether it is the turn of the other tasks.
    pub(crate) fn has(&self, after: Duration) -> bool {
        let (score, took) = (self.score.load(Ordering::Relaxed), self.took.load(Ordering::Relaxed));
        let after = u32::try_from(after.as_micros()).unwrap_or(u32::MAX).min(LOOKS.1);
        self.score.store((score + 2).min(MOST), Ordering::Relaxed);
        self.took.store((3 * took + after) / 4, Ordering::Relaxed);
        let (mut turn, now) = (self.turn.lock().unwrap_or_else(PoisonError::into_inner), Instant::now());
        let is_turn = now.duration_since(*turn) >= TURN;
        if is_turn {
            *turn = now;
        }
        is_turn
    }

    /// Nothing has come.
    pub(crate) fn has_not(&self) {
        self.score.store(self.score.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
        let took = self.took.load(Ordering::Relaxed);
        self.took.store((2 * took).clamp(LOOKS.0, LOOKS.1), Ordering::Relaxed);
    }
}

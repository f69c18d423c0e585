//! Whether a peer has answered long after its end: then it was there still, and one that falls silent later has not just closed.
//!
//! Always true: what was under way when the end came, or shortly after, is no proof.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// By then nothing is under way any more that the peer said before it went.
const CROSSING: Duration = Duration::from_secs(1);

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct AfterEnd {
    /// When somebody here received the end.
    received: OnceLock<Instant>,
    /// How far the answers had come when nothing was under way any more.
    answers: OnceLock<u64>,
    has_answered: AtomicBool,
}

impl AfterEnd {
    /// Somebody has received the end.
    pub(super) fn begin(&self, now: Instant) {
        self.received.get_or_init(|| now);
    }

    /// Something is sent. `answers` says how far the answers have come, as far as that is known.
    pub(super) fn look(&self, now: Instant, answers: impl FnOnce() -> Option<u64>) {
        let Some(received) = self.received.get() else { return };
        if self.has_answered() || now.saturating_duration_since(*received) < CROSSING {
            return;
        }
        if let Some(answers) = answers()
            && *self.answers.get_or_init(|| answers) != answers
        {
            self.has_answered.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn has_begun(&self) -> bool {
        self.received.get().is_some()
    }

    pub(super) fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_to_what_was_sent_well_after_the_end_prove_that_the_peer_is_there() {
        let (end, begin) = (AfterEnd::default(), Instant::now());
        let look = |ms, answers| {
            end.look(begin + Duration::from_millis(ms), || answers);
            end.has_answered()
        };
        assert!(!look(0, Some(1)) && !look(5000, Some(2)), "there was no end");
        end.begin(begin + Duration::from_secs(5));
        assert!(!look(5900, Some(3)) && !look(6100, None) && !look(6200, Some(4)), "that was under way");
        assert!(!look(9000, Some(4)), "nobody has answered");
        assert!(look(9100, Some(5)) && look(9200, None));
    }
}

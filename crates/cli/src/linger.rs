//! How a listener ends that has everything: an acknowledgement may be lost, and who does not get it asks again.

use crate::exit::Error;
use crate::interrupt;
use std::time::{Duration, Instant};

/// How long to answer senders that do not say that they know, and send nothing: theirs were lost, or they are gone.
pub(crate) const LINGER: Duration = Duration::from_secs(1);
/// How long to answer those that go on sending.
const LINGER_AT_MOST: Duration = Duration::from_secs(5);
/// How often to look whether they do.
const STEP: Duration = Duration::from_millis(5);

/// Goes on answering senders that may not know that their last has arrived, until for so long, as `patience` says now, there was
/// nothing that shows that they do not; `repeated` counts that.
pub(crate) fn while_repeated(patience: impl Fn() -> Duration, repeated: impl Fn() -> u64) -> Result<(), Error> {
    let begun = Instant::now();
    let mut silence = Silence::default();
    while silence.goes_on(begun.elapsed(), repeated(), patience()) {
        interrupt::check()?;
        std::thread::sleep(STEP);
    }
    Ok(())
}

/// The wait for senders that may not know yet.
#[derive(Default)]
struct Silence {
    repeated: u64,
    since: Duration,
}

impl Silence {
    /// Whether to wait longer, after so long, and after so many repetitions.
    fn goes_on(&mut self, waited: Duration, repeated: u64, patience: Duration) -> bool {
        if repeated != self.repeated {
            (self.repeated, self.since) = (repeated, waited);
        }
        waited < (self.since + patience).min(LINGER_AT_MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_still_repeats_is_answered_for_a_second_more_and_five_at_most() {
        let at = |silence: &mut Silence, ms, repeated| silence.goes_on(Duration::from_millis(ms), repeated, LINGER);
        let mut silence = Silence::default();
        assert!(at(&mut silence, 0, 7) && at(&mut silence, 999, 7) && !at(&mut silence, 1000, 7));
        let mut silence = Silence::default();
        assert!(at(&mut silence, 0, 7) && at(&mut silence, 900, 8));
        assert!(at(&mut silence, 1899, 8) && !at(&mut silence, 1900, 8));
        let mut silence = Silence::default();
        assert!((0..5000).all(|ms| at(&mut silence, ms, ms)) && !at(&mut silence, 5000, 5000));
    }
}

//! What is left to do for an endpoint that has no streams any more.
//!
//! Always true: streams that were closed are driven to their ends as long as something of them gets through, and resets are said
//! as often as they are; when the endpoint goes, the last ends are said a few times more, as nobody acknowledges the last word,
//! and nobody is left later to be asked for it.

use pinnace::qmp::{Endpoint, Progress};
use std::time::{Duration, Instant};

/// How often it is looked whether closed streams have ended.
const LOOK: Duration = Duration::from_millis(5);
/// How long an endpoint waits for the next stream that is opened to its peer.
const REST: Duration = Duration::from_secs(10);

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub(super) enum Leaving {
    /// Streams that were closed come to their ends.
    Ends { progress: Progress, look_at: Instant },
    /// It may be wanted again until then.
    Rests { until: Instant },
    /// The ends have been said again so often, and are the next time then.
    Partings { said: u32, at: Instant },
    /// Everything has been said.
    Over,
}

impl Leaving {
    pub(super) fn begin(now: Instant) -> Self {
        Self::Ends { progress: Progress::begin(now), look_at: now }
    }

    /// When it goes on.
    pub(super) fn next(&self) -> Option<Instant> {
        match *self {
            Self::Ends { look_at: at, .. } | Self::Partings { at, .. } | Self::Rests { until: at } => Some(at),
            Self::Over => None,
        }
    }

    /// Whether the companion stays for this.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Self::Ends { .. } | Self::Partings { .. })
    }

    /// Goes on. `rests`: the endpoint may be wanted again, and so waits a while.
    pub(super) fn go_on(self, endpoint: &Endpoint, rests: bool, now: Instant) -> Self {
        let part = |said: u32| match endpoint.say_ends(said) {
            Some(wait) => Self::Partings { said: said + 1, at: now + wait },
            None => Self::Over,
        };
        match self {
            Self::Ends { .. } if endpoint.is_quiet() => {
                if rests {
                    Self::Rests { until: now + REST }
                } else {
                    part(0)
                }
            }
            Self::Ends { mut progress, .. } => match progress.stands_still(endpoint, now) {
                false => Self::Ends { progress, look_at: now + LOOK },
                true => Self::Over,
            },
            Self::Rests { until } if until <= now => part(0),
            Self::Partings { said, at } if at <= now => part(said),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinnace::qmp::{Listener, Options};

    /// The last ends are said again three times, as often as [`Endpoint::part`] does it; fewer times, if all this takes long.
    #[test]
    fn the_ends_are_said_again_three_times() {
        let listener = Listener::bind("127.0.0.1:0", &Options::default()).unwrap();
        let options = Options { worker: false, ..Options::default() };
        let endpoint = Endpoint::client_of(listener.local_addr(), &options).unwrap();
        let stream = endpoint.connect(listener.local_addr()).unwrap();
        drop(listener.accept().unwrap());
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        drop(stream);
        let (mut leaving, mut now, mut said) = (Leaving::begin(Instant::now()), Instant::now(), 0);
        while !matches!(leaving, Leaving::Over) {
            let before = endpoint.counters().statuses_sent;
            leaving = leaving.go_on(&endpoint, false, now);
            match leaving {
                Leaving::Ends { .. } => {
                    std::thread::sleep(LOOK);
                    now = Instant::now();
                    continue;
                }
                Leaving::Partings { at, .. } => now = at,
                _ => {}
            }
            said += endpoint.counters().statuses_sent - before;
        }
        assert!(said <= 3, "{said} times");
    }
}

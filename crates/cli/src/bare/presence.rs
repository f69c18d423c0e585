//! Whether anybody is at the other end at all, as far as the network says.
//!
//! Always true: anybody can forge such a report, so it ends no conversation, only the wait of a command to which nobody has
//! ever answered. (To the protocols themselves it means nothing, or less: ZCRP and VRP count it, Z-19 and V-S4.)

use crate::exit::Error;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// A listener that the same script has started may not have begun before.
const GRACE: Duration = Duration::from_secs(1);
/// A listener of ZCRP may serve one sender only, and to all others its port is closed meanwhile.
const TURN: Duration = Duration::from_secs(2);

/// Nobody is at `to`; `what` of it is closed, and `listener` should run there.
pub(crate) fn nobody(to: &str, what: &str, listener: &str) -> Error {
    Error::peer_gone(format!("nobody answers at {to}: its {what} is closed; start `pinnace {listener}` there"))
}

/// A wait for the first answer.
pub(crate) struct Presence<'a> {
    to: &'a str,
    listener: &'a str,
    /// The options by which it serves one sender only, if it has such.
    turns: Option<&'a str>,
    begun: Instant,
    /// Reports that came too early to be believed.
    early: Cell<u64>,
}

impl<'a> Presence<'a> {
    /// The wait begins. `listener` is the command that should run at `to`.
    pub(crate) fn new(to: &'a str, listener: &'a str) -> Self {
        Self { to, listener, turns: None, begun: Instant::now(), early: Cell::new(0) }
    }

    /// The same, where the listener may be serving somebody else, and nobody but him with these options.
    pub(crate) fn of_turns(to: &'a str, listener: &'a str, options: &'a str) -> Self {
        Self { turns: Some(options), ..Self::new(to, listener) }
    }

    /// Fails if nobody is there: `reports` say so, and nothing `is_heard`. To be called every
    /// [`LOOK`](crate::interrupt::LOOK).
    pub(crate) fn look(&self, reports: u64, is_heard: bool) -> Result<(), Error> {
        self.look_at(self.begun.elapsed(), reports, is_heard)
    }

    fn look_at(&self, waited: Duration, reports: u64, is_heard: bool) -> Result<(), Error> {
        if waited < if self.turns.is_some() { TURN } else { GRACE } {
            self.early.set(reports);
        } else if reports > self.early.get() && !is_heard {
            return Err(self.nobody());
        }
        Ok(())
    }

    /// What to say when the time is over and nothing was heard: that nobody is there, if any of the `reports` say so, however
    /// early they came, and else that there was `no_answer`.
    pub(crate) fn silent(&self, reports: u64, no_answer: impl Into<String>) -> Error {
        if reports > 0 { self.nobody() } else { Error::peer_gone(no_answer) }
    }

    /// Nobody is there.
    pub(crate) fn nobody(&self) -> Error {
        let Error { exit, message } = nobody(self.to, "UDP port", self.listener);
        let busy = self.turns.map_or_else(String::new, |options| {
            format!(", or wait until it is done with another sender, if it serves one only ({options})")
        });
        Error::new(exit, format!("{message}{busy}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    #[test]
    fn only_late_reports_of_who_was_never_heard_are_believed() {
        let presence = Presence::new("h:1", "recv");
        let at = |ms, reports, is_heard| presence.look_at(Duration::from_millis(ms), reports, is_heard);
        assert!(at(0, 0, false).is_ok() && at(900, 2, false).is_ok(), "it may be about to begin");
        assert!(at(1100, 2, false).is_ok(), "nothing new");
        assert!(at(1200, 3, true).is_ok(), "it has answered");
        let error = at(1300, 3, false).unwrap_err();
        assert!(error.message.contains("h:1") && error.message.contains("pinnace recv"), "{error}");
        assert!(!error.message.contains("another sender"), "{error}");
        // Once the time is over there is nothing better to go by.
        assert!(presence.silent(1, "no answer").message.contains("nobody answers at h:1"));
        let unreachable = presence.silent(0, "no answer");
        assert_eq!((unreachable.exit, &*unreachable.message), (Exit::PeerGone, "no answer"));
        let presence = Presence::of_turns("h:1", "recv", "--once, --capture");
        let at = |ms, reports| presence.look_at(Duration::from_millis(ms), reports, false);
        assert!(at(1900, 5).is_ok(), "it may be busy");
        assert!(at(2100, 6).unwrap_err().message.contains("another sender"));
    }
}

//! Who may send again when, where that has to be exact: a tick of the [wheel](crate::TimerWheel) is a packet's time and more at
//! high rates, and a small burst has no room for what is earned meanwhile.
//!
//! Always true: whoever says each time what it said before has one turn at most.

use crate::{ContextKey, Time};
use std::collections::BTreeSet;

/// Who may send again when, one turn a context, the earliest first: exact where a tick of the [wheel](crate::TimerWheel) is too
/// coarse.
///
/// ```
/// use pinnace_core::{ContextTable, KeyLayout, Time, Turns};
/// let mut contexts = ContextTable::new(KeyLayout::A1, 10);
/// let key = contexts.insert((), 1).expect("room");
/// let at = Time::from_nanos;
/// let mut turns = Turns::default();
/// turns.change(key, None, Some(at(20)));
/// turns.change(key, Some(at(20)), Some(at(10)));
/// assert_eq!(turns.first(), Some((at(10), key)));
/// assert_eq!((turns.pop_due(at(9)), turns.pop_due(at(10)), turns.first()), (None, Some(key), None));
/// ```
#[derive(Debug, Default)]
pub struct Turns(BTreeSet<(Time, ContextKey)>);

impl Turns {
    /// The turn of `key` was to come at `before`, and comes at `until`.
    pub fn change(&mut self, key: ContextKey, before: Option<Time>, until: Option<Time>) {
        if before == until {
            return;
        }
        if let Some(at) = before {
            self.0.remove(&(at, key));
        }
        if let Some(at) = until {
            self.0.insert((at, key));
        }
    }

    /// Whether the turn of `key` comes at `at`.
    pub fn has(&self, key: ContextKey, at: Time) -> bool {
        self.0.contains(&(at, key))
    }

    /// Whose turn is next, and when.
    pub fn first(&self) -> Option<(Time, ContextKey)> {
        self.0.first().copied()
    }

    /// One whose turn has come.
    pub fn pop_due(&mut self, now: Time) -> Option<ContextKey> {
        let (at, _) = self.first()?;
        if at <= now { self.0.pop_first().map(|(_, key)| key) } else { None }
    }
}

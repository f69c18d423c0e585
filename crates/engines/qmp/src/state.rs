//! The states of a context (paper, figure 1).

use pinnace_xtp::{ContextId, Xtp};

/// Where an association stands, as the paper's figure 1 draws it. A listening socket keeps listening and every FIRST that
/// matches makes a context, which is active from then on.
//= Q-4
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// There is nothing, or nothing any more: no association was begun, or END has dissolved it.
    Quiescent,
    /// A user waits for a FIRST.
    Listening,
    /// At least one of the two streams is open.
    Active,
    /// Both streams are closed, and END has not yet passed.
    Inactive,
}

impl State {
    /// The state of a context that was opened or accepted.
    pub fn of(engine: &Xtp, context: ContextId) -> Self {
        match engine.facts(context) {
            None => Self::Quiescent,
            Some(facts) if facts.is_over || facts.is_in_time_wait => Self::Quiescent,
            Some(facts) if facts.is_sent_whole && facts.is_received_whole => Self::Inactive,
            Some(_) => Self::Active,
        }
    }
}

impl core::fmt::Display for State {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Quiescent => "quiescent",
            Self::Listening => "listening",
            Self::Active => "active",
            Self::Inactive => "inactive",
        })
    }
}

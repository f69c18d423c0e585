//! What comes while somebody waits, and is nothing for him: however much of it there is, a thread waits no longer than it
//! wants, and a task lets others have their turn.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Instant;

/// Reads before others have their turn, or it is looked what time it is.
pub(crate) const MOST_READS: usize = 64;

/// Counts it. See the [module](self).
#[derive(Default)]
pub(crate) struct InVain(usize);

impl InVain {
    /// One more: whether it is time to look at something else.
    pub(super) fn is_enough(&mut self) -> bool {
        self.0 += 1;
        self.0.is_multiple_of(MOST_READS)
    }

    /// One more: whether it is time to look at something else, and the deadline has passed. What is behind it may be what was
    /// waited for, and has to be told to whoever sleeps on a descriptor.
    pub(super) fn is_over(&mut self, deadline: Option<Instant>) -> bool {
        self.is_enough() && deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    /// One more, for tasks: lets others have their turn when it is time to, and says so.
    pub(crate) async fn pass(&mut self) -> bool {
        if !self.is_enough() {
            return false;
        }
        let mut has_waited = false;
        poll_fn(|context| {
            if has_waited {
                return Poll::Ready(());
            }
            has_waited = true;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        true
    }
}

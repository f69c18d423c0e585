//! The engine, and the groups that it wants to be joined.
//!
//! Always true: every [`Event::Join`] is answered, with the next turn of the driver, and never reaches the application; a
//! group that was joined is left with its [`Event::Leave`].
//= A-15

use super::groups::Groups;
use pinnace_a1::{A1, ConnectionId, Event, Group};
use pinnace_core::{Engine, PathEvent, Placed, PollAt, ReceivePlan, RxMeta, Time, Train};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Node {
    engine: A1,
    groups: Groups,
    /// Joins that have been tried, and what came of it.
    answers: Vec<(ConnectionId, Group, bool)>,
}

impl Node {
    pub(super) fn new(engine: A1, groups: Groups) -> Self {
        Self { engine, groups, answers: Vec::new() }
    }

    /// Whether groups are joined at all.
    pub(super) fn joins(&self) -> bool {
        self.groups.joins()
    }

    /// Answers the joins that have been tried: connections that waited for that are open then.
    #[inline]
    pub(super) fn answer(&mut self, now: Time) {
        if !self.answers.is_empty() {
            for (connection, group, has_joined) in self.answers.drain(..) {
                // Whoever wanted it may be gone by now.
                if !self.engine.answer_join(now, connection, has_joined) && has_joined {
                    self.groups.leave(group.socket());
                }
            }
        }
    }
}

impl Deref for Node {
    type Target = A1;

    fn deref(&self) -> &A1 {
        &self.engine
    }
}

impl DerefMut for Node {
    fn deref_mut(&mut self) -> &mut A1 {
        &mut self.engine
    }
}

impl Engine for Node {
    type Event = Event;

    fn handle_datagrams(&mut self, now: Time, meta: &RxMeta, rx: &mut Placed<'_>) {
        self.answer(now);
        self.engine.handle_datagrams(now, meta, rx);
    }

    fn handle_timeout(&mut self, now: Time) {
        self.answer(now);
        self.engine.handle_timeout(now);
    }

    fn handle_path_event(&mut self, now: Time, event: PathEvent) {
        self.engine.handle_path_event(now, event);
    }

    fn handle_hold(&mut self, held: bool) {
        self.engine.handle_hold(held);
    }

    fn plan_receive(&self, plan: &mut ReceivePlan) {
        self.engine.plan_receive(plan);
    }

    fn poll_transmit(&mut self, now: Time, train: &mut Train) -> bool {
        self.engine.poll_transmit(now, train)
    }

    fn handle_left(&mut self, now: Time) {
        self.engine.handle_left(now);
    }

    fn poll_at(&self) -> PollAt {
        if self.answers.is_empty() { self.engine.poll_at() } else { PollAt::Now }
    }

    fn bears(&self, late: Duration) -> bool {
        self.engine.bears(late)
    }

    fn poll_event(&mut self) -> Option<Event> {
        loop {
            match self.engine.poll_event()? {
                Event::Join { connection, group } => {
                    let has_joined = self.groups.join(group.socket());
                    self.answers.push((connection, group, has_joined));
                }
                Event::Leave { group } => self.groups.leave(group.socket()),
                event => return Some(event),
            }
        }
    }
}

//! What has come for a listener, and was not taken.
//!
//! Always true: whoever has shown that they are there wait for at most one each of those who came before and have not, so that
//! packets in the names of others keep nobody waiting; in the order in which they came, otherwise. Nothing is searched.

use pinnace_runtime::WakeFd;
use std::collections::VecDeque;
use std::sync::Arc;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Backlog<T> {
    /// What waits, by turns. Those in the middle may be taken; the first is not.
    waiting: VecDeque<Option<T>>,
    /// The turn of the first of them.
    first: u64,
    len: usize,
    /// Turns of those that have shown that they are there; some may be taken.
    shown: VecDeque<u64>,
    /// The last that was taken had shown it: now it is the first one's turn.
    is_first_next: bool,
    /// Signalled when something has come.
    watch: Option<Arc<WakeFd>>,
}

impl<T> Default for Backlog<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), first: 0, len: 0, shown: VecDeque::new(), is_first_next: false, watch: None }
    }
}

impl<T> Backlog<T> {
    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// `watch` is signalled from now on when something comes, and at once if something has.
    pub(super) fn watch(&mut self, watch: Arc<WakeFd>) {
        if !self.is_empty() {
            watch.signal();
        }
        self.watch = Some(watch);
    }

    /// Something has come: its turn.
    pub(super) fn push(&mut self, arrival: T) -> u64 {
        self.waiting.push_back(Some(arrival));
        self.len += 1;
        if let Some(watch) = &self.watch {
            watch.signal();
        }
        self.first + self.waiting.len() as u64 - 1
    }

    /// Who waits at this turn, if they still do, have shown that they are there.
    pub(super) fn show(&mut self, turn: u64) {
        if self.slot(turn).is_some_and(|slot| slot.is_some()) {
            self.shown.push_back(turn);
        }
    }

    /// Takes what comes next.
    pub(super) fn take(&mut self) -> Option<T> {
        let shown = if self.is_first_next { None } else { self.take_shown() };
        self.is_first_next = shown.is_some();
        let taken = shown.or_else(|| self.slot(self.first).and_then(Option::take))?;
        self.len -= 1;
        while self.waiting.pop_front_if(|slot| slot.is_none()).is_some() {
            self.first += 1;
        }
        Some(taken)
    }

    fn take_shown(&mut self) -> Option<T> {
        while let Some(turn) = self.shown.pop_front() {
            if let Some(taken) = self.slot(turn).and_then(Option::take) {
                return Some(taken);
            }
        }
        None
    }

    fn slot(&mut self, turn: u64) -> Option<&mut Option<T>> {
        self.waiting.get_mut(usize::try_from(turn.checked_sub(self.first)?).ok()?)
    }

    /// All that wait.
    pub(super) fn into_waiting(self) -> impl Iterator<Item = T> {
        self.waiting.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_come_first_is_taken_first() {
        let mut backlog = Backlog::default();
        let turns: Vec<u64> = (0..3).map(|number| backlog.push(number)).collect();
        assert_eq!((turns, backlog.len()), (vec![0, 1, 2], 3));
        assert_eq!((backlog.take(), backlog.take()), (Some(0), Some(1)));
        assert_eq!((backlog.push(3), backlog.len()), (3, 2));
        assert_eq!((backlog.take(), backlog.take(), backlog.take()), (Some(2), Some(3), None));
        assert!(backlog.is_empty());
    }

    #[test]
    fn who_is_there_does_not_wait_for_all_who_may_not_be() {
        let mut backlog = Backlog::default();
        (0..1000).for_each(|number| {
            backlog.push(number);
        });
        let turns: Vec<u64> = (1000..1003).map(|number| backlog.push(number)).collect();
        turns.into_iter().for_each(|turn| backlog.show(turn));
        let taken: Vec<_> = std::iter::repeat_with(|| backlog.take()).take(7).flatten().collect();
        assert_eq!(taken, [1000, 0, 1001, 1, 1002, 2, 3], "nobody waits for ever");
        assert_eq!(backlog.len(), 1003 - 7);
        assert!(backlog.into_waiting().eq(4..1000));
    }

    #[test]
    fn those_who_were_taken_and_show_themselves_change_nothing() {
        let mut backlog = Backlog::default();
        let turns = [backlog.push('a'), backlog.push('b'), backlog.push('c')];
        backlog.show(turns[1]);
        backlog.show(turns[1]);
        assert_eq!(backlog.take(), Some('b'));
        assert_eq!(backlog.take(), Some('a'));
        backlog.show(turns[0]);
        backlog.show(turns[1]);
        backlog.show(99);
        assert_eq!((backlog.take(), backlog.take()), (Some('c'), None));
    }

    #[test]
    fn of_many_that_come_and_go_nothing_stays() {
        let mut backlog = Backlog::default();
        for number in 0..10_000 {
            let turn = backlog.push(number);
            backlog.show(turn);
            if number > 4 {
                assert!(backlog.take().is_some());
            }
        }
        assert!(backlog.len() == 5 && backlog.waiting.len() <= 10 && backlog.shown.len() <= 10, "{backlog:?}");
    }
}

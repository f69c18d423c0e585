//! What threads and tasks wait for, so that those are woken who are concerned.
//!
//! Thousands may wait on one endpoint, each for a connection of its own: to wake all for each datagram would cost many times what
//! the datagram does.
//!
//! Always true: topics fall into [`ROOMS`] rooms; whoever is in a room where something has happened is woken, and looks; who waits
//! for anything is woken whatever happens.

/// Rooms for topics, the one for those who wait for anything included.
pub(crate) const ROOMS: usize = 128;

/// What a thread or a task waits for: one of many things that happen independently, such as what one connection of an endpoint
/// does.
///
/// ```
/// use pinnace_runtime::{Concerned, Topic};
/// let mut concerned = Concerned::default();
/// concerned.add(Topic::of(7));
/// assert!(concerned.includes(Topic::of(7)) && concerned.includes(Topic::ANYTHING));
/// assert!(!concerned.includes(Topic::of(8)) && Concerned::EVERYBODY.includes(Topic::of(8)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Topic(u8);

impl Topic {
    /// Whatever happens.
    pub const ANYTHING: Self = Self(0);

    /// The topic of this number; a few numbers share one.
    pub const fn of(number: u64) -> Self {
        Self(1 + (number % (ROOMS as u64 - 1)) as u8)
    }

    pub(crate) const fn room(self) -> usize {
        self.0 as usize
    }
}

/// Whom it concerns that something has happened: those who wait for these topics, and for anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Concerned(u128);

impl Concerned {
    /// All who wait.
    pub const EVERYBODY: Self = Self(u128::MAX);

    /// Those who wait for this as well.
    pub const fn add(&mut self, topic: Topic) {
        self.0 |= 1 << topic.0;
    }

    /// Whether whoever waits for this is woken.
    pub const fn includes(self, topic: Topic) -> bool {
        topic.0 == Topic::ANYTHING.0 || self.0 >> topic.0 & 1 == 1
    }

    /// The rooms, of those `taken`, in which somebody is woken.
    pub(crate) fn rooms(self, taken: u128) -> impl Iterator<Item = usize> {
        let mut rest = (self.0 | 1) & taken;
        core::iter::from_fn(move || {
            let room = rest.trailing_zeros() as usize;
            rest &= rest.checked_sub(1)?;
            Some(room)
        })
    }
}

/// How many threads are in each room.
#[derive(Debug)]
pub(crate) struct Followers {
    counts: [u32; ROOMS],
    /// Rooms with somebody in them.
    taken: u128,
}

impl Default for Followers {
    fn default() -> Self {
        Self { counts: [0; ROOMS], taken: 0 }
    }
}

impl Followers {
    pub(crate) fn enter(&mut self, topic: Topic) {
        self.counts[topic.room()] += 1;
        self.taken |= 1 << topic.room();
    }

    pub(crate) fn leave(&mut self, topic: Topic) {
        self.counts[topic.room()] -= 1;
        if self.counts[topic.room()] == 0 {
            self.taken &= !(1 << topic.room());
        }
    }

    pub(crate) const fn taken(&self) -> u128 {
        self.taken
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// A room with somebody in it.
    pub(crate) fn any(&self) -> Option<usize> {
        (!self.is_empty()).then(|| self.taken.trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_are_those_of_the_topics_where_somebody_is() {
        let mut followers = Followers::default();
        let topics = [Topic::ANYTHING, Topic::of(0), Topic::of(5), Topic::of(126)];
        topics.iter().chain(&topics).for_each(|topic| followers.enter(*topic));
        let rooms = |concerned: Concerned, followers: &Followers| -> Vec<usize> {
            concerned.rooms(followers.taken()).collect()
        };
        assert_eq!(rooms(Concerned::EVERYBODY, &followers), [0, 1, 6, 127]);
        assert_eq!(rooms(Concerned::default(), &followers), [0]);
        let mut concerned = Concerned::default();
        [5, 6, 126 + 127].iter().for_each(|number| concerned.add(Topic::of(*number)));
        assert_eq!(rooms(concerned, &followers), [0, 6, 127]);
        followers.leave(Topic::of(5));
        assert_eq!(rooms(concerned, &followers), [0, 6, 127], "one is still there");
        followers.leave(Topic::of(5));
        assert_eq!(rooms(concerned, &followers), [0, 127]);
        topics.iter().chain(&topics).filter(|topic| **topic != Topic::of(5)).for_each(|topic| followers.leave(*topic));
        assert!(
            followers.is_empty() && followers.any().is_none() && rooms(Concerned::EVERYBODY, &followers).is_empty()
        );
    }
}

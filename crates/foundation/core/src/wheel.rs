//! A hierarchical timer wheel: timers by the million, each inserted, cancelled and fired in constant time.
//!
//! Time is cut into ticks. A level has 64 slots; a slot of level `l` spans `64^l` ticks, and a timer lies in the lowest
//! level whose slots still tell its tick from the present one: the level of the highest bit in which the two differ.
//! When time enters a slot of a higher level, its timers move down. A bitmap per level says which slots are occupied,
//! so finding the next is a matter of counting zeros. Timers live in a slab and are chained by index.
//!
//! Always true: a timer fires never early and at most one tick late; timers of one tick fire in the order in which they came
//! to it; a handle fires or cancels only the timer that it was given for; every occupied slot of every level lies
//! ahead of the present tick.
//= X-9
//= X-24

use crate::Time;

const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
/// Enough that 64-bit times fit at every tick length.
const LEVELS: usize = u64::BITS.div_ceil(SLOT_BITS) as usize;
/// No entry: ends chains.
const NONE: u32 = u32::MAX;
/// The slot number of an entry that is free.
const FREE: u16 = u16::MAX;

/// A timer in a [`TimerWheel`]. It stays valid, and does nothing, after the timer has fired or was cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TimerHandle {
    index: u32,
    generation: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry<K> {
    /// The tick at which it fires.
    tick: u64,
    next: u32,
    previous: u32,
    generation: u32,
    /// Level times 64 plus slot, or `FREE`.
    slot: u16,
    key: K,
}

/// One slot: a doubly linked chain of entries.
#[derive(Clone, Copy, Debug)]
struct Chain {
    first: u32,
    last: u32,
}

/// Timers, each with a `key` that says what it is for.
///
/// ```
/// use core::time::Duration;
/// use pinnace_core::{Time, TimerWheel};
/// let mut wheel = TimerWheel::new(Time::ZERO);
/// let life = wheel.insert(Time::ZERO + Duration::from_secs(5), "life");
/// wheel.insert(Time::ZERO + Duration::from_millis(200), "retransmit");
/// assert!(wheel.next_at() <= Some(Time::ZERO + Duration::from_millis(201)));
/// assert_eq!(wheel.poll_expired(Time::ZERO + Duration::from_secs(1)), Some("retransmit"));
/// assert_eq!(wheel.cancel(life), Some("life"));
/// assert_eq!(wheel.next_at(), None);
/// ```
#[derive(Clone, Debug)]
pub struct TimerWheel<K> {
    /// A tick is `2^tick_bits` nanoseconds.
    tick_bits: u32,
    /// The present tick: everything before it has fired.
    now: u64,
    entries: Vec<Entry<K>>,
    free: u32,
    len: usize,
    chains: Box<[Chain]>,
    /// Which slots of each level have timers.
    occupied: [u64; LEVELS],
    /// Which levels have timers.
    levels: u16,
    moves: u64,
}

impl<K: Copy> TimerWheel<K> {
    /// The default tick: 2^16 ns, about 66 µs.
    pub const DEFAULT_TICK_BITS: u32 = 16;

    /// An empty wheel at `now`, with the default tick.
    pub fn new(now: Time) -> Self {
        Self::with_tick(now, Self::DEFAULT_TICK_BITS)
    }

    /// An empty wheel at `now` whose tick is `2^tick_bits` nanoseconds (at most 2^32, about 4 s).
    pub fn with_tick(now: Time, tick_bits: u32) -> Self {
        let tick_bits = tick_bits.min(32);
        Self {
            tick_bits,
            now: now.as_nanos() >> tick_bits,
            entries: Vec::new(),
            free: NONE,
            len: 0,
            chains: vec![Chain { first: NONE, last: NONE }; LEVELS * SLOTS].into_boxed_slice(),
            occupied: [0; LEVELS],
            levels: 0,
            moves: 0,
        }
    }

    /// Sets a timer that fires at `at`, or as soon as possible if that is past.
    ///
    /// Whoever owns the wheel bounds how many timers there are; the wheel itself takes 2^32 - 1.
    pub fn insert(&mut self, at: Time, key: K) -> TimerHandle {
        let tick = self.tick_of(at);
        let index = match self.entries.get(self.free as usize) {
            Some(entry) => {
                let index = self.free;
                self.free = entry.next;
                index
            }
            None => {
                let index = u32::try_from(self.entries.len()).unwrap_or(NONE);
                assert!(index != NONE, "a timer wheel holds at most 2^32 - 1 timers");
                self.entries.push(Entry { tick, next: NONE, previous: NONE, generation: 0, slot: FREE, key });
                index
            }
        };
        let entry = &mut self.entries[index as usize];
        (entry.tick, entry.key) = (tick, key);
        let generation = entry.generation;
        self.len += 1;
        self.link(index);
        TimerHandle { index, generation }
    }

    /// Stops a timer and returns its key; `None` if it has fired or was cancelled.
    pub fn cancel(&mut self, handle: TimerHandle) -> Option<K> {
        self.find(handle)?;
        self.unlink(handle.index);
        Some(self.release(handle.index))
    }

    /// Moves a timer to `at`; false if it has fired or was cancelled. The handle stays the same.
    pub fn reschedule(&mut self, handle: TimerHandle, at: Time) -> bool {
        if self.find(handle).is_none() {
            return false;
        }
        let tick = self.tick_of(at);
        if self.entries[handle.index as usize].tick != tick {
            self.unlink(handle.index);
            self.entries[handle.index as usize].tick = tick;
            self.link(handle.index);
        }
        true
    }

    /// A lower bound of the moment at which the next timer fires, in constant time; `None` if there is none.
    ///
    /// Never later than the next timer, but for a timer far ahead it may be earlier: calling
    /// [`poll_expired`](Self::poll_expired) then moves timers closer and the bound with them. At most ten such calls
    /// come between setting a timer and its firing.
    pub fn next_at(&self) -> Option<Time> {
        self.next_slot().map(|(_, tick)| self.time_of(tick))
    }

    /// A timer that is due at `now`; it is gone. Call until nothing comes.
    pub fn poll_expired(&mut self, now: Time) -> Option<K> {
        let now = now.as_nanos() >> self.tick_bits;
        while let Some((slot, tick)) = self.next_slot().filter(|(_, tick)| *tick <= now) {
            self.now = tick;
            if slot < SLOTS {
                let index = self.chains[slot].first;
                self.unlink(index);
                return Some(self.release(index));
            }
            self.move_down(slot);
        }
        self.now = self.now.max(now);
        None
    }

    /// Calls `fire` with the key of every timer that is due at `now`.
    pub fn expire(&mut self, now: Time, fire: &mut impl FnMut(K)) {
        while let Some(key) = self.poll_expired(now) {
            fire(key);
        }
    }

    /// When the timer of `handle` fires, rounded up to a tick, if it is set.
    pub fn at(&self, handle: TimerHandle) -> Option<Time> {
        self.find(handle).map(|entry| self.time_of(entry.tick))
    }

    /// How many timers are set.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether no timer is set.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How often a timer has moved to a lower level: at most ten times each.
    pub const fn moves(&self) -> u64 {
        self.moves
    }

    /// The length of a tick in nanoseconds: no timer is later than that.
    pub const fn tick_nanos(&self) -> u64 {
        1 << self.tick_bits
    }

    /// The first tick at which `at` has passed, and not before the present one.
    fn tick_of(&self, at: Time) -> u64 {
        let nanos = at.as_nanos();
        let part = u64::from(nanos & (self.tick_nanos() - 1) != 0);
        ((nanos >> self.tick_bits) + part).max(self.now)
    }

    fn time_of(&self, tick: u64) -> Time {
        Time::from_nanos(tick.saturating_mul(self.tick_nanos()))
    }

    /// Where a timer of `tick` belongs at present.
    fn slot_of(&self, tick: u64) -> usize {
        let highest = u64::BITS - 1 - ((tick ^ self.now) | 1).leading_zeros();
        let level = highest / SLOT_BITS;
        level as usize * SLOTS + (tick >> (level * SLOT_BITS)) as usize % SLOTS
    }

    /// The occupied slot that comes first, and its first tick.
    fn next_slot(&self) -> Option<(usize, u64)> {
        if self.levels == 0 {
            return None;
        }
        // All of a lower level comes before anything of a higher one, and no slot before the present one is occupied.
        let level = self.levels.trailing_zeros();
        let slot = self.occupied[level as usize].trailing_zeros();
        let above = (level + 1) * SLOT_BITS;
        let prefix = if above < u64::BITS { self.now >> above << above } else { 0 };
        let tick = prefix | u64::from(slot) << (level * SLOT_BITS);
        Some((level as usize * SLOTS + slot as usize, tick))
    }

    /// Time has entered `slot` of a higher level: its timers go where they belong now.
    fn move_down(&mut self, slot: usize) {
        let mut index = self.chains[slot].first;
        self.chains[slot] = Chain { first: NONE, last: NONE };
        self.vacate(slot);
        while let Some(entry) = self.entries.get(index as usize) {
            let next = entry.next;
            self.link(index);
            self.moves += 1;
            index = next;
        }
    }

    fn link(&mut self, index: u32) {
        let slot = self.slot_of(self.entries[index as usize].tick);
        let last = self.chains[slot].last;
        let entry = &mut self.entries[index as usize];
        entry.slot = slot as u16;
        entry.previous = last;
        entry.next = NONE;
        match self.entries.get_mut(last as usize) {
            Some(last) => last.next = index,
            None => self.chains[slot].first = index,
        }
        self.chains[slot].last = index;
        self.occupied[slot / SLOTS] |= 1 << (slot % SLOTS);
        self.levels |= 1 << (slot / SLOTS);
    }

    fn unlink(&mut self, index: u32) {
        let Entry { next, previous, slot, .. } = self.entries[index as usize];
        let slot = usize::from(slot);
        match self.entries.get_mut(previous as usize) {
            Some(entry) => entry.next = next,
            None => self.chains[slot].first = next,
        }
        match self.entries.get_mut(next as usize) {
            Some(entry) => entry.previous = previous,
            None => self.chains[slot].last = previous,
        }
        if self.chains[slot].first == NONE {
            self.vacate(slot);
        }
    }

    fn vacate(&mut self, slot: usize) {
        let level = slot / SLOTS;
        self.occupied[level] &= !(1 << (slot % SLOTS));
        if self.occupied[level] == 0 {
            self.levels &= !(1 << level);
        }
    }

    fn find(&self, handle: TimerHandle) -> Option<&Entry<K>> {
        let entry = self.entries.get(handle.index as usize)?;
        (entry.generation == handle.generation && entry.slot != FREE).then_some(entry)
    }

    fn release(&mut self, index: u32) -> K {
        let entry = &mut self.entries[index as usize];
        entry.generation = entry.generation.wrapping_add(1);
        entry.slot = FREE;
        entry.next = self.free;
        self.free = index;
        self.len -= 1;
        entry.key
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;
    use core::time::Duration;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    #[test]
    fn timers_cascade_from_every_level_and_fire_on_their_tick() {
        let mut wheel = TimerWheel::with_tick(at(0), 0);
        let deadlines: Vec<u64> = (0..64).map(|bit| 1 << bit).chain([0, 63, 65, 4_095, 4_097, u64::MAX]).collect();
        for deadline in &deadlines {
            wheel.insert(at(*deadline), *deadline);
        }
        let mut sorted = deadlines;
        sorted.sort_unstable();
        for deadline in sorted {
            assert!(wheel.next_at().is_some_and(|next| next <= at(deadline)));
            if deadline > 0 {
                assert_eq!(wheel.poll_expired(at(deadline - 1)), None);
            }
            assert_eq!(wheel.poll_expired(at(deadline)), Some(deadline));
        }
        assert!(wheel.is_empty() && wheel.next_at().is_none());
    }

    #[test]
    fn handles_outlive_their_timers_without_harm() {
        let mut wheel = TimerWheel::new(at(0));
        let first = wheel.insert(at(5), 'a');
        assert_eq!(wheel.cancel(first), Some('a'));
        let second = wheel.insert(at(5), 'b');
        assert_eq!(wheel.cancel(first), None, "the place is used again, the handle is not");
        assert!(!wheel.reschedule(first, at(9)));
        assert_eq!(wheel.poll_expired(at(1 << 20)), Some('b'));
        assert_eq!(wheel.cancel(second), None);
        assert_eq!(wheel.at(second), None);
    }

    #[test]
    fn a_timer_in_the_past_fires_at_once_and_one_of_a_tick_in_order() {
        let mut wheel = TimerWheel::new(at(1 << 30));
        for key in 0..5 {
            wheel.insert(at(key), key);
        }
        let mut fired = Vec::new();
        wheel.expire(at(1 << 30), &mut |key| fired.push(key));
        assert_eq!(fired, [0, 1, 2, 3, 4]);
    }

    //= X-9 test
    //= X-24 test
    #[test]
    fn a_million_timers_cost_a_few_moves_each() {
        const TIMERS: u64 = 1_000_000;
        let mut random = Random::from_seed(9);
        let mut wheel = TimerWheel::new(at(0));
        let mut handles = Vec::new();
        for key in 0..TIMERS {
            handles.push(wheel.insert(at(random.below(60_000_000_000)), key as u32));
        }
        assert_eq!(wheel.len(), TIMERS as usize);
        for handle in handles.iter().step_by(2) {
            assert!(wheel.cancel(*handle).is_some());
        }
        let (mut fired, mut now, mut wakes) = (0, at(0), 0);
        while let Some(next) = wheel.next_at() {
            assert!(next >= now, "the bound never goes back");
            now = next;
            wakes += 1;
            wheel.expire(now, &mut |_| fired += 1);
        }
        assert_eq!(fired, TIMERS / 2);
        // 60 s of 66 µs ticks span four levels: three moves at most.
        assert!(wheel.moves() <= TIMERS / 2 * 3, "{}", wheel.moves());
        let ticks = 60_000_000_000 / wheel.tick_nanos();
        assert!(wakes <= ticks + ticks / 32 + 2, "{wakes} wakes");
        assert_eq!(wheel.entries.len(), TIMERS as usize);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u64),
        Cancel(usize),
        Reschedule(usize, u64),
        Advance(u64),
        Sleep,
    }

    fn delay() -> impl Strategy<Value = u64> {
        prop_oneof![0_u64..300, 0_u64..100_000, 0_u64..1 << 40]
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => delay().prop_map(Step::Insert),
            1 => any::<usize>().prop_map(Step::Cancel),
            1 => (any::<usize>(), delay()).prop_map(|(which, delay)| Step::Reschedule(which, delay)),
            2 => delay().prop_map(Step::Advance),
            2 => Just(Step::Sleep),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_map(
            start in 0_u64..1 << 50,
            tick_bits in 0_u32..12,
            steps in prop::collection::vec(step(), 1..120),
        ) {
            let mut wheel = TimerWheel::with_tick(at(start), tick_bits);
            let tick = Duration::from_nanos(wheel.tick_nanos());
            let mut now = at(start);
            let mut model: BTreeMap<usize, Time> = BTreeMap::new();
            let mut handles = Vec::new();
            for step in steps {
                match step {
                    Step::Insert(delay) => {
                        let deadline = now + Duration::from_nanos(delay);
                        model.insert(handles.len(), deadline);
                        handles.push(wheel.insert(deadline, handles.len()));
                    }
                    Step::Cancel(which) if !handles.is_empty() => {
                        let which = which % handles.len();
                        let expected = model.remove(&which).map(|_| which);
                        prop_assert_eq!(wheel.cancel(handles[which]), expected);
                    }
                    Step::Reschedule(which, delay) if !handles.is_empty() => {
                        let which = which % handles.len();
                        let deadline = now + Duration::from_nanos(delay);
                        prop_assert_eq!(wheel.reschedule(handles[which], deadline), model.contains_key(&which));
                        model.entry(which).and_modify(|at| *at = deadline);
                    }
                    Step::Advance(delay) => now += Duration::from_nanos(delay),
                    Step::Sleep => now = wheel.next_at().unwrap_or(now).max(now),
                    Step::Cancel(_) | Step::Reschedule(..) => {}
                }
                let mut last = Time::ZERO;
                while let Some(key) = wheel.poll_expired(now) {
                    let deadline = model.remove(&key);
                    prop_assert!(deadline.is_some_and(|deadline| deadline <= now), "{key} is early, or was gone");
                    let deadline = deadline.unwrap_or_default();
                    prop_assert!(deadline + tick > last, "out of order by more than a tick");
                    last = deadline;
                }
                prop_assert_eq!(wheel.len(), model.len());
                let earliest = model.values().min().copied();
                prop_assert!(earliest.is_none_or(|deadline| deadline + tick > now), "more than a tick late");
                match (wheel.next_at(), earliest) {
                    (Some(next), Some(earliest)) => prop_assert!(next < earliest + tick, "the bound is late"),
                    (next, earliest) => prop_assert_eq!(next.is_some(), earliest.is_some()),
                }
            }
        }
    }
}

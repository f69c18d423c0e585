//! Contexts by key: how a datagram finds the connection it belongs to.
//!
//! A key is made of a *slot*, the index of the context in its table, and an *instance*, drawn at random for every
//! context that comes to live there. The peer repeats it, so a lookup is an index and a comparison, and a key left over
//! from an earlier context, or guessed, does not match. Always true: no instance is 0, none is the same as the one before
//! in its slot, the table never holds more than its limit, and the slot used again is the one that was free longest.
//!
//! [`KeyLayout`] packs keys into the bits that a protocol has for them. [`TranslationMap`] finds the slot of a context
//! from what the peer calls it, for packets that do not carry our key.
//= X-2
//= X-24

use core::hash::{BuildHasher, Hash, Hasher};
use std::collections::{HashMap, VecDeque, hash_map::DefaultHasher};

/// Which context: our name for it, told to the peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ContextKey {
    /// Its index in the table.
    pub slot: u32,
    /// Which of the contexts that have lived there. Never 0.
    pub instance: u32,
}

/// How a protocol packs a [`ContextKey`] into a number: the slot in the low bits, the instance above.
///
/// ```
/// use pinnace_core::{ContextKey, KeyLayout};
/// let key = ContextKey { slot: 5, instance: 3 };
/// assert_eq!(KeyLayout::XTP40.pack(key), Some(3 << 32 | 5));
/// assert_eq!(KeyLayout::XTP40.unpack(3 << 32 | 5), Some(key));
/// assert_eq!(KeyLayout::XTP40.unpack(1 << 63), None); // more bits than a key has
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyLayout {
    /// How many bits the slot has: 1 to 32.
    pub slot_bits: u32,
    /// How many bits the instance has: 2 to 32.
    pub instance_bits: u32,
}

impl KeyLayout {
    /// XTP 4.0: 63 bits. Bit 63 (RTN) is the codec's.
    pub const XTP40: Self = Self { slot_bits: 32, instance_bits: 31 };
    /// XTP 3.6: 31 bits, of which 20 (slot, and context in the slot) are the index. Bit 31 (RTN) is the codec's.
    pub const XTP36: Self = Self { slot_bits: 20, instance_bits: 11 };
    /// A1: up to 2^17 connections. Its identifiers on the wire are other numbers, random in every bit.
    pub const A1: Self = Self { slot_bits: 17, instance_bits: 15 };

    /// How many slots can be named.
    pub const fn max_slots(self) -> u64 {
        1 << self.slot_bits
    }

    /// The key as a number; `None` if it does not fit.
    pub const fn pack(self, key: ContextKey) -> Option<u64> {
        let (slot, instance) = (key.slot as u64, key.instance as u64);
        if slot >> self.slot_bits != 0 || instance >> self.instance_bits != 0 {
            return None;
        }
        Some(instance << self.slot_bits | slot)
    }

    /// The key that a number stands for; `None` if it has more bits than a key, or instance 0.
    pub const fn unpack(self, number: u64) -> Option<ContextKey> {
        let instance = number >> self.slot_bits;
        if instance == 0 || instance >> self.instance_bits != 0 {
            return None;
        }
        let slot = number & (self.max_slots() - 1);
        Some(ContextKey { slot: slot as u32, instance: instance as u32 })
    }
}

#[derive(Clone, Debug)]
struct Place<T> {
    instance: u32,
    value: Option<T>,
}

/// Contexts, each known by the [`ContextKey`] that it was given.
///
/// ```
/// use pinnace_core::{ContextTable, KeyLayout};
/// let mut contexts = ContextTable::new(KeyLayout::XTP40, 1_000);
/// let key = contexts.insert("call", 0x1234_5678).expect("there is room");
/// assert_eq!(contexts.lookup(key), Some(&"call"));
/// assert_eq!(contexts.remove(key), Some("call"));
/// assert_eq!(contexts.lookup(key), None);
/// ```
#[derive(Clone, Debug)]
pub struct ContextTable<T> {
    layout: KeyLayout,
    limit: usize,
    places: Vec<Place<T>>,
    /// Slots without a context, the longest free first: a stale key is the rarer the later its slot is used again.
    free: VecDeque<u32>,
}

/// Slots that rest before they are used again, where instances are few.
const RESTING_SLOTS: usize = 65_536;

/// The table holds as many contexts as it may. Gives back what was to be inserted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableFull<T>(pub T);

impl<T> core::fmt::Display for TableFull<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("there are as many contexts as allowed")
    }
}

impl<T: core::fmt::Debug> core::error::Error for TableFull<T> {}

impl<T> ContextTable<T> {
    /// An empty table for at most `limit` contexts, or as many as `layout` can name if that is less.
    pub fn new(layout: KeyLayout, limit: usize) -> Self {
        let layout =
            KeyLayout { slot_bits: layout.slot_bits.clamp(1, 32), instance_bits: layout.instance_bits.clamp(2, 32) };
        let limit = limit.min(usize::try_from(layout.max_slots()).unwrap_or(usize::MAX));
        Self { layout, limit, places: Vec::new(), free: VecDeque::new() }
    }

    /// Gives `value` a slot, and an instance made of `entropy`: 64 bits that the peer cannot foresee.
    ///
    /// # Errors
    ///
    /// [`TableFull`], with `value`, at the limit.
    pub fn insert(&mut self, value: T, entropy: u64) -> Result<ContextKey, TableFull<T>> {
        let slot = match self.next_slot() {
            Some(slot) if (slot as usize) < self.places.len() => {
                self.free.pop_front();
                slot
            }
            Some(slot) => {
                self.places.push(Place { instance: 0, value: None });
                slot
            }
            None => return Err(TableFull(value)),
        };
        let instance = self.draw(self.places[slot as usize].instance, entropy);
        let place = &mut self.places[slot as usize];
        place.instance = instance;
        place.value = Some(value);
        Ok(ContextKey { slot, instance })
    }

    /// The key that [`insert`](Self::insert) would give now for the same `entropy`; `None` at the limit.
    pub fn next_key(&self, entropy: u64) -> Option<ContextKey> {
        let slot = self.next_slot()?;
        let before = self.places.get(slot as usize).map_or(0, |place| place.instance);
        Some(ContextKey { slot, instance: self.draw(before, entropy) })
    }

    /// The slot of the next context: one that was used before, if enough of them rest; otherwise a new one.
    fn next_slot(&self) -> Option<u32> {
        let may_grow = self.places.len() < self.limit;
        // Where instances are few, a key would soon come again while peers still remember it.
        let rests = if self.layout.instance_bits < 12 { RESTING_SLOTS } else { 0 };
        match self.free.front() {
            Some(slot) if self.free.len() > rests || !may_grow => Some(*slot),
            _ => may_grow.then_some(self.places.len() as u32),
        }
    }

    /// 1 to 2^bits - 1, less the instance before: so a stale key of the last context never matches.
    fn draw(&self, before: u32, entropy: u64) -> u32 {
        let instances = (1_u64 << self.layout.instance_bits) - 1;
        let choices = if before == 0 { instances } else { instances - 1 };
        let drawn = 1 + ((u128::from(entropy) * u128::from(choices)) >> 64) as u32;
        let skip = choices < instances && drawn >= before;
        drawn + u32::from(skip)
    }

    /// The context of `key`, in constant time; `None` if the slot is free or has another instance.
    pub fn lookup(&self, key: ContextKey) -> Option<&T> {
        self.places.get(key.slot as usize).filter(|place| place.instance == key.instance)?.value.as_ref()
    }

    /// As [`lookup`](Self::lookup), to change it.
    pub fn lookup_mut(&mut self, key: ContextKey) -> Option<&mut T> {
        self.places.get_mut(key.slot as usize).filter(|place| place.instance == key.instance)?.value.as_mut()
    }

    /// Ends the context of `key` and returns it.
    pub fn remove(&mut self, key: ContextKey) -> Option<T> {
        let place = self.places.get_mut(key.slot as usize).filter(|place| place.instance == key.instance)?;
        let value = place.value.take()?;
        self.free.push_back(key.slot);
        Some(value)
    }

    /// The key of the context in `slot`, if there is one.
    pub fn key_of(&self, slot: u32) -> Option<ContextKey> {
        let place = self.places.get(slot as usize)?;
        place.value.as_ref().map(|_| ContextKey { slot, instance: place.instance })
    }

    /// All contexts, in the order of their slots.
    pub fn iter(&self) -> impl Iterator<Item = (ContextKey, &T)> {
        self.places.iter().enumerate().filter_map(|(slot, place)| {
            let value = place.value.as_ref()?;
            Some((ContextKey { slot: slot as u32, instance: place.instance }, value))
        })
    }

    /// All contexts, to change them, in the order of their slots.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (ContextKey, &mut T)> {
        self.places.iter_mut().enumerate().filter_map(|(slot, place)| {
            let instance = place.instance;
            let value = place.value.as_mut()?;
            Some((ContextKey { slot: slot as u32, instance }, value))
        })
    }

    /// How many contexts there are.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Whether there is no context.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many contexts there may be.
    pub const fn limit(&self) -> usize {
        self.limit
    }

    /// How the keys of this table are packed.
    pub const fn layout(&self) -> KeyLayout {
        self.layout
    }
}

/// From what a peer calls a context (its address and its own key) to our key for it, in constant time.
///
/// The hash is seeded, so that a peer who chooses addresses and keys cannot make them collide; and there is no way to
/// iterate, so that the seed never shows in what an engine does. Bounded by the table whose contexts it names.
///
/// ```
/// use pinnace_core::{ContextKey, TranslationMap};
/// let mut map = TranslationMap::new(42);
/// let key = ContextKey { slot: 1, instance: 9 };
/// assert_eq!(map.insert(("10.0.0.1:7000", 77_u64), key), None);
/// assert_eq!(map.lookup(&("10.0.0.1:7000", 77)), Some(key));
/// ```
#[derive(Clone, Debug)]
pub struct TranslationMap<P> {
    keys: HashMap<P, ContextKey, Seeded>,
}

#[derive(Clone, Debug)]
struct Seeded(u64);

impl BuildHasher for Seeded {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.0);
        hasher
    }
}

impl<P: Hash + Eq> TranslationMap<P> {
    /// An empty map; `seed` should be unknown to peers.
    pub fn new(seed: u64) -> Self {
        Self { keys: HashMap::with_hasher(Seeded(seed)) }
    }

    /// Remembers that `peer` calls the context `key` by this name; returns what it named before.
    pub fn insert(&mut self, peer: P, key: ContextKey) -> Option<ContextKey> {
        self.keys.insert(peer, key)
    }

    /// The context that `peer` names.
    pub fn lookup(&self, peer: &P) -> Option<ContextKey> {
        self.keys.get(peer).copied()
    }

    /// Forgets the name, and returns what it named.
    pub fn remove(&mut self, peer: &P) -> Option<ContextKey> {
        self.keys.remove(peer)
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no name.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn short_instances_do_not_bring_a_key_back_soon() {
        let mut random = Random::from_seed(7);
        let mut contexts = ContextTable::new(KeyLayout::XTP36, 1 << 18);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..RESTING_SLOTS {
            let key = contexts.insert((), random.next_u64()).expect("room");
            assert!(seen.insert(key));
            contexts.remove(key);
        }
        assert!(contexts.places.len() <= RESTING_SLOTS + 1);
        let mut long = ContextTable::new(KeyLayout::XTP40, 10);
        for _ in 0..3 {
            let key = long.insert((), random.next_u64()).expect("room");
            assert_eq!(key.slot, 0);
            long.remove(key);
        }
    }

    //= X-2 test
    #[test]
    fn a_stale_or_forged_key_finds_nothing() {
        let mut random = Random::from_seed(4);
        let mut contexts = ContextTable::new(KeyLayout::XTP36, 1);
        let mut stale = Vec::new();
        for round in 0..2_000 {
            let entropy = random.next_u64();
            let foretold = contexts.next_key(entropy);
            let key = contexts.insert(round, entropy).expect("room for one");
            assert_eq!((foretold, contexts.next_key(entropy)), (Some(key), None));
            assert!(key.instance > 0 && KeyLayout::XTP36.pack(key).is_some());
            assert_ne!(stale.last(), Some(&key), "the key of the context before must not match");
            assert_eq!(contexts.insert(0, 1), Err(TableFull(0)));
            assert_eq!(contexts.lookup(ContextKey { instance: key.instance ^ 1, ..key }), None);
            assert_eq!(contexts.lookup(ContextKey { slot: 1, ..key }), None);
            assert_eq!(contexts.remove(key), Some(round));
            assert_eq!((contexts.remove(key), contexts.lookup(key)), (None, None));
            stale.push(key);
        }
        let instances: std::collections::BTreeSet<_> = stale.iter().map(|key| key.instance).collect();
        assert!(instances.len() > 1_000, "instances are spread over their 2047 values");
    }

    //= X-24 test
    #[test]
    fn a_hundred_thousand_contexts_keep_their_keys() {
        const CONTEXTS: u32 = 100_000;
        let mut random = Random::from_seed(5);
        for layout in [KeyLayout::XTP40, KeyLayout::XTP36, KeyLayout::A1] {
            let mut contexts = ContextTable::new(layout, CONTEXTS as usize);
            let mut map = TranslationMap::new(random.next_u64());
            let keys: Vec<ContextKey> = (0..CONTEXTS)
                .map(|value| {
                    let key = contexts.insert(value, random.next_u64()).expect("within the limit");
                    assert_eq!(map.insert((value % 7, u64::from(value)), key), None);
                    key
                })
                .collect();
            assert!(contexts.insert(0, 0).is_err());
            for (value, key) in (0..).zip(&keys) {
                let packed = layout.pack(*key).expect("fits");
                assert_eq!(layout.unpack(packed).and_then(|key| contexts.lookup(key)), Some(&value));
                assert_eq!(map.lookup(&(value % 7, u64::from(value))), Some(*key));
            }
            assert_eq!(map.remove(&(0, 7)), Some(keys[7]));
            assert_eq!(map.lookup(&(0, 7)), None);
            assert_eq!((map.len(), contexts.len()), (CONTEXTS as usize - 1, CONTEXTS as usize));
        }
    }

    #[test]
    fn the_slot_free_longest_is_used_first() {
        let mut contexts = ContextTable::new(KeyLayout::A1, 10);
        let keys: Vec<_> = (0..3).map(|value| contexts.insert(value, 7).expect("room")).collect();
        contexts.remove(keys[2]);
        contexts.remove(keys[0]);
        let again = contexts.insert(9, 7).expect("room");
        assert_eq!(again.slot, 2);
        assert_eq!(contexts.key_of(2), Some(again));
        assert_eq!(contexts.key_of(0), None);
        assert_eq!(contexts.iter().map(|(key, value)| (key.slot, *value)).collect::<Vec<_>>(), [(1, 1), (2, 9)]);
        contexts.iter_mut().for_each(|(_, value)| *value += 1);
        assert_eq!(contexts.lookup_mut(again), Some(&mut 10));
    }

    proptest! {
        #[test]
        fn agrees_with_a_map(
            steps in prop::collection::vec((any::<bool>(), any::<usize>(), any::<u64>()), 1..200),
            instance_bits in 2_u32..32,
            limit in 1_usize..20,
        ) {
            let mut contexts = ContextTable::new(KeyLayout { slot_bits: 20, instance_bits }, limit);
            let mut model = BTreeMap::new();
            for (insert, which, entropy) in steps {
                if insert {
                    match contexts.insert(entropy, entropy) {
                        Ok(key) => prop_assert_eq!(model.insert(key, entropy), None),
                        Err(TableFull(value)) => prop_assert!(value == entropy && model.len() == limit),
                    }
                } else if let Some(key) = model.keys().nth(which % limit).copied() {
                    prop_assert_eq!(contexts.remove(key), model.remove(&key));
                }
                prop_assert_eq!(contexts.len(), model.len());
                prop_assert!(contexts.iter().eq(model.iter().map(|(key, value)| (*key, value))));
            }
        }

        #[test]
        fn packing_is_undone(number in any::<u64>(), slot_bits in 1_u32..33, instance_bits in 1_u32..32) {
            let layout = KeyLayout { slot_bits, instance_bits };
            if let Some(key) = layout.unpack(number) {
                prop_assert_eq!(layout.pack(key), Some(number));
            }
        }
    }
}

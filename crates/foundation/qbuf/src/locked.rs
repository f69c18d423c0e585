//! The variant with one lock a zone (B-4).
//!
//! A zone's bitmap changes only under its lock. The lock names its holder, so that [`sweep`](crate::recovery::sweep) can
//! break it when the holder is dead; the words then say what the bitmap should be. Nobody waits for a lock: who
//! allocates tries the next zone, who frees leaves the run to others ([`deferred`](crate::deferred)).
//!
//! Always true, whoever holds the lock and wherever it died: a block belongs to whom the word of its run names.

use crate::counters::Counters;
use crate::deferred;
use crate::layout::{Tables, Zone};
use crate::owner::{ClientId, Kind, Word};
use crate::sync::{Ordering, Shared32};
use crate::zone::{ALL, find_run, first_fit, free_by_words, mask};

/// What a lock holds: 0, or bit 31 and the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder(pub(crate) u32);

const HELD: u32 = 1 << 31;

impl Holder {
    pub(crate) fn of(client: ClientId) -> Self {
        Self(HELD | client.to_bits())
    }

    /// `None`: nobody. What makes no sense is a holder that is not alive.
    pub(crate) fn client(self) -> Option<ClientId> {
        (self.0 != 0).then(|| ClientId::from_bits(self.0))
    }
}

/// Takes a lock that nobody holds.
#[inline]
pub(crate) fn try_lock(lock: &Shared32, me: ClientId) -> bool {
    lock.load(Ordering::Relaxed) == 0 && lock.replace(0, Holder::of(me).0)
}

#[inline]
pub(crate) fn unlock(lock: &Shared32) {
    lock.store(0, Ordering::Release);
}

//= B-2, B-4
/// A run that gets the word `owned`, first fit from zone `start` on: the zone and the first block.
#[inline]
pub(crate) fn alloc(tables: Tables<'_>, owned: Word, start: usize, counters: &Counters) -> Option<(usize, u32)> {
    deferred::drain(tables, owned.client());
    first_fit(tables, start, |zone| take_from(zone, owned, counters))
}

/// A run of one zone, unless it is locked.
#[inline]
pub(crate) fn take_from(zone: &Zone, owned: Word, counters: &Counters) -> Option<u32> {
    // Looked at without the lock, to pass full zones by; what waits to be freed may be what we need.
    if zone.bitmap.load(Ordering::Relaxed) == 0 && zone.deferred.load(Ordering::Relaxed) == 0 {
        return None;
    }
    if !try_lock(&zone.lock, owned.client()) {
        counters.busy_zones.add(1);
        return None;
    }
    deferred::drain_zone(zone);
    let found = take(zone, owned, counters);
    unlock(&zone.lock);
    found
}

/// Under the lock.
#[inline]
fn take(zone: &Zone, owned: Word, counters: &Counters) -> Option<u32> {
    let blocks = owned.blocks(0);
    let mut bitmap = zone.bitmap.load(Ordering::Relaxed);
    let mut first = find_run(bitmap, blocks)?;
    if zone.words.0[first as usize].load(Ordering::Acquire) != Word::FREE.0 {
        bitmap = search_words(zone, counters);
        first = find_run(bitmap, blocks)?;
    }
    // The word before the bitmap, or before the lock is given up at least: from here on the run is ours, dead or alive.
    zone.words.0[first as usize].store(owned.0, Ordering::Release);
    zone.bitmap.store(bitmap & !mask(first, blocks), Ordering::Release);
    Some(first)
}

/// For when somebody wrote where it should not, and the bitmap lies. Under the lock.
#[cold]
fn search_words(zone: &Zone, counters: &Counters) -> u32 {
    counters.corrupt_words.add(1);
    let bitmap = free_by_words(zone);
    zone.bitmap.store(bitmap, Ordering::Relaxed);
    bitmap
}

/// Frees the run at `first`, whose word is `expected`, at once or later. `false`: it was not, and nothing is freed.
#[inline]
pub(crate) fn free(
    tables: Tables<'_>,
    me: ClientId,
    index: usize,
    first: u32,
    expected: Word,
    counters: &Counters,
) -> bool {
    deferred::drain(tables, me);
    let Some(zone) = tables.zones.get(index) else { return false };
    if !try_lock(&zone.lock, me) {
        counters.deferred_frees.add(1);
        return deferred::defer(tables, me, index, first, expected);
    }
    free_under_lock(zone, first, expected)
}

/// Frees the run at `first` of somebody dead, whose word is `expected`, at once or later. `false`: it was not, and nothing is
/// freed.
pub(crate) fn free_of_dead(
    tables: Tables<'_>,
    me: ClientId,
    index: usize,
    first: u32,
    expected: Word,
    counters: &Counters,
) -> bool {
    let Some(zone) = tables.zones.get(index) else { return false };
    if !try_lock(&zone.lock, me) {
        counters.deferred_frees.add(1);
        return deferred::defer(tables, me, index, first, expected);
    }
    let is_freed = zone.words.0[first as usize].replace(expected.0, Word::FREE.0);
    if is_freed {
        zone.bitmap.set(mask(first, extent(zone, first, expected.blocks(first))));
    }
    unlock(&zone.lock);
    is_freed
}

/// Blocks that the run at `first` really has, if its owner died while it cut it in two: the second half has a word of its own,
/// and is freed by that.
pub(crate) fn extent(zone: &Zone, first: u32, blocks: u32) -> u32 {
    let is_free = |block: &u32| zone.words.0[*block as usize].load(Ordering::Acquire) == Word::FREE.0;
    1 + (first + 1..first + blocks).take_while(is_free).count() as u32
}

/// Frees the run at `first`, whose word is `expected`, if nobody holds the lock, and `None` otherwise.
#[inline]
pub(crate) fn free_at_once(zone: &Zone, me: ClientId, first: u32, expected: Word) -> Option<bool> {
    try_lock(&zone.lock, me).then(|| free_under_lock(zone, first, expected))
}

/// And unlocks.
#[inline]
fn free_under_lock(zone: &Zone, first: u32, expected: Word) -> bool {
    let word = &zone.words.0[first as usize];
    let mine = match expected.kind() {
        // Others may claim it meanwhile, without the lock.
        Some(Kind::Raw | Kind::Transit) => word.replace(expected.0, Word::FREE.0),
        _ => {
            let mine = word.load(Ordering::Acquire) == expected.0;
            if mine {
                word.store(Word::FREE.0, Ordering::Release);
            }
            mine
        }
    };
    if mine {
        let bitmap = zone.bitmap.load(Ordering::Relaxed);
        zone.bitmap.store(bitmap | mask(first, expected.blocks(first)), Ordering::Release);
    }
    deferred::drain_zone(zone);
    unlock(&zone.lock);
    mine
}

/// Makes the bitmap what the words say, and frees what waits for it. Under the lock. How many bits were wrong.
pub(crate) fn repair(zone: &Zone, counters: &Counters) -> u32 {
    // Bits before words: who defers writes the word first, so what comes after the swap keeps its bit.
    zone.deferred.swap(0);
    for word in &zone.words.0 {
        let now = Word(word.load(Ordering::Acquire));
        match now.kind() {
            Some(Kind::Free | Kind::User | Kind::Raw | Kind::Engine | Kind::Transit) => {}
            Some(Kind::Deferred) => {
                word.replace(now.0, Word::FREE.0);
            }
            Some(Kind::Body | Kind::Claim | Kind::Freeing) | None => {
                counters.corrupt_words.add(1);
                word.replace(now.0, Word::FREE.0);
            }
        }
    }
    let free = free_by_words(zone);
    let wrong = (zone.bitmap.load(Ordering::Relaxed) & ALL) ^ free;
    zone.bitmap.store(free, Ordering::Release);
    wrong.count_ones()
}

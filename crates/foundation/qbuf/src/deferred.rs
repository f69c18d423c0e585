//! Frees that found their zone locked (B-5).
//!
//! The work queue of the paper is a set: a bit for each run in its zone, and a bit for each zone in the header. Every
//! later allocation and free drains it. That a run is to be freed stands in its word, so a process that dies between
//! word and bit leaks nothing: the word names it, and the sweep finds it.

use crate::layout::{Tables, Zone};
use crate::locked::{extent, try_lock, unlock};
use crate::owner::{ClientId, Kind, Word};
use crate::sync::Ordering;
use crate::zone::mask;

/// Leaves the run at `first` of zone `index` to whoever locks the zone next. `false`: its word is not `expected`.
pub(crate) fn defer(tables: Tables<'_>, me: ClientId, index: usize, first: u32, expected: Word) -> bool {
    let Some(zone) = tables.zones.get(index) else { return false };
    let waiting = Word::owned(Kind::Deferred, expected.blocks(first), me);
    if !zone.words.0[first as usize].replace(expected.0, waiting.0) {
        return false;
    }
    zone.deferred.set(mask(first, 1));
    tables.header.deferred.0.set(1 << (index % 64));
    true
}

//= B-5
/// Frees whatever was deferred, except in zones that are still locked.
#[inline]
pub(crate) fn drain(tables: Tables<'_>, me: ClientId) {
    let waiting = tables.header.deferred.0.load(Ordering::Relaxed);
    if waiting != 0 {
        drain_slowly(tables, me, waiting);
    }
}

#[cold]
fn drain_slowly(tables: Tables<'_>, me: ClientId, waiting: u64) {
    for bit in (0..64_usize).filter(|bit| waiting >> bit & 1 == 1) {
        // Cleared before the zones are looked at, for who defers sets it last.
        tables.header.deferred.0.clear(1 << bit);
        for zone in tables.zones.iter().skip(bit).step_by(64) {
            if zone.deferred.load(Ordering::Acquire) == 0 {
                continue;
            }
            if try_lock(&zone.lock, me) {
                drain_zone(zone);
                unlock(&zone.lock);
            } else {
                tables.header.deferred.0.set(1 << bit);
            }
        }
    }
}

/// Under the lock.
#[inline]
pub(crate) fn drain_zone(zone: &Zone) {
    if zone.deferred.load(Ordering::Relaxed) != 0 {
        drain_zone_slowly(zone);
    }
}

#[cold]
fn drain_zone_slowly(zone: &Zone) {
    let waiting = zone.deferred.swap(0);
    let mut bitmap = zone.bitmap.load(Ordering::Relaxed);
    for (first, word) in (0..).zip(&zone.words.0).filter(|(first, _)| waiting >> first & 1 == 1) {
        let now = Word(word.load(Ordering::Acquire));
        // A bit without its word: the run was freed by a repair in between.
        if now.kind() == Some(Kind::Deferred) && word.replace(now.0, Word::FREE.0) {
            bitmap |= mask(first, extent(zone, first, now.blocks(first)));
        }
    }
    zone.bitmap.store(bitmap, Ordering::Release);
}

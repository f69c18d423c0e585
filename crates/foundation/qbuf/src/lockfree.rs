//! The variant without locks (B-4).
//!
//! The bitmap is a hint; a block is taken by compare and swap of its word. Of a run, the first block says `Claim` until
//! the others say `Body`, and `Freeing` until they are free again, so that whoever finds a run of the dead can end what
//! was begun. Blocks are claimed upwards and freed downwards: the `Body`s of a run always follow its first block without
//! a gap, and the block after them is never the `Body` of another run.
//!
//! Always true: a bit that says free of a block that is not is found out and cleared by whoever fails on it; a bit that
//! says taken of a free block is set by the next sweep. Nobody waits for anybody.

use crate::counters::Counters;
use crate::layout::{Tables, Zone};
use crate::owner::{ClientId, Kind, Word};
use crate::sync::Ordering;
use crate::zone::{find_run, first_fit, mask};

//= B-2, B-4
/// A run that gets the word `owned`, first fit from zone `start` on: the zone and the first block.
#[inline]
pub(crate) fn alloc(tables: Tables<'_>, owned: Word, start: usize, counters: &Counters) -> Option<(usize, u32)> {
    first_fit(tables, start, |zone| take_from(zone, owned, counters))
}

/// A run of one zone.
#[inline]
pub(crate) fn take_from(zone: &Zone, owned: Word, counters: &Counters) -> Option<u32> {
    let blocks = owned.blocks(0);
    let mut bitmap = zone.bitmap.load(Ordering::Acquire);
    // Each round clears a bit of our copy.
    while let Some(first) = find_run(bitmap, blocks) {
        match claim(zone, owned, first, blocks) {
            Ok(()) => return Some(first),
            Err(taken) => {
                counters.lost_races.add(1);
                bitmap &= !mask(taken, 1);
                hide(zone, taken);
            }
        }
    }
    None
}

/// `Err`: the block that was not free.
#[inline]
fn claim(zone: &Zone, owned: Word, first: u32, blocks: u32) -> Result<(), u32> {
    let head = &zone.words.0[first as usize];
    if blocks == 1 {
        if !head.replace(Word::FREE.0, owned.0) {
            return Err(first);
        }
    } else {
        let me = owned.client();
        let claim = Word::owned(Kind::Claim, blocks, me);
        if !head.replace(Word::FREE.0, claim.0) {
            return Err(first);
        }
        let body = Word::owned(Kind::Body, 1, me);
        for block in first + 1..first + blocks {
            if !zone.words.0[block as usize].replace(Word::FREE.0, body.0) {
                for block in (first + 1..block).rev() {
                    zone.words.0[block as usize].store(Word::FREE.0, Ordering::Release);
                }
                head.store(Word::FREE.0, Ordering::Release);
                // While we held them, others may have cleared their bits.
                zone.bitmap.set(mask(first, block - first));
                return Err(block);
            }
        }
        head.store(owned.0, Ordering::Release);
    }
    zone.bitmap.clear(mask(first, blocks));
    Ok(())
}

/// Clears the bit of a block that was found taken.
fn hide(zone: &Zone, block: u32) {
    if zone.bitmap.load(Ordering::Relaxed) & mask(block, 1) == 0 {
        return;
    }
    zone.bitmap.clear(mask(block, 1));
    // Freed in between: its bit may have been set before we cleared it.
    if zone.words.0[block as usize].load(Ordering::Acquire) == Word::FREE.0 {
        zone.bitmap.set(mask(block, 1));
    }
}

/// Frees the run at `first`, whose word is `expected`. `false`: it was not, and nothing is freed.
#[inline]
pub(crate) fn free(tables: Tables<'_>, me: ClientId, index: usize, first: u32, expected: Word) -> bool {
    let Some(zone) = tables.zones.get(index) else { return false };
    let head = &zone.words.0[first as usize];
    let blocks = expected.blocks(first);
    if blocks == 1 {
        if !head.replace(expected.0, Word::FREE.0) {
            return false;
        }
        zone.bitmap.set(mask(first, 1));
        return true;
    }
    // A dead one's half-freed run is taken over like any other.
    let freeing = Word::owned(Kind::Freeing, blocks, me);
    if !head.replace(expected.0, freeing.0) {
        return false;
    }
    let extent = extent(zone, first, blocks);
    for block in (first + 1..first + extent).rev() {
        zone.words.0[block as usize].store(Word::FREE.0, Ordering::Release);
    }
    head.store(Word::FREE.0, Ordering::Release);
    zone.bitmap.set(mask(first, extent));
    true
}

/// Blocks that the run at `first` really has, if it was left in the middle of being claimed, freed or split.
fn extent(zone: &Zone, first: u32, blocks: u32) -> u32 {
    let is_body = |block: &u32| Word(zone.words.0[*block as usize].load(Ordering::Acquire)).kind() == Some(Kind::Body);
    1 + (first + 1..first + blocks).take_while(is_body).count() as u32
}

/// Sets the bits of free blocks that are not in the bitmap: who freed them died before it could. How many. Words that
/// say nothing are freed.
pub(crate) fn repair(zone: &Zone, counters: &Counters) -> u32 {
    for word in &zone.words.0 {
        let now = Word(word.load(Ordering::Acquire));
        if now.kind().is_none() && word.replace(now.0, Word::FREE.0) {
            counters.corrupt_words.add(1);
        }
    }
    let free = (0..).zip(&zone.words.0).filter(|(_, word)| word.load(Ordering::Acquire) == Word::FREE.0);
    let free = free.fold(0, |bits, (block, _)| bits | mask(block, 1));
    let missing = free & !zone.bitmap.load(Ordering::Acquire);
    if missing != 0 {
        // One that is claimed at this moment gets a bit that lies; whoever fails on it clears it.
        zone.bitmap.set(missing);
    }
    missing.count_ones()
}

//! Clients that die (B-12): who they are, whether they still live, and what is done with what they had.
//!
//! A client takes a slot by writing who it is, pid and start time in one word, and counts the slot's generation up;
//! words and locks name slot and generation. A word whose client is not the present one of its slot, or is dead, is
//! freed by the sweep; a lock likewise is broken. One sweep runs at a time, under a lock of the same kind. That spares work and
//! no more: every step takes what it finds from one that is dead, and fails if another was faster. So a lock that names a
//! living client for much longer than a sweep takes is broken, too, for anybody could have written that name there. (The lock
//! of a zone is not: its holder, if it is one, relies on being alone.)
//!
//! Always true: a sweep that is cut off anywhere can be begun anew by another process.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::counters::Counters;
use crate::layout::{ClientSlot, Tables, Variant, Zone};
use crate::locked::{self, Holder, try_lock, unlock};
use crate::lockfree;
use crate::owner::{ClientId, Kind, Word};
use crate::sync::{Ordering, Shared32};

/// A process, as the slot of a client names it: pid in bits 0 to 21, start time in clock ticks in bits 22 to 61.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity(u64);

const PID_BITS: u32 = 22;
const IDENTITY_BITS: u32 = 62;

/// Being taken: owns nothing yet.
const CLAIMING: u64 = 1 << IDENTITY_BITS;
const LIVE: u64 = 2 << IDENTITY_BITS;
/// Declared dead by [`drop_client`].
const DROPPED: u64 = 3 << IDENTITY_BITS;

impl Identity {
    pub(crate) fn new(pid: u32, start: u64) -> Self {
        Self((u64::from(pid) | start << PID_BITS) & ((1 << IDENTITY_BITS) - 1))
    }

    fn of(word: u64) -> Self {
        Self(word & ((1 << IDENTITY_BITS) - 1))
    }

    pub(crate) fn pid(self) -> u32 {
        (self.0 & ((1 << PID_BITS) - 1)) as u32
    }

    /// Modulo 2^40.
    pub(crate) fn start(self) -> u64 {
        self.0 >> PID_BITS
    }
}

fn state(word: u64) -> u64 {
    word & 3 << IDENTITY_BITS
}

/// Says who is dead: the kernel, or a model.
pub(crate) trait Judge {
    /// Whether that process of that pid namespace is certainly gone.
    fn is_dead(&self, identity: Identity, namespace: u64) -> bool;
}

//= B-12
/// Takes a free slot.
pub(crate) fn enter(tables: Tables<'_>, identity: Identity, namespace: u64) -> Option<ClientId> {
    for (index, slot) in tables.clients.iter().enumerate() {
        let claim = CLAIMING | identity.0;
        if slot.identity.load(Ordering::Relaxed) != 0 || !slot.identity.replace(0, claim) {
            continue;
        }
        let generation = slot.generation.load(Ordering::Relaxed).wrapping_add(1);
        slot.generation.store(generation, Ordering::Release);
        slot.namespace.store(namespace, Ordering::Release);
        // Fails if somebody in another pid namespace took us for dead: we owned nothing, and try the next.
        if slot.identity.replace(claim, LIVE | identity.0) {
            return Some(ClientId::from_bits(index as u32 & 0x3FF | (generation & 0xFFF) << 10));
        }
    }
    None
}

/// Gives the slot back; what still names the client is swept later.
pub(crate) fn leave(tables: Tables<'_>, me: ClientId, identity: Identity) {
    if let Some(slot) = tables.clients.get(usize::from(me.slot()))
        && is_generation(slot, me)
    {
        slot.identity.replace(LIVE | identity.0, 0);
    }
}

/// Declares a client dead, whatever its process does. Whether it was alive.
pub(crate) fn drop_client(tables: Tables<'_>, client: ClientId) -> bool {
    let Some(slot) = tables.clients.get(usize::from(client.slot())) else { return false };
    let word = slot.identity.load(Ordering::Acquire);
    state(word) == LIVE && is_generation(slot, client) && slot.identity.replace(word, DROPPED | Identity::of(word).0)
}

/// The present client of a slot.
pub(crate) fn client_at(tables: Tables<'_>, slot: u16) -> Option<ClientId> {
    let state_of = |slot: &ClientSlot| state(slot.identity.load(Ordering::Acquire));
    let found = tables.clients.get(usize::from(slot))?;
    let generation = found.generation.load(Ordering::Acquire);
    (state_of(found) == LIVE).then(|| ClientId::new(slot, (generation & 0xFFF) as u16))
}

/// Empties the slots of the dead, for somebody who has none yet; what names them is left to the next sweep.
pub(crate) fn reap(tables: Tables<'_>, judge: &impl Judge) {
    for (slot, dead) in tables.clients.iter().zip(Census::take(tables, judge).dead) {
        if dead != 0 {
            slot.identity.replace(dead, 0);
        }
    }
}

/// Whether a client is the present one of its slot, and its process is not known to be dead.
pub(crate) fn is_alive(tables: Tables<'_>, client: ClientId, judge: &impl Judge) -> bool {
    tables.clients.get(usize::from(client.slot())).is_some_and(|slot| {
        let word = slot.identity.load(Ordering::Acquire);
        state(word) == LIVE
            && is_generation(slot, client)
            && !judge.is_dead(Identity::of(word), slot.namespace.load(Ordering::Acquire))
    })
}

/// Slots that are taken.
pub(crate) fn clients(tables: Tables<'_>) -> u32 {
    tables.clients.iter().filter(|slot| state(slot.identity.load(Ordering::Relaxed)) == LIVE).count() as u32
}

fn is_generation(slot: &ClientSlot, client: ClientId) -> bool {
    slot.generation.load(Ordering::Acquire) & 0xFFF == u32::from(client.generation())
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Another client is sweeping at this moment: nothing was done.
    pub busy: bool,
    /// Clients that were dead.
    pub clients: u32,
    /// Blocks that they had, and that are free now, or as soon as their zone is no longer locked.
    pub blocks: u32,
    /// Locks that they held.
    pub locks: u32,
    /// Bits of bitmaps that were wrong.
    pub bits: u32,
}

/// A sweep takes much less than this time, also of the largest pool.
const LONGEST: Duration = Duration::from_secs(10);

/// For how long a client of the pool has found another sweeping.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Mutex<Option<Found>>);

#[derive(Clone, Copy, Debug)]
struct Found {
    holder: Holder,
    first: Instant,
    last: Instant,
}

impl Waiting {
    /// Whether it was the same for too long, at each of several looks.
    fn is_over(&self, holder: Holder, now: Instant) -> bool {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = found.filter(|it| it.holder == holder && now.saturating_duration_since(it.last) < LONGEST / 2);
        let first = known.map_or(now, |it| it.first);
        *found = Some(Found { holder, first, last: now });
        now.saturating_duration_since(first) >= LONGEST
    }
}

/// Who is dead, as far as a sweep found out when it began.
struct Census {
    /// For each slot the word of a client that is dead, or 0.
    dead: Vec<u64>,
}

impl Census {
    fn take(tables: Tables<'_>, judge: &impl Judge) -> Self {
        // A process may have many slots, and say that it has all; the kernel is asked once about each.
        let mut verdicts = BTreeMap::new();
        let mut judged = |identity: Identity, namespace: u64| {
            *verdicts.entry((identity.0, namespace)).or_insert_with(|| judge.is_dead(identity, namespace))
        };
        let is_dead = |slot: &ClientSlot| {
            let word = slot.identity.load(Ordering::Acquire);
            let gone = match state(word) {
                DROPPED => true,
                CLAIMING | LIVE => judged(Identity::of(word), slot.namespace.load(Ordering::Acquire)),
                // 0, or nonsense, of which nobody is the client.
                _ => word != 0,
            };
            if gone { word } else { 0 }
        };
        Self { dead: tables.clients.iter().map(is_dead).collect() }
    }

    /// Whether a client whose name was read from a word or lock may still act. One that came after the census does.
    fn is_alive(&self, tables: Tables<'_>, client: ClientId) -> bool {
        let slot = usize::from(client.slot());
        let (Some(entry), Some(&dead)) = (tables.clients.get(slot), self.dead.get(slot)) else { return false };
        let word = entry.identity.load(Ordering::Acquire);
        state(word) == LIVE && word != dead && is_generation(entry, client)
    }
}

//= B-12
/// Frees what the dead had and breaks their locks.
pub(crate) fn sweep(
    tables: Tables<'_>,
    me: ClientId,
    variant: Variant,
    judge: &impl Judge,
    counters: &Counters,
    (waiting, now): (&Waiting, Instant),
) -> Swept {
    let mut swept = Swept::default();
    let sweeper = &tables.header.sweeper;
    if !try_lock(sweeper, me) && !break_lock(tables, sweeper, me, &Census::take(tables, judge)) {
        let holder = Holder(sweeper.load(Ordering::Acquire));
        if !waiting.is_over(holder, now) || !sweeper.replace(holder.0, Holder::of(me).0) {
            return Swept { busy: true, ..swept };
        }
        counters.broken_locks.add(1);
    }
    // Under the lock: whom an earlier census found dead, a sweep that just ended may have replaced by others.
    let census = Census::take(tables, judge);
    for (index, zone) in tables.zones.iter().enumerate() {
        if variant == Variant::Locked && break_lock(tables, &zone.lock, me, &census) {
            swept.locks += 1;
            swept.bits += locked::repair(zone, counters);
            unlock(&zone.lock);
        }
        swept.blocks += free_of_dead(tables, me, variant, index, zone, &census, counters);
        swept.bits += match variant {
            Variant::Locked if try_lock(&zone.lock, me) => {
                let wrong = locked::repair(zone, counters);
                unlock(&zone.lock);
                wrong
            }
            Variant::Locked => 0,
            Variant::LockFree => lockfree::repair(zone, counters),
        };
    }
    for (slot, dead) in tables.clients.iter().zip(&census.dead) {
        if *dead != 0 && slot.identity.replace(*dead, 0) {
            swept.clients += 1;
        }
    }
    // Unless it was broken.
    sweeper.replace(Holder::of(me).0, 0);
    counters.swept_clients.add(u64::from(swept.clients));
    counters.swept_blocks.add(u64::from(swept.blocks));
    counters.broken_locks.add(u64::from(swept.locks));
    counters.repaired_bits.add(u64::from(swept.bits));
    swept
}

/// Takes a lock whose holder is dead.
fn break_lock(tables: Tables<'_>, lock: &Shared32, me: ClientId, census: &Census) -> bool {
    let holder = Holder(lock.load(Ordering::Acquire));
    holder.client().is_some_and(|client| !census.is_alive(tables, client)) && lock.replace(holder.0, Holder::of(me).0)
}

/// Frees the runs of one zone whose owners, or receivers, are dead. How many blocks.
fn free_of_dead(
    tables: Tables<'_>,
    me: ClientId,
    variant: Variant,
    index: usize,
    zone: &Zone,
    census: &Census,
    counters: &Counters,
) -> u32 {
    let mut blocks = 0;
    for (first, word) in (0..).zip(&zone.words.0) {
        let word = Word(word.load(Ordering::Acquire));
        let heads_a_run = !matches!(word.kind(), None | Some(Kind::Free | Kind::Body));
        if heads_a_run && !census.is_alive(tables, word.client()) {
            let freed = match variant {
                Variant::Locked => locked::free_of_dead(tables, me, index, first, word, counters),
                Variant::LockFree => lockfree::free(tables, me, index, first, word),
            };
            blocks += if freed { word.blocks(first) } else { 0 };
        }
    }
    blocks
}

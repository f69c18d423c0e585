//! What is remembered of every sender: which frame numbers it has used, the life it is in, and the blocks of its frames.
//!
//! Numbers count up modulo 2^15, so a copy of an old header can be told from a new frame (V-R17). Always true: a sender
//! of which nothing is remembered has no block; there are never more than the limit.

use core::time::Duration;
use pinnace_core::{Address, Time, TimerHandle};
use pinnace_wire::vrp::FRAME_NUMBERS;
use std::collections::BTreeMap;

/// How far behind the newest number it is known which were created.
pub(super) const REMEMBERED: u16 = 2048;
/// Numbers of which there is a bit: a power of two above [`REMEMBERED`], so that a number's place is its low bits.
const BITS: u16 = 4096;
/// How long a header of a sender's life before is taken for a late one. The longest time-out (V-S10), and no more: if somebody
/// forged the new life, the old one's repetitions get through again before its own life time-out.
const PAST_LIFE: Duration = Duration::from_secs(2);
/// A number is ahead of another if it is up to so much larger.
const HALF: u16 = FRAME_NUMBERS / 2;

/// Where a number stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Ahead of all that have been seen.
    Ahead,
    /// Not ahead, and no frame was created for it.
    Unused,
    /// A frame was created for it.
    Used,
    /// Too far behind to tell.
    Behind,
}

/// The newest number of a sender, and which before it were created.
#[derive(Debug)]
pub(super) struct Numbers {
    newest: u16,
    used: Box<[u64; BITS as usize / 64]>,
}

impl Numbers {
    /// `newest` is the only one used.
    fn new(newest: u16) -> Self {
        let mut numbers = Self { newest, used: Box::new([0; BITS as usize / 64]) };
        numbers.set(newest, true);
        numbers
    }

    //= V-R17
    fn standing(&self, number: u16) -> Standing {
        let behind = self.newest.wrapping_sub(number) % FRAME_NUMBERS;
        if behind > HALF {
            Standing::Ahead
        } else if behind > REMEMBERED {
            Standing::Behind
        } else if self.bit(number) {
            Standing::Used
        } else {
            Standing::Unused
        }
    }

    /// A frame is created for `number`.
    fn mark(&mut self, number: u16) {
        match self.standing(number) {
            Standing::Ahead => {
                let ahead = number.wrapping_sub(self.newest) % FRAME_NUMBERS;
                for step in 1..=ahead.min(BITS) {
                    self.set(number.wrapping_sub(step - 1), false);
                }
                self.newest = number;
                self.set(number, true);
            }
            Standing::Unused | Standing::Used => self.set(number, true),
            // Of a sender that has no epoch: it has begun again somewhere else.
            Standing::Behind => *self = Self::new(number),
        }
    }

    /// It is as if no frame had been created for `number`.
    fn unmark(&mut self, number: u16) {
        if self.standing(number) == Standing::Used {
            self.set(number, false);
        }
    }

    fn is_empty(&self) -> bool {
        self.used.iter().all(|word| *word == 0)
    }

    fn bit(&self, number: u16) -> bool {
        let place = number % BITS;
        self.used[usize::from(place / 64)] & 1 << (place % 64) != 0
    }

    fn set(&mut self, number: u16, used: bool) {
        let place = number % BITS;
        let (word, bit) = (&mut self.used[usize::from(place / 64)], 1 << (place % 64));
        *word = if used { *word | bit } else { *word & !bit };
    }
}

/// A sender.
#[derive(Debug)]
pub(super) struct Source {
    numbers: Numbers,
    /// The life of the sending endpoint, if it says so.
    pub(super) epoch: Option<u32>,
    /// The life before it, and when that ended.
    past: Option<(u32, Time)>,
    /// When something valid came from it last.
    pub(super) heard: Time,
    /// The blocks of its frames, by number.
    pub(super) frames: BTreeMap<u16, u32>,
    /// New frames of it that were refused, and the number of the last: its header may come twice.
    pub(super) refused: u64,
    last_refused: Option<u16>,
    /// Its place in [`Sources::order`].
    serial: u64,
    pub(super) timer: TimerHandle,
}

impl Source {
    /// The life of `epoch` ended at `now`, with the one that this is.
    pub(super) fn end_life(&mut self, now: Time, epoch: Option<u32>) {
        self.past = epoch.map(|epoch| (epoch, now));
    }

    /// Whether `epoch` is the life before this one, and ended so lately that what comes of it has been on its way since.
    pub(super) fn is_past(&self, now: Time, epoch: u32) -> bool {
        self.past.is_some_and(|(past, ended)| past == epoch && now < ended + PAST_LIFE)
    }

    pub(super) fn standing(&self, number: u16) -> Standing {
        self.numbers.standing(number)
    }

    /// Whether a frame was refused last, and its header comes again: its sender has been told that it will not come, and may
    /// have sent it anew under another number, so it would be delivered twice.
    pub(super) fn has_refused(&self, number: u16) -> bool {
        self.last_refused == Some(number)
    }

    /// A new frame was refused.
    pub(super) fn refuse(&mut self, number: u16) {
        self.refused += u64::from(self.last_refused != Some(number));
        self.last_refused = Some(number);
    }

    pub(super) fn mark(&mut self, number: u16) {
        self.numbers.mark(number);
        // In the next turn of the numbers it is another frame's.
        self.last_refused = self.last_refused.filter(|refused| self.standing(*refused) != Standing::Behind);
    }
}

/// All senders of which anything is remembered.
#[derive(Debug, Default)]
pub(super) struct Sources {
    by_address: BTreeMap<Address, Source>,
    /// By how long ago they began a frame, longest first.
    order: BTreeMap<u64, Address>,
    next_serial: u64,
}

impl Sources {
    pub(super) fn find(&self, address: &Address) -> Option<&Source> {
        self.by_address.get(address)
    }

    pub(super) fn find_mut(&mut self, address: &Address) -> Option<&mut Source> {
        self.by_address.get_mut(address)
    }

    pub(super) fn len(&self) -> usize {
        self.by_address.len()
    }

    /// The block of a frame.
    pub(super) fn frame(&self, address: &Address, number: u16) -> Option<u32> {
        self.find(address)?.frames.get(&number).copied()
    }

    /// Where a number stands; all numbers of an unknown sender are ahead.
    pub(super) fn standing(&self, address: &Address, number: u16) -> Standing {
        self.find(address).map_or(Standing::Ahead, |source| source.standing(number))
    }

    /// Notes that `address` begins frame `number`; `timer` is asked for one if it was not known.
    pub(super) fn begin(
        &mut self,
        now: Time,
        address: Address,
        number: u16,
        timer: impl FnOnce() -> TimerHandle,
    ) -> &mut Source {
        let serial = self.next_serial;
        self.next_serial += 1;
        let source = self.by_address.entry(address).or_insert_with(|| Source {
            numbers: Numbers::new(number),
            epoch: None,
            past: None,
            heard: now,
            frames: BTreeMap::new(),
            refused: 0,
            last_refused: None,
            serial,
            timer: timer(),
        });
        if source.serial != serial {
            self.order.remove(&source.serial);
            source.serial = serial;
        }
        self.order.insert(serial, address);
        source.mark(number);
        source
    }

    /// Chooses a sender to forget so that there is room for another: of those that have no block, the one that began a
    /// frame longest ago.
    pub(super) fn oldest_idle(&mut self) -> Option<Address> {
        // Those with blocks go to the end, so they are not looked at again soon.
        for _ in 0..self.order.len().min(64) {
            let (_, address) = self.order.pop_first()?;
            let source = self.by_address.get_mut(&address)?;
            source.serial = self.next_serial;
            self.order.insert(self.next_serial, address);
            self.next_serial += 1;
            if source.frames.is_empty() {
                return Some(address);
            }
        }
        None
    }

    pub(super) fn forget(&mut self, address: &Address) -> Option<Source> {
        let source = self.by_address.remove(address)?;
        self.order.remove(&source.serial);
        Some(source)
    }

    /// The block of frame `number` has gone. With `undo`, it is as if it had never been: a sender of which nothing else
    /// is known is forgotten, and returned.
    pub(super) fn end(&mut self, address: &Address, number: u16, undo: bool) -> Option<Source> {
        let source = self.by_address.get_mut(address)?;
        source.frames.remove(&number);
        if undo {
            source.numbers.unmark(number);
            if source.frames.is_empty() && source.numbers.is_empty() {
                return self.forget(address);
            }
        }
        None
    }

    /// The blocks of a sender, if a header with `epoch` is of another life of it than what is remembered.
    //= V-S2
    pub(super) fn old_life(&self, address: &Address, epoch: u32) -> Option<Vec<u32>> {
        let source = self.find(address).filter(|source| source.epoch != Some(epoch))?;
        Some(source.frames.values().copied().collect())
    }

    /// When a sender is forgotten, unless it is heard of again.
    pub(super) fn forgotten_at(heard: Time, life: Duration) -> Time {
        heard + life + life
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_apart_over_the_wrap() {
        //= V-R17 test
        let mut numbers = Numbers::new(FRAME_NUMBERS - 2);
        assert_eq!(numbers.standing(FRAME_NUMBERS - 2), Standing::Used);
        assert_eq!(numbers.standing(FRAME_NUMBERS - 3), Standing::Unused);
        numbers.mark(5);
        assert_eq!(numbers.standing(5), Standing::Used);
        assert_eq!(numbers.standing(FRAME_NUMBERS - 2), Standing::Used);
        for between in [FRAME_NUMBERS - 1, 0, 4] {
            assert_eq!(numbers.standing(between), Standing::Unused);
        }
        assert_eq!(numbers.standing(6), Standing::Ahead);
        assert_eq!(numbers.standing(5 + HALF - 1), Standing::Ahead);
        assert_eq!(numbers.standing(5 + HALF), Standing::Behind);
        assert_eq!(numbers.standing(5u16.wrapping_sub(REMEMBERED) % FRAME_NUMBERS), Standing::Unused);
        assert_eq!(numbers.standing(5u16.wrapping_sub(REMEMBERED + 1) % FRAME_NUMBERS), Standing::Behind);
    }

    #[test]
    fn a_jump_forgets_what_lay_far_behind() {
        //= V-R17 test
        let mut numbers = Numbers::new(0);
        for number in 0..3000 {
            numbers.mark(number);
        }
        assert_eq!(numbers.standing(2999 - 2048), Standing::Used);
        assert_eq!(numbers.standing(2999 - 2049), Standing::Behind);
        numbers.mark(2999 + 5000);
        for number in [2999 + 5000 - 1, 2999 + 5000 - 2048] {
            assert_eq!(numbers.standing(number), Standing::Unused, "{number}");
        }
        numbers.unmark(2999 + 5000);
        assert_eq!(numbers.standing(2999 + 5000), Standing::Unused);
        assert!(numbers.is_empty());
    }

    proptest::proptest! {
        #[test]
        fn standing_agrees_with_a_list(steps in proptest::collection::vec(0u16..3000, 1..80), probe in 0u16..FRAME_NUMBERS) {
            let mut numbers = Numbers::new(7);
            let (mut newest, mut used) = (7u64, vec![7u64]);
            for (turn, step) in steps.iter().enumerate() {
                let number = if turn % 3 == 0 { newest.saturating_sub(u64::from(step % 2049)) } else { newest + u64::from(*step) };
                numbers.mark((number % u64::from(FRAME_NUMBERS)) as u16);
                newest = newest.max(number);
                used.push(number);
            }
            let behind = (newest + u64::from(FRAME_NUMBERS) - u64::from(probe)) % u64::from(FRAME_NUMBERS);
            let expected = match behind {
                0..=2048 if newest >= behind && used.contains(&(newest - behind)) => Standing::Used,
                0..=2048 => Standing::Unused,
                2049..=16384 => Standing::Behind,
                _ => Standing::Ahead,
            };
            proptest::prop_assert_eq!(numbers.standing(probe), expected);
        }
    }
}

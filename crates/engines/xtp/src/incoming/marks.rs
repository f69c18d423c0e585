//! Where messages begin and end in a stream (specs/xtp.md, 3.10).
//!
//! An end is the offset one past the last byte of a message. A tag is eight opaque bytes of the user's at the first byte
//! of a message; where one begins, the one before it has ended. Both lists rise, and hold nothing twice; a stream
//! without marks has no list at all.
//= X-17

use std::collections::VecDeque;

/// The ends and the tags of what has not been consumed.
#[derive(Debug, Default)]
pub(super) struct Marks(Option<Box<Lists>>);

#[derive(Debug, Default)]
struct Lists {
    ends: VecDeque<Ends>,
    /// How many ends they hold.
    count: usize,
    tags: VecDeque<(u64, [u8; 8])>,
}

/// The ends among 64 offsets, a bit each, and not none: a message may be a byte long, and a window is full of them then.
#[derive(Debug)]
struct Ends {
    /// Of the first offset, in 64s.
    index: u64,
    bits: u64,
}

impl Ends {
    /// Where an offset is noted.
    const fn place(offset: u64) -> Self {
        Self { index: offset / 64, bits: 1 << (offset % 64) }
    }

    /// The first end that is not before `offset`, which is not behind these.
    fn first_from(&self, offset: u64) -> Option<u64> {
        let low = self.index * 64;
        let bits = self.bits & (u64::MAX << offset.saturating_sub(low));
        (bits != 0).then(|| low + u64::from(bits.trailing_zeros()))
    }
}

impl Lists {
    /// Where the ends of these 64 offsets are, or would be.
    fn find(&self, index: u64) -> Result<usize, usize> {
        self.ends.binary_search_by_key(&index, |ends| ends.index)
    }
}

impl Marks {
    /// How many ends are known.
    pub(super) fn ends(&self) -> usize {
        self.0.as_ref().map_or(0, |lists| lists.count)
    }

    /// How many tags are.
    pub(super) fn tags(&self) -> usize {
        self.0.as_ref().map_or(0, |lists| lists.tags.len())
    }

    /// The first end.
    pub(super) fn first_end(&self) -> Option<u64> {
        self.0.as_ref()?.ends.front()?.first_from(0)
    }

    /// Whether a message ends at `offset`.
    pub(super) fn has_end(&self, offset: u64) -> bool {
        let Ends { index, bits } = Ends::place(offset);
        self.0.as_ref().is_some_and(|lists| lists.find(index).is_ok_and(|at| lists.ends[at].bits & bits != 0))
    }

    /// Whether a message ends behind `low` and before `high`.
    pub(super) fn ends_between(&self, low: u64, high: u64) -> bool {
        let (Some(lists), Some(low)) = (&self.0, low.checked_add(1)) else { return false };
        let first = lists.find(low / 64).unwrap_or_else(|next| next);
        // Of the first of them all may be before `low`.
        lists.ends.range(first..).take(2).find_map(|ends| ends.first_from(low)).is_some_and(|end| end < high)
    }

    /// The tag of the message that begins at `offset`.
    pub(super) fn tag(&self, offset: u64) -> Option<[u8; 8]> {
        let tags = &self.0.as_ref()?.tags;
        tags.binary_search_by_key(&offset, |tag| tag.0).ok().map(|index| tags[index].1)
    }

    /// A message ends at `offset`.
    pub(super) fn insert_end(&mut self, offset: u64) {
        let lists = self.0.get_or_insert_default();
        let end = Ends::place(offset);
        let found = match lists.ends.back() {
            Some(last) if last.index < end.index => Err(lists.ends.len()),
            _ => lists.find(end.index),
        };
        lists.count += 1;
        match found {
            Ok(at) => {
                lists.count -= usize::from(lists.ends[at].bits & end.bits != 0);
                lists.ends[at].bits |= end.bits;
            }
            Err(at) => lists.ends.insert(at, end),
        }
    }

    /// The message that begins at `offset` has a tag; the first one that was said is kept.
    pub(super) fn insert_tag(&mut self, offset: u64, tag: [u8; 8]) {
        let tags = &mut self.0.get_or_insert_default().tags;
        if let Err(index) = tags.binary_search_by_key(&offset, |tag| tag.0) {
            tags.insert(index, (offset, tag));
        }
    }

    /// Forgets the ends up to `dseq`; returns whether there was one right there.
    pub(super) fn drop_ends(&mut self, dseq: u64) -> bool {
        let is_end = self.has_end(dseq);
        let Some(lists) = &mut self.0 else { return false };
        while let Some(passed) = lists.ends.pop_front_if(|ends| ends.index < dseq / 64) {
            lists.count -= passed.bits.count_ones() as usize;
        }
        if let Some(first) = lists.ends.front_mut().filter(|ends| ends.index == dseq / 64) {
            let before = first.bits;
            first.bits &= !(u64::MAX >> (63 - dseq % 64));
            lists.count -= (before ^ first.bits).count_ones() as usize;
            lists.ends.pop_front_if(|ends| ends.bits == 0);
        }
        is_end
    }

    /// Forgets the tags before `offset`.
    pub(super) fn drop_tags(&mut self, offset: u64) {
        if let Some(lists) = &mut self.0 {
            while lists.tags.pop_front_if(|tag| tag.0 < offset).is_some() {}
        }
    }

    /// Gives back memory that nothing needs.
    pub(super) fn shrink(&mut self) {
        if self.0.as_ref().is_some_and(|lists| lists.ends.is_empty() && lists.tags.is_empty()) {
            self.0 = None;
        }
    }

    /// Bytes on the heap.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |lists| {
            size_of::<Lists>() + lists.ends.capacity() * size_of::<Ends>() + lists.tags.capacity() * 16
        })
    }
}

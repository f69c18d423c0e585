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
    ends: VecDeque<u64>,
    tags: VecDeque<(u64, [u8; 8])>,
}

impl Marks {
    /// How many ends are known.
    pub(super) fn ends(&self) -> usize {
        self.0.as_ref().map_or(0, |lists| lists.ends.len())
    }

    /// The first end.
    pub(super) fn first_end(&self) -> Option<u64> {
        self.0.as_ref()?.ends.front().copied()
    }

    /// Whether a message ends at `offset`.
    pub(super) fn has_end(&self, offset: u64) -> bool {
        self.0.as_ref().is_some_and(|lists| lists.ends.binary_search(&offset).is_ok())
    }

    /// Whether a message ends behind `low` and before `high`.
    pub(super) fn ends_between(&self, low: u64, high: u64) -> bool {
        self.0.as_ref().is_some_and(|lists| {
            let first = lists.ends.partition_point(|end| *end <= low);
            lists.ends.get(first).is_some_and(|end| *end < high)
        })
    }

    /// The tag of the message that begins at `offset`.
    pub(super) fn tag(&self, offset: u64) -> Option<[u8; 8]> {
        let tags = &self.0.as_ref()?.tags;
        tags.binary_search_by_key(&offset, |tag| tag.0).ok().map(|index| tags[index].1)
    }

    /// A message ends at `offset`.
    pub(super) fn insert_end(&mut self, offset: u64) {
        let ends = &mut self.0.get_or_insert_default().ends;
        if ends.back().is_none_or(|last| *last < offset) {
            ends.push_back(offset);
        } else if let Err(index) = ends.binary_search(&offset) {
            ends.insert(index, offset);
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
        let Some(lists) = &mut self.0 else { return false };
        let mut last = None;
        while let Some(end) = lists.ends.pop_front_if(|end| *end <= dseq) {
            last = Some(end);
        }
        last == Some(dseq)
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
}

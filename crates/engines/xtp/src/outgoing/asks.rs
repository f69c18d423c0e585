//! Which packets have asked for a status, and what the echo of a status names.
//!
//! Every packet that asks takes the next `sync`, so each value has one asking packet. Of each the number of the
//! transmission is kept until a status has named it or a newer one. Always true: `queue` holds the asks with the values
//! `used + 1` to `sync`, at most [`MAX_ASKS`] of them; `missing` counts those that have to be answered at once.
//= X-7
//= X-10

use super::Asking;
use pinnace_core::Time;
use std::collections::VecDeque;

/// Asks that are remembered without an answer. An echo of an older one only raises rseq and alloc.
const MAX_ASKS: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// SREQ in a packet that was sent once.
    Once,
    /// SREQ in a repetition, or beside DREQ.
    Again,
    Deferred,
    /// SREQ of an expiry: in a control packet, or in a repetition.
    Expiry {
        is_repetition: bool,
    },
}

impl Kind {
    /// Whether its packet was sent once, so that its echo measures the round trip.
    //= X-12
    fn measures(self) -> bool {
        matches!(self, Self::Once | Self::Expiry { is_repetition: false })
    }
}

#[derive(Clone, Copy, Debug)]
struct Ask {
    number: u64,
    at: Time,
    kind: Kind,
}

/// What an echo names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// A packet that never left.
    Nothing,
    /// One older than one already used, or none.
    Older,
    /// All transmissions below `number` came before the asking packet. `asked_at`: the round trip began then, if the echo
    /// measures one.
    Ask { number: u64, asked_at: Option<Time>, is_newer: bool },
}

#[derive(Debug)]
pub(super) struct Asks {
    queue: VecDeque<Ask>,
    used_number: u64,
    sync: u32,
    used: u32,
    missing: u32,
    /// An ask has left while none was missing, and nobody has been told.
    is_first: bool,
    /// Packets with user bytes since the last of them with SREQ. Control packets do not count, whether they ask or not.
    packets_since: u32,
    /// The last packet with user bytes was not followed by anything that asks.
    is_unasked: bool,
    /// The value of the first expiry of a series that no status has ended.
    series: Option<u32>,
}

impl Asks {
    pub(super) fn new(sync: u32) -> Self {
        Self {
            queue: VecDeque::new(),
            used_number: 0,
            sync,
            used: sync,
            missing: 0,
            is_first: false,
            packets_since: 0,
            is_unasked: false,
            series: None,
        }
    }

    pub(super) fn sync(&self) -> u32 {
        self.sync
    }

    pub(super) fn is_missing(&self) -> bool {
        self.missing > 0
    }

    /// Whether the first of those that are missing has left since this was asked last.
    pub(super) fn take_first(&mut self) -> bool {
        core::mem::take(&mut self.is_first)
    }

    /// Whether a packet that asked is still remembered, or one has been answered.
    pub(super) fn has_asked(&self) -> bool {
        !self.queue.is_empty() || self.used_number > 0
    }

    /// A packet with user bytes leaves, with SREQ or without. That it asks is said after it.
    pub(super) fn on_packet(&mut self, has_sreq: bool) {
        self.packets_since = if has_sreq { 0 } else { self.packets_since.saturating_add(1) };
        self.is_unasked = true;
    }

    /// Packets with user bytes since the last of them with SREQ.
    pub(super) fn packets_since(&self) -> u32 {
        self.packets_since
    }

    /// Whether packets with user bytes have left since the last one that asked.
    pub(super) fn is_unasked(&self) -> bool {
        self.is_unasked
    }

    /// A packet leaves that asks, or does not; the transmissions below `number` came before it. Returns its sync.
    pub(super) fn ask(&mut self, now: Time, asking: Asking, number: u64, is_repetition: bool) -> u32 {
        let kind = match asking {
            Asking::No => return self.sync,
            Asking::Status if is_repetition => Kind::Again,
            Asking::Both => Kind::Again,
            Asking::Status => Kind::Once,
            Asking::Deferred => Kind::Deferred,
            Asking::Expiry => Kind::Expiry { is_repetition },
        };
        self.sync = self.sync.wrapping_add(1);
        self.is_unasked = false;
        if asking == Asking::Expiry {
            self.series.get_or_insert(self.sync);
        }
        if kind != Kind::Deferred {
            self.is_first |= self.missing == 0;
            self.missing += 1;
        }
        if self.queue.len() == MAX_ASKS {
            self.take(0);
        }
        self.queue.push_back(Ask { number, at: now, kind });
        self.sync
    }

    /// What `echo` names.
    pub(super) fn named(&self, echo: u32) -> Named {
        let ahead = echo.wrapping_sub(self.used).cast_signed();
        if ahead < 0 {
            return Named::Older;
        }
        if ahead == 0 {
            return Named::Ask { number: self.used_number, asked_at: None, is_newer: false };
        }
        match self.queue.get(ahead as usize - 1) {
            Some(ask) => {
                // An expiry has asked since, and its answer measures: this one may be of what was answered in vain.
                let is_late = self.series.is_some_and(|first| echo.wrapping_sub(first).cast_signed() < 0);
                let measures = ask.kind.measures() && !is_late;
                Named::Ask { number: ask.number, asked_at: measures.then_some(ask.at), is_newer: true }
            }
            // Of whoever has heard nothing yet.
            None if echo == 0 => Named::Older,
            None => Named::Nothing,
        }
    }

    /// Whether `echo` is the value of an ask that is remembered, or the newest one used: at first, the one drawn.
    pub(super) fn has_said(&self, echo: u32) -> bool {
        matches!(self.named(echo), Named::Ask { .. })
    }

    /// When the packet with this sync asked, of those that no status has named.
    pub(super) fn asked_at(&self, echo: u32) -> Option<Time> {
        let index = (echo.wrapping_sub(self.used) as usize).checked_sub(1)?;
        self.queue.get(index).map(|ask| ask.at)
    }

    /// Number of the first transmission that no used status can know of, because what asked before it is unanswered;
    /// the largest number there is if nothing is.
    pub(super) fn first_unanswered(&self) -> u64 {
        self.queue.front().map_or(u64::MAX, |ask| ask.number)
    }

    /// A status with this echo, which names an ask, is used. Returns whether it ends a series of expiries.
    //= X-11
    pub(super) fn answered(&mut self, echo: u32) -> bool {
        if let Some(index) = (echo.wrapping_sub(self.used) as usize).checked_sub(1) {
            self.take(index);
        }
        let ends = self.series.is_some_and(|first| echo.wrapping_sub(first).cast_signed() >= 0);
        if ends {
            self.series = None;
        }
        ends
    }

    /// Forgets the asks up to the one at `index`.
    fn take(&mut self, index: usize) {
        for ask in self.queue.drain(..=index.min(self.queue.len().saturating_sub(1))) {
            self.used = self.used.wrapping_add(1);
            self.used_number = ask.number;
            self.missing -= u32::from(ask.kind != Kind::Deferred);
        }
    }

    /// Gives memory back that is not in use.
    pub(super) fn shrink(&mut self) {
        self.queue.shrink_to_fit();
    }

    /// Bytes on the heap.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        self.queue.capacity() * size_of::<Ask>()
    }
}

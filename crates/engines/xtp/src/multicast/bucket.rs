//! A bucket: what all receivers together say in answer to one SREQ.
//= X-22

use core::ops::Range;
use pinnace_core::{IntervalSet, Time};

/// Ranges that are remembered as missing. Beyond, everything that follows counts as missing.
const MAX_MISSING: usize = 4096;
/// Behind every stream.
const NEVER: u64 = u64::MAX;

/// The answers to one ask. All numbers are stream offsets.
#[derive(Debug)]
pub(super) struct Bucket {
    pub(super) echo: u32,
    pub(super) asked_at: Time,
    pub(super) closes_at: Time,
    pub(super) answers: u32,
    /// The smallest rseq and alloc.
    pub(super) rseq: u64,
    /// Bytes from here on somebody lacks who has joined since, and cannot answer.
    guest: u64,
    pub(super) alloc: u64,
    /// The largest.
    pub(super) most_rseq: u64,
    pub(super) most_alloc: u64,
    /// The union of what is missing.
    missing: IntervalSet,
}

impl Bucket {
    pub(super) fn new(echo: u32, asked_at: Time, closes_at: Time) -> Self {
        Self {
            echo,
            asked_at,
            closes_at,
            answers: 0,
            rseq: u64::MAX,
            guest: u64::MAX,
            alloc: u64::MAX,
            most_rseq: 0,
            most_alloc: 0,
            missing: IntervalSet::new(),
        }
    }

    /// An answer. The spans rise, and lie behind rseq.
    pub(super) fn add(&mut self, rseq: u64, alloc: u64, spans: &[(u64, u64)]) {
        self.answers = self.answers.saturating_add(1);
        self.alloc = self.alloc.min(alloc);
        self.most_rseq = self.most_rseq.max(rseq);
        self.most_alloc = self.most_alloc.max(alloc);
        self.rseq = self.rseq.min(rseq);
        let mut low = rseq;
        for (span_low, span_high) in spans.iter().copied().chain([(NEVER, NEVER)]) {
            if low < span_low && self.missing.try_insert(low..span_low, MAX_MISSING).is_err() {
                self.missing.insert(low..NEVER);
                return;
            }
            low = span_high;
        }
    }

    /// Somebody has joined, who has nothing from `start` on. That keeps what is held; it repeats nothing, for nobody has yet
    /// said that it was lost.
    pub(super) fn add_guest(&mut self, start: u64) {
        self.guest = self.guest.min(start);
    }

    /// Nobody needs what lies below.
    pub(super) fn needed_from(&self) -> u64 {
        self.rseq.min(self.guest)
    }

    /// What all have beyond rseq, below `sent`.
    pub(super) fn spans(&self, sent: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        self.missing.missing_in(self.rseq.min(sent)..sent)
    }

    /// Bytes below `sent` that somebody lacks.
    pub(super) fn missing(&self, sent: u64) -> u64 {
        let low = self.rseq.min(sent);
        sent - low - self.spans(sent).map(|span| span.end - span.start).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// rseq, alloc and spans.
    type Answer<'a> = (u64, u64, &'a [(u64, u64)]);

    fn bucket(answers: &[Answer<'_>]) -> Bucket {
        let mut bucket = Bucket::new(1, Time::ZERO, Time::ZERO);
        for (rseq, alloc, spans) in answers {
            bucket.add(*rseq, *alloc, spans);
        }
        bucket
    }

    //= X-22 test
    #[test]
    fn a_bucket_has_the_smallest_numbers_and_the_union_of_what_is_missing() {
        let bucket = bucket(&[(100, 900, &[(200, 400)]), (150, 800, &[(300, 500)]), (600, 1000, &[])]);
        assert_eq!((bucket.rseq, bucket.alloc, bucket.answers), (100, 800, 3));
        assert_eq!((bucket.most_rseq, bucket.most_alloc), (600, 1000));
        assert_eq!((bucket.spans(600).next(), bucket.spans(600).count()), (Some(300..400), 1));
        assert_eq!(bucket.missing(600), 400);
    }

    //= X-22 test
    #[test]
    fn all_bytes_are_there_if_nobody_lacks_any() {
        let all = bucket(&[(600, 900, &[]), (600, 900, &[])]);
        assert_eq!((all.rseq, all.missing(600)), (600, 0));
        let mut with_guest = bucket(&[(600, 900, &[])]);
        with_guest.add_guest(400);
        assert_eq!((with_guest.needed_from(), with_guest.answers), (400, 1));
        assert_eq!((with_guest.rseq, with_guest.missing(600)), (600, 0), "nothing is repeated for a guest");
    }

    #[test]
    fn crumbs_do_not_grow_a_bucket_without_limit() {
        let mut bucket = bucket(&[]);
        for round in 0..200_u64 {
            let spans: Vec<_> = (0..70).map(|at| (2 + 4 * (round * 70 + at), 4 + 4 * (round * 70 + at))).collect();
            bucket.add(1, 0, &spans);
            bucket.add(spans[69].1, 0, &[]);
        }
        assert!(bucket.spans(1 << 40).count() <= MAX_MISSING + 1);
    }
}

//! The smallest or largest of what was measured within a window: round trips, delivery rates.
//!
//! Kathleen Nichols' filter: the best sample and two younger runners-up stand in for all of them. Memory is constant
//! and a sample costs a few comparisons. Always true: the first is at least as good as the second, that as the third,
//! and they were taken in this order. The result is exact while samples rise or fall steadily, and otherwise never
//! older than the window.

/// The best `V` of the last `window` steps of a clock: nanoseconds, or rounds, or anything else that only grows.
///
/// ```
/// use pinnace_core::Windowed;
/// let mut lowest = Windowed::smallest(10);
/// assert_eq!(lowest.insert(0, 50), 50);
/// assert_eq!(lowest.insert(5, 70), 50);
/// assert_eq!(lowest.insert(11, 80), 70); // 50 is too old
/// ```
#[derive(Clone, Debug)]
pub struct Windowed<V> {
    window: u64,
    better: fn(&V, &V) -> bool,
    /// The best, the best since that, the best since the second.
    best: Option<[(u64, V); 3]>,
}

impl<V: Copy + PartialOrd> Windowed<V> {
    /// Follows the minimum over `window` steps.
    pub fn smallest(window: u64) -> Self {
        Self { window, better: |a, b| a <= b, best: None }
    }

    /// Follows the maximum over `window` steps.
    pub fn largest(window: u64) -> Self {
        Self { window, better: |a, b| a >= b, best: None }
    }

    /// The best sample, if there is any. Ages only with [`insert`](Self::insert).
    pub fn value(&self) -> Option<V> {
        self.best.map(|best| best[0].1)
    }

    /// Forgets all samples.
    pub fn clear(&mut self) {
        self.best = None;
    }

    /// Takes a sample at `at` and returns the best one now.
    pub fn insert(&mut self, at: u64, value: V) -> V {
        let new = (at, value);
        let mut best = match self.best {
            Some(best) if !(self.better)(&value, &best[0].1) && self.age(at, best[2].0) <= self.window => best,
            _ => [new; 3],
        };
        if (self.better)(&value, &best[1].1) {
            best[1] = new;
            best[2] = new;
        } else if (self.better)(&value, &best[2].1) {
            best[2] = new;
        }
        if self.age(at, best[0].0) > self.window {
            best = [best[1], best[2], new];
            if self.age(at, best[0].0) > self.window {
                best = [best[1], best[2], new];
            }
        } else if best[1].0 == best[0].0 && self.age(at, best[1].0) > self.window / 4 {
            // No runner-up for a quarter of the window: take what there is, so that there is one when the best ages.
            best[1] = new;
            best[2] = new;
        } else if best[2].0 == best[1].0 && self.age(at, best[2].0) > self.window / 2 {
            best[2] = new;
        }
        self.best = Some(best);
        best[0].1
    }

    const fn age(&self, now: u64, at: u64) -> u64 {
        now.saturating_sub(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_largest_of_ten_rounds_goes_after_ten_rounds() {
        let mut rate = Windowed::largest(10);
        rate.insert(0, 100);
        for round in 1..=10 {
            assert_eq!(rate.insert(round, 90 - round), 100);
        }
        assert!(rate.insert(11, 10) < 100);
        assert_eq!(rate.insert(12, 500), 500);
        rate.clear();
        assert_eq!(rate.value(), None);
    }

    proptest! {
        #[test]
        fn is_a_recent_sample_and_at_least_as_good_as_the_newest(
            steps in prop::collection::vec((0_u64..40, 0_u32..1000), 1..80),
        ) {
            let mut filter = Windowed::smallest(100);
            let (mut now, mut seen) = (0, Vec::new());
            for (step, value) in steps {
                now += step;
                seen.push((now, value));
                let best = filter.insert(now, value);
                prop_assert!(best <= value);
                let known = seen.iter().any(|(at, value)| *value == best && now - at <= 100);
                prop_assert!(known, "{best} is not a sample of the window");
            }
        }
    }
}

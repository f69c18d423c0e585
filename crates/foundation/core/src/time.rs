//! The time of an engine: nanoseconds on a clock that the driver owns.
//!
//! Engines never read a clock (architecture, rule 1). Whoever drives one passes the current [`Time`] in, so the
//! simulator can run hours in a second and the same seed gives the same trace. Durations are [`core::time::Duration`].
//! Always true: a `Time` is only compared with others of the same driver.

use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

/// A moment on the driver's clock, in nanoseconds since an epoch that only the driver knows.
///
/// ```
/// use core::time::Duration;
/// use pinnace_core::Time;
/// let start = Time::ZERO + Duration::from_millis(5);
/// assert_eq!(start - Time::ZERO, Duration::from_millis(5));
/// assert_eq!(Time::ZERO - start, Duration::ZERO); // never negative
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// The epoch.
    pub const ZERO: Self = Self(0);
    /// Later than everything that happens.
    pub const MAX: Self = Self(u64::MAX);

    /// The moment `nanos` nanoseconds after the epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was; zero if it is in the future.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;
    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, rhs: Duration) {
        *self = *self + rhs;
    }
}

impl Sub for Time {
    type Output = Duration;
    fn sub(self, rhs: Self) -> Duration {
        self.since(rhs)
    }
}

impl core::fmt::Debug for Time {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{:09}s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Time::MAX + Duration::from_secs(1), Time::MAX);
        assert_eq!(Time::ZERO - Time::MAX, Duration::ZERO);
        assert_eq!(format!("{:?}", Time::from_nanos(1_500_000_000)), "1.500000000s");
    }
}

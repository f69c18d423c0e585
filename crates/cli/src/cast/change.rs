//! Changes of the quality of service in mid-stream, as the command line has them: `5s:rate=2mbit,priority=0`.

use crate::exit::Error;
use crate::units;
use pinnace::a1::Qos;
use std::str::FromStr;
use std::time::Duration;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// After the beginning.
    pub(super) at: Duration,
    /// Bytes a second.
    rate: Option<u64>,
    burst: Option<u32>,
    priority: Option<u8>,
}

impl FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (at, what) = text.split_once(':').ok_or("write it as 5s:rate=2mbit,burst=64KiB,priority=0")?;
        let mut change = Self { at: units::duration(at)?, rate: None, burst: None, priority: None };
        for item in what.split(',') {
            match item.split_once('=') {
                Some(("rate", rate)) => change.rate = Some(units::byte_rate(units::bit_rate(rate)?)),
                Some(("burst", burst)) => {
                    change.burst = Some(u32::try_from(units::bytes(burst)?).map_err(|_| "a burst is below 4 GiB")?);
                }
                Some(("priority", priority)) => {
                    change.priority = Some(priority.parse().map_err(|_| "a priority is a number from 0 to 255")?);
                }
                _ => return Err(format!("`{item}` cannot be changed: rate, burst and priority can")),
            }
        }
        Ok(change)
    }
}

impl Change {
    /// The record after it.
    pub(super) fn apply(&self, qos: Qos) -> Qos {
        Qos {
            send_average: self.rate.unwrap_or(qos.send_average),
            send_burst: self.burst.unwrap_or(qos.send_burst),
            priority: self.priority.unwrap_or(qos.priority),
            ..qos
        }
    }
}

/// In the order of their times.
pub(super) fn sorted(changes: &[Change]) -> Result<std::collections::VecDeque<Change>, Error> {
    let mut changes = changes.to_vec();
    changes.sort_by_key(|change| change.at);
    if changes.windows(2).any(|two| two[0].at == two[1].at) {
        return Err(Error::usage("--change: two changes at the same time; write them as one"));
    }
    Ok(changes.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_and_applied() {
        let change: Change = "5s:rate=8mbit,priority=3".parse().unwrap();
        let before = Qos { send_average: 1, send_burst: 2, priority: 9, ..Qos::default() };
        let after = change.apply(before);
        assert_eq!((after.send_average, after.send_burst, after.priority), (1_000_000, 2, 3));
        let sorted = sorted(&["5s:burst=1kB".parse().unwrap(), "100ms:priority=0".parse().unwrap()]).unwrap();
        assert_eq!(sorted[0].at, Duration::from_millis(100));
        for wrong in ["", "5s", "5s:", "5s:rate", "5s:rate=2", "5s:block=3", "x:rate=2mbit", "5s:priority=256"] {
            assert!(wrong.parse::<Change>().is_err(), "{wrong}");
        }
        assert!(super::sorted(&[change.clone(), change]).is_err());
    }
}

//! What a stream makes of the words of a service, at either end.
//!
//! Always true: both ends understand the same words, so that one text may be given to both.

use super::carrier::{Arrival, Carrier};
use super::header;
use crate::exit::Error;
use crate::service::{Asked, Tool};
use crate::units;
use pinnace::service::Method;
use std::ops::Range;

/// An end of a stream, by its name.
pub(super) const fn tool(name: &'static str) -> Tool {
    Tool { name, method: Method::Vrp, cannot }
}

/// Why a stream does not meet a word of a service; `None`: it does.
fn cannot(word: &str) -> Option<&'static str> {
    Some(match word {
        "largest" => "frames have one size: size=",
        "priority" => "VRP knows no priorities",
        "multicast" => "a stream has one sink",
        "direction" | "pattern" => "frames go from the one who connects to the one who listens",
        _ => return None,
    })
}

/// Whether what carries the frames can carry a service.
pub(super) fn check_carrier(over: &Carrier) -> Result<(), Error> {
    match over {
        Carrier::Vrp => Ok(()),
        Carrier::Tcp(_) => Err(Error::usage("a service is carried by VRP: leave it out, or --over")),
    }
}

/// Takes what a word says, unless an option has said it.
pub(super) fn take<T>(
    said: &mut Option<T>,
    option: &str,
    word: Option<String>,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<(), Error> {
    let Some(word) = word else { return Ok(()) };
    if said.is_some() {
        return Err(both(option));
    }
    *said = Some(read(&word).map_err(|why| Error::usage(format!("`{word}`: {why}")))?);
    Ok(())
}

pub(super) fn both(option: &str) -> Error {
    Error::usage(format!("{option} and the service say the same thing: leave one of them out"))
}

/// What a sink expects of each frame. The share that may be lost is not among it: the sender counts it by windows of its
/// own, of which a frame may have a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Expected {
    may_lose: bool,
    run: Option<u64>,
    critical: Vec<Range<u64>>,
    size: Option<u64>,
}

impl Expected {
    /// What the words say of each frame.
    pub(super) fn of(asked: &Asked) -> Result<Self, Error> {
        let bytes = |name| asked.word(name).filter(|text| text != "any").map(|text| units::bytes(&text)).transpose();
        let critical = asked.word("critical").unwrap_or_default();
        let critical = critical.split(',').filter(|range| !range.is_empty()).map(units::byte_range);
        let read = || -> Result<Self, String> {
            Ok(Self {
                may_lose: asked.word("loss").is_some(),
                run: bytes("run")?,
                critical: critical.collect::<Result<_, _>>()?,
                size: bytes("size")?,
            })
        };
        read().map_err(Error::usage)
    }

    /// What a frame is that it should not be.
    pub(super) fn breach(&self, arrival: &Arrival) -> Option<String> {
        self.breach_of(arrival.len().saturating_sub(header::BYTES) as u64, &arrival.holes)
    }

    /// The same, of so many bytes behind the header.
    fn breach_of(&self, len: u64, holes: &[Range<usize>]) -> Option<String> {
        if let Some(size) = self.size.filter(|size| len > *size) {
            return Some(format!("it has {len} bytes, not {size}"));
        }
        for hole in holes {
            // Ranges count from behind the header.
            let behind = |at: usize| at.saturating_sub(header::BYTES) as u64;
            let (low, high) = (behind(hole.start), behind(hole.end));
            if !self.may_lose {
                return Some(format!("its bytes {low}..{high} are missing, and none may"));
            }
            if let Some(run) = self.run.filter(|run| high - low > *run) {
                return Some(format!("{} bytes in a row are missing, and {run} may", high - low));
            }
            if self.critical.iter().any(|range| range.start < high && low < range.end) {
                return Some(format!("its bytes {low}..{high} are missing, and some of them may not"));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(words: &str) -> Expected {
        Expected::of(&tool("sail").asked("127.0.0.1:4747", Some(words)).unwrap()).unwrap()
    }

    #[test]
    fn a_frame_is_what_the_words_say_or_not() {
        let hole = |low: usize, high: usize| low + header::BYTES..high + header::BYTES;
        let contract = expected("loss=10% run=4KiB critical=0..100,9000..9100 size=50kB");
        assert_eq!(contract.breach_of(50_000, &[hole(100, 4196), hole(9100, 10_000)]), None);
        for (words, len, hole, about) in [
            ("loss=10% run=4KiB", 50_000, hole(100, 4197), "4097 bytes in a row"),
            ("loss=10% critical=0..100,9000..9100", 50_000, hole(8000, 9001), "8000..9001"),
            ("loss=10% critical=0..100,9000..9100", 50_000, hole(99, 120), "99..120"),
            ("size=50kB", 50_001, hole(0, 0), "50001"),
            ("", 50_000, hole(0, 1), "none may"),
        ] {
            let breach = expected(words).breach_of(len, &[hole]).unwrap();
            assert!(breach.contains(about), "{words}: {breach}");
        }
        assert_eq!(expected("").breach_of(1 << 40, &[]), None);
        assert_eq!(expected("loss=10%").breach_of(10, &[hole(0, 10)]), None);
    }
}

//! Bytes, shares, rates, times and ranges, as people write them on a command line: the library's.

pub(crate) use pinnace::service::units::{bit_rate, byte_range, bytes, duration, share};
use std::time::Duration;

/// `1 message`, `2 messages`, `2 processes`.
pub(crate) fn count_of(count: u64, what: &str) -> String {
    let ending = match count {
        1 => "",
        _ if what.ends_with('s') => "es",
        _ => "s",
    };
    format!("{count} {what}{ending}")
}

/// A share in percent, if it is known.
pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or_else(String::new, |share| format!("{:.2} %", share * 100.0))
}

/// A ratio, if it is known.
pub(crate) fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"))
}

/// A time that is not nothing.
pub(crate) fn some_time(text: &str) -> Result<Duration, String> {
    duration(text).and_then(|time| if time.is_zero() { Err("must be longer than 0".to_owned()) } else { Ok(time) })
}

/// Bytes that a protocol says in 32 bits.
pub(crate) fn size(text: &str) -> Result<u32, String> {
    let bytes = bytes(text).map_err(|_| "expected a size like 1500, 64KiB, 1MiB or 10MB".to_owned())?;
    u32::try_from(bytes).map_err(|_| format!("at most {} bytes", u32::MAX))
}

/// Bytes a second of a rate in bits, which is not exceeded; at least one.
pub(crate) fn byte_rate(bit_rate: u64) -> u64 {
    (bit_rate / 8).max(1)
}

/// The window of a stream over XTP or QMP.
pub(crate) fn window(text: &str) -> Result<u32, String> {
    match u32::try_from(bytes(text)?) {
        Ok(bytes @ 1..=0x4000_0000) => Ok(bytes),
        _ => Err("a window has 1 byte to 1 GiB".to_owned()),
    }
}

/// What random content follows from.
pub(crate) fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("a seed is a whole number from 0 to {}", u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_no_time_and_a_seed_is_not_negative() {
        assert_eq!(some_time("5ms"), Ok(Duration::from_millis(5)));
        for text in ["0", "0s", "0ms", "-1s", "x"] {
            assert!(some_time(text).is_err(), "{text}");
        }
        assert_eq!((seed("0"), seed("18446744073709551615")), (Ok(0), Ok(u64::MAX)));
        for text in ["-1", "18446744073709551616", "x", ""] {
            assert!(seed(text).unwrap_err().contains("from 0 to 18446744073709551615"), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(
            (size("1500"), size("64KiB"), size("1.5M"), size("10MB")),
            (Ok(1500), Ok(65_536), Ok(1_572_864), Ok(10_000_000))
        );
        assert!(
            size("4GiB").is_err()
                && size("4096MiB").is_err()
                && size("1XB").is_err()
                && size("").is_err()
                && size("-1").is_err()
        );
        assert_eq!(size("4294967295"), Ok(u32::MAX));
    }

    #[test]
    fn a_window_is_neither_empty_nor_too_large() {
        assert_eq!((window("1"), window("64KiB"), window("1GiB")), (Ok(1), Ok(65_536), Ok(1 << 30)));
        for text in ["0", "1073741825", "4GiB", "16EiB"] {
            assert!(window(text).is_err(), "{text}");
        }
    }

    #[test]
    fn one_is_one_and_all_others_are_many() {
        assert_eq!([0, 1, 2].map(|count| count_of(count, "sink")), ["0 sinks", "1 sink", "2 sinks"]);
        assert_eq!([1, 2].map(|count| count_of(count, "process")), ["1 process", "2 processes"]);
    }
}

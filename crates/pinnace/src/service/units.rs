//! Bytes, shares, rates, times and ranges, as people write them: on a command line, in a service, in a file.
//!
//! Always true: what is read is finite and within what it says it is; an error says what would have been right; what is
//! written here is read back as the very same value.

use std::ops::Range;
use std::time::Duration;

/// The longest span of time that can be said, a hundred days.
pub const LONGEST: Duration = Duration::from_secs(100 * 24 * 3600);

/// The highest rate that can be said, in bits a second.
pub const FASTEST: u64 = 1_000_000_000_000_000;

/// Splits `100mbit` into 100 and `mbit`.
fn number(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let value: f64 = text[..end].parse().ok()?;
    value.is_finite().then_some((value, text[end..].trim()))
}

/// A number of bytes: `1048576`, `64KiB`, `1.5GB`.
///
/// # Errors
/// What is wrong with it, for people.
pub fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(format!("`{text}` is no number of bytes"));
    }
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(format!("`{unit}` is no unit of bytes; try KiB, MiB, GiB, kB, MB or GB")),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(|| "too large".to_owned());
    }
    if !number.contains('.') {
        return Err(format!("`{text}` is no number of bytes"));
    }
    let number: f64 = number.parse().map_err(|_| format!("`{text}` is no number of bytes"))?;
    let bytes = number * factor as f64;
    if bytes < u64::MAX as f64 { Ok(bytes as u64) } else { Err("too large".to_owned()) }
}

/// Bytes from the first up to, and without, the second: `0..1KiB`.
///
/// # Errors
/// What is wrong with it, for people.
pub fn byte_range(text: &str) -> Result<Range<u64>, String> {
    let (low, high) =
        text.split_once("..").ok_or_else(|| format!("`{text}` is no range of bytes; write it as 0..1KiB"))?;
    let (low, high) = (bytes(low.trim())?, bytes(high.trim())?);
    if low < high {
        Ok(low..high)
    } else {
        Err(format!("`{text}` is empty: a range is written as FIRST..END, without its end"))
    }
}

/// A share of the whole, 0 to 1: `10%` or `0.1`. A whole number without the sign could mean either, and is refused.
///
/// # Errors
/// What is wrong with it, for people.
pub fn share(text: &str) -> Result<f64, String> {
    let share = match number(text) {
        Some((value, "%")) => value / 100.0,
        Some((value, "")) if value < 1.0 => value,
        Some((value, "")) => return Err(format!("is {value} meant in percent? write {value}%")),
        _ => return Err(format!("`{text}` is no share; write it as 10% or 0.1")),
    };
    if share <= 1.0 { Ok(share) } else { Err(format!("{text} is more than everything; 100% is the most")) }
}

/// Bits a second, at least one: `100mbit`, `2.5gbit`.
///
/// # Errors
/// What is wrong with it, for people.
pub fn bit_rate(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no rate in bits a second; write it as 100mbit or 2.5gbit");
    let (value, unit) = number(text).ok_or_else(wrong)?;
    let factor = match unit.to_ascii_lowercase().trim_end_matches("/s") {
        "bit" => 1.0,
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        _ => return Err(wrong()),
    };
    match (value * factor).round() {
        rate if rate < 1.0 => Err(format!("`{text}` is less than a bit a second")),
        rate if rate > FASTEST as f64 => Err(format!("`{text}` is more than {}", of_bit_rate(FASTEST))),
        rate => Ok(rate as u64),
    }
}

/// A span of time: `50ms`, `2s`, `250us`. At most a hundred days.
///
/// # Errors
/// What is wrong with it, for people.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no span of time; write it as 50ms, 2s or 250us");
    let (value, unit) = number(text).ok_or_else(wrong)?;
    let nanoseconds = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" => 60e9,
        "" if value == 0.0 => 1.0,
        _ => return Err(wrong()),
    };
    // Within 2^53 ns, up to which a double is exact.
    match value * nanoseconds {
        nanoseconds if nanoseconds > LONGEST.as_nanos() as f64 => {
            Err(format!("`{text}` is longer than a hundred days"))
        }
        nanoseconds => Ok(Duration::from_nanos(nanoseconds.round() as u64)),
    }
}

/// The shortest of `value` in the units that divide it; the first of those, if there are more.
fn in_units(value: u64, units: &[(u64, &str)]) -> String {
    let exact = units.iter().filter(|(factor, _)| value > 0 && value.is_multiple_of(*factor));
    exact.map(|(factor, unit)| format!("{}{unit}", value / factor)).min_by_key(String::len).unwrap_or("0".to_owned())
}

/// What [`bytes`] reads: `64KiB`, `2MB`, `1400`.
pub fn of_bytes(bytes: u64) -> String {
    const UNITS: &[(u64, &str)] = &[
        (1 << 40, "TiB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
        (1_000_000_000_000, "TB"),
        (1_000_000_000, "GB"),
        (1_000_000, "MB"),
        (1_000, "kB"),
        (1, ""),
    ];
    // A unit is easier to read than two digits more.
    let with_unit = in_units(bytes, &UNITS[..UNITS.len() - 1]);
    if with_unit == "0" { bytes.to_string() } else { with_unit }
}

/// What [`byte_range`] reads.
pub fn of_byte_range(range: &Range<u64>) -> String {
    format!("{}..{}", of_bytes(range.start), of_bytes(range.end))
}

/// What [`share`] reads, to three digits: `12.5%`, `0.0001%`. What is below a billionth of a percent is `0%`.
pub fn of_share(share: f64) -> String {
    let percent = share * 100.0;
    if percent.is_nan() || percent <= 0.0 {
        return "0%".to_owned();
    }
    let decimals = (2.0 - percent.log10().floor()).clamp(0.0, 9.0) as usize;
    let text = format!("{percent:.decimals$}");
    let text = if decimals > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}%")
}

/// What [`bit_rate`] reads: `200mbit`. More than [`FASTEST`] counts as that, and nothing as one bit a second.
pub fn of_bit_rate(rate: u64) -> String {
    let rate = rate.clamp(1, FASTEST);
    in_units(rate, &[(1_000_000_000, "gbit"), (1_000_000, "mbit"), (1_000, "kbit"), (1, "bit")])
}

/// What [`duration`] reads: `50ms`. More than [`LONGEST`] counts as that.
pub fn of_duration(time: Duration) -> String {
    let nanoseconds = time.min(LONGEST).as_nanos() as u64;
    in_units(nanoseconds, &[(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn byte_counts_are_read_as_people_write_them() {
        for (text, value) in
            [("0", 0), ("17", 17), ("64KiB", 65_536), ("1.5k", 1536), ("2 MiB", 2 << 20), ("3GB", 3_000_000_000)]
        {
            assert_eq!(bytes(text), Ok(value), "{text}");
        }
        for text in ["", "x", "1 parsec", "99999999999999999999TiB", "99999999.0TiB", "-1"] {
            assert!(bytes(text).is_err(), "{text}");
        }
        assert_eq!(bytes("-5"), Err("`-5` is no number of bytes".to_owned()));
    }

    #[test]
    fn ranges_are_read_and_empty_ones_refused() {
        assert_eq!(byte_range("0..1KiB"), Ok(0..1024));
        assert_eq!(byte_range("1kB .. 1.5kB"), Ok(1000..1500));
        for text in ["", "..", "1", "1..", "..5", "5..5", "6..5", "0-5", "0..x"] {
            assert!(byte_range(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_need_a_sign_or_a_fraction() {
        for (text, value) in [("10%", 0.1), ("0.1", 0.1), ("100%", 1.0), ("0", 0.0), ("0%", 0.0), ("2.5 %", 0.025)] {
            assert!((share(text).unwrap() - value).abs() < 1e-12, "{text}");
        }
        for text in ["", "1", "10", "101%", "-1%", "x", "%", "NaN", "1e9%"] {
            assert!(share(text).is_err(), "{text}");
        }
        assert!(share("10").unwrap_err().contains("10%"));
    }

    #[test]
    fn rates_and_times_have_units() {
        assert_eq!(bit_rate("100mbit"), Ok(100_000_000));
        assert_eq!(bit_rate("2.5 Gbit/s"), Ok(2_500_000_000));
        for text in ["", "0mbit", "100", "100mb", "fast", "-1mbit", "99999999gbit"] {
            assert!(bit_rate(text).is_err(), "{text}");
        }
        assert_eq!(duration("50ms"), Ok(Duration::from_millis(50)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        for text in ["", "50", "50 parsecs", "-1s", "8640001s", "9000000s", "999999999999s"] {
            assert!(duration(text).is_err(), "{text}");
        }
        // What can be read, and is too much, is not said to be unreadable.
        assert!(duration("150000min").unwrap_err().contains("longer than a hundred days"));
        assert!(bit_rate("1000001gbit").unwrap_err().contains("more than 1000000gbit"));
        assert!(bit_rate("0mbit").unwrap_err().contains("less than a bit a second"));
    }

    #[test]
    fn what_is_written_is_short() {
        let written = [0, 1400, 4096, 2_000_000, 65_536, 1 << 20, 1_500_000].map(of_bytes);
        assert_eq!(written, ["0", "1400", "4KiB", "2MB", "64KiB", "1MiB", "1500kB"]);
        let shares = [0.0, 1e-6, 0.01, 0.125, 1.0, 0.0129, f64::NAN, 1e-20, 0.1 + 0.2].map(of_share);
        assert_eq!(shares, ["0%", "0.0001%", "1%", "12.5%", "100%", "1.29%", "0%", "0%", "30%"]);
        assert_eq!([200_000_000, 2_500_000_000, 1].map(of_bit_rate), ["200mbit", "2500mbit", "1bit"]);
        assert_eq!([50_000, 0, 1_500_000].map(|us| of_duration(Duration::from_micros(us))), ["50ms", "0", "1500ms"]);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value in any::<u64>(), rate in 1..=FASTEST, nanoseconds in 0..=8_640_000_000_000_000_u64) {
            prop_assert_eq!(bytes(&of_bytes(value)), Ok(value));
            prop_assert_eq!(bytes(&of_bytes(value & !0xfff)), Ok(value & !0xfff));
            prop_assert_eq!(bit_rate(&of_bit_rate(rate)), Ok(rate));
            let time = Duration::from_nanos(nanoseconds);
            prop_assert_eq!(duration(&of_duration(time)), Ok(time));
        }
    }
}

//! Bytes, rates, times, counts and shares, as people read them.

use core::time::Duration;

/// `8.0 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    let value = bytes as f64;
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => trimmed(value / 1024.0, "KiB"),
        1_048_576..1_073_741_824 => trimmed(value / 1_048_576.0, "MiB"),
        _ => trimmed(value / 1_073_741_824.0, "GiB"),
    }
}

fn trimmed(value: f64, unit: &str) -> String {
    if value.fract() == 0.0 { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") }
}

/// `73.6 Mbit/s`.
pub(crate) fn rate(bits_per_second: f64) -> String {
    match bits_per_second {
        rate if rate < 1e3 => format!("{rate:.0} bit/s"),
        rate if rate < 1e6 => format!("{:.1} kbit/s", rate / 1e3),
        rate if rate < 1e9 => format!("{:.1} Mbit/s", rate / 1e6),
        rate => format!("{:.2} Gbit/s", rate / 1e9),
    }
}

/// `1.234 s`, to the microsecond below a second.
pub(crate) fn time(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 1e-3 => format!("{:.0} us", seconds * 1e6),
        seconds if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        seconds => format!("{seconds:.3} s"),
    }
}

/// `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1.23 %` of two counts; 0 of nothing.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    format!("{:.2} %", share(part, whole) * 100.0)
}

/// A part of a whole, 0 to 1; 0 of nothing.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_people_read_them() {
        assert_eq!((bytes(1023), bytes(1536), bytes(8 << 20)), ("1023 B".into(), "1.5 KiB".into(), "8 MiB".into()));
        assert_eq!((count(0), count(999), count(1_234_567)), ("0".into(), "999".into(), "1,234,567".into()));
        assert_eq!((rate(73.6e6), time(Duration::from_millis(250))), ("73.6 Mbit/s".into(), "250.0 ms".into()));
        assert_eq!((percent(1, 8), percent(1, 0)), ("12.50 %".into(), "0.00 %".into()));
    }
}

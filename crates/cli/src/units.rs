//! Bytes, shares, rates, times and ranges, as people write them on a command line: the library's.

pub(crate) use pinnace::service::units::{bit_rate, byte_range, bytes, duration, share};

/// `1 message`, `2 messages`, `2 processes`.
pub(crate) fn count_of(count: u64, what: &str) -> String {
    let ending = match count {
        1 => "",
        _ if what.ends_with('s') => "es",
        _ => "s",
    };
    format!("{count} {what}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_one_and_all_others_are_many() {
        assert_eq!([0, 1, 2].map(|count| count_of(count, "sink")), ["0 sinks", "1 sink", "2 sinks"]);
        assert_eq!([1, 2].map(|count| count_of(count, "process")), ["1 process", "2 processes"]);
    }
}

//! Bytes, shares, rates, times and ranges, as people write them on a command line: the library's.

pub(crate) use pinnace::service::units::{bit_rate, byte_range, bytes, duration, share};

//! XTP packets (specs/xtp.md, sections 1 and 2): one model, two codecs.
//!
//! [`Codec::Xtp40`] is the layout of XTP 4.0; [`Codec::Xtp36`] is a reconstruction of revision 3.6. A [`Header`] and a
//! [`Body`] mean the same in both; what a codec has no field for is left out, or 0.
//!
//! A packet is read in steps, because its data need not lie where its header lies: [`Head::parse`] takes the first
//! [`Codec::header_bytes`] and the length of the datagram, [`Head::verify`] the bytes that are summed, piece by piece,
//! and [`Body::parse`] what follows the header, of DATA and FIRST no more than the first [`MAX_PREFIX_BYTES`]. A packet
//! that fails any of the three is dropped in silence. Always true: lengths that lie never make a [`Body`]; what a [`Body`]
//! borrows was checked to its end. Not checked here, because it needs a context: numbers against a window, and the order of
//! spans.
//!
//! Whole control packets are written at once; of DATA and FIRST a [`Prefix`], behind which the user's bytes and
//! [`Codec::tail_bytes`] zeros follow. Where NOCHECK is clear, whoever sends those fills in their checksum:
//!
//! | codec | checksum | over | at |
//! |---|---|---|---|
//! | xtp40 | Internet, 2 bytes | the whole packet | [`CHECK_AT`] |
//! | xtp36 | CXOR, 4 bytes | all but the first 40 and the last 4 bytes | the last [`TRAILER_BYTES`] |
//!
//! ```
//! use pinnace_wire::xtp::{Body, Codec, Head, Header, Key, Kind, Options, Spans, Status, status};
//!
//! let key = Key { rtn: true, value: 7 };
//! let header =
//!     Header { codec: Codec::Xtp40, key, options: Options::SREQ, kind: Kind::Cntl, sort: 0, sync: 1, seq: 100, dseq: 0 };
//! let told = Status { rseq: 50, alloc: 90, echo: 3, spans: Spans::EMPTY, xkey: 0, traffic: None, clock: None, hseq: 50 };
//! let mut packet = Vec::new();
//! status(&header, &told, &mut packet);
//!
//! let head = Head::parse(Codec::Xtp40, &packet, packet.len(), false)?;
//! assert_eq!(head.header, header);
//! assert!(head.verify([&packet[head.summed()]]));
//! assert_eq!(Body::parse(&head, &packet)?, Body::Status(told));
//! # Ok::<(), pinnace_wire::Malformed>(())
//! ```

mod body;
mod header;
mod model;
mod write;

pub use body::{SpanIter, Spans};
pub use header::{CHECK_AT, Head, TRAILER_BYTES};
pub use model::{
    AddressSegment, Body, Clock, Code, Codec, FirstAddress, FirstTraffic, Header, HostPair, Key, Kind, Options,
    Service, Status, Traffic, Value,
};
pub use write::{Prefix, data_prefix, diag, first_prefix, join, status};

/// The most bytes that lie before the user's in DATA and FIRST, in both codecs.
pub const MAX_PREFIX_BYTES: usize = 112;
/// Bytes that may be sent before a status has come (specs/xtp.md, 3.6).
pub const INITIAL_ALLOC: u32 = 65_536;
/// The largest window in bytes (specs/xtp.md, 3.1).
pub const MAX_WINDOW: u32 = 1 << 30;

/// Bytes of an address segment of IPv4 and of IPv6, of a traffic specifier, and of a tag.
const ADDRESS4_BYTES: usize = 16;
const ADDRESS6_BYTES: usize = 40;
const TRAFFIC_BYTES: usize = 24;
const BTAG_BYTES: usize = 8;
/// Bytes of a segment before its spans: CNTL, ECNTL and TCNTL of xtp40, CNTL of xtp36.
const CNTL_BYTES: usize = 20;
const ECNTL_BYTES: usize = 24;
const TCNTL_BYTES: usize = 32;
const CNTL36_BYTES: usize = 48;
/// Bytes of a DIAG before its text.
const DIAG_BYTES: usize = 8;

/// The domain and the formats that we know: the Internet, of two versions, and the only traffic specifier.
const INTERNET: u8 = 1;
const IPV4: u8 = 1;
const IPV6: u8 = 6;
const TRAFFIC: u8 = 1;

/// Reads a big-endian `u64` at `at`. The caller has checked the length.
fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from(crate::be32(bytes, at)) << 32 | u64::from(crate::be32(bytes, at + 4))
}

#[cfg(test)]
mod tests;

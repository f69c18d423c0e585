//! Writing packets. What is written parses; a writer takes what its packet has a field for, and leaves out the rest.

use super::header::padding;
use super::{
    ADDRESS6_BYTES, AddressSegment, BTAG_BYTES, CHECK_AT, CNTL_BYTES, CNTL36_BYTES, Codec, DIAG_BYTES, ECNTL_BYTES,
    FirstTraffic, Header, HostPair, INTERNET, IPV4, IPV6, Kind, MAX_PREFIX_BYTES, Options, Status, TCNTL_BYTES,
    TRAFFIC, TRAFFIC_BYTES, Traffic,
};
use crate::checksum::{Cxor, Internet, internet};

/// What lies before the user's bytes: header, address, traffic specifier, tag.
#[derive(Clone, Copy, Debug)]
pub struct Prefix {
    bytes: [u8; MAX_PREFIX_BYTES],
    len: usize,
}

impl Prefix {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// A header, of a packet whose body has `before` bytes and a tag before the user's `n`.
    fn begin(header: &Header, kind: Kind, before: usize, btag: Option<[u8; BTAG_BYTES]>, n: usize) -> Self {
        let options = header.options.without(Options::BTAG).with_if(btag.is_some(), Options::BTAG);
        let tag_bytes = if btag.is_some() { BTAG_BYTES } else { 0 };
        let dlen = match header.codec {
            Codec::Xtp40 => before + tag_bytes + n,
            Codec::Xtp36 => n,
        };
        let mut bytes = [0; MAX_PREFIX_BYTES];
        let len = header.write(kind, options, dlen, &mut bytes);
        if header.codec == Codec::Xtp40 && options.contains(Options::NOCHECK) {
            let check = internet(&bytes[..len]);
            bytes[CHECK_AT..CHECK_AT + 2].copy_from_slice(&check.to_be_bytes());
        }
        Self { bytes, len }
    }
}

impl core::ops::Deref for Prefix {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// What lies before the `n` bytes of the user's in a DATA packet, whatever `header.kind` says. BTAG is set where there is a
/// tag.
///
/// The check of xtp40 is 0, for whoever sends the packet to fill in (see the [module](super)); with NOCHECK it is there.
#[inline]
pub fn data_prefix(header: &Header, btag: Option<[u8; BTAG_BYTES]>, n: usize) -> Prefix {
    let mut prefix = Prefix::begin(header, Kind::Data, 0, btag, n);
    if let Some(tag) = btag {
        prefix.push(&tag);
    }
    prefix
}

/// What lies before the `n` bytes of the user's in a FIRST, as [`data_prefix`]. In xtp36 there is no traffic specifier, and
/// of `traffic` only the service is told.
pub fn first_prefix(
    header: &Header,
    address: &AddressSegment,
    traffic: &Traffic,
    btag: Option<[u8; BTAG_BYTES]>,
    n: usize,
) -> Prefix {
    let (address, len) = address_segment(address, domain(header.codec, traffic));
    let mut prefix = Prefix::begin(header, Kind::First, len + TRAFFIC_BYTES, btag, n);
    prefix.push(&address[..len]);
    if header.codec == Codec::Xtp40 {
        prefix.push(&traffic_specifier(traffic));
    }
    if let Some(tag) = btag {
        prefix.push(&tag);
    }
    prefix
}

/// A whole status, behind what is in `out`: CNTL, ECNTL or TCNTL, as `header.kind` says, with its checksum.
///
/// A kind that is none of these goes out as CNTL, and so does an ECNTL without spans; only ECNTL has spans, and only TCNTL
/// has xkey and traffic (no limits, if there is none). xtp36 has CNTL only, with all but the traffic.
pub fn status(header: &Header, status: &Status<'_>, out: &mut impl Extend<u8>) {
    if header.codec == Codec::Xtp36 {
        return packet(header, Kind::Cntl, 0, CNTL36_BYTES + 8 * status.spans.len(), out, |put| {
            put_status36(status, put);
        });
    }
    match header.kind {
        Kind::Ecntl if !status.spans.is_empty() => {
            let bytes = ECNTL_BYTES + 16 * status.spans.len();
            packet(header, Kind::Ecntl, bytes, bytes, out, |put| {
                put(&short_status(status));
                put(&(status.spans.len() as u32).to_be_bytes());
                for (low, high) in status.spans {
                    put(&(u128::from(low) << 64 | u128::from(high)).to_be_bytes());
                }
            });
        }
        Kind::Tcntl => {
            let bytes = TCNTL_BYTES + TRAFFIC_BYTES;
            packet(header, Kind::Tcntl, bytes, bytes, out, |put| {
                put_long_status(status, put);
                put(&traffic_specifier(&known_traffic(status)));
            });
        }
        _ => packet(header, Kind::Cntl, CNTL_BYTES, CNTL_BYTES, out, |put| put(&short_status(status))),
    }
}

/// A whole JCNTL, behind what is in `out`. There is none in xtp36, so `header.codec` is taken for xtp40. The traffic is
/// `traffic`, whatever the status says.
pub fn join(
    header: &Header,
    status: &Status<'_>,
    address: &AddressSegment,
    traffic: &Traffic,
    out: &mut impl Extend<u8>,
) {
    let header = Header { codec: Codec::Xtp40, ..*header };
    let (address, len) = address_segment(address, INTERNET);
    let bytes = TCNTL_BYTES + len + TRAFFIC_BYTES;
    packet(&header, Kind::Jcntl, bytes, bytes, out, |put| {
        put_long_status(status, put);
        put(&address[..len]);
        put(&traffic_specifier(traffic));
    });
}

/// A whole DIAG, behind what is in `out`, whatever `header.kind` says.
pub fn diag(header: &Header, code: u32, value: u32, text: &[u8], out: &mut impl Extend<u8>) {
    let bytes = DIAG_BYTES + text.len();
    let dlen = match header.codec {
        Codec::Xtp40 => bytes,
        Codec::Xtp36 => text.len(),
    };
    packet(header, Kind::Diag, dlen, bytes, out, |put| {
        put(&code.to_be_bytes());
        put(&value.to_be_bytes());
        put(text);
    });
}

/// A packet with a segment of `segment` bytes, which `put_all` tells piece by piece. It is asked twice, because the check of
/// xtp40 stands before the bytes that it sums.
fn packet(
    header: &Header,
    kind: Kind,
    dlen: usize,
    segment: usize,
    out: &mut impl Extend<u8>,
    put_all: impl Fn(&mut dyn FnMut(&[u8])),
) {
    // There is no tag in these, and nothing may look as if there were.
    let options = header.options.without(Options::BTAG);
    let is_checked = !options.contains(Options::NOCHECK);
    let mut head = [0; 40];
    let len = header.write(kind, options, dlen, &mut head);
    let head = &mut head[..len];
    match header.codec {
        Codec::Xtp40 => {
            let mut sum = Internet::new();
            sum.add(head);
            if is_checked {
                put_all(&mut |bytes| sum.add(bytes));
            }
            head[CHECK_AT..CHECK_AT + 2].copy_from_slice(&sum.finish().to_be_bytes());
            put(out, head);
            put_all(&mut |bytes| put(out, bytes));
        }
        Codec::Xtp36 => {
            let mut sum = Cxor::new();
            put(out, head);
            put_all(&mut |bytes| {
                put(out, bytes);
                sum.add(bytes);
            });
            let padding = &[0; 3][..padding(segment)];
            put(out, padding);
            sum.add(padding);
            put(out, &if is_checked { sum.finish() } else { 0 }.to_be_bytes());
        }
    }
}

fn put(out: &mut impl Extend<u8>, bytes: &[u8]) {
    out.extend(bytes.iter().copied());
}

/// The third byte of an address segment.
fn domain(codec: Codec, traffic: &Traffic) -> u8 {
    match codec {
        Codec::Xtp40 => INTERNET,
        Codec::Xtp36 => traffic.service,
    }
}

fn address_segment(address: &AddressSegment, domain: u8) -> ([u8; ADDRESS6_BYTES], usize) {
    let mut bytes = [0; ADDRESS6_BYTES];
    let len = address.bytes();
    let format = match address.hosts {
        HostPair::V4 { destination, source } => {
            bytes[4..8].copy_from_slice(&destination.octets());
            bytes[8..12].copy_from_slice(&source.octets());
            IPV4
        }
        HostPair::V6 { destination, source } => {
            bytes[4..20].copy_from_slice(&destination.octets());
            bytes[20..36].copy_from_slice(&source.octets());
            IPV6
        }
    };
    bytes[..4].copy_from_slice(&[0, len as u8, domain, format]);
    bytes[len - 4..len - 2].copy_from_slice(&address.destination_port.to_be_bytes());
    bytes[len - 2..len].copy_from_slice(&address.source_port.to_be_bytes());
    (bytes, len)
}

fn traffic_specifier(traffic: &Traffic) -> [u8; TRAFFIC_BYTES] {
    let mut bytes = [0; TRAFFIC_BYTES];
    bytes[..4].copy_from_slice(&[0, TRAFFIC_BYTES as u8, traffic.service, TRAFFIC]);
    let words = [traffic.maxdata, traffic.inrate, traffic.inburst, traffic.outrate, traffic.outburst];
    for (place, word) in bytes[4..].chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_be_bytes());
    }
    bytes
}

fn known_traffic(status: &Status<'_>) -> Traffic {
    match status.traffic {
        Some(FirstTraffic::Known(traffic)) => traffic,
        Some(FirstTraffic::Unknown) | None => Traffic::default(),
    }
}

/// rseq, alloc and echo.
fn short_status(status: &Status<'_>) -> [u8; CNTL_BYTES] {
    let mut bytes = [0; CNTL_BYTES];
    bytes[..8].copy_from_slice(&status.rseq.to_be_bytes());
    bytes[8..16].copy_from_slice(&status.alloc.to_be_bytes());
    bytes[16..].copy_from_slice(&status.echo.to_be_bytes());
    bytes
}

/// The same, the reserved word and the key.
fn put_long_status(status: &Status<'_>, put: &mut dyn FnMut(&[u8])) {
    put(&short_status(status));
    put(&[0; 4]);
    put(&(status.xkey & Codec::Xtp40.key_mask()).to_be_bytes());
}

fn put_status36(status: &Status<'_>, put: &mut dyn FnMut(&[u8])) {
    let clock = status.clock.unwrap_or_default();
    let xkey = (status.xkey & Codec::Xtp36.key_mask()) as u32;
    let (alloc, rseq, hseq) = (status.alloc as u32, status.rseq as u32, status.hseq as u32);
    let nspan = status.spans.len() as u32;
    let words = [clock.rate, clock.burst, status.echo, clock.time, clock.techo, xkey, 0, alloc, rseq, hseq, nspan, 0];
    let mut bytes = [0; CNTL36_BYTES];
    for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_be_bytes());
    }
    put(&bytes);
    for (low, high) in status.spans {
        put(&(u64::from(low as u32) << 32 | u64::from(high as u32)).to_be_bytes());
    }
}

//! Bodies: what follows the header.

use super::{
    ADDRESS4_BYTES, ADDRESS6_BYTES, AddressSegment, BTAG_BYTES, Body, CNTL_BYTES, CNTL36_BYTES, Clock, Codec,
    DIAG_BYTES, ECNTL_BYTES, FirstAddress, FirstTraffic, Head, HostPair, INTERNET, IPV4, IPV6, Kind, MAX_PREFIX_BYTES,
    Options, Status, TCNTL_BYTES, TRAFFIC, TRAFFIC_BYTES, Traffic, be64,
};
use crate::{Malformed, be16, be32};
use core::net::{Ipv4Addr, Ipv6Addr};

/// Ranges of a stream beyond rseq, `low` and `high` of each, as they are: those of a peer may be empty, reversed, or in any
/// order. In xtp36 they have 32 bits.
#[derive(Clone, Copy)]
pub struct Spans<'a>(Form<'a>);

#[derive(Clone, Copy)]
enum Form<'a> {
    Wide(&'a [[u8; 16]]),
    Narrow(&'a [[u8; 8]]),
    Own(&'a [(u64, u64)]),
}

impl<'a> Spans<'a> {
    /// No spans.
    pub const EMPTY: Self = Self(Form::Own(&[]));

    /// Spans to be written.
    pub const fn from_slice(spans: &'a [(u64, u64)]) -> Self {
        Self(Form::Own(spans))
    }

    /// The first `count` of them, if there are so many.
    #[must_use]
    pub fn first(self, count: usize) -> Self {
        Self(match self.0 {
            Form::Wide(spans) => Form::Wide(&spans[..count.min(spans.len())]),
            Form::Narrow(spans) => Form::Narrow(&spans[..count.min(spans.len())]),
            Form::Own(spans) => Form::Own(&spans[..count.min(spans.len())]),
        })
    }

    /// How many.
    pub const fn len(&self) -> usize {
        match self.0 {
            Form::Wide(spans) => spans.len(),
            Form::Narrow(spans) => spans.len(),
            Form::Own(spans) => spans.len(),
        }
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `low` and `high` of each.
    #[inline]
    pub const fn iter(&self) -> SpanIter<'a> {
        SpanIter { spans: *self, at: 0 }
    }

    fn span(&self, at: usize) -> Option<(u64, u64)> {
        match self.0 {
            Form::Wide(spans) => spans.get(at).map(|span| (be64(span, 0), be64(span, 8))),
            Form::Narrow(spans) => spans.get(at).map(|span| (be32(span, 0).into(), be32(span, 4).into())),
            Form::Own(spans) => spans.get(at).copied(),
        }
    }
}

impl Default for Spans<'_> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl PartialEq for Spans<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Spans<'_> {}

impl core::fmt::Debug for Spans<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> IntoIterator for Spans<'a> {
    type Item = (u64, u64);
    type IntoIter = SpanIter<'a>;

    fn into_iter(self) -> SpanIter<'a> {
        self.iter()
    }
}

/// Yields `low` and `high` of each span.
#[derive(Clone, Debug)]
pub struct SpanIter<'a> {
    spans: Spans<'a>,
    at: usize,
}

impl Iterator for SpanIter<'_> {
    type Item = (u64, u64);

    #[inline]
    fn next(&mut self) -> Option<(u64, u64)> {
        let span = self.spans.span(self.at)?;
        self.at += 1;
        Some(span)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.spans.len() - self.at;
        (left, Some(left))
    }
}

impl ExactSizeIterator for SpanIter<'_> {}

impl<'a> Body<'a> {
    /// Reads what follows the header. `prefix` is the packet from its first byte on: of DATA and FIRST at least the first
    /// [`MAX_PREFIX_BYTES`] or all of it if it is shorter, of the others all of it.
    ///
    /// Of a FIRST whose address or traffic specifier has a format that we do not know, neither tag nor data are told: it is
    /// only answered.
    ///
    /// # Errors
    ///
    /// `prefix` is too short, a length lies, or a reserved field is not 0.
    #[inline]
    pub fn parse(head: &Head, prefix: &'a [u8]) -> Result<Self, Malformed> {
        // Most packets are these, so they are read where this is called.
        if head.header.kind == Kind::Data {
            if prefix.len() < head.packet_bytes().min(MAX_PREFIX_BYTES) {
                return Err(Malformed::Size);
            }
            let (btag, low) = btag(head, prefix, head.header.codec.header_bytes())?;
            let high = match head.header.codec {
                Codec::Xtp40 => head.packet_bytes(),
                Codec::Xtp36 => low + head.dlen(),
            };
            return Ok(Body::Data { btag, data: low..high });
        }
        other(head, prefix)
    }
}

/// Reads what follows the header of all but DATA.
#[inline(never)]
fn other<'a>(head: &Head, prefix: &'a [u8]) -> Result<Body<'a>, Malformed> {
    let codec = head.header.codec;
    let is_first = head.header.kind == Kind::First;
    let needed = if is_first { head.packet_bytes().min(MAX_PREFIX_BYTES) } else { head.packet_bytes() };
    if prefix.len() < needed {
        return Err(Malformed::Size);
    }
    let prefix = &prefix[..head.packet_bytes().min(prefix.len())];
    match (head.header.kind, codec) {
        (Kind::First, Codec::Xtp40) => first40(head, prefix),
        (Kind::First, Codec::Xtp36) => first36(head, prefix),
        (Kind::Diag, _) => diag(head, prefix),
        (Kind::Jcntl, _) => join(head, prefix),
        (_, Codec::Xtp40) => Ok(Body::Status(status40(head, prefix)?)),
        (_, Codec::Xtp36) => Ok(Body::Status(status36(prefix, head.trailer_at())?)),
    }
}

/// The tag at `at`, if BTAG says that there is one, and where the data begin. [`Head::parse`] or the caller has checked
/// that the packet is long enough.
fn btag(head: &Head, prefix: &[u8], at: usize) -> Result<(Option<[u8; BTAG_BYTES]>, usize), Malformed> {
    if !head.header.options.contains(Options::BTAG) {
        return Ok((None, at));
    }
    let tag = prefix.get(at..).and_then(<[u8]>::first_chunk).ok_or(Malformed::Length)?;
    Ok((Some(*tag), at + BTAG_BYTES))
}

fn first40<'a>(head: &Head, prefix: &'a [u8]) -> Result<Body<'a>, Malformed> {
    let end = head.packet_bytes();
    let tag_bytes = if head.header.options.contains(Options::BTAG) { BTAG_BYTES } else { 0 };
    let (address, at) = address40(prefix, head.header.codec.header_bytes(), end)?;
    // Behind an address that is longer than any that we know, the traffic specifier may lie beyond the prefix.
    let (traffic, at) = if at + 4 <= prefix.len() {
        traffic(prefix, at, end)?
    } else if at + 4 <= end && matches!(address, FirstAddress::Unknown) {
        (FirstTraffic::Unknown, at + 4)
    } else {
        return Err(Malformed::Length);
    };
    if at + tag_bytes > end {
        return Err(Malformed::Length);
    }
    if matches!(address, FirstAddress::Unknown) || matches!(traffic, FirstTraffic::Unknown) {
        return Ok(Body::First { address, traffic, btag: None, data: end..end });
    }
    let (btag, low) = btag(head, prefix, at)?;
    Ok(Body::First { address, traffic, btag, data: low..end })
}

fn first36<'a>(head: &Head, prefix: &'a [u8]) -> Result<Body<'a>, Malformed> {
    let end = head.trailer_at();
    let at = head.header.codec.header_bytes();
    let alen = usize::from(be16(prefix, at));
    let service = prefix[at + 2];
    let address = hosts(prefix, at, alen, prefix[at + 3])?;
    // The padding stands behind the user's bytes, so an address that is no multiple of 4 would move it.
    if alen < 4 || alen % 4 != 0 {
        return Err(Malformed::Length);
    }
    let tag_bytes = if head.header.options.contains(Options::BTAG) { BTAG_BYTES } else { 0 };
    let data_at = at + alen + tag_bytes;
    if (data_at + head.dlen()).next_multiple_of(4) != end {
        return Err(Malformed::Length);
    }
    let traffic = FirstTraffic::Known(Traffic { service, ..Traffic::default() });
    let FirstAddress::Known(_) = address else {
        return Ok(Body::First { address, traffic, btag: None, data: end..end });
    };
    let (btag, low) = btag(head, prefix, at + alen)?;
    Ok(Body::First { address, traffic, btag, data: low..low + head.dlen() })
}

/// The address segment at `at` of a packet that ends at `end`, and where it ends. At least its first 4 bytes are in
/// `prefix`.
fn address40(prefix: &[u8], at: usize, end: usize) -> Result<(FirstAddress, usize), Malformed> {
    let alen = usize::from(be16(prefix, at));
    if alen < 4 || at + alen > end {
        return Err(Malformed::Length);
    }
    let address =
        if prefix[at + 2] == INTERNET { hosts(prefix, at, alen, prefix[at + 3])? } else { FirstAddress::Unknown };
    Ok((address, at + alen))
}

/// What an address segment says, whatever its third byte is.
fn hosts(prefix: &[u8], at: usize, alen: usize, format: u8) -> Result<FirstAddress, Malformed> {
    let expected = match format {
        IPV4 => ADDRESS4_BYTES,
        IPV6 => ADDRESS6_BYTES,
        _ => return Ok(FirstAddress::Unknown),
    };
    let bytes = prefix.get(at..at + expected).filter(|_| alen == expected).ok_or(Malformed::Length)?;
    let hosts = if format == IPV4 {
        HostPair::V4 { destination: Ipv4Addr::from(be32(bytes, 4)), source: Ipv4Addr::from(be32(bytes, 8)) }
    } else {
        HostPair::V6 { destination: host6(bytes, 4), source: host6(bytes, 20) }
    };
    let ports = expected - 4;
    Ok(FirstAddress::Known(AddressSegment {
        hosts,
        destination_port: be16(bytes, ports),
        source_port: be16(bytes, ports + 2),
    }))
}

fn host6(bytes: &[u8], at: usize) -> Ipv6Addr {
    Ipv6Addr::from(u128::from(be64(bytes, at)) << 64 | u128::from(be64(bytes, at + 8)))
}

/// The traffic specifier at `at` of a packet that ends at `end`, and where it ends. At least its first 4 bytes are in
/// `prefix`.
fn traffic(prefix: &[u8], at: usize, end: usize) -> Result<(FirstTraffic, usize), Malformed> {
    let tlen = usize::from(be16(prefix, at));
    if tlen < 4 || at + tlen > end {
        return Err(Malformed::Length);
    }
    if prefix[at + 3] != TRAFFIC {
        return Ok((FirstTraffic::Unknown, at + tlen));
    }
    // It is not in the prefix only behind an address that nobody knows.
    let Some(bytes) = prefix.get(at..at + TRAFFIC_BYTES).filter(|_| tlen == TRAFFIC_BYTES) else {
        let is_beyond = tlen == TRAFFIC_BYTES && at > MAX_PREFIX_BYTES - TRAFFIC_BYTES;
        return if is_beyond { Ok((FirstTraffic::Unknown, at + tlen)) } else { Err(Malformed::Length) };
    };
    let traffic = Traffic {
        service: bytes[2],
        maxdata: be32(bytes, 4),
        inrate: be32(bytes, 8),
        inburst: be32(bytes, 12),
        outrate: be32(bytes, 16),
        outburst: be32(bytes, 20),
    };
    Ok((FirstTraffic::Known(traffic), at + tlen))
}

/// rseq, alloc and echo, which every status of xtp40 begins with.
fn short_status<'a>(body: &[u8]) -> Status<'a> {
    let rseq = be64(body, 0);
    Status {
        rseq,
        alloc: be64(body, 8),
        echo: be32(body, 16),
        spans: Spans::EMPTY,
        xkey: 0,
        traffic: None,
        clock: None,
        hseq: rseq,
    }
}

/// CNTL, ECNTL and TCNTL. [`Head::parse`] has checked that their fixed part is there.
fn status40<'a>(head: &Head, packet: &'a [u8]) -> Result<Status<'a>, Malformed> {
    let body = &packet[head.header.codec.header_bytes()..];
    let mut status = short_status(body);
    match head.header.kind {
        Kind::Ecntl => {
            let (spans, rest) = body[ECNTL_BYTES..].as_chunks();
            if !rest.is_empty() || u64::from(be32(body, CNTL_BYTES)) != spans.len() as u64 {
                return Err(Malformed::Length);
            }
            status.hseq = spans.last().map_or(status.rseq, |span| be64(span, 8));
            status.spans = Spans(Form::Wide(spans));
        }
        Kind::Tcntl => {
            let (specifier, end) = traffic(body, TCNTL_BYTES, body.len())?;
            if end != body.len() {
                return Err(Malformed::Length);
            }
            status.traffic = Some(specifier);
            status.xkey = xkey40(body)?;
        }
        _ => {}
    }
    Ok(status)
}

/// The reserved word and the key of TCNTL and JCNTL.
fn xkey40(body: &[u8]) -> Result<u64, Malformed> {
    if be32(body, CNTL_BYTES) != 0 {
        return Err(Malformed::Contradiction);
    }
    Ok(be64(body, ECNTL_BYTES) & Codec::Xtp40.key_mask())
}

fn join<'a>(head: &Head, packet: &'a [u8]) -> Result<Body<'a>, Malformed> {
    let body = &packet[head.header.codec.header_bytes()..];
    let (address, at) = address40(body, TCNTL_BYTES, body.len() - 4)?;
    let (specifier, end) = traffic(body, at, body.len())?;
    if end != body.len() {
        return Err(Malformed::Length);
    }
    let status = Status { xkey: xkey40(body)?, traffic: Some(specifier), ..short_status(body) };
    Ok(Body::Join { status, address })
}

/// The CNTL of xtp36, up to the trailer.
fn status36(packet: &[u8], trailer_at: usize) -> Result<Status<'_>, Malformed> {
    let body = &packet[Codec::Xtp36.header_bytes()..trailer_at];
    let word = |index: usize| be32(body, index * 4);
    let (spans, rest) = body[CNTL36_BYTES..].as_chunks();
    if !rest.is_empty() || u64::from(word(10)) != spans.len() as u64 {
        return Err(Malformed::Length);
    }
    // xroute and reserved.
    if word(6) != 0 || word(11) != 0 {
        return Err(Malformed::Contradiction);
    }
    Ok(Status {
        rseq: word(8).into(),
        alloc: word(7).into(),
        echo: word(2),
        spans: Spans(Form::Narrow(spans)),
        xkey: u64::from(word(5)) & Codec::Xtp36.key_mask(),
        traffic: None,
        clock: Some(Clock { rate: word(0), burst: word(1), time: word(3), techo: word(4) }),
        hseq: word(9).into(),
    })
}

fn diag<'a>(head: &Head, packet: &'a [u8]) -> Result<Body<'a>, Malformed> {
    let at = head.header.codec.header_bytes();
    let end = match head.header.codec {
        Codec::Xtp40 => packet.len(),
        Codec::Xtp36 => at + DIAG_BYTES + head.dlen(),
    };
    let text = packet.get(at + DIAG_BYTES..end).ok_or(Malformed::Length)?;
    Ok(Body::Diag { code: be32(packet, at), value: be32(packet, at + 4), text })
}

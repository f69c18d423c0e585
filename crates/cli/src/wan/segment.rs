//! Segments of the large packets that the kernel hands over, and the large packets that adjacent ones make again.
//!
//! With offloads a TUN device gives up to 64 KiB of TCP or UDP in one read, behind a header that says how to cut it
//! (`struct virtio_net_hdr`). Each piece is a packet of its own on the link; pieces that survive side by side and arrive
//! together go into one write, as a network card's receive offload would join them.
//!
//! | offset | bytes | field (native byte order) |
//! |---|---|---|
//! | 0 | 1 | flags: 1 the checksum is to be completed |
//! | 1 | 1 | kind: 0 one packet, 1 TCP over IPv4, 4 TCP over IPv6, 5 UDP; 0x80 with ECN |
//! | 2 | 2 | bytes of all headers |
//! | 4 | 2 | payload bytes of a segment |
//! | 6 | 2 | where the checksum starts to sum |
//! | 8 | 2 | where it stands, from there |
//!
//! Always true: whatever the bytes are, nothing here panics; what cannot be cut crosses as one packet.

use std::ops::Range;

/// Bytes before each packet.
pub(super) const PREFIX: usize = 10;
/// More than the headers of IPv4 or IPv6 with extensions and TCP with options; longer ones are not cut.
pub(super) const MOST_HEADERS: usize = 256;

const NEEDS_CHECKSUM: u8 = 1;
const TCP4: u8 = 1;
const TCP6: u8 = 4;
const UDP: u8 = 5;
const ECN: u8 = 0x80;

const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// How a packet, as read, is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Bytes of the headers that every segment gets; 0 if it is one packet, which stays as it is.
    pub(super) headers: u16,
    /// Payload bytes of a segment; that of the last one may be shorter.
    pub(super) size: u32,
    /// Payload bytes of all.
    pub(super) payload: u32,
    /// Where the headers of the transport start, and its checksum in them.
    transport: u16,
    checksum: u16,
    kind: u8,
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn set16(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(field) = bytes.get_mut(at..at + 2) {
        field.copy_from_slice(&value.to_be_bytes());
    }
}

/// A sum of 16-bit words with its carries added, as the Internet checksum adds.
fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

impl Cut {
    /// How `packet`, read behind `prefix`, is cut.
    pub(super) fn new(prefix: &[u8; PREFIX], packet: &[u8]) -> Self {
        let whole = Self {
            headers: 0,
            size: packet.len() as u32,
            payload: packet.len() as u32,
            transport: 0,
            checksum: 0,
            kind: 0,
        };
        Self::segments(prefix, packet).unwrap_or(whole)
    }

    fn segments(prefix: &[u8; PREFIX], packet: &[u8]) -> Option<Self> {
        let [flags, kind, _, _, size0, size1, start0, start1, offset0, offset1] = *prefix;
        let size = u16::from_ne_bytes([size0, size1]);
        let transport = u16::from_ne_bytes([start0, start1]);
        let checksum = u16::from_ne_bytes([offset0, offset1]);
        let at = usize::from(transport);
        let (version, least) = (packet.first()? >> 4, if kind & !ECN == UDP { 8 } else { 20 });
        let own = match kind & !ECN {
            TCP4 | TCP6 => usize::from(packet.get(at + 12)? >> 4) * 4,
            UDP => 8,
            _ => return None,
        };
        let headers = at + own;
        let sound = flags & NEEDS_CHECKSUM != 0
            && size > 0
            && own >= least
            && at >= if version == 4 { 20 } else { 40 }
            && usize::from(checksum) + 2 <= own
            && headers <= MOST_HEADERS.min(packet.len())
            && (version == 4 || version == 6);
        let payload = u32::try_from(packet.len().checked_sub(headers)?).ok()?;
        // A single segment needs no cutting, but has the mark of the kernel that it may be cut: keep to one rule.
        sound.then_some(Self {
            headers: headers as u16,
            size: size.into(),
            payload,
            transport,
            checksum: transport + checksum,
            kind,
        })
    }

    /// How many segments it makes: at least one.
    pub(super) fn count(&self) -> u32 {
        if self.headers == 0 { 1 } else { self.payload.div_ceil(self.size).max(1) }
    }

    /// Where in the payload a segment lies.
    pub(super) fn range(&self, index: u32) -> Range<u32> {
        let low = (index * self.size).min(self.payload);
        low..(low + self.size).min(self.payload)
    }

    /// The prefix and the headers of the packet that `run` of adjacent segments makes, from those of the whole; `original`
    /// are its headers, and `bytes` the payload of the run. Returns how many bytes of `out` it wrote.
    pub(super) fn headers(
        &self,
        original: &[u8],
        run: &Range<u32>,
        bytes: u32,
        out: &mut [u8; PREFIX + MOST_HEADERS],
    ) -> usize {
        let (prefix, headers) = out.split_at_mut(PREFIX);
        let length = usize::from(self.headers).min(original.len()).min(headers.len());
        let headers = &mut headers[..length];
        headers.copy_from_slice(&original[..length]);
        let several = bytes > self.size;
        let kind = match (several, run.start) {
            (false, _) => 0,
            (true, 0) => self.kind,
            (true, _) => self.kind & !ECN,
        };
        let size = if several { self.size as u16 } else { 0 };
        prefix[0] = NEEDS_CHECKSUM;
        prefix[1] = kind;
        for (at, value) in [(2, self.headers), (4, size), (6, self.transport), (8, self.checksum - self.transport)] {
            prefix[at..at + 2].copy_from_slice(&value.to_ne_bytes());
        }
        let transport = usize::from(self.transport);
        self.network(headers, run.start, bytes);
        let old = (usize::from(self.headers) - transport) as u32 + self.payload;
        let new = (usize::from(self.headers) - transport) as u32 + bytes;
        // The kernel left the sum of the addresses, the protocol and the length, and completes it where it has to.
        let checksum = usize::from(self.checksum);
        if let Some(sum) = be16(headers, checksum) {
            set16(headers, checksum, fold(u32::from(sum) + (0xffff - u32::from(fold(old))) + u32::from(fold(new))));
        }
        if self.kind & !ECN == UDP {
            set16(headers, transport + 4, new as u16);
        } else {
            self.tcp(&mut headers[transport.min(length)..], run);
        }
        PREFIX + length
    }

    fn network(&self, headers: &mut [u8], index: u32, bytes: u32) {
        let total = u32::from(self.headers) + bytes;
        if headers.first().is_some_and(|first| first >> 4 == 6) {
            set16(headers, 4, (total - 40) as u16);
            return;
        }
        set16(headers, 2, total as u16);
        let identification = be16(headers, 4).unwrap_or(0);
        set16(headers, 4, identification.wrapping_add(index as u16));
        set16(headers, 10, 0);
        let length = usize::from(headers.first().copied().unwrap_or(0) & 15) * 4;
        let words = headers.get(..length).unwrap_or_default().chunks_exact(2);
        let sum = words.map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
        set16(headers, 10, !fold(sum));
    }

    fn tcp(&self, header: &mut [u8], run: &Range<u32>) {
        if let Some(sequence) = header.get_mut(4..8).and_then(|bytes| bytes.first_chunk_mut()) {
            *sequence = u32::from_be_bytes(*sequence).wrapping_add(run.start * self.size).to_be_bytes();
        }
        if let Some(flags) = header.get_mut(13) {
            *flags &= if run.start > 0 { !CWR } else { 0xff };
            *flags &= if run.end < self.count() { !FIN_PSH } else { 0xff };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinnace_core::Random;

    const LOAD: usize = 2500;

    fn prefix(kind: u8, size: u16, start: u16, offset: u16) -> [u8; PREFIX] {
        let mut prefix = [NEEDS_CHECKSUM, kind, 0, 0, 0, 0, 0, 0, 0, 0];
        prefix[4..6].copy_from_slice(&size.to_ne_bytes());
        prefix[6..8].copy_from_slice(&start.to_ne_bytes());
        prefix[8..10].copy_from_slice(&offset.to_ne_bytes());
        prefix
    }

    /// IPv4 and TCP or UDP with a payload, and the sum of the pseudo header where the kernel puts it.
    fn packet(protocol: u8, transport: &[u8], checksum: usize, load: usize) -> Vec<u8> {
        let total = (20 + transport.len() + load) as u16;
        let mut packet = vec![0x45, 0, 0, 0, 0x12, 0x34, 0x40, 0, 64, protocol, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2];
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        packet.extend(transport);
        packet.extend((0..load).map(|i| i as u8));
        let pseudo = pseudo(&packet);
        set16(&mut packet, 20 + checksum, pseudo);
        packet
    }

    fn pseudo(packet: &[u8]) -> u16 {
        let words = packet[12..20].chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
        fold(words.sum::<u32>() + u32::from(packet[9]) + packet.len() as u32 - 20)
    }

    fn tcp() -> [u8; 20] {
        let mut header = [0; 20];
        header[4..8].copy_from_slice(&0xffff_fff0_u32.to_be_bytes());
        (header[12], header[13]) = (0x50, 0x10 | FIN_PSH | CWR);
        header
    }

    /// The packet that a run makes.
    fn make(cut: &Cut, whole: &[u8], run: Range<u32>) -> (u8, Vec<u8>) {
        let (low, high) = (cut.range(run.start).start as usize, cut.range(run.end - 1).end as usize);
        let mut out = [0; PREFIX + MOST_HEADERS];
        let length = cut.headers(whole, &run, (high - low) as u32, &mut out);
        let mut packet = out[PREFIX..length].to_vec();
        packet.extend(&whole[usize::from(cut.headers)..][low..high]);
        assert_eq!(be16(&packet, 2), Some(packet.len() as u16), "the length is right");
        let words = packet[..20].chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
        assert_eq!(fold(words.sum()), 0xffff, "the sum of IP is right");
        (out[1], packet)
    }

    #[test]
    fn tcp_is_cut_and_joined() {
        let whole = packet(6, &tcp(), 16, LOAD);
        let cut = Cut::new(&prefix(TCP4 | ECN, 1000, 20, 16), &whole);
        assert_eq!((cut.headers, cut.size, cut.count(), cut.payload), (40, 1000, 3, 2500));
        assert_eq!((cut.range(0), cut.range(2)), (0..1000, 2000..2500));
        let sequence = |packet: &[u8]| u32::from_be_bytes(*packet[24..].first_chunk().unwrap());
        for (run, kind, number, flags) in [
            (0..3, TCP4 | ECN, 0xffff_fff0, 0x10 | FIN_PSH | CWR),
            (0..1, 0, 0xffff_fff0, 0x10 | CWR),
            (0..2, TCP4 | ECN, 0xffff_fff0, 0x10 | CWR),
            (1..2, 0, 984, 0x10),
            (1..3, TCP4, 984, 0x10 | FIN_PSH),
            (2..3, 0, 1984, 0x10 | FIN_PSH),
        ] {
            let (marked, packet) = make(&cut, &whole, run.clone());
            assert_eq!((marked, sequence(&packet), packet[33]), (kind, number, flags), "{run:?}");
            assert_eq!(be16(&packet, 4), Some(0x1234 + run.start as u16));
            assert_eq!(be16(&packet, 36), Some(pseudo(&packet)), "{run:?}");
        }
        assert_eq!(make(&cut, &whole, 0..3).1[20..], whole[20..], "joined again it is what it was");
    }

    #[test]
    fn udp_is_cut_and_joined() {
        let whole = packet(17, &[0x30, 0x39, 0x30, 0x39, 0x09, 0xcc, 0, 0], 6, LOAD);
        let cut = Cut::new(&prefix(UDP, 1000, 20, 6), &whole);
        assert_eq!((cut.headers, cut.count()), (28, 3));
        for (run, kind) in [(0..1, 0), (1..3, UDP), (2..3, 0), (0..3, UDP)] {
            let (marked, packet) = make(&cut, &whole, run.clone());
            assert_eq!((marked, be16(&packet, 24)), (kind, Some(packet.len() as u16 - 20)), "{run:?}");
            assert_eq!(be16(&packet, 26), Some(pseudo(&packet)), "{run:?}");
        }
    }

    #[test]
    fn version_six_has_its_own_length() {
        let mut whole = vec![0x60, 0, 0, 0, 0, 0, 6, 64];
        whole.resize(40, 1);
        whole.extend(tcp());
        whole.extend([7; LOAD]);
        let cut = Cut::new(&prefix(TCP6, 1000, 40, 16), &whole);
        let mut out = [0; PREFIX + MOST_HEADERS];
        assert_eq!(cut.headers(&whole, &(2..3), 500, &mut out), PREFIX + 60);
        assert_eq!(be16(&out, PREFIX + 4), Some(520));
    }

    #[test]
    fn whatever_comes_is_at_least_one_packet() {
        let mut random = Random::from_seed(1);
        for round in 0..20_000 {
            let length = random.below(200) as usize;
            let mut bytes: Vec<u8> = (0..length + PREFIX).map(|_| random.next_u32() as u8).collect();
            if round % 2 == 0 {
                let kinds = [TCP4, TCP6, UDP, TCP4 | ECN];
                bytes[..PREFIX].copy_from_slice(&prefix(kinds[round / 2 % 4], 9, 20 + random.below(60) as u16, 6));
            }
            let (prefix, packet) = bytes.split_first_chunk::<PREFIX>().unwrap();
            let cut = Cut::new(prefix, packet);
            let mut covered = 0;
            for index in 0..cut.count() {
                let range = cut.range(index);
                assert_eq!(range.start, covered);
                covered = range.end;
                if cut.headers > 0 {
                    let mut out = [0; PREFIX + MOST_HEADERS];
                    let length = cut.headers(packet, &(index..index + 1), range.len() as u32, &mut out);
                    assert_eq!(length, PREFIX + usize::from(cut.headers));
                }
            }
            assert_eq!((covered, usize::from(cut.headers) + covered as usize), (cut.payload, packet.len()));
        }
    }
}

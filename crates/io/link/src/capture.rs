//! [`Capture`]: a link that writes what crosses it to a pcap file, for tcpdump, tshark and Wireshark.
//!
//! Each datagram is one packet, also where several crossed in one call, with the headers of its carrier made for it: IP and
//! UDP, IP alone, or Ethernet. Always true: trouble with the file never disturbs the link: writing stops,
//! and [`Capture::finish`] says why.

use crate::{BufferTable, ETHER_TYPE, Link, LinkCounters, ReadBuffer, ReadOutcome, Received, SendOutcome};
use etherparse::{
    EtherType, Ethernet2Header, IpEcn, IpFragOffset, IpHeaders, IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header,
    PacketBuilder,
};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, PcapError, TsResolution};
use pinnace_core::{Address, Ecn, ReceivePlan, Train};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What the head of the file says; as in tcpdump, more than any packet has. Some readers refuse packets that were longer
/// than this before they were cut.
const FILE_SNAP_LENGTH: u32 = 262_144;

/// What carries the datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Carrier {
    /// UDP, with a header of its own.
    #[default]
    Udp,
    /// IP itself, as this protocol: a datagram follows the IP header at once.
    Ip(u8),
    /// Ethernet frames of EtherType 0x817D, between these MAC addresses where a train or read does not say.
    Ethernet {
        /// This end's.
        local: [u8; 6],
        /// The other end's.
        peer: [u8; 6],
    },
}

/// How [`Capture`] names the ends and what it keeps.
#[derive(Clone, Copy, Debug)]
pub struct CaptureOptions {
    /// This end's address, where a train or read does not say.
    pub local: SocketAddr,
    /// The other end's address, where a train or read does not say.
    pub peer: SocketAddr,
    /// What carries the datagrams; ports are written for UDP only, and IP addresses not for Ethernet.
    pub carrier: Carrier,
    /// Bytes kept of each packet, the headers of its carrier included.
    pub snap_length: u32,
}

impl CaptureOptions {
    /// Whole packets of UDP between these two.
    pub fn new(local: SocketAddr, peer: SocketAddr) -> Self {
        Self { local, peer, carrier: Carrier::Udp, snap_length: FILE_SNAP_LENGTH }
    }

    /// Whole packets of IP protocol 36 between these two, for a link over raw IP.
    ///
    /// ```
    /// use pinnace_link::{CaptureOptions, Carrier};
    /// let options = CaptureOptions::ip36("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
    /// assert_eq!(options.carrier, Carrier::Ip(36));
    /// ```
    pub fn ip36(local: IpAddr, peer: IpAddr) -> Self {
        let [local, peer] = [local, peer].map(|ip| SocketAddr::new(ip, 0));
        Self { carrier: Carrier::Ip(36), ..Self::new(local, peer) }
    }

    /// Whole Ethernet frames between these two, for a link over Ethernet. What was sent is written as it was handed to the
    /// interface, which pads short frames only later; what was received is written with its padding.
    ///
    /// tshark has a decoder for the packets in it, but knows it by IP protocol 36 only, and refuses
    /// `-d ethertype==0x817d,xtp`. One line of Lua in a file that it is given by `-X lua_script:FILE` connects the two:
    ///
    /// ```lua
    /// DissectorTable.get("ethertype"):add(0x817d, DissectorTable.get("ip.proto"):get_dissector(36))
    /// ```
    ///
    /// ```
    /// use pinnace_link::{CaptureOptions, Carrier};
    /// let (local, peer) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    /// assert_eq!(CaptureOptions::ether(local, peer).carrier, Carrier::Ethernet { local, peer });
    /// ```
    pub fn ether(local: [u8; 6], peer: [u8; 6]) -> Self {
        let nowhere = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        Self { carrier: Carrier::Ethernet { local, peer }, ..Self::new(nowhere, nowhere) }
    }
}

/// A link whose datagrams are written to `W` as they cross. Give it a buffered writer.
#[derive(Debug)]
pub struct Capture<L, W: Write> {
    inner: L,
    file: PcapFile<W>,
}

#[derive(Debug)]
struct PcapFile<W: Write> {
    writer: PcapWriter<W>,
    options: CaptureOptions,
    packet: Vec<u8>,
    error: Option<io::Error>,
}

impl<L: Link, W: Write> Capture<L, W> {
    /// Wraps a link, and writes the head of the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(inner: L, writer: W, options: CaptureOptions) -> io::Result<Self> {
        let header = PcapHeader {
            datalink: match options.carrier {
                Carrier::Ethernet { .. } => DataLink::ETHERNET,
                Carrier::Udp | Carrier::Ip(_) => DataLink::RAW,
            },
            ts_resolution: TsResolution::NanoSecond,
            snaplen: FILE_SNAP_LENGTH,
            ..PcapHeader::default()
        };
        let writer = PcapWriter::with_header(writer, header).map_err(io_error)?;
        Ok(Self { inner, file: PcapFile { writer, options, packet: Vec::new(), error: None } })
    }

    /// Ends the capture: the link inside, and the file.
    ///
    /// # Errors
    /// What stopped the writing, if anything did.
    pub fn finish(self) -> io::Result<(L, W)> {
        match self.file.error {
            Some(error) => Err(error),
            None => {
                let mut writer = self.file.writer.into_writer();
                writer.flush()?;
                Ok((self.inner, writer))
            }
        }
    }

    /// The link inside.
    pub fn inner(&self) -> &L {
        &self.inner
    }

    fn record_read(&mut self, read: &Received, pool: &ReadBuffer) {
        let mut pieces = Vec::new();
        // SAFETY: the link inside has just laid them out, in memory that is borrowed and that nobody writes to meanwhile.
        unsafe { pool.pieces(read.bytes, &mut pieces) };
        let bytes = pieces.concat();
        let way = Way { source: Some(read.meta.source), destination: read.meta.destination, is_sent: false };
        for datagram in bytes.chunks(read.segment.max(1)) {
            self.file.record(way, read.meta.ecn, datagram);
        }
    }
}

/// Where a datagram comes from and goes to, as far as it is said, and whether this end sent it.
#[derive(Clone, Copy, Debug)]
struct Way {
    source: Option<Address>,
    destination: Option<Address>,
    is_sent: bool,
}

impl Way {
    /// The source and the destination: as they say of themselves, or as they are called here.
    fn ends<T>(self, said: impl Fn(Address) -> Option<T>, [local, peer]: [T; 2]) -> [T; 2] {
        let (source, destination) = if self.is_sent { (local, peer) } else { (peer, local) };
        [self.source.and_then(&said).unwrap_or(source), self.destination.and_then(&said).unwrap_or(destination)]
    }
}

impl<W: Write> PcapFile<W> {
    fn record(&mut self, way: Way, ecn: Ecn, payload: &[u8]) {
        if self.error.is_none()
            && let Err(error) = self.write(way, ecn, payload)
        {
            self.error = Some(error);
        }
    }

    fn write(&mut self, way: Way, ecn: Ecn, payload: &[u8]) -> io::Result<()> {
        self.packet.clear();
        let [source, destination] = way.ends(inet, [self.options.local, self.options.peer]);
        let headers = headers(source.ip(), destination.ip(), ecn);
        match self.options.carrier {
            Carrier::Udp => {
                let builder = PacketBuilder::ip(headers).udp(source.port(), destination.port());
                builder.write(&mut self.packet, payload).map_err(io::Error::other)?;
            }
            Carrier::Ip(protocol) => {
                let builder = PacketBuilder::ip(headers);
                builder.write(&mut self.packet, IpNumber(protocol), payload).map_err(io::Error::other)?;
            }
            Carrier::Ethernet { local, peer } => {
                let [source, destination] = way.ends(mac, [local, peer]);
                let header = Ethernet2Header { source, destination, ether_type: EtherType(ETHER_TYPE) };
                header.write(&mut self.packet)?;
                self.packet.extend_from_slice(payload);
            }
        }
        let len = self.packet.len();
        let kept = &self.packet[..len.min(self.options.snap_length as usize)];
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        self.writer.write_packet(&PcapPacket::new(now, len as u32, kept)).map_err(io_error).map(drop)
    }
}

/// Headers between two addresses, as IPv6 if one of them is. The builder fills in the lengths and checksums.
fn headers(source: IpAddr, destination: IpAddr, ecn: Ecn) -> IpHeaders {
    let ecn = IpEcn::try_new(ecn as u8).unwrap_or_default();
    if let (IpAddr::V4(source), IpAddr::V4(destination)) = (source, destination) {
        let header = Ipv4Header {
            ecn,
            dont_fragment: true,
            fragment_offset: IpFragOffset::ZERO,
            time_to_live: 64,
            protocol: IpNumber::UDP,
            source: source.octets(),
            destination: destination.octets(),
            ..Ipv4Header::default()
        };
        return IpHeaders::Ipv4(header, etherparse::Ipv4Extensions::default());
    }
    let octets = |ip: IpAddr| match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    let header = Ipv6Header {
        traffic_class: ecn.value(),
        flow_label: Ipv6FlowLabel::ZERO,
        payload_length: 0,
        next_header: IpNumber::UDP,
        hop_limit: 64,
        source: octets(source),
        destination: octets(destination),
    };
    IpHeaders::Ipv6(header, etherparse::Ipv6Extensions::default())
}

fn inet(address: Address) -> Option<SocketAddr> {
    match address {
        Address::Inet(address) => Some(address),
        _ => None,
    }
}

fn mac(address: Address) -> Option<[u8; 6]> {
    match address {
        Address::Ethernet { mac, .. } => Some(mac),
        _ => None,
    }
}

fn io_error(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}

impl<L: Link, W: Write + Send> Link for Capture<L, W> {
    forward_sizes!(inner);

    fn descriptors(&self) -> crate::Descriptors {
        self.inner.descriptors()
    }

    fn send(&mut self, train: &Train, memory: &BufferTable) -> io::Result<SendOutcome> {
        let outcome = self.inner.send(train, memory)?;
        if outcome == SendOutcome::Sent {
            let way = Way { source: train.source(), destination: Some(train.destination()), is_sent: true };
            train.for_each_datagram(
                |range| memory.bytes(range),
                |datagram| self.file.record(way, train.ecn(), datagram),
            );
        }
        Ok(outcome)
    }

    fn receive(&mut self, plan: &ReceivePlan, memory: &BufferTable, pool: &mut ReadBuffer) -> io::Result<ReadOutcome> {
        let outcome = self.inner.receive(plan, memory, pool)?;
        if let ReadOutcome::Received(read) = &outcome {
            self.record_read(read, pool);
        }
        Ok(outcome)
    }

    fn counters(&self) -> LinkCounters {
        self.inner.counters()
    }
}

//! Packets as plain values: made by hand, and taken apart.

use pinnace_wire::checksum::{cxor, internet};
use pinnace_wire::xtp::{
    self, Body, CHECK_AT, Clock, FirstAddress, FirstTraffic, Head, Header, Key, Kind, Spans, Status, Traffic,
};
use pinnace_xtp::{AddressSegment, Codec, HostPair, Options};

/// A packet to be made.
#[derive(Clone, Debug)]
pub struct Packet {
    pub codec: Codec,
    pub kind: Kind,
    pub rtn: bool,
    pub key: u64,
    pub options: Options,
    pub sort: u32,
    pub sync: u32,
    pub seq: u64,
    pub btag: Option<[u8; 8]>,
    pub data: Vec<u8>,
    pub service: u8,
    pub port: u16,
    pub hosts: HostPair,
    pub traffic: Traffic,
    pub rseq: u64,
    pub alloc: u64,
    pub echo: u32,
    pub spans: Vec<(u64, u64)>,
    pub xkey: u64,
    pub clock: Clock,
    pub code: u32,
    pub value: u32,
}

impl Packet {
    pub fn new(codec: Codec, kind: Kind) -> Self {
        Self {
            codec,
            kind,
            rtn: false,
            key: 0x77,
            options: Options::NONE,
            sort: 0,
            sync: 1000,
            seq: 0,
            btag: None,
            data: Vec::new(),
            service: 4,
            port: 7,
            hosts: HostPair::V4 { destination: [0; 4].into(), source: [0; 4].into() },
            traffic: Traffic::default(),
            rseq: 0,
            alloc: 0,
            echo: 0,
            spans: Vec::new(),
            xkey: 0,
            clock: Clock::default(),
            code: 0,
            value: 0,
        }
    }

    pub fn with(mut self, options: Options) -> Self {
        self.options = self.options | options;
        self
    }

    pub fn sync(mut self, sync: u32) -> Self {
        self.sync = sync;
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let key = Key { rtn: self.rtn, value: self.key };
        let Self { codec, kind, options, sort, sync, seq, .. } = *self;
        let header = Header { codec, key, options, kind, sort, sync, seq, dseq: 0 };
        let mut out = Vec::new();
        match kind {
            Kind::Data | Kind::First => {
                let address = AddressSegment { hosts: self.hosts, destination_port: self.port, source_port: 9 };
                let traffic = Traffic { service: self.service, ..self.traffic };
                let prefix = if kind == Kind::Data {
                    xtp::data_prefix(&header, self.btag, self.data.len())
                } else {
                    xtp::first_prefix(&header, &address, &traffic, self.btag, self.data.len())
                };
                out.extend_from_slice(&prefix);
                out.extend_from_slice(&self.data);
                out.resize(out.len() + codec.tail_bytes(out.len() - codec.header_bytes()), 0);
                if !options.contains(Options::NOCHECK) {
                    fill(codec, &mut out);
                }
            }
            Kind::Diag => xtp::diag(&header, self.code, self.value, b"", &mut out),
            _ => {
                let traffic = Traffic { service: self.service, ..self.traffic };
                let hseq = self.spans.last().map_or(self.rseq, |span| span.1);
                let status = Status {
                    rseq: self.rseq,
                    alloc: self.alloc,
                    echo: self.echo,
                    spans: Spans::from_slice(&self.spans),
                    xkey: self.xkey,
                    traffic: Some(FirstTraffic::Known(traffic)),
                    clock: Some(self.clock),
                    hseq,
                };
                xtp::status(&header, &status, &mut out);
            }
        }
        out
    }
}

/// Puts the right checksum into a packet.
pub fn fill(codec: Codec, packet: &mut [u8]) {
    match codec {
        Codec::Xtp40 => {
            packet[CHECK_AT..CHECK_AT + 2].fill(0);
            let check = internet(packet);
            packet[CHECK_AT..CHECK_AT + 2].copy_from_slice(&check.to_be_bytes());
        }
        Codec::Xtp36 => {
            let at = packet.len() - 4;
            let check = cxor(&packet[40..at]);
            packet[at..].copy_from_slice(&check.to_be_bytes());
        }
    }
}

/// A packet that was received.
#[derive(Clone, Debug, PartialEq)]
pub struct Got {
    pub kind: Kind,
    pub rtn: bool,
    pub key: u64,
    pub options: Options,
    pub sort: u32,
    pub sync: u32,
    pub seq: u64,
    pub dseq: u32,
    pub btag: Option<[u8; 8]>,
    /// Of DATA and FIRST.
    pub data: Option<Vec<u8>>,
    pub service: Option<u8>,
    pub address: Option<AddressSegment>,
    pub traffic: Option<Traffic>,
    pub rseq: u64,
    pub alloc: u64,
    pub echo: u32,
    pub spans: Vec<(u64, u64)>,
    pub xkey: u64,
    pub hseq: u64,
    pub clock: Option<Clock>,
    pub diag: Option<(u32, u32)>,
}

impl Got {
    /// What the engine sends always parses.
    pub fn parse(codec: Codec, bytes: &[u8]) -> Self {
        let head = Head::parse(codec, bytes, bytes.len(), false).unwrap_or_else(|why| panic!("{why:?}: {bytes:x?}"));
        assert!(head.verify([&bytes[head.summed()]]), "a wrong checksum: {bytes:x?}");
        let Header { key, options, kind, sort, sync, seq, dseq, .. } = head.header;
        let mut got = Self {
            kind,
            rtn: key.rtn,
            key: key.value,
            options,
            sort,
            sync,
            seq,
            dseq,
            btag: None,
            data: None,
            service: None,
            address: None,
            traffic: None,
            rseq: 0,
            alloc: 0,
            echo: 0,
            spans: Vec::new(),
            xkey: 0,
            hseq: 0,
            clock: None,
            diag: None,
        };
        match Body::parse(&head, bytes).unwrap_or_else(|why| panic!("{why:?}: {bytes:x?}")) {
            Body::Data { btag, data } => (got.btag, got.data) = (btag, Some(bytes[data].to_vec())),
            Body::First { address, traffic, btag, data } => {
                (got.btag, got.data) = (btag, Some(bytes[data].to_vec()));
                let (FirstAddress::Known(address), FirstTraffic::Known(traffic)) = (address, traffic) else {
                    panic!("a FIRST of unknown formats");
                };
                (got.address, got.service, got.traffic) = (Some(address), Some(traffic.service), Some(traffic));
            }
            Body::Status(status) | Body::Join { status, .. } => {
                got.rseq = status.rseq;
                got.alloc = status.alloc;
                got.echo = status.echo;
                got.spans = status.spans.iter().collect();
                got.xkey = status.xkey;
                got.hseq = status.hseq;
                got.clock = status.clock;
                if let Some(FirstTraffic::Known(traffic)) = status.traffic {
                    got.traffic = Some(traffic);
                }
            }
            Body::Diag { code, value, .. } => got.diag = Some((code, value)),
        }
        got
    }

    pub fn len(&self) -> usize {
        self.data.as_ref().map_or(0, Vec::len)
    }

    pub fn has(&self, options: Options) -> bool {
        self.options.contains(options)
    }

    /// Its options but for those that are the same in all packets of a stream.
    pub fn marks(&self) -> Options {
        self.options.without(Options::OF_STREAM)
    }
}

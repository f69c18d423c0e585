//! A peer that says whatever it is told to: every field of its datagrams is free.

use super::{Got, Half};
use core::num::NonZeroU32;
use pinnace_a1::{Address as Name, Qos};
use pinnace_core::Address;
use pinnace_wire::a1::{self, Body, Cookie, Group, Header, Kind, Open, Reject};
use pinnace_wire::checksum::internet;

/// All fields of a datagram, right or wrong.
#[derive(Clone, Debug, Default)]
pub struct Lie {
    pub kind: u8,
    pub flags: u8,
    pub connection: u32,
    pub sequence: u32,
    pub message: u32,
    pub index: u16,
    pub count: u16,
    pub edge: u32,
    pub stamp: u32,
    /// `None`: as many as the body has.
    pub length: Option<u32>,
    pub body: Vec<u8>,
}

pub const RETRANSMITTED: u8 = 1;
pub const START: u8 = 2;
pub const END: u8 = 4;
pub const CHECKED: u8 = 8;
pub const RELIABLE: u8 = 16;
pub const MULTICAST: u8 = 32;

impl Lie {
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![self.kind, self.flags, 0, 0];
        for word in [self.connection, self.sequence, self.message] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend(self.index.to_be_bytes());
        bytes.extend(self.count.to_be_bytes());
        let length = self.length.unwrap_or(self.body.len() as u32);
        for word in [self.edge, self.stamp, length] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend(&self.body);
        seal(&mut bytes);
        bytes
    }
}

/// Makes the checksum right, if there is one.
pub fn seal(bytes: &mut [u8]) {
    if bytes.len() >= 32 && bytes[1] & CHECKED != 0 {
        bytes[2..4].fill(0);
        let sum = internet(bytes);
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
    }
}

/// The other end of a connection, played by hand.
#[derive(Clone, Debug)]
pub struct Liar {
    pub address: Address,
    pub qos: Qos,
    /// What it calls the connection, and what the engine does.
    pub id: NonZeroU32,
    pub theirs: u32,
    /// The number of its first block, and of the engine's.
    pub start: u32,
    pub their_start: u32,
    pub window: u32,
    pub stamp: u32,
}

impl Liar {
    pub fn new(address: Address, id: u32, qos: Qos) -> Self {
        let id = NonZeroU32::new(id).expect("not 0");
        Self { address, qos, id, theirs: 0, start: 0xffff_fff0, their_start: 0, window: 1000, stamp: 77 }
    }

    pub fn open(&self, port: u32, cookie: &[u8], group: Option<Group>) -> Vec<u8> {
        let header = Header {
            connection: self.id,
            sequence: self.start,
            edge: self.window,
            stamp: self.stamp,
            is_checked: true,
            is_retransmitted: false,
        };
        let name = |port| Name { host: 1, port };
        let open = Open { destination: name(port), source: name(9), qos: self.qos, cookie: Cookie::new(cookie), group };
        let mut bytes = Vec::new();
        a1::open(&header, &open, &mut bytes);
        bytes
    }

    /// Opens a connection to an engine that listens, with its cookie, and learns from its ACCEPT.
    pub fn connect(&mut self, half: &mut Half, port: u32) -> Vec<Got> {
        half.feed(self.address, &self.open(port, &[], None));
        let cookie = half.take().iter().find_map(|got| match got.body() {
            Some(Body::Reject(Reject::Cookie(cookie))) => Some(cookie.bytes().to_vec()),
            _ => None,
        });
        if let Some(cookie) = cookie {
            half.feed(self.address, &self.open(port, &cookie, None));
        }
        let sent = half.take();
        self.learn(&sent);
        sent
    }

    pub fn learn(&mut self, sent: &[Got]) {
        for got in sent {
            if let Some(Body::Accept(accept)) = got.body() {
                (self.theirs, self.their_start) = (accept.identifier.get(), got.header().sequence);
            }
        }
    }

    /// Answers the OPEN of an engine.
    pub fn accept(&mut self, open: &Got) -> Vec<u8> {
        self.accept_as(open, false)
    }

    /// The same; whether it has joined the group.
    pub fn accept_as(&mut self, open: &Got, has_joined: bool) -> Vec<u8> {
        assert_eq!(open.kind(), Kind::Open);
        let header = Header {
            connection: open.header().connection,
            sequence: self.start,
            edge: open.header().sequence.wrapping_add(self.window),
            stamp: open.header().stamp,
            is_checked: self.qos.has_checksum,
            is_retransmitted: false,
        };
        (self.theirs, self.their_start) = (open.header().connection.get(), open.header().sequence);
        let name = Name { host: 1, port: 9 };
        let accept = a1::Accept { destination: name, source: name, identifier: self.id, qos: self.qos, has_joined };
        let mut bytes = Vec::new();
        a1::accept(&header, &accept, &mut bytes);
        bytes
    }

    /// A datagram with the right identifier and flags, and nothing else.
    pub fn lie(&self, kind: Kind) -> Lie {
        Lie {
            kind: kind as u8,
            flags: if self.qos.has_checksum { CHECKED } else { 0 },
            connection: self.theirs,
            sequence: self.start,
            edge: self.their_start.wrapping_add(self.window),
            stamp: self.stamp,
            ..Lie::default()
        }
    }

    /// A block, as it should be.
    pub fn block(&self, number: u32, message: u32, (index, count): (u16, u16), bytes: &[u8]) -> Lie {
        let mut lie = self.lie(Kind::Data);
        lie.flags |= if index == 0 { START } else { 0 } | if index + 1 == count { END } else { 0 };
        lie.flags |= if self.qos.has_retransmission { RELIABLE } else { 0 };
        Lie { sequence: self.start.wrapping_add(number), message, index, count, body: bytes.to_vec(), ..lie }
    }

    /// An ACK or a NACK of the engine's blocks; numbers from its start.
    pub fn answer(&self, kind: Kind, next: u32, ranges: &[(u32, u32)]) -> Lie {
        let number = |number: u32| self.their_start.wrapping_add(number);
        let body = ranges.iter().flat_map(|(low, high)| [number(*low), number(*high)]).flat_map(u32::to_be_bytes);
        Lie { sequence: number(next), body: body.collect(), ..self.lie(kind) }
    }
}

//! What clients and the daemon say to each other: messages of one fixed size over a Unix socket that keeps their bounds.
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | magic `PnDm` |
//! | 4..6 | version: messages of different versions do not mix |
//! | 6..8 | kind |
//! | 8..256 | what the kind says, little-endian; the rest 0 |
//!
//! A client asks, the daemon answers each request but the last with one reply, in order; nothing else comes on that socket.
//! Arrivals come on a socket of their own for each listener, which the reply to [`Request::Listen`] brings; there a client says
//! what it declines, and closing it ends the listening.
//!
//! Always true: bytes are parsed once, into a type that cannot be wrong; what does not parse is no message, and nobody answers it.

use super::Refusal;
use super::statistics::{ClientStatistics, Totals};
use pinnace_qbuf::{ClientId, Stats};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// The version of these messages.
pub(crate) const VERSION: u16 = 2;
/// Bytes of every message.
pub(crate) const BYTES: usize = 256;

const MAGIC: [u8; 4] = *b"PnDm";
const HEADER: usize = 8;

/// A message as it is sent.
pub(crate) type Message = [u8; BYTES];

/// What a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// The first of all. Answered by [`Reply::Welcome`], with the pool.
    Hello,
    /// This process is that client of the pool. A process that talks with itself has two.
    Attach(ClientId),
    /// To be told who comes to an address. Answered by [`Reply::Listening`], with a socket.
    Listen(SocketAddr),
    /// To be brought together with who listens at an address, as that client of the pool.
    Connect { to: SocketAddr, client: ClientId },
    /// The same over a link that is the daemon's alone, to another host. Answered by [`Reply::Listening`]; on that socket
    /// comes the channel, or a refusal.
    ConnectVia { via: Via, to: SocketAddr, client: ClientId },
    /// To be told who comes over such a link. On the socket that the reply brings comes [`Reply::Attached`] first, or a refusal.
    ListenVia { via: Via, address: SocketAddr },
    /// The figures of the daemon and its pool.
    Totals,
    /// Those of the first client whose number is not below this.
    Client(u64),
    /// The last word of a process that asks for nothing more, and goes on with its channels. Not answered. Who hangs up without
    /// it has called `exec`, or has closed what was not his to close: he uses them no more.
    Bye,
    /// On the socket of a listener: the channel whose other end has this address could not be taken. Not answered.
    Decline(SocketAddr),
}

/// A link that needs a right to use, and has one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Via {
    /// IP protocol 36.
    Ip36 = 1,
    /// Ethernet.
    Ether = 2,
}

/// What the daemon answers, or says to a listener.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Reply {
    /// With the descriptor of the pool.
    Welcome,
    /// The client of the pool is known.
    Attached,
    /// With a socket on which arrivals come.
    Listening,
    /// With the three descriptors of a channel, of which the receiver sits on side A (who asked) or B (who listens).
    Channel {
        local: SocketAddr,
        peer: SocketAddr,
    },
    /// Nobody listens there.
    Nobody,
    /// The process listens there itself: it needs two clients of the pool to talk with itself.
    Yourself,
    Refused(Refusal),
    Totals(Totals),
    Client(ClientStatistics),
    /// There is no such client, nor one with a higher number.
    NoClient,
}

/// What is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// Not of ours at all, or with fields that cannot be.
    Garbage,
    /// Of another version.
    Version(u16),
}

impl Request {
    pub(crate) fn encode(&self) -> Message {
        match *self {
            Self::Hello => Writer::new(1),
            Self::Attach(client) => Writer::new(2).u32(client.to_bits()),
            Self::Listen(address) => Writer::new(3).address(address),
            Self::Connect { to, client } => Writer::new(4).address(to).u32(client.to_bits()),
            Self::Totals => Writer::new(5),
            Self::Client(from) => Writer::new(6).u64(from),
            Self::ConnectVia { via, to, client } => Writer::new(7).address(to).u32(client.to_bits()).u32(via as u32),
            Self::ListenVia { via, address } => Writer::new(8).address(address).u32(via as u32),
            Self::Bye => Writer::new(9),
            Self::Decline(peer) => Writer::new(10).address(peer),
        }
        .bytes
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let (kind, mut reader) = Reader::new(bytes)?;
        let request = match kind {
            1 => Self::Hello,
            2 => Self::Attach(reader.client()?),
            3 => Self::Listen(reader.address()?),
            4 => Self::Connect { to: reader.address()?, client: reader.client()? },
            5 => Self::Totals,
            6 => Self::Client(reader.u64()?),
            7 => Self::ConnectVia { to: reader.address()?, client: reader.client()?, via: reader.via()? },
            8 => Self::ListenVia { address: reader.address()?, via: reader.via()? },
            9 => Self::Bye,
            10 => Self::Decline(reader.address()?),
            _ => return Err(Malformed::Garbage),
        };
        reader.finish(request)
    }
}

impl Reply {
    pub(crate) fn encode(&self) -> Message {
        match *self {
            Self::Welcome => Writer::new(0x101),
            Self::Attached => Writer::new(0x102),
            Self::Listening => Writer::new(0x103),
            Self::Channel { local, peer } => Writer::new(0x104).address(local).address(peer),
            Self::Nobody => Writer::new(0x105),
            Self::Yourself => Writer::new(0x106),
            Self::Refused(refusal) => Writer::new(0x107).u32(refusal as u32),
            Self::Totals(totals) => totals.fields().iter().fold(Writer::new(0x108), |writer, &field| writer.u64(field)),
            Self::Client(client) => client.fields().iter().fold(Writer::new(0x109), |writer, &field| writer.u64(field)),
            Self::NoClient => Writer::new(0x10A),
        }
        .bytes
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let (kind, mut reader) = Reader::new(bytes)?;
        let reply = match kind {
            0x101 => Self::Welcome,
            0x102 => Self::Attached,
            0x103 => Self::Listening,
            0x104 => Self::Channel { local: reader.address()?, peer: reader.address()? },
            0x105 => Self::Nobody,
            0x106 => Self::Yourself,
            0x107 => Self::Refused(Refusal::from_bits(reader.u32()?).ok_or(Malformed::Garbage)?),
            0x108 => {
                let mut fields = [0; Totals::FIELDS];
                for field in &mut fields {
                    *field = reader.u64()?;
                }
                Self::Totals(Totals::of(fields, Stats::default()))
            }
            0x109 => {
                let mut fields = [0; ClientStatistics::FIELDS];
                for field in &mut fields {
                    *field = reader.u64()?;
                }
                Self::Client(ClientStatistics::of(fields))
            }
            0x10A => Self::NoClient,
            _ => return Err(Malformed::Garbage),
        };
        reader.finish(reply)
    }
}

struct Writer {
    bytes: Message,
    at: usize,
}

impl Writer {
    fn new(kind: u16) -> Self {
        let mut bytes = [0; BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[6..8].copy_from_slice(&kind.to_le_bytes());
        Self { bytes, at: HEADER }
    }

    fn put(mut self, field: &[u8]) -> Self {
        self.bytes[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
        self
    }

    fn u32(self, value: u32) -> Self {
        self.put(&value.to_le_bytes())
    }

    fn u64(self, value: u64) -> Self {
        self.put(&value.to_le_bytes())
    }

    /// Family, port, scope, and 16 bytes of address, of which IPv4 uses the first 4.
    fn address(self, address: SocketAddr) -> Self {
        let mut octets = [0; 16];
        let (family, scope) = match address {
            SocketAddr::V4(address) => {
                octets[..4].copy_from_slice(&address.ip().octets());
                (4u16, 0)
            }
            SocketAddr::V6(address) => {
                octets = address.ip().octets();
                (6, address.scope_id())
            }
        };
        self.put(&family.to_le_bytes()).put(&address.port().to_le_bytes()).u32(scope).put(&octets)
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Result<(u16, Self), Malformed> {
        if bytes.len() != BYTES || bytes[..4] != MAGIC {
            return Err(Malformed::Garbage);
        }
        let version = u16::from_le_bytes([bytes[4], bytes[5]]);
        if version != VERSION {
            return Err(Malformed::Version(version));
        }
        Ok((u16::from_le_bytes([bytes[6], bytes[7]]), Self { rest: &bytes[HEADER..] }))
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (field, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed::Garbage)?;
        self.rest = rest;
        Ok(*field)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn client(&mut self) -> Result<ClientId, Malformed> {
        let bits = self.u32()?;
        let client = ClientId::from_bits(bits);
        if client.to_bits() == bits { Ok(client) } else { Err(Malformed::Garbage) }
    }

    fn via(&mut self) -> Result<Via, Malformed> {
        match self.u32()? {
            1 => Ok(Via::Ip36),
            2 => Ok(Via::Ether),
            _ => Err(Malformed::Garbage),
        }
    }

    fn address(&mut self) -> Result<SocketAddr, Malformed> {
        let (family, port) = (u16::from_le_bytes(self.take()?), u16::from_le_bytes(self.take()?));
        let (scope, octets) = (self.u32()?, self.take::<16>()?);
        match family {
            4 => {
                let (ip, zero) = octets.split_at(4);
                if scope != 0 || zero.iter().any(|&byte| byte != 0) {
                    return Err(Malformed::Garbage);
                }
                Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(ip[0], ip[1], ip[2], ip[3])), port))
            }
            6 => Ok(SocketAddrV6::new(Ipv6Addr::from(octets), port, 0, scope).into()),
            _ => Err(Malformed::Garbage),
        }
    }

    /// What follows the fields must be 0.
    fn finish<T>(self, parsed: T) -> Result<T, Malformed> {
        if self.rest.iter().all(|&byte| byte == 0) { Ok(parsed) } else { Err(Malformed::Garbage) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn requests() -> Vec<Request> {
        let (v4, v6) = ("127.0.0.1:7001".parse().unwrap(), "[fe80::1%3]:80".parse().unwrap());
        let client = ClientId::from_bits(0x3F_1234);
        vec![
            Request::Hello,
            Request::Attach(client),
            Request::Listen(v4),
            Request::Listen(v6),
            Request::Connect { to: v6, client },
            Request::ConnectVia { via: Via::Ether, to: v4, client },
            Request::ListenVia { via: Via::Ip36, address: v6 },
            Request::Totals,
            Request::Client(u64::MAX),
            Request::Bye,
            Request::Decline(v6),
        ]
    }

    fn replies() -> Vec<Reply> {
        let (v4, v6) = ("127.0.0.1:7001".parse().unwrap(), "[::ffff:127.0.0.1]:80".parse().unwrap());
        let totals: [u64; Totals::FIELDS] = std::array::from_fn(|index| index as u64 + 1);
        vec![
            Reply::Welcome,
            Reply::Attached,
            Reply::Listening,
            Reply::Channel { local: v4, peer: v6 },
            Reply::Nobody,
            Reply::Yourself,
            Reply::Refused(Refusal::Limit),
            Reply::Totals(Totals::of(totals, Stats::default())),
            Reply::Client(ClientStatistics::of(std::array::from_fn(|index| index as u64))),
            Reply::NoClient,
        ]
    }

    #[test]
    fn every_message_is_read_as_it_was_written() {
        for request in requests() {
            assert_eq!(Request::parse(&request.encode()), Ok(request));
            assert!(Reply::parse(&request.encode()).is_err(), "a request is no reply");
        }
        for reply in replies() {
            assert_eq!(Reply::parse(&reply.encode()), Ok(reply));
            assert!(Request::parse(&reply.encode()).is_err(), "a reply is no request");
        }
    }

    #[test]
    fn what_is_too_short_or_too_long_is_no_message() {
        for bytes in requests().iter().map(Request::encode).chain(replies().iter().map(Reply::encode)) {
            for len in 0..BYTES {
                assert_eq!(Request::parse(&bytes[..len]), Err(Malformed::Garbage));
                assert_eq!(Reply::parse(&bytes[..len]), Err(Malformed::Garbage));
            }
            let long = [&bytes[..], &[0]].concat();
            assert_eq!(Request::parse(&long), Err(Malformed::Garbage));
        }
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = Request::Hello.encode();
        bytes[4] = 9;
        assert_eq!(Request::parse(&bytes), Err(Malformed::Version(9)));
        assert_eq!(Reply::parse(&bytes), Err(Malformed::Version(9)));
    }

    #[test]
    fn fields_that_cannot_be_are_refused() {
        let mut bytes = Request::Listen("127.0.0.1:1".parse().unwrap()).encode();
        bytes[8] = 5; // no family
        assert_eq!(Request::parse(&bytes), Err(Malformed::Garbage));
        let mut bytes = Request::Listen("127.0.0.1:1".parse().unwrap()).encode();
        bytes[20] = 1; // behind an IPv4 address
        assert_eq!(Request::parse(&bytes), Err(Malformed::Garbage));
        let mut bytes = Request::Attach(ClientId::from_bits(1)).encode();
        bytes[11] = 1; // above 22 bits
        assert_eq!(Request::parse(&bytes), Err(Malformed::Garbage));
        let mut bytes = Request::Hello.encode();
        bytes[BYTES - 1] = 1; // behind the last field
        assert_eq!(Request::parse(&bytes), Err(Malformed::Garbage));
        let mut bytes = Reply::Refused(Refusal::Limit).encode();
        bytes[8] = 200; // no such refusal
        assert_eq!(Reply::parse(&bytes), Err(Malformed::Garbage));
    }

    proptest! {
        #[test]
        fn whatever_parses_is_what_would_have_been_written(mut bytes in proptest::collection::vec(any::<u8>(), BYTES), kind in 0u16..16, reply: bool, zeros in 0usize..BYTES) {
            bytes[..4].copy_from_slice(&MAGIC);
            bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
            bytes[6..8].copy_from_slice(&(kind + if reply { 0x100 } else { 0 }).to_le_bytes());
            let from = zeros.max(HEADER);
            bytes[from..].fill(0);
            if let Ok(request) = Request::parse(&bytes) {
                prop_assert_eq!(&request.encode()[..], &bytes[..]);
            }
            if let Ok(reply) = Reply::parse(&bytes) {
                prop_assert_eq!(&reply.encode()[..], &bytes[..]);
            }
        }
    }
}

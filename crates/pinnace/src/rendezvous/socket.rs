//! The rendezvous's datagram sockets. The server's: who asked, at which of our addresses; an answer leaves from there. The
//! client's: it hears the server alone.

use crate::faulty;
use pinnace_core::{Address, ReceivePlan, Train};
use pinnace_link::{BufferTable, FaultOptions, Link, ReadBuffer, ReadOutcome, SendOutcome, UdpLink, UdpOptions};
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::time::Instant;

/// See the [module](self).
pub(super) struct Socket {
    link: Box<dyn Link>,
    local: Option<SocketAddr>,
    memory: BufferTable,
    reads: ReadBuffer,
    plan: ReceivePlan,
    train: Train,
}

/// What has come.
pub(super) struct Asked {
    pub(super) bytes: Vec<u8>,
    pub(super) from: SocketAddr,
    /// Our address, if the system tells.
    pub(super) at: Option<Address>,
}

impl Asked {
    /// The address of ours that it came to, if the system tells.
    pub(super) fn local(&self) -> Option<SocketAddr> {
        match self.at {
            Some(Address::Inet(address)) if !address.ip().is_unspecified() => Some(address),
            _ => None,
        }
    }
}

impl Socket {
    /// Hears everybody.
    pub(super) fn bind(address: SocketAddr, fault: Option<&FaultOptions>) -> io::Result<Self> {
        Ok(Self::of(UdpLink::bind(address, &small())?, fault))
    }

    /// Hears `peer` alone.
    pub(super) fn connect(peer: SocketAddr, fault: Option<&FaultOptions>) -> io::Result<Self> {
        Ok(Self::of(UdpLink::connect(None, peer, &small())?, fault))
    }

    fn of(link: UdpLink, fault: Option<&FaultOptions>) -> Self {
        let local = link.local_address();
        Self { local, ..Self::over(faulty(link, fault)) }
    }

    /// Over a link of which nothing else is known.
    pub(super) fn over(link: Box<dyn Link>) -> Self {
        let mut plan = ReceivePlan::new();
        plan.reset(1);
        plan.top_up(ReadBuffer::READ_BYTES);
        let train = Train::new(link.train_limits());
        Self { link, local: None, memory: BufferTable::new(), reads: ReadBuffer::new(), plan, train }
    }

    pub(super) fn local_addr(&self) -> Option<SocketAddr> {
        self.local
    }

    pub(super) fn descriptor(&self) -> RawFd {
        self.link.descriptors().readable
    }

    /// Datagrams that have come; none if nothing waits.
    pub(super) fn receive(&mut self) -> io::Result<Vec<Asked>> {
        loop {
            match self.link.receive(&self.plan, &self.memory, &mut self.reads)? {
                ReadOutcome::Empty => return Ok(Vec::new()),
                ReadOutcome::Unreachable => {}
                ReadOutcome::Received(received) => {
                    let Address::Inet(from) = received.meta.source else { continue };
                    let at = received.meta.destination;
                    let bytes = self.reads.pooled(received.bytes);
                    let each = bytes.chunks(received.segment.max(1));
                    return Ok(each.map(|bytes| Asked { bytes: bytes.to_vec(), from, at }).collect());
                }
            }
        }
    }

    /// Answers. What does not leave at once is lost: the client asks again.
    pub(super) fn answer(&mut self, bytes: &[u8], to: SocketAddr, from: Option<Address>) -> io::Result<()> {
        self.send(bytes, to.into(), from).map(drop)
    }

    fn send(&mut self, bytes: &[u8], to: Address, from: Option<Address>) -> io::Result<SendOutcome> {
        self.train.reset(self.link.train_limits());
        self.train.single(to, from, bytes);
        self.link.send(&self.train, &self.memory)
    }

    /// Says something to the peer; false: its host has said before that nobody listens there.
    pub(super) fn say(&mut self, bytes: &[u8]) -> io::Result<bool> {
        Ok(!matches!(self.send(bytes, Address::Peer, None)?, SendOutcome::Unreachable))
    }

    /// What the peer says until then.
    pub(super) fn hear(&mut self, until: Instant) -> io::Result<Heard> {
        loop {
            match self.link.receive(&self.plan, &self.memory, &mut self.reads)? {
                ReadOutcome::Unreachable => return Ok(Heard::Unreachable),
                ReadOutcome::Received(received) => {
                    return Ok(Heard::Bytes(self.reads.pooled(received.bytes)));
                }
                ReadOutcome::Empty => {}
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Heard::Nothing);
            }
            let mut entry = libc::pollfd { fd: self.descriptor(), events: libc::POLLIN, revents: 0 };
            let timeout = i32::try_from(left.as_millis().saturating_add(1)).unwrap_or(i32::MAX);
            // SAFETY: one live entry, and the count says so.
            unsafe { libc::poll(&raw mut entry, 1, timeout) };
        }
    }
}

/// What has come from the peer.
pub(super) enum Heard {
    /// A datagram.
    Bytes(Vec<u8>),
    /// Its host says that nothing is bound there.
    Unreachable,
    /// Nothing.
    Nothing,
}

/// Small datagrams, one at a time, and few.
fn small() -> UdpOptions {
    UdpOptions { offload: false, receive_buffer: 1 << 20, ..UdpOptions::default() }
}

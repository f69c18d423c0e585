//! The server's datagram socket: who asked, at which of our addresses; an answer leaves from there.

use pinnace_core::{Address, ReceivePlan, Train};
use pinnace_link::{BufferTable, Link, ReadBuffer, ReadOutcome, UdpLink, UdpOptions};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;

/// See the [module](self).
pub(super) struct Socket {
    link: UdpLink,
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
    pub(super) fn local_ip(&self) -> Option<IpAddr> {
        match self.at {
            Some(Address::Inet(address)) if !address.ip().is_unspecified() => Some(address.ip()),
            _ => None,
        }
    }
}

impl Socket {
    pub(super) fn bind(address: SocketAddr) -> io::Result<Self> {
        // Small datagrams, one at a time, and few.
        let options = UdpOptions { offload: false, receive_buffer: 1 << 20, ..UdpOptions::default() };
        let link = UdpLink::bind(address, &options)?;
        let mut plan = ReceivePlan::new();
        plan.reset(1);
        plan.top_up(ReadBuffer::READ_BYTES);
        let train = Train::new(link.train_limits());
        Ok(Self { link, memory: BufferTable::new(), reads: ReadBuffer::new(), plan, train })
    }

    pub(super) fn local_addr(&self) -> Option<SocketAddr> {
        self.link.local_address()
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
                    let mut pieces = Vec::new();
                    self.reads.pieces(received.bytes, &mut pieces);
                    let bytes = pieces.concat();
                    let each = bytes.chunks(received.segment.max(1));
                    return Ok(each.map(|bytes| Asked { bytes: bytes.to_vec(), from, at }).collect());
                }
            }
        }
    }

    /// Answers. What does not leave at once is lost: the client asks again.
    pub(super) fn answer(&mut self, bytes: &[u8], to: SocketAddr, from: Option<Address>) -> io::Result<()> {
        self.train.reset(self.link.train_limits());
        self.train.begin(to.into(), bytes.len());
        self.train.set_source(from);
        self.train.inline(bytes);
        self.train.end_segment();
        self.link.send(&self.train, &self.memory).map(drop)
    }
}

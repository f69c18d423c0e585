//! How XTP is set up to be QMP (specs/qmp.md, Profile).

use core::net::{IpAddr, SocketAddr};
use pinnace_wire::xtp::{AddressSegment, Codec, HostPair, INITIAL_ALLOC, Options};
use pinnace_xtp::{Config, ControlBlock, Service, Services};

/// What carries the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// UDP, or IP protocol 36: a datagram is as long as it says.
    Internet,
    /// Ethernet, which pads what is short.
    Ethernet,
}

/// What can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Of so many consecutive packets with data one asks for the receiver's status; at least 1.
    //= Q-8
    pub status_every: u32,
    /// Bytes that the peer may send ahead of the application.
    pub window: u32,
    /// Bytes that may be queued and not acknowledged.
    pub queue: u32,
    /// The most user bytes in a packet.
    pub maxdata: u32,
    /// Go-back-N instead of selective retransmission.
    //= Q-11
    pub go_back_n: bool,
}

impl Default for Profile {
    fn default() -> Self {
        let block = ControlBlock::default();
        Self {
            status_every: 16,
            window: block.rwindow,
            queue: block.wbufsize,
            maxdata: block.maxdata,
            go_back_n: false,
        }
    }
}

impl Profile {
    /// What every packet carries. The link's CRC is all the checksum there is: NOCHECK. Order is kept, so what comes out of
    /// order is a loss to be told at once: FASTNAK.
    //= Q-2
    pub const OPTIONS: Options = Options::NOCHECK.with(Options::FASTNAK);

    /// What a listener offers.
    pub const SERVICES: Services = Services::NONE.with(Service::Connection);

    /// The configuration of an engine, of which `base` says the rest.
    //= Q-2, Q-4
    pub fn config(&self, medium: Medium, base: Config) -> Config {
        Config {
            codec: Codec::Xtp40,
            is_padded: medium == Medium::Ethernet,
            verifies: false,
            has_messages: false,
            has_groups: false,
            is_patient: true,
            trusts_reports: true,
            diag_options: Self::OPTIONS,
            ..base
        }
    }

    /// The control block of a listener at `port`, and of what it accepts.
    //= Q-3
    pub fn block(&self, port: u16) -> ControlBlock {
        let mut block = ControlBlock::new(Service::Connection);
        block.mode_flags = Self::OPTIONS;
        block.listen_flags = Options::FASTNAK;
        block.rwindow = self.window;
        // A ring holds the first bytes at least, which nobody has allowed.
        block.rbufsize = self.window.max(INITIAL_ALLOC);
        block.wbufsize = self.queue;
        block.maxdata = self.maxdata;
        block.go_back_n = self.go_back_n;
        // 0 would mean that the application decides.
        block.sreq_every = self.status_every.max(1);
        block.address_segment.destination_port = port;
        block
    }

    /// The control block of a socket that connects to `to`. Its own port is the engine's.
    //= Q-5
    pub fn block_to(&self, to: SocketAddr) -> ControlBlock {
        let mut block = self.block(to.port());
        let hosts = match to.ip() {
            IpAddr::V4(destination) => HostPair::V4 { destination, source: [0; 4].into() },
            IpAddr::V6(destination) => HostPair::V6 { destination, source: [0; 16].into() },
        };
        block.address_segment = AddressSegment { hosts, destination_port: to.port(), source_port: 0 };
        block
    }
}

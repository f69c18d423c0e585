//! The control block: how an application programs the protocol (paper, Appendix B; specs/xtp.md, sections 3.13 and 5).

use core::net::Ipv4Addr;
use core::time::Duration;
use pinnace_wire::xtp::{self, AddressSegment, HostPair, Options, Traffic};

/// The paper's six services, and the two of multicast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Service {
    /// A reliable stream each way.
    #[default]
    Connection,
    /// A request and its response, in one round trip with set-up and close.
    Transaction,
    /// One message in one packet, and no answer.
    UnackDgram,
    /// One message in one packet, repeated until it is acknowledged.
    AckDgram,
    /// A stream of which nothing is repeated; holes are told.
    IsoStream,
    /// A reliable stream into buffers that the receiving application has posted.
    BulkData,
    /// A stream to a group, of which nothing is repeated.
    UnackMulticast,
    /// A reliable stream to a group.
    Multicast,
}

impl Service {
    /// The six of the paper.
    pub const OF_THE_PAPER: [Self; 6] =
        [Self::Connection, Self::Transaction, Self::UnackDgram, Self::AckDgram, Self::IsoStream, Self::BulkData];

    /// Its number on the wire.
    pub const fn on_wire(self) -> xtp::Service {
        match self {
            Self::Connection | Self::IsoStream | Self::BulkData => xtp::Service::Stream,
            Self::Transaction => xtp::Service::Transaction,
            Self::UnackDgram => xtp::Service::UnackDgram,
            Self::AckDgram => xtp::Service::AckDgram,
            Self::UnackMulticast => xtp::Service::UnackMulticast,
            Self::Multicast => xtp::Service::Multicast,
        }
    }

    /// The service that a FIRST asks for; the options tell the three streams apart.
    //= X-21
    pub(crate) const fn of(service: xtp::Service, options: Options) -> Self {
        match service {
            xtp::Service::UnackDgram => Self::UnackDgram,
            xtp::Service::AckDgram => Self::AckDgram,
            xtp::Service::Transaction => Self::Transaction,
            xtp::Service::Stream if options.contains(Options::RES) => Self::BulkData,
            xtp::Service::Stream if options.contains(Options::NOERR) => Self::IsoStream,
            xtp::Service::Stream => Self::Connection,
            xtp::Service::UnackMulticast => Self::UnackMulticast,
            xtp::Service::Multicast => Self::Multicast,
        }
    }

    /// The options that every packet of its streams carries (specs/xtp.md, 3.9).
    pub const fn options(self) -> Options {
        match self {
            Self::UnackDgram | Self::IsoStream => Options::NOERR.with(Options::NOFLOW),
            Self::UnackMulticast => Options::NOERR.with(Options::NOFLOW).with(Options::MULTI),
            Self::Multicast => Options::MULTI,
            Self::BulkData => Options::RES,
            Self::Connection | Self::Transaction | Self::AckDgram => Options::NONE,
        }
    }

    /// Whether a message must fit one packet.
    pub const fn is_datagram(self) -> bool {
        matches!(self, Self::UnackDgram | Self::AckDgram)
    }

    /// Whether it is a stream to a group.
    pub const fn is_group(self) -> bool {
        matches!(self, Self::UnackMulticast | Self::Multicast)
    }

    /// Whether one message each way is all there is.
    pub const fn is_one_message(self) -> bool {
        matches!(self, Self::UnackDgram | Self::AckDgram | Self::Transaction)
    }
}

/// What a listener offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Services(u8);

impl Services {
    /// Every unicast service.
    pub const ALL: Self = Self(0x3f);
    /// None yet.
    pub const NONE: Self = Self(0);

    /// These, and `service`.
    #[must_use]
    pub const fn with(self, service: Service) -> Self {
        Self(self.0 | 1 << service as u8)
    }

    /// Whether `service` is one of them.
    pub const fn contains(self, service: Service) -> bool {
        self.0 & (1 << service as u8) != 0
    }
}

impl From<Service> for Services {
    fn from(service: Service) -> Self {
        Self::NONE.with(service)
    }
}

/// How an application programs a context. The defaults are those of specs/xtp.md, 3.13.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlBlock {
    /// What every packet of the outgoing stream carries beside what its service demands: any of NOCHECK, NOERR, SORT,
    /// NOFLOW, RES, FASTNAK.
    pub mode_flags: Options,
    /// Priority of the context's packets, lower first; needs SORT. At most 65,535 in xtp40 (X-18).
    pub sort_value: u32,
    /// FASTNAK: gaps are reported unasked, whatever the peer's packets say (X-14).
    pub listen_flags: Options,
    /// What is asked for, or offered.
    pub service: Service,
    /// Bytes of the receive ring: up to `rwindow`, or 65,536 if that is more, are of use. A ring of the driver's is no larger.
    pub rbufsize: u32,
    /// Bytes that may be queued and not acknowledged, before the context counts as full.
    pub wbufsize: u32,
    /// The most user bytes in a packet, sent or taken; the path may allow less.
    pub maxdata: u32,
    /// How far the peer may send beyond what the application has consumed, in bytes, at most 2^30 (X-8).
    pub rwindow: u32,
    /// How often WTIMER expires in a row before the peer is given up (X-11).
    pub retry_count: u32,
    /// What we take at once, in bytes; 0: no limit (X-19).
    pub input_burst: u32,
    /// What we take, in bytes a second; 0: no limit.
    pub input_rate: u32,
    /// What we send at once, in bytes, where there is a rate; 0: what it sends in 10 ms. Packets of a stream have an eighth of
    /// it then at most, but 1,400 bytes in any case: at least a packet goes at once (X-19).
    pub output_burst: u32,
    /// What we send, in bytes a second; 0: no limit.
    pub output_rate: u32,
    /// How long an inactive association is looked for (X-11).
    pub ctimeout: Duration,
    /// After how much silence it counts as inactive.
    pub ctimer: Duration,
    /// How long an answer is waited for before there is a measurement (X-12).
    pub wtimer: Duration,
    /// To whom, or where we listen.
    pub address_segment: AddressSegment,
    /// Multicast: buckets in a row without an answer before the receivers count as gone; 0: `retry_count` (X-22).
    pub mc_drops: u16,
    /// Multicast: packets from one SREQ to the next; 0: as for unicast.
    pub mc_sreqs: u16,
    /// Multicast: gain of the smoothed round trip, as 1/2^n; 0: 1/8.
    pub mc_rttgain: u16,
    /// Multicast: gain of its deviation, as 1/2^n; 0: 1/4.
    pub mc_rttvgain: u16,
    /// The code of the DIAG that ended the context; 0: none.
    pub code: u32,
    /// And its value.
    pub value: u32,
    /// Go-back-N in both directions, instead of selective retransmission (X-13).
    pub go_back_n: bool,
    /// Although nobody has to heed alloc where NOFLOW is set, no more leaves than it allows: for who can wait, so that a
    /// peer whose application is slower loses nothing by that. A peer that has made no room for a second is not waited for
    /// until it makes some. The wire does not show it (X-8).
    pub holds_back: bool,
    /// Packets from one SREQ to the next; 0: the application decides (X-7).
    pub sreq_every: u32,
    /// A listener refuses a FIRST that will send faster than `input_rate`, instead of slowing it down (3.12).
    pub is_rate_binding: bool,
}

/// The longest wait for an answer where round trips are short: so often an answer may be missing in a given time.
const SHORT_WAIT: Duration = Duration::from_millis(160);

/// Bytes that may be sent ahead (3.13).
const USUAL_WINDOW: u32 = 262_144;

impl ControlBlock {
    /// The defaults, for a service.
    pub fn new(service: Service) -> Self {
        let unspecified = HostPair::V4 { destination: Ipv4Addr::UNSPECIFIED, source: Ipv4Addr::UNSPECIFIED };
        Self {
            mode_flags: Options::NONE,
            sort_value: 0,
            listen_flags: Options::FASTNAK,
            service,
            rbufsize: USUAL_WINDOW,
            wbufsize: 1 << 20,
            maxdata: 1400,
            rwindow: USUAL_WINDOW,
            retry_count: 6,
            input_burst: 0,
            input_rate: 0,
            output_burst: 0,
            output_rate: 0,
            ctimeout: Duration::from_secs(10),
            ctimer: Duration::from_secs(60),
            wtimer: Duration::from_millis(250),
            address_segment: AddressSegment { hosts: unspecified, destination_port: 0, source_port: 0 },
            mc_drops: 0,
            mc_sreqs: 0,
            mc_rttgain: 0,
            mc_rttvgain: 0,
            code: 0,
            value: 0,
            go_back_n: false,
            holds_back: false,
            sreq_every: 16,
            is_rate_binding: false,
        }
    }

    /// As it is, but a peer is taken for gone after `timeout`, or some round trips more where these are long (X-11).
    ///
    /// ```
    /// use pinnace_xtp::ControlBlock;
    /// use std::time::Duration;
    ///
    /// let block = ControlBlock::default().patient(Duration::from_secs(16));
    /// assert_eq!((block.ctimer + block.ctimeout, block.retry_count), (Duration::from_secs(16), 106));
    /// ```
    #[must_use]
    pub fn patient(mut self, timeout: Duration) -> Self {
        (self.ctimer, self.ctimeout) = (timeout / 2, timeout / 2);
        let expiries = (timeout.as_millis() / SHORT_WAIT.as_millis()).min(1 << 16);
        self.retry_count += expiries as u32;
        self
    }

    /// What is taken and sent, of a stream of `service` (specs/xtp.md, 3.12).
    pub(crate) fn traffic(&self, service: Service) -> Traffic {
        Traffic {
            service: service.on_wire() as u8,
            maxdata: self.maxdata,
            inrate: self.input_rate,
            inburst: self.input_burst,
            outrate: self.output_rate,
            outburst: self.output_burst,
        }
    }

    /// Whether nobody has chosen how much may be sent ahead.
    pub(crate) fn has_usual_window(&self) -> bool {
        self.rwindow == USUAL_WINDOW && self.rbufsize == USUAL_WINDOW
    }

    /// The options of every packet of the outgoing stream.
    pub(crate) fn stream_options(&self, service: Service) -> Options {
        self.mode_flags.and(Options::OF_STREAM).without(Options::MULTI).with(service.options())
    }
}

impl Default for ControlBlock {
    fn default() -> Self {
        Self::new(Service::Connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    //= X-21 test
    #[test]
    fn the_wire_tells_the_services_apart() {
        for service in Service::OF_THE_PAPER {
            assert_eq!(Service::of(service.on_wire(), service.options()), service);
            assert!(Services::ALL.contains(service));
            assert!(Services::from(service).contains(service));
        }
        assert!(!Services::from(Service::Transaction).contains(Service::Connection));
        assert!(!Services::ALL.contains(Service::Multicast));
    }

    #[test]
    fn a_stream_carries_what_the_block_and_the_service_say() {
        let mut block = ControlBlock::new(Service::IsoStream);
        block.mode_flags = Options::NOCHECK | Options::EOM | Options::MULTI;
        assert_eq!(block.stream_options(block.service), Options::NOCHECK | Options::NOERR | Options::NOFLOW);
    }
}

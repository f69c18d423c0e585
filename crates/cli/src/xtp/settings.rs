//! What both ends of XTP can be told on the command line, here and in `pinnace perf`.

use crate::congestion::Control;
use crate::exit::Error;
use crate::{address, transport, units};
use clap::{Args, ValueEnum};
use pinnace::xtp::{Carrier, Codec, ControlBlock, Endpoint, Flags, Options, Service};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

/// The six services of the paper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ServiceName {
    /// A reliable stream of messages each way
    #[default]
    Connection,
    /// A request and its response, in one round trip with set-up and close
    Transaction,
    /// One message in one packet, which nobody acknowledges
    #[value(alias = "datagram")]
    UnackDgram,
    /// One message in one packet, repeated until it is acknowledged
    #[value(alias = "acked-datagram")]
    AckDgram,
    /// A stream of which nothing is repeated; what is lost is told as holes
    #[value(alias = "iso")]
    IsoStream,
    /// A reliable stream straight into buffers that the receiver has posted
    #[value(alias = "bulk")]
    BulkData,
}

impl ServiceName {
    /// One message is all that an association carries.
    pub(crate) fn is_one_message(self) -> bool {
        matches!(self, Self::Transaction | Self::UnackDgram | Self::AckDgram)
    }
}

impl From<ServiceName> for Service {
    fn from(name: ServiceName) -> Self {
        match name {
            ServiceName::Connection => Self::Connection,
            ServiceName::Transaction => Self::Transaction,
            ServiceName::UnackDgram => Self::UnackDgram,
            ServiceName::AckDgram => Self::AckDgram,
            ServiceName::IsoStream => Self::IsoStream,
            ServiceName::BulkData => Self::BulkData,
        }
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connection => "connection",
            Self::Transaction => "transaction",
            Self::UnackDgram => "unack-dgram",
            Self::AckDgram => "ack-dgram",
            Self::IsoStream => "iso-stream",
            Self::BulkData => "bulk-data",
        })
    }
}

/// What `pinnace` calls a service of the library's.
pub(super) fn service_name(service: Service) -> &'static str {
    match service {
        Service::Connection => "connection",
        Service::Transaction => "transaction",
        Service::UnackDgram => "unack-dgram",
        Service::AckDgram => "ack-dgram",
        Service::IsoStream => "iso-stream",
        Service::BulkData => "bulk-data",
        Service::UnackMulticast => "unack-multicast",
        Service::Multicast => "multicast",
    }
}

/// How packets are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CodecName {
    /// The layout of XTP 4.0, which Wireshark knows
    #[default]
    Xtp40,
    /// A reconstruction of revision 3.6, the paper's, with its CXOR checksum
    Xtp36,
}

impl fmt::Display for CodecName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Xtp40 => "xtp40",
            Self::Xtp36 => "xtp36",
        })
    }
}

impl From<CodecName> for Codec {
    fn from(name: CodecName) -> Self {
        match name {
            CodecName::Xtp40 => Self::Xtp40,
            CodecName::Xtp36 => Self::Xtp36,
        }
    }
}

/// What carries the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LinkName {
    /// UDP: the ports of XTP are those of UDP
    #[default]
    Udp,
    /// IP itself, protocol 36: needs root or CAP_NET_RAW, and each end an address of its own
    Ip36,
}

impl From<LinkName> for Carrier {
    fn from(name: LinkName) -> Self {
        match name {
            LinkName::Udp => Self::Udp,
            LinkName::Ip36 => Self::Ip36,
        }
    }
}

/// How packets look and travel: the same at both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
pub(crate) struct Wire {
    /// How packets are laid out; both ends must say the same
    #[arg(long, value_enum, default_value_t, help_heading = "XTP")]
    pub(crate) codec: CodecName,
    /// What carries them; both ends must say the same
    #[arg(long, value_enum, default_value_t, help_heading = "XTP")]
    pub(crate) link: LinkName,
}

impl Wire {
    /// The options that it stands for.
    pub(crate) fn apply(self, options: Options) -> Options {
        Options { codec: self.codec.into(), carrier: self.link.into(), ..options }
    }

    /// The address of the peer that `text`, HOST:PORT, names.
    pub(super) fn peer(self, text: &str) -> Result<SocketAddr, Error> {
        match self.link {
            LinkName::Udp => address::resolve_peer(text),
            LinkName::Ip36 => address::resolve(text),
        }
    }

    /// An endpoint that talks with `peer`.
    pub(crate) fn client_of(self, peer: SocketAddr, options: &Options) -> Result<Endpoint, Error> {
        let endpoint = match (self.link, client_address(peer)) {
            (LinkName::Ip36, Some(local)) => Endpoint::bind(local, options),
            _ => Endpoint::client_of(peer, options),
        };
        endpoint.map_err(|error| self.error(error))
    }

    /// Who opens a socket, and what would help if that fails.
    pub(crate) fn error(self, error: pinnace::Error) -> Error {
        match (self.link, error.system().map(io::Error::kind)) {
            (LinkName::Ip36, Some(io::ErrorKind::PermissionDenied)) => {
                Error::failed(format!("{error}; or leave --link ip36 out"))
            }
            (LinkName::Ip36, Some(io::ErrorKind::AddrInUse)) => Error::failed(format!(
                "{error}; one process owns protocol 36 of an address: end that one, or use another"
            )),
            _ => error.into(),
        }
    }
}

/// The loopback address of a client over protocol 36 whose peer is on this host, too.
const OTHER_LOOPBACK: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 36);
/// The port in its address segments, which no system picks.
const CLIENT_PORT: u16 = 36;

/// Where a client over protocol 36 is bound if the system's choice would be the peer's own address: one process owns the
/// protocol on an address.
pub(crate) fn client_address(peer: SocketAddr) -> Option<SocketAddr> {
    match peer.ip() {
        IpAddr::V4(ip) if ip.is_loopback() && ip != OTHER_LOOPBACK => Some((OTHER_LOOPBACK, CLIENT_PORT).into()),
        _ => None,
    }
}

/// How groups are reached.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Groups {
    /// The IPv4 address of the interface through which a group is reached [default: what the routes say]
    #[arg(long, value_name = "IP", help_heading = "XTP")]
    interface: Option<Ipv4Addr>,
}

impl Groups {
    /// The group that an address is; `None`: it is one host's.
    pub(super) fn group(self, address: SocketAddr, wire: Wire) -> Result<Option<SocketAddrV4>, Error> {
        match address {
            SocketAddr::V4(group) if group.ip().is_multicast() => {
                if wire.codec == CodecName::Xtp36 || wire.link == LinkName::Ip36 {
                    return Err(Error::usage(format!("{group} is a group, which needs --codec xtp40 and --link udp")));
                }
                if group.port() == 0 {
                    return Err(Error::usage("a group has a port that all know: give one"));
                }
                Ok(Some(group))
            }
            SocketAddr::V6(group) if group.ip().is_multicast() => {
                Err(Error::usage("a group has an IPv4 address, from 224.0.0.0 to 239.255.255.255"))
            }
            _ if self.interface.is_some() => {
                Err(Error::usage("--interface is for groups: addresses from 224.0.0.0 to 239.255.255.255"))
            }
            _ => Ok(None),
        }
    }

    /// An endpoint for groups.
    pub(super) fn endpoint(self, options: &Options) -> Result<Endpoint, Error> {
        let at = self.interface.unwrap_or(Ipv4Addr::UNSPECIFIED);
        Endpoint::bind((at, 0), options).map_err(|error| match error.system().map(io::Error::kind) {
            Some(io::ErrorKind::AddrNotAvailable) => {
                Error::usage(format!("--interface: no interface of this host has the address {at}"))
            }
            _ => error.into(),
        })
    }

    /// Why a group cannot be had, and what would help.
    pub(super) fn error(self, error: pinnace::Error) -> Error {
        if self.interface.is_none() && error.system().is_some_and(has_no_route) {
            return Error::failed(format!(
                "{error}; no route leads to groups: name an interface, as --interface 127.0.0.1"
            ));
        }
        error.into()
    }
}

fn has_no_route(error: &io::Error) -> bool {
    [Errno::NODEV, Errno::NETUNREACH].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// The service of a stream to a group that goes by the name of one to a host.
pub(super) fn service_to_group(name: ServiceName) -> Result<Service, Error> {
    match name {
        ServiceName::Connection => Ok(Service::Multicast),
        ServiceName::IsoStream => Ok(Service::UnackMulticast),
        _ => Err(Error::usage(format!("--service {name}: to a group there are connection and iso-stream"))),
    }
}

/// What a context is programmed with (paper, Appendix B).
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Control block")]
pub(super) struct Programming {
    /// Do not sum the data: the checksum covers headers alone
    #[arg(long)]
    nocheck: bool,
    /// Repeat everything from the first lost byte on, and keep nothing beyond a gap, instead of what was lost alone
    #[arg(long)]
    go_back_n: bool,
    /// Priority of the packets, lower first; at most 65535 with xtp40
    #[arg(long, value_name = "N")]
    sort: Option<u32>,
    /// Send no faster, repetitions counted, as 100mbit; an iso-stream then waits for nobody: what the peer is too slow for
    /// is lost [default: as fast as the peer reads]
    #[arg(long, value_name = "RATE", value_parser = units::bit_rate)]
    rate: Option<u64>,
    /// What may leave at once where --rate is set; at least a packet does
    #[arg(long, value_name = "BYTES", value_parser = transport::bytes, requires = "rate")]
    burst: Option<u64>,
    /// How far the peer may send ahead of us, and how much is queued to it [default: 256 KiB, on loopback more]
    #[arg(long, value_name = "BYTES", value_parser = units::window)]
    window: Option<u32>,
    #[command(flatten)]
    congestion: Control,
    /// The most bytes of data in a packet [default: what the path carries]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=65_507))]
    maxdata: Option<u32>,
    /// How often in a row an answer may be missing [default: as often as the timeout lets it]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    retry_count: Option<u32>,
}

impl Programming {
    /// What of it belongs to the endpoint.
    pub(super) fn apply(&self, options: Options) -> Options {
        Options { window_bytes: self.window, congestion: self.congestion.kind(), ..options }
    }

    /// The control block of an endpoint's contexts; `timeout` is how long a peer may be silent.
    pub(super) fn block(
        &self,
        endpoint: &Endpoint,
        service: Service,
        timeout: Duration,
    ) -> Result<ControlBlock, Error> {
        let mut block = endpoint.block(service);
        if self.nocheck {
            block.mode_flags = block.mode_flags.with(Flags::NOCHECK);
        }
        if let Some(sort) = self.sort {
            block.mode_flags = block.mode_flags.with(Flags::SORT);
            block.sort_value = sort;
        }
        if let Some(rate) = self.rate {
            let wrong = |_| Error::usage("--rate: XTP says rates in 32 bits, of bytes a second: 34 Gbit/s at most");
            block.output_rate = u32::try_from(units::byte_rate(rate)).map_err(wrong)?;
            block.output_burst = self.burst.map_or(0, |burst| u32::try_from(burst).unwrap_or(u32::MAX));
        }
        if let Some(maxdata) = self.maxdata {
            block.maxdata = block.maxdata.min(maxdata);
        }
        block.go_back_n = self.go_back_n;
        // What comes from a file can wait; only who says a rate has a clock to follow.
        block.holds_back = self.rate.is_none();
        block = block.patient(timeout);
        block.retry_count = self.retry_count.unwrap_or(block.retry_count);
        Ok(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_are_printed() {
        for name in ServiceName::value_variants() {
            let said = name.to_possible_value().map(|value| value.get_name().to_owned());
            assert_eq!(said.as_deref(), Some(name.to_string().as_str()));
            assert_eq!(service_name((*name).into()), name.to_string());
        }
    }

    #[test]
    fn the_names_of_the_calls_do_as_well() {
        let named = |name| ServiceName::from_str(name, false);
        assert_eq!(named("datagram"), Ok(ServiceName::UnackDgram));
        assert_eq!(named("acked-datagram"), Ok(ServiceName::AckDgram));
        assert_eq!((named("bulk"), named("iso")), (Ok(ServiceName::BulkData), Ok(ServiceName::IsoStream)));
    }

    #[test]
    fn a_client_on_this_host_has_another_address_than_its_peer() {
        let of = |peer: &str| client_address(peer.parse().unwrap());
        assert_eq!(of("127.0.0.1:7"), "127.0.0.36:36".parse().ok());
        for other in ["192.0.2.1:7", "[::1]:7", "127.0.0.36:7"] {
            assert_eq!(of(other), None);
        }
    }
}

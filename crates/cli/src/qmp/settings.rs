//! What both ends of QMP can be told on the command line, here and in `pinnace perf`.

use crate::bare::seconds;
use crate::congestion::Control;
use crate::exit::{Error, advice};
use crate::units;
use crate::waiting::Waiting;
use crate::xtp::client_address;
use clap::{Args, ValueEnum};
use pinnace::daemon::Client;
use pinnace::qmp::{Carrier, Endpoint, Options};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What carries the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LinkName {
    /// UDP: the ports of QMP are those of UDP
    #[default]
    Udp,
    /// IP itself, protocol 36: needs root or CAP_NET_RAW, and each end an address of its own
    Ip36,
    /// Ethernet frames (EtherType 0x817D) to a host on the same link: needs root or CAP_NET_RAW; the address names the
    /// interface. A sender may name a station instead: LINK-ADDRESS%INTERFACE:PORT
    Ether,
    /// Memory shared with a process of this host: needs `pinnace daemon`
    Shm,
}

impl LinkName {
    /// Whether it needs a right that not everybody has.
    pub(crate) fn is_raw(self) -> bool {
        matches!(self, Self::Ip36 | Self::Ether)
    }
}

impl fmt::Display for LinkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Udp => "udp",
            Self::Ip36 => "ip36",
            Self::Ether => "ether",
            Self::Shm => "shm",
        })
    }
}

impl From<LinkName> for Carrier {
    fn from(name: LinkName) -> Self {
        match name {
            LinkName::Udp => Self::Udp,
            LinkName::Ip36 => Self::Ip36,
            LinkName::Ether => Self::Ether,
            LinkName::Shm => Self::SharedMemory,
        }
    }
}

/// How packets travel, and how often the receiver is asked: may differ between the ends, but for the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
pub(crate) struct Wire {
    /// What carries the packets; both ends must say the same
    #[arg(long, value_enum, default_value_t)]
    pub(crate) link: LinkName,
    /// Of so many consecutive packets with data one asks the receiver for its status [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) status_every: Option<u32>,
    /// Repeat everything from the first lost byte on, instead of what was lost alone
    #[arg(long)]
    pub(crate) go_back_n: bool,
}

impl Wire {
    /// The options that it stands for.
    pub(crate) fn apply(self, options: Options) -> Options {
        Options {
            carrier: self.link.into(),
            // What carries it was said.
            same_host: false,
            status_every: self.status_every.unwrap_or(options.status_every),
            go_back_n: self.go_back_n,
            ..options
        }
    }

    /// An endpoint that talks with `peer`.
    pub(crate) fn client_of(self, peer: SocketAddr, options: &Options) -> io::Result<Endpoint> {
        match (self.link, client_address(peer)) {
            (LinkName::Ip36, Some(local)) => Endpoint::bind(local, options),
            _ => Endpoint::client_of(peer, options),
        }
    }

    /// Fails unless what it needs is there.
    pub(crate) fn check(self) -> Result<(), Error> {
        if self.link == LinkName::Shm && Client::current().is_none() {
            return Err(Error::failed(
                "--link shm: no daemon serves this user; start one with `pinnace daemon`, or leave the option out",
            ));
        }
        Ok(())
    }

    /// Who opens a socket, and what would help if that fails.
    pub(crate) fn opening(self, error: &io::Error) -> Error {
        let link = self.link;
        match error.kind() {
            io::ErrorKind::PermissionDenied if link.is_raw() => Error::failed(format!(
                "{error}; or leave --link {link} out, or let root run `pinnace daemon` for this user"
            )),
            io::ErrorKind::AddrInUse if link == LinkName::Ip36 => Error::failed(format!(
                "{error}; one process owns protocol 36 of an address: end that one, or use another"
            )),
            io::ErrorKind::AddrInUse if link == LinkName::Ether => {
                Error::failed(format!("{error}; one process owns QMP on an interface: end that one, or use another"))
            }
            _ => match error.get_ref().and_then(|within| within.downcast_ref::<pinnace::Error>()) {
                Some(within) => within.into(),
                None => Error::failed(format!("{error}{}", advice(error))),
            },
        }
    }
}

/// What both ends of `pinnace qmp` can set.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Transport")]
pub(super) struct Transport {
    #[command(flatten)]
    pub(super) wire: Wire,
    /// How far the peer may send ahead of us, and how much is queued to it [default: 256 KiB, on loopback more]
    #[arg(long, value_name = "BYTES", value_parser = units::window)]
    window: Option<u32>,
    #[command(flatten)]
    congestion: Control,
    /// A peer that is silent for so long is gone: seconds, or 500ms
    #[arg(long, value_name = "TIME", default_value = "10", value_parser = seconds)]
    pub(super) timeout: Duration,
    #[command(flatten)]
    waiting: Waiting,
    /// Write every packet to this file, for Wireshark
    #[arg(long, visible_alias = "capture", value_name = "FILE")]
    pcap: Option<PathBuf>,
}

impl Transport {
    pub(super) fn options(&self) -> Options {
        self.wire.apply(Options {
            window_bytes: self.window,
            congestion: self.congestion.kind(),
            peer_timeout: Some(self.timeout),
            idle: self.waiting.idle(),
            udp: self.waiting.udp(),
            capture: self.pcap.clone(),
            ..Options::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_are_printed() {
        for name in LinkName::value_variants() {
            let said = name.to_possible_value().map(|value| value.get_name().to_owned());
            assert_eq!(said.as_deref(), Some(name.to_string().as_str()));
        }
    }
}

//! What every subcommand that talks to a peer shares: the transport's options, waiting, and what its errors mean to the user.

use crate::bare::seconds;
use crate::congestion::Control;
use crate::exit::Error;
use crate::interrupt;
use crate::thread;
use crate::units;
use crate::waiting::Waiting;
use clap::{Args, ValueEnum};
use pinnace::service::PathClass;
use pinnace::zcrp::{Failure, Options, Profile, Progress, Receiving, Refused, Sender, Sending};
use pinnace::{Message, Unsent};
use std::path::PathBuf;
use std::time::Duration;

pub(crate) use crate::units::bytes;

/// How the transport is set up.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Transport")]
pub(crate) struct Transport {
    /// What lies between the peers: `cluster` (a network of your own), `internet` (shared with others), `auto` (cluster
    /// on loopback)
    #[arg(long, value_enum, default_value = "auto")]
    profile: ProfileName,
    /// Bytes of a unit datagram, 29 to 65507 [default: what the path carries]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(29..=65507))]
    unit: Option<u16>,
    /// A peer that is silent for so long is gone: seconds, or 500ms
    #[arg(long, value_name = "TIME", default_value = "10", value_parser = seconds)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    waiting: Waiting,
    /// Write every datagram to this file, for Wireshark
    #[arg(long, visible_alias = "pcap", value_name = "FILE")]
    capture: Option<PathBuf>,
}

/// How fast a sender may be, and what slows it down.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Pace")]
pub(crate) struct Pace {
    /// Never send faster, and leave the rest of the line to others: 20mbit
    #[arg(long, value_name = "RATE", value_parser = units::bit_rate)]
    pub(crate) rate: Option<u64>,
    #[command(flatten)]
    congestion: Control,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ProfileName {
    Auto,
    Internet,
    Cluster,
}

impl Transport {
    pub(crate) fn options(&self) -> Options {
        Options {
            profile: match self.profile {
                ProfileName::Auto => Profile::Auto,
                ProfileName::Internet => Profile::Internet,
                ProfileName::Cluster => Profile::Cluster,
            },
            idle: self.waiting.idle(),
            udp: self.waiting.udp(),
            unit_bytes: self.unit.map(usize::from),
            peer_timeout: self.timeout,
            capture: self.capture.clone(),
            ..Options::default()
        }
    }

    /// The same, for whoever sends at this pace.
    pub(crate) fn options_of_sender(&self, pace: &Pace) -> Options {
        Options { rate: pace.rate.map(units::byte_rate), congestion: pace.congestion.kind(), ..self.options() }
    }

    /// Whether every datagram is written to a file.
    pub(crate) fn captures(&self) -> bool {
        self.capture.is_some()
    }

    /// The same, where a service says what lies between the peers.
    pub(crate) fn declared(&self, class: Option<PathClass>) -> Result<Self, Error> {
        let Some(class) = class else { return Ok(self.clone()) };
        let profile = match class {
            PathClass::Internet => ProfileName::Internet,
            PathClass::Host | PathClass::Cluster => ProfileName::Cluster,
        };
        if self.profile != ProfileName::Auto && self.profile != profile {
            let why = format!("--profile and path={class} say different things of the network: leave one out");
            return Err(Error::usage(why));
        }
        Ok(Self { profile, ..self.clone() })
    }

    /// An error of the transport, in the user's words. `peer` is who it happened with.
    pub(crate) fn error(&self, peer: &str, error: pinnace::Error) -> Error {
        match error {
            pinnace::Error::Failed(Failure::PeerGone) | pinnace::Error::Refused(Refused::Closed(Failure::PeerGone)) => {
                // Three times as long, if it still sends something (Z-19).
                Error::peer_gone(format!(
                    "{peer} has not answered for {} s or more: it was killed, or the network between is down; run the \
                     command again when it is back",
                    self.timeout.as_secs_f32()
                ))
            }
            pinnace::Error::Failed(Failure::Swallowed)
            | pinnace::Error::Refused(Refused::Closed(Failure::Swallowed)) => Error::peer_gone(format!(
                "{peer} is there, but what was sent has not arrived for {} s or more: either the network between has begun \
                 to lose all large packets, or the other end was started again; run both commands again, which finds out \
                 what the network carries (or say so with --unit 1200)",
                3.0 * self.timeout.as_secs_f32()
            )),
            pinnace::Error::Failed(Failure::TooLong) => {
                Error::failed("the message is longer than the buffer that the receiver named; give it a larger --size")
            }
            error => Error::from(error),
        }
    }
}

/// `host:port`, as text: it is resolved when it is used.
pub(crate) fn address(text: &str) -> Result<String, String> {
    let lacking = if is_number(text) { "host" } else { "port" };
    let (host, port) = text.rsplit_once(':').ok_or_else(|| format!("has no {lacking}; write it as HOST:PORT"))?;
    port.parse::<u16>().map_err(|_| format!("`{port}` is no port; write the address as HOST:PORT"))?;
    if crate::address::station(text).is_some() {
        return Ok(text.to_owned());
    }
    if host.is_empty() || (host.contains(':') && !(host.starts_with('[') && host.ends_with(']'))) {
        return Err("write it as HOST:PORT, with an IPv6 address in brackets: [::1]:4747".to_owned());
    }
    Ok(text.to_owned())
}

/// The same of this end, where a port alone is that of every IPv4 address.
pub(crate) fn local(text: &str) -> Result<String, String> {
    let port = text.strip_prefix(':').unwrap_or(text);
    if !is_number(port) {
        return address(text).map_err(|why| format!("{why}, or a port alone"));
    }
    let port: u16 = port.parse().map_err(|_| format!("{port} is no port; ports are 0 to 65535"))?;
    Ok(format!("0.0.0.0:{port}"))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit())
}

/// Whether the peer has said anything that only a receiver says.
pub(crate) fn is_heard(sender: &Sender) -> bool {
    let counters = sender.counters();
    counters.requests_received + counters.acknowledgements_received + counters.flow_hints_received > 0
}

/// A message on its way, in either direction.
pub(crate) trait UnderWay: Sized {
    fn wait_timeout(self, timeout: Duration) -> Progress<Self, Result<Message, Unsent>>;
}

impl UnderWay for Sending {
    fn wait_timeout(self, timeout: Duration) -> Progress<Self, Result<Message, Unsent>> {
        Sending::wait_timeout(self, timeout)
    }
}

impl UnderWay for Receiving {
    fn wait_timeout(self, timeout: Duration) -> Progress<Self, Result<Message, Unsent>> {
        Receiving::wait_timeout(self, timeout)
    }
}

/// Waits for a message, and calls `look` first and every [`interrupt::LOOK`]; its error ends the wait.
pub(crate) fn wait<W: UnderWay>(
    mut message: W,
    mut look: impl FnMut() -> Result<(), Error>,
    failed: impl FnOnce(pinnace::Error) -> Error,
) -> Result<Message, Error> {
    loop {
        // Before the wait: a transfer whose messages all end at once must notice too.
        interrupt::check()?;
        look()?;
        message = match message.wait_timeout(interrupt::LOOK) {
            Progress::Ended(result) => return result.map_err(|unsent| failed(unsent.error)),
            Progress::UnderWay(message) => message,
        };
    }
}

/// Runs `work`, which cannot be interrupted, on a thread of its own, and waits for it or for Ctrl-C.
pub(crate) fn interruptible<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    interruptible_while(|| Ok(()), work)
}

/// The same, and `look` is called every [`interrupt::LOOK`]; its error ends the wait.
pub(crate) fn interruptible_while<T: Send + 'static>(
    look: impl Fn() -> Result<(), Error>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let (done, result) = std::sync::mpsc::channel();
    thread::start(move || done.send(work()))?;
    loop {
        match result.recv_timeout(interrupt::LOOK) {
            Ok(value) => return Ok(value),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                interrupt::check()?;
                look()?;
            }
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
                return Err(Error::failed("a thread of this program has failed; please report it"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        for text in ["127.0.0.1:1", "host.example:4747", "[::1]:0"] {
            assert!(address(text).is_ok(), "{text}");
        }
        for text in ["", "host", "host:", "host:99999", ":80", "::1:80"] {
            assert!(address(text).is_err(), "{text}");
        }
        assert!(address("4747").unwrap_err().contains("no host") && address("host").unwrap_err().contains("no port"));
    }

    #[test]
    fn whoever_listens_may_say_a_port_alone() {
        for (text, meant) in [("4747", "0.0.0.0:4747"), (":0", "0.0.0.0:0"), ("[::1]:4747", "[::1]:4747")] {
            assert_eq!(local(text).as_deref(), Ok(meant));
        }
        for text in ["", ":", "host", "::1:80", "+80"] {
            assert!(local(text).unwrap_err().contains("or a port alone"), "{text}");
        }
        assert!(local("99999").unwrap_err().contains("99999 is no port"));
    }
}

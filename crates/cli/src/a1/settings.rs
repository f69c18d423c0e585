//! What both ends of A1 can be told on the command line: here, in `pinnace cast` and `tune`, and in `pinnace perf`.

use crate::bare::seconds;
use crate::congestion::Control;
use crate::exit::Error;
use crate::waiting::Waiting;
use crate::{transport, units};
use clap::{Args, ValueEnum};
use pinnace::a1::{self, Options, Qos};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// What happens to blocks that are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// They are sent again
    #[default]
    Reliable,
    /// They stay lost, and the receiver is told
    Raw,
}

impl Mode {
    /// A record of this mode, with nothing else said.
    pub(crate) fn record(self) -> Qos {
        match self {
            Self::Reliable => a1::reliable(),
            Self::Raw => a1::raw(),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reliable => "reliable",
            Self::Raw => "raw",
        })
    }
}

/// Bytes that may leave at once where a rate was given, and nothing else.
const BURST: u32 = 64 << 10;
/// Bytes of the largest message that a listener sends: it has nothing to say, so whoever comes need not take anything.
const ANSWER: u32 = 0;
/// Bytes of the largest message that a sender takes, whoever listens, if the window has room for that.
const ANY_ANSWER: u32 = 1 << 20;
/// The smallest block that a socket picks for itself, bytes.
const SMALLEST_BLOCK: u32 = 1024;

/// The record of quality of service.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Quality of service")]
pub(crate) struct QosArgs {
    /// What happens to blocks that are lost; both ends must say the same
    #[arg(long, value_enum, default_value_t)]
    pub(crate) mode: Mode,
    /// Never faster than this on average, repetitions counted: 50mbit [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = units::bit_rate)]
    pub(crate) rate: Option<u64>,
    /// What may go at once at that rate [default: 64 KiB]
    #[arg(long, value_name = "BYTES", value_parser = transport::bytes, requires = "rate")]
    pub(crate) burst: Option<u64>,
    /// 0 is the most urgent: of the connections of a socket, who goes first; here there is one, so the peer is told and nobody waits
    #[arg(long, value_name = "0..255", default_value = "128")]
    pub(crate) priority: u8,
    /// Sum every datagram; both ends must say the same
    #[arg(long)]
    pub(crate) checksum: bool,
    /// Bytes of a block, up to 65475 [default: what the path carries in one piece, with a rate an eighth of
    /// its burst]
    #[arg(long, value_name = "BYTES", value_parser = transport::bytes)]
    pub(crate) block: Option<u64>,
    /// Messages under way, acknowledged or not consumed: the window, with their size
    #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub(crate) outstanding: u32,
}

impl QosArgs {
    fn common(&self) -> Result<Qos, Error> {
        let block = self.block.unwrap_or(0);
        let block_size = match u32::try_from(block) {
            Ok(bytes @ 0..=a1::MAX_BLOCK_BYTES) if self.block != Some(0) => bytes,
            _ => return Err(Error::usage(format!("--block: a block has 1 to {} bytes", a1::MAX_BLOCK_BYTES))),
        };
        Ok(Qos {
            has_checksum: self.checksum,
            priority: self.priority,
            block_size,
            outstanding: self.outstanding,
            ..self.mode.record()
        })
    }

    fn limit(&self) -> Result<(u64, u32), Error> {
        let burst = u32::try_from(self.burst.unwrap_or(BURST.into()))
            .map_err(|_| Error::usage("--burst: a burst has at most 4294967295 bytes"))?;
        Ok(self.rate.map_or((0, 0), |rate| (units::byte_rate(rate), burst)))
    }

    /// The record of who sends messages of so many bytes at most.
    pub(crate) fn sender(&self, largest: u64) -> Result<Qos, Error> {
        let (send_average, send_burst) = self.limit()?;
        let largest_sent = message_bytes(largest)?;
        let common = self.common()?;
        // So many blocks are in the window of what is not sent: that of what is must not suffer.
        let block = if common.block_size == 0 { SMALLEST_BLOCK } else { common.block_size };
        let room = (a1::WINDOW_LIMIT - 1) / common.outstanding.max(1);
        let largest_received = ANY_ANSWER.min(room.saturating_mul(block));
        Ok(Qos { send_average, send_burst, largest_sent, largest_received, ..common })
    }

    /// The record of who receives messages of so many bytes at most.
    pub(crate) fn receiver(&self, largest: u64) -> Result<Qos, Error> {
        let (receive_average, receive_burst) = self.limit()?;
        let largest_received = message_bytes(largest)?;
        // Whoever comes is at least as urgent as this: the priority of a listener is that of what it sends.
        Ok(Qos { receive_average, receive_burst, largest_sent: ANSWER, largest_received, ..self.common()? })
    }
}

fn message_bytes(bytes: u64) -> Result<u32, Error> {
    u32::try_from(bytes.max(1)).map_err(|_| Error::usage("an A1 message has at most 4294967295 bytes"))
}

/// What both ends can set beside it.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Transport")]
pub(crate) struct Transport {
    #[command(flatten)]
    congestion: Control,
    /// A peer that is silent for so long is gone: seconds, or 500ms; for who only receives, half as long again
    #[arg(long, value_name = "TIME", default_value = "10", value_parser = seconds)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    waiting: Waiting,
    /// Write every datagram to this file, for Wireshark
    #[arg(long, visible_alias = "capture", value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
}

impl Transport {
    pub(crate) fn options(&self) -> Options {
        Options {
            congestion: self.congestion.kind(),
            idle: self.waiting.idle(),
            udp: self.waiting.udp(),
            silence: self.timeout,
            // Whoever only receives has to ask, or it would not miss the peer for half a minute.
            keep_alive: self.timeout / 2,
            capture: self.pcap.clone(),
            ..Options::default()
        }
    }

    /// An error of a socket that talks with `peer`, in the user's words. `listener` is what should run there.
    pub(crate) fn error(&self, peer: &str, listener: &str, error: pinnace::Error) -> Error {
        self.error_within(self.timeout, peer, listener, error)
    }

    /// The same, of a call that had so long for an answer.
    pub(crate) fn error_within(&self, within: Duration, peer: &str, listener: &str, error: pinnace::Error) -> Error {
        use a1::{Failure, Refused, RejectCode};
        let seconds = within.as_secs_f32();
        match error {
            // OPEN is repeated eight times, whatever the time to wait.
            pinnace::Error::ConnectionFailed(Failure::TimedOut) => Error::peer_gone(format!(
                "no answer from {peer}, which was asked nine times: is `pinnace {listener}` running there, and does UDP reach it?"
            )),
            pinnace::Error::Timeout => Error::peer_gone(format!(
                "no answer from {peer} within {seconds} s: is `pinnace {listener}` running there, and does UDP reach it?"
            )),
            pinnace::Error::ConnectionFailed(Failure::Refused { code: RejectCode::NoListener, .. }) => {
                Error::peer_gone(format!("nobody listens at {peer}; start `pinnace {listener}` there"))
            }
            pinnace::Error::ConnectionFailed(Failure::Refused { code: RejectCode::Qos, text }) => {
                Error::failed(format!(
                    "{peer} refuses this quality of service{}: `pinnace {listener}` there needs the same --mode and --checksum{}",
                    if text.is_empty() { String::new() } else { format!(" ({})", text.escape_debug()) },
                    if listener == "tune" { "" } else { ", and a --size as large as the messages" }
                ))
            }
            pinnace::Error::ConnectionFailed(Failure::Abandoned) => Error::peer_gone(format!(
                "{peer} has not answered for too long: it was killed, or the network between is down; run the command \
                 again when it is back"
            )),
            pinnace::Error::ConnectionFailed(Failure::Swallowed) => Error::peer_gone(format!(
                "{peer} answers, but no blocks reach it: the path loses all datagrams of their size in silence, and carries \
                 smaller ones; run the command again with smaller blocks (--block 1168, or --block 516)"
            )),
            // A connection that is no more although nobody ended it here was ended there.
            pinnace::Error::ConnectionFailed(Failure::AbortedByPeer | Failure::Unfinished)
            | pinnace::Error::CallRefused(Refused::NoConnection) => {
                Error::peer_gone(format!("{peer} ended the connection in the middle; run the command again"))
            }
            pinnace::Error::ConnectionFailed(Failure::LingerOver) => Error::peer_gone(format!(
                "{peer} has not acknowledged everything in time: it was ended, or does not read"
            )),
            pinnace::Error::CallRefused(Refused::Impossible) => Error::usage(
                "the window has 2^20 blocks or more: take smaller messages, larger blocks (--block) or fewer \
                 --outstanding",
            ),
            pinnace::Error::CallRefused(Refused::TooLarge { most }) => Error::failed(format!(
                "a message has at most {most} bytes here (65535 blocks): use larger blocks (--block), or `pinnace send`, \
                 which takes files of any size"
            )),
            error => Error::from(error),
        }
    }
}

/// `50 Mbit/s at most, 64 KiB at once`, or `no limit`.
pub(crate) fn rate_text((average, burst): (u64, u32)) -> String {
    match average {
        0 => "no limit of the rate".to_owned(),
        _ => format!(
            "{} at most, {} at once",
            crate::numbers::rate(average as f64 * 8.0),
            crate::numbers::bytes(burst.into())
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        qos: QosArgs,
    }

    fn qos(words: &str) -> QosArgs {
        Line::parse_from(std::iter::once("x").chain(words.split_whitespace())).qos
    }

    #[test]
    fn records_say_what_the_command_line_says() {
        let sender = qos("--mode raw --rate 50mbit --burst 64KiB --priority 0 --checksum --block 9kB").sender(1000);
        let sender = sender.unwrap();
        assert!(sender.has_checksum && !sender.has_retransmission);
        assert_eq!((sender.send_average, sender.send_burst, sender.priority), (6_250_000, 65_536, 0));
        assert_eq!((sender.block_size, sender.largest_sent, sender.receive_average), (9000, 1000, 0));
        let receiver = qos("--rate 8mbit").receiver(0).unwrap();
        assert_eq!((receiver.receive_average, receiver.receive_burst, receiver.send_average), (1_000_000, BURST, 0));
        assert_eq!((receiver.largest_received, receiver.block_size), (1, 0));
        assert_eq!(receiver.largest_sent, 0, "who takes nothing can send to it");
    }

    #[test]
    fn every_block_has_a_window_and_leaves_room_for_what_other_listeners_announce() {
        for words in
            ["", "--block 1", "--block 16", "--block 65475", "--outstanding 65535", "--block 1 --outstanding 65535"]
        {
            let sender = qos(words).sender(1).unwrap();
            let block = if sender.block_size == 0 { SMALLEST_BLOCK } else { sender.block_size };
            let window = u64::from(sender.largest_received.div_ceil(block)) * u64::from(sender.outstanding);
            assert!(window < u64::from(a1::WINDOW_LIMIT), "{words}");
            // Listeners of before.
            assert!(sender.outstanding > 16 || sender.largest_received >= 1024, "{words}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert!(qos("--block 65476").sender(1).is_err());
        assert!(qos("--block 0").sender(1).is_err());
        assert!(qos("").sender(1 << 32).is_err());
        assert!(qos("--rate 1gbit --burst 5GB").sender(1).is_err());
    }
}

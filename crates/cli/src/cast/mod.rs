//! `pinnace cast`: a live stream to several sinks, each block when it is due.
//!
//! The stream is a WAV or Y4M file at its own rate, or bytes at a rate that is given; `pinnace tune` receives it. Sinks may
//! come late, go, and come back; what happens to one that is slow is said.
//!
//! Always true: a block leaves when it is due, not before; a sink that dies does not stop the others; every sink is told
//! what the stream is, and when it is over; memory does not depend on the length of the stream.

mod block;
mod change;
mod media;
mod port;
mod radio;
mod targets;

pub(crate) use block::{About, Front, Kind, header, read_header};
#[cfg(test)]
pub(crate) use media::Format;
pub(crate) use media::MOST;

use crate::a1::{Mode, Transport};
use crate::address::resolve_peer;
use crate::exit::Error;
use crate::output::Output;
use crate::{interrupt, transport, units};
use change::Change;
use clap::ValueEnum;
use media::{Description, Medium};
use pinnace::a1::{Options, Qos, SlowSink, Socket, WINDOW_LIMIT};
use radio::Radio;
use std::net::{SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::time::Duration;
use targets::Targets;

const EXAMPLES: &str = "\
Examples:
  pinnace tune 127.0.0.1:4748 -o copy.wav &
  pinnace cast song.wav --to 127.0.0.1:4748
  pinnace cast song.wav --to 192.0.2.7:4748 --to 192.0.2.8:4748 --loop
  pinnace cast song.wav --to 192.0.2.7:4748 --to 192.0.2.8:4748 --group 239.1.2.3:5000
      over the network once, whatever the number of sinks that can join the group
  ffmpeg -re -i film.mkv -f yuv4mpegpipe - | pinnace cast - --to 192.0.2.7:4748 --slow-sink degrade
  some-sensor | pinnace cast - --rate 2mbit --to 192.0.2.7:4748 --mode raw
      bytes at a rate; what is lost stays lost

Every block is one A1 message with 40 bytes in front: which stream, its number, its place, and when it was due. What a \
player needs first (the header of a WAV or Y4M file) is a message of its own, which is sent at the beginning, every \
second, and whenever a sink tunes in (with --mode raw several times, since it can be lost): so whoever comes late has \
it. It begins as soon as one sink is there and the others are, or refuse, or have their port closed, and otherwise a second \
later. A sink that is not there, or has died, is tried again every second; if there is one sink alone, and its port is \
closed, nothing begins.";

/// Send a WAV or Y4M file, or any bytes at a rate, live to several sinks (A1)
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A WAV or Y4M file, which goes at its own rate; or anything, with --rate. `-` is standard input
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    /// Where `pinnace tune` runs; may be repeated
    #[arg(long, value_name = "HOST:PORT", required = true, value_parser = transport::address)]
    to: Vec<String>,
    /// An IPv4 multicast group that carries the data once for all sinks that can join it; repairs go to each alone
    #[arg(long, value_name = "IP:PORT", value_parser = group)]
    group: Option<SocketAddrV4>,
    /// What happens to a sink that has no room for the next block
    #[arg(long, value_enum, default_value_t)]
    slow_sink: Slow,
    /// How long a slow sink is waited for before it is dropped
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = units::duration)]
    patience: Duration,
    /// How fast it goes, if not at its own rate: 2mbit
    #[arg(long, value_name = "RATE", value_parser = units::bit_rate)]
    rate: Option<u64>,
    /// Begin again at the end, until Ctrl-C
    #[arg(long = "loop")]
    again: bool,
    /// What happens to blocks that are lost; `pinnace tune` must say the same
    #[arg(long, value_enum, default_value_t, help_heading = "Quality of service")]
    mode: Mode,
    /// 0 is the most urgent: of the connections of a socket, who goes first; all sinks have this one, and are told
    #[arg(long, value_name = "0..255", default_value = "16", help_heading = "Quality of service")]
    priority: u8,
    /// What may leave at once [default: two pieces, at least 64 KiB]
    #[arg(long, value_name = "BYTES", value_parser = transport::bytes, help_heading = "Quality of service")]
    burst: Option<u64>,
    /// Sum every datagram; `pinnace tune` must say the same
    #[arg(long, help_heading = "Quality of service")]
    checksum: bool,
    /// Bytes of a block, up to 65475 [default: what the path carries in one piece, an eighth of the burst at
    /// most; with --mode raw 1400]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(256..=65_475),
          help_heading = "Quality of service")]
    block: Option<u32>,
    /// How much may be under way to a sink: what it may be late
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::duration,
          help_heading = "Quality of service")]
    buffer: Duration,
    /// Another quality of service from then on: 5s:rate=2mbit,burst=64KiB,priority=0; may be repeated
    #[arg(long, value_name = "TIME:...", help_heading = "Quality of service")]
    change: Vec<Change>,
    #[command(flatten)]
    transport: Transport,
}

/// What happens to a slow sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Slow {
    /// It is waited for (--patience), and then cut off
    #[default]
    Drop,
    /// It is waited for, and with it everybody
    Block,
    /// Blocks that it has no room for are left out for it
    Degrade,
}

/// Reads the address of a group.
fn group(text: &str) -> Result<SocketAddrV4, String> {
    let address: SocketAddrV4 = text.parse().map_err(|_| "write it as 239.1.2.3:5000".to_owned())?;
    if !address.ip().is_multicast() || address.port() == 0 {
        return Err("a group has an address from 224.0.0.0 to 239.255.255.255 and a port".to_owned());
    }
    Ok(address)
}

/// Blocks of --mode raw: with their headers they fit into any Ethernet frame.
const RAW_BLOCK: u32 = 1400;
/// Messages under way, at least and at most.
const OUTSTANDING: (u64, u64) = (4, 1024);

/// What a sink may send, bytes: nothing, so whoever takes nothing can send to it, and nobody can send anything to a source.
pub(crate) const ANSWER: u32 = 0;
/// The smallest block that a socket picks for itself, bytes.
const SMALLEST_BLOCK: u32 = 1024;

/// Runs `pinnace cast`.
pub(crate) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    let medium = Medium::open(&args.file, args.rate, args.again)?;
    let description = medium.description().clone();
    let cut = Cut::new(args, &description)?;
    let sinks = args.to.iter().map(|to| Ok((to.clone(), resolve_peer(to)?))).collect::<Result<Vec<_>, Error>>()?;
    interrupt::install();
    let socket = socket(args, &cut, &sinks)?;
    socket.warnings().iter().for_each(|warning| output.warn(warning));
    let targets = Targets::new(socket, cut.qos, args.transport.clone(), sinks);
    Radio::new(args, output, description, cut, targets).play(medium)
}

/// Casts a file over a socket that is there already, with nothing printed but errors.
pub(crate) fn play(
    file: &std::path::Path,
    socket: Socket,
    sinks: &[SocketAddr],
    (priority, block): (u8, u32),
    output: &Output,
) -> Result<(), Error> {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }
    let (priority, block) = (priority.to_string(), block.to_string());
    let to: Vec<String> = sinks.iter().map(SocketAddr::to_string).collect();
    let mut words = vec!["cast", "--priority", &priority, "--block", &block, "--slow-sink", "block"];
    words.extend(to.iter().flat_map(|to| ["--to", to]));
    words.push("--");
    let words = words.into_iter().map(std::ffi::OsString::from).chain([file.as_os_str().to_owned()]);
    let line = <Line as clap::Parser>::try_parse_from(words);
    let Line { args } = line.map_err(|error| Error::failed(format!("cannot cast: {error}")))?;
    let medium = Medium::open(file, None, false)?;
    let description = medium.description().clone();
    let cut = Cut::new(&args, &description)?;
    let sinks = to.into_iter().zip(sinks.iter().copied()).collect();
    let targets = Targets::new(socket, cut.qos, args.transport.clone(), sinks);
    Radio::new(&args, output, description, cut, targets).quiet().play(medium)
}

/// How the medium becomes messages, and the record that they need.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// Bytes of the medium in a message, at most.
    bytes: usize,
    qos: Qos,
}

impl Cut {
    fn new(args: &Args, description: &Description) -> Result<Self, Error> {
        let qos = args.mode.record();
        // Without repetitions a message is a block: what is lost is told by its number then.
        let block_size = args.block.unwrap_or(if qos.has_retransmission { 0 } else { RAW_BLOCK });
        let piece = description.piece_bytes + 4096;
        let bytes = if qos.has_retransmission { piece } else { block_size as usize - block::FRONT };
        let about = header(&about(description), &description.header).len();
        let largest = (bytes.min(piece).max(about) + block::FRONT) as u64;
        let seconds = args.buffer.as_secs_f64() / description.period.as_secs_f64().max(1e-9);
        let messages = (seconds * description.piece_bytes.div_ceil(bytes) as f64).ceil() as u64;
        // As many as fit into a window, however small the blocks are.
        let blocks_each = largest.div_ceil(if block_size == 0 { SMALLEST_BLOCK } else { block_size }.into());
        let most = ((u64::from(WINDOW_LIMIT) - 1) / blocks_each).max(1);
        let outstanding = messages.clamp(OUTSTANDING.0, OUTSTANDING.1).min(most) as u32;
        // Blocks have something in front of them, and some are sent again.
        let average = (description.bit_rate / 8.0 * 1.5) as u64 + 16_384;
        let burst = args.burst.unwrap_or((2 * largest).max(65_536));
        let burst = u32::try_from(burst).map_err(|_| Error::usage("--burst: a burst has at most 4294967295 bytes"))?;
        let qos = Qos {
            has_checksum: args.checksum,
            priority: args.priority,
            block_size,
            send_average: average,
            send_burst: burst,
            largest_sent: largest as u32,
            largest_received: ANSWER,
            outstanding,
            ..qos
        };
        Ok(Self { bytes, qos })
    }
}

/// What is said of a medium.
fn about(description: &Description) -> About {
    let Description { format, bit_rate, period, bytes, text, .. } = description;
    About {
        format: *format,
        bit_rate: *bit_rate,
        period_us: u64::try_from(period.as_micros()).unwrap_or(u64::MAX),
        bytes: *bytes,
        text: text.clone(),
    }
}

fn socket(args: &Args, cut: &Cut, sinks: &[(String, SocketAddr)]) -> Result<Socket, Error> {
    let options = Options {
        slow_sink: match args.slow_sink {
            Slow::Drop => SlowSink::Drop { patience: args.patience },
            Slow::Block => SlowSink::Block,
            Slow::Degrade => SlowSink::Degrade,
        },
        group: args.group.map(pinnace::a1::group).transpose().map_err(Error::from)?,
        ..args.transport.options()
    };
    // A change may ask for anything but another kind of connection.
    let max = Qos { send_average: 0, send_burst: 0, priority: 0, ..cut.qos };
    // The address of one family reaches none of the other: such sinks need a socket on every address.
    let is_of_one_family = sinks.windows(2).all(|two| two[0].1.is_ipv4() == two[1].1.is_ipv4());
    let is_here = is_of_one_family && sinks.iter().all(|(_, sink)| sink.ip().is_loopback());
    let opened = match sinks {
        // Of one sink alone the network tells whether anybody is there.
        [(_, only)] if args.group.is_none() => Socket::connected(only, max, &options),
        [(_, first), ..] if is_here => Socket::client_of(first, max, &options),
        _ if args.group.is_some() => Socket::bind_with("0.0.0.0:0", max, &options),
        _ => Socket::client(max, &options),
    };
    let name = args.to.first().map_or("", String::as_str);
    opened.map_err(|error| args.transport.error(name, "tune", error))
}

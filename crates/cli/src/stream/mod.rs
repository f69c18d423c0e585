//! `pinnace stream`: frames at a rate, from a source to a sink.
//!
//! Over VRP a frame may lose what its contract allows; the sink writes frames and where their holes are. Over TCP, for
//! comparison, none is lost and old ones hold up new ones. Either way the sender goes on at its rate: a frame that is due
//! while too many are under way is left out, and counted.
//!
//! Always true: every frame that was due is delivered, left out or given up, and both ends say how many of each; memory
//! does not grow with the length of the stream.

mod carrier;
mod header;
mod receive;
mod scene;
mod send;
mod source;
mod tally;
mod tcp;
mod words;
pub(crate) mod y4m;

use crate::exit::Error;
use crate::output::Output;
use clap::Subcommand;

pub(crate) use header::BYTES as HEADER_BYTES;
pub(crate) use scene::Scene;

const EXAMPLES: &str = "\
Examples:
  pinnace stream recv --bind 127.0.0.1:7004 --dir frames --log holes.jsonl
  pinnace stream send --to 127.0.0.1:7004 --fps 15 --duration 10s --loss-rate 10% \\
    --run 8packets --deadline 80ms
  ffmpeg -i film.mkv -f yuv4mpegpipe - | pinnace stream send --to 192.0.2.7:7004 --source - --fps 25

Over an emulated link (needs root), a camera of 2.7 MB pictures:
  sudo pinnace wan --rate 500mbit --rtt 20ms --loss 1% \\
    --far 'pinnace stream recv --bind 10.77.0.2:7004' -- \\
    pinnace stream send --to 10.77.0.2:7004 --size 2.7MB --fps 15 --duration 20s \\
    --loss-rate 10% --run 8packets --deadline 80ms

The age of a frame is the time from the call that sends it to its delivery, by the clocks of both hosts: across hosts \
it is as good as they agree.";

/// Arguments of `pinnace stream`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Args {
    /// Send frames at a rate
    Send(Box<send::Args>),
    /// Receive frames, write them, and say how old they were and what was missing
    Recv(Box<receive::Args>),
}

/// Runs `pinnace stream`.
pub(crate) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    match args {
        Args::Send(args) => send::run(args, output),
        Args::Recv(args) => receive::run(args, output),
    }
}

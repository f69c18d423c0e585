//! `pinnace vrp listen`.

use super::{Line, Transport, lost, sha256};
use crate::address::resolve;
use crate::bare::{Local, announce, one_line, pairs};
use crate::exit::Error;
use crate::interrupt;
use crate::linger;
use crate::output::{self, Output};
use crate::transport;
use crate::units::count_of;
use pinnace::vrp::{Received, Receiver};
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  pinnace vrp listen 127.0.0.1:7001 --count 1              one frame, and the end
  pinnace vrp listen 0.0.0.0:7001 --memory 1GiB --json     more frames at a time, and JSON";

/// Arguments of `pinnace vrp listen`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    local: Local,
    /// End after so many frames, whoever sent them; if everybody falls silent before, fail [default: go on until Ctrl-C]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Room for frames on their way, in bytes; more are refused
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = memory)]
    memory: u64,
    #[command(flatten)]
    transport: Transport,
}

fn memory(text: &str) -> Result<u64, String> {
    match transport::bytes(text)? {
        0 => Err("without room no frame can be taken: write it as 256MiB".to_owned()),
        bytes => Ok(bytes),
    }
}

/// What came so far.
#[derive(Default)]
struct Tally {
    frames: u64,
    packets: u64,
    lost: u64,
    longest_run: u32,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    interrupt::install();
    output::only_prints();
    let mut options = args.transport.options();
    options.limits.bytes = args.memory;
    options.limits.grace = Some(super::GRACE);
    let receiver = Receiver::bind(resolve(args.local.address())?, &options)?;
    receiver.warnings().iter().for_each(|warning| output.warn(warning));
    let address = receiver.local_addr().to_string();
    announce(output, &address);
    let mut tally = Tally::default();
    let result = serve(args, output, &receiver, &mut tally);
    if result.is_ok() {
        let patience = || if receiver.frames() > 0 { linger::LINGER } else { Duration::ZERO };
        linger::while_repeated(patience, || receiver.counters().controls_sent)?;
    }
    receiver.close();
    let Tally { frames, packets, lost: packets_lost, longest_run } = tally;
    output.note(format_args!("{} received, {}", count_of(frames, "frame"), lost(packets_lost, packets, longest_run)));
    output.note(one_line(&receiver.counters()));
    result
}

fn serve(args: &Args, output: &Output, receiver: &Receiver, tally: &mut Tally) -> Result<(), Error> {
    // A frame may take long: what counts is whether anything comes.
    let came = || receiver.counters().packets_received;
    let (mut heard, mut since) = (0, Instant::now());
    while args.count.is_none_or(|count| tally.frames < count) {
        interrupt::check()?;
        if let Some(frame) = receiver.recv_timeout(interrupt::LOOK)? {
            print(output, tally, &frame);
            since = Instant::now();
            continue;
        }
        if came() > heard {
            (heard, since) = (came(), Instant::now());
        }
        if args.count.is_some() && (heard > 0 || tally.frames > 0) && since.elapsed() > args.transport.timeout {
            return Err(Error::peer_gone(format!(
                "the sender has not sent anything for {} s, after {}: it was killed, it gave a frame up, or the \
                 network between is down",
                args.transport.timeout.as_secs_f32(),
                count_of(tally.frames, "frame")
            )));
        }
    }
    Ok(())
}

fn print(output: &Output, tally: &mut Tally, frame: &Received) {
    let loss = frame.loss();
    Line {
        event: "message",
        message: tally.frames,
        bytes: frame.len(),
        sha256: sha256(frame),
        holes: Some(pairs(frame.holes())),
        packets_lost: Some(loss.lost),
        packets: loss.packets,
        longest_run_packets: Some(loss.longest_run),
        peer: Some(frame.source().to_string()),
        frame: Some(frame.number()),
    }
    .print(output);
    tally.frames += 1;
    tally.packets += u64::from(loss.packets);
    tally.lost += u64::from(loss.lost);
    tally.longest_run = tally.longest_run.max(loss.longest_run);
}

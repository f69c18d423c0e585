//! `pinnace vrp send`.

use super::{ContractArgs, Line, Packets, Transport, lost, sha256};
use crate::address::resolve_peer;
use crate::bare::{Presence, WHOLE, What, one_line, pairs};
use crate::content::{DATA, Source};
use crate::exit::Error;
use crate::interrupt;
use crate::output::Output;
use crate::units;
use pinnace::Unsent;
use pinnace::vrp::{Contract, Failure, Frame, Options, Progress, Refused, Sender, Sending, Sent};
use serde::Serialize;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  pinnace vrp send results.bin 127.0.0.1:7001
  pinnace vrp send picture.raw 127.0.0.1:7001 --loss-rate 5% --run 4KiB
      something may be lost, but not more than 4 KiB in a row";

/// Arguments of `pinnace vrp send`.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n\n{WHOLE}\n\n{DATA}"), override_usage = "pinnace vrp send [OPTIONS] FILE|- HOST:PORT\n       \
    pinnace vrp send [OPTIONS] --size BYTES --to HOST:PORT")]
pub(crate) struct Args {
    #[command(flatten)]
    what: What,
    /// Frames under way at a time
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u16).range(1..=1024))]
    parallel: u16,
    #[command(flatten)]
    contract: ContractArgs,
    /// So long after a frame was queued its lost packets are no longer repeated, if the contract allows their loss
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Contract")]
    repeat_for: Option<Duration>,
    /// So long after a frame was queued it fails, if it is not complete within its contract
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Contract")]
    give_up_after: Option<Duration>,
    #[command(flatten)]
    packets: Packets,
    #[command(flatten)]
    transport: Transport,
}

/// The last line.
#[derive(Default, Serialize)]
struct Done {
    event: &'static str,
    messages: u64,
    /// Of the frames that were delivered.
    bytes: u64,
    seconds: f64,
    /// Frames whose time was over before they were complete.
    messages_late: u64,
    packets: u64,
    packets_lost: u64,
    longest_run_packets: u32,
    /// Frames of which the receiver did not say what was lost.
    messages_unreported: u64,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    if let (Some(repeat), Some(give_up)) = (args.repeat_for, args.give_up_after)
        && give_up < repeat
    {
        return Err(Error::usage("--give-up-after must not be before --repeat-for"));
    }
    let (content, to) = args.what.open("a VRP frame")?;
    // Before standard input is read, which may take any time: an address that leads nowhere is known at once.
    let sender = Sender::connect(resolve_peer(&to)?, &args.options())?;
    let source = content.measured()?;
    let contract = args.contract.contract(source.len() as u64)?;
    interrupt::install();
    let peer = Peer { sender, to, timeout: args.transport.timeout };
    let mut done = Done { event: "done", ..Done::default() };
    let begun = Instant::now();
    let sent = send_all(args, output, &peer, &source, &contract, &mut done);
    done.seconds = begun.elapsed().as_secs_f64();
    // Says good-bye, so that the receiver need not wait for what will not come.
    peer.sender.close();
    output.note(one_line(&peer.sender.counters()));
    sent?;
    let silent = match done.messages_unreported {
        0 => String::new(),
        frames => format!("; the receiver does not say what it lost of {frames} of them"),
    };
    let words = lost(done.packets_lost, done.packets, done.longest_run_packets);
    let text = format!("{} delivered, {words}{silent}", units::count_of(done.messages, "frame"));
    output.last(text, &done);
    if done.messages_late > 0 {
        // No contract, and no time, would have helped.
        if peer.is_nobody() {
            return Err(peer.presence().nobody());
        }
        return Err(Error::failed(format!(
            "{} of {} frames were not complete within their contract in time; give them longer (--give-up-after), allow \
             more loss, or send less",
            done.messages_late, args.what.count
        )));
    }
    Ok(())
}

impl Args {
    fn options(&self) -> Options {
        self.packets.options(self.transport.options())
    }

    fn frame(&self, source: &Source, number: u64, contract: &Contract) -> Result<Frame, Error> {
        let mut frame = Frame::new(source.message(number)?).with_contract(contract.clone());
        if let Some(time) = self.repeat_for {
            frame = frame.repeat_for(time);
        }
        if let Some(time) = self.give_up_after {
            frame = frame.give_up_after(time);
        }
        Ok(frame)
    }
}

/// A frame was not complete within its contract in time.
#[derive(Serialize)]
struct Late {
    event: &'static str,
    message: u64,
}

/// Whom the frames go to.
struct Peer {
    sender: Sender,
    to: String,
    timeout: Duration,
}

impl Peer {
    /// The wait for its first answer.
    fn presence(&self) -> Presence<'_> {
        Presence::new(&self.to, "vrp listen")
    }

    /// Whether its port is closed, as the network says, and it has never answered.
    fn is_nobody(&self) -> bool {
        let counters = self.sender.counters();
        counters.controls_received == 0 && counters.unreachable_reports > 0
    }

    /// An error of the transport, in the user's words.
    fn error(&self, error: pinnace::Error) -> Error {
        let Self { sender, to, timeout } = self;
        let seconds = timeout.as_secs_f32();
        match error {
            pinnace::Error::FrameFailed(Failure::PeerGone) if sender.counters().controls_received == 0 => {
                let why = format!(
                    "no answer from {to} within {seconds} s: is `pinnace vrp listen` running there, and does UDP reach it?"
                );
                self.presence().silent(sender.counters().unreachable_reports, why)
            }
            pinnace::Error::FrameFailed(Failure::PeerGone) => Error::peer_gone(format!(
                "{to} has not answered for {seconds} s: it was ended, or the network between is down; run the command again \
                 when it is back"
            )),
            pinnace::Error::FrameFailed(Failure::Swallowed) => Error::peer_gone(format!(
                "{to} answers, but no data reach it: the path loses all packets of their size in silence, and carries smaller \
                 ones; run the command again without --packet-size, or with --packet-size 500"
            )),
            // Only who ends refuses what it has taken.
            pinnace::Error::FrameFailed(Failure::Refused) if sender.counters().frames_dropped > 0 => {
                Error::peer_gone(format!("{to} ended in the middle; run the command again"))
            }
            pinnace::Error::FrameFailed(Failure::Refused) => Error::failed(format!(
                "{to} refuses the frame: it has no room for it (give the listener more --memory), or had given it up because \
                     nothing of it came for so long (its --timeout)"
            )),
            pinnace::Error::FrameRefused(Refused::HeaderTooLarge) => {
                Error::usage("the --critical ranges do not fit into one datagram; join some of them")
            }
            error => Error::from(error),
        }
    }
}

/// Frames under way take no more memory than this.
const MOST_BYTES: usize = 256 << 20;

fn send_all(
    args: &Args,
    output: &Output,
    peer: &Peer,
    source: &Source,
    contract: &Contract,
    done: &mut Done,
) -> Result<(), Error> {
    let parallel = (MOST_BYTES / source.len().max(1)).clamp(1, args.parallel.into());
    let mut under_way: VecDeque<(u64, Sending)> = VecDeque::new();
    let mut next = 0;
    let presence = peer.presence();
    let look = || {
        let counters = peer.sender.counters();
        presence.look(counters.unreachable_reports, counters.controls_received > 0)
    };
    loop {
        while next < args.what.count && under_way.len() < parallel {
            let frame = args.frame(source, next, contract)?;
            let sending = peer.sender.send(frame).map_err(|unsent| peer.error(unsent.error))?;
            under_way.push_back((next, sending));
            next += 1;
        }
        let Some((number, oldest)) = under_way.pop_front() else { return Ok(()) };
        match wait(oldest, look)? {
            Ok(sent) => done.count(output, number, &sent),
            Err(Unsent { error: pinnace::Error::FrameFailed(Failure::Late), .. }) => {
                done.messages_late += 1;
                let text = format!("frame {number} was not complete within its contract in time");
                output.event(text, &Late { event: "late", message: number });
            }
            Err(unsent) => return Err(peer.error(unsent.error)),
        }
    }
}

/// Waits for the end of a frame, or for Ctrl-C; `look` is called meanwhile, and its error ends the wait.
fn wait(mut sending: Sending, look: impl Fn() -> Result<(), Error>) -> Result<Result<Sent, Unsent>, Error> {
    loop {
        interrupt::check()?;
        look()?;
        sending = match sending.wait_timeout(interrupt::LOOK) {
            Progress::Ended(result) => return Ok(result),
            Progress::UnderWay(sending) => sending,
        };
    }
}

impl Done {
    /// A frame was delivered.
    fn count(&mut self, output: &Output, number: u64, sent: &Sent) {
        let Sent { message, report, packet_bytes } = sent;
        let packets = message.len().div_ceil(usize::from(*packet_bytes).max(1)) as u32;
        self.messages += 1;
        self.bytes += message.len() as u64;
        self.packets += u64::from(packets);
        match report {
            None => self.messages_unreported += 1,
            Some(report) => {
                self.packets_lost += u64::from(report.lost);
                self.longest_run_packets = self.longest_run_packets.max(report.longest_run);
            }
        }
        if !output.json && !output.verbose {
            return;
        }
        Line {
            event: "message",
            message: number,
            bytes: message.len(),
            sha256: sha256(message),
            holes: report.as_ref().map(|report| pairs(report.holes())),
            packets_lost: report.as_ref().map(|report| report.lost),
            packets,
            longest_run_packets: report.as_ref().map(|report| report.longest_run),
            peer: None,
            frame: None,
        }
        .print(output);
    }
}

//! `pinnace stream recv`.

use super::carrier::{Arrival, Carrier, Incoming};
use super::header::{self, Ending, Header};
use super::tally::{Ages, Losses, of};
use super::tcp;
use super::words::{self, Expected, take};
use crate::bare::announce;
use crate::exit::Error;
use crate::interrupt;
use crate::numbers;
use crate::output::Output;
use crate::service;
use crate::units;
use crate::units::count_of;
use pinnace::service::{PathClass, Service};
use pinnace::vrp;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Frames that wait to be written.
const WAITING: usize = 16;
/// How long the end of the stream is acknowledged, should the acknowledgement be lost.
const LINGER: Duration = Duration::from_millis(300);

/// A source that has sent fewer frames than [`SETTLED`], and nothing more for so long, gives way to another: one frame can be
/// forged, and need not be of whom this stream was waited for.
const SILENT: Duration = Duration::from_millis(1500);
const SETTLED: u64 = 3;

const EXAMPLES: &str = "\
Examples:
  pinnace stream recv --bind 127.0.0.1:7004
  pinnace stream recv --bind 0.0.0.0:7004 --dir frames --log holes.jsonl --count 100";

/// Arguments of `pinnace stream recv`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The address to listen on, a port alone (of every IPv4 address), or a URI; port 0 picks one, and it is printed on
    /// standard error (with --json on standard output)
    #[arg(long, value_name = "[HOST:]PORT", value_parser = service::place)]
    bind: String,
    /// What is expected, in the words of the sender's service, like 'loss=10% run=8KiB deadline=80ms': frames that are
    /// otherwise are counted
    #[arg(long, value_name = "WORDS")]
    service: Option<String>,
    /// Write each frame to a file in this folder: frame-000000.bin and so on, holes as zeros
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Write a line of JSON for each frame to this file: number, bytes, age in ms, holes as ranges of bytes, loss in packets
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// End after so many frames [default: at the end of the stream]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Count frames that are younger [default: what the sender says]
    #[arg(long, value_name = "TIME", value_parser = units::some_time)]
    deadline: Option<Duration>,
    /// A sender that is silent for so long in mid-stream is gone
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = crate::bare::seconds)]
    timeout: Duration,
    /// What carries the frames: vrp, or for comparison tcp, tcp-cubic, tcp-bbr
    #[arg(long, value_name = "CARRIER", default_value = "vrp")]
    over: Carrier,
    /// What each frame should be, if a service says so
    #[arg(skip)]
    expected: Option<Expected>,
    /// What lies between the peers (`path=` of a service)
    #[arg(skip)]
    path: Option<PathClass>,
}

impl Args {
    /// The arguments, with what the service says in their places.
    fn asked(&self) -> Result<Self, Error> {
        let asked = words::tool("pinnace stream recv").asked(&self.bind, self.service.as_deref())?;
        let mut args = Self { bind: asked.authority.clone(), ..self.clone() };
        if asked.service == Service::new() {
            return Ok(args);
        }
        words::check_carrier(&self.over)?;
        take(&mut args.deadline, "--deadline", asked.word("deadline"), units::some_time)?;
        args.expected = Some(Expected::of(&asked)?);
        args.path = asked.service.path_class();
        Ok(args)
    }
}

/// What has come so far.
struct Sink {
    source: Option<SocketAddr>,
    ending: Option<Ending>,
    deadline: Option<Duration>,
    frames: u64,
    in_time: u64,
    /// Frames that were not as the service says.
    breaches: u64,
    /// One more than the highest number seen.
    offered_at_least: u64,
    bytes: u64,
    /// When the first and the last frame were there.
    span: Option<(u64, u64)>,
    /// Frames that were there before they were sent, by the clocks.
    early: u64,
    /// What came and was no frame of this stream.
    strangers: u64,
    ages: Ages,
    losses: Losses,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    let args = &args.asked()?;
    interrupt::install();
    let mut options =
        vrp::Options { profile: args.path.map(service::profile).unwrap_or_default(), ..vrp::Options::default() };
    options.limits.grace = Some(crate::vrp::GRACE);
    let writer = Writer::start(args.dir.as_deref(), args.log.as_deref())?;
    let incoming = match &args.over {
        Carrier::Vrp => Incoming::Vrp(vrp::Receiver::bind(crate::address::resolve(&args.bind)?, &options)?),
        Carrier::Tcp(congestion) => Incoming::Tcp(tcp::Incoming::bind(&args.bind, congestion.as_deref())?),
    };
    incoming.warnings().iter().for_each(|warning| output.warn(warning));
    let address = incoming.local_addr().to_string();
    announce(output, &address);
    let mut sink = Sink::new(args.deadline)?;
    let received = sink.receive(args, output, &incoming, &writer);
    let written = writer.finish();
    if sink.frames > 0 || sink.ending.is_some() {
        sink.report(args, output);
    }
    if received.is_ok() {
        linger(&incoming);
    }
    if let Incoming::Vrp(receiver) = &incoming {
        output.note(receiver.counters().to_string().trim_end().replace('\n', ", "));
        receiver.close();
    }
    // Why writing failed says more than that it has.
    written.and(received)
}

/// Goes on answering for a moment, so that the sender learns that its last frame has arrived.
fn linger(incoming: &Incoming) {
    if let Incoming::Vrp(_) = incoming {
        let begun = Instant::now();
        while begun.elapsed() < LINGER && !interrupt::requested() {
            let _ = incoming.recv();
        }
    }
}

impl Sink {
    fn new(deadline: Option<Duration>) -> Result<Self, Error> {
        Ok(Self {
            source: None,
            ending: None,
            deadline,
            frames: 0,
            in_time: 0,
            breaches: 0,
            offered_at_least: 0,
            bytes: 0,
            span: None,
            early: 0,
            strangers: 0,
            ages: Ages::new()?,
            losses: Losses::default(),
        })
    }

    fn receive(&mut self, args: &Args, output: &Output, incoming: &Incoming, writer: &Writer) -> Result<(), Error> {
        let mut heard = Instant::now();
        loop {
            interrupt::check()?;
            let arrival = incoming.recv()?;
            if let Some(arrival) = &arrival
                && self.gives_way(arrival, heard.elapsed())
            {
                // All that it sent was of no stream that anybody has waited for.
                *self = Self { strangers: self.strangers + self.frames, ..Self::new(args.deadline)? };
            }
            let is_ours = |arrival: &Arrival| self.header(arrival).is_some();
            if !arrival.as_ref().is_some_and(is_ours) && self.is_over(heard.elapsed(), args.timeout)? {
                return Ok(());
            }
            let Some(arrival) = arrival else { continue };
            let Some(header) = self.header(&arrival) else {
                self.strangers += 1;
                if self.strangers == 1 {
                    output
                        .warn(format_args!("{} sends what is no frame of this stream; it is dropped", arrival.source));
                }
                continue;
            };
            heard = Instant::now();
            self.source = Some(arrival.source);
            if header.is_end {
                self.ending = arrival.get(header::BYTES..).and_then(Ending::decode);
                // Nobody else can come by the same connection.
                let is_alone = matches!(incoming, Incoming::Tcp(_));
                if self.frames > 0 || self.ending.is_none() || is_alone {
                    return Ok(());
                }
                // The end of a stream of which nothing has come: another may be the one that is waited for.
                continue;
            }
            let age = self.count(&header, &arrival);
            if let Some(breach) = args.expected.as_ref().and_then(|expected| expected.breach(&arrival)) {
                self.breaches += 1;
                if self.breaches == 1 {
                    output.warn(format_args!("frame {} is not as the service says: {breach}", header.number));
                }
            }
            writer.write(header, age, arrival)?;
            if args.count.is_some_and(|count| self.frames >= count) {
                return Ok(());
            }
        }
    }

    /// Whether nothing more is waited for, when the source has been silent for so long, whatever others send meanwhile; an error, if
    /// that is too long.
    fn is_over(&self, silent: Duration, timeout: Duration) -> Result<bool, Error> {
        if self.ending.is_some() {
            return Ok(silent > SILENT);
        }
        if self.source.is_some() && silent > timeout {
            return Err(Error::peer_gone(format!(
                "no frame has come for {} s, and no end of the stream: the sender was killed, or the network between is down",
                timeout.as_secs_f32()
            )));
        }
        Ok(false)
    }

    /// Whether the source has fallen silent before it was known as one, or has ended a stream of nothing, and another sends frames.
    fn gives_way(&self, arrival: &Arrival, silent: Duration) -> bool {
        let is_other = self.source.is_some_and(|source| source != arrival.source);
        let is_frame = || Header::split(arrival).is_some_and(|(header, _)| !header.is_end);
        is_other && self.frames < SETTLED && (silent > SILENT || self.ending.is_some()) && is_frame()
    }

    /// The header of a frame of this stream: that of the first who sent one.
    fn header(&self, arrival: &Arrival) -> Option<Header> {
        let (header, _) = Header::split(arrival)?;
        self.source.is_none_or(|source| source == arrival.source).then_some(header)
    }

    /// Counts a frame; returns its age.
    fn count(&mut self, header: &Header, arrival: &Arrival) -> Duration {
        let age = Duration::from_nanos(arrival.at.saturating_sub(header.sent_at));
        self.early += u64::from(arrival.at < header.sent_at);
        self.deadline = self.deadline.or(header.deadline);
        self.in_time += u64::from(self.deadline.is_some_and(|deadline| age < deadline));
        self.frames += 1;
        self.offered_at_least = self.offered_at_least.max(header.number.saturating_add(1));
        self.bytes += u64::from(header.bytes);
        self.span = Some((self.span.map_or(arrival.at, |(first, _)| first), arrival.at));
        self.ages.record(age);
        self.losses.add(&arrival.loss);
        age
    }

    /// Frames that the sender had, as far as is known.
    fn offered(&self) -> u64 {
        self.ending.map_or(self.offered_at_least, |ending| ending.offered).max(self.frames)
    }

    /// Frames and bits a second, from the first to the last frame.
    fn rates(&self) -> (f64, f64) {
        let seconds = self.span.map_or(0.0, |(first, last)| last.saturating_sub(first) as f64 / 1e9);
        if seconds <= 0.0 || self.frames < 2 {
            return (0.0, 0.0);
        }
        // The first frame was there when this time began.
        let fps = (self.frames - 1) as f64 / seconds;
        (fps, fps * 8.0 * self.bytes as f64 / self.frames as f64)
    }

    fn report(&self, args: &Args, output: &Output) {
        let (offered, (fps, rate)) = (self.offered(), self.rates());
        let ages = self.ages.percentiles();
        let mut text = format!(
            "received   {} frames over {}, {} each",
            of(self.frames, offered),
            args.over,
            numbers::bytes(self.bytes / self.frames.max(1))
        );
        text += &format!("\nrate       {fps:.2} frames a second, {}", numbers::rate(rate));
        if let Some(ages) = &ages {
            text += &format!("\nage        {ages}");
        }
        if let Some(deadline) = self.deadline {
            let millis = millis(deadline);
            text += &format!("\nin time    {} younger than {millis} ms", of(self.in_time, offered));
        }
        if args.over == Carrier::Vrp {
            text += &format!("\nholes      {}", self.losses.text(self.frames >= offered));
        }
        if args.expected.is_some() {
            let as_said = self.frames.saturating_sub(self.breaches);
            text += &format!("\nservice    {} frames as it says", of(as_said, self.frames));
        }
        if self.early > 0 {
            text += &format!(
                "\nclocks     {} came before being sent: the hosts' clocks disagree",
                count_of(self.early, "frame")
            );
        }
        if self.strangers > 0 {
            text += &format!("\ndropped    {} that were no frames of this stream", self.strangers);
        }
        output.result(text, &self.json(args, offered, (fps, rate)));
    }

    fn json(&self, args: &Args, offered: u64, (fps, rate): (f64, f64)) -> Value {
        let mut object = json!({
            "event": "done",
            "over": args.over.to_string(),
            "frames": self.frames,
            "frames_offered": offered,
            "share_received": numbers::share(self.frames, offered),
            "bytes": self.bytes,
            "frames_per_second": fps,
            "bits_per_second": rate,
            "age_ms": self.ages.percentiles(),
            "messages_dropped": self.strangers,
            "clocks_disagree": self.early > 0,
            "ending": self.ending,
        });
        if let Some(deadline) = self.deadline {
            object["deadline_ms"] = json!(millis(deadline));
            object["frames_in_time"] = json!(self.in_time);
            object["share_in_time"] = json!(numbers::share(self.in_time, offered));
        }
        if args.expected.is_some() {
            object["frames_as_agreed"] = json!(self.frames.saturating_sub(self.breaches));
        }
        if args.over == Carrier::Vrp {
            self.losses.put(&mut object);
        }
        object
    }
}

/// From whole nanoseconds: 80 ms are not 80.00000000000001.
fn millis(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}

/// Writes frames and the log on a thread of its own, so that a slow disk makes no frame look old.
struct Writer {
    frames: Option<SyncSender<(Header, Duration, Arrival)>>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Writer {
    fn start(dir: Option<&Path>, log: Option<&Path>) -> Result<Self, Error> {
        if dir.is_none() && log.is_none() {
            return Ok(Self { frames: None, thread: None });
        }
        if let Some(dir) = dir {
            std::fs::create_dir_all(dir)
                .map_err(|error| Error::io(format_args!("cannot make {}", dir.display()), &error))?;
        }
        let log = match log {
            None => None,
            Some(path) => {
                let file = File::create(path)
                    .map_err(|error| Error::io(format_args!("cannot write {}", path.display()), &error))?;
                Some((BufWriter::new(file), path.to_owned()))
            }
        };
        let (frames, to_write) = sync_channel(WAITING);
        let dir = dir.map(Path::to_owned);
        let thread = std::thread::Builder::new()
            .name("sink".into())
            .spawn(move || write_all(dir.as_deref(), log, &to_write))
            .map_err(|error| Error::io("cannot start a thread", &error))?;
        Ok(Self { frames: Some(frames), thread: Some(thread) })
    }

    fn write(&self, header: Header, age: Duration, arrival: Arrival) -> Result<(), Error> {
        match &self.frames {
            // `finish` knows why.
            Some(frames) => frames.send((header, age, arrival)).map_err(|_| Error::failed("frames cannot be written")),
            None => Ok(()),
        }
    }

    /// Waits until everything is written.
    fn finish(mut self) -> Result<(), Error> {
        drop(self.frames.take());
        let failed = || Error::failed("a thread of this program has failed; please report it");
        self.thread.take().map_or(Ok(()), |thread| thread.join().map_err(|_| failed())?)
    }
}

fn write_all(
    dir: Option<&Path>,
    mut log: Option<(BufWriter<File>, PathBuf)>,
    frames: &Receiver<(Header, Duration, Arrival)>,
) -> Result<(), Error> {
    let cannot = |path: &Path, error| Error::io(format_args!("cannot write {}", path.display()), &error);
    while let Ok((header, age, arrival)) = frames.recv() {
        if let Some(dir) = dir {
            let path = dir.join(format!("frame-{:06}.bin", header.number));
            std::fs::write(&path, &arrival[header::BYTES..]).map_err(|error| cannot(&path, error))?;
        }
        if let Some((log, path)) = &mut log {
            writeln!(log, "{}", line(&header, age, &arrival))
                .and_then(|()| log.flush())
                .map_err(|error| cannot(path, error))?;
        }
    }
    Ok(())
}

/// A line of the log. Ranges count from the frame's first byte, behind its header.
fn line(header: &Header, age: Duration, arrival: &Arrival) -> Value {
    let behind = |at: usize| at.saturating_sub(header::BYTES);
    let holes: Vec<[usize; 2]> = arrival.holes.iter().map(|hole| [behind(hole.start), behind(hole.end)]).collect();
    json!({
        "frame": header.number,
        "bytes": header.bytes,
        "age_ms": age.as_micros() as f64 / 1e3,
        "sent_at_ns": header.sent_at,
        "took_ms": arrival.took.as_micros() as f64 / 1e3,
        "holes": holes,
        "bytes_lost": holes.iter().map(|[low, high]| high - low).sum::<usize>(),
        "packets": arrival.loss.packets,
        "packets_lost": arrival.loss.lost,
        "longest_run_packets": arrival.loss.longest_run,
    })
}

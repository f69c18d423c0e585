//! `pinnace stream send`.

use super::carrier::{Carrier, Heard, Landed, Outcome, Outgoing, Terms, Vrp};
use super::header::{self, Ending, Header};
use super::source::{self, Choice, Feed, Next};
use super::tally::{Ages, Losses, of};
use super::tcp;
use super::words::{self, both, take};
use crate::bare::Presence;
use crate::congestion::Control;
use crate::exit::{Error, Exit};
use crate::interrupt;
use crate::numbers;
use crate::output::Output;
use crate::service;
use crate::transport;
use crate::units;
use crate::units::count_of;
use clap::builder::{OsStringValueParser, TypedValueParser};
use pinnace::service::{PathClass, Service};
use pinnace::vrp::{self, Contract};
use serde_json::json;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

/// For the receiver to learn that the stream has ended.
const FAREWELL: Duration = Duration::from_secs(2);
/// How often to look at frames under way while the source is slow.
const STEP: Duration = Duration::from_millis(2);

const EXAMPLES: &str = "\
Examples:
  pinnace stream send --to 127.0.0.1:7004 --fps 15 --duration 10s --loss-rate 10% --run 8packets
  ffmpeg -i film.mkv -f yuv4mpegpipe - | pinnace stream send --to 192.0.2.7:7004 --source - --fps 25";

/// Arguments of `pinnace stream send`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The receiver's address, or a URI like pinnace://HOST:PORT?loss=10%
    #[arg(long, value_name = "HOST:PORT", value_parser = service::target)]
    to: String,
    /// What is needed, in the words of a service, like 'loss=10% run=8KiB deadline=80ms rate=200mbit', in the place of the
    /// options that say the same
    #[arg(long, value_name = "WORDS")]
    service: Option<String>,
    /// Where frames come from: `camera` or `camera:WxH` (a moving picture, three bytes a pixel), a folder (a frame a file), a
    /// file or - for standard input (YUV4MPEG2: a frame a picture; anything else, or with --size: cut into frames)
    #[arg(long, value_name = "SOURCE", default_value = "camera",
        value_parser = OsStringValueParser::new().try_map(source::of_word))]
    source: Choice,
    /// Frames a second
    #[arg(long, value_name = "RATE", default_value = "15", value_parser = frame_rate)]
    fps: f64,
    /// Bytes of a frame [default: 2.7MB]
    #[arg(long, value_name = "BYTES", value_parser = units::bytes)]
    size: Option<u64>,
    /// Start over at the end of the file or folder
    #[arg(long)]
    repeat: bool,
    /// End after so many frames [default: at the end of the source, or with Ctrl-C]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End after so long
    #[arg(long, value_name = "TIME", value_parser = units::some_time)]
    duration: Option<Duration>,
    /// Frames under way at most: one that is due while there are more is left out
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u16).range(1..=1024))]
    ahead: u16,
    /// What carries the frames: vrp, or for comparison tcp, tcp-cubic, tcp-bbr
    #[arg(long, value_name = "CARRIER", default_value = "vrp")]
    over: Carrier,
    #[command(flatten)]
    contract: ContractArgs,
    #[command(flatten)]
    transport: Transport,
}

/// What a frame may lose, and how long it is worth sending.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Contract")]
struct ContractArgs {
    /// The share of packets that may be lost, to the nearest 1/255, and of a window to the nearest whole packet; nothing
    /// unless given
    #[arg(long, value_name = "SHARE", value_parser = units::share)]
    loss_rate: Option<f64>,
    /// The longest run of bytes, or of packets, that may be lost, like 4KiB or 8packets; any unless given
    #[arg(long, value_name = "RUN", value_parser = run_length, requires = "loss_rate")]
    run: Option<Run>,
    /// Bytes of every frame that may not be lost, like 0..1KiB
    #[arg(long, value_name = "RANGE", value_parser = units::byte_range, requires = "loss_rate")]
    critical: Vec<Range<u64>>,
    /// The share that may be lost while the path is not congested (`floor=` of a service)
    #[arg(skip)]
    floor: Option<f64>,
    /// When a frame should be there; what the contract lets the sender drop is not repeated after it
    #[arg(long, value_name = "TIME", value_parser = units::some_time)]
    deadline: Option<Duration>,
    /// When a frame is given up
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    give_up: Option<Duration>,
}

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Transport")]
struct Transport {
    /// Bytes of a packet [default: what the path carries, less if the contract needs it]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(1..=65_501))]
    packet: Option<u16>,
    /// Packets in flight of a frame, and the window of --loss-rate [default: what the path needs]
    #[arg(long, value_name = "PACKETS", value_parser = clap::value_parser!(u16).range(1..=16_384))]
    window: Option<u16>,
    /// Never send faster, like 500mbit
    #[arg(long, value_name = "RATE", value_parser = units::bit_rate)]
    rate: Option<u64>,
    #[command(flatten)]
    congestion: Control,
    /// A receiver that is silent for so long is gone
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = crate::bare::seconds)]
    timeout: Duration,
    /// What lies between the peers (`path=` of a service)
    #[arg(skip)]
    path: Option<PathClass>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    Bytes(u64),
    Packets(u64),
}

fn run_length(text: &str) -> Result<Run, String> {
    let packets = ["packets", "packet"].iter().find_map(|unit| text.trim().strip_suffix(unit));
    match packets {
        Some(number) => {
            let wrong = |_| format!("`{text}` is no number of packets; write it as 8packets");
            number.trim().parse().map(Run::Packets).map_err(wrong)
        }
        None => units::bytes(text).map(Run::Bytes).map_err(|error| format!("{error}; or packets, as in 8packets")),
    }
}

fn frame_rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (0.001..=100_000.0).contains(&rate) => Ok(rate),
        _ => Err("expected frames a second, from 0.001 to 100000".to_owned()),
    }
}

impl Args {
    /// The arguments, with what the service says in their places.
    fn asked(&self) -> Result<Self, Error> {
        let asked = words::tool("pinnace stream send").asked(&self.to, self.service.as_deref())?;
        let mut args = Self { to: asked.authority.clone(), ..self.clone() };
        if asked.service == Service::new() {
            return Ok(args);
        }
        words::check_carrier(&self.over)?;
        let word = |name| asked.word(name);
        if word("loss").is_some() {
            let ContractArgs { run, critical, .. } = &self.contract;
            if run.is_some() || !critical.is_empty() {
                return Err(both("--run or --critical"));
            }
            for range in word("critical").iter().flat_map(|ranges| ranges.split(',')) {
                args.contract.critical.push(units::byte_range(range).map_err(Error::usage)?);
            }
        }
        let contract = &mut args.contract;
        let share = |text: &str| if text == "any" { Ok(1.0) } else { units::share(text) };
        take(&mut contract.loss_rate, "--loss-rate", word("loss"), share)?;
        take(&mut contract.run, "--run", word("run"), |text| units::bytes(text).map(Run::Bytes))?;
        take(&mut contract.floor, "floor", word("floor"), units::share)?;
        take(&mut contract.deadline, "--deadline", word("deadline"), units::some_time)?;
        take(&mut contract.give_up, "--give-up", word("lifespan"), units::duration)?;
        take(&mut args.transport.rate, "--rate", word("rate"), units::bit_rate)?;
        take(&mut args.size, "--size", word("size"), units::bytes)?;
        args.transport.path = asked.service.path_class();
        Ok(args)
    }

    fn check(&self) -> Result<(), Error> {
        let ContractArgs { loss_rate, deadline, give_up, .. } = &self.contract;
        if self.over != Carrier::Vrp {
            let Transport { packet, window, rate, congestion, .. } = &self.transport;
            let only_vrp = loss_rate.is_some() || give_up.is_some() || packet.is_some() || window.is_some();
            if only_vrp || rate.is_some() || congestion.kind().is_some() {
                return Err(Error::usage(format!(
                    "--over {}: TCP knows no contract, and the kernel does its sending; leave out --loss-rate, --give-up, \
                     --packet, --window, --rate and --congestion",
                    self.over.to_string().to_lowercase().replace(' ', "-")
                )));
            }
        }
        if let (Some(deadline), Some(give_up)) = (deadline, give_up)
            && give_up < deadline
        {
            return Err(Error::usage("--give-up must not be before --deadline"));
        }
        Ok(())
    }

    fn source(&self) -> source::Settings {
        source::Settings { choice: self.source.clone(), size: self.size, default_size: 2_700_000, repeat: self.repeat }
    }

    fn connect(&self) -> Result<Outgoing, Error> {
        if let Carrier::Tcp(congestion) = &self.over {
            let (peer, congestion, timeout) = (self.to.clone(), congestion.clone(), self.transport.timeout);
            let connect = move || tcp::Outgoing::connect(&peer, congestion.as_deref(), timeout);
            return transport::interruptible(connect)?.map(Outgoing::Tcp);
        }
        let Transport { packet, window, rate, congestion, timeout, path } = self.transport;
        let options = vrp::Options {
            rate: rate.map(units::byte_rate),
            congestion: congestion.kind(),
            life_timeout: timeout,
            profile: path.map(service::profile).unwrap_or_default(),
            ..vrp::Options::default()
        };
        let sender = vrp::Sender::connect(crate::address::resolve_peer(&self.to)?, &options)?;
        let opener = sender.clone();
        let presence = Presence::new(&self.to, "stream recv");
        let look = || {
            let counters = sender.counters();
            presence.look(counters.unreachable_reports, counters.controls_received > 0)
        };
        transport::interruptible_while(look, move || opener.open())?.map_err(|error| match error {
            pinnace::Error::FrameFailed(vrp::Failure::PeerGone) => {
                let why = format!(
                    "no answer from {} within {} s: is `pinnace stream recv` running there, and does UDP reach it?",
                    self.to,
                    timeout.as_secs_f32()
                );
                presence.silent(sender.counters().unreachable_reports, why)
            }
            error => Error::from(error),
        })?;
        let ContractArgs { loss_rate, run, critical, floor, deadline, give_up } = &self.contract;
        let mut contract = Contract::new();
        let mut packet_bytes = packet;
        if let Some(share) = loss_rate {
            contract = contract.loss_percent(share * 100.0);
            contract = floor.iter().fold(contract, |contract, share| contract.adaptive_from_percent(share * 100.0));
            match *run {
                None => contract = contract.any_run(),
                Some(Run::Bytes(bytes)) => contract = contract.run_bytes(bytes),
                Some(Run::Packets(packets)) => {
                    let bytes = packet.unwrap_or_else(|| sender.max_packet_bytes());
                    packet_bytes = Some(bytes);
                    contract = contract.run_bytes(packets.saturating_mul(bytes.into()));
                }
            }
        }
        let terms = Terms {
            contract,
            critical: critical.clone(),
            repeat_for: *deadline,
            give_up_after: *give_up,
            packet_bytes,
            window,
        };
        Ok(Outgoing::Vrp(Vrp { sender, terms, peer: self.to.clone(), under_way: VecDeque::new(), heard: Heard::now() }))
    }
}

/// What has been sent so far.
struct Stream<'a> {
    args: &'a Args,
    outgoing: Outgoing,
    feed: Feed,
    begun: Instant,
    /// All frames that were due, each with its period.
    lasted: Duration,
    ending: Ending,
    acknowledged: u64,
    bytes: u64,
    /// Times that the source was not ready when a frame was due.
    source_late: u64,
    /// When each frame under way has left, and its bytes.
    sent_at: BTreeMap<u64, (Instant, u64)>,
    /// Frames that were under way when one was left out last.
    crowd: usize,
    /// Frames that the receiver has refused, and the first of them with its bytes.
    refused: u64,
    first_refused: Option<(u64, u64)>,
    ages: Ages,
    losses: Losses,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    let args = &args.asked()?;
    args.check()?;
    let settings = args.source();
    settings.check()?;
    interrupt::install();
    let feed = Feed::start(&settings)?;
    let outgoing = args.connect()?;
    let mut stream = Stream {
        args,
        outgoing,
        feed,
        begun: Instant::now(),
        lasted: Duration::ZERO,
        ending: Ending::default(),
        acknowledged: 0,
        bytes: 0,
        source_late: 0,
        sent_at: BTreeMap::new(),
        crowd: 0,
        refused: 0,
        first_refused: None,
        ages: Ages::new()?,
        losses: Losses::default(),
    };
    let result = stream.send_all();
    // The last frame, too, lasts a period, though nothing comes after it to wait for.
    let seconds = stream.begun.elapsed().max(stream.lasted).as_secs_f64();
    let is_there = |error: &Error| match error.exit {
        Exit::Interrupted => true,
        // Who refuses a frame hears that there are no more.
        Exit::Failed => stream.refused > 0,
        _ => false,
    };
    if result.as_ref().err().is_none_or(is_there) {
        stream.say_farewell();
    }
    if result.is_ok() || stream.ending.offered > 0 {
        stream.report(output, seconds);
    }
    let result = if stream.refused > 0 { result.and_then(|()| Err(stream.refusal())) } else { result };
    if let Outgoing::Vrp(vrp) = &stream.outgoing {
        output.note(vrp.sender.counters().to_string().trim_end().replace('\n', ", "));
        vrp.sender.close();
    }
    result
}

/// When frames are due: at their rate since a moment, after so many. Periods that are whole nanoseconds would not add up to the
/// rate: the thirtieth of 30 a second would end before the second does.
struct Beat {
    fps: f64,
    since: Duration,
    frames: u64,
}

impl Beat {
    /// When the next one is due.
    fn due(&self) -> Duration {
        self.since + Duration::from_secs_f64(self.frames as f64 / self.fps)
    }

    /// The frame that is due was waited for; whether for too long. If it was not, what is late is made up for: it was we who woke
    /// up late, or had no room.
    fn waited(&mut self, time: Duration) -> bool {
        let is_late = time.as_secs_f64() * self.fps > 1.0;
        if is_late {
            // The camera was slow: its rate counts from now on, and nothing is made up for.
            *self = Self { since: self.due() + time, frames: 0, ..*self };
        }
        is_late
    }
}

impl Stream<'_> {
    /// Sends the frames as they are due, and waits for the last ones.
    fn send_all(&mut self) -> Result<(), Error> {
        let mut beat = Beat { fps: self.args.fps, since: Duration::ZERO, frames: 0 };
        // However long the source takes to begin: the first frame is due when it is there.
        let mut next = self.next_frame()?;
        self.begun = Instant::now();
        while self.args.count.is_none_or(|count| self.ending.offered < count)
            && self.args.duration.is_none_or(|duration| beat.due() < duration)
        {
            self.land_until(self.begun + beat.due())?;
            let asked = Instant::now();
            let frame = if next.is_some() { next.take() } else { self.next_frame()? };
            let Some(frame) = frame else { break };
            self.source_late += u64::from(beat.waited(asked.elapsed()));
            self.offer(frame)?;
            beat.frames += 1;
            self.lasted = beat.due();
        }
        while self.outgoing.in_flight() > 0 {
            self.land_until(Instant::now() + STEP)?;
        }
        Ok(())
    }

    /// Takes what lands until a moment has come.
    fn land_until(&mut self, moment: Instant) -> Result<(), Error> {
        loop {
            interrupt::check()?;
            self.outgoing.check()?;
            let now = Instant::now();
            if now >= moment {
                return Ok(());
            }
            let until = moment.min(now + interrupt::LOOK);
            if self.outgoing.in_flight() == 0 {
                std::thread::sleep(until - now);
            } else if let Some(landed) = self.outgoing.landed(until)? {
                self.land(landed)?;
            }
        }
    }

    fn land(&mut self, Landed { number, buffer, outcome }: Landed) -> Result<(), Error> {
        let sent_at = self.sent_at.remove(&number);
        match outcome {
            Outcome::Acknowledged(loss) => {
                self.acknowledged += 1;
                self.ages.record(sent_at.map(|(at, _)| at.elapsed()).unwrap_or_default());
                if let Some(loss) = loss {
                    self.losses.add(&loss);
                }
            }
            Outcome::Late => self.ending.given_up += 1,
            Outcome::Refused => {
                self.ending.given_up += 1;
                self.refused += 1;
                self.first_refused = self.first_refused.or(sent_at.map(|(_, bytes)| (number, bytes)));
                // Who ends refuses as well.
                self.outgoing.check()?;
                if self.acknowledged == 0 {
                    // Those that follow are like this one. Who has taken some may have room again.
                    return Err(self.refusal());
                }
            }
        }
        if let Some(buffer) = buffer {
            self.feed.give_back(buffer);
        }
        Ok(())
    }

    /// What the receiver has refused.
    fn refusal(&self) -> Error {
        let (number, bytes) = self.first_refused.unwrap_or_default();
        Error::failed(format!(
            "{} has refused {}, first frame {number} of {bytes} bytes: it has no room for it (256 MiB in all, for frames that \
             come or are not written yet, and for what it notes of each packet), or was about to end",
            self.args.to,
            count_of(self.refused, "frame")
        ))
    }

    /// Whether one more frame of so many bytes may be under way: no more than the receiver has room for.
    fn has_room(&self, bytes: u64) -> bool {
        let in_flight = self.outgoing.in_flight();
        let under_way: u64 = self.sent_at.values().map(|(_, bytes)| bytes).sum();
        in_flight == 0 || (in_flight < usize::from(self.args.ahead) && under_way + bytes <= header::MOST)
    }

    fn next_frame(&mut self) -> Result<Option<Vec<u8>>, Error> {
        loop {
            let patience = if self.outgoing.in_flight() == 0 { interrupt::LOOK } else { STEP };
            match self.feed.next(patience)? {
                Next::Frame(frame) => return Ok(Some(frame)),
                Next::End => return Ok(None),
                Next::NotYet => {
                    interrupt::check()?;
                    self.outgoing.check()?;
                    self.land_ready()?;
                }
            }
        }
    }

    /// Takes what has landed, and waits for nothing: a frame that is ready meanwhile would count as late.
    fn land_ready(&mut self) -> Result<(), Error> {
        while self.outgoing.in_flight() > 0
            && let Some(landed) = self.outgoing.landed(Instant::now())?
        {
            self.land(landed)?;
        }
        Ok(())
    }

    /// Sends a frame, or leaves it out.
    fn offer(&mut self, mut frame: Vec<u8>) -> Result<(), Error> {
        let number = self.ending.offered;
        self.ending.offered += 1;
        let bytes = frame.len() - header::BYTES;
        while !self.has_room(bytes as u64)
            && let Some(landed) = self.outgoing.landed(Instant::now())?
        {
            self.land(landed)?;
        }
        if !self.has_room(bytes as u64) {
            self.ending.left_out += 1;
            self.crowd = self.outgoing.in_flight();
            self.feed.give_back(frame);
            return Ok(());
        }
        let sent_at = header::now();
        let header = Header {
            number,
            sent_at,
            deadline: self.args.contract.deadline,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            is_end: false,
        };
        frame[..header::BYTES].copy_from_slice(&header.encode());
        self.sent_at.insert(number, (Instant::now(), bytes as u64));
        self.outgoing.send(number, frame)?;
        self.ending.sent += 1;
        self.bytes += bytes as u64;
        Ok(())
    }

    /// Tells the receiver that this was all. It finds out without, too, only later.
    fn say_farewell(&mut self) {
        let content = self.ending.encode();
        let (number, bytes) = (self.ending.offered, content.len() as u32);
        let header = Header { number, sent_at: header::now(), deadline: None, bytes, is_end: true };
        if let Outgoing::Vrp(vrp) = &mut self.outgoing {
            vrp.terms = Terms { give_up_after: Some(FAREWELL), ..Terms::default() };
        }
        let until = Instant::now() + FAREWELL;
        if self.outgoing.send(number, [&header.encode()[..], &content].concat()).is_err() {
            return;
        }
        while let Ok(Some(landed)) = self.outgoing.landed(until) {
            if landed.number == number {
                return;
            }
        }
    }

    fn report(&self, output: &Output, seconds: f64) {
        let Ending { offered, sent, left_out, given_up } = self.ending;
        // A source of nothing takes no time.
        let time = seconds.max(1e-9);
        let (fps, rate) = (sent as f64 / time, self.bytes as f64 * 8.0 / time);
        let ages = self.ages.percentiles();
        let mut text = format!(
            "sent          {} frames over {} in {seconds:.1} s, {} each\n",
            of(sent, offered),
            self.args.over,
            numbers::bytes(self.bytes / sent.max(1)),
        );
        text += &format!("rate          {fps:.2} frames a second, {}\n", numbers::rate(rate));
        if left_out > 0 {
            text += &format!("left out      {left_out}, because {} were under way\n", self.crowd);
        }
        if given_up > 0 {
            text += &format!("given up      {given_up}\n");
        }
        if self.source_late > 0 {
            text += &format!("source late   {}\n", count_of(self.source_late, "time"));
        }
        text += &format!("acknowledged  {}", self.acknowledged);
        if let Some(ages) = &ages {
            text += &format!("\n  after       {ages}");
        }
        if self.args.over == Carrier::Vrp {
            text += &format!("\nholes         {}", self.losses.text(self.acknowledged >= offered));
        }
        let mut object = json!({
            "event": "done",
            "over": self.args.over.to_string(),
            "frames_offered": offered,
            "frames_sent": sent,
            "frames_left_out": left_out,
            "frames_given_up": given_up,
            "frames_acknowledged": self.acknowledged,
            "source_late": self.source_late,
            "bytes": self.bytes,
            "seconds": seconds,
            "frames_per_second": fps,
            "bits_per_second": rate,
            "acknowledged_after_ms": ages,
        });
        if self.args.over == Carrier::Vrp {
            self.losses.put(&mut object);
        }
        output.result(text, &object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_bytes_or_packets() {
        assert_eq!(run_length("8packets"), Ok(Run::Packets(8)));
        assert_eq!(run_length("1 packet"), Ok(Run::Packets(1)));
        assert_eq!(run_length("4KiB"), Ok(Run::Bytes(4096)));
        assert!(run_length("packets").is_err() && run_length("8 parcels").unwrap_err().contains("8packets"));
    }

    #[test]
    fn as_many_frames_are_due_as_the_rate_says() {
        for (fps, seconds, frames) in
            [(30.0, 1, 30), (29.97, 100, 2997), (24.0, 10, 240), (7.0, 3, 21), (1e5, 7, 700_000)]
        {
            let duration = Duration::from_secs(seconds);
            let is_due = |frames| Beat { fps, since: Duration::ZERO, frames }.due() < duration;
            assert!(is_due(frames - 1) && !is_due(frames), "{fps}");
        }
    }

    #[test]
    fn only_a_source_that_is_waited_for_is_late() {
        let mut beat = Beat { fps: 100.0, since: Duration::ZERO, frames: 0 };
        for _ in 0..50 {
            assert!(!beat.waited(Duration::from_millis(9)));
            beat.frames += 1;
        }
        assert_eq!(beat.due(), Duration::from_millis(500), "what is late without it is made up for");
        assert!(beat.waited(Duration::from_millis(25)));
        beat.frames += 1;
        assert_eq!(beat.due(), Duration::from_millis(535));
    }

    #[test]
    fn frame_rates_are_positive() {
        assert_eq!(frame_rate("29.97"), Ok(29.97));
        for text in ["0", "-1", "x", "NaN", "inf", "1e9"] {
            assert!(frame_rate(text).is_err(), "{text}");
        }
    }
}

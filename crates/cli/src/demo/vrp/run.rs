//! One transport's turn: a sender and a receiver, processes of their own, and what the receiver has written down.

use super::super::child::Child;
use super::super::relay::Relay;
use super::{Between, CONTRACT, DEADLINE, FPS, LOSS, RATE, RTT, movie};
use crate::exit::Error;
use crate::interrupt;
use pinnace_sim::NetworkConfig;
use serde_json::Value;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// For a receiver to say where it listens.
const OPENING: Duration = Duration::from_secs(10);
/// For a turn, the last pictures of a slow transport included.
const TURN: Duration = Duration::from_secs(25);
/// For the receiver to end after the sender.
const CLOSING: Duration = Duration::from_secs(5);

/// One picture that arrived.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) number: u64,
    /// From the first one's sending to this one's.
    pub(super) sent: Duration,
    /// How old it was when it arrived.
    pub(super) age: Duration,
    pub(super) holes: Vec<Range<usize>>,
}

impl Seen {
    /// When it arrived.
    pub(super) fn at(&self) -> Duration {
        self.sent + self.age
    }
}

/// What a viewer has seen.
#[derive(Clone, Debug)]
pub(super) struct Viewed {
    /// In the order of their arrival; never empty.
    pub(super) seen: Vec<Seen>,
    /// What `stream recv` and `stream send` say at their end.
    pub(super) received: Value,
    pub(super) sent: Value,
    pub(super) pictures: PathBuf,
}

impl Viewed {
    /// What was on the screen at some moment: the newest that had arrived.
    pub(super) fn on_screen(&self, moment: Duration) -> Option<&Seen> {
        self.seen.iter().filter(|seen| seen.at() <= moment).max_by_key(|seen| seen.sent)
    }

    /// The bytes of a picture, in tiles.
    pub(super) fn tiles(&self, seen: &Seen) -> Result<Vec<u8>, Error> {
        let path = self.pictures.join(format!("frame-{:06}.bin", seen.number));
        std::fs::read(&path).map_err(|error| Error::io(format_args!("cannot read {}", path.display()), &error))
    }
}

/// Sends the movie in `folder` over a transport.
pub(super) fn view(folder: &Path, over: &str, between: &Between) -> Result<Viewed, Error> {
    let (pictures, log) = (folder.join(over), folder.join(format!("{over}.jsonl")));
    let (near, far, bind) = match between {
        Between::Link(network) => (Some(&network.near), Some(&network.far), SocketAddr::new(network.address, 0)),
        Between::Relay { .. } => (None, None, SocketAddr::from(([127, 0, 0, 1], 0))),
    };
    let command = |host: Option<&crate::perf::Host>| -> Result<Command, Error> {
        let program = std::env::current_exe().map_err(|error| Error::io("cannot find my own program", &error))?;
        Ok(host.map_or_else(|| Command::new(&program), |host| host.enter(&program)))
    };
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let bind = bind.to_string();
    let arguments =
        ["--json", "stream", "recv", "--over", over, "--bind", &bind, "--dir", &path(&pictures), "--log", &path(&log)];
    let mut receiver = Child::run(command(far)?, folder, &format!("stream-recv-{over}"), &arguments)?;
    let mut to = listening(&mut receiver)?;
    let relay = match between {
        Between::Link(_) => None,
        Between::Relay { .. } => {
            let text = format!("rate={RATE},delay={}ms,loss={LOSS}", RTT.as_millis() / 2);
            let network: NetworkConfig = text.parse().map_err(|error| Error::failed(format!("{text}: {error}")))?;
            Some(Relay::start(&[to], &network)?)
        }
    };
    to = relay.as_ref().and_then(|relay| relay.addresses().first().copied()).unwrap_or(to);
    let (to, movie) = (to.to_string(), path(&folder.join("movie")));
    let (fps, deadline) = (FPS.to_string(), format!("{}ms", DEADLINE.as_millis()));
    let (packet, critical) =
        (movie::TILE_BYTES.to_string(), format!("{}..{}", movie::CAPTION.start, movie::CAPTION.end));
    let [rate, run] = CONTRACT;
    let mut arguments = vec!["--json", "stream", "send", "--over", over, "--to", &to, "--source", &movie];
    arguments.extend(["--fps", &fps, "--ahead", "3", "--deadline", &deadline]);
    if over == "vrp" {
        arguments.extend(["--packet", &packet, "--loss-rate", rate, "--run", run, "--critical", &critical]);
        arguments.extend(["--congestion", "bbr"]);
    }
    let mut sender = Child::run(command(near)?, folder, &format!("stream-send-{over}"), &arguments)?;
    sender.succeed(TURN)?;
    receiver.succeed(CLOSING)?;
    let log = std::fs::read_to_string(&log).map_err(|error| Error::io("cannot read the receiver's log", &error))?;
    let seen = read(&log);
    if seen.is_empty() {
        return Err(receiver.failure("received no picture"));
    }
    let last = |text: &str| text.lines().filter_map(|line| serde_json::from_str(line).ok()).next_back();
    let (received, sent) = (last(&receiver.said()).unwrap_or_default(), last(&sender.said()).unwrap_or_default());
    Ok(Viewed { seen, received, sent, pictures })
}

/// Where the receiver listens.
fn listening(receiver: &mut Child) -> Result<SocketAddr, Error> {
    let begin = Instant::now();
    while begin.elapsed() < OPENING {
        interrupt::check()?;
        let said = receiver.said();
        let address = said.lines().find_map(|line| {
            let line: Value = serde_json::from_str(line).ok()?;
            line["address"].as_str()?.parse().ok()
        });
        if let Some(address) = address {
            return Ok(address);
        }
        if let Some(status) = receiver.wait(Duration::from_millis(5)) {
            return Err(receiver.failure(&format!("ended with {status}")));
        }
    }
    Err(receiver.failure("did not begin to listen"))
}

/// Reads the receiver's log.
fn read(log: &str) -> Vec<Seen> {
    let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let sent_at = |line: &Value| line["sent_at_ns"].as_u64();
    let Some(begin) = lines.iter().filter_map(sent_at).min() else { return Vec::new() };
    let range = |hole: &Value| Some(hole[0].as_u64()? as usize..hole[1].as_u64()? as usize);
    let seen = |line: &Value| {
        Some(Seen {
            number: line["frame"].as_u64()?,
            sent: Duration::from_nanos(sent_at(line)? - begin),
            age: Duration::try_from_secs_f64(line["age_ms"].as_f64()? / 1e3).ok()?,
            holes: line["holes"].as_array()?.iter().filter_map(range).collect(),
        })
    };
    lines.iter().filter_map(seen).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_says_what_was_on_the_screen() {
        let log = "{\"frame\":0,\"sent_at_ns\":1000000000,\"age_ms\":80.5,\"holes\":[]}\nnoise\n\
                   {\"frame\":2,\"sent_at_ns\":1200000000,\"age_ms\":100,\"holes\":[[3,9]]}\n";
        let viewed =
            Viewed { seen: read(log), received: Value::Null, sent: Value::Null, pictures: PathBuf::from("none") };
        let at = |millis| viewed.on_screen(Duration::from_millis(millis)).map(|seen| seen.number);
        assert_eq!([at(80), at(81), at(299), at(300)], [None, Some(0), Some(0), Some(2)]);
        assert_eq!((viewed.seen[1].holes[0].clone(), viewed.seen[1].holes.len()), (3..9, 1));
        assert!(read("").is_empty());
    }
}

//! `pinnace demo a1`: a song to three sinks through a narrow, lossy link, while bulk data saturate it.
//!
//! A WAV file, made for the occasion, is cast to three processes, `pinnace tune`, through a relay in user space that is 20
//! Mbit/s fast and loses packets. Three times: alone; beside a bulk connection of the same socket that is less urgent; and
//! beside one of another socket, which knows nothing of the song.
//!
//! Always true: it needs no privileges; every number was measured in this run, and every byte that arrived compared; what it
//! made on the way (processes, temporary files) is gone when it ends, however it ends.

mod figure;
mod report;
mod run;
mod song;

use crate::exit::Error;
use crate::output::Output;
use crate::{interrupt, picture};
use run::{Beside, Heard};
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

/// Cast a song to three sinks through a narrow, lossy link that bulk data saturate, and draw how late it came
///
/// Takes less than a minute, needs no privileges, and writes pinnace-demo-a1.svg and pinnace-demo-a1.png.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Where the pictures go
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Two seconds of each instead of eight: shows that it works
    #[arg(long)]
    quick: bool,
}

/// Bits a second of the link, each way.
const RATE: &str = "20mbit";
/// Nearly that, which leaves room for the headers of IP and UDP.
const LINK_BYTES: u64 = 20_000_000 / 8 * 95 / 100;
/// One way.
const DELAY: &str = "2ms";
/// So few that 99 of 100 blocks need no repair; who is repaired waits for a round trip, or for the next block.
const LOSS: &str = "0.1%";
/// What waits before the link: 100 ms.
const QUEUE: &str = "250000";
/// Sinks of the song.
const SINKS: usize = 3;
/// Bytes of a block: with its headers it fits into an Ethernet frame.
const BLOCK: u32 = 1400;
/// Of the song and of the bulk data; 0 is the most urgent.
const PRIORITIES: (u8, u8) = (0, 200);
/// What 99 of 100 blocks of a song should keep to.
const BAR_MS: f64 = 5.0;

/// One turn, and what came of it.
#[derive(Debug)]
struct Turn {
    beside: Beside,
    heard: Vec<Heard>,
    /// Bits a second that the bulk connection carried.
    bulk: f64,
}

impl Turn {
    /// The largest of the sinks.
    fn most(&self, of: impl Fn(&Heard) -> f64) -> f64 {
        self.heard.iter().map(of).fold(0.0, f64::max)
    }

    fn lost(&self) -> u64 {
        self.heard.iter().map(|heard| heard.lost).sum()
    }

    fn equal(&self) -> usize {
        self.heard.iter().filter(|heard| heard.is_equal).count()
    }
}

/// Everything that was found out.
#[derive(Debug)]
struct Findings {
    link: String,
    /// Seconds of the song.
    length: u32,
    turns: Vec<Turn>,
    quick: bool,
    seconds: f64,
}

impl Findings {
    /// Beside bulk data that are less urgent.
    fn with_priority(&self) -> Option<&Turn> {
        self.turns.iter().find(|turn| turn.beside == Beside::LessUrgent)
    }

    /// Whether every byte came to every sink, in every turn.
    fn is_whole(&self) -> bool {
        self.turns.iter().all(|turn| turn.equal() == SINKS && turn.lost() == 0)
    }

    fn verdict(&self) -> String {
        let Some(turn) = self.with_priority() else { return String::new() };
        let p99 = turn.most(|heard| heard.p99);
        let lost = if self.is_whole() {
            format!("no block of the song was lost, and all {SINKS} copies are the original")
        } else {
            "SOMETHING OF THE SONG IS MISSING".to_owned()
        };
        let bar = if p99 < BAR_MS { "below" } else { "ABOVE" };
        let others = self.turns.iter().find(|turn| turn.beside == Beside::Stranger);
        let others = others.map_or(String::new(), |turn| {
            format!("; beside bulk data of another socket it is {:.1} ms", turn.most(|heard| heard.p99))
        });
        format!(
            "{lost}. With bulk data of lower priority on the link (at {}) the jitter's p99 is {p99:.1} ms, {bar} \
             {BAR_MS:.0}{others}.",
            crate::numbers::rate(turn.bulk)
        )
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    interrupt::install();
    let begin = Instant::now();
    std::fs::create_dir_all(&args.out)
        .map_err(|error| Error::io(format!("cannot make {}", args.out.display()), &error))?;
    let (svg, png) = (args.out.join("pinnace-demo-a1.svg"), args.out.join("pinnace-demo-a1.png"));
    [&svg, &png].into_iter().try_for_each(|path| picture::check(path))?;
    // Dropped last, when no process uses it any more.
    let folder = tempfile::Builder::new()
        .prefix("pinnace-demo-")
        .tempdir()
        .map_err(|error| Error::io("cannot make a temporary folder", &error))?;
    let length = if args.quick { 2 } else { 8 };
    let song = folder.path().join("song.wav");
    song::write(&song, length)?;
    let mut turns = Vec::new();
    for (index, beside) in Beside::ALL.into_iter().enumerate() {
        let _ = writeln!(
            std::io::stderr(),
            "[{}/{}] {length} s of song to {SINKS} sinks, {beside}",
            index + 1,
            Beside::ALL.len()
        );
        turns.push(run::turn(folder.path(), &song, beside, output)?);
    }
    let findings = Findings {
        link: format!("20 Mbit/s, {DELAY} each way, {LOSS} loss each way").replace("ms", " ms").replace('%', " %"),
        length,
        turns,
        quick: args.quick,
        seconds: begin.elapsed().as_secs_f64(),
    };
    let figure = figure::Overview { findings: &findings };
    picture::svg(&figure, &svg).and_then(|()| picture::png(&figure, &png)).map_err(|error| {
        Error::failed(format!("cannot write the pictures to {}: {error}; choose another --out", args.out.display()))
    })?;
    report::print(&findings, &svg, &png, output);
    if findings.is_whole() {
        return Ok(());
    }
    Err(Error::not_verified("something of the song is missing, which is a defect: see the table"))
}

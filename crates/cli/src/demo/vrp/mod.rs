//! `pinnace demo vrp`: the same moving picture over the same lossy path, by VRP and by TCP; one figure.
//!
//! Two processes, `pinnace stream send` and `pinnace stream recv`, carry the pictures, over each transport in its turn. With
//! the privileges for network namespaces and TUN devices, the path is that of `pinnace wan`, and TCP is the kernel's. Without
//! them VRP crosses a relay in user space that delays and loses datagrams alike; the kernel's TCP cannot be sent through
//! such a thing, so it is left out, and the output says so. Nothing imitates TCP.
//!
//! Always true: every number and every picture was received in this run; what it made on the way (processes, namespaces,
//! temporary files) is gone when it ends, however it ends.

mod figure;
mod movie;
mod report;
mod run;

use crate::exit::{Error, Exit};
use crate::output::Output;
use crate::perf::Network;
use crate::{interrupt, picture, wan};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Send a moving picture over a lossy path by VRP and by TCP, and draw what arrived
///
/// Takes less than a minute and writes pinnace-demo-vrp.png. As root both cross an emulated link; without, VRP crosses a
/// relay in user space, and TCP, which is the kernel's, is left out.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// Where the figure goes
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Two seconds of each transport instead of six: shows that it works
    #[arg(long)]
    quick: bool,
    /// Do without the emulated link, whatever the privileges: VRP only, over the relay in user space
    #[arg(long)]
    relay: bool,
}

/// Bits a second of the path.
const RATE: &str = "50mbit";
const RTT: Duration = Duration::from_millis(60);
const LOSS: &str = "3%";
/// Pictures a second.
const FPS: u32 = 15;
/// When a picture should be there.
const DEADLINE: Duration = Duration::from_millis(150);
/// What VRP may lose, and in how long a run.
const CONTRACT: [&str; 2] = ["10%", "4packets"];

/// Everything that was found out.
struct Findings {
    /// What lay between.
    path: String,
    /// Of the pictures, when the viewers were looked at.
    moment: Duration,
    pictures: u64,
    shown: Vec<Shown>,
    /// Why there is no TCP.
    without_tcp: Option<String>,
    seconds: f64,
}

/// What one transport brought.
struct Shown {
    name: &'static str,
    result: Result<run::Viewed, String>,
}

/// Where the processes run, and what lies between them.
enum Between {
    Link(Box<Network>),
    Relay { reason: String },
}

impl Between {
    fn new(relay: bool) -> Result<Self, Error> {
        if relay {
            return Ok(Self::Relay { reason: "--relay was asked for".to_owned() });
        }
        let link = format!("rate={RATE},rtt={}ms,loss={LOSS},seed=7", RTT.as_millis());
        let config: wan::Config = link.parse().map_err(Error::failed)?;
        match Network::over(&config) {
            Ok(network) => Ok(Self::Link(Box::new(network))),
            Err(error) if error.exit == Exit::Interrupted => Err(error),
            Err(error) => Ok(Self::Relay { reason: error.message }),
        }
    }

    fn text(&self) -> String {
        let rtt = RTT.as_millis();
        let how = match self {
            Self::Link(_) => "an emulated link",
            Self::Relay { .. } => "a relay in user space",
        };
        format!("{how}: 50 Mbit/s, {rtt} ms round trip, {} loss each way", LOSS.replace('%', " %"))
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    interrupt::install();
    let begin = Instant::now();
    std::fs::create_dir_all(&args.out)
        .map_err(|error| Error::io(format!("cannot make {}", args.out.display()), &error))?;
    let png = args.out.join("pinnace-demo-vrp.png");
    picture::check(&png)?;
    // Dropped last, when no process uses it any more.
    let folder = tempfile::Builder::new()
        .prefix("pinnace-demo-")
        .tempdir()
        .map_err(|error| Error::io("cannot make a temporary folder", &error))?;
    let between = Between::new(args.relay)?;
    let transports: &[(&str, &str)] = match &between {
        Between::Link(_) => &[("VRP", "vrp"), ("TCP cubic", "tcp-cubic"), ("TCP bbr", "tcp-bbr")],
        Between::Relay { .. } => &[("VRP", "vrp")],
    };
    let pictures = if args.quick { 30 } else { 90 };
    step(1, transports.len(), &format!("paint {pictures} pictures of {} bytes", movie::BYTES));
    movie::shoot(&folder.path().join("movie"), pictures)?;
    let mut shown = Vec::new();
    for (index, &(name, over)) in transports.iter().enumerate() {
        step(index + 2, transports.len(), &format!("{FPS} pictures a second by {name}, over {}", between.text()));
        let result = run::view(folder.path(), over, &between);
        interrupt::check()?;
        shown.push(Shown { name, result: result.map_err(|error| error.message) });
    }
    let findings = Findings {
        path: between.text(),
        moment: Duration::from_secs(pictures / u64::from(FPS)) * 5 / 6,
        pictures,
        shown,
        without_tcp: match &between {
            Between::Link(_) => None,
            Between::Relay { reason } => Some(reason.clone()),
        },
        seconds: begin.elapsed().as_secs_f64(),
    };
    drop(between);

    let figure = figure::Overview::new(&findings)?;
    picture::png(&figure, &png)
        .map_err(|error| Error::failed(format!("cannot write {}: {error}; choose another --out", png.display())))?;
    report::print(&findings, &png, output);
    match findings.shown.iter().find_map(|shown| shown.result.as_ref().err().map(|error| (shown.name, error))) {
        Some((name, error)) => Err(Error::failed(format!("{name} brought nothing: {error}"))),
        None => Ok(()),
    }
}

/// Says what happens now.
fn step(number: usize, transports: usize, what: &str) {
    let _ = writeln!(std::io::stderr(), "[{number}/{}] {what}", transports + 1);
}

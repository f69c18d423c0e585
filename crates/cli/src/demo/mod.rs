//! `pinnace demo`: the main job, shown in under a minute. `pinnace demo vrp` shows what loss by contract is for,
//! `pinnace demo a1` what qualities of service are.
//!
//! Two processes carry real files over loopback, `pinnace perf` compares with TCP, and the simulator shows a path that
//! loses datagrams; then a table, and a picture.
//!
//! Always true: it needs no privileges and no arguments; every number was measured in this run; when it ends, however it
//! ends (Ctrl-C too), its temporary files and its processes are gone.

mod a1;
mod child;
mod figure;
mod files;
mod lossy;
mod relay;
mod report;
mod throughput;
mod vrp;

use crate::exit::Error;
use crate::output::Output;
use crate::{interrupt, picture};
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

/// Show what Pinnace does: real files over loopback, TCP beside it, a path with loss; a table and a picture
///
/// Takes less than a minute, needs no privileges, and cleans up after itself. Writes pinnace-demo.svg and
/// pinnace-demo.png.
#[derive(clap::Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    other: Option<Other>,
    /// Where the pictures go
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Do little of everything, in a few seconds: shows that it works, says nothing about speed
    #[arg(long)]
    quick: bool,
}

/// Other things to show.
#[derive(clap::Subcommand, Clone, Debug)]
enum Other {
    Vrp(vrp::Args),
    A1(a1::Args),
}

/// Everything that was measured.
#[derive(Debug)]
struct Findings {
    quick: bool,
    files: files::Carried,
    /// Empty if `perf` could not measure; then this is why.
    throughput: Result<Vec<throughput::Row>, String>,
    lossy: Vec<lossy::Path>,
    seconds: f64,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    match &args.other {
        Some(Other::Vrp(args)) => return vrp::run(args, output),
        Some(Other::A1(args)) => return a1::run(args, output),
        None => {}
    }
    interrupt::install();
    let begin = Instant::now();
    std::fs::create_dir_all(&args.out)
        .map_err(|error| Error::io(format!("cannot make {}", args.out.display()), &error))?;
    let (svg, png) = (args.out.join("pinnace-demo.svg"), args.out.join("pinnace-demo.png"));
    [&svg, &png].into_iter().try_for_each(|path| picture::check(path))?;
    // Dropped last, when no process uses it any more.
    let folder = tempfile::Builder::new()
        .prefix("pinnace-demo-")
        .tempdir()
        .map_err(|error| Error::io("cannot make a temporary folder", &error))?;

    step(1, "real files over loopback, from one process to another");
    let files = files::carry(folder.path(), args.quick)?;
    step(2, "messages of many sizes over loopback, Pinnace and TCP in turn");
    let throughput = throughput::measure(folder.path(), args.quick);
    interrupt::check()?;
    step(3, "the simulated path: 100 Mbit/s, 60 ms round trip, 0, 1 and 5 % loss");
    let lossy = lossy::simulate(args.quick)?;
    let findings = Findings { quick: args.quick, files, throughput, lossy, seconds: begin.elapsed().as_secs_f64() };

    let figure = figure::Overview { findings: &findings };
    picture::svg(&figure, &svg).and_then(|()| picture::png(&figure, &png)).map_err(|error| {
        Error::failed(format!("cannot write the pictures to {}: {error}; choose another --out", args.out.display()))
    })?;
    report::print(&findings, &svg, &png, output);
    match (&findings.throughput, findings.lossy.iter().all(|path| path.complete)) {
        (_, false) => {
            Err(Error::not_verified("a simulated transfer did not complete, which is a defect: see the table"))
        }
        (Err(error), true) => Err(Error::failed(format!("the comparison with TCP failed: {error}"))),
        (Ok(_), true) => Ok(()),
    }
}

/// Says what happens now.
fn step(number: u32, what: &str) {
    let _ = writeln!(std::io::stderr(), "[{number}/3] {what}");
}

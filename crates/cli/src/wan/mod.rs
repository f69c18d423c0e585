//! `pinnace wan`: a command between the two ends of an emulated link.
//!
//! Two network namespaces are joined by a link emulator in this process: a TUN device in each, and between them a rate, a
//! queue, a delay and losses as asked ([`Config`]). The kernel's TCP and any other program go through the very same link.
//!
//! Always true: however this ends, the namespaces and whatever still runs in them are gone soon after ([`Network`]).

mod config;
mod device;
mod direction;
mod emulator;
mod link;
mod report;
mod segment;

use crate::exit::Error;
use crate::interrupt;
use crate::output::Output;
use crate::perf::Network;
use clap::Parser;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

pub(crate) use config::Config;
pub(crate) use device::{dropped, open};
pub(crate) use emulator::Emulator;
pub(crate) use link::{Fate, Line as DelayLine, Link};
pub(crate) use report::Report;

const EXAMPLES: &str = "\
The command runs at the near end. It and the command of --far find in their environment:
  PINNACE_NEAR, PINNACE_FAR        the addresses of the ends (10.77.0.1 and 10.77.0.2)
  PINNACE_NEAR_NS, PINNACE_FAR_NS  their network namespaces, for `ip netns exec`

Examples:
  sudo pinnace wan --rate 100mbit --rtt 60ms --loss 1% -- ping -c 5 10.77.0.2
  sudo pinnace wan --rtt 60ms -- sh -c 'ping -c 5 $PINNACE_FAR'     single quotes: expanded inside
  sudo pinnace wan --rate 1gbit --rtt 150ms --loss 0.1% --far 'iperf3 -s' -- iperf3 -c 10.77.0.2
  sudo pinnace wan --rate 100mbit --rtt 60ms -- sh                  a shell at the near end

The exit code is that of the command (128 and the signal if one ended it).";

/// Run a command over an emulated link: two network namespaces with a rate, a delay and losses between them (needs root)
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    settings: config::Settings,
    /// A shell command to run at the far end meanwhile; the other starts when it listens, or after a second. It has a
    /// second to end behind the other, and is ended then
    #[arg(long, value_name = "COMMAND", help_heading = "Options")]
    far: Option<String>,
    /// The command to run at the near end
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// How often to look whether the command has ended.
const STEP: Duration = Duration::from_millis(10);
/// For the far end to listen.
const OPENING: Duration = Duration::from_secs(1);
/// For a command to end by itself after Ctrl-C, which it has got too.
const GRACE: Duration = Duration::from_millis(500);
/// For the command at the far end to end by itself, which may still write what it has learnt of the end.
const FAREWELL: Duration = Duration::from_secs(1);
/// For a command to end after it was asked to.
const PATIENCE: Duration = Duration::from_secs(3);

/// The last line of `--json`.
#[derive(Debug, Serialize)]
struct Line {
    event: &'static str,
    network: String,
    exit: u8,
    #[serde(flatten)]
    report: Report,
}

/// Runs `pinnace wan`; returns how the command ended.
pub(crate) fn run(args: &Args, output: &Output) -> Result<ExitCode, Error> {
    let config = args.settings.config().map_err(Error::usage)?;
    interrupt::install();
    if let Some(code) = crate::run::missing(&args.command[0], output) {
        return Ok(code);
    }
    let mut network = Network::over(&config)?;
    let far = args.far.as_deref().map(|command| start_far(&network, command)).transpose()?;
    let status = run_near(&network, &args.command)?;
    if let Some(mut far) = far {
        wait(&mut far, FAREWELL);
        end(&mut far, true);
    }
    let exit_code = code(status);
    if let Some(report) = network.finish_emulator() {
        let report = report.map_err(Error::failed)?;
        let text = format!("# link {config}\n{}", report.lines().join("\n"));
        output.result(text, &Line { event: "done", network: config.to_string(), exit: exit_code, report });
    }
    Ok(ExitCode::from(exit_code))
}

/// As shells have it.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn environment(network: &Network, command: &mut Command) {
    command.env("PINNACE_NEAR", network.near_address.to_string());
    command.env("PINNACE_FAR", network.address.to_string());
    command.env("PINNACE_NEAR_NS", network.near.namespace().unwrap_or_default());
    command.env("PINNACE_FAR_NS", network.far.namespace().unwrap_or_default());
}

fn run_near(network: &Network, words: &[OsString]) -> Result<ExitStatus, Error> {
    let (program, arguments) = words.split_first().ok_or_else(|| Error::usage("no command to run"))?;
    let mut command = network.near.enter(program);
    environment(network, command.args(arguments));
    let mut child = command.spawn().map_err(|error| Error::io("cannot run ip", &error))?;
    let failed = |error: io::Error| Error::io("cannot wait for the command", &error);
    let mut interrupted: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            return Ok(status);
        }
        if interrupt::requested() && interrupted.get_or_insert_with(Instant::now).elapsed() > GRACE {
            end(&mut child, false);
        }
        sleep(STEP);
    }
}

/// Starts a command at the far end, and waits until it listens, has ended well, or has had its time.
fn start_far(network: &Network, text: &str) -> Result<Child, Error> {
    let mut command = network.far.enter("sh");
    command.args([OsStr::new("-c"), OsStr::new(text)]);
    environment(network, &mut command);
    // Its own group, so that all of it can be ended; the keyboard is for the other command.
    command.process_group(0).stdin(Stdio::null());
    let mut child = command.spawn().map_err(|error| Error::io("cannot run ip", &error))?;
    let start = Instant::now();
    while start.elapsed() < OPENING && !listens(child.id()) {
        interrupt::check()?;
        match child.try_wait() {
            Ok(Some(status)) if status.success() => break,
            Ok(Some(status)) => return Err(Error::failed(format!("the command at the far end ended with {status}"))),
            _ => sleep(STEP),
        }
    }
    Ok(child)
}

/// Whether anything waits for TCP or UDP in the network namespace of a process.
fn listens(process: u32) -> bool {
    // Its program may still be `ip`, outside the namespace: but then nothing has its own namespace yet.
    let own = std::fs::read_link("/proc/self/ns/net").ok();
    if std::fs::read_link(format!("/proc/{process}/ns/net")).ok() == own {
        return false;
    }
    ["tcp", "tcp6", "udp", "udp6"].iter().any(|table| {
        let text = std::fs::read_to_string(format!("/proc/{process}/net/{table}")).unwrap_or_default();
        text.lines().nth(1).is_some()
    })
}

/// Asks a process, or its whole group, to end, and kills it if it does not.
fn end(child: &mut Child, group: bool) {
    let Some(process) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else { return };
    for (signal, patience) in [(Signal::TERM, PATIENCE), (Signal::KILL, PATIENCE)] {
        if let Ok(Some(_)) = child.try_wait() {
            return;
        }
        let _ = if group { kill_process_group(process, signal) } else { kill_process(process, signal) };
        wait(child, patience);
    }
}

/// Waits so long at most for a process to end.
fn wait(child: &mut Child, patience: Duration) {
    let start = Instant::now();
    while start.elapsed() < patience && matches!(child.try_wait(), Ok(None)) {
        sleep(STEP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_shells() {
        assert_eq!(code(ExitStatus::from_raw(0)), 0);
        assert_eq!(code(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(code(ExitStatus::from_raw(2)), 130);
    }
}

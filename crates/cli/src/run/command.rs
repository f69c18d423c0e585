//! The command, while it runs: its environment, its signals, its end.
//!
//! Always true: a signal that was sent to this process goes on to the command; one that a terminal sent went to both anyway.
//! A signal that whoever started this ignores is ignored by both.

use super::companion::Companion;
use super::{Args, inherited};
use crate::exit::Error;
use crate::thread;
use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::emulate_default_handler;
use signal_hook::low_level::siginfo::{Cause, Origin};
use std::env;
use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};

/// What is run, and how.
pub(super) struct Setting<'a> {
    pub(super) library: &'a Path,
    pub(super) program: &'a Path,
    pub(super) companion: Option<Companion>,
    pub(super) args: &'a Args,
    pub(super) verbose: bool,
}

/// Those that somebody may send in order to reach the command.
const PASSED_ON: [i32; 7] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH];

pub(super) fn run(setting: Setting<'_>) -> Result<ExitCode, Error> {
    let words = &setting.args.command;
    let mut command = Command::new(setting.program);
    command.arg0(&words[0]).args(&words[1..]).env("LD_PRELOAD", preloaded(setting.library));
    environment(&setting, &mut command);
    inherited::keep_ignored(&mut command);
    // Before the command is there: none shall end this process and leave the command behind.
    let watched = PASSED_ON.into_iter().filter(|&signal| !inherited::is_ignored(signal));
    let mut signals =
        SignalsInfo::<WithOrigin>::new(watched).map_err(|error| Error::io("cannot watch for signals", &error))?;
    let mut child =
        command.spawn().map_err(|error| Error::io(format_args!("cannot run {}", setting.program.display()), &error))?;
    let process = Pid::from_child(&child);
    let handle = signals.handle();
    let forwarder = thread::start(move || {
        for origin in &mut signals {
            if let Some(signal) = Signal::from_named_raw(origin.signal).filter(|_| is_meant_for_us(&origin)) {
                let _ = kill_process(process, signal);
            }
        }
    });
    let forwarder = match forwarder {
        Ok(forwarder) => forwarder,
        Err(error) => {
            // No signal would reach it.
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
    };
    // Its number is nobody else's until its end is taken, which is after nobody sends signals there any more.
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let watched = retry_on_intr(|| waitid(WaitId::Pid(process), ended));
    handle.close();
    let _ = forwarder.join();
    let status = watched.map_err(std::io::Error::from).and_then(|_| child.wait());
    let status = status.map_err(|error| Error::io("cannot wait for the command", &error))?;
    if let Some(companion) = setting.companion {
        companion.leave();
    }
    Ok(end(status))
}

/// A terminal's signals reach every process of its foreground group, so the command has them already.
fn is_meant_for_us(origin: &Origin) -> bool {
    !matches!(origin.cause, Cause::Kernel)
}

/// The list of libraries, ours first; what the user has there stays.
fn preloaded(library: &Path) -> OsString {
    let mut list = library.as_os_str().to_owned();
    if let Some(others) = env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        // A `pinnace run` within another one.
        if others.to_string_lossy().split([':', ' ']).any(|other| Path::new(other) == library) {
            return others;
        }
        list.push(":");
        list.push(others);
    }
    list
}

fn environment(setting: &Setting<'_>, command: &mut Command) {
    if !setting.args.bypass.is_empty() {
        let ours = setting.args.bypass.join(",");
        let list = match env::var("PINNACE_BYPASS") {
            Ok(list) if !list.is_empty() => format!("{list},{ours}"),
            _ => ours,
        };
        command.env("PINNACE_BYPASS", list);
    }
    if setting.args.no_same_host {
        command.env("PINNACE_SAME_HOST", "off");
    }
    match &setting.companion {
        Some(companion) => {
            command.env("PINNACE_COMPANION", &companion.name).env("PINNACE_LIFE", companion.life_inode.to_string())
        }
        None => command.env_remove("PINNACE_COMPANION").env_remove("PINNACE_LIFE"),
    };
    if setting.verbose {
        command.env("PINNACE_VERBOSE", "1");
    }
}

/// Ends as the command did: with its code, or by the signal that ended it, so that a shell sees what it would have seen.
fn end(status: ExitStatus) -> ExitCode {
    if let Some(signal) = status.signal() {
        let code = ExitCode::from((128 + signal) as u8);
        // The first process of a container does not end by signals of its own.
        if rustix::process::getpid().is_init() {
            return code;
        }
        // One core file, the command's, is enough.
        let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
        let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
        let _ = emulate_default_handler(signal);
        return code;
    }
    ExitCode::from(status.code().unwrap_or(1) as u8)
}

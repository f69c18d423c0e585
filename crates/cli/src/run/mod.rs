//! `pinnace run`: a command whose TCP connections go by QMP where the other side speaks it.
//!
//! The preload library does the work ([`library`]); here it is found, the command is looked at ([`program`]), started and
//! waited for ([`command`]) with what it would have inherited ([`inherited`]), and given a process beside it that speaks QMP with other hosts ([`companion`]).
//!
//! Always true: the exit code is the command's.

//= Q-13

mod command;
pub(crate) mod companion;
mod contract;
mod inherited;
mod library;
mod program;

pub(crate) use inherited::is_ignored;

use crate::exit::Error;
use crate::output::Output;
use clap::Parser;
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Programs on one host meet in shared kernel buffers, without a network protocol; those on other hosts by QMP, over the \
UDP port of the same number. A peer that does not speak it is reached by TCP, and the other way round.

Examples:
  pinnace run -- iperf3 -s                              and, at another prompt:
  pinnace run -- iperf3 -c 127.0.0.1
  pinnace -v run -- redis-server --port 6400            says which way each connection goes
  pinnace run --bypass 22,8000-8010 -- ./my-service     these ports are left to TCP

Environment (of the command; all but the first are also read from yours):
  LD_PRELOAD         the library, before what you have there
  PINNACE_BYPASS     as --bypass
  PINNACE_SAME_HOST  off: as --no-same-host
  PINNACE_PRELOAD    where the library is, if not beside this program

Statically linked programs, and such as run as another user (set-user-ID), load no libraries of yours: they are \
refused. The exit code is that of the command (128 and the signal if one ended it, 127 if it is not found, 126 if it \
cannot run).";

/// Run an unmodified TCP program over QMP
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Reach programs on this host by TCP
    #[arg(long)]
    no_same_host: bool,
    /// Do not try QMP with other hosts
    #[arg(long, conflicts_with = "contract")]
    same_host_only: bool,
    /// What the connections to other hosts are to be: window=BYTES, status-every=PACKETS, go-back-n, silence=SECONDS
    #[arg(long, value_name = "TERMS", default_value_t, hide_default_value = true)]
    contract: contract::Contract,
    /// Ports that are left to TCP, and ranges of ports, besides those of PINNACE_BYPASS
    #[arg(long, value_name = "PORTS", value_delimiter = ',', value_parser = ports)]
    bypass: Vec<String>,
    /// The command to run
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// A port, or a range of ports.
fn ports(text: &str) -> Result<String, String> {
    let port = |text: &str| text.trim().parse::<u16>().map_err(|_| format!("{text:?} is not a port"));
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    if port(low)? > port(high)? { Err(format!("{text:?} is an empty range")) } else { Ok(text.trim().to_owned()) }
}

/// The codes of shells.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Says that there is no such command, and how a shell would end then; `None` if there is one.
pub(crate) fn missing(name: &OsStr, output: &Output) -> Option<ExitCode> {
    program::exists(name).err().map(|trouble| as_a_shell(&trouble, output))
}

fn as_a_shell(trouble: &program::Trouble, output: &Output) -> ExitCode {
    let exit = if trouble.is_absence() { NOT_FOUND } else { NOT_EXECUTABLE };
    output.ends_with(exit, trouble);
    exit.into()
}

pub(crate) fn run(args: &Args, output: &Output) -> Result<ExitCode, Error> {
    let library = library::find()?;
    let program = match program::find(&args.command[0]) {
        Ok(program) => program,
        Err(trouble) => return Ok(as_a_shell(&trouble, output)),
    };
    let companion =
        if args.same_host_only { None } else { Some(companion::Companion::start(&args.contract, output.verbose)?) };
    command::run(command::Setting { library: &library, program: &program, companion, args, verbose: output.verbose })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_checked() {
        assert_eq!(ports(" 22").as_deref(), Ok("22"));
        assert_eq!(ports("8000-8010").as_deref(), Ok("8000-8010"));
        for wrong in ["", "x", "70000", "9-8", "1-", "-1", "1-2-3"] {
            assert!(ports(wrong).is_err(), "{wrong}");
        }
    }
}

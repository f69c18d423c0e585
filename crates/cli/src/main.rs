//! `pinnace`: the command.
//!
//! Always true: results go to standard output, everything else (progress, warnings, errors) to standard error; an error is
//! one plain line; the exit code says what kind it was ([`exit::Exit`]). With `--json` standard output has objects and nothing
//! else, one a line, and what happens is among them, errors too; docs/src/json.md has their names.
//!
//! To add a subcommand: a module with `Args` and `run(&Args, &Output) -> Result<(), Error>`, a variant in [`Command`],
//! and an arm in `run` below.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod a1;
mod address;
mod bare;
mod cast;
mod completion;
mod congestion;
mod content;
mod daemon;
mod demo;
mod descriptors;
mod doctor;
mod exit;
mod experiment;
mod explain;
mod files;
mod interrupt;
mod linger;
mod man;
mod mapped;
mod netcat;
mod numbers;
mod output;
mod perf;
mod picture;
mod ping;
mod qbuf;
mod qmp;
mod run;
mod senders;
mod service;
mod sim;
mod stream;
mod thread;
mod top;
mod transport;
mod tune;
mod units;
mod vrp;
mod waiting;
mod wan;
mod xtp;
mod zcrp;

use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use exit::{Error, Exit};
use output::Output;
use std::any::TypeId;
use std::process::ExitCode;
use std::time::Duration;

const COMPLETION: &str = "\
Examples:
  source <(pinnace completion bash)                                          for this shell
  pinnace completion zsh > ~/.zfunc/_pinnace                                 for all of them
  pinnace completion fish > ~/.config/fish/completions/pinnace.fish";

const EXAMPLES: &str = "\
Examples:
  pinnace recv --bind 0.0.0.0:4747 --dir incoming      wait for files
  pinnace send results.bin photos/ 192.0.2.7:4747      send files and folders
  pinnace listen 4747 > video.y4m                      a netcat with contracts: one end
  pinnace connect 'pinnace://192.0.2.7:4747?loss=5%' < video.y4m
  pinnace zcrp listen 127.0.0.1:7001 --count 3         the bare protocol
  pinnace top                                          what all of them do now
  pinnace doctor                                       what this host offers
  source <(pinnace completion bash)                    completion for this shell

Exit codes:
  0    done, and verified where there is something to verify
  1    failed (the line on standard error says what, and what to do)
  2    wrong arguments
  3    the peer is gone, or did not answer in time
  4    what arrived is not what was sent, or was refused as unsafe
  130  interrupted (Ctrl-C)
  141  nobody reads the output any more: the pipe is closed (as after SIGPIPE)

Colours appear on a terminal only; NO_COLOR turns them off.";

/// Messages and files between programs and hosts, over UDP, in place.
#[derive(Debug, Parser)]
#[command(name = "pinnace", version, after_help = EXAMPLES, max_term_width = 100)]
struct Cli {
    /// Print JSON, one object a line: results, what happens, errors; on standard output, of `listen`, `connect` and `run` on
    /// standard error
    #[arg(long, global = true)]
    json: bool,
    /// Say more on standard error
    #[arg(short, long, global = true)]
    verbose: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Send files and folders
    Send(files::send::Args),
    /// Receive files and folders
    Recv(files::receive::Args),
    Listen(netcat::ListenArgs),
    Connect(netcat::ConnectArgs),
    /// Send or receive single messages with the bare ZCRP protocol
    #[command(subcommand)]
    Zcrp(zcrp::Args),
    /// Send or receive a stream of frames at a rate, each of which may lose what its contract allows (VRP)
    #[command(subcommand)]
    Stream(stream::Args),
    /// Send or receive frames with the bare VRP protocol: loss as a contract
    #[command(subcommand)]
    Vrp(vrp::Args),
    /// Send or receive messages with the bare A1 protocol: qualities of service
    #[command(subcommand)]
    A1(a1::Args),
    /// Send or receive with the bare XTP protocol: six services, from a datagram to a stream
    #[command(subcommand)]
    Xtp(xtp::Args),
    /// Send or receive with the bare QMP protocol: a stream of bytes for clusters
    #[command(subcommand)]
    Qmp(qmp::Args),
    /// Say what the buffer pools of this host hold, and who has it
    #[command(subcommand)]
    Qbuf(qbuf::Args),
    Cast(Box<cast::Args>),
    Tune(tune::Args),
    Sim(sim::Args),
    Demo(demo::Args),
    /// Measure throughput and processor time against other transports, interleaved in one run
    Perf(Box<perf::Args>),
    Experiment(experiment::Args),
    Explain(explain::Args),
    /// Measure round trips by message size, against TCP; alone, over the loopback interface
    Ping(Box<ping::Args>),
    Wan(wan::Args),
    Daemon(Box<daemon::Args>),
    Run(run::Args),
    /// The process beside a command of `run`
    #[command(hide = true)]
    RunCompanion(run::companion::Args),
    /// One end of a measurement of `perf` or `ping`
    #[command(hide = true)]
    PerfWorker,
    Top(top::Args),
    /// Say what this host offers, and the commands that improve it
    Doctor(doctor::Args),
    /// Write the manual pages, one a command, into a folder
    Man(man::Args),
    /// Print the completion script of a shell
    #[command(after_help = COMPLETION)]
    Completion {
        /// The shell
        shell: Shell,
    },
}

fn main() -> ExitCode {
    interrupt::outlive_large_files();
    let parsed = signed(Cli::command()).try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return misread(&error),
    };
    let output = Output::new(cli.json, cli.verbose);
    let output = match cli.command {
        Command::Listen(_) | Command::Connect(_) | Command::Run(_) => output.aside(),
        _ => output,
    };
    let ended = match run(&cli.command, &output).map_err(mapped::blamed) {
        // What could not be written is why it ended early.
        Err(error) if !error.is_wanted() => Err(error),
        ended => output::check().and_then(|()| capture()).and_then(|()| mapped::check()).and(ended),
    };
    match ended {
        Ok(code) => code,
        Err(error) if error.exit == Exit::Unread => ExitCode::from(error.exit as u8),
        Err(error) => {
            output.error(&error, None);
            ExitCode::from(error.exit as u8)
        }
    }
}

/// Help, the version, or what is wrong with the arguments.
fn misread(error: &clap::Error) -> ExitCode {
    let is_json = std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json");
    if is_json && error.use_stderr() {
        let text = error.render().to_string();
        let text = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
        // Of the subcommands it lists those too that are for nobody.
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("[subcommands"));
        let text = lines.collect::<Vec<_>>().join(" ");
        let output = Output::new(true, false);
        let command = std::env::args_os().skip(1).find(|word| !word.to_string_lossy().starts_with('-'));
        let is_aside = command.is_some_and(|word| ["listen", "connect", "run"].iter().any(|name| word == *name));
        let output = if is_aside { output.aside() } else { output };
        output.error(&Error::usage(text), None);
    } else {
        let _ = error.print();
    }
    ExitCode::from(error.exit_code() as u8)
}

/// Lets numbers, sizes, rates and times begin with a minus: who reads them says why that cannot be, and clap would take
/// them for options.
fn signed(command: clap::Command) -> clap::Command {
    let is_number = |arg: &Arg| {
        let id = arg.get_value_parser().type_id();
        let numbers = [
            TypeId::of::<u8>(),
            TypeId::of::<u16>(),
            TypeId::of::<u32>(),
            TypeId::of::<u64>(),
            TypeId::of::<usize>(),
            TypeId::of::<f64>(),
            TypeId::of::<Duration>(),
            TypeId::of::<bytesize::ByteSize>(),
        ];
        // Where the value may be missing, what begins with a minus is the next option.
        let is_required = arg.get_num_args().is_none_or(|values| values.min_values() > 0);
        arg.get_long().is_some() && arg.get_action().takes_values() && is_required && numbers.iter().any(|it| id == *it)
    };
    let command = command.mut_args(|arg| if is_number(&arg) { arg.allow_hyphen_values(true) } else { arg });
    command.mut_subcommands(signed)
}

/// Fails if a capture that was asked for is not whole.
fn capture() -> Result<(), Error> {
    let Some((path, error)) = pinnace::incomplete_capture() else { return Ok(()) };
    Err(Error::io(format_args!("cannot write the capture {}", path.display()), error))
}

fn run(command: &Command, output: &Output) -> Result<ExitCode, Error> {
    match command {
        // These end as the command that they run.
        Command::Wan(args) => return wan::run(args, output),
        Command::Run(args) => return run::run(args, output),
        Command::Send(args) => files::send::run(args, output),
        Command::Recv(args) => files::receive::run(args, output),
        Command::Listen(args) => netcat::listen(args, output),
        Command::Connect(args) => netcat::connect(args, output),
        Command::Zcrp(args) => zcrp::run(args, output),
        Command::Stream(args) => stream::run(args, output),
        Command::Vrp(args) => vrp::run(args, output),
        Command::A1(args) => a1::run(args, output),
        Command::Xtp(args) => xtp::run(args, output),
        Command::Qmp(args) => qmp::run(args, output),
        Command::Qbuf(args) => qbuf::run(args, output),
        Command::Cast(args) => cast::run(args, output),
        Command::Tune(args) => tune::run(args, output),
        Command::Sim(args) => sim::run(args, output),
        Command::Demo(args) => demo::run(args, output),
        Command::Perf(args) => perf::run(args, output),
        Command::Experiment(args) => experiment::run(args, output),
        Command::Explain(args) => explain::run(args, output),
        Command::Ping(args) => ping::run(args, output),
        Command::Daemon(args) => daemon::run(args, output),
        Command::RunCompanion(args) => run::companion::serve(args),
        Command::PerfWorker => perf::run_worker(),
        Command::Top(args) => top::run(args, output),
        Command::Doctor(args) => doctor::run(args, output),
        Command::Man(args) => man::run(args, &Cli::command(), output),
        Command::Completion { shell } => {
            let script = completion::script(*shell, &Cli::command());
            if output.json {
                let shell = shell.to_string();
                output.result("", &serde_json::json!({ "event": "done", "shell": shell, "script": script }));
            } else {
                output.write(|out| out.write_all(script.as_bytes()));
            }
            Ok(())
        }
    }
    .map(|()| ExitCode::from(Exit::Done as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }
}

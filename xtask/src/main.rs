//! Developer commands of Pinnace: `cargo xtask <command>`.
//!
//! `test` runs every test, `check` every check that is not a test, `ci` both. `lint` and `trace` are the checks that
//! no ready-made tool does: the rules of ARCHITECTURE.md, and requirement identifiers against the code that fulfils
//! them. `goals` measures what the transports should reach; `install` puts the command and the C library where other
//! programs find them.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line program talks on its standard streams")]

mod ci;
mod floors;
mod fuzz;
mod goals;
mod install;
mod lint;
mod python;
mod source;
mod suite;
mod trace;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Developer commands of Pinnace")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Install what the tests need (as root on Debian; otherwise say what is skipped), then run every test
    Test,
    /// Everything but the tests: formatting, clippy, lint, trace, documentation, the book, dependencies
    Check,
    /// `check`, then `test`
    Ci,
    /// Check the rules of ARCHITECTURE.md that clippy does not know: file size, purity, floors
    Lint,
    /// Check that every requirement of a finished protocol is cited by code and by a test
    Trace {
        /// Write the table docs/src/trace.md
        #[arg(long, conflicts_with = "check")]
        write: bool,
        /// Fail if the table is not up to date
        #[arg(long)]
        check: bool,
    },
    /// Measure the goals of xtask/goals.toml, in some twelve minutes on a machine that does nothing else
    Goals(goals::Options),
    /// Build and install the command, the C library with its headers, manual pages and completions
    Install(install::Options),
}

fn main() -> ExitCode {
    // Not `main() -> Result`: that prints a backtrace with what is a plain list of findings.
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let root = root()?;
    match Cli::parse().command {
        Command::Test => ci::test(&root),
        Command::Check => ci::check(&root),
        Command::Ci => ci::check(&root).and_then(|()| ci::test(&root)),
        Command::Lint => lint::run(&root),
        Command::Trace { write: true, .. } => trace::run(&root, trace::Table::Write),
        Command::Trace { check: true, .. } => trace::run(&root, trace::Table::Exact),
        Command::Goals(options) => goals::run(&root, &options),
        Command::Install(options) => install::run(&root, &options),
        Command::Trace { .. } => trace::run(&root, trace::Table::Report),
    }
}

/// The folder of the workspace, wherever in it the command was called.
fn root() -> Result<PathBuf> {
    let xtask = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    Ok(xtask.parent().context("xtask lies inside the workspace")?.to_path_buf())
}

//! `pinnace doctor`: what this host offers, and the command that improves each.
//!
//! Always true: it changes nothing, needs no privileges, and ends well whatever it finds.

mod checks;

use crate::exit::Error;
use crate::output::Output;
use serde::Serialize;
use std::fmt::Write as _;
use std::io::IsTerminal as _;

const ABOUT: &str = "\
Verdicts:
  good   as it should be
  could  works, and could be faster
  bad    costs much
  note   for information

Root is needed by `wan`, `perf --wan`, `perf --path veth...` and most of `experiment`; CAP_NET_RAW by `--link ip36` and \
`--link ether`. Nothing else needs privileges.

The commands change the running system; docs/src/operations.md says how to keep the changes over a restart.";

/// Arguments of `pinnace doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = ABOUT)]
pub(crate) struct Args {}

/// What was found about one thing.
#[derive(Debug, Serialize)]
struct Check {
    event: &'static str,
    check: &'static str,
    found: String,
    verdict: Verdict,
    /// What improves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Good,
    Could,
    Bad,
    Note,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Could => "could",
            Self::Bad => "bad",
            Self::Note => "note",
        }
    }

    /// ANSI colour.
    fn colour(self) -> &'static str {
        match self {
            Self::Good => "32",
            Self::Could => "33",
            Self::Bad => "31",
            Self::Note => "2",
        }
    }
}

impl Check {
    fn new(check: &'static str, found: impl Into<String>, verdict: Verdict) -> Self {
        Self { event: "check", check, found: found.into(), verdict, command: None }
    }

    fn command(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }
}

/// Runs `pinnace doctor`.
pub(crate) fn run(_args: &Args, output: &Output) -> Result<(), Error> {
    let checks = checks::all();
    if output.json {
        checks.iter().for_each(|check| output.result("", check));
        return Ok(());
    }
    let coloured = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    output.result(table(&checks, coloured).trim_end(), &());
    Ok(())
}

fn table(checks: &[Check], coloured: bool) -> String {
    let width = |column: fn(&Check) -> usize| checks.iter().map(column).max().unwrap_or(0);
    let (name, found) = (width(|check| check.check.len()), width(|check| check.found.chars().count()));
    let mut text = format!("{:name$}  {:found$}  VERDICT  COMMAND\n", "CHECK", "FOUND");
    for check in checks {
        let padded = format!("{:7}", check.verdict.word());
        let verdict = match coloured {
            true => format!("\x1b[{}m{padded}\x1b[0m", check.verdict.colour()),
            false => padded,
        };
        let command = check.command.as_deref().unwrap_or("");
        let line = format!("{:name$}  {:found$}  {verdict}  {command}", check.check, check.found);
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_that_is_not_good_says_what_to_do() {
        let checks = checks::all();
        assert!(checks.len() >= 12, "{checks:?}");
        for check in &checks {
            let needs = matches!(check.verdict, Verdict::Could | Verdict::Bad);
            assert!(!needs || check.command.is_some(), "{check:?}");
        }
        let table = table(&checks, false);
        assert_eq!(table.lines().count(), checks.len() + 1);
        assert!(!table.contains('\x1b'));
    }
}

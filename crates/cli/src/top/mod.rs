//! `pinnace top`: what every Pinnace process of this host does, from the counters files.
//!
//! Always true: it only reads; a rate is what happened between two looks at the same row, divided by the time between them;
//! on a terminal the table is drawn in place, elsewhere it is printed again and again, for as long as somebody reads it.

mod columns;
mod screen;
mod table;

use crate::bare;
use crate::exit::Error;
use crate::interrupt;
use crate::output::{self, Output};
use pinnace::counters;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use screen::{Key, Screen};
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};
use table::{Snapshot, Table};

pub(crate) use table::Order;

const EXAMPLES: &str = "\
Examples:
  pinnace top                          a live table; q ends it
  pinnace top --sort loss --every 5s
  pinnace top --once --json            one look, an object a row, for programs

Keys: q quit; r s p c l t sort by rate, service, process, protocol, loss, time; space looks again at once.

A process is seen if it runs for the same user; root sees those of all users. Bytes of a connection are those of its \
messages; of a socket, those of its datagrams. PINNACE_COUNTERS=off in the environment of a process hides it, and a \
path there is another directory.";

/// Show the sockets and connections of every Pinnace process on this host, live: rates, losses, contracts
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Look once more after one interval, print, and end
    #[arg(long)]
    once: bool,
    /// The time between two looks, over which rates are counted
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    every: Duration,
    /// What comes first
    #[arg(long, value_enum, default_value_t)]
    sort: Order,
    /// Only this process
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Sockets as well that belong to a connection that is shown
    #[arg(long)]
    sockets: bool,
}

/// `1s`, `250ms`, or a number of seconds.
fn interval(text: &str) -> Result<Duration, String> {
    let interval = crate::units::duration(text).or_else(|_| bare::seconds(text))?;
    if (Duration::from_millis(50)..=Duration::from_secs(3600)).contains(&interval) {
        Ok(interval)
    } else {
        Err("must lie between 50ms and 1h".to_owned())
    }
}

impl Args {
    fn look(&self) -> Snapshot {
        let mut processes = counters::processes();
        processes.retain(|process| self.pid.is_none_or(|pid| process.pid == pid));
        Snapshot { at: Instant::now(), processes }
    }

    fn table(&self, before: &Snapshot, after: &Snapshot, order: Order) -> Table {
        let mut table = Table::new(before, after, order, self.sockets);
        if let Some(pid) = self.pid {
            table.nobody = match (after.processes.is_empty(), is_there(pid)) {
                (false, _) => format!("process {pid} has no connections now"),
                // Its file may be another user's, or in another folder.
                (true, true) => format!("process {pid} does not use Pinnace now, as far as can be seen from here"),
                (true, false) => format!("process {pid} has ended"),
            };
        }
        table
    }
}

/// Whether there is such a process, whoever's it is.
fn is_there(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// Runs `pinnace top`.
pub(crate) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    interrupt::install();
    if counters::directory().is_none() {
        return Err(Error::failed(format!("{} is `off`: there is nothing to look at", counters::ENVIRONMENT)));
    }
    let mut before = args.look();
    if let Some(pid) = args.pid
        && before.processes.is_empty()
        && !is_there(pid)
    {
        return Err(Error::failed(format!(
            "there is no process {pid}: `pinnace top` without --pid shows which there are"
        )));
    }
    let mut is_told = false;
    if io::stdout().is_terminal() && !args.once && !output.json {
        return live(args, before);
    }
    loop {
        if !pause(args.every)? {
            return Ok(());
        }
        let after = args.look();
        let table = args.table(&before, &after, args.sort);
        if output.json {
            table.rows.iter().for_each(|row| output.result("", row));
            // Who asks for one process, and gets nothing, hears why.
            if table.rows.is_empty() && args.pid.is_some() && !std::mem::replace(&mut is_told, true) {
                output.warn(&table.nobody);
            }
        } else {
            output.result(table.text(None), &());
        }
        if args.once {
            return Ok(());
        }
        before = after;
    }
}

/// Waits, and is interrupted by Ctrl-C; `false` if nobody reads any more.
fn pause(time: Duration) -> Result<bool, Error> {
    let until = Instant::now() + time;
    loop {
        interrupt::check()?;
        if output::is_unread() {
            return Ok(false);
        }
        let rest = until.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return Ok(true);
        }
        std::thread::sleep(rest.min(interrupt::LOOK));
    }
}

/// Draws in place until somebody has seen enough.
fn live(args: &Args, mut before: Snapshot) -> Result<(), Error> {
    let mut screen = Screen::new();
    let (mut order, mut after) = (args.sort, args.look());
    loop {
        screen.draw(&args.table(&before, &after, order).text(Some(screen.size())));
        let until = Instant::now() + args.every;
        loop {
            interrupt::check()?;
            match screen.key(until.min(Instant::now() + interrupt::LOOK)) {
                Some(Key::Quit) => return Ok(()),
                Some(Key::Look) => break,
                Some(Key::Sort(by)) => {
                    order = by;
                    screen.draw(&args.table(&before, &after, order).text(Some(screen.size())));
                }
                None if until <= Instant::now() => break,
                None => {}
            }
        }
        before = std::mem::replace(&mut after, args.look());
    }
}

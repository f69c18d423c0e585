//! What C calls by a handle.
//!
//! A handle looks like a pointer, so that the compiler tells one kind from another, and is a number. Always true: a number is
//! given once, also across `fork`, whose child starts with no handles; no lock is held while something is closed, or while
//! C's code runs; what was sent on connections that are open when the process exits has [`AT_EXIT`] to arrive.

use super::completion::{Callbacks, Ticket};
use super::line::{Door, Line};
use super::receiving::Held;
use crate::errors::{self, Failure};
use crate::kept::{Kept, Numbers, Place, Table, lock};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long the exit of the process waits, for all connections together.
const AT_EXIT: Duration = Duration::from_secs(1);

/// How long a connection that was closed still answers.
const FAREWELL: Duration = Duration::from_secs(1);
/// The most connections that do.
const MOST_FAREWELLS: usize = 64;

/// All of a process.
#[derive(Debug, Default)]
pub(super) struct Handles {
    endpoints: Table<Arc<pinnace::Endpoint>>,
    doors: Table<Arc<Door>>,
    lines: Table<Arc<Line>>,
    tickets: Table<Arc<Ticket>>,
    held: Table<Arc<Held>>,
    callbacks: Callbacks,
    /// Connections that were closed, and when: for a while they still answer what the peer says at its own end.
    farewells: Mutex<Farewells>,
    /// Connections that are there when the process exits. They are not dropped, which may wait; and whoever looks for leaks
    /// finds them here.
    at_exit: Mutex<Vec<Arc<Line>>>,
}

/// Connections that were closed, and when; and whether a thread forgets them in time.
#[derive(Debug, Default)]
struct Farewells {
    lines: VecDeque<(Instant, Arc<Line>)>,
    has_thread: bool,
}

/// Something with a handle.
pub(super) trait Kind: Sized {
    /// As people call it.
    const NAME: &'static str;

    fn table(handles: &Handles) -> &Table<Arc<Self>>;
}

macro_rules! kinds {
    ($($kind:ty, $name:literal, $table:ident;)*) => {
        $(impl Kind for $kind {
            const NAME: &'static str = $name;

            fn table(handles: &Handles) -> &Table<Arc<Self>> {
                &handles.$table
            }
        })*
    };
}

kinds! {
    pinnace::Endpoint, "endpoint", endpoints;
    Door, "listener", doors;
    Line, "connection", lines;
    Ticket, "delivery", tickets;
    Held, "message", held;
}

/// Numbers look like addresses that nothing has: small, and aligned.
static NUMBERS: Numbers = Numbers::new(16);

impl Kept for Handles {
    const AT_EXIT: fn(&'static Self) = Self::end;

    fn place() -> &'static Place<Self> {
        static PLACE: Place<Handles> = Place::new();
        &PLACE
    }
}

/// Those of this process.
pub(super) fn current() -> &'static Handles {
    Handles::current()
}

impl Handles {
    /// Takes one in; its number.
    pub(super) fn add<K: Kind>(&self, it: Arc<K>) -> Result<usize, Failure> {
        let number = NUMBERS.give(usize::MAX).ok_or_else(|| Failure::new(libc::EMFILE, "there are no more handles"))?;
        K::table(self).insert(number, it);
        Ok(number)
    }

    /// What has this number.
    pub(super) fn find<K: Kind>(&self, number: usize) -> Result<Arc<K>, Failure> {
        K::table(self).find(number).ok_or_else(|| missing::<K>(number))
    }

    /// Whether something has this number.
    pub(super) fn has<K: Kind>(&self, number: usize) -> bool {
        number != 0 && K::table(self).find(number).is_some()
    }

    /// What has this number, which nobody finds any more.
    pub(super) fn remove<K: Kind>(&self, number: usize) -> Result<Arc<K>, Failure> {
        K::table(self).remove(number).ok_or_else(|| missing::<K>(number))
    }

    /// Keeps a connection that was closed for a while, and forgets those that were long enough.
    pub(super) fn part(&'static self, line: Arc<Line>) {
        let mut farewells = lock(&self.farewells);
        farewells.lines.push_back((Instant::now(), line));
        let over = if farewells.lines.len() > MOST_FAREWELLS { farewells.lines.pop_front() } else { None };
        if !farewells.has_thread {
            let thread = std::thread::Builder::new().name("pinnace-farewell".into());
            // Without a thread they are forgotten when there are too many.
            farewells.has_thread = thread.spawn(|| self.forget_farewells()).is_ok();
        }
        drop(farewells);
        // With no lock held: it may take its time.
        drop(over);
    }

    /// Forgets each connection that was closed in its time, as long as there are any.
    fn forget_farewells(&self) {
        loop {
            let mut farewells = lock(&self.farewells);
            let Some((since, _)) = farewells.lines.front() else {
                farewells.has_thread = false;
                return;
            };
            let left = FAREWELL.saturating_sub(since.elapsed());
            let over = if left.is_zero() { farewells.lines.pop_front() } else { None };
            drop(farewells);
            drop(over);
            std::thread::sleep(left);
        }
    }

    /// Who calls C back.
    pub(super) fn callbacks(&self) -> &Callbacks {
        &self.callbacks
    }

    fn end(&self) {
        self.callbacks.end();
        let parted = std::mem::take(&mut lock(&self.farewells).lines);
        lock(&self.at_exit).extend(parted.into_iter().map(|(_, line)| line));
        let deadline = Instant::now() + AT_EXIT;
        let lines: Vec<_> = self.lines.take_all().into_values().collect();
        // All of them end at once, and one whose peer is gone takes no time from the others.
        lines.iter().for_each(|line| line.begin_close());
        // There is nobody to be told, and what waits in other threads ends with them.
        let left = || deadline.saturating_duration_since(Instant::now());
        let unfinished: Vec<_> = lines.iter().filter(|line| line.shutdown(left()).is_err()).collect();
        let farewells_end = Instant::now() + AT_EXIT;
        unfinished.into_iter().take_while(|_| Instant::now() < farewells_end).for_each(|line| line.abort());
        lock(&self.at_exit).extend(lines);
    }
}

/// There was one, or never.
fn missing<K: Kind>(number: usize) -> Failure {
    let name = K::NAME;
    if number == 0 {
        // What made the handle has failed, and said why: that is what is worth knowing.
        let before = errors::last_text();
        let before = before.split_once(BEFORE).map_or(before.as_str(), |(_, before)| before);
        let text = format!("the {name} is NULL");
        return Failure::new(libc::EINVAL, if before.is_empty() { text } else { format!("{text}{BEFORE}{before}") });
    }
    if NUMBERS.has_given(number) {
        return Failure::new(libc::EBADF, format!("this {name} was closed or freed, or is none"));
    }
    Failure::new(libc::EBADF, format!("this is no {name}"))
}

/// Between what fails now and what has failed before.
const BEFORE: &str = "; what failed before: ";

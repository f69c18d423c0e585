//! Where words go: results to standard output (text, or JSON one object a line), the rest to standard error.

use crate::exit::Error;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use std::fmt;
use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Why a result could not be written; nothing is written after it.
static UNWRITTEN: OnceLock<String> = OnceLock::new();

/// Fails if a result could not be written: whoever waits for it must not take the rest for all.
pub(crate) fn check() -> Result<(), Error> {
    UNWRITTEN.get().map_or(Ok(()), |why| Err(Error::failed(why.as_str())))
}

/// Whether nobody will ever read standard output: the other end of the pipe is closed. Whoever does nothing but print until
/// Ctrl-C looks, as others may go on without a reader.
pub(crate) fn is_unread() -> bool {
    let out = io::stdout();
    let mut polled = [PollFd::new(&out, PollFlags::empty())];
    // An error or a hang-up is reported whatever is asked for.
    poll(&mut polled, Some(&Timespec::default())).is_ok()
        && polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// The command does nothing but print what comes.
static ONLY_PRINTS: AtomicBool = AtomicBool::new(false);
static ABANDONED: AtomicBool = AtomicBool::new(false);
/// Milliseconds between two looks whether anybody reads.
const GLANCE: u64 = 20;

/// From now on the command does nothing but print what comes: without a reader it has to end.
pub(crate) fn only_prints() {
    ONLY_PRINTS.store(true, Ordering::Relaxed);
}

/// Whether the command does nothing but print, and nobody reads that any more. Cheap enough for every message.
pub(crate) fn is_abandoned() -> bool {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    static LOOKED: AtomicU64 = AtomicU64::new(0);
    if !ONLY_PRINTS.load(Ordering::Relaxed) {
        return false;
    }
    let now = BEGUN.get_or_init(Instant::now).elapsed().as_millis() as u64 + GLANCE;
    if !ABANDONED.load(Ordering::Relaxed) && now >= LOOKED.load(Ordering::Relaxed) + GLANCE {
        LOOKED.store(now, Ordering::Relaxed);
        ABANDONED.store(is_unread(), Ordering::Relaxed);
    }
    ABANDONED.load(Ordering::Relaxed)
}

/// What the user wants to see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
    pub(crate) verbose: bool,
    /// Standard output is for something else: objects go to standard error.
    is_aside: bool,
}

/// A failure as an object.
#[derive(Serialize)]
struct Failed<'a> {
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    sender: Option<u64>,
    error: &'a str,
    exit: u8,
}

impl Output {
    pub(crate) fn new(json: bool, verbose: bool) -> Self {
        Self { json, verbose, is_aside: false }
    }

    /// The same for a command whose standard output is that of a peer, or of another program.
    pub(crate) fn aside(self) -> Self {
        Self { is_aside: true, ..self }
    }

    /// One result: `text` for people, `object` with `--json`. A reader that has gone away is no failure; what else keeps it
    /// from being written ends the command, at the next [`crate::interrupt::check`] or at its end.
    pub(crate) fn result(&self, text: impl fmt::Display, object: &impl Serialize) {
        self.write(|out| {
            if self.json {
                // Whole, or not at all.
                let mut line = serde_json::to_vec(object).map_err(io::Error::from)?;
                line.push(b'\n');
                out.write_all(&line)
            } else {
                writeln!(out, "{text}")
            }
        });
    }

    /// Something that happens: a line on standard error for people, and an object for programs.
    pub(crate) fn event(&self, text: impl fmt::Display, object: &impl Serialize) {
        if self.json { self.result("", object) } else { self.warn(text) }
    }

    /// A result that has a form of its own.
    pub(crate) fn write(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        if check().is_err() {
            return;
        }
        let mut out = io::stdout().lock();
        if let Err(error) = write(&mut out).and_then(|()| out.flush())
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            let _ = UNWRITTEN.set(Error::io("cannot write to standard output", &error).message);
        }
    }

    /// The last line of a command that prints one for each message where `--verbose` asks for it: standard output has those
    /// then, and nothing else.
    pub(crate) fn last(&self, text: impl fmt::Display, object: &impl Serialize) {
        if self.json || !self.verbose {
            self.result(text, object);
        } else {
            self.note(text);
        }
    }

    /// A line on standard error that matters.
    pub(crate) fn warn(&self, text: impl fmt::Display) {
        // What peers and files are called may be part of it, which no terminal shall obey.
        let text = text.to_string().replace(|it: char| it.is_control() && it != '\n', " ");
        let _ = writeln!(io::stderr(), "pinnace: {text}");
    }

    /// A line on standard error for those who asked.
    pub(crate) fn note(&self, text: impl fmt::Display) {
        if self.verbose {
            self.warn(text);
        }
    }

    /// The last line of a command that failed, or what failed with the n-th sender. Nothing of a sender if results cannot be written:
    /// the command ends with that.
    pub(crate) fn error(&self, error: &Error, sender: Option<u64>) {
        if sender.is_some() && check().is_err() {
            return;
        }
        match sender {
            Some(number) => self.failure(error.exit as u8, sender, error, format_args!("sender {number}: {error}")),
            None => self.failure(error.exit as u8, sender, error, error),
        }
    }

    /// The last line of a command that ends with a code that is not its own.
    pub(crate) fn ends_with(&self, exit: u8, text: impl fmt::Display) {
        self.failure(exit, None, &text, &text);
    }

    /// A line on standard error, and for programs an object: beside the line, so that it is not lost where only one of the two is
    /// looked at.
    fn failure(&self, exit: u8, sender: Option<u64>, error: impl fmt::Display, line: impl fmt::Display) {
        let error = &*error.to_string();
        let object = Failed { event: "error", sender, error, exit };
        if self.json && self.is_aside {
            let _ = writeln!(io::stderr(), "{}", serde_json::to_string(&object).unwrap_or_default());
            return;
        }
        if self.json {
            self.result("", &object);
        }
        self.warn(line);
    }
}

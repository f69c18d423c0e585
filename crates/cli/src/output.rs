//! Where words go: results to standard output (text, or JSON one object a line), the rest to standard error.

use crate::exit::Error;
use serde::Serialize;
use std::fmt;
use std::io::{self, Write};

/// What the user wants to see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
    pub(crate) verbose: bool,
}

impl Output {
    pub(crate) fn new(json: bool, verbose: bool) -> Self {
        Self { json, verbose }
    }

    /// One result: `text` for people, `object` with `--json`. A reader that has gone away is no failure.
    pub(crate) fn result(&self, text: impl fmt::Display, object: &impl Serialize) {
        let mut out = io::stdout().lock();
        let written = if self.json {
            serde_json::to_writer(&mut out, object).map_err(io::Error::from).and_then(|()| out.write_all(b"\n"))
        } else {
            writeln!(out, "{text}")
        };
        let _ = written.and_then(|()| out.flush());
    }

    /// A line on standard error that matters.
    pub(crate) fn warn(&self, text: impl fmt::Display) {
        let _ = writeln!(io::stderr(), "pinnace: {text}");
    }

    /// A line on standard error for those who asked.
    pub(crate) fn note(&self, text: impl fmt::Display) {
        if self.verbose {
            self.warn(text);
        }
    }

    /// The last line of a command that failed.
    pub(crate) fn error(&self, error: &Error) {
        self.warn(error);
    }
}

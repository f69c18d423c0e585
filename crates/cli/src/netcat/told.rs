//! What is told: lines for people, or one JSON object a line, on standard error and in a log.

use crate::exit::Error;
use crate::output::Output;
use crate::units::count_of;
use serde::Serialize;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, OnceLock};

/// Something that has happened.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Event<'a> {
    /// Others can connect.
    Listening { address: &'a str },
    /// A peer is there.
    Connected { peer: &'a str, method: &'a str, service: &'a str },
    /// Something of a message was lost, with permission.
    Lost {
        message: u64,
        bytes: u64,
        bytes_lost: u64,
        #[serde(serialize_with = "pairs")]
        holes: &'a [std::ops::Range<usize>],
    },
    /// Whole messages were lost, with permission: at least so many, before the message of this number or, without one, behind
    /// the last that came. `bytes_filled`: zeros that were written in their place.
    Missed {
        #[serde(skip_serializing_if = "Option::is_none")]
        before: Option<u64>,
        messages_lost: u64,
        bytes_filled: u64,
    },
    /// A message of so many bytes came behind others that were sent after it, and is left out: it counts as lost.
    Late { bytes: u64 },
    /// The peer has said that it has ended.
    PeerEnded,
    /// Both ends have ended.
    #[serde(rename = "done")]
    Ended(Totals),
    /// The connection has failed; others may come.
    Broke { error: &'a str },
}

/// Holes are `[low, high)` in every command.
fn pairs<S: serde::Serializer>(holes: &[std::ops::Range<usize>], to: S) -> Result<S::Ok, S::Error> {
    crate::bare::pairs(holes).serialize(to)
}

/// What has travelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Totals {
    pub(super) messages_sent: u64,
    pub(super) bytes_sent: u64,
    pub(super) messages_received: u64,
    pub(super) bytes_received: u64,
    /// Of the bytes received: zeros in their place.
    pub(super) bytes_lost: u64,
    /// None of these is received: at least so many.
    pub(super) messages_lost: u64,
    pub(super) seconds: f64,
}

/// Holes that are named in one line.
const NAMED: usize = 8;

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listening { address } => write!(f, "listening on {address}"),
            Self::Connected { peer, method, service } => {
                let service = if service.is_empty() { "reliable messages, in order" } else { service };
                write!(f, "connected with {peer} by {method}: {service}")
            }
            Self::Lost { message, bytes, bytes_lost, holes } => {
                write!(f, "message {message}: {bytes_lost} of {bytes} bytes lost:")?;
                for hole in holes.iter().take(NAMED) {
                    write!(f, " {}..{}", hole.start, hole.end)?;
                }
                match holes.len().saturating_sub(NAMED) {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
            Self::Missed { before, messages_lost, bytes_filled } => {
                let lost = if *messages_lost == 1 {
                    "lost: at least one message".to_owned()
                } else {
                    format!("lost: {messages_lost} messages")
                };
                match before {
                    Some(number) => write!(f, "{lost} before message {number}")?,
                    None => write!(f, "{lost} before the end")?,
                }
                match bytes_filled {
                    0 => f.write_str("; nothing is in the place"),
                    bytes => write!(f, "; {bytes} zeros are in the place"),
                }
            }
            Self::Late { bytes } => {
                let bytes = count_of(*bytes, "byte");
                write!(
                    f,
                    "a message of {bytes} came too late and is left out: what was sent after it is written already"
                )
            }
            Self::Broke { error } => f.write_str(error),
            Self::PeerEnded => {
                f.write_str("the peer has sent everything; the end of this input (Ctrl-D) ends the connection")
            }
            Self::Ended(totals) => {
                let Totals {
                    messages_sent,
                    bytes_sent,
                    messages_received,
                    bytes_received,
                    bytes_lost,
                    messages_lost,
                    seconds,
                } = totals;
                let and_whole = match messages_lost {
                    0 => String::new(),
                    lost => format!(", and {} that did not come", count_of(*lost, "message")),
                };
                write!(
                    f,
                    "sent {}, {bytes_sent} bytes; received {messages_received}, {bytes_received} \
                     bytes, {bytes_lost} of them lost{and_whole}; {seconds:.1} s",
                    count_of(*messages_sent, "message")
                )
            }
        }
    }
}

/// Where it is told.
pub(super) struct Told {
    output: Output,
    pub(super) quiet: bool,
    /// Until it cannot be written to.
    log: Mutex<Option<File>>,
    /// Why not.
    without_log: OnceLock<String>,
}

impl Told {
    pub(super) fn new(output: Output, quiet: bool, log: Option<&Path>) -> Result<Self, Error> {
        let open = |path: &Path| File::create(path).map_err(|error| Error::io(path.display(), &error));
        let log = Mutex::new(log.map(open).transpose()?);
        Ok(Self { output, quiet, log, without_log: OnceLock::new() })
    }

    /// Tells it: what is of interest to few only with `--verbose`.
    pub(super) fn tell(&self, event: &Event<'_>) {
        let Ok(object) = serde_json::to_string(event) else { return };
        let mut log = self.log.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(Err(error)) = log.as_mut().map(|log| writeln!(log, "{object}")) {
            *log = None;
            let why = format!("cannot write the log, which ends here: {error}");
            match serde_json::to_string(&Event::Broke { error: &why }) {
                // Nothing else stands there, and who listens on does not end soon.
                Ok(object) if self.output.json => drop(writeln!(io::stderr(), "{object}")),
                _ => self.output.warn(&why),
            }
            let _ = self.without_log.set(why);
        }
        drop(log);
        if self.quiet && !matches!(event, Event::Broke { .. }) {
            return;
        }
        match event {
            // Nobody may read it any more, and the connection goes on.
            _ if self.output.json => drop(writeln!(io::stderr(), "{object}")),
            Event::Connected { .. } | Event::Ended(_) => self.output.note(event),
            _ => self.output.warn(event),
        }
    }

    /// Fails if what was told is not all in the log.
    pub(super) fn check_log(&self) -> Result<(), Error> {
        self.without_log.get().map_or(Ok(()), |why| Err(Error::failed(why)))
    }

    /// What every method offers.
    pub(super) fn explain(&self, report: &(impl fmt::Display + Serialize)) {
        match serde_json::to_string(report) {
            Ok(object) if self.output.json => drop(writeln!(io::stderr(), "{object}")),
            _ => drop(writeln!(io::stderr(), "{report}\n")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_named_up_to_a_few() {
        let holes: Vec<_> = (0..10).map(|at| at * 10..at * 10 + 5).collect();
        let event = Event::Lost { message: 3, bytes: 100, bytes_lost: 50, holes: &holes };
        let text = event.to_string();
        assert!(text.starts_with("message 3: 50 of 100 bytes lost: 0..5 10..15"), "{text}");
        assert!(text.ends_with("70..75 and 2 more"), "{text}");
        assert!(serde_json::to_string(&event).unwrap().starts_with(r#"{"event":"lost","message":3,"#));
    }
}

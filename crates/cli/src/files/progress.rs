//! How far transfers are: bars on a terminal, and nothing elsewhere; and the lines at the end.

use super::digest::{Value, hex};
use crate::exit::Error;
use crate::output::Output;
use crate::units::count_of;
use indicatif::{BinaryBytes, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Who sends: its number among several, and its address, as far as they are known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Who {
    pub(super) number: Option<u64>,
    pub(super) address: Option<SocketAddr>,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            Some(number) => write!(f, "sender {number}")?,
            None => f.write_str("the sender")?,
        }
        self.address.map_or(Ok(()), |address| write!(f, " ({address})"))
    }
}

/// Where transfers say what becomes of them: each has a bar, and lines appear above the bars.
#[derive(Clone)]
pub(super) struct Report {
    output: Output,
    bars: MultiProgress,
    /// Which of several senders the lines are of.
    sender: Option<u64>,
}

impl Report {
    pub(super) fn new(output: &Output) -> Self {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        Self { output: *output, bars, sender: None }
    }

    /// The same place, for what is said of one sender.
    pub(super) fn of_sender(&self, number: u64) -> Self {
        Self { sender: Some(number), ..self.clone() }
    }

    /// The sender that the lines are of, which has this address.
    pub(super) fn who(&self, address: Option<SocketAddr>) -> Who {
        Who { number: self.sender, address }
    }

    /// The line of a sender that waits, because another one is sending this file.
    pub(super) fn waits(&self, who: Who, path: &[u8], holder: Who) {
        let (path, path_bytes) = shown(path);
        if !self.output.json {
            let path = super::protocol::printable(&path);
            return self
                .warn(format_args!("{who} waits: {holder} is sending {path}; it is served when that has ended"));
        }
        let (event, sender, held_by) = ("waiting", who.number, holder.number);
        let (peer, held_by_peer) = (who.address, holder.address);
        let line = WaitingLine { event, sender, peer, path, path_bytes, held_by, held_by_peer };
        self.bars.suspend(|| self.output.result("", &line));
    }

    pub(super) fn error(&self, error: &Error) {
        self.bars.suspend(|| self.output.error(error, self.sender));
    }

    pub(super) fn warn(&self, text: impl fmt::Display) {
        self.bars.suspend(|| self.output.warn(text));
    }

    pub(super) fn note(&self, text: impl fmt::Display) {
        self.bars.suspend(|| self.output.note(text));
    }

    /// The line of a file that was verified.
    pub(super) fn file(&self, status: Status, path: &[u8], bytes: u64, hash: &Value) {
        let (path, path_bytes) = shown(path);
        let blake3 = hex(hash);
        let word = match status {
            Status::Sent => "sent",
            Status::Received => "received",
            Status::AlreadyThere => "already there",
        };
        let printed = format!("{word} {} {bytes} bytes BLAKE3 {blake3}", super::protocol::printable(&path));
        let (event, sender) = ("file", self.sender);
        let line = FileLine { event, sender, status, path, path_bytes, bytes, blake3 };
        self.bars.suspend(|| self.output.result(printed, &line));
    }

    /// The last line of a transfer.
    pub(super) fn totals(&self, totals: Totals, begun: Instant) {
        let elapsed = begun.elapsed().max(Duration::from_millis(1));
        let (event, seconds) = ("done", elapsed.as_secs_f64());
        let line = DoneLine { event, sender: self.sender, totals, seconds, verified: true };
        self.bars.suspend(|| self.output.result(totals.summary(seconds), &line));
    }
}

/// A path with U+FFFD for what is not UTF-8, and its exact bytes if anything is not.
fn shown(path: &[u8]) -> (String, Option<&[u8]>) {
    let text = String::from_utf8_lossy(path);
    let path_bytes = matches!(text, std::borrow::Cow::Owned(_)).then_some(path);
    (text.into_owned(), path_bytes)
}

/// The bar of one transfer.
pub(super) struct Progress {
    bar: ProgressBar,
    /// It says whose it is.
    is_named: bool,
    /// Bytes of whole messages.
    completed: u64,
    /// Bytes of the messages under way.
    under_way: u64,
    /// Bytes on the link when the content began.
    origin: Option<u64>,
}

impl Progress {
    /// `address` is the peer's; it is shown where the peer is one of several.
    pub(super) fn new(what: &'static str, report: &Report, address: Option<SocketAddr>) -> Self {
        // How much there is to do is not known yet: a bar would look full.
        let bar = report.bars.add(ProgressBar::no_length());
        let name =
            report.sender.map(|number| address.map_or(format!("sender {number}"), |address| address.to_string()));
        let is_named = name.is_some();
        let template = if is_named { "{prefix:21} {msg} {spinner}" } else { "{msg:10} {spinner}" };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_prefix(name.unwrap_or_default());
        bar.set_message(what);
        bar.enable_steady_tick(Duration::from_millis(100));
        Self { bar, is_named, completed: 0, under_way: 0, origin: None }
    }

    /// The content begins: so many bytes are to travel.
    pub(super) fn begin(&mut self, what: &'static str, total: u64) {
        // A terminal of 80 columns has no room for both words.
        let first = if self.is_named { "{prefix:21}" } else { "{msg:10}" };
        let rest = "{wide_bar} {binary_bytes:>11} of {binary_total_bytes:>11} {binary_bytes_per_sec:>13} {eta:>4} left";
        if let Ok(style) = ProgressStyle::with_template(&format!("{first} {rest}")) {
            self.bar.set_style(style);
        }
        self.bar.disable_steady_tick();
        self.bar.set_message(what);
        self.bar.set_length(total);
        self.bar.reset();
        (self.completed, self.under_way, self.origin) = (0, 0, None);
    }

    pub(super) fn queued(&mut self, bytes: u64) {
        self.under_way += bytes;
    }

    pub(super) fn completed(&mut self, bytes: u64) {
        self.under_way = self.under_way.saturating_sub(bytes);
        self.completed += bytes;
        self.bar.set_position(self.completed);
    }

    /// Looks at the link between two messages: `bytes` is what it has carried since ever.
    pub(super) fn look(&mut self, bytes: u64) {
        let carried = bytes - *self.origin.get_or_insert(bytes);
        self.bar.set_position(carried.clamp(self.completed, self.completed + self.under_way));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    Sent,
    Received,
    AlreadyThere,
}

#[derive(Serialize)]
struct WaitingLine<'a> {
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    sender: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<SocketAddr>,
    /// As in [`FileLine`].
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<&'a [u8]>,
    /// Of who sends the file, as the two above.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_by: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    held_by_peer: Option<SocketAddr>,
}

#[derive(Serialize)]
struct FileLine<'a> {
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    sender: Option<u64>,
    status: Status,
    /// With U+FFFD for what is not UTF-8.
    path: String,
    /// The exact bytes, if the path is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<&'a [u8]>,
    bytes: u64,
    blake3: String,
}

/// What a whole transfer came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Totals {
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// Bytes that did not travel, because they were there before.
    pub(super) bytes_resumed: u64,
}

impl Totals {
    fn summary(self, seconds: f64) -> String {
        let resumed = match self.bytes_resumed {
            0 => String::new(),
            bytes => format!(", {} of them there before", BinaryBytes(bytes)),
        };
        // Of nothing there is no rate.
        let rate = match self.bytes - self.bytes_resumed {
            0 => String::new(),
            travelled => format!(" ({}/s)", BinaryBytes((travelled as f64 / seconds) as u64)),
        };
        let (files, bytes) = (count_of(self.files, "file"), BinaryBytes(self.bytes));
        format!("{files}, {bytes}{resumed}, verified, in {seconds:.1} s{rate}")
    }
}

#[derive(Serialize)]
struct DoneLine {
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    sender: Option<u64>,
    #[serde(flatten)]
    totals: Totals,
    seconds: f64,
    verified: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_what_has_travelled() {
        let of = |bytes_resumed| Totals { files: 1, bytes: 4 << 20, bytes_resumed }.summary(2.0);
        assert_eq!(of(0), "1 file, 4.00 MiB, verified, in 2.0 s (2.00 MiB/s)");
        assert_eq!(of(2 << 20), "1 file, 4.00 MiB, 2.00 MiB of them there before, verified, in 2.0 s (1.00 MiB/s)");
        assert_eq!(of(4 << 20), "1 file, 4.00 MiB, 4.00 MiB of them there before, verified, in 2.0 s");
    }
}

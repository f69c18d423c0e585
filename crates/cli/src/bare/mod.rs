//! What the commands of the bare protocols share: what is sent, hashes, a bar, what listeners say and how they print.

mod args;
mod complaints;
mod content;
mod crew;
mod presence;

pub(crate) use args::{Local, WHOLE, What};
pub(crate) use content::Content;
pub(crate) use crew::{Crew, KEPT, PATIENCE, Trial, begin};
pub(crate) use presence::{Presence, nobody};

use crate::exit::Error;
use crate::interrupt;
use crate::output::Output;
use crate::units::count_of;
use complaints::Complaints;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::fmt::Display;
use std::ops::Range;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Reads a number of seconds, or a time with its unit: 5, 0.5, 500ms, 2min.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let time = match text.parse::<f64>() {
        Ok(seconds) if (0.0..=86_400.0).contains(&seconds) => Duration::from_secs_f64(seconds),
        Ok(_) => return Err("must lie between 0.1 and 86400 seconds".to_owned()),
        Err(_) => crate::units::duration(text).map_err(|why| format!("{why}; a number alone is one of seconds"))?,
    };
    if (Duration::from_millis(100)..=Duration::from_secs(86_400)).contains(&time) {
        Ok(time)
    } else {
        Err("must lie between 0.1 and 86400 seconds".to_owned())
    }
}

/// A message's line, and behind it one for each hole, `[low, high)` in bytes.
pub(crate) fn line(bytes: u64, sha256: &str, holes: Option<&[[usize; 2]]>) -> String {
    let holes = holes.into_iter().flatten().map(|[low, high]| format!("\nhole {low}..{high}"));
    format!("message {bytes} bytes {sha256}{}", holes.collect::<String>())
}

/// Holes, as JSON has them.
pub(crate) fn pairs(holes: &[Range<usize>]) -> Vec<[usize; 2]> {
    holes.iter().map(|hole| [hole.start, hole.end]).collect()
}

/// Counters on one line.
pub(crate) fn one_line(counters: &impl Display) -> String {
    counters.to_string().trim_end().replace('\n', ", ")
}

/// What a sender says at the end: so many messages, what has become of them, in how many seconds, and how many of its
/// packets it has sent again.
pub(crate) fn summary(
    messages: u64,
    how: impl Display,
    (bytes, seconds): (u64, f64),
    (again, sent, packets): (u64, u64, &str),
) -> String {
    let speed = bytes as f64 * 8.0 / 1e6 / seconds.max(1e-9);
    let messages = count_of(messages, "message");
    format!(
        "{messages} {how}, {bytes} bytes in {seconds:.3} s, {speed:.1} Mbit/s; {again} of {sent} {packets} sent again"
    )
}

/// The hash of a message that comes in pieces.
#[derive(Default)]
pub(crate) struct Sum {
    pub(crate) bytes: u64,
    hash: Sha256,
}

impl Sum {
    pub(crate) fn add(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        self.hash.update(piece);
    }

    /// How long it is, and its hash; the next message begins.
    pub(crate) fn finish(&mut self) -> (u64, String) {
        let bytes = std::mem::take(&mut self.bytes);
        (bytes, format!("{:x}", self.hash.finalize_reset()))
    }
}

/// A bar on standard error, if that is a terminal.
pub(crate) fn bar(bytes: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(bytes, ProgressDrawTarget::stderr_with_hz(10));
    let template = match bytes {
        Some(_) => "{wide_bar} {binary_bytes:>11} of {binary_total_bytes:>11} {binary_bytes_per_sec:>13} {eta:>4} left",
        None => "{spinner} {binary_bytes:>11} {binary_bytes_per_sec:>13}",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

#[derive(Serialize)]
struct Listening<'a> {
    event: &'static str,
    address: &'a str,
}

/// Says where one listens, now that others can reach it.
pub(crate) fn announce(output: &Output, address: &str) {
    announce_as(output, format_args!("listening on {address}"), address);
}

/// The same in other words.
pub(crate) fn announce_as(output: &Output, text: impl Display, address: &str) {
    output.event(text, &Listening { event: "listening", address });
}

/// A connection has ended before its time.
#[derive(Serialize)]
struct Broke {
    event: &'static str,
    error: String,
}

fn tell_broken(output: &Output, error: String) {
    output.event(error.clone(), &Broke { event: "broke", error });
}

/// What the threads of a listener have to say.
pub(crate) enum Told<L> {
    /// What came.
    Message(L),
    /// What is no message, and belongs between them.
    Aside(L),
    /// A connection has ended before its time.
    Broken(String),
    /// The same, of a peer that has never shown that it is where its packets come from: one forged packet is such a connection,
    /// and is not what a listener that counts has waited for.
    Unproved(String),
    /// What else there is to know.
    Note(String),
    /// Nobody can come any more.
    Failed(Error),
}

/// Seconds, to a tenth.
pub(crate) fn tenths(time: Duration) -> f32 {
    (time.as_secs_f32() * 10.0).round() / 10.0
}

/// That a connection broke because nothing more comes of its peer.
pub(crate) fn silenced<L>(why: String, is_proved: bool) -> Told<L> {
    if is_proved { Told::Broken(why) } else { Told::Unproved(why) }
}

/// Why nothing more comes of a peer of which so many bytes have come.
pub(crate) fn gone(bytes: u64) -> String {
    format!("the peer is gone after {bytes} bytes: it was killed or interrupted, or the network between is down")
}

/// Prints what the threads tell, until `count` messages have come; `print` is told which one it is.
pub(crate) fn print<L>(
    count: Option<u64>,
    output: &Output,
    told: &Receiver<Told<L>>,
    print: impl FnMut(u64, L),
) -> Result<(), Error> {
    let mut complaints = Complaints::default();
    let result = print_until(count, output, told, &mut complaints, print);
    complaints.end(|line| tell_broken(output, line));
    result
}

fn print_until<L>(
    count: Option<u64>,
    output: &Output,
    told: &Receiver<Told<L>>,
    complaints: &mut Complaints,
    mut print: impl FnMut(u64, L),
) -> Result<(), Error> {
    let mut messages = 0;
    while count.is_none_or(|count| messages < count) {
        interrupt::check()?;
        match told.recv_timeout(interrupt::LOOK) {
            Ok(Told::Message(line)) => {
                print(messages, line);
                messages += 1;
            }
            Ok(Told::Aside(line)) => print(messages, line),
            Ok(Told::Broken(why)) if count.is_some() => {
                return Err(Error::peer_gone(format!("{why}, after {}", count_of(messages, "message"))));
            }
            Ok(Told::Broken(why) | Told::Unproved(why)) => {
                complaints.broken(Instant::now(), why, |line| tell_broken(output, line));
            }
            Ok(Told::Note(why)) => output.warn(why),
            Ok(Told::Failed(error)) => return Err(error),
            Err(RecvTimeoutError::Timeout) => complaints.look(Instant::now(), |line| tell_broken(output, line)),
            Err(RecvTimeoutError::Disconnected) => {
                // Ctrl-C ends the threads too, and they may be faster.
                interrupt::check()?;
                return Err(Error::failed("a thread of this program has failed; please report it"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_unless_they_say_otherwise() {
        assert_eq!(seconds("2"), Ok(Duration::from_secs(2)));
        assert_eq!(seconds("0.5"), seconds("500ms"));
        assert_eq!(seconds("2min"), seconds("120"));
        for text in ["", "never", "0", "1ms", "-1", "-1s", "1e9", "NaN"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn waiting_times_are_told_to_a_tenth() {
        let told = |millis| tenths(Duration::from_millis(millis)).to_string();
        assert_eq!([told(10_000), told(1_840), told(20), told(700)], ["10", "1.8", "0", "0.7"]);
    }

    #[test]
    fn a_sum_is_that_of_the_pieces_together_and_starts_again() {
        let mut sum = Sum::default();
        let whole = format!("{:x}", Sha256::digest(b"Xpress Transport"));
        for _ in 0..2 {
            sum.add(b"Xpress ");
            sum.add(b"Transport");
            assert_eq!(sum.finish(), (16, whole.clone()));
        }
        assert_eq!(sum.finish().0, 0);
    }

    #[test]
    fn a_listener_that_counts_fails_with_the_first_that_breaks() {
        let output = Output::new(false, false);
        let (tell, told) = std::sync::mpsc::channel();
        let mut lines = Vec::new();
        let forged = Told::Unproved("forged".into());
        for event in [forged, Told::Message("a"), Told::Broken("lost".into()), Told::Message("b")] {
            tell.send(event).unwrap();
        }
        assert!(print(Some(1), &output, &told, |number, line| lines.push((number, line))).is_ok());
        let error = print(Some(1), &output, &told, |_, _| ()).unwrap_err();
        assert!(error.message.contains("lost, after 0"), "{error}");
        assert!(print(Some(1), &output, &told, |number, line| lines.push((number, line))).is_ok());
        assert_eq!(lines, [(0, "a"), (0, "b")]);
        drop(tell);
        assert!(print(None, &output, &told, |_, _| ()).is_err());
    }
}

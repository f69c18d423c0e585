//! What is shown of a stream: on a terminal a line that changes, otherwise a line now and then; with --json objects.

use super::assembly::{Assembly, Lost, Took};
use super::jitter::{Evenness, Jitter};
use crate::a1::rate_text;
use crate::cast::About;
use crate::exit::Error;
use crate::numbers;

use crate::output::Output;
use crate::units::count_of;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pinnace::a1::{Connection, Facts, Qos};
use serde::Serialize;
use serde_json::{Value, json};
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// See the [module](self).
pub(super) struct Display {
    output: Output,
    /// Standard output is for the stream.
    is_piped: bool,
    every: Duration,
    bar: ProgressBar,
    is_live: bool,
    jitter: Jitter,
    begun: Instant,
    /// When the last line was shown, and the bytes then.
    shown: (Instant, u64),
    /// Bytes of the medium that came.
    bytes: u64,
    /// Both ends' records, as they were shown.
    qos: Option<(Qos, Qos)>,
    changes: u64,
    /// When each block came.
    log: Option<Log>,
}

/// A file of lines.
pub(super) type Log = io::BufWriter<std::fs::File>;

/// What is shown now and then.
#[derive(Debug, Serialize)]
struct Line {
    event: &'static str,
    seconds: f64,
    bits_per_second: f64,
    bytes: u64,
    blocks: u64,
    blocks_lost: u64,
    #[serde(flatten)]
    evenness: Evenness,
    /// Blocks that the sender may have under way to us. Whether that ever held it up only the sender knows: here everything is
    /// taken before this is shown.
    window_blocks: u64,
    block_bytes: u32,
    round_trip_us: Option<u64>,
    /// Blocks come through a multicast group.
    multicast: bool,
    qos: Value,
    qos_changes: u64,
}

impl Line {
    fn text(&self) -> String {
        let Evenness { jitter_ms, jitter_p99_ms, late_p99_ms, .. } = self.evenness;
        format!(
            "{:>5.0} s {:>12}  jitter {jitter_ms:.2} ms, p99 {jitter_p99_ms:.1}, late {late_p99_ms:.1}  lost {} of {}  window {} x \
             {} B",
            self.seconds,
            numbers::rate(self.bits_per_second),
            self.blocks_lost,
            self.blocks.saturating_add(self.blocks_lost),
            self.window_blocks,
            self.block_bytes,
        )
    }
}

/// A record, for programs.
pub(crate) fn object(qos: &Qos) -> Value {
    json!({
        "bits_per_second": qos.send_average * 8,
        "burst_bytes": qos.send_burst,
        "priority": qos.priority,
        "checksum": qos.has_checksum,
        "retransmission": qos.has_retransmission,
        "messages_outstanding": qos.outstanding,
        "largest_bytes": qos.largest_sent,
    })
}

/// What a stream is, for programs.
pub(crate) fn stream(about: &About) -> Value {
    let About { format, bit_rate, period_us, bytes, text } = about;
    json!({
        "event": "stream",
        "format": format,
        "bits_per_second": bit_rate,
        "period_us": period_us,
        "bytes": bytes,
        "text": text,
    })
}

fn qos_text(qos: &Qos) -> String {
    let mode = if qos.has_retransmission { "reliable" } else { "raw" };
    format!("{mode}, priority {}, {}", qos.priority, rate_text((qos.send_average, qos.send_burst)))
}

impl Display {
    pub(super) fn new(output: Output, is_piped: bool, every: Duration, log: Option<Log>) -> Result<Self, Error> {
        let is_live = io::stderr().is_terminal() && !output.json;
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
        if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
            bar.set_style(style);
        }
        let now = Instant::now();
        Ok(Self {
            output,
            is_piped,
            every,
            bar,
            is_live,
            jitter: Jitter::new()?,
            begun: now,
            shown: (now, 0),
            bytes: 0,
            qos: None,
            changes: 0,
            log,
        })
    }

    /// A line about what happens.
    pub(super) fn say(&self, text: &str) {
        self.bar.suspend(|| self.output.warn(text));
    }

    /// An event, for people and for programs.
    fn tell(&self, text: &str, object: &Value) {
        self.bar.suspend(|| self.output.event(text, object));
    }

    /// A sender has come.
    pub(super) fn sender(&mut self, connection: &Connection) {
        self.qos = None;
        let peer = connection.peer_addr().to_string();
        self.tell(&format!("{peer} is sending"), &json!({ "event": "sender", "peer": peer }));
    }

    /// A sender has gone before the end.
    pub(super) fn gone(&mut self, why: &str) {
        self.tell(why, &json!({ "event": "gone", "error": why }));
    }

    /// A message has come.
    pub(super) fn took(&mut self, took: &Took, bytes: usize) -> io::Result<()> {
        match took {
            Took::Stream(about) => {
                self.jitter.restart();
                self.tell(&about.to_string(), &stream(about));
            }
            Took::Data { number, due, bytes, lost } => {
                self.bytes += *bytes as u64;
                let late = self.jitter.arrive(self.begun.elapsed(), *due);
                self.log(*number, *due, late)?;
                self.lost(lost.as_ref());
            }
            Took::End { lost } => {
                self.lost(lost.as_ref());
                self.tell("the stream is over", &json!({ "event": "over" }));
            }
            Took::Foreign => {
                self.say(&format!("a message of {bytes} bytes that is not of `pinnace cast` was left out"));
            }
            Took::Known | Took::Early => {}
        }
        Ok(())
    }

    fn log(&mut self, number: u64, due: Duration, late: Duration) -> io::Result<()> {
        let Some(log) = &mut self.log else { return Ok(()) };
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        let line = json!({ "block": number, "due_ms": millis(due), "late_ms": millis(late) });
        writeln!(log, "{line}")
    }

    fn lost(&self, lost: Option<&Lost>) {
        let Some(Lost { blocks, bytes }) = lost else { return };
        let (from, to) = (blocks.start, blocks.end - 1);
        let which = if from == to { format!("block {from} was") } else { format!("blocks {from} to {to} were") };
        self.tell(
            &format!("{which} lost (bytes {}..{})", bytes.start, bytes.end),
            &json!({
                "event": "lost",
                "block": from,
                "blocks_lost": blocks.end - from,
                "bytes_lost": bytes.end - bytes.start,
                "holes": [[bytes.start, bytes.end]],
            }),
        );
    }

    /// Shows what is due.
    pub(super) fn look<W: Write>(&mut self, connection: &Connection, assembly: &Assembly<W>) {
        let (at, before) = self.shown;
        let passed = at.elapsed();
        let is_due = passed >= self.every;
        if !(is_due || self.is_live && passed >= Duration::from_millis(250)) {
            return;
        }
        let Ok(facts) = connection.facts() else { return };
        self.changed(&facts);
        let line = self.line(&facts, assembly, (self.bytes - before) as f64 * 8.0 / passed.as_secs_f64().max(1e-9));
        if self.is_live {
            self.bar.set_message(line.text());
        } else if self.output.json {
            self.output.result("", &line);
        } else {
            self.say(&line.text());
        }
        if is_due {
            self.shown = (Instant::now(), self.bytes);
        }
    }

    fn changed(&mut self, facts: &Facts) {
        let now = (facts.qos, facts.peer_qos);
        match self.qos.replace(now) {
            Some(before) if before == now => return,
            Some(_) => self.changes += 1,
            None => {}
        }
        let text = format!("quality of service: {}", qos_text(&facts.peer_qos));
        self.tell(&text, &json!({ "event": "qos", "qos": object(&facts.peer_qos), "qos_changes": self.changes }));
    }

    fn line<W: Write>(&self, facts: &Facts, assembly: &Assembly<W>, bits_per_second: f64) -> Line {
        Line {
            event: "status",
            seconds: self.begun.elapsed().as_secs_f64(),
            bits_per_second,
            bytes: assembly.bytes(),
            blocks: assembly.blocks,
            blocks_lost: assembly.blocks_lost,
            evenness: self.jitter.evenness(),
            window_blocks: facts.windows.1,
            block_bytes: facts.block_bytes,
            round_trip_us: facts.round_trip.map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX)),
            multicast: facts.has_joined,
            qos: object(&facts.peer_qos),
            qos_changes: self.changes,
        }
    }

    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// All of the log is there.
    pub(super) fn end_log(&mut self) -> io::Result<()> {
        self.log.as_mut().map_or(Ok(()), Write::flush)
    }

    /// The last lines.
    pub(super) fn done<W: Write>(&mut self, assembly: &mut Assembly<W>) -> io::Result<()> {
        let (bytes, sha256) = assembly.finish()?;
        let holes: Vec<[u64; 2]> = assembly.holes.iter().map(|hole| [hole.start, hole.end]).collect();
        let mut text = format!("stream {bytes} bytes {sha256}");
        for [from, to] in &holes {
            text.push_str(&format!("\nhole {from}..{to}"));
        }
        if assembly.holes_left_out > 0 {
            text.push_str(&format!("\nand {} that were not noted", count_of(assembly.holes_left_out, "more hole")));
        }
        let evenness = self.jitter.evenness();
        let Evenness { jitter_ms, jitter_p99_ms, late_p99_ms, late_max_ms } = evenness;
        let done = json!({
            "event": "done",
            "seconds": self.begun.elapsed().as_secs_f64(),
            "bytes": bytes,
            "sha256": sha256,
            "holes": holes,
            "holes_left_out": assembly.holes_left_out,
            "blocks": assembly.blocks,
            "blocks_lost": assembly.blocks_lost,
            "streams": assembly.streams,
            "bytes_missed": assembly.missed,
            "jitter_ms": jitter_ms,
            "jitter_p99_ms": jitter_p99_ms,
            "late_p99_ms": late_p99_ms,
            "late_max_ms": late_max_ms,
            "qos_changes": self.changes,
        });
        let missed = match assembly.missed {
            0 => String::new(),
            missed => format!("; tuned in late, {missed} bytes had passed"),
        };
        let summary = format!(
            "{}, {} lost{missed}; jitter {jitter_ms:.2} ms, p99 {jitter_p99_ms:.1} ms, late {late_p99_ms:.1} ms, at most \
             {late_max_ms:.1} ms",
            count_of(assembly.blocks, "block"),
            assembly.blocks_lost
        );
        if !self.output.json {
            self.output.warn(summary);
        }
        if self.is_piped {
            self.output.warn(text);
        } else {
            self.output.result(text, &done);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_number_a_sender_says_is_shown() {
        let line = Line {
            event: "status",
            seconds: 1.0,
            bits_per_second: 0.0,
            bytes: 6,
            blocks: 2,
            blocks_lost: u64::MAX - 1,
            evenness: Evenness::default(),
            window_blocks: 1,
            block_bytes: 3,
            round_trip_us: None,
            multicast: false,
            qos: Value::Null,
            qos_changes: 0,
        };
        assert!(line.text().contains(&format!("lost {} of {}", u64::MAX - 1, u64::MAX)), "{}", line.text());
    }
}

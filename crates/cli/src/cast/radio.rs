//! The sending: each block when it is due.

use super::change::{self, Change};
use super::media::{Description, Medium, Piece};
use super::targets::{Ended, News, Targets};
use super::{Args, Cut, Front, Kind, about, header};
use crate::bare::{bar, one_line};
use crate::exit::Error;
use crate::interrupt;
use crate::output::Output;
use crate::thread;
use crate::tune;
use crate::units::count_of;
use indicatif::ProgressBar;
use pinnace::a1::{Full, Refused};
use pinnace_core::Random;
use serde::Serialize;
use serde_json::json;
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// Pieces read ahead.
const AHEAD: usize = 4;
/// Between two headers.
const HEADERS: Duration = Duration::from_secs(1);
/// Between the first two where nothing is sent again; each further gap is twice as long, up to [`HEADERS`].
///
/// Without its header a sink can use nothing, and a short stream would be over before the second one.
const FIRST_HEADERS: Duration = Duration::from_millis(16);
/// A source that is later than this holds up what follows; less is made up for.
const GRACE: Duration = Duration::from_millis(5);
/// Those that are here wait so long for others of whom nothing is known.
const TOGETHER: Duration = Duration::from_secs(1);
/// For the sinks after Ctrl-C.
const FAREWELL: Duration = Duration::from_millis(500);

/// The last line.
#[derive(Serialize)]
struct Done {
    event: &'static str,
    seconds: f64,
    bytes: u64,
    blocks: u64,
    /// Blocks for which nobody was there.
    blocks_unheard: u64,
    sinks: Vec<Ended>,
}

/// A stream that is being sent.
pub(super) struct Radio<'a> {
    args: &'a Args,
    output: &'a Output,
    description: Description,
    cut: Cut,
    targets: Targets,
    changes: VecDeque<Change>,
    bar: ProgressBar,
    stream: u64,
    /// The number and position of the next block.
    next: (u64, u64),
    header: Vec<u8>,
    /// When the next header is due, and how long after it another one.
    header_at: Instant,
    header_gap: Duration,
    begun: Instant,
    unheard: u64,
    /// Nothing is printed but errors.
    is_quiet: bool,
    /// Since when nobody has been here.
    alone_since: Option<Instant>,
}

impl<'a> Radio<'a> {
    pub(super) fn new(
        args: &'a Args,
        output: &'a Output,
        description: Description,
        cut: Cut,
        targets: Targets,
    ) -> Self {
        let now = Instant::now();
        Self {
            args,
            output,
            header: header(&about(&description), &description.header),
            next: (0, description.header.len() as u64),
            bar: bar(description.bytes),
            description,
            cut,
            targets,
            changes: VecDeque::new(),
            stream: identity(),
            header_at: now,
            header_gap: HEADERS,
            begun: now,
            unheard: 0,
            is_quiet: false,
            alone_since: None,
        }
    }

    /// Prints nothing but errors.
    pub(super) fn quiet(self) -> Self {
        Self { is_quiet: true, bar: ProgressBar::hidden(), ..self }
    }

    /// Sends it all.
    pub(super) fn play(mut self, medium: Medium) -> Result<(), Error> {
        self.changes = change::sorted(&self.args.change)?;
        self.gather()?;
        let about = about(&self.description);
        self.say(format_args!("casting {}: {about}", self.args.file.display()), &tune::stream(&about));
        self.begun = Instant::now();
        let pieces = read_ahead(medium)?;
        let sent = self.send_all(&pieces);
        // They learn how long it was, also on Ctrl-C.
        let ended = sent.and_then(|()| self.end());
        let linger = if ended.is_ok() { self.args.transport.timeout } else { FAREWELL };
        if ended.as_ref().is_err_and(|error| error.exit == crate::exit::Exit::Interrupted) {
            let _ = self.message(Kind::End, &[]).map(|message| self.targets.socket.send_timeout(message, FAREWELL));
        }
        let sinks = self.targets.close(linger);
        self.bar.finish_and_clear();
        self.output.note(one_line(&self.targets.socket.counters()));
        ended?;
        let done = self.done(&sinks);
        // Of the sinks some may have closed themselves.
        crate::a1::part(&self.targets.socket);
        done
    }

    fn done(&self, sinks: &[Ended]) -> Result<(), Error> {
        let missing: Vec<&str> = sinks.iter().filter(|sink| !sink.delivered).map(|sink| sink.peer.as_str()).collect();
        let repeated: u64 = sinks.iter().map(|sink| sink.blocks_resent).sum();
        let skipped: u64 = sinks.iter().map(|sink| sink.messages_skipped).sum();
        let seconds = self.begun.elapsed().as_secs_f64();
        let (blocks, bytes) = self.next;
        let skipped = if skipped > 0 { format!(", {skipped} left out for slow sinks") } else { String::new() };
        let text = format!(
            "cast {bytes} bytes in {} and {seconds:.1} s to {}; {repeated} sent again{skipped}",
            count_of(blocks, "block"),
            count_of((sinks.len() - missing.len()) as u64, "sink"),
        );
        let error = (!missing.is_empty()).then(|| {
            Error::peer_gone(format!(
                "{} of {} sinks did not get the end: {}",
                missing.len(),
                sinks.len(),
                missing.join(", ")
            ))
        });
        let done = Done { event: "done", seconds, bytes, blocks, blocks_unheard: self.unheard, sinks: sinks.to_vec() };
        if !self.is_quiet {
            self.output.result(text, &done);
        }
        error.map_or(Ok(()), Err)
    }

    /// Waits until each sink is here, or is known not to be, but not for long if one is: that is enough to begin.
    fn gather(&mut self) -> Result<(), Error> {
        let begun = Instant::now();
        loop {
            interrupt::check()?;
            let news = self.targets.look();
            let is_late = begun.elapsed() > self.args.transport.timeout;
            let (here, has_answers) = (self.targets.here(), self.targets.has_answers());
            let is_over = here == 0 && (is_late || (has_answers && self.targets.is_hopeless()));
            let why = is_over.then(|| self.targets.why());
            for news in news {
                // What ends it is told once.
                if why.as_ref().is_none_or(|why| self.output.json || news.error.as_ref() != Some(&why.message)) {
                    self.tell(&news);
                }
            }
            match why {
                Some(why) => return Err(why),
                None if here > 0 && (has_answers || begun.elapsed() > TOGETHER) => return Ok(()),
                None => {}
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn say(&self, text: impl std::fmt::Display, object: &impl Serialize) {
        if !self.is_quiet {
            self.bar.suspend(|| self.output.event(text, object));
        }
    }

    fn tell(&self, news: &News) {
        self.say(news, news);
    }

    fn send_all(&mut self, pieces: &Receiver<io::Result<Piece>>) -> Result<(), Error> {
        // How much later everything is because the source was.
        let mut late = Duration::ZERO;
        self.send_headers()?;
        loop {
            let (piece, has_waited) = match self.piece(pieces)? {
                (Some(piece), has_waited) => (piece, has_waited),
                (None, _) => return Ok(()),
            };
            let behind = self.begun.elapsed().saturating_sub(piece.due + late);
            if has_waited && behind > GRACE {
                late += behind;
            }
            self.wait_until(self.begun + piece.due + late)?;
            self.change(piece.due)?;
            for block in piece.data.chunks(self.cut.bytes) {
                self.block(block, piece.due + late)?;
            }
            self.bar.set_position(self.next.1);
        }
    }

    /// The next piece, and whether it was waited for.
    fn piece(&mut self, pieces: &Receiver<io::Result<Piece>>) -> Result<(Option<Piece>, bool), Error> {
        let mut has_waited = false;
        loop {
            let piece = match pieces.try_recv() {
                Ok(piece) => Ok(piece),
                Err(_) => {
                    let begun = Instant::now();
                    let piece = pieces.recv_timeout(interrupt::LOOK);
                    has_waited |= begun.elapsed() > GRACE;
                    piece
                }
            };
            match piece {
                Ok(Ok(piece)) => return Ok((Some(piece), has_waited)),
                Ok(Err(error)) => {
                    return Err(Error::io(format_args!("cannot read {}", self.args.file.display()), &error));
                }
                Err(RecvTimeoutError::Disconnected) => return Ok((None, has_waited)),
                Err(RecvTimeoutError::Timeout) => self.look()?,
            }
        }
    }

    fn wait_until(&mut self, at: Instant) -> Result<(), Error> {
        loop {
            self.look()?;
            let left = at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(interrupt::LOOK));
        }
    }

    /// What there is to do now and then. Fails on Ctrl-C, and if nobody has been here for long.
    fn look(&mut self) -> Result<(), Error> {
        interrupt::check()?;
        let news = self.targets.look();
        let has_come = news.iter().any(|news| news.state == "here");
        news.iter().for_each(|news| self.tell(news));
        if self.targets.here() > 0 {
            self.alone_since = None;
        } else if self.alone_since.get_or_insert_with(Instant::now).elapsed() > self.args.transport.timeout {
            return Err(Error::peer_gone(format!("nobody is tuned in any more: {}", self.targets.why())));
        }
        if has_come {
            self.send_headers()
        } else if self.header_at <= Instant::now() {
            self.send_header()
        } else {
            Ok(())
        }
    }

    fn change(&mut self, due: Duration) -> Result<(), Error> {
        while let Some(change) = self.changes.pop_front_if(|change| change.at <= due) {
            self.cut.qos = change.apply(self.cut.qos);
            self.targets.set_qos(self.cut.qos)?;
            let rate = crate::a1::rate_text((self.cut.qos.send_average, self.cut.qos.send_burst));
            let object = json!({ "event": "qos", "qos": tune::object(&self.cut.qos) });
            self.say(format_args!("another quality of service: {rate}, priority {}", self.cut.qos.priority), &object);
        }
        Ok(())
    }

    fn message(&self, kind: Kind, block: &[u8]) -> Result<Vec<u8>, Error> {
        let (number, next) = self.next;
        let position = if kind == Kind::Header { 0 } else { next };
        Ok(Front { kind, stream: self.stream, number, position, due: self.begun.elapsed() }.message(block))
    }

    /// Begins a series of headers, for a sink that has none.
    fn send_headers(&mut self) -> Result<(), Error> {
        self.header_gap = self.first_gap();
        self.send_header()
    }

    fn first_gap(&self) -> Duration {
        if self.cut.qos.has_retransmission { HEADERS } else { FIRST_HEADERS }
    }

    fn send_header(&mut self) -> Result<(), Error> {
        self.header_at = Instant::now() + self.header_gap;
        self.header_gap = (2 * self.header_gap).min(HEADERS);
        let message = self.message(Kind::Header, &self.header)?;
        match self.targets.socket.send_timeout(message, interrupt::LOOK) {
            // It comes again.
            Err(unsent) if !is_passing(&unsent.error) => Err(unsent.error.into()),
            _ => Ok(()),
        }
    }

    fn block(&mut self, block: &[u8], due: Duration) -> Result<(), Error> {
        let (number, position) = self.next;
        let front = Front { kind: Kind::Data, stream: self.stream, number, position, due };
        self.next = (number + 1, position + block.len() as u64);
        self.send(front.message(block))
    }

    /// Queues a message, and waits for slow sinks as long as their policy says.
    fn send(&mut self, message: Vec<u8>) -> Result<(), Error> {
        let mut message = pinnace::Message::from_vec(message);
        let mut full = Full::Report;
        loop {
            let sent = match full {
                Full::Report => self.targets.socket.send(message, full),
                Full::Block => self.targets.socket.send_timeout(message, interrupt::LOOK),
            };
            let unsent = match sent {
                Ok(()) => return Ok(()),
                Err(unsent) => unsent,
            };
            message = match (unsent.message, unsent.error) {
                (Some(message), pinnace::Error::Timeout | pinnace::Error::WindowFull(_)) => message,
                (_, error) if is_passing(&error) => {
                    // Nobody is here: what is live goes by.
                    self.unheard += 1;
                    return Ok(());
                }
                (_, error) => return Err(self.args.transport.error("the sinks", "tune", error)),
            };
            full = Full::Block;
            interrupt::check()?;
            for news in self.targets.look() {
                if news.state == "here" {
                    (self.header_at, self.header_gap) = (Instant::now(), self.first_gap());
                }
                self.tell(&news);
            }
        }
    }

    fn end(&mut self) -> Result<(), Error> {
        let message = self.message(Kind::End, &[])?;
        self.send(message)
    }
}

/// Whether an error of sending says only that nobody is here now, or has no room.
fn is_passing(error: &pinnace::Error) -> bool {
    matches!(
        error,
        pinnace::Error::Timeout
            | pinnace::Error::WindowFull(_)
            | pinnace::Error::ConnectionFailed(_)
            | pinnace::Error::CallRefused(Refused::NotConnected | Refused::NoConnection)
    )
}

/// A number that another stream has hardly got.
fn identity() -> u64 {
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let clock = clock.map_or(0, |time| time.as_nanos() as u64);
    Random::from_seed(clock ^ u64::from(std::process::id()) << 32).next_u64()
}

/// Reads on a thread of its own, so that a source that is slow holds up nothing else.
fn read_ahead(mut medium: Medium) -> Result<Receiver<io::Result<Piece>>, Error> {
    let (done, pieces) = sync_channel(AHEAD);
    thread::start(move || {
        loop {
            let piece = match medium.next() {
                Ok(Some(piece)) => Ok(piece),
                Ok(None) => return,
                Err(error) => Err(error),
            };
            let is_last = piece.is_err();
            if done.send(piece).is_err() || is_last {
                return;
            }
        }
    })?;
    Ok(pieces)
}

//! One connection: both directions at the same time, until both have ended.
//!
//! Always true: one thread receives and writes, one sends, and this one watches both, so that neither a full pipe nor a
//! silent peer keeps Ctrl-C from being heard; our direction is closed when the input has ended, and the connection is left
//! when the peer has closed its own.

use super::input::{Input, Mode, Next, Unsent};
use super::told::{Event, Told, Totals};
use super::{failure, target};
use crate::exit::{Error, Exit};
use crate::thread;
use crate::units::count_of;
use crate::{bare, interrupt};
use indicatif::{ProgressBar, ProgressDrawTarget};
use pinnace::service::Method;
use pinnace::{Connection, Error as Cause, Message};
use std::io::{self, IsTerminal, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How long the end waits for what was sent: for ever, as long as the peer is there.
const FLUSH: Duration = Duration::from_secs(1 << 20);

/// How long the receiving thread waits before it looks whether it should stop: longer than a connection waits before it asks
/// a silent peer whether it is there.
const PATIENCE: Duration = Duration::from_secs(5);
/// Zeros in the place of messages that are lost one after the other: where more are, that is only told.
const MOST_ZEROS: u64 = 64 << 20;

/// What both directions count.
#[derive(Default)]
struct Counts {
    messages_sent: AtomicU64,
    bytes_sent: AtomicU64,
    messages_received: AtomicU64,
    bytes_received: AtomicU64,
    bytes_lost: AtomicU64,
    messages_lost: AtomicU64,
    /// Of those, the ones that came too late.
    messages_late: AtomicU64,
}

/// A connection that is served.
struct Serving {
    connection: Connection,
    /// The peer, and by which method.
    peer: String,
    mode: Mode,
    told: Arc<Told>,
    bar: ProgressBar,
    counts: Counts,
    /// Nothing more is to be done, whatever comes.
    stop: AtomicBool,
}

/// Which direction has ended, and how.
enum Ended {
    Sending(Result<(), Error>),
    Receiving(Result<(), Error>),
}

/// Serves a peer to the end.
pub(super) fn serve(
    connection: Connection,
    is_client: bool,
    input: &Input,
    mode: Mode,
    told: &Arc<Told>,
) -> Result<(), Error> {
    let service = connection.service();
    let receivers: Vec<_> = connection.receivers().iter().map(|receiver| receiver.address.to_string()).collect();
    let peer = if receivers.is_empty() { connection.peer_addr().to_string() } else { receivers.join(", ") };
    let method = connection.method().name();
    told.tell(&Event::Connected { peer: &peer, method, service: &service.to_string() });
    let begun = Instant::now();
    let serving = Arc::new(Serving {
        connection,
        peer: format!("{peer} ({method})"),
        mode,
        told: Arc::clone(told),
        bar: bar(told),
        counts: Counts::default(),
        stop: AtomicBool::new(false),
    });
    // A service of one direction has a sender, who connects, and a receiver.
    let is_duplex = target::is_duplex(&service);
    let (tell, ended) = channel();
    let mut result = Ok(());
    if is_duplex || is_client {
        let input = input.clone();
        result = begin(&serving, tell.clone(), Ended::Sending, move |serving| serving.send(&input));
    }
    if result.is_ok() && (is_duplex || !is_client) {
        result = begin(&serving, tell.clone(), Ended::Receiving, |serving| serving.receive());
    }
    drop(tell);
    let result = result.and_then(|()| serving.watch(&ended));
    serving.stop.store(true, Ordering::Relaxed);
    serving.bar.finish_and_clear();
    if result.is_err() || interrupt::requested() {
        // The peer learns that this is not all.
        serving.connection.abort();
    }
    result?;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let Counts {
        messages_sent,
        bytes_sent,
        messages_received,
        bytes_received,
        bytes_lost,
        messages_lost,
        messages_late,
    } = &serving.counts;
    told.tell(&Event::Ended(Totals {
        messages_sent: count(messages_sent),
        bytes_sent: count(bytes_sent),
        messages_received: count(messages_received),
        bytes_received: count(bytes_received),
        bytes_lost: count(bytes_lost),
        messages_lost: count(messages_lost),
        seconds: begun.elapsed().as_secs_f64(),
    }));
    // Only what may be too old may be missing.
    match count(messages_late) {
        late @ 1.. if !target::may_be_late(&service) => Err(Error::failed(format!(
            "{} from {} came so late that others that were sent later are written already, and left out",
            count_of(late, "message"),
            serving.peer
        ))),
        _ => Ok(()),
    }
}

fn bar(told: &Told) -> ProgressBar {
    // The content itself is to be seen on a terminal.
    if told.quiet || io::stdout().is_terminal() {
        return ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    }
    bare::bar(None)
}

/// One direction, on a thread of its own.
fn begin(
    serving: &Arc<Serving>,
    tell: Sender<Ended>,
    ended: fn(Result<(), Error>) -> Ended,
    work: impl FnOnce(&Serving) -> Result<(), Error> + Send + 'static,
) -> Result<(), Error> {
    let serving = Arc::clone(serving);
    thread::start(move || {
        let result = work(&serving);
        // Whoever watches has the last handle then, whose end waits for the last words.
        drop(serving);
        let _ = tell.send(ended(result));
    })?;
    Ok(())
}

impl Serving {
    /// Waits until both directions have ended, or one has failed.
    fn watch(&self, ended: &Receiver<Ended>) -> Result<(), Error> {
        loop {
            interrupt::check()?;
            let Counts { bytes_sent, bytes_received, .. } = &self.counts;
            self.bar.set_position(bytes_sent.load(Ordering::Relaxed) + bytes_received.load(Ordering::Relaxed));
            match ended.recv_timeout(interrupt::LOOK) {
                Ok(Ended::Sending(result)) => result?,
                Ok(Ended::Receiving(result)) => {
                    result?;
                    if io::stdin().is_terminal() {
                        self.bar.suspend(|| self.told.tell(&Event::PeerEnded));
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    fn failed(&self, error: &Cause) -> Error {
        let error = failure(&format!("the connection with {} broke", self.peer), error);
        let bytes = self.counts.bytes_received.load(Ordering::Relaxed);
        Error { message: format!("{}; {bytes} bytes had come", error.message), ..error }
    }

    /// Writes what comes, until the peer has ended.
    fn receive(&self) -> Result<(), Error> {
        let mut out = io::stdout().lock();
        while !self.stop.load(Ordering::Relaxed) {
            let message = match self.connection.recv_timeout(PATIENCE) {
                Ok(Some(message)) => message,
                Ok(None) => {
                    if self.connection.is_end_missing() {
                        self.missed(&mut out, 1, None)?;
                    }
                    return Ok(());
                }
                Err(Cause::Timeout) => continue,
                Err(error) => return Err(self.failed(&error)),
            };
            let (bytes, bytes_lost) = (message.len() as u64, message.bytes_lost() as u64);
            if message.is_late() {
                // It was missed before: what follows it stands there already, and zeros may be in its place.
                self.counts.messages_late.fetch_add(1, Ordering::Relaxed);
                self.bar.suspend(|| self.told.tell(&Event::Late { bytes }));
                continue;
            }
            if message.missed() > 0 {
                let before = self.counts.messages_received.load(Ordering::Relaxed);
                self.missed(&mut out, message.missed(), Some(before))?;
            }
            let number = self.counts.messages_received.fetch_add(1, Ordering::Relaxed);
            self.counts.bytes_received.fetch_add(bytes, Ordering::Relaxed);
            if bytes_lost > 0 {
                self.counts.bytes_lost.fetch_add(bytes_lost, Ordering::Relaxed);
                let event = Event::Lost { message: number, bytes, bytes_lost, holes: message.holes() };
                self.bar.suspend(|| self.told.tell(&event));
            }
            let head = (self.mode == Mode::LengthPrefixed).then(|| (bytes as u32).to_be_bytes());
            let written = out
                .write_all(head.as_ref().map_or(&[], |head| &head[..]))
                .and_then(|()| out.write_all(&message))
                .and_then(|()| out.flush());
            written.map_err(|error| Error::output(&error))?;
        }
        Ok(())
    }

    /// At least so many messages are lost before another one, or before the end. Where all have one length, and it is known how
    /// many they are, zeros are in their place, up to [`MOST_ZEROS`].
    fn missed(&self, out: &mut impl Write, messages: u64, before: Option<u64>) -> Result<(), Error> {
        self.counts.messages_lost.fetch_add(messages, Ordering::Relaxed);
        let knows = matches!(self.connection.method(), Method::Xtp | Method::Vrp) && before.is_some();
        let filled = match self.mode {
            Mode::Records(size) if knows => messages.saturating_mul(size as u64),
            _ => 0,
        };
        // It is the peer who says how many: nobody may fill the disk with a word.
        let filled = if filled <= MOST_ZEROS { filled } else { 0 };
        self.bar.suspend(|| self.told.tell(&Event::Missed { before, messages_lost: messages, bytes_filled: filled }));
        io::copy(&mut io::repeat(0).take(filled), out).map_err(|error| Error::output(&error))?;
        Ok(())
    }

    /// Of several receivers those that have not got everything, and why.
    fn receivers_gone(&self) -> Result<Vec<String>, Error> {
        if self.connection.receivers().is_empty() {
            return Ok(Vec::new());
        }
        // Who gets the end may leave.
        self.connection.flush().map_err(|error| self.failed(&error))?;
        let mut receivers = self.connection.receivers();
        receivers.retain(|receiver| !receiver.is_connected());
        Ok(receivers.iter().map(|receiver| format!("{} {}", receiver.address, receiver.state)).collect())
    }

    /// The messages that it is: a chunk may be cut anywhere.
    fn pieces(&self, message: Vec<u8>) -> Vec<Vec<u8>> {
        let most = target::bytes_of(&self.connection.service(), "largest").unwrap_or(u64::MAX).max(1);
        if self.mode != Mode::Chunks || message.len() as u64 <= most {
            return vec![message];
        }
        message.chunks(most as usize).map(<[u8]>::to_vec).collect()
    }

    /// Sends a message. What is not sent because the peer is gone, or nothing more is to be done, is given back.
    fn send_one(&self, message: Vec<u8>) -> Result<(), Unsent> {
        if self.stop.load(Ordering::Relaxed) {
            return Err((Some(message), Ok(())));
        }
        let mut pieces = self.pieces(message).into_iter();
        while let Some(piece) = pieces.next() {
            let bytes = piece.len() as u64;
            if let Err(pinnace::Unsent { message, error }) = self.connection.send(piece) {
                let error = self.failed(&error);
                // What is too long stays so.
                let of_peer = message.filter(|_| error.exit != Exit::Usage);
                let left: Vec<_> = of_peer.map(Message::into_vec).into_iter().chain(pieces).collect();
                return Err(((!left.is_empty()).then(|| left.concat()), Err(error)));
            }
            self.counts.messages_sent.fetch_add(1, Ordering::Relaxed);
            self.counts.bytes_sent.fetch_add(bytes, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Sends what there is, and closes our direction at the end.
    fn send(&self, input: &Input) -> Result<(), Error> {
        while !self.stop.load(Ordering::Relaxed) {
            match input.next(interrupt::LOOK, |message| self.send_one(message))? {
                Next::Sent => {}
                // When the peer has ended what it sends, nobody else finds out that it has gone.
                Next::Later => self.connection.check().map_err(|error| self.failed(&error))?,
                Next::Ended => {
                    let gone = self.receivers_gone()?;
                    self.connection.close(FLUSH).map_err(|error| self.failed(&error))?;
                    return if gone.is_empty() {
                        Ok(())
                    } else {
                        Err(Error::peer_gone(format!("{}; all others have got everything", gone.join("; "))))
                    };
                }
            }
        }
        Ok(())
    }
}

//! The sinks that the user has named: who is there, who is not yet, who is gone.
//!
//! Always true: each is tried again, a second after it was found missing, on a thread of its own; who was cut off because it
//! was slow is not.

use super::port;
use crate::a1::Transport;
use crate::bare;
use crate::exit::{Error, Exit};
use pinnace::a1::{Failure, Qos, Sink, Socket};
use serde::Serialize;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Between two tries.
const PAUSE: Duration = Duration::from_secs(1);
/// For the answer to a try, at most.
const TRY: Duration = Duration::from_secs(3);

fn patience(transport: &Transport) -> Duration {
    TRY.min(transport.timeout)
}

/// Where a sink stands.
enum State {
    /// It is being tried.
    Tried,
    Here(Box<Sink>),
    /// To be tried then, if at all.
    Absent(Option<Instant>),
}

/// One sink.
struct Target {
    name: String,
    address: SocketAddr,
    state: State,
    /// Why it is not here, once that was told.
    told: Option<String>,
    /// And what that means.
    exit: Exit,
    /// It was there once.
    was_here: bool,
    /// It has answered, and not let us in.
    is_refused: bool,
    /// It has not answered the last try.
    is_silent: bool,
    /// Nobody has its port, says the system there. It is tried all the same.
    is_closed: bool,
    /// Blocks that were sent to it again, and messages that were left out for it, before its last connection.
    before: (u64, u64),
}

impl Target {
    /// It is not here, and why; news if that was not told before.
    fn is_absent(&mut self, Error { exit, message: why }: Error) -> Option<News> {
        self.exit = exit;
        if self.told.as_ref() == Some(&why) {
            return None;
        }
        self.told = Some(why.clone());
        Some(News { event: "sink", peer: self.name.clone(), state: "absent", error: Some(why) })
    }
}

/// What has happened to one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct News {
    pub(super) event: &'static str,
    pub(super) peer: String,
    pub(super) state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

impl std::fmt::Display for News {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.error {
            None => write!(f, "{} tunes in", self.peer),
            Some(why) => f.write_str(why),
        }
    }
}

/// How one has ended.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Ended {
    pub(super) peer: String,
    /// It was there when the stream was over, and has all that was meant for it.
    pub(super) delivered: bool,
    pub(super) blocks_resent: u64,
    pub(super) messages_skipped: u64,
}

/// What has become of a try.
enum Tried {
    Ended(Result<Sink, pinnace::Error>),
    /// It goes on, but nobody has the port.
    Closed,
}

/// All of them.
pub(super) struct Targets {
    pub(super) socket: Socket,
    qos: Qos,
    transport: Transport,
    all: Vec<Target>,
    tell: Sender<(usize, Tried)>,
    told: Receiver<(usize, Tried)>,
}

impl Targets {
    /// Begins to look for them.
    pub(super) fn new(socket: Socket, qos: Qos, transport: Transport, sinks: Vec<(String, SocketAddr)>) -> Self {
        let (tell, told) = channel();
        let all = sinks
            .into_iter()
            .map(|(name, address)| {
                let state = State::Absent(Some(Instant::now()));
                Target {
                    name,
                    address,
                    state,
                    told: None,
                    exit: Exit::PeerGone,
                    was_here: false,
                    is_refused: false,
                    is_silent: false,
                    is_closed: false,
                    before: (0, 0),
                }
            })
            .collect();
        let mut targets = Self { socket, qos, transport, all, tell, told };
        targets.retry();
        targets
    }

    /// Another record for those who come, and those who are here.
    pub(super) fn set_qos(&mut self, qos: Qos) -> Result<(), Error> {
        self.qos = qos;
        Ok(self.socket.set_qos(qos)?)
    }

    fn retry(&mut self) {
        // The socket of one sink alone is told itself.
        let is_one = self.all.len() == 1;
        for (index, target) in self.all.iter_mut().enumerate() {
            if !matches!(target.state, State::Absent(Some(at)) if at <= Instant::now()) {
                continue;
            }
            (target.state, target.is_closed) = (State::Tried, false);
            let is_answered = Arc::new(AtomicBool::new(false));
            let (answered, address, tell) = (Arc::clone(&is_answered), target.address, self.tell.clone());
            // If there is no thread for it, there is none for the try either.
            let _ = std::thread::Builder::new().spawn(move || {
                if !is_one && port::is_closed(address, TRY, &answered) {
                    let _ = tell.send((index, Tried::Closed));
                }
            });
            let (socket, address, qos, tell) = (self.socket.clone(), target.address, self.qos, self.tell.clone());
            let patience = patience(&self.transport);
            let begun = std::thread::Builder::new().spawn(move || {
                let ended = socket.add_sink_timeout(address, qos, patience);
                is_answered.store(true, Ordering::Relaxed);
                // Whoever casts may be done.
                let _ = tell.send((index, Tried::Ended(ended)));
            });
            if let Err(error) = begun {
                let error = pinnace::Error::Io { action: "cannot start a thread".into(), source: error };
                let _ = self.tell.send((index, Tried::Ended(Err(error))));
            }
        }
    }

    /// What has happened since the last look; never waits.
    pub(super) fn look(&mut self) -> Vec<News> {
        let (mut news, patience) = (Vec::new(), patience(&self.transport));
        while let Ok((index, found)) = self.told.try_recv() {
            let Some(target) = self.all.get_mut(index) else { continue };
            let name = target.name.clone();
            match found {
                Tried::Ended(Ok(sink)) => {
                    target.state = State::Here(Box::new(sink));
                    (target.told, target.was_here, target.is_silent) = (None, true, false);
                    target.is_closed = false;
                    news.push(News { event: "sink", peer: name, state: "here", error: None });
                }
                Tried::Closed => {
                    if matches!(target.state, State::Tried) {
                        target.is_closed = true;
                        let why = bare::nobody(&target.name, "UDP port", "tune");
                        news.extend(target.is_absent(why));
                    }
                }
                Tried::Ended(Err(error)) => {
                    target.is_refused = matches!(
                        error,
                        pinnace::Error::ConnectionFailed(Failure::Refused { .. }) | pinnace::Error::CallRefused(_)
                    );
                    target.is_silent =
                        matches!(error, pinnace::Error::ConnectionFailed(Failure::TimedOut) | pinnace::Error::Timeout);
                    target.state = State::Absent(Some(Instant::now() + PAUSE));
                    // That the port is closed says more than that nobody answers.
                    if !(target.is_silent && target.is_closed) {
                        news.extend(target.is_absent(self.transport.error_within(patience, &name, "tune", error)));
                    }
                }
            }
        }
        for target in &mut self.all {
            let State::Here(sink) = &target.state else { continue };
            let Some(result) = sink.result() else { continue };
            let is_slow = matches!(result, Err(Failure::TooSlow));
            target.before = counted(sink, target.before);
            // It has ended: nothing is left to be sent to it.
            let _ = self.socket.remove_sink(sink, Duration::ZERO);
            target.state = State::Absent((!is_slow).then(|| Instant::now() + PAUSE));
            let why = match result {
                Err(Failure::TooSlow) => format!("{} is too slow, and was dropped", target.name),
                Err(failure) => format!("{} is gone: {failure}", target.name),
                Ok(()) => format!("{} is gone: it has closed the connection", target.name),
            };
            (target.told, target.exit) = (Some(why.clone()), Exit::PeerGone);
            news.push(News { event: "sink", peer: target.name.clone(), state: "gone", error: Some(why) });
        }
        self.retry();
        news
    }

    /// Whether each has been found, or not, at least once.
    pub(super) fn has_answers(&self) -> bool {
        self.all.iter().all(|target| target.was_here || target.told.is_some())
    }

    /// Whether none of them can be waited for: who answers, and refuses, will do so again.
    pub(super) fn is_hopeless(&self) -> bool {
        self.all.iter().all(|target| target.is_refused)
    }

    /// How many are here.
    pub(super) fn here(&self) -> usize {
        self.all.iter().filter(|target| matches!(target.state, State::Here(_))).count()
    }

    /// Why the first that is missing is.
    pub(super) fn why(&self) -> Error {
        let silent = |name: &str| self.transport.error(name, "tune", pinnace::Error::Timeout);
        let why = |target: &Target| match &target.told {
            // It was tried as long as there was time.
            Some(_) if target.is_silent && !target.is_closed => Some(silent(&target.name)),
            told => Some(Error::new(target.exit, told.clone()?)),
        };
        let name = self.all.first().map_or("the sink", |target| target.name.as_str());
        self.all.iter().find_map(why).unwrap_or_else(|| silent(name))
    }

    /// Ends all of them, within `linger`, and says how.
    pub(super) fn close(&mut self, linger: Duration) -> Vec<Ended> {
        let _ = self.socket.close_sinks(linger);
        self.all
            .iter()
            .map(|target| {
                let (delivered, (blocks_resent, messages_skipped)) = match &target.state {
                    State::Here(sink) => (sink.result() == Some(Ok(())), counted(sink, target.before)),
                    _ => (false, target.before),
                };
                Ended { peer: target.name.clone(), delivered, blocks_resent, messages_skipped }
            })
            .collect()
    }
}

fn counted(sink: &Sink, (repeated, skipped): (u64, u64)) -> (u64, u64) {
    sink.facts().map_or((repeated, skipped), |facts| (repeated + facts.repeated, skipped + facts.skipped))
}

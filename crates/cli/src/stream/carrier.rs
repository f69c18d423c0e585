//! What carries the frames: VRP, or TCP for comparison.

use super::{header, tcp};
use crate::exit::Error;
use crate::interrupt;
use pinnace::Message;
use pinnace::vrp::{self, Contract, Failure, Frame, Loss, Progress, Received, Sending};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::{Deref, Range};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// The name of a carrier, as `--over` has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Carrier {
    #[default]
    Vrp,
    /// With this congestion control, or the system's own choice.
    Tcp(Option<String>),
}

impl FromStr for Carrier {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "vrp" => Ok(Self::Vrp),
            "tcp" => Ok(Self::Tcp(None)),
            _ => match text.strip_prefix("tcp-") {
                Some(name) if !name.is_empty() => Ok(Self::Tcp(Some(name.to_owned()))),
                _ => Err(format!("`{text}` carries no frames here; choose vrp, tcp, tcp-cubic or tcp-bbr")),
            },
        }
    }
}

impl std::fmt::Display for Carrier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Vrp => f.write_str("VRP"),
            Self::Tcp(None) => f.write_str("TCP"),
            Self::Tcp(Some(name)) => write!(f, "TCP {name}"),
        }
    }
}

/// A frame that is not under way any more.
pub(super) struct Landed {
    pub(super) number: u64,
    /// Its memory.
    pub(super) buffer: Option<Vec<u8>>,
    pub(super) outcome: Outcome,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    /// The receiver has it, and says, perhaps, what it lost.
    Acknowledged(Option<Loss>),
    /// Its time was over.
    Late,
    /// The receiver does not want it.
    Refused,
}

/// What goes for every frame that VRP carries.
#[derive(Clone, Debug, Default)]
pub(super) struct Terms {
    pub(super) contract: Contract,
    /// Critical bytes; what lies beyond a frame does not count.
    pub(super) critical: Vec<Range<u64>>,
    pub(super) repeat_for: Option<Duration>,
    pub(super) give_up_after: Option<Duration>,
    pub(super) packet_bytes: Option<u16>,
    pub(super) window: Option<u16>,
}

impl Terms {
    fn frame(&self, message: Message) -> Frame {
        let (size, start) = (message.len() as u64, header::BYTES as u64);
        // Without its header nobody knows what a frame is.
        let mut contract = self.contract.clone().critical(0..start.min(size));
        for range in &self.critical {
            let (low, high) = ((range.start + start).min(size), range.end.saturating_add(start).min(size));
            contract = if low < high { contract.critical(low..high) } else { contract };
        }
        let mut frame = Frame::new(message).with_contract(contract);
        frame = self.repeat_for.into_iter().fold(frame, Frame::repeat_for);
        frame = self.give_up_after.into_iter().fold(frame, Frame::give_up_after);
        frame = self.packet_bytes.into_iter().fold(frame, Frame::packet_bytes);
        self.window.into_iter().fold(frame, Frame::window)
    }
}

/// The sending end.
pub(super) enum Outgoing {
    Vrp(Vrp),
    Tcp(tcp::Outgoing),
}

/// The sending end of VRP.
pub(super) struct Vrp {
    pub(super) sender: vrp::Sender,
    pub(super) terms: Terms,
    pub(super) peer: String,
    pub(super) under_way: VecDeque<(u64, Sending)>,
    pub(super) heard: Heard,
}

/// When the receiver was heard last.
#[derive(Debug)]
pub(super) struct Heard {
    controls: u64,
    /// Since then nothing has come, though something was expected.
    since: Instant,
    /// Reports of the network that its port is closed, by then.
    reports: u64,
}

impl Heard {
    pub(super) fn now() -> Self {
        Self { controls: 0, since: Instant::now(), reports: 0 }
    }
}

impl Outgoing {
    /// Begins to send a frame.
    pub(super) fn send(&mut self, number: u64, frame: Vec<u8>) -> Result<(), Error> {
        match self {
            Self::Vrp(vrp) => {
                let frame = vrp.terms.frame(Message::from_vec(frame));
                let outline = frame.outline();
                let sending = vrp.sender.send(frame).map_err(|unsent| vrp.error(unsent.error))?;
                // The next is probably like this one: its header goes ahead.
                vrp.sender.announce(&outline).map_err(|error| vrp.error(error))?;
                vrp.under_way.push_back((number, sending));
                Ok(())
            }
            Self::Tcp(tcp) => tcp.send(number, frame),
        }
    }

    /// Fails if the receiver has ended; to be called now and then also while nothing is under way.
    pub(super) fn check(&mut self) -> Result<(), Error> {
        match self {
            Self::Vrp(vrp) => vrp.check(),
            Self::Tcp(tcp) => tcp.check_end(),
        }
    }

    /// Frames under way.
    pub(super) fn in_flight(&self) -> usize {
        match self {
            Self::Vrp(vrp) => vrp.under_way.len(),
            Self::Tcp(tcp) => tcp.in_flight(),
        }
    }

    /// Waits until a frame has landed; nothing if none has by then.
    pub(super) fn landed(&mut self, until: Instant) -> Result<Option<Landed>, Error> {
        match self {
            Self::Vrp(vrp) => vrp.landed(until),
            Self::Tcp(tcp) => tcp.landed(until),
        }
    }
}

/// A frame that lands before an older one is noticed so late.
const GLANCE: Duration = Duration::from_millis(2);

/// A receiver that has answered, says nothing for so long while frames are under way, and has its port closed, has ended. Anybody can
/// forge what the network reports, but not that nothing comes.
const SILENCE: Duration = Duration::from_secs(1);

impl Vrp {
    fn check(&mut self) -> Result<(), Error> {
        let counters = self.sender.counters();
        if counters.controls_received != self.heard.controls || self.under_way.is_empty() {
            let (controls, reports) = (counters.controls_received, counters.unreachable_reports);
            self.heard = Heard { controls, since: Instant::now(), reports };
        }
        let is_closed = counters.unreachable_reports > self.heard.reports && self.heard.since.elapsed() > SILENCE;
        // Only who ends refuses what it has taken: the header of the next frame, if that went ahead.
        if counters.frames_dropped > 0 || is_closed { Err(self.ended_there()) } else { Ok(()) }
    }

    fn landed(&mut self, until: Instant) -> Result<Option<Landed>, Error> {
        loop {
            let ended = self.under_way.iter().position(|(_, sending)| sending.has_ended());
            let place = ended.unwrap_or(0);
            let Some((number, sending)) = self.under_way.remove(place) else { return Ok(None) };
            let left = until.saturating_duration_since(Instant::now());
            let wait = if self.under_way.is_empty() { left } else { left.min(GLANCE) };
            match sending.wait_timeout(wait) {
                Progress::Ended(result) => return self.ended(number, result).map(Some),
                Progress::UnderWay(sending) => self.under_way.insert(place, (number, sending)),
            }
            if Instant::now() >= until {
                return Ok(None);
            }
        }
    }

    fn ended(&self, number: u64, result: Result<vrp::Sent, pinnace::Unsent>) -> Result<Landed, Error> {
        let (message, outcome) = match result {
            Ok(sent) => {
                let loss = sent.report.as_deref().cloned();
                (Some(sent.message), Outcome::Acknowledged(loss))
            }
            Err(unsent) => match unsent.error {
                pinnace::Error::FrameFailed(Failure::Late) => (unsent.message, Outcome::Late),
                pinnace::Error::FrameFailed(Failure::Refused) => (unsent.message, Outcome::Refused),
                error => return Err(self.error(error)),
            },
        };
        Ok(Landed { number, buffer: message.map(Message::into_vec), outcome })
    }

    fn ended_there(&self) -> Error {
        Error::peer_gone(format!(
            "{} has ended: it was interrupted or killed, or has as many frames as it wanted",
            self.peer
        ))
    }

    fn error(&self, error: pinnace::Error) -> Error {
        match error {
            pinnace::Error::FrameFailed(Failure::PeerGone) => Error::peer_gone(format!(
                "{} has stopped answering: it was ended, or the network between is down",
                self.peer
            )),
            pinnace::Error::FrameFailed(Failure::Swallowed) => Error::peer_gone(format!(
                "{} answers, but no frames reach it any more: the path has begun to lose all packets of their size in silence, \
                 and carries smaller ones; run the command again",
                self.peer
            )),
            error => Error::from(error),
        }
    }
}

/// A frame that has come.
#[derive(Debug)]
pub(super) struct Arrival {
    content: Content,
    pub(super) source: SocketAddr,
    /// When it was there, in nanoseconds since 1970.
    pub(super) at: u64,
    /// From its beginning to its end.
    pub(super) took: Duration,
    pub(super) holes: Vec<Range<usize>>,
    pub(super) loss: Loss,
}

#[derive(Debug)]
enum Content {
    Placed(Box<Received>),
    Read(Vec<u8>),
}

impl Deref for Arrival {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.content {
            Content::Placed(received) => received,
            Content::Read(bytes) => bytes,
        }
    }
}

impl Arrival {
    /// A frame without holes.
    pub(super) fn whole(bytes: Vec<u8>, source: SocketAddr, at: u64, took: Duration, loss: Loss) -> Self {
        Self { content: Content::Read(bytes), source, at, took, holes: Vec::new(), loss }
    }
}

/// The receiving end.
pub(super) enum Incoming {
    Vrp(vrp::Receiver),
    Tcp(tcp::Incoming),
}

impl Incoming {
    pub(super) fn local_addr(&self) -> SocketAddr {
        match self {
            Self::Vrp(receiver) => receiver.local_addr(),
            Self::Tcp(tcp) => tcp.local_addr(),
        }
    }

    /// What the socket could not be given.
    pub(super) fn warnings(&self) -> &[String] {
        match self {
            Self::Vrp(receiver) => receiver.warnings(),
            Self::Tcp(_) => &[],
        }
    }

    /// The next frame, if one comes within [`interrupt::LOOK`].
    pub(super) fn recv(&self) -> Result<Option<Arrival>, Error> {
        match self {
            Self::Vrp(receiver) => {
                let Some(received) = receiver.recv_timeout(interrupt::LOOK)? else { return Ok(None) };
                Ok(Some(Arrival {
                    at: header::now(),
                    source: received.source(),
                    took: received.took(),
                    holes: received.holes().to_vec(),
                    loss: received.loss().clone(),
                    content: Content::Placed(Box::new(received)),
                }))
            }
            Self::Tcp(tcp) => tcp.recv(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carriers_have_names() {
        assert_eq!("vrp".parse(), Ok(Carrier::Vrp));
        assert_eq!("tcp".parse(), Ok(Carrier::Tcp(None)));
        assert_eq!("tcp-bbr".parse(), Ok(Carrier::Tcp(Some("bbr".into()))));
        assert!("tcp-".parse::<Carrier>().is_err() && "udp".parse::<Carrier>().unwrap_err().contains("udp"));
    }
}

//! A frame to send, and what is known of it when it has been sent.

use super::{Contract, Loss};
use crate::Message;
use pinnace_core::Time;
use pinnace_vrp::Terms;
use std::ops::{Deref, Range};
use std::time::Duration;

/// A message to send, what may be lost of it, and how long it is worth sending. What is not said here is as the sender's
/// [`Options`](super::Options) say.
///
/// ```
/// use pinnace::{Message, vrp::{Contract, Frame}};
/// use std::time::Duration;
/// let frame = Frame::new(Message::from_vec(vec![0; 50_000]))
///     .with_contract(Contract::new().loss_percent(5.0))
///     .repeat_for(Duration::from_millis(40))
///     .give_up_after(Duration::from_millis(200));
/// ```
#[derive(Debug)]
pub struct Frame {
    pub(super) message: Message,
    pub(super) terms: Option<Terms>,
    pub(super) packet_bytes: Option<u16>,
    pub(super) window: Option<u16>,
    repeat_for: Option<Duration>,
    give_up_after: Option<Duration>,
    pub(super) is_expendable: bool,
    pub(super) takes_smaller_packets: bool,
}

/// What a receiver is told of a frame before its data: made by [`Frame::outline`].
#[derive(Clone, Debug)]
pub struct Outline {
    pub(super) size: u64,
    pub(super) terms: Option<Terms>,
    pub(super) packet_bytes: Option<u16>,
    pub(super) window: Option<u16>,
}

impl Frame {
    /// The first [`Message::len`] bytes of a message.
    pub fn new(message: Message) -> Self {
        Self {
            message,
            terms: None,
            packet_bytes: None,
            window: None,
            repeat_for: None,
            give_up_after: None,
            is_expendable: false,
            takes_smaller_packets: false,
        }
    }

    /// What may be lost of this frame.
    #[must_use]
    pub fn with_contract(self, contract: Contract) -> Self {
        Self { terms: Some(contract.into_terms()), ..self }
    }

    /// A soft deadline: so long after the call that sends it, the sender stops repeating what the contract lets it drop.
    #[must_use]
    pub fn repeat_for(self, time: Duration) -> Self {
        Self { repeat_for: Some(time), ..self }
    }

    /// A hard deadline: so long after the call that sends it, the frame ends with [`Failure::Late`](super::Failure::Late)
    /// if it has not been acknowledged.
    #[must_use]
    pub fn give_up_after(self, time: Duration) -> Self {
        Self { give_up_after: Some(time), ..self }
    }

    /// Nobody was promised that it arrives, and nobody who does not ask for it is told that it was lost.
    #[must_use]
    pub(crate) fn expendable(self) -> Self {
        Self { is_expendable: true, ..self }
    }

    /// `P`, data bytes of a packet, 1 to 65,501, instead of what the sender would choose.
    #[must_use]
    pub fn packet_bytes(self, bytes: u16) -> Self {
        Self { packet_bytes: Some(bytes), ..self }
    }

    /// The same, of a path that carries packets of that size, and less where it turns out that it does not.
    #[must_use]
    pub fn packet_bytes_at_most(self, bytes: u16) -> Self {
        Self { packet_bytes: Some(bytes), takes_smaller_packets: true, ..self }
    }

    /// `W`, packets in flight and the window over which the loss rate holds, 1 to 16,384, instead of what the sender would
    /// choose.
    #[must_use]
    pub fn window(self, packets: u16) -> Self {
        Self { window: Some(packets), ..self }
    }

    /// Everything but the bytes, for [`Sender::announce`](super::Sender::announce).
    pub fn outline(&self) -> Outline {
        Outline {
            size: self.message.len() as u64,
            terms: self.terms.clone(),
            packet_bytes: self.packet_bytes,
            window: self.window,
        }
    }

    /// The message.
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// The message again.
    pub fn into_message(self) -> Message {
        self.message
    }

    /// When to stop repeating what may be lost, and when to give up.
    pub(super) fn deadlines(&self, now: Time) -> (Option<Time>, Option<Time>) {
        (self.repeat_for.map(|time| now + time), self.give_up_after.map(|time| now + time))
    }
}

impl From<Message> for Frame {
    fn from(message: Message) -> Self {
        Self::new(message)
    }
}

impl From<Vec<u8>> for Frame {
    fn from(bytes: Vec<u8>) -> Self {
        Self::new(Message::from_vec(bytes))
    }
}

/// A frame that was acknowledged.
#[derive(Debug)]
pub struct Sent {
    /// The message: its buffer is the caller's again.
    pub message: Message,
    /// What was lost of it, with permission; `None` if the receiver does not report it (another implementation may not).
    pub report: Option<Report>,
    /// `P`, bytes of every packet but the last.
    pub packet_bytes: u16,
}

/// What the receiver of a frame reports as lost. Is a [`Loss`] (packets, lost packets, longest run, rate), and says where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    loss: Loss,
    holes: Vec<Range<usize>>,
}

impl Report {
    /// What was lost, in bytes: half-open ranges, in rising order. All of it if [`Loss::is_complete`]: a report of more
    /// ranges than fit one packet is cut short.
    pub fn holes(&self) -> &[Range<usize>] {
        &self.holes
    }
}

impl Deref for Report {
    type Target = Loss;

    fn deref(&self) -> &Loss {
        &self.loss
    }
}

impl Sent {
    pub(super) fn new(message: Message, sent: pinnace_vrp::Sent) -> Self {
        let pinnace_vrp::Sent { size, packet_bytes, loss } = sent;
        // The acknowledgement of an empty frame has no report: there was nothing to lose.
        let loss = loss.or_else(|| (size == 0).then(|| Loss { is_complete: true, ..Loss::default() }));
        let report = loss.map(|loss| {
            let holes = in_memory(&loss.holes(size, packet_bytes), message.len());
            Report { loss, holes }
        });
        Self { message, report, packet_bytes }
    }
}

/// Ranges of a frame as ranges of memory of `len` bytes.
pub(super) fn in_memory(ranges: &[Range<u64>], len: usize) -> Vec<Range<usize>> {
    let clip = |at: u64| usize::try_from(at).unwrap_or(len).min(len);
    ranges.iter().map(|range| clip(range.start)..clip(range.end)).filter(|range| !range.is_empty()).collect()
}

//! What a method is: a way to carry frames from one process to another.
//!
//! A method is three traits: [`Method`] opens the others, [`Outgoing`] sends frames to one address, and [`Incoming`] is
//! what listens. What arrives goes into a [`Sink`]. Programs can bring methods of their own: see
//! [`Context::with_methods`](super::Context::with_methods).
//!
//! Always true: a parcel's bytes do not change while anybody has it.

use super::Cause;
use super::queue::{Delivery, Queue};
use crate::{Message, vrp};
use pinnace_core::IntervalSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// What may be lost of a frame. Methods that lose nothing need not look at it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contract {
    /// The share that may be lost: 0 to 100.
    pub loss_percent: f64,
    /// Bytes that may be lost in a row.
    pub run_bytes: u64,
    /// Bytes that must arrive, of the whole frame: ascending, disjoint, at most 64 ranges. The request's header is among
    /// them.
    pub critical: Vec<Range<u64>>,
}

impl Contract {
    /// Whether nothing may be lost.
    pub fn is_reliable(&self) -> bool {
        self.loss_percent <= 0.0 || self.run_bytes == 0
    }

    /// The same, as VRP has it.
    pub(super) fn vrp(&self) -> vrp::Contract {
        let reliable = vrp::Contract::reliable();
        if self.is_reliable() {
            return reliable;
        }
        let contract = reliable.loss_percent(self.loss_percent).run_bytes(self.run_bytes);
        self.critical.iter().cloned().fold(contract, vrp::Contract::critical)
    }
}

/// A frame to send: the request's header and its payload.
#[derive(Clone, Debug)]
pub struct Parcel {
    bytes: Arc<Vec<u8>>,
    contract: Contract,
}

impl Parcel {
    pub(super) fn new(bytes: Arc<Vec<u8>>, contract: Contract) -> Self {
        Self { bytes, contract }
    }

    /// What to send.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What of it may be lost.
    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    /// The bytes as a message for sending; nothing is copied.
    pub(super) fn message(&self) -> Message {
        let base = self.bytes.as_ptr().cast_mut();
        // SAFETY: the message keeps the vector, which nobody changes while it is shared (`Arc::make_mut` copies it then),
        // so its memory stays where it is. Messages that are sent are only read.
        unsafe { Message::from_owner(self.bytes.clone(), base, self.bytes.len()) }
    }
}

/// What became of a frame that was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Bytes of the frame that were lost, as its contract allows; empty too if the method cannot tell.
    pub lost: Vec<Range<u64>>,
}

/// A frame that has arrived.
pub struct Arrival {
    /// The frame. Lost bytes are there, and mean nothing.
    pub data: Box<dyn AsRef<[u8]> + Send + Sync>,
    /// Bytes that were lost.
    pub holes: Vec<Range<usize>>,
    /// Who sent it, as the method writes it.
    pub source: String,
}

impl fmt::Debug for Arrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = (*self.data).as_ref().len();
        write!(f, "Arrival {{ {bytes} bytes from {}, holes {:?} }}", self.source, self.holes)
    }
}

/// A way to carry frames from one process to another.
pub trait Method: Send + Sync {
    /// Its name in startpoints: lower-case letters, digits, `-`, `_`.
    fn name(&self) -> &str;

    /// Opens a way to an address, and finds out whether somebody listens there: the *probe*.
    ///
    /// # Errors
    /// If nobody does, or the address is none.
    fn connect(&self, address: &str, options: &str) -> Result<Arc<dyn Outgoing>, Cause>;

    /// Takes in frames at an address of this host, or wherever the method likes (`""`), and gives them to the sink.
    ///
    /// # Errors
    /// If it cannot listen there.
    fn listen(&self, address: &str, sink: Sink) -> Result<Box<dyn Incoming>, Cause>;
}

/// An open way to one address. Many threads may send at a time.
pub trait Outgoing: Send + Sync {
    /// Begins to send a frame, and returns before it has arrived if it can.
    ///
    /// # Errors
    /// If nothing of it was sent, nor will be.
    fn send(&self, parcel: Parcel) -> Result<Box<dyn Pending>, Cause>;

    /// Whether it may still work. Ways that may not are opened anew before the next frame.
    fn is_usable(&self) -> bool {
        true
    }
}

/// A frame under way. Dropping it lets the frame go on.
pub trait Pending: Send {
    /// Waits until the frame has arrived.
    ///
    /// # Errors
    /// If it is not known to have arrived.
    fn wait(self: Box<Self>) -> Result<Sent, Cause>;
}

/// Something that listens. Dropping it closes it.
pub trait Incoming: Send {
    /// Where it can be reached, as [`Method::connect`] wants it. If it listens at every address of the host, the one that
    /// others are most likely to reach.
    fn address(&self) -> String;

    /// What else [`Method::connect`] should know.
    fn options(&self) -> String {
        String::new()
    }

    /// Stops. No frame is delivered afterwards.
    fn close(&mut self);
}

/// Where a method puts what has arrived. Clones are the same.
#[derive(Clone, Debug)]
pub struct Sink {
    queue: Arc<Queue>,
    method: Arc<str>,
}

/// Why a sink did not take a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undelivered {
    /// The endpoint is closed.
    Closed,
    /// The endpoint has too much to do, and did not get room in time.
    Full,
}

impl fmt::Display for Undelivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "the endpoint is closed",
            Self::Full => "the endpoint is busy: its handlers do not keep up",
        })
    }
}

impl std::error::Error for Undelivered {}

impl Sink {
    pub(super) fn new(queue: Arc<Queue>, method: &str) -> Self {
        Self { queue, method: method.into() }
    }

    /// Gives a frame to the endpoint; waits, as long as `patience`, while it has too much to do.
    ///
    /// # Errors
    /// If the endpoint did not take it.
    pub fn deliver(&self, arrival: Arrival, patience: Duration) -> Result<(), Undelivered> {
        let len = (*arrival.data).as_ref().len();
        // Methods are trusted to be right about holes, not to be tidy.
        let holes: IntervalSet = arrival
            .holes
            .iter()
            .map(|hole| hole.start.min(len) as u64..hole.end.min(len) as u64)
            .filter(|hole| hole.start < hole.end)
            .collect();
        let holes = holes.iter().map(|hole| hole.start as usize..hole.end as usize).collect();
        self.queue.push(Delivery { arrival: Arrival { holes, ..arrival }, method: self.method.clone(), len }, patience)
    }

    /// Whether the endpoint is closed.
    pub fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }
}

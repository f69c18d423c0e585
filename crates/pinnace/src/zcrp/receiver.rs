//! The receiving half, for applications.

use super::burst::{self, Burst, Way};
use super::exchange::Exchange;
use super::port::{self, Port};
use super::sender::Receiving;
use crate::{Error, Message, Unsent};
use pinnace_runtime::Call;
use pinnace_zcrp::{ReceiverCounters, Zcrp};
use std::net::SocketAddr;
use std::time::Duration;

/// Receives messages from one sender. Clones are the same receiver; calls may come from any thread.
#[derive(Clone, Debug)]
pub struct Receiver {
    port: Port,
}

impl Receiver {
    pub(super) fn new(port: Port) -> Self {
        Self { port }
    }

    /// Posts a message to receive into: all its capacity. The n-th message sent goes into the n-th posted.
    ///
    /// # Errors
    /// [`Unsent`] gives the message back, with the reason.
    pub fn post(&self, mut message: Message) -> Result<Receiving, Unsent> {
        let Ok(capacity) = u32::try_from(message.capacity()) else {
            return Err(Unsent::new(message, Error::TooLarge));
        };
        if !message.is_writable() {
            return Err(Unsent::new(message, Error::ReadOnly));
        }
        let base = message.base();
        let call = |call: Call<'_, Zcrp, Exchange>| {
            let Call { now, engine, memory, state } = call;
            let Some(receiver) = engine.receiver_mut() else { return Err((message, Error::Timeout)) };
            // SAFETY: the message moves into `state`, which keeps it, untouched, until the event that takes the buffer
            // out of the table again; it was checked to be writable.
            let buffer = unsafe { memory.insert(base, capacity as usize) };
            match receiver.post(now, buffer, capacity) {
                Ok(number) => Ok((number, state.receives.begin(number, message))),
                Err(refused) => {
                    memory.remove(buffer);
                    Err((message, Error::Refused(refused)))
                }
            }
        };
        match self.port.call(call) {
            Ok(Ok((number, ticket))) => Ok(Receiving::new(self.port.clone(), number, ticket)),
            Ok(Err((message, error))) => Err(Unsent::new(message, error)),
            Err(error) => Err(Unsent::new(None, error)),
        }
    }

    /// Posts many messages in one call, for less time a message than [`Receiver::post`] takes. All or none.
    ///
    /// # Errors
    /// All of them, with the reason.
    pub fn post_all(&self, messages: Vec<Message>) -> Result<Burst, (Vec<Message>, Error)> {
        burst::begin(&self.port, Way::In, messages)
    }

    /// A descriptor that becomes readable when a message has ended: clear it first, then look at all.
    pub(crate) fn readiness_fd(&self) -> Result<std::os::fd::BorrowedFd<'_>, Error> {
        Ok(self.port.readiness_fd()?)
    }

    /// Makes the [descriptor](Receiver::readiness_fd) readable although nothing has ended since.
    pub(crate) fn signal_readiness(&self) {
        self.port.signal_readiness();
    }

    /// See [`Receiver::readiness_fd`].
    pub(crate) fn clear_readiness(&self) {
        self.port.clear_readiness();
    }

    /// What the protocol has seen: `units_in_place`, `units_copied`, `bytes_copied` and more (Z-18).
    pub fn counters(&self) -> ReceiverCounters {
        self.port.inspect(|engine, _, _| engine.receiver().map(pinnace_zcrp::Receiver::counters)).unwrap_or_default()
    }

    /// The peer's address, once it is known: that of who introduced itself is not before it has answered. None over a link of one's
    /// own ([`over`](super::over)).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (_sender, receiver) = pinnace::zcrp::connect("127.0.0.1:9", &Default::default())?;
    /// assert_eq!(receiver.peer_addr(), Some("127.0.0.1:9".parse()?));
    /// # Ok(())
    /// # }
    /// ```
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.port.inspect(|_, _, state| state.peer.get().copied())
    }

    /// Whether a message has come in part, and not whole.
    pub fn has_begun(&self) -> bool {
        self.port.inspect(|engine, _, _| engine.receiver().is_some_and(pinnace_zcrp::Receiver::has_begun))
    }

    /// What the socket has seen.
    pub fn link_counters(&self) -> pinnace_link::LinkCounters {
        self.port.link_counters()
    }

    /// As [`close`](Self::close), and waits for nothing.
    pub(crate) fn begin_close(&self) -> Result<(), Error> {
        let begin = |call: Call<'_, Zcrp, Exchange>| {
            if let Some(receiver) = call.engine.receiver_mut() {
                receiver.close(call.now);
            }
        };
        Ok(self.port.call(begin)?)
    }

    /// Ends the receiver: what is under way fails. Repeats the newest acknowledgement and answers duplicates for 40 ms,
    /// and returns then (Z-15).
    pub fn close(&self) {
        if self.begin_close().is_ok() {
            let _ = self.port.wait_until(|state| state.receives.closed(), port::deadline(Duration::from_secs(1)));
        }
    }
}

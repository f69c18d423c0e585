//! The sending half, for applications.

use super::burst::{self, Burst, Way};
use super::exchange::Outcome;
use super::port::{self, Port};
use super::{Options, Progress};
use crate::{Error, Message, Unsent};
use pinnace_runtime::{Call, WaitError, Waiting};
use pinnace_zcrp::{Refused, SenderCounters};
use std::future::Future;
use std::net::ToSocketAddrs;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Sends messages to one receiver. Clones are the same sender; calls may come from any thread.
#[derive(Clone, Debug)]
pub struct Sender {
    port: Port,
}

impl Sender {
    pub(super) fn new(port: Port) -> Self {
        Self { port }
    }

    /// Opens a sender to `peer`. Nothing is sent before the first message.
    ///
    /// # Errors
    /// If the address does not resolve, or the system has no socket for it.
    pub fn connect(peer: impl ToSocketAddrs, options: &Options) -> Result<Self, Error> {
        port::connect_sender(peer, options)
    }

    /// Queues a message (its first [`Message::len`] bytes). It travels when the receiver has posted a buffer for it; the
    /// n-th message sent goes into the n-th buffer posted.
    ///
    /// # Errors
    /// [`Unsent`] gives the message back, with the reason.
    pub fn send(&self, message: Message) -> Result<Sending, Unsent> {
        self.queue(message, false)
    }

    /// The same, but [`Refused::TooMany`] already where more would take too much memory ([`UnderWay::has_room`]).
    pub(crate) fn send_if_room(&self, message: Message) -> Result<Sending, Unsent> {
        self.queue(message, true)
    }

    fn queue(&self, mut message: Message, is_bounded: bool) -> Result<Sending, Unsent> {
        let Ok(size) = u32::try_from(message.len()) else {
            return Err(Unsent::new(message, Error::TooLarge));
        };
        let call = |call: Call<'_, pinnace_zcrp::Zcrp, super::exchange::Exchange>| {
            let Call { now, engine, memory, state } = call;
            let Some(sender) = engine.sender_mut() else { return Err((message, Error::Timeout)) };
            if is_bounded && !has_room(state, message.len()) {
                return Err((message, Error::Refused(Refused::TooMany)));
            }
            // SAFETY: the message moves into `state`, which keeps it, untouched, until the event that takes the buffer
            // out of the table again.
            let buffer = unsafe { message.lend(memory) };
            match sender.send(now, buffer, size) {
                Ok(number) => Ok((number, state.sends.begin(number, message))),
                Err(refused) => {
                    memory.remove(buffer);
                    Err((message, Error::Refused(refused)))
                }
            }
        };
        match self.port.call(call) {
            Ok(Ok((number, ticket))) => {
                Ok(Sending { port: Some(self.port.clone()), number, ticket, waiting: Waiting::default() })
            }
            Ok(Err((message, error))) => Err(Unsent::new(message, error)),
            Err(error) => Err(Unsent::new(None, error)),
        }
    }

    /// Queues many messages in one call, for less time a message than [`Sender::send`] takes. All or none.
    ///
    /// # Errors
    /// All of them, with the reason.
    pub fn send_all(&self, messages: Vec<Message>) -> Result<Burst, (Vec<Message>, Error)> {
        burst::begin(&self.port, Way::Out, messages)
    }

    /// The unit datagram size `U`, once it is known.
    pub fn unit_bytes(&self) -> Option<usize> {
        self.port.inspect(|engine, _, _| engine.sender().and_then(pinnace_zcrp::Sender::unit_bytes))
    }

    /// What the protocol has seen.
    pub fn counters(&self) -> SenderCounters {
        self.port.inspect(|engine, _, _| engine.sender().map(pinnace_zcrp::Sender::counters)).unwrap_or_default()
    }

    /// What the socket has seen.
    pub fn link_counters(&self) -> pinnace_link::LinkCounters {
        self.port.link_counters()
    }

    /// The smoothed round trip, once it was measured.
    pub fn round_trip(&self) -> Option<Duration> {
        self.port.inspect(|engine, _, _| engine.sender().and_then(pinnace_zcrp::Sender::round_trip))
    }

    /// Waits until no message is under way, at most until the deadline.
    pub(crate) fn flush_until(&self, deadline: Option<Instant>) -> Result<(), Error> {
        Ok(self.port.wait_until(is_flushed, deadline)?)
    }

    /// The same, for tasks.
    pub(crate) async fn flush_async(&self) -> Result<(), Error> {
        Ok(self.port.wait(is_flushed).await?)
    }

    /// Why nothing more can be sent.
    pub(crate) fn closed(&self) -> Option<pinnace_zcrp::Failure> {
        self.port.inspect(|_, _, state| state.sends.closed())
    }

    /// Whether [`Sender::send_if_room`] takes a message of so many bytes, or says why it never will.
    pub(crate) fn has_room(&self, len: usize) -> bool {
        self.port.inspect(|_, _, state| has_room(state, len))
    }

    /// Waits for that, until the deadline.
    pub(crate) fn wait_for_room(&self, len: usize, deadline: Instant) -> Result<(), Error> {
        match self.port.wait_until(|state| has_room(state, len).then_some(()), Some(deadline)) {
            Err(WaitError::Timeout) => Ok(()),
            waited => Ok(waited?),
        }
    }

    /// The same, for tasks.
    pub(crate) async fn wait_for_room_async(&self, len: usize) -> Result<(), Error> {
        Ok(self.port.wait(|state| has_room(state, len).then_some(())).await?)
    }

    /// Reads what has arrived, and sends what follows from it. Never waits.
    pub(crate) fn progress(&self) -> Result<(), Error> {
        self.port.progress()?;
        Ok(())
    }

    /// Whoever called does something else now: the peer is answered at once all the same.
    pub(crate) fn hand_over(&self) {
        self.port.hand_over();
    }

    /// Takes back what was queued last and has not begun to travel: it fails ([`Failure::Closed`](super::Failure::Closed)), and
    /// what is sent next goes in its place. To be called once, and by whoever keeps others from sending meanwhile.
    pub fn withdraw(&self) {
        let withdrawn = self.port.call(|Call { now, engine, .. }| {
            let sender = engine.sender_mut()?;
            sender.withdraw(now);
            Some(sender.next_number())
        });
        if let Ok(Some(next)) = withdrawn {
            // What has failed is told by now.
            self.port.inspect(|_, _, state| state.sends.go_on_at(next));
        }
    }

    /// Ends the sender: what is under way fails, and later sends are refused.
    pub fn close(&self) {
        let _ = self.port.call(|call| {
            if let Some(sender) = call.engine.sender_mut() {
                sender.close();
            }
        });
    }
}

/// Whether another message of so many bytes may begin, or none ever will.
fn has_room(state: &super::exchange::Exchange, len: usize) -> bool {
    state.sends.under_way().has_room(len) || state.sends.closed().is_some()
}

/// Whether nothing is under way.
fn is_flushed(state: &mut super::exchange::Exchange) -> Option<()> {
    (state.sends.is_quiet() || state.sends.closed().is_some()).then_some(())
}

/// A message on its way out. Dropping it lets the message go on, and its buffer be freed at the end.
#[derive(Debug)]
pub struct Sending {
    port: Option<Port>,
    number: u64,
    ticket: u64,
    waiting: Waiting,
}

/// A message on its way in. Dropping it lets the message come, and its buffer be freed at the end.
#[derive(Debug)]
pub struct Receiving {
    port: Option<Port>,
    number: u64,
    ticket: u64,
    waiting: Waiting,
}

impl Receiving {
    pub(super) fn new(port: Port, number: u64, ticket: u64) -> Self {
        Self { port: Some(port), number, ticket, waiting: Waiting::default() }
    }
}

macro_rules! under_way {
    ($name:ident, $lane:ident, $finish:ident, $done:literal) => {
        impl $name {
            /// The message's number, in the order of the calls, from 0.
            pub fn number(&self) -> u64 {
                self.number
            }

            #[doc = concat!("Waits until the message ", $done, ", and returns it. The waiting thread does the work.")]
            ///
            /// # Errors
            /// [`Unsent`], with the message, if it failed.
            pub fn wait(mut self) -> Result<Message, Unsent> {
                let ticket = self.ticket;
                let Some(port) = self.port.take() else { return Err(Unsent::new(None, Error::Timeout)) };
                match port.wait_until(|state| state.$lane.take(ticket), None) {
                    Ok(outcome) => $finish(outcome),
                    Err(error) => Err(Unsent::new(None, error)),
                }
            }

            /// Like `wait`, for at most `timeout`; gives itself back if that is not enough.
            ///
            /// # Errors
            /// The inner error is [`Unsent`], with the message, if it failed.
            pub fn wait_timeout(mut self, timeout: Duration) -> Progress<Self, Result<Message, Unsent>> {
                let ticket = self.ticket;
                let Some(port) = self.port.take() else {
                    return Progress::Ended(Err(Unsent::new(None, Error::Timeout)));
                };
                match port.wait_until(|state| state.$lane.take(ticket), port::deadline(timeout)) {
                    Ok(outcome) => Progress::Ended($finish(outcome)),
                    Err(WaitError::Timeout) => {
                        self.port = Some(port);
                        Progress::UnderWay(self)
                    }
                    Err(error) => Progress::Ended(Err(Unsent::new(None, error))),
                }
            }

            /// How the message ended (the bytes received; 0 for a send), if it has. Never blocks, and is the same every
            /// time: the message stays here until it is waited for.
            ///
            /// # Errors
            /// The inner error says why it failed.
            //= Z-15
            pub fn probe(&self) -> Option<Result<u32, Error>> {
                // One turn of the engine, so that asking in a loop makes progress.
                match self.wait_ended_until(Some(std::time::Instant::now())) {
                    Err(Error::Timeout) => None,
                    result => Some(result),
                }
            }

            /// Whether the message has ended, well or not. Never blocks.
            pub fn has_ended(&self) -> bool {
                self.probe().is_some()
            }

            #[doc = concat!("Waits until the message ", $done, ", and leaves it here; says how it ended, the same every")]
            /// time, also to several threads at once.
            ///
            /// # Errors
            /// Why it failed.
            pub fn wait_ended(&self) -> Result<u32, Error> {
                self.wait_ended_until(None)
            }

            fn wait_ended_until(&self, deadline: Option<std::time::Instant>) -> Result<u32, Error> {
                let Some(port) = &self.port else { return Err(Error::Failed(pinnace_zcrp::Failure::Closed)) };
                port.wait_until(|state| state.$lane.outcome(self.ticket), deadline)?.map_err(Error::Failed)
            }
        }

        impl Future for $name {
            type Output = Result<Message, Unsent>;

            fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
                let ticket = self.ticket;
                let Self { port, waiting, .. } = &mut *self;
                let Some(port) = port else {
                    return Poll::Ready(Err(Unsent::new(None, Error::Timeout)));
                };
                let polled = port.poll_wait(context, waiting, |state| state.$lane.take(ticket));
                let Poll::Ready(outcome) = polled else { return Poll::Pending };
                self.port = None;
                Poll::Ready(match outcome {
                    Ok(outcome) => $finish(outcome),
                    Err(error) => Err(Unsent::new(None, error)),
                })
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                if let Some(port) = self.port.take() {
                    port.inspect(|_, _, state| state.$lane.abandon(self.ticket));
                }
            }
        }
    };
}

under_way!(Sending, sends, sent, "is acknowledged in full");
under_way!(Receiving, receives, received, "is received whole");

pub(super) fn sent((message, result): Outcome) -> Result<Message, Unsent> {
    match result {
        Ok(_) => Ok(message),
        Err(failure) => Err(Unsent::new(message, Error::Failed(failure))),
    }
}

pub(super) fn received((mut message, result): Outcome) -> Result<Message, Unsent> {
    match result {
        Ok(size) => {
            message.set_len(size as usize);
            Ok(message)
        }
        Err(failure) => Err(Unsent::new(message, Error::Failed(failure))),
    }
}

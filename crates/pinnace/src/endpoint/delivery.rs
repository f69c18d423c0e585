//! Messages on their way out, and what may be said about each.

use crate::carrier::{Alarm, Carrier, Carry, Delivered, LOOK_FOR_BREAK, Sending, Special};
use crate::network::deadline;
use crate::service::Method;
use crate::vrp::Contract;
use crate::zcrp::Progress;
use crate::{Error, Message, Unsent};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// What differs for one message from the connection's service.
///
/// ```
/// use pinnace::{PerMessage, vrp::Contract};
/// use std::time::Duration;
/// let important = PerMessage::new().contract(Contract::reliable()).lifespan(Duration::from_secs(1));
/// ```
#[derive(Clone, Debug, Default)]
pub struct PerMessage {
    special: Special,
    priority: Option<u8>,
}

impl PerMessage {
    /// Nothing differs.
    pub fn new() -> Self {
        Self::default()
    }

    /// What may be lost of it (VRP). Methods that lose nothing do more than that; a connection that repeats nothing (best
    /// effort over XTP or A1) refuses it.
    #[must_use]
    pub fn contract(mut self, contract: Contract) -> Self {
        self.special.contract = Some(contract);
        self
    }

    /// So long after the call it is of no more use; what the contract lets be lost is not repeated any more (VRP).
    #[must_use]
    pub fn deadline(mut self, time: Duration) -> Self {
        self.special.deadline = Some(time);
        self
    }

    /// So long after the call the sender drops it (VRP).
    #[must_use]
    pub fn lifespan(mut self, time: Duration) -> Self {
        self.special.lifespan = Some(time);
        self
    }

    /// Before which others it goes. No method lets one message of a connection overtake another, so this is refused where
    /// it differs from the connection's: say it in the [`Service`](crate::service::Service::priority), of a connection for
    /// each priority.
    #[must_use]
    pub fn priority(mut self, priority: u8) -> Self {
        self.priority = Some(priority);
        self
    }

    /// What the method cannot do of it, where the connection has this priority, and repeats nothing or not.
    pub(super) fn check(
        &self,
        method: Method,
        priority: impl FnOnce() -> Option<u8>,
        repeats_nothing: impl FnOnce() -> bool,
    ) -> Result<(), String> {
        if self.priority.is_some() && self.priority != priority() {
            let why = "let one message overtake another: a priority is a connection's, so open one for each";
            return Err(why.to_owned());
        }
        let Special { contract, lifespan, .. } = &self.special;
        match method {
            Method::Vrp => Ok(()),
            _ if lifespan.is_some() => Err("drop a message that it has begun to send".to_owned()),
            _ if contract.is_some() && repeats_nothing() => {
                Err("repeat one message of a connection that is best effort and repeats nothing: connect anew"
                    .to_owned())
            }
            // More reliable than was asked for is no harm; a deadline is a wish.
            _ => Ok(()),
        }
    }

    pub(super) fn special(&self) -> &Special {
        &self.special
    }
}

/// A message on its way out, to be waited for by blocking or as a future. Dropping it lets the message go on.
#[derive(Debug)]
#[must_use = "the message comes back from `wait`"]
pub struct Delivery {
    /// `None` once the result was handed out.
    sending: Option<Sending>,
    /// Who knows what the peer has said, and finds out that it has broken off where a sending does not by itself.
    carrier: Weak<Carrier>,
    /// When that is looked for next.
    alarm: Option<Alarm>,
}

impl Delivery {
    pub(super) fn new(sending: Sending, carrier: &Arc<Carrier>) -> Self {
        Self { sending: Some(sending), carrier: Arc::downgrade(carrier), alarm: None }
    }

    /// Waits until the message has arrived, and returns it with what was lost of it. The waiting thread does the work.
    ///
    /// *Arrived* is what the method can tell: all of it is in the peer's memory. Over shared memory that is so at once.
    ///
    /// # Errors
    /// [`Unsent`], with the message unless its memory is still in use, and why.
    pub fn wait(self) -> Result<Delivered, Unsent> {
        let mut waiting = self;
        loop {
            match waiting.wait_timeout(LOOK_FOR_BREAK) {
                Progress::Ended(result) => return result,
                Progress::UnderWay(still) => waiting = still,
            }
        }
    }

    fn take(&mut self) -> Sending {
        self.sending.take().unwrap_or_else(|| Sending::Done(Message::from_vec(Vec::new())))
    }

    /// Like [`Delivery::wait`], for at most `timeout`; gives itself back if that is not enough.
    ///
    /// # Errors
    /// The inner error is [`Unsent`], as [`Delivery::wait`] gives it, if the message did not arrive.
    pub fn wait_timeout(mut self, timeout: Duration) -> Progress<Self, Result<Delivered, Unsent>> {
        let deadline = deadline(timeout);
        let mut left = timeout;
        loop {
            let sending = match self.take().wait_timeout(left.min(LOOK_FOR_BREAK)) {
                Progress::Ended(result) => return Progress::Ended(self.explained(result)),
                Progress::UnderWay(sending) => sending,
            };
            if let Err(error) = self.look_for_break() {
                return Progress::Ended(Err(Unsent::new(None, error)));
            }
            self.sending = Some(sending);
            if left <= LOOK_FOR_BREAK {
                return Progress::UnderWay(self);
            }
            left = deadline.map_or(timeout, |deadline| deadline.saturating_duration_since(Instant::now()));
        }
    }

    /// In the light of what the peer has said.
    fn explained(&self, result: Result<Delivered, Unsent>) -> Result<Delivered, Unsent> {
        result.map_err(|unsent| match self.carrier.upgrade() {
            Some(carrier) => Unsent { error: carrier.explained(unsent.error), ..unsent },
            None => unsent,
        })
    }

    /// An error if the peer has broken off. It is not looked for at every call.
    fn look_for_break(&mut self) -> Result<(), Error> {
        let Some(carrier) = self.carrier.upgrade() else {
            // Nobody knows any more, so that nothing is looked for either.
            self.alarm = None;
            return Ok(());
        };
        if !matches!(*carrier, Carrier::Zcrp(_) | Carrier::Vrp(_)) {
            return Ok(());
        }
        let now = Instant::now();
        let alarm = self.alarm.get_or_insert_with(|| Alarm::new(now + LOOK_FOR_BREAK));
        if now < alarm.at() {
            return Ok(());
        }
        *alarm = Alarm::new(now + LOOK_FOR_BREAK);
        carrier.look_for_break()
    }
}

impl Future for Delivery {
    type Output = Result<Delivered, Unsent>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(sending) = &mut self.sending else { return Poll::Pending };
        let polled = Pin::new(sending).poll(context);
        if let Poll::Ready(result) = polled {
            (self.sending, self.alarm) = (None, None);
            return Poll::Ready(self.explained(result));
        }
        loop {
            if let Err(error) = self.look_for_break() {
                (self.sending, self.alarm) = (None, None);
                return Poll::Ready(Err(Unsent::new(None, error)));
            }
            let Some(alarm) = &mut self.alarm else { return Poll::Pending };
            // What has become due meanwhile is looked for at once.
            ready!(Pin::new(alarm).poll(context));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::task::Waker;

    #[test]
    fn a_task_whose_connection_has_gone_waits_and_does_not_look_on() {
        let (told, tells) = channel();
        std::thread::spawn(move || {
            // It was set while the connection was there.
            let alarm = Some(Alarm::new(Instant::now()));
            let mut delivery = Delivery { sending: Some(Sending::endless()), carrier: Weak::new(), alarm };
            let polled = Pin::new(&mut delivery).poll(&mut Context::from_waker(Waker::noop()));
            told.send(polled.is_pending()).unwrap();
        });
        assert_eq!(tells.recv_timeout(Duration::from_secs(20)), Ok(true));
    }
}

//! A frame on its way.

use super::exchange::Outcome;
use super::port;
use super::sender::{End, rescue};
use super::{Progress, Sent};
use crate::{Error, Unsent};
use pinnace_runtime::{WaitError, Waiting};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A frame on its way out, to be waited for by blocking or as a future. Dropping it lets the frame go on, and its buffer be
/// freed at the end.
#[derive(Debug)]
#[must_use = "the message comes back from `wait`"]
pub struct Sending {
    /// `None` once the result has been handed out.
    end: Option<Arc<End>>,
    ticket: u64,
    waiting: Waiting,
}

impl Sending {
    pub(super) fn new(end: Arc<End>, ticket: u64) -> Self {
        Self { end: Some(end), ticket, waiting: Waiting::default() }
    }

    /// Tells the frames of one sender apart.
    pub fn ticket(&self) -> u64 {
        self.ticket
    }

    /// Waits until the frame is acknowledged, and returns the message with what was lost of it. The waiting thread does the
    /// work.
    ///
    /// # Errors
    /// [`Unsent`], with the message and why the frame failed.
    pub fn wait(mut self) -> Result<Sent, Unsent> {
        match self.wait_until(None) {
            Progress::Ended(result) => result,
            Progress::UnderWay(()) => Err(Unsent::new(None, Error::Timeout)),
        }
    }

    /// Like [`Sending::wait`], for at most `timeout`; gives itself back if that is not enough.
    ///
    /// # Errors
    /// The inner error is [`Unsent`], with the message, if the frame failed.
    pub fn wait_timeout(mut self, timeout: Duration) -> Progress<Self, Result<Sent, Unsent>> {
        match self.wait_until(port::deadline(timeout)) {
            Progress::Ended(result) => Progress::Ended(result),
            Progress::UnderWay(()) => Progress::UnderWay(self),
        }
    }

    fn wait_until(&mut self, deadline: Option<Instant>) -> Progress<(), Result<Sent, Unsent>> {
        let Some(end) = self.end.take() else { return Progress::Ended(Err(Unsent::new(None, Error::Timeout))) };
        let ticket = self.ticket;
        Progress::Ended(match end.port.wait_until(|state| state.take(ticket), deadline) {
            Ok(outcome) => finish(outcome),
            Err(WaitError::Timeout) => {
                self.end = Some(end);
                return Progress::UnderWay(());
            }
            Err(error) => Err(Unsent::new(rescue(&end, ticket), error)),
        })
    }

    /// Whether the frame was acknowledged, or why not, if it has ended. Never blocks, and is the same every time: the
    /// message stays here until it is waited for.
    ///
    /// # Errors
    /// The inner error says why it failed.
    pub fn probe(&self) -> Option<Result<(), Error>> {
        let end = self.end.as_ref()?;
        // One turn of the engine, so that asking in a loop makes progress.
        match end.port.wait_until(|state| state.outcome(self.ticket), Some(Instant::now())) {
            Ok(result) => Some(result.map_err(Error::FrameFailed)),
            Err(WaitError::Timeout) => None,
            Err(error) => Some(Err(error.into())),
        }
    }

    /// Whether the frame has ended, well or not. Never blocks.
    pub fn has_ended(&self) -> bool {
        self.probe().is_some()
    }
}

fn finish((message, result): Outcome) -> Result<Sent, Unsent> {
    match result {
        Ok(sent) => Ok(Sent::new(message, sent)),
        Err(failure) => Err(Unsent::new(message, Error::FrameFailed(failure))),
    }
}

impl Future for Sending {
    type Output = Result<Sent, Unsent>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ticket = self.ticket;
        let Some(end) = self.end.take() else {
            return Poll::Ready(Err(Unsent::new(None, Error::Timeout)));
        };
        match end.port.poll_wait(context, &mut self.waiting, |state| state.take(ticket)) {
            Poll::Pending => {
                self.end = Some(end);
                Poll::Pending
            }
            Poll::Ready(Ok(outcome)) => Poll::Ready(finish(outcome)),
            Poll::Ready(Err(error)) => Poll::Ready(Err(Unsent::new(rescue(&end, ticket), error))),
        }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            end.port.inspect(|_, _, state| state.abandon(self.ticket));
        }
    }
}

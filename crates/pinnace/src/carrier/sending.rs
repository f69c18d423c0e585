//! A message on its way out, whichever the method.

use super::later::Later;
use crate::network::deadline;
use crate::zcrp::Progress;
use crate::{Error, Message, Unsent, a1, vrp, xtp, zcrp};
use std::collections::VecDeque;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// A message that has arrived.
#[derive(Debug)]
pub struct Delivered {
    /// The message: its memory is the caller's again.
    pub message: Message,
    /// What was lost of it, with permission, as the receiver reports it; `None` if it does not, or nothing can be lost.
    pub report: Option<vrp::Report>,
}

impl Delivered {
    pub(super) fn whole(message: Message) -> Self {
        Self { message, report: None }
    }

    /// What was lost, in bytes: half-open ranges, in rising order.
    pub fn holes(&self) -> &[Range<usize>] {
        self.report.as_ref().map_or(&[], |report| report.holes())
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) enum Sending {
    /// A message of XTP; or a copy that goes in its place.
    Xtp(xtp::Sending, Option<Message>),
    /// One of ZCRP.
    Zcrp(zcrp::Sending),
    /// Several of ZCRP that are one, and the one that they are of.
    Pieces(VecDeque<zcrp::Sending>, Arc<Message>),
    /// A frame of VRP.
    Vrp(vrp::Sending),
    /// A message of A1.
    A1(a1::Sending),
    /// A message in shared memory, with which a thread goes on.
    Later(Arc<Later>),
    /// It is where it has to be.
    Done(Message),
}

/// A message of XTP, or of QMP, of which a copy was sent.
pub(super) fn in_its_place(message: Message, copy: Result<xtp::Sending, Unsent>) -> Result<Sending, Unsent> {
    match copy {
        Ok(sending) => Ok(Sending::Xtp(sending, Some(message))),
        Err(unsent) => Err(Unsent::new(message, unsent.error)),
    }
}

/// The message again, of which all pieces have come back.
fn whole(message: Arc<Message>) -> Option<Message> {
    Arc::try_unwrap(message).ok()
}

/// Why the message did not arrive of which this piece is, and the message, unless other pieces are still under way.
fn lost(parts: VecDeque<zcrp::Sending>, piece: Unsent, message: Arc<Message>) -> Unsent {
    let Unsent { message: part, error } = piece;
    drop((parts, part));
    Unsent::new(whole(message), error)
}

fn of_frame(sent: vrp::Sent) -> Delivered {
    Delivered { message: sent.message, report: sent.report }
}

impl Sending {
    /// One that stays under way.
    #[cfg(test)]
    pub(crate) fn endless() -> Self {
        Self::Later(Arc::new(Later::new(Message::from_vec(Vec::new()))))
    }

    /// Waits until it has arrived.
    pub(crate) fn wait(self) -> Result<Delivered, Unsent> {
        match self {
            Self::Xtp(sending, None) => sending.wait().map(Delivered::whole),
            Self::Xtp(sending, Some(message)) => match sending.wait() {
                Ok(_) => Ok(Delivered::whole(message)),
                Err(unsent) => Err(Unsent::new(message, unsent.error)),
            },
            Self::Zcrp(sending) => sending.wait().map(Delivered::whole),
            Self::A1(sending) => sending.wait().map(Delivered::whole),
            Self::Pieces(mut parts, message) => {
                while let Some(part) = parts.pop_front() {
                    if let Err(unsent) = part.wait() {
                        return Err(lost(parts, unsent, message));
                    }
                }
                Ok(Delivered::whole(whole(message).unwrap_or_else(|| Message::from_vec(Vec::new()))))
            }
            Self::Vrp(sending) => sending.wait().map(of_frame),
            Self::Later(later) => {
                later.wait(None).unwrap_or_else(|| Err(Unsent::new(None, Error::Timeout))).map(Delivered::whole)
            }
            Self::Done(message) => Ok(Delivered::whole(message)),
        }
    }

    /// The same, for at most `timeout`; gives itself back if that is not enough.
    pub(crate) fn wait_timeout(self, timeout: Duration) -> Progress<Self, Result<Delivered, Unsent>> {
        match self {
            Self::Xtp(sending, own) => match (sending.wait_timeout(timeout), own) {
                (Progress::UnderWay(sending), own) => Progress::UnderWay(Self::Xtp(sending, own)),
                (Progress::Ended(Ok(sent)), own) => Progress::Ended(Ok(Delivered::whole(own.unwrap_or(sent)))),
                (Progress::Ended(Err(unsent)), own) => {
                    Progress::Ended(Err(Unsent::new(own.or(unsent.message), unsent.error)))
                }
            },
            Self::A1(sending) => match sending.wait_timeout(timeout) {
                Progress::UnderWay(sending) => Progress::UnderWay(Self::A1(sending)),
                Progress::Ended(result) => Progress::Ended(result.map(Delivered::whole)),
            },
            Self::Zcrp(sending) => match sending.wait_timeout(timeout) {
                Progress::UnderWay(sending) => Progress::UnderWay(Self::Zcrp(sending)),
                Progress::Ended(result) => Progress::Ended(result.map(Delivered::whole)),
            },
            Self::Pieces(mut parts, message) => {
                let until = deadline(timeout);
                while let Some(part) = parts.pop_front() {
                    match part.wait_timeout(super::left(until).unwrap_or(timeout)) {
                        Progress::UnderWay(part) => {
                            parts.push_front(part);
                            return Progress::UnderWay(Self::Pieces(parts, message));
                        }
                        Progress::Ended(Ok(_)) => {}
                        Progress::Ended(Err(unsent)) => {
                            return Progress::Ended(Err(lost(parts, unsent, message)));
                        }
                    }
                }
                Progress::Ended(Self::Pieces(parts, message).wait())
            }
            Self::Vrp(sending) => match sending.wait_timeout(timeout) {
                Progress::UnderWay(sending) => Progress::UnderWay(Self::Vrp(sending)),
                Progress::Ended(result) => Progress::Ended(result.map(of_frame)),
            },
            Self::Later(later) => match later.wait(deadline(timeout)) {
                Some(result) => Progress::Ended(result.map(Delivered::whole)),
                None => Progress::UnderWay(Self::Later(later)),
            },
            Self::Done(message) => Progress::Ended(Ok(Delivered::whole(message))),
        }
    }
}

impl Future for Sending {
    type Output = Result<Delivered, Unsent>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = match &mut *self {
            Self::Xtp(sending, own) => {
                let Poll::Ready(result) = Pin::new(sending).poll(context) else { return Poll::Pending };
                return Poll::Ready(match (result, own.take()) {
                    (Ok(sent), own) => Ok(Delivered::whole(own.unwrap_or(sent))),
                    (Err(unsent), own) => Err(Unsent::new(own.or(unsent.message), unsent.error)),
                });
            }
            Self::Zcrp(sending) => return Pin::new(sending).poll(context).map_ok(Delivered::whole),
            Self::A1(sending) => return Pin::new(sending).poll(context).map_ok(Delivered::whole),
            Self::Vrp(sending) => return Pin::new(sending).poll(context).map_ok(of_frame),
            Self::Later(later) => return later.poll(context).map_ok(Delivered::whole),
            Self::Pieces(parts, _) => loop {
                let Some(part) = parts.front_mut() else { break Ok(()) };
                let Poll::Ready(result) = Pin::new(part).poll(context) else { return Poll::Pending };
                parts.pop_front();
                if let Err(unsent) = result {
                    break Err(unsent);
                }
            },
            Self::Done(_) => Ok(()),
        };
        let this = std::mem::replace(&mut *self, Self::Done(Message::from_vec(Vec::new())));
        Poll::Ready(match (this, ended) {
            (Self::Pieces(parts, message), Err(unsent)) => Err(lost(parts, unsent, message)),
            (this, _) => this.wait(),
        })
    }
}

//! A connection over XTP: messages of a reliable stream, or of one that repeats nothing.
//!
//! Always true: where an application's message ends, the stream marks the end of a message (EOM); what is lost of an
//! IsoStream is a hole in its message, and an end that is lost makes one message of two.

use super::sending::in_its_place;
use super::{Carry, Received, ReceivedInto, Sending, Special, left};
use crate::endpoint::ConnectionError;
use crate::service::{Method, Service};
use crate::xtp::Copied;
use crate::{Error, Message, Unsent, xtp};
use pinnace_runtime::WakeFd;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Xtp {
    connection: xtp::Connection,
    /// Messages that whoever received them had no room for, and whether there are any.
    again: Mutex<VecDeque<Received>>,
    has_again: AtomicBool,
    watch: OnceLock<Arc<WakeFd>>,
}

/// The tag of a message of one byte that stands for an empty one, of which there are none here.
const EMPTY: [u8; 8] = *b"PNCEnone";

/// What came where a message should.
fn whole(received: Option<xtp::Received>) -> Result<Option<Received>, Error> {
    match received {
        Some(received) if received.btag == Some(EMPTY) => Ok(Some(Received::bytes(Vec::new(), Vec::new()))),
        Some(received) if received.eom => Ok(Some(Received::bytes(received.data, received.holes))),
        // The stream has ended behind the last message.
        None => Ok(None),
        Some(_) => Err(ConnectionError::Unfinished { method: Method::Xtp }.into()),
    }
}

impl Xtp {
    pub(crate) fn new(connection: xtp::Connection) -> Self {
        let (again, has_again, watch) = (Mutex::default(), AtomicBool::new(false), OnceLock::new());
        Self { connection, again, has_again, watch }
    }

    /// What is sent in the place of an empty message.
    fn instead_of(message: &Message) -> Option<(Message, xtp::SendOptions)> {
        message.is_empty().then(|| (Message::from_vec(vec![0]), xtp::SendOptions::tagged(EMPTY)))
    }

    /// A message that is to be received again.
    fn again(&self) -> Option<Received> {
        if !self.has_again.load(Ordering::Acquire) {
            return None;
        }
        let mut again = self.again.lock().unwrap_or_else(PoisonError::into_inner);
        let received = again.pop_front();
        self.has_again.store(!again.is_empty(), Ordering::Release);
        received
    }
}

impl Carry for Xtp {
    fn send(&self, message: Message, _: Option<&Special>) -> Result<Sending, Unsent> {
        let Some(instead) = Self::instead_of(&message) else {
            return Ok(Sending::Xtp(self.connection.send(message)?, None));
        };
        in_its_place(message, self.connection.send_with(instead.0, &instead.1))
    }

    fn try_send(&self, message: Message, _: Option<&Special>) -> Result<Sending, Unsent> {
        let Some(instead) = Self::instead_of(&message) else {
            return Ok(Sending::Xtp(self.connection.try_send(message, &xtp::SendOptions::MESSAGE)?, None));
        };
        in_its_place(message, self.connection.try_send(instead.0, &instead.1))
    }

    async fn send_async(&self, message: Message, _: Option<&Special>) -> Result<Sending, Unsent> {
        let Some(instead) = Self::instead_of(&message) else {
            return Ok(Sending::Xtp(self.connection.send_async(message, &xtp::SendOptions::MESSAGE).await?, None));
        };
        in_its_place(message, self.connection.send_async(instead.0, &instead.1).await)
    }

    fn recv(&self, deadline: Option<Instant>) -> Result<Option<Received>, Error> {
        if let Some(received) = self.again() {
            return Ok(Some(received));
        }
        whole(match left(deadline) {
            None => self.connection.recv()?,
            Some(left) => self.connection.recv_timeout(left)?,
        })
    }

    async fn recv_async(&self) -> Result<Option<Received>, Error> {
        match self.again() {
            Some(received) => Ok(Some(received)),
            None => whole(self.connection.recv_async().await?),
        }
    }

    fn recv_into(&self, buffer: &mut [u8], deadline: Option<Instant>) -> Result<Option<ReceivedInto>, Error> {
        if !self.has_again.load(Ordering::Acquire) {
            // One byte may stand for none.
            let (mut one, most) = ([0], buffer.len() as u64);
            match self.connection.copy_message(if most == 0 { &mut one } else { buffer }, deadline)? {
                Copied::Ended => return Ok(None),
                Copied::Nothing => {}
                Copied::Message { btag, .. } if btag == Some(EMPTY) => return Ok(Some(ReceivedInto::default())),
                Copied::Message { len, .. } if len as u64 > most => {
                    self.put_back(Received::bytes(one.to_vec(), Vec::new()));
                    return Err(Error::MessageTooLong(most));
                }
                Copied::Message { len, holes, .. } => {
                    return Ok(Some(ReceivedInto { holes, ..ReceivedInto::whole(len) }));
                }
            }
        }
        let Some(received) = self.recv(deadline)? else { return Ok(None) };
        let (len, most) = (received.len(), buffer.len() as u64);
        let Some(to) = buffer.get_mut(..len) else {
            self.put_back(received);
            return Err(Error::MessageTooLong(most));
        };
        to.copy_from_slice(&received);
        Ok(Some(received.told()))
    }

    fn put_back(&self, received: Received) {
        self.again.lock().unwrap_or_else(PoisonError::into_inner).push_front(received);
        self.has_again.store(true, Ordering::Release);
    }

    fn flush(&self, deadline: Option<Instant>) -> Result<(), Error> {
        match left(deadline) {
            None => self.connection.flush(),
            Some(left) => self.connection.flush_timeout(left),
        }
    }

    async fn flush_async(&self) -> Result<(), Error> {
        self.connection.flush_async().await
    }

    fn set_service(&self, service: &Service) -> Result<(), String> {
        let block = self.connection.block().map_err(|error| error.to_string())?;
        self.connection.set_block(programmed(block, service)).map_err(|error| error.to_string())
    }

    fn descriptor(&self) -> Result<BorrowedFd<'_>, Error> {
        if self.watch.get().is_none() {
            let watch = self.connection.watch()?;
            let _ = self.watch.set(watch);
        }
        self.watch.get().map(|watch| watch.as_fd()).ok_or(Error::Timeout)
    }

    fn clear(&self) {
        if let Some(watch) = self.watch.get() {
            watch.clear();
        }
    }

    fn close(&self, deadline: Option<Instant>) -> Result<(), Error> {
        self.connection.finish()?;
        self.flush(deadline)
    }
}

/// The block with what a service says about sending.
pub(crate) fn programmed(mut block: xtp::ControlBlock, service: &Service) -> xtp::ControlBlock {
    // A rate alone is what the application sends by itself; with a burst it is a promise that somebody relies on.
    if let (Some(rate), Some(burst)) = (service.rate, service.burst) {
        // Bits a second are bytes in eight.
        block.output_rate = u32::try_from(rate / 8).unwrap_or(u32::MAX).max(1);
        block.output_burst = u32::try_from(burst).unwrap_or(u32::MAX).max(1);
    }
    if let Some(priority) = service.priority {
        block.sort_value = u32::from(priority);
        block.mode_flags = block.mode_flags.with(xtp::Flags::SORT);
    }
    block
}

/// The longest wait for an answer where round trips are short: so often an answer may be missing in a given time.
const SHORT_WAIT: Duration = Duration::from_millis(160);

/// The block of a peer that is taken for gone after `timeout`.
pub(crate) fn patient(mut block: xtp::ControlBlock, timeout: Duration) -> xtp::ControlBlock {
    (block.ctimer, block.ctimeout) = (timeout / 2, timeout / 2);
    let expiries = (timeout.as_millis() / SHORT_WAIT.as_millis()).min(1 << 16);
    block.retry_count += expiries as u32;
    block
}

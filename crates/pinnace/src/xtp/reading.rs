//! The receiving half of an association, for applications.
//!
//! Always true: a byte is copied at most once on its way from the ring to the application; what was lost of a stream
//! without errors reads as zeros; nobody calls the endpoint while holding what was collected.

use super::exchange::{Exchange, Full};
use super::port::{Call, deadline};
use super::{Connection, Failure, Service};
use crate::{Error, Message, Unsent, memory};
use pinnace_core::BufferRange;
use pinnace_link::BufferTable;
use pinnace_xtp::Readable;
use std::io;
use std::ops::{Deref, Range};
use std::time::{Duration, Instant};

/// A message that was received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Its bytes; zeros where some are missing.
    pub data: Vec<u8>,
    /// The tag of its sender.
    pub btag: Option<[u8; 8]>,
    /// What is missing (streams without errors only): half-open ranges of bytes in rising order.
    pub holes: Vec<Range<usize>>,
    /// Whether its end was marked. If not, the stream ended here, or more of it is missing than a ring holds.
    pub eom: bool,
}

impl Deref for Received {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.data
    }
}

/// A message that has not come whole.
#[derive(Debug, Default)]
pub(super) struct Partial {
    message: Received,
    has_begun: bool,
}

/// What has been copied into memory of the caller's.
pub(crate) enum Copied {
    /// A message.
    Message { len: usize, btag: Option<[u8; 8]>, holes: Vec<Range<usize>> },
    /// Nothing: the stream has ended.
    Ended,
    /// Nothing: the message is not there whole, or a part of it was taken.
    Nothing,
}

impl Partial {
    /// Keeps bytes that nobody could take.
    pub(super) fn collect(&mut self, bytes: &[u8]) {
        self.message.data.extend_from_slice(bytes);
    }

    /// Moves the first bytes out.
    pub(super) fn drain_into(&mut self, to: &mut [u8]) {
        to.copy_from_slice(&self.message.data[..to.len()]);
        self.message.data.drain(..to.len());
    }

    /// Bytes that are here.
    pub(super) fn len(&self) -> usize {
        self.message.data.len()
    }

    /// Copies bytes that are here, and leaves them; `None`: there are none.
    fn peek(&self, into: &mut [u8]) -> Option<usize> {
        let bytes = &self.message.data;
        let len = bytes.len().min(into.len());
        into[..len].copy_from_slice(&bytes[..len]);
        (len > 0).then_some(len)
    }

    /// The same, and takes them.
    fn read(&mut self, into: &mut [u8]) -> Option<usize> {
        let len = self.peek(into)?;
        self.message.data.drain(..len);
        self.message.holes.clear();
        Some(len)
    }

    /// What was collected has been read, so that it is no message any more.
    fn settle(&mut self) {
        self.has_begun &= !self.message.data.is_empty();
    }

    fn take(&mut self, eom: bool) -> Received {
        self.has_begun = false;
        Received { eom, ..std::mem::take(&mut self.message) }
    }
}

/// A buffer that was posted, and has been filled.
#[derive(Debug)]
pub struct Filled {
    /// Its bytes: as many as there was room for, or fewer where the stream ended.
    pub message: Message,
    /// Where messages end: offsets of the byte behind.
    pub ends: Vec<usize>,
}

/// What a look at the ring has found.
#[derive(Debug)]
pub(crate) enum Look<T> {
    Found(T),
    Ended,
    Nothing,
}

impl Connection {
    /// Waits for the next message, and copies it out of the ring; `None` at the end of the stream. The waiting thread
    /// does the work. A message may be larger than the ring.
    ///
    /// # Errors
    /// [`Error::ContextFailed`] if the association has failed, and whole messages are no longer there;
    /// [`Error::MessageTooLong`] if more than [`Options::longest_message`](super::Options::longest_message) has come;
    /// [`Error::NoMemory`] if there is none for what has: the next call tries again.
    pub fn recv(&self) -> Result<Option<Received>, Error> {
        self.recv_until(None)
    }

    /// Like [`Connection::recv`], for at most `timeout`.
    ///
    /// # Errors
    /// As [`Connection::recv`], and [`Error::Timeout`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Option<Received>, Error> {
        self.recv_until(deadline(timeout))
    }

    /// Like [`Connection::recv`], for tasks.
    ///
    /// # Errors
    /// As [`Connection::recv`].
    pub async fn recv_async(&self) -> Result<Option<Received>, Error> {
        self.recv_within_async(u64::MAX).await
    }

    /// Like [`Connection::recv_async`], for a message of at most `most` bytes.
    pub(crate) async fn recv_within_async(&self, most: u64) -> Result<Option<Received>, Error> {
        loop {
            self.about().wait(|state| self.may_read(state)).await?;
            if let Some(result) = self.take_message(most)? {
                return Ok(result);
            }
        }
    }

    /// Like [`Connection::recv`], into a vector whose memory is used again. Returns the bytes of the message.
    ///
    /// # Errors
    /// As [`Connection::recv`].
    pub fn recv_into(&self, buffer: &mut Vec<u8>) -> Result<Option<usize>, Error> {
        let mut partial = self.partial();
        if !partial.has_begun {
            buffer.clear();
            partial.message.data = std::mem::take(buffer);
        }
        drop(partial);
        let Some(received) = self.recv()? else { return Ok(None) };
        *buffer = received.data;
        Ok(Some(buffer.len()))
    }

    /// Waits for the next message, and copies it from the ring into memory of the caller's, if it is there whole; one that is
    /// longer than `into` stays where it is.
    pub(crate) fn copy_message(&self, into: &mut [u8], deadline: Option<Instant>) -> Result<Copied, Error> {
        self.check_ring()?;
        self.about().wait_until(|state| self.may_read(state), deadline)?;
        if self.partial().has_begun {
            return Ok(Copied::Nothing);
        }
        let looked = self.look(|call, connection, partial, readable| {
            if partial.has_begun {
                return Ok((0, Some(Copied::Nothing)));
            }
            let Some(len) = readable.message else { return Ok((0, Some(Copied::Nothing))) };
            let most = into.len() as u64;
            let into = into.get_mut(..len as usize).ok_or(Error::MessageTooLong(most))?;
            connection.copy_first(call, &readable, into);
            let holes = connection.holes_of(call, len).collect();
            Ok((len, Some(Copied::Message { len: len as usize, btag: readable.btag, holes })))
        })?;
        Ok(match looked {
            Look::Found(copied) => copied,
            Look::Ended => Copied::Ended,
            Look::Nothing => Copied::Nothing,
        })
    }

    pub(super) fn recv_until(&self, deadline: Option<Instant>) -> Result<Option<Received>, Error> {
        self.recv_within(u64::MAX, deadline)
    }

    /// Like [`Connection::recv`], for a message of at most `most` bytes.
    pub(crate) fn recv_within(&self, most: u64, deadline: Option<Instant>) -> Result<Option<Received>, Error> {
        loop {
            self.about().wait_until(|state| self.may_read(state), deadline)?;
            if let Some(result) = self.take_message(most)? {
                return Ok(result);
            }
        }
    }

    pub(super) fn may_read(&self, state: &mut Exchange) -> Option<()> {
        if self.is_shut() {
            return Some(());
        }
        state.association(self.place).is_none_or(|association| association.is_readable).then_some(())
    }

    /// Collects what is there of a message of at most `most` bytes. The outer `None`: not all of it.
    fn take_message(&self, most: u64) -> Result<Option<Option<Received>>, Error> {
        self.check_ring()?;
        let most = self.end.longest_message.min(most);
        let look = self.look(|call, connection, partial, readable| {
            // The end of a message that was taken before another began behind it is not marked in the stream.
            //= X-17
            if partial.has_begun && partial.len() > 0 && readable.btag.is_some() {
                return Ok((0, Some(partial.take(true))));
            }
            let take = readable.message.unwrap_or(readable.len);
            if partial.message.data.len() as u64 + take > most {
                return Err(Error::MessageTooLong(most));
            }
            if !partial.has_begun {
                partial.has_begun = true;
                partial.message.btag = readable.btag;
            }
            memory::make_room(&mut partial.message.data, take as usize)?;
            let from = partial.message.data.len();
            connection.copy(call, &readable, take, &mut partial.message);
            debug_assert_eq!(partial.message.data.len() - from, take as usize);
            // A few packets can say that a gibibyte is missing: it is not collected as zeros.
            let is_endless = readable.message.is_none() && connection.is_hole(call, take);
            let is_over = readable.message.is_some() || is_endless;
            Ok((take, is_over.then(|| partial.take(!is_endless))))
        })?;
        Ok(match look {
            Look::Found(received) => Some(Some(received)),
            Look::Ended => {
                let mut partial = self.partial();
                Some(partial.has_begun.then(|| partial.take(false)))
            }
            Look::Nothing => None,
        })
    }

    /// Copies the next `take` bytes behind those that are there.
    fn copy(&self, call: &mut Call<'_>, readable: &Readable, take: u64, to: &mut Received) {
        let from = to.data.len();
        for part in first(readable, take) {
            to.data.extend_from_slice(call.memory.bytes(part));
        }
        for hole in self.holes_of(call, take) {
            let hole = from + hole.start..from + hole.end;
            to.data[hole.clone()].fill(0);
            match to.holes.last_mut() {
                Some(last) if last.end == hole.start => last.end = hole.end,
                _ => to.holes.push(hole),
            }
        }
    }

    /// What has come of a message that nobody waits for any more takes no memory.
    pub(crate) fn forget(&self) {
        *self.partial() = Partial::default();
    }

    /// Whatever the service is: each end chooses for its own stream whether it is repeated.
    fn holes_of(&self, call: &Call<'_>, take: u64) -> impl Iterator<Item = Range<usize>> + use<> {
        let holes = call.engine.holes(self.id, take);
        holes.into_iter().map(|(at, len)| at as usize..(at + len) as usize)
    }

    /// Copies the first bytes out of the ring, as many as `into` has, with zeros where some are missing. Returns how many.
    pub(super) fn copy_first(&self, call: &Call<'_>, readable: &Readable, into: &mut [u8]) -> usize {
        let mut at = 0;
        for part in first(readable, readable.len.min(into.len() as u64)) {
            let bytes = call.memory.bytes(part);
            into[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        }
        self.holes_of(call, at as u64).for_each(|hole| into[hole].fill(0));
        at
    }

    /// Whether the next `take` bytes are all missing, and as many as may be shown at once.
    fn is_hole(&self, call: &Call<'_>, take: u64) -> bool {
        let shown = call.engine.block(self.id).map_or(0, |block| u64::from(block.rwindow.min(block.rbufsize)));
        take > 0 && take >= shown && call.engine.holes(self.id, take).first() == Some(&(0, take))
    }

    /// Shows `take` what can be read, until it says that it has found what it wants. It says how many bytes it took.
    pub(super) fn look<R>(
        &self,
        mut take: impl FnMut(&mut Call<'_>, &Self, &mut Partial, Readable) -> Result<(u64, Option<R>), Error>,
    ) -> Result<Look<R>, Error> {
        let looked = self.end.port.call(|mut call| {
            // Held in here only: behind it tasks are woken, which may read at once.
            let mut partial = self.partial();
            let end = call.state.association(self.place).and_then(|association| association.closed);
            let set = |call: &mut Call<'_>, is_readable| {
                if let Some(association) = call.state.association(self.place) {
                    association.is_readable = is_readable;
                }
            };
            loop {
                let Some(readable) = call.engine.readable(self.id) else {
                    set(&mut call, true);
                    return ended(end);
                };
                if readable.len == 0 && readable.message.is_none() {
                    let is_over = readable.is_end || end.is_some();
                    set(&mut call, is_over);
                    return match (readable.is_end, is_over) {
                        (true, _) => Ok(Look::Ended),
                        (_, true) => ended(end),
                        _ => Ok(Look::Nothing),
                    };
                }
                let result = take(&mut call, self, &mut partial, readable);
                if let Ok((taken, _)) = &result {
                    call.engine.consume(call.now, self.id, *taken);
                }
                match result {
                    Ok((_, Some(found))) => {
                        // Behind what was shown may be an empty message, or more buffers than are shown at once.
                        let is_more = |rest: Readable| rest.len > 0 || rest.message.is_some() || rest.is_end;
                        let rest = call.engine.readable(self.id);
                        set(&mut call, partial.len() > 0 || end.is_some() || rest.is_none_or(is_more));
                        return Ok(Look::Found(found));
                    }
                    Ok((_, None)) => {}
                    Err(error) => {
                        set(&mut call, true);
                        return Err(error);
                    }
                }
            }
        });
        looked?
    }

    /// Streams into buffers of the application's are read there.
    fn check_ring(&self) -> Result<(), Error> {
        if self.service() != Service::BulkData {
            return Ok(());
        }
        let why = "bulk data come into buffers of yours: see Connection::post and Connection::filled";
        Err(Error::io("nothing is read from a ring", io::Error::new(io::ErrorKind::Unsupported, why)))
    }

    /// Reads bytes, whatever messages they belong to; 0 at the end of the stream. Waits for the first.
    ///
    /// # Errors
    /// As [`Connection::recv`].
    pub fn read(&self, into: &mut [u8]) -> Result<usize, Error> {
        self.read_until(into, None)
    }

    /// Like [`Connection::read`], for at most `timeout`.
    ///
    /// # Errors
    /// As [`Connection::read`], and [`Error::Timeout`].
    pub fn read_timeout(&self, into: &mut [u8], timeout: Duration) -> Result<usize, Error> {
        self.read_until(into, deadline(timeout))
    }

    /// Like [`Connection::read`], for tasks.
    ///
    /// # Errors
    /// As [`Connection::read`].
    pub async fn read_async(&self, into: &mut [u8]) -> Result<usize, Error> {
        loop {
            if let Some(taken) = self.take_partial(into) {
                return Ok(taken);
            }
            self.about().wait(|state| self.may_read(state)).await?;
            if let Some(taken) = self.take_bytes(into)? {
                return Ok(taken);
            }
        }
    }

    fn read_until(&self, into: &mut [u8], deadline: Option<Instant>) -> Result<usize, Error> {
        loop {
            if let Some(taken) = self.take_partial(into) {
                return Ok(taken);
            }
            self.about().wait_until(|state| self.may_read(state), deadline)?;
            if let Some(taken) = self.take_bytes(into)? {
                return Ok(taken);
            }
        }
    }

    /// Bytes that were collected for a message which is not asked for now.
    fn take_partial(&self, into: &mut [u8]) -> Option<usize> {
        if into.is_empty() || self.is_shut() {
            return Some(0);
        }
        let taken = self.partial().read(into)?;
        self.copies.count_read(taken);
        Some(taken)
    }

    /// Copies what is there without taking it; the outer `None`: nothing is.
    pub(super) fn peek_bytes(&self, into: &mut [u8]) -> Result<Option<usize>, Error> {
        if into.is_empty() || self.is_shut() {
            return Ok(Some(0));
        }
        let collected = self.partial().peek(into);
        if collected.is_some() {
            return Ok(collected);
        }
        let look = self.look(|call, connection, partial, readable| {
            let collected = partial.peek(into);
            if collected.is_some() {
                return Ok((0, collected));
            }
            let seen = connection.copy_first(call, &readable, into);
            Ok((0, (seen > 0).then_some(seen)))
        })?;
        Ok(match look {
            Look::Found(seen) => Some(seen),
            Look::Ended => Some(0),
            Look::Nothing => None,
        })
    }

    fn take_bytes(&self, into: &mut [u8]) -> Result<Option<usize>, Error> {
        self.check_ring()?;
        if self.is_shut() {
            return Ok(Some(0));
        }
        let look = self.look(|call, connection, partial, readable| {
            let collected = partial.read(into);
            if collected.is_some() {
                return Ok((0, collected));
            }
            let taken = connection.copy_first(call, &readable, into);
            Ok((taken as u64, (taken > 0).then_some(taken)))
        })?;
        self.partial().settle();
        Ok(match look {
            Look::Found(taken) => {
                self.copies.count_read(taken);
                Some(taken)
            }
            Look::Ended => Some(0),
            Look::Nothing => None,
        })
    }

    /// Waits for bytes, and shows them to `view` where they lie in the ring, in one piece or two: nothing is copied.
    /// `view` says how many it has used; they are gone then. Returns that number, `None` at the end of the stream.
    ///
    /// The endpoint does nothing else meanwhile: `view` should be quick, and must not call it.
    ///
    /// # Errors
    /// As [`Connection::recv`].
    //= X-4
    pub fn read_with(&self, mut view: impl FnMut(&[&[u8]]) -> usize) -> Result<Option<usize>, Error> {
        self.check_ring()?;
        loop {
            if self.partial().len() == 0 {
                self.about().wait_until(|state| self.may_read(state), None)?;
            }
            match self.show(&mut view)? {
                Look::Found(used) => return Ok(Some(used)),
                Look::Ended => return Ok(None),
                Look::Nothing => {}
            }
        }
    }

    /// Shows the bytes that are there to `view`, as [`Connection::read_with`] does.
    pub(crate) fn show(&self, view: &mut impl FnMut(&[&[u8]]) -> usize) -> Result<Look<usize>, Error> {
        let mut partial = self.partial();
        if !partial.message.data.is_empty() {
            let bytes = &mut partial.message.data;
            let used = view(&[bytes]).min(bytes.len());
            bytes.drain(..used);
            partial.message.holes.clear();
            return Ok(Look::Found(used));
        }
        drop(partial);
        self.look(|call, connection, _, readable| {
            if readable.len == 0 {
                // An empty message.
                return Ok((0, None));
            }
            for hole in connection.holes_of(call, readable.len) {
                zero(call.memory, &readable, hole);
            }
            let parts = readable.parts.map(|part| call.memory.bytes(part));
            let parts = if parts[1].is_empty() { &parts[..1] } else { &parts[..] };
            let used = (view(parts) as u64).min(readable.len);
            Ok((used, Some(used as usize)))
        })
    }

    /// What is missing among the bytes that can be read now, of a stream without errors: half-open ranges from the next
    /// byte on.
    //= X-15
    pub fn holes(&self) -> Vec<Range<usize>> {
        self.end.port.inspect(|engine, _, _| {
            let len = engine.readable(self.id).map_or(0, |readable| readable.len);
            let holes = engine.holes(self.id, len);
            holes.into_iter().map(|(at, len)| at as usize..(at + len) as usize).collect()
        })
    }

    /// Posts a buffer (all its [`Message::capacity`]) for the stream to come into, behind those posted before: bulk data
    /// only. The sender may send as much as is posted. [`Connection::filled`] gives it back.
    ///
    /// # Errors
    /// [`Unsent`] gives it back at once: if it is read-only or empty, or the service is another.
    pub fn post(&self, mut message: Message) -> Result<(), Unsent> {
        let (base, room) = (message.base(), message.capacity());
        let why = match self.service() {
            Service::BulkData if room == 0 => Some("the buffer has no room"),
            Service::BulkData => None,
            _ => Some("only bulk data come into buffers of the application's: see Endpoint::bulk"),
        };
        if let Some(why) = why {
            let error = io::Error::new(io::ErrorKind::InvalidInput, why);
            return Err(Unsent::new(message, Error::io("cannot post a buffer", error)));
        }
        if !message.is_writable() {
            return Err(Unsent::new(message, Error::ReadOnly));
        }
        let posted = self.end.port.call(|Call { now, engine, memory, state }| {
            // SAFETY: the message moves into the association, which keeps it, untouched, until the event that takes the
            // buffer out of the table again; that it can be written to was checked.
            let buffer = unsafe { memory.insert(base, room) };
            match (engine.post(now, self.id, buffer, 0, room as u64), state.association(self.place)) {
                (Ok(()), Some(association)) => {
                    association.post(buffer, message);
                    Ok(())
                }
                (result, _) => {
                    memory.remove(buffer);
                    let refused = result.err().unwrap_or(pinnace_xtp::Refused::NoContext);
                    Err(Unsent::new(message, Error::ContextRefused(refused)))
                }
            }
        });
        posted.unwrap_or_else(|error| Err(Unsent::new(None, error)))
    }

    /// Waits until the next posted buffer is full, or the stream has ended in it, and gives it back; `None` behind the
    /// end of the stream.
    ///
    /// # Errors
    /// [`Error::ContextFailed`] if the association has failed before.
    pub fn filled(&self) -> Result<Option<Filled>, Error> {
        self.filled_until(None)
    }

    /// Like [`Connection::filled`], for at most `timeout`.
    ///
    /// # Errors
    /// As [`Connection::filled`], and [`Error::Timeout`].
    pub fn filled_timeout(&self, timeout: Duration) -> Result<Option<Filled>, Error> {
        self.filled_until(deadline(timeout))
    }

    /// Like [`Connection::filled`], for tasks.
    ///
    /// # Errors
    /// As [`Connection::filled`].
    pub async fn filled_async(&self) -> Result<Option<Filled>, Error> {
        loop {
            if let Some(filled) = self.filled_or_ended()? {
                return Ok(filled);
            }
            self.about().wait(|state| self.may_read(state)).await?;
        }
    }

    fn filled_until(&self, deadline: Option<Instant>) -> Result<Option<Filled>, Error> {
        loop {
            if let Some(filled) = self.filled_or_ended()? {
                return Ok(filled);
            }
            self.about().wait_until(|state| self.may_read(state), deadline)?;
        }
    }

    /// The next buffer, if one is full; or that the stream has ended, if it has.
    fn filled_or_ended(&self) -> Result<Option<Option<Filled>>, Error> {
        let ended = self.settle_bulk()?;
        match self.end.port.inspect(|_, _, state| self.take_filled(state)) {
            Some(filled) => Ok(Some(Some(filled))),
            None => ended.map(|end| end.map(|()| None)).transpose(),
        }
    }

    /// What has come into the buffers is the application's. Returns how the stream has ended, if it has.
    fn settle_bulk(&self) -> Result<Option<Result<(), Error>>, Error> {
        let look = self.look(|call, connection, _, readable| {
            let take = readable.message.unwrap_or(readable.len);
            if let Some(association) = call.state.association(connection.place) {
                if association.is_in_message && readable.btag.is_some() {
                    // As in Connection::take_message.
                    association.ends.push_back(association.taken_bytes);
                }
                association.taken_bytes += take;
                association.is_in_message = readable.message.is_none();
                if readable.message.is_some() {
                    association.ends.push_back(association.taken_bytes);
                }
            }
            Ok((take, None::<()>))
        });
        match look {
            Ok(Look::Found(()) | Look::Nothing) => Ok(None),
            Ok(Look::Ended) => {
                // Buffers that the stream did not fill come back now.
                self.end.port.call(|Call { now, engine, .. }| engine.consume(now, self.id, 0))?;
                Ok(Some(Ok(())))
            }
            Err(error @ Error::ContextFailed(_)) => Ok(Some(Err(error))),
            Err(error) => Err(error),
        }
    }

    fn take_filled(&self, state: &mut Exchange) -> Option<Filled> {
        let association = state.association(self.place)?;
        let Full { mut message, low } = association.full.pop_front()?;
        let len = association.taken_bytes.saturating_sub(low).min(message.capacity() as u64);
        message.set_len(len as usize);
        let mut ends = Vec::new();
        while let Some(end) = association.ends.pop_front_if(|end| *end <= low + len) {
            ends.push((end - low) as usize);
        }
        Some(Filled { message, ends })
    }
}

/// How a stream has ended that did not come to its own end.
fn ended<R>(closed: Option<Result<(), Failure>>) -> Result<Look<R>, Error> {
    match closed {
        Some(Err(failure)) => Err(Error::ContextFailed(failure)),
        _ => Ok(Look::Ended),
    }
}

/// Where the first `take` bytes lie.
fn first(readable: &Readable, take: u64) -> impl Iterator<Item = BufferRange> {
    let mut left = take;
    readable.parts.into_iter().filter_map(move |part| {
        let len = left.min(u64::from(part.len));
        left -= len;
        (len > 0).then(|| BufferRange::new(part.buffer, part.offset, len as u32))
    })
}

/// Writes zeros over bytes of the ring that have not come.
fn zero(memory: &mut BufferTable, readable: &Readable, hole: Range<usize>) {
    let mut at = 0;
    for part in readable.parts {
        let (low, high) = (hole.start.max(at), hole.end.min(at + part.len as usize));
        if low < high
            && let Some(base) =
                memory.resolve(BufferRange::new(part.buffer, part.offset + (low - at) as u64, (high - low) as u32))
        {
            // SAFETY: `resolve` checked that the range lies in a buffer of the table. It is the receive ring of this
            // context, which the table owns, so it may be written to; the table is borrowed exclusively, so nobody looks
            // at it now.
            unsafe { base.write_bytes(0, high - low) };
        }
        at += part.len as usize;
    }
}

impl io::Read for &Connection {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(Connection::read(self, into)?)
    }
}

impl io::Read for Connection {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(Connection::read(self, into)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inline;
    use crate::xtp::{Close, Endpoint, Options, Services};
    use std::sync::{Arc, mpsc};
    use std::thread;

    #[test]
    fn a_task_that_runs_while_it_is_woken_may_receive() {
        const LONG: Duration = Duration::from_secs(5);
        let server = Endpoint::bind("127.0.0.1:0", &Options::default()).unwrap();
        let listener = server.listen(Services::ALL).unwrap();
        let client = Endpoint::client_of(server.local_addr(), &Options::default()).unwrap();
        let here = client.connect_with(server.local_addr(), client.block(Service::Connection)).unwrap();
        drop(here.send_bytes(b"ahoy".to_vec()).unwrap());
        let there = Arc::new(listener.accept().unwrap().into_connection().unwrap());
        there.end.port.wait_until(|state| there.may_read(state), deadline(LONG)).unwrap();
        let (told, tells) = mpsc::channel();
        let task = Arc::clone(&there);
        inline::run(async move {
            let _ = task.wait_closed_async().await;
            let _ = task.recv_timeout(Duration::ZERO);
            let _ = told.send(());
        });
        there.end.port.set_worker_reads(false).unwrap();
        here.close(Close::Forced).unwrap();
        thread::sleep(Duration::from_millis(100));
        inline::repeat(move || drop(there.take_message(u64::MAX)));
        assert_eq!(tells.recv_timeout(LONG), Ok(()));
    }
}

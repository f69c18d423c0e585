//! The receiving half of a connection, for applications.
//!
//! Always true: a message that has come whole is handed over in the memory that it came into; what is read by parts is
//! copied once; what was lost is told with what stands behind it; nobody calls the socket while holding what was collected.
//= A-21

use super::exchange::Exchange;
use super::port::{Call, deadline};
use super::{Connection, Status};
use crate::lock::lock;
use crate::{Error, memory};
use pinnace_a1::Readable;
use std::ops::Deref;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

/// A message that was received; without retransmission perhaps a part of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Its bytes, without a gap between them.
    pub data: Vec<u8>,
    /// [`Status::START`] and [`Status::END`]: it is a whole message, or the first, the last, or some other part of one;
    /// [`Status::LOST`]: something was lost before it. (The other bits: [`Connection::status`].)
    pub status: Status,
}

impl Deref for Received {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.data
    }
}

/// A message that is collected because it is not whole, or was read in part before.
#[derive(Debug, Default)]
pub(super) struct Partial {
    data: Vec<u8>,
    /// Of what was collected: START and LOST of its beginning, END of its end.
    status: Status,
    has_begun: bool,
    /// What of it was handed out.
    from: usize,
}

impl Partial {
    fn collect(&mut self, bytes: &[u8], status: Status) {
        self.data.extend_from_slice(bytes);
        let begins = if self.has_begun { Status::NONE } else { status };
        self.status |= Status::NONE
            .with_if(begins.contains(Status::START), Status::START)
            .with_if(begins.contains(Status::LOST), Status::LOST)
            .with_if(status.contains(Status::END), Status::END);
        self.has_begun = true;
    }

    /// Takes what is left of it.
    fn take(&mut self) -> Received {
        let Self { mut data, status, from, .. } = std::mem::take(self);
        data.drain(..from);
        Received { data, status }
    }

    /// Copies as much as there is room for; `None`: there is nothing.
    fn read(&mut self, into: &mut [u8]) -> Option<(usize, Status)> {
        if !self.has_begun {
            return None;
        }
        let rest = &self.data[self.from..];
        let len = rest.len().min(into.len());
        into[..len].copy_from_slice(&rest[..len]);
        let is_all = len == rest.len();
        let status = Status::NONE
            .with_if(self.status.contains(Status::START), Status::START)
            .with_if(self.status.contains(Status::LOST), Status::LOST)
            .with_if(is_all && self.status.contains(Status::END), Status::END);
        if is_all {
            *self = Self::default();
        } else {
            self.from += len;
            self.status = Status::NONE.with_if(self.status.contains(Status::END), Status::END);
        }
        Some((len, status))
    }
}

/// What to do with what can be read.
enum Step<R> {
    Found(R),
    /// Some of it has been consumed: look again.
    Again,
    /// More must come first.
    Wait,
    /// It stays where it is.
    Failed(Error),
}

/// What a look has found.
enum Look<R> {
    Found(R),
    Ended,
    Nothing,
}

impl Connection {
    fn partial(&self) -> MutexGuard<'_, Partial> {
        lock(&self.line.partial)
    }

    /// Waits for the next message; `None`: the peer has closed the connection, and everything was read. The waiting thread
    /// does the work. A message that was received whole is not copied.
    ///
    /// Without retransmission, a message that has lost blocks comes in parts, each without a gap: see
    /// [`Received::status`].
    ///
    /// # Errors
    /// [`Error::ConnectionFailed`] if the connection has failed, and everything that had come before was read.
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

    /// Like [`Connection::recv`], for what is here already, or comes in one look at the socket. Never waits.
    ///
    /// # Errors
    /// As [`Connection::recv`], and [`Error::Timeout`] if nothing is here.
    pub fn try_recv(&self) -> Result<Option<Received>, Error> {
        self.recv_until(Some(Instant::now()))
    }

    /// Like [`Connection::recv`], for tasks.
    ///
    /// # Errors
    /// As [`Connection::recv`].
    pub async fn recv_async(&self) -> Result<Option<Received>, Error> {
        loop {
            self.line.about().wait(|state| self.may_read(state)).await?;
            if let Some(result) = self.take_message()? {
                return Ok(result);
            }
        }
    }

    fn recv_until(&self, deadline: Option<Instant>) -> Result<Option<Received>, Error> {
        loop {
            self.line.about().wait_until(|state| self.may_read(state), deadline)?;
            if let Some(result) = self.take_message()? {
                return Ok(result);
            }
        }
    }

    fn may_read(&self, state: &mut Exchange) -> Option<()> {
        state.association(self.line.place).is_none_or(|association| association.is_readable).then_some(())
    }

    /// The same, for the first look of a call: what was too little for another may be enough for this one.
    fn may_look(&self, state: &mut Exchange, has_looked: bool) -> Option<()> {
        let has_part =
            !has_looked && state.association(self.line.place).is_some_and(|association| association.has_part);
        if has_part { Some(()) } else { self.may_read(state) }
    }

    /// The outer `None`: there is none yet.
    fn take_message(&self) -> Result<Option<Option<Received>>, Error> {
        let look = self.look(|call, partial, readable, is_over| {
            let id = self.line.id;
            if !partial.has_begun
                && readable.is_whole
                && let Some(whole) = call.engine.take_message(call.now, id)
            {
                let data = whole.range.and_then(|range| {
                    let mut data = call.memory.take(range.buffer)?;
                    data.truncate((range.offset + u64::from(range.len)) as usize);
                    data.drain(..range.offset as usize);
                    Some(data)
                });
                return Step::Found(Received { data: data.unwrap_or_default(), status: whole.status });
            }
            if partial.has_begun && [Status::START, Status::LOST].into_iter().any(|bit| readable.status.contains(bit)) {
                // The rest of what was begun is lost: this is another message, or another part.
                return Step::Found(partial.take());
            }
            if !partial.has_begun && !readable.is_final && !is_over && !self.fills_window(call, readable) {
                // More of it may come, or is lost: only then it is known where the part ends.
                return Step::Wait;
            }
            let bytes = readable.range.map_or(&[][..], |range| call.memory.bytes(range));
            if let Err(error) = memory::make_room(&mut partial.data, bytes.len()) {
                return Step::Failed(error);
            }
            partial.collect(bytes, readable.status);
            call.engine.consume(call.now, id, readable.len());
            let is_done = readable.status.contains(Status::END) || readable.is_final;
            if is_done { Step::Found(partial.take()) } else { Step::Again }
        })?;
        Ok(match look {
            Look::Found(received) => Some(Some(received)),
            Look::Ended => {
                let mut partial = self.partial();
                Some(partial.has_begun.then(|| partial.take()))
            }
            Look::Nothing => None,
        })
    }

    /// Whether what can be read fills the window, so that no more will come before it is consumed: the record has changed
    /// since the message was sent.
    fn fills_window(&self, call: &Call<'_>, readable: &Readable) -> bool {
        let Some(facts) = call.engine.facts(call.now, self.line.id) else { return true };
        u64::from(readable.len().div_ceil(facts.block_bytes.max(1))) >= facts.windows.1
    }

    /// Shows `take` what can be read, until it has found what it wants or must wait.
    fn look<R>(
        &self,
        mut take: impl FnMut(&mut Call<'_>, &mut Partial, &Readable, bool) -> Step<R>,
    ) -> Result<Look<R>, Error> {
        let looked = self.line.end.port.call(|mut call| {
            // Held in here only: behind it tasks are woken, which may read at once.
            let mut partial = self.partial();
            let (place, id) = (self.line.place, self.line.id);
            let closed = call.state.association(place).and_then(|association| association.closed.clone());
            let is_over = closed.is_some();
            let set = |call: &mut Call<'_>, is_readable, has_part| {
                if let Some(association) = call.state.association(place) {
                    (association.is_readable, association.has_part) = (is_readable, has_part);
                }
            };
            loop {
                let Some(readable) = call.engine.readable(id) else {
                    set(&mut call, is_over, false);
                    return match closed {
                        Some(Ok(())) => Ok(Look::Ended),
                        Some(Err(failure)) => Err(Error::ConnectionFailed(failure)),
                        None => Ok(Look::Nothing),
                    };
                };
                match take(&mut call, &mut partial, &readable, is_over) {
                    Step::Found(found) => {
                        let is_more = is_over || call.engine.readable(id).is_some();
                        set(&mut call, is_more, false);
                        return Ok(Look::Found(found));
                    }
                    Step::Again => {}
                    Step::Failed(error) => {
                        set(&mut call, true, false);
                        return Err(error);
                    }
                    Step::Wait => {
                        set(&mut call, false, true);
                        return Ok(Look::Nothing);
                    }
                }
            }
        });
        looked?
    }

    /// Waits for bytes of one message, and copies as many as there is room for: less only where the message ends
    /// ([`Status::END`]), or what follows was lost. (0, [`Status::PEER_CLOSED`]): the peer has closed the connection, and
    /// everything was read.
    ///
    /// # Errors
    /// As [`Connection::recv`].
    pub fn recv_into(&self, into: &mut [u8]) -> Result<(usize, Status), Error> {
        self.recv_into_until(into, false, None)
    }

    /// Like [`Connection::recv_into`], for at most `timeout`.
    ///
    /// # Errors
    /// As [`Connection::recv`], and [`Error::Timeout`].
    pub fn recv_into_timeout(&self, into: &mut [u8], timeout: Duration) -> Result<(usize, Status), Error> {
        self.recv_into_until(into, false, deadline(timeout))
    }

    /// Like [`Connection::recv_into`], for what is here already, or comes in one look at the socket. Never waits.
    ///
    /// # Errors
    /// As [`Connection::recv`], and [`Error::Timeout`] if nothing is here.
    pub fn try_recv_into(&self, into: &mut [u8]) -> Result<(usize, Status), Error> {
        self.recv_into_until(into, false, Some(Instant::now()))
    }

    /// Like [`Connection::recv_into`], for tasks.
    ///
    /// # Errors
    /// As [`Connection::recv`].
    pub async fn recv_into_async(&self, into: &mut [u8]) -> Result<(usize, Status), Error> {
        self.bytes_async(into, false).await
    }

    /// Like [`Connection::recv_into`], but waits for the first byte only: what is there of the message is read, whether
    /// more of it comes or not.
    ///
    /// # Errors
    /// As [`Connection::recv`].
    pub fn read(&self, into: &mut [u8]) -> Result<(usize, Status), Error> {
        self.recv_into_until(into, true, None)
    }

    /// Like [`Connection::read`], for at most `timeout`.
    ///
    /// # Errors
    /// As [`Connection::recv`], and [`Error::Timeout`].
    pub fn read_timeout(&self, into: &mut [u8], timeout: Duration) -> Result<(usize, Status), Error> {
        self.recv_into_until(into, true, deadline(timeout))
    }

    /// Like [`Connection::read`], for tasks.
    ///
    /// # Errors
    /// As [`Connection::recv`].
    pub async fn read_async(&self, into: &mut [u8]) -> Result<(usize, Status), Error> {
        self.bytes_async(into, true).await
    }

    fn recv_into_until(
        &self,
        into: &mut [u8],
        takes_any: bool,
        deadline: Option<Instant>,
    ) -> Result<(usize, Status), Error> {
        let mut has_looked = false;
        loop {
            if let Some(read) = self.partial().read(into) {
                return Ok(read);
            }
            self.line.about().wait_until(|state| self.may_look(state, has_looked), deadline)?;
            if let Some(read) = self.take_bytes(into, takes_any)? {
                return Ok(read);
            }
            has_looked = true;
        }
    }

    async fn bytes_async(&self, into: &mut [u8], takes_any: bool) -> Result<(usize, Status), Error> {
        let mut has_looked = false;
        loop {
            if let Some(read) = self.partial().read(into) {
                return Ok(read);
            }
            self.line.about().wait(|state| self.may_look(state, has_looked)).await?;
            if let Some(read) = self.take_bytes(into, takes_any)? {
                return Ok(read);
            }
            has_looked = true;
        }
    }

    /// `None`: not enough is there yet.
    fn take_bytes(&self, into: &mut [u8], takes_any: bool) -> Result<Option<(usize, Status)>, Error> {
        let look = self.look(|call, _, readable, is_over| {
            let len = readable.len();
            let is_enough = takes_any || is_over || readable.is_final || len as usize >= into.len();
            if !is_enough && !self.fills_window(call, readable) {
                return Step::Wait;
            }
            let bytes = readable.range.map_or(&[][..], |range| call.memory.bytes(range));
            let take = bytes.len().min(into.len());
            into[..take].copy_from_slice(&bytes[..take]);
            call.engine.consume(call.now, self.line.id, take as u32);
            let status = readable.status;
            let is_all = take == bytes.len();
            Step::Found((take, if is_all { status } else { without_end(status) }))
        })?;
        Ok(match look {
            Look::Found(found) => Some(found),
            Look::Ended => Some((0, Status::PEER_CLOSED)),
            Look::Nothing => None,
        })
    }

    /// Waits for a message, and shows it and those behind it to `view` where they lie, at most `most` of them: nothing is
    /// copied, and one wake-up serves them all. They are gone then. Returns how many there were; `None`: the peer has
    /// closed the connection, and everything was read.
    ///
    /// The socket does nothing else meanwhile: `view` should be quick, and must not call it.
    ///
    /// ```
    /// use pinnace::a1::{Full, Socket, reliable};
    /// # fn main() -> Result<(), pinnace::Error> {
    /// let server = Socket::bind("127.0.0.1:0", reliable())?;
    /// server.listen(1)?;
    /// let client = Socket::bind("127.0.0.1:0", reliable())?;
    /// let connection = client.connect(server.local_addr(), reliable())?;
    /// for number in 0..10 {
    ///     connection.send_copy(&[number; 3], Full::Block)?;
    /// }
    /// let accepted = server.accept()?;
    /// let (mut messages, mut bytes) = (0, 0);
    /// while messages < 10 {
    ///     let seen = accepted.recv_each(16, |data, _status| bytes += data.len())?;
    ///     messages += seen.expect("not closed");
    /// }
    /// assert_eq!(bytes, 30);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Connection::recv`].
    pub fn recv_each(&self, most: usize, view: impl FnMut(&[u8], Status)) -> Result<Option<usize>, Error> {
        self.recv_each_until(most, view, None)
    }

    /// Like [`Connection::recv_each`], for at most `timeout`.
    ///
    /// # Errors
    /// As [`Connection::recv`], and [`Error::Timeout`].
    pub fn recv_each_timeout(
        &self,
        most: usize,
        view: impl FnMut(&[u8], Status),
        timeout: Duration,
    ) -> Result<Option<usize>, Error> {
        self.recv_each_until(most, view, deadline(timeout))
    }

    fn recv_each_until(
        &self,
        most: usize,
        mut view: impl FnMut(&[u8], Status),
        deadline: Option<Instant>,
    ) -> Result<Option<usize>, Error> {
        loop {
            if self.partial().has_begun {
                // The rest of a message that was begun to be collected.
                let rest = self.recv_until(deadline)?;
                if let Some(rest) = &rest {
                    view(&rest.data, rest.status);
                }
                return Ok(rest.map(|_| 1));
            }
            self.line.about().wait_until(|state| self.may_read(state), deadline)?;
            let mut seen = 0;
            let look = self.look(|call, _, readable, is_over| {
                let is_due = readable.is_final || is_over;
                if seen >= most || (!is_due && seen > 0) {
                    return Step::Found(());
                }
                if !is_due && !self.fills_window(call, readable) {
                    return Step::Wait;
                }
                view(readable.range.map_or(&[][..], |range| call.memory.bytes(range)), readable.status);
                seen += 1;
                call.engine.consume(call.now, self.line.id, readable.len());
                Step::Again
            });
            match look {
                _ if seen > 0 => return Ok(Some(seen)),
                Ok(Look::Found(())) => return Ok(Some(0)),
                Ok(Look::Ended) => return Ok(None),
                Ok(Look::Nothing) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Bytes of the next message that can be read now without waiting, and their status; `None`: nothing can.
    pub fn readable(&self) -> Option<(usize, Status)> {
        self.line.end.port.inspect(|engine, _, _| {
            let partial = self.partial();
            if partial.has_begun {
                return Some((partial.data.len() - partial.from, partial.status));
            }
            let readable = engine.readable(self.line.id)?;
            Some((readable.len() as usize, readable.status))
        })
    }

    /// Copies bytes that can be read now, and leaves them there; `None`: there are none.
    pub fn peek(&self, into: &mut [u8]) -> Option<(usize, Status)> {
        self.line.end.port.inspect(|engine, memory, _| {
            let partial = self.partial();
            if partial.has_begun {
                let rest = &partial.data[partial.from..];
                let len = rest.len().min(into.len());
                into[..len].copy_from_slice(&rest[..len]);
                return Some((len, if len == rest.len() { partial.status } else { without_end(partial.status) }));
            }
            let readable = engine.readable(self.line.id)?;
            let bytes = readable.range.map_or(&[][..], |range| memory.bytes(range));
            let len = bytes.len().min(into.len());
            into[..len].copy_from_slice(&bytes[..len]);
            Some((len, if len == bytes.len() { readable.status } else { without_end(readable.status) }))
        })
    }

    /// Whether `is_it` says so of a message that has come whole, and that nobody has received.
    pub(crate) fn has_unread(&self, is_it: impl Fn(&[u8]) -> bool) -> bool {
        self.line
            .end
            .port
            .inspect(|engine, memory, _| engine.unread(self.line.id).any(|range| is_it(memory.bytes(range))))
    }
}

/// Some of the bytes were left.
fn without_end(status: Status) -> Status {
    Status::NONE
        .with_if(status.contains(Status::START), Status::START)
        .with_if(status.contains(Status::LOST), Status::LOST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a1::{Full, Qos, Socket, reliable};
    use crate::inline;
    use std::sync::mpsc;
    use std::thread;

    const LONG: Duration = Duration::from_secs(5);

    /// Two sockets, and both ends of a connection.
    fn pair(qos: Qos) -> ([Socket; 2], Connection, Connection) {
        let [server, client] = [(); 2].map(|()| Socket::bind("127.0.0.1:0", qos).unwrap());
        server.listen(1).unwrap();
        let here = client.connect_timeout(server.local_addr(), qos, LONG).unwrap();
        let there = server.accept_timeout(LONG).unwrap().unwrap();
        ([server, client], here, there)
    }

    /// A task waits until the connection has ended, and does `then`; the peer has closed, and the next call finds out.
    fn about_to_end<R: Send + 'static>(
        here: Connection,
        there: &Connection,
        then: impl FnOnce() -> R + Send + 'static,
    ) -> mpsc::Receiver<R> {
        let (told, tells) = mpsc::channel();
        let waits = there.clone();
        inline::run(async move {
            let ended = |state: &mut Exchange| state.association(waits.line.place)?.closed.clone();
            let _ = waits.line.end.port.wait(ended).await;
            let _ = told.send(then());
        });
        there.line.end.port.set_worker_reads(false).unwrap();
        drop(here);
        thread::sleep(Duration::from_millis(100));
        tells
    }

    #[test]
    fn a_task_that_runs_while_it_is_woken_may_receive() {
        let (_sockets, here, there) = pair(reliable());
        here.send_copy(b"ahoy", Full::Report).unwrap();
        there.line.end.port.wait_until(|state| there.may_read(state), deadline(LONG)).unwrap();
        let (reader, task) = (there.clone(), there.clone());
        let tells = about_to_end(here, &there, move || task.try_recv().is_ok());
        inline::repeat(move || drop(reader.take_message()));
        assert_eq!(tells.recv_timeout(LONG), Ok(true));
    }

    #[test]
    fn a_task_that_runs_while_it_is_woken_may_look_at_the_sinks() {
        let (sockets, here, there) = pair(reliable());
        let [server, client] = sockets;
        let to = client.local_addr();
        let server = std::sync::Arc::new(server);
        let task = std::sync::Arc::clone(&server);
        let tells = about_to_end(here, &there, move || task.sinks().len());
        inline::repeat(move || drop(server.add_sink_timeout(to, reliable(), Duration::from_millis(10))));
        assert!(tells.recv_timeout(LONG).is_ok());
    }

    #[test]
    fn what_is_too_little_for_one_is_enough_for_another() {
        let (_sockets, here, there) = pair(Qos { send_average: 1000, send_burst: 65_536, ..reliable() });
        here.send_copy(&[7; 200_000], Full::Report).unwrap();
        let mut into = vec![0; 200_000];
        let soon = Duration::from_millis(100);
        let waits = |into: &mut [u8]| matches!(there.recv_into_timeout(into, soon * 3), Err(Error::Timeout));
        assert!(waits(&mut into) && waits(&mut into));
        assert_eq!(there.recv_into_timeout(&mut into[..9], soon).unwrap(), (9, Status::START));
        assert!(waits(&mut into));
        let (len, _) = there.read_timeout(&mut into[..100], soon).unwrap();
        assert_eq!(len, 100);
        assert!(waits(&mut into));
        let (len, _) = pollster::block_on(there.read_async(&mut into)).unwrap();
        assert!(0 < len && len < 190_000, "{len}");
        here.abort();
    }
}

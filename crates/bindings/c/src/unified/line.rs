//! What stands behind the handles of connections and listeners.

use super::waiting::{self, Limit, Turn, Turns};
use crate::errors::{Errno, Failure};
use crate::kept::lock;
use libc::c_int;
use pinnace::service::{Method, Service};
use pinnace::{Connection, Endpoint, Error, Listener, Message, MessageReader, Received, ReceivedInto, Unsent};
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

/// A descriptor to wait on, of C's own: a duplicate, so that it can be given away.
#[derive(Debug, Default)]
struct Watch(OnceLock<OwnedFd>);

impl Watch {
    fn number(&self, of: impl FnOnce() -> Result<OwnedFd, Failure>) -> Result<c_int, Failure> {
        if self.0.get().is_none() {
            // Of two threads one duplicate stays.
            let _ = self.0.set(of()?);
        }
        self.0.get().map(AsRawFd::as_raw_fd).ok_or(Errno(libc::EMFILE).into())
    }

    fn is_used(&self) -> bool {
        self.0.get().is_some()
    }
}

fn duplicate(descriptor: impl AsFd) -> Result<OwnedFd, Failure> {
    descriptor.as_fd().try_clone_to_owned().map_err(|error| Failure::new(Errno::from(&error).0, error.to_string()))
}

/// A connection.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) connection: Connection,
    /// Whether it was made to several receivers, of which none may be left.
    pub(super) is_source: bool,
    is_closed: AtomicBool,
    watch: Watch,
    /// Held from a request to its response.
    transacting: Turns,
    /// Held while it is read as a stream.
    streaming: Turns,
    /// How far it has been read as a stream.
    reading: Mutex<MessageReader>,
}

impl Line {
    pub(super) fn new(connection: Connection) -> Self {
        Self {
            // Nobody has had the connection yet who could have removed them.
            is_source: !connection.receivers().is_empty(),
            connection,
            is_closed: AtomicBool::new(false),
            watch: Watch::default(),
            transacting: Turns::default(),
            streaming: Turns::default(),
            reading: Mutex::default(),
        }
    }

    /// Whether it is one of several receivers: it has said nothing that would have to be answered for, and its source is not
    /// to wait for it.
    pub(super) fn is_sink(&self) -> bool {
        let service = self.connection.service().to_string();
        let has_several = service.split_whitespace().any(|word| word.starts_with("multicast="));
        has_several && !self.is_source
    }

    /// What carries it.
    pub(super) fn method(&self) -> &'static CStr {
        match self.connection.method() {
            Method::SharedMemory => c"shared-memory",
            Method::Zcrp => c"zcrp",
            Method::Vrp => c"vrp",
            Method::Xtp => c"xtp",
            Method::Qmp => c"qmp",
            Method::A1 => c"a1",
        }
    }

    /// Waits for a turn, which another thread may have for longer than this one wants to wait.
    fn turn<'a>(&self, turns: &'a Turns, limit: Limit) -> Result<Turn<'a>, Failure> {
        let is_closed = || self.is_closed.load(Ordering::Relaxed);
        waiting::until(limit, is_closed, |slice| Ok(turns.take(slice)))
    }

    /// Receives as `call` does, which waits as long as it is told.
    fn receive<T>(
        &self,
        limit: impl Into<Limit>,
        mut call: impl FnMut(Duration) -> Result<Option<T>, Error>,
    ) -> Result<Option<T>, Failure> {
        let is_closed = || self.is_closed.load(Ordering::Relaxed);
        waiting::until(limit, is_closed, |slice| {
            let mut result = call(slice);
            if matches!(result, Err(Error::Timeout)) && self.watch.is_used() {
                // In this order nothing is missed: what comes after the clearing makes the descriptor readable again.
                self.connection.clear();
                result = call(Duration::ZERO);
            }
            match result {
                Ok(received) => Ok(Some(received)),
                Err(Error::Timeout) => Ok(None),
                Err(error) => Err(self.failed(error)),
            }
        })
    }

    /// Why a call has failed. If another thread has closed the connection meanwhile, that is why, whatever the method says.
    pub(super) fn failed(&self, error: Error) -> Failure {
        if self.is_closed.load(Ordering::Relaxed) { waiting::closed_meanwhile() } else { error.into() }
    }

    pub(super) fn recv(&self, limit: impl Into<Limit>) -> Result<Option<Received>, Failure> {
        self.receive(limit, |slice| self.connection.recv_timeout(slice))
    }

    pub(super) fn recv_into(&self, buffer: &mut [u8], timeout_ms: c_int) -> Result<Option<ReceivedInto>, Failure> {
        let (room, mut is_too_short) = (buffer.len() as u64, false);
        let received = self.receive(timeout_ms, |slice| {
            let received = self.connection.recv_into_timeout(buffer, slice);
            let is_short = matches!(received, Err(Error::MessageTooLong(most)) if most == room);
            is_too_short = is_short && !self.connection.has_refused();
            received
        });
        received.map_err(|failure| if is_too_short { self.too_short(room) } else { failure })
    }

    /// The next message has more bytes than a buffer of C's has room for.
    fn too_short(&self, room: u64) -> Failure {
        let text = match self.connection.waiting_bytes().filter(|bytes| *bytes > room) {
            Some(bytes) => format!(
                "the message has {bytes} bytes, and the buffer {room}: receive it again into at least {bytes} bytes, or by \
                 pinnace_recv"
            ),
            None => format!(
                "the message has more than the {room} bytes of the buffer: receive it again into a larger one, or by \
                 pinnace_recv"
            ),
        };
        Failure::new(libc::EMSGSIZE, text)
    }

    /// Waits until everything that was sent has arrived.
    pub(super) fn flush(&self, timeout_ms: c_int) -> Result<(), Failure> {
        let is_closed = || self.is_closed.load(Ordering::Relaxed);
        let flushed = waiting::until(timeout_ms, is_closed, |slice| match self.connection.flush_timeout(slice) {
            // What was given up is not under way any more.
            Ok(()) if is_closed() => Err(waiting::closed_meanwhile()),
            Ok(()) => Ok(Some(())),
            Err(Error::Timeout) => Ok(None),
            Err(error) => Err(self.failed(error)),
        });
        flushed.map_err(|failure| match failure.errno {
            libc::EAGAIN => {
                let text = format!("not everything that was sent is known to have arrived within {timeout_ms} ms");
                Failure::new(libc::EAGAIN, text)
            }
            _ => failure,
        })
    }

    pub(super) fn transact(&self, request: Message, timeout_ms: c_int) -> Result<Received, Failure> {
        let limit = Limit::from(timeout_ms);
        let _turn = self.turn(&self.transacting, limit)?;
        let response = || self.recv(limit)?.ok_or_else(|| Failure::from(Error::NoResponse));
        // Those to requests that nobody waited for long enough come before ours.
        while self.connection.responses_owed()? > 0 {
            response()?;
        }
        self.begin(request, limit)?;
        self.connection.owe_response();
        response()
    }

    /// Sends as soon as there is room, if that is in time; nobody waits for its arrival.
    fn begin(&self, message: Message, limit: Limit) -> Result<(), Failure> {
        let is_closed = || self.is_closed.load(Ordering::Relaxed);
        let mut unsent = Some(message);
        waiting::until(limit, is_closed, |slice| {
            let message = unsent.take().ok_or(Errno(libc::EIO))?;
            match self.connection.send_timeout(message, slice) {
                Ok(delivery) => {
                    drop(delivery);
                    Ok(Some(()))
                }
                // There is another attempt only if it has come back.
                Err(Unsent { message: Some(message), error: Error::Timeout }) => {
                    unsent = Some(message);
                    Ok(None)
                }
                Err(Unsent { error, .. }) => Err(self.failed(error)),
            }
        })
    }

    /// Reads as from a stream: what is there, at most as much as there is room for. 0: the end.
    pub(super) fn read(&self, into: &mut [u8], timeout_ms: c_int) -> Result<usize, Failure> {
        drop(self.connection.stream()?);
        let limit = Limit::from(timeout_ms);
        let _turn = self.turn(&self.streaming, limit)?;
        lock(&self.reading).read(&self.connection, into, || self.recv(limit))
    }

    pub(super) fn descriptor(&self) -> Result<c_int, Failure> {
        self.watch.number(|| duplicate(self.connection.descriptor()?))
    }

    /// Ends what is sent.
    pub(super) fn shutdown(&self, linger: Duration) -> Result<(), Failure> {
        self.connection.close(linger).map_err(|error| match error {
            // Only of a call that takes a time may nothing have happened.
            Error::Timeout => Failure::new(libc::ETIMEDOUT, "not everything that was sent is known to have arrived"),
            error => error.into(),
        })
    }

    /// Begins to end everything, and waits for nothing.
    pub(super) fn begin_close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        // What has arrived until then is told by who waits.
        let _ = self.shutdown(Duration::ZERO);
    }

    /// Ends everything; who waits is told.
    pub(super) fn close(&self, linger: Duration) -> Result<(), Failure> {
        self.is_closed.store(true, Ordering::Relaxed);
        self.shutdown(linger).inspect_err(|_| {
            // Nobody can wait again. What has not arrived is given up, of which the peer is told.
            self.connection.abort();
        })
    }

    pub(super) fn abort(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.connection.abort();
    }
}

/// A listener, and its endpoint.
#[derive(Debug)]
pub(super) struct Door {
    listener: Listener,
    /// The address as text.
    pub(super) address: String,
    is_closed: AtomicBool,
    watch: Watch,
}

impl Door {
    pub(super) fn new(endpoint: &Endpoint, service: &Service) -> Result<Self, Failure> {
        let listener = endpoint.listen(service)?;
        let address = listener.local_addr().to_string();
        Ok(Self { listener, address, is_closed: AtomicBool::new(false), watch: Watch::default() })
    }

    pub(super) fn port(&self) -> u16 {
        self.listener.local_addr().port()
    }

    pub(super) fn accept(&self, timeout_ms: c_int) -> Result<Connection, Failure> {
        let is_closed = || self.is_closed.load(Ordering::Relaxed);
        waiting::until(timeout_ms, is_closed, |slice| Ok(self.listener.accept_timeout(slice)?))
    }

    pub(super) fn descriptor(&self) -> Result<c_int, Failure> {
        self.watch.number(|| duplicate(self.listener.descriptor()))
    }

    /// Who waits is told. It is gone when nobody uses it any more.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }
}

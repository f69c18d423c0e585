//! Receives frames from everybody.

use super::exchange::{Arrival, Arrivals};
use super::options::Path;
use super::port::{self, Bound, IncomingPort};
use super::{IncomingCounters, Options, Received};
use crate::{EndpointError, Error};
use pinnace_link::{Link, LinkCounters};
use pinnace_runtime::{Call, WaitError};
use pinnace_vrp::{FrameId, Vrp};
use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

/// Receives frames from any number of senders. Clones are the same receiver; calls may come from any thread, and each frame
/// goes to one of them.
///
/// Senders are answered, and frames taken in, from the beginning, whether somebody waits for them or not (with a background
/// thread, see [`Options::worker`]). While much of what has come is not taken, further frames do not become complete, so that
/// senders which keep only so much under way wait; at the [`Options::limits`] frames are refused. When the last clone is
/// gone, the receiver is closed.
#[derive(Clone, Debug)]
pub struct Receiver {
    end: Arc<End>,
}

/// What clones share.
#[derive(Debug)]
pub(super) struct End {
    port: IncomingPort,
    address: SocketAddr,
    warnings: Vec<String>,
    /// Somebody has the readiness descriptor.
    announces: AtomicBool,
}

impl Receiver {
    /// Binds to `address`; port 0 picks one. `[::]` hears IPv4, too, unless the system is set otherwise; answers leave from
    /// the address that a packet came to.
    ///
    /// # Errors
    /// If the address does not resolve or cannot be bound: it may be taken; or if the capture cannot be written.
    pub fn bind(address: impl ToSocketAddrs, options: &Options) -> Result<Self, Error> {
        Self::on(port::bind(address, options)?, options)
    }

    /// Binds to every address of this host, IPv6 and IPv4, or what the system has of them; port 0 picks one.
    ///
    /// # Errors
    /// As [`Receiver::bind`].
    pub fn bind_all(port: u16, options: &Options) -> Result<Self, Error> {
        Self::on(port::bind_all(port, options)?, options)
    }

    /// A receiver on a link of one's own.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn over(link: Box<dyn Link>, options: &Options) -> Result<Self, Error> {
        let address = (Ipv6Addr::UNSPECIFIED, 0).into();
        Self::on(Bound { path: Path::over(&*link), link, address, warnings: Vec::new() }, options)
    }

    fn on(bound: Bound, options: &Options) -> Result<Self, Error> {
        let Bound { link, path, address, warnings } = bound;
        let port = port::receive_over(link, options.config(&path), options)?;
        Ok(Self { end: Arc::new(End { port, address, warnings, announces: AtomicBool::new(false) }) })
    }

    /// The address it is bound to; `[::]:0` for a link of one's own.
    pub fn local_addr(&self) -> SocketAddr {
        self.end.address
    }

    /// What the socket could not be given, with the command that would help.
    pub fn warnings(&self) -> &[String] {
        &self.end.warnings
    }

    /// Waits for the next frame, in the order in which they became complete. The waiting thread does the work.
    ///
    /// # Errors
    /// [`Error::Endpoint`] if the receiver was closed and all its frames have been taken, or if the socket has failed.
    pub fn recv(&self) -> Result<Received, Error> {
        self.recv_until(None)?.ok_or(Error::Timeout)
    }

    /// Like [`Receiver::recv`], for at most `timeout`; `None` if nothing has come.
    ///
    /// # Errors
    /// As [`Receiver::recv`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Option<Received>, Error> {
        self.recv_until(port::deadline(timeout))
    }

    /// A frame that is here already, or comes by itself in one look at the socket. Never blocks.
    ///
    /// # Errors
    /// As [`Receiver::recv`].
    pub fn try_recv(&self) -> Result<Option<Received>, Error> {
        self.recv_until(Some(Instant::now()))
    }

    /// The same, until a deadline.
    pub(crate) fn recv_until(&self, deadline: Option<Instant>) -> Result<Option<Received>, Error> {
        let taken = match self.end.port.wait_until(Arrivals::take_or_end, deadline) {
            Ok(taken) => taken.ok_or(EndpointError::ShutDown)?,
            Err(WaitError::Timeout) => {
                self.end.settle_readiness();
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Some(self.received(taken)))
    }

    /// A frame that was taken from those that wait; `is_news` to the engine, or not yet.
    fn received(&self, (arrival, is_news): (Arrival, bool)) -> Received {
        self.end.settle_readiness();
        if is_news {
            // An endpoint that has failed holds nobody back.
            let _ = self.end.port.call(|Call { engine, state, .. }| {
                let (frames, bytes) = state.tell();
                if let Some(incoming) = engine.as_incoming() {
                    incoming.set_waiting(frames, bytes);
                }
            });
        }
        Received::new(arrival, Arc::downgrade(&self.end))
    }

    /// Like [`Receiver::recv`], for tasks.
    ///
    /// # Errors
    /// As [`Receiver::recv`].
    pub async fn recv_async(&self) -> Result<Received, Error> {
        let taken = self.end.port.wait(Arrivals::take_or_end).await?.ok_or(EndpointError::ShutDown)?;
        Ok(self.received(taken))
    }

    /// A descriptor for event loops: readable while frames are there to be taken, or the receiver is closed. Take them with
    /// [`Receiver::try_recv`], and do not read from it. Valid as long as the receiver.
    ///
    /// # Errors
    /// If the background thread, which drives from now on whenever no thread waits, cannot be started.
    pub fn readiness_fd(&self) -> Result<BorrowedFd<'_>, Error> {
        self.end.announces.store(true, Ordering::Relaxed);
        Ok(self.end.port.readiness_fd()?)
    }

    /// What makes the [descriptor](Receiver::readiness_fd) readable, if there is one.
    pub(crate) fn waker(&self) -> Option<Waker> {
        self.end.announces.load(Ordering::Relaxed).then(|| Waker::from(Arc::clone(&self.end)))
    }

    /// Leaves the reading to an event loop of the caller's: the background thread only sends from now on, on time. Returns
    /// the socket's descriptor; when it is readable, call [`Receiver::progress`], and then [`Receiver::take`] while there is
    /// something to take. Threads that wait for a frame read all the same. The descriptor is valid as long as the receiver,
    /// and only to be polled.
    ///
    /// # Errors
    /// If the link has no descriptor, or the background thread cannot be started.
    pub fn read_by_caller(&self) -> Result<BorrowedFd<'_>, Error> {
        port::read_by_caller(&self.end.port)
    }

    /// The background thread reads again: for the time in which the caller has other things to do, so that senders are
    /// answered.
    ///
    /// # Errors
    /// If the endpoint is of no use any more.
    pub fn read_in_background(&self) -> Result<(), Error> {
        Ok(self.end.port.set_worker_reads(true)?)
    }

    /// Reads what has arrived, and sends what follows from it. Never waits. See [`Receiver::read_by_caller`].
    ///
    /// # Errors
    /// If the endpoint is of no use any more.
    pub fn progress(&self) -> Result<(), Error> {
        port::progress(&self.end.port)
    }

    /// A frame that is here already. Reads nothing, and takes frames even after a failure.
    pub fn take(&self) -> Option<Received> {
        let taken = self.end.port.inspect(|_, _, state| state.take())?;
        Some(self.received(taken))
    }

    /// The next frame, as [`Receiver::recv`], or `None` as soon as `go_on` says no. It is asked before a frame is taken,
    /// and again after [`Receiver::notify`]; it must not use the receiver.
    ///
    /// # Errors
    /// As [`Receiver::recv`].
    pub fn recv_while(&self, mut go_on: impl FnMut() -> bool) -> Result<Option<Received>, Error> {
        let taken = self.end.port.wait_until(
            |state: &mut Arrivals| if go_on() { state.take_or_end().map(Some) } else { Some(None) },
            None,
        )?;
        let Some(taken) = taken else {
            self.end.settle_readiness();
            return Ok(None);
        };
        Ok(Some(self.received(taken.ok_or(EndpointError::ShutDown)?)))
    }

    /// Makes threads in [`Receiver::recv_while`] ask again.
    pub fn notify(&self) {
        self.end.port.notify();
    }

    /// Complete frames that wait to be taken.
    pub fn waiting(&self) -> usize {
        self.end.port.inspect(|_, _, state| state.len())
    }

    /// Frames that are kept: those that are coming, and complete ones whose senders have not said yet that they know. Once
    /// it is 0, no sender waits for an answer.
    pub fn frames(&self) -> usize {
        self.look(|incoming| incoming.frames()).unwrap_or_default()
    }

    /// Bytes that count against [`Limits::bytes`](super::Limits::bytes): frames that are coming, that wait to be taken, and
    /// that were taken and not dropped, with what it takes to receive them.
    pub fn bytes(&self) -> u64 {
        self.look(|incoming| incoming.bytes()).unwrap_or_default()
    }

    /// Headers of new frames of a sender that were refused: such a frame never comes.
    pub(crate) fn refused(&self, source: SocketAddr) -> u64 {
        self.look(|incoming| incoming.refused(&source.into())).unwrap_or_default()
    }

    /// For how long a sender has been silent; `None` if nothing is remembered of it.
    pub(crate) fn silence_of(&self, source: SocketAddr) -> Option<Duration> {
        let heard = self.end.port.call(|Call { now, engine, .. }| {
            let heard = engine.as_incoming().and_then(|incoming| incoming.heard(&source.into()));
            heard.map(|heard| now.since(heard))
        });
        heard.ok().flatten()
    }

    /// What the protocol has seen.
    pub fn counters(&self) -> IncomingCounters {
        self.look(|incoming| incoming.counters()).unwrap_or_default()
    }

    /// What the socket has seen.
    pub fn link_counters(&self) -> LinkCounters {
        self.end.port.link_counters()
    }

    fn look<R>(&self, look: impl FnOnce(&pinnace_vrp::Incoming) -> R) -> Option<R> {
        self.end.port.inspect(|engine, _, _| match engine {
            Vrp::Incoming(incoming) => Some(look(incoming)),
            Vrp::Outgoing(_) => None,
        })
    }

    /// Ends the receiver: frames that are not complete are refused. Those that are can still be taken.
    //= V-S4
    pub fn close(&self) {
        if self.end.close() {
            let closed = |state: &mut Arrivals| state.is_closed().then_some(());
            let _ = self.end.port.wait_until(closed, port::deadline(port::CLOSING_TIME));
            // Who waits for frames finds out here that none will come.
            self.end.port.notify();
        }
    }

    /// Whoever called does something else now: the peer is answered at once all the same.
    pub(crate) fn hand_over(&self) {
        self.end.port.hand_over();
    }

    /// As [`close`](Self::close), and waits for nothing.
    pub(crate) fn begin_close(&self) {
        if self.end.close() {
            self.end.port.notify();
        }
    }
}

/// Makes event loops look.
impl Wake for End {
    fn wake(self: Arc<Self>) {
        self.port.signal_readiness();
    }
}

impl End {
    /// Makes the readiness descriptor say again what is so.
    fn settle_readiness(&self) {
        if self.announces.load(Ordering::Relaxed) {
            self.port.clear_readiness();
            // Signals again if there is something.
            self.port.notify();
        }
    }

    /// What a frame takes of the limits is free again, and so is its memory, if it comes back.
    pub(super) fn release(&self, id: FrameId, storage: Option<Vec<u8>>) {
        // An endpoint that has failed has no limits to keep.
        let _ = self.port.call(|Call { engine, memory, state, .. }| {
            if let Some(incoming) = engine.as_incoming() {
                incoming.release(id);
                let (frames, bytes) = state.tell();
                incoming.set_waiting(frames, bytes);
            }
            if let Some(storage) = storage {
                memory.recycle(storage);
            }
        });
    }

    /// Begins to close; false if that is of no use.
    fn close(&self) -> bool {
        let close = |Call { now, engine, state, .. }: Call<'_, Vrp, Arrivals>| {
            let open = !state.is_closed();
            if let Some(incoming) = engine.as_incoming()
                && open
            {
                incoming.close(now);
            }
            open
        };
        self.port.call(close).unwrap_or(false)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.close();
    }
}

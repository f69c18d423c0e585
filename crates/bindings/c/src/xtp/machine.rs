//! The protocol machine of a context: an engine of its own on the context's socket, driven by whoever calls.
//!
//! Always true: nothing happens but in calls; a read brings one datagram; what the application puts out is copied once,
//! and kept until it is acknowledged; what comes lands in the application's ring.

use super::socket::Socket;
use super::types::xtpcbloc;
use crate::errors::Errno;
use pinnace_core::{Address, BufferId, BufferRange, PollAt, Storage, Time};
use pinnace_link::{BufferTable, Link, UdpLink, UdpOptions};
use pinnace_runtime::{Driver, DriverConfig, EventSink, Progress};
use pinnace_xtp::{
    AddressSegment, Codec, Config, ContextId, ControlBlock, Event, Facts, Failure, Limits, Output, Refused, Service,
    Services, Xtp,
};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Bytes of datagrams that wait to be taken: one is read at a time.
const MOST_DATAGRAM_BYTES: u64 = 1 << 20;

/// A datagram that has come whole.
#[derive(Debug)]
pub(super) struct Datagram {
    pub(super) peer: Address,
    pub(super) address: AddressSegment,
    pub(super) bytes: Vec<u8>,
    pub(super) start: u64,
    pub(super) btag: Option<[u8; 8]>,
    /// An acknowledgement waits for its delivery.
    pub(super) context: Option<ContextId>,
}

/// What the engine has said.
#[derive(Debug, Default)]
struct Told {
    accepted: Option<(ContextId, Address, AddressSegment)>,
    datagrams: VecDeque<Datagram>,
    /// The end of the present context.
    closed: Option<(ContextId, Result<(), Failure>)>,
    /// Bytes of output that are kept.
    kept: u64,
    /// Datagrams, and their bytes, that the engine is to be told of.
    released: (u64, u64),
}

impl EventSink<Event> for Told {
    fn handle_event(&mut self, event: Event, memory: &mut BufferTable) {
        match event {
            Event::Accepted { context, peer, address, .. } => self.accepted = Some((context, peer, address)),
            Event::Sent { buffer, .. } => {
                if let Some(copy) = memory.take(buffer) {
                    self.kept = self.kept.saturating_sub(copy.len() as u64);
                    memory.recycle(copy);
                }
            }
            Event::Datagram { peer, address, buffer, len, start, btag, context, .. } => {
                let bytes = buffer.and_then(|buffer| memory.take(buffer)).unwrap_or_default();
                self.released = (self.released.0 + 1, self.released.1 + len);
                self.datagrams.push_back(Datagram { peer, address, bytes, start, btag, context });
            }
            Event::Closed { context, result } => self.closed = Some((context, result)),
            Event::Released { buffer } => memory.remove(buffer),
            // The ring is the application's all along; readiness is looked at, not told.
            Event::Filled { .. }
            | Event::Readable { .. }
            | Event::Connected { .. }
            | Event::Shown { .. }
            | Event::ShutDown => {}
        }
    }
}

/// How the engine is made.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) codec: Codec,
    pub(super) is_near: bool,
}

impl Plan {
    fn config(&self, block: &xtpcbloc, link: &UdpLink) -> Config {
        let local = link.local_address();
        Config {
            codec: self.codec,
            datagram_bytes: link.max_datagram(),
            congestion: block.congestion(self.is_near),
            local: local.map(|local| local.ip()).filter(|ip| !ip.is_unspecified()),
            local_port: local.map_or(0, |local| local.port()),
            limits: Limits { bytes: MOST_DATAGRAM_BYTES, ..Limits::default() },
            seed: self.seed,
            ..Config::default()
        }
    }

    /// The key of the first context of an engine that is made like this.
    pub(super) fn key(&self) -> u64 {
        let config = Config { seed: self.seed, codec: self.codec, ..Config::default() };
        Xtp::new(config, Time::ZERO).next_key().unwrap_or(0)
    }
}

/// An engine on a socket.
#[derive(Debug)]
pub(super) struct Machine {
    driver: Driver<Xtp, UdpLink>,
    told: Told,
    /// The association, once there is one.
    id: Option<ContextId>,
    codec: Codec,
    /// The socket has failed: the driver is of no use any more.
    dead: Option<Errno>,
    /// Whom the socket is connected to.
    pub(super) peer: Option<SocketAddr>,
    /// The ring, where it lies and how many bytes it has.
    ring: Option<(BufferId, usize, u32)>,
}

fn refused(refused: Refused) -> Errno {
    match refused {
        // Nobody has ended anything: the block has not been connected yet.
        Refused::NoContext => Errno(libc::ENOTCONN),
        refused => refused.into(),
    }
}

impl Machine {
    /// On a socket that is bound, or connected.
    pub(super) fn new(socket: &Socket, plan: &Plan, block: &xtpcbloc) -> Result<Self, Errno> {
        let options = UdpOptions::default();
        let peer = socket.peer();
        let fd = socket.descriptor();
        // SAFETY: the context keeps its own socket open as long as its machine lives, and the application has promised to
        // do so with its own.
        let link = unsafe {
            if peer.is_some() {
                UdpLink::from_borrowed_fd(fd, &options)
            } else {
                UdpLink::from_unconnected_fd(fd, &options)
            }
        };
        let link = link.map_err(|error| Errno::from(&error))?;
        let mut engine = Xtp::new(plan.config(block, &link), Time::ZERO);
        // As `Plan::key` has told.
        let _ = engine.next_key();
        let config = DriverConfig { reads_per_batch: 1, ..DriverConfig::default() };
        let mut driver = Driver::new(engine, link, config);
        driver.memory().limit_pool(block.wbufsize as usize);
        let codec = plan.codec;
        Ok(Self { driver, told: Told::default(), id: None, codec, dead: None, peer, ring: None })
    }

    /// A call of the engine's, and what follows from it.
    fn call<R>(
        &mut self,
        held: Option<bool>,
        call: impl FnOnce(&mut Xtp, &mut BufferTable, Time) -> Result<R, Refused>,
    ) -> Result<R, Errno> {
        self.alive()?;
        let result = self.driver.call(held, call);
        let drained = self.driver.drain(&mut self.told).map(drop);
        self.judge(drained)?;
        result.map_err(refused)
    }

    fn alive(&self) -> Result<(), Errno> {
        self.dead.map_or(Ok(()), Err)
    }

    fn judge<R>(&mut self, result: io::Result<R>) -> Result<R, Errno> {
        result.map_err(|error| {
            let why = Errno::from(&error);
            self.dead = Some(why);
            why
        })
    }

    /// Lends the engine the application's ring, once. Refused where data have come before there was a place for them.
    ///
    /// # Safety
    /// It must stay there as long as the machine lives.
    pub(super) unsafe fn lend(&mut self, at: *mut u8, bytes: u32) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        let buffer = unsafe { self.driver.memory().insert(at, bytes as usize) };
        self.ring = Some((buffer, at.addr(), bytes));
        let attached = self.attach_ring();
        if attached.is_err() {
            self.ring = None;
            self.driver.memory().remove(buffer);
        }
        attached
    }

    /// Where the ring lies that was lent.
    pub(super) fn ring(&self) -> Option<(usize, u32)> {
        self.ring.map(|(_, at, bytes)| (at, bytes))
    }

    /// Gives the ring to the present context.
    fn attach_ring(&mut self) -> Result<(), Errno> {
        let (Some(id), Some((buffer, _, bytes))) = (self.id, self.ring) else { return Ok(()) };
        self.call(None, |engine, _, now| match engine.set_ring(now, id, buffer, bytes.into()) {
            // Nothing comes any more.
            Err(Refused::NoContext) => Ok(()),
            set => set,
        })
    }

    pub(super) fn listen(&mut self, block: ControlBlock) -> Result<(), Errno> {
        let service = block.service;
        let ring = self.ring.map(|(buffer, _, bytes)| (buffer, u64::from(bytes)));
        self.call(None, |engine, _, _| {
            if service.is_datagram() {
                engine.listen(block, Services::from(service))
            } else {
                engine.listen_once(block, Services::from(service), ring)
            }
        })
        .map(drop)
    }

    /// A new association with the peer, instead of one that has ended.
    pub(super) fn open(&mut self, block: ControlBlock) -> Result<(), Errno> {
        let old = self.id.take();
        self.told.closed = None;
        let id = self.call(None, |engine, _, now| {
            if let Some(old) = old {
                engine.release(now, old);
            }
            engine.open(now, Address::Peer, block)
        })?;
        self.id = Some(id);
        self.attach_ring()
    }

    /// The context that a listener has accepted, if it is new: its peer, and what its FIRST says.
    pub(super) fn accept(&mut self) -> Option<(Option<SocketAddr>, AddressSegment)> {
        let (id, peer, address) = self.told.accepted.take()?;
        self.id = Some(id);
        Some((self.socket_address(peer), address))
    }

    pub(super) fn socket_address(&self, address: Address) -> Option<SocketAddr> {
        match address {
            Address::Inet(address) => Some(address),
            _ => self.peer,
        }
    }

    /// A datagram for the application.
    pub(super) fn take_datagram(&mut self) -> Result<Option<Datagram>, Errno> {
        let (count, bytes) = std::mem::take(&mut self.told.released);
        if count > 0 {
            self.call(None, |engine, _, _| {
                engine.release_datagrams(count, bytes);
                Ok(())
            })?;
        }
        Ok(self.told.datagrams.pop_front())
    }

    /// The application has taken a datagram whose acknowledgement waits for that.
    pub(super) fn deliver(&mut self, context: ContextId) -> Result<(), Errno> {
        self.call(None, |engine, _, now| {
            engine.delivered(now, context);
            Ok(())
        })
    }

    /// The application could not take it.
    pub(super) fn not_taken(&mut self, context: ContextId) -> Result<(), Errno> {
        self.call(None, |engine, _, _| {
            engine.not_taken(context);
            Ok(())
        })
    }

    /// Copies and queues an output, `then` follows in the same breath.
    pub(super) fn send(
        &mut self,
        held: Option<bool>,
        data: &[u8],
        output: impl FnOnce(BufferId) -> Output,
        then: impl FnOnce(&mut Xtp, Time, ContextId) -> Result<(), Refused>,
    ) -> Result<(), Errno> {
        let id = self.id.ok_or(Errno(libc::ENOTCONN))?;
        let len = data.len() as u64;
        let memory = self.driver.memory();
        let buffer = memory.allocate(len, &[]).ok_or(Errno(libc::ENOMEM))?;
        if let Some(place) = memory.resolve(BufferRange::new(buffer, 0, data.len() as u32)) {
            // SAFETY: the table's buffer has `len` bytes, and the application's memory is another.
            unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), place, data.len()) };
        }
        let output = output(buffer);
        self.told.kept += len;
        let sent = self.call(held, |engine, memory, now| {
            let sent = engine.send(now, id, output);
            match sent {
                Ok(_) => then(engine, now, id),
                Err(why) => {
                    memory.remove(buffer);
                    Err(why)
                }
            }
        });
        if sent.is_err() {
            self.told.kept = self.told.kept.saturating_sub(len);
        }
        sent
    }

    /// A call that concerns the association.
    pub(super) fn tell(
        &mut self,
        call: impl FnOnce(&mut Xtp, Time, ContextId) -> Result<(), Refused>,
    ) -> Result<(), Errno> {
        let id = self.id.ok_or(Errno(libc::ENOTCONN))?;
        self.call(Some(false), |engine, _, now| call(engine, now, id))
    }

    pub(super) fn set_block(&mut self, block: ControlBlock) -> Result<(), Errno> {
        let id = self.id.ok_or(Errno(libc::ENOTCONN))?;
        self.call(None, |engine, _, now| engine.set_block(now, id, block))
    }

    pub(super) fn consume(&mut self, bytes: u64) -> Result<(), Errno> {
        let id = self.id.ok_or(Errno(libc::ENOTCONN))?;
        self.call(None, |engine, _, now| {
            engine.consume(now, id, bytes);
            Ok(())
        })
    }

    /// The application waits: what was held back leaves.
    pub(super) fn release(&mut self) {
        if self.dead.is_none() {
            self.driver.release();
        }
    }

    /// Reads one datagram, if `reads` and there is one; lets timers fire, and sends what may leave. Returns whether a
    /// datagram has come.
    pub(super) fn turn(&mut self, reads: bool) -> Result<bool, Errno> {
        self.alive()?;
        let before = self.driver.link().counters().datagrams_received;
        let turn = if reads {
            self.driver.progress(&mut self.told)
        } else {
            self.driver.progress_without_reading(&mut self.told)
        };
        let mut progress = self.judge(turn)?;
        while progress.next == PollAt::Now && is_moving(&progress) {
            let turn = self.driver.progress_without_reading(&mut self.told);
            progress = self.judge(turn)?;
        }
        Ok(self.driver.link().counters().datagrams_received > before)
    }

    /// How long nothing happens of itself; `None`: for ever.
    pub(super) fn rest(&mut self) -> Option<Duration> {
        // While the socket is full nobody tells when it is not: soon.
        const SOON: Duration = Duration::from_millis(1);
        self.alive().ok()?;
        self.driver.read_clock();
        let date = match self.driver.next() {
            PollAt::Now => Some(Duration::ZERO),
            PollAt::Time(at) => Some(self.driver.remaining(at)),
            PollAt::Ingress => None,
        };
        if self.driver.is_blocked() { Some(date.map_or(SOON, |date| date.min(SOON))) } else { date }
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.driver.is_blocked()
    }

    pub(super) fn has_association(&self) -> bool {
        self.id.is_some()
    }

    pub(super) fn facts(&self) -> Option<Facts> {
        self.driver.engine().facts(self.id?)
    }

    pub(super) fn readable(&self) -> Option<pinnace_xtp::Readable> {
        self.driver.engine().readable(self.id?)
    }

    pub(super) fn holes(&self, bytes: u64) -> Vec<(u64, u64)> {
        self.id.map(|id| self.driver.engine().holes(id, bytes)).unwrap_or_default()
    }

    /// Code and value of a DIAG that came.
    pub(super) fn diag(&self) -> (u32, u32) {
        let block = self.id.and_then(|id| self.driver.engine().block(id));
        block.map_or((0, 0), |block| (block.code, block.value))
    }

    /// How the association ended, if it did.
    pub(super) fn end(&self) -> Option<Result<(), Failure>> {
        self.told.closed.filter(|(id, _)| Some(*id) == self.id).map(|(_, result)| result)
    }

    /// Bytes that may be put out before the peer's allocation is used up.
    pub(super) fn room(&self) -> u64 {
        self.id.and_then(|id| self.driver.engine().room(id)).unwrap_or(0)
    }

    /// Whether an acknowledgement is to come.
    pub(super) fn has_unacknowledged(&self) -> bool {
        self.facts().is_some_and(|facts| facts.acked != facts.sent)
    }

    /// Bytes of output that are kept.
    pub(super) fn kept(&self) -> u64 {
        self.told.kept
    }

    /// A difference of numbers of the stream, which wrap.
    pub(super) fn distance(&self, from: u64, to: u64) -> u64 {
        match self.codec {
            Codec::Xtp40 => to.wrapping_sub(from),
            Codec::Xtp36 => u64::from((to as u32).wrapping_sub(from as u32)),
        }
    }

    pub(super) fn number(&self, from: u64, bytes: u64) -> u64 {
        match self.codec {
            Codec::Xtp40 => from.wrapping_add(bytes),
            Codec::Xtp36 => u64::from((from as u32).wrapping_add(bytes as u32)),
        }
    }
}

fn is_moving(progress: &Progress) -> bool {
    !progress.blocked && (progress.trains > 0 || progress.events > 0)
}

/// Whether packets to or from `address` stay on this host.
pub(super) fn is_near(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Whether an association of this service may be followed by another.
pub(super) fn is_repeatable(service: Service) -> bool {
    service.is_one_message()
}

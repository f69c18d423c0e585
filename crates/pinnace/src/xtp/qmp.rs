//! What QMP needs of an endpoint: XTP set up as its profile says.

use super::exchange::Exchange;
use super::port::{self, Bound, Call, End, Names, deadline};
use super::reading::{Look, Partial};
use super::{Connection, Endpoint, Options, SendOptions, Service, ether, sending};
use crate::counters::Seen;
use crate::places::Place;
use crate::{Error, Idle, Message, qmp};
use pinnace_link::{Link, Piece, Source};
use pinnace_qbuf::{Pool, Qbuf, Role};
use pinnace_qmp::socket::Errno;
use pinnace_qmp::{Medium, Profile, State};
use pinnace_runtime::WaitError;
use pinnace_xtp::Config;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// An answer of the application may share the train of a status that is asked for, if it comes so soon.
const COURTESY: Duration = Duration::from_micros(10);

/// Bytes of a packet with data beside the user's.
const HEADER_BYTES: usize = 32;

/// Bytes of the buffers that a stream is received into, if they are qbufs. The largest packet lies in two at most.
const AREA_BYTES: usize = 64 << 10;

fn no_room() -> Error {
    Error::io("no qbuf for what has arrived: free some, or make the pool larger", io::ErrorKind::OutOfMemory.into())
}

/// Bytes that were collected and that nobody could take; `None`: there are none.
fn take_collected(partial: &mut Partial, pool: &Pool) -> Option<Result<Qbuf, Error>> {
    let len = partial.len().min(pool.max_len());
    if len == 0 {
        return None;
    }
    let Some(mut qbuf) = pool.alloc(len) else { return Some(Err(no_room())) };
    partial.drain_into(&mut qbuf);
    Some(Ok(qbuf))
}

/// Storage that is a pool's qbufs.
#[derive(Debug)]
struct PoolSource(Pool);

// SAFETY: a qbuf's memory is part of a map that lives as long as the qbuf, and only its owner uses it.
unsafe impl Source for PoolSource {
    fn allocate(&mut self, len: usize) -> Option<Piece> {
        let mut qbuf = self.0.alloc(len)?;
        qbuf.set_role(Role::Engine);
        Some(Piece { base: qbuf.as_mut_ptr(), len, owner: Box::new(qbuf) })
    }
}

/// What is left of an endpoint when its last handle goes: nothing.
#[derive(Clone, Debug)]
pub(crate) struct WeakEndpoint(Weak<End>);

impl WeakEndpoint {
    pub(crate) fn upgrade(&self) -> Option<Endpoint> {
        self.0.upgrade().map(|end| Endpoint { end })
    }
}

impl Endpoint {
    pub(crate) fn downgrade(&self) -> WeakEndpoint {
        WeakEndpoint(Arc::downgrade(&self.end))
    }

    pub(crate) fn bind_qmp(address: SocketAddr, options: &qmp::Options) -> Result<Self, Error> {
        let xtp = options.xtp();
        let bound = match options.carrier {
            qmp::Carrier::Ether => ether::bind(&ether::interface_of(address.ip())?, address, &xtp)?,
            _ => port::bind(address, &xtp)?,
        };
        Self::of_qmp(bound, options, &xtp)
    }

    /// An endpoint on an interface of this host, whose address is `local`.
    pub(crate) fn on_interface(interface: &str, local: SocketAddr, options: &qmp::Options) -> Result<Self, Error> {
        let xtp = options.xtp();
        Self::of_qmp(ether::bind(interface, local, &xtp)?, options, &xtp)
    }

    pub(crate) fn client_qmp(options: &qmp::Options) -> Result<Self, Error> {
        let xtp = options.xtp();
        Self::of_qmp(port::client(&xtp)?, options, &xtp)
    }

    /// An endpoint on UDP to `peer` alone.
    pub(crate) fn client_of_qmp(peer: SocketAddr, options: &qmp::Options) -> Result<Self, Error> {
        let xtp = options.xtp();
        Self::of_qmp(port::client_of(peer, &xtp)?, options, &xtp)
    }

    pub(crate) fn over_qmp(
        link: Box<dyn Link>,
        local: SocketAddr,
        peer: Option<SocketAddr>,
        options: &qmp::Options,
    ) -> Result<Self, Error> {
        let xtp = options.xtp();
        Self::of_qmp(Bound::over(link, local, peer, xtp.carrier), options, &xtp)
    }

    fn of_qmp(bound: Bound, options: &qmp::Options, xtp: &Options) -> Result<Self, Error> {
        let sizes = xtp.default_block(&bound.path);
        let medium = if let Names::Stations(_) = bound.names { Medium::Ethernet } else { Medium::Internet };
        let profile = Profile {
            status_every: options.status_every,
            window: sizes.rwindow,
            queue: sizes.wbufsize,
            maxdata: bound.path.datagram.saturating_sub(HEADER_BYTES).max(1) as u32,
            go_back_n: options.go_back_n,
        };
        let mut block = profile.block(0);
        if let Some(timeout) = options.peer_timeout {
            block = block.patient(timeout);
        }
        debug_assert_eq!(block.service, Service::Connection);
        let area_bytes = options.pool.as_ref().map_or(0, |pool| pool.max_len().min(AREA_BYTES) as u32);
        let least_area_bytes =
            options.pool.as_ref().map_or(0, |pool| area_bytes.min(pool.options().block_bytes as u32));
        // Whoever sleeps is better woken by the status, while its data are on their way.
        let courtesy = if options.idle == Idle::Block { Duration::ZERO } else { COURTESY };
        let adjust = |config| Config { area_bytes, least_area_bytes, courtesy, ..profile.config(medium, config) };
        let mut end = port::start_as(bound, xtp, block, adjust)?;
        end.port.publish("qmp", Seen::look);
        if let Some(pool) = options.pool.clone() {
            end.port.inspect(|_, memory, _| memory.set_source(Some(Box::new(PoolSource(pool)))));
        }
        end.asks_after_writes = true;
        Ok(Self::at(end))
    }
}

/// What ended a wait for anything on an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stirred {
    Associations,
    Beside,
    Nothing,
}

impl Endpoint {
    /// Opens a stream whose FIRST says this source port; nothing is sent.
    pub(crate) fn connect_from(&self, to: SocketAddr, source_port: u16) -> Result<Connection, Error> {
        let (to, mut block) = self.target(to, self.block(Service::Connection), Service::Connection)?;
        block.address_segment.source_port = source_port;
        self.open_stream(to, block, Service::Connection)
    }

    /// Waits until something has happened to an association, or somebody has come for a listener, or `beside` is readable. Each
    /// association that something has happened to since the last time is told once.
    pub(crate) fn wait_stirred(
        &self,
        beside: BorrowedFd<'_>,
        timeout: Option<Duration>,
        mut told: impl FnMut(Place),
    ) -> Result<Stirred, Error> {
        let ready = |state: &mut Exchange| state.take_stirred(&mut told).then_some(());
        match self.end.port.wait_beside(beside, ready, timeout.and_then(deadline)) {
            Ok(Some(())) => Ok(Stirred::Associations),
            Ok(None) => Ok(Stirred::Beside),
            Err(WaitError::Timeout) => Ok(Stirred::Nothing),
            Err(error) => Err(error.into()),
        }
    }

    /// Copies as much of each as there is room for into these streams.
    pub(crate) fn write_each(&self, writes: &[(&Connection, &[u8])]) -> Result<Vec<Result<usize, Error>>, Error> {
        Connection::write_each(&self.end, writes)
    }

    /// Whether every association has come to its end.
    pub(crate) fn is_quiet(&self) -> bool {
        self.end.port.inspect(|_, _, state| state.is_quiet())
    }

    /// Says the last ENDs once more; how long to wait until the next time, or `None` if there are none to be said.
    pub(crate) fn say_ends(&self, said: u32) -> Option<Duration> {
        self.end.say_ends(said)
    }
}

impl Connection {
    /// The name of its association in the endpoint.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Whether the peer has begun it.
    pub(crate) fn is_accepted(&self) -> bool {
        self.is_accepted
    }
}

/// The address of this host that `peer` is reached from, over this carrier; for Ethernet also the interface.
pub(crate) fn way_to(peer: SocketAddr, carrier: &qmp::Carrier) -> Result<(SocketAddr, Option<String>), Error> {
    if *carrier == qmp::Carrier::Ether {
        let found = ether::find(peer.ip())?;
        return Ok((SocketAddr::new(found.local, 0), Some(found.name)));
    }
    let local = crate::network::route(peer);
    Ok((local.map_err(|error| Error::io(format!("cannot reach {}", peer.ip()), error))?, None))
}

impl Connection {
    /// All that poll() tells of, at one moment: an association ends while somebody looks, and half of an end is none.
    pub(crate) fn qmp_standing(&self) -> qmp::Standing {
        self.end.port.inspect(|engine, _, state| {
            // Held in here only, as by whoever reads.
            let partial = self.partial();
            let outcome = state.association(self.place).map(|association| association.closed);
            let is_over = outcome != Some(None);
            let readable = engine.readable(self.id);
            // What can be read at once may be less than has come.
            let is_whole = engine.facts(self.id).is_none_or(|facts| facts.is_received_whole);
            let (readable_bytes, is_last) = if self.is_shut() {
                (0, true)
            } else {
                let bytes = partial.len() + readable.as_ref().map_or(0, |readable| readable.len as usize);
                (bytes, is_over || readable.is_none_or(|readable| readable.len == 0 && readable.is_end))
            };
            qmp::Standing {
                readable_bytes,
                is_at_end: readable_bytes == 0 && is_last,
                has_peer_ended: is_over || is_whole,
                is_writable: is_over || engine.queue_room(self.id) >= self.enough_room(engine),
                state: State::of(engine, self.id),
                failure: outcome.flatten().and_then(Result::err).map(Errno::of),
            }
        })
    }

    /// Copies what can be read, and leaves it there; waits for the first byte, at most `timeout`.
    pub(crate) fn peek(&self, into: &mut [u8], timeout: Option<Duration>) -> Result<usize, Error> {
        let deadline = timeout.and_then(deadline);
        loop {
            self.about().wait_until(|state| self.may_read(state), deadline)?;
            if let Some(seen) = self.peek_bytes(into)? {
                return Ok(seen);
            }
        }
    }

    /// Queues a qbuf, without copying it; it is freed when the last packet that uses it has been acknowledged. The inner
    /// error gives it back: the queue is full, after so many outputs had ended.
    //= B-6, B-11, Q-10
    pub(crate) fn pass_in(&self, mut qbuf: Qbuf) -> Result<Result<(), (Qbuf, u64)>, Error> {
        let queue = |mut call: Call<'_>| {
            // In one call: others want the same room, and what is refused must be given back.
            if call.engine.queue_room(self.id) < qbuf.len() as u64 {
                let ended = call.state.association(self.place).map_or(0, |association| association.lane.ended());
                return Ok(Err((qbuf, ended)));
            }
            qbuf.set_role(Role::Engine);
            let (base, len) = (qbuf.as_mut_ptr(), qbuf.len());
            // SAFETY: the memory is the qbuf's, which lives as long as the message and is used through it alone.
            let message = unsafe { Message::from_owner(qbuf, base, len) };
            let options = SendOptions { sreq: true, ..SendOptions::BYTES };
            let number = sending::queue(&mut call, self.place, self.id, message, &options).map_err(|it| it.error)?;
            call.state.abandon(self.place, number);
            Ok(Ok(()))
        };
        self.end.port.call(queue)?
    }

    /// Whether [`Connection::pass_in`] would take so many bytes now, or say that it is over.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        self.end.port.inspect(|engine, _, state| {
            engine.queue_room(self.id) >= bytes as u64
                || state.association(self.place).is_none_or(|association| association.closed.is_some())
        })
    }

    /// Waits until an output has ended after so many had. False: the time is over.
    pub(crate) fn wait_for_room(&self, ended: u64, deadline: Option<Instant>) -> Result<bool, Error> {
        match self.about().wait_until(|state| self.has_room(state, ended), deadline) {
            Err(WaitError::Timeout) => Ok(false),
            result => Ok(result.map(|()| true)?),
        }
    }

    /// Takes the next bytes as a qbuf: the one that they arrived in, or, if bytes are missing in it behind which others have
    /// come, a copy. Waits for the first byte; `None` at the end of the stream.
    //= B-6, B-7
    pub(crate) fn take_qbuf(&self, pool: &Pool, timeout: Option<Duration>) -> Result<Option<Qbuf>, Error> {
        let deadline = timeout.and_then(deadline);
        loop {
            self.about().wait_until(|state| self.may_read(state), deadline)?;
            match self.take_storage(pool)? {
                Look::Found(qbuf) => return Ok(Some(qbuf)),
                Look::Ended => return Ok(None),
                Look::Nothing => {}
            }
        }
    }

    fn take_storage(&self, pool: &Pool) -> Result<Look<Qbuf>, Error> {
        if self.is_shut() {
            return Ok(Look::Ended);
        }
        if let Some(collected) = take_collected(&mut self.partial(), pool) {
            return collected.map(|qbuf| Look::Found(self.copied(qbuf)));
        }
        self.look(|call, connection, partial, readable| {
            if let Some(collected) = take_collected(partial, pool) {
                return Ok((0, Some(self.copied(collected?))));
            }
            if let Some(taken) = self.take_area(call, partial, pool) {
                // It is consumed.
                return Ok((0, Some(taken?)));
            }
            if readable.len == 0 {
                return Ok((0, None));
            }
            let len = readable.len.min(AREA_BYTES as u64) as usize;
            let mut qbuf = pool.alloc(len).ok_or_else(no_room)?;
            let taken = connection.copy_first(call, &readable, &mut qbuf[..len]);
            qbuf.set_len(taken);
            Ok((taken as u64, Some(self.copied(qbuf))))
        })
    }

    /// Takes the memory that the next bytes lie in, if it can be had: a qbuf, unless the pool was empty when they came.
    fn take_area(&self, call: &mut Call<'_>, partial: &mut Partial, pool: &Pool) -> Option<Result<Qbuf, Error>> {
        let range = call.engine.take_area(call.now, self.id)?;
        let (offset, len) = (range.offset as usize, range.len as usize);
        if let Some(Ok(mut qbuf)) = call.memory.take_owner(range.buffer).map(|owner| owner.downcast::<Qbuf>()) {
            qbuf.set_len(qbuf.capacity());
            if offset > 0 {
                // Some of its bytes were read the ordinary way.
                qbuf.copy_within(offset..offset + len, 0);
                self.copies.count_read(len);
            }
            qbuf.set_len(len);
            qbuf.set_role(Role::User);
            return Some(Ok(*qbuf));
        }
        let storage = call.memory.take(range.buffer)?;
        let bytes = &storage[offset..offset + len];
        let result = match pool.alloc(len) {
            Some(mut qbuf) => {
                qbuf.copy_from_slice(bytes);
                Ok(self.copied(qbuf))
            }
            None => {
                // They are consumed, and wait here for the next call.
                partial.collect(bytes);
                Err(no_room())
            }
        };
        call.memory.recycle(storage);
        Some(result)
    }

    /// A qbuf that its bytes were copied into.
    fn copied(&self, qbuf: Qbuf) -> Qbuf {
        self.copies.count_read(qbuf.len());
        qbuf
    }

    /// SHUT_RD: local. What comes is read by nobody, and the peer is not told; who waits for it finds the end.
    pub(crate) fn shut_reading(&self) {
        self.is_shut.store(true, Ordering::Relaxed);
        self.end.port.notify();
    }

    pub(super) fn is_shut(&self) -> bool {
        self.is_shut.load(Ordering::Relaxed)
    }
}

//! What stands behind an `xtpctx`: its socket, its control block, its machine, and the mirror of the machine's state in the
//! application's structure.
//!
//! Always true: the structure is read when a call begins and written when it ends, and only then; what the application has
//! written there is checked before it counts.

mod mirror;

use super::address::{canonical, of_storage, to_storage};
use super::block;
use super::machine::{Machine, Plan, is_near, is_repeatable};
use super::socket::{Socket, everywhere};
use super::types::*;
use crate::errors::Errno;
use libc::c_int;
use pinnace_xtp::{Close, ContextId, Failure, Options, Output, Service};
use std::net::SocketAddr;
use std::ptr::{self, NonNull};
use std::time::Duration;

/// A context of the application's.
#[derive(Debug)]
pub(super) struct Context {
    /// Where its structure lies.
    at: NonNull<xtpctx>,
    socket: Socket,
    /// The control block that `xtp_ctx_init` has given.
    own_block: NonNull<xtpcbloc>,
    seed: u64,
    /// The control block as it counts.
    block: xtpcbloc,
    /// Options of the stream that the first output gave.
    extra: Options,
    role: Role,
    machine: Option<Machine>,
    /// A datagram lies in the ring: its first number, its bytes, its tag, and who waits for its delivery.
    datagram: Option<Lying>,
    spans: Vec<xtpspan>,
    /// The application has been told that the peer's stream has ended; that the association has.
    is_stream_end_told: bool,
    is_end_told: bool,
    /// The machine cannot go on.
    failed: Option<Errno>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Undecided,
    Initiator,
    Listener,
}

#[derive(Clone, Copy, Debug)]
struct Lying {
    start: u64,
    len: u64,
    is_taken: bool,
    btag: Option<[u8; 8]>,
    context: Option<ContextId>,
}

// SAFETY: the application has promised that its structure, control block and ring are used by one thread at a time.
unsafe impl Send for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        // The machine uses the socket.
        self.machine = None;
        // SAFETY: made of a box in `new`, and the application has promised to use it no more.
        drop(unsafe { Box::from_raw(self.own_block.as_ptr()) });
    }
}

fn errno(why: c_int) -> Errno {
    Errno(why)
}

/// What a call returns for the end of an association.
fn code_of(end: Result<(), Failure>) -> Result<c_int, Errno> {
    match end {
        Ok(()) | Err(Failure::Aborted) => Ok(XTP_CLOSED),
        Err(Failure::Refused { .. }) => Ok(XTP_REFUSED),
        Err(Failure::Unanswered | Failure::Abandoned | Failure::Swallowed | Failure::GivenUpByPeer { .. }) => {
            Ok(XTP_ABANDONED)
        }
        Err(Failure::Unknown | Failure::Forced) => Err(errno(libc::ECONNRESET)),
        Err(Failure::StoppedReading) => Err(errno(libc::EPIPE)),
        Err(Failure::Violation) => Err(errno(libc::EPROTO)),
        Err(Failure::TooLate) => Err(errno(libc::EIO)),
        Err(Failure::NoStorage) => Err(errno(libc::ENOMEM)),
    }
}

fn moment() -> libc::timespec {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time lives through the call; the clock exists everywhere.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time
}

impl Context {
    /// Initialises the application's structure.
    pub(super) fn new(at: NonNull<xtpctx>, soc: c_int) -> Result<Self, Errno> {
        let socket = if soc >= 0 { Socket::of_application(soc)? } else { Socket::new()? };
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(|_| errno(libc::EIO))?;
        let seed = u64::from_ne_bytes(bytes);
        let block = xtpcbloc::new();
        let own_block = NonNull::from(Box::leak(Box::new(block)));
        let my_key = Plan { seed, codec: block.codec(), is_near: false }.key();
        let nothing = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let fresh = xtpctx {
            recv_buf: ptr::null_mut(),
            saved_sync: 0,
            recv_sync: 0,
            should_xkey: 0,
            my_key,
            rem_key: 0,
            sort: 0,
            hseq: 0,
            rseq: 0,
            dseq: 0,
            bseq: 0,
            last_sent: 0,
            xseq: 0,
            lseq: 0,
            first_seq: 0,
            init_seq: 0,
            nspans: 0,
            span: ptr::null_mut(),
            cbloc: own_block.as_ptr(),
            cstate: XTP_QUIESCENT,
            soc: socket.descriptor(),
            // SAFETY: all zero is a valid address of no family.
            paddr: unsafe { std::mem::zeroed() },
            t_start: nothing,
            t_end: nothing,
        };
        // SAFETY: the application has promised a structure, which may be uninitialised.
        unsafe { at.write(fresh) };
        Ok(Self {
            at,
            socket,
            own_block,
            seed,
            block,
            extra: Options::NONE,
            role: Role::Undecided,
            machine: None,
            datagram: None,
            spans: Vec::new(),
            is_stream_end_told: false,
            is_end_told: false,
            failed: None,
        })
    }

    pub(super) fn descriptor(&self) -> c_int {
        self.socket.descriptor()
    }

    fn structure(&mut self) -> &mut xtpctx {
        // SAFETY: initialised in `new`; the application has promised that it stays there until it is closed, and that
        // nobody else uses it meanwhile.
        unsafe { self.at.as_mut() }
    }

    fn written_block(&mut self) -> Result<xtpcbloc, Errno> {
        let at = NonNull::new(self.structure().cbloc).ok_or(errno(libc::EINVAL))?;
        // SAFETY: the application has promised a control block.
        Ok(unsafe { at.read() })
    }

    fn machine(&mut self) -> Result<&mut Machine, Errno> {
        self.machine.as_mut().ok_or(errno(libc::ENOTCONN))
    }

    fn service(&self) -> Service {
        self.block.service()
    }

    /// A call begins: what the application has changed in its structures counts.
    pub(super) fn enter(&mut self) -> Result<(), Errno> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        self.take_dseq()?;
        let written = self.written_block()?;
        if self.role == Role::Undecided {
            // It is looked at when it is used.
            return Ok(());
        }
        if written != self.block {
            let checked = written.checked()?;
            let fixed = |block: &xtpcbloc| (block.service, block.mode_flags, block.rbufsize, block.address_segment);
            if fixed(&checked) != fixed(&self.block) {
                return Err(errno(libc::EINVAL));
            }
            if checked != self.block {
                self.block = checked;
                let extra = self.extra;
                let block = self.block;
                if let Some(machine) = self.machine.as_mut().filter(|machine| machine.has_association()) {
                    machine.set_block(block.to_engine(block.address_segment.to_listen(), extra))?;
                }
            }
        }
        Ok(())
    }

    /// The application has moved `dseq`.
    //= X-8
    fn take_dseq(&mut self) -> Result<(), Errno> {
        let dseq = self.structure().dseq;
        if let Some(lying) = &mut self.datagram {
            let Some(machine) = &mut self.machine else { return Ok(()) };
            let end = machine.number(lying.start, lying.len);
            if dseq != lying.start && dseq != end {
                return Err(errno(libc::EINVAL));
            }
            if dseq == end && !lying.is_taken && (lying.len > 0) {
                lying.is_taken = true;
                if let Some(context) = lying.context.take() {
                    machine.deliver(context)?;
                }
            }
            return Ok(());
        }
        let Some(machine) = &mut self.machine else { return Ok(()) };
        let Some(facts) = machine.facts() else { return Ok(()) };
        let bytes = machine.distance(facts.dseq, dseq);
        if bytes > machine.distance(facts.dseq, facts.rseq) {
            return Err(errno(libc::EINVAL));
        }
        if bytes > 0 {
            machine.consume(bytes)?;
        }
        Ok(())
    }

    /// The peer that the application names.
    fn named_peer(&mut self) -> Result<Option<SocketAddr>, Errno> {
        of_storage(&self.structure().paddr)
    }

    /// Lends the machine the ring.
    fn lend_ring(&mut self) -> Result<(), Errno> {
        let (at, bytes) = (self.structure().recv_buf, self.block.rbufsize);
        let machine = self.machine()?;
        match machine.ring() {
            Some((lent, _)) if lent == at.addr() => Ok(()),
            Some(_) => Err(errno(libc::EINVAL)),
            None if at.is_null() => Ok(()),
            None => {
                // SAFETY: the application has promised `rbufsize` bytes at `recv_buf`, until the context is closed.
                unsafe { machine.lend(at.cast(), bytes) }
            }
        }
    }

    /// Whether the application wants to listen: it names a port, and no peer.
    pub(super) fn may_listen(&mut self) -> bool {
        self.role == Role::Undecided
            && !self.structure().recv_buf.is_null()
            && self.named_peer().is_ok_and(|peer| peer.is_none())
            && self.written_block().is_ok_and(|block| block.address_segment.dport != 0)
    }

    pub(super) fn listen(&mut self) -> Result<(), Errno> {
        let block = self.written_block()?.checked()?;
        if self.structure().recv_buf.is_null() || block.address_segment.dport == 0 || self.named_peer()?.is_some() {
            return Err(errno(libc::EINVAL));
        }
        let segment = block.address_segment;
        self.socket.bind(segment.destination(), segment.dport)?;
        let local = self.socket.local()?;
        let plan = Plan { seed: self.seed, codec: block.codec(), is_near: is_near(local.ip()) };
        self.block = block;
        self.machine = Some(Machine::new(&self.socket, &plan, &block)?);
        let started = self.lend_ring().and_then(|()| {
            let block = block.to_engine(segment.to_listen(), Options::NONE);
            self.machine()?.listen(block)
        });
        if let Err(why) = started {
            self.machine = None;
            return Err(why);
        }
        self.role = Role::Listener;
        self.structure().my_key = plan.key();
        Ok(())
    }

    /// The first output: the socket is connected to the peer.
    fn connect(&mut self, options: Options) -> Result<(), Errno> {
        let block = self.written_block()?.checked()?;
        let peer = self.named_peer()?.ok_or(errno(libc::EDESTADDRREQ))?;
        if peer.port() == 0 {
            return Err(errno(libc::EINVAL));
        }
        let segment = block.address_segment;
        if segment.sport != 0 {
            let source = segment.source();
            let host = if source.is_ipv4() == peer.is_ipv4() { source } else { everywhere(peer.ip()) };
            self.socket.bind(host, segment.sport)?;
        }
        self.socket.connect(peer)?;
        let plan = Plan { seed: self.seed, codec: block.codec(), is_near: is_near(peer.ip()) };
        self.block = block;
        self.extra = options.and(Options::OF_STREAM);
        self.machine = Some(Machine::new(&self.socket, &plan, &block)?);
        if let Err(why) = self.lend_ring().and_then(|()| self.open(peer)) {
            self.machine = None;
            return Err(why);
        }
        self.role = Role::Initiator;
        Ok(())
    }

    fn open(&mut self, peer: SocketAddr) -> Result<(), Errno> {
        let port = self.socket.local()?.port();
        let segment = self.block.address_segment.to_peer(peer, port);
        let block = self.block.to_engine(segment, self.extra);
        self.machine()?.open(block)?;
        (self.is_stream_end_told, self.is_end_told) = (false, false);
        self.structure().t_start = moment();
        Ok(())
    }

    /// `xoutput`.
    pub(super) fn output(&mut self, data: &[u8], options: u32) -> Result<c_int, Errno> {
        let options = block::options_of_output(options)?;
        if options.contains(Options::MULTI) || (options.contains(Options::BTAG) && data.len() < 8) {
            return Err(errno(libc::EINVAL));
        }
        if self.role == Role::Listener && !self.machine()?.has_association() {
            return Err(errno(libc::ENOTCONN));
        }
        match self.role {
            Role::Undecided => {
                let block = self.written_block()?.checked()?;
                self.check_output(&block, data, options)?;
                self.connect(options)?;
            }
            Role::Initiator | Role::Listener => {
                let block = self.block;
                self.check_output(&block, data, options)?;
                self.machine()?.turn(false)?;
            }
        }
        if let Some(end) = self.machine()?.end() {
            match end {
                Ok(()) if is_repeatable(self.service()) && self.role == Role::Initiator => {
                    let peer = self.machine()?.peer.ok_or(errno(libc::ENOTCONN))?;
                    self.open(peer)?;
                }
                Ok(()) => return Err(errno(libc::EPIPE)),
                Err(_) => {
                    self.is_end_told = true;
                    return code_of(end);
                }
            }
        }
        self.put(data, options)
    }

    /// What can be said of an output before anything is done for it.
    fn check_output(&self, block: &xtpcbloc, data: &[u8], options: Options) -> Result<(), Errno> {
        let service = block.service();
        let is_message = service.is_datagram() || (service.is_one_message() && options.contains(Options::EOM));
        if data.len() as u64 > u64::from(block.wbufsize) {
            return Err(errno(libc::EMSGSIZE));
        }
        if data.is_empty() && options.contains(Options::EOM) && !is_message {
            return Err(errno(libc::EINVAL));
        }
        if !data.is_empty() && options.contains(Options::END) && !service.is_datagram() {
            return Err(errno(libc::EINVAL));
        }
        Ok(())
    }

    fn put(&mut self, data: &[u8], options: Options) -> Result<c_int, Errno> {
        let service = self.service();
        let is_on = |option: Options| options.contains(option);
        let held = self.block.asks_itself().then_some(true);
        let wbufsize = u64::from(self.block.wbufsize);
        let is_initiator = self.role == Role::Initiator;
        let machine = self.machine()?;
        let is_datagram = service.is_datagram();
        let eom = is_on(Options::EOM) || is_datagram;
        let closes = is_on(Options::WCLOSE) && !is_datagram;
        if data.is_empty() && !(eom && service.is_one_message()) {
            machine.tell(|engine, now, id| {
                if is_on(Options::END) {
                    return engine.close(now, id, Close::Forced);
                }
                if closes {
                    let how = if is_on(Options::RCLOSE) { Close::Abbreviated } else { Close::Full };
                    return engine.close(now, id, how);
                }
                if is_on(Options::RCLOSE) {
                    return engine.stop_reading(now, id);
                }
                if is_on(Options::SREQ) || is_on(Options::DREQ) {
                    return engine.ask(now, id, is_on(Options::DREQ));
                }
                // The first packet is a FIRST, whatever it has to say.
                engine.connect(now, id)?;
                engine.report(now, id)
            })?;
            return Ok(XTP_OK);
        }
        let (tag, bytes) = if is_on(Options::BTAG) { data.split_at(8) } else { data.split_at(0) };
        let btag = <[u8; 8]>::try_from(tag).ok();
        if bytes.is_empty() && !(eom && service.is_one_message()) {
            return Err(errno(libc::EINVAL));
        }
        let is_full = machine.kept() > 0 && machine.kept() + bytes.len() as u64 > wbufsize;
        // Crumbs of a message, as the window opens, would each ask for a status: while one is to come, all of it waits.
        let room = machine.room();
        let is_used_up = room == 0 || (room < bytes.len() as u64 && machine.has_unacknowledged());
        if !bytes.is_empty() && (is_full || is_used_up) {
            // Waiting for room is of no use to whoever has closed.
            let is_shut = machine.facts().is_some_and(|facts| facts.is_shut);
            let is_over = is_shut && !(is_repeatable(service) && is_initiator);
            return if is_over { Err(errno(libc::EPIPE)) } else { Ok(XTP_AGAIN) };
        }
        let (len, asks) = (bytes.len() as u64, is_on(Options::SREQ));
        let output = |buffer| Output {
            eom,
            btag,
            asks,
            asks_when_delivered: is_on(Options::DREQ) && !asks,
            ..Output::bytes(buffer, len)
        };
        let sent = machine.send(held, bytes, output, |engine, now, id| {
            if !closes {
                return Ok(());
            }
            let how = if is_on(Options::RCLOSE) { Close::Abbreviated } else { Close::Full };
            engine.close(now, id, how)
        });
        match sent {
            Err(Errno(libc::EAGAIN)) => Ok(XTP_AGAIN),
            // The message before this one is still under way.
            Err(Errno(libc::EPIPE)) if is_repeatable(service) && is_initiator => Ok(XTP_AGAIN),
            Err(why) => Err(why),
            Ok(()) => Ok(XTP_OK),
        }
    }

    /// `xf_input`.
    pub(super) fn first(&mut self) -> Result<c_int, Errno> {
        if self.role == Role::Undecided {
            self.listen()?;
        }
        if self.role != Role::Listener {
            return Err(errno(libc::EINVAL));
        }
        if self.machine()?.has_association() {
            return Err(errno(libc::EISCONN));
        }
        self.lend_ring()?;
        self.drop_datagram()?;
        loop {
            self.machine()?.release();
            let has_come = self.machine()?.turn(true)?;
            if let Some(code) = self.accepted()? {
                return Ok(code);
            }
            if self.socket.is_nonblocking() {
                return Ok(XTP_AGAIN);
            }
            if !has_come {
                self.wait()?;
            }
        }
    }

    /// A datagram that the application has not taken gives way to the next.
    fn drop_datagram(&mut self) -> Result<(), Errno> {
        if let Some(Lying { context: Some(context), .. }) = self.datagram.take() {
            self.machine()?.deliver(context)?;
        }
        Ok(())
    }

    fn accepted(&mut self) -> Result<Option<c_int>, Errno> {
        if let Some(datagram) = self.machine()?.take_datagram()? {
            let peer = self.machine()?.socket_address(datagram.peer);
            self.set_peer(peer, &datagram.address);
            let now = moment();
            let rbufsize = self.block.rbufsize as usize;
            let structure = self.structure();
            (structure.t_start, structure.t_end) = (now, now);
            let len = datagram.bytes.len();
            if len > rbufsize {
                if let Some(context) = datagram.context {
                    self.machine()?.not_taken(context)?;
                }
                return Err(errno(libc::EMSGSIZE));
            }
            // SAFETY: the application has promised `rbufsize` bytes there; `first` has seen that it still says so.
            unsafe { ptr::copy_nonoverlapping(datagram.bytes.as_ptr(), structure.recv_buf.cast::<u8>(), len) };
            let (start, btag) = (datagram.start, datagram.btag);
            let lying = Lying { start, len: len as u64, is_taken: false, btag, context: datagram.context };
            self.datagram = Some(lying);
            self.structure().dseq = start;
            if len == 0 {
                // There is nothing to take.
                self.drop_datagram()?;
                self.datagram = Some(Lying { context: None, is_taken: true, ..lying });
            }
            return Ok(Some(XTP_EOM));
        }
        let Some((peer, address)) = self.machine()?.accept() else { return Ok(None) };
        self.set_peer(peer, &address);
        let now = moment();
        let structure = self.structure();
        (structure.t_start, structure.t_end) = (now, now);
        let readable = self.machine()?.readable();
        let is_message = readable.is_some_and(|readable| readable.message.is_some());
        Ok(Some(if is_message { XTP_EOM } else { XTP_OK }))
    }

    fn set_peer(&mut self, peer: Option<SocketAddr>, address: &pinnace_xtp::AddressSegment) {
        if let Some(peer) = peer {
            self.structure().paddr = to_storage(canonical(peer)).0;
        }
        // The application's block says who it is, too.
        self.block.address_segment.set_source(address);
        if let Some(mut at) = NonNull::new(self.structure().cbloc) {
            // SAFETY: the application has promised a control block, and that nobody else uses it now.
            unsafe { at.as_mut() }.address_segment.set_source(address);
        }
    }

    /// `xd_input`.
    pub(super) fn data(&mut self) -> Result<c_int, Errno> {
        if !self.machine()?.has_association() {
            return Err(errno(libc::ENOTCONN));
        }
        self.lend_ring()?;
        // Whoever only sends needs no memory; data that come without it are nowhere.
        if self.structure().recv_buf.is_null() && (self.role != Role::Initiator || self.has_data()) {
            return Err(errno(libc::EINVAL));
        }
        loop {
            if self.has_news() {
                // Late packets are answered, but not waited for.
                let before = self.sight();
                let has_come = self.machine()?.turn(true)?;
                if has_come && let Some(code) = self.progress(&before) {
                    return Ok(code);
                }
                return self.news();
            }
            let before = self.sight();
            self.machine()?.release();
            if self.machine()?.turn(true)? {
                return match self.progress(&before) {
                    Some(code) => Ok(code),
                    None if self.has_news() => self.news(),
                    None => Ok(XTP_OK),
                };
            }
            if self.has_news() {
                continue;
            }
            if self.socket.is_nonblocking() {
                return Ok(XTP_AGAIN);
            }
            self.wait()?;
        }
    }

    fn has_data(&self) -> bool {
        self.machine.as_ref().and_then(Machine::readable).is_some_and(|readable| readable.len > 0)
    }

    /// What decides whether a datagram has brought something: the next byte to be received, and whether a message waits.
    fn sight(&self) -> Option<(u64, bool)> {
        let machine = self.machine.as_ref()?;
        let message = machine.readable()?.message;
        Some((machine.facts()?.rseq, message.is_some()))
    }

    /// What a datagram has brought.
    fn progress(&mut self, before: &Option<(u64, bool)>) -> Option<c_int> {
        let after = self.sight()?;
        let (rseq, had_message) = (*before)?;
        let has_grown = after.0 != rseq;
        if has_grown {
            let now = moment();
            self.structure().t_end = now;
        }
        if after.1 && (has_grown || !had_message) {
            return Some(XTP_EOM);
        }
        has_grown.then_some(XTP_OK)
    }

    /// Whether there is an end that the application has not been told of.
    fn has_news(&self) -> bool {
        let Some(machine) = &self.machine else { return false };
        if machine.end().is_some() {
            return true;
        }
        let is_stream = !self.service().is_one_message();
        is_stream && !self.is_stream_end_told && machine.readable().is_some_and(|readable| readable.is_end)
    }

    fn news(&mut self) -> Result<c_int, Errno> {
        self.is_stream_end_told = true;
        match self.machine()?.end() {
            Some(end) => {
                self.is_end_told = true;
                code_of(end)
            }
            None => Ok(XTP_CLOSED),
        }
    }

    /// Sleeps until something comes, or is due.
    fn wait(&mut self) -> Result<(), Errno> {
        let machine = self.machine.as_mut().ok_or(errno(libc::ENOTCONN))?;
        let rest = machine.rest();
        self.socket.wait(machine.is_blocked(), rest)
    }

    /// What is due happens, and what was held back leaves; nothing is read.
    pub(super) fn serve(&mut self) -> Result<(), Errno> {
        let Some(machine) = &mut self.machine else { return Ok(()) };
        machine.release();
        machine.turn(false).map(drop)
    }

    /// When something is due: at once if there is something to tell; `None`: never.
    pub(super) fn rest(&mut self) -> Option<Due> {
        let is_untold = self.failed.is_none()
            && self.has_news()
            && !(self.is_end_told && self.machine.as_ref().is_some_and(|machine| machine.end().is_some()));
        if is_untold {
            return Some(Due::News);
        }
        self.machine.as_mut()?.rest().map(Due::In)
    }

    /// `xtp_close` but for a forced one, which ends the context as well.
    pub(super) fn close(&mut self, how: Close) -> Result<c_int, Errno> {
        let machine = self.machine()?;
        if !machine.has_association() {
            return Err(errno(libc::ENOTCONN));
        }
        if let Some(end) = machine.end() {
            return code_of(end);
        }
        machine.tell(|engine, now, id| engine.close(now, id, how))?;
        Ok(XTP_OK)
    }

    /// Whether its association has ended: nothing happens any more but that late packets are answered.
    pub(super) fn has_ended(&self) -> bool {
        self.machine.as_ref().is_some_and(|machine| machine.end().is_some())
    }

    /// The socket, if it was made here.
    pub(super) fn own_socket(&self) -> Option<c_int> {
        self.socket.is_own().then(|| self.socket.descriptor())
    }

    /// The end of the context: of an association that is alive the peer is told.
    pub(super) fn end(mut self) {
        if let Some(machine) = &mut self.machine
            && machine.has_association()
        {
            // Nobody is left to be told of an error.
            let _ = machine.tell(|engine, now, id| engine.close(now, id, Close::Forced));
        }
        let is_own = self.socket.is_own();
        let structure = self.structure();
        (structure.cbloc, structure.span, structure.nspans) = (ptr::null_mut(), ptr::null_mut(), 0);
        structure.cstate = XTP_QUIESCENT;
        if is_own {
            structure.soc = -1;
        }
    }

    /// `xtp_message`.
    pub(super) fn message(&mut self, end: &mut u64, tag: Option<&mut [u8; 8]>) -> Result<c_int, Errno> {
        let (code, last, btag) = if let Some(lying) = &self.datagram {
            let last = self.machine.as_ref().map_or(0, |machine| machine.number(lying.start, lying.len));
            if lying.is_taken && lying.len > 0 { (XTP_OK, last, None) } else { (XTP_EOM, last, lying.btag) }
        } else {
            let machine = self.machine()?;
            let (Some(facts), Some(readable)) = (machine.facts(), machine.readable()) else {
                return Err(errno(libc::ENOTCONN));
            };
            match readable.message {
                Some(bytes) => (XTP_EOM, machine.number(facts.dseq, bytes), readable.btag),
                None => (XTP_OK, facts.rseq, readable.btag),
            }
        };
        *end = last;
        if let Some(tag) = tag {
            *tag = btag.unwrap_or_default();
        }
        Ok(code)
    }

    /// From now on every call fails like this.
    pub(super) fn fail(&mut self, why: Errno) {
        self.failed = Some(why);
    }
}

/// When a context has something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Something is to be told.
    News,
    /// In so long.
    In(Duration),
}

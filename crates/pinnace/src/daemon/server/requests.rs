//! What clients ask for.
//!
//! Always true: a request gets one reply, or its client is dropped; a channel is in the hands of both sides or of none.

use super::address::{as_seen_at, first_unprivileged_port, is_local, scope_of, source_for, with_port};
use super::admission::may_bind_low_ports;
use super::channels::Made;
use super::client::{MOST_ATTACHED, Stage};
use super::events::Source;
use super::serving::{End, Listener, Serving};
use crate::daemon::protocol::{Reply, Request};
use crate::daemon::{ClientStatistics, Refusal, Totals, socket};
use crate::network::as_connected;
use pinnace_qbuf::ClientId;
use pinnace_qbuf::channel::Side;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// What stands in the way of a request.
pub(super) enum No {
    Refused(Refusal),
    /// Somebody's fault, and the end of him.
    End(End),
}

impl From<Refusal> for No {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<End> for No {
    fn from(end: End) -> Self {
        Self::End(end)
    }
}

impl Serving {
    /// Does what a client asks, and answers. An error is the end of the client.
    pub(super) fn handle(&mut self, number: u64, request: Request) -> Result<(), End> {
        let done = match request {
            Request::Hello => self.greet(number),
            Request::Attach(id) => self.attach(number, id),
            Request::Listen(address) => self.listen(number, address),
            Request::Connect { to, client } => self.connect(number, to, client),
            Request::ConnectVia { via, to, client } => self.connect_via(number, via, to, client),
            Request::ListenVia { via, address } => self.listen_via(number, via, address),
            Request::Totals => self.tell_totals(number),
            Request::Client(from) => self.tell_client(number, from),
            Request::Bye => Err(End::Left.into()),
            // That is said elsewhere.
            Request::Decline(_) => Err(End::Misbehaved.into()),
        };
        match done {
            Ok(()) => Ok(()),
            Err(No::Refused(refusal)) => self.reply(number, &Reply::Refused(refusal), &[]),
            Err(No::End(end)) => Err(end),
        }
    }

    /// Whether a client has come so far.
    pub(super) fn require(&self, number: u64, stage: Stage) -> Result<(), No> {
        let client = self.clients.get(&number).ok_or(End::Left)?;
        if client.stage >= stage { Ok(()) } else { Err(Refusal::OutOfTurn.into()) }
    }

    fn greet(&mut self, number: u64) -> Result<(), No> {
        let client = self.clients.get_mut(&number).ok_or(End::Left)?;
        if client.stage != Stage::New {
            return Err(Refusal::OutOfTurn.into());
        }
        client.stage = Stage::Greeted;
        Ok(self.reply(number, &Reply::Welcome, &[self.pool.fd()])?)
    }

    /// What a client says of itself is checked as far as it can be: whoever has the pool can write what it wants there.
    fn attach(&mut self, number: u64, id: ClientId) -> Result<(), No> {
        self.require(number, Stage::Greeted)?;
        let is_taken = id == self.pool.client() || self.clients.values().any(|client| client.attached.contains(&id));
        if is_taken || self.pool.client_at(id.slot()) != Some(id) {
            return Err(Refusal::OutOfTurn.into());
        }
        let client = self.clients.get_mut(&number).ok_or(End::Left)?;
        if client.attached.len() >= MOST_ATTACHED {
            return Err(Refusal::Limit.into());
        }
        client.attached.push(id);
        client.stage = Stage::Attached;
        Ok(self.reply(number, &Reply::Attached, &[])?)
    }

    fn listen(&mut self, number: u64, address: SocketAddr) -> Result<(), No> {
        self.require(number, Stage::Attached)?;
        let ip = address.ip().to_canonical();
        if address.port() == 0 || !ip.is_unspecified() && !is_local(ip, scope_of(address)) {
            return Err(Refusal::NotLocal.into());
        }
        self.check_may_listen(number, address)?;
        let (ours, theirs) = socket::pair().map_err(|_| Refusal::System)?;
        let listener = self.number();
        self.events.add(&ours, Source::Listener(listener)).map_err(|_| Refusal::System)?;
        if !self.registry.add(address, listener) {
            return Err(Refusal::InUse.into());
        }
        let found = Listener { client: number, address, socket: ours, pending: Vec::new(), _taking: None };
        self.listeners.insert(listener, found);
        if let Some(client) = self.clients.get_mut(&number) {
            client.listeners.insert(listener);
        }
        Ok(self.reply(number, &Reply::Listening, &[theirs.as_fd()])?)
    }

    /// Whether a client has the right, and room, for another listener.
    pub(super) fn check_may_listen(&self, number: u64, address: SocketAddr) -> Result<(), No> {
        let client = self.clients.get(&number).ok_or(End::Left)?;
        if address.port() < first_unprivileged_port() && !may_bind_low_ports(&client.process) {
            return Err(Refusal::Privileged.into());
        }
        if client.listeners.len() >= self.limits.listeners_per_client {
            return Err(Refusal::Limit.into());
        }
        Ok(())
    }

    //= B-14
    fn connect(&mut self, number: u64, to: SocketAddr, id: ClientId) -> Result<(), No> {
        self.require(number, Stage::Attached)?;
        let client = self.clients.get(&number).ok_or(End::Left)?;
        if !client.attached.contains(&id) {
            return Err(Refusal::OutOfTurn.into());
        }
        let (to, scope) = (as_connected(to), scope_of(to));
        let ip = to.ip().to_canonical();
        let listener = self.registry.find(ip, to.port()).filter(|_| is_local(ip, scope));
        let Some((listener, found)) = listener.and_then(|number| Some((number, self.listeners.get(&number)?))) else {
            return Ok(self.reply(number, &Reply::Nobody, &[])?);
        };
        let (address, host) = (found.address, found.client);
        let listening = self.clients.get(&host).ok_or(Refusal::System)?;
        let host_id = *listening.attached.first().ok_or(Refusal::System)?;
        if host_id == id {
            return Ok(self.reply(number, &Reply::Yourself, &[])?);
        }
        let most = self.limits.channels_per_client;
        if self.channels.len() >= self.limits.channels
            || client.channels.len() >= most
            || listening.channels.len() >= most
        {
            return Err(Refusal::Limit.into());
        }
        self.check_pending(listener)?;
        let made = self.channels.make(&self.pool, [(number, id), (host, host_id)]).map_err(|_| Refusal::System)?;
        let local = with_port(source_for(ip, scope), made.port, scope);
        if !self.hand_to_listener(listener, &made, as_seen_at(address, with_port(ip, to.port(), scope)), local)? {
            return Ok(self.reply(number, &Reply::Nobody, &[])?);
        }
        for member in [number, host] {
            if let Some(client) = self.clients.get_mut(&member) {
                client.channels.insert(made.number);
            }
        }
        self.counters.connected += 1;
        let reply = Reply::Channel { local: as_seen_at(to, local), peer: to };
        Ok(self.reply(number, &reply, &socket::of_channel(&made.fds))?)
    }

    /// Whether a listener accepts those who come.
    pub(super) fn check_pending(&mut self, listener: u64) -> Result<(), Refusal> {
        let found = self.listeners.get_mut(&listener).ok_or(Refusal::System)?;
        if found.pending.len() >= self.limits.pending_per_listener {
            found.pending.retain(|&(channel, _)| self.channels.is_unclaimed(channel, Side::B));
        }
        if found.pending.len() >= self.limits.pending_per_listener { Err(Refusal::Busy) } else { Ok(()) }
    }

    /// Gives a channel to who listens. False: he does not, any more.
    pub(super) fn hand_to_listener(
        &mut self,
        listener: u64,
        made: &Made,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> Result<bool, Refusal> {
        let found = self.listeners.get_mut(&listener).ok_or(Refusal::System)?;
        let peer = as_seen_at(found.address, peer);
        let arrival = Reply::Channel { local, peer }.encode();
        match socket::send(found.socket.as_fd(), &arrival, &socket::of_channel(&made.fds)) {
            Ok(()) => {
                found.pending.push((made.number, peer));
                Ok(true)
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                self.channels.forget(made.number);
                self.unlisten(listener);
                Ok(false)
            }
            // Full, of messages or of descriptors that nobody takes.
            Err(_) => {
                self.channels.forget(made.number);
                Err(Refusal::Busy)
            }
        }
    }

    fn tell_totals(&mut self, number: u64) -> Result<(), No> {
        self.require(number, Stage::Greeted)?;
        self.census.refresh(&self.pool);
        let totals = Totals {
            pid: std::process::id().into(),
            uptime_seconds: self.begun.elapsed().as_secs(),
            listeners: self.listeners.len() as u64,
            channels: self.channels.len() as u64,
            connected: self.counters.connected,
            refused_clients: self.counters.refused,
            dropped_clients: self.counters.dropped,
            dead_clients: self.counters.died,
            pool: self.census.stats,
        };
        Ok(self.reply(number, &Reply::Totals(totals), &[])?)
    }

    fn tell_client(&mut self, number: u64, from: u64) -> Result<(), No> {
        self.require(number, Stage::Greeted)?;
        self.census.refresh(&self.pool);
        // Who only asks is none.
        let is_one = |stage| matches!(stage, Stage::Attached | Stage::Left);
        let found = self.clients.range(from..).find(|(_, client)| is_one(client.stage));
        let reply = found.map_or(Reply::NoClient, |(&number, client)| {
            let shares = || client.attached.iter().map(|&id| self.census.of(id));
            Reply::Client(ClientStatistics {
                number,
                pid: client.process.pid.into(),
                uid: client.process.uid.into(),
                age_seconds: client.since.elapsed().as_secs(),
                listeners: client.listeners.len() as u64,
                channels: client.channels.len() as u64,
                held_blocks: shares().map(|share| share.held).sum(),
                incoming_blocks: shares().map(|share| share.incoming).sum(),
            })
        });
        Ok(self.reply(number, &reply, &[])?)
    }
}

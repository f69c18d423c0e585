//! The virtual clock, and everything that happens on it.

use crate::application::{Application, HostHandle, Inbox};
use crate::host::{Host, HostConfig, HostCounters, HostId, Outgoing, State};
use crate::network::{Network, Node, NodeId, Output, Path};
use crate::packet::{Fate, Packet};
use crate::timeline::Timeline;
use crate::trace::Trace;
use crate::{NetworkConfig, packet};
use core::time::Duration;
use pinnace_core::{Address, BufferId, Engine, PathEvent, Random, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The condition holds.
    Done,
    /// Nothing can happen any more: nothing is under way, no timer runs, nothing is scheduled. If the work is not done,
    /// this is a deadlock. (An adversary who goes on does not count: nobody may depend on him.)
    Quiet,
    /// The time is up.
    DeadlineReached,
    /// More happened than any sensible engine does in the time: somebody goes round in circles. The simulation is over.
    Livelock(Option<HostId>),
}

/// Events of the network and steps of hosts in a virtual second, unless set otherwise.
const EVENTS_PER_SECOND: u64 = 100_000_000;
/// And at one moment.
const EVENTS_PER_MOMENT: u64 = 1_000_000;

type Action<E, A> = Box<dyn FnOnce(&mut Simulation<E, A>)>;

/// Hosts with engines, and the network between them, on a virtual clock. See the [crate documentation](crate).
///
/// `E` is the engine of all hosts (an enum where they differ), `A` the application of all hosts: [`Inbox`] just keeps the
/// events, a `Box<dyn Application<E>>` allows different ones.
pub struct Simulation<E: Engine, A: Application<E> = Inbox<<E as Engine>::Event>> {
    now: Time,
    hosts: Vec<Host<E>>,
    applications: Vec<A>,
    started: Vec<bool>,
    addresses: BTreeMap<Address, HostId>,
    groups: BTreeMap<Address, BTreeSet<HostId>>,
    network: Network,
    actions: BTreeMap<(Time, u64), Action<E, A>>,
    action_count: u64,
    trace: Trace,
    timelines: Vec<Timeline>,
    interval: Duration,
    random: Random,
    packets: u64,
    trains: u64,
    events_per_second: u64,
    second: u64,
    events: u64,
    events_now: u64,
    outputs: Vec<Output>,
    delivered: Vec<Packet>,
}

impl<E: Engine, A: Application<E>> core::fmt::Debug for Simulation<E, A> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Simulation")
            .field("now", &self.now)
            .field("hosts", &self.hosts.len())
            .field("trace", &self.trace)
            .finish_non_exhaustive()
    }
}

impl<E: Engine> Simulation<E> {
    /// Two hosts, 0 and 1, that keep their events, and the same network in both directions.
    pub fn pair(seed: u64, engines: [E; 2], network: &NetworkConfig) -> Self {
        let mut simulation = Self::new(seed);
        let [a, b] = engines.map(|engine| simulation.add_host(engine, Inbox::default()));
        simulation.link(a, b, network, network);
        simulation
    }
}

/// Building.
impl<E: Engine, A: Application<E>> Simulation<E, A> {
    /// An empty simulation; everything random in it follows from `seed`.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::from_seed(seed);
        Self {
            now: Time::ZERO,
            hosts: Vec::new(),
            applications: Vec::new(),
            started: Vec::new(),
            addresses: BTreeMap::new(),
            groups: BTreeMap::new(),
            network: Network::new(random.fork()),
            actions: BTreeMap::new(),
            action_count: 0,
            trace: Trace::default(),
            timelines: Vec::new(),
            interval: Duration::from_millis(100),
            random,
            packets: 0,
            trains: 0,
            events_per_second: EVENTS_PER_SECOND,
            second: 0,
            events: 0,
            events_now: 0,
            outputs: Vec::new(),
            delivered: Vec::new(),
        }
    }

    /// Adds a host with the default network stack, whose address is [`HostId::address`].
    pub fn add_host(&mut self, engine: E, application: A) -> HostId {
        self.add_host_with(engine, application, HostConfig::default())
    }

    /// Adds a host.
    pub fn add_host_with(&mut self, engine: E, application: A, config: HostConfig) -> HostId {
        let id = HostId::new(self.hosts.len() as u32);
        self.hosts.push(Host::new(id, engine, config, self.random.fork()));
        self.applications.push(application);
        self.started.push(false);
        self.timelines.push(Timeline::new(self.interval));
        self.addresses.insert(id.address(), id);
        id
    }

    /// Gives a host a further address; what it sends from now on comes from there, unless the engine says otherwise.
    /// Its old addresses keep working.
    pub fn add_address(&mut self, host: HostId, address: Address) {
        self.addresses.insert(address, host);
        if let Some(host) = self.hosts.get_mut(host.index() as usize) {
            host.address = address;
        }
    }

    /// Makes a host a member of a group: what anybody else sends to `group`, an address that no host has, goes to every
    /// member to which there is a way, as a packet of its own.
    pub fn join_group(&mut self, group: Address, host: HostId) {
        self.groups.entry(group).or_default().insert(host);
    }

    /// Connects two hosts' sockets with each other: each sees the other as [`Address::Peer`].
    pub fn connect(&mut self, a: HostId, b: HostId) {
        let (of_a, of_b) = (self.address(a), self.address(b));
        self.host_mut(a).peer = Some(of_b);
        self.host_mut(b).peer = Some(of_a);
    }

    /// Connects one host's socket with another's, which stays open to all and sees addresses.
    pub fn connect_to(&mut self, from: HostId, to: HostId) {
        self.host_mut(from).peer = Some(self.address(to));
    }

    /// Puts a network between two hosts: `there` from `a` to `b`, and `back`.
    pub fn link(&mut self, a: HostId, b: HostId, there: &NetworkConfig, back: &NetworkConfig) {
        self.set_route(a, b, Path::from_config(there));
        self.set_route(b, a, Path::from_config(back));
    }

    /// Adds a node that several ways can share with [`Path::shared`].
    pub fn add_node(&mut self, node: impl Node + 'static) -> NodeId {
        self.network.add_node(Box::new(node))
    }

    /// Makes `path` the way from one host to another, instead of any other. What is under way stays on the old one.
    pub fn set_route(&mut self, from: HostId, to: HostId, path: Path) {
        self.network.set_route(from, to, path);
    }

    /// Takes the way from one host to another away.
    pub fn remove_route(&mut self, from: HostId, to: HostId) {
        self.network.remove_route(from, to);
    }

    /// Changes how many events of the network and steps of hosts a virtual second may have.
    pub fn set_event_limit(&mut self, events_per_second: u64) {
        self.events_per_second = events_per_second;
    }

    /// The trace, to set it up.
    pub fn trace_mut(&mut self) -> &mut Trace {
        &mut self.trace
    }
}

/// Looking.
impl<E: Engine, A: Application<E>> Simulation<E, A> {
    /// The time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The hosts.
    pub fn hosts(&self) -> impl Iterator<Item = HostId> + use<E, A> {
        (0..self.hosts.len() as u32).map(HostId::new)
    }

    /// A host's engine.
    ///
    /// # Panics
    /// Like every other function here that takes a host, if there is no such host.
    pub fn engine(&self, host: HostId) -> &E {
        self.host(host).driven.engine()
    }

    /// A host's application.
    pub fn application(&self, host: HostId) -> &A {
        &self.applications[host.index() as usize]
    }

    /// A host's own address.
    pub fn address(&self, host: HostId) -> Address {
        self.host(host).address
    }

    /// A buffer of a host; empty if there is none of this name.
    pub fn buffer(&self, host: HostId, id: BufferId) -> &[u8] {
        self.host(host).memory.buffer(id).unwrap_or_default()
    }

    /// What a host has seen.
    pub fn counters(&self, host: HostId) -> HostCounters {
        self.host(host).counters
    }

    /// Bytes delivered to a host per interval, headers of lower layers not counted.
    pub fn timeline(&self, host: HostId) -> &Timeline {
        &self.timelines[host.index() as usize]
    }

    /// What happened so far.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The digest of the trace: equal in two runs if everything was equal.
    pub fn digest(&self) -> u64 {
        self.trace.digest()
    }

    fn host(&self, id: HostId) -> &Host<E> {
        &self.hosts[id.index() as usize]
    }

    fn host_mut(&mut self, id: HostId) -> &mut Host<E> {
        &mut self.hosts[id.index() as usize]
    }
}

/// Acting.
impl<E: Engine, A: Application<E>> Simulation<E, A> {
    /// Gives a host a buffer. Its name is never used again.
    pub fn add_buffer(&mut self, host: HostId, buffer: Vec<u8>) -> BufferId {
        self.host_mut(host).memory.insert(buffer)
    }

    /// Takes a buffer back; empty if there is none of this name.
    pub fn take_buffer(&mut self, host: HostId, id: BufferId) -> Vec<u8> {
        self.host_mut(host).memory.take(id).unwrap_or_default()
    }

    /// Does something on a host now. What the engine sends leaves now; events reach the application when the run goes on.
    pub fn with_host<R>(&mut self, host: HostId, act: impl FnOnce(&mut HostHandle<'_, E>) -> R) -> R {
        self.with_application(host, |_, handle| act(handle))
    }

    /// Does something on a host now, with its application.
    pub fn with_application<R>(&mut self, host: HostId, act: impl FnOnce(&mut A, &mut HostHandle<'_, E>) -> R) -> R {
        let index = host.index() as usize;
        let result = act(&mut self.applications[index], &mut HostHandle::new(self.now, &mut self.hosts[index]));
        self.flush(index);
        result
    }

    /// Calls a host's engine now, and drains it. Short for [`Simulation::with_host`].
    pub fn call<R>(&mut self, host: HostId, call: impl FnOnce(&mut E) -> R) -> R {
        self.with_host(host, |handle| handle.call(call))
    }

    /// Does something at `time` (now, if that has passed), before anything else that is due then.
    pub fn schedule(&mut self, time: Time, action: impl FnOnce(&mut Self) + 'static) {
        self.action_count += 1;
        self.actions.insert((time.max(self.now), self.action_count), Box::new(action));
    }

    /// The host's process is killed. Whoever writes to it is told that nobody listens ([`PathEvent::Unreachable`]).
    pub fn kill(&mut self, host: HostId) {
        self.host_mut(host).kill(true);
    }

    /// The host loses its power. Nobody is told.
    pub fn power_off(&mut self, host: HostId) {
        self.host_mut(host).kill(false);
    }

    /// A dead host starts again, with a new engine and the same addresses; its application is started again.
    pub fn restart(&mut self, host: HostId, engine: E) {
        self.host_mut(host).restart(engine);
        self.started[host.index() as usize] = false;
    }

    /// The host's process stands still for a time: nothing is read, no timer runs out, then all at once. (What the
    /// script itself does on the host, with [`Simulation::with_host`], still happens.)
    pub fn freeze(&mut self, host: HostId, time: Duration) {
        let until = self.now + time;
        self.host_mut(host).frozen_until = until;
    }

    /// The host's link takes no trains for a time (`ENOBUFS`, a full socket): the driver holds one and waits.
    pub fn block_link(&mut self, host: HostId, time: Duration) {
        let until = self.now + time;
        self.host_mut(host).blocked_until = until;
    }

    /// The application takes no events (`true`) or takes them again (`false`): one that never polls.
    pub fn ignore_events(&mut self, host: HostId, ignore: bool) {
        self.host_mut(host).deaf = ignore;
    }

    /// The network tells a host something about its path.
    pub fn report_path_event(&mut self, host: HostId, event: PathEvent) {
        self.network.report(self.now, host, event);
    }

    /// Sends a datagram from `source` (any address) to `to` over the last stretch, straight to the host: a forgery.
    pub fn inject(&mut self, source: Address, to: HostId, data: &[u8]) {
        self.inject_to(source, to, self.address(to), data);
    }

    /// As [`Simulation::inject`], sent to `destination`: a group that the host is a member of.
    pub fn inject_to(&mut self, source: Address, to: HostId, destination: Address, data: &[u8]) {
        self.packets += 1;
        let position = packet::Position { route: packet::RouteId(u32::MAX), hop: 0, from: to, to };
        let mut packet = Packet::new(self.packets, source, destination, position, data);
        packet.sent_at = self.now;
        self.trains += 1;
        packet.train = self.trains;
        self.trace.record(self.now, &packet, Fate::Injected);
        self.arrive(packet);
    }
}

/// Running.
impl<E: Engine, A: Application<E>> Simulation<E, A> {
    /// Runs until every application on a living host is done, nothing can happen any more, or the time has come.
    pub fn run(&mut self, deadline: Time) -> Outcome {
        self.run_until(deadline, |simulation| {
            simulation.hosts.iter().zip(&simulation.applications).all(|(host, app)| !host.is_alive() || app.is_done())
        })
    }

    /// Runs until `condition` holds, nothing can happen any more, or the time has come. The condition is looked at after
    /// every step.
    pub fn run_until(&mut self, deadline: Time, condition: impl FnMut(&Self) -> bool) -> Outcome {
        self.run_inner(deadline, true, condition)
    }

    fn run_inner(
        &mut self,
        deadline: Time,
        stop_when_quiet: bool,
        mut condition: impl FnMut(&Self) -> bool,
    ) -> Outcome {
        self.start();
        loop {
            if let Some(host) = self.hosts.iter().find(|host| host.circling) {
                return Outcome::Livelock(Some(host.id));
            }
            if condition(self) {
                return Outcome::Done;
            }
            if stop_when_quiet && self.is_quiet() {
                return Outcome::Quiet;
            }
            let Some(next) = self.poll_at() else { return Outcome::Quiet };
            if next > deadline {
                self.now = self.now.max(deadline);
                return Outcome::DeadlineReached;
            }
            if next > self.now {
                (self.now, self.events_now) = (next, 0);
            }
            let second = self.now.as_nanos() / 1_000_000_000;
            if second != self.second {
                (self.second, self.events) = (second, 0);
            }
            self.events += 1;
            self.events_now += 1;
            if self.events > self.events_per_second || self.events_now > EVENTS_PER_MOMENT {
                let host = self.hosts.iter().find(|host| host.poll_at(self.now).is_some_and(|at| at <= self.now));
                return Outcome::Livelock(host.map(|host| host.id));
            }
            self.step();
        }
    }

    /// Runs for a time, and says how it stands then: [`Outcome::Quiet`] if nothing is to come, else
    /// [`Outcome::DeadlineReached`].
    pub fn run_for(&mut self, time: Duration) -> Outcome {
        let deadline = self.now + time;
        let outcome = self.run_inner(deadline, false, |_| false);
        if let Outcome::Livelock(_) = outcome {
            return outcome;
        }
        self.now = self.now.max(deadline);
        if self.is_quiet() { Outcome::Quiet } else { Outcome::DeadlineReached }
    }

    /// Runs until nothing can happen any more, or the time has come.
    pub fn run_until_quiet(&mut self, deadline: Time) -> Outcome {
        self.run_until(deadline, |_| false)
    }

    /// Whether nothing can happen any more, but for what an adversary does.
    pub fn is_quiet(&self) -> bool {
        self.network.is_idle()
            && self.actions.is_empty()
            && self.hosts.iter().all(|host| host.poll_at(self.now).is_none())
            && self.started.iter().all(|&started| started)
    }

    fn poll_at(&self) -> Option<Time> {
        let actions = self.actions.first_key_value().map(|(&(time, _), _)| time);
        let hosts = self.hosts.iter().filter_map(|host| host.poll_at(self.now));
        hosts.chain(actions).chain(self.network.poll_at()).min()
    }

    /// Calls the applications that have not begun.
    fn start(&mut self) {
        for index in 0..self.hosts.len() {
            if !core::mem::replace(&mut self.started[index], true) {
                self.applications[index].on_start(self.now, &mut HostHandle::new(self.now, &mut self.hosts[index]));
                self.flush(index);
            }
        }
    }

    /// Does one thing that is due: an action, else something of the network, else a host. So a host reads only when all
    /// that arrives at this moment has arrived, and trains stay together.
    fn step(&mut self) {
        if let Some(entry) = self.actions.first_entry()
            && entry.key().0 <= self.now
        {
            entry.remove()(self);
            self.start();
            return;
        }
        let mut outputs = core::mem::take(&mut self.outputs);
        let stepped = self.network.step(self.now, &mut outputs);
        self.take(&mut outputs);
        self.outputs = outputs;
        if stepped {
            return;
        }
        let now = self.now;
        if let Some(index) = self.hosts.iter().position(|host| host.poll_at(now).is_some_and(|at| at <= now)) {
            self.step_host(index);
        }
    }

    fn step_host(&mut self, index: usize) {
        let now = self.now;
        let host = &mut self.hosts[index];
        let mut delivered = core::mem::take(&mut self.delivered);
        host.step(now, &mut delivered);
        for packet in delivered.drain(..) {
            self.trace.record(now, &packet, Fate::Delivered);
            self.timelines[index].add(now, packet.data().len() as u64);
        }
        self.delivered = delivered;
        let application = &mut self.applications[index];
        // As many as there were: an application that makes new ones is called again in the next step, where it counts.
        for _ in 0..host.events.len() {
            if host.deaf || !host.is_alive() {
                break;
            }
            let Some(event) = host.events.pop_front() else { break };
            application.on_event(now, event, &mut HostHandle::new(now, host));
        }
        if let Some(token) = host.wake(now) {
            application.on_wake(now, token, &mut HostHandle::new(now, host));
        }
        self.flush(index);
    }

    /// Lets everything that a host has sent leave.
    fn flush(&mut self, index: usize) {
        let mut outbox = core::mem::take(&mut self.hosts[index].outbox);
        for train in outbox.drain(..) {
            if self.hosts[index].is_alive() {
                self.send(index, &train);
            }
        }
        self.hosts[index].outbox = outbox;
    }

    fn send(&mut self, index: usize, train: &Outgoing) {
        let host = &self.hosts[index];
        let from = host.id;
        let source = train.source.filter(|address| self.addresses.get(address) == Some(&from)).unwrap_or(host.address);
        let destination = match train.destination {
            Address::Peer => self.peer(index),
            address => Some(address),
        };
        let to = destination.and_then(|address| self.addresses.get(&address).copied());
        let way = to.and_then(|to| self.network.route(from, to));
        self.trains += 1;
        let mut outputs = core::mem::take(&mut self.outputs);
        if let Some(group) = destination.filter(|address| self.groups.contains_key(address)) {
            self.send_to_group(from, source, group, train, &mut outputs);
            self.take(&mut outputs);
            self.outputs = outputs;
            return;
        }
        for data in &train.datagrams {
            self.packets += 1;
            let nowhere = packet::Position { route: packet::RouteId(u32::MAX), hop: 0, from, to: from };
            let to = destination.unwrap_or(Address::Peer);
            let mut packet = Packet::new(self.packets, source, to, way.unwrap_or(nowhere), data);
            packet.train = self.trains;
            packet.ecn = train.ecn;
            packet.may_be_cut = train.may_be_cut;
            packet.sent_at = self.now;
            self.trace.record(self.now, &packet, Fate::Sent);
            if way.is_some() {
                self.network.send(self.now, packet, &mut outputs);
            } else {
                self.trace.record(self.now, &packet, Fate::NoRoute);
            }
        }
        self.take(&mut outputs);
        self.outputs = outputs;
    }

    /// Every member gets its own packets, which may have fates of their own; the others hear nothing.
    fn send_to_group(
        &mut self,
        from: HostId,
        source: Address,
        group: Address,
        train: &Outgoing,
        outputs: &mut Vec<Output>,
    ) {
        let members = self.groups.get(&group).into_iter().flatten().filter(|member| **member != from);
        let ways: Vec<_> = members.filter_map(|member| self.network.route(from, *member)).collect();
        for data in &train.datagrams {
            for way in &ways {
                self.packets += 1;
                let mut packet = Packet::new(self.packets, source, group, *way, data);
                packet.train = self.trains;
                packet.ecn = train.ecn;
                packet.may_be_cut = train.may_be_cut;
                packet.sent_at = self.now;
                self.trace.record(self.now, &packet, Fate::Sent);
                self.network.send(self.now, packet, outputs);
            }
        }
    }

    /// Whom a host means by [`Address::Peer`]: the one it is connected with, or the only other one.
    fn peer(&self, index: usize) -> Option<Address> {
        self.hosts[index].peer.or_else(|| (self.hosts.len() == 2).then(|| self.hosts[1 - index].address))
    }

    /// Takes what the network hands over.
    fn take(&mut self, outputs: &mut Vec<Output>) {
        for output in outputs.drain(..) {
            match output {
                Output::Arrived(packet) => self.arrive(packet),
                Output::Note(packet, fate) => self.trace.record(self.now, &packet, fate),
                Output::Report(host, event) => {
                    if let Some(host) = self.hosts.get_mut(host.index() as usize)
                        && host.is_alive()
                    {
                        host.report(event);
                    }
                }
            }
        }
    }

    fn arrive(&mut self, packet: Packet) {
        let now = self.now;
        let index = packet.position.to.index() as usize;
        if index >= self.hosts.len() {
            return;
        }
        let peer = self.peer(index);
        let host = &mut self.hosts[index];
        match host.state {
            State::Alive => {
                // The trace needs the packet only if it is lost here.
                let copy = packet.clone();
                if let Some(fate) = host.arrive(now, peer, packet) {
                    self.trace.record(now, &copy, fate);
                }
            }
            State::Dead { tells } => {
                self.trace.record(now, &packet, Fate::HostDown);
                if tells && !packet.injected && packet.position.from != packet.position.to {
                    let back = now + now.since(packet.sent_at);
                    self.network.report(back, packet.position.from, PathEvent::Unreachable);
                }
            }
        }
    }
}

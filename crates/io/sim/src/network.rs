//! The network between the hosts: nodes, the ways through them, and the packets that are under way.
//!
//! A packet that leaves a host passes the [`Node`]s of its way one after the other; each may let it go on (at once or
//! later), change it, double it or drop it. Nodes may be part of several ways: that is a shared bottleneck.
//!
//! Always true: what happens depends only on the seed and on what was sent; packets that are due at the same moment go
//! on in the order in which they were scheduled.

use crate::packet::{Fate, Packet, Position, RouteId};
use crate::{HostId, NetworkConfig, nodes};
use pinnace_core::{PathEvent, Random, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// A node of the network, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

/// Something that packets pass through.
///
/// A node may use the random numbers it is handed and nothing else that could differ between two runs.
pub trait Node: core::fmt::Debug {
    /// A packet comes in. Whatever is not handed to `exits` is gone without a trace.
    fn enter(&mut self, packet: Packet, random: &mut Random, exits: &mut Exits);

    /// When [`Node::on_timeout`] is due, for nodes that do something by themselves.
    fn poll_at(&self) -> Option<Time> {
        None
    }

    /// The time of [`Node::poll_at`] has come.
    fn on_timeout(&mut self, random: &mut Random, exits: &mut Exits) {
        let _ = (random, exits);
    }

    /// The node became part of a way; `exit` is where packets go on when they leave it.
    fn attach(&mut self, exit: Position) {
        let _ = exit;
    }
}

/// Where a node puts what it is done with.
#[derive(Debug)]
pub struct Exits {
    now: Time,
    forward: Vec<(Time, Packet)>,
    notes: Vec<(Packet, Fate)>,
    reports: Vec<(Packet, u32)>,
}

impl Exits {
    fn new() -> Self {
        Self { now: Time::ZERO, forward: Vec::new(), notes: Vec::new(), reports: Vec::new() }
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Lets a packet go on at once.
    pub fn forward(&mut self, packet: Packet) {
        self.forward.push((self.now, packet));
    }

    /// Lets a packet go on later.
    pub fn forward_at(&mut self, time: Time, packet: Packet) {
        self.forward.push((time.max(self.now), packet));
    }

    /// Notes that a packet has this fate, for the trace. A packet that is not forwarded as well is gone.
    pub fn note(&mut self, packet: &Packet, fate: Fate) {
        self.notes.push((packet.clone(), fate));
    }

    /// Drops a packet that is too large and tells the sender the largest that fits (bytes of UDP payload), as ICMP does.
    pub fn report_too_large(&mut self, packet: &Packet, largest: u32) {
        self.reports.push((packet.clone(), largest));
    }
}

/// The nodes of one direction, in order.
#[derive(Debug, Default)]
pub struct Path {
    hops: Vec<Hop>,
}

#[derive(Debug)]
enum Hop {
    Own(Box<dyn Node>),
    Shared(NodeId),
}

impl Path {
    /// A perfect wire.
    pub fn new() -> Self {
        Self::default()
    }

    /// What `config` describes.
    ///
    /// ```
    /// use pinnace_sim::{NetworkConfig, Path};
    /// let config: NetworkConfig = "rate=100mbit,delay=30ms".parse()?;
    /// assert_eq!(Path::from_config(&config).len(), 2);
    /// # Ok::<(), pinnace_sim::ConfigError>(())
    /// ```
    pub fn from_config(config: &NetworkConfig) -> Self {
        nodes::path(config)
    }

    /// Appends a node that only this way has.
    #[must_use]
    pub fn node(mut self, node: impl Node + 'static) -> Self {
        self.hops.push(Hop::Own(Box::new(node)));
        self
    }

    /// Appends a node of [`crate::Simulation::add_node`], which other ways have as well: a shared bottleneck.
    #[must_use]
    pub fn shared(mut self, node: NodeId) -> Self {
        self.hops.push(Hop::Shared(node));
        self
    }

    /// Appends the nodes of another path.
    #[must_use]
    pub fn then(mut self, other: Self) -> Self {
        self.hops.extend(other.hops);
        self
    }

    /// Nodes.
    pub fn len(&self) -> usize {
        self.hops.len()
    }

    /// Whether it is a perfect wire.
    pub fn is_empty(&self) -> bool {
        self.hops.is_empty()
    }
}

#[derive(Debug)]
struct Route {
    nodes: Vec<NodeId>,
}

#[derive(Debug)]
struct Slot {
    node: Box<dyn Node>,
    random: Random,
}

/// What the network hands to the simulation.
#[derive(Debug)]
pub(crate) enum Output {
    /// A packet reached its host.
    Arrived(Packet),
    /// Something to put in the trace.
    Note(Packet, Fate),
    /// The network tells a host about its path.
    Report(HostId, PathEvent),
}

#[derive(Debug)]
enum Due {
    Packet(Packet),
    Report(HostId, PathEvent),
}

#[derive(Debug)]
struct Scheduled {
    time: Time,
    order: u64,
    due: Due,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        (self.time, self.order) == (other.time, other.order)
    }
}
impl Eq for Scheduled {}
impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        (self.time, self.order).cmp(&(other.time, other.order))
    }
}

/// All nodes, all ways, and all packets under way.
#[derive(Debug)]
pub(crate) struct Network {
    slots: Vec<Slot>,
    routes: Vec<Route>,
    table: BTreeMap<(HostId, HostId), RouteId>,
    heap: BinaryHeap<Reverse<Scheduled>>,
    order: u64,
    /// Packets and reports in `heap` that are not an adversary's.
    under_way: usize,
    random: Random,
    exits: Exits,
    ready: VecDeque<Packet>,
}

impl Network {
    pub(crate) fn new(random: Random) -> Self {
        Self {
            slots: Vec::new(),
            routes: Vec::new(),
            table: BTreeMap::new(),
            heap: BinaryHeap::new(),
            order: 0,
            under_way: 0,
            random,
            exits: Exits::new(),
            ready: VecDeque::new(),
        }
    }

    pub(crate) fn add_node(&mut self, node: Box<dyn Node>) -> NodeId {
        let random = self.random.fork();
        self.slots.push(Slot { node, random });
        NodeId(self.slots.len() as u32 - 1)
    }

    /// Makes `path` the way from one host to another. Packets under way stay on the old one.
    pub(crate) fn set_route(&mut self, from: HostId, to: HostId, path: Path) {
        let route = RouteId(self.routes.len() as u32);
        let mut ids = Vec::with_capacity(path.hops.len());
        for hop in path.hops {
            let id = match hop {
                Hop::Own(node) => self.add_node(node),
                Hop::Shared(id) => id,
            };
            ids.push(id);
            if let Some(slot) = self.slots.get_mut(id.0 as usize) {
                slot.node.attach(Position { route, hop: ids.len(), from, to });
            }
        }
        self.routes.push(Route { nodes: ids });
        self.table.insert((from, to), route);
    }

    pub(crate) fn remove_route(&mut self, from: HostId, to: HostId) {
        self.table.remove(&(from, to));
    }

    pub(crate) fn route(&self, from: HostId, to: HostId) -> Option<Position> {
        self.table.get(&(from, to)).map(|&route| Position { route, hop: 0, from, to })
    }

    /// Whether nothing that a host sent is under way any more.
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way == 0
    }

    /// When something happens next.
    pub(crate) fn poll_at(&self) -> Option<Time> {
        let packets = self.heap.peek().map(|Reverse(next)| next.time);
        self.slots.iter().filter_map(|slot| slot.node.poll_at()).chain(packets).min()
    }

    /// A host sends a packet.
    pub(crate) fn send(&mut self, now: Time, packet: Packet, out: &mut Vec<Output>) {
        self.ready.push_back(packet);
        self.advance(now, out);
    }

    /// Tells `host` about its path at `time`.
    pub(crate) fn report(&mut self, time: Time, host: HostId, event: PathEvent) {
        self.under_way += 1;
        self.push(time, Due::Report(host, event));
    }

    /// Does one thing that is due; returns false if there is none.
    pub(crate) fn step(&mut self, now: Time, out: &mut Vec<Output>) -> bool {
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.node.poll_at().is_some_and(|at| at <= now)) {
            self.exits.now = now;
            slot.node.on_timeout(&mut slot.random, &mut self.exits);
            self.collect(out);
            self.advance(now, out);
            return true;
        }
        if self.heap.peek().is_none_or(|Reverse(next)| next.time > now) {
            return false;
        }
        match self.heap.pop().map(|Reverse(next)| next.due) {
            Some(Due::Packet(packet)) => {
                self.under_way -= usize::from(!packet.injected);
                self.ready.push_back(packet);
                self.advance(now, out);
            }
            Some(Due::Report(host, event)) => {
                self.under_way -= 1;
                out.push(Output::Report(host, event));
            }
            None => return false,
        }
        true
    }

    /// Moves what is ready on, node after node, until it waits or is gone.
    fn advance(&mut self, now: Time, out: &mut Vec<Output>) {
        self.exits.now = now;
        while let Some(mut packet) = self.ready.pop_front() {
            let Position { route, hop, .. } = packet.position;
            let node = self.routes.get(route.0 as usize).and_then(|route| route.nodes.get(hop));
            let Some(slot) = node.and_then(|id| self.slots.get_mut(id.0 as usize)) else {
                out.push(Output::Arrived(packet));
                continue;
            };
            packet.position.hop += 1;
            slot.node.enter(packet, &mut slot.random, &mut self.exits);
            self.collect(out);
        }
    }

    fn collect(&mut self, out: &mut Vec<Output>) {
        let now = self.exits.now;
        out.extend(self.exits.notes.drain(..).map(|(packet, fate)| Output::Note(packet, fate)));
        for (packet, largest) in core::mem::take(&mut self.exits.reports) {
            // The message takes as long to come back as the packet took to get there.
            let back = now + now.since(packet.sent_at);
            let event = PathEvent::TooLarge { to: packet.position.to.address(), fits: Some(largest) };
            self.report(back, packet.position.from, event);
        }
        // Keeps its memory for the next time.
        let mut forward = core::mem::take(&mut self.exits.forward);
        for (time, packet) in forward.drain(..) {
            if time <= now {
                self.ready.push_back(packet);
            } else {
                self.under_way += usize::from(!packet.injected);
                self.push(time, Due::Packet(packet));
            }
        }
        self.exits.forward = forward;
    }

    fn push(&mut self, time: Time, due: Due) {
        self.order += 1;
        self.heap.push(Reverse(Scheduled { time, order: self.order, due }));
    }
}

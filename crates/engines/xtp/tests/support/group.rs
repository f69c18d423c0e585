//! A sender and its receivers, all in one group, and a network that writes down what it sees.

use super::{Program, Seen, block, config, pattern};
use core::time::Duration;
use pinnace_core::{Address, Random, Time};
use pinnace_sim::{Exits, Fate, HostId, NetworkConfig, Node, Outcome, Packet, Path, Position, Simulation};
use pinnace_wire::xtp::{Body, Head, Header, Kind, Options};
use pinnace_xtp::{Close, Codec, Config, ControlBlock, Event, Output, Service, Services, Xtp};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

pub(crate) type World = Simulation<Xtp, Program>;

pub(crate) const SENDER: HostId = HostId::new(0);
pub(crate) const GROUP: Address = Address::Node(1000);
pub(crate) const BOTH: Services = Services::NONE.with(Service::Multicast).with(Service::UnackMulticast);

pub(crate) fn receivers(count: u32) -> impl Iterator<Item = HostId> {
    (1..=count).map(HostId::new)
}

/// A receiver that joins when it starts.
pub(crate) fn joining() -> Program {
    Program::new(
        |_, host| {
            host.call(|engine| engine.join(GROUP, block(Service::Multicast), BOTH)).expect("joined");
        },
        |_, _, _, _| {},
    )
}

/// How many statuses a sender asks for, and how long the stream takes it.
#[derive(Clone, Default)]
pub(crate) struct Asks(pub(crate) Rc<Cell<(u32, Duration)>>);

/// A sender of one stream of messages, which ends behind them.
pub(crate) fn sending(block: ControlBlock, messages: Vec<Vec<u8>>) -> Program {
    counting(block, messages, Asks::default())
}

pub(crate) fn counting(block: ControlBlock, messages: Vec<Vec<u8>>, asks: Asks) -> Program {
    let at_first = asks.clone();
    Program::new(
        move |now, host| {
            let context = host.call(|engine| engine.open_group(now, GROUP, block)).expect("room");
            at_first.0.set((host.engine().facts(context).expect("open").sync, Duration::ZERO));
            for message in messages {
                let len = message.len() as u64;
                let buffer = host.add_buffer(message);
                host.call(|engine| engine.send(now, context, Output::message(buffer, len))).expect("taken");
            }
            host.call(|engine| engine.close(now, context, Close::Full)).expect("open");
        },
        move |now, event, _, host| {
            if let Event::Closed { context, .. } = event {
                let sync = host.engine().facts(*context).expect("not released").sync;
                asks.0.set((sync.wrapping_sub(asks.0.get().0), now.since(Time::ZERO)));
            }
        },
    )
}

/// What the network sees of a packet: when it left, from whom and to whom, and what it is.
#[derive(Clone, Debug)]
pub(crate) struct Sight {
    pub(crate) at: Time,
    pub(crate) from: HostId,
    pub(crate) to: HostId,
    pub(crate) is_to_group: bool,
    pub(crate) header: Header,
    pub(crate) bytes: Vec<u8>,
}

impl Sight {
    fn of(packet: &Packet, now: Time) -> Self {
        let bytes = packet.data().to_vec();
        let head = Head::parse(Codec::Xtp40, &bytes[..32], bytes.len(), false).expect("a packet");
        assert!(head.verify([&bytes[head.summed()]]));
        let Position { from, to, .. } = packet.position;
        Self { at: now, from, to, is_to_group: packet.destination == GROUP, header: head.header, bytes }
    }

    pub(crate) fn body(&self) -> Body<'_> {
        let head = Head::parse(Codec::Xtp40, &self.bytes[..32], self.bytes.len(), false).expect("a packet");
        Body::parse(&head, &self.bytes).expect("well formed")
    }

    pub(crate) fn has(&self, options: Options) -> bool {
        self.header.options.contains(options)
    }

    pub(crate) fn is_data(&self) -> bool {
        matches!(self.header.kind, Kind::First | Kind::Data)
    }
}

pub(crate) type Sights = Rc<RefCell<Vec<Sight>>>;
pub(crate) type Loses = Rc<dyn Fn(&Sight) -> bool>;

/// A node that writes down every packet, and loses some.
pub(crate) struct Tap {
    sights: Sights,
    loses: Loses,
}

impl core::fmt::Debug for Tap {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Tap")
    }
}

impl Node for Tap {
    fn enter(&mut self, packet: Packet, _: &mut Random, exits: &mut Exits) {
        let sight = Sight::of(&packet, exits.now());
        let is_lost = (self.loses)(&sight);
        self.sights.borrow_mut().push(sight);
        if is_lost {
            exits.note(&packet, Fate::LostRandom);
        } else {
            exits.forward(packet);
        }
    }
}

/// As [`world`]; `loses` says which packets are lost. Returns what the network has seen.
pub(crate) fn tapped(
    seed: u64,
    count: u32,
    sender: Program,
    receiver: impl FnMut(u32) -> Program,
    loses: impl Fn(&Sight) -> bool + 'static,
) -> (World, Sights) {
    let mut world = world(seed, count, "delay=5ms", sender, receiver);
    let (sights, loses): (Sights, Loses) = (Rc::default(), Rc::new(loses));
    let hosts: Vec<_> = world.hosts().collect();
    for (from, to) in hosts.iter().flat_map(|from| hosts.iter().map(move |to| (*from, *to))) {
        if from != to {
            let tap = Tap { sights: sights.clone(), loses: loses.clone() };
            let path = Path::from_config(&"delay=5ms".parse().expect("a network"));
            world.set_route(from, to, Path::new().node(tap).then(path));
        }
    }
    (world, sights)
}

pub(crate) fn millis(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

/// A sender that puts out a message of 1000 bytes every 10 ms, `count` of them.
pub(crate) fn trickling(block: ControlBlock, count: u64) -> Program {
    let context = Rc::new(Cell::new(None));
    let opened = context.clone();
    let mut program = Program::new(
        move |now, host| {
            opened.set(Some(host.call(|engine| engine.open_group(now, GROUP, block)).expect("room")));
            host.wake_after(Duration::from_millis(10), 0);
        },
        |_, _, _, _| {},
    );
    program.wake = Some(Box::new(move |now, token, host| {
        let context = context.get().expect("open");
        let buffer = host.add_buffer(pattern(1000, token as u8));
        if host.call(|engine| engine.send(now, context, Output::message(buffer, 1000))).is_err() {
            return;
        }
        if token + 1 == count {
            host.call(|engine| engine.close(now, context, Close::Full)).expect("open");
        } else {
            host.wake_after(Duration::from_millis(10), token + 1);
        }
    }));
    program
}

pub(crate) fn trickle(range: core::ops::Range<u64>) -> Vec<u8> {
    range.flat_map(|token| pattern(1000, token as u8)).collect()
}

/// A sender and `count` receivers, all in the group, with a network of their own between any two.
pub(crate) fn world(
    seed: u64,
    count: u32,
    network: &str,
    sender: Program,
    receiver: impl FnMut(u32) -> Program,
) -> World {
    world_of(seed, count, network, |config| config, sender, receiver)
}

/// The same, with other engines.
pub(crate) fn world_of(
    seed: u64,
    count: u32,
    network: &str,
    adjust: impl Fn(Config) -> Config,
    sender: Program,
    mut receiver: impl FnMut(u32) -> Program,
) -> World {
    let network: NetworkConfig = network.parse().expect("a network");
    let mut world = World::new(seed);
    let engine = |host: u64| Xtp::new(adjust(config(Codec::Xtp40, seed * 1000 + host)), Time::ZERO);
    world.add_host(engine(0), sender);
    for number in 1..=count {
        world.add_host(engine(number.into()), receiver(number));
    }
    let hosts: Vec<_> = world.hosts().collect();
    for (index, a) in hosts.iter().enumerate() {
        world.join_group(GROUP, *a);
        for b in &hosts[index + 1..] {
            world.link(*a, *b, &network, &network);
        }
    }
    world
}

pub(crate) fn quiet(world: &mut World) {
    assert_eq!(world.run_until_quiet(Time::ZERO + Duration::from_secs(900)), Outcome::Quiet);
}

pub(crate) fn seen(world: &World, host: HostId) -> &Seen {
    world.application(host).only()
}

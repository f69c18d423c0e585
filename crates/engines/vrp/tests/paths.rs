//! How fast frames cross emulated paths, and how flows share them: the paper's claim, on the virtual clock.
#![allow(clippy::single_range_in_vec_init, reason = "critical ranges are ranges, and there may be one")]
#![allow(clippy::print_stdout, reason = "the figures are told to whoever runs the tests with --nocapture")]

use core::time::Duration;
use pinnace_core::{BufferId, ControllerKind, Time};
use pinnace_sim::nodes::Rate;
use pinnace_sim::{Application, HostConfig, HostHandle, HostId, NetworkConfig, Outcome, Path, Simulation};
use pinnace_vrp::{Config, Event, FrameSpec, Incoming, Outgoing, Terms, Vrp};

/// Keeps frames under way, or sends one at a time at a rate; counts what was delivered.
enum Program {
    Source { frame: u64, queued: usize, terms: Terms, window: u16, begins: Duration, buffer: Option<BufferId> },
    Camera { frame: u64, every: Duration, terms: Terms, buffer: Option<BufferId> },
    Sink { bytes: Vec<(Time, u64)>, lost: u64, packets: u64, took: Vec<Duration> },
}

impl Application<Vrp> for Program {
    fn on_start(&mut self, _: Time, host: &mut HostHandle<'_, Vrp>) {
        match self {
            Self::Source { frame, begins: wait, buffer, .. } | Self::Camera { frame, every: wait, buffer, .. } => {
                *buffer = Some(host.add_buffer(vec![7; *frame as usize]));
                host.wake_after(*wait, 0);
            }
            Self::Sink { .. } => {}
        }
    }

    fn on_wake(&mut self, now: Time, _: u64, host: &mut HostHandle<'_, Vrp>) {
        match self {
            Self::Source { queued, .. } => (0..*queued).for_each(|_| self.send(now, host)),
            Self::Camera { every, .. } => {
                host.wake_after(*every, 0);
                self.send(now, host);
            }
            Self::Sink { .. } => {}
        }
    }

    fn on_event(&mut self, now: Time, event: Event, host: &mut HostHandle<'_, Vrp>) {
        match (self, event) {
            (this @ Self::Source { .. }, Event::Sent { result, .. }) => {
                assert!(result.is_ok(), "{result:?}");
                this.send(now, host);
            }
            (Self::Sink { bytes, lost, packets, took }, Event::Received(delivery)) => {
                bytes.push((now, u64::from(delivery.size)));
                *lost += u64::from(delivery.loss.lost);
                *packets += u64::from(delivery.loss.packets);
                took.push(delivery.took);
                host.take_buffer(delivery.buffer);
                host.call(|engine| engine.as_incoming().expect("the sink").release(delivery.id));
            }
            _ => {}
        }
    }
}

impl Program {
    fn send(&self, now: Time, host: &mut HostHandle<'_, Vrp>) {
        let (frame, terms, window, buffer) = match self {
            Self::Source { frame, terms, window, buffer: Some(buffer), .. } => (frame, terms, *window, buffer),
            Self::Camera { frame, terms, buffer: Some(buffer), .. } => (frame, terms, 2_048, buffer),
            _ => return,
        };
        let spec = FrameSpec { terms: Some(terms.clone()), window: Some(window), ..FrameSpec::new(*buffer, *frame) };
        host.call(|engine| engine.as_outgoing().expect("the source").send(now, spec)).expect("room");
    }
}

type World = Simulation<Vrp, Program>;

/// The contract of the paper's table 1.
fn paper() -> Terms {
    Terms { rate: Some(64), run_bytes: Some(4000), critical: vec![0..1000], floor: None }
}

struct Flow {
    terms: Terms,
    congestion: ControllerKind,
    begins: Duration,
}

/// Sends frames of 100 kB over one bottleneck for `seconds`; returns the bits a second of each flow over the last two
/// thirds, and its residual loss.
fn share(network: &str, flows: Vec<Flow>, seconds: u64) -> Vec<(f64, f64)> {
    let network: NetworkConfig = network.parse().expect("a network");
    let mut world = World::new(7);
    let mut ways: Vec<(HostId, HostId)> = Vec::new();
    for (index, flow) in flows.into_iter().enumerate() {
        let config = Config { congestion: flow.congestion, seed: index as u64, ..Config::default() };
        let incoming = Vrp::incoming(Incoming::new(config.clone(), Time::ZERO));
        let outgoing = Vrp::outgoing(Outgoing::new(config, Time::ZERO));
        let source = Program::Source {
            frame: 100_000,
            queued: 400,
            terms: flow.terms,
            window: 64,
            begins: flow.begins,
            buffer: None,
        };
        let sink = Program::Sink { bytes: Vec::new(), lost: 0, packets: 0, took: Vec::new() };
        let host = HostConfig::plain();
        let sink = world.add_host_with(incoming, sink, host);
        let source =
            world.add_host_with(outgoing, source, HostConfig { datagrams_per_read: 1, ..HostConfig::default() });
        ways.push((source, sink));
    }
    // One bottleneck for all, and the rest of the path for each.
    let rate = network.rate.expect("a bottleneck");
    let line = world.add_node(Rate::new(rate).queue(network.queue_bytes().unwrap_or(u64::MAX)));
    let rest = NetworkConfig { rate: None, ..network.clone() };
    for &(source, sink) in &ways {
        world.set_route(source, sink, Path::new().shared(line).then(Path::from_config(&rest)));
        world.set_route(sink, source, Path::from_config(&network));
        world.connect_to(source, sink);
    }
    let end = Duration::from_secs(seconds);
    let outcome = world.run_for(end);
    assert!(!matches!(outcome, Outcome::Livelock(_)), "{outcome:?}");
    ways.iter()
        .map(|&(_, sink)| {
            let Program::Sink { bytes, lost, packets, .. } = world.application(sink) else { panic!("a sink") };
            let from = Time::ZERO + end / 3;
            let sum: u64 = bytes.iter().filter(|(at, _)| *at >= from).map(|(_, size)| size).sum();
            (sum as f64 * 8.0 / (end * 2 / 3).as_secs_f64(), *lost as f64 / (*packets).max(1) as f64)
        })
        .collect()
}

fn alone(network: &str, terms: Terms, congestion: ControllerKind, seconds: u64) -> (f64, f64) {
    share(network, vec![Flow { terms, congestion, begins: Duration::ZERO }], seconds)[0]
}

#[test]
fn random_loss_does_not_slow_frames_with_a_contract() {
    for (loss, least) in [("0%", 0.95e8), ("0.1%", 0.93e8), ("1%", 0.92e8), ("5%", 0.84e8)] {
        let network = format!("rate=100mbit,delay=30ms,queue=1bdp,loss={loss}");
        let (rate, residual) = alone(&network, paper(), ControllerKind::Bbr, 12);
        println!("loss {loss}: {:.1} Mbit/s, residual loss {residual:.4}", rate / 1e6);
        assert!(rate > least, "loss {loss}: {rate}");
    }
}

#[test]
fn nothing_lost_costs_little_more() {
    for (loss, least) in [("0%", 0.95e8), ("1%", 0.9e8), ("5%", 0.75e8)] {
        let network = format!("rate=100mbit,delay=30ms,queue=1bdp,loss={loss}");
        let (rate, residual) = alone(&network, Terms::reliable(), ControllerKind::Bbr, 24);
        println!("loss {loss}: {:.1} Mbit/s", rate / 1e6);
        assert!(residual == 0.0 && rate > least, "loss {loss}: {rate}, residual {residual}");
    }
}

/// Where what came late was taken for lost, CUBIC carried 4 Mbit/s of these 20, and BBR 10 where 30 % came late.
//= V-R19 test
#[test]
fn a_path_that_does_not_keep_the_order_is_used() {
    for (reorder, cubic, bbr) in [("5%:5ms", 14e6, 15e6), ("30%:5ms", 11e6, 11e6)] {
        for (congestion, least) in [(ControllerKind::Cubic, cubic), (ControllerKind::Bbr, bbr)] {
            let network = format!("rate=20mbit,delay=20ms,queue=1bdp,reorder={reorder}");
            let (rate, _) = alone(&network, Terms::reliable(), congestion, 30);
            println!("{reorder} {congestion}: {:.1} Mbit/s", rate / 1e6);
            assert!(rate > least, "{reorder} {congestion}: {rate}");
        }
    }
}

#[test]
fn two_flows_share_a_bottleneck_within_two_to_one() {
    for congestion in [ControllerKind::Bbr, ControllerKind::Cubic] {
        for terms in [paper(), Terms::reliable()] {
            let flow = |begins| Flow { terms: terms.clone(), congestion, begins: Duration::from_millis(begins) };
            let rates = share("rate=50mbit,delay=20ms,queue=1bdp", vec![flow(0), flow(700)], 30);
            println!("{congestion}: {rates:?}");
            let (a, b) = (rates[0].0, rates[1].0);
            assert!(a < 2.0 * b && b < 2.0 * a && a + b > 0.85 * 50e6, "{congestion}: {rates:?}");
        }
    }
}

#[test]
fn a_contract_does_not_hide_congestion() {
    // Half of everything may be lost, and yet the queue is not flooded.
    let terms = Terms { rate: Some(128), run_bytes: Some(u64::MAX), ..Terms::default() };
    for congestion in [ControllerKind::Bbr, ControllerKind::Cubic] {
        let (rate, residual) = alone("rate=20mbit,delay=10ms,queue=1bdp", terms.clone(), congestion, 20);
        println!("{congestion}: {:.1} Mbit/s, residual loss {residual:.4}", rate / 1e6);
        assert!(residual < 0.03, "{congestion}: {residual}");
    }
}

#[test]
fn a_camera_that_leaves_the_path_idle_half_the_time_does_not_flood_its_queue() {
    // 324 of 500 Mbit/s, in frames that leave within one round trip if they may.
    let network: NetworkConfig = "rate=500mbit,delay=10ms,queue=1bdp,loss=1%".parse().expect("a network");
    let mut world = World::new(7);
    let config = Config { congestion: ControllerKind::Bbr, ..Config::default() };
    let sink = Program::Sink { bytes: Vec::new(), lost: 0, packets: 0, took: Vec::new() };
    let sink = world.add_host_with(Vrp::incoming(Incoming::new(config.clone(), Time::ZERO)), sink, HostConfig::plain());
    let terms = Terms { rate: Some(26), run_bytes: Some(8 * 1_466), critical: vec![], floor: None };
    let camera = Program::Camera { frame: 2_700_000, every: Duration::from_micros(66_667), terms, buffer: None };
    let host = HostConfig { datagrams_per_read: 1, ..HostConfig::default() };
    let camera = world.add_host_with(Vrp::outgoing(Outgoing::new(config, Time::ZERO)), camera, host);
    world.set_route(camera, sink, Path::from_config(&network));
    world.set_route(sink, camera, Path::from_config(&network));
    world.connect_to(camera, sink);
    world.run_for(Duration::from_secs(25));
    let Program::Sink { took, lost, packets, .. } = world.application(sink) else { panic!("a sink") };
    // Start-up may take a second. Of the others, repairs make a few slow; no bare round trip has to be looked for, which
    // would make ten in a row slow.
    let steady = &took[15..];
    let slow = steady.iter().filter(|took| **took > Duration::from_millis(70)).count();
    println!("{lost} of {packets} packets given up, {slow} of {} frames slow", steady.len());
    assert!(steady.len() > 350 && slow * 100 < 4 * steady.len(), "{slow} of {} slow", steady.len());
}

//! What the network does to datagrams.

use crate::probe::{Probe, Seen};
use core::time::Duration;
use pinnace_core::{Address, Ecn, PathEvent, Time};
use pinnace_sim::nodes::{Adversary, AdversaryConfig, Delay, Loss, Mtu, Rate};
use pinnace_sim::{Coalesce, Fate, HostConfig, HostId, Inbox, NetworkConfig, Node, Outcome, Path, Simulation};

const A: HostId = HostId::new(0);
const B: HostId = HostId::new(1);

fn ms(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

fn pair(seed: u64, network: &str) -> Simulation<Probe> {
    Simulation::pair(seed, [Probe::default(), Probe::default()], &network.parse().unwrap())
}

fn with_node(seed: u64, node: impl Node + 'static) -> Simulation<Probe> {
    let mut simulation = pair(seed, "");
    simulation.set_route(A, B, Path::new().node(node));
    simulation
}

/// Sends `count` datagrams of `size` bytes, one every `gap`, each a train of its own.
fn trickle(simulation: &mut Simulation<Probe>, count: u32, size: usize, gap: Duration) {
    for i in 0..count {
        let at = simulation.now() + gap * i;
        simulation.schedule(at, move |simulation| simulation.call(A, |probe| probe.send(B.address(), size, 1)));
    }
    simulation.run_until_quiet(Time::MAX);
}

/// When each datagram came, and its number.
fn arrivals(simulation: &Simulation<Probe>, host: HostId) -> Vec<(Time, u32)> {
    let number = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    let events = simulation.application(host).events.iter();
    events
        .filter_map(|(time, seen)| match seen {
            Seen::Datagram { bytes, .. } => Some((*time, number(bytes))),
            _ => None,
        })
        .collect()
}

#[test]
fn a_delay_is_exact() {
    let mut simulation = pair(1, "delay=30ms");
    simulation.run_for(Duration::from_millis(5));
    simulation.call(A, |probe| probe.send(Address::Peer, 100, 3));
    assert_eq!(simulation.run_until_quiet(Time::MAX), Outcome::Quiet);
    assert_eq!(arrivals(&simulation, B), [(ms(35), 0), (ms(35), 1), (ms(35), 2)]);
    assert_eq!(simulation.counters(B).reads, 1, "a train that arrives at one moment is one read");
}

#[test]
fn a_rate_is_exact() {
    // 1,222 bytes and 28 of headers are 10,000 bits: 3 Mbit/s carry 300 a second. A third of a microsecond must not add up.
    let mut simulation = pair(1, "rate=3mbit,queue=none");
    simulation.call(A, |probe| probe.send(B.address(), 1222, 900));
    simulation.run_until_quiet(Time::MAX);
    let arrivals = arrivals(&simulation, B);
    assert_eq!(arrivals.len(), 900);
    assert_eq!(arrivals[0].0, Time::from_nanos(3_333_334));
    assert_eq!(arrivals[299].0, ms(1000));
    assert_eq!(arrivals[899].0, ms(3000));
    // The first interval ends just before the 30th arrives, at 100 ms.
    assert_eq!(simulation.timeline(B).bytes()[..2], [29 * 1222, 30 * 1222]);
    assert_eq!(simulation.timeline(B).total(), 900 * 1222);
}

#[test]
fn a_full_queue_drops_the_tail() {
    let mut simulation = pair(1, "rate=1mbit,queue=10000");
    simulation.call(A, |probe| probe.send(B.address(), 972, 25));
    simulation.run_until_quiet(Time::MAX);
    assert_eq!(arrivals(&simulation, B).iter().map(|a| a.1).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    assert_eq!(simulation.trace().count(Fate::QueueFull), 15);
}

#[test]
fn a_bucket_lets_pass_at_once_what_it_holds_and_fills_at_the_rate() {
    // 1,000 bytes on the wire take 8 ms.
    let mut simulation = pair(1, "rate=1mbit,bucket=3000,queue=10000");
    simulation.call(A, |probe| probe.send(B.address(), 972, 20));
    simulation.run_until_quiet(Time::MAX);
    let at = |simulation: &_| arrivals(simulation, B).iter().map(|arrival| arrival.0).collect::<Vec<_>>();
    let burst: Vec<Time> = [0, 0, 0].into_iter().chain((1..=10).map(|number| 8 * number)).map(ms).collect();
    assert_eq!(at(&simulation), burst, "three at once, and the queue holds ten");
    // One each 10 ms leaves 2 ms to fill the bucket by.
    let mut simulation = pair(1, "rate=1mbit,bucket=3000,queue=10000");
    trickle(&mut simulation, 5, 972, Duration::from_millis(10));
    let steady = at(&simulation);
    assert!(steady.windows(2).all(|pair| pair[1] - pair[0] == Duration::from_millis(10)), "{steady:?}");
}

#[test]
fn a_filling_queue_marks() {
    let mut simulation = with_node(1, Rate::new(1_000_000).queue(20_000).mark_above(5_000));
    simulation.call(A, |probe| probe.send(B.address(), 972, 10));
    simulation.run_until_quiet(Time::MAX);
    let marks: Vec<bool> = simulation
        .application(B)
        .events
        .iter()
        .filter_map(|(_, seen)| match seen {
            Seen::Datagram { ecn, .. } => Some(*ecn == Ecn::Congested),
            _ => None,
        })
        .collect();
    assert_eq!(marks, [false, false, false, false, false, false, true, true, true, true]);
}

#[test]
fn losses_keep_their_odds() {
    let mut simulation = pair(3, "loss=10%");
    trickle(&mut simulation, 20_000, 10, Duration::from_micros(10));
    let lost = simulation.trace().count(Fate::LostRandom);
    // Six standard deviations are 255.
    assert!((1745..=2255).contains(&lost), "{lost}");
    assert_eq!(simulation.trace().count(Fate::Delivered) + lost, 20_000);
}

#[test]
fn bursts_have_their_length_and_share() {
    let mut simulation = pair(4, "burst-loss=1%:25%");
    trickle(&mut simulation, 100_000, 10, Duration::from_micros(10));
    let mut came = vec![false; 100_000];
    arrivals(&simulation, B).iter().for_each(|&(_, number)| came[number as usize] = true);
    let lost = came.iter().filter(|came| !**came).count();
    let bursts = came.windows(2).filter(|pair| pair[0] && !pair[1]).count() + usize::from(!came[0]);
    let (share, mean) = (lost as f64 / 1e5, lost as f64 / bursts as f64);
    // 1 / 26 of all, four in a row.
    assert!((0.033..0.044).contains(&share), "{share}");
    assert!((3.6..4.4).contains(&mean), "{mean}");
    assert_eq!(simulation.trace().lost(), lost as u64);
}

#[test]
fn a_lost_train_is_lost_as_a_whole() {
    let mut simulation = pair(5, "train-loss=20%");
    for i in 0..1000 {
        simulation.schedule(ms(i), |simulation| simulation.call(A, |probe| probe.send(B.address(), 500, 16)));
    }
    simulation.run_until_quiet(Time::MAX);
    let arrivals = arrivals(&simulation, B);
    let lost = simulation.trace().count(Fate::LostTrain);
    assert!((125 * 16..=275 * 16).contains(&lost) && lost.is_multiple_of(16), "{lost}");
    for train in arrivals.chunks(16) {
        let first = train[0].1;
        assert!(first.is_multiple_of(16) && train.iter().zip(first..).all(|(a, number)| a.1 == number));
    }
}

#[test]
fn jitter_spreads_and_keeps_the_order() {
    let mut simulation = pair(6, "delay=10ms,jitter=5ms");
    trickle(&mut simulation, 2_000, 10, Duration::from_millis(1));
    let arrivals = arrivals(&simulation, B);
    assert!(arrivals.is_sorted_by_key(|a| a.1) && arrivals.len() == 2_000);
    let delays: Vec<u64> = arrivals.iter().map(|&(at, i)| (at.as_nanos() / 1000) - u64::from(i) * 1000).collect();
    assert!(delays.iter().all(|delay| (10_000..=15_000).contains(delay)));
    assert!(delays.iter().max().unwrap() - delays.iter().min().unwrap() > 4_000);
}

#[test]
fn held_back_packets_are_overtaken() {
    let mut simulation = pair(7, "reorder=5%:3ms");
    trickle(&mut simulation, 5_000, 10, Duration::from_millis(1));
    let arrivals = arrivals(&simulation, B);
    let held = simulation.trace().count(Fate::HeldBack);
    assert!((160..=340).contains(&held), "{held}");
    for &(at, number) in &arrivals {
        let late = at.since(ms(number.into())).as_millis();
        assert!(late == 0 || late == 3);
    }
    assert!(!arrivals.is_sorted_by_key(|a| a.1) && arrivals.len() == 5_000);
}

#[test]
fn some_arrive_twice() {
    let mut simulation = pair(8, "duplicate=10%");
    trickle(&mut simulation, 5_000, 10, Duration::from_millis(1));
    let doubled = simulation.trace().count(Fate::Duplicated);
    assert!((370..=630).contains(&doubled), "{doubled}");
    assert_eq!(arrivals(&simulation, B).len() as u64, 5_000 + doubled);
}

#[test]
fn corruption_is_dropped_or_let_through() {
    let mut simulation = pair(9, "corrupt=10%");
    trickle(&mut simulation, 1_000, 50, Duration::from_millis(1));
    let dropped = simulation.trace().count(Fate::Corrupted);
    assert!((45..=155).contains(&dropped), "{dropped}");
    assert_eq!(arrivals(&simulation, B).len() as u64, 1_000 - dropped);

    let mut simulation = pair(9, "corrupt=10%:through");
    trickle(&mut simulation, 1_000, 50, Duration::from_millis(1));
    let wrong = arrivals(&simulation, B).iter().zip(0..).filter(|(a, number)| a.1 != *number).count();
    let altered = simulation.trace().count(Fate::Altered);
    let damaged = simulation
        .application(B)
        .events
        .iter()
        .filter(|(_, seen)| matches!(seen, Seen::Datagram { bytes, .. } if bytes[4..].iter().any(|&byte| byte != 0)))
        .count();
    assert!(altered > 45 && damaged > 0 && (damaged + wrong) as u64 >= altered, "{altered} {damaged} {wrong}");
}

#[test]
fn too_large_datagrams_are_dropped_and_reported() {
    let mut simulation: Simulation<Probe> = Simulation::new(10);
    let cuts_nothing = HostConfig { fragments: false, ..HostConfig::default() };
    for _ in 0..2 {
        simulation.add_host_with(Probe::default(), Inbox::default(), cuts_nothing);
    }
    let wire = "delay=10ms".parse().unwrap();
    simulation.link(A, B, &wire, &wire);
    let mtu = Mtu::new(1500).change_at(ms(100), 1280);
    simulation.set_route(A, B, Path::new().node(Delay::new(Duration::from_millis(10))).node(mtu));
    for at in [0, 95] {
        simulation.schedule(ms(at), |simulation| {
            simulation.call(A, |probe| {
                probe.send(B.address(), 1473, 3);
                probe.send(B.address(), 1472, 1);
                probe.send(B.address(), 1252, 1);
            });
        });
    }
    simulation.run_until_quiet(Time::MAX);
    let lens: Vec<usize> = simulation
        .application(B)
        .events
        .iter()
        .filter_map(|(_, seen)| match seen {
            Seen::Datagram { bytes, .. } => Some(bytes.len()),
            _ => None,
        })
        .collect();
    assert_eq!(lens, [1472, 1252, 1252]);
    // One report a train, after there and back.
    let report = |at, largest| (ms(at), Seen::Path(PathEvent::TooLarge { to: B.address(), fits: Some(largest) }));
    assert_eq!(simulation.application(A).events, [report(20, 1472), report(115, 1252), report(115, 1252)]);
    assert_eq!(simulation.trace().count(Fate::TooLarge), 7);

    let mut simulation = pair(10, "mtu=1500,icmp=no");
    trickle(&mut simulation, 3, 1473, Duration::ZERO);
    assert!(simulation.application(A).events.is_empty() && simulation.application(B).events.is_empty());
}

#[test]
fn who_is_told_of_a_smaller_mtu_lets_the_network_cut() {
    let mut simulation = pair(19, "delay=10ms");
    let (delay, mtu) = (Delay::new(Duration::from_millis(10)), Mtu::new(1500).change_at(ms(30), 1000));
    simulation.set_route(A, B, Path::new().node(delay).node(mtu));
    trickle(&mut simulation, 80, 1200, Duration::from_millis(1));
    let came: Vec<u32> = arrivals(&simulation, B).iter().map(|a| a.1).collect();
    // What leaves until the first report is there is lost, 10 ms there and 10 ms back.
    assert_eq!(came, (0..20).chain(100 - came.len() as u32..80).collect::<Vec<_>>());
    assert!((59..=60).contains(&came.len()), "{came:?}");
    assert_eq!(simulation.trace().count(Fate::TooLarge), 80 - came.len() as u64);
}

#[test]
fn nothing_passes_a_partition() {
    let mut simulation = pair(11, "partition=20ms..30ms");
    trickle(&mut simulation, 50, 10, Duration::from_millis(1));
    let missing: Vec<u32> = arrivals(&simulation, B).iter().map(|a| a.1).collect();
    assert_eq!(missing, (0..20).chain(30..50).collect::<Vec<_>>());
    assert_eq!(simulation.trace().count(Fate::Partitioned), 10);
}

#[test]
fn an_adversary_injects_all_kinds_from_a_third_address() {
    let mut simulation = pair(12, "delay=1ms,adversary=10000");
    for i in 0..1000 {
        simulation.schedule(ms(i), |simulation| simulation.call(A, |probe| probe.send(B.address(), 40, 1)));
    }
    simulation.run_for(Duration::from_secs(1));
    let injected = simulation.trace().count(Fate::Injected);
    // Both directions have one.
    assert!((19_000..21_000).contains(&injected), "{injected}");
    let foreign: Vec<&[u8]> = simulation
        .application(B)
        .events
        .iter()
        .filter_map(|(_, seen)| match seen {
            Seen::Datagram { source, bytes, .. } if *source == AdversaryConfig::UNKNOWN => Some(&bytes[..]),
            _ => None,
        })
        .collect();
    assert!(foreign.len() > 9_000);
    let replays = foreign.iter().filter(|bytes| bytes.len() == 40 && bytes[4..].iter().all(|&byte| byte == 0)).count();
    let flips = foreign.iter().filter(|bytes| {
        let ones: u32 = bytes.iter().skip(4).map(|byte| byte.count_ones()).sum();
        bytes.len() == 40 && (1..=3).contains(&ones)
    });
    let (flips, garbage) = (flips.count(), foreign.iter().filter(|bytes| bytes.len() != 40).count());
    assert!(replays > 2_500 && flips > 2_000 && garbage > 2_500, "{replays} {flips} {garbage}");
    // The real ones are all there.
    let real = arrivals(&simulation, B).len() - foreign.len();
    assert!(real >= 999, "{real}");
}

#[test]
fn a_connected_socket_hears_its_peer_alone() {
    let mut simulation: Simulation<Probe> = Simulation::new(16);
    for _ in 0..2 {
        let config = HostConfig { is_connected: true, ..HostConfig::default() };
        simulation.add_host_with(Probe::default(), Inbox::default(), config);
    }
    let network: NetworkConfig = "delay=1ms,adversary=1000".parse().unwrap();
    simulation.link(A, B, &network, &network);
    for i in 0..100 {
        simulation.schedule(ms(10 * i), |simulation| simulation.call(A, |probe| probe.send(Address::Peer, 40, 1)));
    }
    simulation.run_for(Duration::from_secs(2));
    let dropped = simulation.counters(B).strangers_dropped;
    assert!(dropped > 1000, "{dropped}");
    assert_eq!(simulation.trace().count(Fate::Stranger), dropped + simulation.counters(A).strangers_dropped);
    assert_eq!(arrivals(&simulation, B).len(), 100);
    assert_eq!(simulation.trace().lost(), 0, "nobody misses them");
}

#[test]
fn an_adversary_can_forge_and_is_no_life() {
    let forger = AdversaryConfig { source: None, garbage: 0, high: ms(50), ..AdversaryConfig::default() };
    let mut simulation = with_node(13, Adversary::new(forger));
    simulation.engine(B);
    simulation.call(A, |probe| probe.send(B.address(), 40, 1));
    // Nothing but the adversary is left, so the run is over.
    assert_eq!(simulation.run_until_quiet(Time::MAX), Outcome::Quiet);
    assert_eq!(simulation.now(), Time::ZERO);
    // But he goes on if time does.
    assert_eq!(simulation.run_for(Duration::from_secs(1)), Outcome::Quiet);
    let sources = simulation.application(B).events.iter().filter_map(|(_, seen)| match seen {
        Seen::Datagram { source, .. } => Some(*source),
        _ => None,
    });
    let sources: Vec<Address> = sources.collect();
    assert!(sources.len() > 40 && sources.iter().all(|source| *source == A.address()));
}

#[test]
fn a_bottleneck_can_be_shared() {
    let mut simulation: Simulation<Probe> = Simulation::new(14);
    let hosts: Vec<HostId> = (0..3).map(|_| simulation.add_host(Probe::default(), Inbox::default())).collect();
    let line = simulation.add_node(Rate::new(8_000_000));
    simulation.set_route(hosts[0], hosts[2], Path::new().node(Delay::new(Duration::from_millis(1))).shared(line));
    simulation.set_route(hosts[1], hosts[2], Path::new().shared(line));
    for &host in &hosts[..2] {
        simulation.call(host, |probe| probe.send(hosts[2].address(), 972, 10));
    }
    simulation.run_until_quiet(Time::MAX);
    // A thousand bytes a millisecond, whoever sent them.
    let times: Vec<Time> = arrivals(&simulation, hosts[2]).iter().map(|a| a.0).collect();
    assert_eq!(times, (1..=20).map(ms).collect::<Vec<_>>());
    // Nobody answers the third host: it has no way back.
    simulation.call(hosts[2], |probe| probe.send(hosts[0].address(), 10, 1));
    assert_eq!(simulation.trace().count(Fate::NoRoute), 1);
}

#[test]
fn reads_coalesce_as_configured() {
    let reads = |coalesce, datagrams_per_read, delay| {
        let mut simulation: Simulation<Probe> = Simulation::new(15);
        let config = HostConfig {
            coalesce,
            datagrams_per_read,
            read_delay: Duration::from_micros(delay),
            ..HostConfig::default()
        };
        for _ in 0..2 {
            simulation.add_host_with(Probe::default(), Inbox::default(), config);
        }
        // A datagram of 1,000 bytes takes 8 us.
        let network: NetworkConfig = "rate=1gbit,queue=none".parse().unwrap();
        simulation.link(A, B, &network, &network);
        simulation.call(A, |probe| {
            probe.send(Address::Peer, 972, 4);
            probe.send(Address::Peer, 972, 4);
        });
        simulation.run_until_quiet(Time::MAX);
        let events = simulation.application(B).events.iter();
        events.filter_map(|(_, s)| if let Seen::Read(count) = s { Some(*count) } else { None }).collect::<Vec<_>>()
    };
    assert_eq!(reads(Coalesce::Never, 64, 100), [1; 8]);
    assert_eq!(reads(Coalesce::Trains, 64, 0), [1; 8]);
    assert_eq!(reads(Coalesce::Trains, 64, 100), [4, 4]);
    assert_eq!(reads(Coalesce::Flow, 64, 100), [8]);
    assert_eq!(reads(Coalesce::Flow, 3, 100), [3, 3, 2]);
}

#[test]
fn the_trace_is_readable() {
    let mut simulation = with_node(16, Loss::new(1.0));
    simulation.trace_mut().set_limit(2);
    simulation.trace_mut().set_formatter(|bytes| format!("number {}", bytes[3]));
    simulation.call(A, |probe| probe.send(Address::Peer, 10, 2));
    simulation.run_until_quiet(Time::MAX);
    assert_eq!(
        simulation.trace().to_string(),
        "0.000000000s host 0 out #1 10 bytes [number 0] lost\n0.000000000s host 0 out #2 10 bytes [number 1] lost\n"
    );
    assert_eq!((simulation.trace().seen(), simulation.trace().count(Fate::Sent)), (4, 2));
}

#[test]
fn a_read_never_mixes_sizes_but_for_a_short_end() {
    let mut simulation: Simulation<Probe> = Simulation::new(17);
    let config = HostConfig { coalesce: Coalesce::Flow, ..HostConfig::default() };
    for _ in 0..2 {
        simulation.add_host_with(Probe::default(), Inbox::default(), config);
    }
    simulation.link(A, B, &NetworkConfig::default(), &NetworkConfig::default());
    simulation.freeze(B, Duration::from_secs(1));
    for size in [100, 100, 60, 100, 200, 200, 200, 10] {
        simulation.call(A, |probe| probe.send(B.address(), size, 1));
    }
    simulation.run_until_quiet(Time::MAX);
    let events = simulation.application(B).events.iter();
    let reads: Vec<usize> = events.filter_map(|(_, s)| if let Seen::Read(n) = s { Some(*n) } else { None }).collect();
    assert_eq!(reads, [3, 1, 4]);
}

#[test]
fn the_latest_mtu_holds() {
    let mut simulation = pair(18, "mtu=1500,mtu-change=9000@20ms,mtu-change=576@10ms,icmp=no");
    trickle(&mut simulation, 30, 1000, Duration::from_millis(1));
    let came: Vec<u32> = arrivals(&simulation, B).iter().map(|a| a.1).collect();
    assert_eq!(came, (0..10).chain(20..30).collect::<Vec<_>>());
}

//! One test body over two worlds: the simulator's virtual time, and real UDP sockets on loopback with a faulty link.

use pinnace::link::{Burst, Fault, FaultOptions, UdpLink, UdpOptions};
use pinnace::zcrp::{self, Config, Failure, Options, UnitSize};
use pinnace::{ControllerKind, Message};
use pinnace_core::{BufferId, Time};
use pinnace_sim::nodes::GilbertElliott;
use pinnace_sim::{HostId, NetworkConfig, Simulation};
use pinnace_zcrp::{Event, Receiver, Sender, Zcrp};
use std::net::SocketAddr;
use std::time::Duration;

/// What a network does to datagrams, in both directions.
#[derive(Clone, Copy, Default)]
struct Faults {
    loss: f64,
    burst: bool,
    duplication: f64,
    reordering: f64,
}

/// How one message ended at both ends.
#[derive(Debug, PartialEq)]
struct Ended {
    sent: Result<(), Failure>,
    received: Result<Vec<u8>, Failure>,
}

/// Somewhere messages can travel.
trait World {
    /// Sends every message into a buffer of the size beside it, all at once, and waits for all.
    fn transfer(&self, config: &Config, faults: Faults, messages: &[(Vec<u8>, usize)]) -> Vec<Ended>;
}

struct Simulated;

impl World for Simulated {
    fn transfer(&self, config: &Config, faults: Faults, messages: &[(Vec<u8>, usize)]) -> Vec<Ended> {
        let network = NetworkConfig {
            delay: Duration::from_micros(200),
            loss: faults.loss,
            burst_loss: faults.burst.then(|| GilbertElliott::new(0.01, 0.2)),
            duplicate: faults.duplication,
            reorder: faults.reordering,
            ..NetworkConfig::default()
        };
        let engines = [
            Zcrp::new(Some(Sender::new(config.clone(), Time::ZERO)), None),
            Zcrp::new(None, Some(Receiver::new(config.clone()))),
        ];
        let mut sim = Simulation::pair(1, engines, &network);
        let [here, there] = [HostId::new(0), HostId::new(1)];
        for (data, capacity) in messages {
            let (from, to) = (sim.add_buffer(here, data.clone()), sim.add_buffer(there, vec![0; *capacity]));
            sim.call(there, |engine| engine.receiver_mut().unwrap().post(Time::ZERO, to, *capacity as u32)).unwrap();
            sim.call(here, |engine| engine.sender_mut().unwrap().send(Time::ZERO, from, data.len() as u32)).unwrap();
        }
        sim.run_for(Duration::from_secs(60));
        let sent = |wanted: u64| {
            let mut results = sim.application(here).events.iter().filter_map(|(_, event)| match *event {
                Event::Sent { number, result, .. } if number == wanted => Some(result),
                _ => None,
            });
            (results.next().expect("every send ends"), results.next())
        };
        let received = |wanted: u64| {
            let mut results = sim.application(there).events.iter().filter_map(|(_, event)| match *event {
                Event::Received { number, buffer, result } if number == wanted => {
                    let content = |size: u32| content_of(&sim, there, buffer, size);
                    Some(result.map(content))
                }
                _ => None,
            });
            (results.next().expect("every receive ends"), results.next())
        };
        (0..messages.len() as u64)
            .map(|number| {
                let ((sent, again), (received, once_more)) = (sent(number), received(number));
                assert!(again.is_none() && once_more.is_none(), "message {number} ended twice");
                Ended { sent, received }
            })
            .collect()
    }
}

fn content_of(sim: &Simulation<Zcrp>, host: HostId, buffer: BufferId, size: u32) -> Vec<u8> {
    sim.buffer(host, buffer)[..size as usize].to_vec()
}

struct Real;

impl Real {
    /// Two sockets connected with each other, each behind a link that makes faults.
    fn links(faults: Faults) -> [Fault<UdpLink>; 2] {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let options = UdpOptions { ecn: false, local_address: false, ..UdpOptions::default() };
        let mut links = [0, 1].map(|_| UdpLink::bind(any, &options).expect("loopback has free ports"));
        let addresses = [0, 1].map(|index: usize| links[index].local_address().unwrap());
        links[0].connect_to(addresses[1]).unwrap();
        links[1].connect_to(addresses[0]).unwrap();
        let mut seed = 0;
        links.map(|link| {
            seed += 1;
            let options = FaultOptions {
                seed,
                loss: faults.loss,
                burst: faults.burst.then_some(Burst { begin: 0.01, end: 0.2, loss: 1.0 }),
                duplication: faults.duplication,
                reordering: faults.reordering,
                ..FaultOptions::default()
            };
            Fault::new(link, options)
        })
    }
}

impl World for Real {
    fn transfer(&self, config: &Config, faults: Faults, messages: &[(Vec<u8>, usize)]) -> Vec<Ended> {
        let options = Options::default();
        let [here, there] = Self::links(faults)
            .map(|link| zcrp::over(Box::new(link), config.clone(), &options).expect("an endpoint over any link"));
        let (sender, receiver) = (here.0, there.1);
        let receivings: Vec<_> =
            messages.iter().map(|(_, capacity)| receiver.post(Message::with_capacity(*capacity)).unwrap()).collect();
        let sendings: Vec<_> =
            messages.iter().map(|(data, _)| sender.send(Message::from_vec(data.clone())).unwrap()).collect();
        let failure = |unsent: pinnace::Unsent| match unsent.error {
            pinnace::Error::Failed(failure) => failure,
            other => panic!("{other}"),
        };
        let waiting = std::thread::spawn(move || -> Vec<_> {
            sendings.into_iter().map(|sending| sending.wait().map(drop).map_err(failure)).collect()
        });
        let received: Vec<_> =
            receivings.into_iter().map(|receiving| receiving.wait().map(Message::into_vec).map_err(failure)).collect();
        let sent = waiting.join().unwrap();
        sent.into_iter().zip(received).map(|(sent, received)| Ended { sent, received }).collect()
    }
}

fn data(size: usize, salt: usize) -> Vec<u8> {
    (0..size).map(|index| (index.wrapping_mul(31) ^ (index >> 8) ^ salt.wrapping_mul(97)) as u8).collect()
}

/// The body: what both worlds must do.
fn try_world(world: &dyn World) {
    let all = [
        Faults::default(),
        Faults { loss: 0.05, ..Faults::default() },
        Faults { loss: 0.2, duplication: 0.1, reordering: 0.1, ..Faults::default() },
        Faults { burst: true, ..Faults::default() },
    ];
    let small = Config {
        unit_size: UnitSize::Fixed(500),
        congestion: ControllerKind::Fixed { window: u64::MAX },
        seed: 5,
        ..Config::default()
    };
    let large = Config { unit_size: UnitSize::UpTo(8000), ..Config::default() }.for_cluster(256 * 1024);
    for faults in all {
        for config in [&small, &large] {
            // (size, room): exactly, with room to spare, too long, and nothing at all.
            let sizes = [
                (0, 0),
                (1, 1),
                (100_000, 100_000),
                (472, 1000),
                (0, 10),
                (50_001, 50_000),
                (473, 473),
                (30_000, 90_000),
            ];
            let messages: Vec<_> = sizes.iter().enumerate().map(|(n, &(size, room))| (data(size, n), room)).collect();
            let ends = world.transfer(config, faults, &messages);
            assert_eq!(ends.len(), messages.len());
            for ((message, room), end) in messages.into_iter().zip(ends) {
                if message.len() > room {
                    assert_eq!(end, Ended { sent: Err(Failure::TooLong), received: Err(Failure::TooLong) });
                } else {
                    assert_eq!(end.sent, Ok(()));
                    assert!(end.received == Ok(message), "a message was altered");
                }
            }
        }
    }
}

#[test]
fn messages_travel_in_virtual_time() {
    //= Z-2, Z-15, Z-16, Z-20 test
    try_world(&Simulated);
}

#[test]
fn messages_travel_over_real_sockets() {
    //= Z-2, Z-15, Z-16, Z-20 test
    try_world(&Real);
}

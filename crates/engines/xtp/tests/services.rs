//! The paper's six services between two hosts, in both codecs.
mod support;

use core::time::Duration;
use pinnace_core::{ControllerKind, Time};
use pinnace_sim::{Fate, HostId, NetworkConfig, Outcome, Simulation};
use pinnace_xtp::{Close, Codec, Config, ControlBlock, Event, Output, Service, Services, Xtp};
use std::cell::RefCell;
use std::rc::Rc;
use support::{Program, block, config, pattern, send};

type World = Simulation<Xtp, Program>;
const SERVER: HostId = HostId::new(0);
const CLIENT: HostId = HostId::new(1);

fn listening(now: Time, host: &mut pinnace_sim::HostHandle<'_, Xtp>, listens: ControlBlock) {
    let _ = now;
    host.call(|engine| engine.listen(listens, Services::ALL)).expect("the port is free");
}

fn world(configs: [Config; 2], network: &str, server: Program, client: Program) -> World {
    let network: NetworkConfig = network.parse().expect("a network");
    let seed = configs[0].seed;
    let mut world = World::new(seed);
    let [a, b] = configs.map(|config| Xtp::new(config, Time::ZERO));
    let server = world.add_host(a, server);
    let client = world.add_host(b, client);
    assert_eq!((server, client), (SERVER, CLIENT));
    world.link(server, client, &network, &network);
    world
}

fn configs(codec: Codec) -> [Config; 2] {
    [config(codec, 1), config(codec, 2)]
}

fn quiet(world: &mut World) {
    assert_eq!(world.run_until_quiet(Time::ZERO + Duration::from_secs(600)), Outcome::Quiet);
}

const CODECS: [Codec; 2] = [Codec::Xtp40, Codec::Xtp36];

/// A server that answers each message with `answer` and closes when the peer does.
fn answering(answer: Option<Vec<u8>>) -> Program {
    Program::new(
        |now, host| listening(now, host, ControlBlock { retry_count: 16, ..block(Service::Connection) }),
        move |now, event, seen, host| {
            if let Event::Readable { context } = event {
                let seen = &seen[context];
                if !seen.is_end || seen.closed.is_some() || !seen.sent.is_empty() {
                    return;
                }
                if let Some(answer) = &answer {
                    let buffer = host.add_buffer(answer.clone());
                    let len = answer.len() as u64;
                    host.call(|engine| engine.send(now, *context, Output::message(buffer, len))).ok();
                }
                host.call(|engine| engine.close(now, *context, Close::Full)).ok();
            }
        },
    )
}

//= X-5 test
//= X-20 test
//= X-21 test
#[test]
fn a_connection_carries_a_stream_each_way_and_closes_fully() {
    for codec in CODECS {
        for network in ["delay=5ms", "delay=5ms,loss=5%", "delay=5ms,loss=10%,jitter=3ms,duplicate=5%,reorder=5%"] {
            let (request, response) = (pattern(300_000, 1), pattern(100_000, 2));
            let message = request.clone();
            let client = Program::new(
                move |now, host| {
                    let context = send(now, host, SERVER, block(Service::Connection), &message);
                    host.call(|engine| engine.close(now, context, Close::Full)).expect("open");
                },
                |_, _, _, _| {},
            );
            let mut world = world(configs(codec), network, answering(Some(response.clone())), client);
            quiet(&mut world);
            let (server, client) = (world.application(SERVER).only(), world.application(CLIENT).only());
            assert_eq!(server.closed, Some(Ok(())), "{codec:?} {network}");
            assert_eq!(client.closed, Some(Ok(())), "{codec:?} {network}");
            assert!(server.bytes == request && client.bytes == response, "{codec:?} {network}");
            assert_eq!((&server.ends, &client.ends), (&vec![300_000], &vec![100_000]));
            assert!(client.connected && client.sent == [(1, true)]);
            for host in [SERVER, CLIENT] {
                assert_eq!(world.engine(host).contexts(), 0, "nothing is left after time-wait");
                assert_eq!(world.engine(host).bytes(), 0);
            }
        }
    }
}

#[test]
fn packets_shrink_to_what_the_path_carries() {
    for codec in CODECS {
        let client = Program::new(
            |now, host| {
                let context = send(now, host, SERVER, block(Service::Connection), &pattern(100_000, 1));
                host.call(|engine| engine.close(now, context, Close::Full)).expect("open");
            },
            |_, _, _, _| {},
        );
        let mut world = world(configs(codec), "delay=5ms,mtu=1000", answering(None), client);
        quiet(&mut world);
        let server = world.application(SERVER).only();
        assert_eq!(server.closed, Some(Ok(())), "{codec:?}");
        assert_eq!(server.bytes, pattern(100_000, 1));
        let cut = world.trace().count(Fate::TooLarge);
        assert!((1..70).contains(&cut), "{codec:?}: {cut} packets of the first window, and no more");
    }
}

/// A connection whose FIRST has no data; then so much goes each way.
fn exchange(codec: Codec, seed: u64, network: &str, [there, back]: [usize; 2], congestion: ControllerKind) -> World {
    let client = Program::new(
        move |now, host| {
            let buffer = host.add_buffer(pattern(there, 1));
            let context = host.call(|engine| {
                let block = ControlBlock { retry_count: 16, ..block(Service::Connection) };
                let context = engine.open(now, SERVER.address(), block).expect("room");
                engine.connect(now, context).expect("new");
                engine.send(now, context, Output::message(buffer, there as u64)).expect("taken");
                context
            });
            host.call(|engine| engine.close(now, context, Close::Full)).expect("open");
        },
        |_, _, _, _| {},
    );
    let configs = [seed, !seed].map(|seed| Config { datagram_bytes: 1472, congestion, ..config(codec, seed) });
    let mut world = world(configs, network, answering(Some(pattern(back, 2))), client);
    quiet(&mut world);
    for (host, bytes) in [(SERVER, pattern(there, 1)), (CLIENT, pattern(back, 2))] {
        let seen = world.application(host).only();
        assert_eq!(seen.closed, Some(Ok(())), "{codec:?} {network} {seed}");
        assert!(seen.bytes == bytes, "{codec:?} {network} {seed}");
    }
    world
}

/// A tunnel that carries less than the link, and whose reports are filtered.
#[test]
fn packets_shrink_where_large_ones_vanish_in_silence() {
    for codec in CODECS {
        for congestion in [ControllerKind::Cubic, ControllerKind::Fixed { window: 1 << 20 }] {
            let world = exchange(codec, 1, "delay=5ms,mtu=1300,icmp=no", [1_000_000, 300_000], congestion);
            let end = world.application(CLIENT).only().closed_at.expect("closed");
            assert!(end < Time::ZERO + Duration::from_secs(3), "{codec:?} {congestion:?}: {end:?}");
            let cut = world.trace().count(Fate::TooLarge);
            assert!((12..3000).contains(&cut), "{codec:?} {congestion:?}: {cut} packets, a few windows");
        }
    }
}

/// What the paper's window of 256 KiB leaves of a path is a third here: it grows, and where the application programs it, it
/// stays.
//= X-8 test
#[test]
fn a_window_grows_until_a_long_path_is_full() {
    for codec in CODECS {
        let took = |most_window: u32, rwindow: Option<u32>, network: &str| {
            let client = Program::new(
                |now, host| {
                    let block = ControlBlock { wbufsize: 32 << 20, ..block(Service::Connection) };
                    let context = send(now, host, SERVER, block, &pattern(20_000_000, 1));
                    host.call(|engine| engine.close(now, context, Close::Full)).expect("open");
                },
                |_, _, _, _| {},
            );
            let server = Program::new(
                move |now, host| {
                    let usual = block(Service::Connection);
                    listening(now, host, ControlBlock { rwindow: rwindow.unwrap_or(usual.rwindow), ..usual });
                },
                |now, event, seen, host| {
                    if let Event::Readable { context } = event
                        && seen[context].is_end
                        && seen[context].closed.is_none()
                    {
                        host.call(|engine| engine.close(now, *context, Close::Full)).ok();
                    }
                },
            );
            let configs = configs(codec).map(|config| Config { most_window, datagram_bytes: 1472, ..config });
            let mut world = world(configs, network, server, client);
            quiet(&mut world);
            let seen = world.application(SERVER).only();
            assert!(seen.closed == Some(Ok(())) && seen.bytes == pattern(20_000_000, 1), "{codec:?} {network}");
            assert_eq!(world.engine(SERVER).bytes(), 0, "every ring has been given back");
            seen.closed_at.expect("closed").since(Time::ZERO).as_secs_f64()
        };
        for network in ["rate=100mbit,delay=30ms", "rate=100mbit,delay=30ms,loss=0.5%"] {
            let (narrow, wide) = (took(0, None, network), took(4 << 20, None, network));
            assert!(wide < 0.5 * narrow && wide < 2.6, "{codec:?} {network}: {narrow} and {wide} s");
        }
        let narrow = took(0, Some(200_000), "delay=30ms");
        let programmed = took(4 << 20, Some(200_000), "delay=30ms");
        assert_eq!(narrow, programmed);
    }
}

#[test]
fn packets_stay_large_where_they_are_only_lost() {
    for codec in CODECS {
        for seed in 0..20 {
            for congestion in [ControllerKind::Cubic, ControllerKind::Fixed { window: 1 << 20 }] {
                let world = exchange(codec, seed, "delay=5ms,loss=30%", [2_000_000, 300_000], congestion);
                for host in [SERVER, CLIENT] {
                    let counters = world.engine(host).counters();
                    let mean = counters.bytes_sent / counters.data_packets_sent;
                    assert!(mean > 1360, "{codec:?} {seed} {congestion:?}: {mean} bytes in a packet");
                }
            }
        }
    }
}

//= X-20 test
#[test]
fn the_abbreviated_close_takes_one_exchange() {
    // Whatever numbers the ends begin with: nobody has heard of the server's when the client closes.
    for (codec, seed) in CODECS.into_iter().flat_map(|codec| (0..20).map(move |seed| (codec, seed))) {
        let client = Program::new(
            |now, host| {
                let context = send(now, host, SERVER, block(Service::Connection), &pattern(3000, 1));
                host.call(|engine| engine.close(now, context, Close::Abbreviated)).expect("open");
            },
            |_, _, _, _| {},
        );
        let configs = [config(codec, seed), config(codec, seed + 1)];
        let mut world = world(configs, "delay=10ms", answering(None), client);
        quiet(&mut world);
        let client = world.application(CLIENT).only();
        assert_eq!(client.closed, Some(Ok(())));
        let took = client.closed_at.expect("closed").since(Time::ZERO);
        assert!(took < Duration::from_millis(21), "{took:?}: FIRST, DATA with WCLOSE; the answer has END");
        assert_eq!(world.application(SERVER).only().closed, Some(Ok(())));
        assert_eq!(world.application(SERVER).only().bytes, pattern(3000, 1));
    }
}

//= X-21 test
#[test]
fn a_transaction_takes_one_round_trip() {
    for codec in CODECS {
        for (size, answer_size) in [(100, 100), (100, 0), (0, 100), (0, 0), (1000, 900)] {
            let request = pattern(size, 3);
            let client = Program::new(
                move |now, host| {
                    send(now, host, SERVER, block(Service::Transaction), &request);
                },
                |_, _, _, _| {},
            );
            let answer = pattern(answer_size, 4);
            // What an address that is not proved may be sent is another test's.
            let configs = configs(codec).map(|config| Config { validates: false, ..config });
            let mut world = world(configs, "delay=10ms", answering(Some(answer.clone())), client);
            quiet(&mut world);
            let (server, client) = (world.application(SERVER).only(), world.application(CLIENT).only());
            assert_eq!(client.closed, Some(Ok(())), "{codec:?} {size} {answer_size}");
            assert_eq!(server.closed, Some(Ok(())), "{codec:?} {size} {answer_size}");
            assert_eq!(client.bytes, answer);
            assert_eq!(server.bytes, pattern(size, 3));
            assert_eq!(client.sent.len(), 1);
            assert!(client.sent[0].1, "the response acknowledges the request");
            let took = client.closed_at.expect("closed").since(Time::ZERO);
            assert!(took < Duration::from_millis(21), "{codec:?} {size} {answer_size} {took:?}");
        }
    }
}

//= X-21 test
#[test]
fn transactions_get_through_whatever_is_lost() {
    for seed in 0..40 {
        let codec = CODECS[seed as usize % 2];
        let (size, answer_size) = ([0, 50, 5000, 100_000][seed as usize % 4], [0, 200, 20_000][seed as usize % 3]);
        let request = pattern(size, 3);
        let client = Program::new(
            move |now, host| {
                // Every third exchange is lost: six expiries in a row happen.
                let block = ControlBlock { retry_count: 16, ..block(Service::Transaction) };
                send(now, host, SERVER, block, &request);
            },
            |_, _, _, _| {},
        );
        let answer = pattern(answer_size, 4);
        let configs = [config(codec, seed), config(codec, 1000 + seed)];
        let mut world =
            world(configs, "delay=10ms,loss=20%,duplicate=5%,jitter=5ms", answering(Some(answer.clone())), client);
        quiet(&mut world);
        let (server, client) = (world.application(SERVER).only(), world.application(CLIENT).only());
        assert_eq!(client.closed, Some(Ok(())), "seed {seed}: {size} {answer_size}");
        assert_eq!(client.bytes, answer, "seed {seed}");
        assert_eq!(server.bytes, pattern(size, 3), "seed {seed}");
    }
}

//= X-21 test
#[test]
fn datagrams_arrive_once_and_acknowledged_ones_always() {
    for codec in CODECS {
        for service in [Service::UnackDgram, Service::AckDgram] {
            let network = if service == Service::AckDgram {
                "delay=10ms,loss=30%,duplicate=20%"
            } else {
                "delay=10ms,duplicate=50%"
            };
            let client = Program::new(
                move |now, host| {
                    for size in [0, 1, 500, 1300] {
                        let block = ControlBlock { retry_count: 16, ..block(service) };
                        send(now, host, SERVER, block, &pattern(size, 5));
                    }
                },
                |_, _, _, _| {},
            );
            let mut world = world(configs(codec), network, answering(None), client);
            quiet(&mut world);
            let client = world.application(CLIENT);
            assert_eq!(client.seen.len(), 4);
            for seen in client.seen.values() {
                assert_eq!(seen.closed, Some(Ok(())), "{codec:?} {service:?}");
                assert!(seen.sent.iter().all(|(_, delivered)| *delivered), "{codec:?} {service:?}");
            }
            let server = world.application(SERVER);
            let mut sizes: Vec<_> = server.datagrams.iter().map(|(_, bytes)| bytes.len()).collect();
            sizes.sort_unstable();
            if service == Service::AckDgram {
                assert_eq!(sizes, [0, 1, 500, 1300], "{codec:?}");
            } else {
                sizes.dedup();
                assert_eq!(sizes, [0, 1, 500, 1300], "{codec:?}");
            }
            assert!(server.datagrams.iter().all(|(_, bytes)| *bytes == pattern(bytes.len(), 5)));
            assert_eq!(world.engine(SERVER).contexts(), 0);
        }
    }
}

#[test]
fn not_even_empty_datagrams_are_kept_without_end() {
    let mut server = Program::new(|now, host| listening(now, host, block(Service::Connection)), |_, _, _, _| {});
    server.keeps_datagrams = true;
    let client = Program::new(
        |now, host| {
            for _ in 0..200 {
                send(now, host, SERVER, block(Service::UnackDgram), &[]);
            }
        },
        |_, _, _, _| {},
    );
    let [mut there, here] = configs(Codec::Xtp40);
    there.limits.datagrams = 100;
    let mut world = world([there, here], "delay=10ms", server, client);
    quiet(&mut world);
    assert_eq!(world.application(SERVER).datagrams.len(), 100);
    assert_eq!(world.engine(SERVER).counters().data_packets_dropped, 100);
}

//= X-15 test
//= X-21 test
#[test]
fn an_isochronous_stream_goes_on_over_its_holes() {
    // Whether it waits for the peer or not: what is lost has been taken as well.
    for (codec, holds_back) in CODECS.into_iter().flat_map(|codec| [(codec, false), (codec, true)]) {
        let client = Program::new(
            move |now, host| {
                let block = ControlBlock { holds_back, rwindow: 70_000, ..block(Service::IsoStream) };
                let context = send(now, host, SERVER, block, &pattern(200_000, 6));
                host.call(|engine| engine.close(now, context, Close::Full)).expect("open");
            },
            |_, _, _, _| {},
        );
        let mut world = world(configs(codec), "delay=10ms,loss=5%", answering(None), client);
        quiet(&mut world);
        let (server, client) = (world.application(SERVER).only(), world.application(CLIENT).only());
        assert_eq!((server.closed, client.closed), (Some(Ok(())), Some(Ok(()))), "{codec:?}");
        assert_eq!(world.engine(CLIENT).counters().data_packets_resent, 0, "nothing is repeated");
        let mut expected = pattern(200_000, 6);
        assert_eq!(server.bytes.len(), expected.len());
        assert!(!server.holes.is_empty());
        let lost: u64 = server.holes.iter().map(|(_, len)| len).sum();
        assert!(lost < 40_000, "{lost}");
        let mut got = server.bytes.clone();
        for (at, len) in &server.holes {
            let range = *at as usize..(*at + *len) as usize;
            got[range.clone()].fill(0);
            expected[range].fill(0);
        }
        assert!(got == expected, "what is no hole is right");
    }
}

//= X-8 test
//= X-21 test
#[test]
fn bulk_data_fills_what_is_posted_and_no_more() {
    for codec in CODECS {
        let posted = Rc::new(RefCell::new(Vec::new()));
        let filled = Rc::clone(&posted);
        let server = Program::new(
            |now, host| listening(now, host, block(Service::BulkData)),
            move |now, event, _, host| match event {
                Event::Accepted { context, .. } => {
                    for _ in 0..3 {
                        let buffer = host.add_buffer(vec![0; 40_000]);
                        host.call(|engine| engine.post(now, *context, buffer, 0, 40_000)).expect("open");
                    }
                }
                Event::Filled { buffer, .. } => filled.borrow_mut().push(host.take_buffer(*buffer)),
                Event::Readable { context }
                    if host.engine().readable(*context).is_some_and(|readable| readable.is_end) =>
                {
                    host.call(|engine| engine.close(now, *context, Close::Full)).ok();
                }
                _ => {}
            },
        );
        let client = Program::new(
            |now, host| {
                let context = send(now, host, SERVER, block(Service::BulkData), &pattern(120_000, 7));
                host.call(|engine| engine.close(now, context, Close::Full)).expect("open");
            },
            |_, _, _, _| {},
        );
        let mut world = world(configs(codec), "delay=10ms,loss=2%", server, client);
        quiet(&mut world);
        let (server, client) = (world.application(SERVER).only(), world.application(CLIENT).only());
        assert_eq!((server.closed, client.closed), (Some(Ok(())), Some(Ok(()))), "{codec:?}");
        assert!(posted.borrow().concat() == pattern(120_000, 7));
    }
}

#[test]
fn what_is_queued_while_much_is_under_way_shares_trains() {
    use pinnace_core::Engine;
    let client = Program::new(
        |now, host| {
            send(now, host, SERVER, block(Service::Connection), &pattern(230_000, 0));
        },
        |now, event, _, host| {
            let Event::Connected { context } = *event else { return };
            assert!(host.engine().facts(context).expect("open").in_flight > 200_000);
            let sent = host.engine().counters().data_packets_sent;
            let buffers: Vec<_> = (0..30).map(|_| host.add_buffer(pattern(1_000, 0))).collect();
            host.call(|engine| {
                engine.handle_hold(true);
                for buffer in &buffers[..20] {
                    engine.send(now, context, Output::message(*buffer, 1_000)).expect("room");
                }
            });
            assert_eq!(host.engine().counters().data_packets_sent, sent, "a fuller train may still come");
            host.call(|engine| engine.handle_hold(false));
            assert_eq!(host.engine().counters().data_packets_sent, sent + 20);
            host.call(|engine| engine.handle_hold(true));
            host.call(|engine| {
                for buffer in &buffers[20..] {
                    engine.send(now, context, Output::message(*buffer, 1_000)).expect("room");
                }
                engine.close(now, context, Close::Full).expect("open");
            });
            assert_eq!(host.engine().counters().data_packets_sent, sent + 30, "the end of a stream waits for nothing");
        },
    );
    let mut world = world(configs(Codec::Xtp40), "delay=5ms", answering(None), client);
    quiet(&mut world);
    assert_eq!(world.application(SERVER).only().ends.len(), 31);
    assert_eq!(world.application(CLIENT).only().closed, Some(Ok(())));
}

#[test]
fn as_much_is_waited_for_as_is_under_way_while_more_is_queued() {
    use pinnace_core::Engine;
    let client = Program::new(
        |now, host| {
            send(now, host, SERVER, block(Service::Connection), &pattern(10, 0));
        },
        |now, event, _, host| {
            let Event::Connected { context } = *event else { return };
            assert_eq!(host.engine().facts(context).expect("open").in_flight, 0);
            let before = host.engine().counters().data_packets_sent;
            host.call(|engine| engine.handle_hold(true));
            let mut sent = Vec::new();
            for _ in 0..9 {
                let buffer = host.add_buffer(pattern(1_000, 0));
                let output = Output::message(buffer, 1_000);
                host.call(|engine| engine.send(now, context, output)).expect("room");
                sent.push(host.engine().counters().data_packets_sent - before);
            }
            assert_eq!(sent, [1, 1, 3, 3, 3, 3, 7, 7, 7]);
            host.call(|engine| engine.handle_hold(false));
            assert_eq!(host.engine().counters().data_packets_sent - before, 9);
            host.call(|engine| engine.close(now, context, Close::Full).expect("open"));
        },
    );
    let mut world = world(configs(Codec::Xtp40), "delay=5ms", answering(None), client);
    quiet(&mut world);
    assert_eq!(world.application(CLIENT).only().closed, Some(Ok(())));
}

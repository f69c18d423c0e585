//! Best effort over XTP: nothing is repeated, and yet a message begins and ends where it was sent to, or is missing and counted.

use super::body::{LONG, Pair, pair_of, pair_with, pattern, under};
use pinnace::link::FaultOptions;
use pinnace::service::{Method, Service};
use pinnace::vrp::Contract;
use pinnace::{Connection, PerMessage};
use std::ops::Range;
use std::time::{Duration, Instant};

const MESSAGES: u32 = 600;

fn service() -> Service {
    "loss=any direction=duplex largest=256KiB".parse().unwrap()
}

fn lossy() -> Pair {
    let fault = FaultOptions {
        loss: 0.1,
        duplication: 0.02,
        reordering: 0.02,
        reordering_distance: 3,
        ..FaultOptions::default()
    };
    pair_with(Method::Xtp, &service(), &under(fault))
}

/// Most are a packet; one in twenty has four, even on loopback.
fn bytes_of(number: u32) -> Vec<u8> {
    let len = if number % 20 == 7 { 230_000 } else { 4 + number as usize * 131 % 3000 };
    let mut bytes = pattern(len, number as u8);
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// What has come of them.
#[derive(Default)]
struct Seen {
    whole: u32,
    with_holes: u32,
    missed: u32,
}

impl Seen {
    /// The next message, which says how many are missing before it.
    fn take(&mut self, bytes: &[u8], holes: &[Range<usize>], missed: u64) {
        let number = self.whole + self.with_holes + self.missed + missed as u32;
        let expected = bytes_of(number);
        assert_eq!(
            (bytes.len(), &bytes[..4]),
            (expected.len(), &number.to_be_bytes()[..]),
            "{missed} are missing before"
        );
        let mut at = 0;
        for hole in holes {
            assert!(hole.start >= at && hole.end > hole.start && hole.end <= bytes.len(), "{number}: {hole:?}");
            assert!(bytes[at..hole.start] == expected[at..hole.start], "{number} before {hole:?}");
            assert!(bytes[hole.clone()].iter().all(|byte| *byte == 0), "{number}: {hole:?} reads as zeros");
            at = hole.end;
        }
        assert!(bytes[at..] == expected[at..], "{number}: the end");
        self.missed += missed as u32;
        *if holes.is_empty() { &mut self.whole } else { &mut self.with_holes } += 1;
    }

    fn check(&self) {
        let Self { whole, with_holes, missed } = *self;
        let told = whole + with_holes + missed;
        // Behind the last that comes nothing tells what is missing.
        assert!(told <= MESSAGES && told > MESSAGES - 30, "{whole}, {with_holes}, {missed}");
        assert!(whole > MESSAGES / 2 && with_holes > 0 && missed > 10, "{whole}, {with_holes}, {missed}");
    }
}

fn send_all(connection: &Connection) {
    for number in 0..MESSAGES {
        drop(connection.send(bytes_of(number)).unwrap());
        if number % 8 == 0 {
            // Nothing holds it back for a receiver that is slow.
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn messages_are_whole_or_say_what_is_missing() {
    let Pair { client, server, _endpoint } = lossy();
    for (from, to) in [(&client, &server), (&server, &client)] {
        let mut seen = Seen::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                send_all(from);
                from.close(LONG).unwrap();
            });
            while let Some(received) = to.recv_timeout(LONG).unwrap() {
                seen.take(&received, received.holes(), received.missed());
            }
        });
        seen.check();
    }
}

#[test]
fn messages_are_received_into_memory_of_the_caller_s() {
    let Pair { client, server, _endpoint } = lossy();
    let (mut seen, mut buffer) = (Seen::default(), vec![0xEE; 256 << 10]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            send_all(&client);
            client.close(LONG).unwrap();
        });
        while let Some(into) = server.recv_into_timeout(&mut buffer, LONG).unwrap() {
            seen.take(&buffer[..into.len], &into.holes, into.missed);
        }
    });
    seen.check();
}

#[test]
fn tasks_receive_the_same() {
    let Pair { client, server, _endpoint } = lossy();
    let mut seen = Seen::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pollster::block_on(async {
                for number in 0..MESSAGES {
                    drop(client.send_async(bytes_of(number)).await.unwrap());
                    std::thread::sleep(Duration::from_micros(100));
                }
                client.close_async(LONG).await.unwrap();
            });
        });
        pollster::block_on(async {
            while let Some(received) = server.recv_async().await.unwrap() {
                seen.take(&received, received.holes(), received.missed());
            }
        });
    });
    seen.check();
}

#[test]
fn several_send_at_once_and_none_is_missing_where_nothing_is_lost() {
    let Pair { client, server, _endpoint } = pair_of(Method::Xtp, &service());
    for len in [0, 1, 1000, 200_000] {
        drop(client.send(pattern(len, 5)).unwrap());
        let received = server.recv_timeout(LONG).unwrap().unwrap();
        assert!(*received == *pattern(len, 5) && received.is_whole() && received.missed() == 0, "{len} bytes");
    }
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let client = &client;
            scope.spawn(move || {
                for number in 0..200u8 {
                    let message = vec![thread, number, 9, 9];
                    match thread {
                        0 => drop(client.send(message).unwrap()),
                        1 => while client.try_send(message.clone()).is_err() {},
                        _ => drop(pollster::block_on(client.send_async(message)).unwrap()),
                    }
                }
            });
        }
        let mut next = [0; 3];
        for _ in 0..600 {
            let received = server.recv_timeout(LONG).unwrap().unwrap();
            assert_eq!((received.missed(), received[1]), (0, next[usize::from(received[0])]), "{:?}", &*received);
            next[usize::from(received[0])] += 1;
        }
    });
}

#[test]
fn what_repeats_nothing_promises_nothing() {
    let Pair { client, server, _endpoint } = pair_of(Method::Xtp, &service());
    let error = client.set_service(&"direction=duplex largest=256KiB".parse().unwrap()).unwrap_err().to_string();
    assert!(error.contains("xtp") && error.contains("repeats nothing"), "{error}");
    assert_eq!(client.service(), service());
    client.set_service(&"loss=any direction=duplex largest=256KiB priority=3".parse().unwrap()).unwrap();
    // On a path that is shared nothing but its rate would keep it from flooding others.
    let paced: Service = "loss=any direction=duplex path=internet rate=100mbit".parse().unwrap();
    for method in [Method::Xtp, Method::A1] {
        let paced = pair_of(method, &paced);
        let error = paced.client.set_service(&"loss=any direction=duplex path=internet".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("rate"), "{error}");
    }
    let a1 = pair_of(Method::A1, &service());
    for connection in [&client, &a1.client] {
        let unsent = connection.send_with(vec![1], &PerMessage::new().contract(Contract::reliable())).unwrap_err();
        let text = unsent.error.to_string();
        assert!(unsent.message.is_some() && text.contains("best effort"), "{text}");
    }
    drop(client.send(vec![2]).unwrap());
    assert_eq!(&*server.recv_timeout(LONG).unwrap().unwrap(), [2]);
    // One that repeats everything does more than any contract says.
    let reliable = pair_of(Method::Xtp, &Service::new());
    drop(reliable.client.send_with(vec![3], &PerMessage::new().contract(Contract::reliable())).unwrap());
    assert_eq!(&*reliable.server.recv_timeout(LONG).unwrap().unwrap(), [3]);
}

#[test]
fn the_way_back_is_held_to_the_rate_as_well() {
    const MESSAGES: u32 = 50;
    for method in [Method::Xtp, Method::A1, Method::Vrp] {
        let service = "rate=4mbit burst=64KiB direction=duplex size=10000".parse().unwrap();
        let Pair { client, server, _endpoint } = pair_of(method, &service);
        let begun = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..MESSAGES).for_each(|_| drop(server.send(vec![7; 10_000]).unwrap())));
            for _ in 0..MESSAGES {
                assert_eq!(client.recv().unwrap().unwrap().len(), 10_000);
            }
        });
        // Half a megabyte at half a megabyte a second.
        assert!(begun.elapsed() > Duration::from_millis(700), "{method:?}: {:?}", begun.elapsed());
    }
}

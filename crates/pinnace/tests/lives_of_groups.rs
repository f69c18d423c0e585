//! Lives of connections to several receivers at random: receivers come, are slow, go, and are removed, while a source sends.
//!
//! What holds of each stay of a receiver, whatever all others do:
//!
//! - It gets what was sent from when it was added on, in order, unaltered, and without a gap.
//! - If it is told the end, it has all that was sent until it was removed, or the source closed.
//! - If its removal has succeeded, or it was there when a `close` has succeeded, it is told the end.
//! - Nobody waits for ever.
//!
//! `PINNACE_LIVES=N` lives N lives instead of a few, `PINNACE_SEED` begins with another seed.
#![allow(clippy::print_stdout)] // A test at random says its seed.

use pinnace::a1::SlowSink;
use pinnace::link::FaultOptions;
use pinnace::service::{PathClass, Service};
use pinnace::{Connection, Endpoint, EndpointOptions, Error, Listener};
use pinnace_core::{Random, mix64};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(30);
const RECEIVERS: usize = 4;

/// How a stay has ended for its receiver.
#[derive(Debug)]
enum End {
    Told,
    Failed(Error),
    /// It has gone by itself.
    Gone,
}

/// What a receiver has got while it was there.
#[derive(Debug)]
struct Got {
    /// The number of the first message, and how many there were.
    first: Option<usize>,
    count: usize,
    end: End,
}

/// The same stay as the source knows it.
#[derive(Debug)]
struct Stay {
    /// The numbers of the first message and of that behind the last.
    from: usize,
    to: usize,
    /// It must have been told the end.
    is_told: bool,
}

fn message(number: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![mix64(number as u64) as u8; len.max(4)];
    bytes[..4].copy_from_slice(&(number as u32).to_be_bytes());
    bytes
}

fn rests(random: &mut Random, most: Duration) {
    if random.chance(0.2) {
        thread::sleep(most.mul_f64(random.unit_f64()));
    }
}

fn stay(connection: &Connection, lens: &[usize], mut random: Random) -> Got {
    let rest = Duration::from_micros([0, 0, 200, 3_000][random.below(4) as usize]);
    let most = if random.chance(0.25) { random.below(lens.len() as u64) as usize } else { usize::MAX };
    let mut got = Got { first: None, count: 0, end: End::Gone };
    while got.count < most {
        rests(&mut random, rest);
        match connection.recv_timeout(LONG) {
            Ok(Some(received)) => {
                let number = u32::from_be_bytes(received[..4].try_into().unwrap()) as usize;
                let expected = got.first.map_or(number, |first| first + got.count);
                assert!(*received == *message(expected, lens[expected]), "message {expected}, and not {number}");
                got.first = got.first.or(Some(number));
                got.count += 1;
            }
            Ok(None) => {
                got.end = End::Told;
                return got;
            }
            Err(error) => {
                got.end = End::Failed(error);
                return got;
            }
        }
    }
    if random.chance(0.5) {
        connection.abort();
    }
    got
}

/// All stays of one receiver, in order.
fn attend(listener: &Listener, lens: &[usize], is_over: &AtomicBool, random: &mut Random) -> Vec<Got> {
    thread::scope(|scope| {
        let mut stays = Vec::new();
        loop {
            let over = is_over.load(Ordering::Relaxed);
            if let Some(connection) = listener.accept_timeout(Duration::from_millis(300)).unwrap() {
                let random = random.fork();
                stays.push(scope.spawn(move || stay(&connection, lens, random)));
            } else if over {
                break;
            }
        }
        stays.into_iter().map(|stay| stay.join().unwrap()).collect()
    })
}

/// Sends everything, and adds and removes receivers meanwhile. Returns the stays of each.
fn send(source: Connection, listeners: &[Listener], lens: &[usize], random: &mut Random) -> Vec<Vec<Stay>> {
    let mut stays: Vec<Vec<Stay>> = listeners.iter().map(|_| Vec::new()).collect();
    let mut there = [true, true, false, false];
    (0..2).for_each(|at| stays[at].push(Stay { from: 0, to: 0, is_told: false }));
    let rest = Duration::from_micros([0, 200, 2_000][random.below(3) as usize]);
    let changes = [0.0, 0.05, 0.2][random.below(3) as usize];
    for (number, &len) in lens.iter().enumerate() {
        rests(random, rest);
        if random.chance(changes) {
            let at = random.below(RECEIVERS as u64) as usize;
            let address = listeners[at].local_addr();
            if !there[at] {
                source.add_receiver(&address.to_string()).unwrap();
                stays[at].push(Stay { from: number, to: number, is_told: false });
            } else {
                let linger = if random.chance(0.5) { LONG } else { Duration::from_millis(random.below(5)) };
                // One that has gone by itself is no receiver any more.
                let removed = source.remove_receiver(address, linger);
                let stay = stays[at].last_mut().unwrap();
                (stay.to, stay.is_told) = (number, removed.is_ok());
            }
            there[at] = !there[at];
        }
        // Nobody may be there.
        let _ = source.send(message(number, len));
    }
    let closed = match random.below(3) {
        0 => source.close(LONG).is_ok(),
        1 => source.close(Duration::from_millis(random.below(5))).is_ok(),
        _ => false,
    };
    for at in (0..RECEIVERS).filter(|at| there[*at]) {
        let stay = stays[at].last_mut().unwrap();
        (stay.to, stay.is_told) = (lens.len(), closed);
    }
    drop(source);
    stays
}

fn check(stay: &Stay, got: &Got) {
    let story = || format!("{stay:?}: {got:?}");
    match got.end {
        End::Failed(Error::Timeout) => panic!("waits for ever: {}", story()),
        End::Told => assert_eq!(got.count, stay.to - stay.from, "the end is told too early: {}", story()),
        End::Failed(_) => assert!(!stay.is_told, "it was to be told the end: {}", story()),
        End::Gone => {}
    }
    assert!(got.first.is_none_or(|first| first == stay.from), "not from the first on: {}", story());
}

/// Says when it is dropped that nobody comes any more.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn live(seed: u64) {
    let mut random = Random::from_seed(seed);
    let faults = FaultOptions { loss: 0.05, duplication: 0.02, reordering: 0.02, seed, ..FaultOptions::default() };
    let fault = random.chance(0.5).then_some(faults);
    println!("PINNACE_SEED={seed}{}", if fault.is_some() { ", a path that loses" } else { "" });
    let slow_receiver = SlowSink::Drop { patience: LONG };
    let options =
        EndpointOptions { fault, slow_receiver, peer_timeout: Duration::from_secs(8), ..EndpointOptions::default() };
    let endpoints: Vec<_> = (0..RECEIVERS).map(|_| Endpoint::bind_with("127.0.0.1:0", &options).unwrap()).collect();
    let most = Service::new().path(PathClass::Cluster);
    let listeners: Vec<_> = endpoints.iter().map(|endpoint| endpoint.listen(&most).unwrap()).collect();
    let len = |random: &mut Random| {
        let most = [8, 1_400, 60_000][random.below(3) as usize];
        random.below(most) as usize
    };
    let lens: Vec<usize> = (0..1 + random.below(150)).map(|_| len(&mut random)).collect();
    let is_over = AtomicBool::new(false);
    let (stays, got) = thread::scope(|scope| {
        // Also if the source panics: its receivers would wait for ever.
        let over = Over(&is_over);
        let attending: Vec<_> = listeners
            .iter()
            .map(|listener| {
                let (mut random, lens, is_over) = (random.fork(), &lens, &is_over);
                scope.spawn(move || attend(listener, lens, is_over, &mut random))
            })
            .collect();
        let first: Vec<_> = listeners[..2].iter().map(|listener| listener.local_addr().to_string()).collect();
        let service = Service::new().largest(1 << 20);
        let source = Endpoint::client_with(&options).connect_all(&first, &service).unwrap();
        let stays = send(source, &listeners, &lens, &mut random);
        drop(over);
        (stays, attending.into_iter().map(|it| it.join().unwrap()).collect::<Vec<_>>())
    });
    for (stays, got) in stays.iter().zip(&got) {
        assert_eq!(stays.len(), got.len(), "{stays:?}: {got:?}");
        stays.iter().zip(got).for_each(|(stay, got)| check(stay, got));
    }
}

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

//= A-15 test
#[test]
fn a_source_loses_nothing_in_silence() {
    let first = number_of("PINNACE_SEED").unwrap_or(1);
    for seed in first..first + number_of("PINNACE_LIVES").unwrap_or(8) {
        live(seed);
    }
}

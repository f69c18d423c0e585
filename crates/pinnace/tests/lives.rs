//! Lives of connections at random: however both ends send, read, wait and go, nothing is lost in silence.
//!
//! What holds of each direction of a reliable service, whatever its two ends do:
//!
//! - What is received is what was sent, in order, unaltered, once; where something is missing, the message behind it says so.
//! - A receiver that is told the end has all that was begun to be sent.
//! - A message whose delivery has succeeded is received by whoever reads until the end, or until an error.
//! - After a `close` that has succeeded a receiver that reads is told the end.
//! - Nobody waits for ever.
//!
//! `PINNACE_LIVES=N` lives N connections a method instead of a few, `PINNACE_SEED` begins with another seed.
#![allow(clippy::print_stdout)] // A test at random says its seed.

use pinnace::daemon::{Daemon, DaemonOptions};
use pinnace::link::FaultOptions;
use pinnace::service::{Method, PathClass, Selection, Service};
use pinnace::zcrp::Progress;
use pinnace::{Connection, ConnectionError, Delivery, Endpoint, EndpointOptions, Error, Listener, Received, Unsent};
use pinnace_core::{Random, mix64};
use std::collections::BTreeSet;
use std::pin::pin;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(30);
/// In the environment of a process that finds a daemon.
const WITH_DAEMON: &str = "PINNACE_TEST_DAEMON";
/// Bytes of a message, at most.
const LARGEST: usize = 300_000;
/// As many live at the same time, with one listener.
const TOGETHER: usize = 5;

/// How an end goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Going {
    /// Waits for what it has sent, however long that takes.
    Closes,
    /// Does not.
    ClosesAtOnce,
    /// Only drops the connection.
    Drops,
    BreaksOff,
}

/// How an end calls the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Waits,
    /// Never waits, and looks again: to send; into memory of its own, which may be too small: to receive.
    Looks,
    /// Tasks, that are given up for something else, and begun anew.
    Tasks,
    /// The same, into memory of its own.
    TasksWithMemory,
}

/// What one end does in its life.
#[derive(Clone, Debug)]
struct Plan {
    /// Which connection, and which of its ends: the seed of what is sent.
    whose: u8,
    lens: Vec<usize>,
    manner: Manner,
    /// Waits for each delivery before it sends the next message.
    is_patient: bool,
    /// Sometimes rests before it sends or receives, at most so long.
    rest: Duration,
    /// Stops reading after so many messages.
    reads: Option<usize>,
    going: Going,
}

/// What has become of what one end has sent.
#[derive(Debug)]
struct Sent {
    /// Messages whose sending has begun.
    begun: usize,
    /// Those that have certainly arrived.
    arrived: BTreeSet<usize>,
    /// What `close` has said, if it was asked to wait.
    closed: Option<Result<(), Error>>,
}

/// How reading has ended.
#[derive(Debug)]
enum End {
    /// The peer has told the end.
    Told,
    Failed(Error),
    /// This end read no more.
    Enough,
}

#[derive(Debug)]
struct Took {
    messages: BTreeSet<usize>,
    end: End,
}

/// One end's life, as it was.
#[derive(Debug)]
struct Life {
    plan: Plan,
    sent: Sent,
    took: Took,
}

fn pattern(whose: u8, number: usize, len: usize) -> Vec<u8> {
    let seed = mix64(u64::from(whose) << 32 | number as u64);
    let mut bytes: Vec<u8> = (0..len).map(|at| (mix64(seed ^ (at as u64 >> 3)) >> (at % 8 * 8)) as u8).collect();
    // Whose it is, so that whoever accepts knows.
    if let Some(first) = bytes.first_mut() {
        *first = whose;
    }
    bytes
}

fn plan(random: &mut Random, whose: u8) -> Plan {
    let most = [1, 3, 30, 200][random.below(4) as usize];
    let messages = 1 + random.below(most) as usize;
    let largest = if messages > 30 { 3_000 } else { LARGEST as u64 };
    let len = |random: &mut Random| match random.below(4) {
        0 => 1,
        1 => 1 + random.below(1_400) as usize,
        _ => 1 + random.below(largest) as usize,
    };
    let lens = (0..messages).map(|_| len(random)).collect();
    let going = [Going::Closes, Going::Closes, Going::ClosesAtOnce, Going::Drops, Going::Drops, Going::BreaksOff];
    Plan {
        whose,
        lens,
        manner: [Manner::Waits, Manner::Looks, Manner::Tasks, Manner::TasksWithMemory][random.below(4) as usize],
        is_patient: random.below(5) == 0,
        rest: Duration::from_micros([0, 0, 200, 5_000][random.below(4) as usize]),
        reads: (random.below(4) == 0).then(|| random.below(messages as u64) as usize),
        going: going[random.below(6) as usize],
    }
}

/// Both ends' plans. Who does not read makes the other wait, which must not do the same.
fn plans(random: &mut Random, number: u8) -> [Plan; 2] {
    let mut both = [plan(random, 2 * number), plan(random, 2 * number + 1)];
    if both[0].reads.is_some() && both[1].reads.is_some() {
        both[random.below(2) as usize].reads = None;
    }
    // Two that both read until the other ends, and end only then, wait for ever.
    if both.iter().all(|plan| plan.going == Going::Drops) {
        both[1].going = Going::Closes;
    }
    if random.below(2) == 0 {
        both[1].lens.clear();
    }
    both
}

fn rests(random: &mut Random, rest: Duration) {
    if !rest.is_zero() && random.below(4) == 0 {
        thread::sleep(rest.mul_f64(random.unit_f64()));
    }
}

/// Wakes a thread.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// What comes of it within this time. `None`: it is given up.
fn block_on_for<T>(time: Duration, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, end) = (pin!(future), Instant::now() + time);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(result);
        }
        thread::park_timeout(end.checked_duration_since(Instant::now())?);
    }
}

/// Begins to send. What was given up was not sent.
fn begin(connection: &Connection, manner: Manner, message: &[u8], random: &mut Random) -> Result<Delivery, Unsent> {
    loop {
        match manner {
            Manner::Waits => return connection.send(message),
            Manner::Looks => match connection.try_send(message) {
                Err(unsent) if unsent.error.would_block() => thread::sleep(Duration::from_micros(300)),
                sent => return sent,
            },
            Manner::Tasks | Manner::TasksWithMemory => {
                if let Some(sent) = block_on_for(soon(random), connection.send_async(message)) {
                    return sent;
                }
            }
        }
    }
}

fn soon(random: &mut Random) -> Duration {
    Duration::from_micros(random.below(2_000))
}

/// The next message, and how many are missing before it.
fn next(connection: &Connection, manner: Manner, random: &mut Random) -> Result<Option<(Vec<u8>, u64)>, Error> {
    let whole = |received: Received| {
        assert!(received.is_whole());
        (received.to_vec(), received.missed())
    };
    let end = Instant::now() + LONG;
    let mut memory = vec![0; [1, 1_400, LARGEST][random.below(3) as usize]];
    while Instant::now() < end {
        let received = match manner {
            Manner::Waits => return Ok(connection.recv_timeout(LONG)?.map(whole)),
            Manner::Tasks => match block_on_for(soon(random), connection.recv_async()) {
                Some(received) => return Ok(received?.map(whole)),
                None => continue,
            },
            Manner::Looks => connection.recv_into_timeout(&mut memory, soon(random)),
            Manner::TasksWithMemory => match block_on_for(soon(random), connection.recv_into_async(&mut memory)) {
                Some(received) => received,
                None => continue,
            },
        };
        match received {
            Err(Error::Timeout) => {}
            Err(Error::MessageTooLong(most)) if most < LARGEST as u64 => memory = vec![0; LARGEST],
            received => {
                return Ok(received?.map(|into| {
                    assert!(into.holes.is_empty());
                    memory.truncate(into.len);
                    (memory, into.missed)
                }));
            }
        }
    }
    Err(Error::Timeout)
}

fn send(connection: &Connection, plan: &Plan, mut random: Random) -> Sent {
    let mut sent = Sent { begun: 0, arrived: BTreeSet::new(), closed: None };
    let mut under_way: Vec<(usize, Delivery)> = Vec::new();
    for (number, &len) in plan.lens.iter().enumerate() {
        rests(&mut random, plan.rest);
        let message = pattern(plan.whose, number, len);
        let Ok(delivery) = begin(connection, plan.manner, &message, &mut random) else { break };
        sent.begun += 1;
        if !plan.is_patient {
            under_way.push((number, delivery));
        } else if delivery.wait().is_ok() {
            sent.arrived.insert(number);
        } else {
            break;
        }
    }
    let linger = match plan.going {
        Going::Closes => Some(LONG),
        Going::ClosesAtOnce => Some(Duration::from_millis(random.below(3))),
        Going::Drops | Going::BreaksOff => None,
    };
    sent.closed = linger.map(|linger| match plan.manner {
        Manner::Waits | Manner::Looks => connection.close(linger),
        Manner::Tasks | Manner::TasksWithMemory => pollster::block_on(connection.close_async(linger)),
    });
    for (number, delivery) in under_way {
        // The others go on until the connection ends.
        match delivery.wait_timeout(Duration::from_millis(1)) {
            Progress::Ended(Ok(_)) => {
                sent.arrived.insert(number);
            }
            Progress::Ended(Err(_)) | Progress::UnderWay(_) => {}
        }
    }
    if plan.going == Going::BreaksOff {
        connection.abort();
    }
    sent
}

/// Reads, behind the message that was `taken` already.
fn take(connection: &Connection, plan: &Plan, peer: &Plan, taken: Option<usize>, mut random: Random) -> Took {
    let mut took = Took { messages: taken.into_iter().collect(), end: End::Enough };
    let mut number = taken.map_or(0, |taken| taken + 1);
    while plan.reads.is_none_or(|most| took.messages.len() < most) {
        rests(&mut random, plan.rest);
        match next(connection, plan.manner, &mut random) {
            Ok(Some((message, missed))) => {
                number += missed as usize;
                assert!(number < peer.lens.len(), "more messages than of {peer:?}");
                assert!(message == pattern(peer.whose, number, peer.lens[number]), "message {number} of {peer:?}");
                took.messages.insert(number);
                number += 1;
            }
            Ok(None) => {
                took.end = End::Told;
                break;
            }
            Err(error) => {
                took.end = End::Failed(error);
                break;
            }
        }
    }
    took
}

/// Sends and reads as planned, and goes.
fn live(connection: Connection, plan: &Plan, peer: &Plan, taken: Option<usize>, mut random: Random) -> Life {
    let (one, other) = (random.fork(), random.fork());
    let (sent, took) = thread::scope(|scope| {
        let taking = scope.spawn(|| take(&connection, plan, peer, taken, one));
        let sent = send(&connection, plan, other);
        (sent, taking.join().unwrap())
    });
    drop(connection);
    Life { plan: plan.clone(), sent, took }
}

/// Reads the first message, which says who has come.
fn serve(connection: Connection, plans: &[[Plan; 2]], mut random: Random) -> Option<Life> {
    rests(&mut random, Duration::from_millis(5));
    let first = connection.recv_timeout(LONG).ok().flatten()?;
    let [client, server] = &plans[usize::from(first[0] / 2)];
    // What was before it may have been given up.
    let number = first.missed() as usize;
    assert!(*first == *pattern(client.whose, number, client.lens[number]), "message {number} of {client:?}");
    Some(live(connection, server, client, Some(number), random))
}

/// All that holds of what `from` has sent and `to` has read. `None`: nobody was there, or nothing has come.
fn check(from: &Life, to: Option<&Life>) {
    let Sent { begun, arrived, closed } = &from.sent;
    let nobody = Took { messages: BTreeSet::new(), end: End::Failed(ConnectionError::Closed.into()) };
    let took = to.map_or(&nobody, |life| &life.took);
    let story = || format!("{from:#?}\nto {to:#?}");
    match took.end {
        End::Failed(Error::Timeout) => panic!("waits for ever: {}", story()),
        End::Told => assert_eq!(took.messages.len(), *begun, "the end is told too early: {}", story()),
        // Whoever breaks off is told nothing more.
        End::Failed(_) if to.is_some_and(|to| to.plan.going == Going::BreaksOff) => {}
        End::Failed(_) => {
            assert!(!matches!(closed, Some(Ok(()))), "closed, and the end was not told: {}", story());
            assert!(took.messages.is_superset(arrived), "what has arrived is not received: {}", story());
        }
        End::Enough => {}
    }
}

fn within_time<R: Send>(what: &str, seed: u64, run: impl FnOnce() -> R + Send) -> R {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let end = Instant::now() + 4 * LONG;
            while !done.load(Ordering::Relaxed) {
                if Instant::now() > end {
                    println!("{what}, seed {seed}: hangs");
                    std::process::abort();
                }
                thread::sleep(Duration::from_millis(50));
            }
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        done.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Some connections at the same time.
fn together(method: Method, seed: u64) {
    let mut random = Random::from_seed(seed);
    let fault = random.chance(0.6).then(|| FaultOptions {
        loss: 0.05,
        duplication: 0.02,
        reordering: 0.02,
        seed,
        ..FaultOptions::default()
    });
    println!("{method}, PINNACE_SEED={seed}{}", if fault.is_some() { ", a path that loses" } else { "" });
    let plans: Vec<_> = (0..TOGETHER as u8).map(|number| plans(&mut random, number)).collect();
    // Those two stay at home.
    let stays = matches!(method, Method::Qmp | Method::SharedMemory);
    let path = if random.chance(0.5) && !stays { "internet" } else { "host" };
    let service: Service = format!("direction=duplex largest=1MiB path={path}").parse().unwrap();
    let options = EndpointOptions { fault, peer_timeout: Duration::from_secs(8), ..EndpointOptions::default() };
    let endpoint = Endpoint::bind_with("127.0.0.1:0", &options).unwrap();
    let listener = endpoint.listen(&Service::new().path(PathClass::Cluster)).unwrap();
    let peer = listener.local_addr().to_string();
    let selection = Selection { forced: Some(method), ..Selection::default() };
    let client = Endpoint::client_with(&EndpointOptions { selection, ..options });
    let all_went = AtomicBool::new(false);
    let (clients, servers) = thread::scope(|scope| {
        let serving = {
            let (mut random, plans, listener, all_went) = (random.fork(), &plans, &listener, &all_went);
            scope.spawn(move || accept_all(scope, listener, plans, all_went, &mut random))
        };
        let clients: Vec<_> = plans
            .iter()
            .map(|[plan, peers]| {
                let (mut random, client, peer, service) = (random.fork(), &client, &peer, &service);
                scope.spawn(move || {
                    rests(&mut random, Duration::from_millis(20));
                    let connection = client.connect(peer, service).unwrap();
                    live(connection, plan, peers, None, random)
                })
            })
            .collect();
        let clients: Vec<_> = clients.into_iter().map(|life| life.join().unwrap()).collect();
        all_went.store(true, Ordering::Relaxed);
        (clients, serving.join().unwrap())
    });
    for client in &clients {
        let server = servers.iter().find(|server| server.plan.whose == client.plan.whose + 1);
        check(client, server);
        if let Some(server) = server {
            check(server, Some(client));
        }
    }
}

/// Accepts until all clients have gone, and nobody comes any more.
fn accept_all<'s>(
    scope: &'s Scope<'s, '_>,
    listener: &'s Listener,
    plans: &'s [[Plan; 2]],
    all_went: &'s AtomicBool,
    random: &mut Random,
) -> Vec<Life> {
    let mut serving: Vec<ScopedJoinHandle<'s, Option<Life>>> = Vec::new();
    loop {
        let went = all_went.load(Ordering::Relaxed);
        rests(random, Duration::from_millis(20));
        if let Some(connection) = listener.accept_timeout(Duration::from_millis(500)).unwrap() {
            let random = random.fork();
            serving.push(scope.spawn(move || serve(connection, plans, random)));
        } else if went {
            break;
        }
    }
    serving.into_iter().filter_map(|life| life.join().unwrap()).collect()
}

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

fn lives(method: Method) {
    let first = number_of("PINNACE_SEED").unwrap_or(1);
    let rounds = number_of("PINNACE_LIVES").unwrap_or(20).div_ceil(TOGETHER as u64);
    // A seed says all: which plans, which faults.
    for seed in first..first + rounds {
        within_time(method.name(), seed, || together(method, seed));
    }
}

#[test]
fn xtp_loses_nothing_in_silence() {
    lives(Method::Xtp);
}

#[test]
fn qmp_loses_nothing_in_silence() {
    lives(Method::Qmp);
}

#[test]
fn zcrp_loses_nothing_in_silence() {
    lives(Method::Zcrp);
}

#[test]
fn vrp_loses_nothing_in_silence() {
    lives(Method::Vrp);
}

#[test]
fn shared_memory_loses_nothing_in_silence() {
    if std::env::var_os(WITH_DAEMON).is_some() {
        return lives(Method::SharedMemory);
    }
    // Where the daemon is to be found, a process learns when it begins.
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("daemon.sock");
    let options = DaemonOptions { socket: Some(socket.clone()), ..DaemonOptions::default() };
    let daemon = Arc::new(Daemon::bind(&options).unwrap());
    let serving = thread::spawn({
        let daemon = Arc::clone(&daemon);
        move || daemon.run()
    });
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "shared_memory_loses_nothing_in_silence", "--nocapture"]);
    assert!(child.env("PINNACE_DAEMON", &socket).env(WITH_DAEMON, "1").status().unwrap().success());
    daemon.stop();
    serving.join().unwrap().unwrap();
}

#[test]
fn a1_loses_nothing_in_silence() {
    lives(Method::A1);
}

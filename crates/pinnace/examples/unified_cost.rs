//! What the one interface costs beside the methods' own: nanoseconds a message, and throughput.
//!
//! `cargo run --release -p pinnace --example unified_cost [SCALE]`. Each number is the median of several rounds, in which
//! native and unified take turns, so that both see the same machine. Sender and receiver are two threads, over loopback.
#![allow(clippy::print_stdout)]

use pinnace::service::{Method, Selection, Service};
use pinnace::{Connection, Endpoint, EndpointOptions, Message, vrp, xtp, zcrp};
use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

const ROUNDS: usize = 9;
const UNDER_WAY: usize = 64;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Runs a receiver in a thread and a sender here; the time until both are done.
fn race(send: impl FnOnce(), recv: impl FnOnce() + Send) -> Duration {
    thread::scope(|scope| {
        let begin = Instant::now();
        let receiving = scope.spawn(recv);
        send();
        let _ = receiving.join();
        begin.elapsed()
    })
}

/// Sends messages of which so many are under way at a time, and uses their memory again.
fn send_many<S>(size: usize, count: usize, send: impl Fn(Message) -> S, wait: impl Fn(S) -> Message) {
    let mut under_way = VecDeque::new();
    let mut free: Vec<Message> = Vec::new();
    for _ in 0..count {
        let message = free.pop().unwrap_or_else(|| Message::from_vec(vec![7; size]));
        under_way.push_back(send(message));
        if under_way.len() == UNDER_WAY {
            free.extend(under_way.pop_front().map(&wait));
        }
    }
    under_way.into_iter().for_each(|sending| drop(wait(sending)));
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// What rounds take, the native way and ours.
fn compare(
    (name, size, count): (&str, usize, usize),
    mut native: impl FnMut() -> Duration,
    mut ours: impl FnMut() -> Duration,
) {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        before.push(native());
        after.push(ours());
    }
    let (native, ours) = (median(before), median(after));
    let ns = |time: Duration| time.as_nanos() as f64 / count as f64;
    let gbit = |time: Duration| size as f64 * count as f64 * 8.0 / time.as_secs_f64() / 1e9;
    let more = (ours.as_secs_f64() / native.as_secs_f64() - 1.0) * 100.0;
    println!(
        "{name:5} {size:8} B: native {:8.0} ns {:6.2} Gbit/s, unified {:8.0} ns {:6.2} Gbit/s: {:+7.0} ns, {more:+5.1} %",
        ns(native),
        gbit(native),
        ns(ours),
        gbit(ours),
        ns(ours) - ns(native),
    );
}

/// A unified connection by this method.
fn unified(method: Method, service: &Service) -> Result<(Connection, Connection, Endpoint)> {
    let endpoint = Endpoint::bind("127.0.0.1:0")?;
    let listener = endpoint.listen(&Service::new())?;
    let selection = Selection { forced: Some(method), ..Selection::default() };
    let options = EndpointOptions { selection, ..EndpointOptions::default() };
    let client = Endpoint::client_with(&options).connect(&listener.local_addr().to_string(), service)?;
    Ok((client, listener.accept()?, endpoint))
}

fn ours(client: &Connection, server: &Connection, size: usize, count: usize) -> Duration {
    let send = |message| client.send(message).expect("it is sent");
    let recv = || {
        for _ in 0..count {
            assert_eq!(server.recv().expect("it comes").expect("not the end").len(), size);
        }
    };
    race(|| send_many(size, count, send, |delivery| delivery.wait().expect("it arrives").message), recv)
}

fn xtp(size: usize, count: usize) -> Result<()> {
    let options = xtp::Options { profile: zcrp::Profile::Cluster, ..xtp::Options::default() };
    let there = xtp::Endpoint::bind("127.0.0.1:0", &options)?;
    let listener = there.listen(xtp::Services::ALL)?;
    let client = xtp::Endpoint::client_of(there.local_addr(), &options)?.connect(there.local_addr())?;
    client.establish()?;
    let server = listener.accept()?.into_connection().ok_or("no connection")?;
    let native = || {
        let recv = || {
            for _ in 0..count {
                assert_eq!(server.recv().expect("it comes").map(|received| received.len()), Some(size));
            }
        };
        let send = |message: Message| client.send(message).expect("it is sent");
        race(|| send_many(size, count, send, |sending| sending.wait().expect("it arrives")), recv)
    };
    let (a, b, _endpoint) = unified(Method::Xtp, &"largest=32MiB".parse()?)?;
    compare(("xtp", size, count), native, || ours(&a, &b, size, count));
    Ok(())
}

fn zcrp(size: usize, count: usize) -> Result<()> {
    let options = zcrp::Options { profile: zcrp::Profile::Cluster, ..zcrp::Options::default() };
    let listener = zcrp::Listener::bind("127.0.0.1:0", &options)?;
    let sender = zcrp::Sender::connect(listener.local_addr()?, &options)?;
    let first = sender.send(Message::from_vec(vec![1]))?;
    let receiver = listener.accept_receiver()?;
    receiver.post(Message::with_capacity(8))?.wait()?;
    first.wait()?;
    // As many wait as behind the one interface, and as large ones.
    let piece = (size + 1).clamp(64 << 10, 8 << 20);
    let ahead = ((64 << 20) / piece).clamp(8, 256);
    let native = || {
        let recv = || {
            let mut posted = VecDeque::new();
            let mut left = count;
            let post = |message| receiver.post(message).expect("it is posted");
            while left > 0 && posted.len() < ahead {
                posted.push_back(post(Message::with_capacity(piece)));
                left -= 1;
            }
            while let Some(receiving) = posted.pop_front() {
                let message = receiving.wait().expect("it comes");
                assert_eq!(message.len(), size);
                if left > 0 {
                    posted.push_back(post(message));
                    left -= 1;
                }
            }
        };
        let send = |message| sender.send(message).expect("it is sent");
        race(|| send_many(size, count, send, |sending| sending.wait().expect("it arrives")), recv)
    };
    let (a, b, _endpoint) = unified(Method::Zcrp, &Service::new().largest(size as u64))?;
    compare(("zcrp", size, count), native, || ours(&a, &b, size, count));
    Ok(())
}

fn vrp(size: usize, count: usize) -> Result<()> {
    let options = vrp::Options { profile: zcrp::Profile::Cluster, ..vrp::Options::default() };
    let receiver = vrp::Receiver::bind("127.0.0.1:0", &options)?;
    let sender = vrp::Sender::connect(receiver.local_addr(), &options)?;
    sender.open()?;
    let contract = vrp::Contract::new().loss_percent(5.0).run_bytes(65_536);
    let native = || {
        let recv = || {
            for _ in 0..count {
                assert_eq!(receiver.recv().expect("it comes").len(), size);
            }
        };
        let frame = |message| vrp::Frame::new(message).with_contract(contract.clone());
        let send = |message| sender.send(frame(message)).expect("it is sent");
        race(|| send_many(size, count, send, |sending| sending.wait().expect("it arrives").message), recv)
    };
    let (a, b, _endpoint) = unified(Method::Vrp, &"loss=5% run=64KiB".parse()?)?;
    compare(("vrp", size, count), native, || ours(&a, &b, size, count));
    Ok(())
}

fn main() -> Result<()> {
    let scale = std::env::args().nth(1).and_then(|scale| scale.parse().ok()).unwrap_or(1usize);
    for (size, count) in [(64, 20_000), (4096, 20_000), (65_536, 4000), (1 << 20, 400)] {
        xtp(size, count * scale)?;
        zcrp(size, count * scale)?;
        vrp(size, count * scale)?;
    }
    Ok(())
}

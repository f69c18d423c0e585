//! What a flood of garbage from a third address costs a connection: its throughput without and with it, by each method.
//!
//! `cargo run --release -p pinnace --example flood_cost [DATAGRAMS_A_SECOND]`. A thread sends so many datagrams of 1000 bytes to
//! the receiver's port, from a socket of its own; sender and receiver are two other threads, over loopback. Each number is the
//! median of several rounds, in which it is quiet and flooded in turn.
#![allow(clippy::print_stdout)]

use pinnace::service::{Method, Selection, Service};
use pinnace::{Connection, Endpoint, EndpointOptions, Message};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, io, thread};

const ROUNDS: usize = 9;
/// Of a round.
const MESSAGES: usize = 100;
const SIZE: usize = 1 << 20;
const UNDER_WAY: usize = 8;
/// Datagrams a second, if nothing is said.
const RATE: u32 = 20_000;
const GARBAGE: [u8; 1000] = [0xEE; 1000];

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A connection by this method, and what keeps its listening end.
fn pair(method: Method) -> Result<(Connection, Connection, Endpoint)> {
    let endpoint = Endpoint::bind("127.0.0.1:0")?;
    let listener = endpoint.listen(&Service::new())?;
    let selection = Selection { forced: Some(method), ..Selection::default() };
    let options = EndpointOptions { selection, ..EndpointOptions::default() };
    let client = Endpoint::client_with(&options);
    let client = client.connect(&listener.local_addr().to_string(), &"size=1MiB".parse()?)?;
    Ok((client, listener.accept()?, endpoint))
}

/// Sends until it is told to stop; how many datagrams.
fn flood(to: SocketAddr, rate: u32, is_over: &AtomicBool) -> io::Result<u64> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let (begun, mut sent) = (Instant::now(), 0);
    while !is_over.load(Ordering::Relaxed) {
        while (sent as f64) < begun.elapsed().as_secs_f64() * f64::from(rate) && !is_over.load(Ordering::Relaxed) {
            socket.send_to(&GARBAGE, to)?;
            sent += 1;
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(sent)
}

/// Gbit/s of the messages of a round.
fn round(client: &Connection, server: &Connection) -> Result<f64> {
    thread::scope(|scope| {
        let receiving =
            scope.spawn(|| (0..MESSAGES).all(|_| matches!(server.recv(), Ok(Some(got)) if got.len() == SIZE)));
        let begun = Instant::now();
        let (mut under_way, mut free) = (VecDeque::new(), Vec::new());
        for _ in 0..MESSAGES {
            let message = free.pop().unwrap_or_else(|| Message::from_vec(vec![7; SIZE]));
            under_way.push_back(client.send(message)?);
            if under_way.len() == UNDER_WAY {
                free.extend(under_way.pop_front().map(|delivery| delivery.wait()).transpose()?.map(|it| it.message));
            }
        }
        for delivery in under_way {
            delivery.wait()?;
        }
        if !receiving.join().is_ok_and(|all| all) {
            return Err("a message is missing, or altered".into());
        }
        Ok((MESSAGES * SIZE * 8) as f64 / begun.elapsed().as_secs_f64() / 1e9)
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<()> {
    let rate = env::args().nth(1).map_or(Ok(RATE), |rate| rate.parse())?;
    println!("a flood of {rate} datagrams a second of {} bytes; medians of {ROUNDS} rounds in turn", GARBAGE.len());
    for method in [Method::Zcrp, Method::Vrp, Method::Xtp, Method::Qmp, Method::A1] {
        let (client, server, _endpoint) = pair(method)?;
        round(&client, &server)?;
        let (mut quiet, mut flooded, mut sent) = (Vec::new(), Vec::new(), 0);
        for _ in 0..ROUNDS {
            quiet.push(round(&client, &server)?);
            let is_over = AtomicBool::new(false);
            let (speed, datagrams) = thread::scope(|scope| {
                let flooding = scope.spawn(|| flood(client.peer_addr(), rate, &is_over));
                let speed = round(&client, &server);
                is_over.store(true, Ordering::Relaxed);
                (speed, flooding.join())
            });
            flooded.push(speed?);
            sent += datagrams.map_err(|_| "the flood ended early")??;
        }
        let (quiet, flooded) = (median(quiet), median(flooded));
        println!(
            "{:<5} quiet {quiet:>6.2} Gbit/s, flooded {flooded:>6.2}: {:.3} of it ({sent} datagrams)",
            method.name(),
            flooded / quiet
        );
    }
    Ok(())
}

//! What it takes to connect by each method, to have the first and the next messages answered, and to have a whole
//! conversation with a server that has one after the other: on this host, or over a path.
//!
//! `cargo run --release -p pinnace --example connect_cost`; over a path, from a folder of both: `sudo pinnace wan --rtt 40ms
//! --far './connect_cost listen 10.77.0.2:7000' -- ./connect_cost 10.77.0.2:7000`
#![allow(clippy::print_stdout, reason = "it is what this program is for")]

use pinnace::service::{Direction, Method, PathClass, Selection};
use pinnace::{Connection, Endpoint, EndpointOptions, Error, Listener, Service};
use std::thread;
use std::time::{Duration, Instant};

const ROUNDS: usize = 31;
const LONG: Duration = Duration::from_secs(10);

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["listen", at] => {
            serve(&listen(at)?);
            Ok(())
        }
        [to] => measure(to),
        _ => {
            let listener = listen("127.0.0.1:0")?;
            let to = listener.local_addr().to_string();
            thread::spawn(move || serve(&listener));
            measure(&to)
        }
    }
}

fn listen(at: &str) -> Result<Listener, Error> {
    // Over paths that may lose packets QMP is not offered, which is made for clusters.
    Endpoint::bind(at)?.listen(&Service::new().path(PathClass::Cluster).direction(Direction::Duplex))
}

/// One after the other.
fn serve(listener: &Listener) {
    while let Ok(connection) = listener.accept() {
        answer(&connection);
        let _ = connection.close(LONG);
    }
}

fn measure(to: &str) -> Result<(), Error> {
    let service = Service::new().direction(Direction::Duplex);
    let heads = ["connect", "first echo", "next echo", "close", "all of it"];
    println!("{:8} {}   ms, median (least to most) of {ROUNDS}", "", heads.map(|head| format!("{head:>22}")).join(" "));
    for method in [Method::Zcrp, Method::Vrp, Method::Xtp, Method::Qmp, Method::A1] {
        let selection = Selection { forced: Some(method), ..Selection::default() };
        let endpoint = Endpoint::client_with(&EndpointOptions { selection, ..EndpointOptions::default() });
        let mut times = [(); 5].map(|()| Vec::with_capacity(ROUNDS));
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            let connection = match endpoint.connect(to, &service) {
                Ok(connection) => connection,
                Err(error) => {
                    println!("{:8} {error}", method.to_string());
                    break;
                }
            };
            let mut last = begun;
            let mut took = || std::mem::replace(&mut last, Instant::now()).elapsed();
            times[0].push(took());
            for times in &mut times[1..3] {
                drop(connection.transact("ahoy")?);
                times.push(took());
            }
            connection.close(LONG)?;
            drop(connection);
            times[3].push(took());
            times[4].push(begun.elapsed());
        }
        if times.iter().all(|times| times.len() == ROUNDS) {
            println!("{:8} {}", method.to_string(), times.map(summary).join(" "));
        }
    }
    Ok(())
}

/// Sends back what comes, until the peer closes.
fn answer(connection: &Connection) {
    while let Ok(Some(message)) = connection.recv() {
        if connection.send(message.into_message()).is_err() {
            break;
        }
    }
}

fn summary(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let milliseconds = |at: usize| times[at].as_secs_f64() * 1e3;
    let text = format!("{:.2} ({:.2} to {:.2})", milliseconds(ROUNDS / 2), milliseconds(0), milliseconds(ROUNDS - 1));
    format!("{text:>22}")
}

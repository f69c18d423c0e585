//! What it takes to connect by each method on this host, and to have the first and the next messages answered.
//!
//! `cargo run --release -p pinnace --example connect_cost`
#![allow(clippy::print_stdout, reason = "it is what this program is for")]

use pinnace::service::{Direction, Method, PathClass, Selection};
use pinnace::{Connection, Endpoint, EndpointOptions, Error, Service};
use std::thread;
use std::time::{Duration, Instant};

const ROUNDS: usize = 31;

fn main() -> Result<(), Error> {
    let listener = Endpoint::bind("127.0.0.1:0")?.listen(&Service::new().path(PathClass::Cluster))?;
    let address = listener.local_addr().to_string();
    thread::spawn(move || {
        while let Ok(connection) = listener.accept() {
            thread::spawn(move || answer(&connection));
        }
    });
    let service = Service::new().direction(Direction::Duplex);
    println!(
        "{:8} {:>12} {:>12} {:>12}   median (least to most) of {ROUNDS}",
        "", "connect", "first echo", "next echo"
    );
    for method in [Method::Zcrp, Method::Vrp, Method::Xtp, Method::Qmp, Method::A1] {
        let selection = Selection { forced: Some(method), ..Selection::default() };
        let endpoint = Endpoint::client_with(&EndpointOptions { selection, ..EndpointOptions::default() });
        let mut times = [(); 3].map(|()| Vec::with_capacity(ROUNDS));
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            let connection = endpoint.connect(&address, &service)?;
            times[0].push(begun.elapsed());
            for times in &mut times[1..] {
                let begun = Instant::now();
                drop(connection.transact("ahoy")?);
                times.push(begun.elapsed());
            }
        }
        println!("{:8} {}", method.to_string(), times.map(summary).join(" "));
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
    format!("{:.2} ms ({:.2} to {:.2})", milliseconds(ROUNDS / 2), milliseconds(0), milliseconds(ROUNDS - 1))
}

//! The Rust side of `throughput.py`: sends or receives messages over a connection of the one interface.
//!
//! `throughput recv SIZE COUNT` prints where it listens, and, at the end, the seconds from the first to the last message;
//! `throughput send SIZE COUNT ADDRESS METHOD SERVICE` sends, so many under way at a time, and uses their memory again.
#![allow(clippy::print_stdout)]

use pinnace::service::{Selection, Service};
use pinnace::{Endpoint, EndpointOptions, Message};
use std::collections::VecDeque;
use std::error::Error;
use std::time::{Duration, Instant};

const UNDER_WAY: usize = 16;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[1..] {
        ["recv", size, count] => recv(size.parse()?, count.parse()?),
        ["send", size, count, address, method, service] => {
            send(size.parse()?, count.parse()?, address, method, &service.parse()?)
        }
        _ => Err("see the source".into()),
    }
}

fn recv(size: usize, count: usize) -> Result<(), Box<dyn Error>> {
    let listener = Endpoint::bind("127.0.0.1:0")?.listen(&Service::new())?;
    println!("{}", listener.local_addr());
    let connection = listener.accept()?;
    let mut begin = None;
    for _ in 0..count {
        let received = connection.recv()?.ok_or("the end")?;
        assert_eq!(received.len(), size);
        begin.get_or_insert_with(Instant::now);
    }
    println!("{}", begin.ok_or("nothing")?.elapsed().as_secs_f64());
    Ok(())
}

fn send(size: usize, count: usize, address: &str, method: &str, service: &Service) -> Result<(), Box<dyn Error>> {
    let forced = if method == "any" { None } else { Some(method.parse()?) };
    let selection = Selection { forced, ..Selection::default() };
    let options = EndpointOptions { selection, ..EndpointOptions::default() };
    let connection = Endpoint::client_with(&options).connect(address, service)?;
    println!("{}", connection.method());
    let mut under_way = VecDeque::new();
    for _ in 0..count {
        let message = match under_way.len() {
            UNDER_WAY => {
                under_way.pop_front().map(pinnace::Delivery::wait).transpose()?.map(|delivered| delivered.message)
            }
            _ => None,
        };
        under_way.push_back(connection.send(message.unwrap_or_else(|| Message::from_vec(vec![7; size])))?);
    }
    for delivery in under_way {
        delivery.wait()?;
    }
    // The receiver may be gone: it has everything.
    let _ = connection.close(Duration::ZERO);
    Ok(())
}

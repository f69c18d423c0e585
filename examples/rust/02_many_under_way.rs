//! Many messages under way at once: the way to use the whole of a network.
//!
//! cargo run --release -p pinnace --example 02_many_under_way
#![allow(clippy::print_stdout)]

use pinnace::{Delivery, Endpoint, Listener, Message, Service};
use std::collections::VecDeque;
use std::error::Error;
use std::thread;
use std::time::Instant;

const SIZE: usize = 64 * 1024;
const COUNT: usize = 1000;
/// Messages under way: when one has arrived, its memory carries another one.
const WINDOW: usize = 32;

fn receive(listener: &Listener) -> Result<usize, pinnace::Error> {
    let connection = listener.accept()?;
    let mut bytes = 0;
    // The memory of a message goes back to the connection when it is dropped.
    while let Some(message) = connection.recv()? {
        bytes += message.len();
    }
    Ok(bytes)
}

fn main() -> Result<(), Box<dyn Error>> {
    let listener = Endpoint::bind("127.0.0.1:0")?.listen(&Service::default())?;
    let address = listener.local_addr().to_string();
    let receiving = thread::spawn(move || receive(&listener));

    let begin = Instant::now();
    let connection = Endpoint::client().connect(&address, &"size=64KiB prefer=throughput".parse()?)?;
    let mut under_way: VecDeque<Delivery> = VecDeque::new();
    for number in 0..COUNT {
        // The first messages are new; then each one uses the memory of one that has arrived.
        let mut message = match under_way.pop_front() {
            Some(oldest) if number >= WINDOW => oldest.wait()?.message,
            newer => {
                under_way.extend(newer);
                Message::from_vec(vec![7; SIZE])
            }
        };
        message[..4].copy_from_slice(&(number as u32).to_be_bytes());
        under_way.push_back(connection.send(message)?);
    }
    for delivery in under_way {
        delivery.wait()?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let method = connection.method();
    drop(connection);
    println!("{} bytes received", receiving.join().expect("the receiving thread does not panic")?);
    println!("{COUNT} messages by {method}, {:.2} Gbit/s", (COUNT * SIZE) as f64 * 8.0 / seconds / 1e9);
    Ok(())
}

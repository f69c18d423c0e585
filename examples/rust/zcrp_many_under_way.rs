//! Many messages under way at once: the way to use the whole of a network.
//!
//! cargo run --release -p pinnace --example zcrp_many_under_way
#![allow(clippy::print_stdout)]

use pinnace::Message;
use pinnace::zcrp::{Listener, Options, Sender, Sending};
use std::collections::VecDeque;
use std::error::Error;
use std::thread;
use std::time::Instant;

const SIZE: usize = 64 * 1024;
const COUNT: usize = 1000;
/// Messages under way: when one has ended, its memory carries another one.
const WINDOW: usize = 32;

fn main() -> Result<(), Box<dyn Error>> {
    let listener = Listener::bind("127.0.0.1:0", &Options::default())?;
    let address = listener.local_addr()?;

    let receiving = thread::spawn(move || -> Result<usize, pinnace::Error> {
        let receiver = listener.accept_receiver()?;
        // Posting does not wait. The n-th message sent goes into the n-th message posted.
        let posted = (0..WINDOW).map(|_| receiver.post(Message::with_capacity(SIZE)));
        let mut posted = posted.collect::<Result<VecDeque<_>, _>>()?;
        let mut bytes = 0;
        for number in 0..COUNT {
            let Some(oldest) = posted.pop_front() else { break };
            let message = oldest.wait()?;
            assert_eq!(message.len(), SIZE, "message {number}");
            bytes += message.len();
            // The memory is ours again, and goes straight back to work.
            if number + WINDOW < COUNT {
                posted.push_back(receiver.post(message)?);
            }
        }
        println!("{}", receiver.counters());
        receiver.close();
        Ok(bytes)
    });

    let sender = Sender::connect(address, &Options::default())?;
    let begin = Instant::now();
    let mut queued = VecDeque::new();
    for number in 0..COUNT {
        // The first messages are new; then each one uses the memory of one that has arrived.
        let oldest = if number < WINDOW { None } else { queued.pop_front() };
        let message = oldest.map_or_else(|| Ok(Message::from_vec(vec![7; SIZE])), Sending::wait)?;
        queued.push_back(sender.send(message)?);
    }
    for sending in queued {
        sending.wait()?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let bytes = receiving.join().expect("the receiving thread does not panic")?;
    println!("{COUNT} messages, {:.2} Gbit/s", bytes as f64 * 8.0 / seconds / 1e9);
    Ok(())
}

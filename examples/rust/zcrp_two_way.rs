//! Both ways on one socket: a client asks, a server answers.
//!
//! cargo run -p pinnace --example zcrp_two_way
#![allow(clippy::print_stdout)]

use pinnace::Message;
use pinnace::zcrp::{Listener, Options, connect};
use std::error::Error;
use std::thread;

/// Questions of this program; an empty one ends the conversation.
const QUESTIONS: [&str; 4] = ["ahoy", "mizzen mast", "keel", ""];

fn serve(listener: Listener) -> Result<(), pinnace::Error> {
    // `accept` gives both halves: what the client sends comes out of one, the other one answers it.
    let (sender, receiver) = listener.accept()?;
    // Memory for the next question is named before the answer goes out, so that the client never waits for it.
    let mut next = receiver.post(Message::with_capacity(100))?;
    loop {
        let question = next.wait()?;
        next = receiver.post(Message::with_capacity(100))?;
        if question.is_empty() {
            break;
        }
        let answer = String::from_utf8_lossy(&question).to_uppercase();
        // Nobody waits for the answer to arrive: dropping it lets it go on by itself.
        drop(sender.send(Message::from_vec(answer.into_bytes()))?);
    }
    receiver.close();
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let listener = Listener::bind("127.0.0.1:0", &Options::default())?;
    let address = listener.local_addr()?;
    let server = thread::spawn(move || serve(listener));

    let (sender, receiver) = connect(address, &Options::default())?;
    for question in QUESTIONS {
        // The place for the answer first, then the question.
        let answer = receiver.post(Message::with_capacity(100))?;
        sender.send(Message::from_vec(question.into()))?.wait()?;
        if question.is_empty() {
            break;
        }
        let answer = answer.wait()?;
        println!("{question} -> {}", String::from_utf8_lossy(&answer));
        assert_eq!(*answer, *question.to_uppercase().as_bytes());
    }
    receiver.close();
    server.join().expect("the server does not panic")?;
    Ok(())
}

//! Futures: everything that can be waited for by blocking can be awaited, in any async runtime or in none.
//!
//! cargo run -p pinnace --example zcrp_async
#![allow(clippy::print_stdout)]

use pinnace::Message;
use pinnace::zcrp::{Listener, Options, Receiver, Sender};
use std::error::Error;

/// Sends three messages, and returns when all have arrived.
async fn greet(sender: &Sender) -> Result<(), pinnace::Error> {
    // A message is under way from the moment of `send`, awaited or not: all three travel together.
    let under_way: Vec<_> =
        ["ahoy", "who goes there?", "a pinnace"].map(|text| sender.send(Message::from_vec(text.into()))).into();
    for sending in under_way {
        sending?.await?;
    }
    Ok(())
}

/// Receives three messages.
async fn listen(receiver: &Receiver) -> Result<Vec<String>, pinnace::Error> {
    let posted: Vec<_> = (0..3).map(|_| receiver.post(Message::with_capacity(100))).collect();
    let mut texts = Vec::new();
    for receiving in posted {
        let message = receiving?.await?;
        texts.push(String::from_utf8_lossy(&message).into_owned());
    }
    Ok(texts)
}

fn main() -> Result<(), Box<dyn Error>> {
    let listener = Listener::bind("127.0.0.1:0", &Options::default())?;
    let sender = Sender::connect(listener.local_addr()?, &Options::default())?;
    // `pollster` is the smallest executor there is: it runs one future on one thread. In a program with tokio or
    // another one, `greet(&sender).await` is all there is to write.
    let greeting = std::thread::spawn(move || pollster::block_on(greet(&sender)));
    // Waiting for the first peer blocks, so an async program does it on a thread for such things.
    let receiver = listener.accept_receiver()?;
    let texts = pollster::block_on(listen(&receiver))?;
    receiver.close();
    greeting.join().expect("the greeting thread does not panic")?;
    println!("received {texts:?}");
    assert_eq!(texts, ["ahoy", "who goes there?", "a pinnace"]);
    Ok(())
}

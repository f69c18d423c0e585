//! The first message: one program sends, another receives. Here both are threads of one program.
//!
//! cargo run -p pinnace --example zcrp_first_message
#![allow(clippy::print_stdout)]

use pinnace::Message;
use pinnace::zcrp::{Listener, Options, Sender};
use std::error::Error;
use std::thread;

fn main() -> Result<(), Box<dyn Error>> {
    // The receiver binds to an address and waits there. Port 0 lets the system choose a free one.
    let listener = Listener::bind("127.0.0.1:0", &Options::default())?;
    let address = listener.local_addr()?;

    let receiving = thread::spawn(move || -> Result<String, pinnace::Error> {
        // Whoever sends here first is the peer.
        let receiver = listener.accept_receiver()?;
        // A receiver names the memory that a message goes into, before it comes: nothing has to be copied later.
        // What is posted here is room for 1024 bytes; the message may be shorter.
        let message = receiver.post(Message::with_capacity(1024))?.wait()?;
        let text = String::from_utf8_lossy(&message).into_owned();
        // Says goodbye: the sender may still want to know that everything arrived.
        receiver.close();
        Ok(text)
    });

    // The sender says whom it wants to talk to. Nothing travels before the first message.
    let sender = Sender::connect(address, &Options::default())?;
    // A message owns its bytes. While it is under way the transport has them; `wait` gives them back.
    let sending = sender.send(Message::from_vec(b"ahoy".to_vec()))?;
    // When `wait` returns without an error, every byte is where the receiver wanted it.
    let message = sending.wait()?;
    println!("sent {} bytes to {address}", message.len());

    let text = receiving.join().expect("the receiving thread does not panic")?;
    println!("received \"{text}\"");
    assert_eq!(text, "ahoy");
    Ok(())
}

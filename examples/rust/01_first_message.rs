//! The first message: one program sends, another receives. Here both are threads of one program.
//!
//! cargo run -p pinnace --example 01_first_message
#![allow(clippy::print_stdout)]

use pinnace::{Endpoint, Service};
use std::error::Error;
use std::thread;

fn main() -> Result<(), Box<dyn Error>> {
    // Port 0 lets the system choose a free one. The service is the most that callers may ask for: here anything.
    let listener = Endpoint::bind("127.0.0.1:0")?.listen(&Service::default())?;
    let address = listener.local_addr();

    let greeting = thread::spawn(move || -> Result<(), pinnace::Error> {
        // The URI says what is needed; here only how long messages are. The rest has defaults: nothing may be lost.
        let connection = pinnace::connect(&format!("pinnace://{address}?size=4KiB"))?;
        // A message is under way from here on; `wait` returns when it has arrived, and gives its memory back.
        connection.send("ahoy")?.wait()?;
        println!("sent by {}", connection.method());
        Ok(())
    });

    let connection = listener.accept()?;
    // `None` is the end: the other side has closed.
    while let Some(message) = connection.recv()? {
        println!("received \"{}\"", String::from_utf8_lossy(&message));
    }
    greeting.join().expect("the greeting thread does not panic")?;
    Ok(())
}

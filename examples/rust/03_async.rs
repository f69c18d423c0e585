//! Futures: the same names, to be awaited, in any async runtime or in none.
//!
//! cargo run -p pinnace --example 03_async
#![allow(clippy::print_stdout)]

use pinnace::{Endpoint, Listener, Service};
use std::error::Error;

/// Sends three messages, and returns when all have arrived.
async fn greet(address: &str) -> Result<(), pinnace::Error> {
    let connection = Endpoint::client().connect_async(address, &Service::default()).await?;
    // A message is under way from the moment of `send`, awaited or not: all three travel together.
    let under_way: Vec<_> = ["ahoy", "who goes there?", "a pinnace"].map(|text| connection.send(text)).into();
    for delivery in under_way {
        delivery?.await?;
    }
    Ok(())
}

/// Receives until the peer has closed.
async fn listen(listener: &Listener) -> Result<Vec<String>, pinnace::Error> {
    let connection = listener.accept_async().await?;
    let mut texts = Vec::new();
    while let Some(message) = connection.recv_async().await? {
        texts.push(String::from_utf8_lossy(&message).into_owned());
    }
    Ok(texts)
}

fn main() -> Result<(), Box<dyn Error>> {
    let listener = Endpoint::bind("127.0.0.1:0")?.listen(&Service::default())?;
    let address = listener.local_addr().to_string();
    // `pollster` is the smallest executor there is: it runs one future on one thread. In a program with tokio or
    // another one, `greet(&address).await` is all there is to write.
    let greeting = std::thread::spawn(move || pollster::block_on(greet(&address)));
    let texts = pollster::block_on(listen(&listener))?;
    greeting.join().expect("the greeting thread does not panic")?;
    println!("received {texts:?}");
    Ok(())
}

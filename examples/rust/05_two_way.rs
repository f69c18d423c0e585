//! Both ways on one connection: a client asks, a server answers many clients.
//!
//! cargo run -p pinnace --example 05_two_way
#![allow(clippy::print_stdout)]

use pinnace::{Connection, Endpoint, Listener, Service};
use std::error::Error;
use std::thread;

fn answer(connection: &Connection) -> Result<(), pinnace::Error> {
    // The end comes when the client closes.
    while let Some(question) = connection.recv()? {
        // Nobody waits for the answer to arrive: dropping the delivery lets it go on by itself.
        drop(connection.send(question.to_ascii_uppercase())?);
    }
    Ok(())
}

fn serve(listener: &Listener) -> Result<(), pinnace::Error> {
    loop {
        let connection = listener.accept()?;
        thread::spawn(move || answer(&connection));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let listener = Endpoint::bind("127.0.0.1:0")?.listen(&Service::default())?;
    let address = listener.local_addr();
    thread::spawn(move || serve(&listener));

    let connection = pinnace::connect(&format!("pinnace://{address}?direction=duplex"))?;
    for question in ["ahoy", "mizzen mast", "keel"] {
        connection.send(question)?.wait()?;
        let answer = connection.recv()?.ok_or("the server is gone")?;
        println!("{question} -> {}", String::from_utf8_lossy(&answer));
    }
    Ok(())
}

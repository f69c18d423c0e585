//! Requests and responses, from several threads at a time.
//!
//! cargo run -p pinnace --example 07_transactions
#![allow(clippy::print_stdout)]

use pinnace::{Connection, Endpoint, Listener, Service};
use std::error::Error;
use std::thread;

fn answer(connection: &Connection) -> Result<(), pinnace::Error> {
    while let Some(request) = connection.recv()? {
        drop(connection.send(request.to_ascii_uppercase())?);
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

    let asking = ["ahoy", "mizzen mast", "keel"].map(|request| {
        thread::spawn(move || -> Result<(), pinnace::Error> {
            let connection = pinnace::connect(&format!("pinnace://{address}?pattern=transaction"))?;
            // The request goes out, and the call returns with the next message that comes back.
            let response = connection.transact(request)?;
            println!("{request} -> {}", String::from_utf8_lossy(&response));
            Ok(())
        })
    });
    for thread in asking {
        thread.join().expect("an asking thread does not panic")?;
    }
    Ok(())
}

//! Requests and responses in one round trip each, and a stream, on one socket.
//!
//! cargo run -p pinnace --example xtp_transactions
#![allow(clippy::print_stdout)]

use pinnace::xtp::{Endpoint, Incoming, Listener, Options, Service, Services};
use std::error::Error;
use std::thread;

fn serve(listener: &Listener) -> Result<(), pinnace::Error> {
    loop {
        match listener.accept()? {
            Incoming::Transaction(transaction) => {
                let request = transaction.request()?;
                // The response acknowledges the request; nobody waits for it to arrive.
                drop(transaction.respond(request.to_ascii_uppercase())?);
            }
            Incoming::Connection(connection) => {
                let mut lines = 0;
                while let Some(line) = connection.recv()? {
                    lines += 1;
                    println!("line {lines}: {}", String::from_utf8_lossy(&line));
                }
                connection.send(format!("{lines} lines").into_bytes())?.wait()?;
                connection.finish()?;
                return connection.wait_closed();
            }
            Incoming::Datagram(datagram) => println!("from {}: {} bytes", datagram.peer, datagram.data.len()),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let server = Endpoint::bind("127.0.0.1:0", &Options::default())?;
    let address = server.local_addr();
    let listener = server.listen(Services::ALL)?;
    let serving = thread::spawn(move || serve(&listener));

    // Set-up, request, response and close: two packets and an acknowledgement.
    let client = Endpoint::client_of(address, &Options::default())?;
    for request in ["ahoy", "mizzen mast"] {
        let response = client.transact(address, request.as_bytes().to_vec())?;
        println!("{request} -> {}", String::from_utf8_lossy(&response));
    }

    // A context is programmed by its control block.
    let mut block = client.block(Service::Connection);
    block.retry_count = 10;
    let connection = client.connect_with(address, block)?;
    for line in ["haul", "away"] {
        connection.send(line.as_bytes().to_vec())?;
    }
    connection.finish()?;
    while let Some(answer) = connection.recv()? {
        println!("answer: {}", String::from_utf8_lossy(&answer));
    }
    connection.wait_closed()?;
    serving.join().expect("the server does not panic")?;
    Ok(())
}

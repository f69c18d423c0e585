//! Frames that may lose something: a camera sends pictures over a bad path, and none of them waits for what it can do
//! without.
//!
//! cargo run -p pinnace --example 06_frames_with_holes
#![allow(clippy::print_stdout)]

use pinnace::{Endpoint, EndpointOptions, Service, link::FaultOptions};
use std::error::Error;

const PICTURES: usize = 10;
const BYTES: usize = 200_000;
const HEADER: usize = 64;

fn film(address: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
    // A tenth of a picture may be missing, two packets in a row at most, and nothing of its header; 25 pictures a second.
    let camera: Service = "loss=10% run=2800 critical=0..64 size=200000 rate=40mbit path=internet".parse()?;
    // A path that loses one packet in twenty, on purpose; with `Endpoint::client()` it is the path as it is.
    let fault = Some(FaultOptions { loss: 0.05, ..FaultOptions::default() });
    let endpoint = Endpoint::client_with(&EndpointOptions { fault, ..EndpointOptions::default() });
    let connection = endpoint.connect(address, &camera)?;
    println!("by {}", connection.method());
    for number in 0..PICTURES {
        let delivered = connection.send(vec![number as u8 + 1; BYTES])?.wait()?;
        // The camera learns what was lost: it could send smaller pictures.
        if let Some(report) = delivered.report {
            println!("sent picture {number}: {} of {} packets lost", report.lost, report.packets);
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let listener = Endpoint::bind("127.0.0.1:0")?.listen(&Service::default())?;
    let address = listener.local_addr().to_string();
    let filming = std::thread::spawn(move || film(&address));

    let connection = listener.accept()?;
    let mut missing = 0;
    while let Some(picture) = connection.recv()? {
        // The bytes lie where they belong; the holes are zeros.
        assert!(picture[..HEADER].iter().all(|byte| *byte == picture[0]), "the header is whole");
        for hole in picture.holes() {
            missing += hole.len();
            assert!(picture[hole.clone()].iter().all(|byte| *byte == 0));
        }
    }
    filming.join().expect("the camera does not panic").map_err(|error| error.to_string())?;
    println!("{missing} of {} bytes are missing, all within the contract", PICTURES * BYTES);
    assert!(missing > 0 && missing < PICTURES * BYTES / 5);
    Ok(())
}

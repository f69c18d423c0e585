//! Frames that may lose something: a camera sends pictures over a bad path, and none of them waits for what it can do
//! without.
//!
//! cargo run -p pinnace --example vrp_frames_with_holes
#![allow(clippy::print_stdout)]

use pinnace::link::{Fault, FaultOptions, UdpLink, UdpOptions};
use pinnace::vrp::{self, Contract, Frame, Options, Profile};
use std::error::Error;
use std::time::Duration;

const PICTURES: usize = 10;
const BYTES: usize = 200_000;
const HEADER: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    // As on the Internet, although it is loopback: small packets, congestion control and pacing.
    let options = Options { profile: Profile::Internet, packet_bytes: Some(1400), ..Options::default() };
    // A path that loses one packet in twenty. `Sender::connect` and `Receiver::bind` are for paths as they are.
    let udp = UdpOptions::default();
    let there = UdpLink::bind("127.0.0.1:0".parse()?, &udp)?;
    let here = UdpLink::connect(None, there.local_address().ok_or("no address")?, &udp)?;
    let lossy = Fault::new(here, FaultOptions { loss: 0.05, ..FaultOptions::default() });
    let (sender, receiver) = vrp::over(Box::new(lossy), Box::new(there), &options)?;

    let camera = std::thread::spawn(move || -> Result<(), pinnace::Error> {
        // A tenth of a picture may be missing, two packets in a row at most, and nothing of its header.
        let contract = Contract::new().loss_percent(10.0).run_bytes(2800).critical(0..HEADER as u64);
        for number in 0..PICTURES {
            let picture = vec![number as u8 + 1; BYTES];
            // After a second nobody wants to see it any more.
            let frame = Frame::from(picture).with_contract(contract.clone()).give_up_after(Duration::from_secs(1));
            let sent = sender.send(frame)?.wait()?;
            // The camera learns what was lost: it could send smaller pictures.
            if let Some(report) = sent.report {
                println!("sent picture {number}: {} of {} packets lost", report.lost, report.packets);
            }
        }
        Ok(())
    });

    let mut missing = 0;
    for _ in 0..PICTURES {
        // The bytes lie where they belong; the holes are zeros.
        let picture = receiver.recv()?;
        assert!(picture[..HEADER].iter().all(|byte| *byte == picture[0]), "the header is whole");
        for hole in picture.holes() {
            missing += hole.len();
            assert!(picture[hole.clone()].iter().all(|byte| *byte == 0));
        }
    }
    camera.join().expect("the camera does not panic")?;
    println!("{missing} of {} bytes are missing, all within the contract", PICTURES * BYTES);
    assert!(missing < PICTURES * BYTES / 5);
    Ok(())
}

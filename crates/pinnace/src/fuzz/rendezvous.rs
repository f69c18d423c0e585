//! A datagram of the rendezvous, or a message of a connection's own.
//!
//! The first byte says which it is to be, and whether what it begins with is put right first, without which next to nothing
//! would get past it.

use crate::carrier::sort;
use crate::rendezvous::decision::decide;
use crate::rendezvous::wire::{
    Answer, Control, HELLO_BYTES, Hello, MOST_METHODS, MOST_SERVICE, MOST_TEXT, Status, whole,
};
use crate::service::{Method, Service};
use crate::xtp;

const SEALED: u8 = 0x80;

/// What parses keeps the limits, and can be said again; what is made of it does, too.
pub fn rendezvous(input: &[u8]) {
    let Some((&flags, bytes)) = input.split_first() else { return };
    let mut bytes = bytes.to_vec();
    let mut seal = |head: &[u8], least: usize| {
        if flags & SEALED != 0 {
            bytes.splice(..head.len().min(bytes.len()), head.iter().copied());
            bytes.resize(bytes.len().max(least), 0);
        }
    };
    match flags & 3 {
        0 => {
            seal(b"PNCE\x01", HELLO_BYTES);
            hello(&bytes);
        }
        1 => {
            seal(b"PNCE\x02", 42);
            answer(&bytes);
        }
        2 => {
            seal(b"PNCEctl\x01", 26);
            control(&bytes);
        }
        _ => tagged(&bytes),
    }
}

fn hello(bytes: &[u8]) {
    let Ok(hello) = Hello::parse(bytes) else { return };
    assert!(bytes.len() >= HELLO_BYTES && hello.versions.0 <= hello.versions.1);
    assert!(hello.methods.len() <= MOST_METHODS && hello.service.len() <= MOST_TEXT);
    assert_eq!(Hello::parse(&hello.encode().expect("within the limits")).as_ref(), Ok(&hello));
    let (status, why) = match hello.service.parse::<Service>() {
        Err(error) => (Status::Unknown, error.to_string()),
        Ok(service) => {
            let limits = Service::new().size(1 << 16).rate(1 << 30).burst(1 << 20);
            match decide(&service, &hello.methods, &limits, 1 << 20, |method| method != Method::SharedMemory) {
                Ok(method) => (Status::Accepted, method.to_string()),
                Err(refusal) => refusal,
            }
        }
    };
    let refusal = Answer::refusal(&hello, status, &why);
    let said = refusal.encode();
    assert!(said.len() <= bytes.len(), "an answer is longer than what asked for it");
    assert_eq!(Answer::parse(&said), Ok(refusal));
}

fn answer(bytes: &[u8]) {
    let Ok(answer) = Answer::parse(bytes) else { return };
    assert!(answer.text.len() <= MOST_TEXT);
    assert_eq!(Answer::parse(&answer.encode()), Ok(answer));
}

fn control(bytes: &[u8]) {
    let Ok(control) = Control::parse(bytes, None) else { return };
    assert!(control.service.len() <= MOST_SERVICE && bytes.len() <= Control::MOST_BYTES);
    assert!(Control::may_be(bytes, control.nonce) && !Control::may_be(bytes, !control.nonce));
    assert_eq!(Control::parse(bytes, Some(control.nonce)).as_ref(), Ok(&control));
    assert!(Control::parse(bytes, Some(!control.nonce)).is_err());
    assert_eq!(Control::parse(&control.encode(), None).as_ref(), Ok(&control));
    let Ok(service) = control.service.parse::<Service>() else { return };
    // What HELLO says of a service, its listener takes for the same.
    for agreed in [service.clone(), service.without_critical()] {
        assert_eq!(whole(&control.service, &agreed).as_ref(), Some(&service), "{agreed}");
    }
    let said: Service = service.without_critical().to_string().parse().expect("what is said is understood");
    assert_eq!(said, service.without_critical());
}

/// A message of XTP with the tag of a carrier.
fn tagged(bytes: &[u8]) {
    let Some((btag, rest)) = bytes.split_first_chunk::<8>() else { return };
    let Some((next, rest)) = rest.split_first_chunk::<4>() else { return };
    let Some((cuts, data)) = rest.split_first_chunk::<4>() else { return };
    // Rising ranges that do not touch, as the engine tells them.
    let mut cuts = cuts.map(|at| usize::from(at).min(data.len()));
    cuts.sort_unstable();
    let mut holes = vec![cuts[0]..cuts[1], cuts[2]..cuts[3]];
    holes.retain(|hole| !hole.is_empty());
    let lost: usize = holes.iter().map(std::ops::Range::len).sum();
    let mut next = u32::from_le_bytes(*next);
    let before = next;
    let received = xtp::Received { data: data.to_vec(), btag: Some(*btag), holes, eom: true };
    let Some(received) = sort(received, &mut next) else { return assert_eq!(next, before) };
    assert!(received.len() <= data.len() && received.bytes_lost() <= lost);
    assert!(received.holes().iter().all(|hole| hole.start < hole.end && hole.end <= received.len()));
    assert!(received.missed() < 1 << 31);
}

//! Paths that lose packets of XTP and QMP.
#![allow(dead_code)] // each test file uses its share

use crate::common::relay::Relay;

/// The type of a packet that carries addresses, and where its destination's port is.
const FIRST: u8 = 2;
const PORT: usize = 44;
/// END, among the options: the byte and the bit.
const END: (usize, u8) = (9, 0x02);

/// Loses this share of the packets, in percent, in both directions, and after each as many more as `run` says: always the
/// same ones.
pub(crate) fn lossy(listener: &str, percent: u64, run: u64) -> Relay {
    let (mut random, mut left) = (7u64, 0);
    losing(listener, move |_, _| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let is_lost = left > 0 || (random >> 33) % 100 < percent;
        left = if left > 0 {
            left - 1
        } else if is_lost {
            run
        } else {
            0
        };
        is_lost
    })
}

/// Loses the first packets of the sender that have END, so many.
pub(crate) fn without_ends(listener: &str, mut ends: usize) -> Relay {
    losing(listener, move |is_senders, packet| {
        let is_lost = ends > 0 && is_senders && packet[END.0] & END.1 != 0;
        ends -= usize::from(is_lost);
        is_lost
    })
}

/// Loses what this says of a packet, and of whether the sender sent it. A FIRST says for which port it is, and so gets the
/// listener's: NOCHECK leaves it out of the sum.
fn losing(listener: &str, mut is_lost: impl FnMut(bool, &[u8]) -> bool + Send + 'static) -> Relay {
    let port = listener.rsplit(':').next().and_then(|port| port.parse::<u16>().ok()).expect("an address");
    Relay::at("127.0.0.1:0", listener, move |is_senders, packet| {
        if is_senders && packet.len() > PORT + 2 && packet[11] & 0x1f == FIRST {
            packet[PORT..PORT + 2].copy_from_slice(&port.to_be_bytes());
        }
        !is_lost(is_senders, packet)
    })
}

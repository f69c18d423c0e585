//! A path that loses packets: a process in the middle that passes on what it likes.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The type of a packet that carries addresses, and where its destination's port is.
const FIRST: u8 = 2;
const PORT: usize = 44;
/// END, among the options: the byte and the bit.
const END: (usize, u8) = (9, 0x02);

/// Stands between a sender and a listener. A FIRST says for which port it is, and so gets the listener's: NOCHECK leaves
/// it out of the sum.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    /// Packets that it kept.
    pub(crate) lost: Arc<AtomicU64>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

#[allow(dead_code)] // each test file uses its share
impl Relay {
    /// It loses this share of the packets, in percent, in both directions, and after each as many more as `run` says: always
    /// the same ones.
    pub(crate) fn to(listener: &str, percent: u64, run: u64) -> Self {
        let (mut random, mut left) = (7u64, 0);
        Self::losing(listener, move |_, _| {
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

    /// It loses the first packets of the sender that have END, so many.
    pub(crate) fn without_ends(listener: &str, mut ends: usize) -> Self {
        Self::losing(listener, move |is_senders, packet| {
            let is_lost = ends > 0 && is_senders && packet[END.0] & END.1 != 0;
            ends -= usize::from(is_lost);
            is_lost
        })
    }

    /// It loses what this says of a packet, and of whether the sender sent it.
    fn losing(listener: &str, mut is_lost: impl FnMut(bool, &[u8]) -> bool + Send + 'static) -> Self {
        let listener: SocketAddr = listener.parse().expect("an address");
        let near = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let far = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        far.connect(listener).expect("loopback");
        let address = near.local_addr().expect("bound");
        let (end, lost) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ended, dropped) = (Arc::clone(&end), Arc::clone(&lost));
        for socket in [&near, &far] {
            socket.set_nonblocking(true).expect("a socket");
        }
        let thread = std::thread::spawn(move || {
            let (mut packet, mut sender) = (vec![0; 65_536], None);
            let mut passes = |is_senders, packet: &[u8]| {
                let is_lost = is_lost(is_senders, packet);
                dropped.fetch_add(u64::from(is_lost), Ordering::Relaxed);
                !is_lost
            };
            while !ended.load(Ordering::Relaxed) {
                let mut idle = true;
                while let Ok((n, from)) = near.recv_from(&mut packet) {
                    (sender, idle) = (Some(from), false);
                    if n > PORT + 2 && packet[11] & 0x1f == FIRST {
                        packet[PORT..PORT + 2].copy_from_slice(&listener.port().to_be_bytes());
                    }
                    if passes(true, &packet[..n]) {
                        let _ = far.send(&packet[..n]);
                    }
                }
                while let (Ok(n), Some(sender)) = (far.recv(&mut packet), sender) {
                    idle = false;
                    if passes(false, &packet[..n]) {
                        let _ = near.send_to(&packet[..n], sender);
                    }
                }
                if idle {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
        });
        Self { address, lost, end, thread: Some(thread) }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

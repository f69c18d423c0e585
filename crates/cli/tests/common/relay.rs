//! A path that loses packets: a thread in the middle that passes on what it likes.

use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Stands between a sender and a listener.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    /// Packets that it kept.
    pub(crate) lost: Arc<AtomicU64>,
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// At `near`. `passes` looks at each packet, which it may change, and says whether it goes on; it is told whether the
    /// sender sent it.
    pub(crate) fn at(
        near: impl ToSocketAddrs,
        listener: &str,
        mut passes: impl FnMut(bool, &mut [u8]) -> bool + Send + 'static,
    ) -> Self {
        let near = UdpSocket::bind(near).expect("a free port");
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
            let mut passes = |is_senders, packet: &mut [u8]| {
                let passes = passes(is_senders, packet);
                dropped.fetch_add(u64::from(!passes), Ordering::Relaxed);
                passes
            };
            while !ended.load(Ordering::Relaxed) {
                let mut idle = true;
                while let Ok((n, from)) = near.recv_from(&mut packet) {
                    (sender, idle) = (Some(from), false);
                    if passes(true, &mut packet[..n]) {
                        let _ = far.send(&packet[..n]);
                    }
                }
                while let (Ok(n), Some(sender)) = (far.recv(&mut packet), sender) {
                    idle = false;
                    if passes(false, &mut packet[..n]) {
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

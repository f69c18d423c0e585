//! A relay for datagrams in user space, that is slow, far and lossy: what is left to those who may not make devices.
//!
//! Destinations of one relay share its link, as the programs of a host do.
//!
//! Always true: what becomes of a datagram, and when it comes out, is what the emulated link of `pinnace wan` would do with it.

use crate::exit::Error;
use crate::wan::{DelayLine, Fate, Link};
use pinnace_core::Time;
use pinnace_sim::NetworkConfig;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::SockRef;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Headers of IP and UDP, which count on the line.
const HEADERS: u32 = 28;
/// How often to look whether it should end.
const LOOK: Duration = Duration::from_millis(50);
/// Where a relay listens: on this host, too, but not where destinations do.
const FRONT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// Bytes of socket buffers asked for.
const BUFFER: usize = 4 << 20;

/// A running relay.
pub(super) struct Relay {
    addresses: Vec<SocketAddr>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// What leads to one destination, and back.
struct Lane {
    front: UdpSocket,
    back: UdpSocket,
    /// Who has sent to it first.
    sender: Option<SocketAddr>,
}

impl Relay {
    /// Relays to each of these, over one link that all of them share, from whoever sends to its [`Relay::addresses`] first,
    /// and back over another one.
    pub(super) fn start(to: &[SocketAddr], network: &NetworkConfig) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::io("cannot make a relay", &error);
        let open = |at: (Ipv4Addr, u16)| {
            let socket = UdpSocket::bind(at)?;
            socket.set_nonblocking(true)?;
            // As much as one is given.
            let _ = SockRef::from(&socket).set_recv_buffer_size(BUFFER);
            io::Result::Ok(socket)
        };
        let lane = |to: &SocketAddr| {
            // The port is the destination's: A1 names it, and is answered only where it is right.
            let front = open((FRONT, to.port())).or_else(|_| open((Ipv4Addr::LOCALHOST, 0)))?;
            let back = open((Ipv4Addr::LOCALHOST, 0))?;
            back.connect(to)?;
            io::Result::Ok(Lane { front, back, sender: None })
        };
        let lanes = to.iter().map(lane).collect::<io::Result<Vec<_>>>().map_err(failed)?;
        let addresses = lanes.iter().map(|lane| lane.front.local_addr()).collect::<io::Result<_>>().map_err(failed)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (links, asked) = ([Link::new(network, 7), Link::new(network, !7)], Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("relay".into())
            .spawn(move || relay(lanes, links, &asked))
            .map_err(failed)?;
        Ok(Self { addresses, stop, thread: Some(thread) })
    }

    /// Where to send to, in the order of the destinations.
    pub(super) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn relay(mut lanes: Vec<Lane>, links: [Link; 2], stop: &AtomicBool) -> io::Result<()> {
    let begin = Instant::now();
    let clock = || Time::from_nanos(u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX));
    let [mut there, mut here] = links.map(|link| (link, DelayLine::with_capacity(0)));
    while !stop.load(Ordering::Relaxed) {
        for (index, Lane { front, back, sender }) in lanes.iter_mut().enumerate() {
            take(front, index, &mut there, clock, |from| *sender.get_or_insert(from) == from)?;
            take(back, index, &mut here, clock, |_| true)?;
        }
        let now = clock();
        while let Some((_, (index, datagram))) = there.1.pop_if(now, |_| true) {
            // Nobody may listen there yet; then it is lost, as on any path.
            let _ = lanes.get(index).map(|lane| lane.back.send(&datagram));
        }
        while let Some((_, (index, datagram))) = here.1.pop_if(now, |_| true) {
            let _ = lanes.get(index).and_then(|lane| Some(lane.front.send_to(&datagram, lane.sender?)));
        }
        let next = [there.1.next(), here.1.next()].into_iter().flatten().min();
        let pause = next.map_or(LOOK, |next| next.since(clock()).min(LOOK));
        let mut watched: Vec<PollFd<'_>> = lanes
            .iter()
            .flat_map(|lane| [&lane.front, &lane.back])
            .map(|socket| PollFd::new(socket, PollFlags::IN))
            .collect();
        let _ = poll(&mut watched, Timespec::try_from(pause).ok().as_ref());
    }
    Ok(())
}

/// A direction of the link, and the datagrams that are on it, each with its lane.
type Way = (Link, DelayLine<(usize, Vec<u8>)>);

/// Takes in what has come.
fn take(
    socket: &UdpSocket,
    index: usize,
    (link, line): &mut Way,
    clock: impl Fn() -> Time,
    mut wanted: impl FnMut(SocketAddr) -> bool,
) -> io::Result<()> {
    let mut datagram = [0; 65_536];
    loop {
        match socket.recv_from(&mut datagram) {
            Ok((bytes, from)) if wanted(from) => {
                if let Fate::Crosses { at, held } = link.offer(clock(), bytes as u32 + HEADERS) {
                    line.push(at, held, (index, datagram[..bytes].to_vec()));
                }
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            // An ICMP error about an earlier datagram.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_cross_late_and_back() {
        let far = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let near = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        for socket in [&far, &near] {
            socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        }
        let network = "rate=10mbit,delay=20ms".parse().unwrap();
        let relay = Relay::start(&[far.local_addr().unwrap()], &network).unwrap();
        let begin = Instant::now();
        near.send_to(b"ahoy", relay.addresses()[0]).unwrap();
        let mut buffer = [0; 100];
        let (bytes, from) = far.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..bytes], b"ahoy");
        far.send_to(b"aye", from).unwrap();
        assert_eq!(near.recv(&mut buffer).unwrap(), 3);
        assert!(begin.elapsed() >= Duration::from_millis(40));
    }
}

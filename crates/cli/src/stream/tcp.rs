//! The same frames over the kernel's TCP, for comparison: header and content one after the other on one connection.
//!
//! The receiver answers each frame with its number (8 bytes), so that the sender knows what is still under way as it does
//! with VRP; without that bound frames would pile up in the system's buffers and grow old there, which would be unfair to
//! TCP.
//!
//! Always true: what is read of a frame that claims to be large grows with what has come, and not beyond [`MOST`].

use super::carrier::{Arrival, Landed, Outcome};
use super::header::{self, Header};
use crate::address::{resolve, resolve_all};
use crate::exit::Error;
use crate::interrupt;
use crate::thread;
use pinnace::vrp::Loss;
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::time::{Duration, Instant};

/// The largest frame taken in, in bytes.
const MOST: u64 = 256 << 20;
/// Bytes that are written at once, and that TCP may have taken and not sent: so that what it gets through is seen, and not
/// only that it has taken a frame.
const PIECE: usize = 64 << 10;
const UNSENT: u32 = 256 << 10;
/// Frames that wait for somebody to take them.
const WAITING: usize = 8;

fn socket(address: SocketAddr, congestion: Option<&str>) -> Result<Socket, Error> {
    let failed = |error: io::Error| Error::io("cannot make a TCP socket", &error);
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP)).map_err(failed)?;
    socket.set_tcp_nodelay(true).map_err(failed)?;
    socket.set_tcp_notsent_lowat(UNSENT).map_err(failed)?;
    if let Some(name) = congestion {
        socket.set_tcp_congestion(name.as_bytes()).map_err(|error| {
            Error::io(format_args!("cannot use TCP {name}; `sysctl net.ipv4.tcp_available_congestion_control`"), &error)
        })?;
    }
    Ok(socket)
}

/// The first of the addresses of `peer` that somebody listens at.
fn reach(
    peer: &str,
    addresses: &[SocketAddr],
    congestion: Option<&str>,
    timeout: Duration,
) -> Result<TcpStream, Error> {
    let mut each = Vec::with_capacity(addresses.len());
    for &address in addresses {
        let socket = socket(address, congestion)?;
        match socket.connect_timeout(&address.into(), timeout) {
            Ok(()) => return Ok(socket.into()),
            Err(error) if addresses.len() == 1 => each.push(error.to_string()),
            Err(error) => each.push(format!("{address}: {error}")),
        }
    }
    let each = each.join("; ");
    Err(Error::peer_gone(format!(
        "cannot connect to {peer}: {each}; is `pinnace stream recv --over tcp` running there?"
    )))
}

/// The sending end.
pub(super) struct Outgoing {
    peer: String,
    frames: Option<Sender<(u64, Vec<u8>)>>,
    ended: Receiver<io::Result<(u64, Option<Vec<u8>>)>>,
    /// Frames that were written or wait for it, and their buffers once they were.
    under_way: VecDeque<(u64, Option<Vec<u8>>)>,
    /// A receiver that neither answers nor takes anything for so long, although frames are under way, is gone.
    timeout: Duration,
    /// Pieces that it has taken, and how many these were when it was looked at; and when it has done something last.
    taken: Arc<AtomicU64>,
    seen: u64,
    heard: Instant,
}

impl Outgoing {
    pub(super) fn connect(peer: &str, congestion: Option<&str>, timeout: Duration) -> Result<Self, Error> {
        let stream = reach(peer, &resolve_all(peer)?, congestion, timeout)?;
        let reader = stream.try_clone().map_err(|error| Error::io("cannot share a socket", &error))?;
        let ((frames, to_write), (told, ended)) = (channel(), channel());
        let (tell, taken) = (told.clone(), Arc::new(AtomicU64::new(0)));
        let count = Arc::clone(&taken);
        thread::start(move || write(stream, &to_write, &tell, &count))?;
        thread::start(move || acknowledge(reader, &told))?;
        let (peer, frames, under_way) = (peer.to_owned(), Some(frames), VecDeque::new());
        Ok(Self { peer, frames, ended, under_way, timeout, taken, seen: 0, heard: Instant::now() })
    }

    pub(super) fn send(&mut self, number: u64, frame: Vec<u8>) -> Result<(), Error> {
        if self.under_way.is_empty() {
            self.heard = Instant::now();
        }
        self.under_way.push_back((number, None));
        let sent = self.frames.as_ref().is_some_and(|frames| frames.send((number, frame)).is_ok());
        if sent { Ok(()) } else { Err(self.gone(&io::ErrorKind::BrokenPipe.into())) }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.under_way.len()
    }

    pub(super) fn landed(&mut self, until: Instant) -> Result<Option<Landed>, Error> {
        loop {
            match self.ended.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Ok((number, Some(buffer)))) => {
                    if let Some((_, slot)) = self.under_way.iter_mut().find(|(other, _)| *other == number) {
                        *slot = Some(buffer);
                    }
                }
                Ok(Ok((number, None))) => {
                    self.heard = Instant::now();
                    let place = self.under_way.iter().position(|(other, _)| *other == number);
                    if let Some((_, buffer)) = place.and_then(|place| self.under_way.remove(place)) {
                        return Ok(Some(Landed { number, buffer, outcome: Outcome::Acknowledged(None) }));
                    }
                }
                Ok(Err(error)) => return Err(self.gone(&error)),
                Err(RecvTimeoutError::Timeout) => return self.check().map(|()| None),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.gone(&io::ErrorKind::UnexpectedEof.into()));
                }
            }
        }
    }

    /// Fails if the receiver has ended while nothing is under way: nobody else would find out.
    pub(super) fn check_end(&mut self) -> Result<(), Error> {
        while self.under_way.is_empty() {
            match self.ended.try_recv() {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(self.gone(&error)),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Err(self.gone(&io::ErrorKind::UnexpectedEof.into())),
            }
        }
        Ok(())
    }

    /// Fails if the receiver has been silent for too long.
    fn check(&mut self) -> Result<(), Error> {
        let taken = self.taken.load(Ordering::Relaxed);
        if std::mem::replace(&mut self.seen, taken) != taken {
            self.heard = Instant::now();
        }
        if self.under_way.is_empty() || self.heard.elapsed() < self.timeout {
            return Ok(());
        }
        let (peer, seconds) = (&self.peer, self.timeout.as_secs_f32());
        Err(Error::peer_gone(format!(
            "{peer} has been silent for {seconds} s: it was stopped, or the network between is down"
        )))
    }

    fn gone(&self, error: &io::Error) -> Error {
        let why = if is_cut(error) {
            "it was ended, or the network between is down".to_owned()
        } else {
            format!("{error}; is the network between down?")
        };
        Error::peer_gone(format!("{} has stopped answering: {why}", self.peer))
    }
}

/// Whether the other end is no more: what the system calls it helps nobody.
fn is_cut(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe)
}

/// There was no end of the stream.
fn cut_off(why: Option<&io::Error>) -> Error {
    let why = why.filter(|error| !is_cut(error)).map(|error| format!(" ({error})")).unwrap_or_default();
    Error::peer_gone(format!(
        "the connection has ended{why}, and no end of the stream has come: the sender was killed, or the network between is down"
    ))
}

type Told = Sender<io::Result<(u64, Option<Vec<u8>>)>>;

fn write(mut stream: TcpStream, frames: &Receiver<(u64, Vec<u8>)>, told: &Told, taken: &AtomicU64) {
    while let Ok((number, frame)) = frames.recv() {
        let mut write = |piece| stream.write_all(piece).map(|()| taken.fetch_add(1, Ordering::Relaxed));
        let written = frame.chunks(PIECE).try_for_each(|piece| write(piece).map(drop)).map(|()| (number, Some(frame)));
        let failed = written.is_err();
        if told.send(written).is_err() || failed {
            return;
        }
    }
    let _ = stream.shutdown(std::net::Shutdown::Write);
}

fn acknowledge(mut stream: TcpStream, told: &Told) {
    loop {
        let mut number = [0; 8];
        let read = stream.read_exact(&mut number).map(|()| (u64::from_be_bytes(number), None));
        let failed = read.is_err();
        if told.send(read).is_err() || failed {
            return;
        }
    }
}

/// The receiving end: one connection.
pub(super) struct Incoming {
    address: SocketAddr,
    frames: Receiver<io::Result<Arrival>>,
}

impl Incoming {
    pub(super) fn bind(bind: &str, congestion: Option<&str>) -> Result<Self, Error> {
        let address = resolve(bind)?;
        let failed = |error: io::Error| Error::io(format_args!("cannot bind to {bind}"), &error);
        let socket = socket(address, congestion)?;
        socket.set_reuse_address(true).map_err(failed)?;
        socket.bind(&address.into()).and_then(|()| socket.listen(1)).map_err(failed)?;
        let listener = TcpListener::from(socket);
        let address = listener.local_addr().map_err(failed)?;
        let (done, frames) = sync_channel(WAITING);
        thread::start(move || {
            if let Err(error) = listener.accept().and_then(|(stream, source)| read(stream, source, &done)) {
                let _ = done.send(Err(error));
            }
        })?;
        Ok(Self { address, frames })
    }

    pub(super) fn local_addr(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn recv(&self) -> Result<Option<Arrival>, Error> {
        match self.frames.recv_timeout(interrupt::LOOK) {
            Ok(Ok(arrival)) => Ok(Some(arrival)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
                Err(Error::failed(format!("the sender is no `pinnace stream send`: {error}")))
            }
            Ok(Err(error)) => Err(cut_off(Some(&error))),
            Err(RecvTimeoutError::Disconnected) => Err(cut_off(None)),
        }
    }
}

fn read(mut stream: TcpStream, source: SocketAddr, done: &SyncSender<io::Result<Arrival>>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    loop {
        let mut start = [0; header::BYTES];
        stream.read_exact(&mut start)?;
        let begun = Instant::now();
        let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let header = Header::decode(&start).ok_or_else(|| wrong("what came does not begin with a frame's header"))?;
        if u64::from(header.bytes) > MOST {
            return Err(wrong("a frame has more than 256 MiB"));
        }
        let mut bytes = start.to_vec();
        if (&mut stream).take(header.bytes.into()).read_to_end(&mut bytes)? < header.bytes as usize {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let at = header::now();
        stream.write_all(&header.number.to_be_bytes())?;
        let arrival = Arrival::whole(bytes, source, at, begun.elapsed(), Loss::default());
        if done.send(Ok(arrival)).is_err() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(5);

    #[test]
    fn each_address_of_a_name_is_tried_and_told_of() {
        // Nobody listens at port 0.
        let closed = ["127.0.0.1:0", "127.0.0.2:0"].map(|text| text.parse::<SocketAddr>().unwrap());
        let error = reach("name:7", &closed, None, TIMEOUT).unwrap_err().message;
        assert!(closed.iter().all(|address| error.contains(&format!("{address}: "))), "{error}");
        let error = reach("name:7", &closed[..1], None, TIMEOUT).unwrap_err().message;
        assert!(error.starts_with("cannot connect to name:7: ") && !error.contains("127.0.0.1"), "{error}");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        assert_eq!(reach("name:7", &[closed[0], open], None, TIMEOUT).unwrap().peer_addr().unwrap(), open);
    }

    #[test]
    fn a_receiver_that_ends_while_nothing_is_under_way_is_gone() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap().to_string();
        let mut outgoing = Outgoing::connect(&to, None, TIMEOUT).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        outgoing.send(1, vec![0; 100]).unwrap();
        outgoing.check_end().unwrap();
        receiver.read_exact(&mut [0; 100]).unwrap();
        receiver.write_all(&1_u64.to_be_bytes()).unwrap();
        let landed = outgoing.landed(Instant::now() + TIMEOUT).unwrap().expect("it is there");
        assert_eq!((landed.number, outgoing.in_flight()), (1, 0));
        outgoing.check_end().unwrap();
        drop(receiver);
        let begun = Instant::now();
        while outgoing.check_end().is_ok() {
            assert!(begun.elapsed() < TIMEOUT, "it is not missed");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_receiver_that_takes_and_says_nothing_is_gone_after_the_time_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap().to_string();
        let mut outgoing = Outgoing::connect(&to, None, Duration::from_millis(50)).unwrap();
        let _silent = listener.accept().unwrap();
        let landed = |outgoing: &mut Outgoing| outgoing.landed(Instant::now() + Duration::from_millis(100));
        assert!(landed(&mut outgoing).unwrap().is_none(), "nobody owes an answer");
        outgoing.send(1, vec![0; 100]).unwrap();
        assert!(landed(&mut outgoing).unwrap().is_none(), "it has been taken meanwhile");
        let error = landed(&mut outgoing).map(|landed| landed.is_some()).unwrap_err();
        assert!(error.exit == crate::exit::Exit::PeerGone && error.message.contains("silent for 0.05 s"), "{error:?}");
    }
}

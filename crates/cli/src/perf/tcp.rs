//! Both ends over the kernel's TCP, as an application would use it: default buffers, TCP_NODELAY, one write a message,
//! and each message read whole into its buffer.

use super::protocol::{IdleChoice, Job, Ran, Transport};
use super::worker::{End, Failure, Opened, check, stamp};
use super::{Waiter, round_trips};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Bytes that `tcp-batched` collects before it writes.
const BATCH: usize = 256 << 10;

fn socket(job: &Job) -> Result<Socket, Failure> {
    let address = job.at(0);
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    let congestion = match &job.transport {
        Transport::Tcp(congestion) => congestion.as_deref(),
        _ => Some("cubic"),
    };
    if let Some(congestion) = congestion {
        socket.set_tcp_congestion(congestion.as_bytes()).map_err(|error| unavailable(congestion, &error))?;
    }
    Ok(socket)
}

/// What would help.
fn unavailable(congestion: &str, error: &io::Error) -> Failure {
    Failure::Unavailable(if error.kind() == io::ErrorKind::PermissionDenied {
        format!(
            "TCP {congestion} is for root alone on this host: run with sudo, or add it to what all may use, sudo sysctl -w \
             net.ipv4.tcp_allowed_congestion_control=\"reno {congestion}\""
        )
    } else {
        format!("this kernel does not offer TCP {congestion} ({error}); try sudo modprobe tcp_{congestion}")
    })
}

fn listen(job: &Job) -> Result<(TcpListener, SocketAddr), Failure> {
    let socket = socket(job)?;
    socket.bind(&job.at(0).into())?;
    socket.listen(1)?;
    let listener = TcpListener::from(socket);
    let address = listener.local_addr()?;
    Ok((listener, address))
}

fn connect(job: &Job) -> Result<Stream, Failure> {
    let socket = socket(job)?;
    let peer = job.peer.ok_or_else(|| Failure::Failed("nowhere to connect to".into()))?;
    socket
        .connect_timeout(&peer.into(), Duration::from_secs(10))
        .map_err(|error| Failure::io(format!("cannot connect to {peer}"), &error))?;
    Stream::new(socket.into(), job)
}

/// A connection that waits in one of three ways.
struct Stream {
    stream: TcpStream,
    waiter: Waiter,
}

impl Stream {
    fn new(stream: TcpStream, job: &Job) -> Result<Self, Failure> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(job.idle != IdleChoice::Block)?;
        super::set_busy_poll(&SockRef::from(&stream), job.busy_poll)?;
        Ok(Self { stream, waiter: Waiter::new(job.idle) })
    }

    fn read_some(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.stream.read(bytes) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    self.waiter.done();
                    return Ok(n);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.waiter.readable(&self.stream)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn read_exact(&mut self, mut bytes: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let n = self.read_some(bytes)?;
            bytes = &mut bytes[n..];
        }
        Ok(())
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(n) => {
                    self.waiter.done();
                    bytes = &bytes[n..];
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.waiter.writable(&self.stream)?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A listening end that becomes a connection with the first run.
struct Accepting {
    job: Job,
    listener: TcpListener,
    stream: Option<Stream>,
}

impl Accepting {
    fn new(job: &Job) -> Result<(Self, SocketAddr), Failure> {
        let (listener, address) = listen(job)?;
        Ok((Self { job: job.clone(), listener, stream: None }, address))
    }

    fn stream(&mut self) -> Result<&mut Stream, Failure> {
        if self.stream.is_none() {
            self.stream = Some(Stream::new(self.listener.accept()?.0, &self.job)?);
        }
        self.stream.as_mut().ok_or_else(|| Failure::Failed("not connected".into()))
    }
}

struct Receiver {
    accepting: Accepting,
    message: Vec<u8>,
    /// What `tcp-batched` reads ahead.
    batch: Option<Vec<u8>>,
}

pub(super) fn receiver(job: &Job) -> Result<Opened, Failure> {
    let (accepting, address) = Accepting::new(job)?;
    let batch = (job.transport == Transport::TcpBatched).then(|| vec![1; BATCH]);
    Ok((Box::new(Receiver { accepting, message: vec![1; job.size], batch }), Some(address)))
}

impl End for Receiver {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        let stream = self.accepting.stream()?;
        let Some(batch) = &mut self.batch else {
            for number in 0..count {
                stream.read_exact(&mut self.message)?;
                check(&self.message, number)?;
            }
            return Ok(Ran::default());
        };
        let (mut low, mut high) = (0, 0);
        for number in 0..count {
            let mut filled = 0;
            while filled < self.message.len() {
                if low == high {
                    (low, high) = (0, stream.read_some(batch)?);
                }
                let n = (high - low).min(self.message.len() - filled);
                self.message[filled..filled + n].copy_from_slice(&batch[low..low + n]);
                (low, filled) = (low + n, filled + n);
            }
            check(&self.message, number)?;
        }
        Ok(Ran::default())
    }
}

struct Sender {
    stream: Stream,
    message: Vec<u8>,
    batch: Option<Vec<u8>>,
}

pub(super) fn sender(job: &Job) -> Result<Opened, Failure> {
    let batch = (job.transport == Transport::TcpBatched).then(|| Vec::with_capacity(BATCH + job.size));
    Ok((Box::new(Sender { stream: connect(job)?, message: vec![1; job.size], batch }), None))
}

impl End for Sender {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        for number in 0..count {
            stamp(&mut self.message, number);
            match &mut self.batch {
                None => self.stream.write_all(&self.message)?,
                Some(batch) => {
                    batch.extend_from_slice(&self.message);
                    if batch.len() >= BATCH || number + 1 == count {
                        self.stream.write_all(batch)?;
                        batch.clear();
                    }
                }
            }
        }
        Ok(Ran::default())
    }
}

struct Pong {
    accepting: Accepting,
    message: Vec<u8>,
}

pub(super) fn pong(job: &Job) -> Result<Opened, Failure> {
    let (accepting, address) = Accepting::new(job)?;
    Ok((Box::new(Pong { accepting, message: vec![1; job.size] }), Some(address)))
}

impl End for Pong {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        let stream = self.accepting.stream()?;
        for _ in 0..count {
            stream.read_exact(&mut self.message)?;
            stream.write_all(&self.message)?;
        }
        Ok(Ran::default())
    }
}

struct Ping {
    stream: Stream,
    message: Vec<u8>,
}

pub(super) fn ping(job: &Job) -> Result<Opened, Failure> {
    Ok((Box::new(Ping { stream: connect(job)?, message: vec![1; job.size] }), None))
}

impl End for Ping {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        round_trips(count, |number| {
            stamp(&mut self.message, number);
            let start = Instant::now();
            self.stream.write_all(&self.message)?;
            self.stream.read_exact(&mut self.message)?;
            let time = start.elapsed();
            check(&self.message, number)?;
            Ok(time)
        })
    }
}

/// Serves connections one after the other, each of one exchange.
struct Answerer {
    job: Job,
    listener: TcpListener,
    message: Vec<u8>,
}

pub(super) fn answerer(job: &Job) -> Result<Opened, Failure> {
    let (listener, address) = listen(job)?;
    listener.set_nonblocking(job.idle != IdleChoice::Block)?;
    Ok((Box::new(Answerer { job: job.clone(), listener, message: vec![1; job.size] }), Some(address)))
}

impl End for Answerer {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        let mut waiter = Waiter::new(self.job.idle);
        for _ in 0..count {
            let stream = loop {
                match self.listener.accept() {
                    Ok((stream, _)) => break stream,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        waiter.readable(&self.listener)?;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error.into()),
                }
            };
            waiter.done();
            let mut stream = Stream::new(stream, &self.job)?;
            stream.read_exact(&mut self.message)?;
            stream.write_all(&self.message)?;
        }
        Ok(Ran::default())
    }
}

/// Connects, writes, reads and closes, each time.
struct Asker {
    job: Job,
    message: Vec<u8>,
}

pub(super) fn asker(job: &Job) -> Result<Opened, Failure> {
    Ok((Box::new(Asker { job: job.clone(), message: vec![1; job.size] }), None))
}

impl End for Asker {
    fn run(&mut self, count: u64) -> Result<Ran, Failure> {
        round_trips(count, |number| {
            stamp(&mut self.message, number);
            let start = Instant::now();
            let mut stream = connect(&self.job)?;
            stream.write_all(&self.message)?;
            stream.read_exact(&mut self.message)?;
            drop(stream);
            let time = start.elapsed();
            check(&self.message, number)?;
            Ok(time)
        })
    }
}

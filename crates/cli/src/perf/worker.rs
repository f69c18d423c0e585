//! The hidden subcommand that is one end of a measurement, in a process of its own.

use super::protocol::{Job, Ran, Reply, Request, Role, Transport};
use super::{a1, qmp, service, tcp, udp, vrp, xtp, zcrp};
use crate::exit::Error;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use std::io::{self, BufRead, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// One end of a measurement.
pub(super) trait End {
    /// Moves `count` messages, and says what there is to say beyond time and processor time.
    fn run(&mut self, count: u64) -> Result<Ran, Failure>;
}

/// Why an end cannot do its job.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It went wrong.
    Failed(String),
    /// The host does not offer it.
    Unavailable(String),
}

impl Failure {
    pub(crate) fn io(action: impl std::fmt::Display, error: &io::Error) -> Self {
        Self::Failed(format!("{action}: {error}"))
    }

    pub(crate) fn why(&self) -> &str {
        let (Self::Failed(why) | Self::Unavailable(why)) = self;
        why
    }
}

impl From<pinnace::Error> for Failure {
    fn from(error: pinnace::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<pinnace::Unsent> for Failure {
    fn from(error: pinnace::Unsent) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// An end, and the address it listens on.
pub(super) type Opened = (Box<dyn End>, Option<SocketAddr>);

fn open(job: &Job) -> Result<Opened, Failure> {
    match (&job.transport, job.role) {
        (Transport::Zcrp, Role::Receiver) => zcrp::receiver(job),
        (Transport::Zcrp, Role::Sender) => zcrp::sender(job),
        (Transport::Zcrp, Role::Pong) => zcrp::pong(job),
        (Transport::Zcrp, Role::Ping) => zcrp::ping(job),
        (Transport::Vrp, Role::Receiver) => vrp::receiver(job),
        (Transport::Vrp, Role::Sender) => vrp::sender(job),
        (Transport::Vrp, Role::Pong) => vrp::pong(job),
        (Transport::Vrp, Role::Ping) => vrp::ping(job),
        (Transport::Xtp, Role::Receiver) => xtp::receiver(job),
        (Transport::Xtp, Role::Sender) => xtp::sender(job),
        (Transport::Xtp, Role::Pong) => xtp::pong(job),
        (Transport::Xtp, Role::Ping) => xtp::ping(job),
        (Transport::Qmp, Role::Receiver) => qmp::receiver(job),
        (Transport::Qmp, Role::Sender) => qmp::sender(job),
        (Transport::Qmp, Role::Pong) => qmp::pong(job),
        (Transport::Qmp, Role::Ping) => qmp::ping(job),
        (Transport::A1, Role::Receiver) => a1::receiver(job),
        (Transport::A1, Role::Sender) => a1::sender(job),
        (Transport::A1, Role::Pong) => a1::pong(job),
        (Transport::A1, Role::Ping) => a1::ping(job),
        (Transport::Service(_), Role::Receiver) => service::receiver(job),
        (Transport::Service(method), Role::Sender) => service::sender(job, *method),
        (Transport::Service(_), Role::Pong) => service::pong(job),
        (Transport::Service(method), Role::Ping) => service::ping(job, *method),
        (Transport::Udp, Role::Receiver) => udp::receiver(job),
        (Transport::Udp, Role::Sender) => udp::sender(job),
        (Transport::Udp, Role::Pong) => udp::pong(job),
        (Transport::Udp, Role::Ping) => udp::ping(job),
        (Transport::Tcp(_) | Transport::TcpBatched, Role::Receiver) => tcp::receiver(job),
        (Transport::Tcp(_) | Transport::TcpBatched, Role::Sender) => tcp::sender(job),
        (Transport::Tcp(_) | Transport::TcpBatched, Role::Pong) if job.each_alone => tcp::answerer(job),
        (Transport::Tcp(_) | Transport::TcpBatched, Role::Ping) if job.each_alone => tcp::asker(job),
        (Transport::Tcp(_) | Transport::TcpBatched, Role::Pong) => tcp::pong(job),
        (Transport::Tcp(_) | Transport::TcpBatched, Role::Ping) => tcp::ping(job),
        (_, Role::Counter) => Counter::start(),
    }
}

/// A thread that does nothing but count, and so keeps a core busy until the process ends.
struct Counter {
    count: Arc<AtomicU64>,
    /// When it was asked last, and what it had counted.
    before: (Instant, u64),
}

impl Counter {
    fn start() -> Result<Opened, Failure> {
        let count = Arc::new(AtomicU64::new(0));
        let counting = count.clone();
        std::thread::Builder::new().spawn(move || {
            for number in 1.. {
                counting.store(number, Ordering::Relaxed);
            }
        })?;
        Ok((Box::new(Self { count, before: (Instant::now(), 0) }), None))
    }
}

impl End for Counter {
    /// Moves nothing: says how often it has counted since it was asked last.
    fn run(&mut self, _: u64) -> Result<Ran, Failure> {
        let now = (Instant::now(), self.count.load(Ordering::Relaxed));
        let (at, count) = std::mem::replace(&mut self.before, now);
        let counts_per_second = (now.1 - count) as f64 / now.0.duration_since(at).as_secs_f64().max(1e-9);
        Ok(Ran { counts_per_second: Some(counts_per_second), ..Ran::default() })
    }
}

/// Runs `pinnace perf-worker`.
pub(crate) fn run() -> Result<(), Error> {
    // Whoever asked is gone: so is the reason to go on.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    serve(io::stdin().lock(), io::stdout().lock())
}

/// Does one job.
pub(crate) fn serve(input: impl BufRead, mut output: impl Write) -> Result<(), Error> {
    let mut lines = input.lines();
    let mut answer = |reply: &Reply| {
        serde_json::to_writer(&mut output, reply)
            .map_err(io::Error::from)
            .and_then(|()| output.write_all(b"\n"))
            .and_then(|()| output.flush())
            .map_err(|error| Error::io("cannot answer", &error))
    };
    let mut next = || lines.next().transpose().map_err(|error| Error::io("cannot read what to do", &error));
    let Some(line) = next()? else { return Ok(()) };
    let job: Job = parse(&line)?;
    let (mut end, address) = match open(&job) {
        Ok(opened) => opened,
        Err(failure) => return answer(&failure.into()),
    };
    answer(&Reply::Opened(address))?;
    while let Some(line) = next()? {
        let Request { count } = parse(&line)?;
        let (user, system) = processor_seconds();
        let start = Instant::now();
        match end.run(count) {
            Ok(ran) => {
                let seconds = start.elapsed().as_secs_f64();
                let (user_now, system_now) = processor_seconds();
                answer(&Reply::Ran(Ran { seconds, user: user_now - user, system: system_now - system, ..ran }))?;
            }
            Err(failure) => return answer(&failure.into()),
        }
    }
    Ok(())
}

impl From<Failure> for Reply {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Failed(why) => Self::Failed(why),
            Failure::Unavailable(why) => Self::Unavailable(why),
        }
    }
}

fn parse<T: serde::de::DeserializeOwned>(line: &str) -> Result<T, Error> {
    serde_json::from_str(line).map_err(|error| Error::usage(format!("perf-worker is for pinnace perf alone: {error}")))
}

/// Seconds of processor time of this process so far, in user and in kernel mode.
fn processor_seconds() -> (f64, f64) {
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    getrusage(UsageWho::RUSAGE_SELF)
        .map_or((0.0, 0.0), |usage| (seconds(usage.user_time()), seconds(usage.system_time())))
}

/// Where the resident memory of this process stands now, and at its highest, in bytes.
pub(super) fn resident() -> Option<(u64, u64)> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib * 1024)
    };
    Some((field("VmRSS:")?, field("VmHWM:")?))
}

/// A message that says which it is, at both ends, so that every receiver can check every message.
pub(super) fn stamp(message: &mut [u8], number: u64) {
    let bytes = number.to_le_bytes();
    let n = bytes.len().min(message.len());
    message[..n].copy_from_slice(&bytes[..n]);
    let low = message.len() - n;
    message[low..].copy_from_slice(&bytes[..n]);
}

/// A message every byte of which says which it is.
pub(super) fn fill(message: &mut [u8], number: u64) {
    for (bytes, word) in message.chunks_mut(8).zip(words(number)) {
        bytes.copy_from_slice(&word[..bytes.len()]);
    }
}

/// Checks what [`fill`] wrote.
pub(super) fn check_all(message: &[u8], number: u64) -> Result<(), Failure> {
    let mut words = message.chunks(8).zip(words(number));
    match words.all(|(bytes, word)| *bytes == word[..bytes.len()]) {
        true => Ok(()),
        false => Err(Failure::Failed(format!("message {number} is not as it was sent"))),
    }
}

/// They tell in which place of which message they are.
fn words(number: u64) -> impl Iterator<Item = [u8; 8]> {
    let first = number.wrapping_mul(0xd134_2543_de82_ef95);
    (0u64..).map(move |at| first.wrapping_add(at).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes())
}

/// Checks what [`stamp`] wrote.
pub(super) fn check(message: &[u8], number: u64) -> Result<(), Failure> {
    let bytes = number.to_le_bytes();
    let n = bytes.len().min(message.len());
    // Of a message shorter than two stamps only the second one is whole.
    let tail = message[message.len() - n..] == bytes[..n];
    let head = message.len() < 2 * n || message[..n] == bytes[..n];
    if head && tail {
        Ok(())
    } else {
        Err(Failure::Failed(format!("message {number} arrived altered or out of order")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_that_is_another_one_is_noticed_wherever_it_is() {
        for size in [1, 7, 8, 9, 1000] {
            let mut message = vec![0; size];
            fill(&mut message, 7);
            assert!(check_all(&message, 7).is_ok());
            assert!(check_all(&message, 8).is_err());
            for at in 0..size {
                message[at] ^= 4;
                assert!(check_all(&message, 7).is_err(), "{at} of {size}");
                message[at] ^= 4;
            }
        }
    }
}

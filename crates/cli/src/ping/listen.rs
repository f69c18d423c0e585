//! `pinnace ping --listen`: answers the pings of other hosts.
//!
//! A peer opens a control connection and names its job, one JSON line as in [`crate::perf`]; a process of its own does it
//! and ends with the connection. Always true: a peer can have messages sent back, of a bounded size, and nothing else.

use crate::exit::Error;
use crate::interrupt;
use crate::output::Output;
use crate::perf::{Host, Job, Role};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The largest message that is sent back, in bytes.
const LARGEST: usize = 1 << 26;
/// The most messages under way at a time.
const DEPTH: usize = 2;
/// Peers at a time.
const PEERS: usize = 16;
/// The longest line that a peer may write.
const LINE: u64 = 4096;
/// A peer that asks for nothing for so long is gone.
const PATIENCE: Duration = Duration::from_secs(120);

static PEERS_NOW: AtomicUsize = AtomicUsize::new(0);

/// Listens until Ctrl-C.
pub(super) fn run(address: SocketAddr, output: &Output) -> Result<(), Error> {
    let failed = |error| Error::listen(address, &error);
    let listener = TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let local = listener.local_addr().map_err(failed)?;
    let object = serde_json::json!({ "event": "listening", "address": local.to_string() });
    output.result(format_args!("answering pings on {local}"), &object);
    loop {
        interrupt::check()?;
        match listener.accept() {
            Ok((stream, peer)) => {
                output.note(format_args!("{peer} is here"));
                if PEERS_NOW.fetch_add(1, Ordering::SeqCst) >= PEERS {
                    PEERS_NOW.fetch_sub(1, Ordering::SeqCst);
                    output.warn(format_args!("{peer} was turned away: {PEERS} are here already"));
                    continue;
                }
                let output = *output;
                let begun = std::thread::Builder::new().spawn(move || {
                    if let Err(error) = serve(&stream) {
                        output.note(format_args!("{peer}: {error}"));
                    }
                    PEERS_NOW.fetch_sub(1, Ordering::SeqCst);
                });
                if let Err(error) = begun {
                    PEERS_NOW.fetch_sub(1, Ordering::SeqCst);
                    output.warn(format_args!("{peer} was turned away: cannot start a thread: {error}"));
                }
            }
            Err(error) => {
                // The peer may have gone before it was accepted; or there are no descriptors, and will not be at once.
                if error.kind() != io::ErrorKind::WouldBlock {
                    output.note(format_args!("cannot accept: {error}"));
                }
                std::thread::sleep(interrupt::LOOK);
            }
        }
    }
}

/// Whether a job is what `pinnace ping` asks for: its messages take memory here, each as often as there are some under way.
fn is_ping(job: &Job) -> bool {
    job.role == Role::Pong && job.size <= LARGEST && job.depth <= DEPTH
}

/// Does one job for a peer.
fn serve(stream: &TcpStream) -> Result<(), Error> {
    let failed = |error| Error::io("the control connection failed", &error);
    stream.set_nonblocking(false).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    let mut orders = BufReader::new(stream);
    let mut next = || {
        let mut line = String::new();
        let n = orders.by_ref().take(LINE).read_line(&mut line)?;
        Ok::<_, io::Error>((n > 0 && line.ends_with('\n')).then_some(line))
    };
    let Some(line) = next().map_err(failed)? else { return Ok(()) };
    let job: Job = serde_json::from_str(&line).map_err(|error| Error::usage(format!("no job: {error}")))?;
    if !is_ping(&job) {
        return Err(Error::usage("it asked for something else than pings, or for very large ones"));
    }
    // The peer cannot know how this host is called; what it connected to is reachable.
    let (local, zone) = match stream.local_addr().map_err(failed)? {
        SocketAddr::V4(local) => (IpAddr::from(*local.ip()), 0),
        SocketAddr::V6(local) => (IpAddr::from(*local.ip()), local.scope_id()),
    };
    let job = Job { bind: local, zone, peer: None, busy_poll: 0, ..job };
    let mut child = Host::default()
        .command()?
        .stdin(Stdio::piped())
        .stdout(stream.try_clone().map(std::os::fd::OwnedFd::from).map_err(failed)?)
        .spawn()
        .map_err(|error| Error::io("cannot start a process", &error))?;
    let orders = child.stdin.take().map_or(Ok(()), |mut input| {
        serde_json::to_writer(&mut input, &job)?;
        input.write_all(b"\n")?;
        while let Some(line) = next()? {
            input.write_all(line.as_bytes())?;
        }
        Ok(())
    });
    let _ = child.kill();
    let _ = child.wait();
    orders.map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::{IdleChoice, Path, Transport};

    #[test]
    fn a_peer_takes_no_more_memory_than_pings_do() {
        let ping = |size, depth| Job {
            role: Role::Pong,
            depth,
            ..Job::new(&Transport::Zcrp, size, IdleChoice::Block, Path::Lo)
        };
        let asked = Job::new(&Transport::Zcrp, LARGEST, IdleChoice::Block, Path::Lo).depth;
        assert!(is_ping(&ping(LARGEST, asked)));
        assert!(!is_ping(&ping(LARGEST + 1, asked)));
        assert!(!is_ping(&ping(16, 1 << 40)));
    }
}

//! Bytes between a stream and a socket of the application: two threads, each of which waits for one side and writes to the
//! other.
//!
//! Always true: an end goes on as an end, a reset as a reset, and so does the death of this process; and both threads are
//! gone when it is over.

use super::pair::{End, mark};
use super::watch::Watch;
use pinnace::qmp::{Shutdown, Stream};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SendFlags, Shutdown as How, send, shutdown};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How long a read or a write of the network waits at a time.
const LOOK: Duration = Duration::from_secs(1);
/// What is passed at a time.
const BUFFER: usize = 256 << 10;

/// Passes bytes both ways until both ways are at their ends. `watch` looks after the other host while it is silent.
pub(super) fn run(stream: &Stream, own: &OwnedFd, watch: Option<Watch>) -> io::Result<()> {
    let broken = AtomicBool::new(false);
    // Who waits for the network looks now and then whether it still has to: nothing else ends its wait.
    stream.set_read_timeout(Some(LOOK));
    stream.set_write_timeout(Some(LOOK));
    // Whoever fails ends the other's wait as well.
    let fail = |side: &Side| {
        if !broken.swap(true, Ordering::SeqCst) {
            match side {
                // Nothing of an end is to be said but this: when the stream is dropped, it is a forced one.
                Side::Application => stream.set_linger(Some(Duration::ZERO)),
                Side::Network(io::ErrorKind::TimedOut) => mark(own, End::Silence),
                Side::Network(_) => {}
            }
            let _ = shutdown(own, How::Both);
        }
    };
    thread::scope(|scope| {
        thread::Builder::new().name("to-network".into()).stack_size(256 << 10).spawn_scoped(scope, || {
            if let Err(side) = to_network(own, stream, &broken) {
                fail(&side);
            }
        })?;
        if let Err(side) = to_application(stream, own, &broken, watch) {
            fail(&side);
        }
        Ok(())
    })
}

/// Who failed.
enum Side {
    Network(io::ErrorKind),
    Application,
}

impl Side {
    fn network(error: &io::Error) -> Self {
        Self::Network(error.kind())
    }
}

fn to_network(own: &OwnedFd, stream: &Stream, broken: &AtomicBool) -> Result<(), Side> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let count = match rustix::io::read(own, &mut buffer[..]) {
            // What the other direction did, and no word of the application.
            Ok(0) if broken.load(Ordering::SeqCst) => return Ok(()),
            Ok(0) => {
                // An application that has closed altogether does not read any more either; writing to it will tell.
                return stream.shutdown(Shutdown::Write).map_err(|error| Side::network(&error));
            }
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return Err(Side::Application),
        };
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            match stream.write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !broken.load(Ordering::SeqCst) => {}
                Err(error) => return Err(Side::network(&error)),
            }
        }
    }
}

fn to_application(stream: &Stream, own: &OwnedFd, broken: &AtomicBool, mut watch: Option<Watch>) -> Result<(), Side> {
    let mut buffer = vec![0; BUFFER];
    let mut is_shut = false;
    loop {
        let count = match stream.read(&mut buffer) {
            Ok(0) => {
                mark(own, End::Whole);
                let _ = shutdown(own, How::Write);
                return Ok(());
            }
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if broken.load(Ordering::SeqCst) {
                    return Ok(());
                }
                if watch.as_mut().is_some_and(|watch| watch.is_gone(stream)) {
                    // What is queued will not arrive, and nobody is to be told.
                    stream.abort();
                    return Err(Side::Network(io::ErrorKind::ConnectionReset));
                }
                continue;
            }
            Err(error) => return Err(Side::network(&error)),
        };
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            match send(own, rest, SendFlags::NOSIGNAL) {
                Ok(written) => rest = &rest[written..],
                Err(rustix::io::Errno::INTR) => {}
                // As with TCP the peer is not told that nobody reads what it says.
                Err(rustix::io::Errno::PIPE) if may_speak(own, is_shut) => {
                    is_shut = true;
                    break;
                }
                Err(_) => return Err(Side::Application),
            }
        }
    }
}

/// Whether an application that reads no more may still write: it has shut down its reading, and has neither closed nor shut
/// down everything. Of one that closes that shows a moment later than that it does not read, and the moment is longer where
/// the system is busy; `is_known`: it is over.
fn may_speak(own: &OwnedFd, is_known: bool) -> bool {
    const MOMENT: Duration = Duration::from_millis(100);
    let timeout = if is_known { Duration::ZERO } else { MOMENT }.try_into().ok();
    let mut fds = [PollFd::new(own, PollFlags::empty())];
    // The end of both directions is reported unasked.
    poll(&mut fds, timeout.as_ref()).is_ok_and(|ready| ready == 0)
}

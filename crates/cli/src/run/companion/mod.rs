//! The companion: a process beside the command that speaks QMP with other hosts for it.
//!
//! The preload library asks it, over a SEQPACKET socket with an abstract name that the command's environment says, for
//! connections to other hosts and for those of other hosts (the table is in the library's `carrier` module). What it gives is
//! one end of a pair of Unix sockets ([`pair`]); between the other end and the network it passes the bytes ([`pump`]).
//!
//! Always true: it answers its own user and root, and nobody else. It lasts as long as one of the command's processes, one
//! of their listeners, or one of their streams, and no longer.

//= Q-13

mod endpoints;
mod pair;
mod peers;
mod pump;
mod request;
mod streams;
mod watch;

use super::contract::Contract;
use super::inherited;
use crate::exit::Error;
use clap::Parser;
use endpoints::{Endpoints, LAST_WORDS};
use pair::Control;
use peers::Peers;
use pinnace::qmp::{Endpoint, Listener, Options, Stream};
use request::Request;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use streams::Streams;
use watch::Watch;

/// One end of `pinnace run`: what its commands reach other hosts by
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// What the connections to other hosts are to be
    #[arg(long, default_value_t)]
    contract: Contract,
    /// Say which way connections go
    #[arg(long)]
    talkative: bool,
}

/// The companion, as `pinnace run` has it.
#[derive(Debug)]
pub(super) struct Companion {
    /// What the command's environment says.
    pub(super) name: String,
    /// Inherited by every process of the command: the companion sees when the last is gone.
    life: OwnedFd,
    /// Its inode, by which the library knows it wherever it is, and keeps it.
    pub(super) life_inode: u64,
    process: Child,
}

/// Where the descriptor that the command's processes inherit is: out of their way.
const HIDDEN: i32 = 896;

impl Companion {
    /// Starts it. It can be asked from now on: requests wait until it is there.
    pub(super) fn start(contract: &Contract, verbose: bool) -> Result<Self, Error> {
        Self::try_start(contract, verbose)
            .map_err(|error| Error::io("cannot start the companion of the command", &error))
    }

    fn try_start(contract: &Contract, verbose: bool) -> io::Result<Self> {
        let mut random = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let name = random.iter().fold("pinnace-run/".to_owned(), |name, byte| format!("{name}{byte:02x}"));
        let control = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        bind(&control, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
        listen(&control, 128)?;
        let (watched, life) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["run-companion", "--contract", &contract.to_string()])
            .stdin(Stdio::from(control))
            .stdout(Stdio::from(watched))
            .env_remove("LD_PRELOAD")
            // Signals of the terminal are for the command.
            .process_group(0);
        if verbose {
            command.arg("--talkative");
        } else {
            command.stderr(Stdio::null());
        }
        // What ends every process of a service is not to cut off the last words of the command; it ends after them by itself.
        inherited::keep_apart(&mut command);
        let process = command.spawn()?;
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
        let life = rustix::io::fcntl_dupfd_cloexec(&life, HIDDEN.min((limit / 8 * 7) as i32))?;
        rustix::io::fcntl_setfd(&life, rustix::io::FdFlags::empty())?;
        let life_inode = rustix::fs::fstat(&life)?.st_ino;
        Ok(Self { name, life, life_inode, process })
    }

    /// The command has ended. The companion goes on for as long as it has to; but the first process of a container takes all
    /// others with it when it ends, and so waits a while.
    pub(super) fn leave(mut self) {
        drop(self.life);
        let end = Instant::now() + LAST_WORDS;
        let is_awaited = rustix::process::getpid().is_init();
        while is_awaited && Instant::now() < end && matches!(self.process.try_wait(), Ok(None)) {
            thread::sleep(MOMENT);
        }
    }
}

impl AsFd for Companion {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.life.as_fd()
    }
}

/// Requests and streams at once; whoever comes after gets TCP.
const MOST: usize = 4096;
/// How often it is looked whether the last stream is gone, once everybody else is.
const LOOK: Duration = Duration::from_millis(200);
/// How often it is looked whether the companion has ended.
const MOMENT: Duration = Duration::from_millis(10);

struct Shared {
    options: Options,
    peers: Peers,
    endpoints: Endpoints,
    streams: Streams,
    /// Requests, listeners and streams.
    busy: AtomicUsize,
    talkative: bool,
}

/// Counts as long as it lives.
struct Busy(Arc<Shared>);

impl Busy {
    fn new(shared: &Arc<Shared>) -> Option<Self> {
        let busy = Self(shared.clone());
        (shared.busy.fetch_add(1, Ordering::SeqCst) < MOST).then_some(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Shared {
    fn say(&self, text: std::fmt::Arguments<'_>) {
        if self.talkative {
            eprintln!("pinnace: {text}");
        }
    }
}

/// Serves until nobody is left.
pub(crate) fn serve(args: &Args) -> Result<(), Error> {
    // The terminal's end is not ours.
    let _ = rustix::process::setsid();
    let clone = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned();
    let (control, life) = clone(io::stdin().as_fd())
        .and_then(|control| Ok((control, clone(io::stdout().as_fd())?)))
        .map_err(|error| Error::io("this command is a part of `pinnace run`", &error))?;
    let shared = Arc::new(Shared {
        options: args.contract.options(),
        peers: Peers::default(),
        endpoints: Endpoints::default(),
        streams: Streams::default(),
        busy: AtomicUsize::new(0),
        talkative: args.talkative,
    });
    let mut alive = true;
    while alive || shared.busy.load(Ordering::SeqCst) > 0 {
        let mut fds = [PollFd::new(&control, PollFlags::IN), PollFd::new(&life, PollFlags::IN)];
        let (watched, timeout) = if alive { (2, None) } else { (1, Some(LOOK)) };
        let timeout = timeout.and_then(|time| time.try_into().ok());
        match poll(&mut fds[..watched], timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::io("cannot wait", &error.into())),
        }
        // Nobody ever writes: it is readable when the last process is gone.
        alive = alive && fds[1].revents().is_empty();
        if fds[0].revents().contains(PollFlags::IN)
            && let Ok(control) = Control::accept(&control)
            && let Some(busy) = Busy::new(&shared)
        {
            let shared = shared.clone();
            spawn("request", move || {
                // Whoever does not get an answer takes TCP.
                let _ = answer(&shared, &Arc::new(control), busy);
            });
        }
    }
    pinnace::qmp::settle(LAST_WORDS);
    Ok(())
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) {
    let _ = thread::Builder::new().name(name.to_owned()).stack_size(256 << 10).spawn(work);
}

fn answer(shared: &Arc<Shared>, control: &Arc<Control>, busy: Busy) -> io::Result<()> {
    match control.request()? {
        Request::Connect { family, to } => match connect(shared, to) {
            Ok(stream) => {
                let stream = Arc::new(stream);
                let (application, own) = pair::make(family, stream.local_addr(), stream.peer_addr())?;
                let named = shared.streams.name(&application, &stream)?;
                control.give(&application)?;
                drop(application);
                shared.say(format_args!("QMP to {to}"));
                let passed = pump::run(&stream, &own, Some(Watch::new(to)));
                drop((own, named));
                // It is this stream's alone.
                let endpoint = stream.endpoint().cloned();
                drop(stream);
                endpoint.iter().for_each(|endpoint| endpoint.leave(LAST_WORDS));
                // Everything has been said before it counts as gone.
                drop((endpoint, busy));
                passed
            }
            Err(error) => {
                shared.say(format_args!("TCP to {to}: {error}"));
                control.refuse()
            }
        },
        Request::Bear { stream, patience } => {
            if shared.streams.bear(stream, patience) {
                control.agree()
            } else {
                control.refuse()
            }
        }
        Request::Listen { takes, at, name } => {
            let (listener, endpoint) = match shared.endpoints.listen((at, takes), control, &shared.options) {
                Ok(listening) => listening,
                Err(error) => {
                    shared.say(format_args!("no QMP at {at}: {error}"));
                    return control.refuse();
                }
            };
            control.agree()?;
            shared.say(format_args!("QMP at {at}"));
            let awaited = await_streams(shared, control, (&listener, &endpoint), takes.family(), &name);
            drop(listener);
            shared.endpoints.release(endpoint);
            drop(busy);
            awaited
        }
    }
}

/// A stream, if the other side answers with QMP soon.
fn connect(shared: &Shared, to: SocketAddr) -> io::Result<Stream> {
    let patience = shared.peers.patience(to).ok_or_else(|| {
        io::Error::new(io::ErrorKind::ConnectionRefused, "it did not speak QMP within the last minute")
    })?;
    let begin = Instant::now();
    let stream = Stream::begin(to, &shared.options)?;
    match stream.wait_established(Some(patience)) {
        Ok(()) => {
            shared.peers.speaks(to, begin.elapsed());
            Ok(stream)
        }
        Err(error) => {
            // Nothing is to be delivered any more.
            stream.set_linger(Some(Duration::ZERO));
            shared.peers.is_silent(to, error.kind() == io::ErrorKind::ConnectionRefused, begin);
            Err(error)
        }
    }
}

/// Hands streams of other hosts over, until the listener is closed.
fn await_streams(
    shared: &Arc<Shared>,
    control: &Control,
    (listener, endpoint): (&Listener, &Arc<Endpoint>),
    family: pair::Family,
    name: &str,
) -> io::Result<()> {
    let watch = listener.watch()?;
    loop {
        watch.clear();
        while let Some(stream) = listener.try_accept()? {
            let Some(busy) = Busy::new(shared) else { continue };
            let (peer, local) = (stream.peer_addr(), stream.local_addr());
            let (name, endpoint, shared) = (name.to_owned(), endpoint.clone(), shared.clone());
            spawn("stream", move || {
                let stream = Arc::new(stream);
                // If it cannot be handed over it is dropped, and the peer sees the end of it.
                let handed = pair::make(family, local, peer).and_then(|(application, own)| {
                    let named = shared.streams.name(&application, &stream)?;
                    pair::hand_over(&name, &application)?;
                    Ok((own, named))
                });
                match handed {
                    Ok((own, _named)) => drop(pump::run(&stream, &own, None)),
                    Err(_) => stream.set_linger(Some(Duration::ZERO)),
                }
                drop(stream);
                shared.endpoints.release(endpoint);
                drop(busy);
            });
        }
        let mut fds = [PollFd::new(control, PollFlags::IN), PollFd::new(&*watch, PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // Nothing is said on it: its end is the listener's.
        if !fds[0].revents().is_empty() {
            return Ok(());
        }
    }
}

//! The companion: a process beside the command that speaks QMP with other hosts for it.
//!
//! The preload library asks it, over a SEQPACKET socket with an abstract name that the command's environment says, for
//! connections to other hosts and for those of other hosts (the table is in the library's `carrier` module). What it gives is
//! one end of a pair of Unix sockets ([`pair`]); between the other end and the network it passes the bytes ([`pump`], [`carried`]).
//!
//! Always true: it answers its own user and root, and nobody else. It lasts as long as one of the command's processes, one
//! of their listeners, or one of their streams, and no longer.

//= Q-13

mod carried;
mod doubts;
mod endpoints;
mod inbox;
mod leaving;
mod pair;
mod peers;
mod pump;
mod request;
mod streams;
mod talk;
mod watch;

use super::contract::Contract;
use super::inherited;
use crate::exit::Error;
use clap::Parser;
use endpoints::Endpoints;
use inbox::{Command as ForPump, Listen, Open};
use pair::Control;
use peers::Peers;
use pinnace::qmp::Options;
use request::Request;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use streams::Streams;
use talk::Talk;

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

/// How long the command's end waits for the companion, and that for streams that linger in the background.
const LAST_WORDS: Duration = Duration::from_secs(10);
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
    talk: Option<Talk>,
}

/// Counts as long as it lives.
struct Busy(Arc<Shared>);

impl Busy {
    fn new(shared: &Arc<Shared>) -> Option<Self> {
        let busy = Self(shared.clone());
        (shared.busy.fetch_add(1, Ordering::SeqCst) < MOST).then_some(busy)
    }

    /// Of somebody who is not one of those that may be refused.
    fn always(shared: &Arc<Shared>) -> Self {
        shared.busy.fetch_add(1, Ordering::SeqCst);
        Self(shared.clone())
    }
}

impl fmt::Debug for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Busy")
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Shared {
    fn say(&self, text: fmt::Arguments<'_>) {
        if let Some(talk) = &self.talk {
            talk.say(format!("pinnace: {text}"));
        }
    }

    /// Whoever asked takes TCP.
    fn refuse(&self, asked: &Open, error: &io::Error) {
        self.say(format_args!("TCP to {}: {error}", asked.to));
        let _ = asked.control.refuse();
    }
}

/// Serves until nobody is left.
pub(crate) fn serve(args: &Args) -> Result<(), Error> {
    // The terminal's end is not ours.
    let _ = rustix::process::setsid();
    // Each connection from another host takes one here, whatever the program's own limit.
    crate::descriptors::raise();
    let clone = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned();
    let (control, life) = clone(io::stdin().as_fd())
        .and_then(|control| Ok((control, clone(io::stdout().as_fd())?)))
        .map_err(|error| Error::io("this command is a part of `pinnace run`", &error))?;
    let shared = Arc::new(Shared {
        // The pumps do all the work; and who is on this host is reached without us.
        options: Options { worker: false, same_host: false, ..args.contract.options() },
        peers: Peers::default(),
        endpoints: Endpoints::default(),
        streams: Streams::default(),
        busy: AtomicUsize::new(0),
        talk: args
            .talkative
            .then(Talk::begin)
            .transpose()
            .map_err(|error| Error::io("cannot start a thread", &error))?,
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
        if alive && !fds[1].revents().is_empty() {
            alive = false;
            shared.endpoints.end(&shared);
        }
        if fds[0].revents().contains(PollFlags::IN)
            && let Ok(control) = Control::accept(&control)
            && let Some(busy) = Busy::new(&shared)
        {
            receive(&shared, Arc::new(control), busy);
        }
    }
    pinnace::qmp::settle(LAST_WORDS);
    shared.talk.iter().for_each(Talk::end);
    Ok(())
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).stack_size(256 << 10).spawn(work).map(drop)
}

/// Answers whoever asks; in a thread of its own, if that may take time. Whoever does not get an answer takes TCP.
fn receive(shared: &Arc<Shared>, control: Arc<Control>, busy: Busy) {
    let shared = shared.clone();
    let _ = match control.request(false) {
        Ok(request @ Request::Listen { .. }) => spawn("request", move || drop(answer(&shared, request, control, busy))),
        Ok(request) => answer(&shared, request, control, busy),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => spawn("request", move || {
            let _ = control.request(true).and_then(|request| answer(&shared, request, control, busy));
        }),
        Err(_) => Ok(()),
    };
}

fn answer(shared: &Arc<Shared>, request: Request, control: Arc<Control>, busy: Busy) -> io::Result<()> {
    match request {
        Request::Connect { family, to } => {
            let patience = shared.peers.patience(to).ok_or_else(|| {
                io::Error::new(io::ErrorKind::ConnectionRefused, "it did not speak QMP within the last minute")
            });
            let asked = |patience| Open { control, family, to, patience, busy };
            match patience.and_then(|patience| Ok((patience, shared.endpoints.to(shared, to)?))) {
                Ok((patience, inbox)) => inbox.tell(ForPump::Open(asked(patience))),
                Err(error) => shared.refuse(&asked(Duration::ZERO), &error),
            }
            Ok(())
        }
        Request::Bear { stream, patience } => {
            if shared.streams.bear(stream, patience) {
                control.agree()
            } else {
                control.refuse()
            }
        }
        Request::Listen { takes, at, name } => match shared.endpoints.listen(shared, (at, takes), &control) {
            Ok((listener, inbox)) => {
                control.agree()?;
                shared.say(format_args!("QMP at {at}"));
                let family = takes.family();
                inbox.tell(ForPump::Listen(Listen { listener, control, family, name, _busy: busy }));
                Ok(())
            }
            Err(error) => {
                shared.say(format_args!("no QMP at {at}: {error}"));
                control.refuse()
            }
        },
    }
}

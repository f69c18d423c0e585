//! A daemon between clients that know its protocol and lie, and write over the pool that they share with it.

use super::script::Script;
use crate::daemon::protocol::{BYTES, Message, Reply, Request, VERSION, Via};
use crate::daemon::socket::{self, Received};
use crate::daemon::{Daemon, DaemonOptions, Limits};
use pinnace_qbuf::{ClientId, Pool, PoolOptions};
use rustix::net::SocketFlags;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Steps of a script; more only take time.
const STEPS: usize = 60;
/// Longer than any machine is busy; an answer that takes so long does not come.
const PATIENCE: Duration = Duration::from_secs(60);

/// Each request is answered once or is the end of who asks; whatever is said, others are served.
pub fn daemon(input: &[u8]) {
    let first: Message = std::array::from_fn(|at| input.get(at).copied().unwrap_or(0));
    codec(&first);
    codec(input);
    let home = Home::new();
    let limits = Limits { bridges: 0, connections_per_process: 100, ..Limits::default() };
    let pool = PoolOptions { zones: 2, ..PoolOptions::default() };
    let options = DaemonOptions { socket: Some(home.0.join("socket")), pool, limits, ..DaemonOptions::default() };
    let daemon = Arc::new(Daemon::bind(&options).expect("a daemon"));
    let serving = std::thread::spawn({
        let daemon = Arc::clone(&daemon);
        move || daemon.run()
    });
    let mut liars = Liars { daemon: &daemon, clients: [None, None, None], listeners: Vec::new() };
    let mut script = Script::new(input);
    for _ in 0..STEPS {
        if script.is_over() {
            break;
        }
        liars.step(&mut script);
    }
    drop(liars);
    let other = Liar::connect(&daemon);
    assert_eq!(other.ask(&Request::Hello.encode()).map(|(reply, _)| reply), Some(Reply::Welcome));
    drop(other);
    daemon.stop();
    serving.join().expect("the daemon has not panicked").expect("it can wait");
}

/// What parses can be said again.
fn codec(message: &[u8]) {
    if let Ok(request) = Request::parse(message) {
        assert_eq!(request.encode()[..], *message);
    }
    if let Ok(reply) = Reply::parse(message) {
        assert_eq!(Reply::parse(&reply.encode()), Ok(reply));
    }
}

/// A directory for as long as it is there.
struct Home(PathBuf);

impl Home {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("pinnace-fuzz-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A connection to the daemon, and an attachment to its pool.
struct Liar {
    socket: OwnedFd,
    pool: Option<Pool>,
}

impl Liar {
    fn connect(daemon: &Daemon) -> Self {
        let socket = socket::new(SocketFlags::empty()).expect("a socket");
        let address = rustix::net::SocketAddrUnix::new(daemon.path()).expect("a short path");
        rustix::net::connect(&socket, &address).expect("the daemon takes it");
        let timeout = rustix::net::sockopt::Timeout::Recv;
        rustix::net::sockopt::set_socket_timeout(&socket, timeout, Some(PATIENCE)).expect("a timeout");
        // One who has written over the pool may have made it unusable.
        let pool = daemon.pool().fd().try_clone_to_owned().ok().and_then(|fd| Pool::attach(fd).ok());
        Self { socket, pool }
    }

    /// The answer; `None`: the daemon has hung up.
    fn ask(&self, message: &[u8]) -> Option<(Reply, Vec<OwnedFd>)> {
        let flags = rustix::net::SendFlags::NOSIGNAL;
        rustix::net::send(&self.socket, message, flags).ok()?;
        let mut answer = [0; BYTES];
        match socket::receive_fds(self.socket.as_fd(), &mut answer).expect("an answer, or the end") {
            (Received::Bytes(len), fds) => Some((Reply::parse(&answer[..len]).expect("a reply"), fds)),
            (Received::Closed, _) => None,
            (other, _) => panic!("{other:?} in place of an answer"),
        }
    }
}

struct Liars<'a> {
    daemon: &'a Daemon,
    clients: [Option<Liar>; 3],
    /// Sockets on which arrivals come.
    listeners: Vec<OwnedFd>,
}

impl Liars<'_> {
    fn step(&mut self, script: &mut Script<'_>) {
        let which = usize::from(script.byte() % 3);
        let what = script.byte() % 16;
        let client = self.clients[which].get_or_insert_with(|| Liar::connect(self.daemon));
        let pool = client.pool.as_ref();
        let message: Vec<u8> = match what {
            0 => Request::Hello.encode().to_vec(),
            1 | 2 => Request::Attach(id(script, pool)).encode().to_vec(),
            3 | 4 => Request::Listen(address(script)).encode().to_vec(),
            5..=7 => Request::Connect { to: address(script), client: id(script, pool) }.encode().to_vec(),
            8 => {
                Request::ConnectVia { via: Via::Ip36, to: address(script), client: id(script, pool) }.encode().to_vec()
            }
            9 => Request::ListenVia { via: Via::Ether, address: address(script) }.encode().to_vec(),
            10 => Request::Totals.encode().to_vec(),
            11 => Request::Client(script.byte().into()).encode().to_vec(),
            12 => said(script),
            13 => return self.listen_no_more(script),
            14 => return self.scribble(script),
            _ => return self.clients[which] = None,
        };
        let may_be_answered = !matches!(Request::parse(&message), Ok(Request::Bye));
        match client.ask(&message).filter(|_| may_be_answered) {
            Some((Reply::Refused(crate::daemon::Refusal::Version), _)) | None => self.clients[which] = None,
            Some((Reply::Listening, fds)) => self.listeners.extend(fds),
            Some(_) => {}
        }
    }

    /// Says something where only arrivals are declined, or hangs up there.
    fn listen_no_more(&mut self, script: &mut Script<'_>) {
        let Some(listener) = self.listeners.pop() else { return };
        let message = match script.byte() % 3 {
            0 => return,
            1 => Request::Decline(address(script)).encode().to_vec(),
            _ => said(script),
        };
        let _ = rustix::net::send(&listener, &message, rustix::net::SendFlags::NOSIGNAL);
        self.listeners.insert(0, listener);
    }

    /// Writes over the pool: its head and its tables more often than its blocks.
    fn scribble(&self, script: &mut Script<'_>) {
        let reach = script.pick(&[1 << 8, 1 << 12, 70_000, 1 << 18]);
        let at = u64::from(script.long() % reach);
        let len = usize::from(script.byte() % 16);
        let _ = rustix::io::pwrite(self.daemon.pool().fd(), &script.take(len), at);
    }
}

/// Bytes that are a message of the protocol as far as the script wants.
fn said(script: &mut Script<'_>) -> Vec<u8> {
    let (has_head, kind, len) = (!script.one_in(4), script.byte(), usize::from(script.byte()));
    let body = script.take(len);
    if !has_head {
        // No bytes look like the end, and are not answered either.
        return if body.is_empty() { vec![0] } else { body };
    }
    let mut bytes = [&b"PnDm"[..], &VERSION.to_le_bytes(), &u16::from(kind).to_le_bytes(), &body].concat();
    bytes.resize(BYTES, 0);
    bytes
}

fn id(script: &mut Script<'_>, pool: Option<&Pool>) -> ClientId {
    match (script.byte(), pool) {
        (0..0xe0, Some(pool)) => pool.client(),
        _ => ClientId::from_bits(script.long()),
    }
}

fn address(script: &mut Script<'_>) -> SocketAddr {
    let of = [
        "127.0.0.1:7001",
        "127.0.0.1:7002",
        "0.0.0.0:7001",
        "[::1]:7001",
        "[::]:7002",
        "127.0.0.1:0",
        "[::ffff:127.0.0.1]:7001",
        "192.0.2.1:7001",
    ];
    script.pick(&of).parse().expect("an address")
}

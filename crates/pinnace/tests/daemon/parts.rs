//! The parts that child processes play, and how they are started.

use pinnace::daemon::{Arrival, Client, Daemon, DaemonOptions, Registration, Statistics, statistics};
use pinnace::qmp::PoolOptions;
use pinnace_qbuf::channel::{ChannelError, Received};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What a test waits for at most.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

const PART: &str = "PINNACE_TEST_PART";

/// A test, with its name.
pub(crate) type Named = (&'static str, fn());

/// Plays a part, if this process was started for one.
pub(crate) fn play() -> bool {
    let Ok(part) = std::env::var(PART) else { return false };
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match (part.as_str(), &arguments[..]) {
        ("daemon", [socket, settings @ ..]) => serve(Path::new(socket), settings),
        ("echo", [socket, address]) => echo(socket, address),
        ("load", [socket, address]) => load(socket, address, false),
        ("faithful", [socket, address]) => load(socket, address, true),
        ("grab", [socket]) => grab(socket),
        ("come", [socket]) => come(socket),
        ("listen", [socket, address]) => listen(socket, address),
        ("another", [socket, address]) => another(socket, address),
        ("poor", [socket, address]) => poor(socket, address),
        ("without rights", [role, at]) => {
            say(crate::bridging::without_rights(role, at).unwrap_or_else(|error| error));
        }
        ("current", []) => current(),
        ("ways", []) => ways(),
        _ => panic!("no part {part} {arguments:?}"),
    }
    true
}

/// Says a line to whoever started this process.
pub(crate) fn say(line: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    // Who started us may have gone.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// A child, killed in the end.
pub(crate) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
}

impl Process {
    pub(crate) fn start(part: &str, arguments: &[&str]) -> Self {
        Self::start_by(Command::new(std::env::current_exe().unwrap()), part, arguments)
    }

    /// With a command before it, such as `unshare`.
    pub(crate) fn start_by(mut command: Command, part: &str, arguments: &[&str]) -> Self {
        let mut child = command
            .args(arguments)
            .env(PART, part)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { stdin: child.stdin.take(), child, lines }
    }

    /// Waits for what it says next.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("readable");
        line.trim_end().to_owned()
    }

    /// Asks it for something, and waits for the answer.
    pub(crate) fn ask(&mut self, question: &str) -> String {
        writeln!(self.stdin.as_mut().unwrap(), "{question}").expect("it reads");
        self.line()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }

    /// The time for which it has had a processor: unlike that of the wall, it does not go on while others have them all.
    pub(crate) fn busy(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        // User and system time, in hundredths of a second, counted from behind the name.
        let fields = stat.rsplit(')').next().unwrap().split_whitespace();
        Duration::from_millis(10 * fields.skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum::<u64>())
    }

    /// Whether it still runs.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A daemon in a process of its own.
pub(crate) struct Served {
    pub(crate) process: Process,
    pub(crate) socket: PathBuf,
    directory: tempfile::TempDir,
}

impl Served {
    /// Settings are `name=value`; see `serve`.
    pub(crate) fn start(settings: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("daemon.sock");
        Self { process: Self::process(&socket, settings), socket, directory }
    }

    fn process(socket: &Path, settings: &[&str]) -> Process {
        let arguments = [&[socket.to_str().unwrap()], settings].concat();
        let mut process = Process::start("daemon", &arguments);
        assert_eq!(process.line(), "serving");
        process
    }

    /// Another one, at the same place.
    pub(crate) fn again(&mut self) {
        self.process = Self::process(&self.socket, &[]);
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn path(&self) -> &str {
        self.socket.to_str().unwrap()
    }

    pub(crate) fn statistics(&self) -> Statistics {
        statistics(&self.socket).expect("the daemon answers")
    }

    /// Waits until nobody uses it and nothing is in use.
    pub(crate) fn wait_until_unused(&self) {
        let end = Instant::now() + PATIENCE;
        loop {
            let now = self.statistics();
            let (totals, pool) = (now.totals, now.totals.pool);
            let is_unused = now.clients.is_empty()
                && (totals.listeners, totals.channels, pool.clients) == (0, 0, 1)
                && (pool.free_blocks, pool.hidden_blocks, pool.locked_zones) == (pool.blocks, 0, 0);
            if is_unused {
                return;
            }
            assert!(Instant::now() < end, "still in use: {now:#?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Waits until `ready`.
pub(crate) fn wait_until(what: &str, mut ready: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !ready() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends bytes through a channel to an echo, and expects them back.
pub(crate) fn exchange(arrival: &mut Arrival, len: usize) {
    let channel = &mut arrival.channel;
    let deadline = Instant::now() + PATIENCE;
    let mut qbuf = loop {
        // Others may have everything for a moment.
        match channel.pool().alloc(len) {
            Some(qbuf) => break qbuf,
            None => assert!(Instant::now() < deadline, "no room in the pool: {:?}", channel.pool().stats()),
        }
    };
    qbuf.fill(0x5A);
    assert!(channel.wait_writable(Duration::ZERO, Some(deadline)).unwrap(), "nobody takes it");
    channel.try_send(qbuf).unwrap();
    assert!(channel.wait_readable(Duration::ZERO, Some(deadline)).unwrap(), "no echo");
    let back = channel.try_recv().unwrap().expect("it is readable");
    assert!(back.len() == len && back.iter().all(|&byte| byte == 0x5A));
}

fn serve(socket: &Path, settings: &[&str]) {
    let mut options = DaemonOptions {
        socket: Some(socket.to_owned()),
        pool: PoolOptions { zones: 64, ..PoolOptions::default() },
        ..DaemonOptions::default()
    };
    for setting in settings {
        let (name, value) = setting.split_once('=').unwrap();
        let value: usize = value.parse().unwrap();
        let limits = &mut options.limits;
        match name {
            "clients" => limits.clients = value,
            "connections" => limits.connections_per_process = value,
            "listeners" => limits.listeners_per_client = value,
            "channels" => limits.channels_per_client = value,
            "pending" => limits.pending_per_listener = value,
            "percent" => limits.blocks_per_client_percent = value as u8,
            "handshake_ms" => limits.handshake = Duration::from_millis(value as u64),
            _ => panic!("no setting {name}"),
        }
    }
    let daemon = Daemon::bind(&options).expect("it serves");
    say("serving");
    daemon.run().expect("it goes on");
}

/// Listens, and sends everything back that comes.
fn echo(socket: &str, address: &str) {
    let client = Client::open(socket).unwrap();
    let registration = client.listen(address.parse().unwrap()).unwrap();
    say("ready");
    let mut arrivals: Vec<Arrival> = Vec::new();
    loop {
        // The daemon may be gone; those who are here go on.
        let wait = if arrivals.is_empty() { Duration::from_millis(5) } else { Duration::ZERO };
        match registration.accept_timeout(wait) {
            Ok(Some(arrival)) => arrivals.push(arrival),
            Ok(None) => {}
            Err(_) => std::thread::sleep(wait),
        }
        let mut is_idle = true;
        arrivals.retain_mut(|arrival| {
            loop {
                match arrival.channel.try_recv() {
                    Ok(None) => return true,
                    Ok(Some(Received::Qbuf(qbuf))) => {
                        is_idle = false;
                        // One that does not take its echo loses it.
                        drop(arrival.channel.try_send(qbuf));
                    }
                    Ok(Some(Received::Inline(bytes))) => {
                        is_idle = false;
                        drop(arrival.channel.try_send_bytes(&bytes));
                    }
                    Err(ChannelError::Closed | ChannelError::Corrupt) => return false,
                    Err(error) => panic!("{error}"),
                }
            }
        });
        if is_idle {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

/// What a faithful load says when it is asked.
#[derive(Default)]
struct Progress {
    echoes: AtomicU64,
    is_alone: AtomicBool,
}

impl Progress {
    /// Answers on a thread of its own: a load that waited until somebody reads would keep what it has under way.
    fn answer(self: &Arc<Self>) {
        let progress = Arc::clone(self);
        std::thread::spawn(move || {
            for line in std::io::stdin().lines() {
                line.unwrap();
                let daemon = if progress.is_alone.load(Relaxed) { "gone" } else { "alive" };
                say(format_args!("{} {daemon}", progress.echoes.load(Relaxed)));
            }
        });
    }
}

/// Connects to an echo, and keeps many buffers of all sizes under way. A faithful one has one connection and counts.
fn load(socket: &str, address: &str, is_faithful: bool) {
    let client = Client::open(socket).unwrap();
    let to: SocketAddr = address.parse().unwrap();
    let mut random = u64::from(std::process::id()) | 1;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random as usize
    };
    let mut arrivals: Vec<Arrival> = Vec::new();
    let progress = Arc::new(Progress::default());
    say("ready");
    if is_faithful {
        progress.answer();
    }
    loop {
        if arrivals.is_empty() || !is_faithful && arrivals.len() < 4 && next() % 64 == 0 {
            match client.connect(to) {
                Ok(Some(arrival)) => arrivals.push(arrival),
                // The echo is dead, and another comes.
                Ok(None) | Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        arrivals.retain_mut(|arrival| {
            for _ in 0..next() % 8 {
                if let Some(qbuf) = client.pool().alloc(1 + next() % 131_072) {
                    drop(arrival.channel.try_send(qbuf));
                }
            }
            loop {
                match arrival.channel.try_recv() {
                    Ok(Some(_)) => _ = progress.echoes.fetch_add(1, Relaxed),
                    Ok(None) => return is_faithful || next() % 256 != 0,
                    Err(_) => return false,
                }
            }
        });
        progress.is_alone.store(!client.is_alive(), Relaxed);
    }
}

/// Takes all blocks, and keeps them.
fn grab(socket: &str) {
    let client = Client::open(socket).unwrap();
    let mut all = Vec::new();
    while let Some(qbuf) = client.pool().alloc(1) {
        all.push(qbuf);
    }
    say(all.len());
    std::thread::sleep(PATIENCE);
}

/// Tries to become a client.
fn come(socket: &str) {
    match Client::open(socket) {
        Ok(_) => say("welcome"),
        Err(error) => say(error),
    }
}

/// Listens, and accepts nobody until it is told to.
fn listen(socket: &str, address: &str) {
    let client = Client::open(socket).unwrap();
    let registration: Registration = match client.listen(address.parse().unwrap()) {
        Ok(registration) => registration,
        Err(error) => return say(error),
    };
    say("ready");
    for line in std::io::stdin().lines() {
        if line.unwrap() == "accept" {
            say(registration.accept_timeout(PATIENCE).unwrap().map_or("nobody".to_owned(), |one| one.peer.to_string()));
        }
    }
}

/// Listens, accepts, and is another program from then on.
fn another(socket: &str, address: &str) {
    use std::os::unix::process::CommandExt;
    let client = Client::open(socket).unwrap();
    let registration = client.listen(address.parse().unwrap()).unwrap();
    say("ready");
    let arrival = registration.accept_timeout(PATIENCE).unwrap();
    let error = Command::new("sleep").arg(PATIENCE.as_secs().to_string()).exec();
    panic!("{error}, with {arrival:?}");
}

/// Listens, and has no descriptor left for the first who comes.
fn poor(socket: &str, address: &str) {
    let client = Client::open(socket).unwrap();
    let registration = client.listen(address.parse().unwrap()).unwrap();
    rustix::process::setrlimit(
        rustix::process::Resource::Nofile,
        rustix::process::Rlimit { current: Some(64), maximum: Some(64) },
    )
    .unwrap();
    let mut all = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        all.push(file);
    }
    // One is left: fewer than it takes.
    all.pop();
    say("ready");
    say(registration.accept_timeout(PATIENCE).map_or_else(|error| error.to_string(), |_| "accepted".to_owned()));
    drop(all);
    let arrival = registration.accept_timeout(PATIENCE).unwrap();
    say(if arrival.is_some() { "accepted" } else { "nobody" });
    std::thread::sleep(PATIENCE);
}

/// Says what carries a new stream of QMP, each time it is asked.
fn ways() {
    use pinnace::qmp::{Listener, Options, Stream};
    let listener = Listener::bind("127.0.0.1:0", &Options::default()).unwrap();
    for line in std::io::stdin().lines() {
        line.unwrap();
        let stream = Stream::connect(listener.local_addr(), &Options::default()).unwrap();
        let other = listener.accept().unwrap();
        stream.write(b"ahoy").unwrap();
        assert_eq!(other.read(&mut [0; 4]).unwrap(), 4);
        assert_eq!(stream.way(), other.way());
        say(stream.way());
    }
}

/// Says whether this process has a daemon, each time it is asked.
fn current() {
    for line in std::io::stdin().lines() {
        line.unwrap();
        say(match Client::current() {
            Some(client) if client.is_alive() => "some",
            Some(_) => "dead",
            None => "none",
        });
    }
}

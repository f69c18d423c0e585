//! Running the real command.
#![allow(dead_code)] // each test file uses its share

pub(crate) mod json;
pub(crate) mod relay;

use nix::sched::{CloneFlags, unshare};
use sha2::{Digest, Sha256};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a test waits for at most.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn pinnace(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pinnace"));
    command.args(args).stdin(Stdio::null()).env("NO_COLOR", "1");
    command
}

/// The same, with so many descriptors at most.
pub(crate) fn short_of_descriptors(most: usize, args: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {most} && exec \"$@\""), "sh", env!("CARGO_BIN_EXE_pinnace")]);
    command.args(args).stdin(Stdio::null()).env("NO_COLOR", "1");
    command
}

/// Runs to the end.
pub(crate) fn run(args: &[&str]) -> Output {
    pinnace(args).output().expect("the command runs")
}

/// A command that listens; killed at the end of the test, whatever happens.
pub(crate) struct Listening {
    child: Option<Child>,
    stderr: BufReader<ChildStderr>,
    /// Of one that prints objects, and what it has printed so far.
    stdout: Option<(BufReader<ChildStdout>, String)>,
    pub(crate) address: String,
}

impl Listening {
    /// Starts it, and waits until it says where it listens (the last word of its first line).
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::of(pinnace(args).stdout(Stdio::piped()))
    }

    /// The same with a command that was prepared; [`Listening::finish`] needs its standard output, and so does `--json`.
    pub(crate) fn of(command: &mut Command) -> Self {
        let is_json = command.get_args().any(|word| word == "--json");
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the command runs");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        if is_json {
            let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
            let mut said = String::new();
            assert_ne!(stdout.read_line(&mut said).expect("readable"), 0, "it ended before it listened");
            let object: serde_json::Value = serde_json::from_str(&said).expect("JSON");
            assert_eq!(object["event"], "listening", "{object}");
            let address = object["address"].as_str().expect("an address").to_owned();
            return Self { child: Some(child), stderr, stdout: Some((stdout, said)), address };
        }
        let address = loop {
            let mut line = String::new();
            assert_ne!(stderr.read_line(&mut line).expect("readable"), 0, "it ended before it listened");
            // Warnings about small buffers may come first.
            if line.contains(" on 127.")
                || line.contains(" on [::1]")
                || line.contains(" at 127.")
                || line.contains(" on 239.")
            {
                break line.split_whitespace().last().expect("a word").to_owned();
            }
        };
        Self { child: Some(child), stderr, stdout: None, address }
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    pub(crate) fn signal(&mut self, signal: &str) {
        let id = self.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().expect("kill runs").success());
    }

    /// How many threads it has.
    pub(crate) fn threads(&self) -> usize {
        let tasks = format!("/proc/{}/task", self.id());
        std::fs::read_dir(tasks).expect("it runs").count()
    }

    /// How long it has worked, in hundredths of a second.
    pub(crate) fn ticks(&self) -> u64 {
        let stat = format!("/proc/{}/stat", self.id());
        let stat = std::fs::read_to_string(stat).expect("it runs");
        // User and system time, counted from behind the name.
        let fields = stat.rsplit(')').next().expect("a name in brackets").split_whitespace();
        fields.skip(11).take(2).map(|field| field.parse::<u64>().expect("a number")).sum()
    }

    /// Waits until it has worked for a while: what it listens for has come.
    pub(crate) fn wait_until_busy(&self) {
        wait_until("it works", || self.ticks() >= 10);
    }

    /// Waits until it has printed so many bytes more, and returns them.
    pub(crate) fn next_bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        let stdout = self.child.as_mut().expect("it runs").stdout.as_mut().expect("piped");
        stdout.read_exact(&mut bytes).expect("so many come");
        bytes
    }

    /// The next line of standard error; empty if it has ended.
    pub(crate) fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.stderr.read_line(&mut line).expect("UTF-8");
        line
    }

    /// Standard error until it is `enough`, or has ended.
    pub(crate) fn shown_until(&mut self, enough: impl Fn(&str) -> bool) -> String {
        let mut shown = Vec::new();
        loop {
            let more = self.stderr.fill_buf().expect("readable");
            let bytes = more.len();
            shown.extend_from_slice(more);
            self.stderr.consume(bytes);
            let text = String::from_utf8_lossy(&shown).into_owned();
            if bytes == 0 || enough(&text) {
                return text;
            }
        }
    }

    /// Nobody reads what it prints any more.
    pub(crate) fn close_output(&mut self) {
        drop((self.child.as_mut().expect("it runs").stdout.take(), self.stdout.take()));
    }

    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("killed");
        child.wait().expect("waited");
    }

    /// Waits for its end: exit code, standard output, the rest of standard error.
    pub(crate) fn finish(mut self) -> (Option<i32>, String, String) {
        let mut child = self.child.take().expect("it runs");
        let of_child = |child: &mut Child| BufReader::new(child.stdout.take().expect("piped"));
        let (mut stdout, mut out) = self.stdout.take().unwrap_or_else(|| (of_child(&mut child), String::new()));
        // A full pipe must not hold it up.
        let reader = std::thread::spawn(move || stdout.read_to_string(&mut out).map(|_| out));
        let code = wait(&mut child);
        let out = reader.join().expect("read").expect("UTF-8");
        let mut err = String::new();
        self.stderr.read_to_string(&mut err).expect("UTF-8");
        (code, out, err)
    }
}

impl Listening {
    /// Waits for its end, whatever it prints: exit code, the rest of standard error.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let code = wait(self.child.as_mut().expect("it runs"));
        let mut err = String::new();
        self.stderr.read_to_string(&mut err).expect("UTF-8");
        (code, err)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits for the end of a process, and kills it if that takes too long.
pub(crate) fn wait(child: &mut Child) -> Option<i32> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("waited") {
            return status.code();
        }
        if begun.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            panic!("the command did not end within {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until a command would hear an interrupt: before, one ends it as any other program.
pub(crate) fn wait_until_interruptible(child: &Child) {
    const INT: u64 = 1 << (2 - 1);
    let status = format!("/proc/{}/status", child.id());
    wait_until("it catches SIGINT", || {
        let status = std::fs::read_to_string(&status).expect("it runs");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("Linux says so");
        u64::from_str_radix(caught.trim(), 16).expect("a mask") & INT != 0
    });
}

/// Waits until a file has so many bytes.
pub(crate) fn wait_for_size(path: &std::path::Path, len: u64) {
    wait_until(&format!("{len} bytes in {}", path.display()), || path.metadata().is_ok_and(|found| found.len() >= len));
}

/// Waits until `ready`.
pub(crate) fn wait_until(what: &str, mut ready: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !ready() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// A listener that takes endless messages dies, of which their sender hears; then the sender of such messages does, of which
/// the listener hears: what that printed, what it said, and how long it took.
pub(crate) fn kill_either_end(protocol: &str) -> (String, String, Duration) {
    let listen = |more: &[&str]| Listening::start(&[&[protocol, "listen", "--bind", "127.0.0.1:0"], more].concat());
    let send = |to: &str| {
        let args = [protocol, "send", "--to", to, "--size", "1MiB", "--count", "1000000", "--timeout", "1"];
        pinnace(&args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the command runs")
    };
    let mut listening = listen(&[]);
    let mut sender = send(&listening.address);
    listening.wait_until_busy();
    listening.kill();
    assert_eq!(wait(&mut sender), Some(3));
    let listening = listen(&["--count", "1000000", "--timeout", "1"]);
    let mut sender = send(&listening.address);
    listening.wait_until_busy();
    sender.kill().expect("killed");
    sender.wait().expect("waited");
    let begun = Instant::now();
    let (code, out, err) = listening.finish();
    assert_eq!(code, Some(3), "{err}");
    (out, err, begun.elapsed())
}

/// Whether this host lets us emulate networks; says what is missing.
#[allow(clippy::print_stderr, reason = "a test that is left out says so")]
pub(crate) fn able() -> bool {
    let missing = if !rustix::process::geteuid().is_root() {
        "root"
    } else if !std::path::Path::new("/dev/net/tun").exists() {
        "/dev/net/tun"
    } else if Command::new("ip").arg("-V").output().is_err() {
        "the program ip"
    } else {
        return true;
    };
    pinnace_testing::skip::host(format_args!("needs {missing}"));
    false
}

/// The objects of JSON, one a line.
pub(crate) fn objects(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// What the sender of a bare protocol sends as message `number`.
pub(crate) fn content(number: u64, size: usize) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&1u64.to_le_bytes()).update(&number.to_le_bytes());
    let mut content = vec![0; size];
    hasher.finalize_xof().fill(&mut content);
    content
}

/// What both ends of a bare protocol say of a message.
pub(crate) fn line(content: &[u8]) -> String {
    format!("message {} bytes {:x}\n", content.len(), Sha256::digest(content))
}

/// Runs with this on standard input.
pub(crate) fn fed(args: &[&str], input: &[u8]) -> Output {
    let mut child =
        pinnace(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("it ends");
    let _ = writer.join().expect("no panic");
    output
}

/// A listener that ends in the middle of what a sender reads from standard input: that has been heard, and was not wanted.
pub(crate) fn interrupted_in_the_middle(protocol: &[&str], mut listening: Listening) {
    let to = listening.address.clone();
    let send = [&[protocol[0], "send", "-", &to], &protocol[1..]].concat();
    let mut sender =
        pinnace(&send).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut stdin = sender.stdin.take().expect("piped");
    stdin.write_all(&[7; 1000]).expect("it reads");
    // It has come, as far as anybody can see: its place is not printed before its end.
    std::thread::sleep(Duration::from_millis(300));
    listening.signal("-INT");
    let (code, out, _) = listening.finish();
    assert_eq!((code, &*out), (Some(130), ""), "{protocol:?}");
    drop(stdin);
    let sent = sender.wait_with_output().expect("it ends");
    let (out, err) = (text(&sent.stdout), text(&sent.stderr));
    assert_eq!(sent.status.code(), Some(3), "{protocol:?}: {out}{err}");
    assert!(!out.contains("delivered") && err.contains(&to), "{protocol:?}: {out}{err}");
}

/// Three senders at once, and a listener for all of their messages.
pub(crate) fn many_senders(protocol: &str, listening: Listening) {
    let address = listening.address.clone();
    let send = |seed: &str| {
        pinnace(&[protocol, "send", "--to", &address, "--size", "200kB", "--count", "2", "--seed", seed, "-v"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let mut printed = Vec::new();
    for sender in ["1", "2", "3"].map(send) {
        let output = sender.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        printed.extend(text(&output.stdout).lines().map(str::to_owned));
    }
    let (code, out, err) = listening.finish();
    assert_eq!(code, Some(0), "{err}");
    let mut received: Vec<&str> = out.lines().collect();
    received.sort_unstable();
    printed.sort_unstable();
    assert_eq!(received, printed);
}

/// Protocol 36 of an address.
pub(crate) struct Protocol36 {
    _owner: MutexGuard<'static, ()>,
    /// The address: no other process of tests uses it.
    pub(crate) host: String,
    /// What this thread starts is in a network namespace of its own, from now on.
    pub(crate) is_apart: bool,
}

/// Raw sockets need a right, and protocol 36 of an address has one owner at a time: so have the tests. Those of other
/// processes own theirs elsewhere.
pub(crate) fn protocol_36() -> Option<Protocol36> {
    static OWNER: Mutex<()> = Mutex::new(());
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let rights = status.lines().find_map(|line| line.strip_prefix("CapEff:")).map(str::trim).expect("a line");
    if u64::from_str_radix(rights, 16).expect("hexadecimal") & 1 << 13 == 0 {
        pinnace_testing::skip::host("needs CAP_NET_RAW");
        return None;
    }
    let ip = |args: &str| Command::new("ip").args(args.split(' ')).output().is_ok_and(|output| output.status.success());
    let is_apart = ip("-V") && unshare(CloneFlags::CLONE_NEWNET).is_ok();
    let host = if is_apart {
        assert!(ip("link set lo up"), "loopback of a namespace of our own");
        "127.0.0.1".to_owned()
    } else {
        let [.., high, low] = std::process::id().to_be_bytes();
        format!("127.36.{high}.{low}")
    };
    Some(Protocol36 { _owner: OWNER.lock().unwrap_or_else(PoisonError::into_inner), host, is_apart })
}

//! An end that has too little of what the system gives, memory or descriptors: it goes on, and both ends are told.

use super::body::{LONG, forced};
use pinnace::service::Method;
use pinnace::{Connection, Endpoint, EndpointOptions, Error};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{BufRead, BufReader, ErrorKind, Lines, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// In the environment of a process that listens: what it is short of.
const SHORT: &str = "PINNACE_TEST_SHORT";
/// What it has beyond that which it uses when somebody has come.
const SPARE_BYTES: u64 = 48 << 20;
/// Looks in a row that find the same, before that is what it uses: whoever closes may not have a processor for a while.
const CALM: u32 = 6;
/// A message for which that is too little.
const LARGE: usize = 200 << 20;

/// A process of its own: what it is short of, it is short of as a whole.
struct Listener(Child, Lines<BufReader<ChildStdout>>);

impl Listener {
    fn start(short_of: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "short_of::listens", "--nocapture"]).env(SHORT, short_of);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self(child, lines)
    }

    /// What it says of this.
    fn says(&mut self, of: &str) -> String {
        let line = self.1.by_ref().map_while(Result::ok).find_map(|line| line.split_once(of).map(|it| it.1.to_owned()));
        line.unwrap_or_else(|| panic!("it says nothing of{of}"))
    }

    /// How it has ended.
    fn ends(mut self) -> bool {
        drop(self.0.stdin.take());
        self.0.wait().unwrap().success()
    }
}

fn say(what: &str) {
    println!("{what}");
    std::io::stdout().flush().unwrap();
}

fn limit(resource: Resource, most: u64) {
    let limit = Rlimit { current: Some(most), ..getrlimit(resource) };
    setrlimit(resource, limit).unwrap();
}

/// What such a process does; it is no test otherwise.
#[test]
fn listens() {
    let Ok(short_of) = std::env::var(SHORT) else { return };
    let endpoint = Endpoint::bind("127.0.0.1:0").unwrap();
    let listener = endpoint.listen(&"path=cluster".parse().unwrap()).unwrap();
    let address = listener.local_addr();
    if let Some(spare) = short_of.strip_prefix("descriptors ") {
        // What was opened only to see what the kernel can do is closed soon.
        let count = || std::fs::read_dir("/proc/self/fd").unwrap().count() as u64 - 1;
        let (mut used, mut looks) = (count(), 0);
        while looks < CALM {
            std::thread::sleep(Duration::from_millis(50));
            looks = if used == std::mem::replace(&mut used, count()) { looks + 1 } else { 0 };
        }
        limit(Resource::Nofile, used + spare.parse::<u64>().unwrap());
    }
    say(&format!("address {address}"));
    let accepted = listener.accept_timeout(LONG).unwrap();
    if short_of == "memory" {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let used = status.lines().find_map(|line| line.strip_prefix("VmSize:")?.trim().strip_suffix(" kB"));
        limit(Resource::As, used.unwrap().parse::<u64>().unwrap() * 1024 + SPARE_BYTES);
        say("limited ");
        let connection = accepted.expect("somebody has come");
        for _ in 0..2 {
            let error = connection.recv_timeout(LONG).unwrap_err();
            assert!(!matches!(error, Error::Timeout), "{error}");
            say(&format!("error {error}"));
            let kind = std::io::Error::from(error).kind();
            say(&format!("kind {kind:?}"));
        }
    }
    let _ = std::io::stdin().read(&mut [0]);
}

/// Waits until a sender is told that this has not arrived.
fn is_told(sender: &Connection) {
    let end = Instant::now() + LONG;
    let error = loop {
        if let Err(error) = sender.check() {
            break error;
        }
        assert!(Instant::now() < end, "nobody tells the sender");
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(!matches!(error, Error::Timeout), "{error}");
}

#[test]
fn a_message_for_which_there_is_no_memory_is_refused_and_both_ends_are_told() {
    for method in [Method::Qmp, Method::Xtp, Method::Zcrp] {
        let mut listener = Listener::start("memory");
        let (to, client) = (listener.says("address "), Endpoint::client_with(&forced(method)));
        let client = client.connect(&to, &format!("largest={LARGE} path=cluster").parse().unwrap()).unwrap();
        listener.says("limited ");
        let sent = client.send_timeout(vec![0; LARGE], LONG);
        for _ in 0..2 {
            let error = listener.says("error ");
            assert!(error.contains("no memory for") && error.contains("bytes"), "{method}: {error}");
            assert_eq!(listener.says("kind "), format!("{:?}", ErrorKind::OutOfMemory), "{method}");
        }
        is_told(&client);
        drop((sent, client));
        assert!(listener.ends(), "{method}");
    }
}

/// It has descriptors for the way from the client, and not for that to it.
#[test]
fn whoever_is_connected_to_an_end_without_descriptors_is_told() {
    let (mut are_served, mut are_turned_away) = (0, 0);
    for spare in 2..14 {
        let mut listener = Listener::start(&format!("descriptors {spare}"));
        let to = listener.says("address ");
        let options = EndpointOptions { connect_timeout: Some(Duration::from_secs(4)), ..forced(Method::Vrp) };
        let connected = Endpoint::client_with(&options).connect(&to, &"direction=duplex".parse().unwrap());
        // It is served, or refused, or told: before connecting returns, or just behind that.
        are_turned_away += 1;
        if let Ok(client) = connected {
            let begin = Instant::now();
            let arrives = client.send(b"ahoy".to_vec()).map(|sent| sent.wait().map(drop));
            assert!(begin.elapsed() < Duration::from_secs(3), "{spare}: {:?}", begin.elapsed());
            if matches!(arrives, Ok(Ok(()))) {
                (are_served, are_turned_away) = (are_served + 1, are_turned_away - 1);
            } else {
                is_told(&client);
                assert!(client.recv_timeout(LONG).is_err(), "{spare}");
            }
        }
        drop(listener.0.stdin.take());
        let _ = listener.0.kill();
        let _ = listener.0.wait();
    }
    assert!(
        are_served > 0 && are_turned_away > 0,
        "{are_served} and {are_turned_away}: the limits are not those that matter"
    );
}

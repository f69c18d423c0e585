//! What a sink costs who casts over A1: processor time of the sending thread, by replication and through an IP multicast
//! group.
//!
//! `cargo run --release -p pinnace --example fanout_cost [ADDRESS [COMMAND ...]]`. The sinks are threads of a second process, at
//! 127.0.0.1; or at ADDRESS, which `COMMAND ... EXAMPLE --sinks N ADDRESS` starts: `ip netns exec far`, for one. Each number is
//! the median of several rounds, in which one and many sinks take turns.
#![allow(clippy::print_stdout)]

use pinnace::Message;
use pinnace::a1::{Full, Options, Qos, Sending, Socket, group, reliable};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use std::{env, fs, thread};

const ROUNDS: usize = 5;
const SINKS: [usize; 5] = [1, 2, 8, 16, 32];
/// Messages of a round, to all sinks together.
const MESSAGES: usize = 32_000;
const SIZE: usize = 8192;
/// Windows of 160 kB in blocks of 9 kB, as in the paper.
const OUTSTANDING: u32 = 17;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn qos() -> Qos {
    let size = SIZE as u32;
    Qos { block_size: 9000, largest_sent: size, largest_received: size, outstanding: OUTSTANDING, ..reliable() }
}

/// The second process: says where its sinks are, and takes what comes.
fn sinks(count: usize, host: IpAddr) -> Result<()> {
    let sockets = (0..count).map(|_| Socket::bind((host, 0), qos())).collect::<std::result::Result<Vec<_>, _>>()?;
    for socket in &sockets {
        socket.listen(1)?;
        println!("{}", socket.local_addr());
    }
    thread::scope(|scope| {
        for socket in &sockets {
            scope.spawn(|| {
                while let Ok(connection) = socket.accept() {
                    while let Ok(Some(message)) = connection.recv() {
                        drop(message);
                    }
                }
            });
        }
    });
    Ok(())
}

struct Far {
    child: Child,
    sinks: Vec<SocketAddr>,
}

impl Far {
    fn start(count: usize, host: IpAddr, prefix: &[String]) -> Result<Self> {
        let own = env::current_exe()?.display().to_string();
        let mut words = prefix.iter().cloned().chain([own]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).args(["--sinks", &count.to_string(), &host.to_string()]);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        let sinks = lines.take(count).map(|line| Ok(line?.parse()?)).collect::<Result<Vec<_>>>()?;
        Ok(Self { child, sinks })
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Nanoseconds that this thread has had of a processor.
fn processor_time() -> Result<f64> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split_whitespace().next().ok_or("an empty schedstat")?.parse()?)
}

/// What a message costs: microseconds of this thread, and of the clock; system calls that send, and that bring something.
fn cast(far: &Far, local: IpAddr, through_group: bool) -> Result<[f64; 4]> {
    let socket = Socket::bind_with((local, 0), qos(), &Options::default())?;
    if through_group {
        let port = 7000 + (std::process::id() % 1000) as u16;
        socket.set_group(Some(group(SocketAddrV4::new(Ipv4Addr::new(239, 7, 7, 7), port))?))?;
    }
    for &sink in &far.sinks {
        socket.add_sink(sink, qos())?;
    }
    let count = MESSAGES / far.sinks.len();
    let mut free: Vec<Message> = (0..=OUTSTANDING).map(|_| Message::from_vec(vec![7; SIZE])).collect();
    let mut under_way = VecDeque::new();
    let (begin, before) = (Instant::now(), processor_time()?);
    let link = socket.link_counters();
    for _ in 0..count {
        if free.is_empty() {
            free.extend(under_way.pop_front().map(Sending::wait).transpose()?);
        }
        under_way.extend(free.pop().map(|message| socket.send_tracked(message, Full::Block)).transpose()?);
    }
    socket.flush()?;
    let (after, took) = (processor_time()?, begin.elapsed());
    let now = socket.link_counters();
    let (calls, reads) = (now.send_calls - link.send_calls, now.reads - link.reads);
    Ok([(after - before) / 1e3, took.as_secs_f64() * 1e6, calls as f64, reads as f64]
        .map(|of_all| of_all / count as f64))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [flag, count, host] = &arguments[..]
        && flag == "--sinks"
    {
        return sinks(count.parse()?, host.parse()?);
    }
    let host: IpAddr = arguments.first().map_or(Ok(Ipv4Addr::LOCALHOST.into()), |host| host.parse())?;
    let prefix = arguments.get(1..).unwrap_or_default();
    let local = if host.is_loopback() { host } else { Ipv4Addr::UNSPECIFIED.into() };
    let fars = SINKS.map(|count| Far::start(count, host, prefix));
    let fars = fars.into_iter().collect::<Result<Vec<_>>>()?;
    for (name, through_group) in [("replication", false), ("group", true)] {
        let mut rounds = vec![Vec::new(); SINKS.len()];
        for _ in 0..ROUNDS {
            for (far, rounds) in fars.iter().zip(&mut rounds) {
                rounds.push(cast(far, local, through_group)?);
            }
        }
        for (count, rounds) in SINKS.iter().zip(rounds) {
            let [thread, clock, calls, reads] =
                [0, 1, 2, 3].map(|at| median(rounds.iter().map(|round| round[at]).collect()));
            let sinks = *count as f64;
            println!(
                "{name:<12} {count:>2} sinks: {thread:>7.2} us of the sender a message, {:>6.2} a sink; {clock:>7.2} us by the clock, {calls:>5.2} sends, {reads:>5.2} reads",
                thread / sinks
            );
        }
    }
    Ok(())
}

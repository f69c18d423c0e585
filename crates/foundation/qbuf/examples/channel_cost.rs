//! What it costs to pass a message between two processes: latency, rate, and throughput, against TCP on loopback doing the
//! same work in the same run.
//!
//! `cargo run --release -p pinnace-qbuf --example channel_cost`. It wants two idle processors. Rounds of the channel and of TCP
//! alternate; what is printed is the median of the rounds, the least and the most. The bars: the ping-pong of 16 bytes that
//! spins below 0.1 of TCP's, 5 million untouched messages a second at 64 KiB and at 1 MiB, the same rate for both within
//! 20 %, and for 1 MiB that is written and read at least 4 times TCP's throughput.
#![allow(clippy::print_stdout, reason = "a measurement")]

use std::error::Error;
use std::hint::black_box;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pinnace_qbuf::channel::{Channel, ChannelError, ChannelFds, ChannelOptions, Received, Rejected, Side};
use pinnace_qbuf::{Pool, PoolOptions, Qbuf};

type Outcome<T> = Result<T, Box<dyn Error>>;

const ROUNDS: usize = 5;
const PINGS: usize = 50_000;
const BLOCKING_PINGS: usize = 10_000;
const MESSAGES: usize = 2_000_000;
const STREAM_BYTES: usize = 1 << 30;
/// Buffers between which the writer and the reader of the stream take turns.
const IN_PLAY: usize = 2;
const MIB: usize = 1 << 20;
/// Longer than any round: who spins never sleeps.
const SPIN: Duration = Duration::from_secs(60);
/// Messages that are shown to the other side at a time.
const BATCH: usize = 32;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|word| word == "peer") {
        return peer(&arguments[1..]);
    }
    let only = arguments.first().map_or("", String::as_str);
    println!("{:<52} {:>10} {:>10} {:>10}", "", "median", "least", "most");
    if "latency".starts_with(only) {
        latency()?;
    }
    if "rate".starts_with(only) {
        rate()?;
    }
    if "stream".starts_with(only) {
        stream()?;
    }
    Ok(())
}

fn latency() -> Outcome<()> {
    for (spin, pings) in [(true, PINGS), (false, BLOCKING_PINGS)] {
        let name = if spin { "spin" } else { "block" };
        let mut results = [const { Vec::new() }; 4];
        for _ in 0..ROUNDS {
            let (mut here, child) = pair(&pool(4096, 64)?, "echo", spin, 1024)?;
            let times = pings_of(pings, || channel_ping(&mut here, spin))?;
            here.finish();
            ended(child)?;
            let (mut socket, child) = tcp("tcp-echo", spin)?;
            let tcp_times = pings_of(pings, || tcp_ping(&mut socket))?;
            drop(socket);
            ended(child)?;
            for (result, value) in results.iter_mut().zip([times.0, times.1, tcp_times.0, tcp_times.1]) {
                result.push(value);
            }
        }
        let [p50, p99, tcp_p50, tcp_p99] = results;
        let here = report(&format!("16 B ping-pong, {name}, channel: p50, us"), p50);
        report(&format!("16 B ping-pong, {name}, channel: p99, us"), p99);
        let there = report(&format!("16 B ping-pong, {name}, TCP: p50, us"), tcp_p50);
        report(&format!("16 B ping-pong, {name}, TCP: p99, us"), tcp_p99);
        println!("{:<52} {:>10.3}", format!("  channel / TCP, p50, {name}"), here / there);
    }
    Ok(())
}

fn rate() -> Outcome<()> {
    let sizes = [64 << 10, MIB];
    for (what, experiment) in [("passed there and back", "return"), ("allocated, passed, freed by the other", "free")] {
        let mut results = [const { Vec::new() }; 2];
        for _ in 0..ROUNDS {
            for (size, result) in sizes.into_iter().zip(&mut results) {
                // Blocks of 1 MiB for both sizes, so that as many of either can be on their way.
                let (mut here, child) = pair(&pool(MIB, 32)?, experiment, true, 1024)?;
                let begin = Instant::now();
                match experiment {
                    "return" => there_and_back(&mut here, size)?,
                    _ => one_way(&mut here, size)?,
                }
                result.push(MESSAGES as f64 / begin.elapsed().as_secs_f64() / 1e6);
                here.finish();
                // What is still on its way back keeps the other side waiting until it is taken.
                while next(&mut here, true)?.is_some() {}
                ended(child)?;
            }
        }
        let [small, large] = results;
        let small = report(&format!("64 KiB {what}: million/s"), small);
        let large = report(&format!("1 MiB {what}: million/s"), large);
        println!("{:<52} {:>10.3}", "  1 MiB / 64 KiB", large / small);
    }
    Ok(())
}

fn stream() -> Outcome<()> {
    let mut results = [const { Vec::new() }; 2];
    for _ in 0..ROUNDS {
        let (mut here, child) = pair(&pool(MIB, 1)?, "read", true, 2)?;
        // Few buffers: what is far behind the writer has left the cache.
        let out_of_play: Vec<_> = (IN_PLAY..32).map_while(|_| here.pool().alloc(MIB)).collect();
        let begin = Instant::now();
        for turn in 0..STREAM_BYTES / MIB {
            let mut qbuf = loop {
                match here.pool().alloc(MIB) {
                    Some(qbuf) => break qbuf,
                    None => std::hint::spin_loop(),
                }
            };
            write(&mut qbuf, turn);
            send(&mut here, qbuf)?;
        }
        confirm(&mut here)?;
        results[0].push(STREAM_BYTES as f64 / begin.elapsed().as_secs_f64() / 1e9);
        drop(out_of_play);
        here.finish();
        ended(child)?;
        let (mut socket, child) = tcp("tcp-read", false)?;
        let begin = Instant::now();
        let mut buffer = vec![0; MIB];
        for turn in 0..STREAM_BYTES / MIB {
            write(&mut buffer, turn);
            socket.write_all(&buffer)?;
        }
        socket.read_exact(&mut buffer[..8])?;
        results[1].push(STREAM_BYTES as f64 / begin.elapsed().as_secs_f64() / 1e9);
        drop(socket);
        ended(child)?;
    }
    let [channel, tcp] = results;
    let here = report("1 MiB written and read, channel: GB/s", channel);
    let there = report("1 MiB written and read, TCP: GB/s", tcp);
    println!("{:<52} {:>10.3}", "  channel / TCP", here / there);
    Ok(())
}

/// The other process.
fn peer(arguments: &[String]) -> Outcome<()> {
    let [experiment, spin, rest @ ..] = arguments else { return Err("too few arguments".into()) };
    let spin = spin == "true";
    if experiment.starts_with("tcp") {
        let mut socket = TcpStream::connect(("127.0.0.1", rest[0].parse()?))?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(spin)?;
        return match experiment.as_str() {
            "tcp-echo" => tcp_echo(&mut socket),
            _ => tcp_read(&mut socket),
        };
    }
    let fds: Vec<OwnedFd> = rest
        .iter()
        .map(|number| {
            // SAFETY: the parent left these descriptors open for us, and nothing else in this process knows them.
            number.parse().map(|number| unsafe { OwnedFd::from_raw_fd(number) })
        })
        .collect::<Result<_, _>>()?;
    let [pool, region, bell, other] = <[OwnedFd; 4]>::try_from(fds).map_err(|_| "four descriptors are needed")?;
    let pool = Pool::attach(pool)?;
    let mut there = Channel::attach(&pool, ChannelFds { region, doorbells: [bell, other] }, Side::B)?;
    match experiment.as_str() {
        "echo" => {
            while let Some(message) = next(&mut there, spin)? {
                there.try_send_bytes(&message)?;
            }
        }
        "return" => {
            let mut queued = 0;
            while let Some(message) = next(&mut there, spin)? {
                if let Received::Qbuf(qbuf) = message {
                    queue(&mut there, qbuf)?;
                    queued += 1;
                    if queued % BATCH == 0 {
                        there.publish();
                    }
                }
            }
        }
        "free" => {
            let mut left = MESSAGES;
            while let Some(message) = next(&mut there, spin)? {
                drop(black_box(message));
                left -= 1;
                if left == 0 {
                    there.try_send_bytes(&[0; 8])?;
                }
            }
        }
        _ => {
            let (mut sum, mut left) = (0, STREAM_BYTES / MIB);
            while let Some(message) = next(&mut there, spin)? {
                sum ^= read(&message);
                drop(message);
                left -= 1;
                if left == 0 {
                    there.try_send_bytes(&u64::to_le_bytes(sum))?;
                }
            }
        }
    }
    Ok(())
}

/// `None`: the other side has finished.
#[inline]
fn next(channel: &mut Channel, spin: bool) -> Outcome<Option<Received>> {
    loop {
        match channel.try_recv() {
            Ok(Some(message)) => return Ok(Some(message)),
            Err(ChannelError::Closed) => return Ok(None),
            Err(error) => return Err(error.into()),
            Ok(None) => channel.wait_readable(if spin { SPIN } else { Duration::ZERO }, None)?,
        };
    }
}

fn channel_ping(channel: &mut Channel, spin: bool) -> Outcome<()> {
    channel.try_send_bytes(&[7; 16])?;
    let message = next(channel, spin)?.ok_or("the other side is gone")?;
    if message.len() == 16 { Ok(()) } else { Err("not what was sent".into()) }
}

fn there_and_back(channel: &mut Channel, size: usize) -> Outcome<()> {
    let mut ours: Vec<Qbuf> = (0..channel.slots() / 2).map_while(|_| channel.pool().alloc(size)).collect();
    let mut back = 0;
    // Each is passed twice a turn.
    while back < MESSAGES / 2 {
        for _ in 0..BATCH {
            let Some(qbuf) = ours.pop() else { break };
            match channel.try_queue(qbuf) {
                // Enough is on its way.
                Err(Rejected::Full(qbuf)) => {
                    ours.push(qbuf);
                    break;
                }
                other => other?,
            }
        }
        channel.publish();
        while let Some(message) = channel.try_recv()? {
            if let Received::Qbuf(qbuf) = message {
                ours.push(qbuf);
                back += 1;
            }
            if ours.len() >= BATCH {
                break;
            }
        }
    }
    Ok(())
}

fn one_way(channel: &mut Channel, size: usize) -> Outcome<()> {
    let mut sent = 0;
    while sent < MESSAGES {
        let Some(qbuf) = channel.pool().alloc(size) else {
            channel.publish();
            std::hint::spin_loop();
            continue;
        };
        queue(channel, qbuf)?;
        sent += 1;
        if sent % BATCH == 0 {
            channel.publish();
        }
    }
    channel.publish();
    confirm(channel)
}

/// Waits until the other side says that it is through.
fn confirm(channel: &mut Channel) -> Outcome<()> {
    next(channel, true)?.map(|_| ()).ok_or_else(|| "the other side is gone".into())
}

/// Queues as soon as there is room.
fn queue(channel: &mut Channel, mut qbuf: Qbuf) -> Outcome<()> {
    loop {
        match channel.try_queue(qbuf) {
            Err(Rejected::Full(waiting)) => qbuf = waiting,
            other => return Ok(other?),
        }
    }
}

fn send(channel: &mut Channel, qbuf: Qbuf) -> Outcome<()> {
    let mut waiting = qbuf;
    loop {
        match channel.try_send(waiting) {
            Ok(()) => return Ok(()),
            Err(Rejected::Full(qbuf)) => waiting = qbuf,
            Err(other) => return Err(other.into()),
        }
        channel.wait_writable(SPIN, None)?;
    }
}

/// Touches every byte.
fn write(bytes: &mut [u8], turn: usize) {
    bytes.fill(turn as u8);
}

fn read(bytes: &[u8]) -> u64 {
    bytes.chunks_exact(8).fold(0, |sum, chunk| sum ^ u64::from_le_bytes(chunk.try_into().unwrap_or_default()))
}

fn tcp_ping(socket: &mut TcpStream) -> Outcome<()> {
    let mut bytes = [7; 16];
    put(socket, &bytes)?;
    if take(socket, &mut bytes)? { Ok(()) } else { Err("the other side is gone".into()) }
}

fn tcp_echo(socket: &mut TcpStream) -> Outcome<()> {
    let mut bytes = [0; 16];
    while take(socket, &mut bytes)? {
        put(socket, &bytes)?;
    }
    Ok(())
}

fn tcp_read(socket: &mut TcpStream) -> Outcome<()> {
    let mut buffer = vec![0; MIB];
    let mut sum = 0;
    for _ in 0..STREAM_BYTES / MIB {
        take(socket, &mut buffer)?;
        sum ^= read(&buffer);
    }
    Ok(socket.write_all(&u64::to_le_bytes(sum))?)
}

/// Writes all, over and over if the socket does not block.
fn put(socket: &mut TcpStream, mut bytes: &[u8]) -> Outcome<()> {
    while !bytes.is_empty() {
        match socket.write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Reads all; false at the end.
fn take(socket: &mut TcpStream, mut bytes: &mut [u8]) -> Outcome<bool> {
    while !bytes.is_empty() {
        match socket.read(bytes) {
            Ok(0) => return Ok(false),
            Ok(count) => bytes = &mut bytes[count..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

fn pool(block_bytes: usize, zones: u32) -> Outcome<Pool> {
    Ok(Pool::create(&PoolOptions { block_bytes, zones, ..PoolOptions::default() })?)
}

/// A channel to a new process that does `experiment`.
fn pair(pool: &Pool, experiment: &str, spin: bool, slots: u32) -> Outcome<(Channel, Child)> {
    let fds = Channel::create(pool, &ChannelOptions { slots, ..ChannelOptions::default() })?;
    let theirs = fds.try_clone()?;
    let pool_fd = pool.fd().try_clone_to_owned()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["peer", experiment, &spin.to_string()]).stdin(Stdio::null());
    for fd in [&pool_fd, &theirs.region, &theirs.doorbells[0], &theirs.doorbells[1]] {
        rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?;
        command.arg(fd.as_raw_fd().to_string());
    }
    let mut here = Channel::attach(pool, fds, Side::A)?;
    let child = command.spawn()?;
    if !here.wait_writable(Duration::ZERO, Some(Instant::now() + Duration::from_secs(10)))? {
        return Err("the other process does not sit down".into());
    }
    Ok((here, child))
}

fn tcp(experiment: &str, spin: bool) -> Outcome<(TcpStream, Child)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port().to_string();
    let mut command = Command::new(std::env::current_exe()?);
    let child = command.args(["peer", experiment, &spin.to_string(), &port]).stdin(Stdio::null()).spawn()?;
    let (socket, _) = listener.accept()?;
    socket.set_nodelay(true)?;
    socket.set_nonblocking(spin)?;
    Ok((socket, child))
}

fn ended(mut child: Child) -> Outcome<()> {
    let status = child.wait()?;
    if status.success() { Ok(()) } else { Err(format!("the other process: {status}").into()) }
}

/// The median and the 99th percentile of `count` round trips, in microseconds.
fn pings_of(count: usize, mut ping: impl FnMut() -> Outcome<()>) -> Outcome<(f64, f64)> {
    for _ in 0..count / 10 {
        ping()?;
    }
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let begin = Instant::now();
        ping()?;
        times.push(begin.elapsed());
    }
    times.sort();
    let at = |share: usize| times[count * share / 100].as_secs_f64() * 1e6;
    Ok((at(50), at(99)))
}

/// Prints a line; the median.
fn report(what: &str, mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let median = values[values.len() / 2];
    println!("{what:<52} {median:>10.3} {:>10.3} {:>10.3}", values[0], values[values.len() - 1]);
    median
}

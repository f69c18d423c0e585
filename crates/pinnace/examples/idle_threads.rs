//! What threads cost that wait for idle streams of an endpoint beside the busy one: microseconds there and back, and the
//! processor time of the server, by how many of them there are.
//!
//! `cargo run --release -p pinnace --example idle_threads`. The server is a second process, with a thread a stream, at 127.0.0.1.
//! Each number is the median of several rounds, in which the numbers of threads take turns.
#![allow(clippy::print_stdout)]

use pinnace::qmp::{Listener, Options, Stream};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

const ROUNDS: usize = 5;
const IDLE: [usize; 4] = [0, 4, 64, 250];
/// Of a round.
const TURNS: u32 = 2000;
const SIZE: usize = 64;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The second process: says where it is, and sends back what comes.
fn serve() -> Result<()> {
    let listener = Listener::bind("127.0.0.1:0", &Options::default())?;
    println!("{}", listener.local_addr());
    loop {
        let mut stream = listener.accept()?;
        thread::spawn(move || {
            let mut bytes = [0; SIZE];
            while stream.read_exact(&mut bytes).is_ok() && stream.write_all(&bytes).is_ok() {}
        });
    }
}

struct Server {
    child: Child,
    idle: Vec<Stream>,
    busy: Stream,
}

impl Server {
    /// With so many idle streams.
    fn start(idle: usize) -> Result<Self> {
        let mut command = Command::new(env::current_exe()?);
        let mut child = command.arg("--serve").stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let connect = || -> Result<Stream> {
            let mut stream = Stream::connect(line.trim(), &Options::default())?;
            turn(&mut stream)?;
            Ok(stream)
        };
        let idle = (0..idle).map(|_| connect()).collect::<Result<Vec<_>>>()?;
        let busy = connect()?;
        Ok(Self { child, idle, busy })
    }

    /// Microseconds of a turn, and of the server's processor time in it.
    fn measure(&mut self) -> Result<(f64, f64)> {
        let (begun, before) = (Instant::now(), self.processor_time()?);
        for _ in 0..TURNS {
            turn(&mut self.busy)?;
        }
        let each = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(TURNS);
        Ok((each(begun.elapsed()), each(self.processor_time()?.saturating_sub(before))))
    }

    fn processor_time(&self) -> Result<Duration> {
        let mut ticks = 0;
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let text = fs::read_to_string(task?.path().join("schedstat"))?;
            ticks += text.split(' ').next().ok_or("no time")?.parse::<u64>()?;
        }
        Ok(Duration::from_nanos(ticks))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn turn(stream: &mut Stream) -> Result<()> {
    let mut bytes = [7; SIZE];
    stream.write_all(&bytes)?;
    Ok(stream.read_exact(&mut bytes)?)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<()> {
    if env::args().nth(1).as_deref() == Some("--serve") {
        return serve();
    }
    let mut servers = IDLE.iter().map(|idle| Server::start(*idle)).collect::<Result<Vec<_>>>()?;
    let mut measured = vec![(Vec::new(), Vec::new()); servers.len()];
    for _ in 0..ROUNDS {
        for (server, (turns, processor)) in servers.iter_mut().zip(&mut measured) {
            let (turn, time) = server.measure()?;
            turns.push(turn);
            processor.push(time);
        }
    }
    for (server, (turns, processor)) in servers.iter().zip(measured) {
        let idle = server.idle.len();
        println!("{idle:3} idle: {:7.1} us a turn, {:7.1} us of the server", median(turns), median(processor));
    }
    Ok(())
}

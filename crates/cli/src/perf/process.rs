//! A worker, as the measuring process sees it.

use super::network::{Host, Network};
use super::protocol::{Job, Ran, Reply, Request, Role};
use super::worker::Failure;
use crate::exit::Error;
use crate::interrupt;
use crate::thread;
use serde::Serialize;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// Bytes of a reply of another host, at most, its end included.
const LONGEST_REPLY: u64 = 1 << 20;
/// Replies that wait to be read: none is given without having been asked for.
const REPLIES: usize = 4;
/// How long a worker may take to open.
const OPENING: Duration = Duration::from_secs(60);

/// Why a measurement gave no numbers.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// This transport did not do it; others may.
    Transport(Failure),
    /// The whole command has to end.
    Command(Error),
}

impl Trouble {
    /// Why it is only this transport; otherwise, what ends the command.
    pub(crate) fn of_transport(self) -> Result<Failure, Error> {
        match self {
            Self::Transport(failure) => Ok(failure),
            Self::Command(error) => Err(error),
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Command(error)
    }
}

/// Where a worker runs, and so how it is ended.
enum Runs {
    Here(Child),
    /// It ends with the control connection.
    Elsewhere(TcpStream),
}

/// One end of a connection, or a counter, in a process of its own, which ends with this value.
struct Worker {
    runs: Runs,
    input: Box<dyn Write>,
    replies: Receiver<Vec<u8>>,
    /// Where it listens.
    address: Option<SocketAddr>,
}

impl Worker {
    /// Starts a worker on a host, and waits until it is ready.
    fn start(host: &Host, job: &Job) -> Result<Self, Trouble> {
        let mut worker = match host.remote {
            Some(remote) => Self::remote(remote)?,
            None => Self::local(host, job)?,
        };
        worker.ask(job)?;
        match worker.reply()? {
            Reply::Opened(address) => worker.address = address,
            _ => return Err(worker.confused()),
        }
        Ok(worker)
    }

    fn local(host: &Host, job: &Job) -> Result<Self, Error> {
        let failed = |error| Error::io("cannot start a measuring process", &error);
        let mut command = host.command()?;
        if let Some(path) = &job.daemon {
            command.env(pinnace::daemon::ENVIRONMENT, path);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::failed("a measuring process has no standard input or output"));
        };
        Self::new(Runs::Here(child), input, output)
    }

    fn remote(remote: SocketAddr) -> Result<Self, Error> {
        let stream = TcpStream::connect_timeout(&remote, Duration::from_secs(10)).map_err(|error| {
            Error::peer_gone(format!("cannot reach {remote} ({error}); run `pinnace ping --listen {remote}` there"))
        })?;
        let again = || stream.try_clone().map_err(|error| Error::io("cannot use the control connection", &error));
        let (input, output) = (again()?, again()?);
        Self::new(Runs::Elsewhere(stream), input, output)
    }

    fn new(runs: Runs, input: impl Write + 'static, output: impl Read + Send + 'static) -> Result<Self, Error> {
        let longest = if matches!(runs, Runs::Here(_)) { u64::MAX } else { LONGEST_REPLY };
        let (reply, replies) = sync_channel(REPLIES);
        thread::start(move || {
            let mut output = BufReader::new(output);
            loop {
                let mut line = Vec::new();
                let read = output.by_ref().take(longest).read_until(b'\n', &mut line);
                // One without an end is none.
                if read.is_err() || line.last() != Some(&b'\n') || reply.send(line).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self { runs, input: Box::new(input), replies, address: None })
    }

    fn ask(&mut self, what: &impl Serialize) -> Result<(), Trouble> {
        let gone = |_| Trouble::Transport(Failure::Failed("a measuring process ended early".into()));
        let mut line = serde_json::to_vec(what).unwrap_or_default();
        line.push(b'\n');
        self.input.write_all(&line).map_err(gone)?;
        self.input.flush().map_err(gone)
    }

    fn run(&mut self, count: u64) -> Result<(), Trouble> {
        self.ask(&Request { count })
    }

    /// What it says makes no sense.
    fn misunderstood(&self, error: &serde_json::Error) -> Trouble {
        match &self.runs {
            Runs::Here(_) => Trouble::Transport(Failure::Failed(error.to_string())),
            Runs::Elsewhere(control) => {
                let peer = control.peer_addr().map_or_else(|_| "the other end".to_owned(), |peer| peer.to_string());
                Trouble::Command(Error::failed(format!(
                    "{peer} does not answer as `pinnace ping --listen` does: is that what listens there, of this version?"
                )))
            }
        }
    }

    fn confused(&self) -> Trouble {
        Trouble::Transport(Failure::Failed("a measuring process gave an unexpected answer".into()))
    }

    fn reply(&mut self) -> Result<Reply, Trouble> {
        let start = Instant::now();
        loop {
            if let Some(reply) = self.poll(interrupt::LOOK)? {
                return Ok(reply);
            }
            check_patience(start, OPENING)?;
        }
    }

    /// The next reply, if it comes in time.
    fn poll(&mut self, timeout: Duration) -> Result<Option<Reply>, Trouble> {
        interrupt::check()?;
        let failed = |why: String| Trouble::Transport(Failure::Failed(why));
        match self.replies.recv_timeout(timeout) {
            Ok(line) => match serde_json::from_slice(&line).map_err(|error| self.misunderstood(&error))? {
                Reply::Failed(why) => Err(failed(why)),
                Reply::Unavailable(why) => Err(Trouble::Transport(Failure::Unavailable(why))),
                reply => Ok(Some(reply)),
            },
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                // Ctrl-C ends the workers too, and they may be faster.
                std::thread::sleep(interrupt::LOOK);
                interrupt::check()?;
                Err(failed("a measuring process ended early".into()))
            }
        }
    }
}

fn check_patience(start: Instant, patience: Duration) -> Result<(), Trouble> {
    if start.elapsed() <= patience {
        return Ok(());
    }
    Err(Trouble::Transport(Failure::Failed(format!("no answer within {} s", patience.as_secs()))))
}

/// Both ends of a connection.
pub(crate) struct Pair {
    listening: Worker,
    connecting: Worker,
    patience: Duration,
    /// What the next run takes beside that.
    expected: Duration,
}

impl Pair {
    /// Starts both ends, the listening one on the far host.
    pub(crate) fn start(network: &Network, job: &Job, listening: Role, connecting: Role) -> Result<Self, Trouble> {
        let job = |role, bind, peer| Job { role, bind, peer, ..job.clone() };
        let listening = Worker::start(&network.far, &job(listening, network.address, None))?;
        let peer = listening.address.map(|address| network.far.seen_at(address));
        let connecting = Worker::start(&network.near, &job(connecting, network.near_address, peer))?;
        Ok(Self { listening, connecting, patience: network.patience, expected: Duration::ZERO })
    }

    /// The next run takes so long, or less.
    pub(crate) fn expect(&mut self, time: Duration) {
        self.expected = time;
    }

    /// One run: what it was like at the listening end, and at the connecting end.
    pub(crate) fn run(&mut self, count: u64) -> Result<(Ran, Ran), Trouble> {
        self.listening.run(count)?;
        self.connecting.run(count)?;
        let start = Instant::now();
        let mut ends = [(&mut self.listening, None), (&mut self.connecting, None)];
        loop {
            for (worker, ran) in &mut ends {
                if ran.is_none() {
                    match worker.poll(interrupt::LOOK)? {
                        Some(Reply::Ran(reply)) => *ran = Some(reply),
                        Some(_) => return Err(worker.confused()),
                        None => check_patience(start, self.patience.saturating_add(self.expected))?,
                    }
                }
            }
            if let [(_, Some(listening)), (_, Some(connecting))] = &mut ends {
                return Ok((std::mem::take(listening), std::mem::take(connecting)));
            }
        }
    }
}

/// Processes beside the near end that do nothing but count, and so use all the processor time that they get.
pub(crate) struct Counters(Vec<Worker>);

impl Counters {
    /// Starts so many.
    pub(crate) fn start(network: &Network, job: &Job, count: u32) -> Result<Self, Trouble> {
        let job = Job { role: Role::Counter, ..job.clone() };
        (0..count).map(|_| Worker::start(&network.near, &job)).collect::<Result<_, _>>().map(Self)
    }

    /// What comes of `run`, and how often all of them counted meanwhile, a second; nothing if there are none.
    pub(crate) fn beside<T>(&mut self, run: impl FnOnce() -> Result<T, Trouble>) -> Result<(T, Option<f64>), Trouble> {
        self.counts_per_second()?;
        let done = run()?;
        Ok((done, self.counts_per_second()?))
    }

    /// Since they were asked last.
    fn counts_per_second(&mut self) -> Result<Option<f64>, Trouble> {
        let mut sum = None;
        for worker in &mut self.0 {
            worker.run(0)?;
            match worker.reply()? {
                Reply::Ran(Ran { counts_per_second: Some(one), .. }) => sum = Some(sum.unwrap_or(0.0) + one),
                _ => return Err(worker.confused()),
            }
        }
        Ok(sum)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        match &mut self.runs {
            Runs::Here(child) => {
                let _ = child.kill();
                let _ = child.wait();
            }
            Runs::Elsewhere(control) => {
                let _ = control.shutdown(Shutdown::Both);
            }
        }
    }
}

//! `pinnace xtp listen`.
//!
//! Always true: each association is served by a thread of its own, so that a slow one does not hold up the others; this
//! thread alone prints.

use super::settings::{Groups, LinkName, Programming, ServiceName, service_name, service_to_group};
use super::{Line, Transport};
use crate::address::resolve;
use crate::bare::{self, Crew, Local, Sum, Trial, announce, one_line, pairs};
use crate::exit::Error;
use crate::interrupt;
use crate::output::{self, Output};
use crate::transport;
use pinnace::Message;
use pinnace::xtp::{
    Close, Connection, Endpoint, Facts, Failure, Incoming, Listener, Progress, Service, Services, Transaction,
};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::Scope;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  pinnace xtp listen 127.0.0.1:7001 --count 1                 one message, and the end
  pinnace xtp listen 127.0.0.1:7001 --respond echo           what `pinnace xtp transact` asks
  pinnace xtp listen 239.1.2.3:7001 --interface 192.0.2.8    what is sent to this group";

/// Arguments of `pinnace xtp listen`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    local: Local,
    /// End after so many messages, whoever sent them; a stream that breaks and whose sender never answered does not count
    /// [default: go on until Ctrl-C]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Offer these services alone; may be repeated [default: all]
    #[arg(long, value_enum)]
    service: Vec<ServiceName>,
    /// What answers a request: `echo` (the request itself), or the content of a file [default: an empty response]
    #[arg(long, value_name = "echo|FILE")]
    respond: Option<PathBuf>,
    /// The size of the buffers posted for bulk data, which a message may span
    #[arg(long, value_name = "BYTES", default_value = "1MiB", value_parser = transport::bytes)]
    size: u64,
    /// How many buffers are posted ahead for bulk data
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u16).range(1..=1024))]
    ahead: u16,
    #[command(flatten)]
    groups: Groups,
    #[command(flatten)]
    programming: Programming,
    #[command(flatten)]
    transport: Transport,
}

/// What an association's thread has to say.
type Told = bare::Told<Line>;

/// What the threads share.
struct Shared<'a> {
    args: &'a Args,
    response: Option<Vec<u8>>,
    /// Enough has come.
    is_over: AtomicBool,
}

/// How long associations have to come to their end when enough has come, and for how long nobody must have asked: the first
/// two repetitions of a peer that has measured no round trip come within this.
const LINGER: Duration = Duration::from_secs(1);
/// The longest time-wait.
const LONGEST_TIME_WAIT: Duration = Duration::from_secs(30);

pub(super) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    interrupt::install();
    output::only_prints();
    if args.size == 0 {
        return Err(Error::usage("--size: a buffer has at least one byte"));
    }
    let response = match &args.respond {
        Some(path) if path.as_os_str() != "echo" => Some(
            std::fs::read(path)
                .map_err(|error| Error::io(format!("cannot read the response {}", path.display()), &error))?,
        ),
        _ => None,
    };
    let Transport { wire, timeout, .. } = &args.transport;
    let address = args.local.address();
    let at = resolve(address)?;
    if wire.link == LinkName::Ip36 && at.port() == 0 {
        return Err(Error::usage("over protocol 36 no system picks a port: give one"));
    }
    let mut options = args.programming.apply(args.transport.options());
    options.limits.contexts = bare::KEPT;
    let (endpoint, listener) = match args.groups.group(at, *wire)? {
        Some(group) => {
            let services = services_to_group(&args.service)?;
            let endpoint = args.groups.endpoint(&options)?;
            let block = args.programming.block(&endpoint, Service::Multicast, *timeout)?;
            let joined = endpoint.join_with(group, services, block);
            (endpoint, joined.map_err(|error| args.groups.error(error))?)
        }
        None => {
            let endpoint = Endpoint::bind(at, &options).map_err(|error| wire.error(error))?;
            let block = args.programming.block(&endpoint, Service::Connection, *timeout)?;
            let listener = endpoint.listen_on(endpoint.local_addr().port(), services(&args.service), block)?;
            (endpoint, listener)
        }
    };
    endpoint.warnings().iter().for_each(|warning| output.warn(warning));
    let address = listener.local_addr().to_string();
    announce(output, &address);
    let shared = Shared { args, response, is_over: AtomicBool::new(false) };
    let result = std::thread::scope(|scope| {
        let (tell, told) = channel();
        let shared = &shared;
        bare::begin(scope, move || accept(scope, shared, &listener, &tell))?;
        let result = bare::print(args.count, output, &told, |message, line| Line { message, ..line }.print(output));
        shared.is_over.store(true, Ordering::Relaxed);
        result
    });
    if result.is_ok() {
        linger(&endpoint);
    }
    output.note(one_line(&endpoint.counters()));
    if result.is_err() {
        endpoint.shut_down();
    }
    result
}

/// The last word of an association may have been lost: then its peer asks again, and is answered, until all contexts have
/// waited for their time, or nobody has asked for a while.
//= X-20
fn linger(endpoint: &Endpoint) {
    let begun = Instant::now();
    let (mut answers, mut since) = (0, begun);
    while endpoint.contexts() > 0 && since.elapsed() < LINGER && begun.elapsed() < LONGEST_TIME_WAIT {
        if interrupt::requested() {
            return;
        }
        let said = endpoint.counters().statuses_sent;
        if said != answers {
            (answers, since) = (said, Instant::now());
        }
        std::thread::sleep(interrupt::LOOK);
    }
}

fn services(names: &[ServiceName]) -> Services {
    if names.is_empty() {
        return Services::ALL;
    }
    names.iter().fold(Services::NONE, |services, &name| services.with(name.into()))
}

fn services_to_group(names: &[ServiceName]) -> Result<Services, Error> {
    let both = [ServiceName::Connection, ServiceName::IsoStream];
    let names = if names.is_empty() { &both[..] } else { names };
    names.iter().try_fold(Services::NONE, |services, &name| Ok(services.with(service_to_group(name)?)))
}

/// Takes what comes, each on a thread of its own, once there is one.
fn accept<'scope>(
    scope: &'scope Scope<'scope, '_>,
    shared: &'scope Shared<'scope>,
    listener: &Listener,
    tell: &Sender<Told>,
) {
    let mut crew = Crew::new(scope);
    while crew.wait(tell, || shared.is_ended()) {
        match listener.accept_timeout(interrupt::LOOK) {
            Ok(None) => {}
            Ok(Some(Incoming::Datagram(datagram))) => {
                let mut sum = Sum::default();
                sum.add(&datagram.data);
                let line = line(&mut sum, datagram.service, datagram.peer);
                let _ = tell.send(Told::Message(line));
            }
            Ok(Some(Incoming::Connection(connection))) => {
                let (tell, trial) = (tell.clone(), crew.trial());
                crew.give(move || {
                    let mut heard = Heard::new(trial);
                    let result = shared.stream(&connection, &tell, &mut heard);
                    shared.conclude(&tell, connection.peer(), &heard, result);
                });
            }
            Ok(Some(Incoming::Transaction(transaction))) => {
                let (tell, trial, peer) = (tell.clone(), crew.trial(), transaction.peer());
                crew.give(move || {
                    let mut heard = Heard::new(trial);
                    let result = shared.answer(transaction, &tell, &mut heard);
                    shared.conclude(&tell, peer, &heard, result);
                });
            }
            Err(error) => {
                let _ = tell.send(Told::Failed(error.into()));
                return;
            }
        }
    }
}

fn line(sum: &mut Sum, service: Service, peer: std::net::SocketAddr) -> Line {
    let (bytes, sha256) = sum.finish();
    let peer = Some(peer.to_string());
    Line { event: "message", message: 0, bytes, sha256, service: service_name(service), holes: None, peer }
}

/// What has come of a stream.
struct Heard<'a> {
    trial: Trial<'a>,
    /// Bytes, as far as they came without a gap.
    came: u64,
    /// The peer is where its packets come from. What ends in silence has been looked at since it was heard last.
    is_proved: bool,
}

impl<'a> Heard<'a> {
    fn new(trial: Trial<'a>) -> Self {
        Self { trial, came: 0, is_proved: false }
    }

    /// Looks at what has come; fails if it gives way to others.
    fn look(&mut self, facts: Result<Facts, pinnace::Error>) -> Result<(), pinnace::Error> {
        // Whatever waits next says what is the matter.
        let Ok(facts) = facts else { return Ok(()) };
        self.came = facts.rseq.wrapping_sub(facts.start).max(self.came);
        self.is_proved |= facts.is_proved;
        if !self.is_proved && self.trial.is_over() {
            return Err(pinnace::Error::ContextFailed(Failure::Abandoned));
        }
        Ok(())
    }
}

/// Enough has come, and there was time to end well.
struct Enough;

/// How an association's thread can end early.
enum Stopped {
    Enough,
    Error(pinnace::Error),
}

impl From<Enough> for Stopped {
    fn from(_: Enough) -> Self {
        Self::Enough
    }
}

impl From<pinnace::Error> for Stopped {
    fn from(error: pinnace::Error) -> Self {
        Self::Error(error)
    }
}

impl Shared<'_> {
    fn is_ended(&self) -> bool {
        self.is_over.load(Ordering::Relaxed) || interrupt::requested()
    }

    /// Tries again and again what waits a moment, until there is a result or enough has come.
    fn wait<R>(&self, mut attempt: impl FnMut() -> Result<R, pinnace::Error>) -> Result<R, Stopped> {
        let mut over_since = None;
        loop {
            // Before the attempt: who always has something to read must notice too.
            if interrupt::requested() {
                return Err(Enough.into());
            }
            match attempt() {
                Err(pinnace::Error::Timeout) => {}
                result => return Ok(result?),
            }
            if self.is_ended() && over_since.get_or_insert_with(Instant::now).elapsed() > LINGER {
                return Err(Enough.into());
            }
        }
    }

    /// Says how an association has ended, if not well.
    fn conclude(
        &self,
        tell: &Sender<Told>,
        peer: std::net::SocketAddr,
        heard: &Heard<'_>,
        result: Result<(), Stopped>,
    ) {
        let Err(Stopped::Error(error)) = result else { return };
        let broke = |why| format!("the association with {peer} broke: {why}");
        let _ = tell.send(match error {
            // Whoever was here knew the address and the codec.
            pinnace::Error::ContextFailed(Failure::Abandoned | Failure::Unknown) => {
                bare::silenced(broke(bare::gone(heard.came)), heard.is_proved)
            }
            error => Told::Broken(broke(error.to_string())),
        });
    }

    /// A stream: its messages, and its end. One that is not read to its end is broken off: what has come would otherwise look
    /// to its sender as if it had been wanted.
    fn stream(&self, connection: &Connection, tell: &Sender<Told>, heard: &mut Heard<'_>) -> Result<(), Stopped> {
        let read = self.read(connection, tell, heard);
        if read.is_err() {
            // It may be over already.
            let _ = connection.close(Close::Forced);
        }
        read?;
        connection.finish()?;
        self.wait(|| {
            heard.look(connection.facts())?;
            connection.wait_closed_timeout(interrupt::LOOK)
        })
    }

    /// The messages of a stream, up to its end.
    fn read(&self, connection: &Connection, tell: &Sender<Told>, heard: &mut Heard<'_>) -> Result<(), Stopped> {
        let mut look = || heard.look(connection.facts());
        let is_empty = std::cell::Cell::new(true);
        let mut print = |line| {
            is_empty.set(false);
            // Whoever prints may have had enough.
            let _ = tell.send(Told::Message(line));
        };
        if connection.service() == Service::BulkData {
            self.bulk(connection, &mut look, &mut print)?;
        } else {
            let mut received = || {
                look()?;
                connection.recv_timeout(interrupt::LOOK)
            };
            while let Some(received) = self.wait(&mut received)? {
                let mut sum = Sum::default();
                sum.add(&received.data);
                let is_iso = matches!(connection.service(), Service::IsoStream | Service::UnackMulticast);
                let holes = is_iso.then(|| pairs(&received.holes));
                print(Line { holes, ..line(&mut sum, connection.service(), connection.peer()) });
            }
        }
        if is_empty.get() {
            // A stream has no empty messages, but it can be empty.
            print(line(&mut Sum::default(), connection.service(), connection.peer()));
        }
        Ok(())
    }

    /// Bulk data: buffers are posted, and come back filled; a message may span several.
    fn bulk(
        &self,
        connection: &Connection,
        look: &mut dyn FnMut() -> Result<(), pinnace::Error>,
        print: &mut dyn FnMut(Line),
    ) -> Result<(), Stopped> {
        let post = |message| connection.post(message).map_err(|unsent| Stopped::Error(unsent.error));
        let fresh = || Message::with_capacity(self.args.size as usize);
        // The others when something has come: whoever opens in somebody else's name takes the memory of one.
        post(fresh())?;
        let mut others = self.args.ahead.saturating_sub(1);
        let mut sum = Sum::default();
        let mut filled = || {
            look()?;
            connection.filled_timeout(interrupt::LOOK)
        };
        while let Some(filled) = self.wait(&mut filled)? {
            for _ in 0..std::mem::take(&mut others) {
                post(fresh())?;
            }
            let mut from = 0;
            for end in filled.ends {
                sum.add(&filled.message[from..end]);
                print(line(&mut sum, Service::BulkData, connection.peer()));
                from = end;
            }
            sum.add(&filled.message[from..]);
            // One that is not full is the last of the stream.
            if filled.message.len() == filled.message.capacity() {
                post(filled.message)?;
            }
        }
        if sum.bytes > 0 {
            print(line(&mut sum, Service::BulkData, connection.peer()));
        }
        Ok(())
    }

    /// A request, and its response.
    fn answer(&self, transaction: Transaction, tell: &Sender<Told>, heard: &mut Heard<'_>) -> Result<(), Stopped> {
        let peer = transaction.peer();
        let request = self.wait(|| {
            heard.look(transaction.facts())?;
            transaction.request_timeout(interrupt::LOOK)
        })?;
        // Whoever waits for the response has nothing to say that would show it; the request counts.
        heard.is_proved = true;
        let mut sum = Sum::default();
        sum.add(&request.data);
        let response = match (&self.args.respond, &self.response) {
            (None, _) => Vec::new(),
            (Some(_), Some(response)) => response.clone(),
            (Some(_), None) => request.data,
        };
        // It has come, and is acknowledged, even if nobody wants the response.
        let holes = (!request.holes.is_empty()).then(|| pairs(&request.holes));
        let _ = tell.send(Told::Message(Line { holes, ..line(&mut sum, Service::Transaction, peer) }));
        let mut sending = transaction.respond(response).map_err(|unsent| Stopped::Error(unsent.error))?;
        let begun = Instant::now();
        loop {
            sending = match sending.wait_timeout(interrupt::LOOK) {
                Progress::Ended(Ok(_)) => return Ok(()),
                Progress::Ended(Err(unsent)) => return Err(Stopped::Error(unsent.error)),
                Progress::UnderWay(sending) => sending,
            };
            // The response goes on by itself.
            let is_late = self.is_ended() && begun.elapsed() > LINGER;
            if interrupt::requested() || is_late || heard.trial.is_over() {
                return Ok(());
            }
        }
    }
}

//! `pinnace listen` and `pinnace connect`: standard input to a peer, and what it sends to standard output, by whatever method
//! carries the service.
//!
//! Always true: standard output has what the peer has sent and nothing else, with zeros in the place of what was lost;
//! everything that is told goes to standard error or to the log; the command has succeeded only if all that was read from
//! standard input has arrived, or was lost with permission, and the peer has said that it has ended.

mod failure;
mod input;
mod serving;
mod target;
mod told;

use crate::congestion::Control;
use crate::exit::Error;
use crate::explain;
use crate::interrupt;
use crate::output::Output;
use crate::{bare, transport};
use input::{Input, Mode};
use pinnace::service::{Method, Path, Selection, Service, choose};
use pinnace::{Endpoint, EndpointOptions};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use target::{Peers, Target};
use told::{Event, Told};

pub(crate) use failure::failure;
pub(crate) use target::{Said, one_of, said};

const LISTEN_EXAMPLES: &str = "\
Examples:
  pinnace listen 4747 > incoming.bin                  one peer, on every address of this host
  pinnace listen 127.0.0.1:0 --keep --no-input        peer after peer, until Ctrl-C
  pinnace listen 4747 --service 'largest=1MiB rate=100mbit'
      accept no more than that

Standard input goes to the peer, what the peer sends to standard output. The peer says with what service; the service \
given here is the most that is accepted. Ends when both ends have ended.";

const CONNECT_EXAMPLES: &str = "\
Examples:
  pinnace connect 192.0.2.7:4747 < results.bin
  pinnace connect 'pinnace://192.0.2.7:4747?loss=5%&run=4KiB&size=100KB' < camera.yuv
  pinnace connect 192.0.2.7:4747 --service 'deadline=50ms' --messages lines
  pinnace connect 192.0.2.7:4747 --method zcrp --explain < results.bin
  pinnace connect 192.0.2.7:4747 192.0.2.8:4747 < image.iso         the same to both (multicast=2)
  pinnace connect 192.0.2.7:4747 192.0.2.8:4747 --service multicast=239.1.2.3:7000 < image.iso

Messages go both ways unless the service says direction=one-way, or there are several peers, who only receive: one \
that dies or is too slow is cut off, and named at the end. Of a service that may lose something (loss=5%), what was \
lost is zeros on standard output, and is told on standard error.";

/// Listen for a peer: its bytes to standard output, standard input to it
#[derive(Debug, clap::Args)]
#[command(after_help = LISTEN_EXAMPLES)]
pub(crate) struct ListenArgs {
    /// Where: PORT, HOST:PORT or pinnace://HOST:PORT?WORD=VALUE; port 0 picks one, and it is printed on standard error
    #[arg(value_name = "ADDRESS")]
    address: String,
    /// Serve one peer after the other, until Ctrl-C
    #[arg(short, long)]
    keep: bool,
    #[command(flatten)]
    common: Common,
}

/// Connect to a peer: standard input to it, its bytes to standard output; or the same input to several peers
#[derive(Debug, clap::Args)]
#[command(after_help = CONNECT_EXAMPLES)]
pub(crate) struct ConnectArgs {
    /// To whom: HOST:PORT or pinnace://HOST:PORT?WORD=VALUE&WORD=VALUE; several get the same
    #[arg(value_name = "PEER", required = true)]
    peers: Vec<String>,
    /// How long connecting may take: seconds, or 500ms [default: as long as it takes, some 7 seconds where nobody answers]
    #[arg(long, value_name = "TIME", value_parser = bare::seconds)]
    connect_timeout: Option<Duration>,
    #[command(flatten)]
    common: Common,
}

/// What both ends have.
#[derive(Debug, clap::Args)]
struct Common {
    /// What is needed, or accepted at most: words like 'loss=5% run=4KiB size=2MB' (pinnace explain knows them)
    #[arg(short, long, value_name = "WORDS")]
    service: Option<String>,
    /// How standard input is cut into messages: chunks (as it comes, no longer than messages may be), lines, whole, length-prefixed (4 bytes, big-endian,
    /// also before each message on standard output), or records of a SIZE [default: chunks; records if the service says
    /// size=]
    #[arg(short, long, value_name = "chunks|lines|whole|length-prefixed|SIZE")]
    messages: Option<Mode>,
    /// This method or none
    #[arg(long, value_name = "METHOD")]
    method: Option<Method>,
    /// None of these methods
    #[arg(long, value_name = "METHOD", value_delimiter = ',')]
    exclude: Vec<Method>,
    /// First print what every method offers, on standard error
    #[arg(long)]
    explain: bool,
    /// Send nothing: standard input is not read
    #[arg(short = 'd', long)]
    no_input: bool,
    /// A peer that is silent for so long is gone: seconds, or 500ms
    #[arg(long, value_name = "TIME", default_value = "10", value_parser = bare::seconds)]
    timeout: Duration,
    #[command(flatten)]
    congestion: Control,
    /// Write what happens to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Say nothing but errors: no address, no bar, no losses
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
}

/// The most bytes of a message that is received, whatever the service.
const LONGEST: u64 = 1 << 30;

impl Common {
    fn selection(&self) -> Selection {
        Selection { forced: self.method, excluded: self.exclude.clone() }
    }

    fn options(&self) -> EndpointOptions {
        EndpointOptions {
            selection: self.selection(),
            peer_timeout: self.timeout,
            longest_message: LONGEST,
            congestion: self.congestion.kind(),
            ..EndpointOptions::default()
        }
    }

    /// How messages are cut.
    fn mode(&self, service: &Service) -> Mode {
        let of_service = || match target::bytes_of(service, "size") {
            Some(size) => Mode::Records(size.clamp(1, LONGEST) as usize),
            None => Mode::Chunks,
        };
        self.messages.unwrap_or_else(of_service)
    }

    fn told(&self, output: &Output) -> Result<Arc<Told>, Error> {
        Told::new(*output, self.quiet, self.log.as_deref()).map(Arc::new)
    }
}

/// Runs `pinnace listen`.
pub(crate) fn listen(args: &ListenArgs, output: &Output) -> Result<(), Error> {
    let Common { service, .. } = &args.common;
    let Target { authority, service } = target::listening(&args.address, service.as_deref())?;
    interrupt::install();
    let told = args.common.told(output)?;
    let endpoint = Endpoint::bind_with(crate::address::numbered(&authority)?.as_str(), &args.common.options())
        .map_err(|error| failure(&format!("cannot listen on {authority}"), &error))?;
    let listener = endpoint.listen(&service).map_err(|error| failure("cannot listen", &error))?;
    told.tell(&Event::Listening { address: &listener.local_addr().to_string() });
    let mode = args.common.mode(&service);
    let input = if args.common.no_input { Input::none() } else { Input::of_stdin(mode)? };
    loop {
        let connection = loop {
            interrupt::check()?;
            if let Some(connection) =
                listener.accept_timeout(interrupt::LOOK).map_err(|error| failure("cannot accept", &error))?
            {
                break connection;
            }
        };
        if args.common.explain
            && let Some(choice) = connection.explain()
        {
            let report =
                explain::report(&connection.service(), connection.path(), &args.common.selection(), &Ok(choice));
            told.explain(&report);
        }
        let served = serving::serve(connection, false, &input, mode, &told);
        if !args.keep {
            return served.and_then(|()| told.check_log());
        }
        match served {
            Err(error) if interrupt::requested() || error.is_wanted() => return Err(error),
            // Others may come.
            Err(error) => told.tell(&Event::Broke { error: &error.message }),
            Ok(()) => {}
        }
    }
}

/// Runs `pinnace connect`.
pub(crate) fn connect(args: &ConnectArgs, output: &Output) -> Result<(), Error> {
    let Common { service, explain, .. } = &args.common;
    let Peers { authorities, mut service } = target::connecting(&args.peers, service.as_deref())?;
    interrupt::install();
    let told = args.common.told(output)?;
    let mode = args.common.mode(&service);
    let input = match mode {
        _ if args.common.no_input => Input::none(),
        // The peer is told how large messages may be before the first.
        Mode::Whole => {
            let whole = transport::interruptible(input::whole)??;
            if target::bytes_of(&service, "largest").is_none() && target::bytes_of(&service, "size").is_none() {
                service = service.largest((whole.len() as u64).max(1 << 20));
            }
            Input::of_message(whole)
        }
        mode => Input::of_stdin(mode)?,
    };
    if let (Mode::Records(size), None) = (mode, target::bytes_of(&service, "size")) {
        if let Some(largest) = target::bytes_of(&service, "largest").filter(|largest| *largest < size as u64) {
            let why = format!("--messages {size}: the service has no longer messages than {largest} bytes (largest=)");
            return Err(Error::usage(why));
        }
        service = service.size(size as u64);
    }
    if *explain {
        let peers = authorities.iter().map(|peer| crate::address::resolve(peer)).collect::<Result<Vec<_>, _>>()?;
        let path = Path::of_receivers(&service, &peers);
        let path = path.map_err(|error| Error::io(format!("the way to {}", authorities.join(", ")), &error))?;
        let choice = choose(&service, &path, &args.common.selection());
        told.explain(&explain::report(&service, &path, &args.common.selection(), &choice));
    }
    let options = EndpointOptions { connect_timeout: args.connect_timeout, ..args.common.options() };
    let endpoint = Endpoint::client_with(&options);
    let to = authorities.iter().map(|peer| crate::address::numbered(peer)).collect::<Result<Vec<_>, _>>()?;
    // One peer is a connection like any other, unless the service says otherwise.
    let connection = transport::interruptible(move || endpoint.connect_all(&to, &service))?
        .map_err(|error| failure(&format!("cannot connect to {}", authorities.join(", ")), &error))?;
    serving::serve(connection, true, &input, mode, &told).and_then(|()| told.check_log())
}

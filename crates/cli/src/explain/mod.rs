//! `pinnace explain`: what every method offers for a service, which one is taken, and what would change that.
//!
//! Always true: what is said here is what the library chooses; nothing is sent.

mod report;

use crate::exit::Error;
use crate::output::Output;
use crate::units;
use pinnace::service::{Choice, Method, Path, PathClass, Selection, Service, Unmet, Uri, choose, what_would_change};
use report::Report;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  pinnace explain 'loss=5% run=4KiB size=2MB rate=200mbit'
  pinnace explain 'pattern=transaction size=100' --to 192.0.2.7
  pinnace explain 'pinnace://192.0.2.7:4747?size=64MiB&in-place=yes' --path cluster
  pinnace explain size=1KiB multicast=8 --exclude a1
  pinnace explain --toml camera.toml --rtt 120ms --path-loss 3% --json

The words of a service, their values and the model of the costs: docs/src/explain.md. Costs are estimates for a \
typical message; they order the methods.

Ends with 1 if no method can carry the service.";

/// Say which transport carries a service, at what cost, why, and what would change that
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What is needed: words like loss=5% run=4KiB size=2MB, or a URI; nothing for reliable messages
    #[arg(value_name = "SERVICE")]
    service: Vec<String>,
    /// Read the service from a TOML file instead
    #[arg(long, value_name = "FILE", conflicts_with = "service")]
    toml: Option<PathBuf>,
    /// The peer: the path is found out as far as that needs no packet (the host of a URI counts as well)
    #[arg(long, value_name = "HOST[:PORT]")]
    to: Option<String>,
    /// What kind of network lies between: host, cluster or internet
    #[arg(long, value_name = "CLASS")]
    path: Option<PathClass>,
    /// The path's round trip, instead of what is assumed
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Path")]
    rtt: Option<Duration>,
    /// The share of datagrams that it loses, instead of what is assumed
    #[arg(long, value_name = "SHARE", value_parser = units::share, help_heading = "Path")]
    path_loss: Option<f64>,
    /// Bits a second that it carries; unknown unless said
    #[arg(long, value_name = "RATE", value_parser = units::bit_rate, help_heading = "Path")]
    path_rate: Option<u64>,
    /// This method or none
    #[arg(long, value_name = "METHOD")]
    force: Option<Method>,
    /// None of these methods
    #[arg(long, value_name = "METHOD", value_delimiter = ',')]
    exclude: Vec<Method>,
}

/// Runs `pinnace explain`.
pub(crate) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    let (service, named) = service(args)?;
    let to = args.to.clone().or(named);
    let path = path(args, &service, to.as_deref())?;
    let selection = Selection { forced: args.force, excluded: args.exclude.clone() };
    let choice = choose(&service, &path, &selection);
    let changes = what_would_change(&service, &path, &selection);
    let report = Report::new(&service, &path, to, &selection, &choice, changes);
    output.result(&report, &report);
    match choice {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::failed("no method can carry this service: the table says what each of them lacks")),
    }
}

/// What every method offers: for people, and for programs.
pub(crate) fn report(
    service: &Service,
    path: &Path,
    selection: &Selection,
    choice: &Result<Choice, Unmet>,
) -> impl std::fmt::Display + serde::Serialize + use<> {
    Report::new(service, path, None, selection, choice, what_would_change(service, path, selection))
}

/// The service, and whom it is for, if that was said with it.
fn service(args: &Args) -> Result<(Service, Option<String>), Error> {
    let text = args.service.join(" ");
    let (mut service, to) = match &args.toml {
        Some(file) => {
            let text = std::fs::read_to_string(file).map_err(|error| Error::io(file.display(), &error))?;
            (Service::from_toml(&text).map_err(|error| Error::usage(format!("{}: {error}", file.display())))?, None)
        }
        None if Uri::is_meant(&text) => {
            let uri: Uri = text.parse().map_err(|error| Error::usage(format!("{error}")))?;
            let to = uri.authority();
            (uri.service, Some(to))
        }
        None => (text.parse().map_err(|error| Error::usage(format!("{error}")))?, None),
    };
    if let Some(class) = args.path {
        service = service.path(class);
    }
    Ok((service, to))
}

fn path(args: &Args, service: &Service, to: Option<&str>) -> Result<Path, Error> {
    let peer = to.map(resolve).transpose()?;
    let found = Path::of_service(service, peer)
        .map_err(|error| Error::io(format!("the way to {}", to.unwrap_or_default()), &error))?;
    Ok(Path {
        round_trip: args.rtt.unwrap_or(found.round_trip),
        loss: args.path_loss.unwrap_or(found.loss),
        rate: args.path_rate.or(found.rate),
        ..found
    })
}

/// An address of a host, with or without a port.
fn resolve(to: &str) -> Result<SocketAddr, Error> {
    let bare = to.trim_start_matches('[').trim_end_matches(']');
    let found = if let Ok(found) = crate::address::lookup(to) {
        found
    } else {
        (bare, 0).to_socket_addrs().ok().and_then(|mut all| all.next())
    };
    found.ok_or_else(|| Error::failed(format!("cannot resolve {to}: there is no address of that name")))
}

//! `pinnace xtp transact`.

use super::Transport;
use super::send::transacted;
use super::settings::Programming;
use super::watch::Watch;
use crate::bare::Content;
use crate::exit::Error;
use crate::interrupt;
use crate::output::Output;
use crate::transport;
use pinnace::xtp::Service;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  echo ahoy | pinnace xtp transact 127.0.0.1:7001
  pinnace xtp transact 127.0.0.1:7001 request.bin > response.bin";

/// Arguments of `pinnace xtp transact`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The listener's address
    #[arg(value_name = "HOST:PORT", value_parser = transport::address)]
    to: String,
    /// The request
    #[arg(value_name = "FILE|-", default_value = "-")]
    file: PathBuf,
    /// A request of so many pseudo-random bytes instead
    #[arg(long, value_name = "BYTES", value_parser = transport::bytes, conflicts_with = "file")]
    size: Option<u64>,
    #[command(flatten)]
    programming: Programming,
    #[command(flatten)]
    transport: Transport,
}

#[derive(Serialize)]
struct Response {
    event: &'static str,
    request_bytes: usize,
    bytes: usize,
    sha256: String,
    /// The response itself, if it is text.
    text: Option<String>,
    /// From before the first packet of the request to the end of the response, set-up and close included.
    round_trip_us: f64,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    let file = args.size.is_none().then_some(args.file.as_path());
    let mut content = Content::open(file, args.size, 1, "an XTP message")?;
    let Transport { wire, timeout, .. } = &args.transport;
    let to = wire.peer(&args.to)?;
    interrupt::install();
    let request = content.whole(0)?;
    let request_bytes = request.len();
    let endpoint = wire.client_of(to, &args.programming.apply(args.transport.options()))?;
    let block = args.programming.block(&endpoint, Service::Transaction, *timeout)?;
    let mut watch = Watch::new(&endpoint, &args.to, wire.link, *timeout);
    let answered = transacted(&endpoint, to, request, &block, &mut watch);
    if answered.is_err() {
        endpoint.abort();
    }
    let (response, time) = answered?;
    let round_trip_us = time.as_secs_f64() * 1e6;
    print(output, request_bytes, &response, round_trip_us)?;
    // The listener may not have heard that the response has come.
    endpoint.part();
    Ok(())
}

fn print(output: &Output, request_bytes: usize, response: &[u8], round_trip_us: f64) -> Result<(), Error> {
    if output.json {
        let sha256 = format!("{:x}", Sha256::digest(response));
        let (bytes, text) = (response.len(), str::from_utf8(response).ok().map(str::to_owned));
        output.result("", &Response { event: "response", request_bytes, bytes, sha256, text, round_trip_us });
        return Ok(());
    }
    output.write(|out| out.write_all(response));
    crate::output::check()?;
    output.warn(format_args!(
        "{request_bytes} bytes there, {} bytes back, {round_trip_us:.0} us with set-up and close",
        response.len()
    ));
    Ok(())
}

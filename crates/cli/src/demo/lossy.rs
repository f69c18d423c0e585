//! The path that loses datagrams, simulated: what reaches the receiver, against the rate of the link.

use crate::exit::Error;
use crate::sim::Line;
use crate::sim::transfer::{self, Plan, Transfer};
use core::time::Duration;
use pinnace_core::ControllerKind;
use pinnace_sim::NetworkConfig;

/// The link's rate in bits per second.
pub(super) const RATE: f64 = 100e6;

/// One loss rate.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) percent: u32,
    pub(super) bytes: u64,
    /// Every message arrived whole and was compared.
    pub(super) complete: bool,
    /// Bits per second, with `bbr`.
    pub(super) goodput: f64,
    /// The same transfer with `cubic`, which is what an endpoint uses on the Internet unless told otherwise.
    pub(super) cubic: f64,
    pub(super) units: u64,
    pub(super) resent: u64,
    pub(super) in_place: f64,
    pub(super) line: Line,
}

/// Simulates 0, 1 and 5 % of loss.
pub(super) fn simulate(quick: bool) -> Result<Vec<Path>, Error> {
    [0, 1, 5].into_iter().map(|percent| path(percent, if quick { 8 } else { 48 })).collect()
}

fn path(percent: u32, messages: usize) -> Result<Path, Error> {
    let text = format!("rate=100mbit,delay=30ms,loss={percent}%");
    let network: NetworkConfig = text.parse().map_err(|error| Error::failed(format!("{text}: {error}")))?;
    let plan = Plan::new(network.clone(), network, vec![1 << 20; messages], 7);
    let bbr = transfer::run(&plan)?;
    // It may take minutes; ten seconds show how fast it is.
    let cubic = transfer::run(&Plan { congestion: ControllerKind::Cubic, until: Duration::from_secs(10), ..plan })?;
    Ok(Path {
        percent,
        bytes: bbr.bytes_arrived(),
        complete: bbr.succeeded(),
        goodput: average(&bbr),
        cubic: average(&cubic),
        units: bbr.figures.sent,
        resent: bbr.figures.resent,
        in_place: bbr.figures.share_in_place(),
        line: bbr.line.readable(60),
    })
}

/// Payload bits per second over the whole run, messages that are not complete included.
fn average(transfer: &Transfer) -> f64 {
    transfer.figures.bytes_received as f64 * 8.0 / transfer.end.as_secs_f64().max(1e-9)
}

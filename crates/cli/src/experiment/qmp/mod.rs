//! E-Q1 to E-Q3: the measurements of the QMP paper, QMP with and without QBUF beside the kernel's TCP.
//!
//! The paper's link was Fast Ethernet. Ours is virtual Ethernet with a token bucket of 100 Mbit/s at each end, whose queue
//! is that of a network card; where the kernel has no token bucket, the link emulator.

mod bandwidth;
mod latency;
mod sizes;

pub(super) use bandwidth::run as bandwidth;
pub(super) use latency::run as latency;
pub(super) use sizes::run as sizes;

use super::Run;
use super::measure::{self, Between};
use crate::exit::Error;
use crate::perf::{IdleChoice, Job, Network, Path, QmpChoice, Transport};
use crate::picture::COLOURS;
use crate::qmp::{LinkName, Wire};
use crate::wan;
use plotters::style::RGBColor;
use serde::Serialize;

/// The link's bits per second, in millions.
const LINK_MBIT_S: f64 = 100.0;
/// Bytes of a full frame, as the token bucket counts them.
const FRAME: f64 = 1514.0;
/// The emulated link that stands in for it.
const EMULATED: &str = "rate=100mbit,rtt=100us";
/// Bytes under way, for those who are told.
const IN_FLIGHT: usize = 1 << 20;

/// Mbit/s in the paper's figure 4: of QMP and of TCP.
const PAPER: (f64, f64) = (92.2, 70.0);

/// What is measured: a transport, and how it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Qmp { link: LinkName, qbuf: bool },
    Tcp(&'static str),
}

/// QMP as an application would use it.
const QMP: Kind = Kind::Qmp { link: LinkName::Udp, qbuf: true };
const QMP_COPIED: Kind = Kind::Qmp { link: LinkName::Udp, qbuf: false };
const CUBIC: Kind = Kind::Tcp("cubic");
const BBR: Kind = Kind::Tcp("bbr");

impl measure::Kind for Kind {
    fn name(self) -> String {
        match self {
            Self::Qmp { link, qbuf } => {
                let link = if link == LinkName::Udp { String::new() } else { format!(" {link}") };
                format!("QMP{link}{}", if qbuf { "" } else { " copied" })
            }
            Self::Tcp(congestion) => format!("TCP {congestion}"),
        }
    }

    fn colour(self) -> RGBColor {
        COLOURS[match self {
            Self::Qmp { link: LinkName::Udp, qbuf: true } => 0,
            Self::Qmp { link: LinkName::Udp, qbuf: false } => 4,
            Self::Qmp { link: LinkName::Ip36, .. } => 3,
            Self::Qmp { .. } => 5,
            Self::Tcp("cubic") => 1,
            Self::Tcp(_) => 2,
        }]
    }

    fn job(self, size: usize, idle: IdleChoice, path: Path) -> Job {
        let job = Job { depth: (IN_FLIGHT / size).clamp(2, 512), ..Job::new(&self.transport(), size, idle, path) };
        match self {
            Self::Qmp { link, qbuf } => {
                Job { qmp: QmpChoice { wire: Wire { link, ..Wire::default() }, no_qbuf: !qbuf }, ..job }
            }
            Self::Tcp(_) => job,
        }
    }
}

impl Kind {
    fn is_qmp(self) -> bool {
        matches!(self, Self::Qmp { .. })
    }

    fn transport(self) -> Transport {
        match self {
            Self::Qmp { .. } => Transport::Qmp,
            Self::Tcp(congestion) => Transport::Tcp(Some(congestion.to_owned())),
        }
    }

    /// The most of the link's rate that can be its payload: what a full frame holds of it.
    fn payload_share(self) -> f64 {
        let headers = match self {
            Self::Qmp { link: LinkName::Udp, .. } => 20.0 + 8.0 + 32.0,
            Self::Qmp { link: LinkName::Ip36, .. } => 20.0 + 32.0,
            Self::Qmp { link: LinkName::Ether | LinkName::Shm, .. } => 32.0,
            // With time stamps, as the kernel sends it.
            Self::Tcp(_) => 20.0 + 32.0,
        };
        (1500.0 - headers) / FRAME
    }

    /// What of it stands in JSON.
    fn label(self) -> Label {
        match self {
            Self::Qmp { link, qbuf } => Label { transport: self.transport(), link: Some(link), qbuf: Some(qbuf) },
            Self::Tcp(_) => Label { transport: self.transport(), link: None, qbuf: None },
        }
    }
}

/// A kind as JSON.
#[derive(Serialize)]
struct Label {
    transport: Transport,
    link: Option<LinkName>,
    qbuf: Option<bool>,
}

/// The link of 100 Mbit/s.
fn link(run: &Run<'_>) -> Result<Between, Error> {
    let path = Path::Veth100m;
    match Between::new(path) {
        Ok(between) => Ok(between),
        Err(error) => {
            crate::interrupt::check()?;
            run.output.warn(format_args!("no token bucket ({error}): the link is emulated"));
            let config: wan::Config = EMULATED.parse().map_err(Error::failed)?;
            Ok(Between { network: Network::over(&config)?, path, name: format!("wan:{config}") })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::measure::Kind as _;
    use super::*;

    #[test]
    fn names_tell_what_is_measured_apart() {
        let ip36 = Kind::Qmp { link: LinkName::Ip36, qbuf: true };
        let names = [QMP, QMP_COPIED, ip36, CUBIC, BBR].map(Kind::name);
        assert_eq!(names, ["QMP", "QMP copied", "QMP ip36", "TCP cubic", "TCP bbr"]);
        assert!(EMULATED.parse::<wan::Config>().is_ok());
        assert!(
            QMP.payload_share() < CUBIC.payload_share() && (ip36.payload_share() - CUBIC.payload_share()).abs() < 1e-9
        );
    }
}

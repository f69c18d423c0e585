//! E-A1 and E-A2: the measurements of the A1 paper, A1 with and without retransmission beside bare datagrams and TCP.
//!
//! The paper's network was ATM with blocks of 9 kB. Ours are the loopback interface and virtual Ethernet with an MTU of
//! 9000, and blocks that fill its packets.

mod blocks;
mod pings;

pub(super) use blocks::run as blocks;
pub(super) use pings::run as pings;

use super::Run;
use super::measure::{self, Between};
use crate::a1::Mode;
use crate::exit::Error;
use crate::perf::{A1Choice, IdleChoice, Job, Path, Transport};
use crate::picture::COLOURS;
use pinnace_core::even_piece;
use plotters::style::RGBColor;

/// Bytes of a network block at most: with the headers of A1, UDP and IP a packet of 9000 bytes.
const BLOCK: u32 = 9000 - 60;
/// Bytes of a window.
const WINDOW: usize = 160_000;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    A1(Mode),
    Datagrams,
    Tcp,
}

const RELIABLE: Kind = Kind::A1(Mode::Reliable);
const RAW: Kind = Kind::A1(Mode::Raw);

impl measure::Kind for Kind {
    fn name(self) -> String {
        match self {
            Self::A1(mode) => format!("A1 {mode}"),
            Self::Datagrams => "datagrams".to_owned(),
            Self::Tcp => "TCP cubic".to_owned(),
        }
    }

    fn colour(self) -> RGBColor {
        COLOURS[match self {
            RELIABLE => 0,
            RAW => 3,
            Self::Datagrams => 4,
            _ => 1,
        }]
    }

    fn job(self, size: usize, idle: IdleChoice, path: Path) -> Job {
        let transport = match self {
            Self::A1(_) => Transport::A1,
            Self::Datagrams => Transport::Udp,
            Self::Tcp => Transport::Tcp(Some("cubic".to_owned())),
        };
        let depth = (WINDOW / size).clamp(2, 4096);
        let block = even_piece(size as u32, BLOCK);
        let job = Job { depth, ..Job::new(&transport, size, idle, path) };
        match self {
            Self::A1(mode) => Job { a1: A1Choice { mode, block: Some(block), ..A1Choice::default() }, ..job },
            Self::Datagrams => Job { udp: Some((block as usize, WINDOW as u64)), ..job },
            Self::Tcp => job,
        }
    }
}

/// The paths: more as root.
fn paths(run: &Run<'_>) -> Result<Vec<Between>, Error> {
    Between::all(run, Path::Veth9000)
}

#[cfg(test)]
mod tests {
    use super::measure::Kind as _;
    use super::*;

    #[test]
    fn names_tell_what_is_measured_apart() {
        assert_eq!(
            [RELIABLE, RAW, Kind::Datagrams, Kind::Tcp].map(Kind::name),
            ["A1 reliable", "A1 raw", "datagrams", "TCP cubic"]
        );
        let job = RELIABLE.job(16_384, IdleChoice::Block, Path::Lo);
        assert_eq!((job.depth, job.a1.block), (9, Some(8192)), "160 kB are nine such messages, of two equal blocks");
    }
}

//! How a command waits: in the same words whatever carries its messages.

use crate::perf::IdleChoice;
use clap::Args;
use pinnace::Idle;
use pinnace::link::UdpOptions;
use std::time::Duration;

/// What its threads do while there is nothing to do.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Waiting {
    /// How to wait: `block` costs no CPU time, `spin` takes a core, `adaptive` spins for a moment and then blocks
    #[arg(long, value_enum, default_value = "adaptive")]
    idle: IdleChoice,
    /// Poll the network card for so long before sleeping (50 if no number follows): more throughput in bulk, lone small
    /// messages later, nothing on loopback
    #[arg(long, value_name = "MICROSECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "50",
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    busy_poll: Option<u16>,
}

impl Waiting {
    pub(crate) fn idle(&self) -> Idle {
        self.idle.into()
    }

    pub(crate) fn udp(&self) -> UdpOptions {
        let busy_poll = self.busy_poll.map(|micros| Duration::from_micros(micros.into()));
        UdpOptions { busy_poll, ..UdpOptions::default() }
    }
}

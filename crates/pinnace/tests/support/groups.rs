//! IP multicast groups on the loopback interface, for tests.

use pinnace::link::{MulticastOptions, probe_multicast};
use std::net::{Ipv4Addr, SocketAddrV4};

pub(crate) fn over_loopback() -> MulticastOptions {
    MulticastOptions { interface: Ipv4Addr::LOCALHOST, ..MulticastOptions::default() }
}

/// Whether there are groups there; said why, where there are none.
pub(crate) fn has_groups() -> bool {
    let probed = probe_multicast(&over_loopback());
    if let Err(error) = &probed {
        pinnace_testing::skip::host(format_args!("this machine has no multicast on its loopback interface ({error})"));
    }
    probed.is_ok()
}

/// A group of its own for every test (`file` and `number`) of every run.
pub(crate) fn group(file: u8, number: u8) -> SocketAddrV4 {
    let id = std::process::id();
    SocketAddrV4::new(Ipv4Addr::new(239, file, number, (id % 251) as u8), 20_000 + (id % 20_000) as u16)
}

//! Memberships of a socket in IP multicast groups.

use super::Group;
use super::options::{Options, random_seed};
use crate::Error;
use pinnace_link::UdpLink;
use std::io;
use std::net::SocketAddrV4;
use std::num::NonZeroU32;

/// Joins groups, where the link can.
#[derive(Debug, Default)]
pub(super) struct Groups {}

impl Groups {
    /// The link, and what lets it join groups.
    pub(super) fn of_udp(link: UdpLink, _options: &Options) -> io::Result<(UdpLink, Self)> {
        Ok((link, Self {}))
    }

    /// Whether groups are joined at all.
    pub(super) fn joins(&self) -> bool {
        false
    }

    /// Joins a group; false if that is not possible.
    pub(super) fn join(&mut self, _group: SocketAddrV4) -> bool {
        false
    }

    /// Leaves a group, if nobody else here is in it.
    pub(super) fn leave(&mut self, _group: SocketAddrV4) {}
}

/// A group for the data of one source, at this address and port; its identifier is random.
///
/// ```
/// let group = pinnace::a1::group("239.1.2.3:4000".parse().unwrap())?;
/// assert_eq!(group.socket().port(), 4000);
/// # Ok::<(), pinnace::Error>(())
/// ```
///
/// # Errors
/// If the address is none of multicast, or the port is 0.
pub fn group(socket: SocketAddrV4) -> Result<Group, Error> {
    let identifier = NonZeroU32::new(random_seed() as u32).unwrap_or(NonZeroU32::MIN);
    Group::new(identifier, socket).ok_or_else(|| {
        let error = io::Error::new(io::ErrorKind::InvalidInput, "a group has an address of 224.0.0.0/4 and a port");
        Error::io(format!("cannot send to the group {socket}"), error)
    })
}

//! Memberships of a socket in IP multicast groups.

use super::Group;
use super::Options;
use crate::Error;
use crate::network::random_seed;
use pinnace_link::{GroupsLink, Link, Memberships, UdpLink};
use std::io;
use std::net::SocketAddrV4;
use std::num::NonZeroU32;

/// Joins groups, where the link can.
#[derive(Debug, Default)]
pub(super) struct Groups {
    memberships: Option<Memberships>,
}

impl Groups {
    /// The link, and what lets it join groups.
    pub(super) fn of_udp(link: UdpLink, options: &Options) -> io::Result<(Box<dyn Link>, Self)> {
        let Some(multicast) = &options.multicast else { return Ok((Box::new(link), Self::default())) };
        let mut multicast = *multicast;
        if let Some(std::net::IpAddr::V4(local)) = link.local_address().map(|local| local.ip())
            && multicast.interface.is_unspecified()
        {
            // Who is bound to one address speaks and hears there.
            multicast.interface = local;
        }
        let (link, memberships) = GroupsLink::new(link, &options.udp(true), &multicast)?;
        Ok((Box::new(link), Self { memberships: Some(memberships) }))
    }

    /// Whether groups are joined at all.
    pub(super) fn joins(&self) -> bool {
        self.memberships.is_some()
    }

    /// Joins a group; false if that is not possible.
    pub(super) fn join(&mut self, group: SocketAddrV4) -> bool {
        self.memberships.as_mut().is_some_and(|memberships| memberships.join(group.into()).is_ok())
    }

    /// Leaves a group, if nobody else here is in it.
    pub(super) fn leave(&mut self, group: SocketAddrV4) {
        if let Some(memberships) = &mut self.memberships {
            memberships.leave(group.into());
        }
    }
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

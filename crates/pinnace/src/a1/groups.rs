//! Memberships of a socket in IP multicast groups.

use super::Group;
use super::Options;
use crate::Error;
use crate::network::random_seed;
use pinnace_link::{Link, UdpLink};
use std::io;
use std::net::SocketAddrV4;
use std::num::NonZeroU32;

/// Joins groups, where the link can.
#[derive(Debug, Default)]
pub(super) struct Groups {
    #[cfg(target_os = "linux")]
    memberships: Option<pinnace_link::Memberships>,
}

impl Groups {
    /// The link, and what lets it join groups.
    #[cfg(target_os = "linux")]
    pub(super) fn of_udp(link: UdpLink, options: &Options) -> io::Result<(Box<dyn Link>, Self)> {
        let Some(multicast) = &options.multicast else { return Ok((Box::new(link), Self::default())) };
        let mut multicast = *multicast;
        if let Some(std::net::IpAddr::V4(local)) = link.local_address().map(|local| local.ip())
            && multicast.interface.is_unspecified()
        {
            // Who is bound to one address speaks and hears there.
            multicast.interface = local;
        }
        let (link, memberships) = pinnace_link::GroupsLink::new(link, &options.udp, &multicast)?;
        Ok((Box::new(link), Self { memberships: Some(memberships) }))
    }

    /// The link. Groups are joined on Linux only.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn of_udp(link: UdpLink, _options: &Options) -> io::Result<(Box<dyn Link>, Self)> {
        Ok((Box::new(link), Self {}))
    }

    /// Whether groups are joined at all.
    pub(super) fn joins(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self.memberships.is_some();
        #[cfg(not(target_os = "linux"))]
        false
    }

    /// Joins a group; false if that is not possible.
    pub(super) fn join(&mut self, group: SocketAddrV4) -> bool {
        #[cfg(target_os = "linux")]
        if let Some(memberships) = &mut self.memberships {
            return memberships.join(group.into()).is_ok();
        }
        let _ = group;
        false
    }

    /// Leaves a group, if nobody else here is in it.
    pub(super) fn leave(&mut self, group: SocketAddrV4) {
        #[cfg(target_os = "linux")]
        if let Some(memberships) = &mut self.memberships {
            memberships.leave(group.into());
        }
        let _ = group;
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

//! Names of packet sockets: an interface, and a station that is seen through it.

use super::Name;
use crate::ETHER_TYPE;
use libc::{sa_family_t, sockaddr_ll, socklen_t};
use std::mem::size_of;

/// Bytes of a MAC address.
const MAC: usize = 6;

/// Whom the kernel takes a frame to be for (`PACKET_*`, which the C library's crate does not have).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// This interface's own address.
    Host,
    /// Frames that this host sends itself.
    Outgoing,
    /// Everybody, a group, or another station.
    Other,
}

impl Name {
    /// The station `mac` seen through an interface, or every station of it, as [`ETHER_TYPE`].
    pub(crate) fn of_station(interface: u32, mac: Option<[u8; MAC]>) -> Self {
        let mut name = Self::room();
        let raw = (&raw mut name.raw).cast::<sockaddr_ll>();
        // SAFETY: `sockaddr_in6` is larger than `sockaddr_ll` and as aligned; all its bytes are initialised.
        let raw = unsafe { &mut *raw };
        raw.sll_family = libc::AF_PACKET as sa_family_t;
        raw.sll_protocol = ETHER_TYPE.to_be();
        // Every index that the kernel gives is positive.
        raw.sll_ifindex = interface.cast_signed();
        if let Some(mac) = mac {
            raw.sll_halen = MAC as u8;
            raw.sll_addr[..MAC].copy_from_slice(&mac);
        }
        name.len = size_of::<sockaddr_ll>() as socklen_t;
        name
    }

    /// The interface that a frame came through, whom it is for, and who sent it. None if the kernel wrote no name of an
    /// Ethernet station, or one of another protocol.
    pub(crate) fn station(&self) -> Option<(u32, FrameKind, [u8; MAC])> {
        if libc::c_int::from(self.raw.sin6_family) != libc::AF_PACKET {
            return None;
        }
        // SAFETY: see `of_station`; the kernel said that this is a `sockaddr_ll`.
        let raw = unsafe { &*(&raw const self.raw).cast::<sockaddr_ll>() };
        let kind = match raw.sll_pkttype {
            0 => FrameKind::Host,
            4 => FrameKind::Outgoing,
            _ => FrameKind::Other,
        };
        let mac = raw.sll_addr.first_chunk().copied()?;
        let ours = usize::from(raw.sll_halen) == MAC && raw.sll_protocol == ETHER_TYPE.to_be();
        ours.then_some((raw.sll_ifindex.cast_unsigned(), kind, mac))
    }
}

const _: () = assert!(size_of::<sockaddr_ll>() <= size_of::<libc::sockaddr_in6>());
const _: () = assert!(align_of::<sockaddr_ll>() <= align_of::<libc::sockaddr_in6>());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_station_survives_the_kernels_form() {
        let mac = [2, 0, 0, 0, 0, 9];
        let name = Name::of_station(7, Some(mac));
        assert_eq!(name.station(), Some((7, FrameKind::Host, mac)));
        assert_eq!(name.address(), None);
        assert_eq!(Name::of_station(7, None).station(), None, "an interface is no station");
        assert_eq!(Name::room().station(), None);
        assert_eq!(Name::new("10.0.0.1:1".parse().unwrap(), false).unwrap().station(), None);
    }
}

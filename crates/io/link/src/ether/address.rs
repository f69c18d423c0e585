//! A station as people write it: `LINK-ADDRESS%INTERFACE`.

use super::{Mac, absent};
use pinnace_core::Address;
use std::ffi::CString;
use std::fmt;
use std::io;
use std::str::FromStr;

/// No interface has a longer name.
const LONGEST_NAME: usize = 15;

/// An Ethernet station and the interface that it is seen through (specs/qmp.md, section "Ethernet").
///
/// ```
/// use pinnace_link::EtherAddress;
/// let station: EtherAddress = "02:00:00:00:00:01%eth0".parse()?;
/// assert_eq!((station.mac, &station.interface[..]), ([2, 0, 0, 0, 0, 1], "eth0"));
/// assert_eq!(station.to_string(), "02:00:00:00:00:01%eth0");
/// # Ok::<(), pinnace_link::EtherAddressError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherAddress {
    /// The station's MAC address.
    pub mac: [u8; 6],
    /// The name of an interface of this host.
    pub interface: String,
}

impl EtherAddress {
    /// The address that a link knows the station by.
    ///
    /// # Errors
    /// `NotFound` if this host (this thread's network namespace) has no such interface.
    pub fn resolve(&self) -> io::Result<Address> {
        let name = CString::new(self.interface.as_str()).map_err(|_| absent(&self.interface))?;
        // SAFETY: the name ends with a 0.
        match unsafe { libc::if_nametoindex(name.as_ptr()) } {
            0 => Err(absent(&self.interface)),
            interface => Ok(Address::Ethernet { interface, mac: self.mac }),
        }
    }
}

impl fmt::Display for EtherAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.mac;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}%{}", self.interface)
    }
}

/// Why a text is not `LINK-ADDRESS%INTERFACE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtherAddressError {
    /// There is no `%`.
    NoInterface,
    /// What stands before the `%` is not six pairs of hexadecimal digits with colons (or hyphens) between them.
    NoMac,
    /// The address is that of a group, of everybody, or of nobody (all zeros).
    NotOneStation,
    /// What stands behind the `%` cannot be the name of an interface.
    BadName,
}

impl fmt::Display for EtherAddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoInterface => "an Ethernet address is written LINK-ADDRESS%INTERFACE, as 02:00:00:00:00:01%eth0",
            Self::NoMac => "a link address is six pairs of hexadecimal digits, as 02:00:00:00:00:01",
            Self::NotOneStation => "the link address is that of a group or of nobody, not of one station",
            Self::BadName => {
                "the name of an interface has 1 to 15 characters, none of them a slash, a colon or a space"
            }
        })
    }
}

impl std::error::Error for EtherAddressError {}

impl FromStr for EtherAddress {
    type Err = EtherAddressError;

    fn from_str(text: &str) -> Result<Self, EtherAddressError> {
        let (mac, interface) = text.split_once('%').ok_or(EtherAddressError::NoInterface)?;
        let mac = parse(mac).ok_or(EtherAddressError::NoMac)?;
        if mac[0] & 1 != 0 || mac == [0; 6] {
            return Err(EtherAddressError::NotOneStation);
        }
        let strange = |c: char| c.is_whitespace() || c.is_control() || "/:%".contains(c);
        if interface.is_empty() || interface.len() > LONGEST_NAME || interface.contains(strange) {
            return Err(EtherAddressError::BadName);
        }
        Ok(Self { mac, interface: interface.to_owned() })
    }
}

fn parse(text: &str) -> Option<Mac> {
    let separator = if text.contains('-') { '-' } else { ':' };
    let mut pairs = text.split(separator);
    let mut mac = [0; 6];
    for byte in &mut mac {
        let pair =
            pairs.next().filter(|pair| pair.len() == 2 && pair.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        *byte = u8::from_str_radix(pair, 16).ok()?;
    }
    pairs.next().is_none().then_some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_station_is_read_as_it_is_written() {
        for text in ["02:00:00:00:00:01%eth0", "fe:dc:ba:98:76:54%a", "00:00:5e:00:53:01%vlan-4.interface"] {
            match text.parse::<EtherAddress>() {
                Ok(station) => assert_eq!(station.to_string(), text),
                Err(error) => assert_eq!((error, text.len()), (EtherAddressError::BadName, 34)),
            }
        }
        let hyphens: EtherAddress = "02-0A-00-00-00-FF%eth0".parse().unwrap();
        assert_eq!(hyphens.to_string(), "02:0a:00:00:00:ff%eth0");
    }

    #[test]
    fn what_is_no_station_is_refused() {
        use EtherAddressError::{BadName, NoInterface, NoMac, NotOneStation};
        for (text, why) in [
            ("", NoInterface),
            ("02:00:00:00:00:01", NoInterface),
            ("%eth0", NoMac),
            ("02:00:00:00:00%eth0", NoMac),
            ("02:00:00:00:00:01:02%eth0", NoMac),
            ("02:00:00:00:00:1%eth0", NoMac),
            ("02:00:00:00:00:+1%eth0", NoMac),
            ("02:00:00-00:00:01%eth0", NoMac),
            ("02:00:00:00:00:0\u{e9}%eth0", NoMac),
            ("10.0.0.1%eth0", NoMac),
            ("00:00:00:00:00:00%eth0", NotOneStation),
            ("ff:ff:ff:ff:ff:ff%eth0", NotOneStation),
            ("01:00:5e:00:00:01%eth0", NotOneStation),
            ("02:00:00:00:00:01%", BadName),
            ("02:00:00:00:00:01%an interface", BadName),
            ("02:00:00:00:00:01%../eth0", BadName),
            ("02:00:00:00:00:01%eth0%eth1", BadName),
            ("02:00:00:00:00:01%sixteencharacter", BadName),
        ] {
            assert_eq!(text.parse::<EtherAddress>(), Err(why), "{text}");
            assert!(!why.to_string().is_empty());
        }
    }

    #[test]
    fn an_interface_that_is_not_there_is_named() {
        let station: EtherAddress = "02:00:00:00:00:01%nosuch0".parse().unwrap();
        let error = station.resolve().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("nosuch0"), "{error}");
        let here = EtherAddress { interface: "lo".into(), ..station };
        assert_eq!(here.resolve().unwrap(), Address::Ethernet { interface: 1, mac: here.mac });
    }
}

//! Where an endpoint is bound: what is wrong with a text is said before anybody is asked for a name.

use super::{ConnectionError, resolve};
use crate::Error;
use crate::service::{Place, check_address};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Where an endpoint can be bound: a text, `host:port`, or an address of the standard library. Port 0 picks one.
///
/// ```
/// use pinnace::Endpoint;
/// use std::net::Ipv6Addr;
/// assert!(Endpoint::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() && Endpoint::bind("localhost:0").is_ok());
/// let error = Endpoint::bind("127.0.0.1").unwrap_err();
/// assert!(error.to_string().contains("has no port"));
/// ```
pub trait BindAddress {
    /// The addresses that it stands for.
    ///
    /// # Errors
    /// [`ConnectionError::Malformed`] if a text is none, with what is possible; otherwise if a name does not resolve.
    fn addresses(&self) -> Result<Vec<SocketAddr>, Error>;
}

impl BindAddress for str {
    fn addresses(&self) -> Result<Vec<SocketAddr>, Error> {
        check_address(self, Place::Here).map_err(ConnectionError::Malformed)?;
        resolve(self, self)
    }
}

impl BindAddress for String {
    fn addresses(&self) -> Result<Vec<SocketAddr>, Error> {
        self.as_str().addresses()
    }
}

impl<T: BindAddress + ?Sized> BindAddress for &T {
    fn addresses(&self) -> Result<Vec<SocketAddr>, Error> {
        T::addresses(self)
    }
}

macro_rules! numbers {
    ($($address:ty),*) => {
        $(
            impl BindAddress for $address {
                fn addresses(&self) -> Result<Vec<SocketAddr>, Error> {
                    Ok(vec![SocketAddr::from(*self)])
                }
            }
        )*
    };
}

numbers!(SocketAddr, SocketAddrV4, SocketAddrV6, (IpAddr, u16), (Ipv4Addr, u16), (Ipv6Addr, u16));

/// A host, which may be a name, and a port.
impl BindAddress for (&str, u16) {
    fn addresses(&self) -> Result<Vec<SocketAddr>, Error> {
        let (host, port) = self;
        match host.parse() {
            Ok(Ipv6Addr { .. }) => format!("[{host}]:{port}").addresses(),
            Err(_) => format!("{host}:{port}").addresses(),
        }
    }
}

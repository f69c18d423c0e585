//! A channel on the application's own sockets, on which a sender and a receiver are opened each in its own time.
//!
//! Always true: one engine reads a socket (Z-1), so both halves of a duplex channel live on one endpoint, whenever they
//! come; the sockets are open as long as anything may use them.

use super::exchange::{Exchange, KnownPeer};
use super::options::Path;
use super::port::{self, Halves, Port};
use super::{Config, Options, Receiver, Sender, UnitSize};
use crate::Error;
use pinnace_link::UdpLink;
use pinnace_runtime::Call;
use pinnace_zcrp::Zcrp;
use std::io;
use std::os::fd::OwnedFd;

/// A pair of connected datagram sockets, or one for both directions, and the protocol on them. Clones are the same
/// channel.
///
/// ```
/// use pinnace::{Message, zcrp::{Channel, Options}};
/// use std::os::{fd::OwnedFd, unix::net::UnixDatagram};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let options = Options::default();
/// let open = |socket: UnixDatagram| {
///     let again = OwnedFd::from(socket.try_clone().expect("a free descriptor"));
///     Channel::from_sockets(again, socket.into(), &options)
/// };
/// let (here, there) = UnixDatagram::pair()?;
/// let (here, there) = (open(here)?, open(there)?);
/// let receiving = there.open_receiver(there.config(&options))?.post(Message::with_capacity(100))?;
/// let sending = here.open_sender(here.config(&options))?.send(Message::from_vec(b"ahoy".to_vec()))?;
/// assert_eq!(&*receiving.wait()?, b"ahoy");
/// sending.wait()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Channel {
    port: Port,
    path: Path,
}

impl Channel {
    /// Reads what the peer sends from `incoming`, and writes to `outgoing`: connected datagram sockets, UDP or AF_UNIX;
    /// two descriptors of one socket are a duplex channel. Changes none of their flags or options, and sends nothing yet.
    ///
    /// # Errors
    /// If one of them is no connected datagram socket, or the system has no descriptors left.
    pub fn from_sockets(incoming: OwnedFd, outgoing: OwnedFd, options: &Options) -> Result<Self, Error> {
        let link = UdpLink::from_sockets(incoming, outgoing, &options.udp(false))
            .map_err(|error| Error::io("cannot use the socket", error))?;
        let path = Path::of_udp(&link);
        let port =
            port::start(Box::new(link), Config::default(), options, Halves::Neither, None, KnownPeer::default())?;
        Ok(Self { port, path })
    }

    /// The configuration that `options` mean on this path, to be changed where they do not say enough. The unit size is
    /// the largest that the path carries, unless they name another.
    pub fn config(&self, options: &Options) -> Config {
        let unit_size = options.unit_bytes.map_or(UnitSize::Whole(self.path.datagram), UnitSize::Fixed);
        Config { unit_size, ..options.config(&self.path) }
    }

    /// Opens the sending half.
    ///
    /// # Errors
    /// If it is open already, or the channel is of no use any more.
    pub fn open_sender(&self, config: Config) -> Result<Sender, Error> {
        self.open(|Call { now, engine, state, .. }: Call<'_, Zcrp, Exchange>| {
            let open = engine.sender().is_some() && state.sends.closed().is_none();
            if !open {
                state.sends.restart();
                engine.set_sender(pinnace_zcrp::Sender::new(config, now));
            }
            !open
        })?;
        Ok(Sender::new(self.port.clone()))
    }

    /// Opens the receiving half.
    ///
    /// # Errors
    /// If it is open already, or the channel is of no use any more.
    pub fn open_receiver(&self, config: Config) -> Result<Receiver, Error> {
        self.open(|Call { engine, state, .. }: Call<'_, Zcrp, Exchange>| {
            let open = engine.receiver().is_some() && state.receives.closed().is_none();
            if !open {
                state.receives.restart();
                engine.set_receiver(pinnace_zcrp::Receiver::new(config));
            }
            !open
        })?;
        Ok(Receiver::new(self.port.clone()))
    }

    fn open(&self, install: impl FnOnce(Call<'_, Zcrp, Exchange>) -> bool) -> Result<(), Error> {
        let taken = || Error::io("this half of the channel is open already", io::ErrorKind::ResourceBusy.into());
        self.port.call(install)?.then_some(()).ok_or_else(taken)
    }

    /// Whether neither half is open.
    pub fn is_idle(&self) -> bool {
        self.port.inspect(|engine, _, state| {
            (engine.sender().is_none() || state.sends.closed().is_some())
                && (engine.receiver().is_none() || state.receives.closed().is_some())
        })
    }

    /// Stops everything: what is under way fails, and nothing is sent any more. Close the halves first.
    pub fn shutdown(&self) {
        self.port.shutdown();
    }
}

//! Streams to groups (X-22): one sends, and all who have joined receive.
//!
//! Always true: the link is a member of a group while a listener or a context needs it. A sender does: its receivers answer to
//! the group, and ask there for an END that they have not heard.
//= X-22

use super::port::{Call, Port};
use super::{Connection, ControlBlock, Endpoint, Listener, Refused, Service, Services};
use crate::Error;
use crate::lock::lock;
use pinnace_core::Address;
use pinnace_link::Memberships;
use pinnace_xtp::ContextId;
use std::io;
use std::net::SocketAddrV4;
use std::sync::{Mutex, MutexGuard};

/// How an endpoint comes by what is sent to groups.
#[derive(Debug)]
pub(super) enum Groups {
    /// It does not, and why.
    None(&'static str),
    /// The link is the application's, and so is what it brings.
    Given,
    /// The link joins them.
    Joined(Mutex<Joined>),
}

/// The groups that a link has joined.
#[derive(Debug)]
pub(super) struct Joined {
    memberships: Memberships,
    /// Contexts that need one.
    contexts: Vec<(ContextId, SocketAddrV4)>,
}

impl Groups {
    pub(super) fn joined_by(memberships: Memberships) -> Self {
        Self::Joined(Mutex::new(Joined { memberships, contexts: Vec::new() }))
    }

    /// What is joined, without the groups of contexts that are gone. (Whoever has this lock may call the engine, and nobody
    /// asks for it in a call.)
    fn joined(&self, port: &Port) -> Option<MutexGuard<'_, Joined>> {
        let Self::Joined(joined) = self else { return None };
        let mut joined = lock(joined);
        let Joined { memberships, contexts } = &mut *joined;
        port.inspect(|engine, _, _| {
            for (_, group) in contexts.extract_if(.., |(context, _)| engine.block(*context).is_none()) {
                memberships.leave(group.into());
            }
        });
        Some(joined)
    }

    /// Has the link hear what is sent to `group`.
    fn join(&self, port: &Port, group: SocketAddrV4) -> io::Result<()> {
        let Some(mut joined) = self.joined(port) else { return Ok(()) };
        joined.memberships.join(group.into())
    }

    /// The same as long as there is this context; somebody else has joined the group already.
    pub(super) fn hold(&self, port: &Port, group: SocketAddrV4, context: ContextId) {
        if let Some(mut joined) = self.joined(port)
            && joined.memberships.join(group.into()).is_ok()
        {
            joined.contexts.push((context, group));
        }
    }

    /// Takes back a [`join`](Self::join).
    pub(super) fn leave(&self, port: &Port, group: SocketAddrV4) {
        if let Some(mut joined) = self.joined(port) {
            joined.memberships.leave(group.into());
        }
    }

    /// Leaves the groups of contexts that are gone.
    pub(super) fn tidy(&self, port: &Port) {
        drop(self.joined(port));
    }
}

impl Endpoint {
    /// A reliable stream to all who have [joined](Endpoint::join) `group`. What one of them lacks is repeated to the group;
    /// nobody waits for one that is gone, or too slow ([`ControlBlock::mc_drops`], or else
    /// [`retry_count`](ControlBlock::retry_count) rounds of answers without progress): it finds that bytes which it asks for
    /// are no longer held, and its stream ends with [`Failure::Refused`](super::Failure::Refused) (code 4, value 11).
    ///
    /// The sender does not know who receives, only that somebody answers: [`Connection::establish`] waits for the first.
    /// Whoever joins later begins with the next message. Nothing can be received on the stream. It ends as any other:
    /// [`Connection::finish`], then [`Connection::wait_closed`], which waits until everybody who answers has everything.
    ///
    /// The endpoint has to be [bound](Endpoint::bind) to an IPv4 address: that of an interface, which the group is then
    /// reached through, or `0.0.0.0`, where [`Options::multicast`](super::Options::multicast) or the routes say which.
    ///
    /// ```
    /// use pinnace::link::{MulticastOptions, probe_multicast};
    /// use pinnace::xtp::{Endpoint, Options};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let over_loopback = MulticastOptions { interface: "127.0.0.1".parse()?, ..MulticastOptions::default() };
    /// if let Err(error) = probe_multicast(&over_loopback) {
    ///     println!("skipped: no multicast on the loopback interface ({error})");
    ///     return Ok(());
    /// }
    /// let group = std::net::SocketAddrV4::new("239.79.1.1".parse()?, 20_000 + std::process::id() as u16 % 20_000);
    /// let receivers = [(); 2].map(|()| Endpoint::bind("127.0.0.1:0", &Options::default()));
    /// let receivers = receivers.map(|receiver| receiver?.join(group));
    ///
    /// let sender = Endpoint::bind("127.0.0.1:0", &Options::default())?;
    /// let stream = sender.open_group(group)?;
    /// stream.send(b"ahoy, all".to_vec())?;
    /// stream.finish()?;
    /// for receiver in receivers {
    ///     let received = receiver?.accept()?.into_connection().ok_or("a stream comes")?;
    ///     assert_eq!(received.recv()?.as_deref(), Some(&b"ahoy, all"[..]));
    ///     assert!(received.recv()?.is_none(), "the end of the stream");
    /// }
    /// stream.wait_closed()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`] if `group` has no address of 224.0.0.0/4 or no port, if the endpoint cannot reach groups (and why), if
    /// the link is a member of 64 groups, or with the codec [`Codec::Xtp36`](super::Codec::Xtp36), which knows no groups;
    /// [`Error::ContextRefused`] if there are too many contexts.
    pub fn open_group(&self, group: SocketAddrV4) -> Result<Connection, Error> {
        self.open_group_with(group, self.block(Service::Multicast))
    }

    /// As [`Endpoint::open_group`], programmed by `block`, whose address does not count, and whose service is
    /// [`Service::Multicast`], or [`Service::UnackMulticast`]: then nobody answers, nothing is repeated, and nothing but
    /// [`ControlBlock::output_rate`] (bytes a second) bounds how fast it is sent.
    ///
    /// # Errors
    /// As [`Endpoint::open_group`]; also if the service is none of the two.
    pub fn open_group_with(&self, group: SocketAddrV4, block: ControlBlock) -> Result<Connection, Error> {
        let service = block.service;
        if !service.is_group() {
            return Err(Error::ContextRefused(Refused::Unsupported));
        }
        let failed = |error| Error::io(format!("cannot send to the group {group}"), error);
        let to = self.way_to_group(group).map_err(failed)?;
        let (groups, port) = (&self.end.groups, &self.end.port);
        groups.join(port, group).map_err(failed)?;
        let block = self.addressed(group.into(), block, service);
        let address = block.address_segment;
        let opened = port.call(|Call { now, engine, state, .. }| {
            let id = engine.open_group(now, to, block)?;
            Ok((state.insert(id), id))
        });
        let result =
            opened.map_err(Error::from).and_then(|opened| opened.map_err(|refused| explained(refused, failed)));
        if let Ok((_, id)) = result {
            groups.hold(port, group, id);
        }
        groups.leave(port, group);
        Ok(Connection::new(&self.end, result?, service, to, address))
    }

    /// Joins `group`, and receives what is sent to it: reliable streams and those of which nothing is repeated, each accepted
    /// as an [`Incoming::Connection`](super::Incoming::Connection). One that has begun before is received from its next
    /// message on. Any number of endpoints of a host can join a group, also one that another sends to.
    ///
    /// A stream that is dropped after its end goes on answering in the background, until the sender has heard that everything
    /// came; one that is dropped before its end is left at once, and nobody waits for it.
    ///
    /// # Errors
    /// As [`Endpoint::open_group`]; [`Error::ContextRefused`] if there are too many listeners.
    pub fn join(&self, group: SocketAddrV4) -> Result<Listener, Error> {
        let both = Services::NONE.with(Service::Multicast).with(Service::UnackMulticast);
        self.join_with(group, both, self.block(Service::Multicast))
    }

    /// As [`Endpoint::join`], for these of the two services. What `block` says besides service and address holds for all
    /// streams that are accepted.
    ///
    /// # Errors
    /// As [`Endpoint::join`]; also if `services` has none of the two.
    pub fn join_with(
        &self,
        group: SocketAddrV4,
        services: impl Into<Services>,
        block: ControlBlock,
    ) -> Result<Listener, Error> {
        let services = services.into();
        if !services.contains(Service::Multicast) && !services.contains(Service::UnackMulticast) {
            return Err(Error::ContextRefused(Refused::Unsupported));
        }
        let failed = |error| Error::io(format!("cannot join the group {group}"), error);
        let name = self.way_to_group(group).map_err(failed)?;
        let (groups, port) = (&self.end.groups, &self.end.port);
        groups.join(port, group).map_err(failed)?;
        let block = self.addressed(group.into(), block, Service::Multicast);
        let listening = port.call(|Call { engine, state, .. }| {
            let id = engine.join(name, block, services)?;
            state.listen(id);
            Ok(id)
        });
        match listening.map_err(Error::from).and_then(|id| id.map_err(|refused| explained(refused, failed))) {
            Ok(id) => Ok(Listener::of_group(&self.end, id, group)),
            Err(error) => {
                groups.leave(port, group);
                Err(error)
            }
        }
    }

    /// How the engine names a group, where it can be reached.
    fn way_to_group(&self, group: SocketAddrV4) -> io::Result<Address> {
        let invalid = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        if !group.ip().is_multicast() || group.port() == 0 {
            return invalid("a group has an address of 224.0.0.0/4 and a port");
        }
        if let Groups::None(why) = self.end.groups {
            return invalid(why);
        }
        self.end.name(group.into()).map_err(io::Error::from)
    }
}

/// Why the engine refuses a stream to a group of a service that it has.
fn explained(refused: Refused, failed: impl Fn(io::Error) -> Error) -> Error {
    match refused {
        Refused::Unsupported => {
            failed(io::Error::new(io::ErrorKind::InvalidInput, "the codec xtp36 knows no groups: use xtp40"))
        }
        refused => Error::ContextRefused(refused),
    }
}

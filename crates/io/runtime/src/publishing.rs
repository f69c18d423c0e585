//! What of an endpoint others see ([`counters`](crate::counters)): its row, and when it is written.
//!
//! Always true: a row is written under the endpoint's lock, so by one thread at a time.

use crate::counters::{Kind, Labels, Numbers, PERIOD, PERIOD_ASLEEP, Row};
use crate::shared::Core;
use crate::{Endpoint, EventSink};
use pinnace_core::{Engine, Time};
use pinnace_link::Link;
use std::fmt;
use std::mem::ManuallyDrop;
use std::net::UdpSocket;
use std::os::fd::{FromRawFd, RawFd};

/// What others see.
pub(crate) struct Published<E> {
    row: Row,
    look: fn(&E, &mut Numbers),
}

impl<E> fmt::Debug for Published<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.row.fmt(f)
    }
}

impl<E: Engine, L: Link, S: EventSink<E::Event>> Core<E, L, S> {
    /// Writes the row, if it is time for it.
    #[inline]
    pub(crate) fn publish(&mut self) {
        if self.publish_at <= self.driver.last_now() {
            self.publish_now();
        }
    }

    /// The same, sooner: nothing may happen for long.
    pub(crate) fn publish_before_sleep(&mut self) {
        if self.publish_at <= self.driver.last_now() + (PERIOD - PERIOD_ASLEEP) {
            self.publish_now();
        }
    }

    #[cold]
    fn publish_now(&mut self) {
        let Some(published) = &self.published else { return };
        let link = self.driver.link().counters();
        let mut numbers = Numbers {
            bytes_sent: link.bytes_sent,
            datagrams_sent: link.datagrams_sent,
            bytes_received: link.bytes_received,
            datagrams_received: link.datagrams_received,
            ..Numbers::default()
        };
        (published.look)(self.driver.engine(), &mut numbers);
        published.row.publish(&numbers);
        self.publish_at = self.driver.last_now() + PERIOD;
    }
}

/// The two ends of a socket, as far as it has any.
fn ends(descriptor: RawFd) -> (String, String) {
    if descriptor < 0 {
        return Default::default();
    }
    // SAFETY: the link has it open meanwhile, and it is not closed here. What is no socket says so.
    let socket = ManuallyDrop::new(unsafe { UdpSocket::from_raw_fd(descriptor) });
    let text = |address: std::io::Result<std::net::SocketAddr>| address.map(|it| it.to_string()).unwrap_or_default();
    (text(socket.local_addr()), text(socket.peer_addr()))
}

impl<E, L, S> Endpoint<E, L, S>
where
    E: Engine + Send + 'static,
    L: Link + 'static,
    S: EventSink<E::Event> + Send + 'static,
{
    /// Shows others what this endpoint does, in a row of the process's [counters file](crate::counters), under the name of
    /// its protocol. `look` adds what the engine knows: messages, what was lost and repeated, the round trip. Where there is
    /// no file nothing happens.
    pub fn publish(&self, protocol: &str, look: fn(&E, &mut Numbers)) {
        let (local, peer) = ends(self.with_link(|link| link.descriptors().readable));
        let labels = Labels { protocol, local: &local, peer: &peer, service: "" };
        let Some(row) = Row::new(Kind::Socket, &labels) else { return };
        let mut core = self.lock();
        core.published = Some(Published { row, look });
        core.publish_at = Time::ZERO;
    }
}

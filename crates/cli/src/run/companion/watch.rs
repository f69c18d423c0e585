//! Whether the other host still has the port that a stream was opened to: TCP would have been told by a reset, but whoever
//! dies takes its QMP with it, and says nothing.
//!
//! Always true: it is the word of that host that counts (ICMP port unreachable, of which the socket to it is told), again and
//! again while it acknowledges nothing: anybody can forge one. That no way leads there says nothing.

use pinnace::qmp::Stream;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// So many looks, one after the other, each with a refusal.
const ENOUGH: u32 = 2;

#[derive(Debug)]
pub(super) struct Watch {
    peer: SocketAddr,
    acknowledged: u64,
    reports: u64,
    refusals: u32,
}

impl Watch {
    /// Of a stream that was opened from here, by a socket that leads to its peer alone.
    pub(super) fn new(peer: SocketAddr, stream: &Stream) -> Self {
        let reports = stream.endpoint().map_or(0, |endpoint| endpoint.link_counters().unreachable_reports);
        Self { peer, acknowledged: 0, reports, refusals: 0 }
    }

    /// Looks, after a time in which nothing has come: whether nobody has the port any more.
    pub(super) fn is_gone(&mut self, stream: &Stream) -> bool {
        let (Ok(facts), Some(endpoint)) = (stream.facts(), stream.endpoint()) else { return false };
        let reports = endpoint.link_counters().unreachable_reports;
        let is_silent = facts.acked == self.acknowledged;
        // Our own host counts there, too, as long as it knows no way.
        let is_refused = is_silent && reports > self.reports && is_routed(self.peer);
        (self.acknowledged, self.reports) = (facts.acked, reports);
        self.refusals = if is_refused { self.refusals + 1 } else { 0 };
        self.refusals >= ENOUGH
    }
}

/// Whether this host knows a way. No packet is sent.
fn is_routed(peer: SocketAddr) -> bool {
    let any = if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    UdpSocket::bind(SocketAddr::new(any, 0)).is_ok_and(|socket| socket.connect(peer).is_ok())
}

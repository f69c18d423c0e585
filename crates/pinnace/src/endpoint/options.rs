//! How endpoints are set up.

use crate::a1::SlowSink;
use crate::carrier::SIGN_OF_LIFE;
use crate::fault::another;
use crate::network::deadline;
use crate::rendezvous::{Control, is_duplex};
use crate::service::{Selection, Service};
use crate::zcrp::Profile;
use crate::{ControllerKind, Idle, a1, qmp, vrp, xtp, zcrp};
use pinnace_link::{FaultOptions, UdpOptions};
use std::time::{Duration, Instant};

/// Settings of an [`Endpoint`](super::Endpoint). The defaults are safe anywhere.
///
/// ```
/// use pinnace::EndpointOptions;
/// use pinnace::service::{Method, Selection};
/// let selection = Selection { excluded: vec![Method::SharedMemory], ..Selection::default() };
/// let options = EndpointOptions { selection, ..EndpointOptions::default() };
/// assert_eq!(options.backlog, 128);
/// ```
#[derive(Clone, Debug)]
pub struct EndpointOptions {
    /// Which methods may be chosen.
    pub selection: Selection,
    /// What a waiting thread does while nothing arrives.
    pub idle: Idle,
    /// When a silent peer counts as gone. Whoever sends to it, or receives from it, has an error after this time. Whoever
    /// only looks ([`Connection::check`](super::Connection::check)) asks a peer that has been silent for half of it, or two
    /// seconds, and may have to wait anew for the answer.
    pub peer_timeout: Duration,
    /// How long a call that connects may take; the resolving of names is not counted. `None`:
    /// as long as it takes, which is some 7 seconds where nobody answers, and up to 17 for each method that was agreed on and
    /// does not get through. Over a path that loses much, or is slow, a short time
    /// is too short.
    pub connect_timeout: Option<Duration>,
    /// The longest message that is received, in bytes. A longer one ends the connection: whoever receives has
    /// [`Error::MessageTooLong`](crate::Error::MessageTooLong), and the peer learns that the connection is broken off. Who
    /// connects, and says how long its messages are, takes as long ones as answers.
    pub longest_message: u64,
    /// Connections that wait to be accepted, and those that are being set up; more are turned away. There is always room for
    /// one.
    pub backlog: usize,
    /// What a source with several receivers ([`Endpoint::connect_all`](super::Endpoint::connect_all)) does about one that
    /// has no room for a message while others have: unless said, it is cut off after two seconds.
    pub slow_receiver: SlowSink,
    /// What bounds the bytes in transit. `None`: what the path needs, which is [`ControllerKind::Bbr`] but on this host and on
    /// clusters. Of a path that loses a fifth and more by itself both ends that send should say so:
    ///
    /// ```
    /// use pinnace::{ControllerKind, EndpointOptions};
    /// let congestion = Some(ControllerKind::LossyBbr { percent: 30 });
    /// let options = EndpointOptions { congestion, ..EndpointOptions::default() };
    /// ```
    pub congestion: Option<ControllerKind>,
    /// Whether background threads keep the protocols going while no thread waits.
    pub worker: bool,
    /// The sockets' own settings.
    pub udp: UdpOptions,
    /// Lose, double and reorder what this endpoint sends over a network, the rendezvous included: so an application can be
    /// tested under loss, without rights and without another host. Give it to both ends, and both ways suffer. Shared
    /// memory loses nothing. Each link draws random numbers of its own, from the seed and from how many links the process
    /// has opened with that seed before.
    ///
    /// Faults come before the checksum of UDP; so a bit that is flipped ([`FaultOptions::corruption`]) is found by XTP and
    /// A1, which have sums of their own, and by no other method.
    ///
    /// ```
    /// use pinnace::{EndpointOptions, link::FaultOptions};
    /// let fault = FaultOptions { loss: 0.05, duplication: 0.01, reordering: 0.01, ..FaultOptions::default() };
    /// let options = EndpointOptions { fault: Some(fault), ..EndpointOptions::default() };
    /// ```
    pub fault: Option<FaultOptions>,
}

impl Default for EndpointOptions {
    fn default() -> Self {
        Self {
            selection: Selection::default(),
            idle: Idle::default(),
            peer_timeout: Duration::from_secs(10),
            connect_timeout: None,
            longest_message: 1 << 30,
            backlog: 128,
            slow_receiver: SlowSink::Drop { patience: Duration::from_secs(2) },
            congestion: None,
            worker: true,
            udp: UdpOptions::default(),
            fault: None,
        }
    }
}

/// Whether the congestion of others is not to be feared.
fn profile(is_ours: bool) -> Profile {
    if is_ours { Profile::Cluster } else { Profile::Internet }
}

impl EndpointOptions {
    /// The faults of the next link.
    pub(crate) fn next_fault(&self) -> Option<FaultOptions> {
        self.fault.as_ref().map(another)
    }

    /// Bytes of the longest message that whoever connects receives: those that say how long theirs are mean also those that
    /// come back.
    pub(crate) fn longest(&self, service: &Service) -> u64 {
        let said = if service.says_sizes() { service.largest_bytes() } else { 0 };
        self.longest_message.max(said)
    }

    /// The same of a socket that peers come to: who they are, which they say first, may be longer.
    pub(crate) fn longest_to_come(&self) -> u64 {
        self.longest_message.max(Control::MOST_BYTES as u64)
    }

    /// When a call that connects now has to end.
    pub(crate) fn connect_deadline(&self) -> Option<Instant> {
        self.connect_timeout.and_then(deadline)
    }

    /// `is_ours`: the network is this host, or a cluster.
    pub(crate) fn xtp(&self, is_ours: bool) -> xtp::Options {
        xtp::Options {
            profile: profile(is_ours),
            longest_message: self.longest_to_come(),
            congestion: self.congestion,
            idle: self.idle,
            worker: self.worker,
            udp: self.udp.clone(),
            fault: self.next_fault(),
            ..xtp::Options::default()
        }
    }

    pub(crate) fn qmp(&self, is_ours: bool) -> qmp::Options {
        qmp::Options {
            // Shared memory is a method of its own.
            same_host: false,
            network: profile(is_ours),
            peer_timeout: Some(self.peer_timeout),
            congestion: self.congestion,
            idle: self.idle,
            worker: self.worker,
            udp: self.udp.clone(),
            fault: self.next_fault(),
            ..qmp::Options::default()
        }
    }

    pub(crate) fn zcrp(&self, is_ours: bool) -> zcrp::Options {
        zcrp::Options {
            profile: profile(is_ours),
            peer_timeout: self.peer_timeout,
            congestion: self.congestion,
            idle: self.idle,
            worker: self.worker,
            udp: self.udp.clone(),
            fault: self.next_fault(),
            ..zcrp::Options::default()
        }
    }

    /// `joins`: multicast groups are joined, if a peer names one.
    pub(crate) fn a1(&self, is_ours: bool, joins: bool) -> a1::Options {
        let options = a1::Options::default();
        a1::Options {
            multicast: options.multicast.filter(|_| joins),
            profile: profile(is_ours),
            silence: self.peer_timeout,
            congestion: self.congestion,
            idle: self.idle,
            worker: self.worker,
            udp: self.udp.clone(),
            fault: self.next_fault(),
            ..options
        }
    }

    pub(crate) fn vrp(&self, is_ours: bool, service: &Service) -> vrp::Options {
        vrp::Options {
            profile: profile(is_ours),
            in_order: service.order,
            // Somebody has to be awake for that.
            keep_alive: (!is_duplex(service) && self.worker).then(|| SIGN_OF_LIFE.min(self.peer_timeout / 4)),
            life_timeout: self.peer_timeout,
            congestion: self.congestion,
            rate: service.limit(),
            idle: self.idle,
            worker: self.worker,
            udp: self.udp.clone(),
            fault: self.next_fault(),
            ..vrp::Options::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vrp_is_held_to_a_rate_with_a_burst() {
        let options = EndpointOptions::default();
        let rate = |service: &str| options.vrp(false, &service.parse().unwrap()).rate;
        assert_eq!(rate("loss=5% run=4KiB rate=8mbit burst=100KiB"), Some(1_000_000));
        assert_eq!([rate("loss=5% run=4KiB rate=8mbit"), rate("loss=5% run=4KiB")], [None, None]);
    }

    #[test]
    fn every_method_takes_the_congestion_control_that_was_said() {
        for congestion in [None, Some(ControllerKind::LossyBbr { percent: 30 })] {
            let options = EndpointOptions { congestion, ..EndpointOptions::default() };
            let taken = [
                options.xtp(false).congestion,
                options.qmp(false).congestion,
                options.zcrp(false).congestion,
                options.vrp(false, &Service::new()).congestion,
                options.a1(false, false).congestion,
            ];
            assert_eq!(taken, [congestion; 5]);
        }
    }
}

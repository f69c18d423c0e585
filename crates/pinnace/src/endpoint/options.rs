//! How endpoints are set up.

use crate::service::Selection;
use crate::zcrp::Profile;
use crate::{Idle, a1, qmp, vrp, xtp, zcrp};
use pinnace_link::UdpOptions;
use std::time::Duration;

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
    /// When a silent peer counts as gone.
    pub peer_timeout: Duration,
    /// The longest message that is received, in bytes.
    pub longest_message: u64,
    /// Connections that wait to be accepted, and those that are being set up; more are turned away.
    pub backlog: usize,
    /// Whether background threads keep the protocols going while no thread waits.
    pub worker: bool,
    /// The sockets' own settings.
    pub udp: UdpOptions,
}

impl Default for EndpointOptions {
    fn default() -> Self {
        Self {
            selection: Selection::default(),
            idle: Idle::default(),
            peer_timeout: Duration::from_secs(10),
            longest_message: 1 << 30,
            backlog: 128,
            worker: true,
            udp: UdpOptions::default(),
        }
    }
}

/// Whether the congestion of others is not to be feared.
fn profile(is_ours: bool) -> Profile {
    if is_ours { Profile::Cluster } else { Profile::Internet }
}

impl EndpointOptions {
    /// `is_ours`: the network is this host, or a cluster.
    pub(crate) fn xtp(&self, is_ours: bool) -> xtp::Options {
        xtp::Options {
            profile: profile(is_ours),
            longest_message: self.longest_message,
            idle: self.idle,
            worker: self.worker,
            udp: self.udp.clone(),
            ..xtp::Options::default()
        }
    }

    pub(crate) fn qmp(&self, is_ours: bool) -> qmp::Options {
        qmp::Options {
            // Shared memory is a method of its own.
            same_host: false,
            network: profile(is_ours),
            peer_timeout: Some(self.peer_timeout),
            idle: self.idle,
            worker: self.worker,
            udp: self.udp.clone(),
            ..qmp::Options::default()
        }
    }

    pub(crate) fn zcrp(&self, is_ours: bool) -> zcrp::Options {
        zcrp::Options {
            profile: profile(is_ours),
            peer_timeout: self.peer_timeout,
            idle: self.idle,
            worker: self.worker,
            udp: UdpOptions { ecn: false, local_address: false, ..self.udp.clone() },
            ..zcrp::Options::default()
        }
    }

    pub(crate) fn a1(&self, is_ours: bool) -> a1::Options {
        a1::Options {
            profile: profile(is_ours),
            silence: self.peer_timeout,
            idle: self.idle,
            worker: self.worker,
            udp: self.udp.clone(),
            ..a1::Options::default()
        }
    }

    pub(crate) fn vrp(&self, is_ours: bool) -> vrp::Options {
        vrp::Options {
            profile: profile(is_ours),
            life_timeout: self.peer_timeout,
            idle: self.idle,
            worker: self.worker,
            udp: self.udp.clone(),
            ..vrp::Options::default()
        }
    }
}

//! What a network does to packets, one node a file.

mod adversary;
mod burst;
mod corruption;
mod delay;
mod duplication;
mod jitter;
mod loss;
mod mtu;
mod partition;
mod rate;
mod reordering;
mod train_loss;

pub use adversary::{Adversary, AdversaryConfig};
pub use burst::{BurstLoss, GilbertElliott};
pub use corruption::Corruption;
pub use delay::Delay;
pub use duplication::Duplication;
pub use jitter::Jitter;
pub use loss::Loss;
pub use mtu::Mtu;
pub use partition::Partition;
pub use rate::Rate;
pub use reordering::Reordering;
pub use train_loss::TrainLoss;

use crate::{NetworkConfig, Path};
use core::time::Duration;
use pinnace_core::Time;

/// The nodes that `config` describes, in the order of a real way: what the sender's side refuses, then the line with its
/// losses, then the bottleneck, then the distance, then what happens on the far side.
pub(crate) fn path(config: &NetworkConfig) -> Path {
    let mut path = Path::new();
    if config.mtu.is_some() || !config.mtu_changes.is_empty() {
        let mut mtu = Mtu::new(config.mtu.unwrap_or(u32::MAX));
        for &(at, bytes) in &config.mtu_changes {
            mtu = mtu.change_at(Time::ZERO + at, bytes);
        }
        path = path.node(if config.icmp { mtu } else { mtu.silent() });
    }
    for &(low, high) in &config.partitions {
        path = path.node(Partition::new(Time::ZERO + low, Time::ZERO + high));
    }
    if config.train_loss > 0.0 {
        path = path.node(TrainLoss::new(config.train_loss));
    }
    if config.loss > 0.0 {
        path = path.node(Loss::new(config.loss));
    }
    if let Some(model) = config.burst_loss {
        path = path.node(BurstLoss::new(model));
    }
    if config.corrupt > 0.0 {
        let node = Corruption::new(config.corrupt);
        path = path.node(if config.corrupt_through { node.let_through() } else { node });
    }
    if let Some(rate) = config.rate {
        let mut node = Rate::new(rate).bucket(config.bucket);
        if let Some(bytes) = config.queue_bytes() {
            node = node.queue(bytes);
            if let Some(share) = config.ecn {
                node = node.mark_above((bytes as f64 * share) as u64);
            }
        }
        path = path.node(node);
    }
    if config.delay > Duration::ZERO {
        path = path.node(Delay::new(config.delay));
    }
    if config.jitter > Duration::ZERO {
        path = path.node(Jitter::new(config.jitter));
    }
    if config.reorder > 0.0 {
        path = path.node(Reordering::new(config.reorder, config.reorder_by));
    }
    if config.duplicate > 0.0 {
        path = path.node(Duplication::new(config.duplicate));
    }
    if let Some(rate) = config.adversary {
        path = path.node(Adversary::new(AdversaryConfig { rate, ..AdversaryConfig::default() }));
    }
    path
}

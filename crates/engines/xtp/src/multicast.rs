//! Groups (specs/xtp.md, X-22).

use crate::engine::Xtp;
use crate::shared::Shared;
use pinnace_core::{PollAt, RxMeta, Time, Train};
use pinnace_wire::xtp::Header;

/// The groups of an engine.
#[derive(Debug, Default)]
pub(crate) struct Groups {}

impl Groups {
    pub(crate) fn poll_at(&self) -> PollAt {
        PollAt::Ingress
    }

    pub(crate) fn expire(&mut self, _: Time, _: &mut Shared) {}
}

impl Xtp {
    /// A packet to a group that is not known: never answered by a DIAG.
    pub(crate) fn on_group_packet(&mut self, _: Time, _: &RxMeta, _: &Header) {
        self.shared.counters.packets_unknown += 1;
    }
}

pub(crate) fn transmit(_: &mut Xtp, _: Time, _: &mut Train) -> bool {
    false
}

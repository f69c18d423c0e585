//! Whether the peer is known to be where datagrams go: the same notion for both halves.
//!
//! A peer that introduced itself may have done so in the name of somebody else, who must not be flooded. Until there is a
//! proof it gets three times the bytes that came in its name, whichever half they are for, and from the sender one unit in
//! transit besides, because a request is too small to earn one. The proof is a positive acknowledgement that names nothing
//! but what the sender has sent: the first number is 32 random bits, which only who has received it knows. A receiver sends
//! nothing that could not be guessed, so without a sender the limit stays.
//!
//! The units alone are repeated as Z-12 says: of silence, which is over after 10 s (Z-19), 12 of them, or 18 kB with an MTU
//! of 1500 bytes; whoever goes on to speak in somebody's name gets 32 of them there, in 30 s, and three times its own bytes.

use pinnace_core::Allowance;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Path {
    is_limited: bool,
    is_proven: bool,
    allowance: Allowance,
}

impl Path {
    /// A half comes that limits what goes to an unproven peer, or does not.
    pub(crate) fn limit(&mut self, limits: bool) {
        self.is_limited |= limits && !self.is_proven;
    }

    /// Whether the peer may be somebody else.
    pub(crate) fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// The peer has shown that it receives what is sent to it.
    pub(crate) fn prove(&mut self) {
        (self.is_limited, self.is_proven) = (false, true);
    }

    /// What came so far was not all of the peer's: the link has heard others as well.
    pub(crate) fn forget_credit(&mut self) {
        self.allowance = Allowance::default();
    }

    /// So much came from the peer.
    pub(crate) fn credit(&mut self, bytes: usize, datagrams: usize) {
        self.allowance.earn(datagrams, bytes);
    }

    /// Whether a datagram of `bytes` bytes may be sent now.
    pub(crate) fn may_send(&self, bytes: usize) -> bool {
        !self.is_limited || self.allowance.covers(1, bytes)
    }

    /// The largest datagram that may be sent now, if it has at most `most` bytes.
    pub(crate) fn largest(&self, most: usize) -> usize {
        if self.is_limited { self.allowance.largest().min(most) } else { most }
    }

    /// A datagram of `bytes` bytes leaves.
    pub(crate) fn pay(&mut self, bytes: usize) {
        if self.is_limited {
            self.allowance.spend(1, bytes);
        }
    }
}

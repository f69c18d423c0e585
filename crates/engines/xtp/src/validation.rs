//! Whether a peer is where its packets say it is, and what goes there before it has shown that (specs/README.md).
//!
//! A responder answers an address that anybody could have written into a datagram. Always true: until the peer has sent
//! something that only the receiver of our packets can know, all that leaves for it, of whatever kind, is within its
//! [`Allowance`]. An initiator sends to whom its application has named, and needs no proof.

use crate::Service;
use crate::context::{Context, Role};
use crate::shared::Shared;
use pinnace_core::{Allowance, Seq32};
use pinnace_wire::xtp::Codec;

/// Code and value of a DIAG.
const DIAG_BYTES: usize = 8;

/// The largest status without spans: TCNTL (xtp40), CNTL (xtp36).
const fn status_bytes(codec: Codec) -> usize {
    match codec {
        Codec::Xtp40 => 32 + 56,
        Codec::Xtp36 => 40 + 48 + 4,
    }
}

/// The largest question without spans, which is a CNTL (specs/xtp.md, 3.5), and in xtp40 never has any.
const fn question_bytes(codec: Codec) -> usize {
    match codec {
        Codec::Xtp40 => 32 + 20,
        Codec::Xtp36 => status_bytes(codec),
    }
}

/// What a context knows of its peer's address and key.
#[derive(Debug, Default)]
pub(crate) struct Proof {
    /// The peer gets what we send to its address: it has sent what only the receiver can know.
    pub(crate) is_validated: bool,
    /// The peer has used our key.
    pub(crate) has_used_key: bool,
    /// It has been told our key.
    pub(crate) has_told_key: bool,
    /// Our newest sync when the peer told its key, until it has answered a later one: it may not know that we are there.
    pub(crate) unproved_since: Option<u32>,
    /// Until its address is validated: what may still be sent there.
    pub(crate) allowance: Allowance,
}

impl Context {
    /// Whether more may be sent to the peer's address than came from it allows.
    pub(crate) fn is_trusted(&self, shared: &Shared) -> bool {
        self.proof.is_validated || !shared.config.validates || self.role == Role::Initiator
    }

    /// Whether the peer is believed what it says it has sent. Of a group's sender there is never a proof: whoever has joined
    /// has asked for its stream.
    pub(crate) fn is_believed(&self, shared: &Shared) -> bool {
        self.is_trusted(shared) || self.is_group()
    }

    /// Whether the responder may still be waiting for us to show that we are here: it might have something to say, and all
    /// that it may send may be lost. If nothing else asks, WTIMER does.
    pub(crate) fn has_to_prove(&self, shared: &Shared) -> bool {
        self.proof.unproved_since.is_some() && shared.config.validates
    }

    /// The newest status names this packet of ours: if it left after we knew the peer's key, it had that key.
    pub(crate) fn on_echo(&mut self, echo: u32) {
        if self.proof.unproved_since.is_some_and(|sync| Seq32::new(sync).before(Seq32::new(echo))) {
            self.proof.unproved_since = None;
        }
    }

    /// Whether the peer has most likely heard us: it has used our key, or said our sync.
    pub(crate) fn is_there(&self) -> bool {
        self.proof.is_validated || self.proof.has_used_key
    }

    /// A datagram of so many bytes has come, with our key or without, and with this echo if it is a status. True: it is the
    /// first that shows a responder that its peer is there.
    pub(crate) fn on_came(&mut self, bytes: usize, has_key: bool, echo: Option<u32>) -> bool {
        self.proof.allowance.earn(1, bytes);
        let was_there = self.is_there();
        if self.role == Role::Responder {
            let has_echo = echo.is_some_and(|echo| self.outgoing.has_said(echo));
            // Eleven bits of the shorter key cannot be known beforehand: too few to prove anything.
            self.proof.is_validated |= has_echo || (has_key && self.codec() == Codec::Xtp40);
            self.proof.has_used_key |= has_key;
        }
        self.is_there() && !was_there
    }

    /// A datagram of so many bytes leaves.
    pub(crate) fn on_leaves(&mut self, bytes: usize) {
        self.proof.allowance.spend(1, bytes);
    }

    /// Whether a status may leave now.
    pub(crate) fn may_say(&self, shared: &Shared) -> bool {
        self.is_trusted(shared) || self.proof.allowance.covers(1, status_bytes(self.codec()))
    }

    /// Whether a question may leave now.
    pub(crate) fn may_ask(&self, shared: &Shared) -> bool {
        self.may_say(shared) || self.proof.allowance.covers(1, question_bytes(self.codec()))
    }

    /// Counts a DIAG that is to leave; false if it may not.
    pub(crate) fn may_diagnose(&mut self, shared: &Shared) -> bool {
        let codec = self.codec();
        let bytes = codec.header_bytes() + DIAG_BYTES + codec.tail_bytes(DIAG_BYTES);
        let may = self.is_trusted(shared) || self.proof.allowance.covers(1, bytes);
        if may {
            self.on_leaves(bytes);
        }
        may
    }

    /// The longest datagram that may leave now.
    pub(crate) fn datagram_left(&self, shared: &Shared) -> usize {
        match self.is_trusted(shared) {
            true => usize::MAX,
            false => self.proof.allowance.largest(),
        }
    }

    /// How many user bytes a packet may have that has `overhead` bytes beside them. They leave room for a question, for the
    /// case that all is lost: the peer may have no reason to ask. Two kinds of first data may use up all: those that leave
    /// no such room however few they are, and a whole response to a request that nothing has answered, which comes again.
    pub(crate) fn data_left(&self, shared: &Shared, overhead: usize) -> u64 {
        let left = self.datagram_left(shared).saturating_sub(overhead) as u64;
        let beside_question = left.saturating_sub(Allowance::cost(1, question_bytes(self.codec())));
        let is_unanswered = self.service == Service::Transaction && !self.proof.has_told_key;
        let is_whole_response = is_unanswered && self.outgoing.end().is_some_and(|end| end <= left);
        let takes_all = self.outgoing.sent() == 0 && (is_whole_response || beside_question == 0);
        if takes_all { left } else { beside_question }
    }
}

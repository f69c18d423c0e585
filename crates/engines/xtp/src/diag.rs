//! DIAG packets on their way, and no more of them than allowed (specs/xtp.md, 3.7).

use core::time::Duration;
use pinnace_core::{Address, Time};
use pinnace_wire::xtp::{self, Code, Header, Key, Kind, Options, Value};
use std::collections::VecDeque;

/// A packet of our own that belongs to no context.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) to: Address,
    pub(crate) from: Option<Address>,
    pub(crate) bytes: Vec<u8>,
}

/// Queues DIAGs: in any second at most so many.
#[derive(Debug)]
pub(crate) struct Diags {
    replies: VecDeque<Reply>,
    /// When the last ones were queued.
    times: VecDeque<Time>,
    per_second: usize,
}

impl Diags {
    pub(crate) fn new(per_second: u64) -> Self {
        Self { replies: VecDeque::new(), times: VecDeque::new(), per_second: per_second as usize }
    }

    /// Queues a DIAG; false if there were too many.
    pub(crate) fn send(
        &mut self,
        now: Time,
        to: Address,
        from: Option<Address>,
        header: &Header,
        code: Code,
        value: Value,
    ) -> bool {
        while self.times.front().is_some_and(|at| now.since(*at) >= Duration::from_secs(1)) {
            self.times.pop_front();
        }
        if self.times.len() >= self.per_second {
            return false;
        }
        self.times.push_back(now);
        let mut bytes = Vec::new();
        xtp::diag(header, code as u32, value as u32, &[], &mut bytes);
        self.replies.push_back(Reply { to, from, bytes });
        true
    }

    /// Queues a packet that the limit does not concern.
    pub(crate) fn say(&mut self, reply: Reply) {
        self.replies.push_back(reply);
    }

    pub(crate) fn pop(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }
}

/// The header of a DIAG with these options that answers a packet: its key with RTN inverted, its sync and its seq.
pub(crate) fn answer_to(packet: &Header, options: Options) -> Header {
    Header {
        codec: packet.codec,
        key: Key { rtn: !packet.key.rtn, value: packet.key.value },
        options,
        kind: Kind::Diag,
        sort: 0,
        sync: packet.sync,
        seq: packet.seq,
        dseq: 0,
    }
}

/// Whether a packet may be answered by a DIAG at all. Who asks to join a stream may, whether he sets MULTI or not.
pub(crate) fn is_answerable(packet: &Header) -> bool {
    let is_to_many = packet.options.contains(Options::MULTI) && packet.kind != Kind::Jcntl;
    packet.kind != Kind::Diag && !is_to_many && !packet.options.contains(Options::END)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinnace_wire::xtp::Codec;

    #[test]
    fn no_second_sees_more_diags_than_allowed() {
        let packet = Header {
            codec: Codec::Xtp40,
            key: Key { rtn: true, value: 5 },
            options: Options::NONE,
            kind: Kind::Data,
            sort: 0,
            sync: 3,
            seq: 4,
            dseq: 0,
        };
        let header = answer_to(&packet, Options::NOCHECK);
        assert_eq!(header.options, Options::NOCHECK);
        assert_eq!((header.key.rtn, header.sync, header.seq), (false, 3, 4));
        assert!(is_answerable(&packet) && !is_answerable(&header));
        let mut diags = Diags::new(100);
        let mut sent = Vec::new();
        for tick in 0..3_000_u64 {
            let now = Time::from_nanos(tick * 1_000_000);
            if diags.send(now, Address::Peer, None, &header, Code::InvalidContext, Value::Unspecified) {
                sent.push(tick);
            }
        }
        assert_eq!(sent.len(), 300);
        for window in sent.windows(101) {
            assert!(window[100] - window[0] >= 1000);
        }
        assert_eq!(std::iter::from_fn(|| diags.pop()).count(), 300);
    }
}

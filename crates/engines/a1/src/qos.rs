//! Records of quality of service: what two of them make together (specs/a1.md, 1.1 and ).
//!
//! A record is that of one end, from its own point of view. Nothing is negotiated: who accepts may lower rates and window,
//! or refuses.
//= A-11

use crate::Refused;
use crate::incoming::Policy;
use crate::outgoing::Terms;
use pinnace_wire::a1::{MAX_BLOCK_BYTES, Qos, WINDOW_LIMIT};

/// Checks that a record of ours is possible.
pub(crate) fn check(qos: &Qos) -> Result<(), Refused> {
    let window = |largest| Terms::window_of(largest, qos.block_size, qos.outstanding);
    let is_possible = has_possible_block(qos)
        && window(qos.largest_sent) < u64::from(WINDOW_LIMIT)
        && window(qos.largest_received) < u64::from(WINDOW_LIMIT);
    if is_possible { Ok(()) } else { Err(Refused::Impossible) }
}

fn has_possible_block(qos: &Qos) -> bool {
    (1..=MAX_BLOCK_BYTES).contains(&qos.block_size)
}

/// Whether a record lies within the maximum.
//= A-12
pub(crate) fn is_within(qos: &Qos, max: &Qos) -> bool {
    let is_slower = |(average, burst): (u64, u32), (most, most_burst): (u64, u32)| {
        most == 0 || (average > 0 && average <= most && burst <= most_burst)
    };
    have_same_options(qos, max)
        && qos.priority >= max.priority
        && qos.block_size <= max.block_size
        && is_slower((qos.send_average, qos.send_burst), (max.send_average, max.send_burst))
        && is_slower((qos.receive_average, qos.receive_burst), (max.receive_average, max.receive_burst))
        && qos.largest_sent <= max.largest_sent
        && qos.largest_received <= max.largest_received
        && qos.outstanding <= max.outstanding
}

fn have_same_options(a: &Qos, b: &Qos) -> bool {
    (a.has_checksum, a.has_retransmission) == (b.has_checksum, b.has_retransmission)
}

/// The slower of two rates with their bursts.
fn slower((a, a_burst): (u64, u32), (b, b_burst): (u64, u32)) -> (u64, u32) {
    match (a, b) {
        (0, _) => (b, b_burst),
        (_, 0) => (a, a_burst),
        _ => (a.min(b), a_burst.min(b_burst)),
    }
}

/// The faster of two rates with their bursts.
fn faster((a, a_burst): (u64, u32), (b, b_burst): (u64, u32)) -> (u64, u32) {
    if a == 0 || b == 0 { (0, 0) } else { (a.max(b), a_burst.max(b_burst)) }
}

/// The record with which an OPEN is accepted by who has `max`; `None`: it is too different.
//= A-13
pub(crate) fn accepted(open: &Qos, max: &Qos) -> Option<Qos> {
    let fits = have_same_options(open, max)
        && has_possible_block(open)
        && open.largest_sent <= max.largest_received
        && max.largest_sent <= open.largest_received;
    if !fits {
        return None;
    }
    let send = slower((max.send_average, max.send_burst), (open.receive_average, open.receive_burst));
    let receive = slower((max.receive_average, max.receive_burst), (open.send_average, open.send_burst));
    Some(Qos {
        block_size: max.block_size.min(open.block_size),
        send_average: send.0,
        send_burst: send.1,
        receive_average: receive.0,
        receive_burst: receive.1,
        largest_received: max.largest_received.min(open.largest_sent),
        outstanding: max.outstanding.min(open.outstanding),
        ..*max
    })
}

/// Whether an ACCEPT with the record `accept` can answer an OPEN with the record `open`.
pub(crate) fn answers(accept: &Qos, open: &Qos) -> bool {
    have_same_options(accept, open)
        && has_possible_block(accept)
        && accept.block_size <= open.block_size
        && accept.largest_sent <= open.largest_received
}

/// Whether an ACCEPT with the record `accept` leaves no window for what an OPEN with the record `open` was to send: whoever
/// waits for it to open waits in vain.
//= A-10
pub(crate) fn shuts_out(accept: &Qos, open: &Qos) -> bool {
    let sends = open.largest_sent > 0 && open.outstanding > 0;
    sends && (accept.largest_received == 0 || accept.outstanding == 0)
}

/// The answer to a peer that asks for `asked` instead of `now`, by an end whose own record is `own`: rates and window may
/// be lower. What cannot change stays.
//= A-13
pub(crate) fn accepted_change(now: &Qos, asked: &Qos, own: &Qos) -> Qos {
    let send = slower((asked.send_average, asked.send_burst), (own.receive_average, own.receive_burst));
    let receive = slower((asked.receive_average, asked.receive_burst), (own.send_average, own.send_burst));
    Qos {
        send_average: send.0,
        send_burst: send.1,
        receive_average: receive.0,
        receive_burst: receive.1,
        largest_sent: asked.largest_sent.min(own.largest_received),
        outstanding: asked.outstanding.min(own.outstanding),
        // The smaller of both is in force since the connection began.
        block_size: now.block_size.min(own.block_size),
        ..changed(now, asked)
    }
}

/// The record `asked` instead of `now`: what cannot change stays.
pub(crate) fn changed(now: &Qos, asked: &Qos) -> Qos {
    Qos {
        has_checksum: now.has_checksum,
        has_retransmission: now.has_retransmission,
        block_size: now.block_size,
        ..*asked
    }
}

/// The record of a peer that has only lowered it to what was asked for at first (ACCEPT), now that it has answered to a
/// change with `reply`: it takes what that says. A rate that was not what `own` said is the peer's own limit, and stays.
//= A-12
pub(crate) fn lifted(own: &Qos, peer: &Qos, reply: &Qos) -> Qos {
    let (mut receive, mut send) = ((peer.receive_average, peer.receive_burst), (peer.send_average, peer.send_burst));
    if peer.receive_average == own.send_average {
        receive = faster(receive, (reply.send_average, reply.send_burst));
    }
    if peer.send_average == own.receive_average {
        send = faster(send, (reply.receive_average, reply.receive_burst));
    }
    Qos {
        send_average: send.0,
        send_burst: send.1,
        receive_average: receive.0,
        receive_burst: receive.1,
        largest_received: peer.largest_received.max(reply.largest_sent),
        outstanding: peer.outstanding.max(reply.outstanding),
        ..*peer
    }
}

/// The record that is in force after a change to `asked` was answered with `reply`: at most what was asked for.
pub(crate) fn lowered(asked: &Qos, reply: &Qos) -> Qos {
    let send = slower((asked.send_average, asked.send_burst), (reply.send_average, reply.send_burst));
    let receive = slower((asked.receive_average, asked.receive_burst), (reply.receive_average, reply.receive_burst));
    Qos {
        send_average: send.0,
        send_burst: send.1,
        receive_average: receive.0,
        receive_burst: receive.1,
        largest_sent: asked.largest_sent.min(reply.largest_sent),
        largest_received: asked.largest_received.min(reply.largest_received),
        outstanding: asked.outstanding.min(reply.outstanding),
        ..*asked
    }
}

/// Whether a record allows more than another in anything that a peer may lower.
pub(crate) fn raises(record: &Qos, now: &Qos) -> bool {
    let is_faster = |(average, burst): (u64, u32), (old, old_burst): (u64, u32)| {
        old > 0 && (average == 0 || average > old || burst > old_burst)
    };
    is_faster((record.send_average, record.send_burst), (now.send_average, now.send_burst))
        || is_faster((record.receive_average, record.receive_burst), (now.receive_average, now.receive_burst))
        || record.largest_sent > now.largest_sent
        || record.outstanding > now.outstanding
}

fn window(sender: &Qos, receiver: &Qos) -> u64 {
    let block = sender.block_size.min(receiver.block_size);
    let sends = Terms::window_of(sender.largest_sent, block, sender.outstanding);
    sends.min(Terms::window_of(receiver.largest_received, block, receiver.outstanding))
}

/// How this end sends.
//= A-10
pub(crate) fn sending(own: &Qos, peer: &Qos) -> Terms {
    let rate = slower((own.send_average, own.send_burst), (peer.receive_average, peer.receive_burst));
    Terms {
        block_bytes: own.block_size.min(peer.block_size),
        reliable: own.has_retransmission,
        window: window(own, peer),
        max_message: own.largest_sent.min(peer.largest_received).into(),
        outstanding: own.outstanding.into(),
        average: rate.0,
        burst: rate.1.into(),
    }
}

/// How this end receives.
//= A-10
pub(crate) fn receiving(own: &Qos, peer: &Qos, joins: bool) -> Policy {
    Policy {
        block_bytes: own.block_size.min(peer.block_size),
        reliable: own.has_retransmission,
        window: window(peer, own),
        max_message: own.largest_received.into(),
        makes_ahead: true,
        joins,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Qos {
        Qos {
            has_retransmission: true,
            block_size: 1000,
            largest_sent: 10_000,
            largest_received: 10_000,
            outstanding: 4,
            ..Qos::default()
        }
    }

    //= A-10 test
    #[test]
    fn the_window_is_the_smaller_of_both_ends_in_blocks_of_the_size_in_force() {
        let small = Qos { block_size: 300, outstanding: 3, ..record() };
        // ceil(10,000 / 300) = 34 blocks a message.
        assert_eq!(sending(&record(), &small).window, 34 * 3);
        assert_eq!(receiving(&small, &record(), false).window, 34 * 3);
        assert_eq!(sending(&record(), &small).block_bytes, 300);
        assert_eq!(sending(&Qos { largest_sent: 0, ..record() }, &small).window, 0, "nothing is ever sent");
    }

    //= A-10 test
    #[test]
    fn a_limit_of_the_peers_own_is_not_lifted_by_what_it_answers() {
        let slow = |average: u64| Qos { receive_average: average, receive_burst: 2000, ..record() };
        let own = |average: u64| Qos { send_average: average, send_burst: 2000, ..record() };
        let rate = |own: &Qos, peer: &Qos, reply: &Qos| lifted(own, peer, reply).receive_average;
        // OPEN had no rate, or a higher one: what ACCEPT says is the peer's.
        assert_eq!(rate(&own(0), &slow(100_000), &own(0)), 100_000);
        assert_eq!(rate(&own(1_000_000), &slow(100_000), &own(1_000_000)), 100_000);
        // It was ours: what the peer takes now counts.
        assert_eq!(rate(&own(100_000), &slow(100_000), &own(1_000_000)), 1_000_000);
        assert_eq!(rate(&own(100_000), &slow(100_000), &own(0)), 0);
    }

    //= A-11 test
    #[test]
    fn nothing_longer_is_sent_than_the_peer_takes_now() {
        let lowered = Qos { largest_received: 500, ..record() };
        assert_eq!(
            (sending(&record(), &record()).max_message, sending(&record(), &lowered).max_message),
            (10_000, 500)
        );
    }

    //= A-13 test
    #[test]
    fn the_acceptor_lowers_rates_and_window_and_refuses_what_is_too_different() {
        let max = Qos { send_average: 500, send_burst: 9, receive_average: 700, receive_burst: 8, ..record() };
        let open = Qos { receive_average: 300, receive_burst: 20, outstanding: 2, block_size: 600, ..record() };
        let accepted_record = accepted(&open, &max).expect("it fits");
        assert_eq!((accepted_record.send_average, accepted_record.send_burst), (300, 9));
        assert_eq!((accepted_record.receive_average, accepted_record.receive_burst), (700, 8));
        assert_eq!((accepted_record.outstanding, accepted_record.block_size), (2, 600));
        assert!(answers(&accepted_record, &open));
        for refused in [
            Qos { has_checksum: true, ..record() },
            Qos { has_retransmission: false, ..record() },
            Qos { largest_sent: 10_001, ..record() },
            Qos { largest_received: 9_999, ..record() },
            Qos { block_size: 0, ..record() },
            Qos { block_size: MAX_BLOCK_BYTES + 1, ..record() },
        ] {
            assert_eq!(accepted(&refused, &max), None, "{refused:?}");
        }
    }

    #[test]
    fn records_of_zeros_and_of_maxima_harm_nobody() {
        let most = Qos {
            has_retransmission: true,
            priority: 255,
            block_size: MAX_BLOCK_BYTES,
            send_average: u64::MAX,
            send_burst: u32::MAX,
            receive_average: u64::MAX,
            receive_burst: u32::MAX,
            largest_sent: u32::MAX,
            largest_received: u32::MAX,
            outstanding: u32::MAX,
            deadline: u32::MAX,
            ..Qos::default()
        };
        assert_eq!(check(&most), Err(Refused::Impossible), "the window would be 2^48 blocks");
        assert_eq!(check(&Qos::default()), Err(Refused::Impossible));
        assert_eq!(accepted(&most, &record()), None);
        let none = Qos { largest_sent: 0, largest_received: u32::MAX, outstanding: 0, ..record() };
        let agreed = accepted(&none, &record()).expect("a peer that sends nothing");
        assert_eq!((sending(&agreed, &none).window, receiving(&agreed, &none, false).window), (0, 0));
    }

    //= A-12 test
    #[test]
    fn a_record_within_the_maximum_exceeds_it_in_nothing() {
        let max = Qos { send_average: 1000, send_burst: 50, priority: 4, ..record() };
        let within = Qos { send_average: 1, send_burst: 50, ..max };
        assert!(is_within(&within, &max) && is_within(&max, &max));
        for beyond in [
            Qos { send_average: 0, ..within },
            Qos { send_average: 1001, ..within },
            Qos { send_burst: 51, ..within },
            Qos { priority: 3, ..within },
            Qos { outstanding: 5, ..within },
            Qos { largest_sent: 10_001, ..within },
            Qos { has_checksum: true, ..within },
        ] {
            assert!(!is_within(&beyond, &max), "{beyond:?}");
        }
    }
}

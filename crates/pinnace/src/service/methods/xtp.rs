//! XTP: a stream that is reliable, or one that repeats nothing (specs/xtp.md).
//!
//! Its other services are for those who use it directly: why a connection has none of them is said where it is
//! ([`carrier`](crate::carrier)), and to users in what is answered here.

use super::*;
use crate::xtp::Service as Kind;

/// The longest message that is collected.
const LONGEST: f64 = 1_073_741_824.0;
/// A FIRST with the addresses of IPv6, and a byte.
const LEAST: usize = 120;
/// The rate and the burst of a traffic specifier have 32 bits, in bytes.
const TRAFFIC: u64 = u32::MAX as u64;

pub(super) fn probe(service: &Service, path: &Path) -> Offer {
    let engine = cost::XTP;
    let mut verdict = Verdict::new(service, path);
    // What a packet has beside: address, traffic specifier, tag.
    let packet = (path.datagram as f64 - engine.header - 48.0).max(1.0);
    let is_one_packet = service.largest_bytes() as f64 <= packet;
    let kind = kind(service, path);
    let payload = match service.burst {
        Some(burst) => packet.min(burst.max(1) as f64),
        None => packet,
    };
    if service.pattern != Pattern::Stream {
        largest(&mut verdict, service, LONGEST, "what a receiver collects");
    }
    match service.kept_rate() {
        Some((rate, _)) => verdict.must(rate / 8 <= TRAFFIC, || {
            format!("keeps rates of at most {}, not of {}", offer::rate(TRAFFIC as f64 * 8.0), offer::rate(rate as f64))
        }),
        None => verdict.must(service.burst.is_none(), || "keeps a burst only with a rate".to_owned()),
    }
    no_lifespan(&mut verdict, service);
    datagrams(&mut verdict, path, LEAST);
    verdict.must(!service.in_place, || {
        "copies messages out of its ring: its bulk data, which go in place, end where a buffer is full, not where a message does"
            .to_owned()
    });
    verdict.must(service.receivers == Receivers::One, || {
        "its sender does not know who receives: its groups are for programs that use XTP itself; use a1".to_owned()
    });
    let receivers = f64::from(service.receiver_count());
    let mut shipment = Shipment { orders_by_priority: true, ..reliable(service, path, &engine, payload, receivers) };
    if kind == Kind::IsoStream {
        shipment.rounds = 0.0;
        verdict.note("repeats nothing, keeps where messages begin and end, and tells what is missing");
    } else {
        more_reliable(&mut verdict, service);
        verdict.note("data go with the first packet, without a handshake");
    }
    if kind == Kind::IsoStream && is_one_packet && service.pattern == Pattern::Messages {
        verdict.note("a packet a message, and no datagrams: those have larger headers, and nothing slows them down on a full path");
    }
    if service.pattern == Pattern::Transaction {
        verdict.note(
            "request and response on a connection that is open: its transactions would set up and close for each",
        );
    }
    if service.kept_rate().is_some() {
        verdict.note("keeps the rate and the burst");
    }
    verdict.offer(Method::Xtp, Mode::Xtp(kind), &engine, &shipment)
}

/// Which of its services it would be.
fn kind(service: &Service, path: &Path) -> Kind {
    let is_best_effort = service.reliability == Reliability::BestEffort;
    if is_best_effort && may_be_blind(service, path) { Kind::IsoStream } else { Kind::Connection }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::{Selection, choose};

    #[test]
    fn it_is_what_transactions_and_streams_take() {
        for (text, class, kind) in [
            ("pattern=transaction size=100", PathClass::Internet, Kind::Connection),
            ("pattern=stream size=16KiB direction=duplex", PathClass::Internet, Kind::Connection),
            ("loss=any size=200 order=no rate=1mbit", PathClass::Internet, Kind::IsoStream),
            ("loss=any size=200 largest=1KiB rate=8mbit", PathClass::Internet, Kind::IsoStream),
            ("loss=any size=64KiB priority=0 rate=1mbit", PathClass::Internet, Kind::IsoStream),
            ("loss=any size=64KiB pattern=stream", PathClass::Internet, Kind::Connection),
            ("size=1KiB rate=10mbit burst=4KiB", PathClass::Internet, Kind::Connection),
        ] {
            let choice = choose(&text.parse().unwrap(), &Path::of_class(class), &Selection::default()).unwrap();
            assert_eq!((choice.offer.method, choice.offer.mode), (Method::Xtp, Mode::Xtp(kind)), "{text}");
        }
        let internet = Path::of_class(PathClass::Internet);
        for text in ["multicast=8", "size=2GiB", "rate=40gbit burst=1MiB size=1GiB", "lifespan=1s"] {
            let offer = Method::Xtp.probe(&text.parse().unwrap(), &internet);
            assert!(!offer.fits, "{text}: {offer:?}");
        }
        let small = Method::Xtp.probe(&"loss=any size=200 rate=1mbit".parse().unwrap(), &internet);
        assert!(small.why.iter().any(|why| why.contains("no datagrams")), "{small:?}");
        let transaction = Method::Xtp.probe(&"pattern=transaction".parse().unwrap(), &internet);
        assert!(transaction.why.iter().any(|why| why.contains("its transactions would")), "{transaction:?}");
        let in_place = Method::Xtp.probe(&"pattern=stream in-place=yes".parse().unwrap(), &internet);
        assert!(!in_place.fits && in_place.why[0].contains("bulk data"), "{in_place:?}");
        for text in ["loss=any size=1KiB multicast=239.1.2.3:7000", "size=64KiB multicast=8"] {
            let offer = Method::Xtp.probe(&text.parse().unwrap(), &Path::of_class(PathClass::Cluster));
            assert!(!offer.fits && offer.why[0].contains("does not know who receives"), "{text}: {offer:?}");
        }
    }
}

//! ZCRP: reliable messages into buffers that the receiver has named (specs/zcrp.md).

use super::*;
use crate::carrier::{MOST_IN_PLACE, MOST_PIECE};

/// A trailer, and a byte.
const LEAST: usize = 29;

pub(super) fn probe(service: &Service, path: &Path) -> Offer {
    let engine = cost::ZCRP;
    let mut verdict = Verdict::new(service, path);
    verdict.must(service.pattern != Pattern::Stream, || "carries messages, not a stream of bytes".to_owned());
    only_one(&mut verdict, service);
    no_lifespan(&mut verdict, service);
    largest(&mut verdict, service, f64::from(u32::MAX), "their length has 32 bits");
    datagrams(&mut verdict, path, LEAST);
    let burst = service.burst.unwrap_or(0);
    verdict.must(service.burst.is_none(), || format!("has no rate to keep: nothing holds it to {burst} bytes at once"));
    let in_place = service.largest_bytes() <= if service.in_place { MOST_IN_PLACE } else { MOST_PIECE - 1 };
    verdict.must(in_place || !service.in_place, || {
        let most = units::of_bytes(MOST_IN_PLACE);
        format!("copies messages of more than {most} together from pieces")
    });
    let shipment = shipment(service, path, &engine);
    let packets = cost::packets(service.typical_bytes() as f64, shipment.payload);
    let read = if in_place { "read into place" } else { "in pieces of 8 MiB at most, which are copied together" };
    verdict.note(format!("{}, {read}", count_of(packets, "packet")));
    more_reliable(&mut verdict, service);
    if service.direction == Direction::Duplex || service.pattern == Pattern::Transaction {
        verdict.note("two ways are two instances on one channel");
    }
    verdict.offer(Method::Zcrp, Mode::Messages, &engine, &shipment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::{Selection, choose};

    #[test]
    fn it_is_what_large_reliable_messages_take() {
        let nothing = Selection::default();
        for (text, class) in [
            ("size=16MiB in-place=yes", PathClass::Cluster),
            ("size=64MiB largest=1GiB", PathClass::Internet),
            ("size=1MiB direction=duplex prefer=throughput", PathClass::Cluster),
            ("loss=5% run=4KiB size=2MB", PathClass::Cluster),
        ] {
            let choice = choose(&text.parse().unwrap(), &Path::of_class(class), &nothing).unwrap();
            assert_eq!((choice.offer.method, choice.offer.mode), (Method::Zcrp, Mode::Messages), "{text}");
        }
        let path = Path::of_class(PathClass::Cluster);
        let said = |text: &str| Method::Zcrp.probe(&text.parse().unwrap(), &path).why.join("; ");
        assert!(said("size=100").contains("1 packet, read"), "{}", said("size=100"));
        for text in ["size=5GiB", "lifespan=1s", "rate=1mbit burst=1MiB", "multicast=2", "pattern=stream"] {
            let offer = Method::Zcrp.probe(&text.parse().unwrap(), &path);
            assert!(!offer.fits && offer.why.len() == 1, "{text}: {offer:?}");
        }
    }
}

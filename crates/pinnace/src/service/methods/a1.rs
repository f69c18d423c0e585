//! A1: rates, bursts, priorities, deadlines of what is not repeated, and multicast (specs/a1.md).

use super::*;

/// The largest block (specs/a1.md, 1.1).
const BLOCK: f64 = 65_475.0;
/// Blocks of a message at most.
const BLOCKS: f64 = 65_535.0;
/// An OPEN with a cookie and a group.
const LEAST: usize = 184;
/// Receivers of a source: connections of a socket.
const RECEIVERS: u32 = 65_536;
/// Blocks between two acknowledgements.
const ACKNOWLEDGED: f64 = 16.0;

pub(super) fn probe(service: &Service, path: &Path) -> Offer {
    let engine = cost::A1;
    let mut verdict = Verdict::new(service, path);
    let block = (path.datagram as f64 - engine.header).clamp(1.0, BLOCK);
    let payload = match service.burst {
        Some(burst) => block.min(burst.max(1) as f64),
        None => block,
    };
    if service.pattern != Pattern::Stream {
        largest(&mut verdict, service, (payload * BLOCKS).min(f64::from(u32::MAX)), "65,535 blocks");
    }
    datagrams(&mut verdict, path, LEAST);
    let is_reliable = service.reliability != Reliability::BestEffort;
    if is_reliable {
        let lifespan = service.lifespan.map(offer::span).unwrap_or_default();
        verdict.must(service.lifespan.is_none(), || {
            format!("drops only what it would not repeat, and this is reliable; not after {lifespan}")
        });
    }
    verdict.must(service.burst.is_none() || service.rate.is_some(), || "keeps a burst only with a rate".to_owned());
    verdict.must(service.burst.unwrap_or(0) <= u64::from(u32::MAX), || "its bursts have 32 bits".to_owned());
    let group = receivers(&mut verdict, service, path);
    let receivers = f64::from(service.receiver_count());
    let packets = cost::packets(service.typical_bytes() as f64, payload);
    let shipment = Shipment {
        copies: if group { 1.0 } else { receivers },
        answers: receivers * (packets / ACKNOWLEDGED).ceil(),
        orders_by_priority: true,
        ..reliable(service, path, &engine, payload, receivers)
    };
    let shipment = if is_reliable { shipment } else { Shipment { rounds: 0.0, ..shipment } };
    verdict.note(format!("{} of at most {payload:.0} bytes", count_of(packets, "block")));
    if is_reliable {
        more_reliable(&mut verdict, service);
    } else {
        verdict.must(may_be_blind(service, path), || {
            "raw, it never learns what a path drops: without a rate it floods one that is shared with others".to_owned()
        });
        verdict.note("raw: in order, with marks where something is missing");
    }
    if service.kept_rate().is_some() {
        verdict.note("keeps the average rate to 1 %, and the burst");
    }
    if group {
        verdict.note("one block reaches all of the group, repairs go one by one");
    }
    verdict.offer(Method::A1, Mode::Blocks { reliable: is_reliable, group }, &engine, &shipment)
}

/// What it asks of several receivers. Whether a group carries the data.
fn receivers(verdict: &mut Verdict<'_>, service: &Service, path: &Path) -> bool {
    if service.receivers == Receivers::One {
        return false;
    }
    verdict.must(service.pattern != Pattern::Transaction, || "a transaction has one peer".to_owned());
    verdict.must(service.direction == Direction::OneWay, || "a multicast goes one way".to_owned());
    let count = service.receiver_count();
    verdict.must(count <= RECEIVERS, || format!("has at most {RECEIVERS} receivers, not {count}"));
    let Receivers::Group(address) = service.receivers else { return false };
    verdict.must(address.ip().is_multicast() && address.port() != 0, || {
        format!("a group is a multicast address with a port, and {address} is none")
    });
    let is_reached = path.multicast && address.is_ipv4();
    if !is_reached {
        let why = if path.multicast { "its groups are those of IPv4" } else { "multicast does not reach all of them" };
        verdict.note(format!("without the group: {why}"));
    }
    is_reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::{Selection, choose};

    #[test]
    fn it_is_what_many_receivers_and_dated_blocks_take() {
        for (text, class, reliable, group) in [
            ("size=64KiB multicast=4", PathClass::Internet, true, false),
            ("loss=any size=1KiB multicast=239.1.2.3:7 lifespan=20ms", PathClass::Cluster, false, true),
            ("size=1MiB multicast=4", PathClass::Cluster, true, false),
            ("size=1MiB multicast=239.1.2.3:7", PathClass::Internet, true, false),
            ("size=1MiB multicast=[ff15::7]:7", PathClass::Cluster, true, false),
            ("loss=any rate=10mbit burst=8KiB lifespan=50ms priority=1 size=4KiB", PathClass::Internet, false, false),
            ("multicast=3 loss=5% run=4KiB", PathClass::Internet, true, false),
        ] {
            let choice = choose(&text.parse().unwrap(), &Path::of_class(class), &Selection::default()).unwrap();
            let expected = (Method::A1, Mode::Blocks { reliable, group });
            assert_eq!((choice.offer.method, choice.offer.mode), expected, "{text}");
        }
        let path = Path::of_class(PathClass::Internet);
        for text in [
            "size=100MB",
            "lifespan=1s",
            "multicast=239.1.2.3:0",
            "multicast=65537",
            "multicast=2 direction=duplex",
            "multicast=2 pattern=transaction",
            "rate=1mbit burst=8GiB",
        ] {
            let offer = Method::A1.probe(&text.parse().unwrap(), &path);
            assert!(!offer.fits && offer.why.len() == 1, "{text}: {offer:?}");
        }
    }
}

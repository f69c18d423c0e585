//! QMP: streams of bytes for clusters, without a checksum of its own (specs/qmp.md).

use super::*;

/// Beside the length of a message, which goes before it in the stream.
const FRAMING: u32 = 8;
/// A FIRST with the addresses of IPv6, and a byte.
const LEAST: usize = 120;
/// What an Ethernet frame carries of QMP's packet.
const ETHERNET: usize = 1500;

pub(super) fn probe(service: &Service, path: &Path) -> Offer {
    let engine = cost::QMP;
    let mut verdict = Verdict::new(service, path);
    verdict.must(path.class != PathClass::Internet, || {
        "is made for clusters: it takes reordering for loss, and has no checksum of its own".to_owned()
    });
    only_one(&mut verdict, service);
    no_lifespan(&mut verdict, service);
    verdict.must(service.burst.is_none(), || "has no rate to keep, so no burst either".to_owned());
    let is_stream = service.pattern == Pattern::Stream;
    verdict.must(!service.in_place, || {
        "copies bytes out of its stream: only the native interface passes the buffers themselves".to_owned()
    });
    let wants_frames = path.ethernet && path.class == PathClass::Cluster;
    let ethernet = wants_frames && service.checksum == Checksum::None;
    let shipment = if ethernet {
        let payload = ETHERNET as f64 - engine.header;
        verdict.note("Ethernet frames: 28 bytes fewer of headers in each");
        Shipment { below: 0.0, ..reliable(service, path, &engine, payload, 1.0) }
    } else {
        if wants_frames {
            verdict.note("UDP, because a checksum is wanted; Ethernet has only the link's");
        }
        shipment(service, path, &engine)
    };
    datagrams(&mut verdict, path, LEAST);
    verdict.note(if is_stream {
        "a stream of bytes each way".to_owned()
    } else {
        format!("a stream: each message has its length before it, {FRAMING} bytes")
    });
    more_reliable(&mut verdict, service);
    verdict.offer(Method::Qmp, Mode::Stream { ethernet }, &engine, &shipment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::{Selection, choose};

    #[test]
    fn it_is_what_streams_take_in_a_cluster_whose_link_it_may_use() {
        let path = Path { ethernet: true, rate: Some(100_000_000), ..Path::of_class(PathClass::Cluster) };
        let service = "pattern=stream size=1MiB checksum=none direction=duplex".parse().unwrap();
        let choice = choose(&service, &path, &Selection::default()).unwrap();
        assert_eq!((choice.offer.method, choice.offer.mode), (Method::Qmp, Mode::Stream { ethernet: true }));
        let over_udp = Method::Qmp.probe(&"pattern=stream".parse().unwrap(), &path);
        assert_eq!((over_udp.fits, over_udp.mode), (true, Mode::Stream { ethernet: false }));
        let internet = Path::of_class(PathClass::Internet);
        assert!(Method::Qmp.probe(&service, &internet).why[0].contains("clusters"));
        for text in
            ["lifespan=1s", "multicast=2", "rate=1mbit burst=1MiB", "in-place=yes", "pattern=stream in-place=yes"]
        {
            let offer = Method::Qmp.probe(&text.parse().unwrap(), &path);
            assert!(!offer.fits && offer.why.len() == 1, "{text}: {offer:?}");
        }
    }
}

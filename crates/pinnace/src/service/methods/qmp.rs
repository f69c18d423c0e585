//! QMP: streams of bytes for clusters, without a checksum of its own (specs/qmp.md).

use super::*;

/// Beside the length of a message, which goes before it in the stream.
const FRAMING: u32 = 8;
/// A FIRST with the addresses of IPv6, and a byte.
const LEAST: usize = 120;

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
    if path.ethernet && path.class == PathClass::Cluster {
        verdict.note("UDP: Ethernet frames are sent by the native interface");
    }
    datagrams(&mut verdict, path, LEAST);
    verdict.note(if is_stream {
        "a stream of bytes each way".to_owned()
    } else {
        format!("a stream: each message has its length before it, {FRAMING} bytes")
    });
    more_reliable(&mut verdict, service);
    let shipment = shipment(service, path, &engine);
    verdict.offer(Method::Qmp, Mode::Stream, &engine, &shipment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::{Selection, choose};

    #[test]
    fn it_carries_the_streams_of_a_cluster_over_udp() {
        let path = Path { ethernet: true, rate: Some(100_000_000), ..Path::of_class(PathClass::Cluster) };
        let service = "pattern=stream size=1MiB checksum=none direction=duplex".parse().unwrap();
        let alone = Selection { forced: Some(Method::Qmp), ..Selection::default() };
        let choice = choose(&service, &path, &alone).unwrap();
        assert_eq!((choice.offer.method, choice.offer.mode), (Method::Qmp, Mode::Stream));
        assert!(
            choice.offer.why.iter().any(|why| why.contains("UDP")),
            "what explain says is what happens: {choice:?}"
        );
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

//! Shared memory: QMP's streams over the channels of a daemon's pool (specs/qbuf.md).

use super::*;

pub(super) fn probe(service: &Service, path: &Path) -> Offer {
    let mut verdict = Verdict::new(service, path);
    let is_here = path.class == PathClass::Host;
    verdict.must(is_here, || format!("the peer is not on this host (path={})", path.class));
    verdict.must(!is_here || path.shared_memory, || "no daemon joins the two processes (`pinnace daemon`)".to_owned());
    only_one(&mut verdict, service);
    verdict.must(!service.in_place, || {
        "copies messages into the channel and out of it: only the native interface passes the buffers themselves"
            .to_owned()
    });
    verdict.note("one copy in, one copy out, no packet");
    if service.checksum == Checksum::Internet {
        verdict.note("needs no checksum: nothing leaves memory");
    }
    let shipment = Shipment {
        payload: f64::MAX,
        below: 0.0,
        waits: 0.0,
        rounds: 0.0,
        round_us: 0.0,
        copies: 1.0,
        answers: 0.0,
        orders_by_priority: false,
    };
    // The network's numbers are not those of memory.
    let memory = Path { round_trip: std::time::Duration::ZERO, rate: None, loss: 0.0, ..path.clone() };
    verdict.on(&memory).offer(Method::SharedMemory, Mode::Channel, &cost::SHARED_MEMORY, &shipment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::{Selection, choose};

    #[test]
    fn it_is_what_processes_of_one_host_take() {
        let here = Path { shared_memory: true, ..Path::of_class(PathClass::Host) };
        for text in ["", "size=64MB", "loss=5% run=4KiB", "pattern=stream direction=duplex", "loss=any"] {
            let service = text.parse().unwrap();
            let choice = choose(&service, &here, &Selection::default()).unwrap();
            assert_eq!(choice.offer.method, Method::SharedMemory, "{text}");
        }
        let in_place = "size=64MB in-place=yes".parse().unwrap();
        assert!(Method::SharedMemory.probe(&in_place, &here).why[0].contains("copies"));
        assert_eq!(choose(&in_place, &here, &Selection::default()).unwrap().offer.method, Method::Zcrp);
        let no_daemon = Method::SharedMemory.probe(&Service::new(), &Path::of_class(PathClass::Host));
        assert!(!no_daemon.fits && no_daemon.why[0].contains("daemon"), "{no_daemon:?}");
        let declared = Method::SharedMemory.probe(&Service::new().path(PathClass::Cluster), &here);
        assert_eq!(declared.why, ["the peer is not on this host (path=cluster)"]);
        assert!(!Method::SharedMemory.probe(&"multicast=3".parse().unwrap(), &here).fits);
    }
}

//! Keys: only FIRST carries addresses, and who looks up how.

use crate::half::Packet;
use crate::scene::*;
use pinnace_core::Address;
use pinnace_qmp::socket;
use pinnace_qmp::{Profile, State};
use pinnace_wire::xtp::Kind;
use pinnace_xtp::{Event, HostPair};

//= Q-5 test
#[test]
fn a_first_says_who_is_asked_and_nothing_else_does() {
    for to in ["192.0.2.1:7", "[2001:db8::1]:7"] {
        let to: core::net::SocketAddr = to.parse().expect("an address");
        let (mut scene, first) = Scene::connecting_with(pinnace_qmp::Medium::Internet, Profile::default().block_to(to));
        let address = first.address.expect("a FIRST has one");
        let hosts = match to.ip() {
            core::net::IpAddr::V4(destination) => HostPair::V4 { destination, source: [0; 4].into() },
            core::net::IpAddr::V6(destination) => HostPair::V6 { destination, source: [0; 16].into() },
        };
        assert_eq!((address.hosts, address.destination_port), (hosts, PORT));
        // That nothing else carries any is checked with every packet.
        scene.write(5000);
        let status = scene.status(SREQ, 1000, 100_000, first.sync);
        scene.feed(&status);
        scene.shut_write();
        assert!(scene.wait(1000).iter().all(|got| got.kind != Kind::First));
    }
}

//= Q-5 test
#[test]
fn no_two_contexts_of_a_host_have_the_same_key() {
    let mut scene = Scene::listening(&Profile::default());
    let mut keys = std::collections::BTreeSet::new();
    for key in 1..=500 {
        let first = Packet { key, ..scene.first(SREQ, 0) };
        let answer = only(scene.feed(&first));
        assert!(keys.insert(answer.xkey), "accepted");
        let block = block_to(&Profile::default());
        let context = scene.half.call(|engine, now| socket::connect(engine, now, PEER, block)).expect("room");
        assert!(keys.insert(only(scene.take()).key), "opened");
        // A slot that is used again makes another key.
        if key % 2 == 0 {
            scene.half.call(|engine, now| {
                socket::close(engine, now, context, socket::Linger::Zero).expect("open");
            });
            scene.take();
        }
    }
    assert!(!keys.contains(&0));
}

//= Q-6 test
#[test]
fn the_listener_notes_the_key_of_first_and_returns_it_with_rtn() {
    let mut scene = Scene::listening(&Profile::default());
    for key in [1, 0x1234_5678_9abc_def0, u64::MAX >> 1] {
        let first = Packet { key, ..scene.first(SREQ, 10) };
        let answer = only(scene.feed(&first));
        assert_eq!((answer.rtn, answer.key), (true, key));
        assert_eq!(answer.kind, Kind::Tcntl, "with its own");
        // In everything that it sends.
        let gap = Packet { key, rtn: false, ..scene.data(SREQ, 20, 10).sync(1001) };
        let answer = only(scene.feed(&gap));
        assert_eq!((answer.kind, answer.rtn, answer.key), (Kind::Ecntl, true, key));
        scene.learn();
        for got in scene.write(3000) {
            assert_eq!((got.kind, got.rtn, got.key), (Kind::Data, true, key));
        }
        scene.its_key = 0;
    }
}

//= Q-6 test
#[test]
fn rtn_clear_is_looked_up_in_full_and_rtn_set_directly() {
    let mut scene = Scene::listening(&Profile::default());
    scene.accept(SREQ, 0);
    let its = scene.its_key;
    let mut low = 0;
    let data = |scene: &mut Scene, source: Address, rtn: bool, key: u64, low: u64| {
        let packet = Packet { rtn, key, ..scene.data(SREQ, low, 10).sync(1001 + low as u32) };
        scene.half.feed(source, &packet.bytes());
        only(scene.take())
    };
    for (rtn, key) in [(false, KEY), (true, its), (false, KEY), (true, its)] {
        let answer = data(&mut scene, PEER, rtn, key, low);
        low += 10;
        assert_eq!((answer.rseq, answer.diag), (scene.n(low), None));
        // CNTL once our own key was used.
        assert_eq!(answer.kind, if low == 10 { Kind::Tcntl } else { Kind::Cntl });
    }
    // Full lookup: source address and the peer's key. Abbreviated: index and instance, and the source, too.
    for (source, rtn, key, why) in [
        (Address::Node(3), false, KEY, "another host's key of the same value"),
        (PEER, false, KEY ^ 1, "a key that no FIRST had"),
        (PEER, false, its, "ours is not the peer's"),
        (PEER, true, its ^ (1 << 40), "another instance"),
        (PEER, true, its ^ 1, "an index that is not in use"),
        (PEER, true, KEY, "the peer's is not ours"),
        (Address::Node(3), true, its, "from elsewhere"),
    ] {
        let answer = data(&mut scene, source, rtn, key, low);
        assert_eq!((answer.diag, answer.rtn, answer.key), (Some((3, 0)), !rtn, key), "{why}");
    }
    assert_eq!(scene.readable(), low, "none of that has reached the context");
    assert_eq!(scene.state(), State::Active);
}

//= Q-6 test
#[test]
fn who_connects_uses_the_return_key_from_then_on() {
    let (mut scene, first) = Scene::connecting(&Profile::default());
    assert!(scene.write(100).iter().all(|got| !got.rtn && got.key == scene.its_key));
    let status = scene.status(NONE, 100, 1_000_000, first.sync.wrapping_add(1));
    scene.feed(&status);
    assert!(scene.write(100).iter().all(|got| got.rtn && got.key == XKEY));
    assert!(scene.shut_write().iter().all(|got| got.rtn && got.key == XKEY));
}

#[test]
fn a_first_with_rtn_begins_nothing() {
    // It repeats the FIRST of an association that is known by our key; here there is none.
    let mut scene = Scene::listening(&Profile::default());
    let first = Packet { rtn: true, ..scene.first(SREQ, 10) };
    let answers = scene.feed(&first);
    assert_eq!(
        answers.iter().map(|got| (got.diag, got.rtn, got.key)).collect::<Vec<_>>(),
        [(Some((3, 0)), false, first.key)]
    );
    assert!(!scene.half.events.iter().any(|event| matches!(event, Event::Accepted { .. })));
}

//! What a report of a small path changes, and for whom.

use crate::half::Half;
use crate::scene::*;
use core::time::Duration;
use pinnace_core::{Address, Engine, PathEvent};
use pinnace_xtp::{Config, ContextId, ControlBlock, Output, Service};

const OTHER: Address = Address::Node(10);
/// As much as a packet to anybody may have.
const MAXDATA: u32 = 1400;

/// A context whose FIRST has left, and which waits for no answer.
fn opened(half: &mut Half, to: Address) -> ContextId {
    let block = ControlBlock { maxdata: MAXDATA, ..block(Service::IsoStream) };
    let context = half.call(|engine, now| engine.open(now, to, block)).expect("room");
    largest(half, context, to);
    context
}

/// The largest datagram of a message that leaves for somebody now.
fn largest(half: &mut Half, context: ContextId, to: Address) -> usize {
    let buffer = half.memory.add(bytes(0, 20_000));
    half.call(|engine, now| engine.send(now, context, Output::message(buffer, 20_000))).expect("taken");
    let sent = half.take_sent();
    sent.iter().filter(|sent| sent.to == to).map(|sent| sent.bytes.len()).max().expect("something leaves")
}

fn tell(half: &mut Half, to: Address, fits: Option<u32>) {
    half.call(|engine, now| engine.handle_path_event(now, PathEvent::TooLarge { to, fits }));
}

#[test]
fn a_small_path_is_one_peers_alone_and_not_for_ever() {
    for codec in CODECS {
        let mut half = Half::new(Config { datagram_bytes: 1472, ..config(codec) });
        let [near, far] = [PEER, OTHER].map(|to| opened(&mut half, to));
        let usual = [largest(&mut half, near, PEER), largest(&mut half, far, OTHER)];
        assert!(usual.iter().all(|bytes| *bytes > 1400), "{usual:?}");
        for (fits, carried) in [(Some(1000), 1000), (Some(0), 548), (None, 548)] {
            tell(&mut half, OTHER, fits);
            let now = [largest(&mut half, near, PEER), largest(&mut half, far, OTHER)];
            assert_eq!(now[0], usual[0], "{codec:?}: this path has said nothing");
            assert!(now[1] <= carried && now[1] > carried - 24, "{codec:?} {carried}: {now:?}");
        }
        half.advance(Duration::from_secs(599));
        let late = opened(&mut half, OTHER);
        assert!(largest(&mut half, late, OTHER) <= 548, "{codec:?}: a new context does not find it out again");
        half.advance(Duration::from_secs(2));
        assert_eq!(largest(&mut half, late, OTHER), usual[1], "{codec:?}: it is tried again");
    }
}

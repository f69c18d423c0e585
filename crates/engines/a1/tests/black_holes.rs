//! Paths that lose all datagrams above a size in silence: the size of blocks cannot change, so whoever opened the connection
//! has to hear of it, and soon.
mod support;

use core::time::Duration;
use pinnace_a1::{Failure, Qos};
use support::*;

fn blocks_of(bytes: u32) -> Qos {
    Qos { block_size: bytes, ..reliable() }
}

fn sent_over(network: &str, seed: u64, block: u32, size: usize) -> World {
    let client = Program::opening(blocks_of(block), vec![pattern(size, 1)], Some(Duration::from_secs(60)));
    let mut world = world(seed, blocks_of(65_475), network, Program::listening(vec![], None), client);
    quiet(&mut world);
    world
}

#[test]
fn blocks_that_never_arrive_are_told_of_soon() {
    for (mtu, block) in [(1_280, 1_440), (1_227, 1_168), (1_000, 1_168), (1_280, 8_000)] {
        let world = sent_over(&format!("delay=20ms,mtu={mtu},icmp=no"), 1, block, 300_000);
        let here = seen(&world, CLIENT);
        assert_eq!(here.closed, Some(Err(Failure::Swallowed)), "{mtu} {block}");
        let took = here.closed_at.expect("told").since(here.connected_at.expect("it was answered"));
        assert!(took < Duration::from_secs(3), "{mtu} {block}: {took:?}");
        let there = seen(&world, SERVER);
        assert_eq!(there.closed, Some(Err(Failure::AbortedByPeer)), "nobody waits there for what will not come");
        assert!(there.messages.is_empty());
    }
    for (mtu, block) in [(1_280, 1_168), (1_000, 516), (576, 516)] {
        let world = sent_over(&format!("delay=20ms,mtu={mtu},icmp=no"), 1, block, 300_000);
        assert_eq!(seen(&world, SERVER).messages, [pattern(300_000, 1)], "{mtu} {block}");
    }
}

#[test]
fn a_path_that_has_carried_blocks_is_given_time() {
    let world = sent_over("delay=20ms,rate=10mbit,mtu-change=1280@300ms,icmp=no", 1, 1_440, 900_000);
    let here = seen(&world, CLIENT);
    assert_eq!(here.closed, Some(Err(Failure::Swallowed)));
    let at = here.closed_at.expect("told").as_nanos() / 1_000_000_000;
    assert!((14..18).contains(&at), "{at}: as long as a peer may be silent");
    // It comes back in time.
    let network = "delay=20ms,rate=10mbit,mtu-change=1280@300ms,mtu-change=1500@8s,icmp=no";
    assert_eq!(seen(&sent_over(network, 1, 1_440, 900_000), SERVER).messages, [pattern(900_000, 1)]);
}

#[test]
fn chance_is_not_taken_for_such_a_path() {
    for (loss, seeds) in [("30%", 40), ("50%", 40)] {
        for seed in 0..seeds {
            let world = sent_over(&format!("delay=20ms,loss={loss}"), seed, 1_440, 20_000);
            let closed = seen(&world, CLIENT).closed.clone();
            assert_ne!(closed, Some(Err(Failure::Swallowed)), "{loss} {seed}");
        }
    }
}

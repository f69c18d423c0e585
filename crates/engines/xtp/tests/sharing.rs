//! Small packets of several contexts to one peer share a train.

mod direct;

use core::time::Duration;
use direct::Pair;
use pinnace_core::BufferId;
use pinnace_xtp::{ControlBlock, Options, Output, Service};

const CONTEXTS: usize = 40;

/// What 40 contexts with something to say each, of these sizes in turn, take: packets and trains, both ways.
fn said(flags: Options, sizes: &[u64]) -> (u64, u64) {
    let mut pair = Pair::with(CONTEXTS, flags);
    pair.open(CONTEXTS, Service::Connection);
    pair.wait(Duration::from_secs(2));
    let (packets, trains, bytes) = (pair.packets, pair.trains, pair.server.counters().bytes_received);
    let mut sent = 0;
    for (context, size) in pair.opened.clone().into_iter().zip(sizes.iter().cycle()) {
        let output = Output { asks: true, ..Output::message(BufferId::new(0), *size) };
        pair.client.send(pair.now, context, output).expect("room");
        sent += size;
    }
    pair.exchange();
    pair.wait(Duration::from_millis(100));
    assert_eq!(pair.server.counters().bytes_received - bytes, sent, "all of it, and once");
    assert_eq!(pair.client.counters().data_packets_resent, 0);
    (pair.packets - packets, pair.trains - trains)
}

#[test]
fn what_many_contexts_say_leaves_together() {
    let flags = ControlBlock::default().mode_flags | Options::NOCHECK;
    let (packets, trains) = said(flags, &[10]);
    assert!(packets >= 2 * CONTEXTS as u64, "data, and a status for each: {packets}");
    assert!(trains <= 6, "{packets} packets in {trains} trains");
}

#[test]
fn a_longer_packet_begins_a_train_and_a_shorter_one_ends_it() {
    let flags = ControlBlock::default().mode_flags | Options::NOCHECK;
    let (packets, trains) = said(flags, &[10, 30, 20, 20, 1, 60_000, 5]);
    assert!(packets > 2 * CONTEXTS as u64 && trains < packets, "{packets} packets in {trains} trains");
}

#[test]
fn packets_with_a_checksum_of_their_own_have_a_train_of_their_own() {
    let (packets, trains) = said(ControlBlock::default().mode_flags, &[10]);
    assert_eq!(packets, trains);
}

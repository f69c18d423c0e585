//! What only the two halves together show, and would take too long to reach from outside: four billion messages.

use crate::{Config, Event, Receiver, Sender, Zcrp};
use pinnace_core::{Address, BufferId, ControllerKind, Ecn, Engine, Placed, RxMeta, Slot, Time, Train, TrainLimits};

/// Everything that `from` has to send, one datagram a read.
fn exchange(from: &mut Zcrp, to: &mut Zcrp, lose: impl Fn(usize) -> bool) -> usize {
    let memory = [7; 4096];
    let mut datagrams = Vec::new();
    let mut train = Train::new(TrainLimits::GSO);
    loop {
        train.reset(TrainLimits::GSO);
        if !from.poll_transmit(Time::ZERO, &mut train) {
            break;
        }
        train.for_each_datagram(|range| &memory[..range.len as usize], |datagram| datagrams.push(datagram.to_vec()));
    }
    let meta = RxMeta { source: Address::Peer, destination: None, ecn: Ecn::NotCapable };
    for (index, datagram) in datagrams.iter().enumerate().filter(|(index, _)| !lose(*index)) {
        let _ = index;
        let (slots, pieces, mut moves) = ([Slot::Pooled(65_535)], [&datagram[..]], Vec::new());
        let mut rx = Placed::new(&slots, &pieces, datagram.len(), datagram.len(), &mut moves);
        to.handle_datagrams(Time::ZERO, &meta, &mut rx);
    }
    datagrams.len()
}

#[test]
fn message_numbers_wrap() {
    //= Z-4 test
    const FIRST: u64 = (1 << 32) - 20;
    let config = Config { congestion: ControllerKind::Fixed { window: u64::MAX }, ..Config::default() };
    let (mut sender, mut receiver) = (Sender::new(config.clone(), Time::ZERO), Receiver::new(config));
    sender.skip_to(FIRST);
    receiver.skip_to(FIRST);
    let (mut here, mut there) = (Zcrp::new(Some(sender), None), Zcrp::new(None, Some(receiver)));
    for number in FIRST..FIRST + 40 {
        let sent = here.sender_mut().unwrap().send(Time::ZERO, BufferId::new(0), 2000);
        let posted = there.receiver_mut().unwrap().post(Time::ZERO, BufferId::new(0), 2000);
        assert_eq!((sent, posted), (Ok(number), Ok(number)));
    }
    // A few units are lost, so that messages before and after the wrap end in disorder.
    while exchange(&mut there, &mut here, |_| false) + exchange(&mut here, &mut there, |index| index % 7 == 3) > 0 {}
    let mut ended = Vec::new();
    while let Some(event) = there.poll_event() {
        let Event::Received { number, result, .. } = event else { panic!("{event:?}") };
        assert_eq!(result, Ok(2000));
        ended.push(number);
    }
    let mut sent = Vec::new();
    while let Some(event) = here.poll_event() {
        let Event::Sent { number, result: Ok(()), .. } = event else { panic!("{event:?}") };
        sent.push(number);
    }
    ended.sort_unstable();
    sent.sort_unstable();
    assert!(ended.len() > 30 && ended.iter().any(|&number| number >= 1 << 32), "{ended:?}");
    assert!(sent.iter().all(|number| ended.contains(number)) && sent.len() > 30);
}

//! A group's packets: FIRST, DATA, statuses with MULTI, and the JCNTL of a newcomer and its answer. As the engine makes them, and
//! as they cross the loopback interface.

use crate::common::{Listening, pinnace, wait};
use crate::tshark::{Capture, Frame, Tshark};
use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use pinnace::link::{MulticastOptions, Sums, probe_multicast};
use pinnace_core::{
    Address, BufferId, BufferRange, Ecn, Engine, Placed, PollAt, RxMeta, Slot, Storage, Time, Train, TrainLimits,
};
use pinnace_xtp::{AddressSegment, Config, ControlBlock, HostPair, Output, Service, Services, Xtp};
use std::collections::BTreeSet;
use std::process::Stdio;

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
static DATA: [u8; 1000] = [7; 1000];

#[derive(Debug, Default)]
struct Nowhere(u32);

impl Storage for Nowhere {
    fn allocate(&mut self, _: u64, _: &[(u64, Vec<u8>)]) -> Option<BufferId> {
        self.0 += 1;
        Some(BufferId::new(self.0))
    }

    fn release(&mut self, _: BufferId) {}
}

fn address(last: u8) -> Address {
    Address::Inet(SocketAddr::from(([10, 0, 0, last], 7)))
}

/// Hands all that `from` sends to `to`, but what `loses` says, and notes it all.
fn carry(
    now: Time,
    (from, source): (&mut Xtp, Address),
    to: &mut Xtp,
    capture: &mut Capture,
    loses: impl Fn(&[u8]) -> bool,
) {
    let payload = |range: BufferRange| &DATA[..range.len as usize];
    let (mut train, mut sums, mut storage) = (Train::new(TrainLimits::SINGLE), Sums::default(), Nowhere::default());
    while from.poll_transmit(now, &mut train) {
        train.fill_checksum(payload, &mut sums);
        let mut datagrams = Vec::new();
        train.for_each_datagram(payload, |datagram| datagrams.push(datagram.to_vec()));
        for datagram in datagrams {
            capture.ip36(&datagram);
            if loses(&datagram) {
                continue;
            }
            let (slots, pieces, mut moves) = ([Slot::Pooled(datagram.len() as u32)], [&datagram[..]], Vec::new());
            let mut placed = Placed::new(&slots, &pieces, datagram.len(), 0, &mut moves).with_storage(&mut storage);
            let meta = RxMeta { source, destination: None, ecn: Ecn::NotCapable };
            to.handle_datagrams(now, &meta, &mut placed);
        }
        train.reset(TrainLimits::SINGLE);
    }
    while from.poll_event().is_some() {}
}

//= X-22 test
#[test]
fn a_newcomer_to_a_group_is_what_wireshark_knows() {
    let Some(tshark) = Tshark::find() else { return };
    let mut block = ControlBlock::new(Service::Multicast);
    block.address_segment = AddressSegment {
        hosts: HostPair::V4 { destination: GROUP, source: Ipv4Addr::new(10, 0, 0, 1) },
        destination_port: 7,
        source_port: 7,
    };
    let mut sender = Xtp::new(Config { seed: 1, ..Config::default() }, Time::ZERO);
    let mut member = Xtp::new(Config { seed: 2, ..Config::default() }, Time::ZERO);
    let group = Address::Inet(SocketAddr::from((GROUP, 7)));
    member.join(group, block.clone(), Services::NONE.with(Service::Multicast)).expect("the group is free");
    let context = sender.open_group(Time::ZERO, group, block).expect("room");
    let mut capture = Capture::new();
    let mut now = Time::ZERO;
    for message in 0..4 {
        sender.send(now, context, Output::message(BufferId::new(0), 1000)).expect("room");
        if message == 3 {
            sender.finish(now, context).expect("open");
        }
        // Time passes, from one date to the next; the first message, with the FIRST, is lost.
        for _ in 0..200 {
            carry(now, (&mut sender, address(1)), &mut member, &mut capture, |_| message == 0);
            carry(now, (&mut member, address(2)), &mut sender, &mut capture, |_| false);
            let next = sender.poll_at().min(member.poll_at());
            now = match next {
                PollAt::Time(at) if at.since(now) < Duration::from_millis(100) => at.max(now),
                PollAt::Now => now,
                _ => break,
            };
            sender.handle_timeout(now);
            member.handle_timeout(now);
        }
    }
    let frames = tshark.decode(&capture, &[]);
    assert_eq!(frames.len(), capture.len());
    check(&frames);
}

/// What all of a conversation with a newcomer has: no packet that is wrong, and DATA, FIRST, ECNTL and JCNTL.
fn check(frames: &[Frame]) {
    let mut kinds = BTreeSet::new();
    for frame in frames {
        assert!(frame.has("xtp") && !frame.is_malformed() && !frame.has_lua_error(), "{frame:#?}");
        assert_eq!(frame.number("xtp.checksum.status"), 1, "a wrong checksum");
        kinds.insert(frame.number("xtp.cmd.ptype.pformat"));
    }
    assert!([0, 2, 3, 7].iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
}

//= X-22 test
#[test]
fn a_captured_group_is_what_wireshark_knows() {
    let Some(tshark) = Tshark::find() else { return };
    let over_loopback = MulticastOptions { interface: Ipv4Addr::LOCALHOST, ..MulticastOptions::default() };
    if let Err(error) = probe_multicast(&over_loopback) {
        let why = format_args!("this machine has no multicast on its loopback interface ({error})");
        return pinnace_testing::skip::host(why);
    }
    let id = std::process::id();
    let group = format!("239.75.200.{}:{}", id % 251, 20_000 + id % 20_000);
    let files = ["sender", "first", "newcomer"].map(|name| tshark.path(&format!("{name}.pcap")));
    let [sent, first, newcomer] = files.each_ref().map(|file| file.to_str().expect("a path in UTF-8"));
    let common = |command, file| ["xtp", command, "--interface", "127.0.0.1", "--pcap", file];
    let listen = |file, count| Listening::start(&[&common("listen", file)[..], &["--count", count, &group]].concat());
    let mut stays = listen(first, "50");
    // For a second; whoever joins meanwhile has not heard the FIRST.
    let what = ["--to", &group, "--size", "20kB", "--count", "50", "--rate", "8mbit"];
    let arguments = [&common("send", sent)[..], &what].concat();
    let mut sender = pinnace(&arguments).stdout(Stdio::null()).spawn().expect("it runs");
    stays.next_bytes(1);
    assert_eq!(listen(newcomer, "1").finish().0, Some(0));
    assert_eq!((wait(&mut sender), stays.finish().0), (Some(0), Some(0)));
    let frames: Vec<Frame> = files.iter().flat_map(|file| tshark.decode_file(file, &[])).collect();
    check(&frames);
}

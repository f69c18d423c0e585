//! Links around links: faults, capture, meter.

mod support;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use pcap_file::pcap::PcapReader;
use pinnace_core::{Address, Ecn, ReceivePlan, Train, TrainLimits};
use pinnace_link::{
    BufferTable, Burst, Capture, CaptureOptions, Descriptors, Fault, FaultCounters, FaultOptions, Link, LinkCounters,
    MemoryLink, MemoryOptions, Meter, ReadBuffer, ReadOutcome, SendOutcome,
};
use std::io::{self, Write};
use std::net::SocketAddr;
use support::{Memory, TRAILER, collect, receive_bytes, send_bytes, train_of};

const DATAGRAMS: usize = 20_000;

fn roomy() -> MemoryOptions {
    MemoryOptions { receive_buffer: 1 << 30, coalescing: false, ..MemoryOptions::default() }
}

/// Sends numbered datagrams through faults; what arrives, and what was done.
fn run(options: FaultOptions) -> (Vec<Vec<u8>>, FaultCounters) {
    let (a, mut b) = MemoryLink::pair(&roomy()).unwrap();
    let mut fault = Fault::new(a, options);
    let mut train = Train::new(fault.train_limits());
    for first in (0..DATAGRAMS as u32).step_by(20) {
        train.begin(Address::Peer, 12);
        for number in first..first + 20 {
            train.inline(&number.to_be_bytes());
            train.zeros(8);
            train.end_segment();
        }
        assert_eq!(fault.send(&train, &BufferTable::new()).unwrap(), SendOutcome::Sent);
    }
    let mut seen = Vec::new();
    while b.counters().datagrams_received < fault.counters().datagrams_sent {
        seen.push(receive_bytes(&mut b).unwrap().0);
    }
    (seen, fault.faults())
}

fn number(datagram: &[u8]) -> u32 {
    u32::from_be_bytes(*datagram.first_chunk().unwrap())
}

fn lost(seen: &[Vec<u8>]) -> Vec<u32> {
    let mut there = vec![false; DATAGRAMS];
    for datagram in seen {
        there[number(datagram) as usize] = true;
    }
    (0..DATAGRAMS as u32).filter(|n| !there[*n as usize]).collect()
}

#[test]
fn without_faults_everything_passes_in_order() {
    let (seen, faults) = run(FaultOptions::default());
    assert!(seen.iter().enumerate().all(|(n, datagram)| number(datagram) == n as u32));
    assert_eq!(faults, FaultCounters { datagrams_passed: DATAGRAMS as u64, ..FaultCounters::default() });
}

#[test]
fn losses_come_at_their_rate_and_by_the_seed() {
    let options = FaultOptions { loss: 0.1, seed: 5, ..FaultOptions::default() };
    let (seen, faults) = run(options.clone());
    let lost = lost(&seen);
    assert_eq!(lost.len() as u64, faults.datagrams_lost);
    assert!((1_800..2_200).contains(&lost.len()), "{}", lost.len());
    assert_eq!(run(options.clone()).0, seen, "the same seed, the same losses");
    assert_ne!(run(FaultOptions { seed: 6, ..options }).0, seen);
}

#[test]
fn bursts_have_their_length() {
    let burst = Burst { begin: 0.01, end: 0.1, loss: 1.0 };
    let (seen, _) = run(FaultOptions { burst: Some(burst), ..FaultOptions::default() });
    let lost = lost(&seen);
    let bursts = 1 + lost.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
    let mean = lost.len() as f64 / bursts as f64;
    assert!((8.0..12.0).contains(&mean), "bursts of {mean}");
    let share = lost.len() as f64 / DATAGRAMS as f64;
    assert!((0.06..0.12).contains(&share), "a share of {share}, 1/11 expected");
}

#[test]
fn whole_trains_are_lost() {
    let (seen, faults) = run(FaultOptions { train_loss: 0.2, ..FaultOptions::default() });
    let lost = lost(&seen);
    assert!((150..250).contains(&faults.trains_lost), "of 1000: {}", faults.trains_lost);
    assert_eq!(lost.len() as u64, faults.trains_lost * 20);
    assert!(lost.chunks(20).all(|train| train[0] % 20 == 0 && train[19] == train[0] + 19));
}

#[test]
fn datagrams_come_twice() {
    let (seen, faults) = run(FaultOptions { duplication: 0.05, ..FaultOptions::default() });
    assert!((800..1200).contains(&faults.datagrams_duplicated));
    assert_eq!(seen.len() as u64, DATAGRAMS as u64 + faults.datagrams_duplicated);
    assert!(lost(&seen).is_empty());
}

#[test]
fn datagrams_overtake_within_the_distance() {
    let options = FaultOptions { reordering: 0.1, reordering_distance: 5, ..FaultOptions::default() };
    let (seen, faults) = run(options);
    assert!((1_800..2_200).contains(&faults.datagrams_reordered));
    let displaced: Vec<i64> = seen.iter().enumerate().map(|(n, d)| n as i64 - i64::from(number(d))).collect();
    assert!(displaced.iter().filter(|by| **by > 0).count() > 1_000);
    // Others that are held back at the same time make room.
    assert!(displaced.iter().all(|by| by.abs() <= 10), "{:?}", displaced.iter().max());
    assert!(lost(&seen).len() <= 5, "what is still held back");
}

#[test]
fn one_bit_is_flipped() {
    let (seen, faults) = run(FaultOptions { corruption: 0.02, ..FaultOptions::default() });
    let mut flipped = 0;
    for (n, datagram) in seen.iter().enumerate() {
        let mut right = [0; 12];
        right[..4].copy_from_slice(&(n as u32).to_be_bytes());
        let bits: u32 = datagram.iter().zip(right).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert!(bits <= 1);
        flipped += u64::from(bits);
    }
    assert_eq!(flipped, faults.datagrams_corrupted);
    assert!((300..500).contains(&flipped));
}

/// Takes one train, then is full until told otherwise.
struct Full {
    taken: Vec<Vec<u8>>,
    room: usize,
}

impl Link for Full {
    fn train_limits(&self) -> TrainLimits {
        TrainLimits::SINGLE
    }
    fn max_datagram(&self) -> usize {
        1000
    }
    fn datagrams_per_read(&self) -> usize {
        1
    }
    fn send(&mut self, train: &Train, memory: &BufferTable) -> io::Result<SendOutcome> {
        if self.room == 0 {
            return Ok(SendOutcome::Blocked);
        }
        self.room -= 1;
        train.for_each_datagram(|range| memory.bytes(range), |datagram| self.taken.push(datagram.to_vec()));
        Ok(SendOutcome::Sent)
    }
    fn receive(&mut self, _: &ReceivePlan, _: &BufferTable, _: &mut ReadBuffer) -> io::Result<ReadOutcome> {
        Ok(ReadOutcome::Empty)
    }
    fn allow_fragmentation(&mut self) -> bool {
        true
    }
    fn descriptors(&self) -> Descriptors {
        Descriptors::new(77, 88)
    }
    fn counters(&self) -> LinkCounters {
        LinkCounters::default()
    }
}

#[test]
fn a_full_link_behind_faults_loses_nothing() {
    let mut fault = Fault::new(Full { taken: Vec::new(), room: 2 }, FaultOptions::default());
    let mut train = Train::new(TrainLimits::GSO);
    train.begin(Address::Peer, 1);
    for byte in 0..5 {
        train.inline(&[byte]);
        train.end_segment();
    }
    assert_eq!(fault.send(&train, &BufferTable::new()).unwrap(), SendOutcome::Sent, "taken over");
    assert_eq!(fault.send(&train, &BufferTable::new()).unwrap(), SendOutcome::Blocked, "no more than one train");
    let mut full = fault;
    for _ in 0..2 {
        // Reading goes on with what waits, too.
        let (memory, mut pool) = (BufferTable::new(), ReadBuffer::new());
        full.receive(&ReceivePlan::new(), &memory, &mut pool).unwrap();
    }
    let mut inner = full.into_inner();
    assert_eq!(inner.taken, [[0], [1]]);
    inner.room = 100;
    let mut fault = Fault::new(inner, FaultOptions::default());
    assert_eq!(fault.send(&train, &BufferTable::new()).unwrap(), SendOutcome::Sent);
    assert_eq!(fault.inner().taken.len(), 7);
}

#[test]
fn what_a_link_says_of_itself_passes_through_a_stack() {
    let (local, peer) = addresses(false);
    let full: Box<dyn Link> = Box::new(Full { taken: Vec::new(), room: 0 });
    let fault = Fault::new(full, FaultOptions::default());
    let capture = Capture::new(fault, Vec::new(), CaptureOptions::new(local, peer)).unwrap();
    let mut stack: Box<dyn Link> = Box::new(Meter::new(capture));
    assert!(stack.allow_fragmentation());
    assert_eq!(stack.descriptors(), Descriptors::new(77, 88));
    assert_eq!((stack.train_limits(), stack.max_datagram()), (TrainLimits::SINGLE, 1000));
    assert_eq!((stack.datagrams_per_read(), stack.counters()), (1, LinkCounters::default()));
}

fn addresses(v6: bool) -> (SocketAddr, SocketAddr) {
    if v6 {
        ("[2001:db8::1]:1000".parse().unwrap(), "[2001:db8::2]:2000".parse().unwrap())
    } else {
        ("192.0.2.1:1000".parse().unwrap(), "192.0.2.2:2000".parse().unwrap())
    }
}

#[test]
fn a_capture_holds_every_datagram_with_right_headers() {
    for v6 in [false, true] {
        let (local, peer) = addresses(v6);
        let (a, mut b) = MemoryLink::pair(&MemoryOptions::default()).unwrap();
        let mut capture = Capture::new(a, Vec::new(), CaptureOptions::new(local, peer)).unwrap();
        let source = Memory::pattern(9_500);
        let mut train = Train::new(capture.train_limits());
        train_of(&mut train, source.id, 0, 9_500, 1000);
        train.set_ecn(Ecn::Capable0);
        capture.send(&train, &source.table).unwrap();
        send_bytes(&mut b, Address::Peer, &[9; 65_507], Ecn::NotCapable);
        assert_eq!(receive_bytes(&mut capture).unwrap().0.len(), 65_507);
        train.reset(b.train_limits());
        train_of(&mut train, source.id, 0, 3_000, 1000);
        b.send(&train, &source.table).unwrap();
        assert_eq!(receive_bytes(&mut capture).unwrap().1.segment, 1000 + TRAILER);
        let (_, file) = capture.finish().unwrap();

        let mut reader = PcapReader::new(&file[..]).unwrap();
        let mut packets = Vec::new();
        let mut last = std::time::Duration::ZERO;
        while let Some(packet) = reader.next_packet() {
            let packet = packet.unwrap();
            assert!(packet.timestamp >= last && packet.data.len() == packet.orig_len as usize);
            last = packet.timestamp;
            packets.push(packet.data.into_owned());
        }
        let mut payloads = Vec::new();
        for (n, packet) in packets.iter().enumerate() {
            let sliced = SlicedPacket::from_ip(packet).unwrap();
            let Some(TransportSlice::Udp(udp)) = &sliced.transport else { panic!("no UDP") };
            let out = n < 10;
            let (from, to) = if out { (local, peer) } else { (peer, local) };
            assert_eq!((udp.source_port(), udp.destination_port()), (from.port(), to.port()));
            let header = udp.to_header();
            let ecn = match &sliced.net {
                Some(NetSlice::Ipv4(ip)) => {
                    let ip = ip.header().to_header();
                    assert_eq!(ip.header_checksum, ip.calc_header_checksum());
                    assert_eq!(Ok(header.checksum), header.calc_checksum_ipv4(&ip, udp.payload()).map_err(drop));
                    assert_eq!(SocketAddr::new(ip.source.into(), from.port()), from);
                    assert_eq!(usize::from(ip.total_len), packet.len());
                    ip.ecn.value()
                }
                Some(NetSlice::Ipv6(ip)) => {
                    let ip = ip.header().to_header();
                    assert_eq!(Ok(header.checksum), header.calc_checksum_ipv6(&ip, udp.payload()).map_err(drop));
                    assert_eq!(SocketAddr::new(ip.destination.into(), to.port()), to);
                    assert_eq!(usize::from(ip.payload_length) + 40, packet.len());
                    ip.traffic_class & 3
                }
                _ => panic!("no IP"),
            };
            assert_eq!(ecn, if out { Ecn::Capable0 as u8 } else { 0 });
            payloads.push(udp.payload().len());
        }
        let train = 1000 + TRAILER;
        assert_eq!(payloads[..9], [train; 9]);
        assert_eq!(payloads[9..], [500 + TRAILER, 65_507, train, train, train]);
    }
}

#[test]
fn a_capture_may_keep_the_beginnings_only() {
    let (local, peer) = addresses(false);
    let (a, _b) = MemoryLink::pair(&MemoryOptions::default()).unwrap();
    let options = CaptureOptions { snap_length: 64, ..CaptureOptions::new(local, peer) };
    let mut capture = Capture::new(a, Vec::new(), options).unwrap();
    send_bytes(&mut capture, Address::Peer, &[9; 1000], Ecn::NotCapable);
    let (_, file) = capture.finish().unwrap();
    let mut reader = PcapReader::new(&file[..]).unwrap();
    let packet = reader.next_packet().unwrap().unwrap();
    assert_eq!((packet.data.len(), packet.orig_len), (64, 1028));
}

/// A disk that takes so many bytes.
struct SmallDisk(usize);

impl Write for SmallDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        Ok(taken)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_does_not_disturb_the_link() {
    let (local, peer) = addresses(false);
    let (a, mut b) = MemoryLink::pair(&MemoryOptions::default()).unwrap();
    let mut capture = Capture::new(a, SmallDisk(100), CaptureOptions::new(local, peer)).unwrap();
    for _ in 0..10 {
        assert_eq!(send_bytes(&mut capture, Address::Peer, &[9; 50], Ecn::NotCapable), SendOutcome::Sent);
        assert_eq!(receive_bytes(&mut b).unwrap().0, [9; 50]);
    }
    assert_eq!(capture.finish().err().map(|error| error.kind()), Some(io::ErrorKind::StorageFull));
}

#[test]
fn a_meter_counts_what_crosses() {
    let (a, b) = MemoryLink::pair(&MemoryOptions::default()).unwrap();
    let (mut a, mut b) = (Meter::new(a), Meter::new(b));
    let (source, target) = (Memory::pattern(40_000), Memory::zeros(40_000));
    let mut train = Train::new(a.train_limits());
    for low in [0, 20_000] {
        train_of(&mut train, source.id, low, low + 20_000, 1000);
        a.send(&train, &source.table).unwrap();
    }
    collect(&mut b, &target, 40_000, 1000);
    let (sent, received) = (a.report(), b.report());
    assert_eq!((sent.datagrams_per_train.len(), sent.datagrams_per_train.max()), (2, 20));
    assert_eq!((received.datagrams_per_read.len(), received.datagrams_per_read.min()), (2, 20));
    assert!(sent.sent_bits_per_second > 0.0 && sent.received_bits_per_second == 0.0);
    assert!((received.reads_per_gigabyte - 2e9 / 40_320.0).abs() < 1.0);
    assert!(received.to_string().contains("datagrams a call p50 20 p99 20 max 20"));
    b.reset();
    assert_eq!(b.report().datagrams_per_read.len(), 0);
    assert_eq!(b.report().received_bits_per_second, 0.0);
}

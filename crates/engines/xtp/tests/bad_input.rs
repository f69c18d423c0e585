//! What nobody honest would send: cut packets, lengths that lie, floods, replays, forgeries. Nothing of it panics, nothing
//! grows without a limit, nothing is delivered twice, and nobody is made to bother a third.
#[path = "half/mod.rs"]
mod half;

use core::time::Duration;
use half::{Got, Half, Packet, counted, fill};
use pinnace_core::{Address, Random};
use pinnace_wire::xtp::Kind;
use pinnace_xtp::{Close, Codec, Config, ContextId, ControlBlock, Event, Limits, Options, Output, Service, Services};

const CODECS: [Codec; 2] = [Codec::Xtp40, Codec::Xtp36];
const PEER: Address = Address::Node(9);

fn server(codec: Codec, limits: Limits) -> Half {
    let mut half = Half::new(Config { codec, seed: 3, limits, ..Config::default() });
    let mut block = ControlBlock::new(Service::Connection);
    block.address_segment.destination_port = 7;
    half.call(|engine, _| engine.listen(block, Services::ALL)).expect("free");
    half
}

fn accepted(half: &Half) -> Vec<ContextId> {
    let told = half.events.iter().filter_map(|event| match event {
        Event::Accepted { context, .. } => Some(*context),
        _ => None,
    });
    told.collect()
}

fn first(codec: Codec, options: Options, n: usize) -> Packet {
    Packet { data: vec![7; n], ..Packet::new(codec, Kind::First).with(options) }
}

/// One packet of each kind and shape, for a context with this key.
fn zoo(codec: Codec, key: u64, sync: u32) -> Vec<Vec<u8>> {
    let kinds: &[Kind] = match codec {
        Codec::Xtp40 => &[Kind::Data, Kind::First, Kind::Cntl, Kind::Ecntl, Kind::Tcntl, Kind::Diag],
        Codec::Xtp36 => &[Kind::Data, Kind::First, Kind::Cntl, Kind::Diag],
    };
    let mut packets = Vec::new();
    for kind in kinds {
        for (options, btag) in
            [(Options::NONE, None), (Options::NOCHECK | Options::SREQ, Some([1; 8])), (Options::SORT, None)]
        {
            let mut packet = Packet::new(codec, *kind).with(options).sync(sync);
            (packet.key, packet.rtn) = (key, *kind != Kind::First);
            (packet.data, packet.btag) = (vec![3; 21], btag);
            if matches!(kind, Kind::Data | Kind::First) {
                packet.options = packet.options | if btag.is_some() { Options::BTAG } else { Options::NONE };
            }
            if matches!(kind, Kind::Ecntl | Kind::Cntl) {
                packet.spans = vec![(5, 9), (20, 30)];
            }
            packets.push(packet.bytes());
        }
    }
    packets
}

/// An engine with a context that has heard of its peer, and the context's key and sync.
fn engaged(codec: Codec) -> (Half, u64, u32) {
    let mut half = server(codec, Limits::default());
    half.feed(PEER, &first(codec, Options::NONE, 10).bytes());
    let context = accepted(&half)[0];
    let facts = half.xtp().facts(context).expect("there");
    half.sent.clear();
    (half, facts.my_key, facts.sync)
}

//= X-2 test
#[test]
fn cut_packets_are_dropped_in_silence() {
    for codec in CODECS {
        let (mut half, key, sync) = engaged(codec);
        let before = half.xtp().counters();
        let mut count = 0;
        let events = half.events.len();
        for packet in zoo(codec, key, sync) {
            for len in 1..packet.len() {
                half.feed(PEER, &packet[..len]);
                count += 1;
            }
            half.feed(PEER, &[&packet[..], &[0]].concat());
            half.feed(PEER, &[&packet[..], &[0; 4]].concat());
            count += 2;
        }
        assert!(half.sent.is_empty(), "{:?}", half.take());
        assert_eq!(half.events.len(), events);
        assert_eq!(half.xtp().counters().packets_malformed - before.packets_malformed, count);
    }
}

#[test]
fn lengths_that_lie_are_dropped() {
    for codec in CODECS {
        let header = codec.header_bytes();
        let (mut half, key, sync) = engaged(codec);
        let events = half.events.len();
        let lies = [0u32, 1, 3, 4, 7, 8, 15, 16, 17, 23, 24, 25, 40, 41, 0xffff, 0x7fff_ffff, 0x8000_0000, u32::MAX];
        for packet in zoo(codec, key, sync) {
            // dlen, alen or tlen or nspan, wherever they lie: every aligned word behind the header is made to lie too.
            let dlen_at = if codec == Codec::Xtp40 { 12 } else { 24 };
            for lie in lies {
                let mut lying = packet.clone();
                if codec == Codec::Xtp36 && lie.div_ceil(4) == 21_u32.div_ceil(4) {
                    // Zeros of the padding would be data then: as good as any.
                    continue;
                }
                lying[dlen_at..dlen_at + 4].copy_from_slice(&lie.to_be_bytes());
                reseal(codec, &mut lying);
                let same = lying == packet;
                half.feed(PEER, &lying);
                assert!(same || half.sent.is_empty(), "{codec:?} dlen {lie}");
                half.take();
                for at in (header..packet.len().min(header + 60)).step_by(2) {
                    let mut lying = packet.clone();
                    let bytes =
                        if lie > 0xffff { lie.to_be_bytes().to_vec() } else { (lie as u16).to_be_bytes().to_vec() };
                    let Some(place) = lying.get_mut(at..at + bytes.len()) else { continue };
                    place.copy_from_slice(&bytes);
                    reseal(codec, &mut lying);
                    half.feed(PEER, &lying);
                }
                // Only what has a format that nobody knows is answered, and what really is a packet.
                half.take();
            }
        }
        assert!(half.xtp().contexts() <= 2 && half.events.len() < events + 600, "{}", half.events.len());
    }
}

/// Makes the checksums right again.
fn reseal(codec: Codec, packet: &mut [u8]) {
    use pinnace_wire::checksum::{cxor, internet};
    match codec {
        Codec::Xtp40 if packet[8] & 0x40 != 0 => {
            packet[16..18].fill(0);
            let check = internet(&packet[..32]);
            packet[16..18].copy_from_slice(&check.to_be_bytes());
        }
        Codec::Xtp40 => fill(codec, packet),
        Codec::Xtp36 => {
            let check = cxor(&packet[..36]);
            packet[36..40].copy_from_slice(&check.to_be_bytes());
            if packet[0] & 0x40 == 0 {
                fill(codec, packet);
            }
        }
    }
}

#[test]
fn noise_changes_nothing_that_it_should_not() {
    for codec in CODECS {
        let (mut half, key, sync) = engaged(codec);
        let zoo = zoo(codec, key, sync);
        let mut random = Random::from_seed(1);
        for _ in 0..60_000 {
            let mut packet = zoo[random.below(zoo.len() as u64) as usize].clone();
            for _ in 0..1 + random.below(4) {
                let at = random.below(packet.len() as u64) as usize;
                packet[at] = random.next_u32() as u8;
            }
            reseal(codec, &mut packet);
            half.feed(PEER, &packet);
            if random.chance(0.01) {
                half.advance(Duration::from_millis(random.below(300)));
            }
            half.events.clear();
            half.sent.clear();
        }
        half.advance(Duration::from_secs(300));
        assert!(half.xtp().contexts() <= half.xtp().config().limits.contexts);
    }
}

//= X-2 test
#[test]
fn a_flood_of_firsts_is_bounded_and_spares_who_is_there() {
    for codec in CODECS {
        let limits = Limits { half_open: 64, bytes: 40 << 20, ..Limits::default() };
        let mut half = server(codec, limits);
        // Somebody who has used our key, and somebody who has not.
        half.feed(PEER, &first(codec, Options::NONE, 10).bytes());
        let proved = accepted(&half)[0];
        let mut packet = Packet::new(codec, Kind::Data);
        (packet.key, packet.rtn, packet.seq, packet.data) =
            (half.xtp().facts(proved).expect("there").my_key, true, 10, vec![1; 10]);
        half.feed(PEER, &packet.bytes());
        half.feed(Address::Node(10), &first(codec, Options::NONE, 10).bytes());
        let unproved = accepted(&half)[1];
        for number in 0..20_000_u64 {
            let mut flood = first(codec, Options::SREQ, 100);
            flood.key = 1 + number;
            half.feed(Address::Node(100 + number as u32), &flood.bytes());
            release_ended(&mut half);
            half.sent.clear();
            assert!(half.xtp().contexts() <= 66, "{}", half.xtp().contexts());
            half.advance(Duration::from_micros(50));
        }
        assert!(half.xtp().facts(proved).is_some_and(|facts| !facts.is_over), "who is there stays");
        assert!(half.xtp().facts(unproved).is_none(), "the oldest go first");
        assert!(half.xtp().counters().contexts_evicted > 19_000);
        assert!(half.memory.lent <= 66 * 262_144, "{}", half.memory.lent);
        half.call(|engine, now| engine.release(now, proved));
        half.advance(Duration::from_secs(400));
        release_ended(&mut half);
        assert_eq!(half.xtp().contexts(), 0);
        assert_eq!((half.memory.lent, half.xtp().bytes()), (0, 0));
    }
}

//= X-10 test
//= X-24 test
#[test]
fn time_wait_gives_way_where_the_table_is_full() {
    for codec in CODECS {
        let mut half = server(codec, Limits { contexts: 8, ..Limits::default() });
        let mut datagram = first(codec, Options::EOM | Options::WCLOSE | Options::RCLOSE | Options::SREQ, 10);
        datagram.service = 2;
        for number in 1..=20 {
            datagram.key = number;
            half.feed(PEER, &datagram.bytes());
            assert!(half.xtp().contexts() <= 8);
        }
        let told = |half: &Half| half.events.iter().filter(|event| matches!(event, Event::Datagram { .. })).count();
        assert_eq!((told(&half), half.xtp().counters().contexts_refused), (20, 0), "{codec:?}");
        // The first one, which is remembered all the same, and the last one, which is answered again.
        datagram.key = 1;
        half.feed(PEER, &datagram.bytes());
        datagram.key = 20;
        half.sent.clear();
        half.feed(PEER, &datagram.bytes());
        assert_eq!((told(&half), half.sent.len()), (20, 1), "{codec:?}: none is delivered twice");
        half.release_datagrams();
        half.advance(Duration::from_secs(31));
        assert_eq!(half.xtp().contexts(), 0);
    }
}

//= X-2 test
//= X-10 test
#[test]
fn a_datagram_that_gave_way_is_delivered_once_all_the_same() {
    for codec in CODECS {
        let mut half = server(codec, Limits { half_open: 4, ..Limits::default() });
        // Asked for an answer when they are delivered, and nobody has taken them yet.
        let mut datagram = first(codec, Options::EOM | Options::WCLOSE | Options::RCLOSE | Options::DREQ, 10);
        datagram.service = 2;
        for key in (1..=8).chain([1]) {
            datagram.key = key;
            half.feed(PEER, &datagram.bytes());
        }
        let told = |half: &Half| half.events.iter().filter(|event| matches!(event, Event::Datagram { .. })).count();
        assert!(half.xtp().counters().contexts_evicted > 0);
        assert_eq!(told(&half), 8, "{codec:?}");
    }
}

//= X-2 test
#[test]
fn what_gives_way_leaves_its_ring_to_others_where_memory_is_short() {
    for codec in CODECS {
        let mut half = server(codec, Limits { half_open: 64, bytes: 20 << 20, ..Limits::default() });
        for number in 1..=200 {
            let mut flood = first(codec, Options::SREQ, 1);
            flood.key = number;
            half.feed(PEER, &flood.bytes());
        }
        // Nobody accepts any of them.
        let read = |context: &ContextId| half.xtp().readable(*context).map(|readable| readable.len);
        assert_eq!(accepted(&half).last().and_then(read), Some(1), "{codec:?}: there is room for who comes");
    }
}

//= X-2 test
#[test]
fn who_is_not_there_leaves_memory_to_others() {
    for codec in CODECS {
        let mut half = server(codec, Limits { bytes: 8 << 20, ..Limits::default() });
        for number in 1..=200 {
            let mut flood = first(codec, Options::SREQ, 1);
            flood.key = number;
            half.feed(Address::Node(100 + number as u32), &flood.bytes());
        }
        half.feed(PEER, &first(codec, Options::SREQ, 10).bytes());
        let proved = accepted(&half)[200];
        let mut packet = Packet::new(codec, Kind::Data);
        (packet.key, packet.rtn, packet.seq, packet.data) =
            (half.xtp().facts(proved).expect("there").my_key, true, 0, vec![1; 10]);
        half.feed(PEER, &packet.bytes());
        let read = half.xtp().readable(proved).map(|readable| readable.len);
        assert_eq!(read, Some(10), "{codec:?}: there is room for who uses our key");
        let close = Options::EOM | Options::WCLOSE | Options::RCLOSE | Options::SREQ;
        half.feed(PEER, &Packet { service: 2, key: 99, ..first(codec, close, 10) }.bytes());
        let told = half.events.iter().any(|event| matches!(event, Event::Datagram { .. }));
        assert!(told, "{codec:?}: and for a datagram");
    }
}

/// The application lets go of what has ended.
fn release_ended(half: &mut Half) {
    for event in half.events.split_off(0) {
        if let Event::Closed { context, .. } = event {
            half.call(|engine, now| engine.release(now, context));
        }
    }
    half.events.clear();
}

/// What a peer sends in a whole conversation.
fn conversation(codec: Codec, service: u8) -> Vec<Vec<u8>> {
    let close = Options::EOM | Options::WCLOSE | Options::RCLOSE | Options::SREQ;
    match service {
        1..=3 => {
            let options = match service {
                1 => Options::EOM | Options::WCLOSE | Options::RCLOSE | Options::END | Options::NOERR | Options::NOFLOW,
                2 => close,
                _ => Options::EOM | Options::WCLOSE,
            };
            vec![Packet { service, ..first(codec, options, 100) }.bytes()]
        }
        _ => {
            let mut packets = vec![first(codec, Options::EOM, 100).bytes()];
            for index in 1..5 {
                let options = if index == 4 { close } else { Options::EOM };
                let mut data = Packet::new(codec, Kind::Data).with(options);
                (data.seq, data.data) = (100 * index, vec![7; 100]);
                data.sync += u32::from(index == 4);
                packets.push(data.bytes());
            }
            packets
        }
    }
}

/// Bytes delivered, and contexts that closed.
fn drain(half: &mut Half) -> u64 {
    let mut total = 0;
    for event in half.events.split_off(0) {
        match event {
            Event::Readable { context } => {
                while let Some(readable) = half.xtp().readable(context).filter(|readable| readable.len > 0) {
                    total += readable.len;
                    half.call(|engine, now| engine.consume(now, context, readable.len));
                }
            }
            Event::Datagram { buffer, len, .. } => {
                total += len;
                if let Some(buffer) = buffer {
                    pinnace_core::Storage::release(&mut half.memory, buffer);
                    half.call(|engine, _| engine.release_datagrams(1, len));
                }
            }
            _ => {}
        }
    }
    total
}

//= X-10 test
//= X-20 test
#[test]
fn what_is_replayed_is_not_delivered_again() {
    for codec in CODECS {
        for service in [2, 3, 4] {
            let packets = conversation(codec, service);
            let honest = 100 * packets.len() as u64;
            for turn in 0..=packets.len() {
                let mut half = server(codec, Limits::default());
                let mut total = 0;
                for (index, packet) in packets.iter().enumerate() {
                    half.feed(PEER, packet);
                    if index == turn {
                        for again in &packets[..=index] {
                            half.feed(PEER, again);
                        }
                    }
                    total += drain(&mut half);
                }
                // And all of it, while time-wait lasts.
                for _ in 0..5 {
                    for packet in packets.iter().rev().chain(&packets) {
                        half.feed(PEER, packet);
                        total += drain(&mut half);
                    }
                    half.advance(Duration::from_secs(1));
                    total += drain(&mut half);
                }
                assert_eq!(total, honest, "{codec:?} service {service}, replayed at {turn}");
            }
        }
    }
}

#[test]
fn forged_diags_need_the_key_and_the_address() {
    for codec in CODECS {
        let (mut half, key, _) = engaged(codec);
        let context = accepted(&half)[0];
        for (source, rtn, value) in [
            (Address::Node(1), true, key),
            (Address::Node(1), false, 0x77),
            (PEER, true, key ^ (1 << 21)),
            (PEER, true, key ^ 0x100),
            (PEER, false, 0x78),
            (PEER, false, key),
        ] {
            for code in 0..9 {
                let mut diag = Packet::new(codec, Kind::Diag);
                (diag.rtn, diag.key, diag.code) = (rtn, value, code);
                half.feed(source, &diag.bytes());
            }
        }
        assert!(half.sent.is_empty(), "a DIAG is never answered");
        assert!(half.xtp().facts(context).is_some_and(|facts| !facts.is_over));
        assert_eq!(half.xtp().counters().diags_stray, 54);
    }
}

/// What one address that never proves itself can make us send: the worst of many scripts.
#[test]
fn an_address_that_is_not_proved_is_sent_no_more_than_three_times_what_came_from_it() {
    let mut worst = (0.0, String::new());
    for codec in CODECS {
        for service in 1..=4 {
            for bits in 0..64_u16 {
                for n in [0, 10, 1000] {
                    for answer in [0, 100, 1_000_000] {
                        let mut options = Options::NONE;
                        let flags = [
                            Options::SREQ,
                            Options::DREQ,
                            Options::WCLOSE,
                            Options::RCLOSE,
                            Options::EOM,
                            Options::NOFLOW | Options::NOERR,
                        ];
                        for (index, flag) in flags.into_iter().enumerate() {
                            options = options.with_if(bits >> index & 1 == 1, flag);
                        }
                        let mut half = server(codec, Limits::default());
                        let first = Packet { service, ..first(codec, options, n) }.bytes();
                        half.feed(PEER, &first);
                        let contexts = accepted(&half);
                        for context in contexts {
                            if answer > 0 {
                                let buffer = half.memory.add(vec![1; answer]);
                                let output = Output::message(buffer, answer as u64);
                                if half.call(|engine, now| engine.send(now, context, output)).is_err() {
                                    half.memory.end(buffer);
                                }
                            }
                            half.call(|engine, now| engine.close(now, context, Close::Full)).ok();
                        }
                        half.advance(Duration::from_secs(120));
                        let ratio = half.counted_sent(PEER) as f64 / counted(&first) as f64;
                        if ratio > worst.0 {
                            worst = (ratio, format!("{codec:?} service {service} {options:?} n {n} answer {answer}"));
                        }
                    }
                }
            }
        }
    }
    assert!(worst.0 > 1.0 && worst.0 <= 3.0, "{} times: {}", worst.0, worst.1);
}

#[test]
fn spans_and_numbers_from_elsewhere_change_nothing() {
    for codec in CODECS {
        let (mut half, key, sync) = engaged(codec);
        let context = accepted(&half)[0];
        let buffer = half.memory.add(vec![1; 5000]);
        half.call(|engine, now| engine.send(now, context, Output::message(buffer, 5000))).expect("taken");
        half.take();
        let before = half.xtp().facts(context).expect("there");
        let spans: [&[(u64, u64)]; 7] = [
            &[(6000, 7000)],
            &[(100, 90)],
            &[(100, 100)],
            &[(u64::MAX - 5, u64::MAX)],
            &[(0, 1 << 31)],
            &[(4000, 5001)],
            &[(1 << 40, 1 << 41)],
        ];
        for (rseq, spans) in spans.iter().map(|spans| (10, *spans)).chain([(5001, &[][..]), (u64::MAX - 3, &[])]) {
            let kind = if codec == Codec::Xtp40 && !spans.is_empty() { Kind::Ecntl } else { Kind::Cntl };
            let mut status = Packet::new(codec, kind).sync(1001);
            (status.key, status.rtn, status.rseq, status.echo) = (key, true, rseq, sync.wrapping_add(1));
            (status.alloc, status.spans) = (1 << 20, spans.to_vec());
            half.feed(PEER, &status.bytes());
        }
        let after = half.xtp().facts(context).expect("there");
        assert!(!after.is_over);
        // What is possible of it counts: rseq 10, if the spans beside it were honest.
        assert!([before.acked, before.start + 10].contains(&after.acked), "{}", after.acked);
        let _: Vec<Got> = half.take();
    }
}

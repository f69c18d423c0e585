//! An incoming endpoint against peers that say anything, at any time.

use super::half::Half;
use super::script::{STEPS, config, near, packet_bytes, size, terms, time};
use core::time::Duration;
use pinnace_core::{Address, Ecn, LossContract, PollAt, mix64};
use pinnace_testing::script::Script;
use pinnace_vrp::{Delivery, Event, FrameId, Limits};
use pinnace_wire::vrp::{Control, ControlWriter, FRAME_NUMBERS, Header, Inline, Tag};

/// A frame that a peer has announced, or pretends to have.
struct Frame {
    source: Address,
    number: u16,
    size: u32,
    packet_bytes: u16,
    window: u32,
    contract: LossContract,
    header: Vec<u8>,
    next: u32,
}

impl Frame {
    fn packets(&self) -> u32 {
        if self.packet_bytes == 0 { 0 } else { self.size.div_ceil(u32::from(self.packet_bytes)) }
    }

    /// Data packet `packet`, as it should be. Beyond the end there is nothing to say.
    fn packet(&self, packet: u32) -> Vec<u8> {
        let low = u64::from(packet) * u64::from(self.packet_bytes);
        let len = u64::from(self.size).saturating_sub(low).min(u64::from(self.packet_bytes));
        data(self.number, packet, &vec![content(self.source, self.number, packet); len as usize])
    }
}

fn data(frame: u16, packet: u32, bytes: &[u8]) -> Vec<u8> {
    [&Header::Data { frame, packet }.encode()[..], bytes].concat()
}

/// All bytes of a packet, the same in every frame of a number: so copies agree.
fn content(source: Address, number: u16, packet: u32) -> u8 {
    let Address::Node(node) = source else { return 0 };
    mix64(u64::from(node) << 48 | u64::from(number) << 32 | u64::from(packet)) as u8
}

struct Peers {
    frames: Vec<Frame>,
    /// The number of the next frame of each.
    numbers: [u32; 3],
    epochs: [u32; 3],
    /// Nobody has sent what the frames do not say.
    is_honest: bool,
}

impl Peers {
    /// A frame to go on with: mostly a late one.
    fn pick(&mut self, script: &mut Script<'_>) -> Option<&mut Frame> {
        let back = usize::from(script.byte() % 8) + 1;
        let at = self.frames.len().checked_sub(back.min(self.frames.len().max(1)))?;
        self.frames.get_mut(at)
    }
}

/// FRAME_CREATE and what belongs to it, sound or not.
fn announce(script: &mut Script<'_>, peers: &mut Peers) {
    let peer = usize::from(script.byte() % 3);
    let source = Address::Node(peer as u32);
    let number = (near(script, peers.numbers[peer].wrapping_add(8)) % u32::from(FRAME_NUMBERS)) as u16;
    peers.numbers[peer] = u32::from(number) + 1;
    let size = if script.one_in(32) { script.long() } else { size(script) };
    let packet_bytes = packet_bytes(script);
    let terms = terms(script, u64::from(size));
    let mut contract = LossContract { rate: terms.rate.unwrap_or(0), ..LossContract::reliable() };
    let mut tags = vec![Tag::FrameCreate { frame: number, size, packet_bytes }];
    if let Some(run) = terms.run_bytes {
        contract.run = run as u8;
        tags.push(Tag::ConsLoss(contract.run));
    }
    tags.extend(terms.rate.map(Tag::LossRate));
    let flags = script.byte();
    let mut window = 64;
    if flags & 1 != 0 {
        window = u32::from(script.word().max(1));
        tags.push(Tag::Window(window as u16));
    }
    if flags & 6 != 6 {
        tags.push(Tag::Epoch(peers.epochs[peer]));
    }
    tags.extend(terms.floor.map(Tag::LossRateFloor));
    let frame = Frame { source, number, size, packet_bytes, window, contract, header: Vec::new(), next: 0 };
    let packets = frame.packets();
    let mut frame = frame;
    for range in &terms.critical {
        let (first, last) = (near(script, range.start as u32 % packets.max(1)), near(script, packets / 2));
        tags.push(Tag::CriticalInterval { first, last });
        if first <= last && first < packets {
            frame.contract.critical.insert(u64::from(first)..u64::from(last.min(packets - 1)) + 1);
        }
    }
    if flags & 8 != 0 {
        let packet = near(script, 8);
        tags.push(Tag::CriticalPacket(packet));
        if packet < packets {
            frame.contract.critical.insert(u64::from(packet)..u64::from(packet) + 1);
        }
    }
    let inline: Vec<u8>;
    if flags & 16 != 0 && size <= 255 {
        inline = (0..packets).flat_map(|packet| frame.packet(packet)[6..].to_vec()).collect();
        tags.push(Tag::InlineData(Inline { bytes: &inline, at: 0 }));
    }
    if flags & 32 != 0 {
        tags.push(Tag::FrameClose(near(script, u32::from(number)) as u16));
    }
    let mut space = [0; 1472];
    let mut writer = ControlWriter::new(&mut space, number);
    for tag in &tags {
        writer.push(tag);
    }
    writer.pad_to(if flags & 64 != 0 { 1472 } else { 64 });
    let len = writer.finish();
    frame.header = space[..len].to_vec();
    if flags & 128 != 0 && script.one_in(8) {
        // An unknown tag in place of the end.
        let at = script.byte() as usize % len;
        frame.header[at] = script.byte();
        peers.is_honest = false;
    }
    peers.frames.push(frame);
}

/// Any tags at all.
fn babble(script: &mut Script<'_>, peers: &mut Peers) -> (Address, Vec<u8>) {
    let peer = usize::from(script.byte() % 3);
    let frame = near(script, peers.numbers[peer]) as u16 % FRAME_NUMBERS;
    let mut space = [0; 200];
    let mut writer = ControlWriter::new(&mut space, frame);
    for _ in 0..script.byte() % 8 {
        let value = near(script, 8);
        writer.push(&match script.byte() % 12 {
            0 => Tag::Ping([value as u8; 8]),
            1 => Tag::FrameClose(frame),
            2 => Tag::FrameClose(value as u16),
            3 => Tag::LossRateNow { count: script.byte(), rate: value as u8 },
            4 => Tag::Epoch(value),
            5 => Tag::ConsLoss(value as u8),
            6 => Tag::FrameOk(frame),
            7 => Tag::Ack(value),
            8 => Tag::Nack(value),
            9 => Tag::CriticalInterval { first: value, last: u32::MAX },
            10 => Tag::Window(value as u16),
            _ => Tag::MissingHeader(frame),
        });
    }
    let len = writer.finish();
    (Address::Node(peer as u32), space[..len].to_vec())
}

/// What was delivered is what the header said and what the packets brought.
fn check(half: &Half, peers: &Peers, delivery: &Delivery) {
    let bytes = half.memory.bytes(delivery.buffer).expect("the storage is there");
    assert_eq!(bytes.len(), delivery.size as usize, "the storage of a frame has its size");
    if !peers.is_honest {
        return;
    }
    let is_it = |frame: &&Frame| {
        (frame.source, frame.number, frame.size, frame.packet_bytes)
            == (delivery.source, delivery.number, delivery.size, delivery.packet_bytes)
            && frame.contract == delivery.contract
            && frame.window.min(frame.packets().max(1)) == delivery.window
    };
    assert!(peers.frames.iter().any(|frame| is_it(&frame)), "nobody has announced {delivery:?}");
    if delivery.size == 0 {
        return;
    }
    let mut lost = delivery.loss.ranges.iter().cloned().flatten().peekable();
    for (packet, bytes) in bytes.chunks(usize::from(delivery.packet_bytes)).enumerate() {
        let packet = packet as u32;
        if lost.next_if_eq(&packet).is_none() {
            let expected = content(delivery.source, delivery.number, packet);
            assert!(bytes.iter().all(|byte| *byte == expected), "packet {packet} of {delivery:?} was altered");
        }
    }
}

/// The target.
pub fn incoming(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let mut config = config(&mut script);
    let small = script.byte();
    config.limits = Limits {
        frames: if small & 1 != 0 { 3 } else { 1024 },
        bytes: if small & 2 != 0 { 20_000 } else { 2 << 20 },
        packets: if small & 4 != 0 { 100 } else { 1 << 24 },
        sources: if small & 8 != 0 { 2 } else { 4096 },
        early_packets: if small & 16 != 0 { 2 } else { 16 },
        early_bytes: if small & 32 != 0 { 3000 } else { 256_000 },
        ..Limits::default()
    };
    let mut half = Half::incoming(config);
    let start = u32::from(script.word());
    let mut peers = Peers { frames: Vec::new(), numbers: [start, 5, 32_760], epochs: [1, 2, 3], is_honest: true };
    let mut held: Vec<(FrameId, pinnace_core::BufferId)> = Vec::new();
    let mut closed = 0;
    for _ in 0..STEPS {
        if script.is_over() {
            break;
        }
        let step = script.byte() % 16;
        match step {
            0..=2 => half.advance(time(&mut script, step)),
            3 => {
                let len = usize::from(script.byte());
                let datagram = script.take(len);
                peers.is_honest = false;
                half.feed(Address::Node(u32::from(script.byte() % 4)), &datagram);
            }
            4 => {
                let (source, datagram) = babble(&mut script, &mut peers);
                half.feed(source, &datagram);
            }
            5 => match script.byte() % 8 {
                0 => half.memory.is_full = !half.memory.is_full,
                1 => {
                    let peer = usize::from(script.byte() % 3);
                    peers.epochs[peer] = peers.epochs[peer].wrapping_add(3);
                }
                2 if script.byte() > 250 => half.close(),
                _ => {
                    if let Some(frame) = peers.pick(&mut script) {
                        let (source, header) = (frame.source, frame.header.clone());
                        half.feed(source, &header);
                    }
                }
            },
            6..=7 => {
                announce(&mut script, &mut peers);
                if let Some(frame) = peers.frames.last()
                    && step == 6
                {
                    half.feed(frame.source, &frame.header);
                }
            }
            8..=13 => {
                // Packets of one frame, with gaps, in one read or one after the other.
                let (count, gaps) = (script.byte() % 32, script.byte());
                let mut is_honest = peers.is_honest;
                let Some(frame) = peers.pick(&mut script) else { continue };
                if script.one_in(8) {
                    frame.next = near(&mut script, frame.next);
                }
                let mut read: Vec<Vec<u8>> = Vec::new();
                for turn in 0..=count {
                    if gaps >> (turn % 8) & 1 != 0 && frame.next < frame.packets() {
                        let mut datagram = frame.packet(frame.next);
                        if script.one_in(64) {
                            // Too long for this frame, but perhaps not for another of its number.
                            datagram.push(1);
                            is_honest = false;
                        }
                        if read.first().is_some_and(|first| datagram.len() > first.len()) {
                            break;
                        }
                        let is_last = read.first().is_some_and(|first| datagram.len() < first.len());
                        read.push(datagram);
                        if is_last || read.len() * read[0].len() > 50_000 {
                            frame.next = frame.next.wrapping_add(1);
                            break;
                        }
                    }
                    frame.next = frame.next.wrapping_add(1);
                }
                let (source, ecn) = (frame.source, if gaps == 7 { Ecn::Congested } else { Ecn::Capable0 });
                peers.is_honest = is_honest;
                if read.is_empty() {
                    continue;
                }
                if step < 11 {
                    half.read(source, ecn, &read);
                } else {
                    for datagram in read {
                        half.read(source, ecn, &[datagram]);
                    }
                }
            }
            14 => {
                if let Some(frame) = peers.pick(&mut script) {
                    let (source, number) = (frame.source, frame.number);
                    let mut space = [0; 32];
                    let mut writer = ControlWriter::new(&mut space, if script.one_in(2) { number } else { 0 });
                    writer.push(&Tag::FrameClose(number));
                    let len = writer.finish();
                    half.feed(source, &space[..len]);
                }
            }
            _ => {
                if !held.is_empty() {
                    let (id, buffer) = held.remove(usize::from(script.byte()) % held.len());
                    half.release(id, buffer);
                }
            }
        }
        settle(&mut half, &peers, &mut held, &mut closed);
    }
    // No state waits for ever: whatever was said, all frames end by themselves.
    half.advance(Duration::from_secs(60));
    settle(&mut half, &peers, &mut held, &mut closed);
    assert!(half.rx().frames() == 0 || closed > 0, "a frame waits for ever");
    if script.one_in(2) {
        half.close();
    }
    for (id, buffer) in held.drain(..) {
        half.release(id, buffer);
    }
    assert_eq!((half.rx().bytes(), half.memory.lent), (0, 0), "memory of no frame is kept");
    half.close();
    half.advance(Duration::from_secs(60));
    settle(&mut half, &peers, &mut held, &mut closed);
    assert_eq!((closed, half.memory.lent), (1, 0), "a closed endpoint keeps no storage");
    assert_eq!(half.engine.poll_at(), PollAt::Ingress);
}

/// Looks at what the engine has said and sent.
fn settle(half: &mut Half, peers: &Peers, held: &mut Vec<(FrameId, pinnace_core::BufferId)>, closed: &mut u32) {
    for event in core::mem::take(&mut half.events) {
        match event {
            Event::Received(delivery) => {
                assert!(held.iter().all(|(id, _)| *id != delivery.id), "two frames have one name");
                check(half, peers, &delivery);
                held.push((delivery.id, delivery.buffer));
            }
            Event::IncomingClosed => *closed += 1,
            Event::Released(_) => {}
            other => panic!("a receiver does not report {other:?}"),
        }
    }
    for sent in half.take_sent() {
        let control = Control::parse(&sent.bytes).expect("an answer parses");
        for tag in control.tags() {
            // What names a frame names the packet's own.
            if let Tag::FrameOk(frame) | Tag::FrameRefused(frame) | Tag::MissingHeader(frame) = tag {
                assert_eq!(frame, control.frame(), "an answer to a header has its number in the packet header");
            }
        }
    }
}

//! An outgoing endpoint whose peer says anything, at any time.

use super::half::{Half, check_request};
use super::script::{STEPS, config, near, packet_bytes, size, terms, time, window};
use core::time::Duration;
use pinnace_core::{Address, Ecn, PathEvent, PollAt};
use pinnace_testing::script::Script;
use pinnace_vrp::{Event, FrameSpec, Refused, Vrp};
use pinnace_wire::vrp::{Control, ControlWriter, FRAME_NUMBERS, Header, MIN_FRAME_HEADER_BYTES, Tag};
use std::collections::{BTreeMap, BTreeSet};

/// Byte `at` of the memory of ticket `ticket`.
pub fn content(ticket: u64, at: usize) -> u8 {
    (ticket as u8).wrapping_mul(37) ^ (at as u8) ^ (at >> 8) as u8
}

/// A frame as its packets show it.
#[derive(Default)]
struct Seen {
    header: Vec<u8>,
    size: u32,
    packet_bytes: u16,
    packets: BTreeSet<u32>,
    /// Which ticket its bytes belong to.
    ticket: Option<u8>,
}

impl Seen {
    fn count(&self) -> u32 {
        if self.size == 0 { 0 } else { self.size.div_ceil(u32::from(self.packet_bytes)) }
    }
}

#[derive(Default)]
struct Peer {
    frames: BTreeMap<u16, Seen>,
    newest: u16,
    ping: Option<[u8; 8]>,
}

impl Peer {
    /// Looks at everything that was sent.
    fn look(&mut self, half: &mut Half) {
        for sent in half.take_sent() {
            check_request(&sent.bytes);
            let head = sent.bytes.first_chunk().expect("a packet has a header");
            match Header::parse(head) {
                Header::Data { frame, packet } => self.look_at_data(frame, packet, &sent.bytes[6..]),
                Header::Control { frame } => self.look_at_control(frame, &sent.bytes),
            }
        }
    }

    fn look_at_data(&mut self, frame: u16, packet: u32, bytes: &[u8]) {
        let seen = self.frames.get_mut(&frame).unwrap_or_else(|| panic!("data of {frame} before its header"));
        assert!(packet < seen.count(), "packet {packet} of {}", seen.count());
        let low = packet as usize * usize::from(seen.packet_bytes);
        let len = (seen.size as usize - low).min(usize::from(seen.packet_bytes));
        assert_eq!(bytes.len(), len, "a packet has its own bytes, no more and no less");
        let ticket = bytes[0] ^ content(0, low);
        assert_eq!(*seen.ticket.get_or_insert(ticket), ticket, "data of another frame");
        let is_right = bytes.iter().enumerate().all(|(at, byte)| byte ^ content(0, low + at) == ticket);
        assert!(is_right, "packet {packet} has other bytes than the frame");
        // The window: not more than 16,384 packets from the first unacknowledged on; here nothing is remembered of ACKs.
        seen.packets.insert(packet);
    }

    fn look_at_control(&mut self, frame: u16, bytes: &[u8]) {
        let control = Control::parse(bytes).expect("a control packet parses");
        for tag in control.tags() {
            match tag {
                Tag::Ping(stamp) => self.ping = Some(stamp),
                Tag::FrameCreate { size, packet_bytes, .. } => {
                    assert!(bytes.len() >= MIN_FRAME_HEADER_BYTES, "a header of {} bytes", bytes.len());
                    self.newest = frame;
                    let seen = self.frames.entry(frame).or_default();
                    (seen.size, seen.packet_bytes) = (size, packet_bytes);
                    let header = without_closes(&control);
                    if seen.header.is_empty() {
                        seen.header = header;
                    } else {
                        assert_eq!(seen.header, header, "repeated headers are equal but for FRAME_CLOSE");
                    }
                }
                Tag::InlineData(inline) => {
                    let seen = self.frames.get_mut(&frame).expect("the header comes first");
                    assert_eq!(inline.bytes.len(), seen.size as usize);
                    let ticket = inline.bytes.first().map(|byte| byte ^ content(0, 0));
                    let is_right =
                        inline.bytes.iter().enumerate().all(|(at, byte)| Some(byte ^ content(0, at)) == ticket);
                    assert!(is_right, "INLINE_DATA has other bytes than the frame");
                    seen.packets.extend(0..seen.count());
                }
                Tag::LossRateNow { rate, .. } => {
                    let Some(seen) = self.frames.get(&frame) else { panic!("a rate for no frame") };
                    let header = Control::parse(&seen.header).expect("the header parsed");
                    let most =
                        header.tags().find_map(|tag| if let Tag::LossRate(rate) = tag { Some(rate) } else { None });
                    let least = header
                        .tags()
                        .find_map(|tag| if let Tag::LossRateFloor(rate) = tag { Some(rate) } else { None });
                    assert!(rate <= most.unwrap_or(0) && rate >= least.unwrap_or(0), "a rate of {rate}");
                }
                _ => {}
            }
        }
    }

    /// A frame to speak of: mostly the newest.
    fn pick(&self, script: &mut Script<'_>) -> u16 {
        let back = u16::from(script.byte() % 16).saturating_sub(8);
        self.newest.wrapping_sub(back) % FRAME_NUMBERS
    }

    /// A packet to speak of: mostly one that was sent.
    fn packet(&self, frame: u16, script: &mut Script<'_>) -> u32 {
        let newest = self.frames.get(&frame).and_then(|seen| seen.packets.last()).copied().unwrap_or(0);
        match script.byte() {
            near @ 0..0xFC => newest.saturating_sub(u32::from(near & 63)),
            0xFC => newest,
            0xFD => newest.wrapping_add(1),
            _ => near(script, newest),
        }
    }
}

/// The header without what may differ from one repetition to the next.
fn without_closes(control: &Control<'_>) -> Vec<u8> {
    let mut space = vec![0; 4000];
    let mut writer = ControlWriter::new(&mut space, control.frame());
    for tag in control.tags().filter(|tag| !matches!(tag, Tag::FrameClose(_))) {
        writer.push(&tag);
    }
    let len = writer.finish();
    space.truncate(len);
    space
}

fn answer(frame: u16, write: impl FnOnce(&mut ControlWriter<'_>)) -> Vec<u8> {
    let mut space = vec![0; 1472];
    let mut writer = ControlWriter::new(&mut space, frame);
    write(&mut writer);
    let len = writer.finish();
    space.truncate(len);
    space
}

/// An honest answer to everything that was seen of a frame.
fn honest(frame: u16, seen: &Seen) -> Vec<u8> {
    answer(frame, |writer| {
        writer.push(&Tag::FrameOk(frame));
        let contiguous = (0..seen.count()).take_while(|packet| seen.packets.contains(packet)).count() as u32;
        for packet in seen.packets.iter().rev().take_while(|packet| **packet > contiguous).take(20) {
            writer.push(&Tag::SingleAck(*packet));
        }
        if contiguous > 0 {
            writer.push(&Tag::Ack(contiguous - 1));
        }
        if contiguous == seen.count() {
            writer.push_report(&[]);
        }
    })
}

fn send(half: &mut Half, script: &mut Script<'_>, tickets: &mut u64) {
    let size = if script.one_in(64) { 300_000 } else { size(script) };
    let bytes: Vec<u8> = (0..size as usize).map(|at| content(*tickets, at)).collect();
    let buffer = half.memory.add(bytes);
    let mut spec = FrameSpec::new(buffer, u64::from(size));
    let flags = script.byte();
    if flags & 1 != 0 {
        spec.terms = Some(terms(script, u64::from(size)));
    }
    if flags & 2 != 0 {
        spec.packet_bytes = Some(if flags == 0xFF { script.word() } else { packet_bytes(script) });
    }
    if flags & 4 != 0 {
        spec.window = Some(if flags == 0xFF { script.word() } else { window(script) });
    }
    if flags & 8 != 0 {
        spec.repeat_until = Some(half.now + Duration::from_millis(u64::from(script.byte())));
    }
    if flags & 16 != 0 {
        spec.give_up_at = Some(half.now + Duration::from_millis(u64::from(script.byte()) * 4));
    }
    let result = half.call(|engine, now| match engine {
        Vrp::Outgoing(outgoing) => outgoing.send(now, spec),
        Vrp::Incoming(_) => Err(Refused::Closed),
    });
    match result {
        Ok(_) => *tickets += 1,
        Err(_) => drop(half.memory.end(buffer)),
    }
}

/// The target.
pub fn outgoing(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let mut half = Half::outgoing(config(&mut script));
    let mut peer = Peer::default();
    let (mut tickets, mut ended) = (0u64, BTreeMap::new());
    let feed = |half: &mut Half, peer: &mut Peer, datagram: &[u8]| {
        half.feed(Address::Peer, datagram);
        peer.look(half);
    };
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
                feed(&mut half, &mut peer, &datagram);
            }
            4 => {
                let event = match script.byte() {
                    0 => PathEvent::TooLarge { to: Address::Peer, fits: Some(u32::from(script.word())) },
                    1 => PathEvent::TooLarge { to: Address::Peer, fits: None },
                    _ => PathEvent::Unreachable,
                };
                let now = half.now;
                half.engine.handle_path_event(now, event);
                half.drain();
            }
            5..=6 => send(&mut half, &mut script, &mut tickets),
            7 => {
                let stamp = if script.one_in(16) { Some([script.byte(); 8]) } else { peer.ping };
                if let Some(stamp) = stamp {
                    feed(
                        &mut half,
                        &mut peer,
                        &answer(0, |writer| {
                            writer.push(&Tag::Pong(stamp));
                        }),
                    );
                }
            }
            8 => {
                let frame = peer.pick(&mut script);
                let of = if script.one_in(32) { script.word() } else { frame };
                feed(
                    &mut half,
                    &mut peer,
                    &answer(frame, |writer| {
                        writer.push(&Tag::FrameOk(of));
                    }),
                );
            }
            9..=10 => {
                let answers: Vec<_> = peer.frames.iter().map(|(number, seen)| honest(*number, seen)).collect();
                let from = answers.len().saturating_sub(8);
                for datagram in &answers[from..] {
                    feed(&mut half, &mut peer, datagram);
                }
            }
            11..=13 => {
                let frame = peer.pick(&mut script);
                let datagram = answer(frame, |writer| {
                    for _ in 0..1 + script.byte() % 12 {
                        let packet = peer.packet(frame, &mut script);
                        match script.byte() % 8 {
                            0 | 1 => writer.push(&Tag::Ack(packet)),
                            2..=4 => writer.push(&Tag::SingleAck(packet)),
                            _ => writer.push(&Tag::Nack(packet)),
                        };
                    }
                });
                let ecn = if step == 13 { Ecn::Congested } else { Ecn::NotCapable };
                half.read(Address::Peer, ecn, &vec![datagram; 1 + usize::from(script.byte() % 3)]);
            }
            14 => {
                let frame = peer.pick(&mut script);
                let kind = script.byte() % 8;
                let value = peer.packet(frame, &mut script);
                let datagram = answer(frame, |writer| {
                    match kind {
                        0..=2 => writer.push(&Tag::MissingHeader(frame)),
                        3 => writer.push(&Tag::FrameRefused(frame)),
                        4 => writer.push(&Tag::EcnEcho(value)),
                        5 => writer.push_report(&[
                            (value, u32::from(script.byte())),
                            (near(&mut script, value), near(&mut script, 1)),
                        ]),
                        6 => writer.push(&Tag::LossRateNow { count: script.byte(), rate: script.byte() }),
                        _ => writer.push(&Tag::FrameCreate { frame, size: value, packet_bytes: 1 }),
                    };
                });
                feed(&mut half, &mut peer, &datagram);
            }
            _ => match script.byte() {
                255 => half.close(),
                254 => half.call(|engine, _| {
                    if let Vrp::Outgoing(outgoing) = engine {
                        outgoing.withdraw();
                    }
                }),
                byte if byte % 4 == 0 => half.call(|engine, now| {
                    if let Vrp::Outgoing(outgoing) = engine {
                        outgoing.open(now);
                    }
                }),
                _ => {
                    let timeout = half.tx().timeout();
                    half.advance(timeout);
                }
            },
        }
        peer.look(&mut half);
        assert!(half.tx().frames_under_way() <= half.tx().config().max_frames);
    }
    // No state waits for ever: without a peer, every send ends.
    if script.one_in(4) {
        half.advance(Duration::from_secs(60));
        assert_eq!(half.tx().frames_under_way(), 0, "a send waits for ever");
    }
    half.close();
    half.advance(Duration::from_secs(60));
    peer.look(&mut half);
    let (mut opened, mut closed) = (0, 0);
    for event in core::mem::take(&mut half.events) {
        match event {
            Event::Sent { ticket, result, .. } => {
                assert!(ended.insert(ticket, result).is_none(), "send {ticket} ended twice");
            }
            Event::Opened(_) => opened += 1,
            Event::OutgoingClosed => closed += 1,
            other => panic!("a sender does not report {other:?}"),
        }
    }
    assert_eq!(ended.len() as u64, tickets, "a send never ended");
    assert_eq!(closed, 1, "good-byes");
    assert!(opened <= STEPS + 1);
    assert_eq!(half.tx().frames_under_way(), 0);
    assert_eq!(half.engine.poll_at(), PollAt::Ingress, "a closed endpoint waits for nothing");
}

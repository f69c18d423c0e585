//! What the simulated network knows of the packets that were sent again: whether they had been lost.
//!
//! A packet sent again that no NACK had asked for is one whose time-out expired. It was not lost if an earlier copy
//! arrived, however late.

use super::timeouts::{SINK, SOURCE};
use pinnace_sim::{Direction, Fate, Trace};
use pinnace_wire::vrp::{Control, HEADER_BYTES, Header, Tag};
use std::collections::BTreeMap;

/// The counts of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdicts {
    /// Packets sent again though no NACK had asked for them.
    pub(super) expired: u64,
    /// Of those, packets of which an earlier copy arrived.
    pub(super) not_lost: u64,
    /// Packets that arrived once more, whoever asked for them.
    pub(super) duplicates: u64,
}

/// A frame's number, and a packet's in it.
type Packet = (u16, u32);

/// One packet in the trace.
#[derive(Default)]
struct History {
    /// The numbers of its copies, and whether they arrived.
    copies: Vec<(u64, bool)>,
    /// A NACK came since the last copy left.
    asked_for: bool,
    /// Which copies nobody had asked for.
    expired: Vec<usize>,
}

impl Verdicts {
    /// Reads a trace whose formatter is [`describe`], and that has kept everything.
    pub(super) fn of(trace: &Trace) -> Self {
        let mut histories: BTreeMap<Packet, History> = BTreeMap::new();
        for event in trace.events() {
            let Some(mention) = event.summary.as_deref().and_then(Mention::read) else { continue };
            match (mention, event.host, event.direction, event.fate) {
                (Mention::Data(packet), SOURCE, Direction::Out, Fate::Sent) => {
                    let history = histories.entry(packet).or_default();
                    if !history.copies.is_empty() && !history.asked_for {
                        history.expired.push(history.copies.len());
                    }
                    history.asked_for = false;
                    history.copies.push((event.number, false));
                }
                (Mention::Data(packet), SINK, Direction::In, Fate::Delivered) => {
                    let copies = histories.entry(packet).or_default().copies.iter_mut();
                    copies.filter(|copy| copy.0 == event.number).for_each(|copy| copy.1 = true);
                }
                (Mention::Nacks(packets), SOURCE, Direction::In, Fate::Delivered) => {
                    for packet in packets {
                        histories.entry(packet).or_default().asked_for = true;
                    }
                }
                _ => {}
            }
        }
        let mut verdicts = Self::default();
        for History { copies, expired, .. } in histories.values() {
            let arrived = |copies: &[(u64, bool)]| copies.iter().filter(|copy| copy.1).count() as u64;
            verdicts.expired += expired.len() as u64;
            verdicts.not_lost += expired.iter().filter(|&&copy| arrived(&copies[..copy]) > 0).count() as u64;
            verdicts.duplicates += arrived(copies).saturating_sub(1);
        }
        verdicts
    }
}

/// What a datagram says of packets.
enum Mention {
    Data(Packet),
    Nacks(Vec<Packet>),
}

/// Says what matters here of a datagram, for the trace.
pub(super) fn describe(datagram: &[u8]) -> String {
    let Some(head) = datagram.first_chunk::<HEADER_BYTES>() else { return String::new() };
    if let Header::Data { frame, packet } = Header::parse(head) {
        return format!("data {frame} {packet}");
    }
    let Ok(control) = Control::parse(datagram) else { return String::new() };
    let nacks = control.tags().filter_map(|tag| match tag {
        Tag::Nack(packet) => Some(format!(" {packet}")),
        _ => None,
    });
    format!("nack {}{}", control.frame(), nacks.collect::<String>())
}

impl Mention {
    /// Reads what [`describe`] says.
    fn read(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let (kind, frame) = (words.next()?, words.next()?.parse().ok()?);
        let mut packets = words.filter_map(|word| Some((frame, word.parse().ok()?)));
        match kind {
            "data" => packets.next().map(Self::Data),
            _ => Some(Self::Nacks(packets.collect())),
        }
    }
}

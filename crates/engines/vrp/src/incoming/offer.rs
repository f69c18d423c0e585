//! A frame header as a receiver reads it: what FRAME_CREATE and the tags with it say.

use core::ops::Range;
use pinnace_core::{LossContract, mix64};
use pinnace_wire::vrp::{Control, Inline, Tag};

/// Bytes of a hole in the lists that a delivery and its host make of it: in packets, in bytes, and in memory.
pub(super) const HOLE_BYTES: u64 = 8 + 16 + 16;
/// The window of a header that does not say one.
const DEFAULT_WINDOW: u16 = 64;

/// A frame that a sender offers.
#[derive(Debug)]
pub(super) struct Offer<'a> {
    pub(super) number: u16,
    pub(super) size: u32,
    pub(super) packet_bytes: u16,
    /// `n`.
    pub(super) packets: u32,
    pub(super) contract: LossContract,
    /// Never above the contract's rate.
    pub(super) floor: u8,
    pub(super) window: u16,
    pub(super) epoch: Option<u32>,
    /// The frame's whole data.
    pub(super) inline: Option<Inline<'a>>,
    /// Whether the packet also closes a frame of this number, before it creates it, or after.
    pub(super) closes_before: bool,
    pub(super) closes_after: bool,
}

impl<'a> Offer<'a> {
    /// The frame that a control packet creates, if it does. Contract tags before FRAME_CREATE are skipped; of equal tags
    /// the last counts; critical packets beyond the last are none.
    pub(super) fn read(control: &Control<'a>) -> Option<Self> {
        let mut offer: Option<Self> = None;
        let mut critical: Vec<Range<u64>> = Vec::new();
        let (mut epoch, mut inline, mut floor, mut closed) = (None, None, None, false);
        for tag in control.tags() {
            match (tag, &mut offer) {
                (Tag::FrameCreate { frame, size, packet_bytes }, _) => {
                    offer = Some(Self {
                        number: frame,
                        size,
                        packet_bytes,
                        packets: if size == 0 { 0 } else { size.div_ceil(u32::from(packet_bytes.max(1))) },
                        //= V-R5
                        contract: LossContract::reliable(),
                        floor: 0,
                        window: DEFAULT_WINDOW,
                        epoch: None,
                        inline: None,
                        closes_before: closed,
                        closes_after: false,
                    });
                }
                (Tag::ConsLoss(run), Some(offer)) => offer.contract.run = run,
                (Tag::LossRate(rate), Some(offer)) => offer.contract.rate = rate,
                (Tag::Window(window), Some(offer)) => offer.window = window,
                (Tag::LossRateFloor(rate), Some(_)) => floor = Some(rate),
                (Tag::CriticalPacket(packet), Some(offer)) => critical.extend(clip(packet, packet, offer.packets)),
                (Tag::CriticalInterval { first, last }, Some(offer)) => {
                    critical.extend(clip(first, last, offer.packets));
                }
                (Tag::FrameClose(frame), None) => closed |= frame == control.frame(),
                (Tag::FrameClose(frame), Some(offer)) => offer.closes_after |= frame == offer.number,
                (Tag::Epoch(life), _) => epoch = Some(life),
                (Tag::InlineData(data), _) => inline = Some(data),
                _ => {}
            }
        }
        let mut offer = offer?;
        // In rising order each goes to the end, whatever order a peer has thought of.
        critical.sort_unstable_by_key(|range| range.start);
        offer.contract.critical = critical.into_iter().collect();
        offer.floor = floor.unwrap_or(u8::MAX).min(offer.contract.rate);
        offer.epoch = epoch;
        offer.inline = inline.filter(|data| data.bytes.len() as u64 == u64::from(offer.size));
        Some(offer)
    }

    /// What tells a repeated header from a changed one, together with size and packet size.
    pub(super) fn digest(&self) -> u64 {
        let LossContract { rate, run, critical } = &self.contract;
        let words = [u64::from(*rate), u64::from(*run), u64::from(self.floor), u64::from(self.window)];
        let epoch = [u64::from(self.epoch.is_some()), u64::from(self.epoch.unwrap_or(0))];
        let spans = critical.iter().flat_map(|range| [range.start, range.end]);
        words.into_iter().chain(epoch).chain(spans).fold(0, |digest, word| mix64(digest ^ word))
    }

    /// Bytes that count against the limit beside the storage: two bits a packet, the critical ranges, kept twice, and all holes
    /// that there may be. With packets of a few bytes these take more than the storage.
    pub(super) fn overhead(&self) -> u64 {
        16 * u64::from(self.packets.div_ceil(64))
            + 32 * self.contract.critical.range_count() as u64
            + HOLE_BYTES * self.most_holes()
    }

    /// No more holes than the contract allows, and something between any two of them.
    fn most_holes(&self) -> u64 {
        let LossContract { rate, run, .. } = self.contract;
        if run == 0 || rate == 0 {
            return 0;
        }
        let window = u32::from(self.window).clamp(1, self.packets.max(1));
        let in_a_window = (u64::from(rate) * u64::from(window) + 127) / 255;
        (in_a_window * u64::from(self.packets.div_ceil(window))).min(u64::from(self.packets.div_ceil(2)))
    }

    /// Bytes of packet `packet`, which exists.
    pub(super) fn packet_len(&self, packet: u32) -> u32 {
        packet_len(self.size, self.packet_bytes, packet)
    }
}

/// Bytes of packet `packet`, which exists, of a frame of `size` bytes.
pub(super) fn packet_len(size: u32, packet_bytes: u16, packet: u32) -> u32 {
    let offset = u64::from(packet) * u64::from(packet_bytes);
    (u64::from(size).saturating_sub(offset)).min(u64::from(packet_bytes)) as u32
}

fn clip(first: u32, last: u32, packets: u32) -> Option<Range<u64>> {
    let end = (u64::from(last) + 1).min(u64::from(packets));
    (first <= last && u64::from(first) < end).then_some(u64::from(first)..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinnace_wire::vrp::ControlWriter;

    fn packet(tags: &[Tag<'_>]) -> Vec<u8> {
        let mut bytes = vec![0; 400];
        let mut writer = ControlWriter::new(&mut bytes, 9);
        assert!(tags.iter().all(|tag| writer.push(tag)));
        let len = writer.finish();
        bytes.truncate(len);
        bytes
    }

    const CREATE: Tag<'static> = Tag::FrameCreate { frame: 9, size: 1001, packet_bytes: 100 };

    #[test]
    fn a_header_without_contract_allows_nothing() {
        //= V-R5 test
        let bytes = packet(&[Tag::LossRate(99), Tag::ConsLoss(3), Tag::Window(5), CREATE]);
        let offer = Offer::read(&Control::parse(&bytes).unwrap()).unwrap();
        assert_eq!(offer.contract, LossContract::reliable(), "tags before FRAME_CREATE are skipped");
        assert_eq!((offer.packets, offer.window, offer.floor, offer.epoch), (11, 64, 0, None));
        assert_eq!((offer.packet_len(0), offer.packet_len(10)), (100, 1));
        let bytes = packet(&[Tag::CriticalPacket(1), Tag::FrameClose(9)]);
        assert!(Offer::read(&Control::parse(&bytes).unwrap()).is_none());
    }

    #[test]
    fn critical_packets_are_clipped_and_the_floor_is_below_the_rate() {
        //= V-R1 test
        let bytes = packet(&[
            CREATE,
            Tag::LossRate(50),
            Tag::LossRateFloor(60),
            Tag::CriticalInterval { first: 9, last: u32::MAX },
            Tag::CriticalInterval { first: 3, last: 2 },
            Tag::CriticalInterval { first: 11, last: 12 },
            Tag::CriticalPacket(u32::MAX),
            Tag::CriticalPacket(4),
        ]);
        let offer = Offer::read(&Control::parse(&bytes).unwrap()).unwrap();
        assert_eq!(offer.contract.critical.to_string(), "[4,5) [9,11)");
        assert_eq!((offer.contract.rate, offer.floor), (50, 50));
    }

    #[test]
    fn every_word_of_the_contract_is_in_the_digest() {
        //= V-R1 test
        let same = [Tag::LossRate(7), Tag::ConsLoss(3), Tag::Window(9), Tag::LossRateFloor(2), Tag::CriticalPacket(1)];
        let digest = |tags: &[Tag<'_>]| {
            let bytes = packet(&[&[CREATE], tags].concat());
            Offer::read(&Control::parse(&bytes).unwrap()).unwrap().digest()
        };
        let other = [Tag::LossRate(8), Tag::ConsLoss(4), Tag::Window(8), Tag::LossRateFloor(3), Tag::CriticalPacket(2)];
        let mut reordered = same;
        reordered.reverse();
        assert_eq!(digest(&same), digest(&reordered));
        assert_ne!(digest(&same), digest(&[&same[..], &[Tag::Epoch(0)]].concat()));
        for (index, tag) in other.iter().enumerate() {
            let mut changed = same;
            changed[index] = *tag;
            assert_ne!(digest(&same), digest(&changed), "{tag:?}");
        }
    }
}

//! Frame headers: FRAME_CREATE and what belongs to it (V-S4).

use super::frame::OutFrame;
use crate::{Config, Refused};
use pinnace_wire::vrp::{ControlWriter, HEADER_BYTES, MAX_PACKET_BYTES, MIN_FRAME_HEADER_BYTES, Tag, tag_bytes};
use std::collections::VecDeque;

/// The window that a receiver assumes where the header names none.
const WINDOW_UNSAID: u16 = 64;
/// FRAME_CLOSE tags in one header at most: the rest goes with the next. So many lie where a header would be padded, and headers of
/// one length share a train.
const CLOSES_IN_HEADER: usize = 8;

/// Bytes that a header may take: one datagram.
fn capacity(config: &Config, frame: &OutFrame, limit: Option<u32>) -> usize {
    let packet = HEADER_BYTES + usize::from(frame.packet_bytes);
    // Three bytes above the least size: a padding tag always fits.
    let most = config.control_bytes.max(packet);
    limit
        .map_or(most, |limit| most.min(limit as usize))
        .clamp(MIN_FRAME_HEADER_BYTES + 3, HEADER_BYTES + MAX_PACKET_BYTES)
}

/// The tags of a header but FRAME_CLOSE.
fn tags(frame: &OutFrame, epoch: u32) -> impl Iterator<Item = Tag<'static>> {
    let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let create = Tag::FrameCreate { frame: frame.number, size: frame.size, packet_bytes: frame.packet_bytes };
    let terms = &frame.terms;
    let critical = frame.contract.critical.iter().map(move |range| match (number(range.start), number(range.end)) {
        (first, end) if first + 1 == end => Tag::CriticalPacket(first),
        (first, end) => Tag::CriticalInterval { first, last: end - 1 },
    });
    [Some(create)]
        .into_iter()
        .chain([terms.run_bytes.map(|_| Tag::ConsLoss(frame.contract.run)), terms.rate.map(Tag::LossRate)])
        .flatten()
        .chain(critical.collect::<Vec<_>>())
        .chain((frame.window != WINDOW_UNSAID).then_some(Tag::Window(frame.window)))
        .chain(terms.floor.map(Tag::LossRateFloor))
        .chain([Tag::Epoch(epoch)])
}

/// Whether the header of `frame` fits one datagram.
///
/// # Errors
/// [`Refused::HeaderTooLarge`].
pub(super) fn check(config: &Config, frame: &OutFrame, limit: Option<u32>) -> Result<(), Refused> {
    let bytes = HEADER_BYTES + tags(frame, 0).map(|tag| tag_bytes(&tag)).sum::<usize>() + 1;
    if bytes <= capacity(config, frame, limit) { Ok(()) } else { Err(Refused::HeaderTooLarge) }
}

/// Writes the header of `frame`, with the frames to close that fit (V-S9) and inline data if they fit.
//= V-S4
//= V-S9
pub(super) fn write(config: &Config, frame: &mut OutFrame, limit: Option<u32>, epoch: u32, closes: &mut VecDeque<u16>) {
    // One that fits only a larger datagram, although its frame was taken, is tried all the same.
    let limit = limit.filter(|limit| check(config, frame, Some(*limit)).is_ok());
    let inline = if frame.may_be_inline() { 2 + frame.size as usize } else { 0 };
    let least = HEADER_BYTES + tags(frame, epoch).map(|tag| tag_bytes(&tag)).sum::<usize>() + 1;
    let close = tag_bytes(&Tag::FrameClose(0));
    let most = least + inline + CLOSES_IN_HEADER * close + MIN_FRAME_HEADER_BYTES;
    let mut bytes = vec![0; most.min(capacity(config, frame, limit))];
    let mut writer = ControlWriter::new(&mut bytes, frame.number);
    for tag in tags(frame, epoch) {
        let fits = writer.push(&tag);
        debug_assert!(fits, "`check` has seen that they fit");
    }
    frame.inline = inline > 0 && inline <= writer.room();
    let inline = if frame.inline { inline } else { 0 };
    while frame.header_closes.len() < CLOSES_IN_HEADER && writer.room() >= close + inline {
        let Some(number) = closes.pop_front() else { break };
        writer.push(&Tag::FrameClose(number));
        frame.header_closes.push(number);
    }
    frame.header_has_data = frame.inline;
    let len = if frame.inline {
        frame.counted_as_sent = frame.packets;
        writer.pad_to(MIN_FRAME_HEADER_BYTES.saturating_sub(inline));
        writer.finish_before_inline(frame.size as u8)
    } else {
        writer.pad_to(MIN_FRAME_HEADER_BYTES);
        writer.finish()
    };
    bytes.truncate(len);
    frame.header = bytes;
}

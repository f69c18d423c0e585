//! The stream, put together again from blocks: the medium's header, then every byte in its place.
//!
//! Where blocks were lost there are zeros, so that what follows keeps its place, and the player its time; who tunes in late
//! has the header, and goes on with what came first. A sender that starts anew goes on in the same output; its header is
//! written only if it is another one.
//!
//! Always true: nothing is written twice; what a sender claims to be lost costs no more than [`FILL`] bytes at a time;
//! memory does not depend on how long the stream is.

use crate::bare::Sum;
use crate::cast::{About, Front, Kind, read_header};
use std::io::{self, Write};
use std::ops::Range;
use std::time::Duration;

/// The most zeros in a row: beyond that a gap is only told.
const FILL: u64 = 64 << 20;
/// Losses that are remembered one by one.
const MOST_LOST: usize = 4096;

/// What came of a message.
#[derive(Debug, PartialEq)]
pub(crate) enum Took {
    /// Another stream begins.
    Stream(About),
    /// Data, that were due then.
    Data { number: u64, due: Duration, bytes: usize, lost: Option<Lost> },
    /// The stream is over; this was lost at its end.
    End { lost: Option<Lost> },
    /// Nothing new.
    Known,
    /// It says nothing as long as there is no header.
    Early,
    /// It is no message of a cast.
    Foreign,
}

/// What is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    /// By number, counted by the sender.
    pub(crate) blocks: Range<u64>,
    /// By position in the output.
    pub(crate) bytes: Range<u64>,
}

/// One stream after the other.
pub(crate) struct Assembly<W> {
    out: W,
    /// Which stream, and the header of the medium.
    stream: Option<(u64, Vec<u8>)>,
    /// The number and position of what comes next, once something has come.
    next: Option<(u64, u64)>,
    is_over: bool,
    sum: Sum,
    pub(crate) blocks: u64,
    pub(crate) blocks_lost: u64,
    /// Bytes of the output that were lost, and are zeros.
    pub(crate) holes: Vec<Range<u64>>,
    /// Holes for which there was no room there.
    pub(crate) holes_left_out: u64,
    /// Streams that have begun.
    pub(crate) streams: u64,
    /// Bytes of the medium that passed before we tuned in.
    pub(crate) missed: u64,
}

impl<W: Write> Assembly<W> {
    pub(crate) fn new(out: W) -> Self {
        Self {
            out,
            stream: None,
            next: None,
            is_over: false,
            sum: Sum::default(),
            blocks: 0,
            blocks_lost: 0,
            holes: Vec::new(),
            holes_left_out: 0,
            streams: 0,
            missed: 0,
        }
    }

    /// Bytes written.
    pub(crate) fn bytes(&self) -> u64 {
        self.sum.bytes
    }

    /// How many bytes there were, and their hash; nothing may follow.
    pub(crate) fn finish(&mut self) -> io::Result<(u64, String)> {
        self.out.flush()?;
        Ok(self.sum.finish())
    }

    /// Takes a message.
    pub(crate) fn take(&mut self, message: &[u8]) -> io::Result<Took> {
        let Some((front, block)) = Front::read(message) else { return Ok(Took::Foreign) };
        let is_known = self.stream.as_ref().is_some_and(|(stream, _)| *stream == front.stream);
        if !is_known {
            return match (front.kind, read_header(block)) {
                (Kind::Header, Some((about, medium))) => self.begin(&front, about, medium),
                (Kind::Header, None) => Ok(Took::Foreign),
                _ => Ok(Took::Early),
            };
        }
        if self.is_over || front.kind == Kind::Header {
            return Ok(Took::Known);
        }
        let lost = match self.next {
            // The medium's header is the stream's beginning, and does not count as missed.
            None => {
                let header = self.stream.as_ref().map_or(0, |(_, header)| header.len() as u64);
                self.missed = self.missed.saturating_add(front.position.saturating_sub(header));
                None
            }
            Some((number, _)) if front.number < number => return Ok(Took::Known),
            Some((number, position)) => self.fill(number..front.number, position..front.position)?,
        };
        if front.kind == Kind::End {
            self.is_over = true;
            self.out.flush()?;
            return Ok(Took::End { lost });
        }
        self.write(block)?;
        self.blocks += 1;
        self.next = Some((front.number.saturating_add(1), front.position.saturating_add(block.len() as u64)));
        Ok(Took::Data { number: front.number, due: front.due, bytes: block.len(), lost })
    }

    fn begin(&mut self, front: &Front, about: About, medium: &[u8]) -> io::Result<Took> {
        if self.stream.as_ref().is_none_or(|(_, before)| before != medium) {
            self.write(medium)?;
        }
        self.stream = Some((front.stream, medium.to_vec()));
        // Who hears the header before anything else has come misses nothing that is lost from now on.
        self.next = (front.number == 0).then_some((0, medium.len() as u64));
        self.is_over = false;
        self.streams += 1;
        Ok(Took::Stream(about))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.sum.add(bytes);
        Ok(())
    }

    fn fill(&mut self, blocks: Range<u64>, bytes: Range<u64>) -> io::Result<Option<Lost>> {
        if blocks.is_empty() {
            return Ok(None);
        }
        self.blocks_lost = self.blocks_lost.saturating_add(blocks.end - blocks.start);
        let from = self.bytes();
        let mut left = bytes.end.saturating_sub(bytes.start);
        if left <= FILL {
            const ZEROS: &[u8] = &[0; 4096];
            while left > 0 {
                let piece = left.min(ZEROS.len() as u64);
                self.write(&ZEROS[..piece as usize])?;
                left -= piece;
            }
        }
        let hole = from..self.bytes();
        let has_room = self.holes.len() < MOST_LOST;
        match self.holes.last_mut() {
            Some(last) if last.end == hole.start => last.end = hole.end,
            _ if hole.is_empty() => {}
            _ if has_room => self.holes.push(hole.clone()),
            _ => self.holes_left_out += 1,
        }
        Ok(Some(Lost { blocks, bytes: hole }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cast::{Format, header};

    fn message(kind: Kind, stream: u64, number: u64, position: u64, block: &[u8]) -> Vec<u8> {
        Front { kind, stream, number, position, due: Duration::from_millis(number.saturating_mul(20)) }.message(block)
    }

    fn about() -> About {
        About { format: Format::Wav, bit_rate: 1e6, period_us: 20_000, bytes: None, text: String::new() }
    }

    fn head(stream: u64, number: u64, medium: &[u8]) -> Vec<u8> {
        message(Kind::Header, stream, number, 0, &header(&about(), medium))
    }

    fn data(stream: u64, number: u64, block: &[u8]) -> Vec<u8> {
        message(Kind::Data, stream, number, 2 + number * 3, block)
    }

    fn lost(took: &Took) -> Option<(Range<u64>, Range<u64>)> {
        match took {
            Took::Data { lost: Some(lost), .. } | Took::End { lost: Some(lost) } => {
                Some((lost.blocks.clone(), lost.bytes.clone()))
            }
            _ => None,
        }
    }

    #[test]
    fn a_stream_comes_out_as_it_went_in() {
        let mut out = Vec::new();
        let mut assembly = Assembly::new(&mut out);
        assert_eq!(assembly.take(&head(7, 0, b"RI")).unwrap(), Took::Stream(about()));
        for (number, block) in [b"abc", b"def"].iter().enumerate() {
            let took = assembly.take(&data(7, number as u64, *block)).unwrap();
            let (number, lost) = (number as u64, None);
            assert_eq!(took, Took::Data { number, due: Duration::from_millis(20 * number), bytes: 3, lost });
        }
        assert_eq!(assembly.take(&head(7, 2, b"RI")).unwrap(), Took::Known);
        assert_eq!(assembly.take(&data(7, 0, b"abc")).unwrap(), Took::Known);
        assert_eq!(assembly.take(&message(Kind::End, 7, 2, 8, b"")).unwrap(), Took::End { lost: None });
        assert_eq!(assembly.take(&data(7, 2, b"ghi")).unwrap(), Took::Known, "it is over");
        assert_eq!((assembly.finish().unwrap().0, assembly.missed, assembly.blocks), (8, 0, 2));
        assert_eq!(out, b"RIabcdef");
    }

    #[test]
    fn what_is_lost_is_zero_and_told() {
        let mut out = Vec::new();
        let mut assembly = Assembly::new(&mut out);
        assembly.take(&head(7, 0, b"RI")).unwrap();
        let took = assembly.take(&data(7, 1, b"def")).unwrap();
        assert_eq!(lost(&took), Some((0..1, 2..5)));
        let took = assembly.take(&data(7, 3, b"jk")).unwrap();
        assert_eq!(lost(&took), Some((2..3, 8..11)));
        let took = assembly.take(&message(Kind::End, 7, 5, 15, b"")).unwrap();
        assert_eq!(lost(&took), Some((4..5, 13..15)));
        assert_eq!((assembly.blocks_lost, assembly.holes.clone()), (3, vec![2..5, 8..11, 13..15]));
        assert_eq!(out, b"RI\0\0\0def\0\0\0jk\0\0");
    }

    #[test]
    fn holes_that_are_not_remembered_are_counted() {
        let mut assembly = Assembly::new(io::sink());
        assembly.take(&head(7, 0, b"RI")).unwrap();
        for number in 0..MOST_LOST as u64 + 10 {
            assembly.take(&data(7, 2 * number + 1, b"abc")).unwrap();
        }
        assert_eq!((assembly.holes.len(), assembly.holes_left_out), (MOST_LOST, 10));
    }

    #[test]
    fn who_tunes_in_late_has_the_header_and_goes_on_from_there() {
        let mut out = Vec::new();
        let mut assembly = Assembly::new(&mut out);
        assert_eq!(assembly.take(&data(7, 4, b"mno")).unwrap(), Took::Early);
        assembly.take(&head(7, 5, b"RI")).unwrap();
        assembly.take(&data(7, 6, b"stu")).unwrap();
        assert_eq!((assembly.missed, assembly.blocks_lost), (18, 0));
        assert_eq!(out, b"RIstu");
    }

    #[test]
    fn a_sender_that_starts_anew_goes_on_in_the_same_output() {
        let mut out = Vec::new();
        let mut assembly = Assembly::new(&mut out);
        for stream in [7, 8] {
            assembly.take(&head(stream, 0, b"RI")).unwrap();
            assembly.take(&data(stream, 0, b"abc")).unwrap();
        }
        assembly.take(&head(9, 0, b"YU")).unwrap();
        assert_eq!((assembly.streams, assembly.blocks_lost), (3, 0));
        assert_eq!(out, b"RIabcabcYU");
    }

    #[test]
    fn strange_messages_do_no_harm() {
        let mut out = Vec::new();
        let mut assembly = Assembly::new(&mut out);
        assert_eq!(assembly.take(b"").unwrap(), Took::Foreign);
        assert_eq!(assembly.take(&message(Kind::Header, 1, 0, 0, b"x")).unwrap(), Took::Foreign);
        assembly.take(&head(7, 0, b"")).unwrap();
        let took = assembly.take(&message(Kind::Data, 7, u64::MAX, u64::MAX, b"abc")).unwrap();
        assert_eq!(lost(&took), Some((0..u64::MAX, 0..0)), "too much to be filled");
        let took = assembly.take(&message(Kind::Data, 7, u64::MAX, 0, b"abc")).unwrap();
        assert_eq!(lost(&took), None);
        assert_eq!((assembly.blocks, assembly.blocks_lost), (2, u64::MAX));
        // Of each of these streams more has passed than any has.
        for stream in [8, 9] {
            assembly.take(&head(stream, 3, b"")).unwrap();
            assembly.take(&message(Kind::End, stream, u64::MAX, u64::MAX, b"")).unwrap();
        }
        assert_eq!(assembly.missed, u64::MAX);
        assert_eq!(out.len(), 6);
    }
}

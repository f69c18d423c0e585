//! In which order the frames that come together take turns.
//!
//! A sender whose contracts bound runs sends a few packets of one frame, then a few of the next, and so round. Each frame
//! remembers which frame came after its last turn, and how long its turns were: the median of three, so that a lost packet
//! at either end of a turn misleads nobody.
//!
//! It is only a guess: what follows from a wrong one is that payload is moved.

use super::Incoming;
use crate::FrameId;

/// A frame's turns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turns {
    /// The first packet of the newest turn.
    pub(super) began: u32,
    /// Packets of the last three; 0: not known.
    spans: [u32; 3],
    /// Whose turn came after the last one.
    pub(super) followed_by: Option<(u32, FrameId)>,
}

impl Turns {
    /// Packets of a turn, if that is known.
    pub(super) fn span(&self) -> Option<u32> {
        let [a, b, c] = self.spans;
        let median = a.max(b).min(a.min(b).max(c));
        (median > 0).then_some(median)
    }

    /// A turn has ended before packet `next`.
    fn end(&mut self, next: u32) {
        self.spans = [self.spans[1], self.spans[2], next.saturating_sub(self.began)];
        self.began = next;
    }
}

impl Incoming {
    /// New data of a frame have come, the first that have.
    pub(super) fn on_turn(&mut self, index: u32, id: FrameId) {
        let Some(before) = self.turn.replace((index, id)).filter(|before| *before != (index, id)) else { return };
        let Some(ended) = self.frames.get_mut(before.0).filter(|frame| frame.id == before.1) else { return };
        let next = ended.next_expected();
        ended.turns.end(next);
        let spans = ended.turns.spans;
        let displaced = ended.turns.followed_by.replace((index, id));
        // A new frame has taken its place in the round before another, or the other's, if that one has ended.
        let displaced = displaced.and_then(|(at, its)| {
            let frame = self.frames.get(at).filter(|frame| frame.id == its)?;
            if frame.incomplete().is_some() { Some((at, its)) } else { frame.turns.followed_by }
        });
        if let Some(frame) = self.frames.get_mut(index)
            && frame.turns.followed_by.is_none()
        {
            frame.turns.followed_by = displaced.filter(|follower| *follower != (index, id));
            frame.turns.spans = spans;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_packet_misleads_nobody() {
        let mut turns = Turns::default();
        assert_eq!(turns.span(), None);
        for next in [2, 4, 6] {
            turns.end(next);
        }
        assert_eq!((turns.span(), turns.began), (Some(2), 6));
        // The last packet of a turn is lost, and the first one of another.
        for next in [7, 10, 12] {
            turns.end(next);
            assert_eq!(turns.span(), Some(2), "{next}");
        }
    }
}

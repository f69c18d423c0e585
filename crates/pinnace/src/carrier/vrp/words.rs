//! What a connection over VRP says itself: who this is, that it is here, numbers that nobody need wait for, and the end.
//!
//! Always true: no application is told of a word that was lost; the end says how many numbers before it are no messages, and
//! were not told of before.

use super::*;

/// The peer may have refused the frame of a void number, and counts it so if it has.
const WAS_REFUSED: u32 = 1 << 16;

/// A number of a frame that was announced, and with which none was sent: told in the `piece` of a word, which otherwise is 0.
fn piece_of(void: Void) -> u32 {
    (u32::from(void.number) + 1) | if void.was_refused { WAS_REFUSED } else { 0 }
}

/// A frame with the number was sent, and its time was over: a message is missing. Above what tells of void numbers, so that who
/// knows of those alone waits for it.
fn piece_of_given_up(number: u16) -> u32 {
    (u32::from(number) + 1) << 16
}

fn number_in(half: u32) -> Option<u16> {
    u16::try_from(half.checked_sub(1)?).ok()
}

/// The void number that a word tells of.
pub(super) fn void_of(piece: u32) -> Option<Void> {
    Some(Void { number: number_in(piece % WAS_REFUSED)?, was_refused: piece & WAS_REFUSED != 0 })
}

/// The number that a word says was given up.
pub(super) fn given_up_of(piece: u32) -> Option<u16> {
    if piece.is_multiple_of(WAS_REFUSED) { number_in(piece >> 16) } else { None }
}

/// The shortest life of a frame in two fifths of which, for which an announcement holds, two messages follow each other at the
/// slowest rate that [`Service::foretold_bytes`] allows.
pub(super) const LEAST_LIFE: Duration = Duration::from_secs(5);
/// Words about void numbers under way, while more frames are announced.
const MOST_TOLD: usize = 16;

/// A word that tells of a void number.
#[derive(Debug)]
struct Said {
    piece: u32,
    word: crate::vrp::Sending,
    /// Another one says the same, or has.
    is_copy: bool,
}

/// The void numbers, and the words that tell the peer of them.
#[derive(Debug, Default)]
pub(super) struct Voids {
    /// Otherwise no number is void: nothing was ever announced, nor given up for which the peer would wait.
    is_used: AtomicBool,
    told: Lock<Told>,
}

#[derive(Debug, Default)]
struct Told {
    under_way: Vec<Said>,
    /// What is to be said, or said again.
    again: Vec<u32>,
}

impl Vrp {
    /// Sends a word of the connection's own, which is none of the messages that are told to be lost.
    pub(crate) fn open(&self, control: &Control) -> Result<crate::vrp::Sending, Error> {
        let frame = Frame::new(Message::from_vec(control.encode())).with_contract(Contract::reliable()).expendable();
        self.out()?.send(frame).map_err(|unsent| unsent.error)
    }

    /// Answers an OPEN with one of its own, until it is known there. Who has gone meanwhile need not know it: what it has sent
    /// has been acknowledged, and is received.
    pub(crate) async fn answer(&self, control: &Control) -> Result<(), Error> {
        let before = self.unreachable();
        let mut answer = std::pin::pin!(self.open(control)?);
        loop {
            match within(Instant::now() + LOOK, &mut answer).await.map(|sent| sent.map_err(|unsent| unsent.error)) {
                Some(Ok(_) | Err(Error::FrameFailed(Failure::PeerGone))) => return Ok(()),
                Some(Err(error)) => return Err(error),
                None if self.unreachable() > before => return Ok(()),
                None => {}
            }
        }
    }

    /// A frame was sent, and the next one will be like this, if something is said: then its header goes ahead.
    pub(super) fn foretell(&self, out: &Sender, next: Option<Outline>) {
        let next = next.filter(|_| self.has_time_for_the_next);
        if next.is_some() {
            self.voids.is_used.store(true, Ordering::Relaxed);
        }
        if !self.voids.is_used.load(Ordering::Relaxed) {
            return;
        }
        let under_way = self.tell_voids(out);
        if let Some(outline) = next
            && under_way < MOST_TOLD
        {
            // Only a hint: what cannot be announced is sent all the same.
            let _ = out.announce_next(&outline);
        }
    }

    /// Tells the peer what it need not wait for, unless this end has closed: nothing may be sent behind what it said then.
    pub(super) fn tell(&self) {
        let Some(out) = &self.out else { return };
        // Held, so that nobody closes meanwhile.
        let terms = self.terms();
        if !terms.is_over {
            self.foretell(out, None);
        }
    }

    /// What is sent may be given up while what is behind it arrives, and its peer waits longer for what is missing: it is told.
    pub(super) fn tell_what_is_given_up(&self) {
        if !self.is_short_of_time {
            self.voids.is_used.store(true, Ordering::Relaxed);
        }
    }

    /// Whatever has become of the words, no loss is told of them.
    pub(super) fn settle_voids(&self) {
        if self.voids.is_used.load(Ordering::Relaxed) {
            self.collect(&mut self.voids.told.lock());
        }
    }

    /// Takes the words that have ended. What was refused is said again, unless another word has said it.
    fn collect(&self, told: &mut Told) {
        for Said { piece, word, is_copy } in std::mem::take(&mut told.under_way) {
            match word.probe() {
                None => told.under_way.push(Said { piece, word, is_copy }),
                Some(Ok(())) => {
                    drop(word.wait());
                    told.again.retain(|again| *again != piece);
                    told.under_way.iter_mut().filter(|said| said.piece == piece).for_each(|said| said.is_copy = true);
                }
                Some(Err(error)) => {
                    self.unheard(word);
                    // Who is gone need not be told.
                    if !is_copy && matches!(error, Error::FrameFailed(Failure::Refused)) {
                        told.again.push(piece);
                    }
                }
            }
        }
    }

    /// Tells the peer of numbers that it need not wait for, until it knows. Returns how many words about them are under way.
    fn tell_voids(&self, out: &Sender) -> usize {
        let mut told = self.voids.told.lock();
        self.collect(&mut told);
        told.again.extend(out.take_void().map(piece_of));
        while told.again.len() + told.under_way.len() < MOST_TOLD
            && let Some(number) = out.take_given_up()
        {
            told.again.push(piece_of_given_up(number));
        }
        for piece in std::mem::take(&mut told.again) {
            let said = self.say(piece, false);
            if said.is_none() {
                // Whoever closes says how many were not told of.
                told.again.push(piece);
            }
            told.under_way.extend(said);
            if self.is_short_of_time {
                told.under_way.extend(self.say(piece, true));
            }
        }
        told.under_way.len()
    }

    fn say(&self, piece: u32, is_copy: bool) -> Option<Said> {
        let word = self.open(&Control { piece, ..Control::new(Kind::Alive, self.nonce) }).ok()?;
        Some(Said { piece, word, is_copy })
    }

    /// Nothing is under way any more, and nothing is announced from now on: how many numbers are void of which the peer was not
    /// told.
    fn untold(&self, out: &Sender) -> u32 {
        let mut told = self.voids.told.lock();
        self.collect(&mut told);
        out.void_announced();
        let untold = told.again.drain(..).chain(out.take_void().map(piece_of));
        untold.filter(|piece| void_of(*piece).is_some()).count() as u32
    }

    /// A word of the connection's own was lost, of which the application need not know; but its number is missing.
    pub(super) fn unheard(&self, word: crate::vrp::Sending) {
        drop(word.wait());
        self.unheard.fetch_add(1, Ordering::Relaxed);
    }

    /// Says that this is the end. The peer may refuse it with all that was before: then it has to be said again.
    fn end(&self) -> Result<crate::vrp::Sending, Error> {
        let untold = self.untold(self.out()?);
        let piece = self.unheard.fetch_add(untold, Ordering::Relaxed) + untold;
        self.open(&Control { piece, ..Control::new(Kind::End, self.nonce) })
    }

    /// Says the end, unless it is under way: whoever closes again only waits again.
    fn said_end(&self) -> Result<(), Error> {
        let mut said = self.said.lock();
        if said.is_none() {
            *said = Some(self.end()?);
        }
        Ok(())
    }

    /// Whether the end that was said needs not be said again, now that nothing is under way.
    fn is_heard(&self) -> bool {
        let said = self.said.lock().take();
        said.is_none_or(|end| self.is_told(end))
    }

    /// Whether the peer knows of the end, or can not be told; otherwise it has refused it.
    fn is_told(&self, end: crate::vrp::Sending) -> bool {
        match end.probe() {
            Some(Err(Error::FrameFailed(Failure::Refused))) => {
                self.unheard(end);
                false
            }
            // Who is gone need not be told, and nobody that it was not.
            Some(_) => {
                drop(end.wait());
                true
            }
            None => true,
        }
    }

    pub(super) fn say_end(&self, deadline: Option<Instant>) -> Result<(), Error> {
        loop {
            let before = self.unreachable();
            self.said_end()?;
            let flush = |until| self.out()?.flush_until(until);
            farewell(deadline, flush, (before, || self.unreachable()), || self.look_for_break())?;
            if self.is_heard() {
                return Ok(());
            }
            // There may be room for it later. Who has less time waits as well: he may well come again at once.
            let left = left(deadline);
            std::thread::sleep(left.map_or(REFUSED, |left| left.min(REFUSED)));
            if left.is_some_and(|left| left < REFUSED) {
                return Err(Error::Timeout);
            }
        }
    }

    pub(super) async fn say_end_async(&self) -> Result<(), Error> {
        loop {
            let before = self.unreachable();
            self.said_end()?;
            loop {
                match within(Instant::now() + LOOK, self.out()?.flush_async()).await {
                    Some(flushed) => break flushed?,
                    None if self.unreachable() > before => break,
                    None => self.look_for_break()?,
                }
            }
            if self.is_heard() {
                return Ok(());
            }
            within(Instant::now() + REFUSED, std::future::pending::<()>()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_told_as_it_is() {
        for number in [0, 1, 4711, 0x7fff] {
            for was_refused in [false, true] {
                let void = Void { number, was_refused };
                assert_eq!(void_of(piece_of(void)), Some(void));
            }
        }
        assert_eq!(void_of(0), None, "only that somebody is here");
        for number in [0, 4711, 0x7fff] {
            let piece = piece_of_given_up(number);
            assert_eq!((void_of(piece), given_up_of(piece)), (None, Some(number)));
            assert_eq!(given_up_of(piece_of(Void { number, was_refused: true })), None);
        }
        assert_eq!(given_up_of(0), None);
    }
}

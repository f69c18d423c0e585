//! The other end of a file transfer: control messages, and what can happen between them.
//!
//! Always true: at most one control message of the peer waits here; an empty message, where something else is due, says
//! that the peer gives up, and the next one, of one byte, whether it was interrupted.

use super::protocol::{self, CONTROL_BYTES, Refusal, ToSender, printable};
use crate::bare::Presence;
use crate::exit::{Error, Exit};
use crate::interrupt;
use crate::linger;
use crate::transport::{self, Transport};
use pinnace::Message;
use pinnace::zcrp::{Progress, Receiver, Receiving, Sender, Sending};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

/// How long a last word may take to arrive, behind what has begun to travel.
const LAST_WORD: Duration = Duration::from_secs(2);
/// How long what has begun to travel may take before it: what is so slow is not waited for.
const LAST_CHUNK: Duration = Duration::from_secs(30);

/// A duplex channel to the peer.
pub(super) struct Peer<'a> {
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    name: String,
    transport: &'a Transport,
    /// The buffer for the peer's next control message.
    posted: RefCell<Option<Receiving>>,
    /// A control message that came before it was asked for.
    early: RefCell<Option<Message>>,
    /// The peer has ended the transfer and needs no last word.
    refused: Cell<bool>,
    /// It has acknowledged something that was said to it, so that it is where its datagrams come from.
    is_proved: Cell<bool>,
    /// Whether it gives way to others as long as it is not proved.
    gives_way: Box<dyn Fn() -> bool + 'a>,
}

impl<'a> Peer<'a> {
    pub(super) fn new(
        (sender, receiver): (Sender, Receiver),
        name: impl Into<String>,
        transport: &'a Transport,
    ) -> Self {
        let (posted, early, refused, is_proved) = Default::default();
        let (name, gives_way) = (name.into(), Box::new(|| false));
        Self { sender, receiver, name, transport, posted, early, refused, is_proved, gives_way }
    }

    /// Until it is proved, the transfer ends as if it had fallen silent when it `gives_way` to others.
    pub(super) fn giving_way(self, gives_way: impl Fn() -> bool + 'a) -> Self {
        Self { gives_way: Box::new(gives_way), ..self }
    }

    pub(super) fn is_proved(&self) -> bool {
        self.is_proved.get()
    }

    pub(super) fn error(&self, error: pinnace::Error) -> Error {
        self.transport.error(&self.name, error)
    }

    pub(super) fn queue(&self, message: Message) -> Result<Sending, Error> {
        self.sender.send(message).map_err(|unsent| self.error(unsent.error))
    }

    pub(super) fn post(&self, message: Message) -> Result<Receiving, Error> {
        self.receiver.post(message).map_err(|unsent| self.error(unsent.error))
    }

    /// Makes sure that the peer's next control message has a place.
    pub(super) fn listen(&self) -> Result<(), Error> {
        let mut posted = self.posted.borrow_mut();
        if posted.is_none() {
            *posted = Some(self.post(Message::with_capacity(CONTROL_BYTES))?);
        }
        Ok(())
    }

    /// Sends a control message and waits until the peer has it; `look` is called meanwhile.
    pub(super) fn tell(
        &self,
        message: &impl Serialize,
        mut look: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let sending = self.queue(Message::from_vec(protocol::encode(message)?))?;
        let look = || self.check_deadline(None).and_then(|()| look());
        transport::wait(sending, look, |error| self.error(error))?;
        self.is_proved.set(true);
        Ok(())
    }

    /// The next control message, and how many bytes it had. With `deadline` it must come before that.
    pub(super) fn hear<T: DeserializeOwned>(&self, deadline: Option<Instant>) -> Result<(T, usize), Error> {
        let early = self.early.borrow_mut().take();
        let message = match early {
            Some(message) => message,
            None => {
                self.listen()?;
                let posted = self.posted.borrow_mut().take();
                let Some(posted) = posted else { return Err(Error::failed("nothing is posted; please report it")) };
                transport::wait(posted, || self.check_deadline(deadline), |error| self.error(error))?
            }
        };
        if message.is_empty() {
            return Err(self.gave_up(None));
        }
        Ok((protocol::decode(&message)?, message.len()))
    }

    /// The peer's empty message has come; `posted` is the buffer for the next one, if there is one already.
    pub(super) fn gave_up(&self, posted: Option<Receiving>) -> Error {
        self.refused.set(true);
        let posted = posted.or_else(|| self.post(Message::with_capacity(CONTROL_BYTES)).ok());
        // A release that says no more than the empty message is not waited for.
        let why = posted.and_then(|posted| match posted.wait_timeout(LAST_WORD) {
            Progress::Ended(why) => why.ok(),
            Progress::UnderWay(_) => None,
        });
        // The peer waits until it knows that it was heard.
        self.receiver.close();
        if why.is_some_and(|why| *why == [Exit::Interrupted as u8]) {
            return Error::peer_gone(format!(
                "{} was interrupted; what has arrived is kept: run the command again when it is back",
                self.name
            ));
        }
        Error::failed(format!("{} gave up; its own message says why; what has arrived is kept", self.name))
    }

    fn check_deadline(&self, deadline: Option<Instant>) -> Result<(), Error> {
        let is_late = deadline.is_some_and(|deadline| deadline <= Instant::now());
        if is_late || (!self.is_proved() && (self.gives_way)()) {
            return Err(self.error(pinnace::Error::Failed(pinnace::zcrp::Failure::PeerGone)));
        }
        Ok(())
    }

    /// The receiver's next control message, for the sender: a refusal is an error. With `deadline` as for [`Peer::hear`].
    pub(super) fn hear_receiver(&self, deadline: Option<Instant>) -> Result<ToSender, Error> {
        let (message, _) = self.hear(deadline)?;
        self.listen()?;
        match message {
            ToSender::Refuse(refusal) => {
                self.refused.set(true);
                Err(refused(&refusal))
            }
            message => Ok(message),
        }
    }

    /// Looks at what has come before it was asked for, and keeps it if it is no end.
    fn look_ahead(&self, check: impl FnOnce(&Message) -> Result<(), Error>) -> Result<(), Error> {
        let ended = self.posted.borrow().as_ref().is_some_and(Receiving::has_ended);
        if !ended || self.early.borrow().is_some() {
            return Ok(());
        }
        let Some(posted) = self.posted.borrow_mut().take() else { return Ok(()) };
        let message = posted.wait().map_err(|unsent| self.error(unsent.error))?;
        check(&message)?;
        *self.early.borrow_mut() = Some(message);
        Ok(())
    }

    /// Whether the receiver has refused, or was interrupted, while the sender was busy.
    pub(super) fn look(&self) -> Result<(), Error> {
        self.look_ahead(|message| {
            if message.is_empty() {
                return Err(self.gave_up(None));
            }
            let Ok(ToSender::Refuse(refusal)) = protocol::decode(message) else { return Ok(()) };
            self.refused.set(true);
            Err(refused(&refusal))
        })
    }

    /// Whether the sender, who waits for an answer, is still there.
    pub(super) fn wait_on(&self) -> Result<(), Error> {
        self.look_ahead(|message| if message.is_empty() { Err(self.gave_up(None)) } else { Ok(()) })
    }

    /// Ends where the peer has said its last, and waits until it knows that it was heard. Over a path that has lost something the
    /// acknowledgement may be lost as well, and what it repeats then comes later than [`Receiver::close`] waits for.
    pub(super) fn take_leave(&self) {
        let lossy = || {
            let (sent, received) = (self.sender.counters(), self.receiver.counters());
            sent.units_resent + received.units_reported_lost + received.units_duplicate > 0
        };
        let patience = || if lossy() { linger::LINGER } else { Duration::ZERO };
        // Whoever interrupts that need not wait: everything is done.
        let _ = linger::while_repeated(patience, || self.receiver.counters().units_duplicate);
        self.receiver.close();
    }

    /// The sender's last word after an error: an empty message, and then one byte, the exit code. Either fits into every
    /// buffer that the peer may have posted.
    pub(super) fn give_up(&self, error: &Error) {
        self.last_words(error, || vec![Vec::new(), vec![error.exit as u8]]);
    }

    /// The receiver's last word after an error: why, or the same as the sender's.
    pub(super) fn refuse(&self, error: &Error) {
        if error.exit == Exit::Interrupted {
            return self.give_up(error);
        }
        self.last_words(error, || protocol::encode(&ToSender::Refuse(Refusal::of(error))).into_iter().collect());
    }

    fn last_words(&self, error: &Error, words: impl FnOnce() -> Vec<Vec<u8>>) {
        if error.exit == Exit::PeerGone || self.refused.get() {
            return;
        }
        if !self.is_there() {
            return;
        }
        let acknowledged = || self.sender.counters().acknowledgements_received;
        // Behind a chunk that has begun, and not behind all that are queued.
        self.sender.withdraw();
        let latest = Instant::now() + LAST_CHUNK;
        let sent = words().into_iter().map(|word| self.sender.send(Message::from_vec(word)));
        for mut sending in sent.collect::<Vec<_>>().into_iter().flatten() {
            // As long as the chunk arrives.
            let (mut before, mut deadline) = (acknowledged(), Instant::now() + LAST_WORD);
            while let Progress::UnderWay(again) = sending.wait_timeout(interrupt::LOOK) {
                sending = again;
                let (now, so_far) = (Instant::now(), acknowledged());
                if so_far > before {
                    (before, deadline) = (so_far, now + LAST_WORD);
                }
                if now >= deadline.min(latest) {
                    return;
                }
            }
        }
    }

    /// Whether anything was ever heard of it.
    fn is_there(&self) -> bool {
        let (out, back) = (self.sender.counters(), self.receiver.counters());
        let heard = [out.acknowledgements_received, out.requests_received, back.units_in_place, back.units_copied];
        heard.iter().any(|&count| count > 0)
    }

    /// The wait for its first answer; `listener` is the command that should run there.
    pub(super) fn presence<'b>(&'b self, listener: &'b str) -> Presence<'b> {
        Presence::of_turns(&self.name, listener, "--once, --capture")
    }

    /// The peer must answer for the first time before this.
    pub(super) fn first_deadline(&self) -> Instant {
        Instant::now() + self.transport.timeout
    }
}

fn refused(refusal: &Refusal) -> Error {
    let exit = if refusal.not_verified { Exit::NotVerified } else { Exit::Failed };
    Error::new(exit, format!("the receiver ended the transfer: {}", printable(&refusal.text)))
}

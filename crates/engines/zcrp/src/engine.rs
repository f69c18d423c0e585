//! The engine: one half, or both on one duplex channel (Z-1).

use crate::path::Path;
use crate::{Event, Receiver, Sender};
use pinnace_core::{Engine, PathEvent, Placed, PollAt, ReceivePlan, RxMeta, Time, Train};
use pinnace_wire::zcrp::{MIN_CONTROL_BYTES, TRAILER_BYTES, Trailer, is_control};

/// ZCRP over one channel: a sender, a receiver, or one of each, which talk to their opposites at the peer.
///
/// ```
/// use pinnace_core::{BufferId, Time};
/// use pinnace_zcrp::{Config, Receiver, Sender, Zcrp};
/// let mut engine = Zcrp::new(Some(Sender::new(Config::default(), Time::ZERO)), None);
/// let number = engine.sender_mut().unwrap().send(Time::ZERO, BufferId::new(0), 1000);
/// assert_eq!(number, Ok(0));
/// ```
#[derive(Debug)]
pub struct Zcrp {
    sender: Option<Sender>,
    receiver: Option<Receiver>,
    path: Path,
    /// Units have left since the engine was last drained.
    answered: bool,
    scratch: Vec<u8>,
}

impl Zcrp {
    /// An engine with these halves.
    //= Z-1
    pub fn new(sender: Option<Sender>, receiver: Option<Receiver>) -> Self {
        let mut engine = Self { sender, receiver, path: Path::default(), answered: false, scratch: Vec::new() };
        engine.acquaint();
        engine
    }

    /// The peer has introduced itself, before this engine was made, with an idle datagram of `bytes`: so it speaks of
    /// idleness, and its silence counts even while no message has begun ([`Config::peer_unproven`](crate::Config) apart).
    pub fn introduce(&mut self, bytes: usize) {
        self.credit(bytes, 1);
        if let Some(receiver) = &mut self.receiver {
            receiver.on_introduced();
        }
    }

    /// Bytes came from the peer; three times as many may be sent to it while it is not proven where it is. Public for what
    /// came before this engine was made.
    pub fn credit(&mut self, bytes: usize, datagrams: usize) {
        self.path.credit(bytes, datagrams);
    }

    /// Tells the receiving half whether there is a sending one, and both whether the peer may be somebody else.
    fn acquaint(&mut self) {
        let limits = [
            self.sender.as_ref().is_some_and(Sender::limits_amplification),
            self.receiver.as_ref().is_some_and(Receiver::limits_amplification),
        ];
        self.path.limit(limits.contains(&true));
        if let (Some(_), Some(receiver)) = (&self.sender, &mut self.receiver) {
            receiver.expect_answers();
        }
    }

    /// The sending half.
    pub fn sender(&self) -> Option<&Sender> {
        self.sender.as_ref()
    }

    /// The sending half, for calls of the application.
    pub fn sender_mut(&mut self) -> Option<&mut Sender> {
        self.sender.as_mut()
    }

    /// The receiving half.
    pub fn receiver(&self) -> Option<&Receiver> {
        self.receiver.as_ref()
    }

    /// The receiving half, for calls of the application.
    pub fn receiver_mut(&mut self) -> Option<&mut Receiver> {
        self.receiver.as_mut()
    }

    /// Gives the engine a new sending half; one that has closed is forgotten.
    pub fn set_sender(&mut self, sender: Sender) {
        self.sender = Some(sender);
        self.acquaint();
    }

    /// Gives the engine a new receiving half; one that has closed is forgotten.
    pub fn set_receiver(&mut self, receiver: Receiver) {
        self.receiver = Some(receiver);
        self.acquaint();
    }

    fn on_control(&mut self, now: Time, datagram: &[u8]) {
        if let Some(sender) = &mut self.sender {
            let is_control = sender.handle_control(now, datagram, &mut self.path);
            if let Some(receiver) = self.receiver.as_mut().filter(|_| is_control) {
                receiver.prove_peer();
            }
        } else if let Some(receiver) = &mut self.receiver {
            receiver.on_malformed();
        }
    }

    /// Whether the link hears nobody but the peer (Z-21).
    fn knows_peer(&self) -> bool {
        self.receiver.as_ref().is_none_or(Receiver::knows_peer)
    }

    fn on_malformed(&mut self) {
        if let Some(receiver) = &mut self.receiver {
            receiver.on_malformed();
        } else if let Some(sender) = &mut self.sender {
            sender.on_malformed();
        }
    }
}

impl Engine for Zcrp {
    type Event = Event;

    //= Z-2
    fn handle_datagrams(&mut self, now: Time, _meta: &RxMeta, rx: &mut Placed<'_>) {
        let mut datagrams = 0;
        let knew_peer = self.knows_peer();
        let mut stray = None;
        while let Some(segment) = stray.take().or_else(|| rx.next_segment()) {
            datagrams += 1;
            let trailer = rx.tail::<TRAILER_BYTES>(&segment).map(|tail| Trailer::parse(&tail, segment.len));
            match trailer {
                Some(Ok(Trailer::Unit(unit))) => match &mut self.receiver {
                    Some(receiver) => {
                        receiver.handle_unit(now, &unit, &segment, rx);
                        let count;
                        (count, stray) = receiver.handle_run(now, &unit, rx);
                        datagrams += count as usize;
                    }
                    None => self.on_malformed(),
                },
                Some(Ok(Trailer::Idle { message })) => match &mut self.receiver {
                    Some(receiver) => receiver.handle_idle(now, message),
                    None => self.on_malformed(),
                },
                Some(Err(_)) => self.on_malformed(),
                Some(Ok(Trailer::Control)) | None => {
                    // Too short for a unit; a small control datagram is not.
                    let mut scratch = core::mem::take(&mut self.scratch);
                    let datagram = rx.whole(&segment, &mut scratch);
                    if datagram.len() >= MIN_CONTROL_BYTES && is_control(datagram) == Some(true) {
                        self.on_control(now, datagram);
                    } else {
                        self.on_malformed();
                    }
                    self.scratch = scratch;
                }
            }
        }
        if !knew_peer && self.knows_peer() {
            self.path.forget_credit();
        }
        self.credit(rx.bytes(), datagrams);
        if let Some(receiver) = &mut self.receiver {
            receiver.end_read(now);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if let Some(sender) = &mut self.sender {
            sender.handle_timeout(now, &self.path);
        }
        if let Some(receiver) = &mut self.receiver {
            receiver.handle_timeout(now);
        }
    }

    fn handle_path_event(&mut self, _now: Time, event: PathEvent) {
        // A hint that anybody can forge; units keep their size for the life of the sender, so the driver lets the
        // network fragment them (Z-19).
        if event == PathEvent::Unreachable {
            if let Some(sender) = &mut self.sender {
                sender.handle_unreachable();
            }
            if let Some(receiver) = &mut self.receiver {
                receiver.handle_unreachable();
            }
        }
    }

    fn may_be_cut(&self) -> bool {
        self.sender.as_ref().is_some_and(Sender::may_be_cut)
    }

    fn plan_receive(&self, plan: &mut ReceivePlan) {
        if let Some(receiver) = &self.receiver {
            receiver.plan_receive(plan);
        }
    }

    fn poll_transmit(&mut self, now: Time, train: &mut Train) -> bool {
        train.begin(pinnace_core::Address::Peer, 0);
        // Answers first: the peer waits for them, while acknowledgements only free memory.
        if self.sender.as_mut().is_some_and(|sender| sender.poll_transmit(now, train, &mut self.path)) {
            self.answered = true;
            if let Some(receiver) = &mut self.receiver {
                receiver.append_report(now, train, &mut self.path);
            }
            return true;
        }
        let (path, answered) = (&mut self.path, self.answered);
        let more = self.receiver.as_mut().is_some_and(|receiver| receiver.poll_transmit(now, train, path, answered));
        self.answered &= more;
        more
    }

    fn poll_at(&self) -> PollAt {
        let sender = self.sender.as_ref().map_or(PollAt::Ingress, |sender| sender.poll_at(&self.path));
        let receiver = self.receiver.as_ref().map_or(PollAt::Ingress, |receiver| receiver.poll_at(&self.path));
        sender.min(receiver)
    }

    fn poll_event(&mut self) -> Option<Event> {
        let sent = self.sender.as_mut().and_then(Sender::poll_event);
        sent.or_else(|| self.receiver.as_mut().and_then(Receiver::poll_event))
    }

    fn handle_hold(&mut self, held: bool) {
        if let Some(sender) = &mut self.sender {
            sender.hold(held);
        }
        if let Some(receiver) = &mut self.receiver {
            receiver.hold(held);
        }
    }
}

//! The receiving role (specs/vrp.md, section 4).
//!
//! A header creates a block for a frame ([`frame`]); data packets go straight to their place in its storage, mostly because
//! [`plan`] foresaw it; [`pinnace_core::LossDecider`] says which losses are allowed; one answer a frame and drain tells
//! the sender ([`answer`]); [`crowding`] holds it back while the application is slow. What is remembered of a sender beyond its frames is in [`source`], data that came before its
//! header in [`early`].
//!
//! Always true: blocks, bytes, senders, early packets and replies stay within [`Limits`](crate::Limits); a block is in the
//! slab, in its sender's table and on the wheel, or in none of them.

mod answer;
mod crowding;
mod early;
mod frame;
mod offer;
mod plan;
mod read;
mod room;
mod rotation;
mod source;

use crate::{Config, Event, FrameId, IncomingCounters};
use answer::Reply;
use crowding::Crowding;
use early::Early;
use pinnace_core::{Address, Placed, PollAt, RxMeta, Time, TimerWheel, Train};
use pinnace_wire::vrp::{MAX_ANSWER_BYTES, Tag};
use room::Slab;
use source::Sources;
use std::collections::{BTreeMap, VecDeque};

/// Bytes of MISSING_HDR and FRAME_REFUSED: they answer nothing shorter.
const SHORT_ANSWER_BYTES: usize = 10;

/// What a timer is for.
#[derive(Clone, Copy, Debug)]
enum Timer {
    /// The life time-out of the frame in this block.
    Life(u32),
    /// A sender is forgotten.
    Forget(Address),
}

/// Receives frames from any number of senders.
#[derive(Debug)]
pub struct Incoming {
    config: Config,
    counters: IncomingCounters,
    sources: Sources,
    frames: Slab,
    next_id: u64,
    /// Storage of delivered frames that the application has not released.
    delivered: BTreeMap<FrameId, u64>,
    /// Bytes of storage and cells.
    bytes: u64,
    /// Of those, storage of delivered frames.
    delivered_bytes: u64,
    crowding: Crowding,
    /// Blocks in order of creation of which no data packet had come when they were last looked at.
    empty: VecDeque<(u32, FrameId)>,
    /// Blocks of finished frames, about in the order in which their senders were heard.
    finished: VecDeque<(u32, FrameId)>,
    early: Early,
    wheel: TimerWheel<Timer>,
    /// Blocks that have something to say.
    pending: VecDeque<(u32, FrameId)>,
    replies: VecDeque<Reply>,
    /// An answer that did not fit into the last train.
    left_over: Option<Reply>,
    /// The block of the newest data, and the packet after it: where the next one is expected.
    expected: Option<(u32, FrameId, u32)>,
    /// The block of the newest data that nobody had asked for.
    turn: Option<(u32, FrameId)>,
    events: VecDeque<Event>,
    /// Set while the endpoint says good-bye, and after: whether the application was told.
    closed: Option<bool>,
    /// Reused for control packets that lie in pieces.
    scratch: Vec<u8>,
    /// Reused for answers.
    space: Vec<u8>,
}

impl Incoming {
    /// An endpoint that has received nothing.
    pub fn new(config: Config, now: Time) -> Self {
        let space = vec![0; config.control_bytes.clamp(64, MAX_ANSWER_BYTES)];
        Self {
            config,
            counters: IncomingCounters::default(),
            sources: Sources::default(),
            frames: Slab::default(),
            next_id: 0,
            delivered: BTreeMap::new(),
            bytes: 0,
            delivered_bytes: 0,
            crowding: Crowding::default(),
            empty: VecDeque::new(),
            finished: VecDeque::new(),
            early: Early::default(),
            wheel: TimerWheel::new(now),
            pending: VecDeque::new(),
            replies: VecDeque::new(),
            left_over: None,
            expected: None,
            turn: None,
            events: VecDeque::new(),
            closed: None,
            scratch: Vec::new(),
            space,
        }
    }

    /// The application no longer needs the storage of a delivered frame: it does not count any more.
    pub fn release(&mut self, id: FrameId) {
        if let Some(bytes) = self.delivered.remove(&id) {
            self.bytes -= bytes;
            self.delivered_bytes -= bytes;
            self.crowding.on_released(bytes);
            self.let_in();
        }
    }

    /// Ends the endpoint: FRAME_REFUSED for every frame that is not complete (V-S4), and the last answer once more for every
    /// one that is; [`Event::IncomingClosed`] comes when all is said.
    //= V-S4
    pub fn close(&mut self, _: Time) {
        if self.closed.is_some() {
            return;
        }
        for index in self.frames.indices() {
            let Some(frame) = self.frames.get_mut(index) else { continue };
            if frame.incomplete().is_none() {
                // Its sender has not said that it knows: if the answer was lost, nobody answers its repetitions any more, and
                // it would take for failed what was delivered.
                frame.answer_header();
                self.announce(index);
                continue;
            }
            if frame.budget >= SHORT_ANSWER_BYTES as u64 {
                let (to, from, number) = (frame.source, frame.local, frame.number);
                self.replies.push_back(Reply::new(to, from, number, SHORT_ANSWER_BYTES, [Tag::FrameRefused(number)]));
            }
            self.end_frame(index, None, false);
        }
        self.early.clear();
        (self.expected, self.turn) = (None, None);
        self.closed = Some(false);
    }

    /// What has been seen so far.
    pub fn counters(&self) -> IncomingCounters {
        self.counters
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Frames that are kept: incomplete ones, and complete ones that their senders have not closed.
    pub fn frames(&self) -> usize {
        self.frames.len()
    }

    /// Bytes of storage and cells that count against [`Limits::bytes`](crate::Limits::bytes).
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// New frames of a sender that were refused: there was no room, or they ask for too much. Such a frame never
    /// comes. 0 for a sender of which nothing is remembered.
    pub fn refused(&self, source: &Address) -> u64 {
        self.sources.find(source).map_or(0, |source| source.refused)
    }

    /// When something valid came from a sender last; `None` if nothing is remembered of it.
    pub fn heard(&self, source: &Address) -> Option<Time> {
        self.sources.find(source).map(|source| source.heard)
    }

    /// Senders of which anything is remembered.
    pub fn sources(&self) -> usize {
        self.sources.len()
    }

    pub(crate) fn handle_datagrams(&mut self, now: Time, meta: &RxMeta, rx: &mut Placed<'_>) {
        if self.closed.is_none() {
            self.read(now, meta, rx);
        }
    }

    //= V-R17
    //= V-S11
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        let life = self.config.life_timeout;
        while let Some(timer) = self.wheel.poll_expired(now) {
            if self.closed.is_some() {
                continue;
            }
            // Timers are not moved with every packet: they look again when they go off.
            match timer {
                Timer::Life(index) => {
                    let Some(frame) = self.frames.get_mut(index) else { continue };
                    if now < frame.heard + life {
                        frame.timer = self.wheel.insert(frame.heard + life, timer);
                    } else {
                        self.end_frame(index, None, false);
                    }
                }
                Timer::Forget(address) => {
                    let Some(source) = self.sources.find_mut(&address) else { continue };
                    let at = Sources::forgotten_at(source.heard, life);
                    if now < at || !source.frames.is_empty() {
                        source.timer = self.wheel.insert(at.max(now + life), timer);
                    } else {
                        self.sources.forget(&address);
                    }
                }
            }
        }
        while let Some(((source, number), answer)) = self.early.poll_expired(now) {
            if let Some(local) = answer {
                self.reply(source, local, number, Tag::MissingHeader(number));
            }
        }
    }

    /// Queues a short answer to something that belongs to no block.
    fn reply(&mut self, to: Address, from: Option<Address>, number: u16, tag: Tag<'_>) {
        self.queue(Reply::new(to, from, number, SHORT_ANSWER_BYTES, [tag]));
    }

    fn queue(&mut self, reply: Reply) {
        if self.replies.len() < self.config.limits.replies {
            self.replies.push_back(reply);
        } else {
            self.counters.answers_withheld += 1;
        }
    }

    /// Frame `index` has something to say.
    fn announce(&mut self, index: u32) {
        if let Some(frame) = self.frames.get_mut(index)
            && !frame.is_pending
        {
            frame.is_pending = true;
            self.pending.push_back((index, frame.id));
        }
    }

    /// Answers of one length to one sender share a train: where many frames are small, a train an answer would cost both ends
    /// more than the frames.
    pub(crate) fn poll_transmit(&mut self, _: Time, train: &mut Train) -> bool {
        train.begin(Address::Peer, 0);
        if let Some(Reply { to, from, bytes }) = self.left_over.take() {
            add_answer(train, (to, from), &bytes);
        }
        while let Some((to, from, len)) = self.next_answer() {
            let bytes = &self.space[..len];
            if !add_answer(train, (to, from), bytes) {
                self.left_over = Some(Reply { to, from, bytes: bytes.to_vec() });
                break;
            }
        }
        !train.is_empty()
    }

    /// Writes the next answer into `space`: to whom, from where, and how long it is.
    fn next_answer(&mut self) -> Option<(Address, Option<Address>, usize)> {
        while let Some(&(index, id)) = self.pending.front() {
            if let Some(frame) = self.frames.get_mut(index).filter(|frame| frame.id == id) {
                if let Some(len) = frame.write_answer(&mut self.space, &mut self.counters) {
                    return Some((frame.source, frame.local, len));
                }
                frame.is_pending = false;
            }
            self.pending.pop_front();
        }
        let Reply { to, from, bytes } = self.replies.pop_front()?;
        self.counters.controls_sent += 1;
        self.space[..bytes.len()].copy_from_slice(&bytes);
        Some((to, from, bytes.len()))
    }

    /// Whether something is to be said.
    fn has_answers(&self) -> bool {
        self.left_over.is_some() || !self.pending.is_empty() || !self.replies.is_empty()
    }

    pub(crate) fn poll_at(&self) -> PollAt {
        if self.has_answers() || !self.events.is_empty() || self.closed == Some(false) {
            return PollAt::Now;
        }
        if self.closed.is_some() {
            return PollAt::Ingress;
        }
        PollAt::at(self.wheel.next_at()).min(PollAt::at(self.early.next_at()))
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        if self.closed == Some(false) && !self.has_answers() {
            self.closed = Some(true);
            return Some(Event::IncomingClosed);
        }
        None
    }
}

/// Adds an answer to the train; false if another one has to take it.
fn add_answer(train: &mut Train, way: (Address, Option<Address>), bytes: &[u8]) -> bool {
    if train.is_empty() {
        train.single(way.0, way.1, bytes);
        return true;
    }
    let fits = (train.destination(), train.source()) == way && train.has_room_for(bytes.len(), 1);
    if fits {
        train.inline(bytes);
        train.end_segment();
    }
    fits
}

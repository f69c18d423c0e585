//! Sends frames to one destination.

use super::exchange::{Losses, Sends};
use super::options::Path;
use super::packets::{self, Capacity};
use super::port::{self, OutgoingPort};
use super::{Frame, Options, OutgoingCounters, Outline, Sending};
use crate::lock::lock;
use crate::{Error, Message, Unsent};
use pinnace_core::{BufferId, ControllerKind, Time};
use pinnace_link::{Link, LinkCounters};
use pinnace_runtime::{Call, WaitError};
use pinnace_vrp::{FrameSpec, Terms, Void, Vrp};
use std::net::ToSocketAddrs;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Sends frames to one receiver. Clones are the same sender; calls may come from any thread, and frames of all of them
/// travel side by side.
///
/// When the last clone is gone and the last [`Sending`] has been waited for or dropped, the sender is closed.
#[derive(Clone, Debug)]
pub struct Sender {
    end: Arc<End>,
}

/// What clones share.
#[derive(Debug)]
pub(super) struct End {
    pub(super) port: OutgoingPort,
    sizes: Sizes,
    path: Mutex<Known>,
}

/// What says how large packets and windows are.
#[derive(Clone, Debug)]
struct Sizes {
    /// `P`, if it is fixed.
    packet_bytes: Option<u16>,
    /// `W`, if it is fixed.
    window: Option<u16>,
    /// The default contract.
    terms: Terms,
    congestion: ControllerKind,
}

/// What was known of the path when somebody looked last.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The largest `P`.
    largest: u16,
    /// Bytes of a train.
    train: usize,
    at: Instant,
}

impl Known {
    /// What is learnt of a path's MTU is heeded so soon.
    const FRESH: Duration = Duration::from_millis(100);

    fn of(link: &dyn Link) -> Self {
        let (largest, train) = (packets::largest(link.max_datagram()), link.train_limits().bytes);
        Self { largest, train, at: Instant::now() }
    }
}

impl Sender {
    /// Opens a sender to `peer`. Nothing is sent yet: the first send, or [`Sender::open`], measures the round trip.
    ///
    /// # Errors
    /// If the address does not resolve, the system has no socket for it, or the capture cannot be written.
    pub fn connect(peer: impl ToSocketAddrs, options: &Options) -> Result<Self, Error> {
        let (link, path) = port::connect(peer, options)?;
        Self::start(link, &path, options)
    }

    /// A sender on a link of one's own, which leads to its receiver.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn over(link: Box<dyn Link>, options: &Options) -> Result<Self, Error> {
        let path = Path::over(&*link);
        Self::start(link, &path, options)
    }

    fn start(link: Box<dyn Link>, path: &Path, options: &Options) -> Result<Self, Error> {
        let config = options.config(path);
        let sizes = Sizes {
            packet_bytes: options.packet_bytes,
            window: options.window,
            terms: config.terms.clone(),
            congestion: config.congestion,
        };
        let known = Mutex::new(Known::of(&*link));
        let port = port::send_over(link, config, options)?;
        Ok(Self { end: Arc::new(End { port, sizes, path: known }) })
    }

    /// Measures the first round trip, and so finds out whether somebody answers. Returns it; a later call returns the same.
    ///
    /// # Errors
    /// [`Error::FrameFailed`] if nobody answered within the life time-out, or the sender is closed.
    pub fn open(&self) -> Result<Duration, Error> {
        let port = &self.end.port;
        port.call(|Call { now, engine, state, .. }| {
            if let Some(outgoing) = engine.as_outgoing()
                && state.begin_opening()
            {
                outgoing.open(now);
            }
        })?;
        let closed = |state: &Sends| state.is_closed().then_some(Err(pinnace_vrp::Failure::Closed));
        let opened = |state: &mut Sends| closed(state).or_else(|| state.opened());
        port.wait_until(opened, None)?.map_err(Error::FrameFailed)
    }

    /// Queues a frame. It is under way from now on, waited for or not.
    ///
    /// # Errors
    /// [`Unsent`] gives the message back, with the reason: [`Error::FrameRefused`] for a contract that cannot be kept or does
    /// not fit a header, too large a frame, or too many of them.
    pub fn send(&self, frame: impl Into<Frame>) -> Result<Sending, Unsent> {
        self.send_where(frame.into(), |_, _| Ok(()))
    }

    /// The same, but [`Refused::TooMany`](super::Refused::TooMany) already where more would take too much memory, or where
    /// losses have to be [told of](Sender::take_untold) before; and not to a peer that [is gone](Sender::is_peer_gone).
    pub(crate) fn send_if_room(&self, frame: Frame) -> Result<Sending, Unsent> {
        self.send_where(frame, |state, len| match state.has_room(len) && !state.has_untold() {
            true if state.is_peer_gone() => Err(Error::FrameFailed(pinnace_vrp::Failure::PeerGone)),
            true => Ok(()),
            false => Err(Error::FrameRefused(pinnace_vrp::Refused::TooMany)),
        })
    }

    fn send_where(
        &self,
        frame: Frame,
        check: impl FnOnce(&Sends, usize) -> Result<(), Error>,
    ) -> Result<Sending, Unsent> {
        let (sizes, path) = (&self.end.sizes, self.end.look_at_path());
        let len = frame.message.len();
        let mut frame = Some(frame);
        let queued = self.end.port.call(|mut call| {
            check(call.state, len)?;
            queue(&mut call, &mut frame, sizes, &path)
        });
        self.sending(queued.unwrap_or_else(|error| Err(error.into())), frame)
    }

    /// Waits until [`Sender::send_if_room`] takes a frame of so many bytes, or says why it never will, or
    /// until the deadline.
    pub(crate) fn wait_for_room(&self, len: usize, deadline: Instant) -> Result<(), Error> {
        match self.end.port.wait_until(|state| state.has_room(len).then_some(()), Some(deadline)) {
            Err(WaitError::Timeout) => Ok(()),
            waited => Ok(waited?),
        }
    }

    /// The same, for tasks.
    pub(crate) async fn wait_for_room_async(&self, len: usize) -> Result<(), Error> {
        Ok(self.end.port.wait(|state| state.has_room(len).then_some(())).await?)
    }

    /// Says that a frame like this will be sent soon: its header goes ahead, so that the frame itself need not wait a round
    /// trip for the receiver's consent. For streams, whose next frame is like the last. Only a hint: if no frame of this
    /// size and contract is sent within two seconds, the receiver forgets it; small frames need no announcement.
    ///
    /// # Errors
    /// [`Error::FrameRefused`], as the send would.
    pub fn announce(&self, outline: &Outline) -> Result<(), Error> {
        self.announce_by(outline, |outgoing, now, spec| outgoing.announce(now, spec))
    }

    /// The same, of the very next frame, where order counts as well: if it is another one, a number [is
    /// void](Sender::take_void). Nothing happens while another one is announced.
    pub(crate) fn announce_next(&self, outline: &Outline) -> Result<(), Error> {
        self.announce_by(outline, |outgoing, now, spec| outgoing.announce_next(now, spec))
    }

    fn announce_by(
        &self,
        outline: &Outline,
        announce: impl FnOnce(&mut pinnace_vrp::Outgoing, Time, FrameSpec) -> Result<(), pinnace_vrp::Refused>,
    ) -> Result<(), Error> {
        let (sizes, path) = (&self.end.sizes, self.end.look_at_path());
        let Outline { size, terms, packet_bytes, window } = outline.clone();
        self.end.port.call(|Call { now, engine, .. }| {
            let Some(outgoing) = engine.as_outgoing() else { return Ok(()) };
            let (packet_bytes, window) = choose(outgoing, sizes, &path, size, terms.as_ref(), (packet_bytes, window));
            let (packet_bytes, window) = (Some(packet_bytes), Some(window));
            let spec = FrameSpec { terms, packet_bytes, window, ..FrameSpec::new(BufferId::new(u32::MAX), size) };
            announce(outgoing, now, spec).map_err(Error::FrameRefused)
        })?
    }

    /// As [`Options::rate`], for what is sent from now on.
    pub(crate) fn set_rate(&self, rate: Option<u64>) {
        let _ = self.end.port.call(|Call { now, engine, .. }| {
            if let Some(outgoing) = engine.as_outgoing() {
                outgoing.set_rate(now, rate);
            }
        });
    }

    /// The rate that it is held to.
    #[cfg(test)]
    pub(crate) fn rate(&self) -> Option<u64> {
        self.look(|outgoing| outgoing.rate()).flatten()
    }

    /// A number that was announced, and with which no frame is sent; each is told once.
    pub(crate) fn take_void(&self) -> Option<Void> {
        self.change(|outgoing| outgoing.take_void()).flatten()
    }

    /// The number of a frame that had begun, and whose time was over; each is told once.
    pub(crate) fn take_given_up(&self) -> Option<u16> {
        self.change(pinnace_vrp::Outgoing::take_given_up).flatten()
    }

    /// What was announced is not sent.
    pub(crate) fn void_announced(&self) {
        self.change(pinnace_vrp::Outgoing::void_announced);
    }

    fn change<R>(&self, change: impl FnOnce(&mut pinnace_vrp::Outgoing) -> R) -> Option<R> {
        self.end.port.call(|Call { engine, .. }| engine.as_outgoing().map(change)).ok().flatten()
    }

    /// Queues many frames in one call, for less time a frame than [`Sender::send`] takes. Each is queued or refused by
    /// itself.
    pub fn send_all(&self, frames: impl IntoIterator<Item = Frame>) -> Vec<Result<Sending, Unsent>> {
        let (sizes, path) = (&self.end.sizes, self.end.look_at_path());
        let mut frames: Vec<_> = frames.into_iter().map(Some).collect();
        let queued = self.end.port.call(|mut call| -> Vec<_> {
            frames.iter_mut().map(|frame| queue(&mut call, frame, sizes, &path)).collect()
        });
        let queued = queued
            .unwrap_or_else(|error| frames.iter().map(|_| Err(Error::Endpoint(error.clone()))).collect::<Vec<_>>());
        queued.into_iter().zip(frames).map(|(queued, frame)| self.sending(queued, frame)).collect()
    }

    /// `left`: the frame, if it was not queued.
    fn sending(&self, queued: Result<u64, Error>, left: Option<Frame>) -> Result<Sending, Unsent> {
        match queued {
            Ok(ticket) => Ok(Sending::new(Arc::clone(&self.end), ticket)),
            Err(error) => Err(Unsent::new(left.map(Frame::into_message), error)),
        }
    }

    /// Leaves the reading to an event loop of the caller's: the background thread only sends from now on, on time. Returns
    /// the socket's descriptor; when it is readable, call [`Sender::progress`]. Threads that wait for a frame read all the
    /// same, and need no such loop. The descriptor is valid as long as the sender, and only to be polled.
    ///
    /// # Errors
    /// If the link has no descriptor, or the background thread cannot be started.
    pub fn read_by_caller(&self) -> Result<BorrowedFd<'_>, Error> {
        port::read_by_caller(&self.end.port)
    }

    /// Reads what has arrived, and sends what follows from it. Never waits. See [`Sender::read_by_caller`].
    ///
    /// # Errors
    /// If the endpoint is of no use any more.
    pub fn progress(&self) -> Result<(), Error> {
        port::progress(&self.end.port)
    }

    /// For how long the receiver has answered nothing.
    pub(crate) fn silence(&self) -> Option<Duration> {
        self.end
            .port
            .call(|Call { now, engine, .. }| engine.as_outgoing().map(|out| now.since(out.heard())))
            .ok()
            .flatten()
    }

    /// The smoothed round trip, once it was measured.
    pub fn round_trip(&self) -> Option<Duration> {
        self.look(|outgoing| outgoing.round_trip()).flatten()
    }

    /// What the congestion controller allows now: bytes in flight, and bytes a second, if it bounds them.
    pub fn congestion(&self) -> (u64, Option<u64>) {
        self.look(|outgoing| outgoing.congestion()).unwrap_or_default()
    }

    /// The largest `P` that the path carries, in bytes, as far as is known.
    pub fn max_packet_bytes(&self) -> u16 {
        let largest = self.end.look_at_path().largest;
        self.look(|outgoing| outgoing.packet_limit()).flatten().map_or(largest, |limit| limit.min(largest))
    }

    /// Frames under way.
    pub fn frames_under_way(&self) -> usize {
        self.look(|outgoing| outgoing.frames_under_way()).unwrap_or_default()
    }

    /// What the protocol has seen.
    pub fn counters(&self) -> OutgoingCounters {
        self.look(|outgoing| outgoing.counters()).unwrap_or_default()
    }

    /// What the socket has seen.
    pub fn link_counters(&self) -> LinkCounters {
        self.end.port.link_counters()
    }

    fn look<R>(&self, look: impl FnOnce(&pinnace_vrp::Outgoing) -> R) -> Option<R> {
        self.end.port.inspect(|engine, _, _| match engine {
            Vrp::Outgoing(outgoing) => Some(look(outgoing)),
            Vrp::Incoming(_) => None,
        })
    }

    /// The frames that have failed while nobody waited for them; each is told once.
    pub(crate) fn take_untold(&self) -> Option<Losses> {
        self.end.port.inspect(|_, _, state| state.take_untold())
    }

    /// The same, and those that somebody may still wait for.
    pub(crate) fn take_losses(&self) -> Option<Losses> {
        self.end.port.inspect(|_, _, state| state.take_losses())
    }

    /// Whether nothing was heard of the peer for too long, nor since.
    pub(crate) fn is_peer_gone(&self) -> bool {
        self.end.port.inspect(|_, _, state| state.is_peer_gone())
    }

    /// Waits until no frame is under way, at most until the deadline.
    pub(crate) fn flush_until(&self, deadline: Option<Instant>) -> Result<(), Error> {
        Ok(self.end.port.wait_until(|state| state.is_quiet().then_some(()), deadline)?)
    }

    /// The same, for tasks.
    pub(crate) async fn flush_async(&self) -> Result<(), Error> {
        Ok(self.end.port.wait(|state| state.is_quiet().then_some(())).await?)
    }

    /// Whoever called does something else now: the peer is answered at once all the same.
    pub(crate) fn hand_over(&self) {
        self.end.port.hand_over();
    }

    /// Gives up all that is under way. More can be sent.
    pub(crate) fn withdraw(&self) {
        self.change(pinnace_vrp::Outgoing::withdraw);
    }

    /// Ends the sender: what is under way fails, later sends are refused, and the receiver is told.
    //= V-S4
    pub fn close(&self) {
        if self.end.close() {
            let _ =
                self.end.port.wait_until(|state| state.is_closed().then_some(()), port::deadline(port::CLOSING_TIME));
        }
    }
}

impl End {
    fn look_at_path(&self) -> Known {
        let mut known = lock(&self.path);
        if known.at.elapsed() > Known::FRESH {
            *known = self.port.with_link(|link| Known::of(&**link));
        }
        *known
    }

    /// Begins to close; false if that is of no use.
    fn close(&self) -> bool {
        let close = |Call { now, engine, state, .. }: Call<'_, Vrp, Sends>| {
            let open = !state.is_closed();
            if let Some(outgoing) = engine.as_outgoing()
                && open
            {
                outgoing.close(now);
            }
            open
        };
        self.port.call(close).unwrap_or(false)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.close();
    }
}

/// `P` and `W` of a frame: what it says, or else what the options say, or else what suits it and the path.
fn choose(
    outgoing: &pinnace_vrp::Outgoing,
    sizes: &Sizes,
    path: &Known,
    size: u64,
    terms: Option<&Terms>,
    said: (Option<u16>, Option<u16>),
) -> (u16, u16) {
    let terms = terms.unwrap_or(&sizes.terms);
    let largest = outgoing.packet_limit().map_or(path.largest, |limit| limit.min(path.largest));
    let choose_packet = || packets::packet_bytes(size, terms, largest, path.train);
    let packet_bytes = said.0.or(sizes.packet_bytes).unwrap_or_else(choose_packet);
    let choose_window = || {
        let (in_flight, rate) = outgoing.congestion();
        let rate = match (rate, outgoing.rate()) {
            (Some(found), Some(cap)) => Some(found.min(cap)),
            (found, cap) => found.or(cap),
        };
        let capacity = Capacity { congestion: sizes.congestion, in_flight, rate, round_trip: outgoing.round_trip() };
        packets::window(size, terms, packet_bytes, &capacity)
    };
    (packet_bytes, said.1.or(sizes.window).unwrap_or_else(choose_window))
}

/// Hands a frame to the engine, which takes it, or leaves it where it is.
fn queue(
    call: &mut Call<'_, Vrp, Sends>,
    place: &mut Option<Frame>,
    sizes: &Sizes,
    path: &Known,
) -> Result<u64, Error> {
    let Call { now, engine, memory, state } = call;
    let (Some(mut frame), Some(outgoing)) = (place.take(), engine.as_outgoing()) else {
        return Err(Error::FrameRefused(pinnace_vrp::Refused::Closed));
    };
    let size = frame.message.len() as u64;
    let said = (frame.packet_bytes, frame.window);
    let (packet_bytes, window) = choose(outgoing, sizes, path, size, frame.terms.as_ref(), said);
    let (repeat_until, give_up_at) = frame.deadlines(*now);
    // SAFETY: the message moves into `state`, which keeps it, untouched, until the event that takes the buffer out of the
    // table again; if the engine refuses it, the buffer is taken out here.
    let buffer = unsafe { frame.message.lend(memory) };
    let spec = FrameSpec {
        terms: frame.terms.take(),
        packet_bytes: Some(packet_bytes),
        window: Some(window),
        takes_smaller_packets: frame.takes_smaller_packets || said.0.or(sizes.packet_bytes).is_none(),
        takes_any_window: said.1.or(sizes.window).is_none(),
        repeat_until,
        give_up_at,
        ..FrameSpec::new(buffer, size)
    };
    match outgoing.send(*now, spec) {
        Ok(ticket) => {
            state.begin(ticket, buffer, frame.message, frame.is_expendable);
            Ok(ticket)
        }
        Err(refused) => {
            memory.remove(buffer);
            *place = Some(frame);
            Err(Error::FrameRefused(refused))
        }
    }
}

/// What is left of a message whose endpoint has failed.
pub(super) fn rescue(end: &End, ticket: u64) -> Option<Message> {
    end.port.inspect(|_, memory, state| state.rescue(ticket, memory))
}

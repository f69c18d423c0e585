//! One stream, carried between the network and a socket of the application.
//!
//! Nothing here waits: [`Carried::carry`] passes on what there is, both ways, and is called again when something has happened
//! to the stream ([`Endpoint::wait_any`](pinnace::qmp::Endpoint::wait_any)) or to the socket ([`Carried::on_event`],
//! edge-triggered).
//!
//! Always true: an end goes on as an end, a reset as a reset, and so does the death of this process; what has come from the
//! network and does not fit into the socket stays in the stream, whose window closes.

use super::Busy;
use super::pair::{End, mark};
use super::streams::Named;
use super::watch::Watch;
use pinnace::qmp::{Shown, Shutdown, Stream};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown as How, recv, send, sendmsg, shutdown};
use std::io::{self, IoSlice};
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often in its turn a stream is looked at for more.
const LOOKS: usize = 4;
/// Of an application that closes it shows a moment later than that it does not read, and the moment is longer where the system
/// is busy. Who only reads no more is told apart by it.
const MOMENT: Duration = Duration::from_millis(100);

/// What an application wrote before it closed has so long to arrive, if the peer goes on speaking.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How often is looked whether it has.
const GLANCE: Duration = Duration::from_millis(10);

/// What is known of the application's reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hearing {
    Hears,
    /// It does not read any more; whether it has closed shows until then.
    InDoubt(Instant),
    /// It has shut down its reading, and may write as long as it has not closed. As with TCP the peer is not told that nobody
    /// reads what it says.
    Deaf,
    /// It has closed while the peer has more to say, or did not read all of it: that ends in a reset, but not before what it
    /// wrote has arrived, if that is soon.
    Closed(Instant),
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Carried {
    stream: Arc<Stream>,
    own: OwnedFd,
    /// Looks after the other host while it is silent.
    watch: Option<Watch>,
    was_heard: bool,
    /// The socket may have something to read, or room.
    may_read: bool,
    may_write: bool,
    /// There is a byte that was said to be urgent, where reading stops once.
    is_marked: bool,
    /// That there is room is told.
    is_told_of_room: bool,
    /// The application writes no more, or has closed: what can be read ends with an end.
    is_ending: bool,
    has_closed: bool,
    hearing: Hearing,
    /// When it is looked again whether what was written has arrived.
    glance: Option<Instant>,
    /// There may be more, and it is to have another turn for that.
    is_next: bool,
    /// What was read is about to be sent.
    is_pending: bool,
    /// What was read and found no room in the stream, from `unsent_from` on.
    unsent: Vec<u8>,
    unsent_from: usize,
    /// The direction to the network, or to the application, has come to its end.
    is_sent: bool,
    is_delivered: bool,
    _named: Named,
    /// Whose port the peer is told.
    port: Option<UdpSocket>,
    _busy: Busy,
}

/// What keeps a stream's place as long as it lasts.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) named: Named,
    pub(super) port: Option<UdpSocket>,
    pub(super) busy: Busy,
}

/// How a turn has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// So many bytes were read for the network. `is_next`: there may be more, and it is to have another turn after others.
    /// `until`: it is to have one at that time, too.
    Goes { read: usize, is_next: bool, until: Option<Instant> },
    /// There is nothing left to do.
    Over,
}

/// There is nothing left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Over;

/// Who failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Network(io::ErrorKind),
    Application,
}

impl Side {
    fn network(error: &io::Error) -> Self {
        Self::Network(error.kind())
    }
}

impl Carried {
    /// `own` does not block.
    pub(super) fn new(stream: Arc<Stream>, own: OwnedFd, watch: Option<Watch>, kept: Kept) -> Self {
        let Kept { named, port, busy } = kept;
        Self {
            stream,
            own,
            watch,
            was_heard: true,
            may_read: true,
            may_write: true,
            is_marked: false,
            is_told_of_room: false,
            is_ending: false,
            has_closed: false,
            hearing: Hearing::Hears,
            glance: None,
            is_next: false,
            is_pending: false,
            unsent: Vec::new(),
            unsent_from: 0,
            is_sent: false,
            is_delivered: false,
            _named: named,
            port,
            _busy: busy,
        }
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// It is the turn that was wanted because there might be more.
    pub(super) fn has_its_turn(&mut self) {
        self.is_next = false;
    }

    /// Whether something was read that has not been sent yet.
    pub(super) fn is_pending(&self) -> bool {
        self.is_pending
    }

    pub(super) fn take_port(&mut self) -> Option<UdpSocket> {
        self.port.take()
    }

    pub(super) fn own(&self) -> &OwnedFd {
        &self.own
    }

    /// What is to be told of the application's socket. That there is room only where there was none: it would be after everything
    /// that the application has read.
    pub(super) fn events(&self) -> EventFlags {
        let always = EventFlags::IN | EventFlags::PRI | EventFlags::RDHUP | EventFlags::ET;
        if self.may_write { always } else { always | EventFlags::OUT }
    }

    /// Whether that is another now, of which nobody has been told.
    pub(super) fn has_other_events(&mut self) -> bool {
        std::mem::replace(&mut self.is_told_of_room, !self.may_write) == self.may_write
    }

    /// Something has happened to the application's socket.
    pub(super) fn on_event(&mut self, flags: EventFlags) {
        let ends = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        self.may_read |= flags.intersects(EventFlags::IN | ends);
        self.may_write |= flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR);
        self.is_ending |= flags.intersects(ends);
        self.is_marked |= flags.contains(EventFlags::PRI);
        self.has_closed |= flags.contains(EventFlags::HUP);
    }

    /// Passes on what there is: to the application at once; what is for the network is read into `buffer`, to be sent with what
    /// others have to say ([`Carried::on_sent`]).
    pub(super) fn carry(&mut self, buffer: &mut [u8]) -> Turn {
        let before = self.hearing;
        let (read, delivered) = (self.receive(buffer), self.deliver());
        let (read, has_more) = match (read, delivered) {
            (Ok(read), Ok(has_more)) => (read, has_more),
            (Err(side), delivered) => {
                if delivered == Ok(true) {
                    self.deliver_rest();
                }
                self.fail(side);
                return Turn::Over;
            }
            (Ok(_), Err(side)) => {
                self.fail(side);
                return Turn::Over;
            }
        };
        if read == 0 && self.is_sent && self.is_delivered && !matches!(self.hearing, Hearing::Closed(_)) {
            return Turn::Over;
        }
        self.is_pending = read > 0;
        let until = match self.hearing {
            Hearing::InDoubt(until) => Some(until).filter(|_| self.hearing != before),
            Hearing::Closed(until) => {
                let now = Instant::now();
                if read == 0 && (now >= until || self.has_arrived()) {
                    self.fail(Side::Application);
                    return Turn::Over;
                }
                let is_due = self.glance.is_none_or(|glance| glance <= now);
                is_due.then(|| *self.glance.insert(until.min(now + GLANCE)))
            }
            Hearing::Hears | Hearing::Deaf => None,
        };
        let has_more = has_more || (read > 0 && self.may_read);
        let is_next = has_more && !self.is_next;
        self.is_next |= has_more;
        Turn::Goes { read, is_next, until }
    }

    /// Whether all that the application wrote has arrived, or cannot.
    fn has_arrived(&self) -> bool {
        self.is_sent && self.unsent.is_empty() && self.stream.try_flush().is_some()
    }

    /// The application has closed, and the peer has not.
    fn close(&mut self) {
        if !matches!(self.hearing, Hearing::Closed(_)) {
            self.hearing = Hearing::Closed(Instant::now() + LAST_WORDS);
        }
    }

    /// So many of the bytes that were read have been sent.
    pub(super) fn on_sent(&mut self, read: &[u8], sent: io::Result<usize>) -> Result<(), Over> {
        self.is_pending = false;
        match sent {
            Ok(taken) => {
                self.unsent.extend_from_slice(&read[taken..]);
                Ok(())
            }
            Err(error) => {
                self.deliver_rest();
                self.fail(Side::network(&error));
                Err(Over)
            }
        }
    }

    /// The stream has failed: what had come whole before is the application's all the same.
    fn deliver_rest(&mut self) {
        while self.deliver() == Ok(true) {}
    }

    /// Looks, once in a while, whether the other host still has the port. True: it has not, and that is the end.
    pub(super) fn look_for_peer(&mut self) -> bool {
        let was_heard = std::mem::take(&mut self.was_heard);
        if was_heard || !self.watch.as_mut().is_some_and(|watch| watch.is_gone(&self.stream)) {
            return false;
        }
        // What is queued will not arrive, and nobody is to be told.
        self.stream.abort();
        self.fail(Side::Network(io::ErrorKind::ConnectionReset));
        true
    }

    /// The endpoint is of no use any more.
    pub(super) fn break_off(&mut self) {
        self.fail(Side::Network(io::ErrorKind::Other));
    }

    /// It cannot be carried: the peer is told as well.
    pub(super) fn give_up(&mut self) {
        self.fail(Side::Application);
    }

    fn fail(&self, side: Side) {
        match side {
            // Nothing of an end is to be said but this: when the stream is dropped, it is a forced one.
            Side::Application => self.stream.set_linger(Some(Duration::ZERO)),
            Side::Network(io::ErrorKind::TimedOut) => mark(&self.own, End::Silence),
            Side::Network(_) => {}
        }
        let _ = shutdown(&self.own, How::Both);
    }

    /// Reads what the application has written, as much as finds room in `buffer`, or sends its end on. Returns how much.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Side> {
        if self.is_sent || !self.send_rest()? {
            return Ok(0);
        }
        while self.may_read {
            match recv(&self.own, &mut *buffer, RecvFlags::DONTWAIT) {
                Ok((0, _)) => {
                    // An application that has closed altogether does not read any more either; writing to it will tell.
                    self.is_sent = true;
                    self.stream.shutdown(Shutdown::Write).map_err(|error| Side::network(&error))?;
                    return Ok(0);
                }
                Ok((read, _)) => {
                    // Fewer than were asked for are all, and behind them there is an event for what comes, but for an end
                    // that has been reported already, and for what is behind an urgent byte.
                    self.may_read = read == buffer.len() || self.is_ending || self.is_marked;
                    return Ok(read);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => (self.may_read, self.is_marked) = (false, false),
                Err(_) => {
                    self.is_sent = true;
                    self.close();
                    return Ok(0);
                }
            }
        }
        Ok(0)
    }

    /// False: there is no room yet.
    fn send_rest(&mut self) -> Result<bool, Side> {
        while self.unsent_from < self.unsent.len() {
            match self.stream.try_write(&self.unsent[self.unsent_from..]) {
                Ok(Some(taken)) => self.unsent_from += taken,
                Ok(None) => return Ok(false),
                Err(error) => return Err(Side::network(&error)),
            }
        }
        if self.unsent_from > 0 {
            (self.unsent, self.unsent_from) = (Vec::new(), 0);
        }
        Ok(true)
    }

    /// True: there may be more.
    fn deliver(&mut self) -> Result<bool, Side> {
        if let Hearing::InDoubt(until) = self.hearing {
            if self.has_closed {
                self.close();
            } else if Instant::now() < until {
                return Ok(false);
            } else {
                self.hearing = Hearing::Deaf;
            }
        }
        for _ in 0..LOOKS {
            if self.is_delivered || !self.may_write {
                return Ok(false);
            }
            let (own, is_deaf) = (&self.own, matches!(self.hearing, Hearing::Deaf | Hearing::Closed(_)));
            let (mut failed, mut offered) = (None, 0);
            let shown = self.stream.try_show(|parts| {
                offered = parts.iter().map(|part| part.len()).sum();
                if is_deaf {
                    return offered;
                }
                send_parts(own, parts).unwrap_or_else(|error| {
                    failed = Some(error);
                    0
                })
            });
            match (shown.map_err(|error| Side::network(&error))?, failed) {
                (_, Some(Errno::AGAIN)) => self.may_write = false,
                (_, Some(Errno::PIPE)) if !self.has_closed => {
                    self.hearing = Hearing::InDoubt(Instant::now() + MOMENT);
                    return Ok(false);
                }
                (_, Some(Errno::PIPE | Errno::CONNRESET)) => self.close(),
                (_, Some(_)) => return Err(Side::Application),
                // One that has closed in the end is told apart from one that only reads no more.
                (Some(Shown::Used(1..)), _) if is_deaf && self.has_closed => {
                    self.was_heard = true;
                    self.close();
                }
                (None, _) => return Ok(false),
                (Some(Shown::End), _) => {
                    mark(&self.own, End::Whole);
                    let _ = shutdown(&self.own, How::Write);
                    self.is_delivered = true;
                }
                (Some(Shown::Used(used)), _) => {
                    self.was_heard = true;
                    self.may_write = used == offered;
                }
            }
        }
        Ok(true)
    }
}

fn send_parts(own: &OwnedFd, parts: &[&[u8]]) -> Result<usize, Errno> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    loop {
        let sent = match parts {
            // Cheaper for the system than a list of parts.
            [part] => send(own, part, flags),
            parts => {
                let slices = [0, 1].map(|part| IoSlice::new(parts.get(part).copied().unwrap_or_default()));
                sendmsg(own, &slices, &mut SendAncillaryBuffer::default(), flags)
            }
        };
        match sent {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

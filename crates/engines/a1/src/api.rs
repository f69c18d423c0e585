//! What the application calls.

use crate::cast::most_bytes;
use crate::connection::{Birth, Connection, Phase, Role};
use crate::engine::{A1, Listener};
use crate::outgoing::{self, Message};
use crate::{ConnectionId, Facts, Failure, Output, Qos, Readable, Refused, Status, qos};
use core::time::Duration;
use pinnace_core::{Address, BufferRange, Time};
use pinnace_wire::a1::{self, CloseCode};

impl A1 {
    /// Connections from others are accepted, with the maximum of [`Config`](crate::Config) at most; `backlog` of them may
    /// wait for [`A1::taken`]. `joins`: groups are joined ([`Event::Join`](crate::Event::Join)).
    ///
    /// # Errors
    /// [`Refused::Listening`], [`Refused::Impossible`] (the maximum is), [`Refused::ShutDown`].
    pub fn listen(&mut self, backlog: usize, joins: bool) -> Result<(), Refused> {
        if self.listener.is_some() {
            return Err(Refused::Listening);
        }
        self.check(&self.shared.config.max_qos)?;
        self.listener = Some(Listener { backlog: backlog.max(1), waiting: 0, joins });
        Ok(())
    }

    /// No more connections are accepted. Those that were go on.
    pub fn stop_listening(&mut self) {
        self.listener = None;
    }

    /// The application has taken a connection that [`Event::Accepted`](crate::Event::Accepted) told of: it no longer counts
    /// in the backlog.
    pub fn taken(&mut self, connection: ConnectionId) {
        let Some(found) = self.connections.lookup_mut(connection.0) else { return };
        if core::mem::take(&mut found.is_waiting)
            && let Some(listener) = &mut self.listener
        {
            listener.waiting = listener.waiting.saturating_sub(1);
        }
    }

    /// Answers [`Event::Join`](crate::Event::Join): whether the group was joined. Only then the connection is accepted.
    /// Returns false if nobody waits for that any more: then no [`Event::Leave`](crate::Event::Leave) follows either, and
    /// the group is to be left.
    //= A-15
    pub fn answer_join(&mut self, now: Time, connection: ConnectionId, has_joined: bool) -> bool {
        let key = connection.0;
        let Some(found) = self.connections.lookup_mut(key).filter(|found| found.phase == Phase::Joining) else {
            return false;
        };
        found.phase = Phase::Open;
        if let Some(group) = found.group.filter(|_| has_joined) {
            found.has_joined = true;
            self.by_group.insert((found.peer, group.identifier()), key);
        }
        self.settle(now, key);
        true
    }

    /// Opens a connection to whoever listens at `to`, which calls itself `destination`.
    ///
    /// # Errors
    /// [`Refused::Impossible`], [`Refused::BeyondMaximum`], [`Refused::TooManyConnections`], [`Refused::ShutDown`].
    //= A-12
    pub fn open(
        &mut self,
        now: Time,
        to: Address,
        destination: a1::Address,
        qos: Qos,
    ) -> Result<ConnectionId, Refused> {
        self.check(&qos)?;
        let source = self.shared.config.local;
        let start = self.shared.secrets.draw() as u32;
        let (role, phase, from, group) = (Role::Opener, Phase::Opening, None, None);
        let birth = Birth { role, phase, peer: to, from, source, destination, qos, group, start };
        let key = self.new_connection(now, &birth).ok_or(Refused::TooManyConnections)?;
        self.shared.counters.connections_opened += 1;
        self.settle(now, key);
        Ok(ConnectionId(key))
    }

    /// The connection, if it has not ended as far as the application is concerned.
    fn live(&mut self, connection: ConnectionId) -> Result<&mut Connection, Refused> {
        match self.connections.lookup_mut(connection.0) {
            Some(found) if !found.is_told => Ok(found),
            _ => Err(Refused::NoConnection),
        }
    }

    /// Whether [`send`](Self::send) would take a message of `len` bytes now: for who has to copy it before.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn check_send(&mut self, connection: ConnectionId, len: u64) -> Result<(), Refused> {
        self.admitting(connection, len).map(drop)
    }

    /// The connection, if it takes a message of `len` bytes now.
    fn admitting(&mut self, connection: ConnectionId, len: u64) -> Result<&mut Connection, Refused> {
        let found = self.live(connection)?;
        if found.phase == Phase::Opening || found.phase == Phase::Joining {
            return Err(Refused::NotConnected);
        }
        if found.phase != Phase::Open || found.close_by.is_some() {
            return Err(Refused::NoConnection);
        }
        if found.cast.is_some() {
            return Err(Refused::Sink);
        }
        let most = most_bytes(found.outgoing.terms());
        if len > most {
            return Err(Refused::TooLarge { most });
        }
        if found.outgoing.is_full() {
            found.wants_room = true;
            return Err(Refused::Full);
        }
        Ok(found)
    }

    /// Queues a message; returns the ticket that [`Event::Sent`](crate::Event::Sent) names.
    ///
    /// # Errors
    /// [`Refused::Full`]: [`Event::Writable`](crate::Event::Writable) follows; [`Refused::TooLarge`],
    /// [`Refused::NotConnected`], [`Refused::NoConnection`], [`Refused::Sink`]. Nothing is queued then.
    //= A-16
    //= A-20
    pub fn send(&mut self, now: Time, connection: ConnectionId, output: Output) -> Result<u64, Refused> {
        let ticket = self.shared.next_ticket();
        let found = self.admitting(connection, output.len)?;
        let deadline = output.deadline.or_else(|| found.deadline(now));
        let Output { buffer, offset, len, .. } = output;
        match found.outgoing.queue(&Message { ticket, buffer, offset, len, deadline }) {
            Ok(()) => {}
            Err(outgoing::Refused::Full) => {
                found.wants_room = true;
                return Err(Refused::Full);
            }
            Err(outgoing::Refused::TooLarge | outgoing::Refused::TooManyBlocks) => {
                return Err(Refused::TooLarge { most: most_bytes(found.outgoing.terms()) });
            }
        }
        // One of several that are queued in a row: what follows from all of them follows from the last.
        let found = self.connections.lookup(connection.0);
        if !found.is_some_and(|found| found.is_waiting_for_more(&self.shared)) {
            self.settle(now, connection.0);
        }
        Ok(ticket)
    }

    /// Asks the peer whether it is there. One that does not answer is given up, see [`Config::silence`](crate::Config).
    //= A-8
    pub fn ask(&mut self, now: Time, connection: ConnectionId) {
        if let Ok(found) = self.live(connection) {
            found.sync.is_due = true;
            self.settle(now, connection.0);
        }
    }

    /// What can be taken now.
    //= A-17
    pub fn readable(&self, connection: ConnectionId) -> Option<Readable> {
        let part = self.connections.lookup(connection.0)?.incoming.readable()?;
        Some(readable(&part))
    }

    /// Where the messages lie that have come whole and wait to be read, the first before the others. Of one that has been
    /// begun, [`A1::readable`] says where the rest lies.
    pub fn unread(&self, connection: ConnectionId) -> impl Iterator<Item = BufferRange> + '_ {
        self.connections.lookup(connection.0).into_iter().flat_map(|found| found.incoming.unread())
    }

    /// Whether something has been lost behind what was consumed last: all that is ever seen of messages that are lost at
    /// the end.
    pub fn is_lost(&self, connection: ConnectionId) -> bool {
        self.connections.lookup(connection.0).is_some_and(|found| found.incoming.is_lost())
    }

    /// The application has taken the first `bytes` bytes of [`A1::readable`]; 0 takes an empty message.
    //= A-9
    pub fn consume(&mut self, now: Time, connection: ConnectionId, bytes: u32) {
        let Some(found) = self.connections.lookup_mut(connection.0) else { return };
        found.incoming.consume(bytes);
        self.settle(now, connection.0);
    }

    /// Consumes the message in front, if it is whole: its storage is the caller's now, to be given back to the driver.
    //= A-9
    //= A-19
    pub fn take_message(&mut self, now: Time, connection: ConnectionId) -> Option<Readable> {
        let part = self.connections.lookup_mut(connection.0)?.incoming.take_message()?;
        self.settle(now, connection.0);
        Some(readable(&part))
    }

    /// From now on nobody reads: what has come and what comes is dropped, and there is room behind it as if it had been read.
    //= A-9
    pub fn discard_incoming(&mut self, now: Time, connection: ConnectionId) {
        let Some(found) = self.connections.lookup_mut(connection.0) else { return };
        found.discards = true;
        self.settle(now, connection.0);
    }

    /// Changes the quality of service, within the maximum. If a change is under way, this one follows it (and takes the
    /// place of one that waits already). A block size above the one that the peer has agreed to stays that.
    ///
    /// # Errors
    /// [`Refused::BeyondMaximum`]: also for block size, checksum and retransmission, which cannot change;
    /// [`Refused::Impossible`], [`Refused::NotConnected`], [`Refused::NoConnection`].
    //= A-12
    pub fn set_qos(&mut self, now: Time, connection: ConnectionId, record: Qos) -> Result<(), Refused> {
        let found = self.live(connection)?;
        let (now_is, peer) = (found.qos, found.peer_qos);
        if found.phase != Phase::Open {
            return Err(Refused::NotConnected);
        }
        let agreed = Qos { block_size: record.block_size.min(peer.block_size), ..record };
        if qos::changed(&now_is, &agreed) != agreed {
            return Err(Refused::BeyondMaximum);
        }
        self.check(&record)?;
        let found = self.live(connection)?;
        found.change.wanted = Some(agreed);
        self.settle(now, connection.0);
        Ok(())
    }

    /// What is known of a connection.
    pub fn facts(&self, now: Time, connection: ConnectionId) -> Option<Facts> {
        let found = self.connections.lookup(connection.0)?;
        let terms = found.outgoing.terms();
        Some(Facts {
            peer: found.peer,
            qos: found.qos,
            peer_qos: found.peer_qos,
            block_bytes: terms.block_bytes,
            windows: (terms.window, found.receiving().window),
            round_trip: found.rtt.smoothed(),
            shortest_round_trip: found.rtt.minimum(),
            sent: found.outgoing.sent(),
            acked: found.outgoing.acked(),
            edge: found.outgoing.edge(),
            queued: found.outgoing.queued_blocks(),
            expected: found.incoming.next_expected(),
            lost: found.lost,
            repeated: found.repeated,
            skipped: found.skipped,
            has_joined: found.has_joined,
            is_open: found.phase == Phase::Open && !found.is_told,
            is_unanswered: found.close_is_unanswered,
            status: found.status(now),
        })
    }

    /// The status of a connection that belongs to no block. QOS_CHANGED is told once.
    //= A-17
    pub fn status(&mut self, now: Time, connection: ConnectionId) -> Status {
        let Some(found) = self.connections.lookup_mut(connection.0) else { return Status::NONE };
        let status = found.status(now);
        found.qos_has_changed = false;
        status
    }

    /// Ends the connection when everything queued is acknowledged (without retransmission: has left), or `linger` is over.
    ///
    /// # Errors
    /// [`Refused::NoConnection`].
    //= A-18
    pub fn close(&mut self, now: Time, connection: ConnectionId, linger: Duration) -> Result<(), Refused> {
        let found = self.live(connection)?;
        match found.phase {
            Phase::Opening | Phase::Joining => return self.abort(now, connection),
            Phase::Open if found.close_by.is_none() => {
                found.close_by = Some(now + linger);
                found.change.wanted = None;
            }
            _ => {}
        }
        self.settle(now, connection.0);
        Ok(())
    }

    /// Ends the connection at once: what is not acknowledged is dropped, and the peer is told.
    ///
    /// # Errors
    /// [`Refused::NoConnection`].
    //= A-18
    pub fn abort(&mut self, now: Time, connection: ConnectionId) -> Result<(), Refused> {
        let key = connection.0;
        match self.connections.lookup_mut(key) {
            Some(found) if !found.is_told => found.fail(&mut self.shared, Failure::Aborted),
            _ => return Err(Refused::NoConnection),
        }
        self.settle(now, key);
        Ok(())
    }

    /// The application needs the connection no more: what it has not read is dropped, and if it has not ended, it is
    /// aborted.
    pub fn release(&mut self, now: Time, connection: ConnectionId) {
        let key = connection.0;
        let Some(found) = self.connections.lookup_mut(key) else { return };
        if !found.is_told {
            found.fail(&mut self.shared, Failure::Aborted);
        }
        found.is_released = true;
        found.incoming.close();
        self.settle(now, key);
    }

    /// The application needs the connection no more, but what it has queued may still arrive, within `linger`; what it has
    /// not read is dropped. [`A1::release`] is not needed after this.
    //= A-18
    pub fn abandon(&mut self, now: Time, connection: ConnectionId, linger: Duration) {
        let key = connection.0;
        if self.close(now, connection, linger).is_err() {
            self.release(now, connection);
            return;
        }
        let Some(found) = self.connections.lookup_mut(key) else { return };
        found.is_abandoned = true;
        found.incoming.close();
        self.settle(now, key);
    }

    /// Says good-bye: CLOSE 1 to everybody, once; [`Event::ShutDown`](crate::Event::ShutDown) follows when they have left.
    /// Nothing that arrives is heard any more.
    pub fn shut_down(&mut self, now: Time) {
        if self.is_shut_down.is_some() {
            return;
        }
        let live: Vec<_> = self.connections.iter().map(|(key, _)| key).collect();
        for key in live {
            let Some(found) = self.connections.lookup_mut(key) else { continue };
            let is_over = found.is_told && found.peer_has_closed;
            let says = matches!(found.phase, Phase::Open | Phase::Closing) && !is_over;
            if says {
                found.say_close(CloseCode::Aborted);
            }
            found.conclude(&mut self.shared, Err(Failure::Aborted));
            if says {
                let reply = found.last_words(now);
                self.shared.replies.extend(reply);
            }
            found.phase = Phase::Over;
            self.settle(now, key);
        }
        self.is_shut_down = Some(false);
    }

    /// How long peers that have closed may still ask for the answer to their CLOSE, which may have been lost, or how long
    /// until peers whose connections were aborted are told again, as long as they have not answered and were told less than
    /// three times: until then whoever drives the engine should go on, and no peer waits for somebody who is gone. It follows
    /// their round trips, three seconds at most. `None`: nobody will ask; no peer has closed, or not of late.
    //= A-18
    pub fn parting(&self, now: Time) -> Option<Duration> {
        let last = self.connections.iter().filter_map(|(_, connection)| connection.parts_at(now)).max()?;
        (last > now).then(|| last.since(now))
    }

    /// Whether nobody is left to be waited for: every connection has ended, but those to whom nothing is to be said and of
    /// whom nothing has come but an OPEN, which anybody may have sent in their name.
    pub fn is_quiet(&self) -> bool {
        self.connections.iter().all(|(_, connection)| connection.is_told || connection.may_be_nobodys())
    }
}

fn readable(part: &crate::incoming::Part) -> Readable {
    let status = Status::NONE
        .with_if(part.starts, Status::START)
        .with_if(part.ends, Status::END)
        .with_if(part.is_lost, Status::LOST);
    Readable { range: part.range, status, is_whole: part.is_whole, is_final: part.is_final }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Event;

    #[test]
    fn events_say_nothing_of_connections_that_never_were() {
        let mut engine = A1::new(crate::Config::default(), Time::ZERO);
        assert_eq!(engine.listen(1, false), Ok(()));
        assert_eq!(engine.listen(1, false), Err(Refused::Listening));
        let id = engine.open(Time::ZERO, Address::Peer, a1::Address::default(), engine.config().max_qos);
        let id = id.expect("there is room");
        engine.release(Time::ZERO, id);
        assert_eq!(engine.connections(), 0);
        let events: Vec<_> = core::iter::from_fn(|| pinnace_core::Engine::poll_event(&mut engine)).collect();
        assert_eq!(
            events,
            [Event::Readable { connection: id }, Event::Closed { connection: id, result: Err(Failure::Aborted) }]
        );
        assert_eq!(
            engine.send(Time::ZERO, id, Output::new(pinnace_core::BufferId::new(0), 1)),
            Err(Refused::NoConnection)
        );
    }
}

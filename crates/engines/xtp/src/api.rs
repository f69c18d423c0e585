//! What the application calls.

use crate::accept::Listener;
use crate::context::{Context, EndDue, Phase, Role};
use crate::ended::EndedBy;
use crate::engine::{Birth, Xtp};
use crate::incoming::Readable;
use crate::outgoing::{Asking, Chunk};
use crate::{Close, ContextId, ControlBlock, Facts, ListenerId, Output, Patience, Refused, Service, Services};
use core::net::IpAddr;
use core::time::Duration;
use pinnace_core::{Address, BufferId, BufferRange, ContextKey, Time};
use pinnace_wire::xtp::{Code, Codec, HostPair, Value};
use std::sync::Arc;

/// Who sends so soon after something has come answers it.
const AT_ONCE: Duration = Duration::from_micros(100);

/// An END that left longer ago has been asked for if it was lost.
const RECENT: Duration = Duration::from_secs(1);

impl Xtp {
    /// Listens at the destination port of the block's address, for the services offered. What the block says besides
    /// holds for every context that is accepted.
    ///
    /// # Errors
    /// [`Refused::Port`], [`Refused::Unsupported`] (a multicast service: groups are joined), [`Refused::Sort`].
    //= X-5
    pub fn listen(&mut self, block: ControlBlock, services: Services) -> Result<ListenerId, Refused> {
        self.check(&block)?;
        let port = block.address_segment.destination_port;
        if port == 0 || self.ports.contains_key(&port) || self.listeners.len() >= self.shared.config.limits.listeners {
            return Err(Refused::Port);
        }
        let id = self.next_listener_id();
        self.ports.insert(port, id);
        self.listeners.insert(id, Listener { block: Arc::new(block), services, ring: None, left: None });
        Ok(id)
    }

    /// As [`Xtp::listen`], for one context only, whose receive ring is the application's `ring` of so many bytes.
    ///
    /// # Errors
    /// As [`Xtp::listen`].
    pub fn listen_once(
        &mut self,
        block: ControlBlock,
        services: Services,
        ring: Option<(BufferId, u64)>,
    ) -> Result<ListenerId, Refused> {
        let id = self.listen(block, services)?;
        if let Some(listener) = self.listeners.get_mut(&id) {
            (listener.ring, listener.left) = (ring, Some(1));
        }
        Ok(id)
    }

    /// No more contexts are accepted there. Those that were go on.
    pub fn stop_listening(&mut self, listener: ListenerId) {
        match self.listeners.remove(&listener) {
            Some(listener) => {
                self.ports.remove(&listener.port());
            }
            None => self.stop_listening_for_group(listener),
        }
    }

    pub(crate) fn next_listener_id(&mut self) -> ListenerId {
        self.next_listener += 1;
        ListenerId(self.next_listener - 1)
    }

    fn check(&self, block: &ControlBlock) -> Result<(), Refused> {
        if self.is_shut_down.is_some() {
            return Err(Refused::ShutDown);
        }
        let is_xtp40 = self.shared.config.codec == Codec::Xtp40;
        if is_xtp40 && block.sort_value > u32::from(u16::MAX) {
            return Err(Refused::Sort);
        }
        if block.service.is_group() {
            return Err(Refused::Unsupported);
        }
        Ok(())
    }

    /// A context to whoever listens at the block's address, reached at `to`. Nothing leaves before the first output.
    ///
    /// # Errors
    /// [`Refused::TooManyContexts`], [`Refused::Port`] (the destination port is 0), [`Refused::Sort`],
    /// [`Refused::Unsupported`].
    //= X-3
    pub fn open(&mut self, now: Time, to: Address, mut block: ControlBlock) -> Result<ContextId, Refused> {
        self.check(&block)?;
        if block.address_segment.destination_port == 0 {
            return Err(Refused::Port);
        }
        if block.address_segment.source_port == 0 {
            block.address_segment.source_port = self.shared.config.local_port;
        }
        fill_source(&mut block, self.shared.config.local);
        let start = self.shared.secrets.draw();
        let service = block.service;
        let birth = Birth { role: Role::Initiator, phase: Phase::Fresh, peer: to, from: None, start, service };
        let block = match &self.newest_block {
            Some(newest) if **newest == block => Arc::clone(newest),
            _ => Arc::clone(self.newest_block.insert(Arc::new(block))),
        };
        let key = self.new_context(now, &birth, block).ok_or(Refused::TooManyContexts)?;
        self.shared.counters.contexts_opened += 1;
        Ok(ContextId(key))
    }

    /// Sends the FIRST now, without data and asking for a status, instead of with the first output. Data may follow it
    /// without waiting.
    ///
    /// # Errors
    /// [`Refused::NoContext`].
    //= X-5
    pub fn connect(&mut self, now: Time, context: ContextId) -> Result<(), Refused> {
        self.change(now, context, |context| {
            if context.phase == Phase::Fresh && context.role == Role::Initiator {
                context.first.is_alone = true;
                context.begin(now);
            }
            Ok(())
        })
    }

    /// Queues an output; returns the ticket that [`Event::Sent`](crate::Event::Sent) names. The first makes a FIRST.
    ///
    /// # Errors
    /// [`Refused`]; nothing is queued then.
    //= X-5
    //= X-17
    pub fn send(&mut self, now: Time, context: ContextId, output: Output) -> Result<u64, Refused> {
        let ticket = self.shared.next_ticket();
        let is_tagged = output.btag.is_some();
        let found = self.contexts.lookup(context.0);
        let most = found.map_or(0, |found| found.most_of_datagram(&self.shared, is_tagged));
        let has_messages = self.shared.config.has_messages;
        self.change(now, context, |context| {
            if !has_messages && (output.eom || output.btag.is_some()) {
                return Err(Refused::Unsupported);
            }
            if context.outgoing.end().is_some() || context.phase == Phase::Over || context.is_told {
                return Err(Refused::Closed);
            }
            let service = context.service;
            if service.is_datagram() && output.len > u64::from(most) {
                return Err(Refused::TooLarge { most });
            }
            if output.len == 0 && !(service.is_one_message() && output.eom) {
                return Err(Refused::Empty);
            }
            let waiting = context.waiting();
            if !output.joins && waiting > 0 && waiting + output.len > u64::from(context.block.wbufsize) {
                return Err(Refused::Full);
            }
            let ends = output.eom && service.is_one_message();
            let Output { buffer, offset, len, eom, btag, .. } = output;
            context.outgoing.queue(Chunk { ticket, buffer, offset, len, eom, btag });
            if output.asks_when_delivered {
                context.asks_at.push_back((context.outgoing.queued(), Asking::Deferred));
            } else if output.asks {
                context.asks_at.push_back((context.outgoing.queued(), Asking::Status));
            }
            if ends || output.is_last {
                context.outgoing.shut();
            }
            if service == Service::Connection {
                context.is_answering = now.since(context.last_heard) <= AT_ONCE;
                if context.answer_by.is_some() {
                    context.owe_unasked();
                }
            }
            context.answer_by = None;
            context.begin(now);
            Ok(ticket)
        })
    }

    /// Asks the peer for a status, in a packet of its own: at once (SREQ), or when it has delivered what it got (DREQ).
    ///
    /// # Errors
    /// [`Refused::NoContext`].
    //= X-7
    pub fn ask(&mut self, now: Time, context: ContextId, when_delivered: bool) -> Result<(), Refused> {
        self.change(now, context, |context| {
            match context.service {
                // A receiver asks nothing, and nobody answers streams of service 5.
                Service::UnackMulticast => return Ok(()),
                Service::Multicast if context.is_member() => return Ok(()),
                _ => {}
            }
            let when_delivered = when_delivered && !context.is_group();
            context.ask_due = Some(if when_delivered { Asking::Deferred } else { Asking::Status });
            context.begin(now);
            Ok(())
        })
    }

    /// Tells the peer how far we are, although it did not ask: a status in a packet of its own.
    ///
    /// # Errors
    /// [`Refused::NoContext`].
    //= X-7
    pub fn report(&mut self, now: Time, context: ContextId) -> Result<(), Refused> {
        self.change(now, context, |context| {
            if context.phase == Phase::Active && context.heard {
                context.owe_unasked();
            }
            Ok(())
        })
    }

    /// The outgoing stream ends behind what is queued (WCLOSE). The incoming one goes on.
    ///
    /// # Errors
    /// [`Refused::NoContext`].
    //= X-20
    pub fn finish(&mut self, now: Time, context: ContextId) -> Result<(), Refused> {
        let key = context.0;
        let found = self.contexts.lookup_mut(key).ok_or(Refused::NoContext)?;
        if found.phase == Phase::Fresh && found.service.is_one_message() {
            // There is no message, so nothing leaves: an empty one would be one, too.
            found.phase = Phase::Over;
            found.conclude(&mut self.shared, Ok(()));
            self.settle(now, key);
            return Ok(());
        }
        self.change(now, context, |context| {
            if context.outgoing.end().is_none() {
                context.outgoing.shut();
            }
            context.begin(now);
            Ok(())
        })
    }

    /// Ends the context. What has come whole may still be read.
    ///
    /// # Errors
    /// [`Refused::NoContext`].
    //= X-20
    pub fn close(&mut self, now: Time, context: ContextId, how: Close) -> Result<(), Refused> {
        if let Some(found) = self.contexts.lookup(context.0).filter(|found| found.is_group()) {
            match how {
                // Who has everything still answers, until the sender ends the stream.
                Close::Full | Close::Abbreviated if !found.is_member() => return self.finish(now, context),
                Close::Full | Close::Abbreviated if found.incoming.is_complete() => return Ok(()),
                Close::Forced if !found.is_member() => {}
                _ => return self.leave(now, context),
            }
        }
        match how {
            Close::Full => self.finish(now, context),
            Close::Abbreviated => {
                self.change(now, context, |context| {
                    if context.role == Role::Initiator {
                        context.is_abbreviated = true;
                        // RCLOSE would have gone with it.
                        if context.wclose_sent && !context.service.is_one_message() {
                            context.stop_reading();
                        }
                    }
                    Ok(())
                })?;
                let given_up = self.contexts.lookup_mut(context.0).filter(|found| found.peer_reading.is_broken_off());
                if let Some(found) = given_up.filter(|found| found.role == Role::Initiator) {
                    // There is nothing left to wait for.
                    found.give_up(&mut self.shared);
                }
                self.finish(now, context)
            }
            Close::Forced => {
                let key = context.0;
                let Some(context) = self.contexts.lookup_mut(key) else { return Err(Refused::NoContext) };
                if context.phase == Phase::Active {
                    // Nobody knows of us before a FIRST has left; whether one has come that is not answered yet, or whose
                    // answer lies unread, we do not know.
                    let may_be_known = context.heard || (context.role == Role::Initiator && context.first.has_left);
                    if may_be_known && context.may_say(&self.shared) {
                        context.end_due = EndDue::Alone;
                    }
                }
                if context.phase != Phase::Over {
                    context.remember_first(&mut self.shared, now, EndedBy::Us);
                }
                context.phase = Phase::Over;
                context.conclude(&mut self.shared, Err(crate::Failure::Aborted));
                self.settle(now, key);
                Ok(())
            }
        }
    }

    /// The application reads no more (RCLOSE): the peer drops what it has not sent.
    ///
    /// # Errors
    /// [`Refused::NoContext`].
    //= X-20
    pub fn stop_reading(&mut self, now: Time, context: ContextId) -> Result<(), Refused> {
        if let Some(found) = self.contexts.lookup(context.0).filter(|found| found.is_group()) {
            // Who has everything goes on answering.
            let is_reading = found.is_member() && !found.incoming.is_complete();
            return if is_reading { self.leave(now, context) } else { Ok(()) };
        }
        self.change(now, context, |context| {
            context.stop_reading();
            Ok(())
        })
    }

    /// What can be read now.
    pub fn readable(&self, context: ContextId) -> Option<Readable> {
        self.contexts.lookup(context.0).map(|context| context.incoming.readable())
    }

    /// The holes among the next `bytes` bytes that can be read, of a stream without errors: (offset from the next byte to
    /// be read, bytes).
    //= X-15
    pub fn holes(&self, context: ContextId, bytes: u64) -> Vec<(u64, u64)> {
        let Some(context) = self.contexts.lookup(context.0) else { return Vec::new() };
        let holes = context.incoming.holes().take_while(|hole| hole.start < bytes);
        holes.map(|hole| (hole.start, hole.end.min(bytes) - hole.start)).collect()
    }

    /// The application has taken `bytes` bytes (at most what [`Xtp::readable`] shows): their room is the peer's again.
    //= X-8
    pub fn consume(&mut self, now: Time, context: ContextId, bytes: u64) {
        let key = context.0;
        let Some(context) = self.contexts.lookup_mut(key) else { return };
        let was_complete = context.incoming.is_complete();
        let is_due = context.incoming.consume(bytes);
        self.on_consumed(now, key, was_complete, is_due);
    }

    /// Takes the piece of storage that the next bytes lie in, and consumes them: where in the buffer they are. The buffer is
    /// the application's. `None` if nothing is there, or if the piece is not full and something is missing behind them:
    /// [`Xtp::readable`] and [`Xtp::consume`] always work.
    ///
    /// For engines with [`Config::area_bytes`](crate::Config::area_bytes).
    pub fn take_area(&mut self, now: Time, context: ContextId) -> Option<BufferRange> {
        let key = context.0;
        let context = self.contexts.lookup_mut(key)?;
        let was_complete = context.incoming.is_complete();
        let (range, is_due) = context.incoming.take_area()?;
        context.uncount(&mut self.shared);
        self.on_consumed(now, key, was_complete, is_due);
        Some(range)
    }

    /// The application has taken bytes.
    fn on_consumed(&mut self, now: Time, key: ContextKey, was_complete: bool, has_opened: bool) {
        let Some(context) = self.contexts.lookup_mut(key) else { return };
        let has_completed = context.incoming.is_complete() && !was_complete;
        while let Some(buffer) = context.incoming.poll_filled().or_else(|| context.incoming.take_outgrown()) {
            context.give_back(&mut self.shared, buffer);
        }
        if context.phase == Phase::Active {
            if has_completed {
                // Room was all that the end of a stream without errors waited for.
                context.on_complete(now);
                self.shared.tell_readable(context.id());
            } else if has_opened {
                context.owe_unasked();
            }
            //= X-7
            while !context.is_member()
                && let Some(sync) = context.pop_deferred()
            {
                context.owe(sync);
            }
        }
        if context.ring_bytes > 0 && context.incoming.readable().len == 0 {
            context.ring_idle_since = Some(now);
            // A complete stream needs it no longer; and where memory is short, others need it sooner.
            let is_short = self.shared.bytes > self.shared.config.limits.bytes / 2;
            while (context.incoming.is_complete() || is_short)
                && context.ring_bytes > 0
                && let Some(buffer) = context.incoming.take_ring()
            {
                context.give_back(&mut self.shared, buffer);
            }
        }
        self.settle(now, key);
    }

    /// The application has taken the datagram that waited for it to be acknowledged ([`Event::Datagram`]).
    ///
    /// [`Event::Datagram`]: crate::Event::Datagram
    pub fn delivered(&mut self, now: Time, context: ContextId) {
        let key = context.0;
        let Some(context) = self.contexts.lookup_mut(key) else { return };
        if let Some((_, sync)) = context.deferred.pop_back() {
            context.deferred.clear();
            context.end_with_status(now, &mut self.shared, sync);
        }
        self.settle(now, key);
    }

    /// The application could not take the datagram that waited for it to be acknowledged: it is not, and may come again.
    pub fn not_taken(&mut self, context: ContextId) {
        let key = context.0;
        if self.contexts.lookup(key).is_some_and(|context| !context.deferred.is_empty()) {
            self.forget(key);
        }
    }

    /// The application has taken so many datagrams ([`Event::Datagram`](crate::Event::Datagram)), of so many bytes in all:
    /// they no longer count against [`Limits`](crate::Limits).
    pub fn release_datagrams(&mut self, count: u64, bytes: u64) {
        self.shared.bytes = self.shared.bytes.saturating_sub(bytes);
        self.shared.datagrams = self.shared.datagrams.saturating_sub(count);
    }

    /// Memory for the incoming stream, filled behind what was posted before ([`Service::BulkData`]). Comes back with
    /// [`Event::Filled`](crate::Event::Filled).
    ///
    /// # Errors
    /// [`Refused::NoContext`]; [`Refused::Unsupported`] if the context has a ring.
    //= X-8
    pub fn post(
        &mut self,
        now: Time,
        context: ContextId,
        buffer: BufferId,
        offset: u64,
        len: u64,
    ) -> Result<(), Refused> {
        self.change(now, context, |context| {
            if !context.incoming.takes_areas() || len == 0 {
                return Err(Refused::Unsupported);
            }
            let is_due = context.incoming.post(buffer, offset, len);
            if is_due && context.phase == Phase::Active && context.heard {
                context.owe_unasked();
            }
            Ok(())
        })
    }

    /// The receive ring, of the application's memory: before anything has come.
    ///
    /// # Errors
    /// [`Refused::NoContext`]; [`Refused::Unsupported`] if it has memory already, or there are no bytes.
    //= X-4
    pub fn set_ring(&mut self, now: Time, context: ContextId, buffer: BufferId, bytes: u64) -> Result<(), Refused> {
        self.change(now, context, |context| {
            if context.incoming.set_ring(buffer, bytes) { Ok(()) } else { Err(Refused::Unsupported) }
        })
    }

    /// The control block of a context: of one that was accepted, its listener's, until it is programmed by itself.
    pub fn block(&self, context: ContextId) -> Option<&ControlBlock> {
        self.contexts.lookup(context.0).map(|context| &*context.block)
    }

    /// Programs a context anew: what the block says about sending holds from the next packet on. Service and addresses
    /// stay as they are.
    ///
    /// # Errors
    /// [`Refused::NoContext`], [`Refused::Sort`].
    pub fn set_block(&mut self, now: Time, context: ContextId, block: ControlBlock) -> Result<(), Refused> {
        if self.shared.config.codec == Codec::Xtp40 && block.sort_value > u32::from(u16::MAX) {
            return Err(Refused::Sort);
        }
        self.change(now, context, move |context| {
            let old = Arc::make_mut(&mut context.block);
            let (service, address_segment) = (old.service, old.address_segment);
            *old = block;
            (old.service, old.address_segment) = (service, address_segment);
            context.limit_rate(now, context.outgoing.peer_takes());
            Ok(())
        })?;
        if let Some(context) = self.contexts.lookup_mut(context.0) {
            // A new sort value is a new place.
            context.stand_down(&mut self.shared);
            context.make_ready(&mut self.shared);
        }
        Ok(())
    }

    /// How long the peer of a context may be silent from now on, where that is less than CTIMER and CTIMEOUT say. Who is given
    /// up for it ends with [`Failure::Abandoned`](crate::Failure::Abandoned).
    ///
    /// # Errors
    /// [`Refused::NoContext`].
    pub fn set_patience(&mut self, now: Time, context: ContextId, patience: Patience) -> Result<(), Refused> {
        self.change(now, context, |context| {
            // The end of a stream to a group has dates of its own.
            if !context.is_group() && (context.silence.is_some() || patience != Patience::default()) {
                context.silence.get_or_insert_default().patience = patience;
            }
            Ok(())
        })
    }

    /// Numbers of a context, for whoever shows or mirrors them.
    pub fn facts(&self, context: ContextId) -> Option<Facts> {
        let context = self.contexts.lookup(context.0)?;
        let (space, outgoing, incoming) = (context.space, &context.outgoing, &context.incoming);
        Some(Facts {
            my_key: context.my_key,
            peer_key: context.peer_key,
            peer: context.peer,
            service: context.service,
            sync: outgoing.sync(),
            recv_sync: context.recv_sync,
            start: space.start(),
            acked: space.number(outgoing.acked()),
            sent: space.number(outgoing.sent()),
            rseq: space.number(incoming.rseq()),
            hseq: space.number(incoming.hseq()),
            dseq: space.number(incoming.dseq()),
            spans: incoming.spans().map(|span| (space.number(span.start), space.number(span.end))).collect(),
            lost: outgoing.first_lost().map(|lost| space.number(lost)),
            queued: outgoing.queued() - outgoing.sent(),
            in_flight: outgoing.in_flight(),
            round_trip: outgoing.round_trip(),
            is_connected: context.heard,
            is_proved: context.is_believed(&self.shared),
            is_allocated: !outgoing.waits_for_room(&context.terms(&self.shared)),
            tells_key: context.role == Role::Responder && !context.proof.has_used_key,
            is_shut: outgoing.end().is_some(),
            is_sent_whole: outgoing.end().is_some_and(|end| outgoing.acked() >= end),
            is_received_whole: context.is_incoming_done(),
            is_in_time_wait: matches!(context.phase, Phase::TimeWait(_)),
            is_over: context.is_told,
        })
    }

    /// How many bytes a context may still put out before the peer's allocation is used up.
    //= X-8
    pub fn room(&self, context: ContextId) -> Option<u64> {
        let context = self.contexts.lookup(context.0)?;
        Some(context.outgoing.room(context.ignores_alloc()))
    }

    /// Bytes that an output may have now without being refused as [`Refused::Full`]. `u64::MAX`: any, or it would be
    /// refused for another reason.
    pub fn queue_room(&self, context: ContextId) -> u64 {
        self.contexts.lookup(context.0).map_or(u64::MAX, |context| match context.waiting() {
            _ if context.outgoing.end().is_some() => u64::MAX,
            0 => u64::MAX,
            waiting => u64::from(context.block.wbufsize).saturating_sub(waiting),
        })
    }

    /// The key of the next context, opened or accepted, without RTN; `None` if there are as many as allowed.
    pub fn next_key(&mut self) -> Option<u64> {
        let secrets = &mut self.shared.secrets;
        let entropy = *self.next_entropy.get_or_insert_with(|| secrets.draw());
        self.contexts.layout().pack(self.contexts.next_key(entropy)?)
    }

    /// The application forgets a context: what was not read is dropped, what was queued is still sent, and the context
    /// closes in the background.
    pub fn release(&mut self, now: Time, context: ContextId) {
        let key = context.0;
        let Some(context) = self.contexts.lookup_mut(key) else { return };
        context.let_go();
        if context.phase == Phase::Fresh {
            context.phase = Phase::Over;
            context.conclude(&mut self.shared, Err(crate::Failure::Aborted));
        } else if context.phase == Phase::Active && context.is_unfinished_message() {
            let _ = self.close(now, ContextId(key), Close::Forced);
        } else if context.phase == Phase::Active {
            if context.outgoing.end().is_none() {
                context.outgoing.shut();
            }
            let _ = self.stop_reading(now, ContextId(key));
        }
        if let Some(context) = self.contexts.lookup_mut(key) {
            while let Some(buffer) = context.incoming.release() {
                context.give_back(&mut self.shared, buffer);
            }
        }
        self.settle(now, key);
    }

    /// Says END again where it has left within the last second: nobody acknowledges it, and whoever leaves now cannot be
    /// asked for it. Returns the longest round trip of those peers, zero where none was measured; `None`: there are none.
    //= X-20
    pub fn repeat_ends(&mut self, now: Time) -> Option<Duration> {
        let is_recent = |context: &Context| {
            // Of a group somebody may have been silent who still waits.
            let is_fresh = context.is_group() || context.last_heard + RECENT > now;
            matches!(context.phase, Phase::TimeWait(_)) && is_fresh
        };
        let recent = self.contexts.iter().filter(|(_, context)| is_recent(context)).map(|(key, _)| key);
        let keys: Vec<ContextKey> = recent.take(self.shared.config.limits.farewells).collect();
        let mut longest = None;
        for key in keys {
            let Some(context) = self.contexts.lookup_mut(key) else { continue };
            context.owe(context.recv_sync);
            longest = longest.max(Some(context.outgoing.round_trip().unwrap_or_default()));
            self.settle(now, key);
        }
        longest
    }

    /// Resets that are still to be said again, lest they were lost: none of them for longer than 140 ms. Until then whoever
    /// drives the engine should go on.
    pub fn farewells(&self) -> usize {
        self.shared.farewells.len()
    }

    /// Ends everything: DIAG 2 value 10 to the peers, as far as the limit of DIAGs allows; then
    /// [`Event::ShutDown`](crate::Event::ShutDown).
    pub fn shut_down(&mut self, now: Time) {
        if self.is_shut_down.is_some() {
            return;
        }
        let keys: Vec<ContextKey> = self.contexts.iter().map(|(key, _)| key).collect();
        for key in keys {
            let Some(context) = self.contexts.lookup_mut(key) else { continue };
            if context.phase == Phase::Active && context.heard {
                context.say(now, &mut self.shared, Code::ContextAbandoned, Value::GoingDown);
            }
            // An END that is due still leaves: without it the peer would not find out.
            context.phase = Phase::Over;
            context.conclude(&mut self.shared, Err(crate::Failure::Aborted));
            context.let_go();
            self.settle(now, key);
        }
        self.is_shut_down = Some(false);
    }

    /// Changes a context that has not ended, and settles it.
    fn change<R>(
        &mut self,
        now: Time,
        context: ContextId,
        change: impl FnOnce(&mut Context) -> Result<R, Refused>,
    ) -> Result<R, Refused> {
        let key = context.0;
        let found = self.contexts.lookup_mut(key).ok_or(Refused::NoContext)?;
        found.is_blocked = false;
        let result = change(found);
        self.settle(now, key);
        result
    }
}

/// The source of an address segment is informative: ours, where we know it.
pub(crate) fn fill_source(block: &mut ControlBlock, local: Option<IpAddr>) {
    match (&mut block.address_segment.hosts, local) {
        (HostPair::V4 { source, .. }, Some(IpAddr::V4(local))) if source.is_unspecified() => *source = local,
        (HostPair::V6 { source, .. }, Some(IpAddr::V6(local))) if source.is_unspecified() => *source = local,
        _ => {}
    }
}

//! Many messages in one call: the costs of a call and of a wait are paid once.
//!
//! Always true: a burst is queued whole or not at all, and its messages have consecutive numbers.

use super::exchange::{Exchange, Lane};
use super::port::Port;
use super::sender::{received, sent};
use crate::{Error, Message, Unsent};
use pinnace_core::{BufferId, Time};
use pinnace_runtime::Call;
use pinnace_zcrp::{Failure, Refused, Zcrp};
use std::ops::Range;

/// The direction of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Out,
    In,
}

impl Way {
    fn lane(self, state: &mut Exchange) -> &mut Lane {
        match self {
            Self::Out => &mut state.sends,
            Self::In => &mut state.receives,
        }
    }

    fn len(self, message: &Message) -> usize {
        match self {
            Self::Out => message.len(),
            Self::In => message.capacity(),
        }
    }

    fn check_room(self, engine: &mut Zcrp, count: usize) -> Result<(), Error> {
        let room = match self {
            Self::Out => engine.sender_mut().map(|half| half.check_room(count)),
            Self::In => engine.receiver_mut().map(|half| half.check_room(count)),
        };
        room.unwrap_or(Err(Refused::Closed(Failure::Closed))).map_err(Error::Refused)
    }

    fn begin(self, engine: &mut Zcrp, now: Time, buffer: BufferId, len: u32) -> Option<u64> {
        match self {
            Self::Out => engine.sender_mut()?.send(now, buffer, len).ok(),
            Self::In => engine.receiver_mut()?.post(now, buffer, len).ok(),
        }
    }
}

/// Messages that were queued, or posted, together. Dropping it lets them go on.
#[derive(Debug)]
pub struct Burst {
    port: Port,
    way: Way,
    tickets: Range<u64>,
}

pub(super) fn begin(port: &Port, way: Way, messages: Vec<Message>) -> Result<Burst, (Vec<Message>, Error)> {
    if messages.iter().any(|message| u32::try_from(way.len(message)).is_err()) {
        return Err((messages, Error::TooLarge));
    }
    if way == Way::In && !messages.iter().all(Message::is_writable) {
        return Err((messages, Error::ReadOnly));
    }
    let count = messages.len() as u64;
    let queue = |call: Call<'_, Zcrp, Exchange>| {
        let Call { now, engine, memory, state } = call;
        if let Err(error) = way.check_room(engine, messages.len()) {
            return Err((messages, error));
        }
        let lane = way.lane(state);
        let first = lane.next_ticket();
        for mut message in messages {
            let len = way.len(&message);
            // SAFETY: the message moves into the lane, which keeps it, untouched, until the event that takes the buffer
            // out of the table again; one to receive into was checked to be writable.
            let buffer = unsafe {
                match way {
                    Way::Out => message.lend(memory),
                    Way::In => memory.insert(message.base(), len),
                }
            };
            if let Some(number) = way.begin(engine, now, buffer, len as u32) {
                lane.begin(number, message);
            }
        }
        Ok(first)
    };
    match port.call(queue) {
        Ok(Ok(first)) => Ok(Burst { port: port.clone(), way, tickets: first..first + count }),
        Ok(Err(refused)) => Err(refused),
        Err(error) => Err((Vec::new(), Error::Endpoint(error))),
    }
}

impl Burst {
    /// Messages that have not been waited for.
    pub fn len(&self) -> usize {
        (self.tickets.end - self.tickets.start) as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tickets.is_empty()
    }

    /// Waits for all of them, in order.
    pub fn wait(self) -> Vec<Result<Message, Unsent>> {
        let mut ended = Vec::with_capacity(self.len());
        self.wait_each(|result| ended.push(result));
        ended
    }

    /// Waits for all of them, and hands each over as it ends, in order. `each` must not call the endpoint.
    pub fn wait_each(mut self, mut each: impl FnMut(Result<Message, Unsent>)) {
        let Self { port, way, tickets } = &mut self;
        let take = |state: &mut Exchange| {
            let lane = way.lane(state);
            while let Some(outcome) = (!tickets.is_empty()).then(|| lane.take(tickets.start)).flatten() {
                tickets.start += 1;
                each(if *way == Way::Out { sent(outcome) } else { received(outcome) });
            }
            tickets.is_empty().then_some(())
        };
        if let Err(error) = port.wait_until(take, None) {
            if let Some(ticket) = self.tickets.next() {
                each(Err(Unsent::new(None, error)));
                self.tickets.start = ticket + 1;
            }
            for _ in self.tickets.clone() {
                each(Err(Unsent::new(None, Error::Failed(Failure::Closed))));
            }
        }
    }
}

impl Drop for Burst {
    fn drop(&mut self) {
        if !self.tickets.is_empty() {
            let (way, tickets) = (self.way, self.tickets.clone());
            self.port.inspect(|_, _, state| tickets.for_each(|ticket| way.lane(state).abandon(ticket)));
        }
    }
}

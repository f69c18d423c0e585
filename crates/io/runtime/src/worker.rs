//! The background worker: drives while no application thread does.
//!
//! It rests off the link while the application is about, so that a thread that calls and waits in turn is never followed
//! by a second one: it takes over only after a grace period without calls and waits, or at once if somebody waits who
//! cannot drive (a task, or a poller of the readiness descriptor). While it drives it sleeps on the link, so peers are
//! answered as long as the endpoint lives. An application thread that wants the seat takes it; the worker finds out when
//! it wakes.
//!
//! An event loop of the application's own may take the reading from it ([`Endpoint::set_worker_reads`](crate::Endpoint::set_worker_reads)): then it sleeps on
//! its timers, and on the link only to send.
//!
//! Always true: the worker has the lock whenever it is not asleep, and ends when the endpoint has failed or is shut down.

use crate::EventSink;
use crate::shared::{Locked, Role, Seat, Shared};
use pinnace_core::Engine;
use pinnace_link::Link;
use std::io;
use std::sync::Arc;

/// Starts the worker of an endpoint unless it runs or the endpoint has failed.
pub(crate) fn start<E, L, S>(shared: &Arc<Shared<E, L, S>>, core: &mut Locked<'_, E, L, S>) -> io::Result<()>
where
    E: Engine + Send + 'static,
    L: Link + 'static,
    S: EventSink<E::Event> + Send + 'static,
{
    if core.worker.is_none() && core.error.is_none() {
        let shared = Arc::clone(shared);
        let name = "pinnace-worker".to_owned();
        core.worker = Some(std::thread::Builder::new().name(name).spawn(move || run(&shared))?);
    }
    Ok(())
}

fn run<E, L, S>(shared: &Shared<E, L, S>)
where
    E: Engine,
    L: Link,
    S: EventSink<E::Event>,
{
    let mut core = shared.lock();
    let mut seen = None;
    while core.error.is_none() {
        let quiet = seen == Some(shared.rest.activity());
        if core.is_inside() {
            // The same wait as the last time we looked: it may take long, and whoever leaves tells us.
            core.worker_parked = quiet;
        } else if quiet || core.is_prompt() {
            core.seat = Seat::Worker;
            core.counters.worker_takeovers += 1;
            core.release();
            drive(shared, &mut core);
            leave(&mut core);
            continue;
        }
        let grace = (!core.worker_parked).then_some(core.config.grace);
        seen = core.unlocked(|| shared.rest.rest(grace));
        core.worker_parked = false;
    }
}

/// Drives until the seat is taken, the application comes back, or the endpoint fails.
fn drive<E, L, S>(shared: &Shared<E, L, S>, core: &mut Locked<'_, E, L, S>)
where
    E: Engine,
    L: Link,
    S: EventSink<E::Event>,
{
    let seen = shared.rest.activity();
    loop {
        let now = core.driver.last_now();
        if core.held.is_some_and(|held| held <= now) {
            core.release();
        }
        let Some(progress) = core.turn(Some(Role::Worker)) else { return };
        if progress.worked() {
            core.give_way();
        }
        let returned = shared.rest.activity() != seen && !core.is_prompt();
        if core.seat != Seat::Worker || core.error.is_some() || returned {
            return;
        }
        if !progress.worked() {
            core.sleep(Role::Worker, None, None);
            if core.seat != Seat::Worker {
                return;
            }
        }
    }
}

fn leave<E, L, S>(core: &mut Locked<'_, E, L, S>)
where
    E: Engine,
    L: Link,
    S: EventSink<E::Event>,
{
    if core.seat == Seat::Worker {
        core.seat = Seat::Free;
        core.hand_over();
    }
}

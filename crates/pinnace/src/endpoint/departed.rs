//! Connections that were dropped while their peers may still need them: their own end has not come, or comes again, because
//! our acknowledgement was lost; or they have had no room for the word that this was no end in order. A peer that has to wait
//! for a time-out instead, or for the word of our host that nobody is here, which many networks swallow, takes an end in
//! order for a failure, and finds out late about any other.
//!
//! Always true: a connection is kept no longer than [`LONGEST`] or [`UNTOLD`], and no more than [`MOST`] of them at a time, the
//! newest; one to which its peer sends messages is not kept, as nobody receives them; a child process keeps none of its
//! parent's; no lock is held while anything is asked of a connection, or while it goes.

use crate::carrier::{Awaited, Carrier, Carry};
use crate::lock::lock;
use pinnace_runtime::OfProcess;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// A peer that has not said its end by then finds nobody here.
const LONGEST: Duration = Duration::from_secs(2);
/// One that has not heard of our end by then is as good as gone: so long it waits itself, by default, for a sign of life.
const UNTOLD: Duration = Duration::from_secs(10);
/// Each has a socket, and memory for what comes.
const MOST: usize = 32;
/// How often somebody looks after them.
const LOOK: Duration = Duration::from_millis(5);

#[derive(Debug, Default)]
struct Kept {
    departed: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    /// The oldest first.
    departed: Vec<Departed>,
    /// A thread is there.
    is_looked_after: bool,
}

#[derive(Debug)]
struct Departed {
    carrier: Arc<Carrier>,
    since: Instant,
    /// When it was seen that the peer's end had come.
    heard: Option<Instant>,
}

static KEPT: OfProcess<Kept> = OfProcess::new();

impl Departed {
    /// Whether its peer needs it no more.
    fn is_over(&mut self, now: Instant) -> bool {
        let kept_for = now.duration_since(self.since);
        match self.carrier.awaited() {
            Awaited::Nothing => true,
            Awaited::Acknowledgement => kept_for >= UNTOLD,
            _ if kept_for >= LONGEST => true,
            Awaited::End => false,
            Awaited::Repetitions(patience) => now.duration_since(*self.heard.get_or_insert(now)) >= patience,
        }
    }
}

/// Keeps a connection that has ended, and that nobody uses any more, as long as its peer may need it.
pub(super) fn keep(carrier: Arc<Carrier>) {
    let since = Instant::now();
    let mut departed = Departed { carrier, since, heard: None };
    if !departed.is_over(since) {
        KEPT.get().take_in(vec![departed]);
    }
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, Places> {
        lock(&self.departed)
    }

    /// Some more, the oldest first.
    fn take_in(&'static self, departed: Vec<Departed>) {
        let mut places = self.lock();
        places.departed.extend(departed);
        places.departed.sort_by_key(|departed| departed.since);
        let surplus = places.departed.len().saturating_sub(MOST);
        let mut over: Vec<_> = places.departed.drain(..surplus).collect();
        if !places.is_looked_after && !places.departed.is_empty() {
            let name = "pinnace-departed".to_owned();
            places.is_looked_after = thread::Builder::new().name(name).spawn(|| self.look_after()).is_ok();
            if !places.is_looked_after {
                over.append(&mut places.departed);
            }
        }
        drop(places);
        drop(over);
    }

    fn look_after(&'static self) {
        loop {
            thread::sleep(LOOK);
            let now = Instant::now();
            let mut departed = std::mem::take(&mut self.lock().departed);
            departed.retain_mut(|departed| !departed.is_over(now));
            let mut places = self.lock();
            if departed.is_empty() && places.departed.is_empty() {
                places.is_looked_after = false;
                return;
            }
            drop(places);
            self.take_in(departed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::{Method, Selection};
    use crate::{Connection, Endpoint, EndpointOptions};
    use std::net::UdpSocket;

    /// How often the peer's host has said that nobody is there.
    fn unreachable(connection: &Connection) -> u64 {
        match connection.carrier() {
            Carrier::Zcrp(zcrp) => zcrp.unreachable(),
            Carrier::Vrp(vrp) => vrp.unreachable(),
            _ => 0,
        }
    }

    /// A client and its server, that connect over this method.
    fn pair(method: Method) -> (Connection, Connection) {
        let service = "direction=duplex".parse().unwrap();
        let options = EndpointOptions { peer_timeout: Duration::from_secs(2), ..EndpointOptions::default() };
        let listener = Endpoint::bind_with("127.0.0.1:0", &options).unwrap().listen(&service).unwrap();
        let selection = Selection { forced: Some(method), ..Selection::default() };
        let client = Endpoint::client_with(&EndpointOptions { selection, ..options });
        let client = client.connect(&listener.local_addr().to_string(), &service).unwrap();
        (client, listener.accept().unwrap())
    }

    #[test]
    fn who_closes_second_is_heard_by_the_peer_and_not_refused_by_its_host() {
        for method in [Method::Zcrp, Method::Vrp] {
            let (client, server) = pair(method);
            client.close(Duration::from_secs(10)).unwrap();
            drop(client);
            assert!(server.recv().unwrap().is_none());
            thread::sleep(Duration::from_millis(100));
            server.close(Duration::from_secs(10)).unwrap();
            assert_eq!(unreachable(&server), 0, "{method}");
        }
    }

    #[test]
    fn who_has_heard_that_a_peer_closes_over_a1_is_there_for_a_while_to_say_so_again() {
        // On a busy machine the while may be over before anybody looks.
        let is_there = || {
            let (client, server) = pair(Method::A1);
            let at = client.peer_addr();
            drop(client);
            assert!(server.recv().unwrap().is_none());
            drop(server);
            let is_there = UdpSocket::bind(at).is_err();
            let end = Instant::now() + Duration::from_secs(20);
            while UdpSocket::bind(at).is_err() {
                assert!(Instant::now() < end, "it is there for good");
                thread::sleep(Duration::from_millis(10));
            }
            is_there
        };
        assert!((0..50).any(|_| is_there()));
    }

    #[test]
    fn a_peer_that_has_no_room_hears_later_that_this_was_no_end_in_order() {
        // The others have room for a word of their own.
        let (client, server) = pair(Method::Zcrp);
        while client.try_send(vec![7; 100_000]).is_ok() {}
        client.close(Duration::ZERO).unwrap_err();
        drop(client);
        // Longer than whoever breaks off waits itself.
        thread::sleep(Duration::from_millis(300));
        let error = loop {
            match server.recv_timeout(Duration::from_secs(20)) {
                Ok(Some(_)) => {}
                other => break other.map(|_| ()).expect_err("no end in order"),
            }
        };
        assert!(error.to_string().contains("broken off"), "{error}");
    }

    #[test]
    fn a_connection_to_which_messages_come_is_not_kept() {
        for method in [Method::Zcrp, Method::Vrp] {
            let (client, server) = pair(method);
            drop(client);
            // Nobody receives these, and whoever sends finds out.
            let end = Instant::now() + Duration::from_secs(20);
            while server.send(vec![7; 1000]).and_then(crate::Delivery::wait).is_ok() {
                assert!(Instant::now() < end, "{method}: nobody says that these are lost");
            }
        }
    }
}

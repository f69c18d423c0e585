//! The channels between clients, watched from neither side.
//!
//! Always true: a channel's number, and the port number of who connected, are its own until it is forgotten; it is forgotten
//! when both sides have closed it, or one is dead and the other has it in its hands.

use super::address::Ports;
use pinnace_qbuf::channel::{Channel, ChannelFds, ChannelOptions, Side, Watch};
use pinnace_qbuf::{ClientId, Pool, Transit};
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

/// Numbers of channels are below this.
const NUMBERS: u32 = 1 << 22;

/// One side of a channel.
#[derive(Clone, Copy, Debug)]
struct End {
    /// Which client of the daemon, and which of the pool.
    client: u64,
    id: ClientId,
    is_dead: bool,
}

#[derive(Debug)]
struct Link {
    watch: Watch,
    /// Who connected, and who listens.
    ends: [End; 2],
    port: u16,
    since: Instant,
}

impl Link {
    fn transit(&self, number: u32, from: Side) -> Transit {
        Transit { channel: number, from: self.ends[at(from)].id, to: self.ends[at(from.other())].id }
    }
}

fn at(side: Side) -> usize {
    match side {
        Side::A => 0,
        Side::B => 1,
    }
}

/// All channels.
#[derive(Debug)]
pub(super) struct Channels {
    links: BTreeMap<u32, Link>,
    ports: Ports,
    next: u32,
    slots: u32,
}

/// A channel that was made, and is not yet in anybody's hands.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) number: u32,
    pub(super) port: u16,
    pub(super) fds: ChannelFds,
}

/// A channel that was forgotten, and whose it was.
#[derive(Debug)]
pub(super) struct Forgotten {
    pub(super) number: u32,
    pub(super) clients: [u64; 2],
}

impl Channels {
    pub(super) fn new(slots: u32) -> Self {
        Self { links: BTreeMap::new(), ports: Ports::of_system(), next: 1, slots }
    }

    pub(super) fn len(&self) -> usize {
        self.links.len()
    }

    /// Makes a channel between two clients of the daemon, `[who connects, who listens]`.
    pub(super) fn make(&mut self, pool: &Pool, ends: [(u64, ClientId); 2]) -> io::Result<Made> {
        let number = self.free_number();
        let clients = ends.map(|(_, id)| Some(id));
        let fds = Channel::create(pool, &ChannelOptions { slots: self.slots, number, clients })?;
        let watch = Watch::new(fds.try_clone()?)?;
        let port = self.ports.take().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let ends = ends.map(|(client, id)| End { client, id, is_dead: false });
        self.links.insert(number, Link { watch, ends, port, since: Instant::now() });
        Ok(Made { number, port, fds })
    }

    /// There are far fewer channels than numbers.
    fn free_number(&mut self) -> u32 {
        loop {
            let number = self.next;
            self.next = (self.next + 1) % NUMBERS;
            if !self.links.contains_key(&number) {
                return number;
            }
        }
    }

    /// Whether nobody has taken a side of a channel that is there.
    pub(super) fn is_unclaimed(&self, number: u32, side: Side) -> bool {
        self.links.get(&number).is_some_and(|link| !link.watch.is_claimed(side))
    }

    /// Nobody will take this side any more, or who had it is dead: the other side is told.
    //= B-12
    pub(super) fn abandon(&mut self, pool: &Pool, number: u32, client: u64, is_dead: bool) {
        let Some(link) = self.links.get_mut(&number) else { return };
        for side in [Side::A, Side::B] {
            if link.ends[at(side)].client == client && (is_dead || !link.watch.is_claimed(side)) {
                Self::abandon_side(pool, number, link, side);
            }
        }
    }

    /// Like [`abandon`](Self::abandon), of the side that listens.
    pub(super) fn abandon_arrival(&mut self, pool: &Pool, number: u32) {
        if let Some(link) = self.links.get_mut(&number)
            && !link.watch.is_claimed(Side::B)
        {
            Self::abandon_side(pool, number, link, Side::B);
        }
    }

    fn abandon_side(pool: &Pool, number: u32, link: &mut Link, side: Side) {
        link.ends[at(side)].is_dead = true;
        link.watch.abandon(side);
        // Nobody will read it. Of what goes the other way the reader takes what was sent, and frees the rest.
        pool.purge(link.transit(number, side.other()));
    }

    /// Forgets what is over, and gives up on those who take too long to sit down on what they asked for.
    pub(super) fn look(&mut self, pool: &Pool, handshake: Duration) -> Vec<Forgotten> {
        let mut over = Vec::new();
        for (&number, link) in &mut self.links {
            if !link.ends[0].is_dead && !link.watch.is_claimed(Side::A) && link.since.elapsed() > handshake {
                Self::abandon_side(pool, number, link, Side::A);
            }
            // Who is dead, and who has it in his hands and will free what is left.
            let is_done = |side: Side| link.ends[at(side)].is_dead || link.watch.is_claimed(side);
            let is_over = link.watch.is_over()
                || (link.ends.iter().any(|end| end.is_dead) && is_done(Side::A) && is_done(Side::B));
            if is_over {
                // Who had closed before the other died never saw what that one had passed to him and not announced.
                for side in [Side::A, Side::B] {
                    if link.ends[at(side)].is_dead && link.watch.is_over() {
                        pool.purge(link.transit(number, side));
                    }
                }
                over.push(number);
            }
        }
        over.into_iter().filter_map(|number| self.forget(number)).collect()
    }

    /// Forgets a channel.
    pub(super) fn forget(&mut self, number: u32) -> Option<Forgotten> {
        let link = self.links.remove(&number)?;
        self.ports.give_back(link.port);
        Some(Forgotten { number, clients: link.ends.map(|end| end.client) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinnace_qbuf::PoolOptions;

    //= B-12 test
    #[test]
    fn what_the_dead_passed_to_one_who_had_closed_is_free_again() {
        let pool = Pool::create(&PoolOptions::default()).unwrap();
        let [sender, receiver] = [(); 2].map(|()| Pool::attach(pool.fd().try_clone_to_owned().unwrap()).unwrap());
        let mut channels = Channels::new(8);
        let Made { number, fds, .. } = channels.make(&pool, [(1, sender.client()), (2, receiver.client())]).unwrap();
        let here = Channel::attach(&sender, fds.try_clone().unwrap(), Side::A).unwrap();
        drop(Channel::attach(&receiver, fds, Side::B).unwrap());
        // In the middle of sending, when it is killed.
        let transit = Transit { channel: number, from: sender.client(), to: receiver.client() };
        let _ = sender.pass_to(sender.alloc(10_000).unwrap(), transit);
        std::mem::forget(here);
        channels.abandon(&pool, number, 1, true);
        assert_eq!(channels.look(&pool, Duration::from_secs(5)).len(), 1);
        pool.drop_client(sender.client());
        let stats = pool.stats();
        assert_eq!(stats.free_blocks, stats.blocks);
    }
}

//! What the fuzz target of channels does with its bytes. Shared by `fuzz/` and by the test that replays its corpus.
//!
//! Any bytes are a script: what both ends of a channel call, and what a process that has the same memory writes into it, into
//! the rings and into the pool. Nothing panics or hangs, and nothing that is had lies outside the pool.

use std::os::fd::{AsFd, BorrowedFd};

use pinnace_qbuf::channel::{Channel, ChannelError, ChannelOptions, Interest, Received, Side, Watch};
use pinnace_qbuf::{Passed, Pool, PoolOptions, Transit, Variant};
use pinnace_testing::script::Script;

/// Steps of a script; more only take time.
const STEPS: usize = 300;
/// What each end may keep of what it has received.
const MOST_HELD: usize = 8;

/// The target.
pub(crate) fn channel(input: &[u8]) {
    let mut script = Script::new(input);
    let variant = script.pick(&[Variant::Locked, Variant::LockFree]);
    let pool = Pool::create(&PoolOptions { zones: 2, variant, ..PoolOptions::default() }).expect("a pool");
    let beside = pool.attach_beside().expect("room for two");
    let fds = Channel::create(&pool, &ChannelOptions { slots: 4, ..ChannelOptions::default() }).expect("a channel");
    let watch = Watch::new(fds.try_clone().expect("descriptors")).expect("a channel of our own");
    let region = fds.try_clone().expect("descriptors").region;
    let ends = [
        Channel::attach(&pool, fds.try_clone().expect("descriptors"), Side::A),
        Channel::attach(&beside, fds, Side::B),
    ];
    let mut ends = ends.map(|end| End { channel: end.expect("nobody has written anything yet"), held: Vec::new() });
    for _ in 0..STEPS {
        if script.is_over() {
            break;
        }
        match script.byte() {
            what @ 0..0xc0 => ends[usize::from(what & 1)].step(what >> 1, &mut script),
            0xc0..0xd8 => scribble(region.as_fd(), &mut script, &[64, 1536, 4096 + 2 * 4 * 64]),
            0xd8..0xf0 => scribble(pool.fd(), &mut script, &[256, 70_000, 68_000 + 2 * 384, 2 << 17]),
            0xf0..0xf8 => {
                for side in [Side::A, Side::B] {
                    // However many there seem to be, it comes to an end.
                    let _ = watch.in_flight(side).map(Iterator::count);
                    let _ = (watch.client(side), watch.is_claimed(side), watch.is_over());
                }
            }
            _ => drop(pool.sweep()),
        }
    }
}

/// Writes a few bytes somewhere, mostly near the beginning.
fn scribble(into: BorrowedFd<'_>, script: &mut Script<'_>, reach: &[u32]) {
    let at = script.long() % script.pick(reach);
    let len = usize::from(script.byte() % 16);
    let at = if script.one_in(4) { at } else { at & !7 };
    let _ = rustix::io::pwrite(into, &script.take(len), at.into());
}

struct End {
    channel: Channel,
    held: Vec<Received>,
}

impl End {
    fn step(&mut self, what: u8, script: &mut Script<'_>) {
        let pool = self.channel.pool().clone();
        let outcome = match what % 12 {
            0 | 1 => self.channel.try_send_bytes(&[3; 100][..usize::from(script.byte() % 100)]).map(drop),
            2..=4 => match pool.alloc(usize::from(script.word()) * 2) {
                Some(mut qbuf) => {
                    assert_within(&pool, &qbuf);
                    qbuf.fill(3);
                    let queue = what % 12 == 4;
                    let sent = if queue { self.channel.try_queue(qbuf) } else { self.channel.try_send(qbuf) };
                    sent.map_err(ChannelError::from)
                }
                None => Ok(()),
            },
            5..=7 => self.channel.try_recv().map(|message| self.held.extend(message)),
            8 => {
                self.held.pop();
                Ok(())
            }
            9 => self.channel.arm(script.pick(&[Interest::Readable, Interest::Writable, Interest::Both])).map(drop),
            10 => {
                self.channel.disarm();
                self.channel.publish();
                if script.one_in(32) {
                    self.channel.finish();
                }
                let _ = (self.channel.peer(), self.channel.is_read(), self.channel.peer_is_alive());
                Ok(())
            }
            _ => {
                let passed = Passed { block: script.word().into(), len: script.long() };
                let transit = Transit { channel: 0, from: pool.client(), to: pool.client() };
                drop(pool.take(passed, transit).inspect(|qbuf| assert_within(&pool, qbuf)));
                Ok(())
            }
        };
        drop(outcome);
        for message in &mut self.held {
            if let Received::Qbuf(qbuf) = message {
                assert_within(&pool, qbuf);
                qbuf.fill(0x55);
            }
            assert!(message.iter().map(|byte| u64::from(*byte)).sum::<u64>() < u64::MAX);
        }
        let beyond = self.held.len().saturating_sub(MOST_HELD);
        self.held.drain(..beyond);
    }
}

fn assert_within(pool: &Pool, qbuf: &pinnace_qbuf::Qbuf) {
    let options = pool.options();
    let bytes = options.zones as usize * 32 * options.block_bytes;
    assert!(qbuf.offset() + qbuf.capacity() <= bytes && qbuf.len() <= qbuf.capacity());
}

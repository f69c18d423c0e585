//! Models of a ring for the `loom` checker: every interleaving and every allowed reordering of small scenarios.

use std::collections::VecDeque;

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::ring::{Consumer, Control, Found, Line, Peer, Producer, Ring, Slot};
use super::sync::AtomicU64;

/// A ring on the heap.
struct Heap {
    control: Control,
    slots: Vec<Slot>,
}

impl Ring for Arc<Heap> {
    fn control(&self) -> &Control {
        &self.control
    }

    fn slot(&self, position: u64) -> &Slot {
        &self.slots[position as usize % self.slots.len()]
    }

    fn capacity(&self) -> u64 {
        self.slots.len() as u64
    }
}

/// Every interleaving with at most three preemptions: without that bound one model takes minutes.
fn model(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

fn ring(slots: usize) -> Arc<Heap> {
    let word = || Line(AtomicU64::new(0));
    let slot = || Slot { words: core::array::from_fn(|_| AtomicU64::new(0)) };
    Arc::new(Heap {
        control: Control { tail: word(), head: word(), reader: word(), writer: word() },
        slots: (0..slots).map(|_| slot()).collect(),
    })
}

/// A bell as an eventfd has it: rung or not, and one may sleep on it.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.changed.notify_one();
    }

    fn sleep(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.changed.wait(rung).unwrap();
        }
        *rung = false;
    }
}

fn send(producer: &mut Producer<Arc<Heap>>, bell: &Bell, words: &[u64]) {
    producer.write(words);
    if producer.publish().unwrap() == Peer::Wake {
        bell.ring();
    }
}

/// Sleeps until the consumer finds a slot or the end.
fn receive(consumer: &mut Consumer<Arc<Heap>>, mine: &Bell, theirs: &Bell) -> Option<[u64; 2]> {
    loop {
        match consumer.front().unwrap() {
            Found::Slot(words) => {
                if consumer.advance().unwrap() == Peer::Wake {
                    theirs.ring();
                }
                return Some([words[0], words[1]]);
            }
            Found::Finished => return None,
            Found::Empty => {
                if !consumer.fall_asleep().unwrap() {
                    mine.sleep();
                    consumer.wake_up();
                }
            }
        }
    }
}

/// What was sent arrives, once, in order, whole, also where the ring starts over.
//= B-14 test
#[test]
fn a_ring_that_wraps_around_loses_nothing() {
    model(|| {
        let ring = ring(2);
        let mut producer = Producer::new(Arc::clone(&ring));
        let mut consumer = Consumer::new(ring);
        let writer = thread::spawn(move || {
            let mut waiting: VecDeque<u64> = (1..=3).collect();
            while let Some(&next) = waiting.front() {
                if producer.room().unwrap() > 0 {
                    producer.write(&[next, !next]);
                    producer.publish().unwrap();
                    waiting.pop_front();
                } else {
                    thread::yield_now();
                }
            }
        });
        for expected in 1..=3 {
            loop {
                match consumer.front().unwrap() {
                    Found::Slot(words) => {
                        assert_eq!(words[..2], [expected, !expected]);
                        consumer.advance().unwrap();
                        break;
                    }
                    _ => thread::yield_now(),
                }
            }
        }
        writer.join().unwrap();
    });
}

/// A reader that sleeps is woken by the slot it waits for: a lost wake is a deadlock, which the checker reports.
//= B-14 test
#[test]
fn a_sleeping_reader_is_woken() {
    model(|| {
        let ring = ring(2);
        let bells = Arc::new([Bell::default(), Bell::default()]);
        let mut producer = Producer::new(Arc::clone(&ring));
        let mut consumer = Consumer::new(ring);
        let theirs = Arc::clone(&bells);
        // Nothing follows that would ring a bell by the way.
        let writer = thread::spawn(move || send(&mut producer, &theirs[0], &[7, 8]));
        assert_eq!(receive(&mut consumer, &bells[0], &bells[1]), Some([7, 8]));
        writer.join().unwrap();
    });
}

/// A reader that sleeps learns that nothing will come.
#[test]
fn a_sleeping_reader_learns_of_the_end() {
    model(|| {
        let ring = ring(2);
        let bells = Arc::new([Bell::default(), Bell::default()]);
        let mut producer = Producer::new(Arc::clone(&ring));
        let mut consumer = Consumer::new(ring);
        let theirs = Arc::clone(&bells);
        let writer = thread::spawn(move || {
            producer.write(&[7, 8]);
            producer.finish();
            theirs[0].ring();
        });
        assert_eq!(receive(&mut consumer, &bells[0], &bells[1]), Some([7, 8]));
        assert_eq!(receive(&mut consumer, &bells[0], &bells[1]), None);
        writer.join().unwrap();
    });
}

/// A writer that found the ring full, and sleeps, is woken by the reader that makes room.
#[test]
fn a_sleeping_writer_is_woken() {
    model(|| {
        let ring = ring(1);
        let bells = Arc::new([Bell::default(), Bell::default()]);
        let mut producer = Producer::new(Arc::clone(&ring));
        let mut consumer = Consumer::new(ring);
        producer.write(&[1, 0]);
        producer.publish().unwrap();
        let theirs = Arc::clone(&bells);
        let writer = thread::spawn(move || {
            while producer.room().unwrap() == 0 {
                if !producer.fall_asleep(|_| true).unwrap() {
                    theirs[1].sleep();
                    producer.wake_up();
                }
            }
            send(&mut producer, &theirs[0], &[2, 0]);
        });
        assert_eq!(receive(&mut consumer, &bells[0], &bells[1]), Some([1, 0]));
        assert_eq!(receive(&mut consumer, &bells[0], &bells[1]), Some([2, 0]));
        writer.join().unwrap();
    });
}

/// A reader that goes away while the ring is full: the writer, asleep or not, comes to an end, and what was
/// published is seen by the reader that looks after it closed, or by a writer that sees that it closed: one of them takes it back.
//= B-12 test
#[test]
fn a_ring_that_closes_while_it_is_full_leaves_no_slot_behind() {
    close_during(3);
}

/// The same, of a writer whose last message races with the close, and who looks no more after it.
//= B-12 test
#[test]
fn a_ring_that_closes_while_it_is_written_leaves_no_slot_behind() {
    close_during(2);
}

/// One message lies in a ring of two slots; the writer sends others, up to number `last`, while the reader closes.
fn close_during(last: u64) {
    model(move || {
        let ring = ring(2);
        let bell = Arc::new(Bell::default());
        let mut producer = Producer::new(Arc::clone(&ring));
        let mut consumer = Consumer::new(ring);
        producer.write(&[1, 0]);
        producer.publish().unwrap();
        let mine = Arc::clone(&bell);
        let writer = thread::spawn(move || {
            let mut sent = 1;
            // What it learned on the way: it does not look again.
            let closed = loop {
                if producer.reader_closed().unwrap() {
                    break true;
                }
                if producer.room().unwrap() == 0 {
                    if !producer.fall_asleep(|_| true).unwrap() {
                        mine.sleep();
                        producer.wake_up();
                    }
                    continue;
                }
                sent += 1;
                producer.write(&[sent, 0]);
                let closed = producer.publish().unwrap() == Peer::Closed;
                if closed || sent == last {
                    break closed;
                }
            };
            (sent, closed)
        });
        let mut taken = Vec::new();
        consumer.close();
        bell.ring();
        while let Found::Slot(words) = consumer.front().unwrap() {
            taken.push(words[0]);
            consumer.advance().unwrap();
        }
        let (sent, closed) = writer.join().unwrap();
        assert!(
            closed || taken.len() as u64 == sent,
            "of {sent} messages {taken:?} were seen, and the writer sees no end"
        );
    });
}

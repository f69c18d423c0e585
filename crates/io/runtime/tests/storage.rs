//! An engine that allocates storage while it handles a read, under the driver.

use pinnace_core::{Address, Storage, Train};
use pinnace_link::{BufferTable, Link, MemoryLink, MemoryOptions};
use pinnace_runtime::{Driver, DriverConfig, EventSink};
use pinnace_testing::scrolls::{DATAGRAM, Event, STORAGE, Scrolls, datagram};

/// Takes what is complete, and gives back what died.
#[derive(Default)]
struct Reader {
    messages: Vec<Vec<u8>>,
    deaths: u32,
}

impl EventSink<Event> for Reader {
    fn handle_event(&mut self, event: Event, memory: &mut BufferTable) {
        match event {
            Event::Complete(buffer) => self.messages.extend(memory.take(buffer)),
            Event::Died(buffer) => {
                memory.release(buffer);
                self.deaths += 1;
            }
        }
    }
}

struct Pair {
    sender: MemoryLink,
    receiver: Driver<Scrolls, MemoryLink>,
    reader: Reader,
}

impl Pair {
    fn new() -> Self {
        let (sender, receiver) = MemoryLink::pair(&MemoryOptions::default()).unwrap();
        let receiver = Driver::new(Scrolls::default(), receiver, DriverConfig::default());
        Self { sender, receiver, reader: Reader::default() }
    }

    /// One read of these datagrams.
    fn read(&mut self, datagrams: &[[u8; DATAGRAM]]) {
        let mut train = Train::new(self.sender.train_limits());
        train.begin(Address::Peer, DATAGRAM);
        for datagram in datagrams {
            train.inline(datagram);
            train.end_segment();
        }
        self.sender.send(&train, &BufferTable::new()).unwrap();
        assert_eq!(self.receiver.progress(&mut self.reader).unwrap().reads, 1);
    }
}

#[test]
fn a_header_makes_storage_that_the_rest_of_its_read_settles_into() {
    let mut pair = Pair::new();
    pair.read(&[datagram(b'D', 1, b'b')]);
    pair.read(&[datagram(b'H', 4, 0), datagram(b'D', 0, b'a'), datagram(b'D', 3, b'd')]);
    assert_eq!(pair.receiver.counters().bytes_moved, 12, "storage that is made in a read is not in its plan");
    pair.read(&[datagram(b'D', 2, b'c')]);
    assert_eq!(pair.receiver.counters().bytes_moved, 12, "the next read lands in place");
    let [message] = &pair.reader.messages[..] else { panic!("one message") };
    assert_eq!((message.len(), &message[..24]), (STORAGE, &b"aaaaaabbbbbbccccccdddddd"[..]));
}

#[test]
fn storage_may_be_released_and_replaced_in_the_read_that_lands_in_it() {
    let mut pair = Pair::new();
    pair.read(&[datagram(b'H', 3, 0), datagram(b'D', 2, b'z')]);
    let old = pair.receiver.engine().into;
    // The first two land in place and are called off, and so is a move; a new message begins, and ends.
    pair.read(&[
        datagram(b'D', 0, b'x'),
        datagram(b'D', 2, b'y'),
        datagram(b'X', 0, 0),
        datagram(b'H', 2, 0),
        datagram(b'D', 1, b'b'),
    ]);
    let new = pair.receiver.engine().into;
    assert!(new.is_some() && new != old);
    assert_eq!(pair.receiver.memory().generation(old.unwrap()), None);
    assert_eq!(pair.receiver.memory().pooled_bytes(), STORAGE);
    pair.read(&[datagram(b'D', 0, b'a')]);
    assert_eq!(pair.reader.messages.len(), 1);
    assert_eq!(pair.reader.messages[0][..12], *b"aaaaaabbbbbb");
}

#[test]
fn storage_of_a_message_that_dies_is_given_back_by_whoever_hears_of_it() {
    let mut pair = Pair::new();
    pair.read(&[datagram(b'H', 3, 0), datagram(b'D', 2, b'z')]);
    let buffer = pair.receiver.engine().into.unwrap();
    pair.receiver.call(None, |engine, _, _| engine.mortal = true);
    pair.receiver.drain(&mut pair.reader).unwrap();
    pair.receiver.progress(&mut pair.reader).unwrap();
    assert_eq!(pair.reader.deaths, 1);
    assert_eq!(pair.receiver.memory().generation(buffer), None);
    assert_eq!(pair.receiver.memory().pooled_bytes(), STORAGE, "at once, without another read");
    pair.read(&[datagram(b'H', 1, 0), datagram(b'D', 0, b'a')]);
    assert_eq!((pair.receiver.engine().refused, pair.reader.messages.len()), (0, 1));
}

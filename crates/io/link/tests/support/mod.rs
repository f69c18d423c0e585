//! What the tests of links share: messages that are cut into trains with a trailer a datagram, and a reader of them.
#![allow(dead_code, reason = "each test uses a part of it")]

use pinnace_core::{
    Address, BufferId, BufferRange, Checksum, ChecksumAt, ChecksumKind, Ecn, Placed, ReceivePlan, Train,
};
use pinnace_link::{BufferTable, Link, ReadBuffer, ReadOutcome, Received, SendOutcome, Sums};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::FromRawFd;
use std::time::{Duration, Instant};

/// Bytes behind each payload.
pub(crate) const TRAILER: usize = 8;

/// Memory with a name.
pub(crate) struct Memory {
    bytes: Box<[u8]>,
    pub(crate) table: BufferTable,
    pub(crate) id: BufferId,
}

impl Memory {
    pub(crate) fn new(mut bytes: Box<[u8]>) -> Self {
        let mut table = BufferTable::new();
        // SAFETY: the boxed bytes live as long as the table, do not move, and are looked at between calls only.
        let id = unsafe { table.insert(bytes.as_mut_ptr(), bytes.len()) };
        Self { bytes, table, id }
    }

    pub(crate) fn pattern(len: usize) -> Self {
        Self::new((0..len).map(|i| (i * 31 + i / 251) as u8).collect())
    }

    pub(crate) fn zeros(len: usize) -> Self {
        Self::new(vec![0; len].into())
    }

    /// The bytes, read through the table's own pointer.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.table.bytes(BufferRange::new(self.id, 0, self.bytes.len() as u32))
    }
}

/// A train of `message[low..high]` in segments of `size` bytes of payload, each followed by its offset as trailer.
pub(crate) fn train_of(train: &mut Train, id: BufferId, low: usize, high: usize, size: usize) {
    train.begin(Address::Peer, size + TRAILER);
    fill(train, id, low, high, size);
}

pub(crate) fn fill(train: &mut Train, id: BufferId, low: usize, high: usize, size: usize) {
    let mut at = low;
    while at < high {
        let len = size.min(high - at);
        train.payload(BufferRange::new(id, at as u64, len as u32));
        train.inline(&(at as u64).to_be_bytes());
        train.end_segment();
        at += len;
    }
}

/// A plan for the payloads of `train_of`.
pub(crate) fn plan_of(plan: &mut ReceivePlan, link: &dyn Link, id: BufferId, low: usize, high: usize, size: usize) {
    plan.reset(link.datagrams_per_read());
    let mut at = low;
    while at < high && plan.has_room(2, size + TRAILER) {
        let len = size.min(high - at);
        plan.payload(BufferRange::new(id, at as u64, len as u32));
        plan.pooled(TRAILER);
        at += len;
    }
    plan.top_up(ReadBuffer::READ_BYTES);
}

/// Waits until the link has something.
pub(crate) fn wait(link: &dyn Link) -> bool {
    has_something_within(link, 2000)
}

/// The same, not longer than so many milliseconds.
pub(crate) fn has_something_within(link: &dyn Link, millis: i32) -> bool {
    let mut poll = libc::pollfd { fd: link.descriptors().readable, events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid `pollfd`.
    unsafe { libc::poll(&raw mut poll, 1, millis) == 1 }
}

pub(crate) fn receive(
    link: &mut dyn Link,
    plan: &ReceivePlan,
    memory: &BufferTable,
    pool: &mut ReadBuffer,
) -> Option<Received> {
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end {
        match link.receive(plan, memory, pool).expect("the link works") {
            ReadOutcome::Received(read) => return Some(read),
            ReadOutcome::Empty => {
                if !wait(link) {
                    return None;
                }
            }
            ReadOutcome::Unreachable => panic!("unreachable"),
        }
    }
    None
}

/// What arrived of a message, and how.
#[derive(Debug, Default)]
pub(crate) struct Arrival {
    pub(crate) payload: usize,
    pub(crate) copied: usize,
    pub(crate) reads: usize,
    pub(crate) datagrams: usize,
}

/// Reads with plans that guess `guess` bytes a payload until `expected` bytes of payload have come, and puts them in place.
pub(crate) fn collect(link: &mut dyn Link, into: &Memory, expected: usize, guess: usize) -> Arrival {
    let mut arrival = Arrival::default();
    let (mut plan, mut pool, mut moves) = (ReceivePlan::new(), ReadBuffer::new(), Vec::new());
    while arrival.payload < expected {
        plan.reset(link.datagrams_per_read());
        if guess > 0 {
            plan_of(&mut plan, link, into.id, arrival.payload, expected, guess);
        }
        plan.top_up(ReadBuffer::READ_BYTES);
        let read = receive(link, &plan, &into.table, &mut pool).expect("everything arrives");
        assert!(!read.truncated);
        arrival.reads += 1;
        let mut pieces = Vec::new();
        // SAFETY: the buffer stays, and nothing is written to it before they have been looked at.
        unsafe { pool.pieces(read.bytes, &mut pieces) };
        let mut placed = Placed::new(plan.slots(), &pieces, read.bytes, read.segment, &mut moves);
        while let Some(segment) = placed.next_segment() {
            let low = u64::from_be_bytes(placed.tail::<TRAILER>(&segment).expect("a trailer"));
            let len = segment.len - TRAILER;
            arrival.copied += placed.settle(&segment, 0..len, BufferRange::new(into.id, low, len as u32)) as usize;
            arrival.payload += len;
            arrival.datagrams += 1;
        }
        // SAFETY: as above.
        unsafe { pool.carry_out(&moves, &into.table) };
        moves.clear();
    }
    arrival
}

/// Sends `total` bytes to `there` in trains of `size` bytes a payload, each in one call, and reads them with plans that
/// guess `guess`, each datagram by itself.
pub(crate) fn transfer(
    (from, there): (&mut dyn Link, Address),
    to: &mut dyn Link,
    total: usize,
    size: usize,
    guess: usize,
) -> Arrival {
    let (source, target) = (Memory::pattern(total), Memory::zeros(total));
    let limits = from.train_limits();
    let per_train = (limits.bytes / (size + TRAILER)).clamp(1, limits.segments) * size;
    let mut train = Train::new(limits);
    for low in (0..total).step_by(per_train) {
        train.begin(there, size + TRAILER);
        fill(&mut train, source.id, low, (low + per_train).min(total), size);
        let calls = from.counters().send_calls;
        assert_eq!(from.send(&train, &source.table).unwrap(), SendOutcome::Sent);
        assert_eq!(from.counters().send_calls, calls + 1, "a train is one call");
    }
    let arrival = collect(to, &target, total, guess);
    assert!(target.bytes() == source.bytes(), "every byte is where it belongs");
    assert_eq!(arrival.reads, arrival.datagrams);
    arrival
}

/// A header, two areas of memory and a trailer are sent to `there` as one datagram, and read around the end of a ring.
pub(crate) fn gather_and_scatter((from, there): (&mut dyn Link, Address), to: &mut dyn Link) {
    let (source, target) = (Memory::pattern(500), Memory::zeros(500));
    let mut train = Train::new(from.train_limits());
    train.begin(there, 32 + 300 + 4);
    train.inline(&[0xC5; 32]);
    train.payload(BufferRange::new(source.id, 400, 100));
    train.payload(BufferRange::new(source.id, 0, 200));
    train.inline(&[7; 4]);
    train.end_segment();
    assert_eq!(from.send(&train, &source.table).unwrap(), SendOutcome::Sent);

    let mut plan = ReceivePlan::new();
    plan.reset(to.datagrams_per_read());
    plan.pooled(32);
    plan.payload(BufferRange::new(target.id, 400, 100));
    plan.payload(BufferRange::new(target.id, 0, 200));
    plan.top_up(ReadBuffer::READ_BYTES);
    let mut pool = ReadBuffer::new();
    let read = receive(to, &plan, &target.table, &mut pool).unwrap();
    assert_eq!((read.bytes, read.segment, read.truncated), (336, 336, false));
    let (mut pieces, mut moves) = (Vec::new(), Vec::new());
    // SAFETY: the target stays, and nothing is written to it meanwhile.
    unsafe { pool.pieces(read.bytes, &mut pieces) };
    let mut placed = Placed::new(plan.slots(), &pieces, read.bytes, read.segment, &mut moves);
    let segment = placed.next_segment().unwrap();
    assert_eq!((placed.head::<32>(&segment), placed.tail::<4>(&segment)), (Some([0xC5; 32]), Some([7; 4])));
    assert_eq!(placed.settle(&segment, 32..132, BufferRange::new(target.id, 400, 100)), 0);
    assert_eq!(placed.settle(&segment, 132..332, BufferRange::new(target.id, 0, 200)), 0);
    assert!(target.bytes()[..200] == source.bytes()[..200] && target.bytes()[400..] == source.bytes()[400..]);
    assert_eq!(target.bytes()[200..400], [0; 200]);
}

/// Makes a link as soon as what it wants to own has no owner: a process that another test is just starting holds the
/// descriptors of this one until it runs its own program.
pub(crate) fn soon<L>(make: impl Fn() -> std::io::Result<L>) -> L {
    for _ in 0..2000 {
        match make() {
            Err(error) if error.kind() == ErrorKind::AddrInUse => std::thread::sleep(Duration::from_millis(1)),
            link => return link.unwrap_or_else(|error| panic!("{error}")),
        }
    }
    panic!("it keeps its owner");
}

/// What a thread without any capability finds.
#[cfg(target_os = "linux")]
pub(crate) fn without_capabilities<T: Send + 'static>(find: impl FnOnce() -> T + Send + 'static) -> T {
    let without = std::thread::spawn(|| {
        let header: [u32; 2] = [0x2008_0522, 0];
        let none = [0u32; 6];
        // SAFETY: version 3 of the call, with a header and two sets of three words; changes this thread only, which ends.
        let done = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
        assert_eq!(done, 0, "giving up is always allowed");
        find()
    });
    without.join().expect("it does not panic")
}

/// Reads datagrams of 100 bytes, which `send` sends, into less memory, and enough.
pub(crate) fn reads_into_too_little(link: &mut dyn Link, mut send: impl FnMut(&[u8])) {
    for (room, lost) in [(99, true), (100, false), (10, true), (1, true)] {
        send(&[5; 100]);
        let mut plan = ReceivePlan::new();
        plan.reset(1);
        plan.pooled(room);
        let read = receive(link, &plan, &BufferTable::new(), &mut ReadBuffer::new()).expect("it has come");
        assert_eq!((read.bytes, read.truncated), (room.min(100), lost));
    }
    assert_eq!(link.counters().datagrams_truncated, 3);
}

/// Sends one datagram of header bytes.
pub(crate) fn send_bytes(link: &mut dyn Link, to: Address, bytes: &[u8], ecn: Ecn) -> SendOutcome {
    let mut train = Train::new(link.train_limits());
    train.begin(to, bytes.len());
    train.set_ecn(ecn);
    train.inline(bytes);
    train.end_segment();
    link.send(&train, &BufferTable::new()).expect("the link works")
}

/// The bytes of the next read, and what is known of it.
pub(crate) fn receive_bytes(link: &mut dyn Link) -> Option<(Vec<u8>, Received)> {
    let (mut plan, mut pool) = (ReceivePlan::new(), ReadBuffer::new());
    plan.reset(link.datagrams_per_read());
    plan.top_up(ReadBuffer::READ_BYTES);
    let read = receive(link, &plan, &BufferTable::new(), &mut pool)?;
    Some((pool.pooled(read.bytes), read))
}

/// Lets this host hear from itself, as a router would say it, that what `from` has sent to `to` did not arrive. Anybody
/// can.
pub(crate) fn forge_icmp(code: u8, mtu: u16, from: SocketAddr, to: SocketAddr) {
    let (SocketAddr::V4(from), SocketAddr::V4(to)) = (from, to) else { panic!("this is for IPv4") };
    let mut icmp = vec![3, code, 0, 0, 0, 0];
    icmp.extend(mtu.to_be_bytes());
    icmp.extend([0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    icmp.extend(from.ip().octets().into_iter().chain(to.ip().octets()));
    icmp.extend(from.port().to_be_bytes().into_iter().chain(to.port().to_be_bytes()).chain([0, 8, 0, 0]));
    let sum = icmp.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum::<u32>();
    let sum = !((sum & 0xFFFF) + (sum >> 16)) as u16;
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    // SAFETY: a new descriptor, which is closed with the socket made of it; `send_to` cares for no protocol.
    let socket = unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP);
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        UdpSocket::from_raw_fd(fd)
    };
    assert_eq!(socket.send_to(&icmp, (*from.ip(), 0)).unwrap(), icmp.len());
}

/// The header of an XTP DATA packet of 32 + `data` bytes, all but its checksum.
pub(crate) fn data_header(data: u32, seq: u64) -> [u8; 32] {
    let mut header = [0; 32];
    header[..8].copy_from_slice(&77u64.to_be_bytes());
    header[11] = 1 << 5;
    header[12..16].copy_from_slice(&data.to_be_bytes());
    header[20..24].copy_from_slice(&5u32.to_be_bytes());
    header[24..].copy_from_slice(&seq.to_be_bytes());
    header
}

/// One end receives a packet of XTP that is nothing but this header, with the checksum in its place.
pub(crate) fn answer(to: &mut dyn Link, from: &mut dyn Link, header: &[u8; 32]) {
    let mut train = Train::new(from.train_limits());
    train.begin(Address::Peer, header.len());
    let at = ChecksumAt::Head(16);
    train.set_checksum(Some(Checksum { kind: ChecksumKind::Internet, skip_head: 0, skip_tail: 0, at }));
    train.inline(header);
    train.end_segment();
    train.fill_checksum(|_| &[], &mut Sums::default());
    send_bytes(from, Address::Peer, train.inline_bytes(), Ecn::NotCapable);
    assert_eq!(receive_bytes(to).unwrap().0.len(), header.len());
}

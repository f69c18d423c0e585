//! The native interface on real UDP sockets: waiting in every way, many threads, and peers that misbehave.

use pinnace::zcrp::{Failure, Listener, Options, Progress, Receiver, Refused, Sender};
use pinnace::{Error, Message};
#[cfg(target_os = "linux")]
use std::net::SocketAddrV4;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

fn options() -> Options {
    Options { peer_timeout: Duration::from_secs(2), ..Options::default() }
}

/// A sender, and a receiver that it has introduced itself to with message 0 of one byte.
fn pair(options: &Options) -> (Sender, Receiver, SocketAddr) {
    let listener = Listener::bind("127.0.0.1:0", options).unwrap();
    let address = listener.local_addr().unwrap();
    let sender = Sender::connect(address, options).unwrap();
    let hello = sender.send(Message::from_vec(vec![7])).unwrap();
    let receiver = listener.accept_receiver().unwrap();
    assert_eq!(receiver.post(Message::with_capacity(1)).unwrap().wait().unwrap().into_vec(), [7]);
    hello.wait().unwrap();
    (sender, receiver, address)
}

/// Waits until `ready`, for as long as a machine that is busy may take.
fn wait_until(what: &str, mut ready: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !ready() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn data(size: usize, salt: usize) -> Vec<u8> {
    (0..size).map(|index| (index.wrapping_mul(13) ^ (index >> 7) ^ salt) as u8).collect()
}

#[test]
fn waiting_blocks_polls_or_gives_up_and_goes_on() {
    //= Z-15 test
    let (sender, receiver, _) = pair(&options());
    let sending = sender.send(Message::from_vec(data(100_000, 1))).unwrap();
    assert!(!sending.has_ended(), "nobody has posted");
    let begun = Instant::now();
    let Progress::UnderWay(sending) = sending.wait_timeout(Duration::from_millis(30)) else { panic!("it cannot end") };
    assert!(begun.elapsed() >= Duration::from_millis(30));
    let receiving = receiver.post(Message::with_capacity(100_000)).unwrap();
    let message = pollster::block_on(receiving).unwrap();
    assert_eq!(message.into_vec(), data(100_000, 1));
    let Progress::Ended(result) = sending.wait_timeout(Duration::from_secs(5)) else { panic!("it has arrived") };
    assert_eq!(result.unwrap().len(), 100_000, "the buffer comes back");
    // Both sides as futures, and probing without ever waiting.
    let (sending, receiving) =
        (sender.send(Message::from_vec(data(5, 2))).unwrap(), receiver.post(Message::with_capacity(9)).unwrap());
    assert_eq!(pollster::block_on(receiving).unwrap().into_vec(), data(5, 2));
    pollster::block_on(sending).unwrap();
    let (sending, receiving) =
        (sender.send(Message::from_vec(data(5, 3))).unwrap(), receiver.post(Message::with_capacity(9)).unwrap());
    wait_until("probing makes progress", || receiving.has_ended() && sending.has_ended());
    assert_eq!(receiving.wait().unwrap().into_vec(), data(5, 3));
}

#[test]
fn a_stranger_who_introduces_itself_keeps_nobody_out() {
    //= Z-19, Z-21 test
    // Asked at once, and not with the next repetition; on a busy machine one may be unlucky.
    let mut took = std::iter::repeat_with(behind_a_stranger).take(5);
    assert!(took.any(|took| took < Duration::from_millis(500)), "nobody is asked at once");
}

/// A sender comes behind a stranger who has introduced itself: how long its message takes.
fn behind_a_stranger() -> Duration {
    let options = Options { peer_timeout: Duration::from_millis(500), ..options() };
    let listener = Listener::bind("127.0.0.1:0", &options).unwrap();
    let address = listener.local_addr().unwrap();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let idle: Vec<u8> = [[0; 24].as_slice(), &[8, 0, 0, 0]].concat();
    stranger.send_to(&idle, address).unwrap();
    let receiver = listener.accept_receiver().unwrap();
    let receiving = receiver.post(Message::with_capacity(50_000)).unwrap();
    let mut answer = [0; 2000];
    let mut answered = 28 + stranger.recv(&mut answer).expect("it is asked for message 0");
    // It says nothing more, for longer than a peer may.
    let Progress::UnderWay(receiving) = receiving.wait_timeout(Duration::from_secs(1)) else {
        panic!("nobody sent it")
    };
    let begun = Instant::now();
    let sender = Sender::connect(address, &options).unwrap();
    let sending = sender.send(Message::from_vec(data(50_000, 1))).unwrap();
    assert_eq!(receiving.wait().unwrap().into_vec(), data(50_000, 1));
    sending.wait().unwrap();
    let took = begun.elapsed();
    stranger.set_nonblocking(true).unwrap();
    while let Ok(bytes) = stranger.recv(&mut answer) {
        answered += 28 + bytes;
    }
    assert!(answered <= 3 * (28 + 28), "{answered} bytes for 56");
    // Now that the peer is known, nobody else is heard.
    let receiving = receiver.post(Message::with_capacity(10)).unwrap();
    stranger.send_to(&idle, address).unwrap();
    sender.send(Message::from_vec(data(10, 2))).unwrap().wait().unwrap();
    assert_eq!(receiving.wait().unwrap().into_vec(), data(10, 2));
    assert!(stranger.recv(&mut answer).is_err());
    took
}

/// Sends a datagram of UDP in anybody's name; false if this user may not.
#[cfg(target_os = "linux")]
fn send_in_the_name_of(source: SocketAddrV4, to: SocketAddrV4, data: &[u8]) -> bool {
    use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, ipproto, sendto, socket_with};
    let socket = match socket_with(AddressFamily::INET, SocketType::RAW, SocketFlags::CLOEXEC, Some(ipproto::RAW)) {
        Ok(socket) => socket,
        Err(error) => {
            pinnace_testing::skip::host(format_args!("this user may not send in the name of others ({error})"));
            return false;
        }
    };
    // The kernel fills in the length, the number and the sum of the IP header; UDP goes without a sum.
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0];
    packet.extend(source.ip().octets());
    packet.extend(to.ip().octets());
    for word in [source.port(), to.port(), 8 + data.len() as u16, 0] {
        packet.extend(word.to_be_bytes());
    }
    packet.extend(data);
    assert_eq!(sendto(&socket, &packet, SendFlags::empty(), &to).unwrap(), packet.len());
    true
}

/// Whoever comes in the name of an address that nothing can be sent to, or that nobody can be connected to, fails neither
/// the wait for a peer nor what follows.
#[cfg(target_os = "linux")]
#[test]
fn who_cannot_be_answered_keeps_nobody_out() {
    //= Z-21 test
    let idle: Vec<u8> = [[0; 24].as_slice(), &[8, 0, 0, 0]].concat();
    for nobody in ["127.0.0.1:0", "255.255.255.255:7"] {
        let listener = Listener::bind("127.0.0.1:0", &options()).unwrap();
        let SocketAddr::V4(address) = listener.local_addr().unwrap() else { panic!("it is of IPv4") };
        if !send_in_the_name_of(nobody.parse().unwrap(), address, &idle) {
            return;
        }
        let sending = Sender::connect(address, &options()).unwrap();
        let sending = (sending.send(Message::from_vec(data(50_000, 1))).unwrap(), sending);
        let receiver = listener.accept_receiver().unwrap_or_else(|error| panic!("{nobody}: {error}"));
        let receiving = receiver.post(Message::with_capacity(50_000)).unwrap();
        // Once more, behind what was sent to those who are there.
        send_in_the_name_of(nobody.parse().unwrap(), address, &idle);
        let Progress::Ended(received) = receiving.wait_timeout(Duration::from_secs(10)) else {
            panic!("{nobody}: nothing came")
        };
        assert_eq!(received.unwrap_or_else(|error| panic!("{nobody}: {error}")).into_vec(), data(50_000, 1));
        sending.0.wait().unwrap();
    }
}

#[test]
fn a_listener_on_all_addresses_answers_from_the_one_that_was_written_to() {
    //= Z-21 test
    for (all, known_as) in [("0.0.0.0:0", "127.0.0.2"), ("[::]:0", "127.0.0.2"), ("0.0.0.0:0", "127.0.0.1")] {
        let listener = Listener::bind(all, &options()).unwrap();
        let port = listener.local_addr().unwrap().port();
        // From an address of its own, so that the system would answer it from another.
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect((known_as, port)).unwrap();
        sender.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let idle: Vec<u8> = [[0; 24].as_slice(), &[8, 0, 0, 0]].concat();
        sender.send(&idle).unwrap();
        let receiver = listener.accept_receiver().unwrap();
        let receiving = receiver.post(Message::with_capacity(100)).unwrap();
        let mut answer = [0; 2000];
        // A flow hint answers the introduction as well, before or after.
        let mut heard = || {
            let len = sender.recv(&mut answer).expect("a connected socket hears only who was written to");
            answer[len - 4]
        };
        assert_eq!(std::iter::repeat_with(&mut heard).find(|kind| *kind != 0x84), Some(0x83), "{all} {known_as}");
        let words = [0, 0, 9, 0, 0, 3].map(u32::to_be_bytes);
        sender.send(&[b"abc".as_slice(), words.as_flattened(), &[2, 0, 0, 0]].concat()).unwrap();
        assert_eq!(receiving.wait().unwrap().into_vec(), b"abc");
        // Requests are repeated.
        let acknowledged = std::iter::repeat_with(&mut heard).find(|kind| !matches!(kind, 0x83 | 0x84));
        assert_eq!(acknowledged, Some(0x81), "{all} {known_as}");
    }
}

#[test]
fn dropped_handles_let_their_messages_go_on() {
    //= Z-15 test
    let (sender, receiver, _) = pair(&options());
    drop(sender.send(Message::from_vec(data(50_000, 1))).unwrap());
    drop(receiver.post(Message::with_capacity(50_000)).unwrap());
    let sending = sender.send(Message::from_vec(data(10, 2))).unwrap();
    let message = receiver.post(Message::with_capacity(10)).unwrap().wait().unwrap();
    assert_eq!(message.into_vec(), data(10, 2), "the second message went into the second buffer");
    sending.wait().unwrap();
    wait_until("the dropped ones have arrived", || sender.counters().messages_sent >= 3);
}

#[test]
fn thousands_of_messages_from_several_threads() {
    //= Z-4, Z-17 test
    const THREADS: usize = 4;
    const EACH: usize = 1000;
    let (sender, receiver, _) = pair(&options());
    let receivings: Vec<_> = (0..THREADS * EACH).map(|_| receiver.post(Message::with_capacity(64)).unwrap()).collect();
    let senders: Vec<_> = (0..THREADS)
        .map(|thread| {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let sendings: Vec<_> = (0..EACH)
                    .map(|index| {
                        let text = format!("{thread}:{index}");
                        let sending = sender.send(Message::from_vec(text.clone().into_bytes())).unwrap();
                        (sending.number(), text, sending)
                    })
                    .collect();
                sendings
                    .into_iter()
                    .map(|(number, text, sending)| {
                        sending.wait().unwrap();
                        (number, text)
                    })
                    .collect::<Vec<_>>()
            })
        })
        .collect();
    let mut received: Vec<(u64, String)> = receivings
        .into_iter()
        .map(|receiving| (receiving.number(), String::from_utf8(receiving.wait().unwrap().into_vec()).unwrap()))
        .collect();
    let mut sent: Vec<_> = senders.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    sent.sort();
    received.sort();
    assert_eq!(sent, received, "the n-th send went into the n-th buffer");
}

#[test]
fn a_peer_that_vanishes_is_reported_within_its_timeout() {
    //= Z-19 test
    // A peer that answers once and is then silent: a plain socket that requests the message.
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let sender = Sender::connect(peer.local_addr().unwrap(), &options()).unwrap();
    let sending = sender.send(Message::from_vec(data(100_000, 1))).unwrap();
    let waiting = sender.send(Message::from_vec(data(1, 1))).unwrap();
    let mut datagram = [0; 65_536];
    let (_, from) = peer.recv_from(&mut datagram).unwrap();
    let request: Vec<u8> = [1u32, 0, 100_000, 0x8300_0000].iter().flat_map(|word| word.to_be_bytes()).collect();
    peer.send_to(&request, from).unwrap();
    let begun = Instant::now();
    let unsent = sending.wait().unwrap_err();
    assert!(matches!(unsent.error, Error::Failed(Failure::PeerGone)), "{unsent}");
    assert_eq!(unsent.message.unwrap().into_vec(), data(100_000, 1), "the buffer is the caller's again");
    let took = begun.elapsed();
    assert!(took > Duration::from_millis(1900) && took < Duration::from_secs(10), "{took:?}");
    assert!(matches!(waiting.wait().unwrap_err().error, Error::Failed(Failure::PeerGone)));
    let refused = sender.send(Message::from_vec(vec![1])).unwrap_err();
    assert!(matches!(refused.error, Error::Refused(Refused::Closed(Failure::PeerGone))), "{refused}");
    assert!(refused.message.is_some());
}

#[test]
fn a_port_where_nobody_listens_is_counted_and_no_failure() {
    //= Z-19 test
    let address = pinnace_testing::ports::nobody();
    let sender = Sender::connect(address, &options()).unwrap();
    let sending = sender.send(Message::from_vec(vec![1, 2, 3])).unwrap();
    wait_until("its host says that the port is closed", || sender.counters().unreachable_reports > 0);
    assert!(!sending.has_ended(), "nobody listens");
    // Somebody starts to listen: the next announcement finds him.
    let listener = Listener::bind(address, &options()).unwrap();
    let receiver = listener.accept_receiver().unwrap();
    let message = receiver.post(Message::with_capacity(3)).unwrap().wait().unwrap();
    assert_eq!(message.into_vec(), [1, 2, 3]);
    sending.wait().unwrap();
}

#[test]
fn a_receiver_that_never_posts_keeps_nobody_from_closing() {
    //= Z-3, Z-15 test
    let (sender, receiver, _) = pair(&options());
    let sending = sender.send(Message::from_vec(data(1000, 1))).unwrap();
    let Progress::UnderWay(sending) = sending.wait_timeout(Duration::from_millis(200)) else { panic!("no buffer") };
    assert_eq!(sender.counters().units_sent, 1, "the first message only");
    sender.close();
    assert!(matches!(sending.wait().unwrap_err().error, Error::Failed(Failure::Closed)));
    let posted = receiver.post(Message::with_capacity(10)).unwrap();
    receiver.close();
    assert!(matches!(posted.wait().unwrap_err().error, Error::Failed(Failure::Closed)));
    assert!(receiver.post(Message::with_capacity(1)).is_err());
}

/// A third socket that sends to an address what nobody has asked it for, until this ends.
struct Flood {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Flood {
    fn start(to: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = stop.clone();
        let thread = std::thread::spawn(move || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let mut sent = 0u64;
            while !is_over.load(Ordering::Relaxed) {
                // Garbage, and a well-formed lie: message 1 is complete and holds one byte.
                let mut lie = vec![0xEE];
                lie.extend_from_slice(&[
                    0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0,
                ]);
                let _ = socket.send_to(&lie, to);
                let _ = socket.send_to(&data(1000, sent as usize), to);
                sent += 2;
                if sent.is_multiple_of(64) {
                    std::thread::sleep(Duration::from_micros(200));
                }
            }
            sent
        });
        Self { stop, thread }
    }

    /// Ends it: how many datagrams there were.
    fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

#[test]
fn a_flood_from_a_third_socket_is_thrown_away_and_counted() {
    //= Z-2, Z-20 test
    // On a busy machine what the sender says of itself may not get past the flood at once.
    let options = Options { peer_timeout: Duration::from_secs(20), ..options() };
    let listener = Listener::bind("127.0.0.1:0", &options).unwrap();
    let address = listener.local_addr().unwrap();
    // Whoever introduces itself and then says nothing leaves the socket open to everybody.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    silent.send_to(&[[0; 24].as_slice(), &[8, 0, 0, 0]].concat(), address).unwrap();
    let receiver = listener.accept_receiver().unwrap();
    let post = || receiver.post(Message::with_capacity(200_000)).unwrap();
    let mut first = Some(post());
    let flood = Flood::start(address);
    let thrown_away = || receiver.link_counters().datagrams_from_strangers;
    wait_until("the flood is counted", || thrown_away() >= 1000);
    // Once the peer has answered, the kernel throws away what others send.
    let sender = Sender::connect(address, &options).unwrap();
    for number in 0..30 {
        let receiving = first.take().unwrap_or_else(post);
        let sending = sender.send(Message::from_vec(data(200_000, number))).unwrap();
        let message = receiving.wait().unwrap();
        assert!(message.into_vec() == data(200_000, number), "message {number} was altered");
        sending.wait().unwrap();
    }
    let seen = receiver.counters();
    assert_eq!((seen.datagrams_malformed, seen.units_unrequested, seen.units_contradictory), (0, 0, 0), "{seen:?}");
    let thrown_away = thrown_away();
    assert!(flood.end() >= thrown_away, "nothing of the peer's is among the {thrown_away}");
}

#[test]
fn a_listener_answers_strangers_with_little_and_garbage_not_at_all() {
    //= Z-21 test
    let listener = Listener::bind("127.0.0.1:0", &options()).unwrap();
    let address = listener.local_addr().unwrap();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    for garbage in [&[0u8; 28][..], &[8; 28], &[0; 5], &[0xFF; 1000]] {
        stranger.send_to(garbage, address).unwrap();
    }
    let mut datagram = [0; 2000];
    assert!(stranger.recv_from(&mut datagram).is_err(), "garbage gets no answer");
    // An introduction, and then nothing more: what the receiver may say to that is bounded.
    let mut idle = [0; 28];
    idle[24] = 8;
    stranger.send_to(&idle, address).unwrap();
    let receiver = listener.accept_receiver().unwrap();
    for _ in 0..500 {
        drop(receiver.post(Message::with_capacity(1000)).unwrap());
    }
    let mut bytes = 0;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(600) {
        if let Ok((len, _)) = stranger.recv_from(&mut datagram) {
            bytes += len + 28;
        }
    }
    assert!(bytes > 0 && bytes <= 3 * (28 + 28), "{bytes} bytes answer 56");
}

#[test]
fn user_memory_and_mapped_files_are_sent_and_received_in_place() {
    //= Z-17, Z-18 test
    use std::io::{Read, Seek, Write};
    let (sender, receiver, _) = pair(&options());
    let size = 3_000_000;
    let (mut source, mut target) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    source.write_all(&data(size, 9)).unwrap();
    target.set_len(size as u64).unwrap();
    // SAFETY: both files are this test's, which looks at them when the maps are gone.
    let (from, into) = unsafe { (Message::map_file(&source, 0, size), Message::map_file_mut(&target, 0, size)) };
    let sending = sender.send(from.unwrap()).unwrap();
    let receiving = receiver.post(into.unwrap()).unwrap();
    receiving.wait().unwrap().flush().unwrap();
    sending.wait().unwrap();
    let mut found = Vec::new();
    target.rewind().unwrap();
    target.read_to_end(&mut found).unwrap();
    assert!(found == data(size, 9));
    let seen = receiver.counters();
    assert!(seen.units_in_place * 100 >= (seen.units_in_place + seen.units_copied) * 90, "{seen:?}");
    // The caller's own memory; and a read-only map cannot be received into.
    let mut memory = data(70_000, 1);
    // SAFETY: `memory` outlives both waits, and is not touched before.
    let message = unsafe { Message::from_raw(memory.as_mut_ptr(), memory.len()) };
    let receiving = receiver.post(Message::with_capacity(70_000)).unwrap();
    let back = sender.send(message).unwrap().wait().unwrap();
    assert!(receiving.wait().unwrap().into_vec() == data(70_000, 1));
    drop(back);
    // SAFETY: nobody writes to the file any more.
    let read_only = unsafe { Message::map_file(&source, 0, 100) }.unwrap();
    let refused = receiver.post(read_only).unwrap_err();
    assert!(matches!(refused.error, Error::ReadOnly));
}

#[test]
fn a_message_longer_than_its_buffer_fails_at_both_ends_and_others_go_on() {
    //= Z-16 test
    let (sender, receiver, _) = pair(&options());
    let (long, next) =
        (sender.send(Message::from_vec(data(2000, 1))).unwrap(), sender.send(Message::from_vec(data(3, 2))).unwrap());
    let (short, good) =
        (receiver.post(Message::with_capacity(1999)).unwrap(), receiver.post(Message::with_capacity(3)).unwrap());
    assert!(matches!(short.wait().unwrap_err().error, Error::Failed(Failure::TooLong)));
    let unsent = long.wait().unwrap_err();
    assert!(unsent.to_string().contains("longer than the receiver's buffer"), "{unsent}");
    assert_eq!(good.wait().unwrap().into_vec(), data(3, 2));
    next.wait().unwrap();
}

#[test]
fn an_endpoint_without_a_worker_moves_while_somebody_waits() {
    let options = Options { worker: false, ..options() };
    let (sender, receiver, _) = {
        let listener = Listener::bind("127.0.0.1:0", &options).unwrap();
        let address = listener.local_addr().unwrap();
        let sender = Sender::connect(address, &options).unwrap();
        let sending = sender.send(Message::from_vec(data(300_000, 4))).unwrap();
        let other = std::thread::spawn(move || sending.wait().unwrap());
        let receiver = listener.accept_receiver().unwrap();
        let message = receiver.post(Message::with_capacity(300_000)).unwrap().wait().unwrap();
        assert!(message.into_vec() == data(300_000, 4));
        receiver.close();
        other.join().unwrap();
        (sender, receiver, address)
    };
    assert_eq!((sender.counters().messages_sent, receiver.counters().messages_received), (1, 1));
}

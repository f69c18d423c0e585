//! VRP's native interface on real UDP sockets, with and without a faulty link: contents, holes, contracts and both ends'
//! accounts of them; deadlines, limits, and ends that go away; threads, tasks and event loops.
#![allow(clippy::single_range_in_vec_init)]

use pinnace::link::{Burst, Fault, FaultOptions, UdpLink, UdpOptions};
use pinnace::vrp::{Contract, Failure, Frame, Limits, Options, Profile, Progress, Received, Receiver, Refused, Sender};
use pinnace::{Error, Message};
use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::time::{Duration, Instant};

fn options() -> Options {
    Options { life_timeout: Duration::from_secs(3), ..Options::default() }
}

fn pair(options: &Options) -> (Sender, Receiver) {
    let receiver = Receiver::bind("127.0.0.1:0", options).unwrap();
    let sender = Sender::connect(receiver.local_addr(), options).unwrap();
    (sender, receiver)
}

/// A sender and a receiver on loopback, whose datagrams meet with faults in both directions.
fn faulty_pair(options: &Options, out: &FaultOptions, back: &FaultOptions) -> (Sender, Receiver) {
    let udp = UdpOptions::default();
    let incoming = UdpLink::bind("127.0.0.1:0".parse().unwrap(), &udp).unwrap();
    let outgoing = UdpLink::connect(None, incoming.local_address().unwrap(), &udp).unwrap();
    let sender = Sender::over(Box::new(Fault::new(outgoing, out.clone())), options).unwrap();
    let receiver = Receiver::over(Box::new(Fault::new(incoming, back.clone())), options).unwrap();
    (sender, receiver)
}

/// As on the Internet: packets of 1,466 bytes, congestion control and pacing.
fn internet() -> Options {
    Options { profile: Profile::Internet, packet_bytes: Some(1466), ..options() }
}

/// Never zero, so that a hole cannot be taken for data.
fn data(size: usize, salt: usize) -> Vec<u8> {
    (0..size).map(|index| (index.wrapping_mul(31) ^ (index >> 8) ^ salt.wrapping_mul(97)) as u8 | 1).collect()
}

/// Checks bytes, holes and the account of them against what was sent, and against the contract (V-R18).
fn check(frame: &Received, sent: &[u8], critical: &[Range<usize>]) {
    assert_eq!(frame.len(), sent.len(), "a frame has its full size");
    let packet = usize::from(frame.packet_bytes());
    let packets = sent.len().div_ceil(packet.max(1));
    let mut low = 0;
    let mut lost = BTreeSet::new();
    for hole in frame.holes() {
        assert!(low <= hole.start && hole.start < hole.end && (low == 0 || low < hole.start), "{:?}", frame.holes());
        assert!(frame[low..hole.start] == sent[low..hole.start], "bytes were altered");
        assert!(frame[hole.clone()].iter().all(|byte| *byte == 0), "a hole is zeros");
        assert!(hole.start.is_multiple_of(packet) && (hole.end.is_multiple_of(packet) || hole.end == sent.len()));
        lost.extend(hole.start / packet..hole.end.div_ceil(packet));
        low = hole.end;
    }
    assert!(frame[low..] == sent[low..], "bytes were altered");
    let runs = |range: &Range<usize>| {
        range
            .clone()
            .fold((0, 0), |(run, most), packet| {
                let run = if lost.contains(&packet) { run + 1 } else { 0 };
                (run, run.max(most))
            })
            .1
    };
    let loss = frame.loss();
    assert_eq!((loss.packets as usize, loss.lost as usize), (packets, lost.len()));
    assert_eq!(loss.longest_run as usize, runs(&(0..packets)));
    let contract = frame.contract();
    assert!(loss.longest_run <= u32::from(contract.run) || contract.run == 255);
    let window = frame.window() as usize;
    for low in 0..=packets.saturating_sub(window) {
        let in_window = lost.range(low..low + window).count() as u32;
        assert!(in_window <= contract.max_lost(window as u32), "{in_window} of {window} packets from {low} are lost");
    }
    for range in critical {
        assert!(frame.holes().iter().all(|hole| hole.end <= range.start || range.end <= hole.start), "{range:?}");
    }
}

/// Sends one frame and receives it; both ends must agree on what was lost.
fn transfer(sender: &Sender, receiver: &Receiver, size: usize, contract: &Contract, critical: &[Range<usize>]) -> u32 {
    let bytes = data(size, size);
    let contract = critical
        .iter()
        .fold(contract.clone(), |contract, range| contract.critical(range.start as u64..range.end as u64));
    let sending = sender.send(Frame::new(Message::from_vec(bytes.clone())).with_contract(contract)).unwrap();
    let waiting = std::thread::spawn(move || sending.wait());
    let frame = receiver.recv().unwrap();
    check(&frame, &bytes, critical);
    let sent = waiting.join().unwrap().unwrap();
    assert!(*sent.message == bytes[..], "the message comes back");
    let report = sent.report.expect("our receiver reports");
    assert_eq!((report.packets, report.lost), (frame.loss().packets, frame.loss().lost));
    if report.is_complete {
        assert_eq!((report.holes(), report.longest_run), (frame.holes(), frame.loss().longest_run));
    }
    frame.loss().lost
}

#[test]
fn frames_of_every_size_arrive() {
    //= V-S4, V-R1, V-R13 test
    let (sender, receiver) = pair(&options());
    let round_trip = sender.open().unwrap();
    assert!(round_trip < Duration::from_secs(1) && sender.open().unwrap() == round_trip);
    assert!(sender.round_trip().is_some());
    for size in [0, 1, 254, 255, 256, 257, 1466, 65_501, 65_502, 1 << 20, 10_000_000] {
        assert_eq!(transfer(&sender, &receiver, size, &Contract::reliable(), &[]), 0);
    }
    assert_eq!(sender.counters().frames_sent, 11);
    assert_eq!(receiver.counters().frames_received, 11);
    assert!(receiver.link_counters().datagrams_received > 0 && sender.link_counters().datagrams_sent > 0);
}

#[test]
fn frames_of_every_size_arrive_as_on_the_internet() {
    //= V-S4, V-R1, V-R13 test
    let (sender, receiver) = pair(&internet());
    // Empty, inline, one packet, and up to and beyond the 16 packets that need not wait for an answer.
    for size in [0, 1, 255, 256, 1466, 1467, 15 * 1466, 16 * 1466, 16 * 1466 + 1, 17 * 1466, 3_000_000] {
        assert_eq!(transfer(&sender, &receiver, size, &Contract::reliable(), &[]), 0);
    }
}

#[test]
fn a_large_frame_arrives() {
    //= V-S5, V-R7 test
    let (sender, receiver) = pair(&options());
    let contract = Contract::new().loss_percent(10.0).run_bytes(100_000);
    transfer(&sender, &receiver, 50_000_000, &contract, &[0..1000]);
}

#[test]
fn what_is_lost_is_within_the_contract_and_reported_exactly_at_both_ends() {
    //= V-R18, V-S13 test
    let paper = Contract::new().loss_percent(25.0).run_bytes(6000);
    let contracts = [
        (Contract::reliable(), false),
        (paper, true),
        (Contract::new().loss_percent(10.0), true),
        (Contract::new().loss_percent(100.0).any_run(), true),
        (Contract::new().run_bytes(100_000), false),
    ];
    let mut allowed = 0;
    for (seed, (contract, may_lose)) in (1..).zip(&contracts) {
        for loss in [0.02, 0.2] {
            let out = FaultOptions {
                seed,
                loss,
                burst: Some(Burst { begin: 0.005, end: 0.3, loss: 0.9 }),
                duplication: 0.02,
                reordering: 0.02,
                ..FaultOptions::default()
            };
            let back = FaultOptions { seed: seed + 100, loss: loss / 2.0, ..FaultOptions::default() };
            let (sender, receiver) = faulty_pair(&internet(), &out, &back);
            for size in [0, 200, 1000, 16_000, 100_000, 400_000] {
                let critical = [0..size.min(1000), size / 2..size / 2 + size / 10];
                let lost = transfer(&sender, &receiver, size, contract, &critical);
                assert!(*may_lose || lost == 0);
                allowed += lost;
            }
        }
    }
    assert!(allowed > 50, "contracts were of no use: {allowed}");
}

#[test]
fn storage_that_is_used_again_shows_nothing_of_what_it_held() {
    //= V-R18 test
    // All may be lost, so holes are many; frames of one size use the same memory.
    let out = FaultOptions { loss: 0.3, ..FaultOptions::default() };
    let (sender, receiver) = faulty_pair(&internet(), &out, &FaultOptions::default());
    let contract = Contract::new().loss_percent(100.0).any_run();
    let lost: u32 = (0..20).map(|_| transfer(&sender, &receiver, 60_000, &contract, &[])).sum();
    assert!(lost > 50, "{lost}");
}

#[test]
fn frames_travel_side_by_side() {
    //= V-S12 test
    let (sender, receiver) = pair(&internet());
    let large = sender.send(data(30_000_000, 1)).unwrap();
    let small = sender.send(data(2000, 2)).unwrap();
    let taking = std::thread::spawn(move || [0, 1].map(|_| receiver.recv().unwrap().len()));
    small.wait().unwrap();
    large.wait().unwrap();
    assert_eq!(taking.join().unwrap(), [2000, 30_000_000], "a small frame overtakes a large one");
}

#[test]
fn many_threads_send_and_receive() {
    //= V-S12 test
    const THREADS: usize = 4;
    const EACH: usize = 200;
    let receiver = Receiver::bind("127.0.0.1:0", &options()).unwrap();
    let senders = [0, 1].map(|_| Sender::connect(receiver.local_addr(), &options()).unwrap());
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let sender = senders[thread % 2].clone();
            std::thread::spawn(move || {
                let frames = (0..EACH).map(|index| Frame::from(format!("{thread}:{index}").into_bytes()));
                let sendings =
                    if thread < 2 { sender.send_all(frames) } else { frames.map(|frame| sender.send(frame)).collect() };
                for sending in sendings {
                    sending.unwrap().wait().unwrap();
                }
            })
        })
        .collect();
    let takers: Vec<_> = (0..3)
        .map(|_| {
            let receiver = receiver.clone();
            std::thread::spawn(move || {
                let mut texts = Vec::new();
                while let Ok(frame) = receiver.recv() {
                    texts.push(String::from_utf8(frame.into_vec()).unwrap());
                }
                texts
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    receiver.close();
    let received: Vec<String> = takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect();
    assert_eq!(received.len(), THREADS * EACH, "each frame goes to one thread");
    let received: BTreeSet<String> = received.into_iter().collect();
    let sent = (0..THREADS).flat_map(|thread| (0..EACH).map(move |index| format!("{thread}:{index}")));
    assert_eq!(received, sent.collect());
}

#[test]
fn everything_can_be_awaited() {
    let (sender, receiver) = pair(&options());
    let sending = std::thread::spawn(move || {
        pollster::block_on(async {
            for size in [0, 100, 70_000] {
                let sent = sender.send(data(size, 1)).unwrap().await.unwrap();
                assert_eq!(sent.message.len(), size);
            }
        });
        sender
    });
    pollster::block_on(async {
        for size in [0, 100, 70_000] {
            check(&receiver.recv_async().await.unwrap(), &data(size, 1), &[]);
        }
    });
    sending.join().unwrap();
}

#[test]
fn an_event_loop_sees_when_frames_are_there() {
    use std::os::fd::AsRawFd;
    let (sender, receiver) = pair(&options());
    let fd = receiver.readiness_fd().unwrap().as_raw_fd();
    let is_readable = |timeout| {
        let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one live entry, and the count says so.
        unsafe { libc::poll(&raw mut entry, 1, timeout) > 0 }
    };
    assert!(!is_readable(20));
    for sending in sender.send_all([1, 2, 3].map(|salt| Frame::from(data(3000, salt)))) {
        sending.unwrap().wait().unwrap();
    }
    assert!(is_readable(5000));
    let mut taken = 0;
    while is_readable(200) {
        taken += usize::from(receiver.try_recv().unwrap().is_some());
    }
    assert_eq!((taken, receiver.waiting()), (3, 0), "readable as long as there is one");
    receiver.close();
    assert!(is_readable(5000), "and when there will be no more");
    assert!(matches!(receiver.try_recv(), Err(Error::Endpoint(_))));
}

#[test]
fn waiting_for_frames_can_be_bounded() {
    let (sender, receiver) = pair(&options());
    let begun = Instant::now();
    assert!(receiver.recv_timeout(Duration::from_millis(50)).unwrap().is_none());
    assert!(begun.elapsed() >= Duration::from_millis(50));
    let sending = sender.send(data(1000, 1)).unwrap();
    let frame = receiver.recv_timeout(Duration::from_secs(5)).unwrap().expect("it comes");
    assert_eq!(frame.source().ip().to_string(), "127.0.0.1");
    assert!(frame.took() < Duration::from_secs(5));
    let deadline = Instant::now() + Duration::from_secs(5);
    while !sending.has_ended() {
        assert!(Instant::now() < deadline, "probing makes progress");
    }
    assert!(sending.probe().unwrap().is_ok() && sending.probe().unwrap().is_ok());
    let Progress::Ended(sent) = sending.wait_timeout(Duration::ZERO) else { panic!("it has ended") };
    assert_eq!(sent.unwrap().message.len(), 1000);
}

/// Sends a frame of 300,000 bytes that cannot be acknowledged in time.
fn give_up(sender: &Sender) {
    let begun = Instant::now();
    let frame = Frame::from(data(300_000, 1)).give_up_after(Duration::from_millis(150));
    let unsent = sender.send(frame).unwrap().wait().unwrap_err();
    assert!(matches!(unsent.error, Error::FrameFailed(Failure::Late)), "{unsent}");
    assert_eq!(unsent.message.unwrap().into_vec(), data(300_000, 1));
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(140) && took < Duration::from_secs(4), "{took:?}");
}

#[test]
fn a_frame_is_given_up_when_its_time_is_over() {
    //= V-S11 test
    let (sender, receiver) = pair(&Options { rate: Some(100_000), ..internet() });
    give_up(&sender);
    // Others are not touched by that.
    let sending = sender.send(data(1000, 2)).unwrap();
    check(&receiver.recv().unwrap(), &data(1000, 2), &[]);
    sending.wait().unwrap();
    assert_eq!(receiver.counters().frames_received, 1);
}

#[test]
fn a_frame_to_nobody_is_given_up_when_its_time_is_over() {
    //= V-S11 test
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    give_up(&Sender::connect(silent.local_addr().unwrap(), &options()).unwrap());
}

#[test]
fn what_may_be_lost_is_not_repeated_after_the_soft_deadline() {
    // Acknowledgements are lost, too: otherwise the receiver lets the losses pass before the sender could repeat them.
    let out = FaultOptions { loss: 0.2, ..FaultOptions::default() };
    let back = FaultOptions { loss: 0.15, seed: 2, ..FaultOptions::default() };
    let patient = Options { life_timeout: Duration::from_secs(10), ..internet() };
    let (sender, receiver) = faulty_pair(&patient, &out, &back);
    let receiving = std::thread::spawn(move || {
        loop {
            let received = receiver.recv().unwrap();
            if received.is_empty() {
                // It answers repetitions until the sender has heard of the last frame.
                return receiver;
            }
            check(&received, &data(100_000, 1), &[0..3000]);
        }
    });
    let contract = Contract::new().loss_percent(50.0).critical(0..3000);
    // Whether the sender's time is over before the receiver has let a loss pass is a matter of luck, in every frame.
    let mut tries = 0;
    while sender.counters().packets_let_go == 0 {
        assert!(tries < 500, "{:?}", sender.counters());
        let frame = Frame::from(data(100_000, 1)).with_contract(contract.clone()).repeat_for(Duration::ZERO);
        sender.send(frame).unwrap().wait().unwrap();
        tries += 1;
    }
    sender.send(Vec::new()).unwrap().wait().unwrap();
    drop(receiving.join().unwrap());
}

#[test]
fn a_receiver_that_is_gone_is_reported_within_the_life_timeout() {
    //= V-S11 test
    let options = Options { life_timeout: Duration::from_millis(400), ..options() };
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let sender = Sender::connect(silent.local_addr().unwrap(), &options).unwrap();
    let begun = Instant::now();
    assert!(matches!(sender.open(), Err(Error::FrameFailed(Failure::PeerGone))));
    let unsent = sender.send(data(5000, 1)).unwrap().wait().unwrap_err();
    assert!(matches!(unsent.error, Error::FrameFailed(Failure::PeerGone)), "{unsent}");
    assert_eq!(unsent.message.unwrap().into_vec(), data(5000, 1), "the buffer is the caller's again");
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

#[test]
fn nobody_listens_yet_and_then_somebody_does() {
    let address = pinnace_testing::ports::nobody();
    // Longer than a machine that is busy lets it wait for the receiver.
    let patient = Options { life_timeout: Duration::from_secs(30), ..options() };
    let sender = Sender::connect(address, &patient).unwrap();
    let sending = sender.send(data(5000, 1)).unwrap();
    let Progress::UnderWay(sending) = sending.wait_timeout(Duration::from_millis(300)) else {
        panic!("an ICMP error ends nothing")
    };
    let receiver = Receiver::bind(address, &options()).unwrap();
    let frame = receiver.recv_timeout(Duration::from_secs(30)).unwrap().expect("it comes");
    check(&frame, &data(5000, 1), &[]);
    sending.wait().unwrap();
}

#[test]
fn frames_beyond_the_limits_are_refused_until_there_is_room_again() {
    //= V-R1 test
    let limits = Limits { bytes: 250_000, ..Limits::default() };
    let (sender, receiver) = pair(&Options { limits, ..options() });
    let refused = |size| {
        let unsent = sender.send(data(size, 1)).unwrap().wait().unwrap_err();
        assert!(matches!(unsent.error, Error::FrameFailed(Failure::Refused)), "{unsent}");
        assert_eq!(unsent.message.unwrap().len(), size);
    };
    refused(300_000);
    // What nobody has taken counts, and what was taken and is still here.
    sender.send(data(100_000, 1)).unwrap().wait().unwrap();
    refused(200_000);
    let first = receiver.recv().unwrap();
    sender.send(data(100_000, 2)).unwrap().wait().unwrap();
    refused(100_000);
    let second = receiver.recv().unwrap();
    assert!(receiver.bytes() >= 200_000);
    refused(100_000);
    drop(first);
    sender.send(data(100_000, 3)).unwrap().wait().unwrap();
    refused(100_000);
    check(&receiver.recv().unwrap(), &data(100_000, 3), &[]);
    assert_eq!(second.into_vec(), data(100_000, 2));
    sender.send(data(100_000, 4)).unwrap().wait().unwrap();
    assert!(receiver.counters().frames_refused >= 5, "{:?}", receiver.counters());
    check(&receiver.recv().unwrap(), &data(100_000, 4), &[]);
}

#[test]
fn a_frame_waits_while_those_before_it_are_not_taken() {
    //= V-R13 test
    let limits = Limits { bytes: 250_000, ..Limits::default() };
    let (sender, receiver) = pair(&Options { limits, ..options() });
    sender.send(data(100_000, 1)).unwrap().wait().unwrap();
    let second = sender.send(data(100_000, 2)).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(second.probe().is_none(), "it neither arrives nor is it refused");
    // That it is taken is enough: it may be kept.
    let first = receiver.recv().unwrap();
    second.wait().unwrap();
    check(&receiver.recv().unwrap(), &data(100_000, 2), &[]);
    check(&first, &data(100_000, 1), &[]);
    assert_eq!(receiver.counters().frames_refused, 0);
}

#[test]
fn a_sender_that_closes_fails_its_frames_and_gives_them_back() {
    //= V-S4 test
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let sender = Sender::connect(silent.local_addr().unwrap(), &options()).unwrap();
    let sendings = [1000, 100_000].map(|size| sender.send(data(size, 1)).unwrap());
    let waiting = std::thread::spawn(move || sendings.map(|sending| sending.wait().unwrap_err()));
    std::thread::sleep(Duration::from_millis(30));
    sender.close();
    for unsent in waiting.join().unwrap() {
        assert!(matches!(unsent.error, Error::FrameFailed(Failure::Closed)), "{unsent}");
        assert!(unsent.message.is_some());
    }
    let refused = sender.send(data(7, 1)).unwrap_err();
    assert!(matches!(refused.error, Error::FrameRefused(Refused::Closed)), "{refused}");
    assert_eq!(refused.message.unwrap().into_vec(), data(7, 1));
    assert!(matches!(sender.open(), Err(Error::FrameFailed(Failure::Closed))));
    sender.close();
}

#[test]
fn a_receiver_that_closes_refuses_what_is_coming_and_keeps_what_has_come() {
    //= V-S4 test
    // Slow enough to be closed in the middle.
    let (sender, receiver) = pair(&Options { rate: Some(2_000_000), ..internet() });
    sender.send(data(10_000, 1)).unwrap().wait().unwrap();
    let coming = sender.send(data(3_000_000, 2)).unwrap();
    let Progress::UnderWay(coming) = coming.wait_timeout(Duration::from_millis(200)) else { panic!("it takes 1.5 s") };
    let closing = std::thread::spawn(move || {
        receiver.close();
        receiver
    });
    let unsent = coming.wait().unwrap_err();
    assert!(matches!(unsent.error, Error::FrameFailed(Failure::Refused)), "{unsent}");
    assert_eq!(unsent.message.unwrap().len(), 3_000_000);
    let receiver = closing.join().unwrap();
    let frame = receiver.recv().unwrap();
    check(&frame, &data(10_000, 1), &[]);
    assert!(matches!(receiver.recv(), Err(Error::Endpoint(_))));
    drop(receiver);
    drop(frame);
}

#[test]
fn terms_that_cannot_be_kept_are_refused_with_the_message() {
    //= V-S13 test
    let (sender, _receiver) = pair(&options());
    let refused = |contract: Contract| {
        let unsent = sender.send(Frame::from(data(1000, 1)).with_contract(contract)).unwrap_err();
        assert_eq!(unsent.message.unwrap().into_vec(), data(1000, 1));
        match unsent.error {
            Error::FrameRefused(refused) => refused,
            other => panic!("{other}"),
        }
    };
    assert_eq!(refused(Contract::new().critical(500..1001)), Refused::InvalidTerms);
    assert_eq!(refused(Contract::new().loss_percent(5.0).adaptive_from_percent(10.0)), Refused::InvalidTerms);
    let many = |contract: Contract, at| contract.critical(at..at + 1);
    let contract = (0..100_000).step_by(200).fold(Contract::new().loss_percent(5.0), many);
    let unsent = sender.send(Frame::from(data(100_000, 1)).with_contract(contract).packet_bytes(100)).unwrap_err();
    assert!(matches!(unsent.error, Error::FrameRefused(Refused::HeaderTooLarge)), "{unsent}");
    let unsent = sender.send(Frame::from(data(10, 1)).window(0)).unwrap_err();
    assert!(matches!(unsent.error, Error::FrameRefused(Refused::InvalidTerms)), "{unsent}");
}

#[test]
#[allow(clippy::reversed_empty_ranges, reason = "that is what is none")]
fn an_empty_critical_range_is_none_wherever_it_lies() {
    let (sender, _receiver) = pair(&options());
    let contract = || Contract::new().loss_percent(5.0).critical(0..10);
    for empty in [0..0, 50..50, 50..5, 1000..1000, 2000..2000, 3000..7, u64::MAX..u64::MAX] {
        let frame = Frame::from(data(1000, 1)).with_contract(contract().critical(empty.clone()));
        assert!(sender.send(frame).is_ok(), "{empty:?}");
    }
}

#[test]
fn frames_say_their_own_packets_and_windows() {
    let (sender, receiver) = pair(&options());
    let contract = Contract::new().loss_percent(10.0).run_bytes(5000);
    let frame = Frame::from(data(100_000, 1)).with_contract(contract).packet_bytes(1000).window(32);
    let sending = sender.send(frame).unwrap();
    let frame = receiver.recv().unwrap();
    assert_eq!((frame.packet_bytes(), frame.window(), frame.contract().run, frame.contract().rate), (1000, 32, 5, 26));
    assert_eq!(sending.wait().unwrap().packet_bytes, 1000);
}

#[test]
fn a_mapped_file_is_sent() {
    use std::io::Write;
    let (sender, receiver) = pair(&options());
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&data(500_000, 1)).unwrap();
    // SAFETY: the file is this test's, which writes nothing to it any more.
    let mapped = unsafe { Message::map_file(&file, 0, 500_000) }.unwrap();
    let sending = sender.send(mapped).unwrap();
    let frame = receiver.recv().unwrap();
    check(&frame, &data(500_000, 1), &[]);
    assert_eq!(frame.into_message().len(), 500_000);
    sending.wait().unwrap();
}

#[test]
fn a_receiver_of_every_address_hears_both_families_and_answers_from_where_it_was_called() {
    let receiver = Receiver::bind_all(0, &options()).unwrap();
    let port = receiver.local_addr().port();
    let mut addresses: Vec<SocketAddr> = vec![([127, 0, 0, 1], port).into(), ([127, 0, 0, 2], port).into()];
    if receiver.local_addr().is_ipv6() {
        addresses.push((std::net::Ipv6Addr::LOCALHOST, port).into());
    }
    for address in addresses {
        // Connected: what comes from another address does not reach it.
        let sender = Sender::connect(address, &options()).unwrap();
        let sending = sender.send(data(50_000, 1)).unwrap();
        let frame = receiver.recv_timeout(Duration::from_secs(5)).unwrap().expect("it comes");
        check(&frame, &data(50_000, 1), &[]);
        assert_eq!(frame.source().is_ipv4(), address.is_ipv4());
        sending.wait().unwrap();
    }
}

#[test]
fn endpoints_without_a_worker_move_while_somebody_waits() {
    let (sender, receiver) = pair(&Options { worker: false, ..options() });
    let sending = sender.send(data(300_000, 4)).unwrap();
    let waiting = std::thread::spawn(move || sending.wait());
    check(&receiver.recv().unwrap(), &data(300_000, 4), &[]);
    let begun = Instant::now();
    while !waiting.is_finished() {
        assert!(begun.elapsed() < Duration::from_secs(20), "the sender is not told");
        // It may still want to know.
        assert!(receiver.recv_timeout(Duration::from_millis(10)).unwrap().is_none());
    }
    waiting.join().unwrap().unwrap();
}

#[test]
fn dropped_handles_let_their_frames_go_on() {
    let (sender, receiver) = pair(&options());
    drop(sender.send(data(100_000, 1)).unwrap());
    let sending = sender.send(data(10, 2)).unwrap();
    drop(sender);
    let mut sizes = [0, 1].map(|_| receiver.recv().unwrap().len());
    sizes.sort_unstable();
    assert_eq!(sizes, [10, 100_000], "a sender lives as long as something is waited for");
    sending.wait().unwrap();
}

#[test]
fn garbage_disturbs_nobody() {
    let (sender, receiver) = pair(&options());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for size in [0, 1, 5, 6, 7, 64, 1472, 9000] {
        for salt in 0..20 {
            socket.send_to(&data(size, salt), receiver.local_addr()).unwrap();
        }
        transfer(&sender, &receiver, 10_000, &Contract::reliable(), &[]);
    }
    assert!(receiver.counters().datagrams_malformed + receiver.counters().packets_unknown > 0);
}

#[test]
fn a_capture_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let captures = ["out", "in"].map(|name| folder.path().join(name));
    let receiver = Receiver::bind("127.0.0.1:0", &Options { capture: Some(captures[1].clone()), ..options() }).unwrap();
    let sender =
        Sender::connect(receiver.local_addr(), &Options { capture: Some(captures[0].clone()), ..options() }).unwrap();
    transfer(&sender, &receiver, 100_000, &Contract::reliable(), &[]);
    drop((sender, receiver));
    for capture in captures {
        assert!(capture.metadata().unwrap().len() > 100_000, "{}", capture.display());
    }
}

#[test]
fn handles_may_move_between_threads() {
    fn is_send<T: Send>() {}
    fn is_sync<T: Sync>() {}
    is_send::<Received>();
    is_sync::<Received>();
    is_send::<Sender>();
    is_sync::<Sender>();
    is_send::<Receiver>();
    is_sync::<Receiver>();
    is_send::<pinnace::vrp::Sending>();
}

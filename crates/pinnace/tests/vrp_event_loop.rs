//! VRP in an event loop of the application's own, which reads the sockets.

use pinnace::vrp::{Contract, Options, Receiver, Sender};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

fn readable(descriptor: BorrowedFd<'_>, timeout: i32) -> bool {
    let mut entry = libc::pollfd { fd: descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which lives through the call.
    unsafe { libc::poll(&raw mut entry, 1, timeout) == 1 }
}

#[test]
fn frames_arrive_when_the_loop_reads_them_and_not_before() {
    let receiver = Receiver::bind("127.0.0.1:0", &Options::default()).unwrap();
    let sender = Sender::connect(receiver.local_addr(), &Options::default()).unwrap();
    let socket = receiver.read_by_caller().unwrap();
    assert!(!readable(socket, 0));
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| sender.send(vec![7; 300_000]).unwrap().wait().unwrap());
        std::thread::sleep(Duration::from_millis(50));
        assert!(!sending.is_finished() && receiver.take().is_none());
        let frame = loop {
            assert!(readable(socket, 20_000), "nothing comes");
            receiver.progress().unwrap();
            if let Some(frame) = receiver.take() {
                break frame;
            }
        };
        assert_eq!(&*frame, [7; 300_000]);
        // The rest of the way is the background thread's.
        receiver.read_in_background().unwrap();
        assert_eq!(sending.join().unwrap().message.len(), 300_000);
        let sending = sender.send(b"again".to_vec()).unwrap();
        assert_eq!(&*receiver.recv().unwrap(), b"again");
        sending.wait().unwrap();
    });
}

#[test]
fn a_sender_is_driven_by_a_loop_in_another_thread_or_by_itself() {
    let receiver = Receiver::bind("127.0.0.1:0", &Options::default()).unwrap();
    let sender = Sender::connect(receiver.local_addr(), &Options::default()).unwrap();
    let socket = sender.read_by_caller().unwrap();
    sender.send(b"by itself".to_vec()).unwrap().wait().unwrap();
    let queued = sender.send(b"by the loop".to_vec()).unwrap();
    while queued.probe().is_none() {
        if readable(socket, 1) {
            sender.progress().unwrap();
        }
    }
    queued.wait().unwrap();
    assert_eq!([&*receiver.recv().unwrap(), &*receiver.recv().unwrap()], [&b"by itself"[..], b"by the loop"]);
}

#[test]
fn who_receives_is_called_off() {
    let receiver = Receiver::bind("127.0.0.1:0", &Options::default()).unwrap();
    let go_on = std::sync::atomic::AtomicBool::new(true);
    let load = || go_on.load(std::sync::atomic::Ordering::SeqCst);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| receiver.recv_while(load).unwrap().is_none());
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waiting.is_finished());
        go_on.store(false, std::sync::atomic::Ordering::SeqCst);
        receiver.notify();
        assert!(waiting.join().unwrap());
    });
    receiver.close();
    assert!(receiver.recv_while(|| true).is_err());
}

#[test]
fn a_contract_as_the_paper_says_it_needs_both_numbers() {
    //= V-R5 test
    assert!(Contract::of_rate_and_run(Some(255), Some(5000)).allows_loss());
    for (rate, run) in
        [(Some(255), None), (None, Some(5000)), (None, None), (Some(0), Some(5000)), (Some(255), Some(0))]
    {
        assert!(!Contract::of_rate_and_run(rate, run).allows_loss(), "{rate:?} {run:?}");
    }
}

//! What has come of a peer, where nobody has looked for a while.

use super::*;
use crate::carrier::MOST_READS;
use crate::vrp::Options;

const LONG: Duration = Duration::from_secs(20);

/// A sender, its receiver, and where and with which number its first frame came, which was taken.
fn begun() -> (Sender, Receiver, SocketAddr, u16) {
    let receiver = Receiver::bind("127.0.0.1:0", &Options::default()).unwrap();
    let sender = Sender::connect(receiver.local_addr(), &Options::default()).unwrap();
    send(&sender, b"first");
    let first = receiver.recv().unwrap();
    let (source, number) = (first.source(), first.number());
    (sender, receiver, source, number)
}

fn send(sender: &Sender, bytes: &[u8]) {
    drop(sender.send(Frame::new(Message::from_vec(bytes.to_vec()))).unwrap());
}

/// A connection over this receiver, where the frame behind `number` is the next.
fn connection(receiver: &Receiver, source: SocketAddr, number: u16) -> Vrp {
    let ways = Ways { to: None, out: None, back: Some(receiver.clone()) };
    Vrp::new(ways, 7, &"deadline=1ms".parse().unwrap(), Some((source, number)), LONG)
}

fn wait_for(receiver: &Receiver, frames: usize) {
    let begun = Instant::now();
    while receiver.waiting() < frames {
        assert!(begun.elapsed() < LONG, "{} have come", receiver.waiting());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_is_here_is_not_missing_although_nobody_has_looked_in_time() {
    let receive: [fn(&Vrp) -> Option<Received>; 2] = [
        |connection| connection.recv(Some(Instant::now() + LONG)).unwrap(),
        |connection| pollster::block_on(connection.recv_async()).unwrap(),
    ];
    for receive in receive {
        let (sender, receiver, source, number) = begun();
        let connection = connection(&receiver, source, number);
        send(&sender, b"second");
        wait_for(&receiver, 1);
        let mut incoming = connection.take(None).unwrap();
        let (third, now) = (incoming.next.unwrap() + 1, Instant::now());
        incoming.early.insert(third, (crate::vrp::Received::numbered((third % NUMBERS) as u16), now));
        incoming.since = Some(now);
        drop(incoming);
        // Longer than the third waits for the second.
        std::thread::sleep(Duration::from_millis(5));
        for bytes in [&b"second"[..], b""] {
            let received = receive(&connection).expect("not the end");
            assert_eq!((&*received, received.missed(), received.is_late()), (bytes, 0, false));
        }
    }
}

/// How often it is looked, with others between, until something has come.
fn looks<T>(future: impl Future<Output = T>) -> (usize, T) {
    let (mut future, mut looks) = (std::pin::pin!(future), 0);
    let came = pollster::block_on(std::future::poll_fn(|context| {
        looks += 1;
        future.as_mut().poll(context)
    }));
    (looks, came)
}

#[test]
fn frames_of_strangers_keep_nobody_who_does_not_want_to_wait() {
    let (sender, receiver, source, number) = begun();
    let connection = connection(&receiver, source, number);
    let stranger = Sender::connect(receiver.local_addr(), &Options::default()).unwrap();
    let flood = |turns: usize| {
        for _ in 0..turns * MOST_READS {
            send(&stranger, b"ahoy");
        }
        wait_for(&receiver, turns * MOST_READS);
    };
    flood(3);
    for left in [2, 1, 0] {
        assert!(matches!(connection.recv(Some(Instant::now())), Err(Error::Timeout)));
        assert_eq!(receiver.waiting(), left * MOST_READS);
    }
    // What is behind a few of them is there.
    send(&stranger, b"ahoy");
    wait_for(&receiver, 1);
    send(&sender, b"second");
    wait_for(&receiver, 2);
    assert_eq!(&*connection.recv(Some(Instant::now())).unwrap().unwrap(), b"second");
    flood(3);
    send(&sender, b"third");
    let (looks, received) = looks(connection.recv_async());
    assert_eq!(&*received.unwrap().unwrap(), b"third");
    assert!(looks >= 3, "{looks}");
}

#[test]
fn what_is_given_up_holds_up_nothing_behind_it() {
    let endpoint = crate::Endpoint::bind("127.0.0.1:0").unwrap();
    let listener = endpoint.listen(&"path=cluster".parse().unwrap()).unwrap();
    let selection = crate::service::Selection { forced: Some(Method::Vrp), ..Default::default() };
    let client =
        crate::Endpoint::client_with(&crate::EndpointOptions { selection, ..crate::EndpointOptions::default() });
    let to = listener.local_addr().to_string();
    let client = client.connect(&to, &"rate=8mbit burst=256KiB".parse().unwrap()).unwrap();
    let server = listener.accept_timeout(LONG).unwrap().unwrap();
    // It takes a second, and has a tenth.
    let special = crate::PerMessage::new().lifespan(Duration::from_millis(100));
    let late = client.send_with(vec![1; 1_000_000], &special).unwrap();
    let unsent = late.wait().unwrap_err();
    assert!(matches!(unsent.error, Error::FrameFailed(Failure::Late)), "{}", unsent.error);
    for bytes in [b"second", b"third."] {
        drop(client.send(bytes.to_vec()).unwrap());
    }
    let begin = Instant::now();
    let received: Vec<_> = (0..2).map(|_| server.recv_timeout(LONG).unwrap().unwrap()).collect();
    assert!(begin.elapsed() < LONG / 2, "{:?}", begin.elapsed());
    let told: Vec<_> = received.iter().map(|it| (&**it, it.missed(), it.is_late())).collect();
    assert_eq!(told, [(&b"second"[..], 1, false), (b"third.", 0, false)]);
}

#[test]
fn what_is_read_ahead_has_a_bound_behind_a_gap_as_well() {
    let (sender, receiver, source, number) = begun();
    // The first is waited for.
    let connection = connection(&receiver, source, number.wrapping_sub(1) % NUMBERS as u16);
    for _ in 0..3 * MOST_AHEAD {
        send(&sender, b"behind it");
    }
    wait_for(&receiver, 3 * MOST_AHEAD);
    for _ in 0..3 {
        connection.look_for_break().unwrap();
    }
    let incoming = connection.take(None).unwrap();
    assert_eq!((incoming.again.len(), incoming.early.len(), receiver.waiting()), (0, MOST_AHEAD, 2 * MOST_AHEAD));
}

#[test]
fn the_next_frame_is_announced_where_the_service_says_what_it_will_be() {
    for (service, announces) in [
        ("size=100kB rate=100mbit", true),
        ("size=100kB rate=100mbit order=no loss=5%", true),
        ("size=100kB", false),
        ("rate=100mbit", false),
        ("size=100kB rate=500kbit", false),
        ("size=200kB rate=100mbit", false),
    ] {
        let receiver = Receiver::bind("127.0.0.1:0", &Options::default()).unwrap();
        let service: Service = service.parse().unwrap();
        let options = Options { in_order: service.order, ..Options::default() };
        let sender = Sender::connect(receiver.local_addr(), &options).unwrap();
        sender.open().unwrap();
        let ways = Ways { to: None, out: Some(sender.clone()), back: None };
        let connection = Vrp::new(ways, 7, &service, None, LONG);
        for _ in 0..2 {
            let sent = connection.send(Message::from_vec(vec![1; 100_000]), None, None).unwrap();
            let Sending::Vrp(sent) = sent else { unreachable!("over VRP") };
            sent.wait().unwrap();
            assert_eq!(sender.frames_under_way(), usize::from(announces), "{service}");
        }
    }
}

#[test]
fn a_service_that_is_changed_changes_the_rate() {
    let receiver = Receiver::bind("127.0.0.1:0", &Options::default()).unwrap();
    let sender = Sender::connect(receiver.local_addr(), &Options::default()).unwrap();
    let ways = Ways { to: None, out: Some(sender.clone()), back: None };
    let connection = Vrp::new(ways, 7, &Service::new(), None, LONG);
    for (service, rate) in [("rate=8mbit burst=100KiB", Some(1_000_000)), ("rate=8mbit", None), ("", None)] {
        connection.set_service(&service.parse().unwrap()).unwrap();
        assert_eq!(sender.rate(), rate, "{service}");
    }
}

/// However short the receiver's patience is: who shows itself every second is there, and who does not is gone.
#[test]
fn a_sender_of_one_way_is_there_as_long_as_it_shows_itself() {
    let patience = Duration::from_millis(500);
    for signs in [Some(SIGN_OF_LIFE), None] {
        let options = Options { life_timeout: LEAST_LIFE, ..Options::default() };
        let receiver = Receiver::bind("127.0.0.1:0", &options).unwrap();
        let options = Options { keep_alive: signs, ..Options::default() };
        let sender = Sender::connect(receiver.local_addr(), &options).unwrap();
        send(&sender, b"first");
        let first = receiver.recv().unwrap();
        let ways = Ways { to: None, out: None, back: Some(receiver.clone()) };
        let source = Some((first.source(), first.number()));
        let connection =
            Vrp::new(ways, 7, &Service::new(), source, patience).with_signs_of_life(SIGN_OF_LIFE, patience);
        drop(first);
        let found = connection.recv(Some(Instant::now() + LEAST_LIFE + Duration::from_secs(2)));
        let error = found.map(|received| received.is_some()).unwrap_err();
        assert_eq!(matches!(error, Error::Timeout), signs.is_some(), "{error}");
    }
}

/// A question would take a number among the messages.
#[test]
fn who_acknowledges_what_is_sent_is_not_asked_whether_it_is_there() {
    let options = crate::EndpointOptions { peer_timeout: Duration::from_secs(2), ..crate::EndpointOptions::default() };
    let ship = crate::Endpoint::bind("127.0.0.1:0").unwrap();
    let listener = ship.listen(&Service::new()).unwrap();
    let mut forced = options;
    forced.selection.forced = Some(Method::Vrp);
    let to = listener.local_addr().to_string();
    let client = crate::Endpoint::client_with(&forced).connect(&to, &"direction=duplex".parse().unwrap()).unwrap();
    let server = listener.accept_timeout(LONG).unwrap().unwrap();
    let crate::carrier::Carrier::Vrp(vrp) = client.carrier() else { panic!("it was forced") };
    // Where nothing is sent it is asked after a second, and no more when something is again.
    for is_asked in [false, true, false] {
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| {
                for _ in 0..60 {
                    if !is_asked {
                        drop(client.send(b"ahoy".to_vec()).unwrap());
                        assert!(server.recv_timeout(LONG).unwrap().is_some());
                    }
                    std::thread::sleep(Duration::from_millis(50));
                }
            });
            let nothing = client.recv_timeout(Duration::from_millis(2400));
            assert!(matches!(nothing, Err(Error::Timeout)), "{nothing:?}");
            assert_eq!(vrp.take(None).unwrap().asked.is_some(), is_asked);
            sending.join().unwrap();
        });
    }
}

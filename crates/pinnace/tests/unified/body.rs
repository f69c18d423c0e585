//! What every method has to do.

use pinnace::link::FaultOptions;
use pinnace::service::{Method, PathClass, Selection, Service};
use pinnace::{Connection, Endpoint, EndpointOptions, Error, Message};
use pinnace_core::mix64;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

/// Two connected ends.
pub(crate) struct Pair {
    pub(crate) client: Connection,
    pub(crate) server: Connection,
    pub(crate) _endpoint: Endpoint,
}

pub(crate) fn duplex() -> Service {
    "direction=duplex largest=32MiB".parse().unwrap()
}

pub(crate) fn forced(method: Method) -> EndpointOptions {
    let selection = Selection { forced: Some(method), ..Selection::default() };
    EndpointOptions { selection, ..EndpointOptions::default() }
}

/// Options with these faults, of a seed that is the test's own: the same in every run, whatever runs beside it.
pub(crate) fn under(mut fault: FaultOptions) -> EndpointOptions {
    let thread = std::thread::current();
    fault.seed = thread.name().unwrap_or_default().bytes().fold(0, |seed, byte| mix64(seed ^ u64::from(byte)));
    println!("seed {:#x}", fault.seed);
    EndpointOptions { fault: Some(fault), ..EndpointOptions::default() }
}

pub(crate) fn pair_of(method: Method, service: &Service) -> Pair {
    pair_with(method, service, &EndpointOptions::default())
}

/// The same, where both ends have these options.
pub(crate) fn pair_with(method: Method, service: &Service, options: &EndpointOptions) -> Pair {
    let endpoint = Endpoint::bind_with("127.0.0.1:0", options).unwrap();
    let listener = endpoint.listen(&Service::new().path(PathClass::Cluster)).unwrap();
    let options = EndpointOptions { selection: forced(method).selection, ..options.clone() };
    let client = Endpoint::client_with(&options).connect(&listener.local_addr().to_string(), service).unwrap();
    let server = listener.accept_timeout(LONG).unwrap().expect("somebody has come");
    assert_eq!((client.method(), server.method()), (method, method));
    assert_eq!((client.service(), server.service()), (service.clone(), service.clone()));
    Pair { client, server, _endpoint: endpoint }
}

pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Bytes that tell where they are.
pub(crate) fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0].wrapping_add(seed)).collect()
}

fn expect(connection: &Connection, expected: &[u8]) {
    let received = connection.recv_timeout(LONG).unwrap().expect("a message, not the end");
    assert_eq!(received.len(), expected.len());
    assert!(*received == *expected && received.is_whole(), "{} bytes differ", expected.len());
}

pub(crate) fn sizes(pair: &Pair) {
    for (at, len) in [0, 1, 24, 100, 1500, 4096, 4097, 65_536, 1 << 20, (1 << 20) + 1, 8 << 20, 20_000_000, 0, 3]
        .into_iter()
        .enumerate()
    {
        let bytes = pattern(len, at as u8);
        for (from, to) in [(&pair.client, &pair.server), (&pair.server, &pair.client)] {
            std::thread::scope(|scope| {
                scope.spawn(|| from.send(bytes.clone()).unwrap().wait().unwrap());
                expect(to, &bytes);
            });
        }
    }
}

pub(crate) fn deliveries(pair: &Pair) {
    for len in [0, 10, 5000, 300_000] {
        let bytes = pattern(len, 7);
        let delivery = pair.client.send(Message::from_vec(bytes.clone())).unwrap();
        expect(&pair.server, &bytes);
        let delivered = delivery.wait().unwrap();
        assert_eq!(&*delivered.message, &*bytes, "the memory is ours again");
        assert!(delivered.holes().is_empty());
    }
}

/// What both ends say of what they have carried, and how far they are from each other.
pub(crate) fn statistics(pair: &Pair) {
    let (there, back) = ([0, 10, 5000, 300_000], [7, 70_000]);
    deliveries(pair);
    for len in back {
        let delivery = pair.server.send(pattern(len, 3)).unwrap();
        expect(&pair.client, &pattern(len, 3));
        delivery.wait().unwrap();
    }
    let count = |lens: &[usize]| (lens.len() as u64, lens.iter().sum::<usize>() as u64);
    for (connection, sent, received) in [(&pair.client, &there[..], &back[..]), (&pair.server, &back, &there)] {
        let seen = connection.statistics();
        assert_eq!((seen.messages_sent, seen.bytes_sent), count(sent), "{seen:?}");
        assert_eq!((seen.messages_received, seen.bytes_received), count(received), "{seen:?}");
        assert_eq!(seen.bytes_missing, 0, "{seen:?}");
        let round_trip = seen.round_trip.expect("measured");
        assert!(Duration::ZERO < round_trip && round_trip < LONG, "{seen:?}");
    }
}

/// A message is sent from where its parts lie, and comes back as it was.
pub(crate) fn parts(pair: &Pair) {
    let bytes = pattern(2_300_000, 9);
    let end = bytes.len();
    for cuts in [&[700, 70_000, end][..], &[1, end], &[600, 1300, 2000, 1_400_000, end - 1, end]] {
        let mut low = 0;
        let parts = cuts.iter().map(|&high| {
            let part = Message::from(&bytes[low..high]);
            low = high;
            part
        });
        let delivery = pair.client.send(Message::gather(parts.collect())).unwrap();
        expect(&pair.server, &bytes);
        let delivered = delivery.wait().unwrap();
        assert_eq!(delivered.message.parts().count(), cuts.len());
        assert!(delivered.message.into_vec() == bytes);
    }
}

pub(crate) fn order(pair: &Pair) {
    // Small ones behind large ones too, which they must not overtake.
    let len_of = |number: u32| if (500..530).contains(&number) { 1 << 20 } else { 4 + number as usize % 3000 };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..2000u32 {
                let mut bytes = number.to_be_bytes().to_vec();
                bytes.resize(len_of(number), 0);
                drop(pair.client.send(bytes).unwrap());
            }
        });
        for number in 0..2000u32 {
            let received = pair.server.recv_timeout(LONG).unwrap().unwrap();
            assert_eq!(received[..4], number.to_be_bytes());
            assert_eq!(received.len(), len_of(number));
        }
    });
}

/// Whoever sends may close and go: what the other end had not taken by then is there when it does.
pub(crate) fn outlives(pair: &dyn Fn(&EndpointOptions) -> Pair) {
    let peer_timeout = Duration::from_millis(300);
    let Pair { client, server, _endpoint } = pair(&EndpointOptions { peer_timeout, ..EndpointOptions::default() });
    for number in 0..40u8 {
        drop(client.send(pattern(1000, number)).unwrap());
    }
    client.close(LONG).unwrap();
    drop(client);
    // Nobody answers any more, and this end has had the time to find out.
    std::thread::sleep(peer_timeout * 5);
    for number in 0..40u8 {
        expect(&server, &pattern(1000, number));
    }
    assert!(server.recv_timeout(LONG).unwrap().is_none());
}

/// Whoever is told that all has arrived may go; who accepts it afterwards receives all.
pub(crate) fn goes_before_it_is_accepted(method: Method) {
    for closes in [false, true] {
        let endpoint = Endpoint::bind_with("127.0.0.1:0", &EndpointOptions::default()).unwrap();
        let listener = endpoint.listen(&Service::new().path(PathClass::Cluster)).unwrap();
        let to = listener.local_addr().to_string();
        for _ in 0..3 {
            let client = Endpoint::client_with(&forced(method)).connect(&to, &duplex()).unwrap();
            let sent: Vec<_> = (0..10).map(|number| client.send(pattern(1000, number)).unwrap()).collect();
            sent.into_iter().for_each(|delivery| drop(delivery.wait().unwrap()));
            if closes {
                client.close(LONG).unwrap();
            }
            drop(client);
            let server = listener.accept_timeout(LONG).unwrap().unwrap_or_else(|| panic!("{method}: nobody"));
            (0..10).for_each(|number| expect(&server, &pattern(1000, number)));
            let end = server.recv_timeout(LONG);
            assert!(
                if closes { matches!(end, Ok(None)) } else { !matches!(end, Ok(Some(_))) },
                "{method} {closes} {end:?}"
            );
        }
    }
}

/// Several threads send while another one closes: what is said to have arrived is received.
pub(crate) fn closing_meanwhile(pair: Pair) {
    let Pair { client, server, _endpoint } = pair;
    std::thread::scope(|scope| {
        let send = || {
            let deliveries = std::iter::from_fn(|| client.send(vec![1; 50]).ok());
            deliveries.map(|delivery| delivery.wait()).filter(Result::is_ok).count()
        };
        let sending = [(); 3].map(|()| scope.spawn(send));
        let receiving = scope.spawn(|| std::iter::from_fn(|| server.recv_timeout(LONG).unwrap()).count());
        std::thread::sleep(Duration::from_millis(2));
        client.close(LONG).unwrap();
        let arrived: usize = sending.map(|sender| sender.join().unwrap()).into_iter().sum();
        assert_eq!(receiving.join().unwrap(), arrived);
    });
}

/// Whatever the service becomes meanwhile, all arrives and in order (nothing is lost on this path).
pub(crate) fn changes(pair: &Pair, services: &[&str]) {
    const MESSAGES: u32 = 600;
    let bytes_of = |number: u32| {
        let mut bytes = number.to_be_bytes().to_vec();
        bytes.extend(pattern(number as usize * 131 % 20_000, number as u8));
        bytes
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..MESSAGES {
                drop(pair.client.send(bytes_of(number)).unwrap());
            }
        });
        scope.spawn(|| {
            for round in 0..5 {
                for service in services {
                    let service: Service = format!("{service} direction=duplex largest=32MiB").parse().unwrap();
                    pair.client.set_service(&service).unwrap_or_else(|error| panic!("{round}, {service}: {error}"));
                    assert_eq!(pair.client.service(), service);
                    std::thread::sleep(Duration::from_millis(3));
                }
            }
            // What cannot be met changes nothing.
            let before = pair.client.service();
            let impossible = "lifespan=1us deadline=1ns direction=duplex".parse().unwrap();
            let error = pair.client.set_service(&impossible).unwrap_err().to_string();
            assert!(error.contains(pair.client.method().name()) && error.contains("deadline"), "{error}");
            assert_eq!(pair.client.service(), before);
        });
        for number in 0..MESSAGES {
            let received = pair.server.recv_timeout(LONG).unwrap().unwrap();
            assert!(*received == *bytes_of(number), "message {number} of {} bytes", received.len());
        }
    });
}

pub(crate) fn into_memory(pair: &Pair) {
    let mut buffer = vec![0xEE; 3_000_000];
    for len in [0, 5, 100_000, 3_000_000] {
        let bytes = pattern(len, 9);
        drop(pair.server.send(bytes.clone()).unwrap());
        let into = pair.client.recv_into_timeout(&mut buffer, LONG).unwrap().unwrap();
        assert!(into.len == len && into.holes.is_empty() && buffer[..len] == bytes);
    }
    drop(pair.server.send(vec![1; 100]).unwrap());
    let result = pair.client.recv_into_timeout(&mut buffer[..99], LONG);
    assert!(matches!(result, Err(Error::MessageTooLong(99))), "{result:?}");
    // It is still there.
    assert_eq!(pair.client.recv_into_timeout(&mut buffer, LONG).unwrap().unwrap().len, 100);
}

pub(crate) fn transactions(pair: Pair) {
    let Pair { client, server, _endpoint } = pair;
    let serving = std::thread::spawn(move || {
        while let Some(request) = server.recv().unwrap() {
            std::thread::sleep(Duration::from_millis(20));
            drop(server.send(request.to_ascii_uppercase()).unwrap());
        }
    });
    for text in ["ahoy", "", "a longer one"] {
        assert_eq!(&*client.transact(text.as_bytes().to_vec()).unwrap(), text.to_uppercase().as_bytes());
    }
    // One that is given up half-way, twice, and then one for whose response somebody asks as for any message.
    for text in ["given up", "this too"] {
        let mut transaction = std::pin::pin!(client.transact_async(text.as_bytes().to_vec()));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(transaction.as_mut().poll(&mut context).is_pending(), "the other end takes its time");
    }
    assert_eq!(&*client.transact(b"the next".to_vec()).unwrap(), b"THE NEXT");
    {
        let mut transaction = std::pin::pin!(client.transact_async(b"late".to_vec()));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(transaction.as_mut().poll(&mut context).is_pending());
    }
    expect(&client, b"LATE");
    assert_eq!(&*pollster::block_on(client.transact_async(b"the last".to_vec())).unwrap(), b"THE LAST");
    client.close(LONG).unwrap();
    serving.join().unwrap();
}

pub(crate) fn ends(pair: Pair) {
    let Pair { client, server, _endpoint } = pair;
    let bytes = pattern(700_000, 1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..5 {
                drop(client.send(bytes.clone()).unwrap());
            }
            client.close(LONG).unwrap();
            client.close(LONG).unwrap();
            assert!(client.send(vec![1]).is_err(), "it was closed");
        });
        for _ in 0..5 {
            expect(&server, &bytes);
        }
        assert!(server.recv_timeout(LONG).unwrap().is_none());
        assert!(server.recv_timeout(LONG).unwrap().is_none(), "and again");
    });
    drop(server.send(b"still".to_vec()).unwrap());
    expect(&client, b"still");
    drop(server);
    assert!(client.recv_timeout(LONG).unwrap().is_none());
}

/// What is broken off in the middle does not look complete.
pub(crate) fn breaks_off(pair: Pair) {
    let Pair { client, server, _endpoint } = pair;
    drop(client.send(pattern(10_000, 1)).unwrap());
    expect(&server, &pattern(10_000, 1));
    client.abort();
    client.abort();
    assert!(client.send(vec![1]).is_err());
    let begun = Instant::now();
    let error = server.recv_timeout(LONG).expect_err("an end in order");
    assert!(!matches!(error, Error::Timeout) && begun.elapsed() < Duration::from_secs(5), "{error}");
    assert!(server.recv_timeout(LONG).is_err(), "it was told once, and then looked like the end");
    assert!(server.send(vec![1]).is_err(), "nobody is there to receive it");
}

/// Whoever has ended what he sends can still break off what comes.
pub(crate) fn breaks_off_what_comes(pair: Pair) {
    let Pair { client, server, _endpoint } = pair;
    drop(client.send(pattern(10_000, 1)).unwrap());
    expect(&server, &pattern(10_000, 1));
    server.close(LONG).unwrap();
    assert!(client.recv_timeout(LONG).unwrap().is_none());
    drop(client.send(pattern(1000, 2)).unwrap());
    expect(&server, &pattern(1000, 2));
    server.abort();
    let begun = Instant::now();
    while client.send(vec![7; 1000]).map(drop).is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(5), "nobody tells who sends");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(client.close(LONG).is_err(), "something is lost");
}

/// So can whoever only receives, and whoever waits for a response.
pub(crate) fn breaks_off_what_only_comes(pair: impl Fn(&str) -> Pair) {
    for (service, is_client) in [("largest=32MiB", false), ("pattern=transaction largest=32MiB", true)] {
        let Pair { client, server, _endpoint } = pair(service);
        drop(client.send(pattern(10_000, 1)).unwrap());
        expect(&server, &pattern(10_000, 1));
        let (breaking_off, other) = if is_client { (client, server) } else { (server, client) };
        breaking_off.close(LONG).unwrap();
        breaking_off.abort();
        let begun = Instant::now();
        while other.send(vec![7; 1000]).map(drop).is_ok() {
            assert!(begun.elapsed() < Duration::from_secs(10), "{service}: nobody tells who sends");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Whoever has nothing to send, and nothing more to receive, finds out by asking, and sends nothing by that.
pub(crate) fn checks(pair: Pair) {
    let Pair { client, server, _endpoint } = pair;
    server.close(LONG).unwrap();
    assert!(client.recv_timeout(LONG).unwrap().is_none());
    let begun = Instant::now();
    // Long enough to ask.
    while begun.elapsed() < Duration::from_millis(2500) {
        client.check().unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(client.send(pattern(1000, 2)).unwrap());
    expect(&server, &pattern(1000, 2));
    server.abort();
    let begun = Instant::now();
    while client.check().is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(5), "nobody tells who asks");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The same with more on its way than arrives.
pub(crate) fn breaks_off_in_the_middle(pair: Pair) {
    let Pair { client, server, _endpoint } = pair;
    let reading = std::thread::spawn(move || {
        let mut came = 0;
        loop {
            match server.recv_timeout(LONG) {
                Ok(Some(message)) => came += message.len(),
                other => return (came, other.map(|_| ())),
            }
        }
    });
    let mut sent = 0;
    for _ in 0..8 {
        sent += client.try_send(vec![7; 4 << 20]).map_or(0, |_| 4 << 20);
    }
    client.abort();
    drop(client);
    let (came, end) = reading.join().unwrap();
    assert!(end.is_err() && came <= sent, "{came} of {sent} bytes, and then the end");
}

pub(crate) fn streams(pair: Pair) {
    let Pair { client, server, _endpoint } = pair;
    let bytes = pattern(1_000_000, 2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = client.stream().unwrap();
            stream.write_all(&bytes).unwrap();
            stream.flush().unwrap();
            client.close(LONG).unwrap();
        });
        let mut all = Vec::new();
        let mut stream = server.stream().unwrap();
        let mut piece = [0; 777];
        loop {
            match stream.read(&mut piece).unwrap() {
                0 => break,
                read => all.extend_from_slice(&piece[..read]),
            }
        }
        assert!(all == bytes);
    });
}

pub(crate) fn tasks(pair: Pair) {
    let Pair { client, server, _endpoint } = pair;
    let bytes = pattern(200_000, 3);
    let answering = std::thread::spawn(move || {
        pollster::block_on(async {
            while let Some(message) = server.recv_async().await.unwrap() {
                server.send(message.into_message()).unwrap().await.unwrap();
            }
        });
    });
    pollster::block_on(async {
        for _ in 0..5 {
            let delivery = client.send(bytes.clone()).unwrap();
            assert_eq!(&*client.recv_async().await.unwrap().unwrap(), &*bytes);
            assert_eq!(delivery.await.unwrap().message.len(), bytes.len());
        }
    });
    client.close(LONG).unwrap();
    answering.join().unwrap();
}

pub(crate) fn descriptors(pair: &Pair) {
    let readable = |timeout: Duration| {
        let fd = pair.server.descriptor().unwrap();
        let timeout = Timespec::try_from(timeout).unwrap();
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)).unwrap() > 0
    };
    let nothing = || matches!(pair.server.recv_timeout(Duration::ZERO), Err(Error::Timeout));
    assert!(nothing());
    let begin = Instant::now();
    let result = pair.server.recv_timeout(Duration::from_millis(30));
    assert!(matches!(result, Err(Error::Timeout)) && begin.elapsed() >= Duration::from_millis(30), "{result:?}");
    for round in 0..3 {
        // It may say so without a reason, but not without an end.
        while readable(Duration::ZERO) {
            pair.server.clear();
            assert!(nothing());
        }
        drop(pair.client.send(pattern(1000, round)).unwrap());
        loop {
            assert!(readable(LONG), "round {round}");
            pair.server.clear();
            match pair.server.recv_timeout(Duration::ZERO) {
                Err(Error::Timeout) => {}
                received => {
                    assert!(*received.unwrap().unwrap() == pattern(1000, round));
                    break;
                }
            }
        }
    }
}

//! One source, several receivers.

use super::body::{LONG, forced, pattern, under};
use super::choices::Random;
use pinnace::a1::SlowSink;
use pinnace::link::FaultOptions;
use pinnace::service::{Method, Mode, Path, PathClass, Selection, Service, choose};
use pinnace::{Connection, Endpoint, EndpointOptions, Error, Listener, ReceiverState};
use std::time::{Duration, Instant};

/// Endpoints that listen, and their addresses.
struct Fleet {
    listeners: Vec<Listener>,
    _endpoints: Vec<Endpoint>,
    addresses: Vec<String>,
}

fn fleet_with(count: usize, options: &EndpointOptions) -> Fleet {
    let endpoints: Vec<_> = (0..count).map(|_| Endpoint::bind_with("127.0.0.1:0", options).unwrap()).collect();
    let most = Service::new().path(PathClass::Cluster);
    let listeners: Vec<_> = endpoints.iter().map(|endpoint| endpoint.listen(&most).unwrap()).collect();
    let addresses = listeners.iter().map(|listener| listener.local_addr().to_string()).collect();
    Fleet { listeners, _endpoints: endpoints, addresses }
}

fn fleet(count: usize) -> Fleet {
    fleet_with(count, &EndpointOptions::default())
}

impl Fleet {
    fn accepted(&self) -> Vec<Connection> {
        self.listeners.iter().map(accepted).collect()
    }
}

fn accepted(listener: &Listener) -> Connection {
    let connection = listener.accept_timeout(LONG).unwrap().expect("somebody has come");
    assert_eq!(connection.method(), Method::A1);
    connection
}

fn expect(connection: &Connection, number: usize, len: usize) {
    let received = connection.recv_timeout(LONG).unwrap().expect("a message, not the end");
    assert!(received.is_whole() && *received == *pattern(len, number as u8), "message {number}: {}", received.len());
}

fn connect_all(addresses: &[String], service: &str) -> Result<Connection, Error> {
    Endpoint::client().connect_all(addresses, &service.parse().unwrap())
}

fn refusal(addresses: &[String], service: &str) -> String {
    connect_all(addresses, service).unwrap_err().to_string()
}

/// Sizes in a fixed disorder: most are a packet, some are many.
fn len_of(number: usize) -> usize {
    match number % 50 {
        0 => 700_000,
        1 => 0,
        rest => rest * rest * 37 % 9000,
    }
}

/// All receivers get all messages, whole and in order, and then the end.
fn everything_arrives(service: &str, options: &EndpointOptions) {
    const MESSAGES: usize = 150;
    let fleet = fleet_with(3, options);
    let service: Service = service.parse().unwrap();
    let source = Endpoint::client_with(options).connect_all(&fleet.addresses, &service).unwrap();
    assert_eq!((source.method(), source.service()), (Method::A1, service.clone()));
    let there = fleet.accepted();
    std::thread::scope(|scope| {
        for connection in &there {
            assert_eq!(connection.service(), service);
            scope.spawn(|| {
                for number in 0..MESSAGES {
                    expect(connection, number, len_of(number));
                }
                assert!(connection.recv_timeout(LONG).unwrap().is_none());
            });
        }
        let send = |number| source.send(pattern(len_of(number), number as u8)).unwrap();
        let deliveries: Vec<_> = (0..MESSAGES).map(send).collect();
        for (number, delivery) in deliveries.into_iter().enumerate() {
            let delivered = delivery.wait().unwrap();
            assert!(*delivered.message == *pattern(len_of(number), number as u8), "the memory is ours again");
        }
        assert!(source.receivers().iter().all(pinnace::ReceiverStatus::is_connected));
        source.close(LONG).unwrap();
    });
}

fn faults() -> EndpointOptions {
    let fault =
        FaultOptions { loss: 0.05, duplication: 0.02, reordering: 0.02, reordering_distance: 5, ..Default::default() };
    // Who is slow because of the faults is not cut off.
    let slow_receiver = SlowSink::Drop { patience: LONG };
    EndpointOptions { slow_receiver, ..under(fault) }
}

//= A-15 test
#[test]
fn three_receivers_get_everything() {
    everything_arrives("multicast=3 largest=1MiB", &EndpointOptions::default());
}

#[test]
fn three_receivers_get_everything_over_a_path_that_loses_some() {
    everything_arrives("multicast=3 largest=1MiB", &faults());
}

#[test]
fn three_receivers_get_everything_on_the_internet() {
    everything_arrives("multicast=3 largest=1MiB path=internet", &faults());
}

/// A group of its own for every test of every run; none if this machine has no groups on its loopback interface.
#[cfg(target_os = "linux")]
fn group(number: u8) -> Option<String> {
    use pinnace::link::{MulticastOptions, probe_multicast};
    let over_loopback = MulticastOptions { interface: std::net::Ipv4Addr::LOCALHOST, ..MulticastOptions::default() };
    if let Err(error) = probe_multicast(&over_loopback) {
        pinnace_testing::skip::host(format_args!("this machine has no multicast on its loopback interface ({error})"));
        return None;
    }
    let id = std::process::id();
    Some(format!("239.79.{number}.{}:{}", id % 251, 20_000 + id % 20_000))
}

#[cfg(not(target_os = "linux"))]
fn group(_: u8) -> Option<String> {
    pinnace_testing::skip::host("groups are joined on Linux only");
    None
}

#[test]
fn a_group_carries_the_messages_where_receivers_can_join_it() {
    let Some(group) = group(1) else { return };
    let fleet = fleet(2);
    let service: Service = format!("multicast={group} size=4KiB").parse().unwrap();
    let source = Endpoint::client().connect_all(&fleet.addresses, &service).unwrap();
    assert!(matches!(source.explain().unwrap().offer.mode, Mode::Blocks { group: true, .. }));
    assert!(source.receivers().iter().all(|receiver| receiver.in_group), "{:?}", source.receivers());
    let there = fleet.accepted();
    for number in 0..50 {
        drop(source.send(pattern(4096, number as u8)).unwrap());
        there.iter().for_each(|connection| expect(connection, number, 4096));
    }
    source.flush().unwrap();
}

#[test]
fn a_group_loses_nothing_over_a_path_that_does() {
    let Some(group) = group(2) else { return };
    everything_arrives(&format!("multicast={group} largest=1MiB"), &faults());
}

#[test]
fn without_the_group_each_gets_its_own() {
    // Groups of IPv6 are joined by nobody.
    let fleet = fleet(2);
    let source = connect_all(&fleet.addresses, "multicast=[ff15::7]:7000").unwrap();
    assert!(source.receivers().iter().all(|receiver| receiver.is_connected() && !receiver.in_group));
    drop(source.send(pattern(5000, 0)).unwrap());
    fleet.accepted().iter().for_each(|connection| expect(connection, 0, 5000));
}

//= A-15 test
#[test]
fn who_drops_out_is_told_of_and_the_others_do_not_notice() {
    let fleet = fleet(3);
    let source = connect_all(&fleet.addresses, "multicast=3 size=100KB").unwrap();
    let mut there = fleet.accepted();
    let send = |number| source.send(pattern(100_000, number as u8)).unwrap();
    for number in 0..10 {
        let delivery = send(number);
        there.iter().for_each(|connection| expect(connection, number, 100_000));
        delivery.wait().unwrap();
    }
    drop(there.remove(1));
    for number in 10..60 {
        let delivery = send(number);
        there.iter().for_each(|connection| expect(connection, number, 100_000));
        delivery.wait().unwrap();
    }
    let receivers = source.receivers();
    let addresses: Vec<_> = receivers.iter().map(|receiver| receiver.address.to_string()).collect();
    assert_eq!(addresses, fleet.addresses);
    let connected: Vec<_> = receivers.iter().map(pinnace::ReceiverStatus::is_connected).collect();
    assert_eq!(connected, [true, false, true], "{receivers:?}");
    // When nobody is left, that is an error which names them all.
    drop(there);
    let begun = Instant::now();
    let error = loop {
        match source.send(pattern(10, 0)).map(pinnace::Delivery::wait) {
            Err(unsent) => break unsent.to_string(),
            Ok(_) => assert!(begun.elapsed() < LONG, "{:?}", source.receivers()),
        }
    };
    assert!(error.contains("no receiver is left") && fleet.addresses.iter().all(|it| error.contains(it)), "{error}");
}

#[test]
fn who_is_too_slow_is_cut_off() {
    let fleet = fleet(2);
    let slow_receiver = SlowSink::Drop { patience: Duration::from_secs(1) };
    let options = EndpointOptions { slow_receiver, ..EndpointOptions::default() };
    let source = Endpoint::client_with(&options).connect_all(&fleet.addresses, &"size=10KB".parse().unwrap()).unwrap();
    let there = fleet.accepted();
    std::thread::scope(|scope| {
        scope.spawn(|| (0..3000).for_each(|number| expect(&there[0], number, 1000)));
        // More than the windows hold.
        for number in 0..3000 {
            // There is no error: who is there has got it.
            drop(source.send(pattern(1000, number as u8)).unwrap());
        }
    });
    source.flush().unwrap();
    let receivers = source.receivers();
    assert_eq!((&receivers[0].state, &receivers[1].state), (&ReceiverState::Connected, &ReceiverState::TooSlow));
}

#[test]
fn receivers_come_and_go() {
    let fleet = fleet(3);
    let source = connect_all(&fleet.addresses[..2], "multicast=2").unwrap();
    let (first, second) = (accepted(&fleet.listeners[0]), accepted(&fleet.listeners[1]));
    // Others send meanwhile.
    std::thread::scope(|scope| {
        scope.spawn(|| (0..300).for_each(|_| drop(source.send(b"before".to_vec()).unwrap())));
        source.add_receiver(&fleet.addresses[2]).unwrap();
    });
    let third = accepted(&fleet.listeners[2]);
    let address = |at: usize| fleet.listeners[at].local_addr();
    source.remove_receiver(address(0), LONG).unwrap();
    drop(source.send(b"after".to_vec()).unwrap());
    let all_of = |connection: &Connection, end: &[u8]| {
        let mut count = 0;
        loop {
            match connection.recv_timeout(LONG).unwrap() {
                Some(message) if *message == *b"before" => count += 1,
                message => {
                    assert_eq!(message.as_deref().unwrap_or_default(), end);
                    return count;
                }
            }
        }
    };
    assert_eq!((all_of(&first, b""), all_of(&second, b"after")), (300, 300));
    assert!(all_of(&third, b"after") <= 300);
    // Who was removed may come again.
    drop(first);
    source.add_receiver(&fleet.addresses[0]).unwrap();
    let first = accepted(&fleet.listeners[0]);
    drop(source.send(b"again".to_vec()).unwrap());
    for connection in [&first, &second, &third] {
        assert_eq!(&*connection.recv_timeout(LONG).unwrap().unwrap(), b"again");
    }
    let error = source.add_receiver(&fleet.addresses[1]).unwrap_err().to_string();
    assert!(error.contains("named twice"), "{error}");
    let nobody = "127.0.0.1:9".parse().unwrap();
    let error = source.remove_receiver(nobody, LONG).unwrap_err().to_string();
    assert!(error.contains("127.0.0.1:9") && error.contains("no receiver"), "{error}");
    let error = source.add_receiver("127.0.0.1:9").unwrap_err().to_string();
    assert!(error.contains("127.0.0.1:9"), "{error}");
    assert_eq!(source.receivers().len(), 3);
}

#[test]
fn all_accept_or_none() {
    let fleet = fleet(2);
    let narrow = Endpoint::bind("127.0.0.1:0").unwrap();
    let listener = narrow.listen(&"largest=1KiB".parse().unwrap()).unwrap();
    let mut addresses = fleet.addresses.clone();
    addresses.push(listener.local_addr().to_string());
    let error = refusal(&addresses, "multicast=3 largest=2KiB");
    assert!(error.contains(&addresses[2]) && error.contains("2048") && error.contains("1024"), "{error}");
    // Nor is there anybody who would have accepted.
    drop(listener);
    let error = refusal(&addresses, "multicast=3");
    assert!(error.contains(&addresses[2]) && error.contains("nobody listens"), "{error}");
    let without_a1 = Selection { excluded: vec![Method::A1], ..Selection::default() };
    let options = EndpointOptions { selection: without_a1, ..EndpointOptions::default() };
    let lacking = Endpoint::bind_with("127.0.0.1:0", &options).unwrap();
    let _listener = lacking.listen(&Service::new()).unwrap();
    addresses[2] = lacking.local_addr().unwrap().to_string();
    let error = refusal(&addresses, "multicast=3");
    assert!(error.contains(&addresses[2]) && error.contains("you would take a1"), "{error}");
    for listener in &fleet.listeners {
        assert!(listener.accept_timeout(Duration::ZERO).unwrap().is_none(), "nobody came");
    }
    assert!(connect_all(&fleet.addresses, "multicast=2").is_ok(), "these two would");
}

#[test]
fn as_many_are_named_as_the_service_says() {
    let fleet = fleet(3);
    let error = refusal(&fleet.addresses, "multicast=2");
    assert!(error.contains("multicast=2") && error.contains("3 are named"), "{error}");
    let error = refusal(&fleet.addresses[..1], "multicast=2");
    assert!(error.contains("one is named"), "{error}");
    let error = refusal(&[], "multicast=2");
    assert!(error.contains("nobody is named"), "{error}");
    let twice = [fleet.addresses[0].clone(), fleet.addresses[0].clone()];
    let error = refusal(&twice, "multicast=2");
    assert!(error.contains("named twice") && error.contains(&twice[0]), "{error}");
    // Who says nothing means those that are named; one of them is a connection like any other.
    assert_eq!(connect_all(&fleet.addresses, "").unwrap().service().to_string(), "multicast=3");
    let one = connect_all(&fleet.addresses[..1], "direction=duplex").unwrap();
    assert!(one.receivers().is_empty() && one.add_receiver(&fleet.addresses[1]).is_err());
    // URIs say the same.
    let uris = |words: [&str; 2]| [0, 1].map(|at| format!("pinnace://{}?{}", fleet.addresses[at], words[at]));
    let source = Endpoint::client().connect_all(&uris(["multicast=2", ""]), &Service::new()).unwrap();
    assert_eq!(source.receivers().len(), 2);
    let error = refusal(&uris(["multicast=2", "multicast=2&size=4KiB"]), "");
    assert!(error.contains("different services"), "{error}");
}

#[test]
fn messages_go_one_way() {
    let fleet = fleet(2);
    let error = Endpoint::client().connect(&fleet.addresses[0], &"multicast=2".parse().unwrap()).unwrap_err();
    assert!(error.to_string().contains("connect_all"), "{error}");
    let error = refusal(&fleet.addresses, "multicast=2 direction=duplex");
    assert!(error.contains("one way"), "{error}");
    let source = connect_all(&fleet.addresses, "multicast=2").unwrap();
    for result in [source.recv().map(drop), source.recv_timeout(LONG).map(drop), source.descriptor().map(drop)] {
        let error = result.unwrap_err().to_string();
        assert!(error.contains("a1 cannot receive") && error.contains("one way"), "{error}");
    }
    let there = fleet.accepted();
    let unsent = there[0].send(b"aye".to_vec()).unwrap_err();
    assert_eq!(unsent.message.as_deref(), Some(&b"aye"[..]), "it comes back");
    assert!(unsent.to_string().contains("a1 cannot send back"), "{unsent}");
    // Nobody was disturbed by that.
    drop(source.send(pattern(100, 1)).unwrap());
    there.iter().for_each(|connection| expect(connection, 1, 100));
}

#[test]
fn a_service_to_several_changes_while_messages_flow() {
    let fleet = fleet(2);
    let source = connect_all(&fleet.addresses, "multicast=2").unwrap();
    let there = fleet.accepted();
    for (number, service) in ["rate=400mbit burst=128KiB", "priority=3", ""].into_iter().enumerate() {
        source.set_service(&format!("multicast=2 {service}").parse().unwrap()).unwrap();
        let delivery = source.send(pattern(20_000, number as u8)).unwrap();
        there.iter().for_each(|connection| expect(connection, number, 20_000));
        delivery.wait().unwrap();
    }
    let error = source.set_service(&"multicast=3".parse().unwrap()).unwrap_err().to_string();
    assert!(error.contains("receivers"), "{error}");
}

#[test]
fn who_comes_behind_a_change_gets_the_service_as_it_is_then() {
    let fleet = fleet(3);
    let source = connect_all(&fleet.addresses[..2], "multicast=2").unwrap();
    let service: Service = "multicast=2 rate=400mbit burst=128KiB priority=3".parse().unwrap();
    source.set_service(&service).unwrap();
    source.add_receiver(&fleet.addresses[2]).unwrap();
    assert_eq!(accepted(&fleet.listeners[2]).service(), service);
}

#[test]
fn what_need_not_arrive_goes_to_several_too() {
    // Not even OPEN is repeated by the protocol.
    let fleet = fleet_with(3, &faults());
    let service = "multicast=3 loss=any lifespan=50ms size=1KiB".parse().unwrap();
    let source = Endpoint::client_with(&faults()).connect_all(&fleet.addresses, &service).unwrap();
    let there = fleet.accepted();
    for number in 0..200 {
        drop(source.send(vec![number; 1000]).unwrap());
        std::thread::sleep(Duration::from_millis(1));
    }
    source.close(LONG).unwrap();
    drop(source);
    for connection in &there {
        let (mut count, mut last) = (0, None);
        while let Some(message) = connection.recv_timeout(LONG).unwrap() {
            assert!(message.len() == 1000 && last < Some(message[0]), "whole, and in order");
            (count, last) = (count + 1, Some(message[0]));
        }
        assert!(count > 100, "{count} of 200");
    }
}

#[test]
fn tasks_send_to_several() {
    let fleet = fleet(2);
    pollster::block_on(async {
        let source = Endpoint::client().connect_all_async(&fleet.addresses, &Service::new()).await.unwrap();
        let mut there = Vec::new();
        for listener in &fleet.listeners {
            there.push(listener.accept_async().await.unwrap());
        }
        for number in 0..20 {
            let delivery = source.send(pattern(30_000, number)).unwrap();
            for connection in &there {
                assert!(*connection.recv_async().await.unwrap().unwrap() == *pattern(30_000, number));
            }
            assert_eq!(delivery.await.unwrap().message.len(), 30_000);
        }
        assert!(source.recv_async().await.is_err());
        source.close_async(LONG).await.unwrap();
        for connection in &there {
            assert!(connection.recv_async().await.unwrap().is_none());
        }
    });
}

#[test]
fn who_may_be_reached_is_what_explain_says() {
    const SOURCES: usize = 60;
    let said = std::env::var("PINNACE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = said.unwrap_or_else(|| std::process::id().into());
    println!("PINNACE_SEED={seed}");
    let mut random = Random(seed);
    let fleet = fleet(3);
    let peers: Vec<_> = fleet.listeners.iter().map(Listener::local_addr).collect();
    let (mut made, mut refused) = (0, 0);
    while made < SOURCES {
        let service: Service = format!("multicast=3 {}", random.service()).parse().unwrap();
        let selection = random.selection();
        let path = Path::of_receivers(&service, &peers).unwrap();
        let explained = choose(&service, &path, &selection);
        let options = EndpointOptions { selection, ..EndpointOptions::default() };
        let result = Endpoint::client_with(&options).connect_all(&fleet.addresses, &service);
        let Ok(choice) = explained else {
            let error = result.unwrap_err().to_string();
            assert!(error.contains("no method can carry"), "{service}: {error}");
            refused += 1;
            continue;
        };
        let source = match result {
            Ok(source) => source,
            // Longer messages than the listeners collect.
            Err(error) if error.to_string().contains("are taken") => continue,
            Err(error) => panic!("{service}: {error}"),
        };
        assert_eq!(choice.offer.method, source.method(), "{service}");
        assert_eq!(source.explain().unwrap().offer, choice.offer, "{service}");
        let there = fleet.accepted();
        drop(source.send(b"ahoy".to_vec()).unwrap());
        for connection in &there {
            assert_eq!(connection.service(), service);
            assert_eq!(&*connection.recv_timeout(LONG).unwrap().unwrap(), b"ahoy", "{service}");
        }
        made += 1;
    }
    assert!(refused > 10, "{refused}");
    // It can also be asked for by name.
    assert!(Endpoint::client_with(&forced(Method::A1)).connect_all(&fleet.addresses, &Service::new()).is_ok());
    let error = Endpoint::client_with(&forced(Method::Zcrp)).connect_all(&fleet.addresses, &Service::new());
    assert!(error.unwrap_err().to_string().contains("zcrp sends to one receiver"));
}

//! What goes wrong, and what is said then.

use super::body::{LONG, forced, pair_of};
use pinnace::service::{Method, Selection, Service};
use pinnace::{Connection, ConnectionError, Endpoint, EndpointOptions, Error, PerMessage};
use std::time::Duration;

#[test]
fn nobody_at_the_port_is_named_soon() {
    let begin = std::time::Instant::now();
    let error = Endpoint::client().connect("127.0.0.1:9", &Service::new()).unwrap_err().to_string();
    assert!(error.contains("127.0.0.1:9") && error.contains("nothing is bound"), "{error}");
    assert!(begin.elapsed() < LONG / 2);
}

#[test]
fn who_does_not_answer_is_waited_for_as_long_as_was_said() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let (silent, timeout) = (silent.local_addr().unwrap().to_string(), Duration::from_millis(400));
    let client = Endpoint::client_with(&EndpointOptions { connect_timeout: Some(timeout), ..Default::default() });
    for connect in [&|| client.connect(&silent, &Service::new()) as Result<_, Error>, &|| {
        client.connect_all(&[&*silent], &Service::new())
    }] as [&dyn Fn() -> Result<Connection, Error>; 2]
    {
        let begin = std::time::Instant::now();
        let error = connect().unwrap_err().to_string();
        assert!(error.contains(&silent) && error.contains("does not answer"), "{error}");
        assert!((timeout..LONG / 2).contains(&begin.elapsed()), "{:?}", begin.elapsed());
    }
}

#[test]
fn an_endpoint_where_nobody_listens_says_so_and_one_that_listens_has_the_next() {
    let endpoint = Endpoint::bind("127.0.0.1:0").unwrap();
    let address = endpoint.local_addr().unwrap().to_string();
    let error = pinnace::connect(&address).unwrap_err().to_string();
    assert!(error.contains("nobody listens"), "{error}");
    let listener = endpoint.listen(&Service::new()).unwrap();
    assert!(endpoint.listen(&Service::new()).is_err(), "somebody does already");
    let _connection = pinnace::connect(&address).unwrap();
    assert!(listener.accept_timeout(LONG).unwrap().is_some());
    drop(listener);
    assert!(pinnace::connect(&address).is_err());
    assert!(Endpoint::client().listen(&Service::new()).is_err(), "it is not bound");
}

#[test]
fn whoever_receives_from_a_peer_that_is_gone_is_told_so_as_often_as_it_asks() {
    for method in [Method::Xtp, Method::Qmp, Method::Zcrp, Method::Vrp, Method::A1] {
        let options = EndpointOptions { peer_timeout: Duration::from_millis(500), ..EndpointOptions::default() };
        let endpoint = Endpoint::bind_with("127.0.0.1:0", &options).unwrap();
        let listener = endpoint.listen(&Service::new()).unwrap();
        let client = Endpoint::client_with(&EndpointOptions { worker: false, ..forced(method) });
        let client = client.connect(&listener.local_addr().to_string(), &"direction=duplex".parse().unwrap()).unwrap();
        let server = listener.accept_timeout(LONG).unwrap().expect("somebody has come");
        // As if it were killed: nobody answers for it any more.
        std::mem::forget(client);
        let first = server.recv_timeout(LONG).unwrap_err().to_string();
        for _ in 0..100 {
            assert_eq!(server.recv_timeout(LONG).unwrap_err().to_string(), first, "{method}");
        }
    }
}

#[test]
fn whoever_stops_listening_waits_for_nobody_who_was_not_accepted() {
    for method in [Method::Xtp, Method::Qmp, Method::Zcrp, Method::Vrp, Method::A1] {
        let endpoint = Endpoint::bind("127.0.0.1:0").unwrap();
        let listener = endpoint.listen(&Service::new()).unwrap();
        // Nobody answers for these.
        let client = Endpoint::client_with(&EndpointOptions { worker: false, ..forced(method) });
        let connect =
            || client.connect(&listener.local_addr().to_string(), &"direction=duplex".parse().unwrap()).unwrap();
        let clients: Vec<_> = (0..8).map(|_| connect()).collect();
        std::thread::sleep(Duration::from_millis(100));
        let begin = std::time::Instant::now();
        drop(listener);
        // One after the other they would be waited for as many seconds.
        assert!(begin.elapsed() < Duration::from_secs(4), "{method}: {:?}", begin.elapsed());
        for client in clients {
            let told = client.recv_timeout(LONG);
            assert!(told.is_err() && !matches!(told, Err(Error::Timeout)), "{method}: {told:?}");
        }
    }
}

#[test]
fn what_is_no_address_to_bind_is_named_with_what_is() {
    for (address, says) in [
        ("", "empty"),
        ("127.0.0.1", "has no port"),
        ("127.0.0.1:x", "`x` is no port: 0 to 65535"),
        ("127.0.0.1:65536", "`65536` is no port"),
        (":4747", "has no host"),
        ("::1:4747", "IPv6 wants brackets"),
        ("pinnace://127.0.0.1:4747", "no URI"),
    ] {
        let error = Endpoint::bind(address).map(drop).expect_err(address);
        let text = error.to_string();
        assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::InvalidInput, "{text}");
        assert!(text.contains(says) && text.contains("HOST:PORT"), "{text}");
    }
}

#[test]
fn a_service_that_no_method_meets_is_refused_before_anything_is_sent() {
    let error = Endpoint::client().connect("192.0.2.1:7", &"size=100GiB in-place=yes".parse().unwrap());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("zcrp") && error.contains("vrp"), "{error}");
    let error = Endpoint::client_with(&forced(Method::Vrp)).connect("127.0.0.1:7", &"pattern=stream".parse().unwrap());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("vrp carries frames, not a stream"), "{error}");
    let many = Endpoint::client().connect("127.0.0.1:7", &"multicast=3".parse().unwrap()).unwrap_err().to_string();
    assert!(many.contains("one peer") && many.contains("connect_all"), "{many}");
}

#[test]
fn what_the_listener_does_not_accept_is_refused_with_its_reason() {
    let endpoint = Endpoint::bind("127.0.0.1:0").unwrap();
    let listener = endpoint.listen(&"largest=1MiB rate=1gbit".parse().unwrap()).unwrap();
    let address = listener.local_addr().to_string();
    let connect = |service: &str| Endpoint::client().connect(&address, &service.parse().unwrap());
    let error = connect("largest=2MiB").unwrap_err().to_string();
    assert!(error.contains("2097152") && error.contains("1048576"), "{error}");
    let error = connect("rate=1100mbit size=1MiB").unwrap_err().to_string();
    assert!(error.contains("1100000000"), "{error}");
    assert!(connect("largest=1MiB").is_ok() && connect("").is_ok());
}

#[test]
fn a_message_beyond_the_largest_that_the_service_names_is_given_back() {
    let endpoint = Endpoint::bind("127.0.0.1:0").unwrap();
    let listener = endpoint.listen(&Service::new()).unwrap();
    let address = listener.local_addr().to_string();
    let service = "direction=duplex largest=1KiB".parse().unwrap();
    let there = std::thread::spawn(move || listener.accept().unwrap());
    let here = Endpoint::client().connect(&address, &service).unwrap();
    let there = there.join().unwrap();
    for connection in [&here, &there] {
        let unsent = connection.send(vec![0; 1025]).unwrap_err();
        assert!(unsent.message.is_some_and(|message| message.len() == 1025));
        let error = unsent.error.to_string();
        assert!(error.contains("1025") && error.contains("1024") && error.contains("largest"), "{error}");
        assert!(connection.try_send(vec![0; 1025]).is_err());
        drop(connection.send(vec![1; 1024]).unwrap());
    }
    assert_eq!([here.recv().unwrap().unwrap().len(), there.recv().unwrap().unwrap().len()], [1024; 2]);
    here.set_service(&"direction=duplex".parse().unwrap()).unwrap();
    drop(here.send(vec![1; 1025]).unwrap());
    assert_eq!(there.recv().unwrap().unwrap().len(), 1025);
    // A write into a stream is no message.
    let endpoint = Endpoint::bind("127.0.0.1:0").unwrap();
    let listener = endpoint.listen(&Service::new()).unwrap();
    let stream = "pattern=stream largest=1KiB".parse().unwrap();
    let here = Endpoint::client().connect(&listener.local_addr().to_string(), &stream).unwrap();
    drop(here.send(vec![0; 1 << 20]).unwrap());
}

#[test]
fn both_ends_have_to_allow_the_method() {
    let none = Selection { excluded: Method::ALL.to_vec(), ..Selection::default() };
    let options = EndpointOptions { selection: none, ..EndpointOptions::default() };
    let endpoint = Endpoint::bind_with("127.0.0.1:0", &options).unwrap();
    let listener = endpoint.listen(&Service::new()).unwrap();
    let error = pinnace::connect(&listener.local_addr().to_string()).unwrap_err().to_string();
    assert!(error.contains("this end has none") && error.contains("zcrp"), "{error}");
    let endpoint = Endpoint::bind_with("127.0.0.1:0", &forced(Method::Xtp)).unwrap();
    let listener = endpoint.listen(&Service::new()).unwrap();
    let connection = pinnace::connect(&listener.local_addr().to_string()).unwrap();
    assert_eq!(connection.method(), Method::Xtp);
}

#[test]
fn a_contract_is_changed_where_the_method_can_and_the_error_names_it_where_not() {
    let pair = pair_of(Method::Vrp, &"loss=5% run=4KiB direction=duplex".parse().unwrap());
    pair.client.set_service(&"loss=20% run=8KiB direction=duplex".parse().unwrap()).unwrap();
    assert!(pair.client.service().to_string().contains("loss=20%"));
    let error = pair.client.set_service(&"loss=20%".parse().unwrap()).unwrap_err().to_string();
    assert!(error.contains("direction"), "{error}");
    let error = pair.client.set_service(&"size=2GiB direction=duplex".parse().unwrap()).unwrap_err().to_string();
    assert!(error.contains("vrp cannot meet"), "{error}");
    let error = pair.client.stream().unwrap_err().to_string();
    assert!(error.contains("loses nothing") && pair.client.service().to_string().contains("loss=20%"));
    let pair = pair_of(Method::Zcrp, &Service::new());
    let error = pair.client.set_service(&"lifespan=1s".parse().unwrap()).unwrap_err().to_string();
    assert!(error.contains("zcrp") && error.contains("1.0 s"), "{error}");
}

#[test]
fn one_way_is_one_way_where_the_method_has_two() {
    let pair = pair_of(Method::Vrp, &"loss=5% run=4KiB".parse().unwrap());
    drop(pair.client.send(vec![1; 100]).unwrap());
    assert_eq!(pair.server.recv_timeout(LONG).unwrap().unwrap().len(), 100);
    let error = pair.server.send(vec![1]).unwrap_err().to_string();
    assert!(error.contains("vrp cannot send back") && error.contains("duplex"), "{error}");
    let error = pair.client.recv().unwrap_err().to_string();
    assert!(error.contains("vrp cannot receive"), "{error}");
    // Nothing is sent that cannot be answered.
    let errors = [pair.client.transact(vec![1; 9]), pollster::block_on(pair.client.transact_async(vec![1; 9]))];
    for error in errors.map(|response| response.unwrap_err().to_string()) {
        assert!(error.contains("vrp cannot receive"), "{error}");
    }
    pair.client.close(LONG).unwrap();
    assert!(pair.server.recv_timeout(LONG).unwrap().is_none());
}

#[test]
fn whoever_has_broken_off_is_told_so_by_whatever_method() {
    for method in [Method::Xtp, Method::Qmp, Method::Zcrp, Method::Vrp, Method::A1] {
        let pair = pair_of(method, &"direction=duplex".parse().unwrap());
        pair.client.abort();
        for told in [pair.client.recv_timeout(LONG), pollster::block_on(pair.client.recv_async())] {
            let is_closed = |error: &ConnectionError| matches!(error, ConnectionError::Closed);
            assert!(matches!(&told, Err(Error::Connection(error)) if is_closed(error)), "{method}: {told:?}");
        }
    }
}

#[test]
fn whoever_has_broken_off_is_not_told_that_the_other_end_has_too() {
    for method in [Method::Zcrp, Method::Vrp] {
        let took = pinnace_testing::least_of(5, || {
            let pair = pair_of(method, &"direction=duplex".parse().unwrap());
            for from in [&pair.client, &pair.server] {
                drop(from.send(vec![1; 100_000]).unwrap());
            }
            pair.client.abort();
            let begin = std::time::Instant::now();
            while let Ok(()) | Err(Error::Timeout) = pair.server.close(Duration::ZERO) {
                assert!(begin.elapsed() < LONG, "{method}: it does not learn of it");
                std::thread::sleep(Duration::from_millis(5));
            }
            let begin = std::time::Instant::now();
            pair.server.abort();
            begin.elapsed().as_secs_f64()
        });
        assert!(took < 0.15, "{method}: {took} s");
    }
}

#[test]
fn the_choice_is_what_explain_says() {
    for service in [
        "loss=5% run=4KiB size=2MB rate=200mbit path=internet",
        "",
        "size=16MiB in-place=yes",
        "pattern=stream direction=duplex",
    ] {
        let service: Service = service.parse().unwrap();
        let endpoint = Endpoint::bind("127.0.0.1:0").unwrap();
        let listener = endpoint.listen(&Service::new()).unwrap();
        let connection = Endpoint::client().connect(&listener.local_addr().to_string(), &service).unwrap();
        let choice = connection.explain().unwrap();
        assert_eq!(choice.offer.method, connection.method(), "{service}");
        let path = pinnace::service::Path::of_service(&service, Some(listener.local_addr())).unwrap();
        let choice = pinnace::service::choose(&service, &path, &Selection::default()).unwrap();
        assert_eq!(choice.offer.method, connection.method(), "{service}");
        assert_eq!(listener.accept_timeout(LONG).unwrap().unwrap().method(), connection.method());
    }
}

#[test]
fn no_message_overtakes_others_of_its_connection() {
    for method in [Method::Xtp, Method::Qmp, Method::Zcrp, Method::Vrp, Method::A1] {
        let pair = pair_of(method, &"priority=3 direction=duplex".parse().unwrap());
        let unsent = pair.client.send_with(b"urgent".to_vec(), &PerMessage::new().priority(0)).unwrap_err();
        assert_eq!(unsent.message.as_deref(), Some(&b"urgent"[..]), "it comes back");
        let error = unsent.to_string();
        assert!(error.contains(method.name()) && error.contains("a priority is a connection's"), "{error}");
        drop(pair.client.send_with(b"as said".to_vec(), &PerMessage::new().priority(3)).unwrap());
        assert_eq!(&*pair.server.recv_timeout(LONG).unwrap().unwrap(), b"as said");
    }
}

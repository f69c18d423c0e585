//! The method of a connection is the one that `explain` names, for services and selections at random.

use super::body::LONG;
use pinnace::service::{Method, Path, PathClass, Selection, Service, choose};
use pinnace::{ConnectionError, Endpoint, EndpointOptions, Error};
use pinnace_core::mix64;

const CONNECTIONS: usize = 200;

/// Words of services; of each row one, the first more often than the others.
const WORDS: [&[&str]; 13] = [
    &["", "loss=5% run=4KiB", "loss=10% run=16KiB critical=0..1KiB", "loss=any", "loss=2% critical=0..64,1KiB..2KiB"],
    &["", "size=16", "size=1KiB", "size=64KiB", "size=2MB", "size=64MiB", "size=8GiB"],
    &["", "rate=1mbit", "rate=100mbit burst=64KiB", "rate=1gbit", "rate=10mbit burst=4KiB"],
    &["", "", "deadline=50us", "deadline=5ms", "deadline=1s"],
    &["", "", "", "lifespan=20ms", "lifespan=1s"],
    &["", "priority=0", "priority=200"],
    &["", "pattern=stream", "pattern=transaction"],
    &["", "", "order=no"],
    &["", "", "in-place=yes"],
    &["", "checksum=none"],
    &["", "prefer=throughput"],
    &["", "direction=duplex"],
    &["", "path=host", "path=cluster", "path=internet"],
];

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        let mixed = mix64(self.0);
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        (mixed % end as u64) as usize
    }

    fn method(&mut self) -> Method {
        Method::ALL[self.below(Method::ALL.len())]
    }

    pub(crate) fn service(&mut self) -> Service {
        let words: Vec<&str> = WORDS.iter().map(|row| row[self.below(row.len() * 3 / 2) % row.len()]).collect();
        words.join(" ").parse().unwrap()
    }

    pub(crate) fn selection(&mut self) -> Selection {
        let forced = (self.below(4) == 0).then(|| self.method());
        let excluded = (0..self.below(3)).map(|_| self.method()).collect();
        Selection { forced, excluded }
    }
}

#[test]
fn hundreds_of_connections_have_the_method_that_explain_names() {
    let said = std::env::var("PINNACE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = said.unwrap_or_else(|| std::process::id().into());
    println!("PINNACE_SEED={seed}");
    let mut random = Random(seed);
    let endpoint = Endpoint::bind("127.0.0.1:0").unwrap();
    let listener = endpoint.listen(&Service::new().path(PathClass::Cluster)).unwrap();
    let address = listener.local_addr();
    let (mut refused, mut chosen) = (0, Vec::new());
    while chosen.len() < CONNECTIONS {
        let (service, selection) = (random.service(), random.selection());
        let options = EndpointOptions { selection: selection.clone(), ..EndpointOptions::default() };
        let path = Path::of_service(&service, Some(address)).unwrap();
        let result = Endpoint::client_with(&options).connect(&address.to_string(), &service);
        let any = |method: Method| selection.allows(method) && method.probe(&service, &path).fits;
        if !Method::ALL.into_iter().any(any) {
            let Err(Error::Connection(error)) = result else { panic!("{service}: {result:?}") };
            assert!(matches!(*error, ConnectionError::Unmet { .. }), "{service}: {error}");
            refused += 1;
            continue;
        }
        let client = match result {
            Ok(client) => client,
            // Longer messages than the listener collects.
            Err(error) if service.to_string().contains("size=8GiB") && error.to_string().contains("are taken") => {
                continue;
            }
            Err(error) => panic!("{service}: {error}"),
        };
        let expected = choose(&service, &path, &selection).unwrap().offer.method;
        assert_eq!(client.method(), expected, "{service}, {selection:?}");
        assert_eq!(client.explain().unwrap().offer.method, expected, "{service}, {selection:?}");
        let server = listener.accept_timeout(LONG).unwrap().expect("somebody has come");
        assert_eq!((server.method(), server.service()), (expected, service.clone()));
        drop(client.send(b"ahoy".to_vec()).unwrap());
        let received = server.recv_timeout(LONG).unwrap().unwrap();
        assert_eq!(&*received, b"ahoy", "{service} by {expected}");
        chosen.push(expected);
    }
    // QMP is seldom the cheapest.
    for method in [Method::Zcrp, Method::Vrp, Method::Xtp, Method::A1] {
        let count = chosen.iter().filter(|it| **it == method).count();
        println!("{method}: {count}");
        assert!(count > 3, "{method}: {count}");
    }
    assert!(refused > 10, "{refused}");
}

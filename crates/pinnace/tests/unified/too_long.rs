//! Messages that are longer than whoever receives them takes: nothing else is made of them, and both ends are told; and
//! those that do not fit a buffer, of which nothing is lost.

use super::body::{LONG, Pair, duplex, forced, pair_of, pair_with, pattern};
use pinnace::service::{Method, Service};
use pinnace::{Connection, Endpoint, EndpointOptions, Error, Received, ReceivedInto};
use std::io::Write;
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

fn limited(method: Method, service: &str, longest_message: u64) -> Pair {
    pair_with(method, &service.parse().unwrap(), &EndpointOptions { longest_message, ..EndpointOptions::default() })
}

/// Also whoever says nothing of sizes keeps to the listener's limit.
#[test]
fn what_is_longer_than_the_listener_takes_is_refused() {
    for method in [Method::Zcrp, Method::Vrp, Method::Xtp, Method::Qmp, Method::A1] {
        let endpoint = Endpoint::bind("127.0.0.1:0").unwrap();
        let listener = endpoint.listen(&"largest=10kB path=cluster".parse().unwrap()).unwrap();
        let client = Endpoint::client_with(&forced(method));
        let client = client.connect(&listener.local_addr().to_string(), &Service::new()).unwrap();
        let server = listener.accept_timeout(LONG).unwrap().expect("somebody has come");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for size in [10_000, 10_001] {
                    drop(client.send(vec![1; size]));
                }
            });
            assert_eq!(server.recv_timeout(LONG).unwrap().unwrap().len(), 10_000, "{method}");
            let error = server.recv_timeout(LONG).unwrap_err();
            assert!(matches!(error, Error::MessageTooLong(10_000)), "{method}: {error}");
        });
    }
}

/// Nor is it collected before.
#[test]
fn what_is_longer_than_the_listener_takes_is_refused_before_it_has_come() {
    for service in ["rate=8mbit burst=64KiB", "rate=8mbit burst=64KiB loss=any"] {
        let endpoint = Endpoint::bind("127.0.0.1:0").unwrap();
        let listener = endpoint.listen(&"largest=10kB path=cluster".parse().unwrap()).unwrap();
        let client = Endpoint::client_with(&forced(Method::Xtp));
        let client = client.connect(&listener.local_addr().to_string(), &service.parse().unwrap()).unwrap();
        let server = listener.accept_timeout(LONG).unwrap().expect("somebody has come");
        // It takes a minute. Of what may lose its end more is collected.
        drop(client.send(vec![1; 64 << 20]).unwrap());
        let error = server.recv_timeout(2 * LONG).unwrap_err();
        assert!(matches!(error, Error::MessageTooLong(10_000)), "{service}: {error}");
        client.abort();
    }
}

#[test]
fn no_piece_of_a_message_that_is_too_long_is_taken_for_one() {
    // Pieces are as long as the largest message, and the last one is shorter than the others: of 8 MiB and one longer piece,
    // of one of a mebibyte and a byte and of several; and of nothing behind whole ones.
    let (mib, piece) = (1 << 20, (1 << 20) + 1);
    for (largest, longest, sizes) in
        [(8, 10, vec![20 * mib, 25 * mib]), (1, 1, vec![3 * mib, 2 * piece, 10 * piece + 5])]
    {
        let longest = longest * mib;
        for size in sizes {
            let service = format!("direction=duplex size={largest}MiB");
            let Pair { client, server, _endpoint } = limited(Method::Zcrp, &service, longest as u64);
            std::thread::scope(|scope| {
                let client = &client;
                scope.spawn(move || {
                    for size in [7, size, 5] {
                        // The last may come too late.
                        drop(client.send(vec![1; size]));
                    }
                });
                assert_eq!(server.recv_timeout(LONG).unwrap().unwrap().len(), 7);
                for _ in 0..3 {
                    let error = server.recv_timeout(LONG).unwrap_err();
                    assert!(
                        matches!(error, Error::MessageTooLong(limit) if limit == longest as u64),
                        "{size}: {error}"
                    );
                }
            });
        }
    }
}

/// What both ends say of themselves first is longer than that.
#[test]
fn whoever_takes_short_messages_alone_is_reached_over_every_method() {
    for method in [Method::Zcrp, Method::Vrp, Method::Xtp, Method::Qmp, Method::A1] {
        let Pair { client, server, _endpoint } = limited(method, "direction=duplex", 10);
        for (from, to) in [(&client, &server), (&server, &client)] {
            drop(from.send(vec![1; 10]).unwrap());
            assert_eq!(to.recv_timeout(LONG).unwrap().unwrap().len(), 10, "{method}");
        }
        drop(client.send(vec![1; 11]));
        let error = server.recv_timeout(LONG).unwrap_err();
        assert!(matches!(error, Error::MessageTooLong(10)), "{method}: {error}");
    }
}

#[test]
fn a_stream_is_cut_into_messages_as_long_as_the_service_says() {
    let Pair { client, server, _endpoint } = pair_of(Method::Xtp, &"direction=duplex largest=1000".parse().unwrap());
    let bytes = pattern(2500, 5);
    client.stream().unwrap().write_all(&bytes).unwrap();
    for piece in bytes.chunks(1000) {
        assert!(*server.recv_timeout(LONG).unwrap().unwrap() == *piece);
    }
}

/// Whoever has sent something too long is told, by a call that would wait or by one that does not.
fn is_told(sender: &Connection, method: Method) {
    let end = Instant::now() + LONG;
    let error = loop {
        if let Err(error) = sender.check() {
            break error;
        }
        assert!(Instant::now() < end, "{method}: nobody tells the sender");
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(!matches!(error, Error::Timeout), "{method}: {error}");
    assert!(sender.send(b"behind it".to_vec()).is_err(), "{method}");
    assert!(sender.close(LONG).is_err(), "{method}: not everything was received");
}

#[test]
fn a_message_that_is_too_long_is_refused_and_both_ends_are_told() {
    type Call = fn(&Connection) -> Result<Option<usize>, Error>;
    let ways: [Call; 5] = [
        // What is too long is no message that is too long for this memory alone.
        |it| match it.recv_into_timeout(&mut [0; 10], LONG) {
            Err(Error::MessageTooLong(10)) => it.recv_timeout(LONG).map(|it| it.map(|it| it.len())),
            received => received.map(|it| it.map(|it| it.len)),
        },
        |it| it.recv_timeout(LONG).map(|it| it.map(|it| it.len())),
        |it| pollster::block_on(it.recv_async()).map(|it| it.map(|it| it.len())),
        |it| it.recv_into_timeout(&mut vec![0; 30_000], LONG).map(|it| it.map(|it| it.len)),
        |it| pollster::block_on(it.recv_into_async(&mut vec![0; 30_000])).map(|it| it.map(|it| it.len)),
    ];
    for method in [Method::Xtp, Method::Qmp, Method::Zcrp, Method::Vrp, Method::A1] {
        for (way, is_answer) in ways.iter().flat_map(|way| [(way, false), (way, true)]) {
            let Pair { client, server, _endpoint } = limited(method, "direction=duplex", 10_000);
            let (from, to) = if is_answer { (server, client) } else { (client, server) };
            drop(from.send(pattern(10_000, 1)).unwrap());
            drop(from.send(pattern(10_001, 2)).unwrap());
            assert_eq!(way(&to).unwrap(), Some(10_000), "{method}, an answer: {is_answer}");
            for _ in 0..2 {
                let refused = way(&to);
                assert!(
                    matches!(refused, Err(Error::MessageTooLong(10_000))),
                    "{method}, an answer: {is_answer}: {refused:?}"
                );
            }
            is_told(&from, method);
        }
    }
}

#[test]
fn a_stream_that_has_a_message_too_long_goes_nowhere_else() {
    let Pair { client, server, _endpoint } = limited(Method::Qmp, "direction=duplex size=1MiB", 1 << 20);
    drop(client.send(vec![1; 2 << 20]).unwrap());
    drop(client.send(b"behind it".to_vec()).unwrap());
    pollster::block_on(async {
        for _ in 0..3 {
            let error = server.recv_async().await.unwrap_err();
            assert!(matches!(error, Error::MessageTooLong(limit) if limit == 1 << 20), "{error}");
        }
    });
    assert!(matches!(server.recv_timeout(LONG), Err(Error::MessageTooLong(_))));
}

#[test]
fn what_did_not_fit_a_buffer_is_received_whole_by_whoever_asks_next() {
    for method in [Method::Xtp, Method::Qmp, Method::Zcrp, Method::Vrp, Method::A1] {
        let Pair { client, server, _endpoint } = pair_of(method, &duplex());
        let sizes = [200, 1000, 300];
        for size in sizes {
            drop(client.send(pattern(size, size as u8)).unwrap());
        }
        client.flush().unwrap();
        let mut small = [0; 10];
        pollster::block_on(async {
            for size in sizes {
                for _ in 0..2 {
                    let error = server.recv_into_timeout(&mut small, LONG).unwrap_err();
                    assert!(matches!(error, Error::MessageTooLong(10)), "{method}: {error}");
                    let error = server.recv_into_async(&mut small).await.unwrap_err();
                    assert!(matches!(error, Error::MessageTooLong(10)), "{method}: {error}");
                }
                let received = server.recv_async().await.unwrap().unwrap();
                assert!(*received == *pattern(size, size as u8), "{method}: {} bytes", received.len());
            }
        });
    }
}

#[test]
fn a_message_without_any_room_is_received_whole_by_whoever_asks_next() {
    for method in [Method::Xtp, Method::Qmp, Method::Zcrp, Method::Vrp, Method::A1] {
        let Pair { client, server, _endpoint } = pair_of(method, &duplex());
        for size in [1, 100, 0] {
            drop(client.send(pattern(size, 3)).unwrap());
        }
        for size in [1, 100] {
            let error = server.recv_into_timeout(&mut [], LONG).unwrap_err();
            assert!(matches!(error, Error::MessageTooLong(0)), "{method}: {error}");
            let error = pollster::block_on(server.recv_into_async(&mut [])).unwrap_err();
            assert!(matches!(error, Error::MessageTooLong(0)), "{method}: {error}");
            assert!(*server.recv_timeout(LONG).unwrap().unwrap() == *pattern(size, 3), "{method}");
        }
        let received = server.recv_into_timeout(&mut [], LONG).unwrap().unwrap();
        assert_eq!(received.len, 0, "{method}: there is room for an empty one");
    }
}

type Told = Result<Option<Received>, Error>;
type Task = Pin<Box<dyn Future<Output = Told> + Send>>;

/// A task that is polled as soon as one can be: once, in the call that wakes it.
struct Prompt {
    task: Mutex<Option<Task>>,
    told: mpsc::Sender<Poll<Told>>,
}

impl Wake for Prompt {
    fn wake(self: Arc<Self>) {
        let task = self.task.lock().unwrap().take();
        if let Some(mut task) = task {
            let polled = task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            // It keeps its turn, if it has got one.
            *self.task.lock().unwrap() = polled.is_pending().then_some(task);
            self.told.send(polled).unwrap();
        }
    }
}

#[test]
fn what_did_not_fit_is_the_next_for_those_who_wait_too() {
    type Call = fn(&Connection) -> Result<Option<ReceivedInto>, Error>;
    let ways: [Call; 2] = [
        |server| server.recv_into_timeout(&mut [0; 10], LONG),
        |server| pollster::block_on(server.recv_into_async(&mut [0; 10])),
    ];
    for method in [Method::Qmp, Method::Zcrp, Method::Vrp] {
        for way in ways {
            let Pair { client, server, _endpoint } = pair_of(method, &duplex());
            let server = Arc::new(server);
            let (has_tried, tries) = mpsc::channel();
            let first = Arc::clone(&server);
            std::thread::spawn(move || has_tried.send(way(&first)));
            // It has its turn before the other one asks.
            std::thread::sleep(Duration::from_millis(50));
            let (told, polls) = mpsc::channel();
            let second = Arc::clone(&server);
            let mut task: Task = Box::pin(async move { second.recv_async().await });
            let prompt = Arc::new(Prompt { task: Mutex::new(None), told });
            let waker = Waker::from(Arc::clone(&prompt));
            assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            *prompt.task.lock().unwrap() = Some(task);
            drop(client.send(pattern(200, 1)).unwrap());
            let tried = tries.recv_timeout(LONG).unwrap_or(Err(Error::Timeout));
            assert!(matches!(tried, Err(Error::MessageTooLong(10))), "{method}: {tried:?}");
            let Poll::Ready(received) = polls.recv_timeout(LONG).unwrap() else { panic!("{method}: it has not come") };
            assert!(*received.unwrap().unwrap() == *pattern(200, 1), "{method}");
        }
    }
}

#[test]
fn what_did_not_fit_over_a1_is_found_by_those_who_wait() {
    for _ in 0..50 {
        let Pair { client, server, _endpoint } = pair_of(Method::A1, &duplex());
        let is_found = std::thread::scope(|scope| {
            scope.spawn(|| server.recv_into_timeout(&mut [0; 10], LONG));
            std::thread::sleep(Duration::from_millis(20));
            let second = scope.spawn(|| (server.recv_timeout(LONG), Instant::now()));
            std::thread::sleep(Duration::from_millis(20));
            let begin = Instant::now();
            drop(client.send(pattern(200, 1)).unwrap());
            let (received, at) = second.join().unwrap();
            if at - begin > Duration::from_millis(100) {
                // The first had it.
                assert!(at - begin < LONG / 2, "{:?}", at - begin);
                assert!(*received.unwrap().unwrap() == *pattern(200, 1));
                return true;
            }
            drop(client.send(pattern(200, 1)).unwrap());
            false
        });
        if is_found {
            return;
        }
    }
    panic!("the first never has it");
}

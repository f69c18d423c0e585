//! Messages that are longer than whoever receives them takes: nothing else is made of them, and nothing else is lost with
//! them.

use super::body::{LONG, Pair, duplex, pair_of, pair_with, pattern};
use pinnace::service::Method;
use pinnace::{Connection, EndpointOptions, Error, Received, ReceivedInto};
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

fn limited(method: Method, service: &str, longest_message: u64) -> Pair {
    pair_with(method, &service.parse().unwrap(), &EndpointOptions { longest_message, ..EndpointOptions::default() })
}

/// What is received until the end: lengths, and `None` for what was too long.
fn lengths(from: &Connection, longest: u64) -> Vec<Option<usize>> {
    let received = std::iter::from_fn(|| match from.recv_timeout(LONG) {
        Ok(message) => message.map(|message| Some(message.len())),
        Err(Error::MessageTooLong(limit)) if limit == longest => Some(None),
        Err(error) => panic!("{error}"),
    });
    received.collect()
}

#[test]
fn no_piece_of_a_message_that_is_too_long_is_taken_for_one() {
    // Pieces are as long as the largest message, and the last one is shorter than the others: of 8 MiB and one longer piece,
    // of one of a mebibyte and a byte and of several; and of nothing behind whole ones.
    let (mib, piece) = (1 << 20, (1 << 20) + 1);
    for (largest, longest, sizes) in [
        (8, 10, vec![20 * mib, mib, 25 * mib, 9 * mib, 5]),
        (1, 1, vec![3 * mib, 7, 2 * piece, mib, 10 * piece + 5, 0]),
    ] {
        let longest = longest * mib;
        let service = format!("direction=duplex size={largest}MiB");
        let Pair { client, server, _endpoint } = limited(Method::Zcrp, &service, longest as u64);
        std::thread::scope(|scope| {
            let sizes = &sizes;
            scope.spawn(move || {
                for size in sizes {
                    drop(client.send(vec![1; *size]).unwrap());
                }
                client.close(LONG).unwrap();
            });
            let expected: Vec<_> = sizes.iter().map(|size| Some(*size).filter(|size| *size <= longest)).collect();
            assert_eq!(lengths(&server, longest as u64), expected);
        });
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

//! What happens where more is sent than the peer receives: whoever must not wait is told so, and loses nothing.

use pinnace::service::Method;
use pinnace::{Connection, ConnectionError, Delivery, Error, Unsent};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(20);
/// So long at least nothing has become free when a queue counts as full.
const STILL: Duration = Duration::from_millis(300);
/// And so many times the longest pause before, up to [`LONGEST`]: where the machine is busy, packets are lost and repeated
/// later and later, and what waits for that is not full.
const PAUSES: u32 = 20;
const LONGEST: Duration = Duration::from_secs(5);

fn message(number: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![number as u8; len];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// Sends until there is no room any more. Returns how many, and what says when the last has arrived.
pub(crate) fn fill(from: &Connection, len: usize) -> (u32, Delivery) {
    let (mut sent, mut last, mut since, mut pause) = (0, None, Instant::now(), Duration::ZERO);
    while since.elapsed() < STILL + LONGEST.min(pause * PAUSES) {
        match from.try_send(message(sent, len)) {
            Ok(delivery) => {
                pause = pause.max(since.elapsed());
                (sent, last, since) = (sent + 1, Some(delivery), Instant::now());
                assert!(sent < 100_000, "there is an end");
            }
            Err(unsent) => {
                let says = unsent.to_string();
                assert!(unsent.error.would_block() && says.contains(from.method().name()), "{says}");
                let back = unsent.message.expect("the message comes back");
                assert!(*back == *message(sent, len));
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
    (sent, last.unwrap())
}

fn receive(to: &Connection, numbers: std::ops::Range<u32>, len: usize) {
    for number in numbers {
        let received = to.recv_timeout(LONG).unwrap().expect("a message, not the end");
        assert!(*received == *message(number, len), "message {number} of {}", received.len());
    }
}

/// A queue is full at last, and goes on when the peer receives; meanwhile a thread and a task wait.
pub(crate) fn full(from: &Connection, to: &Connection, len: usize) {
    let (sent, last) = fill(from, len);
    let (begun, patience) = (Instant::now(), Duration::from_millis(130));
    let unsent = from.send_timeout(message(9998, len), patience).expect_err("nothing becomes free");
    assert!(matches!(unsent.error, Error::Timeout), "{unsent}");
    assert!(*unsent.message.expect("it comes back") == *message(9998, len) && begun.elapsed() >= patience);
    let flushed = from.flush_timeout(patience);
    match from.method() {
        // What has not been received may be at the peer all the same.
        Method::A1 | Method::SharedMemory => assert!(matches!(flushed, Ok(()) | Err(Error::Timeout)), "{flushed:?}"),
        _ => assert!(matches!(flushed, Err(Error::Timeout)), "{flushed:?}"),
    }
    std::thread::scope(|scope| {
        let (tried, has_tried) = std::sync::mpsc::channel();
        let waiting = scope.spawn(move || {
            let given_up = pollster::block_on(async {
                let mut future = std::pin::pin!(from.send_async(message(9999, len)));
                std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
            });
            // What waited, and was given up, is not sent.
            assert!(given_up);
            tried.send(()).unwrap();
            pollster::block_on(async { from.send_async(message(sent, len)).await.unwrap().await.unwrap() })
        });
        // Nothing becomes free before it has found the queue full, however late it begins.
        has_tried.recv_timeout(LONG).expect("it finds no room");
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished());
        receive(to, 0..sent + 1, len);
        assert_eq!(waiting.join().unwrap().message.len(), len);
        assert_eq!(last.wait().unwrap().message.len(), len);
    });
    from.flush().unwrap();
    drop(from.try_send(message(sent + 1, len)).unwrap());
    receive(to, sent + 1..sent + 2, len);
}

/// Whoever closes waits as long as it said, and not until the peer receives. `pairs`: two ends, and what keeps them.
pub(crate) fn closing<T>(pairs: [(Connection, Connection, T); 2]) {
    const LINGER: Duration = Duration::from_millis(300);
    for (is_task, (client, server, _kept)) in [false, true].into_iter().zip(pairs) {
        let _under_way = fill(&client, 5000);
        let (said, says) = std::sync::mpsc::channel();
        let closing = std::thread::spawn(move || {
            let begun = Instant::now();
            let result = if is_task { pollster::block_on(client.close_async(LINGER)) } else { client.close(LINGER) };
            said.send((begun.elapsed(), result)).unwrap();
            client
        });
        let told = says.recv_timeout(LONG / 2);
        let Ok((took, result)) = told else { panic!("it still waits, a task: {is_task}") };
        assert!(result.is_err(), "not everything has arrived");
        assert!((LINGER..10 * LINGER).contains(&took), "{took:?}, a task: {is_task}");
        drop(closing.join().unwrap());
        drop(server);
    }
}

/// An end for which nobody waits follows what was sent, while its sender is still there and receives.
pub(crate) fn ends_by_itself<T>(pairs: [(Connection, Connection, T); 3]) {
    const MESSAGES: u32 = 200;
    let manners = ["a call", "a task", "a task that is given up"];
    for (manner, (client, server, _kept)) in manners.into_iter().zip(pairs) {
        for number in 0..MESSAGES {
            drop(client.send(message(number, 5000)).unwrap());
        }
        let result = match manner {
            "a call" => client.close(Duration::ZERO),
            "a task" => pollster::block_on(client.close_async(Duration::ZERO)),
            _ => match pin!(client.close_async(LONG)).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(result) => result,
                Poll::Pending => Ok(()),
            },
        };
        assert!(matches!(result, Ok(()) | Err(Error::Timeout)), "{result:?}, {manner}");
        for number in 0..MESSAGES {
            let received = server.recv_timeout(LONG).unwrap().expect("a message, not the end");
            assert!(*received == *message(number, 5000), "message {number}, {manner}");
        }
        assert!(server.recv_timeout(LONG).unwrap().is_none(), "{manner}");
        // The other way is open.
        drop(server.send(b"that was all".to_vec()).unwrap());
        assert_eq!(&*client.recv_timeout(LONG).unwrap().unwrap(), b"that was all");
        // Whoever closes again waits for what the first did not.
        client.close(LONG).unwrap();
    }
}

/// Waits in this way for something that will not come: that `last` or all arrives, for room, or for a message.
fn wait(how: &str, client: &Connection, last: Delivery) -> Result<(), Error> {
    let of_send = |sent: Result<Delivery, Unsent>| sent.map(drop).map_err(|unsent| unsent.error);
    match how {
        "a call" => client.close(LONG),
        "a task" => pollster::block_on(client.close_async(LONG)),
        "a flush" => client.flush(),
        "a send" => of_send(client.send(message(0, 5000))),
        "a sending task" => of_send(pollster::block_on(client.send_async(message(0, 5000)))),
        "a delivery" => last.wait().map(drop).map_err(|unsent| unsent.error),
        "a delivery as a task" => pollster::block_on(last).map(drop).map_err(|unsent| unsent.error),
        "a recv" => client.recv().map(drop),
        "a receiving task" => pollster::block_on(client.recv_async()).map(drop),
        other => panic!("{other} is no way to wait"),
    }
}

/// Whoever waits for room waits no longer once another has closed this end, and nothing else is lost.
pub(crate) fn is_closed_here<T>(pair: impl Fn() -> (Connection, Connection, T)) {
    for (is_task, is_closing_task) in [(false, false), (true, false), (false, true)] {
        let (client, server, _kept) = pair();
        let (sent, last) = fill(&client, 5000);
        let says = std::thread::scope(|scope| {
            let client = &client;
            let waiting = scope.spawn(move || match is_task {
                true => pollster::block_on(client.send_async(message(sent, 5000))),
                false => client.send(message(sent, 5000)),
            });
            std::thread::sleep(Duration::from_millis(50));
            assert!(!waiting.is_finished(), "it waits");
            let closed = match is_closing_task {
                true => pollster::block_on(client.close_async(Duration::ZERO)),
                false => client.close(Duration::ZERO),
            };
            assert!(matches!(closed, Ok(()) | Err(Error::Timeout)), "{closed:?}");
            let end = Instant::now() + LONG / 2;
            while !waiting.is_finished() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(5));
            }
            let is_finished = waiting.is_finished();
            // Whoever waits all the same is let go.
            receive(&server, 0..sent, 5000);
            assert!(is_finished, "it still waits, a task: {is_task}");
            waiting.join().unwrap()
        });
        let unsent = says.expect_err("it was closed");
        assert!(
            matches!(unsent.error, Error::Connection(ref it) if matches!(**it, ConnectionError::Closed)),
            "{unsent}"
        );
        assert!(*unsent.message.expect("it comes back") == *message(sent, 5000));
        assert!(server.recv_timeout(LONG).unwrap().is_none(), "and then the end");
        last.wait().unwrap();
        client.close(LONG).unwrap();
    }
}

/// Whoever waits for what it has sent to arrive, or for room to send more, is told at once that the peer has broken off, although nobody receives.
pub(crate) fn breaks_off<T>(pair: impl Fn() -> (Connection, Connection, T)) {
    for has_ended in [false, true] {
        for how in ["a call", "a task", "a flush", "a send", "a sending task", "a delivery", "a delivery as a task"] {
            let (client, server, _kept) = pair();
            if matches!(how, "a flush" | "a delivery" | "a delivery as a task") && client.method() == Method::A1 {
                // What its window takes has arrived, whether somebody receives it or not.
                continue;
            }
            if has_ended {
                server.close(LONG).unwrap();
                assert!(client.recv_timeout(LONG).unwrap().is_none());
            } else {
                // Nobody receives this either before it is over.
                drop(server.send(b"unread".to_vec()).unwrap());
            }
            let (_, last) = fill(&client, 5000);
            std::thread::scope(|scope| {
                let client = &client;
                let waiting = scope.spawn(move || wait(how, client, last));
                std::thread::sleep(Duration::from_millis(50));
                assert!(!waiting.is_finished(), "{how} {has_ended}: not everything has arrived");
                server.abort();
                let begun = Instant::now();
                assert!(waiting.join().unwrap().is_err(), "{how} {has_ended}: something is lost");
                assert!(begun.elapsed() < Duration::from_secs(3), "{how} {has_ended}: {:?}", begun.elapsed());
            });
            if !has_ended && matches!(client.method(), Method::Zcrp | Method::Vrp) {
                assert_eq!(&*client.recv_timeout(LONG).unwrap().unwrap(), b"unread", "what came before is kept");
                assert!(client.recv_timeout(LONG).is_err(), "{how}: it was no end in order");
            }
        }
    }
}

/// Whoever waits, for what it has sent or for what is to come, waits no longer once its own end is broken off.
pub(crate) fn is_broken_off_here<T>(pair: impl Fn() -> (Connection, Connection, T)) {
    for how in
        ["a flush", "a send", "a sending task", "a delivery", "a delivery as a task", "a recv", "a receiving task"]
    {
        let (client, server, _kept) = pair();
        if matches!(how, "a flush" | "a delivery" | "a delivery as a task") && client.method() == Method::A1 {
            continue;
        }
        let (_, last) = fill(&client, 5000);
        std::thread::scope(|scope| {
            let client = &client;
            let waiting = scope.spawn(move || wait(how, client, last));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!waiting.is_finished(), "{how}: it waits");
            client.abort();
            let begun = Instant::now();
            assert!(waiting.join().unwrap().is_err(), "{how}: something is lost");
            assert!(begun.elapsed() < Duration::from_secs(3), "{how}: {:?}", begun.elapsed());
        });
        assert!(client.close(LONG).is_err(), "{how}: not everything has arrived");
        // The peer receives what had come, and then no end in order.
        let error = loop {
            match server.recv_timeout(LONG) {
                Ok(received) => drop(received.expect("not the end")),
                Err(error) => break error,
            }
        };
        assert!(!matches!(error, Error::Timeout), "{how}");
    }
}

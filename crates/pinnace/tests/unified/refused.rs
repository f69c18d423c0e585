//! A VRP receiver refuses a frame for which there is no room, because its application has not taken another one as large:
//! whoever sends on is told, whether it waits for deliveries or not.

use super::body::{LONG, Pair, pair_of};
use pinnace::service::Method;
use pinnace::{Connection, ConnectionError, Error, Unsent};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::time::{Duration, Instant};

/// More than half of what a VRP receiver keeps.
const LARGE: usize = 130 << 20;
/// More frames than it keeps for an application that takes none.
const FAR: u32 = 100_000;

/// Memory that nobody has touched is had at once, and a frame that is refused is not sent.
fn message(number: u32) -> Vec<u8> {
    let mut bytes = vec![0; LARGE];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn is_message(received: &[u8], number: u32) -> bool {
    received.len() == LARGE && received[..4] == number.to_be_bytes()
}

fn far() -> Pair {
    pair_of(Method::Vrp, &"order=no".parse().unwrap())
}

fn far_in_order() -> Pair {
    pair_of(Method::Vrp, &"".parse().unwrap())
}

/// Sends until a call says that messages are lost, which nobody waits for: how many, and what it says.
fn send_far(from: &Connection) -> (u32, Unsent) {
    let told = (0..100).find_map(|number| Some((number, from.send(message(number)).err()?)));
    told.expect("what is refused is told")
}

fn says_what_happened(error: &Error, from: &Connection) {
    let says = error.to_string();
    for part in ["did not reach", &from.peer_addr().to_string(), "vrp", "let it receive", "send again"] {
        assert!(says.contains(part), "{part}: {says}");
    }
    let Error::Connection(error) = error else { panic!("{error:?}") };
    assert!(matches!(**error, ConnectionError::Undelivered { messages: 1.., .. }), "{error:?}");
}

#[test]
fn who_sends_on_to_a_receiver_that_takes_nothing_is_told_by_the_next_call() {
    let Pair { client, server, _endpoint } = far();
    let (number, unsent) = send_far(&client);
    says_what_happened(&unsent.error, &client);
    assert!(is_message(&unsent.message.unwrap(), number), "it comes back");
    // What was not refused has arrived then.
    let _ = client.flush();
    // The connection goes on with all that was accepted, and with what is sent from now on.
    let mut taken = 0;
    while let Ok(received) = server.recv_timeout(Duration::from_millis(300)) {
        assert!(is_message(&received.expect("not the end"), taken));
        taken += 1;
    }
    assert!(taken > 0 && taken < number, "{taken} of {number}");
    client.send(message(number)).unwrap().wait().unwrap();
    assert!(is_message(&server.recv_timeout(LONG).unwrap().unwrap(), number));
    client.close(LONG).unwrap();
    assert!(server.recv_timeout(LONG).unwrap().is_none());
}

#[test]
fn flushing_tells_of_what_was_refused() {
    let Pair { client, server: _server, _endpoint } = far();
    drop(send_far(&client));
    let _ = client.flush();
    client.flush().unwrap();
    // Whoever has the delivery can still ask, and is told until then.
    let refused = client.send(message(1)).unwrap();
    for _ in 0..2 {
        says_what_happened(&client.flush().unwrap_err(), &client);
    }
    assert!(matches!(refused.wait().unwrap_err().error, Error::FrameFailed(_)));
    client.flush().unwrap();
    // What nobody has is told once, to tasks as to threads.
    pollster::block_on(async {
        drop(client.send_async(message(2)).await.unwrap());
        says_what_happened(&client.flush_async().await.unwrap_err(), &client);
        client.flush_async().await.unwrap();
        drop(client.send_async(message(3)).await.unwrap());
    });
    // Nobody waits for that either, and so it is asked until it is known.
    let begin = Instant::now();
    let told = loop {
        match client.try_send(message(4)) {
            Err(told) if !told.error.would_block() => break told,
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
        assert!(begin.elapsed() < LONG, "nobody tells");
    };
    says_what_happened(&told.error, &client);
}

#[test]
fn best_effort_is_promised_nothing_and_its_end_is_said_until_it_is_taken() {
    // Closing in many short waits is closing in one.
    for slice in [LONG, Duration::from_millis(250)] {
        let Pair { client, server, _endpoint } = pair_of(Method::Vrp, &"loss=any size=8".parse().unwrap());
        for number in 0..FAR {
            drop(client.send(u64::from(number).to_be_bytes().to_vec()).unwrap());
        }
        client.flush().unwrap();
        if slice < LONG {
            // What the connection says itself is no message, and nobody is told that it was refused.
            assert!(matches!(client.close(slice), Err(Error::Timeout)));
            client.flush_timeout(LONG).unwrap();
        }
        let close = || loop {
            match client.close(slice) {
                Err(Error::Timeout) if slice < LONG => {}
                closed => return closed,
            }
        };
        std::thread::scope(|scope| {
            let closing = scope.spawn(close);
            std::thread::sleep(Duration::from_millis(600));
            assert!(!closing.is_finished(), "the end is refused, too");
            while server.recv_timeout(LONG).unwrap().is_some() {}
            closing.join().unwrap().unwrap();
            assert!(server.is_end_missing(), "the last were refused");
        });
    }
}

#[test]
fn what_was_promised_before_a_change_to_best_effort_is_told() {
    let Pair { client, server: _server, _endpoint } = far();
    drop(send_far(&client));
    let _ = client.flush();
    client.flush().unwrap();
    drop(client.send(message(1)).unwrap());
    client.set_service(&"order=no loss=any".parse().unwrap()).unwrap();
    says_what_happened(&client.flush().unwrap_err(), &client);
    // What is sent from then on is promised to nobody.
    drop(client.send(message(2)).unwrap());
    client.flush().unwrap();
    // And what was sent until then is not, also if the next is again.
    drop(client.send(message(3)).unwrap());
    client.set_service(&"order=no".parse().unwrap()).unwrap();
    client.flush().unwrap();
}

#[test]
fn whoever_does_not_wait_when_it_closes_is_told_when_it_does() {
    let Pair { client, server, _endpoint } = far();
    drop(client.send(message(0)).unwrap());
    drop(client.send(message(1)).unwrap());
    let told = match client.close(Duration::ZERO).unwrap_err() {
        Error::Timeout => {
            // Long enough for all that happens by itself.
            std::thread::sleep(Duration::from_secs(1));
            client.close(LONG).unwrap_err()
        }
        // It was known that soon.
        told => told,
    };
    says_what_happened(&told, &client);
    assert!(client.close(LONG).is_err(), "nor is it different now");
    assert!(is_message(&server.recv_timeout(LONG).unwrap().unwrap(), 0));
    drop(client);
    let end = server.recv_timeout(LONG);
    assert!(end.is_err(), "and not {end:?}");
}

#[test]
fn a_task_that_closes_behind_a_loss_does_not_end_in_order_either() {
    let Pair { client, server, _endpoint } = far();
    drop(client.send(message(0)).unwrap());
    drop(client.send(message(1)).unwrap());
    says_what_happened(&pollster::block_on(client.close_async(LONG)).unwrap_err(), &client);
    assert!(is_message(&server.recv_timeout(LONG).unwrap().unwrap(), 0));
    drop(client);
    let end = server.recv_timeout(LONG);
    assert!(end.is_err(), "and not {end:?}");
}

#[test]
fn closing_tells_of_what_was_refused() {
    let Pair { client, server: _server, _endpoint } = far();
    drop(send_far(&client));
    let _ = client.flush();
    drop(client.send(message(1)).unwrap());
    says_what_happened(&client.close(Duration::from_millis(300)).unwrap_err(), &client);

    let Pair { client, server: _server, _endpoint } = far();
    drop(send_far(&client));
    let _ = client.flush();
    drop(client.send(message(1)).unwrap());
    let closed = pollster::block_on(client.close_async(Duration::from_millis(500)));
    says_what_happened(&closed.unwrap_err(), &client);
}

#[test]
fn event_loops_are_told_when_what_came_early_is_due() {
    let Pair { client, server, _endpoint } = far_in_order();
    drop(send_far(&client));
    let _ = client.flush();
    let descriptor = server.descriptor().unwrap();
    let a_while = Timespec::try_from(Duration::from_secs(3)).unwrap();
    let (mut taken, mut sent, mut missed) = (0, None, 0);
    let begin = Instant::now();
    while missed == 0 {
        // Nothing else happens, once all has been taken that had come.
        let is_readable = poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&a_while)).unwrap() > 0;
        assert!(is_readable || sent.is_none(), "who waits for the descriptor would wait for ever");
        assert!(begin.elapsed() < LONG);
        server.clear();
        let before = taken;
        while let Ok(received) = server.recv_timeout(Duration::ZERO) {
            missed = received.expect("not the end").missed();
            taken += 1;
        }
        if taken == before && sent.is_none() {
            sent = Some(client.send(message(7)).unwrap());
        }
    }
}

#[test]
fn what_comes_behind_refused_messages_says_so_soon() {
    let Pair { client, server, _endpoint } = far_in_order();
    drop(send_far(&client));
    let _ = client.flush();
    let mut taken = 0;
    while let Ok(received) = server.recv_timeout(Duration::from_millis(300)) {
        let received = received.expect("not the end");
        assert!(is_message(&received, taken) && received.missed() == 0);
        taken += 1;
    }
    drop(client.send(message(7)).unwrap());
    // Nobody waits half a minute for what this end has refused itself.
    let behind = server.recv_timeout(Duration::from_secs(10)).unwrap().unwrap();
    assert!(is_message(&behind, 7) && behind.missed() > 0, "{} are missing", behind.missed());
    assert!(server.stream().is_ok());
}

#[test]
fn a_stream_of_bytes_does_not_end_where_some_are_missing() {
    use std::io::Read;
    let Pair { client, server, _endpoint } = far_in_order();
    drop(send_far(&client));
    let _ = client.flush();
    std::thread::scope(|scope| {
        scope.spawn(|| drop(client.close(LONG)));
        let (mut stream, mut all) = (server.stream().unwrap(), Vec::new());
        let error = stream.read_to_end(&mut all).unwrap_err();
        assert!(all.len() > 8000 && error.to_string().contains("missing here"), "{}: {error}", all.len());
        assert!(stream.read(&mut [0; 8]).is_err(), "and it stays so");
    });

    let Pair { client, server, _endpoint } = far_in_order();
    for number in 0..100u64 {
        drop(client.send(number.to_be_bytes().to_vec()).unwrap());
    }
    std::thread::scope(|scope| {
        scope.spawn(|| client.close(LONG).unwrap());
        let mut all = Vec::new();
        server.stream().unwrap().read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), 800);
    });
}

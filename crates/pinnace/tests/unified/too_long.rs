//! Messages that are longer than whoever receives them takes: nothing else is made of them, and nothing else is lost with
//! them.

use super::body::{LONG, Pair, duplex, pair_of, pair_with, pattern};
use pinnace::service::Method;
use pinnace::{Connection, EndpointOptions, Error};

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

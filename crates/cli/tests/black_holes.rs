//! `pinnace send` and `recv` over paths that lose every large datagram, and tell nobody.

mod common;

use common::relay::Relay;
use common::{Listening, run, text};
use std::fs;
use std::path::Path;

fn receiver(dir: &Path) -> Listening {
    let dir = dir.to_str().unwrap();
    Listening::start(&["recv", "--bind", "127.0.0.1:0", "--timeout", "3", "--dir", dir, "--once"])
}

/// Bytes that are not alike anywhere.
fn content(bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    blake3::Hasher::new().finalize_xof().fill(&mut content);
    content
}

#[test]
fn files_get_through_whichever_way_loses_large_datagrams() {
    let from = tempfile::tempdir().unwrap();
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    // So many that what the receiver says of them is large as well.
    for number in 0..300 {
        fs::write(top.join(format!("one of many files, and this is number {number}")), [7; 100]).unwrap();
    }
    fs::write(top.join("large"), content(2_000_000)).unwrap();
    for carried in [1252, 1000] {
        let to = tempfile::tempdir().unwrap();
        for round in 0..2 {
            let receiving = receiver(to.path());
            let relay = Relay::at("127.0.0.1:0", &receiving.address, move |_, packet| packet.len() <= carried);
            let sent = run(&["send", top.to_str().unwrap(), &relay.address.to_string(), "--timeout", "3"]);
            assert_eq!(sent.status.code(), Some(0), "{carried}, {round}: {}", text(&sent.stderr));
            assert_eq!(receiving.finish().0, Some(0));
            assert_eq!(fs::read(to.path().join("top/large")).unwrap(), content(2_000_000));
            assert_eq!(fs::read_dir(to.path().join("top")).unwrap().count(), 301);
            // Of what is there already only the receiver speaks at length.
            assert_eq!(text(&sent.stdout).contains("already there top/large"), round == 1);
        }
    }
}

#[test]
fn a_path_that_begins_to_lose_large_datagrams_is_named_at_both_ends() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("large");
    fs::write(&file, content(8 << 20)).unwrap();
    let send = |to: &str| run(&["send", file.to_str().unwrap(), to, "--chunk", "64KiB", "--timeout", "2"]);
    let receiving = receiver(to.path());
    let mut left = 40;
    let relay = Relay::at("127.0.0.1:0", &receiving.address, move |_, packet| {
        left -= usize::from(packet.len() > 1200).min(left);
        packet.len() <= 1200 || left > 0
    });
    let sent = send(&relay.address.to_string());
    let (code, _, err) = receiving.finish();
    assert_eq!((sent.status.code(), code), (Some(3), Some(3)), "{} {err}", text(&sent.stderr));
    for said in [text(&sent.stderr), err] {
        assert!(said.contains("lose all large packets"), "{said}");
    }
    // Who begins anew finds out, and what has arrived stays.
    let receiving = receiver(to.path());
    let relay = Relay::at("127.0.0.1:0", &receiving.address, |_, packet| packet.len() <= 1200);
    let sent = send(&relay.address.to_string());
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    assert_eq!(receiving.finish().0, Some(0));
    assert_eq!(fs::read(to.path().join("large")).unwrap(), content(8 << 20));
}

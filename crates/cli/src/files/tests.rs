//! The receiver against senders that do not behave.

use super::peer::Peer;
use super::progress::Report;
use super::protocol::{self, Decision, Entry, Kind, Offer, Page, ToReceiver, ToSender};
use super::receive;
use super::store::Store;
use crate::exit::{Error, Exit};
use crate::output::Output;
use crate::transport::Transport;
use clap::Parser;
use pinnace::Message;
use pinnace::zcrp::{self, Listener};
use std::path::Path;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    transport: Transport,
}

fn transport() -> Transport {
    Line::parse_from(["test", "--timeout", "3"]).transport
}

const CHUNK: u64 = 64 << 10;

fn entry(path: &str, bytes: u64) -> Entry {
    Entry { path: path.into(), kind: Kind::File { bytes }, mode: 0o644, modified: (0, 0) }
}

/// Lets `sender` talk to a receiver into `folder`; returns what the receiver made of it.
fn receive_from(
    folder: &Path,
    sender: impl FnOnce(&Peer<'_>) -> Result<(), Error>,
) -> (Result<(), Error>, Result<(), Error>) {
    receive_with(folder, false, sender)
}

/// The same, and the receiver may `overwrite`.
fn receive_with(
    folder: &Path,
    overwrite: bool,
    sender: impl FnOnce(&Peer<'_>) -> Result<(), Error>,
) -> (Result<(), Error>, Result<(), Error>) {
    let listener = Listener::bind("127.0.0.1:0", &transport().options()).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            let transport = transport();
            let store = Store::open(folder, overwrite).unwrap();
            let report = Report::new(&Output::new(true, false));
            let mut claim = None;
            let peer = Peer::new(listener.accept().unwrap(), "the sender", &transport);
            receive::serve(&peer, &store, false, &report, &mut claim).map(drop)
        });
        let transport = transport();
        let peer = Peer::new(zcrp::connect(address, &transport.options()).unwrap(), "the receiver", &transport);
        let sent = sender(&peer);
        // Who has said everything goes, and is not waited for for ever.
        drop(peer);
        (receiver.join().unwrap(), sent)
    })
}

fn tell(peer: &Peer<'_>, message: &ToReceiver) -> Result<(), Error> {
    peer.tell(message, || peer.look())
}

fn offer(peer: &Peer<'_>, entries: Vec<Entry>) -> Result<(), Error> {
    peer.listen()?;
    tell(peer, &ToReceiver::Offer(Offer::new(CHUNK)))?;
    assert!(matches!(peer.hear_receiver(None)?, ToSender::Accept));
    tell(peer, &ToReceiver::Manifest(Page { items: entries, last: true }))
}

fn agree(peer: &Peer<'_>) -> Result<(), Error> {
    let ToSender::Holdings(page) = peer.hear_receiver(None)? else { panic!("no holdings") };
    assert!(page.last && page.items.is_empty());
    tell(peer, &ToReceiver::Plan(Page { items: Vec::new(), last: true }))
}

/// What lies in the folder, without the receiver's own state.
fn names(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != protocol::PARTIAL_FOLDER).collect()
}

#[test]
fn a_path_out_of_the_folder_is_refused_and_the_sender_told_why() {
    for path in ["../escaped", "/tmp/escaped", "a/../../escaped", ".pinnace-partial/escaped", ""] {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("in");
        let (received, sent) = receive_from(&folder, |peer| {
            offer(peer, vec![entry("harmless", 1), entry(path, 1)])?;
            peer.hear_receiver(None).map(drop)
        });
        for error in [received.unwrap_err(), sent.unwrap_err()] {
            assert_eq!(error.exit, Exit::NotVerified, "{path}: {error}");
            assert!(error.message.contains("refused"), "{error}");
        }
        assert_eq!(names(outer.path()), ["in"]);
        assert_eq!(names(&folder), [""; 0]);
    }
}

#[test]
fn a_symbolic_link_in_the_folder_leads_nowhere() {
    let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::os::unix::fs::symlink(outside.path(), folder.path().join("link")).unwrap();
    let (received, _) = receive_from(folder.path(), |peer| {
        offer(peer, vec![entry("link/escaped", 1)])?;
        peer.hear_receiver(None).map(drop)
    });
    assert_eq!(received.unwrap_err().exit, Exit::NotVerified);
    assert_eq!(names(outside.path()), [""; 0]);
}

#[test]
fn content_that_is_not_what_was_hashed_gets_no_name() {
    let folder = tempfile::tempdir().unwrap();
    let (received, sent) = receive_from(folder.path(), |peer| {
        offer(peer, vec![entry("altered", 5), entry("intact", 5)])?;
        agree(peer)?;
        peer.queue(Message::from_vec(b"hullo".to_vec()))?;
        peer.queue(Message::from_vec(b"world".to_vec()))?;
        let digests = [b"hello", b"world"].map(|content| *blake3::hash(content).as_bytes());
        tell(peer, &ToReceiver::Digests(digests.to_vec()))?;
        let ToSender::Report(page) = peer.hear_receiver(None)? else { panic!("no report") };
        assert_eq!((page.items.len(), page.items[0].entry), (1, 0));
        peer.receiver.close();
        Ok(())
    });
    sent.unwrap();
    assert_eq!(received.unwrap_err().exit, Exit::NotVerified);
    assert_eq!(names(folder.path()), ["intact"]);
}

/// As one whose last answers are all lost: whether it knows is its own affair.
#[test]
fn what_is_verified_is_received_whether_or_not_the_sender_hears_of_it() {
    for (content, exit) in [(b"hello", None), (b"hullo", Some(Exit::NotVerified))] {
        let folder = tempfile::tempdir().unwrap();
        let (received, sent) = receive_from(folder.path(), |peer| {
            offer(peer, vec![entry("name", 5)])?;
            // Nothing is posted for the report: it cannot arrive.
            let (ToSender::Holdings(page), _) = peer.hear(None)? else { panic!("no holdings") };
            assert!(page.last);
            tell(peer, &ToReceiver::Plan(Page { items: Vec::new(), last: true }))?;
            peer.queue(Message::from_vec(content.to_vec()))?;
            tell(peer, &ToReceiver::Digests(vec![*blake3::hash(b"hello").as_bytes()]))
        });
        sent.unwrap();
        assert_eq!(received.err().map(|error| error.exit), exit);
        assert_eq!(names(folder.path()).len(), usize::from(exit.is_none()));
    }
}

#[test]
fn what_contradicts_the_offer_ends_the_transfer() {
    let folder = tempfile::tempdir().unwrap();
    let (received, _) = receive_from(folder.path(), |peer| {
        offer(peer, vec![entry("short", 5)])?;
        agree(peer)?;
        peer.queue(Message::from_vec(b"1234".to_vec()))?;
        peer.hear_receiver(None).map(drop)
    });
    assert!(received.unwrap_err().message.contains("less of a file"));
    let (received, _) = receive_from(folder.path(), |peer| {
        offer(peer, vec![entry("a", 5)])?;
        peer.hear_receiver(None)?;
        let decision = Decision { entry: 7, chunks: vec![u32::MAX] };
        tell(peer, &ToReceiver::Plan(Page { items: vec![decision], last: true }))?;
        peer.hear_receiver(None).map(drop)
    });
    assert_eq!(received.unwrap_err().exit, Exit::NotVerified);
    let (received, sent) = receive_from(folder.path(), |peer| {
        peer.listen()?;
        tell(peer, &ToReceiver::Offer(Offer { version: 99, ..Offer::new(CHUNK) }))?;
        peer.hear_receiver(None).map(drop)
    });
    assert!(received.unwrap_err().message.contains("version 99"));
    assert!(sent.unwrap_err().message.contains("version 99"));
    assert_eq!(names(folder.path()), [""; 0]);
}

#[test]
fn what_was_asked_for_is_claimed_as_long_as_it_may_come() {
    let folder = tempfile::tempdir().unwrap();
    let listener = Listener::bind("127.0.0.1:0", &transport().options()).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        let sender = scope.spawn(move || {
            let transport = transport();
            let peer = Peer::new(zcrp::connect(address, &transport.options()).unwrap(), "the receiver", &transport);
            offer(&peer, vec![entry("long", 5 * CHUNK)])?;
            agree(&peer)?;
            peer.queue(Message::from_vec(b"1234".to_vec()))?;
            peer.hear_receiver(None).map(drop)
        });
        let (transport, report) = (transport(), Report::new(&Output::new(true, false)));
        let store = Store::open(folder.path(), false).unwrap();
        let mut claim = None;
        let peer = Peer::new(listener.accept().unwrap(), "the sender", &transport);
        receive::serve(&peer, &store, false, &report, &mut claim).unwrap_err();
        assert!(claim.is_some(), "the engine still has the rest of the chunks that were posted");
        assert!(sender.join().unwrap().is_err());
    });
}

#[test]
fn more_than_the_disk_can_hold_is_refused_before_it_comes() {
    let folder = tempfile::tempdir().unwrap();
    let (received, sent) = receive_from(folder.path(), |peer| {
        offer(peer, vec![entry("huge", 1 << 47)])?;
        peer.hear_receiver(None).map(drop)
    });
    assert!(received.unwrap_err().message.contains("too full"));
    assert_eq!(sent.unwrap_err().exit, Exit::Failed);
}

#[test]
fn a_folder_in_the_place_of_a_file_is_refused_before_content_comes() {
    for overwrite in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("name")).unwrap();
        let (received, sent) = receive_with(folder.path(), overwrite, |peer| {
            offer(peer, vec![entry("name", 5)])?;
            peer.hear_receiver(None).map(drop)
        });
        for error in [received.unwrap_err(), sent.unwrap_err()] {
            assert_eq!(error.exit, Exit::Failed, "{error}");
            let said = ["name is a folder", "move it away", "--overwrite does not replace folders"];
            assert!(said.iter().all(|said| error.message.contains(said)), "{error}");
        }
    }
}

#[test]
fn a_file_in_the_place_of_a_folder_is_no_danger() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("sub"), b"mine").unwrap();
    let sub = Entry { kind: Kind::Folder, ..entry("sub", 0) };
    for below in [None, Some(entry("sub/a", 5))] {
        let (received, sent) = receive_from(folder.path(), |peer| {
            offer(peer, [sub.clone()].into_iter().chain(below).collect())?;
            peer.hear_receiver(None)?;
            tell(peer, &ToReceiver::Plan(Page { items: Vec::new(), last: true }))?;
            peer.hear_receiver(None).map(drop)
        });
        for error in [received.unwrap_err(), sent.unwrap_err()] {
            assert_eq!(error.exit, Exit::Failed, "{error}");
            assert!(error.message.contains("/sub is a file") && error.message.contains("move it away"), "{error}");
        }
    }
}

#[test]
fn a_sender_that_gives_up_is_believed_and_gone_if_it_was_interrupted() {
    for (why, exit) in [(Error::failed("a file has changed"), Exit::Failed), (Error::interrupted(), Exit::PeerGone)] {
        // Where a control message is due, and where content is: the last chunk has one byte.
        for content in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let (received, _) = receive_from(folder.path(), |peer| {
                offer(peer, vec![entry("a", CHUNK), entry("b", 1)])?;
                if content {
                    agree(peer)?;
                }
                peer.give_up(&why);
                Ok(())
            });
            let error = received.unwrap_err();
            assert_eq!(error.exit, exit, "{error}");
            assert!(error.message.contains("what has arrived is kept"), "{error}");
        }
    }
    // A release that says no more than the empty message.
    let folder = tempfile::tempdir().unwrap();
    let (received, _) = receive_from(folder.path(), |peer| {
        offer(peer, vec![entry("a", 5)])?;
        let sending = peer.queue(Message::from_vec(Vec::new()))?;
        crate::transport::wait(sending, || Ok(()), |error| peer.error(error)).map(drop)
    });
    assert_eq!(received.unwrap_err().exit, Exit::Failed);
}

#[test]
fn a_sender_that_gives_up_while_the_receiver_says_what_it_has_is_heard() {
    let folder = tempfile::tempdir().unwrap();
    let (received, sent) = receive_from(folder.path(), |peer| {
        peer.listen()?;
        tell(peer, &ToReceiver::Offer(Offer::new(CHUNK)))?;
        // Nothing is posted for the holdings: they cannot arrive.
        assert!(matches!(peer.hear(None)?.0, ToSender::Accept));
        tell(peer, &ToReceiver::Manifest(Page { items: vec![entry("a", 5)], last: true }))?;
        peer.give_up(&Error::interrupted());
        Ok(())
    });
    sent.unwrap();
    let error = received.unwrap_err();
    assert_eq!(error.exit, Exit::PeerGone);
    assert!(error.message.contains("the sender was interrupted"), "{error}");
}

#[test]
fn a_receiver_that_was_interrupted_is_gone() {
    let listener = Listener::bind("127.0.0.1:0", &transport().options()).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let transport = transport();
            let peer = Peer::new(listener.accept().unwrap(), "the sender", &transport);
            let _offer: (ToReceiver, usize) = peer.hear(None).unwrap();
            peer.refuse(&Error::interrupted());
        });
        let transport = transport();
        let peer = Peer::new(zcrp::connect(address, &transport.options()).unwrap(), "h:1", &transport);
        peer.listen().unwrap();
        tell(&peer, &ToReceiver::Offer(Offer::new(CHUNK))).unwrap();
        // While it is busy with something else.
        let error = loop {
            if let Err(error) = peer.look() {
                break error;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        assert_eq!(error.exit, Exit::PeerGone, "{error}");
        assert!(error.message.contains("h:1 was interrupted"), "{error}");
    });
}

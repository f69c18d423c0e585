//! What the application takes.

use super::*;

//= A-17 test
#[test]
fn bytes_are_read_in_order_and_never_of_two_messages() {
    let mut half = Half::new(policy(true));
    half.blocks(0, 0, 250, [0, 2]);
    half.blocks(3, 1, 50, [0]);
    assert_eq!(half.part(), Some((0, 100, "S".into())), "block 1 is missing");
    half.incoming.consume(30);
    assert_eq!(half.part(), Some((30, 70, String::new())));
    half.incoming.consume(70);
    assert_eq!(half.part(), None);
    half.blocks(0, 0, 250, [1]);
    assert_eq!(half.part(), Some((100, 150, "E".into())));
    half.incoming.consume(149);
    assert_eq!(half.part(), Some((249, 1, "E".into())));
    assert!(half.incoming.take_message().is_none(), "it is begun");
    half.incoming.consume(1);
    assert_eq!(half.released(), [0]);
    assert_eq!(half.read_all(), parts(&[(0, 50, "SEW")]));
    assert_eq!(half.released(), [2 - 1]);
}

//= A-17 test
#[test]
fn an_empty_message_is_a_part_without_bytes() {
    let mut half = Half::new(policy(true));
    half.blocks(0, 0, 0, 0..1);
    half.blocks(1, 1, 0, 0..1);
    let part = half.incoming.readable().unwrap();
    assert_eq!((part.range, part.starts, part.ends, part.is_whole), (None, true, true, true));
    half.incoming.consume(0);
    assert_eq!((half.incoming.edge(), half.part()), (33, Some((0, 0, "SEW".into()))));
    assert!(half.incoming.take_message().is_some());
    assert_eq!((half.incoming.edge(), half.part(), half.released()), (34, None, vec![]));
}

//= A-17 test
#[test]
fn a_whole_message_is_taken_in_its_buffer() {
    let mut half = Half::new(policy(true));
    half.blocks(0, 0, 250, 0..2);
    assert!(half.incoming.take_message().is_none(), "not all there");
    half.blocks(0, 0, 250, 2..3);
    half.blocks(3, 1, 1000, 0..1);
    let part = half.incoming.take_message().unwrap();
    assert_eq!(part.range, Some(BufferRange::new(BufferId::new(0), 0, 250)));
    assert_eq!((part.starts, part.ends, part.is_lost), (true, true, false));
    assert_eq!((half.incoming.edge(), half.released()), (35, vec![]));
    assert_eq!(half.part(), Some((0, 100, "S".into())));
}

#[test]
fn whatever_waits_whole_is_seen_behind_what_is_in_front() {
    let seen = |half: &Half| half.incoming.unread().map(|it| (it.buffer.index(), it.len)).collect::<Vec<_>>();
    let mut half = Half::new(policy(true));
    half.blocks(0, 0, 250, 0..3);
    half.blocks(3, 1, 0, 0..1);
    half.blocks(4, 2, 50, 0..1);
    half.blocks(6, 4, 70, 0..1);
    assert_eq!(seen(&half), [(0, 250), (1, 50)], "message 3 has not come");
    half.incoming.consume(1);
    assert_eq!(seen(&half), [(1, 50)]);
    half.blocks(5, 3, 60, 0..1);
    assert_eq!(seen(&half), [(1, 50), (3, 60), (2, 70)]);
    half.read_all();
    assert_eq!(seen(&half), []);
    // What has a hole is not whole, in front or behind.
    let mut half = Half::new(policy(false));
    half.blocks(0, 0, 250, [1, 2]);
    half.blocks(3, 1, 250, [0, 2]);
    half.blocks(6, 2, 50, 0..1);
    half.blocks(7, 3, 250, [0, 1]);
    assert_eq!(seen(&half), [(2, 50)]);
}

#[test]
fn consuming_nothing_changes_nothing() {
    let mut half = Half::new(policy(true));
    half.incoming.consume(0);
    half.blocks(0, 0, 250, 0..3);
    half.incoming.consume(0);
    assert_eq!(half.part(), Some((0, 250, "SEW".into())));
}

//! A packet that parses says what it says within its bytes, and can be said again.

use pinnace_wire::vrp::{Control, ControlWriter, END, HEADER_BYTES, Header, Tag, tag_bytes};

/// The target.
pub fn codec(data: &[u8]) {
    let Some(head) = data.first_chunk() else {
        assert!(Control::parse(data).is_err(), "there is no packet without a header");
        return;
    };
    let header = Header::parse(head);
    assert_eq!(Header::parse(&header.encode()), header);
    let Ok(control) = Control::parse(data) else { return };
    assert_eq!(header, Header::Control { frame: control.frame() });
    let tags: Vec<Tag<'_>> = control.tags().collect();
    assert!(HEADER_BYTES + tags.iter().map(tag_bytes).sum::<usize>() <= data.len(), "more is said than was sent");
    let created = tags.iter().filter(|tag| matches!(tag, Tag::FrameCreate { .. })).count();
    assert!(created <= 1, "two headers");

    let mut space = vec![0xEE; data.len() + 1];
    let mut writer = ControlWriter::new(&mut space, control.frame());
    let mut reported = 0;
    for tag in &tags {
        match tag {
            Tag::InlineData(inline) => assert_eq!(&data[inline.at..][..inline.bytes.len()], inline.bytes),
            Tag::Window(window) => assert!(*window > 0),
            Tag::LossReport(ranges) => {
                let ranges: Vec<(u32, u32)> = ranges.iter().collect();
                let mut report = [0; 300];
                let mut writer = ControlWriter::new(&mut report, 0);
                assert!(writer.push_report(&ranges));
                reported += writer.finish();
            }
            _ => {}
        }
        assert!(writer.push(tag), "{tag:?} takes more room than it took");
    }
    assert!(reported <= data.len() * 8);
    let len = writer.finish();
    let again = Control::parse(&space[..len]).expect("what was parsed can be said again");
    assert!(!again.is_cut());
    for (before, after) in tags.iter().zip(again.tags()) {
        match (before, after) {
            (Tag::InlineData(before), Tag::InlineData(after)) => assert_eq!(before.bytes, after.bytes),
            (before, after) => assert_eq!(*before, after),
        }
    }
    assert_eq!(tags.len(), again.tags().count());
    assert_eq!(space[len - 1..len], END);

    // Nothing shorter says the same, except without what stands behind the end.
    for cut in 0..data.len() {
        if let Ok(shorter) = Control::parse(&data[..cut]) {
            assert_eq!(shorter, control, "a truncated packet says something else");
        }
    }
}

//! The published XTP packets (`specs/vectors/xtp40.txt`, `xtp36.txt`), and what the codec makes of them.

use crate::tshark::{Frame, colons, hex};
use pinnace_wire::xtp::{Body, Codec, FirstAddress, Head, HostPair, Status};

/// The datagrams of a file; those that do not parse, and those that do.
pub(crate) fn xtp(codec: Codec) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let text = match codec {
        Codec::Xtp40 => include_str!("../../../../specs/vectors/xtp40.txt"),
        Codec::Xtp36 => include_str!("../../../../specs/vectors/xtp36.txt"),
    };
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let (bad, good): (Vec<_>, Vec<_>) = lines
        .map(|line| line.split_once(" -> ").expect("an arrow"))
        .filter(|(packet, _)| *packet != "(empty)")
        .partition(|(_, reading)| *reading == "malformed");
    assert!(bad.len() > 40 && good.len() > 10);
    let bytes = |lines: Vec<(&str, &str)>| lines.into_iter().map(|(packet, _)| hex(packet)).collect();
    (bytes(bad), bytes(good))
}

/// What the codec reads in a datagram, checksums looked at.
pub(crate) fn read(codec: Codec, datagram: &[u8]) -> Option<(Head, Body<'_>)> {
    let head = Head::parse(codec, datagram, datagram.len(), false).ok()?;
    let body = Body::parse(&head, datagram).ok()?;
    head.verify([&datagram[head.summed()]]).then_some((head, body))
}

/// Holds the fields of an address segment against tshark's, whose names begin with `at`.
pub(crate) fn check_address(frame: &Frame, at: &str, names: [&str; 2], address: &FirstAddress) {
    let FirstAddress::Known(segment) = address else { return };
    let [destination, source] = names.map(|name| frame.all(&format!("{at}{name}")).concat());
    match segment.hosts {
        HostPair::V4 { destination: d, source: s } => {
            assert_eq!((destination, source), (d.to_string(), s.to_string()), "{frame:#?}");
        }
        HostPair::V6 { destination: d, source: s } => {
            let [d6, s6] = names.map(|name| frame.all(&format!("{at}{name}6")).concat());
            assert_eq!((d6, s6), (d.to_string(), s.to_string()), "{frame:#?}");
        }
    }
    assert_eq!(frame.number(&format!("{at}dstport")), u64::from(segment.destination_port));
    assert_eq!(frame.number(&format!("{at}srcport")), u64::from(segment.source_port));
}

/// Holds rseq, alloc and echo against tshark's.
pub(crate) fn check_status(frame: &Frame, at: &str, status: &Status<'_>) {
    for (name, value) in [("rseq", status.rseq), ("alloc", status.alloc), ("echo", status.echo.into())] {
        assert_eq!(frame.number(&format!("{at}{name}")), value, "{at}{name} {frame:#?}");
    }
}

/// Holds user bytes against those that tshark shows; no field at all if there are none.
pub(crate) fn check_bytes(frame: &Frame, field: &str, bytes: &[u8]) {
    let wanted = if bytes.is_empty() { Vec::new() } else { vec![colons(bytes)] };
    let shown: Vec<String> = frame.all(field).into_iter().filter(|text| !text.is_empty()).collect();
    assert_eq!(shown, wanted, "{frame:#?}");
}

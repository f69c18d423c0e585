//! Captures of Ethernet: what etherparse and, where it is installed with Lua, tshark make of them.
#![allow(clippy::print_stdout, reason = "a test that cannot run says why")]

mod support;

use etherparse::{LinkHeader, SlicedPacket};
use pcap_file::DataLink;
use pcap_file::pcap::PcapReader;
use pinnace_core::{Address, BufferRange, Checksum, ChecksumAt, ChecksumKind, Train};
use pinnace_link::{Capture, CaptureOptions, Link, MemoryLink, MemoryOptions, Sums};
use std::process::{Command, Stdio};
use support::{Memory, answer, data_header};

const LOCAL: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PEER: [u8; 6] = [2, 0, 0, 0, 0, 2];
const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 3];

/// A DATA packet of 32 + `data` bytes with NOCHECK: only the header is summed.
fn unchecked(data: u32, seq: u64) -> [u8; 32] {
    let mut header = data_header(data, seq);
    header[8] = 0x40;
    header
}

/// Two packets sent to one station and one to another, and one received, which does not say from whom.
fn capture() -> Vec<u8> {
    let (a, mut b) = MemoryLink::pair(&MemoryOptions::default()).unwrap();
    let mut capture = Capture::new(a, Vec::new(), CaptureOptions::ether(LOCAL, PEER)).unwrap();
    let source = Memory::pattern(4100);
    let at = ChecksumAt::Head(16);
    for (to, seq, len) in [(None, 0, 1400), (None, 1400, 900), (Some(OTHER), 7, 100)] {
        let mut train = Train::new(capture.train_limits());
        train.begin(to.map_or(Address::Peer, |mac| Address::Ethernet { interface: 3, mac }), 32 + len as usize);
        train.set_checksum(Some(Checksum { kind: ChecksumKind::Internet, skip_head: 0, skip_tail: len as usize, at }));
        train.inline(&unchecked(len, seq));
        train.payload(BufferRange::new(source.id, seq, len));
        train.end_segment();
        train.fill_checksum(|range| source.table.bytes(range), &mut Sums::default());
        capture.send(&train, &source.table).unwrap();
    }
    answer(&mut capture, &mut b, &unchecked(0, 1));
    capture.finish().unwrap().1
}

#[test]
fn a_packet_follows_the_ethernet_header_at_once() {
    let file = capture();
    let mut reader = PcapReader::new(&file[..]).unwrap();
    assert_eq!(reader.header().datalink, DataLink::ETHERNET);
    let mut seen = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.unwrap();
        let sliced = SlicedPacket::from_ethernet(&packet.data).unwrap();
        assert!(sliced.net.is_none() && sliced.link_exts.is_empty());
        let header = sliced.link.as_ref().unwrap().to_header().and_then(LinkHeader::ethernet2).unwrap();
        assert_eq!(header.ether_type.0, 0x817D);
        assert_eq!(packet.data[14..22], 77u64.to_be_bytes());
        seen.push((header.source, header.destination, packet.data.len()));
    }
    assert_eq!(seen, [(LOCAL, PEER, 1446), (LOCAL, PEER, 946), (LOCAL, OTHER, 146), (PEER, LOCAL, 46)]);
}

#[test]
fn tshark_decodes_it_once_it_knows_the_type() {
    let version = Command::new("tshark").arg("--version").stderr(Stdio::null()).output();
    if !version.is_ok_and(|version| String::from_utf8_lossy(&version.stdout).contains("with Lua")) {
        pinnace_testing::skip::program("no tshark with Lua here");
        return;
    }
    let folder = std::env::temp_dir().join(format!("pinnace-capture-ether-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (file, script) = (folder.join("frames.pcap"), folder.join("ether.lua"));
    std::fs::write(&file, capture()).unwrap();
    // As the documentation of `CaptureOptions::ether` says.
    let line = r#"DissectorTable.get("ethertype"):add(0x817d, DissectorTable.get("ip.proto"):get_dissector(36))"#;
    std::fs::write(&script, line).unwrap();
    let fields = ["frame.protocols", "eth.dst", "xtp.dlen", "xtp.seq", "xtp.checksum.status", "_ws.malformed"];
    let output = Command::new("tshark")
        .arg("-X")
        .arg(format!("lua_script:{}", script.display()))
        .arg("-r")
        .arg(&file)
        .args(["-T", "fields", "-E", "separator=|"])
        .args(fields.iter().flat_map(|field| ["-e", field]))
        .output()
        .unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let said = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said:?}");
    let packets = [("02", 1400, 0), ("02", 900, 1400), ("03", 100, 7), ("01", 0, 1)];
    // The last but one says that the checksum is good, the last that nothing is malformed.
    let expected = packets.map(|(to, len, seq)| format!("eth:ethertype:xtp|02:00:00:00:00:{to}|{len}|{seq}|1|"));
    assert_eq!(said.0.lines().collect::<Vec<_>>(), expected, "{said:?}");
}

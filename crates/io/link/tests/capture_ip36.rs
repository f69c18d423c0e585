//! Captures of raw IP: what etherparse and, where it is installed, tshark make of them.
#![allow(clippy::print_stdout, reason = "a test that cannot run says why")]

mod support;

use etherparse::{NetSlice, SlicedPacket};
use pcap_file::pcap::PcapReader;
use pinnace_core::{Address, BufferRange, Checksum, ChecksumAt, ChecksumKind, Ecn, Train};
use pinnace_link::{Capture, CaptureOptions, Link, MemoryLink, MemoryOptions, Sums};
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use support::{Memory, answer, data_header};

const V4: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
const V6: [&str; 2] = ["2001:db8::1", "2001:db8::2"];

/// Five packets sent in a train, the last one shorter, and one received.
fn capture([local, peer]: [&str; 2]) -> Vec<u8> {
    let options = CaptureOptions::ip36(local.parse().unwrap(), peer.parse().unwrap());
    let (a, mut b) = MemoryLink::pair(&MemoryOptions::default()).unwrap();
    let mut capture = Capture::new(a, Vec::new(), options).unwrap();
    let source = Memory::pattern(4100);
    let mut train = Train::new(capture.train_limits());
    let destination: SocketAddr = SocketAddr::new(peer.parse().unwrap(), 0);
    train.begin(Address::Inet(destination), 1032);
    train.set_ecn(Ecn::Capable0);
    let at = ChecksumAt::Head(16);
    train.set_checksum(Some(Checksum { kind: ChecksumKind::Internet, skip_head: 0, skip_tail: 0, at }));
    for (seq, len) in [(0, 1000), (1000, 1000), (2000, 1000), (3000, 1000), (4000, 99)] {
        train.inline(&data_header(len, seq));
        train.payload(BufferRange::new(source.id, seq, len / 3));
        train.payload(BufferRange::new(source.id, seq + u64::from(len / 3), len - len / 3));
        train.end_segment();
    }
    train.fill_checksum(|range| source.table.bytes(range), &mut Sums::default());
    capture.send(&train, &source.table).unwrap();
    answer(&mut capture, &mut b, &data_header(0, 1));
    capture.finish().unwrap().1
}

#[test]
fn a_packet_follows_the_ip_header_at_once() {
    for ends in [V4, V6] {
        let file = capture(ends);
        let mut reader = PcapReader::new(&file[..]).unwrap();
        let mut lens = Vec::new();
        while let Some(packet) = reader.next_packet() {
            let packet = packet.unwrap();
            let sliced = SlicedPacket::from_ip(&packet.data).unwrap();
            assert!(sliced.transport.is_none());
            let (protocol, source, payload, ecn) = match sliced.net.unwrap() {
                NetSlice::Ipv4(ip) => {
                    let header = ip.header().to_header();
                    assert_eq!(header.header_checksum, header.calc_header_checksum());
                    let ecn = header.ecn.value();
                    (header.protocol, ip.header().source_addr().into(), ip.payload().payload.to_vec(), ecn)
                }
                NetSlice::Ipv6(ip) => {
                    let header = ip.header().to_header();
                    let ecn = header.traffic_class & 3;
                    (header.next_header, std::net::IpAddr::V6(header.source_addr()), ip.payload().payload.to_vec(), ecn)
                }
                other => panic!("{other:?}"),
            };
            let out = lens.len() < 5;
            assert_eq!((protocol.0, ecn), (36, if out { Ecn::Capable0 as u8 } else { 0 }));
            assert_eq!(source, ends[usize::from(!out)].parse::<std::net::IpAddr>().unwrap());
            assert_eq!(payload[..8], 77u64.to_be_bytes());
            lens.push(payload.len());
        }
        assert_eq!(lens, [1032, 1032, 1032, 1032, 131, 32]);
    }
}

#[test]
fn tshark_decodes_it() {
    for (ends, protocol) in [(V4, "raw:ip:xtp"), (V6, "raw:ipv6:xtp")] {
        let fields = ["frame.protocols", "xtp.dlen", "xtp.seq", "xtp.checksum.status", "_ws.malformed"];
        let mut command = Command::new("tshark");
        command.args(["-r", "-", "-T", "fields", "-E", "separator=|"]).args(fields.iter().flat_map(|f| ["-e", f]));
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let Ok(mut tshark) = spawned else {
            pinnace_testing::skip::program("no tshark here");
            return;
        };
        tshark.stdin.take().unwrap().write_all(&capture(ends)).unwrap();
        let output = tshark.wait_with_output().unwrap();
        let said = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{said:?}");
        let packets = [(1000, 0), (1000, 1000), (1000, 2000), (1000, 3000), (99, 4000), (0, 1)];
        // The last but one says that the checksum is good, the last that nothing is malformed.
        let expected: Vec<String> = packets.iter().map(|(len, seq)| format!("{protocol}|{len}|{seq}|1|")).collect();
        assert_eq!(said.0.lines().collect::<Vec<_>>(), expected, "{said:?}");
    }
}

//! What QMP really sends, over IP protocol 36 and over UDP, captured by the command and read by tshark: none of it is
//! malformed, every packet has NOCHECK and FASTNAK, and every header check is right.

use crate::common::{Listening, run, text};
use crate::conversation::PROTOCOL_36;
use crate::tshark::Tshark;
use std::collections::BTreeSet;
use std::sync::PoisonError;

const DATA: u64 = 0;
const CNTL: u64 = 1;
const FIRST: u64 = 2;
const TCNTL: u64 = 5;
const DIAG: u64 = 8;

/// The address of the tests of protocol 36, which has one owner; and a port where nobody listens.
const IP36: (&str, &str) = ("127.36.1.1:7001", "127.36.1.1:7002");

//= Q-2 test
#[test]
fn every_packet_has_nocheck_and_fastnak_and_a_right_header_check() {
    let Some(tshark) = Tshark::find() else { return };
    for link in ["udp", "ip36"] {
        let (near, far) = (tshark.path(&format!("{link}-near.pcap")), tshark.path(&format!("{link}-far.pcap")));
        let at = if link == "ip36" { IP36.0 } else { "127.0.0.1:0" };
        let listen = ["qmp", "listen", at, "--link", link, "--count", "2", "--pcap"];
        let _alone = PROTOCOL_36.lock().unwrap_or_else(PoisonError::into_inner);
        if link == "ip36" && !may_use_raw_sockets() {
            pinnace_testing::skip::host("IP protocol 36 needs CAP_NET_RAW");
            continue;
        }
        let listening = Listening::start(&[&listen[..], &[far.to_str().expect("UTF-8")]].concat());
        if link == "ip36" {
            // Nobody listens there: a DIAG.
            let wrong = run(&["qmp", "send", "--to", IP36.1, "--size", "1", "--link", link]);
            assert_eq!(wrong.status.code(), Some(3), "{}", text(&wrong.stderr));
        }
        let to = listening.address.clone();
        let pcap = near.to_str().expect("UTF-8");
        // A window of which several packets are, so that there is more than one status.
        let send = ["qmp", "send", "--to", &to, "--size", "300000", "--count", "2", "--link", link];
        let sent = run(&[&send[..], &["--window", "100000", "--status-every", "2", "--pcap", pcap]].concat());
        assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
        let (code, _, err) = listening.finish();
        assert_eq!(code, Some(0), "{err}");
        for file in [&near, &far] {
            let frames = tshark.decode_file(file, &[]);
            assert!(frames.len() > 10, "{link}: {}", frames.len());
            let mut kinds = BTreeSet::new();
            for frame in &frames {
                assert!(frame.has("xtp") && !frame.is_malformed(), "{frame:#?}");
                assert_eq!(frame.number("xtp.cmd.options.nocheck"), 1, "{frame:#?}");
                assert_eq!(frame.number("xtp.cmd.options.fastnak"), 1, "{frame:#?}");
                // Never set, whatever the packet is.
                for never in ["eom", "btag", "dreq", "noerr", "noflow", "multi", "sort"] {
                    assert_eq!(frame.number(&format!("xtp.cmd.options.{never}")), 0, "{never}: {frame:#?}");
                }
                assert!(!frame.has("xtp.bad_checksum"), "{frame:#?}");
                assert_eq!(frame.number("xtp.checksum.status"), 1, "{frame:#?}");
                let kind = frame.number("xtp.cmd.ptype.pformat");
                if kind == FIRST {
                    assert_eq!(frame.number("xtp.tspec.service"), 4, "{frame:#?}");
                }
                kinds.insert(kind);
            }
            let asked = frames.iter().filter(|frame| frame.number("xtp.cmd.options.sreq") == 1).count();
            assert!(asked > 2, "{link}");
            let expected = BTreeSet::from([DATA, CNTL, FIRST, TCNTL]);
            // The listener has answered who asked at another port.
            assert_eq!(kinds.remove(&DIAG), link == "ip36" && file == &far, "{link}");
            assert_eq!(kinds, expected, "{link}");
        }
    }
}

fn may_use_raw_sockets() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let rights = status.lines().find_map(|line| line.strip_prefix("CapEff:")).map(str::trim).expect("a line");
    u64::from_str_radix(rights, 16).expect("hexadecimal") & 1 << 13 != 0
}

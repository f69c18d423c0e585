//! What XTP really sends: whole conversations over IP protocol 36 and over UDP, captured and read by tshark. Every kind of
//! packet that we send to one peer is there; none is malformed, and every checksum is right, those of NOCHECK too.

use crate::common::{Listening, run, text};
use crate::tshark::{Frame, Tshark};
use pinnace::link::{Capture, CaptureOptions, Fault, FaultOptions, Ip36Link, Ip36Options, Link, UdpLink, UdpOptions};
use pinnace::xtp::{
    Carrier, Close, Codec, ControlBlock, Endpoint, Flags, Listener, Options, Profile, SendOptions, Service, Services,
};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufWriter;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const DATA: u64 = 0;
const CNTL: u64 = 1;
const FIRST: u64 = 2;
const ECNTL: u64 = 3;
const TCNTL: u64 = 5;
const DIAG: u64 = 8;

/// Protocol 36 of an address has one owner at a time: so have the tests.
pub(crate) static PROTOCOL_36: Mutex<()> = Mutex::new(());

/// Where nobody else of these tests is.
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 36, 0, 1)), 7001);
const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 36, 0, 2)), 7002);

/// What a packet is, and whether its data are summed; panics where something is wrong with it.
fn checked(codec: Codec, frame: &Frame) -> (u64, bool) {
    assert!(!frame.is_malformed() && !frame.has_lua_error(), "{frame:#?}");
    match codec {
        Codec::Xtp40 => {
            assert!(frame.has("xtp") && !frame.has("xtp.bad_checksum"), "{frame:#?}");
            assert_eq!(frame.number("xtp.checksum.status"), 1, "{frame:#?}");
            (frame.number("xtp.cmd.ptype.pformat"), frame.number("xtp.cmd.options.nocheck") == 0)
        }
        Codec::Xtp36 => {
            assert!(frame.has("xtp36") && !frame.has("xtp36.malformed"), "{frame:#?}");
            assert!(!frame.has("xtp36.hcheck.bad") && !frame.has("xtp36.dcheck.bad"), "{frame:#?}");
            assert!(!frame.has("xtp36.spans.bad"), "{frame:#?}");
            assert_eq!(frame.number("xtp36.hcheck.status"), 1, "{frame:#?}");
            let is_summed = frame.number("xtp36.options") & 0x4000 == 0;
            assert_eq!(frame.number("xtp36.dcheck.status") == 1, is_summed, "{frame:#?}");
            (frame.number("xtp36.type") & 0x1f, is_summed)
        }
    }
}

/// The arguments by which tshark reads a capture.
fn reads(codec: Codec, carrier: Carrier) -> &'static [&'static str] {
    match (codec, carrier) {
        (Codec::Xtp36, Carrier::Ip36) => &["-d", "ip.proto==36,xtp36"],
        (Codec::Xtp36, Carrier::Udp) => &["-d", "udp.port==7001,xtp36", "-d", "udp.port==7002,xtp36"],
        (Codec::Xtp40, _) => &[],
    }
}

/// An endpoint whose packets are captured, and which loses a share of those it sends; IP protocol 36 needs a right.
fn endpoint(at: SocketAddr, codec: Codec, carrier: Carrier, file: &Path, loss: f64) -> Option<Endpoint> {
    let link: Box<dyn Link> = match carrier {
        Carrier::Udp => Box::new(UdpLink::bind(at, &UdpOptions::default()).expect("bound")),
        Carrier::Ip36 => match Ip36Link::bind(at.ip(), &Ip36Options::default()) {
            Ok(link) => Box::new(link),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                pinnace_testing::skip::host("IP protocol 36 needs CAP_NET_RAW");
                return None;
            }
            Err(error) => panic!("{error}"),
        },
    };
    let ends = match carrier {
        Carrier::Udp => CaptureOptions::new(at, at),
        Carrier::Ip36 => CaptureOptions::ip36(at.ip(), at.ip()),
    };
    let file = BufWriter::new(File::create(file).expect("writable"));
    let link = Capture::new(link, file, ends).expect("written");
    let link = Fault::new(link, FaultOptions { seed: 3, loss, ..FaultOptions::default() });
    let options = Options { codec, carrier, profile: Profile::Cluster, seed: Some(5), ..Options::default() };
    Some(Endpoint::over(Box::new(link), at, None, &options).expect("started"))
}

/// Takes whatever comes, and answers it, until an acknowledged datagram says that it is over.
fn serve(listener: &Listener) {
    loop {
        let incoming = listener.accept().expect("it lives");
        let service = incoming.service();
        if let Some(transaction) = match incoming {
            pinnace::xtp::Incoming::Transaction(transaction) => Some(transaction),
            pinnace::xtp::Incoming::Connection(connection) => {
                if service == Service::BulkData {
                    connection.post(pinnace::Message::with_capacity(1 << 20)).expect("posted");
                    while connection.filled().expect("it comes").is_some() {}
                } else {
                    while connection.recv().expect("it comes").is_some() {}
                    // The other direction has data too.
                    drop(connection.send(vec![7; 20_000]));
                }
                connection.finish().expect("open");
                let _ = connection.wait_closed_timeout(Duration::from_secs(20));
                None
            }
            pinnace::xtp::Incoming::Datagram(datagram) if datagram.data == b"over" => return,
            pinnace::xtp::Incoming::Datagram(_) => None,
        } {
            let request = transaction.request().expect("it comes");
            transaction.respond(request.data).expect("asked").wait().expect("delivered");
        }
    }
}

/// Every service, with data summed or not, tagged messages, a port where nobody listens.
fn talk(client: &Endpoint, carrier: Carrier, is_summed: bool) {
    let block = |service| {
        let mut block = client.block(service);
        if !is_summed {
            block.mode_flags = block.mode_flags.with(Flags::NOCHECK);
        }
        ControlBlock { maxdata: 1400, retry_count: 40, ..block }
    };
    for service in [Service::Connection, Service::BulkData, Service::IsoStream] {
        let connection = client.connect_with(SERVER, block(service)).expect("room");
        let message = vec![service as u8; 100_000];
        drop(connection.send_with(message, &SendOptions::tagged(*b"a letter")).expect("queued"));
        connection.finish().expect("open");
        if service != Service::BulkData {
            while connection.recv().is_ok_and(|received| received.is_some()) {}
        }
        connection.close(Close::Full).expect("open");
        connection.wait_closed_timeout(Duration::from_secs(20)).expect("closed");
    }
    let request = vec![1; 5_000];
    let answer = client.transact_with(SERVER, request.clone(), block(Service::Transaction)).expect("an answer");
    assert_eq!(answer.data, request);
    for service in [Service::UnackDgram, Service::AckDgram] {
        let sent = client.datagram_with(SERVER, vec![2; 700], block(service), &SendOptions::MESSAGE);
        sent.expect("queued").wait().expect("delivered");
    }
    // Over UDP another port is another socket, and here nobody's.
    if carrier == Carrier::Ip36 {
        let nobody = SocketAddr::new(SERVER.ip(), 9);
        let refused = client.connect_with(nobody, block(Service::Connection)).expect("room");
        let _ = refused.establish_timeout(Duration::from_secs(5));
    }
}

/// A conversation with losses: the kinds of packets that were seen, with whether their data were summed.
fn converse(tshark: &Tshark, codec: Codec, carrier: Carrier) -> Option<BTreeSet<(u64, bool)>> {
    let mut seen = BTreeSet::new();
    for is_summed in [true, false] {
        let (near, far) = (tshark.path("near.pcap"), tshark.path("far.pcap"));
        let server = endpoint(SERVER, codec, carrier, &far, 0.0)?;
        let client = endpoint(CLIENT, codec, carrier, &near, 0.1)?;
        let mut block = server.block(Service::Connection);
        if !is_summed {
            block.mode_flags = block.mode_flags.with(Flags::NOCHECK);
        }
        let listener = server.listen_on(SERVER.port(), Services::ALL, block).expect("free");
        std::thread::scope(|scope| {
            let serving = scope.spawn(|| serve(&listener));
            talk(&client, carrier, is_summed);
            client.acked_datagram(SERVER, b"over".to_vec()).expect("queued").wait().expect("delivered");
            serving.join().expect("no panic");
        });
        let _ = (client.wait_quiet(Duration::from_secs(1)), server.wait_quiet(Duration::from_secs(1)));
        drop((client, listener, server));
        for file in [&near, &far] {
            let frames = tshark.decode_file(file, reads(codec, carrier));
            assert!(frames.len() > 100, "{} frames", frames.len());
            for frame in &frames {
                seen.insert(checked(codec, frame));
            }
        }
    }
    Some(seen)
}

#[test]
fn everything_that_is_sent_over_protocol_36_is_what_wireshark_knows() {
    let Some(tshark) = Tshark::find() else { return };
    let _alone = PROTOCOL_36.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(seen) = converse(&tshark, Codec::Xtp40, Carrier::Ip36) else { return };
    for kind in [DATA, CNTL, FIRST, ECNTL, TCNTL] {
        assert!(seen.contains(&(kind, true)) && seen.contains(&(kind, false)), "{kind}: {seen:?}");
    }
    assert!(seen.iter().any(|(kind, _)| *kind == DIAG), "{seen:?}");
}

#[test]
fn everything_that_is_sent_with_xtp36_is_what_our_dissector_knows() {
    let Some(tshark) = Tshark::find() else { return };
    let _alone = PROTOCOL_36.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(seen) = converse(&tshark, Codec::Xtp36, Carrier::Ip36) else { return };
    for kind in [DATA, CNTL, FIRST] {
        assert!(seen.contains(&(kind, true)) && seen.contains(&(kind, false)), "{kind}: {seen:?}");
    }
    assert!(seen.iter().any(|(kind, _)| *kind == DIAG), "{seen:?}");
}

#[test]
fn over_udp_it_is_the_same() {
    let Some(tshark) = Tshark::find() else { return };
    let _alone = PROTOCOL_36.lock().unwrap_or_else(PoisonError::into_inner);
    for codec in [Codec::Xtp40, Codec::Xtp36] {
        let seen = converse(&tshark, codec, Carrier::Udp).expect("UDP is for everybody");
        for kind in [DATA, CNTL, FIRST] {
            assert!(seen.contains(&(kind, true)) && seen.contains(&(kind, false)), "{codec:?} {kind}: {seen:?}");
        }
    }
}

#[test]
fn a_transfer_by_the_command_is_recognised_without_being_told() {
    let Some(tshark) = Tshark::find() else { return };
    let file = tshark.path("xtp.pcap");
    for (name, codec) in [("xtp40", Codec::Xtp40), ("xtp36", Codec::Xtp36)] {
        let listening = Listening::start(&["xtp", "listen", "127.0.0.1:0", "--codec", name, "--count", "1"]);
        let sent = run(&[
            "xtp",
            "send",
            "--to",
            &listening.address,
            "--size",
            "300000",
            "--codec",
            name,
            "--pcap",
            file.to_str().expect("UTF-8"),
        ]);
        assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
        assert_eq!(listening.finish().0, Some(0));
        let frames = tshark.decode_file(&file, &[]);
        let kinds: BTreeSet<u64> = frames.iter().map(|frame| checked(codec, frame).0).collect();
        assert!(kinds.is_superset(&BTreeSet::from([DATA, CNTL, FIRST])), "{name}: {kinds:?}");
    }
}

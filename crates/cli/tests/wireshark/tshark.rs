//! Captures made in memory, and what tshark reads in them.

use etherparse::{IpFragOffset, IpHeaders, IpNumber, Ipv4Extensions, Ipv4Header, PacketBuilder};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, TsResolution};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;

/// The ports of most datagrams of a [`Capture`].
pub(crate) const PORTS: (u16, u16) = (40_000, 7001);

const IP_HEADER: usize = 20;

/// Packets to be written to a file, in order.
#[derive(Default)]
pub(crate) struct Capture {
    /// What was captured, and how long the packet was.
    packets: Vec<(Vec<u8>, usize)>,
}

impl Capture {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A UDP datagram between [`PORTS`].
    pub(crate) fn udp(&mut self, payload: &[u8]) {
        self.udp_cut(payload, payload.len());
    }

    /// The same, of which only the first bytes of the payload were captured.
    pub(crate) fn udp_cut(&mut self, payload: &[u8], kept: usize) {
        self.push_udp(PORTS, payload, kept);
    }

    /// A UDP datagram between ports that no other has, so that it is a conversation by itself.
    pub(crate) fn udp_alone(&mut self, payload: &[u8]) {
        let number = u16::try_from(self.packets.len()).expect("few");
        self.push_udp((PORTS.0 + number % 10_000, 20_000 + number / 10_000), payload, payload.len());
    }

    fn push_udp(&mut self, ports: (u16, u16), payload: &[u8], kept: usize) {
        let mut packet = Vec::new();
        ip(IpNumber::UDP).udp(ports.0, ports.1).write(&mut packet, payload).expect("it fits");
        self.push(packet, payload.len() - kept);
    }

    /// A packet of IP protocol 36.
    pub(crate) fn ip36(&mut self, payload: &[u8]) {
        let mut packet = Vec::new();
        ip(IpNumber(36)).write(&mut packet, IpNumber(36), payload).expect("it fits");
        assert_eq!(packet.len(), IP_HEADER + payload.len());
        self.push(packet, 0);
    }

    fn push(&mut self, mut packet: Vec<u8>, cut: usize) {
        let length = packet.len();
        packet.truncate(length - cut);
        self.packets.push((packet, length));
    }

    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    fn write(&self, path: &Path) {
        let header =
            PcapHeader { datalink: DataLink::RAW, ts_resolution: TsResolution::NanoSecond, ..PcapHeader::default() };
        let file = std::io::BufWriter::new(File::create(path).expect("writable"));
        let mut writer = PcapWriter::with_header(file, header).expect("written");
        for (number, (packet, length)) in (0..).zip(&self.packets) {
            let stamp = Duration::from_millis(number);
            writer.write_packet(&PcapPacket::new(stamp, *length as u32, packet)).expect("written");
        }
        std::io::Write::flush(&mut writer.into_writer()).expect("written");
    }
}

fn ip(protocol: IpNumber) -> etherparse::PacketBuilderStep<IpHeaders> {
    let header = Ipv4Header {
        dont_fragment: true,
        fragment_offset: IpFragOffset::ZERO,
        time_to_live: 64,
        protocol,
        source: [127, 0, 0, 1],
        destination: [127, 0, 0, 2],
        ..Ipv4Header::default()
    };
    PacketBuilder::ip(IpHeaders::Ipv4(header, Ipv4Extensions::default()))
}

/// The program, with a home of its own, so that no settings of the user's count.
pub(crate) struct Tshark {
    home: TempDir,
    scripts: Vec<PathBuf>,
}

impl Tshark {
    /// Finds it, with the loader of all dissectors; says so if it is not installed.
    pub(crate) fn find() -> Option<Self> {
        if Command::new("tshark").arg("--version").output().is_err() {
            pinnace_testing::skip::program("tshark is not installed (apt-get install tshark)");
            return None;
        }
        let home = TempDir::new().expect("a directory");
        Some(Self { home, scripts: Vec::new() }.with_scripts(&["pinnace.lua"]))
    }

    /// The same with other scripts of `tools/wireshark`, or at absolute paths.
    pub(crate) fn with_scripts(&self, scripts: &[&str]) -> Self {
        let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/wireshark");
        let scripts = scripts.iter().map(|script| tools.join(script)).collect();
        Self { home: TempDir::new().expect("a directory"), scripts }
    }

    /// A path in a directory that goes with this value.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn run(&self, file: &Path, args: &[&str]) -> Output {
        let mut command = Command::new("tshark");
        command.env("HOME", self.home.path()).env("XDG_CONFIG_HOME", self.home.path()).args(["-n", "-r"]).arg(file);
        for script in &self.scripts {
            command.arg("-X").arg(format!("lua_script:{}", script.display()));
        }
        for other in others() {
            command.args(["--disable-protocol", other]);
        }
        let output = command.args(args).output().expect("tshark runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        assert!(!errors.to_lowercase().contains("lua"), "{errors}");
        output
    }

    /// Decodes a capture, none of whose frames may show a fault of a dissector.
    pub(crate) fn decode(&self, capture: &Capture, args: &[&str]) -> Vec<Frame> {
        let frames = self.decode_unchecked(capture, args);
        assert_eq!(frames.len(), capture.len());
        for frame in &frames {
            assert!(!frame.has_lua_error(), "{frame:#?}");
        }
        frames
    }

    pub(crate) fn decode_unchecked(&self, capture: &Capture, args: &[&str]) -> Vec<Frame> {
        let file = self.path("capture.pcap");
        capture.write(&file);
        self.decode_file(&file, args)
    }

    pub(crate) fn decode_file(&self, file: &Path, args: &[&str]) -> Vec<Frame> {
        let output = self.run(file, &[&["-T", "json", "--no-duplicate-keys"], args].concat());
        let frames: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
        frames.into_iter().map(|mut frame| Frame(frame["_source"]["layers"].take())).collect()
    }

    /// The line of each packet as tshark lists them: protocol and what the Info column says.
    pub(crate) fn lines(&self, file: &Path, args: &[&str]) -> Vec<String> {
        let columns = r#"gui.column.format:"Protocol","%p","Info","%i""#;
        let output = self.run(file, &[&["-o", columns], args].concat());
        String::from_utf8_lossy(&output.stdout).lines().map(|line| line.trim().to_owned()).collect()
    }

    /// Everything that tshark says of a capture, as text.
    pub(crate) fn text(&self, capture: &Capture, args: &[&str]) -> String {
        let file = self.path("text.pcap");
        capture.write(&file);
        String::from_utf8_lossy(&self.run(&file, &[&["-V"], args].concat()).stdout).into_owned()
    }

    /// The lines of a capture.
    pub(crate) fn lines_of(&self, capture: &Capture, args: &[&str]) -> Vec<String> {
        let file = self.path("lines.pcap");
        capture.write(&file);
        self.lines(&file, args)
    }
}

/// Protocols to which tshark gives ports that the system deals out: a transfer that happens to get one is shown as theirs,
/// before anybody looks what it is.
fn others() -> &'static [String] {
    static OTHERS: OnceLock<Vec<String>> = OnceLock::new();
    OTHERS.get_or_init(|| {
        let listed = Command::new("tshark").args(["-G", "decodes"]).output().expect("tshark runs");
        let owner = |line: &str| {
            let mut words = line.split('\t');
            let is_udp = words.next() == Some("udp.port");
            let port: u16 = words.next()?.parse().ok()?;
            words.next().filter(|_| is_udp && port >= EPHEMERAL).map(str::to_owned)
        };
        let owners: BTreeSet<_> = String::from_utf8_lossy(&listed.stdout).lines().filter_map(owner).collect();
        owners.into_iter().collect()
    })
}

/// The first port that Linux deals out by itself.
const EPHEMERAL: u16 = 32_768;

/// What tshark says of one packet.
#[derive(Debug)]
pub(crate) struct Frame(Value);

impl Frame {
    /// The values of a field, in their order, wherever it stands in the packet.
    pub(crate) fn all(&self, field: &str) -> Vec<String> {
        let mut values = Vec::new();
        collect(&self.0, field, &mut values);
        values
    }

    /// The value of a field that is there exactly once.
    pub(crate) fn one(&self, field: &str) -> String {
        let mut values = self.all(field);
        assert_eq!(values.len(), 1, "{field} in {self:#?}");
        values.remove(0)
    }

    pub(crate) fn has(&self, field: &str) -> bool {
        !self.all(field).is_empty()
    }

    /// The value of a field that is there exactly once and a number.
    pub(crate) fn number(&self, field: &str) -> u64 {
        number(&self.one(field))
    }

    /// The values of a field that is a number.
    pub(crate) fn numbers(&self, field: &str) -> Vec<u64> {
        self.all(field).iter().map(|text| number(text)).collect()
    }

    pub(crate) fn has_lua_error(&self) -> bool {
        self.0.to_string().contains("Lua Error")
    }

    /// Whether tshark calls it malformed: a dissector said so, or read beyond the end of the packet.
    pub(crate) fn is_malformed(&self) -> bool {
        self.has("_ws.malformed")
    }
}

fn number(text: &str) -> u64 {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.unwrap_or_else(|_| panic!("{text} is no number"))
}

fn collect(value: &Value, field: &str, values: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if name == field {
                    texts(member, values);
                }
                collect(member, field, values);
            }
        }
        Value::Array(members) => members.iter().for_each(|member| collect(member, field, values)),
        _ => {}
    }
}

fn texts(value: &Value, values: &mut Vec<String>) {
    match value {
        Value::Array(members) => members.iter().for_each(|member| texts(member, values)),
        Value::String(text) => values.push(text.clone()),
        // A subtree under the name of its field.
        Value::Object(_) => values.push(String::new()),
        other => values.push(other.to_string()),
    }
}

/// Bytes from hexadecimal digits, with or without spaces.
pub(crate) fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    assert!(digits.len().is_multiple_of(2));
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Bytes as tshark writes them.
pub(crate) fn colons(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

/// Numbers that look random and are always the same.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit
    }
}

/// Each packet with every truncation of it, and with a byte or two changed.
pub(crate) fn variants(packets: &[Vec<u8>], changed: usize) -> Vec<Vec<u8>> {
    let mut random = Random(1);
    let mut variants = Vec::new();
    for packet in packets {
        variants.extend((0..=packet.len()).map(|len| packet[..len].to_vec()));
        for _ in 0..if packet.is_empty() { 0 } else { changed } {
            let mut packet = packet.clone();
            for _ in 0..=random.below(2) {
                let at = random.below(packet.len());
                packet[at] =
                    if random.below(2) == 0 { random.below(256) as u8 } else { packet[at] ^ (1 << random.below(8)) };
            }
            variants.push(packet);
        }
    }
    variants
}

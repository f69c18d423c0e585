//! What the measuring process and its workers say to each other: JSON, one object a line, over the worker's standard
//! input and output.
//!
//! The worker gets one [`Job`] and answers [`Reply::Opened`]; then for each [`Request`] it answers [`Reply::Ran`]. The end
//! of its input ends it.

use crate::vrp::{ContractArgs, Packets};
use pinnace::service::Method;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::path::PathBuf;
use std::str::FromStr;

/// What carries the messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum Transport {
    /// Reliable messages into posted buffers.
    Zcrp,
    /// Frames with a loss contract.
    Vrp,
    /// The six services of XTP.
    Xtp,
    /// A stream of bytes for clusters.
    Qmp,
    /// Messages with qualities of service.
    A1,
    /// The one interface, over the method that the service leads to, or over this one.
    Service(Option<Method>),
    /// The kernel's TCP with this congestion control, or with the system's own choice; one write a message.
    Tcp(Option<String>),
    /// TCP cubic, with the application collecting messages into large writes.
    TcpBatched,
    /// A bare loop over UDP: the ceiling of any protocol on it.
    Udp,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zcrp => f.write_str("zcrp"),
            Self::Vrp => f.write_str("vrp"),
            Self::Xtp => f.write_str("xtp"),
            Self::Qmp => f.write_str("qmp"),
            Self::A1 => f.write_str("a1"),
            Self::Service(None) => f.write_str("service"),
            Self::Service(Some(method)) => write!(f, "service-{method}"),
            Self::Tcp(None) => f.write_str("tcp"),
            Self::Tcp(Some(congestion)) => write!(f, "tcp-{congestion}"),
            Self::TcpBatched => f.write_str("tcp-batched"),
            Self::Udp => f.write_str("udp"),
        }
    }
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "zcrp" => Ok(Self::Zcrp),
            "vrp" => Ok(Self::Vrp),
            "xtp" => Ok(Self::Xtp),
            "qmp" => Ok(Self::Qmp),
            "a1" => Ok(Self::A1),
            "service" | "any" => Ok(Self::Service(None)),
            "tcp" => Ok(Self::Tcp(None)),
            "tcp-batched" => Ok(Self::TcpBatched),
            "udp" => Ok(Self::Udp),
            _ if name.starts_with("service-") => {
                name.trim_start_matches("service-").parse().map(|method| Self::Service(Some(method)))
            }
            _ => match name.strip_prefix("tcp-") {
                Some(congestion) if !congestion.is_empty() => Ok(Self::Tcp(Some(congestion.to_owned()))),
                _ => Err(format!(
                    "no transport {name:?}: zcrp, vrp, xtp, qmp, a1, service, service-METHOD, tcp, tcp-cubic, tcp-bbr, \
                     tcp-batched or udp"
                )),
            },
        }
    }
}

impl TryFrom<String> for Transport {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        name.parse()
    }
}

impl From<Transport> for String {
    fn from(transport: Transport) -> Self {
        transport.to_string()
    }
}

/// What a waiting thread does while there is nothing to do; the same for every transport of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum IdleChoice {
    /// Sleep until something arrives
    Block,
    /// Look again and again, and never sleep
    Spin,
    /// Look again and again for 50 us, then sleep
    Adaptive,
}

impl fmt::Display for IdleChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Block => "block",
            Self::Spin => "spin",
            Self::Adaptive => "adaptive",
        })
    }
}

impl From<IdleChoice> for pinnace::Idle {
    fn from(choice: IdleChoice) -> Self {
        match choice {
            IdleChoice::Block => Self::Block,
            IdleChoice::Spin => Self::Spin,
            IdleChoice::Adaptive => Self::ADAPTIVE,
        }
    }
}

/// What a worker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// Receives messages.
    Receiver,
    /// Sends messages.
    Sender,
    /// Sends back what it receives.
    Pong,
    /// Sends, and times what comes back.
    Ping,
    /// Counts, to keep a core busy.
    Counter,
}

/// Everything that a worker has to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) role: Role,
    pub(crate) transport: Transport,
    /// Bytes a message.
    pub(crate) size: usize,
    /// Messages under way at a time, each with its own buffer.
    pub(crate) depth: usize,
    pub(crate) idle: IdleChoice,
    /// `SO_BUSY_POLL` in microseconds; 0 leaves it alone.
    pub(crate) busy_poll: u32,
    /// The network is closed: no congestion control where there is a choice.
    pub(crate) cluster: bool,
    /// Where to listen, for receivers and pongs.
    pub(crate) bind: IpAddr,
    /// The number of the interface, if that is an address of one link alone.
    #[serde(default)]
    pub(crate) zone: u32,
    /// Where to connect to, for the others.
    pub(crate) peer: Option<SocketAddr>,
    /// What may be lost, where a transport has a say in that.
    pub(crate) contract: ContractArgs,
    /// How such a transport sends.
    pub(crate) packets: Packets,
    /// Each round trip has a connection of its own, its set-up and close included.
    pub(crate) each_alone: bool,
    /// How XTP is used.
    pub(crate) xtp: super::xtp::Choice,
    /// How QMP is used.
    pub(crate) qmp: super::qmp::Choice,
    /// How A1 is used.
    pub(crate) a1: super::a1::Choice,
    /// What the one interface is asked for.
    pub(crate) service: super::service::Words,
    /// Which trains the bare UDP loop sends: bytes of a block of A1 (0: what the path carries, cut evenly), and of the window;
    /// those of ZCRP if not said.
    pub(crate) udp: Option<(usize, u64)>,
    /// The socket of the daemon that shares memory, where that carries the messages.
    pub(crate) daemon: Option<PathBuf>,
    /// Datagrams larger than the path carries are cut by IP, instead of never being sent.
    pub(crate) fragment: bool,
    /// Every byte of every message says which it is, and is checked; of zcrp alone.
    #[serde(default)]
    pub(crate) checked: bool,
}

/// What a worker is asked after it has opened.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    /// Messages to move, or to send there and back.
    pub(crate) count: u64,
}

/// What a worker answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Reply {
    /// It is ready, and listens there.
    Opened(Option<SocketAddr>),
    /// It has moved the messages.
    Ran(Ran),
    /// It cannot, and why.
    Failed(String),
    /// This host does not have what the job needs: nothing is wrong with the others.
    Unavailable(String),
}

/// What one run was like at one end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ran {
    /// From before the first message to after the last wait.
    pub(crate) seconds: f64,
    /// Processor seconds of the application.
    pub(crate) user: f64,
    /// Processor seconds of the kernel for it.
    pub(crate) system: f64,
    /// Peak resident memory beyond what the worker had when its message buffers lay ready, in bytes.
    pub(crate) memory_beyond_buffers: Option<u64>,
    /// What the protocol counted in this run.
    pub(crate) placement: Option<Placement>,
    /// Messages that arrived, where that may be fewer than were sent.
    pub(crate) delivered: Option<u64>,
    /// What was lost of the frames delivered, where that may happen.
    pub(crate) loss: Option<Loss>,
    /// What was sent again, where that is counted.
    pub(crate) repeats: Option<Repeats>,
    /// The method that was chosen, where there was a choice.
    pub(crate) method: Option<String>,
    /// Of a counter: how often it has counted since it was asked last, a second.
    #[serde(default)]
    pub(crate) counts_per_second: Option<f64>,
    /// Round trips: nanoseconds, and how often.
    pub(crate) round_trips: Vec<(u64, u64)>,
}

/// Where a receiver's payload went (Z-18).
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Placement {
    pub(crate) units_in_place: u64,
    pub(crate) units_copied: u64,
    pub(crate) bytes_copied: u64,
    pub(crate) bytes_received: u64,
}

/// Data packets of a sender, and what was repeated of them.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Repeats {
    /// Repetitions included.
    pub(crate) packets_sent: u64,
    pub(crate) packets_resent: u64,
    pub(crate) packets_timed_out: u64,
    /// Of those, packets that had arrived.
    pub(crate) timeouts_spurious: u64,
}

/// What was lost of frames that were delivered.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Loss {
    pub(crate) packets: u64,
    pub(crate) lost: u64,
    /// Packets lost in a row at most, where that is counted.
    pub(crate) longest_run: Option<u32>,
}

impl Job {
    /// A job without an end yet, with the defaults.
    pub(crate) fn new(transport: &Transport, size: usize, idle: IdleChoice, path: super::Path) -> Self {
        Self {
            role: Role::Counter,
            transport: transport.clone(),
            size,
            depth: 2,
            idle,
            busy_poll: 0,
            cluster: path != super::Path::Lo,
            bind: IpAddr::from([127, 0, 0, 1]),
            zone: 0,
            peer: None,
            contract: ContractArgs::default(),
            packets: Packets::default(),
            each_alone: false,
            xtp: super::xtp::Choice::default(),
            qmp: super::qmp::Choice::default(),
            a1: super::a1::Choice::default(),
            service: super::service::Words::default(),
            udp: None,
            daemon: None,
            fragment: false,
            checked: false,
        }
    }
    /// Where to listen, at this port.
    pub(crate) fn at(&self, port: u16) -> SocketAddr {
        match self.bind {
            IpAddr::V4(ip) => (ip, port).into(),
            IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, self.zone).into(),
        }
    }
}

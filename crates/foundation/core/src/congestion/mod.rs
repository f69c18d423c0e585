//! Congestion control: how many bytes may be in flight, and how fast they may leave.
//!
//! An engine tells its [`Congestion`] what it sent, what was acknowledged and what was lost; the controller answers
//! with a window and a pacing rate. [`Fixed`] never changes either (the papers' behaviour, for closed networks),
//! [`Cubic`] takes every loss for congestion, like TCP, [`Bbr`] follows a model of the path and does not take random loss for
//! congestion. All of them count bytes of datagrams. Always true: a window only grows with what is acknowledged, one that
//! moves is never below two packets, and nothing a peer reports makes a controller panic.
//= X-23

mod bbr;
mod cubic;
mod delivery;
mod fixed;
mod late;
mod loss_bound;
mod path;
mod reordering;

use core::fmt::{Debug, Display, Formatter};
use core::str::FromStr;
use core::time::Duration;

pub use bbr::Bbr;
pub use cubic::Cubic;
pub use delivery::{DeliveryRate, DeliveryStamp};
pub use fixed::Fixed;
pub use late::{Late, Latecomers};
pub use path::Path;
pub use reordering::Reordering;

use crate::Time;

/// What one acknowledgement (or one batch of them) says. Made by [`DeliveryRate::finish`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckSample {
    /// When it was handled.
    pub now: Time,
    /// Bytes that it newly acknowledges.
    pub acked_bytes: u64,
    /// The round trip it measures, if a packet sent once is among them.
    pub rtt: Option<Duration>,
    /// Bytes delivered in all, these included.
    pub delivered: u64,
    /// Bytes that had been delivered when the newest of the acknowledged packets was sent.
    pub delivered_at_send: u64,
    /// When that packet was sent.
    pub sent_at: Time,
    /// The delivery rate over its flight in bytes a second, where the time was long enough to tell.
    pub delivery_rate: Option<u64>,
    /// The sender had less to send than the path would have taken: the rate says little about the path.
    pub app_limited: bool,
    /// Bytes still in flight.
    pub in_flight_after: u64,
}

/// What one detection of loss says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LossSample {
    /// When the controller is told.
    pub now: Time,
    /// When the loss was noticed: the same, unless it was doubted at first ([`Reordering`]).
    pub noticed_at: Time,
    /// Bytes lost.
    pub lost_bytes: u64,
    /// When the newest lost packet was sent: losses among packets sent before a reaction are part of what it
    /// reacted to.
    pub sent_at: Time,
    /// Bytes still in flight, the lost ones no longer counted.
    pub in_flight_after: u64,
}

/// What was told as lost, by an [`on_loss`](Congestion::on_loss) or an [`on_timeout`](Congestion::on_timeout), and has
/// arrived all the same, under its own number and not as a repetition. Made by [`Reordering::on_late`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpuriousLoss {
    /// When it was found out.
    pub now: Time,
    /// When it had been taken for lost: [`LossSample::noticed_at`], or the time of the time-out.
    pub noticed_at: Time,
    /// Bytes that were not lost.
    pub bytes: u64,
}

/// A congestion controller.
///
/// The engine may send while the bytes in flight are below [`window`](Self::window), and may always send one packet
/// when nothing is in flight. The engine keeps a [`DeliveryStamp`] per transmission, which the shared
/// [`DeliveryRate`] sampler turns into the [`AckSample`] of an acknowledgement:
///
/// ```
/// use core::time::Duration;
/// use pinnace_core::{ControllerKind, DeliveryRate, Time};
///
/// let mut now = Time::ZERO;
/// let mut control = ControllerKind::Cubic.build(1_400, now);
/// let mut delivery = DeliveryRate::new();
///
/// // Transmissions, each with its stamp.
/// let mut stamps = Vec::new();
/// while stamps.len() as u64 * 1_400 < control.window() {
///     let in_flight = stamps.len() as u64 * 1_400;
///     stamps.push(delivery.on_sent(now, 1_400, in_flight));
///     control.on_sent(now, 1_400, in_flight);
/// }
///
/// // One acknowledgement of all of them: every packet, then the sum.
/// now += Duration::from_millis(20);
/// stamps.iter().for_each(|stamp| delivery.on_packet_acked(now, 1_400, stamp));
/// if let Some(sample) = delivery.finish(now, Some(Duration::from_millis(20)), 0) {
///     control.on_ack(&sample);
/// }
/// assert_eq!(control.window(), 2 * 14_000);
/// ```
pub trait Congestion: Debug + Send {
    /// `bytes` leave at `now`; `in_flight` bytes were on their way before.
    fn on_sent(&mut self, now: Time, bytes: u64, in_flight: u64);
    /// Packets were acknowledged.
    fn on_ack(&mut self, ack: &AckSample);
    /// Packets were found to be lost.
    fn on_loss(&mut self, loss: &LossSample);
    /// What had been told as lost was not: the path does not keep the order, or was slow for once.
    fn on_spurious_loss(&mut self, late: &SpuriousLoss);
    /// The retransmission timer expired: everything in flight is in doubt.
    fn on_timeout(&mut self, now: Time);
    /// The peer reports `ce_count` more datagrams that arrived with congestion marked.
    fn on_ecn(&mut self, now: Time, ce_count: u64);
    /// How many bytes may be in flight.
    fn window(&self) -> u64;
    /// How fast to send, in bytes a second; `None`: as fast as the window allows.
    fn pacing_rate(&self) -> Option<u64>;
    /// The name that [`ControllerKind`] reads and writes.
    fn name(&self) -> &'static str;
}

/// Which congestion controller: its name in options and reports.
///
/// ```
/// use pinnace_core::ControllerKind;
/// assert_eq!("bbr".parse(), Ok(ControllerKind::Bbr));
/// assert_eq!("bbr:30%".parse(), Ok(ControllerKind::LossyBbr { percent: 30 }));
/// assert_eq!("fixed:65536".parse(), Ok(ControllerKind::Fixed { window: 65_536 }));
/// assert_eq!(ControllerKind::Cubic.to_string(), "cubic");
/// assert!("vegas".parse::<ControllerKind>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControllerKind {
    /// [`Fixed`], with this window in bytes.
    Fixed {
        /// The window in bytes; `u64::MAX` leaves the engine's own windows as the only ones.
        window: u64,
    },
    /// [`Cubic`].
    Cubic,
    /// [`Bbr`].
    Bbr,
    /// [`Bbr`] over a path that loses more than a fifth of what is sent by itself, as some radio links do: written `bbr:30%`.
    /// Not for paths whose losses come from those who share them.
    LossyBbr {
        /// The path loses up to this share, in percent, from 1 to [`Bbr::MOST_PATH_LOSS`].
        percent: u8,
    },
}

impl ControllerKind {
    /// A controller that starts at `now` and whose datagrams carry at most `mss` bytes.
    pub fn build(self, mss: u64, now: Time) -> Box<dyn Congestion> {
        match self {
            Self::Fixed { window } => Box::new(Fixed::new(window)),
            Self::Cubic => Box::new(Cubic::new(mss)),
            Self::Bbr => Box::new(Bbr::new(mss, now)),
            Self::LossyBbr { percent } => Box::new(Bbr::over_loss(mss, now, percent)),
        }
    }

    /// The name without parameters.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fixed { .. } => "fixed",
            Self::Cubic => "cubic",
            Self::Bbr | Self::LossyBbr { .. } => "bbr",
        }
    }
}

impl Display for ControllerKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Fixed { window } if *window != u64::MAX => write!(f, "fixed:{window}"),
            Self::LossyBbr { percent } => write!(f, "bbr:{percent}%"),
            kind => f.write_str(kind.name()),
        }
    }
}

/// The text names no congestion controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownController;

impl Display for UnknownController {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        f.write_str("a congestion controller is one of: fixed, fixed:BYTES, cubic, bbr, bbr:1% to bbr:50%")
    }
}

impl core::error::Error for UnknownController {}

impl FromStr for ControllerKind {
    type Err = UnknownController;

    fn from_str(text: &str) -> Result<Self, UnknownController> {
        match text.split_once(':') {
            None if text == "fixed" => Ok(Self::Fixed { window: u64::MAX }),
            None if text == "cubic" => Ok(Self::Cubic),
            None if text == "bbr" => Ok(Self::Bbr),
            Some(("fixed", window)) => match window.parse() {
                Ok(window) if window > 0 => Ok(Self::Fixed { window }),
                _ => Err(UnknownController),
            },
            Some(("bbr", share)) => match share.strip_suffix('%').map(str::parse) {
                Some(Ok(percent)) if (1..=Bbr::MOST_PATH_LOSS).contains(&percent) => Ok(Self::LossyBbr { percent }),
                _ => Err(UnknownController),
            },
            _ => Err(UnknownController),
        }
    }
}

/// The window that an untried path is given (RFC 6928): ten packets, fewer if they are large.
const fn initial_window(mss: u64) -> u64 {
    let (ten, two) = (mss.saturating_mul(10), mss.saturating_mul(2));
    let large = if two > 14_720 { two } else { 14_720 };
    if ten < large { ten } else { large }
}

/// `bytes` a `duration`, in bytes a second; `None` for no time at all.
fn bytes_per_second(bytes: u64, duration: Duration) -> Option<u64> {
    let nanos = duration.as_nanos();
    (nanos > 0).then(|| u64::try_from(u128::from(bytes) * 1_000_000_000 / nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;

//! What a program sets on a socket, and reads of it.
//!
//! Always true: what is set has effect, or is refused; only what every TCP program sets, and what has no meaning here, is
//! taken and kept.

use super::names;
use super::options::*;
use crate::descriptors::{self, Descriptor};
use crate::errors::Errno;
use libc::c_int;
use pinnace::qmp::{Carrier, Options, Patience, Stream, Way};
use std::time::Duration;

/// When a silent peer is asked whether it is there, how often, and how many times: as Linux has it of itself.
#[derive(Clone, Debug)]
struct KeepAlive {
    is_on: bool,
    idle_secs: c_int,
    interval_secs: c_int,
    count: c_int,
    /// Milliseconds; 0: none.
    user_timeout: c_int,
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self { is_on: false, idle_secs: 7200, interval_secs: 75, count: 9, user_timeout: 0 }
    }
}

/// The settings of a socket.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    /// How it is bound or connected.
    pub(super) options: Options,
    pub(super) linger: Option<Duration>,
    pub(super) receive_timeout: Option<Duration>,
    pub(super) send_timeout: Option<Duration>,
    is_reused: bool,
    is_port_reused: bool,
    keep_alive: KeepAlive,
    send_buffer: Option<c_int>,
    /// The number of the pool, as it was set.
    pool: Option<c_int>,
}

const LEAST_WINDOW: c_int = 65_536;
const LARGEST_WINDOW: c_int = 1 << 30;
const MOST_PACKETS: c_int = 65_536;
/// TCP's: seconds, and probes.
const LONGEST: c_int = 32_767;
const MOST_PROBES: c_int = 127;

impl Settings {
    /// Sets an option. `is_fixed`: the socket is bound, connected, or was accepted.
    pub(super) fn set(&mut self, level: c_int, name: c_int, value: &[u8], is_fixed: bool) -> Result<(), Errno> {
        let invalid = Errno(libc::EINVAL);
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                let [is_on, seconds] = [int(value)?, int(value.get(size_of::<c_int>()..).ok_or(invalid)?)?];
                let seconds = u64::try_from(seconds).map_err(|_| invalid)?;
                self.linger = (is_on != 0).then(|| Duration::from_secs(seconds));
            }
            (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => self.receive_timeout = timeout(value)?,
            (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => self.send_timeout = timeout(value)?,
            (libc::SOL_SOCKET, libc::SO_REUSEADDR) => self.is_reused = int(value)? != 0,
            (libc::SOL_SOCKET, libc::SO_REUSEPORT) => self.is_port_reused = int(value)? != 0,
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => self.keep_alive.is_on = int(value)? != 0,
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => self.send_buffer = Some(int(value)?),
            // A program that sets it later means TCP's, where it is a wish.
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => {
                let wanted = int(value)?.clamp(LEAST_WINDOW, LARGEST_WINDOW);
                if !is_fixed {
                    self.options.window_bytes = Some(wanted as u32);
                }
            }
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => drop(int(value)?),
            (libc::IPPROTO_TCP, names::TCP_KEEPIDLE) => self.keep_alive.idle_secs = from(1, LONGEST, value)?,
            (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => self.keep_alive.interval_secs = from(1, LONGEST, value)?,
            (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => self.keep_alive.count = from(1, MOST_PROBES, value)?,
            (libc::IPPROTO_TCP, names::TCP_USER_TIMEOUT) => self.keep_alive.user_timeout = from(0, c_int::MAX, value)?,
            (SOL_QMP, QMP_STATE) => return Err(Errno(libc::ENOPROTOOPT)),
            (SOL_QMP, _) => return self.set_own(name, int(value)?, is_fixed),
            _ => return Err(Errno(libc::ENOPROTOOPT)),
        }
        Ok(())
    }

    //= Q-12
    fn set_own(&mut self, name: c_int, value: c_int, is_fixed: bool) -> Result<(), Errno> {
        if is_fixed && (QMP_STATUS_EVERY..=QMP_POOL).contains(&name) {
            return Err(Errno(libc::EISCONN));
        }
        let within = |low: c_int, high: c_int| {
            if (low..=high).contains(&value) { Ok(value as u32) } else { Err(Errno(libc::EINVAL)) }
        };
        match name {
            QMP_STATUS_EVERY => self.options.status_every = within(1, MOST_PACKETS)?,
            QMP_WINDOW => self.options.window_bytes = Some(within(LEAST_WINDOW, LARGEST_WINDOW)?),
            QMP_GO_BACK_N => self.options.go_back_n = value != 0,
            QMP_SAME_HOST => self.options.same_host = value != 0,
            QMP_PEER_TIMEOUT => {
                let millis = within(0, c_int::MAX)?;
                self.options.peer_timeout = (millis > 0).then(|| Duration::from_millis(millis.into()));
            }
            QMP_POOL => {
                let Descriptor::Buffers(buffers) = descriptors::current().find(value)? else {
                    return Err(Errno(libc::EBADF));
                };
                self.options.pool = Some(buffers.pool().clone());
                self.pool = Some(value);
            }
            QMP_LINK => {
                self.options.carrier = match value {
                    QMP_LINK_UDP => Carrier::Udp,
                    QMP_LINK_IP36 => Carrier::Ip36,
                    QMP_LINK_SHM => Carrier::SharedMemory,
                    QMP_LINK_ETHER => Carrier::Ether,
                    _ => return Err(Errno(libc::EINVAL)),
                };
            }
            _ => return Err(Errno(libc::ENOPROTOOPT)),
        }
        Ok(())
    }

    /// An option, if it is one that is only kept here.
    pub(super) fn value(&self, level: c_int, name: c_int) -> Result<Vec<u8>, Errno> {
        let number = |value: c_int| Ok(value.to_ne_bytes().to_vec());
        let flag = |value: bool| number(value.into());
        let window = self.options.window_bytes.map_or(0, |window| window as c_int);
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_LINGER) => {
                let seconds = self.linger.map_or(0, |linger| linger.as_secs() as c_int);
                Ok([c_int::from(self.linger.is_some()), seconds].into_iter().flat_map(c_int::to_ne_bytes).collect())
            }
            (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => Ok(timeval(self.receive_timeout)),
            (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => Ok(timeval(self.send_timeout)),
            (libc::SOL_SOCKET, libc::SO_REUSEADDR) => flag(self.is_reused),
            (libc::SOL_SOCKET, libc::SO_REUSEPORT) => flag(self.is_port_reused),
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => flag(self.keep_alive.is_on),
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => number(self.send_buffer.unwrap_or(window)),
            (libc::SOL_SOCKET, libc::SO_RCVBUF) | (SOL_QMP, QMP_WINDOW) => number(window),
            (libc::SOL_SOCKET, libc::SO_TYPE) => number(libc::SOCK_STREAM),
            (libc::SOL_SOCKET, names::SO_PROTOCOL) => number(0),
            // Nothing is ever delayed.
            (libc::IPPROTO_TCP, libc::TCP_NODELAY) => flag(true),
            (libc::IPPROTO_TCP, names::TCP_KEEPIDLE) => number(self.keep_alive.idle_secs),
            (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => number(self.keep_alive.interval_secs),
            (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => number(self.keep_alive.count),
            (libc::IPPROTO_TCP, names::TCP_USER_TIMEOUT) => number(self.keep_alive.user_timeout),
            (SOL_QMP, QMP_STATUS_EVERY) => number(self.options.status_every as c_int),
            (SOL_QMP, QMP_GO_BACK_N) => flag(self.options.go_back_n),
            (SOL_QMP, QMP_POOL) => number(self.pool.unwrap_or(-1)),
            (SOL_QMP, QMP_SAME_HOST) => flag(self.options.same_host),
            (SOL_QMP, QMP_PEER_TIMEOUT) => {
                number(self.options.peer_timeout.map_or(0, |timeout| timeout.as_millis() as c_int))
            }
            (SOL_QMP, QMP_LINK) => number(match self.options.carrier {
                Carrier::Udp => QMP_LINK_UDP,
                Carrier::Ip36 => QMP_LINK_IP36,
                Carrier::SharedMemory => QMP_LINK_SHM,
                Carrier::Ether => QMP_LINK_ETHER,
            }),
            _ => Err(Errno(libc::ENOPROTOOPT)),
        }
    }

    /// Gives a stream what is set.
    pub(super) fn apply(&self, stream: &Stream) {
        stream.set_linger(self.linger);
        stream.set_read_timeout(self.receive_timeout);
        stream.set_write_timeout(self.send_timeout);
        // Of one that is over nothing is waited for any more.
        let _ = stream.set_patience(self.patience());
    }

    fn patience(&self) -> Patience {
        let KeepAlive { is_on, idle_secs, interval_secs, count, user_timeout } = self.keep_alive;
        let seconds = |number: c_int| Duration::from_secs(number as u64);
        let keep_alive = is_on.then(|| (seconds(idle_secs), seconds(interval_secs), count as u32));
        Patience::of_socket(keep_alive, (user_timeout > 0).then(|| Duration::from_millis(user_timeout as u64)))
    }
}

/// What carries a stream, as an option.
pub(super) fn link_of(stream: &Stream) -> c_int {
    match stream.way() {
        Way::Udp => QMP_LINK_UDP,
        Way::Ip36 => QMP_LINK_IP36,
        Way::Ether => QMP_LINK_ETHER,
        Way::SharedMemory => QMP_LINK_SHM,
    }
}

fn int(value: &[u8]) -> Result<c_int, Errno> {
    value.first_chunk().map(|bytes| c_int::from_ne_bytes(*bytes)).ok_or(Errno(libc::EINVAL))
}

/// A number from `low` to `high`.
fn from(low: c_int, high: c_int, value: &[u8]) -> Result<c_int, Errno> {
    int(value).and_then(|value| if (low..=high).contains(&value) { Ok(value) } else { Err(Errno(libc::EINVAL)) })
}

/// A `struct timeval`; zero is for ever.
fn timeout(value: &[u8]) -> Result<Option<Duration>, Errno> {
    const HALF: usize = size_of::<libc::timeval>() / 2;
    let number = |bytes: &[u8]| bytes.first_chunk().map(|bytes| i64::from_ne_bytes(*bytes));
    let (seconds, micros) = match (number(value), value.get(HALF..).and_then(number)) {
        (Some(seconds), Some(micros)) => (seconds, micros),
        _ => return Err(Errno(libc::EINVAL)),
    };
    if !(0..1_000_000).contains(&micros) {
        return Err(Errno(libc::EDOM));
    }
    // As Linux has it: what has passed already is the shortest time.
    let Ok(seconds) = u64::try_from(seconds) else { return Ok(Some(Duration::from_micros(1))) };
    let timeout = Duration::from_secs(seconds) + Duration::from_micros(micros as u64);
    Ok((!timeout.is_zero()).then_some(timeout))
}

fn timeval(timeout: Option<Duration>) -> Vec<u8> {
    let timeout = timeout.unwrap_or_default();
    let halves = [timeout.as_secs() as i64, i64::from(timeout.subsec_micros())];
    halves.into_iter().flat_map(i64::to_ne_bytes).collect()
}

//! What the loop waits for.

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// What has happened to whom. Numbers are given once, so that an event that comes late finds nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Somebody has connected.
    Listening,
    /// The daemon is to end.
    Stop,
    /// A thread of a bridge has something for the loop.
    Bridges,
    /// A client has said something, or hung up.
    Client(u64),
    /// A client's process is dead.
    Process(u64),
    /// A listener has hung up.
    Listener(u64),
}

impl Source {
    fn to_bits(self) -> u64 {
        match self {
            Self::Listening => 0,
            Self::Stop => 1 << 2,
            Self::Bridges => 2 << 2,
            Self::Client(number) => number << 2 | 1,
            Self::Process(number) => number << 2 | 2,
            Self::Listener(number) => number << 2 | 3,
        }
    }

    fn from_bits(bits: u64) -> Self {
        match (bits & 3, bits >> 2) {
            (0, 0) => Self::Listening,
            (0, 1) => Self::Stop,
            (0, _) => Self::Bridges,
            (1, number) => Self::Client(number),
            (2, number) => Self::Process(number),
            (_, number) => Self::Listener(number),
        }
    }
}

/// Events taken at once.
const MOST: usize = 64;

#[derive(Debug)]
pub(super) struct Events {
    epoll: OwnedFd,
}

impl Events {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Watches a descriptor, until it is closed.
    pub(super) fn add(&self, fd: impl AsFd, source: Source) -> io::Result<()> {
        let data = epoll::EventData::new_u64(source.to_bits());
        Ok(epoll::add(&self.epoll, fd, data, epoll::EventFlags::IN)?)
    }

    /// Waits for events, at most `timeout`.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> io::Result<Vec<Source>> {
        let mut space = [MaybeUninit::<epoll::Event>::uninit(); MOST];
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match epoll::wait(&self.epoll, &mut space, timeout.as_ref()) {
            Ok((events, _)) => Ok(events.iter().map(|event| Source::from_bits(event.data.u64())).collect()),
            Err(Errno::INTR) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }
}

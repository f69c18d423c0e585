//! What QMP needs of an endpoint: XTP set up as its profile says.

use super::port::{self, Bound, deadline};
use super::{Connection, Endpoint, Options, Service};
use crate::{Error, qmp};
use pinnace_link::Link;
use pinnace_qmp::{Medium, Profile, State};
use pinnace_runtime::WaitError;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

/// The longest wait for an answer where round trips are short: so often an answer may be missing in a given time.
const SHORT_WAIT: Duration = Duration::from_millis(160);

impl Endpoint {
    pub(crate) fn bind_qmp(address: impl ToSocketAddrs, options: &qmp::Options) -> Result<Self, Error> {
        let xtp = options.xtp();
        Self::of_qmp(port::bind(port::resolve(address)?, &xtp)?, options, &xtp)
    }

    pub(crate) fn client_qmp(options: &qmp::Options) -> Result<Self, Error> {
        let xtp = options.xtp();
        Self::of_qmp(port::client(&xtp)?, options, &xtp)
    }

    pub(crate) fn client_of_qmp(peer: impl ToSocketAddrs, options: &qmp::Options) -> Result<Self, Error> {
        let xtp = options.xtp();
        Self::of_qmp(port::client_of(port::resolve(peer)?, &xtp)?, options, &xtp)
    }

    pub(crate) fn over_qmp(
        link: Box<dyn Link>,
        local: SocketAddr,
        peer: Option<SocketAddr>,
        options: &qmp::Options,
    ) -> Result<Self, Error> {
        Self::of_qmp(Bound::over(link, local, peer), options, &options.xtp())
    }

    fn of_qmp(bound: Bound, options: &qmp::Options, xtp: &Options) -> Result<Self, Error> {
        let sizes = xtp.default_block(&bound.path);
        let profile = Profile {
            status_every: options.status_every,
            window: sizes.rwindow,
            queue: sizes.wbufsize,
            maxdata: sizes.maxdata,
            go_back_n: options.go_back_n,
        };
        let mut block = profile.block(0);
        if let Some(timeout) = options.peer_timeout {
            (block.ctimer, block.ctimeout) = (timeout / 2, timeout / 2);
            let expiries = (timeout.as_millis() / SHORT_WAIT.as_millis()).min(1 << 16);
            block.retry_count += expiries as u32;
        }
        debug_assert_eq!(block.service, Service::Connection);
        let mut end = port::start_as(bound, xtp, block, |config| profile.config(Medium::Internet, config))?;
        end.asks_after_writes = true;
        Ok(Self::at(end))
    }
}

impl Connection {
    /// Sends the FIRST without waiting for the answer.
    pub(crate) fn begin_now(&self) -> Result<(), Error> {
        self.begin()
    }

    /// Where the association stands.
    pub(crate) fn qmp_state(&self) -> State {
        self.end.port.inspect(|engine, _, _| State::of(engine, self.id))
    }

    /// Waits at most `timeout` until everything that was queued has arrived.
    pub(crate) fn flush_timeout(&self, timeout: Duration) -> Result<(), Error> {
        match self.end.port.wait_until(|state| self.flushed(state), deadline(timeout)) {
            Err(WaitError::Timeout) => Err(Error::Timeout),
            result => result?,
        }
    }

    /// Copies what can be read, and leaves it there; waits for the first byte, at most `timeout`.
    pub(crate) fn peek(&self, into: &mut [u8], timeout: Option<Duration>) -> Result<usize, Error> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            match self.end.port.wait_until(|state| self.may_read(state), deadline) {
                Err(WaitError::Timeout) => return Err(Error::Timeout),
                result => result?,
            }
            if let Some(seen) = self.peek_bytes(into)? {
                return Ok(seen);
            }
        }
    }

    /// SHUT_RD: local. What comes is read by nobody, and the peer is not told.
    pub(crate) fn shut_reading(&self) {
        self.partial().shut = true;
    }
}

//! How an endpoint waits, and what can go wrong while it does.

use crate::DriverConfig;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

/// What a waiting thread does while there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Sleeps until something arrives, after a last look of 10 us, because in a stream of messages a sleep and a wake
    /// cost both ends more than that: least CPU time, 20 to 50 us more latency.
    Block,
    /// Looks again and again for so long, then sleeps.
    Adaptive {
        /// How long to look before sleeping.
        spin: Duration,
    },
    /// Does not sleep: least latency, a whole core. Except once whenever another thread needed that core, so that it is
    /// woken on one that is free.
    Spin,
}

impl Idle {
    /// Spins for 50 us, about what being woken costs, and then sleeps.
    pub const ADAPTIVE: Self = Self::Adaptive { spin: Duration::from_micros(50) };
}

impl Default for Idle {
    fn default() -> Self {
        Self::ADAPTIVE
    }
}

/// Settings of an [`Endpoint`](crate::Endpoint).
#[derive(Clone, Copy, Debug)]
pub struct EndpointConfig {
    /// What a waiting thread does while there is nothing to do.
    pub idle: Idle,
    /// Batches of the driver.
    pub driver: DriverConfig,
    /// Whether a background worker drives while no application thread does. Without one nothing moves (and no peer is
    /// answered) but inside calls and waits. The async interface and the readiness descriptor start it all the same.
    pub worker: bool,
    /// How long no application thread must have been inside before the worker takes over: an application that calls
    /// and waits in turn should not be followed by a second thread. It looks as often, or more and more
    /// rarely (to every fourth time) while there are many calls, so that it takes over after one to five times as long.
    pub grace: Duration,
    /// A call also reads if nobody has for so long: an application that only ever calls must not starve its own
    /// acknowledgements.
    pub call_reads_after: Duration,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        Self {
            idle: Idle::default(),
            driver: DriverConfig::default(),
            worker: true,
            grace: Duration::from_millis(1),
            call_reads_after: Duration::from_micros(20),
        }
    }
}

/// Why an endpoint is of no use any more. Every call and every wait returns it from then on.
#[derive(Clone, Debug)]
pub enum EndpointError {
    /// The link failed for good.
    Link(Arc<io::Error>),
    /// A thread panicked in the middle of a call or of the engine, whose state cannot be trusted any more.
    Panicked,
    /// [`Endpoint::shutdown`](crate::Endpoint::shutdown) was called, or its last handle is gone.
    ShutDown,
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(error) => write!(f, "the link failed: {error}"),
            Self::Panicked => f.write_str("a thread panicked inside the endpoint"),
            Self::ShutDown => f.write_str("the endpoint is shut down"),
        }
    }
}

impl std::error::Error for EndpointError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Link(error) => Some(error),
            Self::Panicked | Self::ShutDown => None,
        }
    }
}

/// Why a wait ended without what it waited for.
#[derive(Clone, Debug)]
pub enum WaitError {
    /// The deadline passed.
    Timeout,
    /// The endpoint is of no use any more.
    Endpoint(EndpointError),
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str("timed out"),
            Self::Endpoint(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for WaitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Timeout => None,
            Self::Endpoint(error) => Some(error),
        }
    }
}

impl From<EndpointError> for WaitError {
    fn from(error: EndpointError) -> Self {
        Self::Endpoint(error)
    }
}

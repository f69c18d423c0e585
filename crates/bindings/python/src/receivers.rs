//! One source and several receivers: what Python is told of each.

use pinnace::{ReceiverState, ReceiverStatus};
use pyo3::prelude::*;

/// What is known of a receiver of a connection to several, made by `connect_all`. It does not change: `receivers` of the
/// connection says it anew.
///
/// >>> import pinnace
/// >>> listeners = [pinnace.listen("127.0.0.1:0") for _ in range(2)]
/// >>> with pinnace.connect_all([listener.address for listener in listeners]) as source:
/// ...     receiver = source.receivers[0]
/// >>> receiver.address == listeners[0].address, receiver.state
/// (True, 'connected')
#[pyclass(module = "pinnace", frozen)]
#[derive(Debug)]
pub(crate) struct Receiver(ReceiverStatus);

impl Receiver {
    pub(crate) fn new(status: ReceiverStatus) -> Self {
        Self(status)
    }
}

#[pymethods]
impl Receiver {
    /// Where its listener is: `host:port`.
    #[getter]
    fn address(&self) -> String {
        self.0.address.to_string()
    }

    /// `"connected"`; or why it is not there any more: `"left"` (it has closed), `"too-slow"` (it has held up the others for too
    /// long, and was cut off) or `"lost"` (it does not answer).
    #[getter]
    fn state(&self) -> &'static str {
        match self.0.state {
            ReceiverState::Connected => "connected",
            ReceiverState::Left => "left",
            ReceiverState::TooSlow => "too-slow",
            ReceiverState::Lost(_) => "lost",
        }
    }

    /// Whether it gets the messages from the service's multicast group, and not one by one.
    #[getter]
    fn in_group(&self) -> bool {
        self.0.in_group
    }

    /// Messages that were left out for it, because it had no room for them (`slow_receiver="skip"`).
    #[getter]
    fn skipped(&self) -> u64 {
        self.0.skipped
    }

    /// Seconds from the source to it and back; `None`: not measured yet.
    #[getter]
    fn round_trip(&self) -> Option<f64> {
        self.0.round_trip.map(|time| time.as_secs_f64())
    }

    fn __repr__(&self) -> String {
        format!("<pinnace.Receiver at {}: {}>", self.0.address, self.0.state)
    }
}

//! Connections, as Python has them.

use crate::asyncio::{Operation, Outcome, Reactor, on_a_thread};
use crate::buffer::{self, GiveBack, Lent};
use crate::delivery::{Delivery, Shared};
use crate::explain::Explanation;
use crate::luck::Luck;
use crate::process::Owned;
use crate::received::{Received, ReceivedInto, received};
use crate::receivers::Receiver;
use crate::turns::Turns;
use crate::{endpoint, errors, service, wait};
use pinnace::service::units;
use pinnace::vrp::Contract;
use pinnace::{ConnectionError, Error, Message, PerMessage, Unsent};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long leaving a `with` block waits for what was sent.
const LINGER: Duration = Duration::from_secs(1);

/// Messages to a peer and back, by the method that was chosen for the service. Made by `connect`, and by `accept` of a
/// listener. Calls may come from any thread.
///
/// In a `with` statement the connection is closed at the end of the block: what was sent has a second to arrive. In a `for`
/// loop it gives the messages until the peer has closed.
///
/// >>> import pinnace
/// >>> listener = pinnace.listen("127.0.0.1:0")
/// >>> with pinnace.connect(listener.address) as connection:
/// ...     for text in "haul", "away":
/// ...         _ = connection.send(text.encode())
/// >>> [bytes(message) for message in listener.accept()]
/// [b'haul', b'away']
#[pyclass(module = "pinnace", frozen, weakref)]
#[derive(Debug)]
pub(crate) struct Connection {
    connection: Owned<Arc<pinnace::Connection>>,
    /// From a request to its response.
    transacting: Turns,
    luck: Luck,
}

impl Connection {
    pub(crate) fn new(connection: pinnace::Connection) -> Self {
        Self { connection: Owned::new(Arc::new(connection)), transacting: Turns::default(), luck: Luck::new() }
    }

    fn get(&self, py: Python<'_>) -> PyResult<&pinnace::Connection> {
        self.connection.get(py).map(|connection| &**connection)
    }

    /// Waits for room, for at most `timeout` seconds.
    fn begin(
        &self,
        py: Python<'_>,
        message: Message,
        special: Option<&PerMessage>,
        timeout: Option<f64>,
    ) -> PyResult<Arc<Shared>> {
        let (connection, timeout, mut unsent) = (self.get(py)?, wait::timeout(timeout)?, Some(message));
        let sent = wait::attempts(py, timeout, |slice| {
            let message = unsent.take().ok_or(ConnectionError::Closed)?;
            let sent = match special {
                None => connection.send_timeout(message, slice),
                Some(special) => connection.send_with_timeout(message, special, slice),
            };
            sent.map_err(|Unsent { message, error }| {
                // There is another attempt only if it has come back.
                unsent = message;
                error
            })
        });
        buffer::detached(py, || drop(unsent));
        sent.map(Shared::new)
    }

    fn call<R: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&pinnace::Connection) -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        let connection = self.get(py)?;
        buffer::detached(py, || call(connection)).map_err(|error| errors::raise(py, &error))
    }

    fn receive(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<pinnace::Received>> {
        let connection = self.get(py)?;
        wait::attempts(py, wait::timeout(timeout)?, |slice| connection.recv_timeout(slice))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let connection = self.connection.take();
        // It may wait for what was sent.
        let dropped = Python::try_attach(|py| buffer::detached(py, || drop(connection)));
        debug_assert!(dropped.is_some(), "objects are dropped while there is an interpreter");
    }
}

#[pymethods]
impl Connection {
    /// Begins to send a message: the bytes of whatever has the buffer protocol. Waits while the method's queue is full, at most
    /// `timeout` seconds (`None`: for ever), and raises `TimeoutError` then: nothing was sent.
    ///
    /// What is returned says when it has arrived; without it the message goes on all the same. More than 4 KiB are not copied:
    /// the memory is lent until the message has arrived, and must not be changed before.
    ///
    /// What differs for this message from the service: `loss`, `run`, `critical`, `floor` (what may be lost of it),
    /// `deadline`, `lifespan`.
    ///
    /// >>> import pinnace
    /// >>> listener = pinnace.listen("127.0.0.1:0")
    /// >>> connection = pinnace.connect(listener.address, "loss=10% run=4KiB")
    /// >>> delivery = connection.send(bytearray(100_000), loss=0)
    /// >>> len(listener.accept().recv())
    /// 100000
    /// >>> delivery.wait(timeout=5).holes
    /// []
    #[pyo3(signature = (buffer, *, timeout = None, **overrides))]
    fn send(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        timeout: Option<f64>,
        overrides: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Delivery> {
        let _give_back = GiveBack::at_the_end(py);
        let special = overrides.map(special).transpose()?;
        let message = buffer::message(buffer)?;
        self.begin(py, message, special.as_ref(), timeout).map(Delivery::new)
    }

    /// Like `send`, one message of the bytes of several buffers in their order, which are sent from where they lie.
    ///
    /// >>> import pinnace
    /// >>> listener = pinnace.listen("127.0.0.1:0")
    /// >>> connection = pinnace.connect(listener.address)
    /// >>> _ = connection.sendmsg([b"ahoy, ", bytearray(b"sailor")])
    /// >>> bytes(listener.accept().recv())
    /// b'ahoy, sailor'
    #[pyo3(signature = (buffers, *, timeout = None, **overrides))]
    fn sendmsg(
        &self,
        py: Python<'_>,
        buffers: &Bound<'_, PyAny>,
        timeout: Option<f64>,
        overrides: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Delivery> {
        let _give_back = GiveBack::at_the_end(py);
        let special = overrides.map(special).transpose()?;
        let message = buffer::gather(buffers)?;
        self.begin(py, message, special.as_ref(), timeout).map(Delivery::new)
    }

    /// Waits for the next message, at most `timeout` seconds; `None`: for ever. The waiting thread does the method's work;
    /// other Python threads run meanwhile.
    ///
    /// Returns `None` when the peer has closed, and everything was received. Raises `TimeoutError`; `LostError` if the
    /// connection has failed.
    #[pyo3(signature = (timeout = None))]
    fn recv(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Received>> {
        Ok(self.receive(py, timeout)?.map(Received::new))
    }

    /// Like `recv`, into memory of the program's: a bytearray, a numpy array, or whatever can be written to. Returns how
    /// many bytes they were, and the holes.
    ///
    /// Raises `MessageTooLongError` if the message is longer than the memory; it is the next to be received again.
    #[pyo3(signature = (buffer, timeout = None))]
    fn recv_into(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<Option<ReceivedInto>> {
        let (timeout, connection, lent) = (wait::timeout(timeout)?, self.get(py)?, Lent::writable(buffer)?);
        let into = wait::attempts(py, timeout, |slice| {
            let memory = match lent.len() {
                0 => &mut [],
                // SAFETY: the memory can be written to, and is there, with this length, until `lent` is dropped. That the
                // program does not use it meanwhile is what its documentation asks for.
                len => unsafe { std::slice::from_raw_parts_mut(lent.base(), len) },
            };
            connection.recv_into_timeout(memory, slice)
        });
        // Whoever has called has the memory again also when that has failed.
        buffer::detached(py, || drop(lent));
        Ok(into?.map(ReceivedInto::new))
    }

    /// Sends a request, and waits for the next message, which is the response, at most `timeout` seconds. One request is
    /// under way at a time: others wait for their turn, and that counts. The other end receives requests, and sends
    /// responses, as messages.
    ///
    /// A response that comes after the timeout is not taken for that to the next request.
    ///
    /// The service needs `direction=duplex` or `pattern=transaction`. Raises `NoResponseError` if the peer has closed instead.
    #[pyo3(signature = (request, timeout = None))]
    fn transact(&self, py: Python<'_>, request: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<Received> {
        let _give_back = GiveBack::at_the_end(py);
        let (connection, begin) = (self.get(py)?, Instant::now());
        let _turn = wait::attempts(py, wait::timeout(timeout)?, |slice| self.transacting.take(slice))?;
        let left = || timeout.map(|timeout| timeout - begin.elapsed().as_secs_f64());
        let response = || self.receive(py, left())?.ok_or_else(|| errors::raise(py, &Error::NoResponse));
        while connection.responses_owed().map_err(|error| errors::raise(py, &error))? > 0 {
            response()?;
        }
        self.begin(py, buffer::message(request)?, None, left())?;
        connection.owe_response();
        response().map(Received::new)
    }

    /// For tasks, which count themselves how many responses nobody has waited for.
    fn _check_owed(&self, py: Python<'_>, owed: u64) -> PyResult<()> {
        self.get(py)?.check_owed(owed).map_err(|error| errors::raise(py, &error))
    }

    /// What is sent from now on is sent with this service. The method stays, and so do direction, order and receivers.
    ///
    /// Raises `CannotError` if the method does not meet the service on this path; then nothing has changed.
    #[pyo3(signature = (service = None, /, **words))]
    fn set_service(
        &self,
        py: Python<'_>,
        service: Option<&Bound<'_, PyAny>>,
        words: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let service = match (service, words) {
            (None, Some(words)) => service::of(Some(words))?,
            (service, None) => service::of(service)?,
            _ => return Err(PyTypeError::new_err("a service is a Service, a text, or keywords: one of them")),
        };
        self.call(py, |connection| connection.set_service(&service))
    }

    /// The service with which messages are sent.
    #[getter]
    fn service(&self, py: Python<'_>) -> PyResult<service::Service> {
        Ok(service::Service(self.get(py)?.service()))
    }

    /// What carries it: `"zcrp"`, `"vrp"`, `"xtp"`, `"qmp"`, `"a1"` or `"shared-memory"`.
    #[getter]
    fn method(&self) -> &'static str {
        self.connection.seen().method().name()
    }

    /// Where the peer's socket is, of the method that was chosen: `host:port`.
    #[getter]
    fn peer(&self) -> String {
        self.connection.seen().peer_addr().to_string()
    }

    /// Why it is this method: its offer, and those of the others.
    fn explain(&self, py: Python<'_>) -> PyResult<Option<Explanation>> {
        let connection = self.get(py)?;
        Ok(py.detach(|| {
            let choice = connection.explain()?;
            Some(Explanation::of_choice(&connection.service(), &choice))
        }))
    }

    /// The receivers of a connection to several (`connect_all`), in the order in which they were added: who is there, and who
    /// is not any more. Of a connection with one peer there are none.
    #[getter]
    fn receivers(&self, py: Python<'_>) -> PyResult<Vec<Receiver>> {
        let connection = self.get(py)?;
        Ok(py.detach(|| connection.receivers()).into_iter().map(Receiver::new).collect())
    }

    /// Adds a receiver to a connection to several; what is sent from then on goes to it, too. One that is gone may be added
    /// again. Waits until it has accepted; other threads may send meanwhile.
    ///
    /// Raises what `connect_all` does.
    ///
    /// >>> import pinnace
    /// >>> listeners = [pinnace.listen("127.0.0.1:0") for _ in range(3)]
    /// >>> source = pinnace.connect_all([listener.address for listener in listeners[:2]])
    /// >>> source.add_receiver(listeners[2].address)
    /// >>> source.remove_receiver(listeners[0].address)
    /// >>> _ = source.send(b"ahoy, both")
    /// >>> bytes(listeners[2].accept(timeout=5).recv(timeout=5)), len(source.receivers)
    /// (b'ahoy, both', 2)
    fn add_receiver(&self, py: Python<'_>, peer: &Bound<'_, PyAny>) -> PyResult<()> {
        let peer = endpoint::address(peer)?;
        self.call(py, |connection| connection.add_receiver(&peer))
    }

    /// Removes the receiver with this address: it gets what was sent, within `linger` seconds, and then its connection ends;
    /// without the time for that, not in order. Waits for it.
    ///
    /// Raises `CannotError` if there is none; another error if it did not get everything.
    #[pyo3(signature = (peer, linger = 1.0))]
    fn remove_receiver(&self, py: Python<'_>, peer: &Bound<'_, PyAny>, linger: f64) -> PyResult<()> {
        let (address, linger) = removal(peer, linger)?;
        self.call(py, |connection| connection.remove_receiver(address, linger))
    }

    /// Waits until everything that was sent has arrived, at most `timeout` seconds; `None`: for ever.
    ///
    /// Raises `TimeoutError`; `LostError` if the connection has failed.
    #[pyo3(signature = (timeout = None))]
    fn flush(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let connection = self.get(py)?;
        wait::attempts(py, wait::timeout(timeout)?, |slice| connection.flush_timeout(slice))
    }

    /// Whether the peer is there, as far as is known; one that has been silent for two seconds is asked, and a later call tells.
    /// Waits for nothing. For whoever neither sends nor receives for long: whoever does finds out by that.
    ///
    /// Raises `LostError` if the peer has gone, has closed and takes nothing any more, or has broken off.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, |connection| connection.check())
    }

    /// A descriptor for `select` and event loops: readable when something may have come. Then `clear()` it, and take what
    /// is there with `recv(0)` until that raises `TimeoutError`. Not to be read from.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        self.call(py, |connection| connection.descriptor().map(|descriptor| descriptor.as_raw_fd()))
    }

    /// Makes the descriptor unreadable until something comes.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        let connection = self.get(py)?;
        py.detach(|| connection.clear());
        Ok(())
    }

    /// Ends what is sent: waits at most `linger` seconds for it to arrive, and tells the peer. What the peer sends can
    /// still be received. Raises an error if not everything has arrived, or nobody knows. After `TimeoutError` the end follows
    /// what was sent as long as the connection is there, and to close again is to wait again.
    #[pyo3(signature = (linger = 1.0))]
    fn close(&self, py: Python<'_>, linger: f64) -> PyResult<()> {
        let (connection, linger) = (self.get(py)?, wait::timeout(Some(linger))?);
        // To close again is to wait again.
        wait::attempts(py, linger, |slice| connection.close(slice))
    }

    /// Ends the connection at once, in both directions: what has not arrived is given up, and the peer, who could not know
    /// otherwise that something is missing, gets an exception behind what has come, and not `None`.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, |connection| {
            connection.abort();
            Ok(())
        })
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Received>> {
        self.recv(py, None)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    /// Closes; with an exception under way, which may have kept something from being sent, as `abort` does. Raises nothing:
    /// whoever wants to know calls `close`, or waits for a delivery.
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _error: Py<PyAny>,
        _traceback: Py<PyAny>,
    ) -> PyResult<()> {
        if !kind.is_none() {
            return self.abort(py);
        }
        let _ = self.call(py, |connection| connection.close(LINGER));
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("<pinnace.Connection with {} by {}>", self.peer(), self.method())
    }

    /// For `pinnace.aio`: the next message, or an operation that ends with it; in a tuple, if the other tasks have their turn
    /// first. The thread looks for it itself only if the loop is idle.
    fn _recv(&self, py: Python<'_>, reactor: &Bound<'_, Reactor>, is_idle: bool) -> PyResult<Py<PyAny>> {
        if let Some(look) = is_idle.then(|| self.luck.look()).flatten() {
            let connection = self.get(py)?;
            let begin = Instant::now();
            let result = buffer::detached(py, || connection.recv_timeout(look));
            let took = begin.elapsed();
            match result {
                Err(Error::Timeout) => self.luck.has_not(),
                result => {
                    let is_turn = self.luck.has(took);
                    let received = of_task(py, result)?;
                    return if is_turn { (received,).into_py_any(py) } else { Ok(received) };
                }
            }
        }
        let connection = Arc::clone(self.connection.get(py)?);
        let future = async move { Outcome::Received(connection.recv_async().await) };
        Operation::begin(py, reactor, future)
    }

    /// For `pinnace.aio`: waits until what was sent has arrived.
    fn _flush(&self, py: Python<'_>, reactor: &Bound<'_, Reactor>) -> PyResult<Py<PyAny>> {
        let connection = Arc::clone(self.connection.get(py)?);
        Operation::begin(py, reactor, async move { Outcome::Done(connection.flush_async().await) })
    }

    /// For `pinnace.aio`: ends what is sent.
    fn _close(&self, py: Python<'_>, reactor: &Bound<'_, Reactor>, linger: f64) -> PyResult<Py<PyAny>> {
        let (connection, linger) = (Arc::clone(self.connection.get(py)?), wait::timeout(Some(linger))?);
        let linger = linger.unwrap_or(Duration::MAX);
        Operation::begin(py, reactor, async move { Outcome::Done(connection.close_async(linger).await) })
    }

    /// For `pinnace.aio`: what `add_receiver` does.
    fn _add_receiver(
        &self,
        py: Python<'_>,
        reactor: &Bound<'_, Reactor>,
        peer: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        let (connection, peer) = (Arc::clone(self.connection.get(py)?), endpoint::address(peer)?);
        Operation::begin(py, reactor, on_a_thread(move || connection.add_receiver(&peer)))
    }

    /// For `pinnace.aio`: what `remove_receiver` does.
    fn _remove_receiver(
        &self,
        py: Python<'_>,
        reactor: &Bound<'_, Reactor>,
        peer: &Bound<'_, PyAny>,
        linger: f64,
    ) -> PyResult<Py<PyAny>> {
        let (connection, (address, linger)) = (Arc::clone(self.connection.get(py)?), removal(peer, linger)?);
        Operation::begin(py, reactor, on_a_thread(move || connection.remove_receiver(address, linger)))
    }

    /// For `pinnace.aio`: what `abort` does.
    fn _abort(&self, py: Python<'_>, reactor: &Bound<'_, Reactor>) -> PyResult<Py<PyAny>> {
        let connection = Arc::clone(self.connection.get(py)?);
        let abort = move || {
            connection.abort();
            Ok(())
        };
        Operation::begin(py, reactor, on_a_thread(abort))
    }

    /// For `pinnace.aio`: sends; without room in the method's queue, an operation that ends with what `send` returns.
    #[pyo3(signature = (reactor, buffers, overrides = None, is_one = true))]
    fn _send(
        &self,
        py: Python<'_>,
        reactor: &Bound<'_, Reactor>,
        buffers: &Bound<'_, PyAny>,
        overrides: Option<&Bound<'_, PyDict>>,
        is_one: bool,
    ) -> PyResult<Py<PyAny>> {
        let _give_back = GiveBack::at_the_end(py);
        let special = overrides.map(special).transpose()?;
        let message = if is_one { buffer::message(buffers)? } else { buffer::gather(buffers)? };
        let connection = self.get(py)?;
        let sent = buffer::detached(py, || match &special {
            None => connection.try_send(message),
            Some(special) => connection.try_send_with(message, special),
        });
        let message = match sent {
            Ok(delivery) => return Delivery::new(Shared::new(delivery)).into_py_any(py),
            Err(Unsent { message: Some(message), error }) if error.would_block() => message,
            Err(unsent) => return Err(errors::raise(py, &unsent.error)),
        };
        let connection = Arc::clone(self.connection.get(py)?);
        let future = async move {
            let sent = match &special {
                None => connection.send_async(message).await,
                Some(special) => connection.send_with_async(message, special).await,
            };
            Outcome::Sent(sent.map_err(Error::from))
        };
        Operation::begin(py, reactor, future)
    }
}

/// Which receiver is to be removed, and how long that may take.
fn removal(peer: &Bound<'_, PyAny>, linger: f64) -> PyResult<(SocketAddr, Duration)> {
    let linger = wait::timeout(Some(linger))?.unwrap_or(LINGER);
    let address = endpoint::address(peer)?;
    let wrong = |_| PyValueError::new_err(format!("`{address}` is no address of a receiver: an IP address and a port"));
    Ok((address.parse().map_err(wrong)?, linger))
}

/// What differs for one message.
fn special(overrides: &Bound<'_, PyDict>) -> PyResult<PerMessage> {
    let mut special = PerMessage::new();
    let (mut loss, mut contract, mut says_more) = (None, Contract::new().any_run(), false);
    for (name, value) in overrides {
        let name = name.cast::<PyString>()?.to_cow()?;
        let Some(text) = service::value_of(&name, &value)? else { continue };
        let wrong = |error: String| service::wrong(&value, &name, &error);
        match &*name {
            "loss" if text == "any" => loss = Some(1.0),
            "loss" => loss = Some(units::share(&text).map_err(wrong)?),
            "run" if text == "any" => {}
            "run" => contract = contract.run_bytes(units::bytes(&text).map_err(wrong)?),
            "floor" => contract = contract.adaptive_from_percent(units::share(&text).map_err(wrong)? * 100.0),
            "critical" => {
                for range in text.split(',') {
                    contract = contract.critical(units::byte_range(range).map_err(wrong)?);
                }
            }
            "deadline" => special = special.deadline(units::duration(&text).map_err(wrong)?),
            "lifespan" => special = special.lifespan(units::duration(&text).map_err(wrong)?),
            _ => {
                let allowed = "loss, run, critical, floor, deadline, lifespan";
                return Err(PyTypeError::new_err(format!("`{name}` cannot differ for one message; {allowed} can")));
            }
        }
        says_more |= matches!(&*name, "run" | "floor" | "critical");
    }
    match loss {
        None if says_more => Err(PyValueError::new_err("run, floor and critical need a loss beside them")),
        None => Ok(special),
        Some(0.0) => Ok(special.contract(Contract::reliable())),
        Some(share) => Ok(special.contract(contract.loss_percent(share * 100.0))),
    }
}

/// What a task has received.
pub(crate) fn of_task(py: Python<'_>, result: Result<Option<pinnace::Received>, Error>) -> PyResult<Py<PyAny>> {
    received(py, result.map_err(|error| errors::raise(py, &error))?)
}

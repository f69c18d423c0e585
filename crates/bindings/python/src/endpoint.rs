//! Where connections begin: `listen`, `connect` and `connect_all`.

use crate::connection::Connection;
use crate::process::Owned;
use crate::{buffer, errors, explain, service, wait};
use pinnace::a1::SlowSink;
use pinnace::link::FaultOptions;
use pinnace::service::Service;
use pinnace::{ConnectionError, Endpoint, EndpointOptions, Error, Idle, UnknownController};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// So soon is noticed that another thread has closed the listener.
const LOOK_FOR_CLOSE: Duration = Duration::from_millis(200);

/// Where to listen, or whom to reach: a text, or the pair of a host and a port.
pub(crate) fn address(address: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(text) = address.cast::<PyString>() {
        return Ok(text.to_cow()?.into_owned());
    }
    let wrong = "an address is a text, host:port, or the pair of a host and a port from 0 to 65535";
    let (host, port) = address.extract::<(String, u16)>().map_err(|_| PyTypeError::new_err(wrong))?;
    Ok(if host.contains(':') && !host.starts_with('[') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
}

/// Settings of an endpoint, of keywords.
pub(crate) fn options(keywords: Option<&Bound<'_, PyDict>>) -> PyResult<EndpointOptions> {
    let mut options = EndpointOptions::default();
    let (mut method, mut exclude) = (None, None);
    for (name, value) in keywords.into_iter().flatten() {
        match name.extract::<&str>()? {
            _ if value.is_none() => {}
            "method" => method = Some(value.extract::<String>()?),
            "exclude" => exclude = Some(value),
            "peer_timeout" => {
                let seconds: f64 = value.extract()?;
                if seconds <= 0.0 {
                    return Err(PyValueError::new_err(
                        "peer_timeout is the seconds until a silent peer counts as gone: more than 0",
                    ));
                }
                let timeout = wait::timeout(Some(seconds))?.unwrap_or(options.peer_timeout);
                options.peer_timeout = timeout.max(Duration::from_millis(1));
            }
            "connect_timeout" => options.connect_timeout = wait::timeout(Some(value.extract()?))?,
            "longest_message" => options.longest_message = explain::bytes(&value)?,
            "backlog" => {
                let wrong =
                    |_| PyValueError::new_err("backlog is how many may wait to be accepted: an integer, 0 or more");
                options.backlog = value.extract().map_err(wrong)?;
            }
            "idle" => options.idle = idle(&value)?,
            "congestion" => {
                let wrong = |error: UnknownController| PyValueError::new_err(error.to_string());
                options.congestion = Some(value.extract::<String>()?.parse().map_err(wrong)?);
            }
            "fault" => options.fault = Some(fault(&value)?),
            "slow_receiver" => options.slow_receiver = slow_receiver(&value)?,
            other => return Err(PyTypeError::new_err(format!("`{other}` is no setting: {SETTINGS}"))),
        }
    }
    options.selection = explain::selection(method.as_deref(), exclude.as_ref())?;
    Ok(options)
}

const SETTINGS: &str = "there are method, exclude, peer_timeout, connect_timeout, longest_message, backlog, idle, congestion, \
    slow_receiver and fault";

/// What is done about one receiver of several that holds up the others.
fn slow_receiver(value: &Bound<'_, PyAny>) -> PyResult<SlowSink> {
    if let Ok(text) = value.cast::<PyString>() {
        let wrong = || PyValueError::new_err("slow_receiver is \"skip\", \"wait\", or the seconds until it is cut off");
        return match &*text.to_cow()? {
            "skip" => Ok(SlowSink::Degrade),
            "wait" => Ok(SlowSink::Block),
            _ => Err(wrong()),
        };
    }
    Ok(wait::timeout(Some(value.extract()?))?.map_or(SlowSink::Block, |patience| SlowSink::Drop { patience }))
}

/// What goes wrong on purpose.
fn fault(value: &Bound<'_, PyAny>) -> PyResult<FaultOptions> {
    let mut fault = FaultOptions::default();
    for (name, value) in value.cast::<PyDict>().map_err(|_| PyTypeError::new_err("a fault is a dictionary"))? {
        let share = || -> PyResult<f64> {
            let share: f64 = value.extract()?;
            let wrong = || PyValueError::new_err(format!("{share} is no probability from 0 to 1"));
            if (0.0..=1.0).contains(&share) { Ok(share) } else { Err(wrong()) }
        };
        match name.extract::<&str>()? {
            "loss" => fault.loss = share()?,
            "duplication" => fault.duplication = share()?,
            "reordering" => fault.reordering = share()?,
            "corruption" => fault.corruption = share()?,
            "seed" => fault.seed = value.extract()?,
            other => {
                let allowed = "loss, duplication, reordering, corruption and seed";
                return Err(PyTypeError::new_err(format!("`{other}` is no fault: there are {allowed}")));
            }
        }
    }
    Ok(fault)
}

/// What a waiting thread does while nothing comes.
fn idle(value: &Bound<'_, PyAny>) -> PyResult<Idle> {
    match value.cast::<PyString>() {
        Ok(text) => match &*text.to_cow()? {
            "block" => Ok(Idle::Block),
            "spin" => Ok(Idle::Spin),
            "adaptive" => Ok(Idle::ADAPTIVE),
            _ => Err(PyValueError::new_err("idle is block, adaptive, spin, or the seconds to spin before blocking")),
        },
        Err(_) => Ok(wait::timeout(Some(value.extract()?))?.map_or(Idle::Block, |spin| Idle::Adaptive { spin })),
    }
}

/// Accepts connections: by `accept`, or in a `for` loop. For tasks there is `pinnace.aio.listen`.
///
/// >>> import pinnace
/// >>> with pinnace.listen("127.0.0.1:0") as listener:
/// ...     connection = pinnace.connect(listener.address)
/// ...     accepted = listener.accept(timeout=5)
/// >>> accepted.method == connection.method
/// True
#[pyclass(module = "pinnace", frozen, weakref)]
#[derive(Debug)]
pub(crate) struct Listener {
    /// `None` once it is closed.
    listener: Owned<Slot>,
    address: String,
}

impl Drop for Listener {
    fn drop(&mut self) {
        let listener = self.listener.take();
        // It waits for its thread.
        let dropped = Python::try_attach(|py| buffer::detached(py, || drop(listener)));
        debug_assert!(dropped.is_some(), "objects are dropped while there is an interpreter");
    }
}

impl Listener {
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<Arc<pinnace::Listener>> {
        open(self.listener.get(py)?).map_err(|error| errors::raise(py, &error))
    }
}

type Slot = Mutex<Option<Arc<pinnace::Listener>>>;

fn lock(slot: &Slot) -> MutexGuard<'_, Option<Arc<pinnace::Listener>>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The listener, unless it is closed.
fn open(slot: &Slot) -> Result<Arc<pinnace::Listener>, Error> {
    lock(slot).clone().ok_or_else(|| ConnectionError::ListenerClosed.into())
}

/// The next connection, within this time.
fn accept(slot: &Slot, within: Duration) -> Result<pinnace::Connection, Error> {
    let begin = Instant::now();
    loop {
        let left = within.saturating_sub(begin.elapsed());
        match open(slot)?.accept_timeout(left.min(LOOK_FOR_CLOSE))? {
            Some(connection) => return Ok(connection),
            None if left <= LOOK_FOR_CLOSE => return Err(Error::Timeout),
            None => {}
        }
    }
}

#[pymethods]
impl Listener {
    /// Waits for the next connection, at most `timeout` seconds; `None`: for ever.
    ///
    /// Raises `TimeoutError` if nobody has come, and `ClosedError` soon if another thread closes the listener.
    #[pyo3(signature = (timeout = None))]
    fn accept(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Connection> {
        let slot = self.listener.get(py)?;
        let accepted = wait::attempts(py, wait::timeout(timeout)?, |slice| accept(slot, slice));
        accepted.map(Connection::new)
    }

    /// Where it listens: `host:port`.
    #[getter]
    fn address(&self) -> &str {
        &self.address
    }

    /// The port where it listens.
    #[getter]
    fn port(&self) -> u16 {
        self.address.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(0)
    }

    /// A descriptor for event loops: readable while somebody waits to be accepted. Not to be read from.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        Ok(self.get(py)?.descriptor().as_raw_fd())
    }

    /// Accepts no more; connections that were accepted go on.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let listener = lock(self.listener.get(py)?).take();
        buffer::detached(py, || drop(listener));
        Ok(())
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Connection>> {
        let slot = self.listener.get(py)?;
        // Over is it if the listener is closed, also by another thread meanwhile; not if a signal handler has raised something.
        let accepted = wait::attempts(py, None, |slice| match accept(slot, slice) {
            Err(Error::Connection(why)) if matches!(*why, ConnectionError::ListenerClosed) => Ok(None),
            accepted => accepted.map(Some),
        });
        Ok(accepted?.map(Connection::new))
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(&self, py: Python<'_>, _kind: Py<PyAny>, _error: Py<PyAny>, _traceback: Py<PyAny>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!("<pinnace.Listener at {}>", self.address)
    }
}

/// Listens at `address`: `"host:port"` or `("host", port)`; port 0 picks a free one.
///
/// `service` is what is accepted at most: larger messages and higher rates are refused; what it does not say is not limited.
/// Settings: `method` (only this one), `exclude` (none of these), `peer_timeout` (seconds until a silent peer counts as gone, 10),
/// `longest_message` (bytes that are received at most, 1 GiB), `backlog` (who waits to be accepted at most, 128), `idle`
/// (what a waiting thread does: `"block"`, `"adaptive"`, `"spin"`, or the seconds to spin before it blocks), `congestion` (what
/// bounds the bytes in transit: `"fixed"`, `"cubic"`, `"bbr"`, or `"bbr:30%"` over a path that loses up to 30 % by itself), `fault`
/// (what goes wrong on purpose, to test a program under loss: `{"loss": 0.05, "duplication": 0.01, "reordering": 0.01}`).
///
/// >>> import pinnace
/// >>> listener = pinnace.listen(("127.0.0.1", 0), "largest=1MiB", peer_timeout=5)
/// >>> listener.address.startswith("127.0.0.1:")
/// True
#[pyfunction]
#[pyo3(signature = (address, service = None, **settings))]
pub(crate) fn listen(
    py: Python<'_>,
    address: &Bound<'_, PyAny>,
    service: Option<&Bound<'_, PyAny>>,
    settings: Option<&Bound<'_, PyDict>>,
) -> PyResult<Listener> {
    let (address, most, options) = (self::address(address)?, service::of(service)?, options(settings)?);
    let listener = py.detach(|| Endpoint::bind_with(address.as_str(), &options)?.listen(&most));
    let listener = listener.map_err(|error| errors::raise(py, &error))?;
    let address = listener.local_addr().to_string();
    Ok(Listener { listener: Owned::new(Mutex::new(Some(Arc::new(listener)))), address })
}

/// Whom to connect to, with what, and how.
pub(crate) fn target(
    peer: &Bound<'_, PyAny>,
    service: Option<&Bound<'_, PyAny>>,
    settings: Option<&Bound<'_, PyDict>>,
) -> PyResult<(String, Service, EndpointOptions)> {
    Ok((address(peer)?, service::of(service)?, options(settings)?))
}

/// Connects to whoever listens at `peer`: `"host:port"`, `("host", port)`, or a URI that says the service as well,
/// `"pinnace://host:port?loss=5%&run=4KiB"`. The cheapest method that meets the service carries the connection.
///
/// Settings are those of `listen`, and `connect_timeout` (the seconds that this call may take, names not counted; without it as
/// long as it takes, some 7 where nobody answers). Raises `NoAnswerError` if nobody answers, `UnmetError` if no method meets the service.
///
/// >>> import pinnace
/// >>> listener = pinnace.listen("127.0.0.1:0")
/// >>> connection = pinnace.connect(f"pinnace://{listener.address}?loss=5%&run=4KiB", method="vrp")
/// >>> connection.method, str(connection.service)
/// ('vrp', 'loss=5% run=4KiB')
#[pyfunction]
#[pyo3(signature = (peer, service = None, **settings))]
pub(crate) fn connect(
    py: Python<'_>,
    peer: &Bound<'_, PyAny>,
    service: Option<&Bound<'_, PyAny>>,
    settings: Option<&Bound<'_, PyDict>>,
) -> PyResult<Connection> {
    let (peer, service, options) = target(peer, service, settings)?;
    let endpoint = Endpoint::client_with(&options);
    wait::future(py, endpoint.connect_async(&peer, &service)).map(Connection::new)
}

/// To whom to connect at once, with what, and how.
pub(crate) fn targets(
    peers: &Bound<'_, PyAny>,
    service: Option<&Bound<'_, PyAny>>,
    settings: Option<&Bound<'_, PyDict>>,
) -> PyResult<(Vec<String>, Service, EndpointOptions)> {
    if peers.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err("several receivers are a list of addresses; of one, use connect"));
    }
    let peers = peers.try_iter()?.map(|peer| address(&peer?)).collect::<PyResult<_>>()?;
    Ok((peers, service::of(service)?, options(settings)?))
}

/// Connects to several receivers at once: what is sent goes to all of them. Each of `peers` is the address of an ordinary
/// listener, as of `connect`, which accepts an ordinary connection to receive from. Messages go one way, by A1.
///
/// The service says how many there are (`multicast=3`), and then so many have to be named; or through which IP multicast group
/// they may get the messages (`multicast="239.1.2.3:7000"`), where those that cannot join it get them one by one, as all do
/// without a group. One that says nothing is taken to mean those that are named.
///
/// A message is delivered when all that are there then have it. A receiver that dies, or is too slow, is cut off, and
/// `receivers` of the connection says so. Settings are those of `listen`, and `slow_receiver` (the seconds that one may hold up
/// the others before it is cut off, 2; `"skip"`: messages that it has no room for are left out for it; `"wait"`: it is waited
/// for).
///
/// Either all accept, or nobody is connected: raises what `connect` does, for the one that does not; `CannotError` if not as
/// many are named as the service says, or one is named twice.
///
/// >>> import pinnace
/// >>> listeners = [pinnace.listen("127.0.0.1:0") for _ in range(2)]
/// >>> source = pinnace.connect_all([listener.address for listener in listeners], "size=4KiB")
/// >>> receivers = [listener.accept(timeout=5) for listener in listeners]
/// >>> delivery = source.send(b"ahoy, all")
/// >>> [bytes(receiver.recv(timeout=5)) for receiver in receivers]
/// [b'ahoy, all', b'ahoy, all']
/// >>> delivery.wait(timeout=5).is_whole, [receiver.state for receiver in source.receivers]
/// (True, ['connected', 'connected'])
#[pyfunction]
#[pyo3(signature = (peers, service = None, **settings))]
pub(crate) fn connect_all(
    py: Python<'_>,
    peers: &Bound<'_, PyAny>,
    service: Option<&Bound<'_, PyAny>>,
    settings: Option<&Bound<'_, PyDict>>,
) -> PyResult<Connection> {
    let (peers, service, options) = targets(peers, service, settings)?;
    let endpoint = Endpoint::client_with(&options);
    wait::future(py, endpoint.connect_all_async(&peers, &service)).map(Connection::new)
}

//! Messages that were received, whose bytes Python reads where the library has put them.

use crate::buffer::{GiveBack, Lent};
use crate::errors;
use crate::process::Owned;
use pinnace::vrp;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PySlice};
use pyo3::{IntoPyObjectExt, ffi};
use std::ffi::c_int;
use std::fmt;
use std::ops::Range;
use std::ptr;

/// Half-open ranges as slices.
pub(crate) fn slices<'py>(py: Python<'py>, ranges: &[Range<usize>]) -> PyResult<Bound<'py, PyList>> {
    let slice = |range: &Range<usize>| PySlice::new(py, range.start as isize, range.end as isize, 1);
    PyList::new(py, ranges.iter().map(slice))
}

/// What was lost of a message in packets.
#[pyclass(module = "pinnace", frozen, get_all)]
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    /// Packets of the message.
    packets: u32,
    /// Packets that were lost, with permission.
    lost: u32,
    /// The share of them, 0 to 1.
    rate: f64,
    /// The longest run of them.
    longest_run: u32,
}

impl Loss {
    pub(crate) fn of(loss: &vrp::Loss) -> Self {
        Self { packets: loss.packets, lost: loss.lost, rate: loss.rate(), longest_run: loss.longest_run }
    }

    /// Whether nothing is.
    pub(crate) fn is_none(&self) -> bool {
        self.lost == 0
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packets, lost, longest_run, .. } = self;
        write!(f, "{lost} of {packets} packets lost, at most {longest_run} in a row")
    }
}

#[pymethods]
impl Loss {
    fn __repr__(&self) -> String {
        format!("<pinnace.Loss: {self}>")
    }
}

/// A message that was received.
///
/// It has the buffer protocol, so that `memoryview(received)`, `numpy.frombuffer(received, dtype)` and `file.write(received)`
/// read its bytes where they are, without a copy. `bytes(received)` is a copy. The memory goes back to the connection when
/// neither the message nor a view of it is left.
///
/// >>> import pinnace
/// >>> listener = pinnace.listen("127.0.0.1:0")
/// >>> with pinnace.connect(listener.address) as connection:
/// ...     _ = connection.send(b"ahoy, who goes there?")
/// ...     received = listener.accept().recv()
/// >>> len(received), received.is_whole, bytes(received[:4])
/// (21, True, b'ahoy')
/// >>> memoryview(received).obj is received
/// True
#[pyclass(module = "pinnace", frozen, weakref)]
#[derive(Debug)]
pub(crate) struct Received {
    received: Owned<pinnace::Received>,
    base: Base,
    len: usize,
}

/// Where the bytes are, in `received`, which nobody else touches.
#[derive(Debug)]
struct Base(*mut u8);

// SAFETY: it points into memory that its owner, beside it, may take to other threads; who reads and writes there is
// Python's to say, as with every buffer.
unsafe impl Send for Base {}
// SAFETY: as above.
unsafe impl Sync for Base {}

impl Received {
    pub(crate) fn new(mut received: pinnace::Received) -> Self {
        let (base, len) = (Base(received.as_mut_ptr()), received.len());
        Self { received: Owned::new(received), base, len }
    }
}

#[pymethods]
impl Received {
    /// What is missing, with permission: a list of slices in rising order, which do not touch. These bytes read as zeros.
    #[getter]
    fn holes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        slices(py, self.received.seen().holes())
    }

    /// Whether nothing is missing.
    #[getter]
    fn is_whole(&self) -> bool {
        self.received.seen().is_whole()
    }

    /// How many bytes are missing.
    #[getter]
    fn bytes_lost(&self) -> usize {
        self.received.seen().bytes_lost()
    }

    /// How many messages before this one were not waited for any longer: they had been overtaken for as long as the service's
    /// lifespan or deadline, or half a minute where it says neither, or until their sender has given them up. Each of them comes
    /// later (`is_late`), or was given up by its sender.
    #[getter]
    fn missed(&self) -> u64 {
        self.received.seen().missed()
    }

    /// Whether it comes behind messages that were sent after it, although the service wants order.
    #[getter]
    fn is_late(&self) -> bool {
        self.received.seen().is_late()
    }

    /// What is missing in packets, of methods that count so; otherwise `None`.
    #[getter]
    fn loss(&self) -> Option<Loss> {
        self.received.seen().loss().map(Loss::of)
    }

    /// A memoryview of the bytes.
    #[getter]
    fn data<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Ok(pyo3::types::PyMemoryView::from(slf.as_any())?.into_any())
    }

    /// For `pinnace.aio`: raises what `recv_into` does if nothing can be received into this.
    #[staticmethod]
    fn _check_into(buffer: &Bound<'_, PyAny>) -> PyResult<()> {
        let _give_back = GiveBack::at_the_end(buffer.py());
        Lent::writable(buffer).map(drop)
    }

    /// For `pinnace.aio`: the bytes into memory of the program's, and what `recv_into` says of it.
    fn _into(&self, buffer: &Bound<'_, PyAny>) -> PyResult<ReceivedInto> {
        let _give_back = GiveBack::at_the_end(buffer.py());
        let lent = Lent::writable(buffer)?;
        let (len, most) = (self.len, lent.len());
        if len > most {
            let says = format!("the message has {len} bytes, and there is room for {most}");
            return Err(errors::too_long(buffer.py(), says, most as u64));
        }
        // SAFETY: both have so many bytes, `lent` until it is dropped, and this thread has the interpreter, so nobody else of
        // Python's writes there. The memory may be the message's own.
        unsafe { ptr::copy(self.base.0, lent.base(), len) };
        Ok(ReceivedInto(self.received.seen().told()))
    }

    fn __len__(&self) -> usize {
        self.len
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.received.seen())
    }

    /// A byte, or, of a slice, a memoryview.
    fn __getitem__<'py>(slf: &Bound<'py, Self>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Self::data(slf)?.get_item(index)
    }

    /// Whether the bytes are those of another object with the buffer protocol.
    fn __eq__<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Self::data(slf)?.rich_compare(other, pyo3::basic::CompareOp::Eq)
    }

    fn __repr__(&self) -> String {
        match self.received.seen().holes().len() {
            0 => format!("<pinnace.Received: {} bytes>", self.len),
            1 => format!("<pinnace.Received: {} bytes, a hole of {}>", self.len, self.received.seen().bytes_lost()),
            holes => format!(
                "<pinnace.Received: {} bytes, {holes} holes of {}>",
                self.len,
                self.received.seen().bytes_lost()
            ),
        }
    }

    unsafe fn __getbuffer__(slf: &Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view to fill"));
        }
        let (base, len) = (slf.get().base.0.cast(), slf.get().len as ffi::Py_ssize_t);
        // SAFETY: the memory is the object's, which the view keeps alive, and does not move; the view is the caller's.
        match unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), base, len, 0, flags) } {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}

/// What was received into memory of the program's.
///
/// >>> import pinnace
/// >>> listener = pinnace.listen("127.0.0.1:0")
/// >>> buffer = bytearray(100)
/// >>> with pinnace.connect(listener.address) as connection:
/// ...     _ = connection.send(b"ahoy")
/// ...     received = listener.accept().recv_into(buffer)
/// >>> received.bytes, received.holes, buffer[:received.bytes]
/// (4, [], bytearray(b'ahoy'))
#[pyclass(module = "pinnace", frozen)]
#[derive(Debug)]
pub(crate) struct ReceivedInto(pinnace::ReceivedInto);

impl ReceivedInto {
    pub(crate) fn new(received: pinnace::ReceivedInto) -> Self {
        Self(received)
    }
}

#[pymethods]
impl ReceivedInto {
    /// How many bytes the message has.
    #[getter]
    fn bytes(&self) -> usize {
        self.0.len
    }

    /// What is missing of it, with permission: a list of slices. These bytes read as zeros.
    #[getter]
    fn holes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        slices(py, &self.0.holes)
    }

    /// Whether nothing is missing.
    #[getter]
    fn is_whole(&self) -> bool {
        self.0.holes.is_empty()
    }

    /// As `Received.missed`.
    #[getter]
    fn missed(&self) -> u64 {
        self.0.missed
    }

    /// As `Received.is_late`.
    #[getter]
    fn is_late(&self) -> bool {
        self.0.is_late
    }

    fn __repr__(&self) -> String {
        format!("<pinnace.ReceivedInto: {} bytes, {} holes>", self.0.len, self.0.holes.len())
    }
}

/// What was received, or `None` at the end.
pub(crate) fn received(py: Python<'_>, received: Option<pinnace::Received>) -> PyResult<Py<PyAny>> {
    match received {
        None => Ok(py.None()),
        Some(received) => Received::new(received).into_py_any(py),
    }
}

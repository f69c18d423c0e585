//! Memory of Python objects, lent to the library.
//!
//! Always true: an object whose memory was lent lives, and does not change its size, until it is given back; giving it back
//! takes the interpreter, which the threads of the library never wait for: what they have finished with is queued, and the
//! interpreter asked to call us when it can (`Py_AddPendingCall`).

use pinnace::Message;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes};
use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Up to here a copy costs less than lending and giving back.
const MOST_COPIED: usize = 4 << 10;

/// What is to be given back; null: nothing yet, in this process.
static FINISHED: AtomicPtr<Mutex<Vec<View>>> = AtomicPtr::new(ptr::null_mut());
/// Whether there is something, so that a look costs nothing.
static HAS_FINISHED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether this thread is about to have the interpreter again, and will give back what it finds.
    static RETURNS: Cell<bool> = const { Cell::new(false) };
}

fn finished() -> MutexGuard<'static, Vec<View>> {
    let mut known = FINISHED.load(Ordering::Acquire);
    if known.is_null() {
        let fresh = Box::into_raw(Box::default());
        known = match FINISHED.compare_exchange(known, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => fresh,
            Err(other) => {
                // SAFETY: made above, and nobody has seen it.
                drop(unsafe { Box::from_raw(fresh) });
                other
            }
        };
    }
    // SAFETY: what was stored there is never freed.
    unsafe { &*known }.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A child made by `fork` begins with nothing to give back: a thread of its parent's may have had the lock.
pub(crate) fn begin_in_child() {
    FINISHED.store(ptr::null_mut(), Ordering::Release);
}

/// A view of the bytes of an object, in one piece; dropped by whoever has the interpreter.
struct View(Box<ffi::Py_buffer>);

// SAFETY: the bytes, of which the object changes neither place nor number as long as there is a view, may be read and written by
// any thread; when, is the program's to say. The view is released with the interpreter.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl View {
    fn of(object: &Bound<'_, PyAny>, flags: c_int) -> PyResult<Self> {
        let mut view = Box::new(ffi::Py_buffer::new());
        // SAFETY: both are there for the call, and this thread has the interpreter; the view does not move afterwards.
        match unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, flags) } {
            0 => Ok(Self(view)),
            _ => Err(PyErr::fetch(object.py())),
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: it was filled, and is released once, by a thread that has the interpreter.
        unsafe { ffi::PyBuffer_Release(&raw mut *self.0) };
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("bytes", &self.0.len).finish_non_exhaustive()
    }
}

/// The bytes of an object, in one piece.
#[derive(Debug)]
pub(crate) struct Lent(ManuallyDrop<View>);

impl Lent {
    /// The bytes of whatever has the buffer protocol.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let view = View::of(object, ffi::PyBUF_SIMPLE).map_err(|error| {
            let py = object.py();
            let may_be = error.is_instance_of::<PyBufferError>(py) || error.is_instance_of::<PyValueError>(py);
            // Others say what is wrong themselves: that a view was released.
            if !may_be || !error.to_string().contains("contiguous") {
                return error;
            }
            let why =
                "the bytes do not lie in one piece, in the order of C: make a copy (numpy.ascontiguousarray, bytes)";
            PyBufferError::new_err(format!("{why}; {error}"))
        });
        let lent = Self(ManuallyDrop::new(view?));
        if holds_objects(object) {
            let why = "the memory holds Python objects, whose addresses mean nothing elsewhere: convert it (numpy.array(..., dtype=float), pickle)";
            return Err(PyTypeError::new_err(why));
        }
        Ok(lent)
    }

    /// The same, of what can be written to.
    pub(crate) fn writable(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let lent = Self::of(object)?;
        if lent.0.0.readonly != 0 {
            return Err(PyTypeError::new_err("the memory cannot be written to: use a bytearray, or a writable array"));
        }
        Ok(lent)
    }

    /// Where the bytes are.
    pub(crate) fn base(&self) -> *mut u8 {
        self.0.0.buf.cast()
    }

    /// How many they are.
    pub(crate) fn len(&self) -> usize {
        self.0.0.len as usize
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // SAFETY: taken once, here, and not used afterwards.
        let buffer = unsafe { ManuallyDrop::take(&mut self.0) };
        // SAFETY: takes nothing and may be called by any thread.
        if unsafe { ffi::Py_IsInitialized() } == 0 {
            // The interpreter has ended, and so has the object.
            std::mem::forget(buffer);
            return;
        }
        finished().push(buffer);
        if !HAS_FINISHED.swap(true, Ordering::AcqRel) && !RETURNS.get() {
            // SAFETY: the function fits the call, and needs no argument. If there is no room for it, the next call of ours
            // does the same.
            unsafe { ffi::Py_AddPendingCall(Some(on_pending), ptr::null_mut()) };
        }
    }
}

/// Whether what has the buffer protocol is an array of Python objects (numpy's `dtype=object`, `ctypes.py_object`), or of structures
/// with some.
fn holds_objects(object: &Bound<'_, PyAny>) -> bool {
    if object.is_exact_instance_of::<PyBytes>() || object.is_exact_instance_of::<PyByteArray>() {
        return false;
    }
    // Who cannot tell (numpy of dates) has none.
    let Ok(view) = View::of(object, ffi::PyBUF_ND | ffi::PyBUF_FORMAT) else { return false };
    if view.0.format.is_null() {
        return false;
    }
    // SAFETY: a text of the exporter's, which is there as long as the view.
    let format = unsafe { CStr::from_ptr(view.0.format) };
    // The names of fields stand between colons.
    format.to_bytes().split(|byte| *byte == b':').step_by(2).any(|part| part.contains(&b'O'))
}

/// Works without the interpreter, and gives back what was finished with meanwhile.
pub(crate) fn detached<R: Send>(py: Python<'_>, work: impl FnOnce() -> R + Send) -> R {
    let result = py.detach(|| {
        RETURNS.set(true);
        let result = work();
        RETURNS.set(false);
        result
    });
    give_back(py);
    result
}

/// Called by the interpreter's main thread, when it can.
extern "C" fn on_pending(_: *mut c_void) -> c_int {
    Python::attach(give_back);
    0
}

/// Gives back what the library has finished with.
pub(crate) fn give_back(_: Python<'_>) {
    if HAS_FINISHED.load(Ordering::Acquire) && HAS_FINISHED.swap(false, Ordering::AcqRel) {
        let finished = std::mem::take(&mut *finished());
        drop(finished);
    }
}

/// Gives back at the end of a call what is finished with by then, however the call ends. Made before what it is to outlive.
pub(crate) struct GiveBack<'py>(Python<'py>);

impl<'py> GiveBack<'py> {
    pub(crate) fn at_the_end(py: Python<'py>) -> Self {
        Self(py)
    }
}

impl Drop for GiveBack<'_> {
    fn drop(&mut self) {
        give_back(self.0);
    }
}

/// A message of the bytes of an object. They are copied if they are few, and lent otherwise.
pub(crate) fn message(object: &Bound<'_, PyAny>) -> PyResult<Message> {
    give_back(object.py());
    if let Ok(bytes) = object.cast_exact::<PyBytes>()
        && let bytes = bytes.as_bytes()
        && bytes.len() <= MOST_COPIED
    {
        return Ok(Message::from_vec(bytes.to_vec()));
    }
    let lent = Lent::of(object)?;
    let (base, len) = (lent.base(), lent.len());
    if len <= MOST_COPIED {
        let mut copy = Vec::with_capacity(len);
        if len > 0 {
            // SAFETY: the buffer has so many bytes, and this thread has the interpreter, so nobody changes its size; the
            // vector has room for them.
            unsafe {
                ptr::copy_nonoverlapping(base, copy.as_mut_ptr(), len);
                copy.set_len(len);
            }
        }
        return Ok(Message::from_vec(copy));
    }
    // SAFETY: the memory is there until `lent` is dropped. What is sent is only read by the library; that the program does
    // not write to it meanwhile is what its documentation asks for, and if it does, other bytes are sent.
    Ok(unsafe { Message::from_owner(lent, base, len) })
}

/// One message of the bytes of several objects, sent from where they lie.
pub(crate) fn gather(objects: &Bound<'_, PyAny>) -> PyResult<Message> {
    if objects.is_instance_of::<PyBytes>() || objects.is_instance_of::<PyByteArray>() {
        return Err(PyTypeError::new_err("sendmsg takes several buffers, as in a list: send takes one"));
    }
    let messages: PyResult<Vec<_>> = objects.try_iter()?.map(|object| message(&object?)).collect();
    Ok(Message::gather(messages?))
}

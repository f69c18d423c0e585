//! Errors of the library as exceptions of `pinnace.errors`.

use pinnace::service::Malformed;
use pinnace::{ConnectionError, Error, vrp, zcrp};
use pyo3::call::PyCallArgs;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyModule;

/// The module that defines them.
static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

/// An exception of this class, made of these arguments, with these attributes.
fn exception<'py>(
    py: Python<'py>,
    class: &str,
    arguments: impl PyCallArgs<'py>,
    attributes: &[(&str, Py<PyAny>)],
) -> PyErr {
    let make = || -> PyResult<PyErr> {
        let module = MODULE.get_or_try_init(py, || py.import("pinnace.errors").map(Bound::unbind))?.bind(py);
        let exception = module.getattr(class)?.call1(arguments)?;
        for (name, value) in attributes {
            exception.setattr(*name, value)?;
        }
        Ok(PyErr::from_value(exception))
    };
    make().unwrap_or_else(|error| error)
}

fn text(py: Python<'_>, text: &str) -> Py<PyAny> {
    text.into_pyobject(py).map_or_else(|_| py.None(), |text| text.into_any().unbind())
}

/// Why a text is no service.
pub(crate) fn malformed(py: Python<'_>, malformed: &Malformed) -> PyErr {
    let Malformed { word, problem, allowed, near } = malformed;
    let near = near.as_ref().map_or_else(|| py.None(), |near| text(py, near));
    let attributes =
        [("word", text(py, word)), ("problem", text(py, problem)), ("allowed", text(py, allowed)), ("near", near)];
    exception(py, "ServiceError", (malformed.to_string(),), &attributes)
}

/// The exception of whoever has room for `most` bytes, and not for the message.
pub(crate) fn too_long(py: Python<'_>, says: String, most: u64) -> PyErr {
    let most = most.into_pyobject(py).map_or_else(|_| py.None(), |most| most.into_any().unbind());
    exception(py, "MessageTooLongError", (says,), &[("most", most)])
}

/// The exception of whoever uses what its parent had before it was forked.
pub(crate) fn of_another_process(py: Python<'_>) -> PyErr {
    let says = "this belongs to the process that this one was forked from: connect, or listen, in this one";
    exception(py, "ClosedError", (says,), &[])
}

/// The exception of an error.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let says = error.to_string();
    let plain = |class: &str| exception(py, class, (says.as_str(),), &[]);
    match error.deciding() {
        Error::Io { source, .. } | Error::Listen { source, .. } => match source.raw_os_error() {
            Some(number) => exception(py, "OSError", (number, says), &[]),
            None => plain("OSError"),
        },
        Error::Timeout => plain("TimeoutError"),
        Error::NoResponse => plain("NoResponseError"),
        Error::NoMemory(_) => plain("NoMemoryError"),
        &Error::MessageTooLong(most) => too_long(py, says, most),
        Error::Connection(error) => match &**error {
            ConnectionError::Malformed(why) => malformed(py, why),
            ConnectionError::ServiceTooLong { .. } => plain("ServiceError"),
            &ConnectionError::MessageTooLong { most, .. } => too_long(py, says, most),
            ConnectionError::Unmet { .. } => plain("UnmetError"),
            ConnectionError::NoAnswer { .. } => plain("NoAnswerError"),
            ConnectionError::Refused { .. } => plain("RefusedError"),
            ConnectionError::Unreached { .. } => plain("UnreachedError"),
            ConnectionError::Cannot { .. } | ConnectionError::Unsuited(_) => plain("CannotError"),
            ConnectionError::Closed | ConnectionError::ListenerClosed => plain("ClosedError"),
            ConnectionError::Undelivered { .. } | ConnectionError::Full { .. } => plain("DeliveryError"),
            _ => plain("LostError"),
        },
        Error::Failed(_)
        | Error::ContextFailed(_)
        | Error::ConnectionFailed(_)
        | Error::Endpoint(_)
        | Error::Refused(zcrp::Refused::Closed(_))
        | Error::FrameFailed(vrp::Failure::PeerGone) => plain("LostError"),
        Error::FrameFailed(_)
        | Error::FrameRefused(_)
        | Error::Refused(_)
        | Error::ContextRefused(_)
        | Error::CallRefused(_)
        | Error::WindowFull(_)
        | Error::TooLarge
        | Error::ReadOnly => plain("DeliveryError"),
        _ => plain("Error"),
    }
}

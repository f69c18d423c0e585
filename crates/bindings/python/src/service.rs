//! What a program needs, as Python says it: a text, or keywords.
//!
//! Always true: a keyword and the word of the text that it stands for mean the same; the library reads the words.

use crate::errors;
use pinnace::service::{Malformed, PROPERTIES, Uri};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDelta, PyDict, PyFloat, PyInt, PySlice, PyString, PyTuple};
use std::hash::{DefaultHasher, Hash, Hasher};

/// What a program needs of its messages' way.
///
/// It is said as a text, `Service("loss=5% run=4KiB")`, or by keywords, or both; what is not said is not demanded, save that
/// messages arrive whole and in order. Sizes are bytes (`4096`, `"4KiB"`), times seconds (`0.05`, `"50ms"`, a
/// `datetime.timedelta`), rates bits a second (`200e6`, `"200mbit"`), shares numbers from 0 to 1 (`0.05`, `"5%"`).
///
/// | keyword | meaning |
/// |---|---|
/// | `loss`, `run`, `critical`, `floor` | how much of a message may be lost, how much of it in a row, which bytes not (`[slice(0, 1024)]`), how much without congestion |
/// | `size`, `largest` | bytes of a typical and of the largest message |
/// | `deadline`, `lifespan` | when a message is of no use any more, and when the sender drops it |
/// | `rate`, `burst` | what is sent on average, and what may leave at once |
/// | `priority` | which of the connections that share a socket goes first: 0 to 255 |
/// | `direction` | `"one-way"` (the default) or `"duplex"` |
/// | `pattern` | `"messages"`, `"stream"` or `"transaction"` |
/// | `order`, `in_place` | whether order is kept, and whether memory must not be copied |
/// | `checksum`, `prefer` | `"none"` or `"internet"`; `"latency"` or `"throughput"` |
/// | `multicast` | to how many, or to which group |
/// | `path` | `"host"`, `"cluster"` or `"internet"`, where the addresses do not say it |
///
/// >>> from pinnace import Service
/// >>> camera = Service(loss=0.05, run="4KiB", critical=[slice(0, 1024)], deadline=0.08, rate=200e6)
/// >>> camera
/// Service('loss=5% run=4KiB critical=0..1KiB deadline=80ms rate=200mbit')
/// >>> camera == Service("loss=5% run=4KiB critical=0..1KiB rate=200mbit deadline=80ms")
/// True
/// >>> camera.replace(deadline=None, loss="1%").words
/// {'loss': '1%', 'run': '4KiB', 'critical': '0..1KiB', 'rate': '200mbit'}
/// >>> Service("los=5%")
/// Traceback (most recent call last):
///     ...
/// pinnace.errors.ServiceError: `los=5%`: is no property of a service; did you mean `loss=5%`? (allowed: ...)
#[pyclass(module = "pinnace", frozen)]
#[derive(Debug)]
pub(crate) struct Service(pub(crate) pinnace::service::Service);

#[pymethods]
impl Service {
    #[new]
    #[pyo3(signature = (text = "", /, **words))]
    fn new(py: Python<'_>, text: &str, words: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut said = text.to_owned();
        for (name, value) in words.into_iter().flatten() {
            if let Some(value) = value_of(&name.cast::<PyString>()?.to_cow()?, &value)? {
                said.push(' ');
                said.push_str(&word_of(&name)?);
                said.push('=');
                said.push_str(&value);
            }
        }
        Self::read(py, &said)
    }

    /// The same service with other words; a word that is `None` is not said.
    #[pyo3(signature = (**words))]
    fn replace(&self, py: Python<'_>, words: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut said = self.pairs();
        for (name, value) in words.into_iter().flatten() {
            let word = word_of(&name)?;
            said.retain(|(name, _)| *name != word);
            if let Some(value) = value_of(&name.cast::<PyString>()?.to_cow()?, &value)? {
                said.push((word, value));
            }
        }
        let said: Vec<String> = said.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        Self::read(py, &said.join(" "))
    }

    /// The words of it, as a dictionary of texts.
    #[getter]
    fn words<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let words = PyDict::new(py);
        for (name, value) in self.pairs() {
            words.set_item(name, value)?;
        }
        Ok(words)
    }

    /// The service of a TOML table, a line a word: `loss = "5%"`.
    #[staticmethod]
    fn from_toml(py: Python<'_>, text: &str) -> PyResult<Self> {
        pinnace::service::Service::from_toml(text).map(Self).map_err(|error| errors::malformed(py, &error))
    }

    /// It as a TOML table.
    fn to_toml(&self) -> String {
        self.0.to_toml()
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("Service('{}')", self.0)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().0 == self.0)
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.0.to_string().hash(&mut hasher);
        hasher.finish()
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((slf.get_type().into_any(), (slf.get().0.to_string(),)))
    }
}

impl Service {
    fn read(py: Python<'_>, text: &str) -> PyResult<Self> {
        text.parse().map(Self).map_err(|error| errors::malformed(py, &error))
    }

    /// What is said of it, in order.
    fn pairs(&self) -> Vec<(String, String)> {
        let text = self.0.to_string();
        let words = text.split_whitespace().filter_map(|word| word.split_once('='));
        words.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

/// The service that an argument means: `None`, a text, a dictionary of words, or a [`Service`].
pub(crate) fn of(argument: Option<&Bound<'_, PyAny>>) -> PyResult<pinnace::service::Service> {
    let Some(argument) = argument else { return Ok(pinnace::service::Service::new()) };
    let py = argument.py();
    if let Ok(service) = argument.cast::<Service>() {
        return Ok(service.get().0.clone());
    }
    if let Ok(words) = argument.cast::<PyDict>() {
        return Ok(Service::new(py, "", Some(words))?.0);
    }
    let text = argument.cast::<PyString>().map_err(|_| PyTypeError::new_err("a service is a Service or a text"))?;
    let text = text.to_cow()?;
    if Uri::is_meant(&text) {
        let uri: Uri = text.parse().map_err(|error| errors::malformed(py, &error))?;
        return Ok(uri.service);
    }
    Ok(Service::read(py, &text)?.0)
}

/// Python's `in_place` is the word `in-place`.
fn word_of(name: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(name.cast::<PyString>()?.to_cow()?.replace('_', "-"))
}

/// A value as the text has it; `None`: not said.
pub(crate) fn value_of(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if value.is_none() {
        return Ok(None);
    }
    let text = match name {
        _ if value.is_instance_of::<PyString>() => value.to_string(),
        "order" | "in_place" if value.is_instance_of::<PyBool>() => {
            if value.is_truthy()? { "yes" } else { "no" }.to_owned()
        }
        "deadline" | "lifespan" => seconds(name, value)?,
        "loss" | "floor" => share(name, value)?,
        "rate" => format!("{:.0}bit", value.extract::<f64>()?),
        "critical" => critical(value)?,
        _ if value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>() => value.to_string(),
        _ if value.is_instance_of::<PyFloat>() && value.extract::<f64>()?.fract() == 0.0 => {
            format!("{:.0}", value.extract::<f64>()?)
        }
        _ => {
            let property = PROPERTIES.iter().find(|property| property.name == name);
            let allowed = property.map_or("a text", |property| property.allowed);
            return Err(PyTypeError::new_err(format!("{name}={} is not understood: {allowed}", value.repr()?)));
        }
    };
    // Texts of a service have white space between the words.
    let text: String = text.split_whitespace().collect();
    if text.is_empty() {
        return Err(wrong(value, name, "has no value"));
    }
    Ok(Some(text))
}

/// Why a value is none of a word's.
pub(crate) fn wrong(value: &Bound<'_, PyAny>, name: &str, problem: &str) -> PyErr {
    let property = PROPERTIES.iter().find(|property| property.name == name);
    let said = value.repr().map_or_else(|_| String::new(), |said| said.to_string());
    let allowed = property.map_or("", |property| property.allowed).to_owned();
    let malformed = Malformed { word: format!("{name}={said}"), problem: problem.to_owned(), allowed, near: None };
    errors::malformed(value.py(), &malformed)
}

/// `0.05` as `5%`.
fn share(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    let share: f64 = value.extract()?;
    if !(0.0..=1.0).contains(&share) {
        return Err(wrong(value, name, "is no share from 0 to 1; a text may say \"5%\""));
    }
    Ok(format!("{}%", share * 100.0))
}

/// `0.05`, or a timedelta, in nanoseconds.
fn seconds(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    let seconds: f64 = match value.cast::<PyDelta>() {
        Ok(delta) => delta.call_method0("total_seconds")?.extract()?,
        Err(_) => value.extract()?,
    };
    if !(0.0..=8.64e6).contains(&seconds) {
        return Err(wrong(value, name, "is no time of at most a hundred days, in seconds"));
    }
    Ok(format!("{:.0}ns", seconds * 1e9))
}

/// Slices, ranges or pairs as `0..1024,2048..4096`.
fn critical(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let one = |value: &Bound<'_, PyAny>| -> PyResult<String> {
        let ends = |low: Bound<'_, PyAny>, high: Bound<'_, PyAny>| -> PyResult<String> {
            // How long a message will be is not known, so nothing is counted from its end.
            if high.is_none() {
                return Err(wrong(value, "critical", "has no end"));
            }
            let at = |end: Bound<'_, PyAny>| match end.extract::<u64>() {
                Err(_) if end.is_instance_of::<PyInt>() => {
                    Err(wrong(value, "critical", "lies before the first byte, or behind any"))
                }
                at => at,
            };
            let low = if low.is_none() { 0 } else { at(low)? };
            Ok(format!("{low}..{}", at(high)?))
        };
        if let Ok(pair) = value.cast::<PyTuple>() {
            let (low, high) = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
            return ends(low, high);
        }
        if value.is_instance_of::<PyString>() {
            return Ok(value.to_string());
        }
        let step = value.getattr("step")?;
        if !step.is_none() && step.extract::<i64>()? != 1 {
            return Err(wrong(value, "critical", "has a step"));
        }
        ends(value.getattr("start")?, value.getattr("stop")?)
    };
    if value.is_instance_of::<PySlice>() || value.hasattr("start")? {
        return one(value);
    }
    let ranges: Vec<String> = value.try_iter()?.map(|range| one(&range?)).collect::<PyResult<_>>()?;
    Ok(ranges.join(","))
}

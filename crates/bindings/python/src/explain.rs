//! Why a method carries a service.

use crate::errors;
use crate::service::{self, Service};
use pinnace::service::{Choice, Method, Path, Selection, Uri, choose, units, what_would_change};
use pinnace::{ConnectionError, Error};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::fmt::Write;
use std::net::ToSocketAddrs;

/// What a typical message costs by a method, in microseconds.
#[pyclass(module = "pinnace", frozen, get_all)]
#[derive(Clone, Debug)]
pub(crate) struct Cost {
    /// All of it: what methods are compared by.
    total: f64,
    /// The share of setting up the connection.
    set_up: f64,
    /// The work of both ends.
    work: f64,
    /// The bits at the path's rate.
    wire: f64,
    /// Getting there.
    travel: f64,
    /// What is expected to be sent again.
    repetition: f64,
    /// Behind others.
    wait: f64,
}

#[pymethods]
impl Cost {
    fn __repr__(&self) -> String {
        format!("<pinnace.Cost: {:.1} us>", self.total)
    }
}

/// What a method answers: whether it fits, what it costs, and why.
#[pyclass(module = "pinnace", frozen, get_all)]
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    /// Whose answer it is: `"zcrp"`.
    method: &'static str,
    /// How it would be used.
    mode: &'static str,
    /// Whether it meets the service on this path.
    fits: bool,
    /// What a typical message costs; also if it does not fit.
    cost: Cost,
    /// Short sentences: what could not be met, if it does not fit, and otherwise how it is.
    why: Vec<String>,
}

impl Offer {
    fn of(offer: &pinnace::service::Offer) -> Self {
        let cost = &offer.cost;
        let total = cost.total();
        let &pinnace::service::Cost { set_up, work, wire, travel, repetition, wait, .. } = cost;
        Self {
            method: offer.method.name(),
            mode: offer.mode.name(),
            fits: offer.fits,
            cost: Cost { total, set_up, work, wire, travel, repetition, wait },
            why: offer.why.clone(),
        }
    }
}

#[pymethods]
impl Offer {
    fn __repr__(&self) -> String {
        let Self { method, mode, fits, cost, .. } = self;
        match fits {
            true => format!("<pinnace.Offer: {method} ({mode}), {:.1} us>", cost.total),
            false => format!("<pinnace.Offer: {method} does not fit>"),
        }
    }
}

/// Which method carries a service, what all of them answered, and what would change the choice. `print` shows it as a table.
#[pyclass(module = "pinnace", frozen)]
#[derive(Debug)]
pub(crate) struct Explanation {
    service: String,
    choice: Option<&'static str>,
    offers: Vec<Offer>,
    changes: Vec<(String, Option<&'static str>)>,
}

impl Explanation {
    /// Of the method that was chosen.
    pub(crate) fn of_choice(service: &pinnace::service::Service, choice: &Choice) -> Self {
        let offers = std::iter::once(&choice.offer).chain(&choice.others).map(Offer::of).collect();
        Self { service: service.to_string(), choice: Some(choice.offer.method.name()), offers, changes: Vec::new() }
    }
}

#[pymethods]
impl Explanation {
    /// The service.
    #[getter]
    fn service(&self, py: Python<'_>) -> PyResult<Service> {
        self.service.parse().map(Service).map_err(|error| errors::malformed(py, &error))
    }

    /// The method that is taken, `"vrp"`; `None` if none fits.
    #[getter]
    fn choice(&self) -> Option<&'static str> {
        self.choice
    }

    /// What each method answered: the chosen one first, then those that fit, by their cost.
    #[getter]
    fn offers(&self) -> Vec<Offer> {
        self.offers.clone()
    }

    /// What would change the choice: pairs of a change (`"order=no"`) and the method that would be taken, or `None`.
    #[getter]
    fn changes(&self) -> Vec<(String, Option<&'static str>)> {
        self.changes.clone()
    }

    fn __str__(&self) -> String {
        let mut table = String::new();
        for offer in &self.offers {
            let sign = if self.choice == Some(offer.method) { '>' } else { ' ' };
            let cost = if offer.fits { format!("{:.1} us  {}", offer.cost.total, offer.mode) } else { "no".to_owned() };
            let _ = writeln!(table, "{sign} {:<14} {cost}", offer.method);
            for why in &offer.why {
                let _ = writeln!(table, "      {why}");
            }
        }
        let _ = write!(table, "choice: {}", self.choice.unwrap_or("none"));
        for (change, method) in &self.changes {
            let _ = write!(table, "\n  {change}: {}", method.unwrap_or("no method"));
        }
        table
    }

    fn __repr__(&self) -> String {
        format!("<pinnace.Explanation: {}>", self.choice.unwrap_or("no method fits"))
    }
}

/// Which method would carry a service to `to` (a host, with or without a port), or over a kind of network: `"host"`,
/// `"cluster"` or `"internet"`, the default. Nothing is sent.
///
/// >>> import pinnace
/// >>> explanation = pinnace.explain("loss=5% run=4KiB size=2MB", "internet")
/// >>> explanation.choice
/// 'vrp'
/// >>> [offer.why for offer in explanation.offers if offer.method == "shared-memory"]
/// [['the peer is not on this host (path=internet)']]
/// >>> pinnace.explain("size=1MiB", "internet", exclude=["zcrp"]).choice != "zcrp"
/// True
#[pyfunction]
#[pyo3(signature = (service = None, to = None, *, method = None, exclude = None))]
pub(crate) fn explain(
    py: Python<'_>,
    service: Option<&Bound<'_, PyAny>>,
    to: Option<&str>,
    method: Option<&str>,
    exclude: Option<&Bound<'_, PyAny>>,
) -> PyResult<Explanation> {
    let service = service::of(service)?;
    let selection = selection(method, exclude)?;
    let path = path(py, &service, to)?;
    py.detach(|| {
        let changes = what_would_change(&service, &path, &selection);
        let changes = changes.into_iter().map(|change| (change.change, change.method.map(Method::name))).collect();
        match choose(&service, &path, &selection) {
            Ok(choice) => Ok(Explanation { changes, ..Explanation::of_choice(&service, &choice) }),
            Err(unmet) => {
                let offers = unmet.offers.iter().map(Offer::of).collect();
                Ok(Explanation { service: service.to_string(), choice: None, offers, changes })
            }
        }
    })
}

/// What lies between here and there.
fn path(py: Python<'_>, service: &pinnace::service::Service, to: Option<&str>) -> PyResult<Path> {
    let failed = |source| Error::Io { action: "cannot find a path".to_owned(), source };
    let Some(to) = to else {
        return Path::of_service(service, None).map_err(|error| errors::raise(py, &failed(error)));
    };
    if let Ok(class) = to.parse() {
        return Ok(Path::of_class(class));
    }
    let found = py.detach(|| -> Result<Path, Error> {
        let authority = match Uri::is_meant(to) {
            true => to.parse::<Uri>().map_err(ConnectionError::Malformed)?.authority(),
            false => to.to_owned(),
        };
        let failed = |source| Error::Io { action: format!("cannot reach {to}"), source };
        let resolved = authority.to_socket_addrs().or_else(|_| (authority.as_str(), 0).to_socket_addrs());
        let address = resolved.map_err(failed)?.next();
        let address = address.ok_or_else(|| failed(std::io::ErrorKind::AddrNotAvailable.into()))?;
        Path::of_service(service, Some(address)).map_err(failed)
    });
    found.map_err(|error| errors::raise(py, &error))
}

/// Which methods may be chosen. `exclude`: a name, or several.
pub(crate) fn selection(method: Option<&str>, exclude: Option<&Bound<'_, PyAny>>) -> PyResult<Selection> {
    let of = |name: &str| name.parse::<Method>().map_err(PyValueError::new_err);
    let forced = method.map(of).transpose()?;
    let mut excluded = Vec::new();
    if let Some(exclude) = exclude {
        if let Ok(name) = exclude.cast::<PyString>() {
            excluded.push(of(&name.to_cow()?)?);
        } else {
            for name in exclude.try_iter()? {
                excluded.push(of(&name?.extract::<String>()?)?);
            }
        }
    }
    Ok(Selection { forced, excluded })
}

/// A number of bytes: `4096`, or `"4KiB"`.
pub(crate) fn bytes(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    match value.cast::<PyString>() {
        Ok(text) => units::bytes(&text.to_cow()?).map_err(PyValueError::new_err),
        Err(_) => value.extract(),
    }
}

//! The Python binding of the one interface: the extension module `pinnace._pinnace`, which the package `pinnace` shows.
//!
//! Always true: no thread waits for the network, or for a lock of the library, while it has the interpreter (the GIL); a
//! thread of the library never needs the interpreter, so that what it does cannot be delayed by a Python program; memory of
//! Python objects is lent to the library as long as a message is under way, and given back by whoever has the
//! interpreter next.
#![warn(missing_docs)]

mod asyncio;
mod buffer;
mod connection;
mod delivery;
mod endpoint;
mod errors;
mod explain;
mod luck;
mod process;
mod received;
mod receivers;
mod service;
mod turns;
mod wait;

use pyo3::prelude::*;

/// What the package `pinnace` is made of.
#[pymodule]
mod _pinnace {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::asyncio::{Operation, Reactor};
    #[pymodule_export]
    use crate::connection::Connection;
    #[pymodule_export]
    use crate::delivery::{Delivered, Delivery};
    #[pymodule_export]
    use crate::endpoint::{Listener, connect, connect_all, listen};
    #[pymodule_export]
    use crate::explain::{Cost, Explanation, Offer, explain};
    #[pymodule_export]
    use crate::received::{Loss, Received, ReceivedInto};
    #[pymodule_export]
    use crate::receivers::Receiver;
    #[pymodule_export]
    use crate::service::Service;

    #[pymodule_init]
    fn begin(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::process::watch_forks();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

//! Drives engines over links.
//!
//! Latency and throughput are both lost to thread switches, so the thread that waits does the work: it reads, handles,
//! transmits, and sleeps on the link's descriptor until the engine's next timer. Many threads may call and wait at once;
//! one of them drives, the others follow and take over. A background worker drives only while none of them is inside, and
//! for tasks and event loops, which cannot.
//!
//! What endpoints do can be seen by others: [`counters`]. What a process has one of is [`OfProcess`].
//!
//! [`Driver`] is the single-threaded core: engine, link, memory and clock. [`Endpoint`] is its thread-safe face.
//!
//! Always true: no wake-up is lost; no thread waits for one that has failed; the engine is drained whenever the lock is
//! free. Endpoints do not survive `fork`.
#![warn(missing_docs)]

mod about;
mod config;
pub mod counters;
mod driver;
mod endpoint;
mod process;
mod publishing;
mod rest;
mod shared;
mod topic;
mod waiting;
mod wake;
mod worker;

pub use about::About;
pub use config::{EndpointConfig, EndpointError, Idle, WaitError};
pub use driver::{Driver, DriverConfig, DriverCounters, EventSink, Progress};
pub use endpoint::{Call, Endpoint};
pub use process::OfProcess;
pub use shared::EndpointCounters;
pub use topic::{Concerned, Topic};
pub use waiting::{Waiting, WakeLater, Wakers, wake};
pub use wake::WakeFd;

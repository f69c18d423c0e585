//! The sans-IO toolkit that every Pinnace engine is made of.
//!
//! Nothing here reads a clock, opens a socket, starts a thread or iterates a hash map: the driver passes time and
//! datagrams in and takes trains and events out. What the five engines share (intervals, timers, round-trip
//! estimation, pacing, congestion control, loss contracts, contexts) lives here once.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod address;
mod allowance;
mod buffer;
mod congestion;
mod context;
mod contract;
mod counters;
mod departure;
mod engine;
mod interval;
mod pacer;
mod paths;
mod plan;
mod random;
mod rtt;
mod scattered;
mod secrets;
mod seq;
mod storage;
mod time;
mod timers;
mod train;
mod turns;
mod wheel;
mod windowed;

pub use address::{Address, Ecn};
pub use allowance::Allowance;
pub use buffer::{BufferId, BufferRange};
pub use congestion::{
    AckSample, Bbr, Congestion, ControllerKind, Cubic, DeliveryRate, DeliveryStamp, Fixed, Late, Latecomers,
    LossSample, Path, Reordering, SpuriousLoss, UnknownController,
};
pub use context::{ContextKey, ContextTable, KeyLayout, TableFull, TranslationMap};
pub use contract::{Arrival, Decision, LossContract, LossDecider, MAX_PACKETS_AHEAD};
pub use departure::Departure;
pub use engine::{Driven, Engine, PathEvent, PollAt};
pub use interval::{IntervalSet, Missing, TooFragmented, Unwrapper32, unwrap32};
pub use pacer::{Pacer, piece_of_burst};
pub use paths::{SAFE_DATAGRAM, SMALLEST_DATAGRAM, SmallPaths, step_below};
pub use plan::{Move, Placed, ReceivePlan, RxMeta, Segment, Slot, Source};
pub use random::{Random, mix64};
pub use rtt::{RttConfig, RttEstimator};
pub use scattered::ScatteredSet;
pub use secrets::Secrets;
pub use seq::Seq32;
pub use storage::Storage;
pub use time::Time;
pub use timers::TimerTable;
pub use train::{Checksum, ChecksumAt, ChecksumKind, Part, Summing, Train, TrainLimits, even_piece};
pub use turns::Turns;
pub use wheel::{TimerHandle, TimerWheel};
pub use windowed::Windowed;

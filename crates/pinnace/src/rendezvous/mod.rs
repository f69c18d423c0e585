//! How two endpoints come together: who asks, who answers, and what both know then.
//!
//! The address of an endpoint is a UDP port where only the rendezvous speaks; each method has a socket of its own, which the
//! answer names. See [`wire`] for the bytes, [`client`] and [`server`] for the two sides.

pub(crate) mod client;
mod cookie;
pub(crate) mod decision;
mod host;
pub(crate) mod many;
mod natives;
pub(crate) mod server;
mod socket;
mod task;
pub(crate) mod wire;

pub(crate) use many::Invitation;
pub(crate) use natives::is_duplex;
pub(crate) use wire::{Control, Kind};

use crate::service::{Method, PathClass};

/// The number of a method on the wire.
fn number(method: Method) -> u8 {
    match method {
        Method::SharedMemory => 1,
        Method::Zcrp => 2,
        Method::Vrp => 3,
        Method::Xtp => 4,
        Method::Qmp => 5,
        Method::A1 => 6,
    }
}

/// The method of a number. Others may know more of them.
fn method(number: u8) -> Option<Method> {
    Method::ALL.into_iter().find(|method| self::number(*method) == number)
}

fn class_number(class: PathClass) -> u8 {
    match class {
        PathClass::Host => 1,
        PathClass::Cluster => 2,
        PathClass::Internet => 3,
    }
}

/// The class of a number; what is not known is the internet.
fn class(number: u8) -> PathClass {
    match number {
        1 => PathClass::Host,
        2 => PathClass::Cluster,
        _ => PathClass::Internet,
    }
}

//! The daemon that joins processes of one host (being written).
#![allow(missing_docs)]

use pinnace_qbuf::channel::Channel;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

#[derive(Debug)]
pub struct Arrival {
    pub channel: Channel,
    pub peer: SocketAddr,
    pub local: SocketAddr,
}

#[derive(Debug)]
pub struct Client {}

impl Client {
    pub fn current() -> Option<Arc<Self>> {
        None
    }

    pub fn connect(&self, _to: SocketAddr) -> io::Result<Option<Arrival>> {
        Ok(None)
    }
}

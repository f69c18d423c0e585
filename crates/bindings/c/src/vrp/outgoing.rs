//! Outgoing endpoints, and the buffers that they send.
//!
//! Always true: memory of C's is named to the transport only while a call that was given it runs.

use crate::errors::Errno;
use libc::c_int;
use pinnace::vrp::{Contract, Frame, Options, Sender};
use pinnace::{Error, Message};
use std::ops::Range;

/// `P`, where nobody says and the path carries it (specs/vrp.md, section 2).
const PACKET_BYTES: u16 = 2048;
/// The largest `P`: a UDP datagram less the header.
const MOST_PACKET_BYTES: c_int = 65_501;
/// The largest frame: its size is 32 bits wide.
const MOST_BYTES: usize = u32::MAX as usize;

/// What may be lost, as C says it: -1 where it does not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loss {
    max: c_int,
    cons: c_int,
}

impl Loss {
    pub(super) const UNSET: Self = Self { max: -1, cons: -1 };

    pub(super) fn new(max: c_int, cons: c_int) -> Self {
        Self { max, cons }
    }

    /// What is unset here is as it is there.
    fn or(self, other: Self) -> Self {
        let pick = |mine, other| if mine == -1 { other } else { mine };
        Self { max: pick(self.max, other.max), cons: pick(self.cons, other.cons) }
    }

    //= V-S13
    fn contract(self) -> Result<Contract, Errno> {
        let invalid = |_| Errno(libc::EINVAL);
        let set = |value: c_int| (value != -1).then_some(value);
        let rate = set(self.max).map(u8::try_from).transpose().map_err(invalid)?;
        let run = set(self.cons).map(u64::try_from).transpose().map_err(invalid)?;
        Ok(Contract::of_rate_and_run(rate, run))
    }
}

/// What stands behind a `vrp_buffer_t`.
#[derive(Debug)]
pub(super) struct Buffer {
    /// As an address, so that no thread is bound to it; C promises that it is good while it is sent.
    base: usize,
    size: usize,
    loss: Loss,
    /// Ranges of the buffer that must not be lost, in bytes.
    critical: Vec<Range<u64>>,
    /// Something critical is not in the buffer: told when it is sent.
    invalid: bool,
}

impl Buffer {
    pub(super) fn new(data: *mut u8, size: usize) -> Result<Self, Errno> {
        if data.is_null() && size > 0 {
            return Err(Errno(libc::EINVAL));
        }
        let base = data.expose_provenance();
        Ok(Self { base, size, loss: Loss::UNSET, critical: Vec::new(), invalid: false })
    }

    pub(super) fn set_loss(&mut self, loss: Loss) {
        self.loss = loss;
    }

    //= V-S13
    pub(super) fn add_critical(&mut self, data: *const u8, size: usize) {
        if size == 0 {
            return;
        }
        let range = data.addr().checked_sub(self.base).and_then(|low| Some(low..low.checked_add(size)?));
        match range.filter(|range| range.end <= self.size) {
            Some(range) => self.critical.push(range.start as u64..range.end as u64),
            None => self.invalid = true,
        }
    }
}

/// What stands behind a `vrp_outgoing_t`.
#[derive(Debug)]
pub(super) struct Outgoing {
    sender: Sender,
    packet_bytes: Option<u16>,
    loss: Loss,
}

impl Outgoing {
    pub(super) fn new(host: &str, port: c_int, loss: Loss, packet_size: c_int) -> Result<Self, Errno> {
        let invalid = Errno(libc::EINVAL);
        let port = u16::try_from(port).ok().filter(|port| *port > 0).ok_or(invalid)?;
        let packet_bytes = match packet_size {
            -1 => None,
            1..=MOST_PACKET_BYTES => Some(u16::try_from(packet_size).map_err(|_| invalid)?),
            _ => return Err(invalid),
        };
        let options = Options { packet_bytes, ..Options::default() };
        let sender = Sender::connect((host, port), &options).map_err(|error| match &error {
            // The resolver has errors of its own, without numbers.
            Error::Io { source, .. } if source.raw_os_error().is_none() => Errno(libc::EHOSTUNREACH),
            error => Errno::from(error),
        })?;
        Ok(Self { sender, packet_bytes, loss })
    }

    pub(super) fn connect(&self) -> Result<(), Errno> {
        self.sender.open()?;
        Ok(())
    }

    /// Hands the reading over; the descriptor to poll.
    pub(super) fn descriptor(&self) -> Result<c_int, Errno> {
        use std::os::fd::AsRawFd;
        Ok(self.sender.read_by_caller()?.as_raw_fd())
    }

    pub(super) fn progress(&self) -> Result<(), Errno> {
        Ok(self.sender.progress()?)
    }

    /// Sends a frame, and returns when it has been acknowledged.
    ///
    /// # Safety
    /// The buffer's memory may be read until this returns.
    pub(super) unsafe fn send(&self, buffer: &Buffer) -> Result<(), Errno> {
        if buffer.size > MOST_BYTES {
            return Err(Errno(libc::EMSGSIZE));
        }
        if buffer.invalid {
            return Err(Errno(libc::EINVAL));
        }
        let contract = buffer.loss.or(self.loss).contract()?;
        let contract = buffer.critical.iter().cloned().fold(contract, Contract::critical);
        let base = std::ptr::with_exposed_provenance_mut(buffer.base);
        // SAFETY: the caller's promise; the message is dropped below, or by the sender before the frame's end is told.
        // Messages to send are only read.
        let message = unsafe { Message::from_raw(base, buffer.size) };
        let frame = Frame::new(message).with_contract(contract);
        let frame = match self.packet_bytes {
            Some(bytes) => frame.packet_bytes(bytes),
            // Nobody has looked at the path yet.
            None => frame.packet_bytes_at_most(PACKET_BYTES.min(self.sender.max_packet_bytes())),
        };
        let sending = self.sender.send(frame).map_err(|unsent| Errno::from(unsent.error))?;
        sending.wait().map_err(|unsent| Errno::from(unsent.error))?;
        Ok(())
    }

    pub(super) fn close(&self) {
        self.sender.close();
    }
}

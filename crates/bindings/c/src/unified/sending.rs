//! Sending: copies, memory of C's, and when that is C's again.

#![allow(clippy::missing_safety_doc, reason = "the comments are written for C, where nothing is safe")]

use super::abi::{find, handle};
use super::completion::{Callback, Freed, Outcome, Ticket};
use super::handles;
use super::line::Line;
use super::types::{
    self, PINNACE_DONT_WAIT, PINNACE_OWN_CONTRACT, pinnace_completion, pinnace_connection_t, pinnace_delivery_t,
    pinnace_range, pinnace_send_options,
};
use crate::errors::{Errno, Failure, told};
use crate::pointers;
use libc::{c_int, c_void, iovec};
use pinnace::vrp::Contract;
use pinnace::{Delivery, Message, PerMessage, Unsent};
use std::cell::RefCell;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

/// IOV_MAX.
const MOST_PARTS: c_int = 1024;

fn too_long() -> Failure {
    pinnace::Error::TooLarge.into()
}

fn of_system(source: std::io::Error) -> pinnace::Error {
    pinnace::Error::Io { action: "cannot write".to_owned(), source }
}

fn invalid(text: impl Into<String>) -> Failure {
    Failure::new(libc::EINVAL, text)
}

/// A copy of C's bytes, to be sent there: not made before it is known that so many may be.
pub(super) fn copied(line: &Line, bytes: &[u8]) -> Result<Message, Failure> {
    line.connection.check_send(bytes.len() as u64).map_err(|error| line.failed(error))?;
    Ok(Message::from_vec(pointers::copied(bytes)?))
}

/// Bytes of C's.
///
/// # Safety
/// It is null, or may be read, `length` bytes, as long as the result is used.
pub(super) unsafe fn bytes<'a>(data: *const c_void, length: usize) -> Result<&'a [u8], Failure> {
    if length == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(invalid(format!("the data is NULL, and {length} bytes of it are to be sent")));
    }
    if length > u32::MAX as usize {
        return Err(too_long());
    }
    // SAFETY: the caller's promise; it is not null, and not too long.
    Ok(unsafe { std::slice::from_raw_parts(data.cast(), length) })
}

/// The parts of a message: where they begin, and their bytes.
///
/// # Safety
/// `parts` points to `count` of them, or is null.
unsafe fn gathered(parts: *const iovec, count: c_int) -> Result<Vec<(*mut u8, usize)>, Failure> {
    if !(0..=MOST_PARTS).contains(&count) {
        return Err(invalid(format!("a message has 0 to {MOST_PARTS} parts, not {count}")));
    }
    if parts.is_null() && count > 0 {
        return Err(invalid(format!("the parts are NULL, and there are to be {count}")));
    }
    let mut pieces: Vec<(*mut u8, usize)> = Vec::with_capacity(count as usize);
    let mut total = 0usize;
    for at in 0..count as usize {
        // SAFETY: the caller's promise.
        let iovec { iov_base, iov_len } = unsafe { parts.add(at).read() };
        if iov_len == 0 {
            continue;
        }
        let base: *mut u8 = iov_base.cast();
        if base.is_null() {
            return Err(invalid(format!("part {at} is NULL, and has {iov_len} bytes")));
        }
        total = total.checked_add(iov_len).filter(|total| *total <= u32::MAX as usize).ok_or_else(too_long)?;
        match pieces.last_mut() {
            // What lies side by side is one piece.
            Some((before, len)) if before.addr() + *len == base.addr() => *len += iov_len,
            _ => pieces.push((base, iov_len)),
        }
    }
    Ok(pieces)
}

/// What differs for a message.
///
/// # Safety
/// The ranges may be read.
unsafe fn special(options: &pinnace_send_options) -> Result<Option<PerMessage>, Failure> {
    let pinnace_send_options { flags, loss_percent, run_bytes, critical, critical_count, .. } = *options;
    if flags & !(PINNACE_OWN_CONTRACT | PINNACE_DONT_WAIT) != 0 {
        return Err(invalid(format!("flags {flags:#x} are not known")));
    }
    let mut special = PerMessage::new();
    if flags & PINNACE_OWN_CONTRACT != 0 {
        if !(0.0..=100.0).contains(&loss_percent) {
            return Err(invalid(format!("{loss_percent} % cannot be lost: 0 to 100")));
        }
        if critical.is_null() && critical_count > 0 {
            return Err(invalid(format!("the critical ranges are NULL, and there are to be {critical_count}")));
        }
        let contract = Contract::new().loss_percent(loss_percent);
        let mut contract = if run_bytes == u64::MAX { contract.any_run() } else { contract.run_bytes(run_bytes) };
        for at in 0..critical_count {
            // SAFETY: the caller's promise.
            let pinnace_range { offset, length } = unsafe { critical.add(at).read() };
            let end = offset.checked_add(length).ok_or_else(|| {
                invalid(format!("critical range {at} ends beyond what can be counted: {offset} + {length}"))
            })?;
            contract = contract.critical(offset..end);
        }
        special = special.contract(contract);
    } else if loss_percent != 0.0 || run_bytes != 0 || critical_count != 0 {
        return Err(invalid("a contract was said without the flag PINNACE_OWN_CONTRACT, by which it counts"));
    }
    if options.deadline_us != 0 {
        special = special.deadline(Duration::from_micros(options.deadline_us));
    }
    if options.lifespan_us != 0 {
        special = special.lifespan(Duration::from_micros(options.lifespan_us));
    }
    let differs = flags & PINNACE_OWN_CONTRACT != 0 || options.deadline_us != 0 || options.lifespan_us != 0;
    Ok(differs.then_some(special))
}

/// Sends a copy of C's memory, in one way or the other.
///
/// # Safety
/// `data` is null, or may be read, `length` bytes.
unsafe fn send_copied(
    connection: *mut pinnace_connection_t,
    data: *const c_void,
    length: usize,
    send: impl FnOnce(&Line, Message) -> Result<Delivery, Unsent>,
) -> c_int {
    told(-1, || {
        let line: Arc<Line> = find(connection)?;
        // SAFETY: the caller's promise.
        let message = copied(&line, unsafe { bytes(data, length)? })?;
        drop(send(&line, message).map_err(|unsent| line.failed(unsent.error))?);
        Ok(0)
    })
}

/// Sends a message: `length` bytes at `data`, which are copied, so they are yours when the call returns. It waits while the
/// method's queue is full, and not until the message has arrived: pinnace_flush and pinnace_close do.
///
/// Returns 0; or -1 if `length` is more than 4,294,967,295, or than can be sent (EMSGSIZE), or than there is memory (ENOMEM), the
/// connection was closed at this end, or the peer has closed and takes nothing any more (EPIPE), it has one direction, which is
/// the other (ENOTSUP), the peer has broken off (ECONNRESET), or does not answer any more (ETIMEDOUT).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_send(
    connection: *mut pinnace_connection_t,
    data: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: C's promise is ours.
    unsafe { send_copied(connection, data, length, |line, message| line.connection.send(message)) }
}

/// As pinnace_send, but does not wait: without room in the method's queue it returns -1 with EAGAIN, and nothing was sent. There
/// is room again when messages have arrived: completions tell of that (pinnace_sendv), and pinnace_flush waits for all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_try_send(
    connection: *mut pinnace_connection_t,
    data: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: C's promise is ours.
    unsafe { send_copied(connection, data, length, |line, message| line.connection.try_send(message)) }
}

/// Begins to send a message that lies in `count` parts (at most 1,024), without copying it: the memory is the library's, and
/// must not be changed or freed, until the completion says that it is yours again. The array itself is yours when the call
/// returns. Parts of fewer than 512 bytes on average, or more than 256 of them, are copied instead, since that costs less, and so
/// are parts of messages over shared memory, into their place there.
///
/// Who is told of the completion: either the function `done` of the options, or, if `delivery` is not NULL, whoever calls
/// pinnace_delivery_wait with the handle that is written there. `options` may be NULL if `delivery` is not.
///
/// It waits while the method's queue is full, unless the options have the flag PINNACE_DONT_WAIT: then it fails with EAGAIN.
/// Returns 0; or -1, and the memory is yours, as pinnace_send does; also if the method cannot do for one message what is asked
/// (ENOTSUP), if nobody would be told, or both (EINVAL).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_sendv(
    connection: *mut pinnace_connection_t,
    parts: *const iovec,
    count: c_int,
    options: *const pinnace_send_options,
    delivery: *mut *mut pinnace_delivery_t,
) -> c_int {
    told(-1, || {
        let line: Arc<Line> = find(connection)?;
        // SAFETY: C promises options of their size, or NULL.
        let options = if options.is_null() { None } else { Some(unsafe { types::read(options)? }) };
        // SAFETY: C promises the ranges.
        let special = options.as_ref().map(|options| unsafe { special(options) }).transpose()?.flatten();
        let callback = options.and_then(|options| Some(Callback { done: options.done?, argument: options.argument }));
        match (&callback, delivery.is_null()) {
            (None, true) => {
                let text =
                    "nobody would be told when the memory is free: say where to write the delivery, or whom to call";
                return Err(invalid(text));
            }
            (Some(_), false) => return Err(invalid("a completion is told once: by a call, or by the delivery")),
            _ => {}
        }
        if callback.is_some() {
            handles::current().callbacks().start()?;
        }
        let freed = Arc::new(Freed::default());
        // SAFETY: C promises the parts.
        let parts = unsafe { gathered(parts, count)? };
        // Many parts are copied at once.
        let length: usize = parts.iter().map(|(_, length)| length).sum();
        line.connection.check_send(length as u64).map_err(|error| line.failed(error))?;
        // SAFETY: C promises the memory until the completion, which is not told before the lease is over.
        let message = unsafe { Message::try_from_parts(freed.lease(), parts) };
        let message = message.map_err(|_| Errno(libc::ENOMEM))?;
        let must_not_wait = options.is_some_and(|options| options.flags & PINNACE_DONT_WAIT != 0);
        let sent = match (&special, must_not_wait) {
            (Some(special), false) => line.connection.send_with(message, special),
            (None, false) => line.connection.send(message),
            (Some(special), true) => line.connection.try_send_with(message, special),
            (None, true) => line.connection.try_send(message),
        };
        let sent = match sent {
            Ok(sending) => Ok(sending),
            Err(unsent) => {
                drop(unsent.message);
                if freed.is_free() {
                    return Err(line.failed(unsent.error));
                }
                // Somebody still has the memory: when not any more, the completion says how it ended.
                Err(Outcome::failed(&unsent.error))
            }
        };
        match callback {
            Some(callback) => handles::current().callbacks().add(sent, freed, callback),
            None => {
                let ticket = handle(Arc::new(Ticket::new(sent, freed)))?;
                // SAFETY: it is not NULL, and C promises that it can be written.
                unsafe { delivery.write(ticket) };
            }
        }
        Ok(0)
    })
}

thread_local! {
    /// What the completion of this thread points to.
    static TOLD: RefCell<Option<Arc<Outcome>>> = const { RefCell::new(None) };
}

/// Waits, at most `timeout_ms` milliseconds (0 does not wait, less than 0 waits as long as it takes), until a message has ended
/// and its memory is yours again. The handle is gone then, whatever became of the message. The waiting thread does the
/// method's work. `completion` may be NULL.
///
/// Returns 0 if it has arrived, as whole as was agreed; that is what the method can tell: all of it is in the peer's memory.
/// Returns -1 with EAGAIN if it is still under way, and with EBUSY if another thread waits for it: the handle stays, and the
/// memory is the library's. Any other error is how the message ended, but for EBADF and EINVAL: no such delivery, a wrong size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_delivery_wait(
    delivery: *mut pinnace_delivery_t,
    completion: *mut pinnace_completion,
    timeout_ms: c_int,
) -> c_int {
    told(-1, || {
        let ticket: Arc<Ticket> = find(delivery)?;
        if !completion.is_null() {
            // SAFETY: C promises one of its size.
            unsafe { types::check(completion)? };
        }
        let outcome = ticket.wait(timeout_ms)?;
        // Of two threads that were told one has removed it.
        let _ = handles::current().remove::<Ticket>(delivery.addr());
        if !completion.is_null() {
            // SAFETY: checked above; its size stays as it is.
            unsafe {
                let size = (*completion).size;
                completion.write(outcome.seen());
                (*completion).size = size;
            }
            let _ = TOLD.try_with(|told| *told.borrow_mut() = Some(Arc::clone(&outcome)));
        }
        outcome.result()?;
        Ok(0)
    })
}

/// Writes to a connection as to a stream: `size` bytes, which are copied. Where a write ends says nothing to who reads. Waits
/// while the method's queue is full.
///
/// Returns how many bytes were taken: `size`, or less if it failed behind them; or -1 as pinnace_send, or if the service may
/// lose something or does not keep the order (ENOTSUP).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_write(
    connection: *mut pinnace_connection_t,
    data: *const c_void,
    size: usize,
) -> isize {
    told(-1, || {
        let line: Arc<Line> = find(connection)?;
        let mut stream = line.connection.stream()?;
        // SAFETY: C promises memory to read.
        let all = unsafe { bytes(data, size)? };
        let mut taken = 0;
        while taken < all.len() {
            match stream.write(&all[taken..]) {
                Ok(more) => taken += more,
                Err(_) if taken > 0 => break,
                Err(error) => return Err(line.failed(error.downcast().unwrap_or_else(of_system))),
            }
        }
        Ok(taken.cast_signed())
    })
}

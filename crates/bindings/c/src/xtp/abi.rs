//! What C calls. The comments for C are in `include/xtp.h`.
#![allow(clippy::missing_safety_doc, reason = "the comments are written for C, where nothing is safe")]

use super::context::Context;
use super::registry;
use super::types::*;
use crate::errors::{Errno, negative};
use crate::kept::lock;
use libc::{c_int, c_void, timeval};
use pinnace_xtp::Close;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

fn given<T>(at: *mut T) -> Result<NonNull<T>, Errno> {
    NonNull::new(at).ok_or(Errno(libc::EINVAL))
}

/// A call on a context: its structure is read before, and written after.
fn with(ctx: *mut xtpctx, call: impl FnOnce(&mut Context) -> Result<c_int, Errno>) -> c_int {
    negative(|| {
        let address = given(ctx)?.as_ptr().expose_provenance();
        let registry = registry::current();
        let slot = registry.find(address)?;
        let mut held = lock(&slot);
        let context = held.as_mut().ok_or(Errno(libc::EINVAL))?;
        let result = catch_unwind(AssertUnwindSafe(|| context.enter().and_then(|()| call(context))));
        let result = result.unwrap_or_else(|_| {
            // Its state cannot be trusted any more.
            context.fail(Errno(libc::EIO));
            Err(Errno(libc::EIO))
        });
        context.mirror();
        registry.update(address, context.rest(), true);
        result
    })
}

/// The defaults of a control block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xtp_bloc_init(block: *mut xtpcbloc) {
    if let Some(block) = NonNull::new(block) {
        // SAFETY: C promises a control block, which may be uninitialised.
        unsafe { block.write(xtpcbloc::new()) };
    }
}

/// Initialises a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xtp_ctx_init(ctx: *mut xtpctx) -> c_int {
    negative(|| {
        let at = given(ctx)?;
        // SAFETY: C promises that `soc` has been set.
        let mut soc = unsafe { (&raw const (*ctx).soc).read() };
        let registry = registry::current();
        // It still stands there.
        if registry.retire(ctx.addr()) == Some(soc) {
            soc = -1;
        }
        if soc >= 0 && registry.has_socket(soc) {
            return Err(Errno(libc::EBUSY));
        }
        registry.add(ctx.expose_provenance(), || Context::new(at, soc))?;
        Ok(XTP_OK)
    })
}

/// The paper's other name of `xtp_ctx_init`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xtp_init(ctx: *mut xtpctx) -> c_int {
    // SAFETY: the same promises.
    unsafe { xtp_ctx_init(ctx) }
}

/// Puts out data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xoutput(ctx: *mut xtpctx, data: *const c_void, size: usize, options: u32) -> c_int {
    with(ctx, |context| {
        if size > isize::MAX as usize || (data.is_null() && size > 0) {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: C promises so many bytes, which nobody changes during the call.
        let data = if size == 0 { &[] } else { unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) } };
        context.output(data, options)
    })
}

/// Waits for a FIRST.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xf_input(ctx: *mut xtpctx) -> c_int {
    with(ctx, Context::first)
}

/// Waits for the next packet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xd_input(ctx: *mut xtpctx) -> c_int {
    with(ctx, Context::data)
}

/// Lets happen what is due, and says which context is next, and when.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xtp_timer_init(next: *mut *mut xtpctx, wait: *mut timeval) -> c_int {
    negative(|| {
        let (next, wait) = (given(next)?, given(wait)?);
        let found = registry::current().next();
        let rest = found.map_or_else(Default::default, |(_, rest)| rest);
        // Rounded up: a timer does not fire early.
        let micros = rest.as_nanos().div_ceil(1000);
        let rest = timeval { tv_sec: (micros / 1_000_000) as _, tv_usec: (micros % 1_000_000) as _ };
        let pointer = found.map_or(std::ptr::null_mut(), |(pointer, _)| pointer.as_ptr());
        // SAFETY: C promises both, and that they may be written.
        unsafe {
            next.write(pointer);
            wait.write(rest);
        }
        Ok(if pointer.is_null() { XTP_AGAIN } else { XTP_OK })
    })
}

/// Closes a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xtp_close(ctx: *mut xtpctx, how: c_int) -> c_int {
    match how {
        0 => with(ctx, |context| context.close(Close::Abbreviated)),
        1 => with(ctx, |context| context.close(Close::Full)),
        2 => negative(|| {
            let address = given(ctx)?.as_ptr().expose_provenance();
            let slot = registry::current().remove(address)?;
            // A statement of its own: the lock must be free when the context ends.
            let context = lock(&slot).take();
            if let Some(context) = context {
                context.end();
            }
            Ok(XTP_OK)
        }),
        _ => -libc::EINVAL,
    }
}

/// Where the next message ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xtp_message(ctx: *mut xtpctx, end: *mut u64, btag: *mut u8) -> c_int {
    with(ctx, |context| {
        let mut end = given(end)?;
        let tag = NonNull::new(btag.cast::<[u8; 8]>());
        // SAFETY: C promises a number, and eight bytes or NULL.
        unsafe { context.message(end.as_mut(), tag.map(|mut tag| tag.as_mut())) }
    })
}

//! What C sees of values: putting them into buffers, and getting them from requests. The comments here are the header's.
#![allow(clippy::missing_safety_doc, reason = "the comments are written for C, where nothing is safe")]

use super::abi::{
    give, rsr_buffer, rsr_buffer_t, rsr_range, rsr_request_t, rsr_startpoint, rsr_startpoint_t, shared, some, text,
};
use super::{Failure, guard};
use crate::errors::{Errno, NO_DATA};
use libc::{c_char, c_int, c_void};
use pinnace::rsr::{Buffer, Lossy, ReadError, Reader};
use std::ffi::CString;

/// An empty buffer. Its numbers are written as this machine has them; whoever reads them converts.
#[unsafe(no_mangle)]
pub extern "C" fn rsr_buffer_create() -> *mut rsr_buffer_t {
    guard(std::ptr::null_mut(), || Ok(Box::into_raw(Box::new(rsr_buffer { buffer: Buffer::new(), critical: None }))))
}

/// Frees a buffer. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_buffer_free(buffer: *mut rsr_buffer_t) {
    if !buffer.is_null() {
        // SAFETY: C promises a buffer, which it uses no more; `rsr_buffer_create` made the box.
        drop(unsafe { Box::from_raw(buffer) });
    }
}

/// Forgets what was put. What may be lost stays as it was said. Returns 0, or -1 if `buffer` is NULL (EINVAL), as do all
/// that follow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_buffer_clear(buffer: *mut rsr_buffer_t) -> c_int {
    guard(-1, || {
        // SAFETY: C promises a buffer.
        let buffer = unsafe { some(buffer)? };
        buffer.buffer.clear();
        buffer.critical = None;
        Ok(0)
    })
}

/// Bytes that were put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_buffer_size(buffer: *const rsr_buffer_t) -> usize {
    // SAFETY: C promises a buffer.
    guard(0, || Ok(unsafe { shared(buffer)? }.buffer.len()))
}

/// Lets the method lose up to `percent` of what is not critical, and no more than `run_bytes` of it in a row. At first,
/// nothing may be lost. Some methods lose nothing anyway. Fails if `percent` is none of 0 to 100 (EINVAL).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_buffer_allow_loss(buffer: *mut rsr_buffer_t, percent: f64, run_bytes: u64) -> c_int {
    guard(-1, || {
        if !(0.0..=100.0).contains(&percent) {
            return Err(Failure::new(libc::EINVAL, format!("{percent} % cannot be lost: 0 to 100")));
        }
        // SAFETY: C promises a buffer.
        unsafe { some(buffer)? }.buffer.allow_loss(percent, run_bytes);
        Ok(0)
    })
}

/// What is put from now on must not be lost, up to the rsr_buffer_end_critical that belongs to it. Lengths and startpoints
/// are critical anyway.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_buffer_begin_critical(buffer: *mut rsr_buffer_t) -> c_int {
    guard(-1, || {
        // SAFETY: C promises a buffer.
        let buffer = unsafe { some(buffer)? };
        let (from, depth) = buffer.critical.unwrap_or((buffer.buffer.len(), 0));
        buffer.critical = Some((from, depth + 1));
        Ok(0)
    })
}

/// See rsr_buffer_begin_critical. Fails if nothing was begun (EINVAL).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_buffer_end_critical(buffer: *mut rsr_buffer_t) -> c_int {
    guard(-1, || {
        // SAFETY: C promises a buffer.
        let buffer = unsafe { some(buffer)? };
        let (from, depth) = buffer.critical.ok_or_else(|| {
            Failure::new(libc::EINVAL, "rsr_buffer_end_critical without an rsr_buffer_begin_critical before it")
        })?;
        buffer.critical = (depth > 1).then_some((from, depth - 1));
        let end = buffer.buffer.len();
        buffer.buffer.mark_critical(from..end);
        Ok(0)
    })
}

/// Room for so many bytes, and their number before them.
fn reserve(buffer: &mut Buffer, bytes: usize) -> Result<(), Failure> {
    Ok(buffer.try_reserve(bytes.saturating_add(size_of::<u32>())).map_err(|error| Errno::from(&error))?)
}

/// Puts bytes, and before them their number. Fails if there is no memory for them (ENOMEM), as do strings and arrays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_buffer_put_bytes(buffer: *mut rsr_buffer_t, data: *const c_void, size: usize) -> c_int {
    // SAFETY: C promises a buffer, and so many bytes.
    unsafe { put_array(buffer, data.cast(), size, |buffer, bytes| buffer.put_bytes(bytes)) }
}

/// Puts a string: UTF-8, otherwise it fails (EINVAL).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_buffer_put_str(buffer: *mut rsr_buffer_t, string: *const c_char) -> c_int {
    guard(-1, || {
        // SAFETY: C promises a buffer, and a string.
        let (buffer, text) = unsafe { (some(buffer)?, text(string)?) };
        reserve(&mut buffer.buffer, text.len())?;
        buffer.buffer.put_str(text);
        Ok(0)
    })
}

/// Puts a reference to an endpoint, so that the handler can answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_buffer_put_startpoint(
    buffer: *mut rsr_buffer_t,
    startpoint: *const rsr_startpoint_t,
) -> c_int {
    guard(-1, || {
        // SAFETY: C promises a buffer, and a startpoint.
        let (buffer, startpoint) = unsafe { (some(buffer)?, shared(startpoint)?) };
        buffer.buffer.put_startpoint(&startpoint.startpoint);
        Ok(0)
    })
}

/// Gets bytes: a pointer into the request, valid until its handler returns. Returns 0, or -1: there are too few (ERANGE),
/// or some were lost (ENODATA), then rsr_request_lost says which; `*data` and `*size` are set all the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_get_bytes(
    request: *mut rsr_request_t,
    data: *mut *const c_void,
    size: *mut usize,
) -> c_int {
    guard(-1, || {
        // SAFETY: C promises a request that nobody else uses.
        let request = unsafe { some(request)? };
        is_there(data)?;
        is_there(size)?;
        let mut reader = request.reader();
        let Lossy { values, holes } = reader.get_bytes_lossy().map_err(failure)?;
        // SAFETY: C promises places.
        unsafe {
            give(data, values.as_ptr().cast());
            give(size, values.len());
        }
        request.position = reader.position();
        request.lost = holes.into_iter().map(rsr_range::from).collect();
        outcome(&request.lost)
    })
}

/// Gets a string, valid until the handler returns. Returns 0, or -1: it is not all there (ERANGE), a byte of it was lost
/// (ENODATA), or it is no UTF-8, or has a zero in it (EBADMSG).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_get_str(request: *mut rsr_request_t, string: *mut *const c_char) -> c_int {
    guard(-1, || {
        // SAFETY: C promises a request that nobody else uses.
        let request = unsafe { some(request)? };
        is_there(string)?;
        let mut reader = request.reader();
        let read = reader.get_str().map(|text| CString::new(text).map_err(|_| ReadError::Invalid));
        let position = reader.position();
        request.position = position;
        request.lost.clear();
        let text = read.and_then(|text| text).map_err(failure)?;
        // SAFETY: C promises a place. The text does not move when the vector of its owner grows.
        unsafe { give(string, text.as_ptr()) };
        request.texts.push(text);
        Ok(0)
    })
}

/// Gets a reference to an endpoint, to be freed with rsr_startpoint_free. Returns NULL if it is not all there (ERANGE), was
/// lost (ENODATA), or is none (EBADMSG).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_get_startpoint(request: *mut rsr_request_t) -> *mut rsr_startpoint_t {
    guard(std::ptr::null_mut(), || {
        // SAFETY: C promises a request that nobody else uses.
        let startpoint = unsafe { get(request, |reader| reader.get_startpoint())? };
        Ok(Box::into_raw(Box::new(rsr_startpoint { startpoint })))
    })
}

/// A place for what is read: without one nothing is, and the position stays.
fn is_there<T>(place: *mut T) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::new(libc::EINVAL, "the place to write what is read to is NULL: nothing was read"));
    }
    Ok(())
}

fn failure(error: ReadError) -> Failure {
    Errno(match error {
        ReadError::Truncated => libc::ERANGE,
        ReadError::Lost => NO_DATA,
        ReadError::Invalid => libc::EBADMSG,
    })
    .into()
}

fn outcome(lost: &[rsr_range]) -> Result<c_int, Failure> {
    if lost.is_empty() { Ok(0) } else { Err(Errno(NO_DATA).into()) }
}

/// # Safety
/// A live buffer that nobody else uses, or null.
unsafe fn put(buffer: *mut rsr_buffer_t, put: impl FnOnce(&mut Buffer) -> &mut Buffer) -> c_int {
    guard(-1, || {
        // SAFETY: the caller's promise.
        put(&mut unsafe { some(buffer)? }.buffer);
        Ok(0)
    })
}

/// # Safety
/// As [`put`]; and so many values, or null.
unsafe fn put_array<T>(
    buffer: *mut rsr_buffer_t,
    values: *const T,
    count: usize,
    put: impl for<'a> FnOnce(&'a mut Buffer, &[T]) -> &'a mut Buffer,
) -> c_int {
    guard(-1, || {
        // SAFETY: the caller's promise.
        let buffer = unsafe { some(buffer)? };
        let values = match (values.is_null(), count) {
            (_, 0) => &[],
            (true, _) => return Err(Errno(libc::EINVAL).into()),
            // SAFETY: the caller's promise.
            (false, _) => unsafe { std::slice::from_raw_parts(values, count) },
        };
        reserve(&mut buffer.buffer, size_of_val(values))?;
        put(&mut buffer.buffer, values);
        Ok(0)
    })
}

/// # Safety
/// A live request that nobody else uses, or null.
unsafe fn get<T>(
    request: *mut rsr_request_t,
    get: impl FnOnce(&mut Reader<'_>) -> Result<T, ReadError>,
) -> Result<T, Failure> {
    // SAFETY: the caller's promise.
    let request = unsafe { some(request)? };
    let mut reader = request.reader();
    let value = get(&mut reader);
    let position = reader.position();
    request.position = position;
    request.lost.clear();
    if matches!(value, Err(ReadError::Lost)) {
        request.lost.push((0..1).into());
    }
    value.map_err(failure)
}

/// # Safety
/// As [`get`]; and a place for the value, or null.
unsafe fn get_value<T>(
    request: *mut rsr_request_t,
    value: *mut T,
    read: impl FnOnce(&mut Reader<'_>) -> Result<T, ReadError>,
) -> c_int {
    // SAFETY: the caller's promises.
    guard(-1, || unsafe {
        some(request)?;
        is_there(value)?;
        give(value, get(request, read)?);
        Ok(0)
    })
}

/// # Safety
/// As [`get`]; and places for so many values, and for their count, or null.
unsafe fn get_array<T: Copy>(
    request: *mut rsr_request_t,
    values: *mut T,
    room: usize,
    count: *mut usize,
    get: impl FnOnce(&mut Reader<'_>) -> Result<Lossy<Vec<T>>, ReadError>,
) -> c_int {
    guard(-1, || {
        // SAFETY: the caller's promise.
        let request = unsafe { some(request)? };
        if room > 0 {
            is_there(values)?;
        }
        let mut reader = request.reader();
        let array = get(&mut reader);
        let position = reader.position();
        let Lossy { values: read, holes } = array.map_err(failure)?;
        // SAFETY: the caller's promise.
        unsafe { give(count, read.len()) };
        if read.len() > room {
            return Err(Errno(libc::ENOBUFS).into());
        }
        if !read.is_empty() {
            // SAFETY: the caller's promise of room.
            unsafe { std::ptr::copy_nonoverlapping(read.as_ptr(), values, read.len()) };
        }
        request.position = position;
        request.lost = holes.into_iter().map(rsr_range::from).collect();
        outcome(&request.lost)
    })
}

/// Puts a uint8_t.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_buffer_put_u8(buffer: *mut rsr_buffer_t, value: u8) -> c_int {
    // SAFETY: C promises a buffer.
    unsafe { put(buffer, |buffer| buffer.put_u8(value)) }
}

/// Puts an array of uint8_t, and before it its length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_buffer_put_u8_array(buffer: *mut rsr_buffer_t, values: *const u8, count: usize) -> c_int {
    // SAFETY: C promises a buffer, and so many values.
    unsafe { put_array(buffer, values, count, |buffer, values| buffer.put_u8_array(values)) }
}

/// Gets a uint8_t. Returns 0, or -1 without setting it: the request ends before it (ERANGE; the position stays), or a byte
/// of it was lost (ENODATA).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_get_u8(request: *mut rsr_request_t, value: *mut u8) -> c_int {
    // SAFETY: C promises a request, and a place.
    unsafe { get_value(request, value, |reader| reader.get_u8()) }
}

/// Gets an array of uint8_t into `values`, which has room for so many; sets `*count` to its length (`count` may be NULL, and so
/// may `values` be without room). Returns 0, or -1: the request ends before it (ERANGE), there is not enough room (ENOBUFS; the
/// position stays, and `*count` says how much it takes), or some values were lost (ENODATA): all are set then, and
/// rsr_request_lost says which mean nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_get_u8_array(
    request: *mut rsr_request_t,
    values: *mut u8,
    room: usize,
    count: *mut usize,
) -> c_int {
    // SAFETY: C promises a request, and places.
    unsafe { get_array(request, values, room, count, |reader| reader.get_u8_array_lossy()) }
}

/// Puts a uint16_t.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_buffer_put_u16(buffer: *mut rsr_buffer_t, value: u16) -> c_int {
    // SAFETY: C promises a buffer.
    unsafe { put(buffer, |buffer| buffer.put_u16(value)) }
}

/// Puts an array of uint16_t, and before it its length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_buffer_put_u16_array(
    buffer: *mut rsr_buffer_t,
    values: *const u16,
    count: usize,
) -> c_int {
    // SAFETY: C promises a buffer, and so many values.
    unsafe { put_array(buffer, values, count, |buffer, values| buffer.put_u16_array(values)) }
}

/// Gets a uint16_t. Returns as rsr_request_get_u8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_get_u16(request: *mut rsr_request_t, value: *mut u16) -> c_int {
    // SAFETY: C promises a request, and a place.
    unsafe { get_value(request, value, |reader| reader.get_u16()) }
}

/// Gets an array of uint16_t. Returns as rsr_request_get_u8_array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_get_u16_array(
    request: *mut rsr_request_t,
    values: *mut u16,
    room: usize,
    count: *mut usize,
) -> c_int {
    // SAFETY: C promises a request, and places.
    unsafe { get_array(request, values, room, count, |reader| reader.get_u16_array_lossy()) }
}

/// Puts a uint32_t.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_buffer_put_u32(buffer: *mut rsr_buffer_t, value: u32) -> c_int {
    // SAFETY: C promises a buffer.
    unsafe { put(buffer, |buffer| buffer.put_u32(value)) }
}

/// Puts an array of uint32_t, and before it its length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_buffer_put_u32_array(
    buffer: *mut rsr_buffer_t,
    values: *const u32,
    count: usize,
) -> c_int {
    // SAFETY: C promises a buffer, and so many values.
    unsafe { put_array(buffer, values, count, |buffer, values| buffer.put_u32_array(values)) }
}

/// Gets a uint32_t. Returns as rsr_request_get_u8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_get_u32(request: *mut rsr_request_t, value: *mut u32) -> c_int {
    // SAFETY: C promises a request, and a place.
    unsafe { get_value(request, value, |reader| reader.get_u32()) }
}

/// Gets an array of uint32_t. Returns as rsr_request_get_u8_array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_get_u32_array(
    request: *mut rsr_request_t,
    values: *mut u32,
    room: usize,
    count: *mut usize,
) -> c_int {
    // SAFETY: C promises a request, and places.
    unsafe { get_array(request, values, room, count, |reader| reader.get_u32_array_lossy()) }
}

/// Puts a uint64_t.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_buffer_put_u64(buffer: *mut rsr_buffer_t, value: u64) -> c_int {
    // SAFETY: C promises a buffer.
    unsafe { put(buffer, |buffer| buffer.put_u64(value)) }
}

/// Puts an array of uint64_t, and before it its length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_buffer_put_u64_array(
    buffer: *mut rsr_buffer_t,
    values: *const u64,
    count: usize,
) -> c_int {
    // SAFETY: C promises a buffer, and so many values.
    unsafe { put_array(buffer, values, count, |buffer, values| buffer.put_u64_array(values)) }
}

/// Gets a uint64_t. Returns as rsr_request_get_u8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_get_u64(request: *mut rsr_request_t, value: *mut u64) -> c_int {
    // SAFETY: C promises a request, and a place.
    unsafe { get_value(request, value, |reader| reader.get_u64()) }
}

/// Gets an array of uint64_t. Returns as rsr_request_get_u8_array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_get_u64_array(
    request: *mut rsr_request_t,
    values: *mut u64,
    room: usize,
    count: *mut usize,
) -> c_int {
    // SAFETY: C promises a request, and places.
    unsafe { get_array(request, values, room, count, |reader| reader.get_u64_array_lossy()) }
}

/// Puts an int8_t.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_buffer_put_i8(buffer: *mut rsr_buffer_t, value: i8) -> c_int {
    // SAFETY: C promises a buffer.
    unsafe { put(buffer, |buffer| buffer.put_i8(value)) }
}

/// Puts an array of int8_t, and before it its length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_buffer_put_i8_array(buffer: *mut rsr_buffer_t, values: *const i8, count: usize) -> c_int {
    // SAFETY: C promises a buffer, and so many values.
    unsafe { put_array(buffer, values, count, |buffer, values| buffer.put_i8_array(values)) }
}

/// Gets an int8_t. Returns as rsr_request_get_u8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_get_i8(request: *mut rsr_request_t, value: *mut i8) -> c_int {
    // SAFETY: C promises a request, and a place.
    unsafe { get_value(request, value, |reader| reader.get_i8()) }
}

/// Gets an array of int8_t. Returns as rsr_request_get_u8_array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_get_i8_array(
    request: *mut rsr_request_t,
    values: *mut i8,
    room: usize,
    count: *mut usize,
) -> c_int {
    // SAFETY: C promises a request, and places.
    unsafe { get_array(request, values, room, count, |reader| reader.get_i8_array_lossy()) }
}

/// Puts an int16_t.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_buffer_put_i16(buffer: *mut rsr_buffer_t, value: i16) -> c_int {
    // SAFETY: C promises a buffer.
    unsafe { put(buffer, |buffer| buffer.put_i16(value)) }
}

/// Puts an array of int16_t, and before it its length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_buffer_put_i16_array(
    buffer: *mut rsr_buffer_t,
    values: *const i16,
    count: usize,
) -> c_int {
    // SAFETY: C promises a buffer, and so many values.
    unsafe { put_array(buffer, values, count, |buffer, values| buffer.put_i16_array(values)) }
}

/// Gets an int16_t. Returns as rsr_request_get_u8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_get_i16(request: *mut rsr_request_t, value: *mut i16) -> c_int {
    // SAFETY: C promises a request, and a place.
    unsafe { get_value(request, value, |reader| reader.get_i16()) }
}

/// Gets an array of int16_t. Returns as rsr_request_get_u8_array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_get_i16_array(
    request: *mut rsr_request_t,
    values: *mut i16,
    room: usize,
    count: *mut usize,
) -> c_int {
    // SAFETY: C promises a request, and places.
    unsafe { get_array(request, values, room, count, |reader| reader.get_i16_array_lossy()) }
}

/// Puts an int32_t.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_buffer_put_i32(buffer: *mut rsr_buffer_t, value: i32) -> c_int {
    // SAFETY: C promises a buffer.
    unsafe { put(buffer, |buffer| buffer.put_i32(value)) }
}

/// Puts an array of int32_t, and before it its length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_buffer_put_i32_array(
    buffer: *mut rsr_buffer_t,
    values: *const i32,
    count: usize,
) -> c_int {
    // SAFETY: C promises a buffer, and so many values.
    unsafe { put_array(buffer, values, count, |buffer, values| buffer.put_i32_array(values)) }
}

/// Gets an int32_t. Returns as rsr_request_get_u8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_get_i32(request: *mut rsr_request_t, value: *mut i32) -> c_int {
    // SAFETY: C promises a request, and a place.
    unsafe { get_value(request, value, |reader| reader.get_i32()) }
}

/// Gets an array of int32_t. Returns as rsr_request_get_u8_array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_get_i32_array(
    request: *mut rsr_request_t,
    values: *mut i32,
    room: usize,
    count: *mut usize,
) -> c_int {
    // SAFETY: C promises a request, and places.
    unsafe { get_array(request, values, room, count, |reader| reader.get_i32_array_lossy()) }
}

/// Puts an int64_t.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_buffer_put_i64(buffer: *mut rsr_buffer_t, value: i64) -> c_int {
    // SAFETY: C promises a buffer.
    unsafe { put(buffer, |buffer| buffer.put_i64(value)) }
}

/// Puts an array of int64_t, and before it its length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_buffer_put_i64_array(
    buffer: *mut rsr_buffer_t,
    values: *const i64,
    count: usize,
) -> c_int {
    // SAFETY: C promises a buffer, and so many values.
    unsafe { put_array(buffer, values, count, |buffer, values| buffer.put_i64_array(values)) }
}

/// Gets an int64_t. Returns as rsr_request_get_u8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_get_i64(request: *mut rsr_request_t, value: *mut i64) -> c_int {
    // SAFETY: C promises a request, and a place.
    unsafe { get_value(request, value, |reader| reader.get_i64()) }
}

/// Gets an array of int64_t. Returns as rsr_request_get_u8_array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_get_i64_array(
    request: *mut rsr_request_t,
    values: *mut i64,
    room: usize,
    count: *mut usize,
) -> c_int {
    // SAFETY: C promises a request, and places.
    unsafe { get_array(request, values, room, count, |reader| reader.get_i64_array_lossy()) }
}

/// Puts a float.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_buffer_put_f32(buffer: *mut rsr_buffer_t, value: f32) -> c_int {
    // SAFETY: C promises a buffer.
    unsafe { put(buffer, |buffer| buffer.put_f32(value)) }
}

/// Puts an array of float, and before it its length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_buffer_put_f32_array(
    buffer: *mut rsr_buffer_t,
    values: *const f32,
    count: usize,
) -> c_int {
    // SAFETY: C promises a buffer, and so many values.
    unsafe { put_array(buffer, values, count, |buffer, values| buffer.put_f32_array(values)) }
}

/// Gets a float. Returns as rsr_request_get_u8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_get_f32(request: *mut rsr_request_t, value: *mut f32) -> c_int {
    // SAFETY: C promises a request, and a place.
    unsafe { get_value(request, value, |reader| reader.get_f32()) }
}

/// Gets an array of float. Returns as rsr_request_get_u8_array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_get_f32_array(
    request: *mut rsr_request_t,
    values: *mut f32,
    room: usize,
    count: *mut usize,
) -> c_int {
    // SAFETY: C promises a request, and places.
    unsafe { get_array(request, values, room, count, |reader| reader.get_f32_array_lossy()) }
}

/// Puts a double.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_buffer_put_f64(buffer: *mut rsr_buffer_t, value: f64) -> c_int {
    // SAFETY: C promises a buffer.
    unsafe { put(buffer, |buffer| buffer.put_f64(value)) }
}

/// Puts an array of double, and before it its length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_buffer_put_f64_array(
    buffer: *mut rsr_buffer_t,
    values: *const f64,
    count: usize,
) -> c_int {
    // SAFETY: C promises a buffer, and so many values.
    unsafe { put_array(buffer, values, count, |buffer, values| buffer.put_f64_array(values)) }
}

/// Gets a double. Returns as rsr_request_get_u8.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_get_f64(request: *mut rsr_request_t, value: *mut f64) -> c_int {
    // SAFETY: C promises a request, and a place.
    unsafe { get_value(request, value, |reader| reader.get_f64()) }
}

/// Gets an array of double. Returns as rsr_request_get_u8_array.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsr_request_get_f64_array(
    request: *mut rsr_request_t,
    values: *mut f64,
    room: usize,
    count: *mut usize,
) -> c_int {
    // SAFETY: C promises a request, and places.
    unsafe { get_array(request, values, room, count, |reader| reader.get_f64_array_lossy()) }
}

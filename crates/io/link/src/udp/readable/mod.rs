//! One descriptor for several: readable while one of them is, to sleep on.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod epoll;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod kqueue;

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) use epoll::Readable;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) use kqueue::Readable;

//! Names of the C library that not every system has, or that it has under others.
//!
//! Always true: where there is no such flag it is no bit, so that nobody gives it and nobody is told it; where there is no such
//! option it is a number that nobody gives.

#[cfg(target_vendor = "apple")]
pub(super) use apple::*;
#[cfg(not(target_vendor = "apple"))]
pub(super) use libc::{MSG_CMSG_CLOEXEC, POLLRDHUP, SO_DOMAIN, SO_PROTOCOL, SOCK_CLOEXEC, SOCK_NONBLOCK, TCP_KEEPIDLE};
#[cfg(target_os = "linux")]
pub(super) use libc::{MSG_CONFIRM, MSG_MORE, TCP_USER_TIMEOUT};
#[cfg(not(target_os = "linux"))]
pub(super) use of_linux::*;

#[cfg(not(target_os = "linux"))]
mod of_linux {
    use libc::c_int;

    pub(in crate::qmp) const MSG_CONFIRM: c_int = 0;
    pub(in crate::qmp) const MSG_MORE: c_int = 0;
    pub(in crate::qmp) const TCP_USER_TIMEOUT: c_int = c_int::MIN;
}

#[cfg(target_vendor = "apple")]
mod apple {
    use libc::{c_int, c_short};

    pub(in crate::qmp) const MSG_CMSG_CLOEXEC: c_int = 0;
    pub(in crate::qmp) const POLLRDHUP: c_short = 0;
    pub(in crate::qmp) const SO_DOMAIN: c_int = c_int::MIN;
    pub(in crate::qmp) const SO_PROTOCOL: c_int = c_int::MIN;
    pub(in crate::qmp) const SOCK_CLOEXEC: c_int = 0;
    pub(in crate::qmp) const SOCK_NONBLOCK: c_int = 0;
    pub(in crate::qmp) const TCP_KEEPIDLE: c_int = libc::TCP_KEEPALIVE;
}

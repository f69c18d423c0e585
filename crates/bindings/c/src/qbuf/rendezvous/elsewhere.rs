//! Elsewhere than on Linux there is no pool that two processes could share, so nobody is met.

use crate::errors::Errno;
use pinnace_qbuf::channel::Channel;
use pinnace_qbuf::{Pool, PoolOptions};
use std::os::fd::OwnedFd;
use std::time::Instant;

pub(in crate::qbuf) fn meet(
    _name: &[u8],
    _options: &PoolOptions,
    _slots: u32,
    _deadline: Option<Instant>,
) -> Result<(Pool, Channel, OwnedFd), Errno> {
    Err(Errno(libc::ENOTSUP))
}

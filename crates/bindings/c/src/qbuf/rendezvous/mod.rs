//! How two processes find each other by a name. On Linux only, as pools are.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

#[cfg(not(target_os = "linux"))]
pub(super) use elsewhere::meet;
#[cfg(target_os = "linux")]
pub(super) use linux::meet;

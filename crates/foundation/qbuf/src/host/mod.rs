//! What only one kind of system offers: files that cannot shrink, bells, who is alive.
//!
//! Always true: the rest of the crate asks for it here, and is the same everywhere. Elsewhere than Linux nothing makes a pool or a
//! channel ([`io::ErrorKind::Unsupported`]), and nothing that came from elsewhere passes for one.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{Process, bell, sealed_bytes, sealed_file, silence, wipe_on_fork};
#[cfg(target_os = "linux")]
pub(crate) use linux::{Process, bell, sealed_bytes, sealed_file, silence, wipe_on_fork};

//! libpinnace: the C interface of ZCRP, exactly as the paper and specs/zcrp.md, section 4, have it.
//!
//! [`abi`] is what C sees, and what `include/zcrp.h` is generated from; [`message`] is what stands behind a
//! `struct zcrp_msg`; [`process`] knows who sends and who receives in this process; [`settings`] are the names of
//! `zcrp_set` and `zcrp_get`.
//!
//! [`vrp`] is that of VRP beside it, as specs/vrp.md, section 7, has it: `include/vrp.h`; and [`rsr`] that of remote service
//! requests: `include/rsr.h`. [`xtp`] is that of XTP, as specs/xtp.md, section 5, has it: `include/xtp.h`. [`qmp`] are the
//! sockets of QMP (specs/qmp.md, Q-12): `include/qmp.h`; [`qbuf`] are the buffers that change owners (specs/qbuf.md, B-15):
//! `include/qbuf.h`. [`a1`] is that of A1, as specs/a1.md, section 3, has it: `include/a1.h`. [`unified`] is the one interface
//! beside them, over whichever method fits: `include/pinnace.h`. What is one of a kind in a process, and what
//! has a number, is kept by `kept`.
//!
//! Always true: no call crashes or lets a panic out, whatever its arguments are, as long as pointers point to what they
//! should or are null; a failed call says why in `errno`; a message's memory is there as long as the transport may touch
//! it, freed or not.
//!
//! The library is called `pinnace` so that its files are `libpinnace.so` and `libpinnace.a`. It makes no rlib, which
//! would be mistaken for the Rust library of that name, so nothing written in Rust can depend on this crate; tests build
//! it and use it from C.

#![warn(missing_docs)]

pub mod a1;
pub mod abi;
mod descriptors;
mod errors;
mod kept;
mod message;
mod pointers;
mod process;
pub mod qbuf;
pub mod qmp;
pub mod rsr;
mod settings;
pub mod unified;
pub mod vrp;
pub mod xtp;

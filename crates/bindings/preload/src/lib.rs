//! `libpinnace_preload.so`: unmodified TCP programs over QMP, by LD_PRELOAD.
//!
//! A connection that the application has *is* a Unix stream socket, so that reading, writing, poll, select, epoll, fork,
//! dup, exec and sendfile are the kernel's own; only the calls that name addresses or TCP options are replaced here. What a
//! descriptor is, is written in the kernel, in the socket's name (`name`). Where there is no such way, a socket stays what
//! it was made: a TCP socket.
//!
//! Always true: no function here allocates, locks or starts a thread, so it may run wherever the function that it replaces
//! may run. It implements Q-13 of the QMP specification, for both ends on one host; the way to other hosts is the
//! companion's (`carrier`).
//!
//! | | |
//! |---|---|
//! | `exports` | the replaced functions |
//! | `listener`, `accept` | an epoll descriptor over a TCP and a Unix listener |
//! | `connect`, `diag` | who is reached under a name, and whether it is the right one |
//! | `options`, `message`, `descriptor` | what TCP would have said |
//! | `exec`, `listed` | what a program needs that is given a listener |
//! | `patience` | for how long a peer may be silent |
//! | `table` | hints, never the truth |

#![warn(missing_docs)]

mod accept;
mod carrier;
mod config;
mod connect;
mod descriptor;
mod diag;
mod epoll;
mod exec;
#[allow(dead_code, missing_docs, unreachable_pub, reason = "the manual pages document these functions")]
mod exports;
mod internet;
#[allow(dead_code, unreachable_pub, reason = "whoever loads this calls them")]
mod listed;
mod listener;
mod message;
mod name;
mod options;
mod patience;
mod real;
mod stream;
mod sys;
mod table;

/// Runs when the library is loaded, before the program's own constructors.
extern "C" fn load() {
    let saved = sys::errno();
    real::resolve();
    table::own();
    config::read();
    exec::keep();
    inherit();
    sys::set_errno(saved);
}

#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static LOAD: extern "C" fn() = load;

/// Finds the listeners that came through exec, the streams of other hosts, and what the companion lives by.
fn inherit() {
    let _ = epoll::every(|fd, target| match target {
        epoll::INSTANCE => drop(listener::learn(fd)),
        target if target.starts_with(b"socket:") => carrier::learn(fd),
        target if target.starts_with(b"pipe:") => config::learn(fd),
        _ => {}
    });
}

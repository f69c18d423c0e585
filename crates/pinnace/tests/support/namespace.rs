//! Network namespaces for tests that need links of their own.

use std::process::Command;

/// Whether `ip` did that.
pub(crate) fn ip(arguments: &str) -> bool {
    let output = Command::new("ip").args(arguments.split_whitespace()).output();
    output.is_ok_and(|output| output.status.success())
}

/// A namespace of this thread alone; false, and said why, where that is not allowed.
pub(crate) fn namespace() -> bool {
    // SAFETY: changes this thread's namespace only, which ends with the test.
    let done = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0 && ip("link set lo up");
    if !done {
        pinnace_testing::skip::host(format_args!("no network namespace here ({})", std::io::Error::last_os_error()));
    }
    done
}

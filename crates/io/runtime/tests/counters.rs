//! The counters file, where a process may not have one.
#![cfg(target_os = "linux")]

use pinnace_runtime::counters::{self, Kind, Labels, Row};
use std::process::Command;

/// Says to this test, run again, what it is to find.
const FINDS: &str = "PINNACE_TEST_FINDS";

#[test]
fn a_process_that_may_write_only_small_files_goes_without() {
    if let Some(finds) = std::env::var_os(FINDS) {
        assert_eq!(Row::new(Kind::Connection, &Labels::default()).is_some(), finds == "a row");
        return;
    }
    let directory = std::env::temp_dir().join(format!("pinnace-counters-{}", std::process::id()));
    for (limit, finds) in [("unlimited", "a row"), ("1", "none")] {
        let mut child = Command::new("sh");
        child.args(["-c", &format!("ulimit -f {limit} && exec \"$@\""), "sh"]).arg(std::env::current_exe().unwrap());
        child.args(["--exact", "a_process_that_may_write_only_small_files_goes_without", "--nocapture"]);
        let ended = child.env(FINDS, finds).env(counters::ENVIRONMENT, &directory).output().unwrap();
        assert!(ended.status.success(), "{limit}: {ended:?}");
    }
    let _ = std::fs::remove_dir_all(&directory);
}

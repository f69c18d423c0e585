//! A station of Ethernet that is known by its link address alone.

use crate::common::{content, line, text};
use std::process::Command;

/// Both ends of a veth, in a network of their own.
const SCRIPT: &str = r#"
set -e
ip link add va address 02:00:00:00:00:0a type veth peer name vb address 02:00:00:00:00:0b 2>&1 || exit 77
ip link set lo up && ip link set va up && ip link set vb up && ip addr add 10.82.0.2/24 dev vb || exit 77
"$PINNACE" qmp listen 10.82.0.2:7001 --link ether --count 1 2> "$FOLDER/said" &
listener=$!
trap 'kill $listener 2> /dev/null || true' EXIT
while ! grep -q listening "$FOLDER/said"; do sleep 0.02; done
"$PINNACE" qmp send --link ether --size 5000 --to 02:00:00:00:00:0b%va:7001 > "$FOLDER/sent"
wait $listener
"#;

#[test]
fn a_station_is_named_by_its_link_address() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    command.args(["-n", "timeout", "50", "sh", "-c", SCRIPT]).env("PINNACE", env!("CARGO_BIN_EXE_pinnace"));
    let output = match command.env("FOLDER", folder.path()).output() {
        Ok(output) if output.status.code() != Some(77) && !text(&output.stderr).contains("unshare failed") => output,
        _ => {
            pinnace_testing::skip::host("needs a network namespace and ip");
            return;
        }
    };
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), line(&content(0, 5000)));
}

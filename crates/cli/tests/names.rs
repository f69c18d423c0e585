//! Addresses, as people write them.

mod common;

use common::{Listening, pinnace, text};

#[test]
fn whoever_listens_may_say_a_port_alone() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    for args in [
        &["recv", "--bind", "0", "--dir", dir, "--json"][..],
        &["stream", "recv", "--bind", ":0", "--json"],
        &["zcrp", "listen", "0", "--json"],
        &["vrp", "listen", "--bind", "0", "--json"],
        &["xtp", "listen", "0", "--json"],
        &["qmp", "listen", "0", "--json"],
        &["a1", "listen", "0", "--json"],
        &["tune", "0", "--json"],
        &["ping", "--listen", "0", "--json"],
    ] {
        let listening = Listening::start(args);
        assert!(listening.address.starts_with("0.0.0.0:"), "{args:?}: {}", listening.address);
    }
    for (args, why) in [
        (&["recv", "--bind", "70000"][..], "70000 is no port"),
        (&["zcrp", "listen", "host"], "or a port alone"),
        (&["zcrp", "send", "--size", "1", "--to", "4747"], "no host"),
        (&["ping", "--to", "127.0.0.1"], "no port"),
    ] {
        let output = pinnace(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(why), "{args:?}: {}", text(&output.stderr));
    }
}

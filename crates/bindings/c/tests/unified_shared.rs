//! The one interface from C over shared memory: the programs that are run over every other method, and a daemon.

#[allow(dead_code, reason = "shared with other tests")]
mod support;

use pinnace::daemon::{Daemon, DaemonOptions};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use support::{Linkage, compile, compiler, root};

#[test]
fn shared_memory_does_what_every_method_does() {
    let Some(compiler) = compiler("CC", "cc") else { return };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let socket = folder.join(format!("daemon-{}.sock", std::process::id()));
    let options = DaemonOptions { socket: Some(socket.clone()), ..DaemonOptions::default() };
    let daemon = Arc::new(Daemon::bind(&options).expect("a daemon"));
    let serving = std::thread::spawn({
        let daemon = Arc::clone(&daemon);
        move || daemon.run()
    });
    for (name, said) in
        [("unified_methods.c", "shared-memory\n"), ("unified_full.c", "shared-memory are full at last\n")]
    {
        let program = compile(&compiler, "-std=c99", &root().join("tests/programs").join(name), Linkage::Shared);
        let output = Command::new(&program).arg("shared-memory").env("PINNACE_DAEMON", &socket).output();
        let output = output.expect("the program starts");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && out == said, "{name}: {}\n{out}\n{err}", output.status);
    }
    daemon.stop();
    serving.join().expect("it has not panicked").expect("it has served");
}

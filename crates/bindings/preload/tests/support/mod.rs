//! Builds the library and the C programs, and runs both ends of a case with it and without it.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Builds the library as the tests were built: a crate without an rlib is not built for its own tests.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a target directory");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--lib", "--target-dir"]).arg(target).current_dir(root());
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        let output = cargo.output().expect("cargo runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
        let library = target.join(profile).join("libpinnace_preload.so");
        assert!(library.is_file(), "{}", library.display());
        library
    })
}

/// Compiles a program with the fortified functions, once; None (and a word about it) if there is no compiler.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    static MADE: OnceLock<Mutex<HashMap<String, Option<PathBuf>>>> = OnceLock::new();
    let mut made = MADE.get_or_init(Mutex::default).lock().expect("no test fails while it compiles");
    made.entry(name.to_owned())
        .or_insert_with(|| {
            let cc = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
            let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("preload-{name}-{}", std::process::id()));
            let compiled = Command::new(&cc)
                .args(["-O2", "-D_FORTIFY_SOURCE=2", "-Wall", "-Wextra", "-Werror", "-pthread", "-rdynamic", "-o"])
                .arg(&out)
                .arg(root().join("tests/programs").join(name).with_extension("c"))
                .output();
            match compiled {
                Ok(output) => {
                    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                    Some(out)
                }
                Err(error) => {
                    pinnace_testing::skip::program(format_args!(
                        "there is no compiler {cc} ({error}; Debian: gcc, libc6-dev)"
                    ));
                    None
                }
            }
        })
        .clone()
}

/// A process that does not outlive its test.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Which ends have the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mix {
    pub(crate) server: bool,
    pub(crate) client: bool,
}

pub(crate) const MIXES: [Mix; 4] = [
    Mix { server: true, client: true },
    Mix { server: true, client: false },
    Mix { server: false, client: true },
    Mix { server: false, client: false },
];

pub(crate) fn command(program: &Path, preloaded: bool) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).env_remove("LD_PRELOAD");
    if preloaded {
        command.env("LD_PRELOAD", library());
    }
    command
}

/// Starts a server, and waits until it says its port.
pub(crate) fn serve(mut command: Command) -> (Running, String) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    stdout.read_line(&mut line).expect("readable");
    (Running(child), line.trim().to_owned())
}

/// Waits for the end: whether it was a good one, and what was said.
fn end(running: &mut Running) -> (bool, String) {
    let mut said = String::new();
    if let Some(mut stderr) = running.0.stderr.take() {
        stderr.read_to_string(&mut said).expect("text");
    }
    let status = running.0.wait().expect("waited");
    (status.success(), format!("{status}\n{said}"))
}

/// Waits for a good end.
pub(crate) fn finish(mut running: Running, what: &str) {
    let (good, said) = end(&mut running);
    assert!(good, "{what}: {said}");
}

/// Runs both ends of a case, with the given environment.
pub(crate) fn run(program: &Path, case: &str, mix: Mix, environment: &[(&str, &str)]) {
    let what = format!("{case}, {mix:?}, {environment:?}");
    let way = if mix.server && mix.client { "unix" } else { "tcp" };
    let begin = |preloaded| {
        let mut command = command(program, preloaded);
        command.env("PINNACE_EXPECT", way).envs(environment.iter().copied());
        command
    };
    let mut server = begin(mix.server);
    server.args([case, "server"]);
    let (mut server, port) = serve(server);
    if port.is_empty() {
        finish(server, &format!("server of {what}"));
        panic!("the server of {what} said nothing");
    }
    let client = begin(mix.client).args([case, "client", &port]).stderr(Stdio::piped()).spawn().expect("it runs");
    let (good, said) = end(&mut Running(client));
    // A server that fails takes its client with it: the cause is what it said.
    if good || matches!(server.0.try_wait(), Ok(Some(_))) {
        finish(server, &format!("server of {what}, client: {said}"));
    }
    assert!(good, "client of {what}: {said}");
}

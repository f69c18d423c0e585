//! The library, servers, and where their ports are.

use crate::common::{PATIENCE, pinnace};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

/// Builds the preload library beside the command: cargo does not build it for these tests.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = Path::new(env!("CARGO_BIN_EXE_pinnace")).parent().expect("a folder");
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["build", "-p", "pinnace-preload", "--target-dir"])
            .arg(folder.parent().expect("a target directory"));
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("cargo runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        folder.join("libpinnace_preload.so")
    })
}

/// A command, through `pinnace run` or as it is; what goes before it (`ip netns exec NAME`) stays before.
pub(crate) fn through(preloaded: bool, before: &[&str], words: &[&str]) -> Command {
    let mut all: Vec<&str> = before.to_vec();
    if preloaded {
        library();
        all.extend([env!("CARGO_BIN_EXE_pinnace"), "--verbose", "run", "--"]);
    }
    all.extend(words);
    let mut command = Command::new(all[0]);
    command.args(&all[1..]).stdin(Stdio::null()).env_remove("LD_PRELOAD");
    command
}

/// Where a program is, or a word about what to install.
pub(crate) fn installed(program: &str, package: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|path| path.is_file());
    if found.is_none() {
        pinnace_testing::skip::program(format_args!("there is no {program} (Debian: {package})"));
    }
    found
}

/// A port that nobody has, of UDP or TCP.
pub(crate) fn port() -> u16 {
    pinnace_testing::ports::free()
}

/// A server that does not outlive its test, and what it says.
pub(crate) struct Server {
    child: Child,
    printed: PathBuf,
    said: PathBuf,
}

/// What the server of this port has printed, without what the library said meanwhile on standard error.
pub(crate) fn printed(folder: &Path, port: u16) -> Vec<u8> {
    fs::read(folder.join(format!("server-{port}.out"))).expect("readable")
}

impl Server {
    /// Starts it, and waits until it listens.
    pub(crate) fn start(mut command: Command, folder: &Path, port: u16, preloaded: bool) -> Self {
        let [printed, said] = ["out", "log"].map(|kind| folder.join(format!("server-{port}.{kind}")));
        let file = |path| File::create(path).expect("a file");
        let child = command.stdout(file(&printed)).stderr(file(&said)).spawn().expect("the server starts");
        let mut server = Self { child, printed, said };
        let begun = Instant::now();
        while !server.listens(port, preloaded) {
            let ended = server.child.try_wait().expect("waited");
            assert!(ended.is_none() && begun.elapsed() < PATIENCE, "it does not listen: {ended:?}\n{}", server.said());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        server
    }

    fn listens(&self, port: u16, preloaded: bool) -> bool {
        // Its own view: it may be in a network namespace.
        let net = PathBuf::from(format!("/proc/{}/net", self.child.id()));
        let read = |name: &str| fs::read_to_string(net.join(name)).unwrap_or_default();
        let local = format!(":{port:04X}");
        let tcp = ["tcp", "tcp6"].iter().any(|name| {
            read(name).lines().any(|line| {
                let mut words = line.split_whitespace().skip(1);
                words.next().is_some_and(|address| address.ends_with(&local)) && words.nth(1) == Some("0A")
            })
        });
        let name = format!(":{port}");
        let unix = || {
            read("unix")
                .lines()
                .filter_map(|line| line.split_once("@pinnace/1L"))
                .any(|(_, name_of)| name_of.split('#').next().is_some_and(|address| address.ends_with(&name)))
        };
        // What other hosts reach comes last, and before the library says that it listens.
        tcp && (!preloaded || (unix() && self.said().contains(&format!("{name}: TCP, and"))))
    }

    pub(crate) fn said(&self) -> String {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        read(&self.printed) + &read(&self.said)
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("waited").is_some()
    }

    /// Waits until it ends by itself.
    pub(crate) fn finish(mut self) -> Option<i32> {
        crate::common::wait(&mut self.child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // In good order, so that whatever it started goes with it.
        let _ = Command::new("kill").arg(self.child.id().to_string()).stderr(Stdio::null()).status();
        let begun = Instant::now();
        while begun.elapsed().as_secs() < 10 && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Bytes that do not repeat soon.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    (0..len.div_ceil(8))
        .flat_map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        })
        .take(len)
        .collect()
}

/// Runs a client to its end: what it printed, and what it said.
pub(crate) fn client(mut command: Command) -> (String, String) {
    let output = command.output().expect("the client starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    (out.into_owned(), err.into_owned())
}

/// `pinnace run`, as a person would type it.
pub(crate) fn run(arguments: &[&str]) -> Command {
    library();
    let mut all = vec!["run"];
    all.extend(arguments);
    let mut command = pinnace(&all);
    command.env_remove("LD_PRELOAD");
    command
}

//! Runs the programs of all tests, several at a time.
//!
//! Most tests wait for most of their time, and `cargo test` runs one program after the other, so that a machine does nothing
//! while the slowest test of each ends. What a program prints is shown when it has ended, whole, as `cargo test` shows it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

/// No program takes as long, even on a slow machine: its tests wait for each other.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
/// How many tests of a program run at a time, unless the environment says so: where one waits, another one works.
const THREADS: &str = "2";
/// These take one or two minutes, and begin.
const LONGEST: [&str; 4] = [
    "crates/pinnace/tests/unified/main.rs",
    "crates/cli/tests/run/main.rs",
    "crates/cli/tests/experiment.rs",
    "crates/engines/vrp/tests/swarm/main.rs",
];
/// How often is looked whether one has ended.
const GLANCE: Duration = Duration::from_millis(20);

/// A line of what cargo says of a build (`--message-format=json`), of which the fields of others are not read.
#[derive(Deserialize)]
struct Message {
    manifest_path: Option<PathBuf>,
    executable: Option<PathBuf>,
    profile: Option<Profile>,
    target: Option<Target>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Deserialize)]
struct Target {
    src_path: PathBuf,
}

/// The tests of one file, and of what it includes; or others, which a program runs.
pub(crate) struct Program {
    pub(crate) executable: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) source: PathBuf,
    /// Where cargo has it run: the folder of its package.
    pub(crate) folder: PathBuf,
}

/// A program that runs, and the file of what it prints: a pipe would not end before what it has started and left behind.
pub(crate) struct Running<'a> {
    program: &'a Program,
    child: Child,
    since: Instant,
    output: PathBuf,
}

/// Runs the programs, several at a time, with a variable of the environment more; examples in documentation last.
///
/// # Errors
///
/// If a test fails; all others have run then.
pub(crate) fn run(root: &Path, programs: &[Program], variable: (&str, &str)) -> Result<()> {
    // One more than there are processors: together they wait for a third of the time.
    let at_a_time = 1 + std::thread::available_parallelism().map_or(1, usize::from);
    let mut failed: Vec<&Program> = Vec::new();
    let mut skipped = BTreeMap::new();
    let mut waiting = programs.iter();
    let mut running: Vec<Running<'_>> = Vec::new();
    loop {
        while running.len() < at_a_time
            && let Some(program) = waiting.next()
        {
            running.push(program.start(root, variable)?);
        }
        if running.is_empty() {
            break;
        }
        std::thread::sleep(GLANCE);
        let mut still = Vec::new();
        for mut one in running {
            match one.ended()? {
                None => still.push(one),
                Some(passed) => {
                    count_skipped(&one.show(root)?, &mut skipped);
                    if !passed {
                        failed.push(one.program);
                    }
                }
            }
        }
        running = still;
    }
    let arguments = ["test", "--workspace", "--locked", "--no-fail-fast", "--doc"];
    println!("$ cargo {}", arguments.join(" "));
    let documentation = Command::new(cargo()).current_dir(root).args(arguments).env(variable.0, variable.1).status()?;
    for (why, count) in &skipped {
        println!("skipped, {count} times: {why}");
    }
    for program in &failed {
        println!("failed: {}", program.name(root));
    }
    ensure!(failed.is_empty(), "{} of {} programs of tests failed", failed.len(), programs.len());
    ensure!(documentation.success(), "examples in documentation failed");
    Ok(())
}

/// Adds what the tests of a program say that they skip (`pinnace_testing::skip`).
fn count_skipped(said: &str, skipped: &mut BTreeMap<String, usize>) {
    for (_, why) in said.lines().filter_map(|line| line.split_once("skipped: ")) {
        *skipped.entry(why.to_owned()).or_default() += 1;
    }
}

/// The cargo that runs this.
pub(crate) fn cargo() -> PathBuf {
    std::env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from)
}

/// Builds all tests of the workspace, and what they run.
///
/// # Errors
///
/// If something does not build.
pub(crate) fn build(root: &Path) -> Result<Vec<Program>> {
    let arguments = ["test", "--workspace", "--locked", "--no-run", "--message-format=json-render-diagnostics"];
    println!("$ cargo {}", arguments.join(" "));
    let built = Command::new(cargo())
        .current_dir(root)
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .context("cargo does not run")?;
    ensure!(built.status.success(), "the tests do not build");
    let said = String::from_utf8(built.stdout).context("cargo speaks UTF-8")?;
    let mut programs = Vec::new();
    for line in said.lines() {
        let message: Message = serde_json::from_str(line).with_context(|| format!("cargo says {line}"))?;
        // Examples have no tests, though they are built beside them.
        if let Message {
            manifest_path: Some(manifest),
            executable: Some(executable),
            profile: Some(Profile { test: true }),
            target: Some(Target { src_path: source }),
        } = message
        {
            let folder = manifest.parent().context("a manifest lies in a folder")?.to_path_buf();
            programs.push(Program { executable, arguments: Vec::new(), source, folder });
        }
    }
    ensure!(!programs.is_empty(), "cargo has built no tests");
    // The last to end should not be the one that takes longest.
    let waits = |program: &Program| !LONGEST.iter().any(|source| root.join(source) == program.source);
    programs.sort_by(|one, other| (waits(one), &one.source).cmp(&(waits(other), &other.source)));
    Ok(programs)
}

impl Program {
    /// Starts it, with a variable of the environment more.
    pub(crate) fn start(&self, root: &Path, (key, value): (&str, &str)) -> Result<Running<'_>> {
        let folder = root.join("target/test-output");
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let name = self.executable.file_name().context("a program has a name")?;
        let output = folder.join(name).with_extension("txt");
        let file = File::create(&output).with_context(|| format!("cannot make {}", output.display()))?;
        let child = Command::new(&self.executable)
            .args(&self.arguments)
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env("RUST_TEST_THREADS", std::env::var("RUST_TEST_THREADS").unwrap_or_else(|_| THREADS.to_owned()))
            .env(key, value)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("{} does not run", self.executable.display()))?;
        Ok(Running { program: self, child, since: Instant::now(), output })
    }

    /// Its source, as somebody at the root of the workspace would write it.
    fn name(&self, root: &Path) -> String {
        self.source.strip_prefix(root).unwrap_or(&self.source).display().to_string()
    }
}

impl Running<'_> {
    /// Waits until it has ended, and shows what it printed.
    ///
    /// # Errors
    ///
    /// If a test fails.
    pub(crate) fn wait(mut self, root: &Path) -> Result<()> {
        loop {
            if let Some(passed) = self.ended()? {
                self.show(root)?;
                ensure!(passed, "failed: {}", self.program.name(root));
                return Ok(());
            }
            std::thread::sleep(GLANCE);
        }
    }

    /// Whether its tests passed, if it has ended.
    fn ended(&mut self) -> Result<Option<bool>> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if self.since.elapsed() < PATIENCE {
            return Ok(None);
        }
        self.child.kill()?;
        self.child.wait()?;
        println!("ended, because it ran for {} minutes:", PATIENCE.as_secs() / 60);
        Ok(Some(false))
    }

    /// Shows what it printed, and returns it.
    fn show(&self, root: &Path) -> Result<String> {
        let executable = &self.program.executable;
        let executable = executable.strip_prefix(root).unwrap_or(executable).display();
        let Ok(said) = fs::read(&self.output) else {
            bail!("{} has lost what it printed", self.program.name(root));
        };
        println!("     Running {} ({executable})", self.program.name(root));
        let said = String::from_utf8_lossy(&said).into_owned();
        println!("{said}");
        Ok(said)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    #[test]
    fn what_is_skipped_is_counted_by_its_reason() {
        let mut skipped = BTreeMap::new();
        let said = "test one ... ok\nskipped: no veth\ntest two ... skipped: no veth\nok\nskipped: no tun\n";
        super::count_skipped(said, &mut skipped);
        let counts = [("no tun".to_owned(), 1), ("no veth".to_owned(), 2)];
        assert_eq!(skipped.into_iter().collect::<Vec<_>>(), counts);
    }
}

//! Builds the library and C programs, and runs them.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// No program takes longer, even on a machine that has other things to do.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How a program is linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Linkage {
    Shared,
    Static,
    /// As `Shared`, and looks for leaks.
    Sanitized,
}

/// The files of the library.
pub(crate) struct Library {
    pub(crate) shared: PathBuf,
    pub(crate) archive: PathBuf,
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn examples() -> PathBuf {
    root().join("../../../examples/c")
}

/// Builds the library as the tests were built: a crate without an rlib is not built for its own tests.
pub(crate) fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a target directory");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--lib", "--message-format=json-render-diagnostics", "--target-dir"]).arg(target);
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        let output = cargo.current_dir(root()).stderr(Stdio::inherit()).output().expect("cargo runs");
        assert!(output.status.success(), "the library does not build");
        let mut files = BTreeSet::new();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let message: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
            if message["manifest_path"].as_str().is_some_and(|path| Path::new(path) == root().join("Cargo.toml")) {
                let names = message["filenames"].as_array().cloned().unwrap_or_default();
                files.extend(names.iter().filter_map(|name| name.as_str().map(PathBuf::from)));
            }
        }
        let file = |name: &str| {
            files.iter().find(|file| file.file_name().is_some_and(|file| file == name)).cloned().unwrap_or_else(|| {
                panic!("cargo made no {name}, but {files:?}");
            })
        };
        let shared = format!("{}pinnace{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
        Library { shared: file(&shared), archive: file("libpinnace.a") }
    })
}

/// The header that is committed is what cbindgen makes of the source; PINNACE_BLESS=1 writes it.
pub(crate) fn header_is_up_to_date(header: &str, config: &str, sources: &[&str]) {
    let config = cbindgen::Config::from_file(root().join(config)).expect("a configuration");
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in sources {
        builder = builder.with_src(root().join(source));
    }
    let mut text = Vec::new();
    builder.generate().expect("a header").write(&mut text);
    let text = String::from_utf8(text).expect("text");
    let path = root().join("include").join(header);
    if std::env::var_os("PINNACE_BLESS").is_some() {
        std::fs::write(&path, &text).expect("a header to write");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == text, "include/{header} is not what its source says: run with PINNACE_BLESS=1 and look at it");
}

/// The compiler, or None (and a word about it) if there is none.
pub(crate) fn compiler(variable: &str, default: &str) -> Option<String> {
    let name = std::env::var(variable).unwrap_or_else(|_| default.to_owned());
    let found = Command::new(&name).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        pinnace_testing::skip::program(format_args!("there is no compiler `{name}` (set {variable})"));
    }
    found.then_some(name)
}

/// What has a program look for leaks at its end, and for wrong addresses.
const SANITIZED: [&str; 1] = ["-fsanitize=address"];

/// Whether the compiler can do that.
pub(crate) fn sanitizes() -> bool {
    let Some(compiler) = compiler("CC", "cc") else { return false };
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sanitized");
    let mut command = Command::new(compiler);
    command.args(SANITIZED).args(["-x", "c", "-", "-o"]).arg(&program).stdin(Stdio::piped()).stderr(Stdio::null());
    let built = command.spawn().and_then(|mut child| {
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(b"int main(void) { return 0; }")?;
        drop(stdin);
        child.wait()
    });
    // Where processes may not be looked at from outside, looking for leaks fails.
    let works = built.is_ok_and(|status| status.success()) && run(&program).status.success();
    if !works {
        pinnace_testing::skip::host("programs cannot look for leaks here (-fsanitize=address)");
    }
    works
}

/// What `pinnace.pc.in` says under this name.
pub(crate) fn pkg_config(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join("pinnace.pc.in")).expect("pinnace.pc.in");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).expect("such a line");
    line.split_whitespace().map(str::to_owned).collect()
}

/// Compiles `source` with every warning an error.
pub(crate) fn compile(compiler: &str, standard: &str, source: &Path, linkage: Linkage) -> PathBuf {
    let library = library();
    let stem = source.file_stem().expect("a name").to_string_lossy().into_owned();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("programs-{linkage:?}"));
    std::fs::create_dir_all(&folder).expect("a folder");
    let program = folder.join(stem);
    let mut command = Command::new(compiler);
    command.args([standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-g", "-pthread"]);
    command.arg("-I").arg(root().join("include")).arg("-I").arg(examples());
    command.arg("-o").arg(&program).arg(source);
    if linkage == Linkage::Sanitized {
        command.args(SANITIZED);
    }
    match linkage {
        Linkage::Shared | Linkage::Sanitized => {
            let folder = library.shared.parent().expect("a folder");
            command.arg("-L").arg(folder).arg("-lpinnace").arg(format!("-Wl,-rpath,{}", folder.display()));
        }
        Linkage::Static => {
            command.arg(&library.archive).args(pkg_config("Libs.private"));
        }
    }
    let output = command.output().expect("the compiler runs");
    assert!(output.status.success(), "{command:?}:\n{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// A program of the tests' own.
pub(crate) fn test_program(name: &str) -> PathBuf {
    root().join("tests/programs").join(name)
}

/// Programs in C (`.c`) or C++ compile without a warning, however they are linked; run; and say what they should.
pub(crate) fn check(source: &Path, standard: &str, said: &str) {
    check_linked(source, standard, &[Linkage::Shared, Linkage::Static], &[said]);
}

/// As [`check`], linked so.
pub(crate) fn check_linked(source: &Path, standard: &str, linkages: &[Linkage], said: &[&str]) {
    let is_c = source.extension().is_some_and(|extension| extension == "c");
    let (variable, default) = if is_c { ("CC", "cc") } else { ("CXX", "c++") };
    let Some(compiler) = compiler(variable, default) else { return };
    for &linkage in linkages {
        let output = run(&compile(&compiler, standard, source, linkage));
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.iter().all(|said| stdout.contains(said)),
            "{}, {linkage:?}: {}\n{stdout}\n{}",
            source.display(),
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// Runs a program to its end; kills it, and fails, if it takes too long.
pub(crate) fn run(program: &Path) -> Output {
    let mut child = Command::new(program)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let (mut stdout, mut stderr) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let reader = std::thread::spawn(move || {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        // The programs write little: the second pipe does not fill while the first is read.
        let _ = stdout.read_to_end(&mut out);
        let _ = stderr.read_to_end(&mut err);
        (out, err)
    });
    let before = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break Some(status);
        }
        if before.elapsed() > TIMEOUT {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let Some(status) = status else { panic!("{} hangs", program.display()) };
    let (stdout, stderr) = reader.join().expect("read");
    Output { status, stdout, stderr }
}

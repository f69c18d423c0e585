//! What `pinnace run` does with a command: environment, exit code, signals, refusals.

use crate::common::{text, wait, wait_until};
use crate::stage::{library, run};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

#[test]
fn the_exit_code_is_the_commands() {
    for code in [0, 1, 3, 77, 255] {
        let output = run(&["--", "sh", "-c", &format!("exit {code}")]).output().expect("it runs");
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    }
    // A command that a signal ends looks so to a shell.
    let output = run(&["--", "sh", "-c", "kill -9 $$"]).output().expect("it runs");
    assert_eq!(output.status.signal(), Some(9));
}

/// However few descriptors there are: a command that was started is waited for.
#[test]
fn a_command_is_not_left_behind_when_descriptors_run_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let started = folder.path().join("started");
    let script = format!("mkdir {}; exit 7", started.display());
    let command = run(&["--same-host-only", "--", "sh", "-c", &script]);
    for limit in 4..64 {
        let limited = format!("ulimit -Sn {limit}; exec \"$@\"");
        let mut through = Command::new("sh");
        through.args(["-c", &limited, "sh"]).arg(command.get_program()).args(command.get_args());
        through.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        // Whoever is left behind has standard output still, and is waited for here.
        let output = through.output().expect("it runs");
        if output.status.code() == Some(7) {
            assert!(limit > 4, "so few descriptors are enough");
            return;
        }
        assert!(!started.exists(), "with {limit} descriptors it was left behind: {}", text(&output.stderr));
    }
    panic!("it never ran");
}

#[test]
fn input_output_and_arguments_are_the_commands() {
    let output =
        run(&["--", "sh", "-c", "echo \"$0 $1\"; echo error >&2", "zero", "--json"]).output().expect("it runs");
    assert_eq!(text(&output.stdout), "zero --json\n");
    assert_eq!(text(&output.stderr), "error\n");
}

#[test]
fn the_environment_says_what_was_asked() {
    let mut command = run(&["--bypass", "22,8000-8010", "--no-same-host", "--", "env"]);
    let output = command.env("LD_PRELOAD", "libdl.so.2").env("PINNACE_BYPASS", "1").output().expect("it runs");
    let said = text(&output.stdout);
    let library = library().canonicalize().expect("a library");
    let preload = format!("LD_PRELOAD={}:libdl.so.2", library.display());
    for line in [&*preload, "PINNACE_BYPASS=1,22,8000-8010", "PINNACE_SAME_HOST=off"] {
        assert!(said.lines().any(|found| found == line), "{line}\n{said}");
    }
    assert!(said.contains("PINNACE_COMPANION=pinnace-run/"));
    // Within another one the library is loaded once.
    let output =
        run(&["--same-host-only", "--", env!("CARGO_BIN_EXE_pinnace"), "run", "--same-host-only", "--", "env"])
            .output()
            .expect("it runs");
    let said = text(&output.stdout);
    assert!(said.lines().any(|line| line == format!("LD_PRELOAD={}", library.display())), "{said}");
    assert!(!said.contains("PINNACE_COMPANION"));
}

#[test]
fn signals_reach_the_command() {
    for (signal, number, code) in [("-TERM", 15, 41), ("-INT", 2, 42), ("-USR1", 10, 43)] {
        let name = signal.trim_start_matches('-');
        if is_ignored(number) {
            pinnace_testing::skip::host(format_args!(
                "whoever started this test has signal {name} ignored, and a shell does not catch such a one"
            ));
            continue;
        }
        let script = format!("trap 'exit {code}' {name}; echo ready; while :; do sleep 0.05; done");
        let mut child = run(&["--", "sh", "-c", &script]).stdout(Stdio::piped()).spawn().expect("it runs");
        let mut out = std::io::BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        std::io::BufRead::read_line(&mut out, &mut line).expect("readable");
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().expect("it runs").success());
        assert_eq!(wait(&mut child), Some(code), "{signal}");
    }
}

/// Whether this process ignores a signal, as those do that a shell has started in the background.
fn is_ignored(number: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").expect("readable");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("Linux says so");
    u64::from_str_radix(mask.trim(), 16).expect("a mask") & (1 << (number - 1)) != 0
}

/// Which signals a command finds ignored, started by a shell that has run `before`.
fn ignored(before: &str, words: &[&str]) -> String {
    let script = format!("{before}; exec \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh"]).args(words).args(["grep", "SigIgn", "/proc/self/status"]);
    let output = command.env_remove("LD_PRELOAD").output().expect("it runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

#[test]
fn signals_that_were_ignored_stay_ignored() {
    library();
    for before in [":", "trap '' PIPE", "trap '' PIPE HUP INT", "trap '' HUP TERM USR1 WINCH"] {
        for options in [&["--"][..], &["--same-host-only", "--"]] {
            let words: Vec<&str> = [env!("CARGO_BIN_EXE_pinnace"), "run"].iter().chain(options).copied().collect();
            assert_eq!(ignored(before, &words), ignored(before, &[]), "{before}, {options:?}");
        }
    }
}

#[test]
fn what_cannot_run_over_qmp_is_refused_in_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |words: &[&str], code, what: &str| {
        let output = run(words).output().expect("it runs");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(what) && said.lines().count() == 1, "{said}");
    };
    refused(&["--", "no-such-command"], 127, "command not found");
    refused(&["--", "/etc/passwd"], 126, "not an executable file");
    let source = folder.path().join("static.c");
    let program = folder.path().join("static");
    fs::write(&source, "int main(void) { return 0; }\n").expect("written");
    match Command::new("cc").args(["-static", "-o"]).arg(&program).arg(&source).output() {
        Ok(output) if output.status.success() => {
            refused(&["--", program.to_str().expect("UTF-8")], 126, "statically linked");
        }
        _ => pinnace_testing::skip::program("nothing can be linked statically here (Debian: gcc, libc6-dev)"),
    }
    let output = run(&["--", "true"]).env("PINNACE_PRELOAD", "/nonexistent").output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("PINNACE_PRELOAD"));
    let output = run(&["--bypass", "70000", "--", "true"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
}

/// The process beside the command of a `pinnace run`.
fn companion_of(process: u32) -> PathBuf {
    let is_it = |folder: &PathBuf| {
        let read = |name: &str| fs::read(folder.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&read("cmdline")).contains("run-companion")
            && String::from_utf8_lossy(&read("status")).contains(&format!("PPid:\t{process}\n"))
    };
    let all = fs::read_dir("/proc").expect("readable").map(|entry| entry.expect("readable").path());
    all.into_iter().find(is_it).expect("a companion")
}

#[test]
fn the_companion_takes_part_in_nothing_but_its_task() {
    let folder = tempfile::tempdir().expect("a folder");
    let lock = folder.path().join("lock").canonicalize().unwrap_or_else(|_| folder.path().join("lock"));
    let script = format!("exec 9>{}; exec \"$@\"", lock.display());
    library();
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_pinnace"), "run", "--", "sh", "-c", "echo ready; read end"]);
    command.env_remove("LD_PRELOAD").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let mut line = String::new();
    let mut out = std::io::BufReader::new(child.stdout.take().expect("piped"));
    std::io::BufRead::read_line(&mut out, &mut line).expect("readable");
    let companion = companion_of(child.id());
    // What the shell had open for itself and the command.
    let open = fs::read_dir(companion.join("fd")).expect("readable");
    let open: Vec<_> = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok()).collect();
    assert!(!open.contains(&lock), "{open:?}");
    // What is sent to every process of a service at its end. The streams are to end first.
    for signal in ["-TERM", "-INT", "-HUP"] {
        let process = companion.file_name().expect("a number");
        assert!(Command::new("kill").arg(signal).arg(process).status().expect("it runs").success());
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    let status = fs::read_to_string(companion.join("status")).unwrap_or_default();
    assert!(status.contains("State:") && !status.contains("State:\tZ"), "it has gone: {status}");
    drop(child.stdin.take());
    wait(&mut child);
    wait_until("the end of the companion", || !companion.exists());
}

/// Goes on in the background, without anything that it did not open itself.
const DAEMON: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    if (argc < 2)
        return 1;
    puts(getenv("PINNACE_COMPANION"));
    fflush(stdout);
    if (fork())
        return 0;
    setsid();
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
    for (int fd = 3; fd < 1100; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
    for (int fd = 3; fd < 1100; fd++)
        close(fd);
    close_range(3, ~0u, 0);
    null = dup(0);
    for (int fd = 890; fd < 910; fd++)
        dup2(null, fd);
    for (int fd = 890; fd < 910; fd++)
        close(fd);
    return execlp("sh", "sh", "-c", argv[1], NULL);
}
"#;

#[test]
fn the_companion_lasts_as_long_as_who_went_on_in_the_background() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, program, stop) =
        (folder.path().join("daemon.c"), folder.path().join("daemon"), folder.path().join("stop"));
    fs::write(&source, DAEMON).expect("written");
    match Command::new("cc").arg("-o").arg(&program).arg(&source).output() {
        Ok(output) => assert!(output.status.success(), "{}", text(&output.stderr)),
        Err(_) => return pinnace_testing::skip::program("there is no compiler (Debian: gcc, libc6-dev)"),
    }
    let script = format!("while [ ! -e {} ]; do sleep 0.05; done", stop.display());
    let output = run(&["--", program.to_str().expect("UTF-8"), &script]).output().expect("it runs");
    let name = text(&output.stdout).trim().to_owned();
    std::thread::sleep(std::time::Duration::from_millis(700));
    let is_there = || fs::read_to_string("/proc/net/unix").expect("readable").contains(&name);
    let was_there = !name.is_empty() && is_there();
    fs::write(&stop, "").expect("written");
    assert!(was_there, "{}", text(&output.stderr));
    wait_until("the end of the companion", || !is_there());
}

#[test]
fn the_companion_ends_with_the_command() {
    let output = run(&["--", "sh", "-c", "echo $PINNACE_COMPANION"]).output().expect("it runs");
    let name = text(&output.stdout).trim().to_owned();
    assert!(!name.is_empty());
    wait_until("the end of the companion", || !fs::read_to_string("/proc/net/unix").expect("readable").contains(&name));
    // And not before those that the command leaves behind.
    let folder = tempfile::tempdir().expect("a folder");
    let stop = folder.path().join("stop");
    let script =
        format!("(while [ ! -e {} ]; do sleep 0.05; done) >/dev/null 2>&1 & echo $PINNACE_COMPANION", stop.display());
    let output = run(&["--", "sh", "-c", &script]).output().expect("it runs");
    let name = text(&output.stdout).trim().to_owned();
    std::thread::sleep(std::time::Duration::from_millis(500));
    let is_there = || fs::read_to_string("/proc/net/unix").expect("readable").contains(&name);
    assert!(is_there());
    fs::write(&stop, "").expect("written");
    wait_until("the end of the companion", || !is_there());
}

#!/usr/bin/env python3
"""Unmodified programs by TCP and through `pinnace run`, in turn, between two hosts (network namespaces) or on one.

    cargo build --release -p pinnace-cli && cargo build --release -p pinnace-preload
    sudo python3 crates/cli/bench/programs.py target/release/pinnace                 # between two hosts
    sudo python3 crates/cli/bench/programs.py target/release/pinnace --one-host
    sudo python3 crates/cli/bench/programs.py OLD NEW --only redis --rounds 5        # two builds and TCP, in turn

Each figure is a rate (more is better) or a latency in milliseconds (its name says so, less is better): the median of the rounds,
and the ratio to TCP's of the same round, median and range.
Debian: redis-server redis-tools wrk apache2-utils nginx-light iperf3 curl postgresql postgresql-contrib.
"""

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NEAR, FAR = "10.78.0.1", "10.78.0.2"
TCP = "TCP"
# Debian keeps the programs of each version apart.
POSTGRES = max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path("/usr/bin"))


class Hosts:
    """Two network namespaces, joined by a veth pair; or one, whose servers are on loopback."""

    def __init__(self, one_host: bool) -> None:
        tag = f"pb{os.getpid()}"
        self.near, self.far = (tag, tag) if one_host else (f"{tag}n", f"{tag}f")
        self.address = "127.0.0.1" if one_host else FAR
        lines = [f"netns add {name}" for name in dict.fromkeys((self.near, self.far))]
        if not one_host:
            lines += [
                f"-n {self.near} link add v0 type veth peer name v0 netns {self.far}",
                f"-n {self.near} addr add {NEAR}/24 dev v0",
                f"-n {self.far} addr add {FAR}/24 dev v0",
                f"-n {self.near} link set v0 up",
                f"-n {self.far} link set v0 up",
            ]
        lines += [f"-n {name} link set lo up" for name in dict.fromkeys((self.near, self.far))]
        for line in lines:
            subprocess.run(["ip", *line.split()], check=True)

    def close(self) -> None:
        for name in dict.fromkeys((self.near, self.far)):
            subprocess.run(["ip", "netns", "delete", name], check=False)


class Way:
    """TCP, or a build of `pinnace`."""

    def __init__(self, pinnace: str) -> None:
        self.name, self.pinnace = pinnace, pinnace

    def words(self, netns: str, words: list[str], user: list[str] = []) -> list[str]:
        through = [] if self.name == TCP else [self.pinnace, "run", "--"]
        return ["ip", "netns", "exec", netns, *user, *through, *words]


class Server:
    def __init__(self, way: Way, hosts: Hosts, words: list[str], port: int, user: list[str] = []) -> None:
        nothing, through = subprocess.DEVNULL, way.words(hosts.far, words, user)
        self.process = subprocess.Popen(through, stdout=nothing, stderr=nothing, start_new_session=True)
        deadline = time.monotonic() + 10
        net = Path(f"/proc/{self.process.pid}/net")
        while not any(f":{port:04X} " in line and " 0A " in line for line in self.tcp(net)):
            if time.monotonic() > deadline or self.process.poll() is not None:
                sys.exit(f"{words[0]} does not listen")
            time.sleep(0.02)
        time.sleep(0.2)

    @staticmethod
    def tcp(net: Path) -> list[str]:
        found: list[str] = []
        for name in ("tcp", "tcp6"):
            try:
                found += (net / name).read_text().splitlines()
            except OSError:
                pass
        return found

    def stop(self) -> None:
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        time.sleep(0.1)


def client(way: Way, hosts: Hosts, words: list[str]) -> str:
    done = subprocess.run(way.words(hosts.near, words), capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        sys.exit(f"{way.name}: {' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def redis(way: Way, hosts: Hosts, folder: Path, port: int, more: list[str]) -> dict[str, float]:
    words = ["redis-server", "--port", str(port), "--save", "", "--dir", str(folder), "--protected-mode", "no"]
    server = Server(way, hosts, words, port)
    try:
        words = ["redis-benchmark", "-h", hosts.address, "-p", str(port), "-t", "set,get", "--csv", *more]
        out = client(way, hosts, words)
    finally:
        server.stop()
    rows = [[cell.strip('"') for cell in line.split('","')] for line in out.splitlines()]
    names = rows[0]
    found = {}
    for row in rows[1:]:
        found[row[0]] = float(row[names.index("rps")])
        for what in ("p50", "p99"):
            found[f"{row[0]} {what} ms"] = float(row[names.index(f"{what}_latency_ms")])
    return found


def nginx(folder: Path, port: int, megabytes: int) -> list[str]:
    (folder / "www").mkdir(exist_ok=True)
    (folder / "www/small").write_bytes(b"x" * 100)
    if megabytes:
        with open(folder / "www/large", "wb") as file:
            file.truncate(megabytes << 20)
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; user root; pid {folder}/pid; error_log {folder}/error;\n"
        "events { worker_connections 4096; }\n"
        f"http {{ access_log off; sendfile on; keepalive_requests 100000000; "
        f"server {{ listen {port} backlog=4096; root {folder}/www; }} }}\n"
    )
    return ["nginx", "-c", str(folder / "nginx.conf")]


def wrk(way: Way, hosts: Hosts, folder: Path, port: int, _: list[str]) -> dict[str, float]:
    server = Server(way, hosts, nginx(folder, port, 0), port)
    try:
        out = client(way, hosts, ["wrk", "--latency", "-t1", "-c100", "-d2s", f"http://{hosts.address}:{port}/small"])
    finally:
        server.stop()
    if "Socket errors" in out or "Non-2xx" in out:
        sys.exit(f"{way.name}: {out}")
    found = {"requests": float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1])}
    for what in ("50", "99"):
        number, unit = re.search(rf"\s{what}%\s+([\d.]+)(us|ms|s)", out).groups()
        found[f"p{what} ms"] = float(number) * {"us": 1e-3, "ms": 1, "s": 1e3}[unit]
    return found


def ab(way: Way, hosts: Hosts, folder: Path, port: int, _: list[str]) -> dict[str, float]:
    server = Server(way, hosts, nginx(folder, port, 0), port)
    try:
        out = client(way, hosts, ["ab", "-q", "-c", "20", "-n", "5000", f"http://{hosts.address}:{port}/small"])
    finally:
        server.stop()
    if int(re.search(r"Failed requests:\s+(\d+)", out)[1]):
        sys.exit(f"{way.name}: {out}")
    return {"connections": float(re.search(r"Requests per second:\s+([\d.]+)", out)[1])}


def curl(way: Way, hosts: Hosts, folder: Path, port: int, _: list[str]) -> dict[str, float]:
    server = Server(way, hosts, nginx(folder, port, 1024), port)
    try:
        url = f"http://{hosts.address}:{port}/large"
        out = client(way, hosts, ["curl", "-sS", "-o", "/dev/null", "-w", "%{speed_download} %{size_download}", url])
    finally:
        server.stop()
    speed, size = (float(word) for word in out.split())
    if size != 1 << 30:
        sys.exit(f"{way.name}: {out}")
    return {"GB/s": speed / 1e9}


def iperf3(way: Way, hosts: Hosts, folder: Path, port: int, more: list[str]) -> dict[str, float]:
    server = Server(way, hosts, ["iperf3", "-s", "-1", "-p", str(port)], port)
    try:
        out = client(way, hosts, ["iperf3", "-c", hosts.address, "-p", str(port), "-t", "2", "--json", *more])
    finally:
        server.stop()
    return {"Gbit/s": json.loads(out)["end"]["sum_received"]["bits_per_second"] / 1e9}


# It does not run as root; and a companion serves its own user, so that `pinnace run` has to be of that user.
AS_POSTGRES = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]


def database(folder: Path) -> Path:
    """A database of its own, made once: `pgbench` at scale 10."""
    found = folder / "postgres"
    if found.exists():
        return found
    folder.chmod(0o755)
    found.mkdir()
    shutil.chown(found, "postgres")
    run = lambda words: subprocess.run([*AS_POSTGRES, *words], check=True, capture_output=True)
    run([f"{POSTGRES}/initdb", "-D", str(found), "-A", "trust"])
    with open(found / "pg_hba.conf", "a") as file:
        file.write("host all all 10.78.0.0/24 trust\n")
    # With a log of its own: it would keep the pipe of this program's.
    here = ["-o", f"-k {found} -h ''", "-l", str(found / "log")]
    run([f"{POSTGRES}/pg_ctl", "-D", str(found), "-w", *here, "start"])
    try:
        run([f"{POSTGRES}/pgbench", "-h", str(found), "-i", "-s", "10", "-q", "postgres"])
    finally:
        run([f"{POSTGRES}/pg_ctl", "-D", str(found), "-w", "stop"])
    return found


def pgbench(way: Way, hosts: Hosts, folder: Path, port: int, more: list[str]) -> dict[str, float]:
    data = database(folder)
    words = [f"{POSTGRES}/postgres", "-D", str(data), "-k", "", "-h", hosts.address, "-p", str(port)]
    server = Server(way, hosts, words, port, AS_POSTGRES)
    try:
        words = [f"{POSTGRES}/pgbench", "-h", hosts.address, "-p", str(port), "-U", "postgres", "-n", "-c", "8", "-T", "3"]
        out = client(way, hosts, [*words, *more, "postgres"])
    finally:
        server.stop()
    rate = float(re.search(r"tps = ([\d.]+)", out)[1])
    return {"transactions": rate, "mean ms": float(re.search(r"latency average = ([\d.]+) ms", out)[1])}


MEASURES = {
    "redis-1": (redis, ["-c", "1", "-n", "20000"]),
    "redis-50": (redis, ["-c", "50", "-n", "100000"]),
    "redis-50-P16": (redis, ["-c", "50", "-n", "400000", "-P", "16"]),
    "pgbench-S": (pgbench, ["-S"]),
    "pgbench": (pgbench, []),
    "wrk-100": (wrk, []),
    "ab-20": (ab, []),
    "curl-1GB": (curl, []),
    "iperf3": (iperf3, []),
    "iperf3-P4": (iperf3, ["-P", "4"]),
    "iperf3-R": (iperf3, ["-R"]),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pinnace", nargs="+", help="builds of the command, each with its library beside it")
    parser.add_argument("--one-host", action="store_true", help="both ends on loopback, without QMP")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="measures whose name has this in it")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    for program in ("ip", "redis-server", "redis-benchmark", "wrk", "ab", "nginx", "curl", "iperf3"):
        if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin"):
            sys.exit(f"there is no {program}: see --help")
    if not (POSTGRES / "initdb").exists():
        sys.exit("there is no postgresql: see --help")
    os.environ["PATH"] += ":/usr/sbin"
    ways = [Way(TCP), *(Way(os.path.abspath(pinnace)) for pinnace in arguments.pinnace)]
    hosts = Hosts(arguments.one_host)
    seen: dict[tuple[str, str], list[float]] = {}
    port = 7000
    try:
        with tempfile.TemporaryDirectory() as folder:
            for round_ in range(arguments.rounds):
                for name, (measure, more) in MEASURES.items():
                    if arguments.only not in name:
                        continue
                    for way in ways[round_ % len(ways) :] + ways[: round_ % len(ways)]:
                        port += 1
                        for what, rate in measure(way, hosts, Path(folder), port, more).items():
                            seen.setdefault((f"{name} {what}", way.name), []).append(rate)
                            print(f"{name} {what}, {way.name}: {rate:.4g}", file=sys.stderr)
    finally:
        hosts.close()
    rows = []
    for name, way in seen:
        ratios = [rate / tcp for rate, tcp in zip(seen[name, way], seen[name, TCP])]
        rows.append(
            {
                "measure": name,
                "way": way,
                "median": statistics.median(seen[name, way]),
                "ratio": statistics.median(ratios),
                "least": min(ratios),
                "most": max(ratios),
            }
        )
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return
    print("| measure | way | median | of TCP, median (range) |\n|---|---|---|---|")
    for row in rows:
        ratio = "" if row["way"] == TCP else f"{row['ratio']:.2f} ({row['least']:.2f} to {row['most']:.2f})"
        print(f"| {row['measure']} | {row['way']} | {row['median']:.4g} | {ratio} |")


if __name__ == "__main__":
    main()

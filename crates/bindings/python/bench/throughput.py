"""Throughput of numpy arrays beside the same messages from Rust, each between two processes.

    cargo build --release -p pinnace-python --example throughput
    python crates/bindings/python/bench/throughput.py target/release/examples/throughput [--method zcrp] [--service ""]

Rounds of the two take turns, so that both see the same machine. Sixteen messages are under way at a time; the receiver looks at
each as an array, where it is. The figures are Gbit/s at the receiver: the median of the rounds, and the span from the first
to the third quartile.
"""

import argparse
import contextlib
import statistics
import subprocess
import sys
import time
from collections import deque

UNDER_WAY = 16


def recv(size, count):
    import numpy
    import pinnace

    with pinnace.listen("127.0.0.1:0") as listener:
        print(listener.address, flush=True)
        connection = listener.accept()
        begin = None
        for _ in range(count):
            array = numpy.frombuffer(connection.recv(), dtype=numpy.float32)
            assert array.nbytes == size
            begin = begin or time.perf_counter()
            # As the Rust program does: the memory of a message is given back before the next comes.
            del array
        print(time.perf_counter() - begin, flush=True)


def send(size, count, address, method, service):
    import numpy
    import pinnace

    connection = pinnace.connect(address, service, method=None if method == "any" else method)
    print(connection.method, flush=True)
    arrays = deque(numpy.full(size // 4, 7, dtype=numpy.float32) for _ in range(UNDER_WAY))
    under_way = deque()
    for _ in range(count):
        if len(under_way) == UNDER_WAY:
            under_way.popleft().wait()
        array = arrays.popleft()
        under_way.append(connection.send(array))
        arrays.append(array)
    for delivery in under_way:
        delivery.wait()
    # The receiver may be gone: it has everything.
    with contextlib.suppress(pinnace.Error):
        connection.close(0)


def race(program, arguments):
    size, count = str(arguments.size), str(arguments.count)
    receiver = subprocess.Popen([*program, "recv", size, count], stdout=subprocess.PIPE, text=True)
    address = receiver.stdout.readline().strip()
    sender = [*program, "send", size, count, address, arguments.method, arguments.service]
    method = subprocess.run(sender, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    seconds = float(receiver.communicate()[0])
    return method, (arguments.count - 1) * arguments.size * 8 / seconds / 1e9


def show(name, rounds):
    low, _, high = statistics.quantiles(rounds, n=4)
    print(f"{name:12} {statistics.median(rounds):7.2f} Gbit/s  ({low:.2f} to {high:.2f})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rust", help="the program bench/throughput.rs")
    parser.add_argument("--size", type=int, default=1 << 20)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--method", default="any")
    parser.add_argument("--service", default="size=1MiB")
    arguments = parser.parse_args()
    rust, python = [], []
    for _ in range(arguments.rounds):
        method, rate = race([arguments.rust], arguments)
        rust.append(rate)
        method, rate = race([sys.executable, __file__], arguments)
        python.append(rate)
    show(f"Rust {method}", rust)
    show(f"Python {method}", python)
    print(f"ratio {statistics.median(python) / statistics.median(rust):.2f}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["recv", size, count]:
            recv(int(size), int(count))
        case ["send", size, count, address, method, service]:
            send(int(size), int(count), address, method, service)
        case _:
            main()

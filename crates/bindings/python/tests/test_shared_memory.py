"""Two processes of one host: shared memory, by itself."""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest
from conftest import LONG, ROOT

# Two programs: HERE listens, THERE connects to it.
BEGIN = """
import sys, numpy, pinnace

def array(number, size):
    return numpy.random.default_rng(number).integers(0, 256, size, numpy.uint8)

SIZES = [0, 1, 100, 4096, 4097, 65_536, 1 << 20, 12_345_678]
"""

THERE = (
    BEGIN
    + """
connection = pinnace.connect(sys.argv[1], "direction=duplex largest=16MiB")
print(connection.method, flush=True)
for number, size in enumerate(SIZES):
    delivery = connection.send(array(number, size))
    message = connection.recv(20)
    assert numpy.array_equal(numpy.frombuffer(message, numpy.uint8), array(number, size)[::-1]), size
    assert delivery.wait(20).is_whole
connection.send(numpy.arange(100_000, dtype=numpy.float64).reshape(100, 1000)).wait()
connection.close(20)
"""
)

HERE = (
    BEGIN
    + """
listener = pinnace.listen("127.0.0.1:0")
print(listener.address, flush=True)
connection = listener.accept(20)
print(connection.method, flush=True)
for number, size in enumerate(SIZES):
    message = connection.recv(20)
    view = numpy.frombuffer(message, numpy.uint8)
    assert len(message) == size and numpy.array_equal(view, array(number, size)), size
    # What was received is memory, not a copy of it.
    again = numpy.frombuffer(memoryview(message), numpy.uint8)
    assert size == 0 or again.ctypes.data == view.ctypes.data
    connection.send(numpy.ascontiguousarray(view[::-1]))
matrix = numpy.zeros((100, 1000))
received = connection.recv_into(matrix, 20)
assert received.bytes == matrix.nbytes and matrix[99, 999] == 99_999 and received.is_whole
assert connection.recv(20) is None
print("everything", flush=True)
"""
)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    """The socket of a daemon."""
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("there is no cargo, by which the tests' daemon is built")
    build = [cargo, "build", "--locked", "--quiet", "-p", "pinnace-python", "--example", "daemon"]
    built = subprocess.run([*build, "--message-format=json"], cwd=ROOT, capture_output=True, text=True, check=True)
    messages = [json.loads(line) for line in built.stdout.splitlines()]
    [program] = [message["executable"] for message in messages if message.get("executable")]
    socket = tmp_path_factory.mktemp("daemon") / "daemon.sock"
    daemon = subprocess.Popen([program, socket], stdin=subprocess.PIPE)
    until = time.monotonic() + LONG
    while not socket.exists():
        assert daemon.poll() is None and time.monotonic() < until, "it does not serve"
        time.sleep(0.01)
    yield socket
    daemon.stdin.close()
    assert daemon.wait(LONG) == 0


def start(program, daemon, *arguments):
    environment = os.environ | {"PINNACE_DAEMON": str(daemon)}
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def talk(daemon_here, daemon_there):
    """What carries the connection of two processes, as each of them sees it, when all is there."""
    with start(HERE, daemon_here) as here:
        address = here.stdout.readline().strip()
        with start(THERE, daemon_there, address) as there:
            methods = there.stdout.readline().strip(), here.stdout.readline().strip()
            assert here.stdout.readline() == "everything\n"
            assert (there.wait(LONG), here.wait(LONG)) == (0, 0)
    return methods


def test_two_processes_with_one_daemon_share_memory(daemon):
    assert talk(daemon, daemon) == ("shared-memory", "shared-memory")


def test_without_a_daemon_in_common_they_use_the_network(daemon):
    there, here = talk(daemon, "off")
    assert there == here != "shared-memory"


def test_tasks_share_memory_too(daemon):
    program = """
import asyncio, numpy, pinnace

async def main():
    async with pinnace.aio.listen("127.0.0.1:0") as listener:
        async with await pinnace.aio.connect(listener.address, "direction=duplex", method="shared-memory") as client:
            server = await listener.accept()
            for number in range(50):
                sent = numpy.full(100_000, number, numpy.uint8)
                await client.send(sent)
                received = await server.recv()
                assert numpy.array_equal(numpy.frombuffer(received, numpy.uint8), sent)
            return client.method, server.method

print(*asyncio.run(asyncio.wait_for(main(), 60)))
"""
    with start(program, daemon) as process:
        assert process.stdout.read() == "shared-memory shared-memory\n"
        assert process.wait(LONG) == 0

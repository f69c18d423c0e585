"""What a child made by `os.fork` may do with its parent's objects, over every method."""

import concurrent.futures
import gc
import os
import subprocess
import sys
import traceback

import pinnace
import pytest
from conftest import LONG


def in_child(work):
    """Does the work in a child, and expects nothing to fail there."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            gc.collect()
            status = 0
        except BaseException:
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(status)
    assert os.waitpid(child, 0)[1] == 0, "it has said why"


def goes_on(pair):
    for here, there in (pair.client, pair.server), (pair.server, pair.client):
        delivery = here.send(bytes(100_000))
        assert len(there.recv(LONG)) == 100_000
        delivery.wait(LONG)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_leaves_the_connections_of_its_parent_alone(pair):
    pair.server.send(b"before")
    held = {"received": pair.client.recv(LONG), "delivery": pair.client.send(bytes(100_000))}

    def work():
        calls = [
            lambda: pair.client.send(b"ahoy"),
            lambda: pair.client.recv(0),
            lambda: pair.client.service,
            lambda: pair.client.close(),
            lambda: pair.client.abort(),
            lambda: pair.client.fileno(),
            lambda: pair.listener.accept(0),
            lambda: pair.listener.close(),
            lambda: held["delivery"].wait(0),
        ]
        for call in calls:
            with pytest.raises(pinnace.ClosedError, match="forked"):
                call()
        assert "of another process" in repr(held["delivery"]) and pair.client.method in repr(pair.client)
        assert bytes(held["received"]) == b"before", "what has come can be read"
        # They go, and nobody is told.
        held.clear()
        del pair.client, pair.server, pair.listener

    in_child(work)
    assert len(pair.server.recv(LONG)) == 100_000
    held["delivery"].wait(LONG)
    goes_on(pair)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_has_connections_of_its_own(pair):
    def work():
        with pinnace.connect(pair.listener.address, method=pair.client.method) as connection:
            connection.send(b"from a child").wait(LONG)

    with concurrent.futures.ThreadPoolExecutor() as threads:
        accepting = threads.submit(pair.listener.accept, LONG)
        in_child(work)
        accepted = accepting.result()
    assert bytes(accepted.recv(LONG)) == b"from a child" and accepted.recv(LONG) is None
    goes_on(pair)


def test_a_child_that_ends_with_all_that_it_has_ends_well(pair):
    program = """
import os, sys, pinnace
listener = pinnace.listen("127.0.0.1:0")
client = pinnace.connect(listener.address, "direction=duplex", method=sys.argv[1])
server, delivery = listener.accept(20), client.send(bytes(100_000))
child = os.fork()
if child == 0:
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert len(server.recv(20)) == 100_000
delivery.wait(20)
"""
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, pair.client.method], capture_output=True, timeout=60
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")

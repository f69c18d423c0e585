"""Connections of threads, over every method."""

import array
import asyncio
import concurrent.futures
import ctypes
import gc
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy
import pinnace
import pytest
from conftest import LONG, Pair, freeze


def pattern(size, seed):
    return (numpy.arange(size, dtype=numpy.uint32) * 2654435761 >> 24).astype(numpy.uint8) + numpy.uint8(seed)


def test_messages_of_all_sizes_arrive_both_ways(pair):
    for seed, size in enumerate([0, 1, 100, 1500, 4096, 4097, 65_536, 1 << 20, 5_000_000]):
        sent = pattern(size, seed)
        for here, there in (pair.client, pair.server), (pair.server, pair.client):
            delivery = here.send(sent)
            received = there.recv(LONG)
            assert len(received) == size and received.is_whole and received.holes == []
            assert numpy.array_equal(numpy.frombuffer(received, numpy.uint8), sent)
            assert delivery.wait(LONG).is_whole and delivery.done


def test_what_has_the_buffer_protocol_is_sent(pair):
    values = numpy.arange(5000, dtype=numpy.float64).reshape(50, 100)
    for sent in b"ahoy", bytearray(b"ahoy"), memoryview(b"0ahoy1")[1:5], values, values[7:9], bytes(10_000):
        pair.client.send(sent)
        assert bytes(pair.server.recv(LONG)) == bytes(memoryview(sent).cast("B"))
    for sent in (ctypes.c_int * 5)(1, 2, 3), numpy.float64(1.5), numpy.array(7), array.array("d", [1, 2]):
        pair.client.send(sent)
        assert bytes(pair.server.recv(LONG)) == bytes(memoryview(sent))
    with pytest.raises(BufferError, match="numpy.ascontiguousarray"):
        pair.client.send(values.T)
    with pytest.raises(TypeError):
        pair.client.send("a text")
    released = memoryview(b"ahoy")
    released.release()
    with pytest.raises(ValueError, match="released") as caught:
        pair.client.send(released)
    assert "numpy" not in str(caught.value), "a copy cannot be made of it either"
    with pytest.raises(TypeError, match="several"):
        pair.client.sendmsg(b"ahoy")


def test_arrays_of_objects_are_neither_sent_nor_received_into(pair):
    plain = numpy.zeros(2, dtype=[("Old", "i4"), ("O", "f8")])
    dates = numpy.array(["2026-11-28", "2026-11-29"], dtype="datetime64[s]")
    for sent in plain, dates:
        pair.client.send(sent)
        assert bytes(pair.server.recv(LONG)) == sent.tobytes()
    pair.client.send(bytes(16))
    for objects in (
        numpy.array([object(), 3], dtype=object),
        numpy.zeros(2, dtype=[("x", "i4"), ("y", object)]),
        (ctypes.py_object * 2)(1, 2),
    ):
        with pytest.raises(TypeError, match="objects"):
            pair.client.send(objects)
        with pytest.raises(TypeError, match="objects"):
            pair.client.sendmsg([b"ahoy", objects])
        with pytest.raises(TypeError, match="objects"):
            pair.server.recv_into(objects)
    assert bytes(pair.server.recv(LONG)) == bytes(16)


def test_whoever_accepts_is_told_that_another_thread_has_closed():
    listener = pinnace.listen("127.0.0.1:0")
    with concurrent.futures.ThreadPoolExecutor() as threads:
        accepting = threads.submit(listener.accept)
        time.sleep(0.05)
        listener.close()
        assert isinstance(accepting.exception(LONG), pinnace.ClosedError)


def test_whoever_accepts_of_a_listener_that_was_closed_is_told_so():
    listener = pinnace.listen("127.0.0.1:0")
    listener.close()
    for call in listener.accept, listener.fileno:
        with pytest.raises(pinnace.ClosedError, match="the listener was closed"):
            call()


def test_whoever_receives_is_told_that_another_thread_has_broken_off(pair):
    with concurrent.futures.ThreadPoolExecutor() as threads:
        receiving = threads.submit(pair.client.recv)
        time.sleep(0.05)
        pair.client.abort()
        assert isinstance(receiving.exception(LONG), pinnace.ConnectionError)


def test_a_message_of_several_buffers_is_one(pair):
    head, body, tail = bytearray(b"head"), pattern(1_000_000, 3), pattern(5000, 4)
    for parts in [], [head], [head, b"", memoryview(body), tail], (head for _ in range(1000)):
        parts = list(parts)
        delivery = pair.client.sendmsg(iter(parts))
        assert bytes(pair.server.recv(LONG)) == b"".join(bytes(part) for part in parts)
        delivery.wait(LONG)
    with pytest.raises(TypeError):
        pair.client.sendmsg([head, "a text"])
    with pytest.raises(TypeError):
        pair.client.sendmsg(5)


def test_lent_memory_is_given_back(pair):
    lent = bytearray(100_000)
    delivery = pair.client.send(lent)
    assert len(pair.server.recv(LONG)) == 100_000
    delivery.wait(LONG)
    lent.append(1)  # A buffer that is lent cannot change its size.

    # Nobody waits for this one: a thread of the library has done with it.
    pair.client.send(lent)
    assert len(pair.server.recv(LONG)) == 100_001
    pair.client.flush()
    until = time.monotonic() + LONG
    while True:
        try:
            lent.append(2)
            break
        except BufferError:
            assert time.monotonic() < until, "it was never given back"
            time.sleep(0.01)


def test_memory_is_the_programs_again_as_soon_as_a_call_has_failed(pair):
    calls = [
        (pinnace.TimeoutError, 10_000, lambda memory: pair.server.recv_into(memory, 0.05)),
        (ValueError, 10_000, lambda memory: pair.server.recv_into(memory, float("nan"))),
        (ValueError, 10_000, lambda memory: pair.client.send(memory, timeout=float("nan"))),
        (pinnace.MessageTooLongError, 9 << 20, pair.client.send),
        (TypeError, 10_000, lambda memory: pair.client.sendmsg([memory, "a text"])),
        (pinnace.MessageTooLongError, 9 << 20, pair.client.transact),
        (pinnace.MessageTooLongError, 10_000, lambda memory: pair.server.recv_into(memory, LONG)),
    ]

    def fail():
        for error, size, call in calls:
            memory = bytearray(size)
            if call is calls[-1][2]:
                pair.client.send(bytes(20_000))
            with pytest.raises(error):
                call(memory)
            # A buffer that is lent cannot change its size.
            memory.append(1)

    # The main thread waits: it gives nothing back meanwhile, which others have left to it.
    with concurrent.futures.ThreadPoolExecutor() as threads:
        threads.submit(fail).result()
    assert len(pair.server.recv(LONG)) == 20_000


def test_lent_memory_is_given_back_although_whoever_has_done_with_it_waits_on(pair):
    with concurrent.futures.ThreadPoolExecutor() as threads:
        # These do the work, and have none of their own to return with.
        receiving = threads.submit(pair.client.recv)
        taking = threads.submit(list, pair.server)
        time.sleep(0.1)
        try:
            lent = [bytearray(100_000) for _ in range(20)]
            for memory in lent:
                pair.client.send(memory)
            until = time.monotonic() + LONG
            for memory in lent:
                while True:
                    try:
                        memory.append(1)
                        break
                    except BufferError:
                        assert time.monotonic() < until, "it was never given back"
                        time.sleep(0.01)
        finally:
            pair.client.abort()
        assert isinstance(receiving.exception(LONG), pinnace.ConnectionError)
        assert isinstance(taking.exception(LONG), pinnace.ConnectionError)


def test_whoever_is_told_that_a_message_is_lost_may_ask_again_meanwhile():
    # Whatever Python runs while it makes an exception: here, when it collects garbage.
    program = """
import gc, pinnace
listener = pinnace.listen("127.0.0.1:0")
connection = pinnace.connect(listener.address)
delivery = connection.send(bytes(64 << 20))
connection.abort()
told = []
def ask(*_):
    try:
        delivery.wait(0)
    except pinnace.Error as error:
        told.append(error)
gc.callbacks.append(ask)
gc.set_threshold(1)
for _ in range(20):
    ask()
gc.callbacks.clear()
print("told", len(told) >= 20)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "told True\n", done


def test_what_was_received_is_not_copied_and_lives_as_long_as_its_views():
    pair = Pair(method="zcrp")
    pair.client.send(pattern(1 << 20, 3))
    received = pair.server.recv(LONG)
    first, second = numpy.frombuffer(received, numpy.uint8), numpy.frombuffer(received, numpy.uint8)
    assert first.ctypes.data == second.ctypes.data
    first[0] ^= 255
    assert received[0] == second[0] and received[:4].nbytes == 4
    del received, second
    gc.collect()
    for seed in range(100):
        pair.client.send(pattern(1 << 16, seed))
        pair.server.recv(LONG)
    first[0] ^= 255
    assert numpy.array_equal(first, pattern(1 << 20, 3)), "its memory was used again"


def test_messages_are_received_into_memory_of_the_program(pair):
    into = numpy.zeros(1000, dtype=numpy.float32)
    sent = numpy.arange(600, dtype=numpy.float32)
    pair.client.send(sent)
    received = pair.server.recv_into(into, LONG)
    assert (received.bytes, received.holes, received.is_whole) == (2400, [], True)
    assert numpy.array_equal(into[:600], sent) and not into[600:].any()

    pair.client.send(bytes(5000))
    with pytest.raises(pinnace.MessageTooLongError) as caught:
        pair.server.recv_into(into, LONG)
    assert caught.value.most == 4000 and "into more memory" in str(caught.value)
    assert len(pair.server.recv(LONG)) == 5000
    with pytest.raises(TypeError, match="cannot be written"):
        pair.server.recv_into(b"1234", 0)


def test_many_messages_are_under_way_and_keep_their_order(pair):
    deliveries = [pair.client.send(index.to_bytes(4, "big") + bytes(index * 7 % 3000)) for index in range(500)]
    for index in range(500):
        assert pair.server.recv(LONG)[:4].tobytes() == index.to_bytes(4, "big")
    assert all(delivery.wait(LONG).is_whole for delivery in deliveries)
    assert all(delivery.wait().is_whole for delivery in deliveries), "it may be asked again"


def test_the_end_is_none_and_ends_a_loop(pair):
    with pair.client as client:
        for text in b"haul", b"away":
            client.send(text)
    assert [bytes(message) for message in pair.server] == [b"haul", b"away"]
    assert pair.server.recv() is None
    with pytest.raises(pinnace.ClosedError):
        pair.client.send(b"too late")
    pair.client.close()  # Twice is no error.


def test_waits_end_in_time_and_other_threads_run_meanwhile(pair):
    ticks = 0
    stop = threading.Event()

    def tick():
        nonlocal ticks
        while not stop.wait(0.005):
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    begin = time.monotonic()
    with pytest.raises(TimeoutError) as caught:
        pair.client.recv(timeout=0.5)
    took = time.monotonic() - begin
    stop.set()
    thread.join()
    assert isinstance(caught.value, pinnace.Error)
    assert 0.45 < took < 5 and ticks > 1, "the interpreter was released"
    with pytest.raises(pinnace.TimeoutError):
        pair.listener.accept(timeout=0)


def test_requests_are_answered(pair):
    def serve():
        for request in pair.server:
            pair.server.send(bytes(request).upper())

    thread = threading.Thread(target=serve)
    thread.start()
    answers = {}

    def ask(text):
        answers[text] = bytes(pair.client.transact(text.encode(), timeout=LONG)).decode()

    threads = [threading.Thread(target=ask, args=(text,)) for text in ("ahoy", "mizzen mast", "keel")]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    pair.client.close()
    thread.join()
    assert sorted(answers.values()) == ["AHOY", "KEEL", "MIZZEN MAST"], "each was answered"


def test_a_response_that_comes_late_is_no_response_to_the_next_request(pair):
    def serve():
        for request in pair.server:
            time.sleep(0.1)
            pair.server.send(bytes(request).upper())

    thread = threading.Thread(target=serve)
    thread.start()
    with pytest.raises(pinnace.TimeoutError):
        pair.client.transact(b"too soon", timeout=0.01)
    assert bytes(pair.client.transact(b"ahoy", timeout=LONG)) == b"AHOY"
    pair.client.close()
    thread.join()


def test_a_request_that_waits_for_its_turn_ends_in_time(pair):
    first = []
    thread = threading.Thread(target=lambda: first.append(bytes(pair.client.transact(b"first", LONG))))
    thread.start()
    # Its turn has begun, and lasts until it is answered.
    assert bytes(pair.server.recv(LONG)) == b"first"
    begin = time.monotonic()
    with pytest.raises(pinnace.TimeoutError):
        pair.client.transact(b"second", timeout=0.2)
    took = time.monotonic() - begin
    pair.server.send(b"FIRST")
    thread.join()
    assert 0.15 < took < LONG / 2 and first == [b"FIRST"]
    # Whose turn never came has sent nothing.
    pair.client.send(b"third")
    assert bytes(pair.server.recv(LONG)) == b"third"


def test_the_descriptor_says_when_something_has_come(pair):
    descriptor = pair.server.fileno()
    while select.select([descriptor], [], [], 0)[0]:
        pair.server.clear()
        with pytest.raises(TimeoutError):
            pair.server.recv(0)
    pair.client.send(b"ahoy")
    received = None
    until = time.monotonic() + LONG
    while received is None:
        assert time.monotonic() < until
        assert select.select([descriptor], [], [], LONG)[0]
        pair.server.clear()
        try:
            received = pair.server.recv(0)
        except TimeoutError:
            continue
    assert received == b"ahoy"


def test_a_frame_has_holes_that_both_ends_know():
    pair = Pair("loss=20% run=8KiB critical=0..64 path=internet", method="vrp", fault={"loss": 0.1, "seed": 7})
    holes = 0
    for seed in range(1, 6):
        delivery = pair.client.send(bytes([seed]) * 300_000)
        received = pair.server.recv(LONG)
        data = numpy.frombuffer(received, numpy.uint8)
        missing = numpy.zeros(len(data), bool)
        for hole in received.holes:
            assert isinstance(hole, slice) and not data[hole].any()
            missing[hole] = True
        assert (data[~missing] == seed).all() and not missing[:64].any()
        assert received.bytes_lost == missing.sum() <= 0.25 * len(data)
        assert received.is_whole == (not received.holes) and received.loss.longest_run <= 8
        holes += len(received.holes)
        report = delivery.wait(LONG)
        assert report.loss.lost == received.loss.lost
    assert holes > 0
    # A message that is worth more.
    delivery = pair.client.send(bytes([9]) * 300_000, loss=0)
    assert pair.server.recv(LONG).is_whole and delivery.wait(LONG).is_whole


def test_who_is_overtaken_is_missed_and_late():
    pair = Pair("deadline=1ms order=yes largest=64MiB", method="vrp")
    # What is behind it waits for a millisecond, and it takes longer.
    large = pair.client.send(bytes(40 << 20))
    pair.client.send(b"ahoy")
    first = pair.server.recv(LONG)
    assert (bytes(first), first.missed, first.is_late) == (b"ahoy", 1, False)
    buffer = bytearray(40 << 20)
    second = pair.server.recv_into(buffer, LONG)
    assert (second.bytes, second.missed, second.is_late) == (40 << 20, 0, True)
    assert large.wait(LONG).is_whole


def test_the_service_of_a_connection_can_change():
    pair = Pair("loss=5% run=4KiB", method="vrp")
    assert (str(pair.client.service), pair.client.method) == ("loss=5% run=4KiB", "vrp")
    pair.client.set_service("loss=1% run=4KiB")
    assert pair.client.service == pinnace.Service(loss=0.01, run=4096)
    pair.client.set_service(pair.client.service.replace(loss=0.1))
    assert str(pair.client.service) == "loss=10% run=4KiB"
    with pytest.raises(pinnace.CannotError, match="direction"):
        pair.client.set_service(direction="duplex")
    explanation = pair.client.explain()
    assert explanation.choice == "vrp" and "vrp" in str(explanation)
    with pytest.raises(TypeError, match="cannot differ"):
        pair.client.send(b"ahoy", size=5)
    with pytest.raises(ValueError, match="need a loss"):
        pair.client.send(b"ahoy", run="4KiB")


def full(connection, length):
    """Sends until nothing has become free for a while; nobody receives. Returns how many were sent."""
    sent = 0
    while True:
        try:
            connection.send(bytes(length), timeout=0.5)
        except TimeoutError:
            return sent
        sent += 1


@pytest.mark.parametrize("method", ["zcrp", "vrp", "xtp", "qmp", "a1"])
def test_who_waits_for_room_gives_up_after_its_timeout(method):
    with pinnace.listen("127.0.0.1:0") as listener:
        connection = pinnace.connect(listener.address, "direction=duplex largest=1MiB", method=method)
        accepted = listener.accept()
        sent = full(connection, 1 << 20)
        for wait in (
            lambda: connection.send(bytes(1 << 20), timeout=0.1),
            lambda: connection.sendmsg([bytes(1 << 19), bytes(1 << 19)], timeout=0.1),
            lambda: connection.transact(bytes(1 << 20), timeout=0.1),
        ):
            begin = time.monotonic()
            with pytest.raises(TimeoutError):
                wait()
            assert 0.1 <= time.monotonic() - begin < 10
        # What found no room was not sent.
        assert [len(accepted.recv(10)) for _ in range(sent)] == [1 << 20] * sent
        connection.send(b"aye", timeout=10)
        assert bytes(accepted.recv(10)) == b"aye"
        connection.flush(timeout=10)


def test_nobody_answers_for_as_long_as_was_said():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        begin = time.monotonic()
        with pytest.raises(pinnace.NoAnswerError):
            pinnace.connect(silent.getsockname(), connect_timeout=0.4)
        assert 0.4 <= time.monotonic() - begin < 5


WAITS = ["listener.accept()", "full(connection)", "connection.flush()", "connection.close(60)", "to_nobody()"]


@pytest.mark.parametrize("wait", WAITS)
def test_control_c_ends_a_wait(wait):
    program = f"""
import os, signal, socket, threading, time, pinnace
# Who is started in the background may have been told to ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
listener = pinnace.listen("127.0.0.1:0")
connection = pinnace.connect(listener.address)
accepted = listener.accept()
def full(connection):
    while True:
        connection.send(bytes(1 << 20))
def to_nobody():
    silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    silent.bind(("127.0.0.1", 0))
    pinnace.connect(silent.getsockname())
if "flush" in "{wait}" or "close" in "{wait}":
    delivery = connection.send(bytes(64 << 20))
threading.Thread(target=lambda: (time.sleep(1), os.kill(os.getpid(), signal.SIGINT)), daemon=True).start()
begin = time.monotonic()
try:
    {wait}
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - begin < 10, flush=True)
    # Not what closing waits for.
    os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "interrupted True\n", done


@pytest.mark.parametrize("error", ["SystemExit", "KeyboardInterrupt"])
def test_a_signal_that_closes_the_listener_ends_more_than_the_loop_over_it(error):
    program = f"""
import os, signal, threading, time, pinnace
listener = pinnace.listen("127.0.0.1:0")
def end(*_):
    listener.close()
    raise {error}
signal.signal(signal.SIGTERM, end)
threading.Thread(target=lambda: (time.sleep(0.5), os.kill(os.getpid(), signal.SIGTERM)), daemon=True).start()
try:
    for connection in listener:
        pass
    print("swallowed")
except {error}:
    print("raised")
assert list(listener) == []
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("raised\n", "")


def test_objects_may_be_left_to_the_end_of_the_program():
    program = """
import pinnace
listener = pinnace.listen("127.0.0.1:0")
connection = pinnace.connect(listener.address)
deliveries = [connection.send(bytes(1 << 20)) for _ in range(5)]
accepted = listener.accept()
print("done")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_several_threads_may_be_told_that_a_message_did_not_arrive():
    program = """
import threading, time, pinnace, pinnace.errors
class Slow(pinnace.Error):
    def __init__(self, *arguments):
        # Whatever of Python's runs where an exception is made may let other threads run.
        time.sleep(0.3)
        super().__init__(*arguments)
for name in "LostError", "ClosedError", "DeliveryError":
    setattr(pinnace.errors, name, Slow)
listener = pinnace.listen("127.0.0.1:0")
connection = pinnace.connect(listener.address)
delivery = connection.send(bytes(64 << 20))
connection.abort()
told = []
def wait():
    try:
        delivery.wait(20)
    except Slow as error:
        told.append(error)
threads = [threading.Thread(target=wait) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(told))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "3\n", done


def test_a_peer_that_was_killed_is_an_error():
    program = """
import sys, pinnace
connection = pinnace.connect(sys.argv[1], "direction=duplex", method="xtp")
connection.send(b"here").wait()
sys.stdin.read()
"""
    listener = pinnace.listen("127.0.0.1:0", peer_timeout=1)
    peer = subprocess.Popen([sys.executable, "-c", program, listener.address], stdin=subprocess.PIPE)
    connection = listener.accept(LONG)
    assert connection.recv(LONG) == b"here"
    os.kill(peer.pid, signal.SIGKILL)
    peer.wait()
    peer.stdin.close()
    with pytest.raises(pinnace.LostError) as caught:
        connection.send(b"are you there?").wait(LONG)
        connection.recv(LONG)
    assert isinstance(caught.value, ConnectionError)


@pytest.mark.parametrize("method", ["zcrp", "vrp", "xtp", "qmp", "a1"])
@pytest.mark.parametrize("how", ["killed", "aborted", "closed"])
def test_whoever_neither_sends_nor_receives_asks_whether_the_peer_is_there(method, how):
    program = f"""
import sys, pinnace
connection = pinnace.connect(sys.argv[1], "direction=duplex", method="{method}", peer_timeout=1)
connection.send(b"here").wait()
sys.stdin.readline()
if "{how}" == "aborted":
    connection.abort()
if "{how}" == "closed":
    connection.close()
sys.stdin.read()
"""
    with pinnace.listen("127.0.0.1:0", peer_timeout=1) as listener:
        peer = subprocess.Popen([sys.executable, "-c", program, listener.address], stdin=subprocess.PIPE)
        connection = listener.accept(LONG)
        assert connection.recv(LONG) == b"here"
        assert connection.check() is None
        if how == "killed":
            os.kill(peer.pid, signal.SIGKILL)
        else:
            peer.stdin.write(b"\n")
            peer.stdin.flush()
        if how == "closed":
            assert connection.recv(LONG) is None
            connection.check()
        else:
            with pytest.raises(pinnace.LostError):
                for _ in range(int(LONG / 0.05)):
                    connection.check()
                    time.sleep(0.05)
        peer.stdin.close()
        peer.wait(LONG)


def test_several_threads_wait_for_one_delivery_each_as_long_as_it_says():
    program = """
import sys, pinnace
connection = pinnace.connect(sys.argv[1], "direction=duplex", method="xtp")
connection.send(b"here").wait()
sys.stdin.read()
"""
    with pinnace.listen("127.0.0.1:0", peer_timeout=60) as listener:
        peer = subprocess.Popen([sys.executable, "-c", program, listener.address], stdin=subprocess.PIPE)
        connection = listener.accept(LONG)
        assert connection.recv(LONG) == b"here"
        # What takes nothing keeps a message under way.
        freeze(peer)
        delivery = connection.send(bytes(1000))
        thread = threading.Thread(target=lambda: delivery.wait(LONG))
        thread.start()
        time.sleep(0.2)
        begin = time.monotonic()
        with pytest.raises(pinnace.TimeoutError):
            delivery.wait(timeout=0.2)
        assert not delivery.done
        took = time.monotonic() - begin

        async def awaited():
            return (await delivery).is_whole

        os.kill(peer.pid, signal.SIGCONT)
        assert asyncio.run(asyncio.wait_for(awaited(), LONG))
        thread.join()
        assert 0.15 < took < LONG / 2 and delivery.done and delivery.wait().is_whole
        peer.stdin.close()
        assert peer.wait(LONG) == 0


def test_what_is_broken_off_does_not_look_complete(pair):
    with pytest.raises(ZeroDivisionError), pair.client as client:
        client.send(b"the first of many").wait(LONG)
        client.send(bytes(1 // 0))
    assert bytes(pair.server.recv(LONG)) == b"the first of many"
    with pytest.raises(pinnace.Error):
        pair.server.recv(LONG)
    with pytest.raises(pinnace.Error):
        pair.client.send(b"more")


def test_a_message_beyond_the_largest_is_refused_where_it_is_sent():
    with pinnace.listen("127.0.0.1:0") as listener:
        with pinnace.connect(listener.address, "largest=1KiB") as client:
            with pytest.raises(pinnace.MessageTooLongError) as error:
                client.send(bytes(1025))
            assert error.value.most == 1024
            client.send(bytes(1024))


def test_an_address_that_is_none_is_named_with_what_is():
    for address, says in ("127.0.0.1", "has no port"), (":4747", "has no host"), ("pinnace://127.0.0.1:4747", "no URI"):
        for listen in pinnace.listen, pinnace.aio.listen:
            with pytest.raises(pinnace.ServiceError, match=f"{says}.*HOST:PORT"):
                listen(address)


def test_a_loop_over_a_listener_ends_when_another_thread_closes_it():
    listener, accepted = pinnace.listen("127.0.0.1:0"), []
    thread = threading.Thread(target=lambda: accepted.append(list(listener)))
    thread.start()
    time.sleep(0.05)
    listener.close()
    thread.join(LONG)
    assert accepted == [[]]


def test_a_peer_counts_as_gone_after_some_time():
    for seconds in 0, -1:
        with pytest.raises(ValueError, match="more than 0"):
            pinnace.connect("127.0.0.1:9", peer_timeout=seconds)

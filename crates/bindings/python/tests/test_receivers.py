"""One source, several receivers."""

import asyncio
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy
import pinnace
import pytest
from conftest import LONG, freeze


def fleet(count):
    listeners = [pinnace.listen("127.0.0.1:0") for _ in range(count)]
    return listeners, [listener.address for listener in listeners]


def states(source):
    return [receiver.state for receiver in source.receivers]


def array(number):
    size = 400_000 if number % 20 == 0 else number * 37 % 5000
    return numpy.random.default_rng(number).integers(0, 256, size, numpy.uint8)


def test_all_of_them_get_everything():
    listeners, addresses = fleet(3)
    got = []

    def receive(connection):
        count = 0
        for message in connection:
            assert numpy.array_equal(numpy.frombuffer(message, numpy.uint8), array(count))
            count += 1
        got.append(count)

    source = pinnace.connect_all(addresses, "multicast=3 largest=1MiB")
    assert (source.method, str(source.service)) == ("a1", "largest=1MiB multicast=3")
    threads = [threading.Thread(target=receive, args=(listener.accept(LONG),)) for listener in listeners]
    for thread in threads:
        thread.start()
    with source:
        deliveries = [source.send(array(number)) for number in range(100)]
        assert all(delivery.wait(LONG).is_whole for delivery in deliveries)
        assert [receiver.address for receiver in source.receivers] == addresses
        assert states(source) == ["connected"] * 3
        assert all(not receiver.in_group and receiver.skipped == 0 for receiver in source.receivers)
        assert all(0 < receiver.round_trip < LONG for receiver in source.receivers)
        assert addresses[1] in repr(source.receivers[1]) and "is there" in repr(source.receivers[1])
    for thread in threads:
        thread.join(LONG)
    assert got == [100] * 3


def test_they_come_and_go():
    listeners, addresses = fleet(3)
    host, port = addresses[1].rsplit(":", 1)
    source = pinnace.connect_all([addresses[0], (host, int(port))], slow_receiver=0.3)
    first, second = (listener.accept(LONG) for listener in listeners[:2])
    source.add_receiver(addresses[2])
    third = listeners[2].accept(LONG)
    source.remove_receiver(addresses[0], linger=LONG)
    source.send(b"ahoy")
    assert first.recv(LONG) is None
    assert [bytes(connection.recv(LONG)) for connection in (second, third)] == [b"ahoy"] * 2
    with pytest.raises(pinnace.CannotError, match="no receiver"):
        source.remove_receiver(addresses[0])
    with pytest.raises(ValueError, match="`ship`"):
        source.remove_receiver("ship")
    with pytest.raises(pinnace.CannotError, match="named twice"):
        source.add_receiver((host, int(port)))
    # One of them does not receive: it is cut off, and the other has everything.
    received = []
    thread = threading.Thread(target=lambda: received.extend(len(message) for message in second))
    thread.start()
    for _ in range(3000):
        source.send(bytes(1000))
    source.close(LONG)
    thread.join(LONG)
    assert received == [1000] * 3000
    assert states(source)[1] == "too-slow"


def test_who_has_no_room_may_be_left_out():
    listeners, addresses = fleet(2)
    source = pinnace.connect_all(addresses, slow_receiver="skip")
    first, second = (listener.accept(LONG) for listener in listeners)
    sent, end = 0, time.monotonic() + LONG
    while source.receivers[1].skipped == 0:
        assert time.monotonic() < end
        source.send(sent.to_bytes(4, "big") + bytes(1000))
        assert first.recv(LONG)[:4].tobytes() == sent.to_bytes(4, "big")
        sent += 1
    assert states(source) == ["connected"] * 2
    assert second.recv(LONG)[:4].tobytes() == bytes(4)


def test_what_cannot_be_is_an_error():
    listeners, addresses = fleet(2)
    with pytest.raises(pinnace.CannotError, match="2 are named"):
        pinnace.connect_all(addresses, "multicast=3")
    with pytest.raises(pinnace.CannotError, match="nobody is named"):
        pinnace.connect_all([])
    with pytest.raises(TypeError, match="use connect"):
        pinnace.connect_all(addresses[0])
    with pytest.raises(TypeError):
        pinnace.connect_all([7])
    with pytest.raises(pinnace.NoAnswerError, match="127.0.0.1:9"):
        pinnace.connect_all([addresses[0], "127.0.0.1:9"])
    with pytest.raises(ValueError, match="skip"):
        pinnace.connect_all(addresses, slow_receiver="sink")
    with pytest.raises(pinnace.TimeoutError):
        listeners[0].accept(0)
    # Messages go one way, and one receiver gets no others.
    source = pinnace.connect_all(addresses)
    with pytest.raises(pinnace.CannotError, match="one way"):
        source.recv(0)
    with pytest.raises(pinnace.CannotError, match="one way"):
        listeners[0].accept(LONG).send(b"ahoy")
    one = pinnace.connect_all(addresses[:1])
    assert one.receivers == []
    with pytest.raises(pinnace.CannotError, match="one peer"):
        one.add_receiver(addresses[1])


def test_tasks_send_to_several():
    async def main():
        listeners = [pinnace.aio.listen("127.0.0.1:0") for _ in range(3)]
        addresses = [listener.address for listener in listeners]
        source, first, second = await asyncio.gather(
            pinnace.aio.connect_all(addresses[:2], "multicast=2"), listeners[0].accept(), listeners[1].accept()
        )
        for number in range(50):
            delivery = await source.send(array(number))
            for message in await asyncio.gather(first.recv(), second.recv()):
                assert numpy.array_equal(numpy.frombuffer(message, numpy.uint8), array(number))
            assert (await delivery).is_whole
        adding = asyncio.create_task(source.add_receiver(addresses[2]))
        third = await listeners[2].accept()
        await adding
        await source.remove_receiver(addresses[0], linger=LONG)
        assert await first.recv() is None
        await source.send(b"ahoy")
        assert [bytes(await there.recv()) for there in (second, third)] == [b"ahoy"] * 2
        assert [receiver.address for receiver in source.receivers] == addresses[1:]
        await source.close(LONG)
        assert await second.recv() is None and await third.recv() is None
        with pytest.raises(pinnace.NoAnswerError, match="127.0.0.1:9"):
            await pinnace.aio.connect_all([addresses[0], "127.0.0.1:9"])

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_removal_that_is_given_up_keeps_no_loop():
    program = "import pinnace; it = pinnace.listen('127.0.0.1:0'); print(it.address, flush=True); it.accept().recv()"

    async def main(process, silent):
        listeners, addresses = fleet(1)
        source = await pinnace.aio.connect_all([addresses[0], silent], peer_timeout=LONG)
        freeze(process)
        await source.send(b"ahoy")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await source.remove_receiver(silent, linger=60)
        # It goes on.
        with pytest.raises(pinnace.CannotError, match="no receiver"):
            await source.remove_receiver(silent)

    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        try:
            begin = time.monotonic()
            asyncio.run(main(process, process.stdout.readline().strip()))
            assert time.monotonic() - begin < LONG / 4
        finally:
            process.kill()


def test_what_only_threads_can_do_waits_for_no_thread_of_the_program():
    async def main():
        listeners, addresses = fleet(3)
        loop, end = asyncio.get_running_loop(), threading.Event()
        loop.set_default_executor(ThreadPoolExecutor(1))
        busy = loop.run_in_executor(None, end.wait)
        try:
            async with asyncio.timeout(LONG):
                source = await pinnace.aio.connect_all(addresses[:2])
                await source.add_receiver(addresses[2])
                await source.remove_receiver(addresses[2])
                await source.abort()
        finally:
            end.set()
        await busy

    asyncio.run(main())

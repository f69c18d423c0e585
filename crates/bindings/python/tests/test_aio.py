"""Connections of tasks, over every method."""

import asyncio
import gc
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy
import pinnace
import pytest
from conftest import LONG, METHODS


def run(main):
    asyncio.run(asyncio.wait_for(main, 60))


async def pair(method, service="direction=duplex largest=8MiB", **settings):
    listener = pinnace.aio.listen("127.0.0.1:0")
    client, server = await asyncio.gather(
        pinnace.aio.connect(listener.address, service, method=method, **settings), listener.accept()
    )
    return client, server, listener


@pytest.mark.parametrize("method", METHODS)
def test_messages_of_all_sizes_arrive_both_ways(method):
    async def main():
        client, server, _listener = await pair(method)
        assert (client.method, server.method) == (method, method)
        for size in 0, 1, 1500, 65_536, 3_000_000:
            sent = numpy.random.default_rng(size).integers(0, 256, size, numpy.uint8)
            for here, there in (client, server), (server, client):
                delivery = await here.send(sent)
                received = await there.recv()
                assert numpy.array_equal(numpy.frombuffer(received, numpy.uint8), sent)
                assert (await delivery).is_whole
        async with client:
            await client.sendmsg([b"the ", bytearray(b"last one")])
        assert [bytes(message) async for message in server] == [b"the last one"]
        assert await server.recv() is None

    run(main())


@pytest.mark.parametrize("method", METHODS)
def test_two_tasks_of_one_loop_talk_without_a_pause(method):
    async def main():
        client, server, _listener = await pair(method)

        async def echo():
            async for message in server:
                await server.send(message)

        echoing = asyncio.create_task(echo())
        for index in range(300):
            assert bytes(await client.transact(index.to_bytes(4, "big"))) == index.to_bytes(4, "big")
        await client.close()
        await echoing

    run(main())


@pytest.mark.parametrize("method", METHODS)
def test_a_response_to_a_request_that_was_given_up_is_no_response_to_the_next(method):
    async def main():
        client, server, _listener = await pair(method)

        async def answer():
            async for message in server:
                await asyncio.sleep(0.05)
                await server.send(bytes(message).upper())

        answering = asyncio.create_task(answer())
        for text in (b"this", b"that"):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.transact(text), 0.01)
        assert bytes(await client.transact(b"the other")) == b"THE OTHER"
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(client.transact(b"late"), 0.01)
        assert bytes(await client.recv()) == b"LATE", "whoever asks for it has it"
        assert bytes(await client.transact(b"the last")) == b"THE LAST"
        await client.close()
        await answering

    run(main())


@pytest.mark.parametrize("method", METHODS)
def test_whoever_sends_much_waits_and_the_loop_goes_on(method):
    async def main():
        client, server, _listener = await pair(method)
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.002)
                ticks += 1

        async def send():
            for index in range(400):
                await client.send(index.to_bytes(4, "big") + bytes(50_000))
            await client.flush()

        async def recv():
            for index in range(400):
                assert (await server.recv())[:4].tobytes() == index.to_bytes(4, "big")

        ticking = asyncio.create_task(tick())
        await asyncio.gather(send(), recv())
        ticking.cancel()
        assert ticks > 0

    run(main())


# The receiver of VRP refuses what its program does not take, so that its sender is not full for long.
@pytest.mark.parametrize("method", [method for method in METHODS if method != "vrp"])
def test_a_queue_that_is_full_makes_a_task_wait_and_not_the_loop(method):
    async def main():
        client, server, _listener = await pair(method)

        async def send(index):
            await asyncio.wait_for(client.send(index.to_bytes(4, "big") + bytes(300_000)), 0.3)

        sent = 0
        while sent < 10_000:
            begin = time.monotonic()
            try:
                await send(sent)
            except TimeoutError:
                break
            assert time.monotonic() - begin < 5
            sent += 1
        # What was cancelled was not sent, and there is room again.
        waiting = asyncio.create_task(client.send(b"the last one"))
        for index in range(sent):
            assert (await server.recv())[:4].tobytes() == index.to_bytes(4, "big")
        assert bytes(await server.recv()) == b"the last one"
        assert (await (await waiting)).is_whole

    run(main())


@pytest.mark.parametrize("method", METHODS)
def test_a_wait_that_is_cancelled_loses_nothing(method):
    async def main():
        client, server, _listener = await pair(method)
        received = []

        async def recv():
            while len(received) < 100:
                try:
                    received.append(bytes(await asyncio.wait_for(server.recv(), 0.001)))
                except TimeoutError:
                    pass

        receiving = asyncio.create_task(recv())
        for index in range(100):
            await client.send(index.to_bytes(4, "big"))
            await asyncio.sleep(0.0012)
        await receiving
        assert received == [index.to_bytes(4, "big") for index in range(100)]

    run(main())


def test_an_idle_connection_leaves_the_loop_alone():
    async def main():
        client, server, _listener = await pair("zcrp")
        for _ in range(50):
            await client.send(b"ahoy")
            await server.recv()
        waiting = asyncio.create_task(server.recv())
        begin, cpu = time.monotonic(), time.process_time()
        late = 0.0
        for _ in range(50):
            before = time.monotonic()
            await asyncio.sleep(0.01)
            late = max(late, time.monotonic() - before)
        assert time.process_time() - cpu < 0.5 * (time.monotonic() - begin)
        assert late < 1
        await client.send(b"away")
        assert await waiting == b"away"

    run(main())


def test_messages_are_received_into_memory_of_the_program():
    async def main():
        client, server, _listener = await pair("zcrp")
        into = numpy.zeros(100, numpy.float64)
        await client.send(numpy.ones(50))
        received = await server.recv_into(into)
        assert received.bytes == 400 and into.sum() == 50
        await client.send(bytes(1000))
        with pytest.raises(pinnace.MessageTooLongError):
            await server.recv_into(into)
        assert len(await server.recv()) == 1000

    run(main())


def test_memory_that_cannot_be_received_into_loses_no_message():
    async def main():
        client, server, _listener = await pair("zcrp")
        await client.send(b"aye")
        for memory in (bytes(10), numpy.zeros(10)[::2], "text"):
            with pytest.raises((TypeError, BufferError)):
                await server.recv_into(memory)
        # It becomes useless while it is waited for.
        into = numpy.zeros(10, numpy.uint8)
        assert (await server.recv_into(into)).bytes == 3
        waiting = asyncio.create_task(server.recv_into(into))
        await asyncio.sleep(0.1)
        into.flags.writeable = False
        await client.send(b"aye, aye")
        with pytest.raises(TypeError, match="written"):
            await waiting
        assert bytes(await server.recv()) == b"aye, aye"
        await client.send(b"")
        assert (await server.recv_into(numpy.zeros((0, 4)))).bytes == 0

    run(main())


def test_memory_is_received_into_that_threads_receive_into():
    async def main():
        client, server, _listener = await pair("zcrp")
        numbers = numpy.arange(6, dtype=numpy.uint8)
        fields = numpy.dtype([("x", ">i4"), ("y", "<f8")])
        for kind, size in ("complex64", 8), (">i4", 4), (fields, 12), ("datetime64[s]", 8), ("?", 1):
            for receive in server.recv_into, lambda into: asyncio.to_thread(server._connection.recv_into, into):
                into = numpy.zeros(2, kind)
                await client.send(numbers)
                if size == 1:
                    with pytest.raises(pinnace.MessageTooLongError, match="6 bytes"):
                        await server.recv_into(into)
                    assert bytes(await server.recv()) == numbers.tobytes()
                else:
                    assert (await receive(into)).bytes == 6
                    assert into.tobytes() == numbers.tobytes() + bytes(2 * size - 6)
        with pytest.raises(TypeError, match="objects"):
            await server.recv_into(numpy.zeros(2, object))

    run(main())


def test_memory_is_the_programs_again_as_soon_as_receiving_into_it_has_failed():
    async def main():
        client, server, _listener = await pair("zcrp")
        into = bytearray(2)
        await client.send(b"longer")
        try:
            await server.recv_into(into)
        except pinnace.MessageTooLongError as error:
            # A buffer that somebody has a view of cannot change its size.
            into.extend(bytes(error.most * 2))
        assert (await server.recv_into(into)).bytes == 6 and into == b"longer"

    run(main())


def test_a_delivery_of_a_thread_can_be_awaited():
    async def main():
        with pinnace.listen("127.0.0.1:0") as listener, pinnace.connect(listener.address) as connection:
            delivery = connection.send(bytes(10_000))
            received = await asyncio.to_thread(lambda: listener.accept(LONG).recv(LONG))
            assert len(received) == 10_000 and (await delivery).is_whole

    run(main())


# What A1 takes has room at the other end, and arrives; VRP refuses what its program does not take.
@pytest.mark.parametrize("method", ["zcrp", "xtp", "qmp"])
@pytest.mark.parametrize("has_thread", [False, True])
def test_several_tasks_and_a_thread_wait_for_one_delivery(method, has_thread):
    async def main():
        client, server, _listener = await pair(method)
        deliveries = []
        try:
            while True:
                async with asyncio.timeout(0.3):
                    deliveries.append(await client.send(bytes(100_000)))
        except TimeoutError:
            pass

        async def arrives(delivery):
            return await delivery

        waiting = [asyncio.create_task(arrives(deliveries[-1])) for _ in range(3)]
        given_up = asyncio.create_task(limited(arrives(deliveries[-1])))
        await ends_too_late(given_up)
        if has_thread:
            waiting.append(asyncio.create_task(asyncio.to_thread(deliveries[-1].wait, LONG)))
            await asyncio.sleep(0.05)
            waiting.append(asyncio.create_task(arrives(deliveries[-1])))
            await asyncio.sleep(0.05)
        assert not any(task.done() for task in waiting)
        taking = asyncio.create_task(asyncio.to_thread(take_all, server))
        done, pending = await asyncio.wait(waiting, timeout=10)
        assert not pending and all(task.result().is_whole for task in done)
        await taking

    run(main())


def test_errors_are_those_of_threads():
    async def main():
        with pytest.raises(pinnace.NoAnswerError):
            await pinnace.aio.connect("127.0.0.1:9")
        listener = pinnace.aio.listen("127.0.0.1:0")
        with pytest.raises(pinnace.UnmetError):
            await pinnace.aio.connect(listener.address, "deadline=1ns")
        client = await pinnace.aio.connect(listener.address, "direction=duplex")
        async with await listener.accept():
            pass
        with pytest.raises(pinnace.NoResponseError):
            await client.transact(b"is anybody there?")
        with pytest.raises(pinnace.ServiceError):
            client.set_service("los=5%")

    run(main())


def test_several_loops_one_after_the_other():
    for _ in range(3):

        async def main():
            client, server, _listener = await pair("xtp")
            await client.send(b"ahoy")
            assert await server.recv() == b"ahoy"

        run(main())


async def ends_too_late(task):
    """Waits for a task whose time is over in the very turn of the loop in which it would have ended well."""
    with pytest.raises(TimeoutError):
        await task


async def limited(call):
    async with asyncio.timeout(0.2):
        return await call


def take_all(connection):
    """What comes, by this thread; meanwhile the loop stands still."""
    received = []
    try:
        while (message := connection._connection.recv(0.3)) is not None:
            received.append(bytes(message[:9]))
    except pinnace.TimeoutError:
        pass
    return received


async def fill(connection):
    try:
        while True:
            async with asyncio.timeout(0.3):
                await connection.send(bytes(100_000))
    except TimeoutError:
        pass


@pytest.mark.parametrize("method", METHODS)
def test_a_send_that_is_cancelled_in_its_last_moment_has_sent_nothing(method):
    # Room may come before that.
    async def main():
        client, server, _listener = await pair(method)
        await fill(client)
        late = asyncio.create_task(limited(client.send(b"cancelled" + bytes(99_991))))
        await asyncio.sleep(0.05)
        received = take_all(server)
        sent = await asyncio.gather(late, return_exceptions=True)
        received += take_all(server)
        assert received and (b"cancelled" in received) == (not isinstance(sent[0], TimeoutError)), sent

    run(main())


def test_a_request_that_is_cancelled_before_it_is_sent_has_no_response():
    async def main():
        client, server, _listener = await pair("zcrp")
        await fill(client)
        late = asyncio.create_task(limited(client.transact(b"first" + bytes(99_995))))
        await asyncio.sleep(0.05)
        take_all(server)
        await ends_too_late(late)
        take_all(server)
        second = asyncio.create_task(client.transact(b"second"))
        assert bytes(await server.recv()) == b"second"
        await server.send(b"response to second")
        assert bytes(await second) == b"response to second"

    run(main())


@pytest.mark.parametrize("method", METHODS)
def test_of_two_that_wait_one_gets_what_the_other_would_have(method):
    async def main():
        client, server, listener = await pair(method)
        late = asyncio.create_task(limited(server.recv()))
        await asyncio.sleep(0.02)
        waiting = asyncio.create_task(server.recv())
        await asyncio.sleep(0.02)
        client._connection.send(b"one")
        # The message and the end of the time are found in one turn.
        time.sleep(0.4)
        await ends_too_late(late)
        assert bytes(await waiting) == b"one"

        late = asyncio.create_task(limited(listener.accept()))
        await asyncio.sleep(0.02)
        waiting = asyncio.create_task(listener.accept())
        await asyncio.sleep(0.02)
        with ThreadPoolExecutor() as threads:
            connecting = threads.submit(pinnace.connect, listener.address, method=method)
            time.sleep(0.4)
            await ends_too_late(late)
            assert (await waiting).method == method
            connecting.result()

    run(main())


def test_what_is_put_back_is_received_by_whoever_waits():
    async def main():
        client, server, _listener = await pair("zcrp")
        short = asyncio.create_task(server.recv_into(bytearray(2)))
        await asyncio.sleep(0.02)
        waiting = asyncio.create_task(server.recv())
        await asyncio.sleep(0.02)
        await client.send(b"longer")
        with pytest.raises(pinnace.MessageTooLongError):
            await short
        assert bytes(await waiting) == b"longer"

    run(main())


def test_what_is_put_back_goes_to_whoever_has_waited_longest():
    async def main():
        client, server, _listener = await pair("zcrp")
        short = asyncio.create_task(server.recv_into(bytearray(2)))
        await asyncio.sleep(0.02)
        received = []

        async def recv(number):
            received.append((number, bytes(await server.recv())))

        waiting = []
        for number in range(8):
            waiting.append(asyncio.create_task(recv(number)))
            await asyncio.sleep(0.01)
        for number in range(8):
            await client.send(b"message %d" % number)
        with pytest.raises(pinnace.MessageTooLongError):
            await short
        await asyncio.gather(*waiting)
        assert received == [(number, b"message %d" % number) for number in range(8)]

    run(main())


# What A1 takes has room at the other end, and arrives.
@pytest.mark.parametrize("method", [method for method in METHODS if method != "a1"])
def test_flushing_takes_as_long_as_it_is_told(method):
    async def main():
        client, server, _listener = await pair(method)
        await fill(client)
        begin = time.monotonic()
        with pytest.raises(pinnace.TimeoutError):
            await client.flush(timeout=0.2)
        assert 0.1 < time.monotonic() - begin < 10
        with pytest.raises(pinnace.TimeoutError):
            await client.flush(0)
        with pytest.raises(ValueError, match="seconds"):
            await client.flush(float("nan"))
        taking = asyncio.create_task(asyncio.to_thread(take_all, server))
        await client.flush(30)
        await taking

    run(main())


# What A1 takes has room at the other end, and arrives.
@pytest.mark.parametrize("method", [method for method in METHODS if method != "a1"])
def test_nothing_is_left_of_a_flush_or_a_close_that_is_given_up(method):
    async def main():
        client, _server, _listener = await pair(method)
        await fill(client)
        for call in client.flush(), client.close(30.0):
            with pytest.raises(TimeoutError):
                await limited(call)
        await client.abort()

    begin = time.monotonic()
    run(main())
    assert time.monotonic() - begin < 20


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("is_killed", [True, False])
def test_a_task_that_neither_sends_nor_receives_asks_whether_the_peer_is_there(method, is_killed):
    program = f"""
import sys, pinnace
connection = pinnace.connect(sys.argv[1], "direction=duplex", method="{method}", peer_timeout=1)
connection.send(b"here").wait()
sys.stdin.readline()
connection.abort()
sys.stdin.read()
"""

    async def main():
        async with pinnace.aio.listen("127.0.0.1:0", peer_timeout=1) as listener:
            peer = subprocess.Popen([sys.executable, "-c", program, listener.address], stdin=subprocess.PIPE)
            connection = await listener.accept()
            assert await connection.recv() == b"here"
            assert connection.check() is None
            if is_killed:
                peer.kill()
            else:
                peer.stdin.write(b"\n")
                peer.stdin.flush()
            with pytest.raises(pinnace.LostError):
                for _ in range(int(LONG / 0.05)):
                    connection.check()
                    await asyncio.sleep(0.05)
            # And says so from now on, as everything else does.
            with pytest.raises(pinnace.LostError):
                connection.check()
            with pytest.raises(pinnace.LostError):
                await connection.send(b"are you there?")
            peer.stdin.close()
            peer.wait(LONG)

    run(main())


def test_whoever_waits_to_accept_is_told_that_the_listener_is_closed():
    async def main():
        listener = pinnace.aio.listen("127.0.0.1:0")

        async def accept_all():
            return [connection async for connection in listener]

        waiting = [asyncio.create_task(listener.accept()) for _ in range(2)]
        given_up = asyncio.create_task(listener.accept())
        all_of_them = asyncio.create_task(accept_all())
        await asyncio.sleep(0.05)
        listener.close()
        given_up.cancel()
        for task in waiting:
            with pytest.raises(pinnace.ClosedError):
                await asyncio.wait_for(task, 5)
        with pytest.raises(asyncio.CancelledError):
            await given_up
        assert await asyncio.wait_for(all_of_them, 5) == []
        with pytest.raises(pinnace.ClosedError):
            await listener.accept()
        # Nobody listens there, although tasks have waited.
        with pytest.raises(pinnace.Error):
            await pinnace.aio.connect(listener.address, connect_timeout=2)

    run(main())


def test_whoever_has_lost_a_connection_to_another_task_is_told_that_the_listener_is_closed():
    async def main():
        listener = pinnace.aio.listen("127.0.0.1:0")

        async def accept_one():
            connection = await listener.accept()
            # The others were woken by it as well, and have not had their turn.
            listener.close()
            return connection

        accepting = [asyncio.create_task(accept_one()) for _ in range(3)]
        await asyncio.sleep(0.05)
        client = await pinnace.aio.connect(listener.address)
        done, pending = await asyncio.wait(accepting, timeout=5)
        assert not pending
        accepted = [task.result() for task in done if task.exception() is None]
        assert len(accepted) == 1
        assert all(isinstance(task.exception(), pinnace.ClosedError) for task in done if task.exception() is not None)
        await client.send(b"ahoy")
        assert bytes(await accepted[0].recv()) == b"ahoy"
        # Nobody listens there, although tasks have waited.
        with pytest.raises(pinnace.Error):
            await pinnace.aio.connect(listener.address, connect_timeout=2)

    run(main())


class Abandoned:
    """A loop that is dropped while a task of its waits for a message. The other end is there."""

    def __init__(self, method="zcrp"):
        with pinnace.listen("127.0.0.1:0") as listener:
            loop = asyncio.new_event_loop()
            # That a task was dropped is no news.
            loop.set_exception_handler(lambda _loop, _context: None)
            client = loop.run_until_complete(self.wait(listener.address, method))
            self.server = listener.accept(LONG)
            # It wakes the task, which does not get its turn.
            self.server.send(b"ahoy").wait(LONG)
            time.sleep(0.05)
            loop.close()

    async def wait(self, address, method):
        async def recv():
            return await connection.recv()

        connection = await pinnace.aio.connect(address, "direction=duplex", method=method)
        self.task = asyncio.create_task(recv())
        await asyncio.sleep(0.05)

    def drop(self):
        del self.task
        gc.collect()


@pytest.mark.parametrize("method", METHODS)
def test_the_peer_of_a_task_that_was_dropped_with_its_loop_gets_the_end(method):
    abandoned = Abandoned(method)
    abandoned.drop()
    assert abandoned.server.recv(LONG) is None


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors are counted where Linux lists them")
def test_a_loop_that_was_dropped_with_its_tasks_leaves_no_descriptors_behind():
    def abandon():
        abandoned = Abandoned()
        abandoned.drop()
        with pytest.raises(pinnace.Error):
            while abandoned.server.recv(LONG) is not None:
                pass
            raise pinnace.Error("the end")
        abandoned.server.close()

    abandon()
    before, until = len(os.listdir("/proc/self/fd")), time.monotonic() + LONG
    for _ in range(8):
        abandon()
    while len(os.listdir("/proc/self/fd")) >= before + 8:
        assert time.monotonic() < until, "each has left some"
        gc.collect()
        time.sleep(0.05)


@pytest.mark.parametrize("method", METHODS)
def test_a_task_that_nobody_else_knows_is_not_taken_for_garbage(method):
    async def answer(connection):
        while (request := await connection.recv()) is not None:
            await connection.send(bytes(request).upper())

    async def serve(listener):
        async for connection in listener:
            asyncio.create_task(answer(connection))

    async def main():
        async with pinnace.aio.listen("127.0.0.1:0") as listener:
            serving = asyncio.create_task(serve(listener))
            address = listener.address
            asking = [await pinnace.aio.connect(address, "direction=duplex", method=method) for _ in range(3)]
            for _ in range(3):
                await asyncio.sleep(0.02)
                gc.collect()
                assert [bytes(await connection.transact(b"ahoy")) for connection in asking] == [b"AHOY"] * 3
            for connection in asking:
                await connection.close()
            serving.cancel()

    run(main())

"""Ping-pong of asyncio: Pinnace beside asyncio's own TCP streams, between two processes.

    python crates/bindings/python/bench/pingpong.py [--size 1024] [--method zcrp] [--idle block] [--service "direction=duplex"]

Rounds of the two take turns, so that both see the same machine. The figures are microseconds a round trip: the median of the
rounds, and the span from the first to the third quartile.
"""

import argparse
import asyncio
import multiprocessing
import statistics
import time

import pinnace


async def serve_streams(reader, writer, size):
    try:
        while True:
            writer.write(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, asyncio.CancelledError):
        writer.close()


async def serve_connection(connection):
    async for message in connection:
        await connection.send(message)


async def serve(pipe, size, idle):
    tcp = await asyncio.start_server(lambda reader, writer: serve_streams(reader, writer, size), "127.0.0.1", 0)
    listener = pinnace.aio.listen("127.0.0.1:0", idle=idle)
    pipe.send((tcp.sockets[0].getsockname()[1], listener.address))
    connection = await listener.accept()
    await serve_connection(connection)


def server(pipe, size, idle):
    asyncio.run(serve(pipe, size, idle))


async def ask_streams(reader, writer, message, count):
    begin = time.perf_counter()
    for _ in range(count):
        writer.write(message)
        await reader.readexactly(len(message))
    return (time.perf_counter() - begin) / count * 1e6


async def ask_connection(connection, message, count):
    begin = time.perf_counter()
    for _ in range(count):
        await connection.send(message)
        await connection.recv()
    return (time.perf_counter() - begin) / count * 1e6


def show(name, rounds):
    low, _, high = statistics.quantiles(rounds, n=4)
    print(f"{name:24} {statistics.median(rounds):7.1f} us  ({low:.1f} to {high:.1f})", flush=True)


async def main(arguments, port, address):
    message = bytes(arguments.size)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    settings = {"method": arguments.method, "idle": arguments.idle}
    async with await pinnace.aio.connect(address, arguments.service, **settings) as connection:
        await ask_streams(reader, writer, message, 200)
        await ask_connection(connection, message, 200)
        streams, ours = [], []
        for _ in range(arguments.rounds):
            streams.append(await ask_streams(reader, writer, message, arguments.count))
            ours.append(await ask_connection(connection, message, arguments.count))
        show("asyncio TCP streams", streams)
        show(f"pinnace.aio ({connection.method})", ours)
        print(f"ratio {statistics.median(streams) / statistics.median(ours):.2f} (above 1: Pinnace is faster)")
    writer.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--method")
    parser.add_argument("--idle", default="block", help="what a waiting thread does: block, adaptive or spin")
    parser.add_argument("--service", default="direction=duplex")
    arguments = parser.parse_args()
    multiprocessing.set_start_method("spawn")
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=server, args=(theirs, arguments.size, arguments.idle), daemon=True)
    process.start()
    asyncio.run(main(arguments, *ours.recv()))
    process.terminate()

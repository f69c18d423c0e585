"""Requests and responses, from many tasks at a time, each with a time limit.

python examples/python/07_transactions.py
"""

import asyncio

import pinnace


async def serve(listener):
    async for connection in listener:
        asyncio.create_task(answer(connection))


async def answer(connection):
    async for request in connection:
        await connection.send(bytes(request).upper())


async def ask(address, text):
    async with asyncio.timeout(10):
        async with await pinnace.aio.connect(address, "pattern=transaction") as connection:
            return bytes(await connection.transact(text.encode())).decode()


async def main():
    listener = pinnace.aio.listen("127.0.0.1:0")
    serving = asyncio.create_task(serve(listener))
    requests = ["ahoy", "mizzen mast", "keel"]
    for request, response in zip(requests, await asyncio.gather(*(ask(listener.address, text) for text in requests))):
        print(request, "->", response)
    serving.cancel()


asyncio.run(main())
# prints: ahoy -> AHOY
# prints: mizzen mast -> MIZZEN MAST
# prints: keel -> KEEL

"""Tasks: the same names, to be awaited.

python examples/python/03_asyncio.py
"""

import asyncio

import pinnace


async def greet(address):
    """Sends three messages, and returns when all have arrived."""
    async with await pinnace.aio.connect(address) as connection:
        # A message is under way from here on, awaited or not: all three travel together.
        under_way = [await connection.send(text) for text in (b"ahoy", b"who goes there?", b"a pinnace")]
        for delivery in under_way:
            await delivery


async def listen(listener):
    """Receives until the peer has closed."""
    connection = await listener.accept()
    return [bytes(message).decode() async for message in connection]


async def main():
    async with pinnace.aio.listen("127.0.0.1:0") as listener:
        texts, _ = await asyncio.gather(listen(listener), greet(listener.address))
    print("received", texts)


asyncio.run(main())
# prints: received ['ahoy', 'who goes there?', 'a pinnace']

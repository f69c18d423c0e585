"""Many messages under way at once: the way to use the whole of a network.

python examples/python/02_many_under_way.py
"""

import threading
import time
from collections import deque

import pinnace

SIZE = 64 * 1024
COUNT = 1000
# Messages under way: when one has arrived, its memory carries another one.
WINDOW = 32


def receive(listener):
    connection = listener.accept()
    # The memory of a message goes back to the connection when nobody has it any more.
    print(sum(len(message) for message in connection), "bytes received")


listener = pinnace.listen("127.0.0.1:0")
receiving = threading.Thread(target=receive, args=(listener,))
receiving.start()

begin = time.perf_counter()
with pinnace.connect(listener.address, pinnace.Service(size=SIZE, prefer="throughput")) as connection:
    free = [bytearray(SIZE) for _ in range(WINDOW)]
    under_way = deque()
    for number in range(COUNT):
        if not free:
            # A message that is under way has lent its memory: it is ours again when the message has arrived.
            delivery, memory = under_way.popleft()
            delivery.wait()
            free.append(memory)
        memory = free.pop()
        memory[:4] = number.to_bytes(4, "big")
        under_way.append((connection.send(memory), memory))
    connection.flush()
    seconds = time.perf_counter() - begin
receiving.join()
print(f"{COUNT} messages by {connection.method}, {COUNT * SIZE * 8 / seconds / 1e9:.2f} Gbit/s")
# prints: 65536000 bytes received

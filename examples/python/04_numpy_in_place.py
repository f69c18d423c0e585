"""Arrays, sent from where they are, and read where they have arrived.

python examples/python/04_numpy_in_place.py
"""

import threading

import numpy
import pinnace


def send(address):
    matrix = numpy.arange(1_000_000, dtype=numpy.float64).reshape(1000, 1000)
    with pinnace.connect(address, pinnace.Service(size=matrix.nbytes)) as connection:
        # Lent to the connection until it has arrived, not copied; so it must not be changed before.
        connection.send(matrix).wait()
        # Some of its rows, which lie in one piece.
        connection.send(matrix[10:20]).wait()


listener = pinnace.listen("127.0.0.1:0")
threading.Thread(target=send, args=(listener.address,)).start()
connection = listener.accept()

# A view of the memory where the connection has put the bytes. It lives as long as the array.
matrix = numpy.frombuffer(connection.recv(), dtype=numpy.float64).reshape(1000, 1000)
print("the sum is", matrix.sum())

# The other way: into an array that is there already.
rows = numpy.empty((10, 1000))
received = connection.recv_into(rows)
print("received", received.bytes, "bytes; the first is", rows[0, 0])
# prints: the sum is 499999500000.0
# prints: received 80000 bytes; the first is 10000.0

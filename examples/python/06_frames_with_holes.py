"""Frames that may lose something: a camera sends pictures over a bad path, and none of them waits for what it can do without.

python examples/python/06_frames_with_holes.py
"""

import threading

import numpy
import pinnace

PICTURES = 10
SHAPE = (400, 500)
HEADER = 64

# A tenth of a picture may be missing, two packets in a row at most, and nothing of its header.
camera = pinnace.Service(
    loss=0.1, run=2800, critical=[slice(0, HEADER)], size=SHAPE[0] * SHAPE[1], rate=20e6, path="internet"
)


def film(address):
    # A path that loses one packet in twenty, on purpose; without `fault` it is the path as it is. On one host a method that
    # loses nothing is cheaper, so this asks for VRP.
    with pinnace.connect(address, camera, method="vrp", fault={"loss": 0.05}) as connection:
        for number in range(PICTURES):
            picture = numpy.full(SHAPE, number + 1, dtype=numpy.uint8)
            # The camera learns what was lost: it could send smaller pictures.
            report = connection.send(picture).wait()
            print(f"sent picture {number}: {report.loss}")


listener = pinnace.listen("127.0.0.1:0")
filming = threading.Thread(target=film, args=(listener.address,))
filming.start()
missing = 0
for received in listener.accept():
    # The bytes lie where they belong; the holes are zeros.
    picture = numpy.frombuffer(received, dtype=numpy.uint8)
    assert picture[:HEADER].all(), "the header is whole"
    for hole in received.holes:
        assert not picture[hole].any()
        missing += hole.stop - hole.start
filming.join()
total = PICTURES * SHAPE[0] * SHAPE[1]
print(f"{missing} of {total} bytes are missing, all within the contract")
assert 0 < missing < total / 5

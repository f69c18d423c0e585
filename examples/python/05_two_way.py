"""Both ways on one connection: a client asks, a server answers many clients.

python examples/python/05_two_way.py
"""

import threading

import pinnace


def answer(connection):
    # The loop ends when the client closes.
    for question in connection:
        connection.send(bytes(question).upper())


def serve(listener):
    for connection in listener:
        threading.Thread(target=answer, args=(connection,)).start()


listener = pinnace.listen("127.0.0.1:0")
threading.Thread(target=serve, args=(listener,), daemon=True).start()

with pinnace.connect(listener.address, "direction=duplex") as connection:
    for question in "ahoy", "mizzen mast", "keel":
        connection.send(question.encode())
        print(question, "->", bytes(connection.recv()).decode())
# prints: ahoy -> AHOY
# prints: mizzen mast -> MIZZEN MAST
# prints: keel -> KEEL

import threading

import pinnace

listener = pinnace.listen("127.0.0.1:0")


def greet():
    with pinnace.connect(f"pinnace://{listener.address}?size=4KiB") as connection:
        connection.send(b"ahoy").wait()


threading.Thread(target=greet).start()
for message in listener.accept():
    print("received", bytes(message))
# prints: received b'ahoy'

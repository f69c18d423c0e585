"""Messages between programs: declare the service, get the transport.

A program says what it needs as a `Service`; `connect` finds the cheapest of six methods that meets it. Messages arrive in
one piece, without a copy where that is possible, and with a map of their holes where the service lets something be lost.

>>> import pinnace
>>> listener = pinnace.listen("127.0.0.1:0")
>>> with pinnace.connect(listener.address, "size=4KiB") as connection:
...     delivery = connection.send(b"ahoy")
...     message = listener.accept().recv()
>>> bytes(message)
b'ahoy'

The same for tasks is `pinnace.aio`. Connections belong to the process that made them, and children made by `os.fork` make
their own: a `multiprocessing` program uses the method `"spawn"` or `"forkserver"`, or connects in the child.
"""

from . import aio, errors, types
from ._pinnace import (
    Connection,
    Cost,
    Delivered,
    Delivery,
    Explanation,
    Listener,
    Loss,
    Offer,
    Received,
    ReceivedInto,
    Receiver,
    Service,
    __version__,
    connect,
    connect_all,
    explain,
    listen,
)
from .errors import (
    CannotError,
    ClosedError,
    DeliveryError,
    Error,
    LostError,
    MessageTooLongError,
    NoAnswerError,
    NoMemoryError,
    NoResponseError,
    RefusedError,
    ServiceError,
    UnmetError,
    UnreachedError,
)

# Not in `__all__`: `from pinnace import *` would hide the built-in ones. Twice the same name says that they are the package's.
from .errors import ConnectionError as ConnectionError
from .errors import OSError as OSError
from .errors import TimeoutError as TimeoutError

__all__ = [
    "CannotError",
    "ClosedError",
    "Connection",
    "Cost",
    "Delivered",
    "Delivery",
    "DeliveryError",
    "Error",
    "Explanation",
    "Listener",
    "Loss",
    "LostError",
    "MessageTooLongError",
    "NoAnswerError",
    "NoMemoryError",
    "NoResponseError",
    "Offer",
    "Received",
    "ReceivedInto",
    "Receiver",
    "RefusedError",
    "Service",
    "ServiceError",
    "UnmetError",
    "UnreachedError",
    "__version__",
    "aio",
    "connect",
    "connect_all",
    "errors",
    "explain",
    "listen",
    "types",
]

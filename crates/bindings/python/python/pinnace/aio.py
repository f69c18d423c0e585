"""Pinnace for tasks of asyncio: the names of `pinnace`, to be awaited.

>>> import asyncio, pinnace
>>> async def main():
...     async with pinnace.aio.listen("127.0.0.1:0") as listener:
...         async with await pinnace.aio.connect(listener.address, "direction=duplex") as connection:
...             await connection.send(b"ahoy")
...             accepted = await listener.accept()
...             return bytes(await accepted.recv())
>>> asyncio.run(main())
b'ahoy'

A wait that is cancelled (`asyncio.timeout`, `wait_for`) loses no message: what has come meanwhile is the next to be received.

The settings of `listen` and `connect` are those of `pinnace`, but that `idle` is `"block"` unless said otherwise: the thread
of a loop sleeps while nothing comes.
"""

from __future__ import annotations

import asyncio
import builtins
import math
import weakref
from collections import deque
from collections.abc import AsyncIterator, Collection, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _pinnace
from ._pinnace import Delivered, Delivery, Explanation, Operation, Reactor, Received, ReceivedInto, Receiver, Service
from .errors import ClosedError, Error, NoResponseError, TimeoutError

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from .types import Address, BufferLike, Method, Overrides, ServiceLike, Settings, Words

__all__ = ["Connection", "Listener", "connect", "connect_all", "listen"]


class _Pending(set["asyncio.Future[None]"]):
    """What tasks of a loop wait for. The loop has it, so that a task that nobody else knows is not taken for garbage."""


_reactors: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Reactor, weakref.ref[_Pending]]] = (
    weakref.WeakKeyDictionary()
)


def _watched(loop: asyncio.AbstractEventLoop) -> tuple[Reactor, weakref.ref[_Pending]]:
    """What the loop watches on behalf of the library, and what its tasks wait for."""
    watched = _reactors.get(loop)
    if watched is None:
        reactor, pending = Reactor(), _Pending()
        watched = _reactors[loop] = (reactor, weakref.ref(pending))

        # Only the loop has it, and what waits has the loop: they go together.
        def run(pending: _Pending = pending) -> None:
            reactor.run()

        loop.add_reader(reactor.fileno(), run)
    return watched


def _reactor(loop: asyncio.AbstractEventLoop) -> Reactor:
    """What the loop watches on behalf of the library."""
    return _watched(loop)[0]


async def _end(
    operation: Any, again: deque[Any] | None = None, waiting: dict[asyncio.Future[None], None] | None = None
) -> Any:
    """What an operation ends with, if it is one, or what is put `again` meanwhile, by whoever ends those that are `waiting`. It
    goes on only in the task's own turn: a task that is cancelled has done nothing."""
    if not isinstance(operation, Operation):
        return operation
    loop = asyncio.get_running_loop()
    waiting = {} if waiting is None else waiting
    found = _watched(loop)[1]()
    pending = _Pending() if found is None else found
    try:
        while not again:
            future = loop.create_future()
            operation.wakes(future)
            waiting[future] = None
            pending.add(future)
            try:
                await future
            finally:
                del waiting[future]
                pending.discard(future)
            if not again:
                ended = operation.look()
                if ended is not operation:
                    return ended
    except BaseException:
        # Also if the task is dropped with its loop.
        operation.cancel()
        raise
    operation.cancel()
    return again.popleft()


async def _delivered(delivery: Delivery) -> Delivered:
    """What has come of a message."""
    delivered: Delivered = await _end(delivery._wait(_reactor(asyncio.get_running_loop())))
    return delivered


class Connection:
    """`pinnace.Connection` for tasks. Made by `connect`, and by `accept` of a listener."""

    def __init__(self, connection: _pinnace.Connection) -> None:
        self._connection = connection
        # What was received, and is the next to be received again.
        self._again: deque[Received | None] = deque()
        # What tasks wait for that receive, in their order.
        self._receiving: dict[asyncio.Future[None], None] = {}
        self._transacting = asyncio.Lock()
        # Responses that nobody has received, also because whoever asked has given up.
        self._owed = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reactor: Reactor | None = None
        self._ready: Collection[object] = ()

    def _reacts(self) -> Reactor:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._reactor = _reactor(loop)
            self._loop = loop
            # What is about to run in the loop; of one that does not tell it is taken to be something.
            self._ready = getattr(loop, "_ready", (None,))
        return self._reactor  # type: ignore[return-value]

    async def send(self, buffer: BufferLike, **overrides: Unpack[Overrides]) -> Delivery:
        """Begins to send a message; waits for room, not for its arrival: `await` what is returned to know of that.

        The arguments are those of `pinnace.Connection.send`. A call that is cancelled while it waits has sent nothing.
        """
        return await self._begin(buffer, overrides, True)

    async def sendmsg(self, buffers: Iterable[BufferLike], **overrides: Unpack[Overrides]) -> Delivery:
        """Like `send`, one message of the bytes of several buffers, which are sent from where they lie."""
        return await self._begin(buffers, overrides, False)

    async def _begin(self, buffers: BufferLike | Iterable[BufferLike], overrides: Overrides, is_one: bool) -> Delivery:
        delivery: Delivery = await _end(self._connection._send(self._reacts(), buffers, overrides or None, is_one))
        return delivery

    async def recv(self) -> Received | None:
        """The next message; `None` when the peer has closed, and everything was received."""
        if self._again:
            return self._paid(self._again.popleft())
        reactor = self._reacts()
        received = self._connection._recv(reactor, not self._ready)
        if isinstance(received, Operation):
            return self._paid(await _end(received, self._again, self._receiving))
        if not isinstance(received, tuple):
            return self._paid(received)
        # The loop's thread has waited itself, often: the others have their turn first.
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self._put_back(received[0])
            raise
        return self._paid(received[0])

    def _put_back(self, received: Received | None) -> None:
        """The next to be received, also by a task that waits."""
        self._again.appendleft(received)
        for future in self._receiving:
            if not future.done():
                future.set_result(None)

    def _paid(self, received: Received | None) -> Received | None:
        """What was received: if a response is owed, that is it."""
        if self._owed:
            self._owed -= 1
        return received

    async def recv_into(self, buffer: BufferLike) -> ReceivedInto | None:
        """Like `recv`, into memory of the program's; the bytes are copied there."""
        # What it cannot be received into is said before anything has come; it is not held while nothing has.
        Received._check_into(buffer)
        owed = self._owed
        received = await self.recv()
        if received is None:
            return None
        try:
            return received._into(buffer)
        except Exception:
            self._put_back(received)
            self._owed = owed
            raise

    async def transact(self, request: BufferLike) -> Received:
        """Sends a request, and waits for the next message, which is the response. Others wait for their turn.

        If it is cancelled, the response that comes all the same is not taken for that to a later request.
        """
        async with self._transacting:
            self._connection._check_owed(self._owed)
            while self._owed:
                await self._response()
                self._connection._check_owed(self._owed)
            await self.send(request)
            self._owed += 1
            return await self._response()

    async def _response(self) -> Received:
        response = await self.recv()
        if response is None:
            raise NoResponseError("the peer has closed without a response")
        return response

    def set_service(self, service: ServiceLike = None, /, **words: Unpack[Words]) -> None:
        """As `pinnace.Connection.set_service`; does not wait."""
        self._connection.set_service(service, **words)

    @property
    def service(self) -> Service:
        """The service with which messages are sent."""
        return self._connection.service

    @property
    def method(self) -> Method:
        """What carries it."""
        return self._connection.method

    @property
    def peer(self) -> str:
        """Where the peer's socket is: `host:port`."""
        return self._connection.peer

    def explain(self) -> Explanation | None:
        """Why it is this method."""
        return self._connection.explain()

    @property
    def receivers(self) -> list[Receiver]:
        """Of a connection to several (`connect_all`): who is there, and who is not any more."""
        return self._connection.receivers

    async def add_receiver(self, peer: Address) -> None:
        """Adds a receiver to a connection to several, and waits until it has accepted. It goes on if it is cancelled."""
        await _end(self._connection._add_receiver(self._reacts(), peer))

    async def remove_receiver(self, peer: Address, linger: float = 1.0) -> None:
        """Removes a receiver: it gets what was sent, within `linger` seconds, and then its connection ends. It goes on if it
        is cancelled."""
        await _end(self._connection._remove_receiver(self._reacts(), peer, linger))

    async def flush(self, timeout: float | None = None) -> None:
        """Waits until everything that was sent has arrived, at most `timeout` seconds; `None`: for ever.

        Raises `TimeoutError`; `LostError` if the connection has failed.
        """
        if timeout is not None and math.isnan(timeout):
            raise ValueError("a timeout is a number of seconds")
        flushing = self._connection._flush(self._reacts())
        try:
            async with asyncio.timeout(timeout):
                await _end(flushing)
        except builtins.TimeoutError:
            raise TimeoutError("the time was over before everything had arrived") from None

    def check(self) -> None:
        """Whether the peer is there, as far as is known; one that has been silent for two seconds is asked, and a later call
        tells. Does not wait, and is not awaited. For tasks that neither send nor receive for long: those that do find out by
        that.

        >>> async def watch(connection):
        ...     while True:
        ...         connection.check()
        ...         await asyncio.sleep(1)

        Raises `LostError` if the peer has gone, has closed and takes nothing any more, or has broken off.
        """
        self._connection.check()

    async def close(self, linger: float = 1.0) -> None:
        """Ends what is sent: waits at most `linger` seconds for it to arrive, and tells the peer. After `TimeoutError` the
        end follows what was sent as long as the connection is there, and to close again is to wait again."""
        await _end(self._connection._close(self._reacts(), linger))

    async def abort(self) -> None:
        """Ends it at once, so that the peer does not take for complete what has come: see `pinnace.Connection.abort`."""
        await _end(self._connection._abort(self._reacts()))

    def __aiter__(self) -> AsyncIterator[Received]:
        return self

    async def __anext__(self) -> Received:
        received = await self.recv()
        if received is None:
            raise StopAsyncIteration
        return received

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # As `with pinnace.connect(...)`: whoever wants to know calls `close`.
        try:
            await (self.close() if kind is None else self.abort())
        except Error:
            pass

    def __repr__(self) -> str:
        return f"<pinnace.aio.Connection with {self.peer} by {self.method}>"


class Listener:
    """`pinnace.Listener` for tasks: `await accept()`, or `async for connection in listener`."""

    def __init__(self, listener: _pinnace.Listener) -> None:
        self._listener = listener
        # What tasks wait for that accept, and that it is over for them.
        self._accepting: dict[asyncio.Future[None], None] = {}
        self._over: deque[None] = deque()

    async def accept(self) -> Connection:
        """Waits for the next connection. Raises `ClosedError` if the listener is closed, also meanwhile."""
        operation = _reactor(asyncio.get_running_loop()).accept(self._listener)
        accepted = await _end(operation, self._over, self._accepting)
        if accepted is None:
            raise ClosedError("the listener was closed at this end")
        return Connection(accepted)

    @property
    def address(self) -> str:
        """Where it listens: `host:port`."""
        return self._listener.address

    @property
    def port(self) -> int:
        """The port where it listens."""
        return self._listener.port

    def close(self) -> None:
        """Accepts no more; connections that were accepted go on."""
        self._listener.close()
        # Also for those that were woken, and have not had their turn: another task may have what woke them.
        for future in self._accepting:
            self._over.append(None)
            if not future.done():
                future.set_result(None)

    def __aiter__(self) -> AsyncIterator[Connection]:
        return self

    async def __anext__(self) -> Connection:
        try:
            return await self.accept()
        except ClosedError:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<pinnace.aio.Listener at {self.address}>"


def listen(address: Address, service: ServiceLike = None, **settings: Unpack[Settings]) -> Listener:
    """Listens at `address`, as `pinnace.listen` does. Does not wait."""
    settings.setdefault("idle", "block")
    return Listener(_pinnace.listen(address, service, **settings))


async def connect(peer: Address, service: ServiceLike = None, **settings: Unpack[Settings]) -> Connection:
    """Connects, as `pinnace.connect` does."""
    reactor = _reactor(asyncio.get_running_loop())
    settings.setdefault("idle", "block")
    return Connection(await _end(reactor.connect(peer, service, settings)))


async def connect_all(
    peers: Iterable[Address], service: ServiceLike = None, **settings: Unpack[Settings]
) -> Connection:
    """Connects to several receivers at once, as `pinnace.connect_all` does.

    >>> import asyncio, pinnace
    >>> async def main():
    ...     listeners = [pinnace.aio.listen("127.0.0.1:0") for _ in range(2)]
    ...     async with await pinnace.aio.connect_all([listener.address for listener in listeners]) as source:
    ...         await source.send(b"ahoy, all")
    ...         return [bytes(await (await listener.accept()).recv()) for listener in listeners]
    >>> asyncio.run(main())
    [b'ahoy, all', b'ahoy, all']
    """
    reactor = _reactor(asyncio.get_running_loop())
    settings.setdefault("idle", "block")
    return Connection(await _end(reactor.connect_all(peers, service, settings)))

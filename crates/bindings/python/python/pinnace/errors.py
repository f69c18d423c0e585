"""Exceptions of Pinnace. All are `pinnace.Error`; where Python has an exception of the same meaning they are that as well.

>>> import builtins, pinnace
>>> issubclass(pinnace.TimeoutError, pinnace.Error) and issubclass(pinnace.TimeoutError, builtins.TimeoutError)
True
"""

import builtins


class Error(Exception):
    """What all exceptions of Pinnace are."""


class OSError(Error, builtins.OSError):
    """The operating system refused: an address is taken, or there are no descriptors left."""


class TimeoutError(Error, builtins.TimeoutError):
    """The time was over. What was begun goes on."""


class ServiceError(Error, ValueError):
    """A text or keyword says no service."""

    word: str
    """The word that is wrong."""
    problem: str
    """What is wrong with it."""
    allowed: str
    """What is allowed in its place."""
    near: str | None
    """What may have been meant."""


class UnmetError(Error):
    """No method can carry the service; says of each method why not."""


class CannotError(Error):
    """The method that carries the connection cannot do this."""


class DeliveryError(Error):
    """A message was refused, or did not arrive."""


class MessageTooLongError(Error, ValueError):
    """A message is longer than the memory for it, or than what is received at most."""

    most: int
    """How many bytes there is room for."""


class NoMemoryError(Error, MemoryError):
    """This end has no memory for a message that comes, and has broken off the connection."""


class NoResponseError(Error):
    """The peer has closed without a response."""


class ConnectionError(Error, builtins.ConnectionError):
    """A connection was not made, or is of no use."""


class NoAnswerError(ConnectionError):
    """Nobody answers at the address."""


class RefusedError(ConnectionError, builtins.ConnectionRefusedError):
    """The peer has refused, and said why."""


class UnreachedError(ConnectionError):
    """The peer answers, but no method reaches it."""


class LostError(ConnectionError, builtins.ConnectionResetError):
    """The connection is lost: the peer, or the path to it, is gone."""


class ClosedError(ConnectionError):
    """The connection, or the listener, was closed at this end."""

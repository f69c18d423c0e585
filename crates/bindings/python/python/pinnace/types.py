"""The types of arguments, for programs that wrap the package's calls and check their types.

>>> import asyncio, pinnace
>>> from typing import Unpack
>>> from pinnace.types import Address, Settings
>>> def connect(address: Address, **settings: Unpack[Settings]) -> pinnace.Connection:
...     return pinnace.connect(address, "size=4KiB", **settings)

Always true: what a call takes as keywords is a `TypedDict` here, all of whose keys may be left out.
"""

import sys
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict

from ._pinnace import Service

if TYPE_CHECKING:
    from typing_extensions import Buffer
elif sys.version_info >= (3, 12):
    from collections.abc import Buffer
else:
    Buffer = Any

__all__ = [
    "Address",
    "Array",
    "BufferLike",
    "Fault",
    "Method",
    "Overrides",
    "Ranges",
    "ServiceLike",
    "Settings",
    "Share",
    "Size",
    "Time",
    "Words",
]

Method: TypeAlias = Literal["shared-memory", "zcrp", "vrp", "xtp", "qmp", "a1"]
"""What carries a connection."""
Address: TypeAlias = str | tuple[str, int]
"""`"host:port"`, a URI, or a host and a port."""
Time: TypeAlias = float | str | timedelta
"""Seconds, or a text: `"50ms"`."""
Size: TypeAlias = int | str
"""Bytes, or a text: `"4KiB"`."""
Share: TypeAlias = float | str
"""From 0 to 1, or a text: `"5%"`."""
Ranges: TypeAlias = str | slice | range | Sequence[slice | range | tuple[int, int] | str]
"""Bytes of a message: one range or several, or a text: `"0..64"`."""


class Array(Protocol):
    """An array of numpy: that it has the buffer protocol, numpy's own types say only from Python 3.12 on."""

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """Where its bytes are; nobody calls it."""


BufferLike: TypeAlias = Buffer | Array
"""Whatever has the buffer protocol."""


class Overrides(TypedDict, total=False):
    """What differs for one message from the service: keywords of `send` and `sendmsg`."""

    loss: Share | None
    run: Size | None
    critical: Ranges | None
    floor: Share | None
    deadline: Time | None
    lifespan: Time | None


class Words(Overrides, total=False):
    """The words of a service: keywords of `Service` and `set_service`."""

    size: Size | None
    largest: Size | None
    rate: float | str | None
    burst: Size | None
    priority: int | str | None
    multicast: int | str | None
    pattern: Literal["messages", "stream", "transaction"] | None
    order: bool | Literal["yes", "no"] | None
    in_place: bool | Literal["yes", "no"] | None
    checksum: Literal["none", "internet"] | None
    prefer: Literal["latency", "throughput"] | None
    direction: Literal["one-way", "duplex"] | None
    path: Literal["host", "cluster", "internet"] | None


class Fault(TypedDict, total=False):
    """What goes wrong on purpose, to test a program: shares of the packets."""

    loss: float
    duplication: float
    reordering: float
    corruption: float
    seed: int


class Settings(TypedDict, total=False):
    """Keywords of `connect`, `connect_all` and `listen`."""

    method: Method | None
    exclude: Method | Iterable[Method] | None
    peer_timeout: float | None
    connect_timeout: float | None
    longest_message: Size | None
    backlog: int | None
    idle: Literal["block", "adaptive", "spin"] | float | None
    congestion: str | None
    fault: Fault | None
    slow_receiver: Literal["skip", "wait"] | float | None


ServiceLike: TypeAlias = Service | str | Words | None
"""What says a service."""

"""The behaviour of a client, written once for blocking and for asynchronous callers.

A flow is a generator that yields effects and receives their results. `Client` performs each effect
by blocking, `AsyncClient` by awaiting.
"""

from __future__ import annotations

import logging
import random
import secrets
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeAlias, TypeVar

from google.protobuf.message import Message

from pawl_client._advice import repeatable
from pawl_client._errors import PawlError, UnavailableError

T = TypeVar("T")

log = logging.getLogger("pawl_client")

_QUIET_SECONDS = 2.0
"""Time of repetitions without a line in the log."""


@dataclass(frozen=True, slots=True)
class Operation(Generic[T]):
    """One unary call: its path, its request, and the reader of its answer."""

    path: str
    request: Message
    response: type[Message]
    read: Callable[[Any], T]


@dataclass(frozen=True, slots=True)
class Invoke:
    """Make a call once, within `timeout` seconds. Its result is the raw answer."""

    operation: Operation[Any]
    timeout: float


@dataclass(frozen=True, slots=True)
class Send:
    """Send several requests in one call, once. Its result is the raw answer.

    `messages` creates them again, from the first one on, at each call.
    """

    path: str
    request: type[Message]
    messages: Callable[[], Iterable[Message]]
    response: type[Message]
    timeout: float


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Handle:
    """Call user code. With `AsyncClient` its result may be awaitable."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


Effect: TypeAlias = "Invoke | Send | Sleep | Handle"
Flow: TypeAlias = Generator[Effect, Any, T]


def new_id() -> str:
    """Returns a new idempotency id. Each intent has one, which its repetitions keep."""
    return secrets.token_hex(16)


@dataclass(slots=True)
class Backoff:
    """Growing pauses in seconds. Each is between half and all of its bound."""

    bound: float = 0.05
    most: float = 1.0

    def next(self) -> float:
        """The next pause."""
        pause = self.bound * random.uniform(0.5, 1.0)
        self.bound = min(self.bound * 2, self.most)
        return pause

    def reset(self) -> None:
        """Starts again after a success."""
        self.bound = 0.05


def check_timeout(timeout: float | None) -> None:
    """Raises ValueError for a timeout of 0 or less. None means no bound."""
    if timeout is not None and not timeout > 0:
        raise ValueError(f"timeout: must be greater than 0 s, not {timeout}")


def attempt(operation: Operation[T], *, timeout: float, retry_for: float) -> Flow[T]:
    """Makes a call, and repeats the same request while the error permits it."""
    return operation.read((yield from _repeated(Invoke(operation, timeout), retry_for)))


def _repeated(call: Invoke, retry_for: float) -> Flow[Any]:
    timeout = call.timeout
    check_timeout(timeout)
    start, most = time.monotonic(), min(timeout, retry_for)
    backoff, logged = Backoff(), False
    while True:
        try:
            return (yield call)
        except PawlError as error:
            pause = max(backoff.next(), error.retry_after or 0.0)
            passed = time.monotonic() - start
            if not repeatable(error) or passed + pause > most:
                raise
            if not logged and passed > _QUIET_SECONDS and isinstance(error, UnavailableError):
                logged = True
                log.warning("%s; trying again for %.0f s more", error, most - passed)
        yield Sleep(pause)
        left = timeout - (time.monotonic() - start)
        call = replace(call, timeout=max(left, 0.001))

"""What a client does, written once for blocking and for asynchronous callers.

A flow is a generator that yields effects and is sent their results. `Client` performs
each effect by blocking, `AsyncClient` by awaiting.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeAlias, TypeVar

from google.protobuf.message import Message

from pawl._advice import repeatable
from pawl._errors import PawlError

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class Operation(Generic[T]):
    """One unary call: its path, its request, and how its answer is read."""

    path: str
    request: Message
    response: type[Message]
    read: Callable[[Any], T]


@dataclass(frozen=True, slots=True)
class Invoke:
    """Make a call once, within `timeout` seconds. Its result is the raw answer.

    `driving`: it is a driver's, and may share the stream of all that the client drives.
    `then` may go along behind it, if the two are about one run; the result is a pair then,
    of the answer and of that of `then`: its raw answer, its PawlError, or None if it did
    not go along.
    """

    operation: Operation[Any]
    timeout: float
    driving: bool = False
    then: Operation[Any] | None = None


@dataclass(frozen=True, slots=True)
class Send:
    """Send several requests in one call, once. Its result is the raw answer.

    `messages` makes them, from the first one on each time.
    """

    path: str
    request: type[Message]
    messages: Callable[[], Iterable[Message]]
    response: type[Message]
    timeout: float


@dataclass(frozen=True, slots=True)
class Sleep:
    """Let `seconds` pass."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Handle:
    """Call the user's code; what it returns may be awaitable for `AsyncClient`."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Follow:
    """Read records of a run until `enough` says so. Its result is that record."""

    run_id: str
    after_seq: int
    kinds: tuple[str, ...]
    enough: Callable[[Any], bool]
    timeout: float | None


Effect: TypeAlias = "Invoke | Send | Sleep | Handle | Follow"
Flow: TypeAlias = Generator[Effect, Any, T]


def new_id() -> str:
    """A fresh idempotency id. It is made once per intent and kept over repetitions."""
    return secrets.token_hex(16)


@dataclass(slots=True)
class Backoff:
    """Growing pauses, in seconds, each between half and all of its bound."""

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
    """Raises ValueError for a time in which nothing can happen. None: no bound."""
    if timeout is not None and not timeout > 0:
        raise ValueError(f"timeout: more than 0 seconds, not {timeout}")


def attempt(
    operation: Operation[T], *, timeout: float, retry_for: float, driving: bool = False
) -> Flow[T]:
    """Makes a call, and repeats it with the very same request while that may help."""
    call = Invoke(operation, timeout, driving)
    return operation.read((yield from _repeated(call, retry_for)))


def attempt_both(
    operation: Operation[T], then: Operation[U], *, timeout: float, retry_for: float
) -> Flow[tuple[T, U | None]]:
    """As `attempt`, for a driver's call and one behind it, which is about the same run and
    for nothing if it does not go along or fails; None in its place says so."""
    call = Invoke(operation, timeout, True, then)
    answer, following = yield from _repeated(call, retry_for)
    if following is None or isinstance(following, PawlError):
        return operation.read(answer), None
    return operation.read(answer), then.read(following)


def _repeated(call: Invoke, retry_for: float) -> Flow[Any]:
    timeout = call.timeout
    check_timeout(timeout)
    start = time.monotonic()
    backoff = Backoff()
    while True:
        try:
            return (yield call)
        except PawlError as error:
            pause = max(backoff.next(), error.retry_after or 0.0)
            passed = time.monotonic() - start + pause
            if not repeatable(error) or passed > min(timeout, retry_for):
                raise
        yield Sleep(pause)
        left = timeout - (time.monotonic() - start)
        call = replace(call, timeout=max(left, 0.001))

"""How the blocking client waits and reaches its sidecar; the counterpart of `_awaiting`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from threading import Event, Timer
from time import sleep
from typing import Any, TypeVar

import grpc

from pawl._settings import Settings
from pawl._threads import Threads

__all__ = ["Line", "called", "closing", "limited", "open_channel", "sleep", "together"]

T = TypeVar("T")


def open_channel(settings: Settings) -> grpc.Channel:
    """A channel. Threads may share it."""
    if settings.tls is None:
        return grpc.insecure_channel(settings.address, settings.options())
    return grpc.secure_channel(settings.address, settings.tls.credentials(), settings.options())


class Line:
    """The channel of a client, open from the beginning: no thread has to be the first."""

    def __init__(self, settings: Settings) -> None:
        self.channel = open_channel(settings)
        """The channel."""

    def close(self) -> None:
        """Ends the calls under way."""
        self.channel.close()


def called(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """What a function of the user returns. Refuses a coroutine, which nothing here would
    ever run."""
    value = function(*arguments)
    if hasattr(value, "__await__"):
        if hasattr(value, "close"):
            value.close()
        raise TypeError("coroutines (a handler, a tool, pieces of a blob) need AsyncClient")
    return value


def together(calls: Sequence[Callable[[], T]]) -> list[T]:
    """What several calls return, made at the same time, in threads; a single one in this
    one. All come to their end; then the first error is raised."""
    if len(calls) < 2:
        return [call() for call in calls]
    threads = Threads("pawl-call")
    try:
        futures = [threads.run(call) for call in calls]
        for future in futures:
            future.exception()
        return [future.result() for future in futures]
    finally:
        threads.close()


def limited(stream: Iterable[T], seconds: float | None) -> Generator[T, None, None]:
    """What a stream gives, for so long at most: it is closed then, at its next sign of life.
    Raises TimeoutError."""
    over = Event()

    def end() -> None:
        over.set()
        close = getattr(stream, "close", None)
        if close is not None:
            close()

    timer = None if seconds is None else Timer(seconds, end)
    if timer is not None:
        timer.daemon = True
        timer.start()
    try:
        for piece in stream:
            if over.is_set():
                break
            yield piece
    except Exception:
        if not over.is_set():
            raise
    finally:
        if timer is not None:
            timer.cancel()
    if over.is_set():
        raise TimeoutError(f"more than {seconds} s")

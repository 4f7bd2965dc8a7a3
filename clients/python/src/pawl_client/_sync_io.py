"""Waiting and connecting for the blocking client. The counterpart of `_async_io`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import closing
from queue import Empty, SimpleQueue
from time import monotonic, sleep
from typing import Any, TypeVar

import grpc

from pawl_client._background_loop import in_loop
from pawl_client._settings import Settings
from pawl_client._threads import Threads

__all__ = [
    "ClientChannel",
    "call_handler",
    "closing",
    "open_channel",
    "run_all",
    "sleep",
    "with_timeout",
]

T = TypeVar("T")


def open_channel(settings: Settings) -> grpc.Channel:
    """A channel. Threads may share it."""
    if settings.tls is None:
        return grpc.insecure_channel(settings.address, settings.options())
    return grpc.secure_channel(settings.address, settings.tls.credentials(), settings.options())


class ClientChannel:
    """The channel of a client, opened at once, so that its threads need not coordinate."""

    def __init__(self, settings: Settings) -> None:
        self.channel = open_channel(settings)
        """The channel."""

    def close(self) -> None:
        """Ends the active calls."""
        self.channel.close()


def call_handler(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Calls a user's function. Raises TypeError for a coroutine result, because no loop would
    run it.
    """
    value = function(*arguments)
    if hasattr(value, "__await__"):
        if hasattr(value, "close"):
            value.close()
        raise TypeError(
            "coroutines (a handler, a tool, pieces of a blob) need AsyncClient; "
            "pass a plain function or iterable to Client"
        )
    return value


def run_all(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Makes several calls at the same time, in threads, and returns their results.

    A single call is made in this thread. It waits for all of them, and then raises the first error.
    """
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


def with_timeout(
    source: AsyncGenerator[T, None], seconds: float | None
) -> Generator[T, None, None]:
    """Yields the values of a stream, which runs in a shared background event loop.

    Raises TimeoutError after `seconds`.
    """
    queue: SimpleQueue[Any] = SimpleQueue()
    end = object()

    async def copy() -> None:
        try:
            async for piece in source:
                queue.put(piece)
        finally:
            await source.aclose()

    future = in_loop(copy())
    future.add_done_callback(lambda _: queue.put(end))
    until = None if seconds is None else monotonic() + seconds
    try:
        while True:
            left = None if until is None else max(until - monotonic(), 0.0)
            piece = queue.get(timeout=left)
            if piece is end:
                future.result()
                return
            yield piece
    except Empty:
        raise TimeoutError(f"took more than {seconds} s") from None
    finally:
        future.cancel()

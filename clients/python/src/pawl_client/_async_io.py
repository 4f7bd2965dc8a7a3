"""Waiting and connecting for the asynchronous client.

Its counterpart is `_sync_io`: the generated blocking client imports the same names from there.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing as closing
from typing import Any, TypeVar

import grpc

from pawl_client._errors import PawlError
from pawl_client._settings import Settings
from pawl_client._status import error_from_rpc

__all__ = [
    "ClientChannel",
    "call_handler",
    "closing",
    "open_channel",
    "run_all",
    "sleep",
    "stream_error",
    "with_timeout",
]

T = TypeVar("T")

sleep = asyncio.sleep


def open_channel(settings: Settings) -> grpc.aio.Channel:
    """A channel of the running event loop."""
    if settings.tls is None:
        return grpc.aio.insecure_channel(settings.address, settings.options())
    return grpc.aio.secure_channel(settings.address, settings.tls.credentials(), settings.options())


class ClientChannel:
    """The channel of a client. It belongs to an event loop.

    The loop need not run when the client is created: the first call opens the channel.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._channel: grpc.aio.Channel | None = None

    @property
    def channel(self) -> grpc.aio.Channel:
        """The channel, opened on first use."""
        if self._channel is None:
            self._channel = open_channel(self._settings)
        return self._channel

    async def close(self) -> None:
        """Ends the active calls. The next call opens the channel again."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()


async def stream_error(call: Any, settings: Settings) -> PawlError | None:
    """Returns why a stream ended. None means that the sidecar ended it without an error."""
    code, text = await call.code(), await call.details()
    if code is grpc.StatusCode.OK:
        return None
    metadata = await call.trailing_metadata()
    return error_from_rpc(
        grpc.aio.AioRpcError(code, grpc.aio.Metadata(), metadata, details=text), settings
    )


async def call_handler(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Calls a user's function, and awaits its result if it is awaitable."""
    value = function(*arguments)
    return await value if inspect.isawaitable(value) else value


async def run_all(calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Makes several calls at the same time and returns their results.

    It waits for all of them, and then raises the first error.
    """

    async def one(call: Callable[[], Awaitable[T]]) -> T:
        return await call()

    ends = await asyncio.gather(*map(one, calls), return_exceptions=True)
    values: list[T] = []
    for end in ends:
        if isinstance(end, BaseException):
            raise end
        values.append(end)
    return values


async def with_timeout(
    source: AsyncGenerator[T, None], seconds: float | None
) -> AsyncGenerator[T, None]:
    """Yields the values of a stream, which runs in a task of its own. Raises TimeoutError after
    `seconds`.
    """
    queue: asyncio.Queue[Any] = asyncio.Queue()
    end = object()

    async def copy() -> None:
        async with closing(source):
            async for piece in source:
                queue.put_nowait(piece)

    task, clock = asyncio.create_task(copy()), asyncio.get_running_loop().time
    task.add_done_callback(lambda _: queue.put_nowait(end))
    until = None if seconds is None else clock() + seconds
    try:
        while True:
            left = None if until is None else max(until - clock(), 0.0)
            # Values that have arrived are yielded even after the timeout.
            ready = not queue.empty()
            piece = queue.get_nowait() if ready else await asyncio.wait_for(queue.get(), left)
            if piece is end:
                await task
                return
            yield piece
    except asyncio.TimeoutError:
        raise TimeoutError(f"took more than {seconds} s") from None
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

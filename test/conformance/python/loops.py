"""How the driver executes: by the blocking client, or by the asynchronous one in an event loop
of its own. What is the same in both is written once, as coroutines."""

import asyncio
import inspect
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any

import pawl_client

PATIENCE = 120.0
"""Seconds that a handler holds at most."""


async def ready(value: Any) -> Any:
    """What a call gives: that of a blocking client at once."""
    return await value if inspect.isawaitable(value) else value


def finished(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that never waits: its calls are those of a blocking client."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise RuntimeError("a blocking handler waits in an event loop")


class Blocking:
    """The blocking client; handlers are functions."""

    def client(self, **options: Any) -> Any:
        """A client."""
        return pawl_client.Client(**options)

    def handler(self, function: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
        """A handler out of what is written as a coroutine."""
        return lambda argument: finished(function(argument))

    async def wait(self, point: Future[None]) -> None:
        """Waits until a point is passed."""
        point.result(PATIENCE)

    async def pause(self, seconds: float) -> None:
        """Waits."""
        time.sleep(seconds)  # noqa: ASYNC251

    def begin(self, coroutine: Coroutine[Any, Any, Any]) -> Callable[[], object]:
        """Executes in the background; what it returns waits for the end."""
        thread = threading.Thread(target=finished, args=(coroutine,), daemon=True)
        thread.start()
        return thread.join


class Looping:
    """The asynchronous client; handlers are coroutine functions."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def client(self, **options: Any) -> Any:
        """A client, whose calls the driver makes as those of a blocking one."""

        async def make() -> pawl_client.AsyncClient:
            return pawl_client.AsyncClient(**options)

        return self._given(self._made(make()))

    def handler(self, function: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
        """A handler out of what is written as a coroutine."""
        return function

    async def wait(self, point: Future[None]) -> None:
        """Waits until a point is passed."""
        # Who is cancelled leaves the point to others.
        await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(point)), PATIENCE)

    async def pause(self, seconds: float) -> None:
        """Waits."""
        await asyncio.sleep(seconds)

    def begin(self, coroutine: Coroutine[Any, Any, Any]) -> Callable[[], object]:
        """Executes in the background; what it returns waits for the end."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result

    def _made(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _given(self, value: Any) -> Any:
        """What a call gave, as that of a blocking client."""
        if inspect.isawaitable(value):
            return self._given(self._made(ready(value)))
        if inspect.isasyncgen(value):
            return self._each(value)
        if isinstance(value, (pawl_client.AsyncClient, pawl_client.AsyncRun)):
            return Calls(value, self._given)
        return value

    def _each(self, values: Any) -> Iterator[Any]:
        end = object()

        async def following() -> Any:
            return await anext(values, end)

        while (value := self._made(following())) is not end:
            yield value


class Calls:
    """An asynchronous object; each of its calls is waited for."""

    def __init__(self, inner: Any, given: Callable[[Any], Any]) -> None:
        self.inner, self._given = inner, given

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.inner, name)
        if not callable(value):
            return value
        return lambda *values, **named: self._given(value(*values, **named))


def inner(value: Any) -> Any:
    """The client or run itself."""
    return value.inner if isinstance(value, Calls) else value

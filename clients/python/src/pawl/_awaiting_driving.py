"""Drives a run, and tells those who started it what happens in it.

Its counterpart is `_blocking_driving`: what is generated for the blocking client imports the
same names from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from pawl._awaiting import called, closing
from pawl._event_reader import EventReader
from pawl._events import Event
from pawl._served import Served

__all__ = ["Driven", "OnOutput", "driven"]

T_co = TypeVar("T_co", covariant=True)
OnOutput = Callable[[Event], "Awaitable[None] | None"]


class _Run(Protocol[T_co]):
    """A run that can be driven."""

    async def _drive(self, served: Served) -> T_co: ...


class Driven(Coroutine[Any, Any, T_co], Generic[T_co]):
    """A run that is driven: `await` gives its result, `async for` its events on the way there.

        driven = client.run("support", handler, input="Where is my order?")
        async for event in driven:
            if event.kind == "text":
                print(event.text, end="")
        result = await driven

    Nothing happens before it is awaited or iterated over. Who leaves the iteration early gives
    the run up: another `drive` goes on with it. What goes wrong is raised by both.
    """

    def __init__(
        self,
        begin: Callable[[], Awaitable[Any]],
        served: Served,
        on_output: OnOutput | None,
    ) -> None:
        self._begin, self._served, self._on_output = begin, served, on_output
        self._whole: Coroutine[Any, Any, T_co] | None = None
        self._results: list[T_co] = []

    def __await__(self) -> Generator[Any, Any, T_co]:
        return self._coroutine().__await__()

    async def __aiter__(self) -> AsyncGenerator[Event, None]:
        run = await self._begin()
        reader: EventReader = run._client._events(run.id)
        stream = run._client.read(reader)
        driving = asyncio.ensure_future(run._drive(self._served))
        try:
            while not reader.over():
                following = asyncio.ensure_future(anext(stream))
                try:
                    await _either(following, driving, reader)
                    if not following.done():
                        break
                    events = following.result()
                except StopAsyncIteration:
                    break
                finally:
                    following.cancel()
                    await asyncio.wait({following})
                for event in events:
                    if self._on_output is not None:
                        await called(self._on_output, (event,))
                    yield event
            self._results = [await driving]
        finally:
            driving.cancel()
            await asyncio.wait({driving})
            await stream.aclose()

    # A coroutine: tasks are made of it.

    def send(self, value: Any) -> Any:
        """See `Coroutine.send`."""
        return self._coroutine().send(value)

    def throw(
        self,
        kind: Any,
        value: BaseException | object = None,
        trace: TracebackType | None = None,
    ) -> Any:
        """See `Coroutine.throw`."""
        error: Any = kind if value is None else value
        return self._coroutine().throw(error)

    def close(self) -> None:
        """See `Coroutine.close`."""
        if self._whole is not None:
            self._whole.close()

    def _coroutine(self) -> Coroutine[Any, Any, T_co]:
        if self._whole is None:
            self._whole = self._result()
        return self._whole

    async def _result(self) -> T_co:
        if not self._results and self._on_output is None:
            run = await self._begin()
            result: T_co = await run._drive(self._served)
            return result
        if not self._results:
            async with closing(self.__aiter__()) as events:
                async for _ in events:
                    pass
        return self._results[0]


async def _either(
    following: asyncio.Future[Any], driving: asyncio.Future[Any], reader: EventReader
) -> None:
    """Waits for the next events; in vain where the run is driven to its end and they all came."""
    while not following.done() and not reader.over():
        if driving.done():
            reader.until = driving.result().run.seq
            if not reader.over():
                await asyncio.wait({following})
        else:
            await asyncio.wait({following, driving}, return_when=asyncio.FIRST_COMPLETED)


def driven(
    begin: Callable[[], Awaitable[_Run[T_co]]], served: Served, on_output: OnOutput | None
) -> Driven[T_co]:
    """A run that `begin` starts, and `served` executes."""
    return Driven(begin, served, on_output)

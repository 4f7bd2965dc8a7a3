"""Drives a run and sends its events to the caller.

Its counterpart is `_sync_drive`: the generated blocking client imports the same names from there.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from pawl_client._async_io import call_handler, closing
from pawl_client._errors import CallCancelledError
from pawl_client._event_reader import EventReader
from pawl_client._events import Event
from pawl_client._served_run import ServedRun

__all__ = ["Driven", "OnOutput", "driven"]

T_co = TypeVar("T_co", covariant=True)
OnOutput = Callable[[Event], "Awaitable[None] | None"]


class _Run(Protocol[T_co]):
    """A run that can be driven."""

    async def _drive(self, served: ServedRun) -> T_co: ...


class Driven(Coroutine[Any, Any, T_co], Generic[T_co]):
    """A run that is driven: `await` returns its result, `async for` yields its events.

        driven = client.run("support", handler, input="Where is my order?")
        async for event in driven:
            if event.kind == "text":
                print(event.text, end="")
        result = await driven

    The run begins at the first `await` or iteration, once. From then on it is driven whether or not
    its events are read. A caller that leaves the iteration early abandons the run: another `drive`
    can continue it, and a later `await` or iteration raises CallCancelledError. Every `await` and
    every iteration raises the errors of the run.
    """

    def __init__(
        self,
        begin: Callable[[], Awaitable[Any]],
        served: ServedRun,
        on_output: OnOutput | None,
    ) -> None:
        self._begin, self._served, self._on_output = begin, served, on_output
        self._whole: Coroutine[Any, Any, T_co] | None = None
        self._start_task: asyncio.Future[Any] | None = None
        self._drive_task: asyncio.Future[T_co] | None = None
        self._abandoned_by: Exception | None = None
        """Why the run was abandoned."""
        self._watched = False
        """Whether an iteration calls, or has called, `on_output`."""

    def __await__(self) -> Generator[Any, Any, T_co]:
        return self._result().__await__()

    async def __aiter__(self) -> AsyncGenerator[Event, None]:
        run, driving = await self._started()
        on_output, self._watched = None if self._watched else self._on_output, True
        # A driven run waits without a limit for a sidecar that is away, so its events do, too.
        reader: EventReader = run._client._events(run.id, reconnect_for=math.inf)
        stream = run._client.read(reader)
        try:
            while not reader.over():
                following = asyncio.ensure_future(anext(stream))
                try:
                    await self._either(following, driving, reader)
                    if not following.done():
                        break
                    events = following.result()
                    if self._abandoned_by is not None:
                        raise self._abandoned_by
                except StopAsyncIteration:
                    break
                finally:
                    following.cancel()
                    await asyncio.wait({following})
                for event in events:
                    if on_output is not None:
                        await call_handler(on_output, (event,))
                    yield event
            await asyncio.wait({driving})
            self._outcome(driving)
        except BaseException as error:
            self._abandon(error, driving)
            raise
        finally:
            driving.cancel()
            await asyncio.wait({driving})
            await stream.aclose()

    # The methods of a coroutine, so that tasks can be made of it.

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
        if self._on_output is not None and not self._watched:
            async with closing(self.__aiter__()) as events:
                async for _ in events:
                    pass
        _, driving = await self._started()
        try:
            await asyncio.wait({driving})
        except BaseException as error:
            self._abandon(error, driving)
            driving.cancel()
            if isinstance(error, asyncio.CancelledError):
                await asyncio.wait({driving})
            raise
        return self._outcome(driving)

    async def _started(self) -> tuple[Any, asyncio.Future[T_co]]:
        """Starts the run and its driving task, once, and returns both."""
        if self._abandoned_by is not None:
            raise self._abandoned_by
        if self._start_task is None:
            self._start_task = asyncio.ensure_future(self._begin())
        try:
            run = await self._start_task
        except asyncio.CancelledError:
            self._abandoned_by = self._abandoned_by or CallCancelledError(
                "the start of the run was cancelled"
            )
            raise
        if self._drive_task is None:
            self._drive_task = asyncio.ensure_future(run._drive(self._served))
            self._drive_task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return run, self._drive_task

    def _abandon(self, error: BaseException, driving: asyncio.Future[T_co]) -> None:
        """Keeps the reason of abandoning the run, unless it was driven to its end."""
        if self._abandoned_by is None and not (driving.done() and self._on_output is None):
            if isinstance(error, Exception):
                self._abandoned_by = error
            elif not driving.done():
                self._abandoned_by = CallCancelledError(
                    "the iteration over the run's events ended before the run; drive it again"
                )

    def _outcome(self, driving: asyncio.Future[T_co]) -> T_co:
        """Returns the result of a run whose driving task is done."""
        if self._abandoned_by is not None:
            raise self._abandoned_by
        return driving.result()

    async def _either(
        self, following: asyncio.Future[Any], driving: asyncio.Future[Any], reader: EventReader
    ) -> None:
        """Waits for the next events, or until the run is driven to its end and all events were
        read.
        """
        while not following.done() and not reader.over():
            if driving.done():
                outcome: Any = self._outcome(driving)
                reader.end_at(outcome.run.seq)
                if not reader.over():
                    await asyncio.wait({following})
            else:
                await asyncio.wait({following, driving}, return_when=asyncio.FIRST_COMPLETED)


def driven(
    begin: Callable[[], Awaitable[_Run[T_co]]], served: ServedRun, on_output: OnOutput | None
) -> Driven[T_co]:
    """Returns the driven form of a run that `begin` starts and `served` executes."""
    return Driven(begin, served, on_output)

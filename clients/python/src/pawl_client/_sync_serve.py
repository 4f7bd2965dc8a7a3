"""Executes the runs that a blocking client drives.

The counterpart of `_async_serve`, which it runs in a thread of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from pawl_client import _async_serve as async_serve
from pawl_client._served_run import ServedRun, handlers_of, names_of
from pawl_client._settings import Settings

__all__ = ["RunServer", "served_run"]


def served_run(
    handler: Callable[[Any], Any] | Mapping[str, Callable[[Any], Any]],
    tools: Mapping[str, Callable[..., Any]] | None,
    worker_tools: Iterable[str],
) -> ServedRun:
    """Returns a run whose handlers are functions in threads. Raises as `handlers_of` and
    `check_process`.
    """
    async_serve.check_process()
    return ServedRun(handlers_of(handler, tools, blocking=True), names_of(worker_tools))


class RunServer:
    """Executes the runs of a client: see `_async_serve.RunServer`. Safe to share between
    threads.
    """

    def __init__(self, settings: Settings) -> None:
        self._run_server = async_serve.RunServer(settings)
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def drive(self, served: ServedRun) -> None:
        """Executes a run until it ends or waits for an outside input."""
        with self._lock:
            driven = self._start(self._opened(), self._run_server.drive(served))
        _result(driven)

    def give_up(self, served: ServedRun, error: BaseException) -> None:
        """Abandons one run; its `drive` raises the error."""
        with self._lock:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(served.give_up, error)
            else:
                served.give_up(error)

    def close(self) -> None:
        """Abandons the driven runs, and ends the stream and its thread."""
        with self._lock:
            self._closed = True
            loop, self._loop = self._loop, None
        if loop is not None:
            _result(self._start(loop, self._run_server.close()))
            loop.call_soon_threadsafe(loop.stop)

    def _opened(self) -> asyncio.AbstractEventLoop:
        if self._closed:
            raise async_serve.closed()
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            # A daemon: a client that was not closed must not keep the process alive.
            thread = threading.Thread(
                target=_run, args=(self._loop,), name="pawl-serving", daemon=True
            )
            thread.start()
        return self._loop

    def _start(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]
    ) -> Future[None]:
        return asyncio.run_coroutine_threadsafe(work, loop)


def _result(future: Future[None]) -> None:
    try:
        future.result()
    except BaseException:
        future.cancel()
        raise


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(_settled())
    finally:
        loop.close()


async def _settled() -> None:
    """Ends the remaining tasks, since a thread may wait for them."""
    await asyncio.sleep(0)
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

"""Executes the runs that a client drives, over one stream of their own.

Its counterpart is `_sync_serve`: the generated blocking client imports the same names from there.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pawl_client._errors import CallCancelledError, StateError
from pawl_client._handlers import Handlers
from pawl_client._served_run import ServedRun, handlers_of, names_of
from pawl_client._settings import Settings
from pawl_client._work_executor import WorkExecutor, cancel_and_wait
from pawl_client._worker_connection import WorkerConfig

__all__ = ["RunServer", "served_run"]

_forked: int | None = None
"""The process that opened the first stream. gRPC's asyncio streams do not work in its forks."""


def served_run(
    handler: Callable[[Any], Any] | Mapping[str, Callable[[Any], Any]],
    tools: Mapping[str, Callable[..., Any]] | None,
    worker_tools: Iterable[str],
) -> ServedRun:
    """Returns a run whose handlers are coroutines. Raises as `handlers_of` and `check_process`."""
    check_process()
    return ServedRun(handlers_of(handler, tools, blocking=False), names_of(worker_tools))


class RunServer:
    """Executes the runs of a client. The first run opens the stream, which stays open for
    later ones.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._executor: WorkExecutor | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def drive(self, served: ServedRun) -> None:
        """Executes a run until it ends or waits for an outside input.

        Raises RunTakenOverError, NotFoundError, UnavailableError, StateError (RUN_DRIVEN), the
        error of a handler's mistake, or the error by which the sidecar refuses the run.
        """
        executor = self._opened()
        served.begin()
        await executor.serve(served)

    async def close(self) -> None:
        """Abandons the driven runs and ends the stream.

        Running tools have `GRACE_SECONDS` to report their results.
        """
        self._closed = True
        if self._executor is not None and self._task is not None:
            executor, task = self._executor, self._task
            self._end(executor, closed())
            await asyncio.sleep(0)  # Lets the tasks that drive the runs release them.
            await executor.finish_reports()
            await cancel_and_wait(task)

    def _opened(self) -> WorkExecutor:
        if self._closed:
            raise closed()
        if self._executor is None:
            config = WorkerConfig(
                worker_id=_fresh_id(), packs=(), allow_unknown=False, turns=0, steps=0
            )
            self._executor = WorkExecutor(self._settings, config, Handlers())
            self._task = asyncio.create_task(self._run_executor(self._executor))
        return self._executor

    async def _run_executor(self, executor: WorkExecutor) -> None:
        try:
            await executor.run()
        except Exception as error:
            self._end(executor, error)
        finally:
            self._end(executor, closed())
            await executor.close()

    def _end(self, executor: WorkExecutor, error: Exception) -> None:
        """Ends the stream; the next run opens another one."""
        if self._executor is executor:
            self._executor = None
        for served in list(executor.connection.served.values()):
            served.fail(error)


def closed() -> CallCancelledError:
    """Returns the error of calls whose client is closed."""
    return CallCancelledError("the client is closed; create a new one", code="CANCELLED")


def check_process() -> None:
    """Raises StateError (FORKED) in a process that was forked from one that had driven runs."""
    global _forked
    if _forked is None:
        _forked = os.getpid()
    elif _forked != os.getpid():
        raise StateError(
            f"process {os.getpid()} was forked from {_forked}, which had driven runs, and gRPC "
            "does not work in such a fork; start the process without fork (multiprocessing: "
            "spawn), or drive the first run after the fork",
            reason="FORKED",
        )


def _fresh_id() -> str:
    return f"client-{os.getpid()}-{uuid.uuid4().hex[:12]}"

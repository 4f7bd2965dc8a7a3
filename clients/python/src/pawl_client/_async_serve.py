"""Serves the runs that a client drives, over one stream of their own.

Its counterpart is `_sync_serve`: what is generated for the blocking client imports the
same names from there.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from pawl_client._errors import CallCancelledError, StateError
from pawl_client._handlers import Handlers
from pawl_client._served_run import Served, handlers_of
from pawl_client._settings import Settings
from pawl_client._work_executor import Work, over
from pawl_client._worker_connection import Offer

__all__ = ["Serving", "served_of"]

_forked: int | None = None
"""The process that opened the first stream. gRPC's streams for event loops do not work in a
process that is forked from it."""


def served_of(
    handler: Callable[[Any], Any] | Mapping[str, Callable[[Any], Any]],
    tools: Mapping[str, Callable[..., Any]] | None,
) -> Served:
    """A run that coroutines execute. Raises as `handlers_of`, and as `check_process`."""
    check_process()
    return Served(handlers_of(handler, tools, blocking=False))


class Serving:
    """Executes the runs of a client. The stream is opened for the first of them, and stays
    open for the next ones."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._work: Work | None = None
        self._life: asyncio.Task[None] | None = None
        self._closed = False

    async def drive(self, served: Served) -> None:
        """Executes a run until it ends or waits for something from outside.

        Raises RunTakenOverError, NotFoundError, UnavailableError, StateError (RUN_DRIVEN), what
        a mistake of a handler raised, what ServeRun is refused with.
        """
        work = self._opened()
        served.begin()
        await work.serve(served)

    async def close(self) -> None:
        """Gives up the runs that are driven, and ends the stream. Tools that are at work have
        `LEAVE` seconds to report what they did."""
        self._closed = True
        if self._work is not None and self._life is not None:
            work, life = self._work, self._life
            self._end(work, closed())
            await asyncio.sleep(0)  # What drives the runs goes on, and releases them.
            await work.leave()
            await over(life)

    def _opened(self) -> Work:
        if self._closed:
            raise closed()
        if self._work is None:
            offer = Offer(worker_id=_fresh_id(), packs=(), allow_unknown=False, turns=0, steps=0)
            self._work = Work(self._settings, offer, Handlers())
            self._life = asyncio.create_task(self._live(self._work))
        return self._work

    async def _live(self, work: Work) -> None:
        try:
            await work.live()
        except Exception as error:
            self._end(work, error)
        finally:
            self._end(work, closed())
            await work.close()

    def _end(self, work: Work, error: Exception) -> None:
        """The stream is over: the next run opens another one."""
        if self._work is work:
            self._work = None
        for served in list(work.link.served.values()):
            served.fail(error)


def closed() -> CallCancelledError:
    """What those get whose client is closed."""
    return CallCancelledError("the client was closed", code="CANCELLED")


def check_process() -> None:
    """Raises StateError (FORKED) in a process that was forked from one that had driven runs."""
    global _forked
    if _forked is None:
        _forked = os.getpid()
    elif _forked != os.getpid():
        raise StateError(
            f"process {os.getpid()} was forked from {_forked}, which had driven runs, and gRPC "
            "does not work over that; start it without fork (multiprocessing: spawn), or drive "
            "the first run behind the fork",
            reason="FORKED",
        )


def _fresh_id() -> str:
    return f"client-{os.getpid()}-{uuid.uuid4().hex[:12]}"

"""Drives a run for a blocking client and sends its events to the caller.

The counterpart of `_async_drive`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar, cast

from pawl_client._event_reader import EventReader
from pawl_client._events import Event
from pawl_client._served_run import ServedRun
from pawl_client._sync_io import call_handler, closing
from pawl_client._threads import Threads

__all__ = ["OnOutput", "driven"]

T_co = TypeVar("T_co", covariant=True)
OnOutput = Callable[[Event], None]


class _Run(Protocol[T_co]):
    """A run that can be driven."""

    def _drive(self, served: ServedRun) -> T_co: ...


def driven(begin: Callable[[], _Run[T_co]], served: ServedRun, on_output: OnOutput | None) -> T_co:
    """Drives a run that `begin` starts and `served` executes, and returns its result.

    `on_output` is called in this thread, which reads the events. An exception from it abandons the
    run.
    """
    run = begin()
    if on_output is None:
        return run._drive(served)
    threads = Threads("pawl-drive")
    try:
        return cast("T_co", _watched(run, served, on_output, threads))
    finally:
        threads.close()


def _watched(run: Any, served: ServedRun, on_output: OnOutput, threads: Threads) -> Any:
    # A driven run waits without a limit for a sidecar that is away, so its events do, too.
    reader: EventReader = run._client._events(run.id, reconnect_for=math.inf)
    driving: Future[Any] = threads.run(run._drive, served)

    def ended(future: Future[Any]) -> None:
        failed = future.cancelled() or future.exception() is not None
        reader.finish(0 if failed else future.result().run.seq)

    driving.add_done_callback(ended)
    try:
        with closing(run._client.read(reader)) as stream:
            for events in stream:
                for event in events:
                    call_handler(on_output, (event,))
        return driving.result()
    except BaseException as error:
        run._client._run_server.give_up(served, error)
        driving.exception()
        raise

"""What tests of workers share."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from pawl import Run, RunStatus, Worker

WAIT = 40
"""Seconds after which a test gives up: less than its own limit, so that it says why."""


@contextlib.asynccontextmanager
async def serving(worker: Worker) -> AsyncIterator[asyncio.Task[None]]:
    """A worker that serves meanwhile, and drains in the end."""
    task = asyncio.create_task(worker.serve())
    try:
        yield task
    finally:
        worker.stop()
        await asyncio.wait_for(task, WAIT)


async def ended(run: Run, seconds: float = WAIT) -> RunStatus:
    """The status of a run once it has ended."""
    waited = await asyncio.to_thread(run.wait, timeout=seconds)
    assert not waited.timed_out, waited.run
    return waited.run.status

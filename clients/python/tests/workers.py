"""What tests of workers share."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc

from pawl_client import Run, RunStatus, Worker
from pawl_client.testing import Sidecar
from pawl_client.v1 import worker_pb2

WAIT = 120
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


def variant(path: Path, pack_id: str, bounds: dict[str, Any]) -> bytes:
    """A pack of the tests under another id, with other bounds."""
    pack = json.loads(path.read_text())
    pack["id"] = pack_id
    pack["workflow"]["engine"]["x_pawl"].update(bounds)
    return json.dumps(pack).encode()


def workers_of(sidecar: Sidecar) -> list[worker_pb2.ConnectedWorker]:
    """The workers that serve runs."""
    with grpc.insecure_channel(sidecar.address) as channel:
        call = channel.unary_unary(
            "/pawl.v1.WorkerService/ListWorkers",
            request_serializer=worker_pb2.ListWorkersRequest.SerializeToString,
            response_deserializer=worker_pb2.ListWorkersResponse.FromString,
        )
        listed = call(worker_pb2.ListWorkersRequest())
    return [worker for worker in listed.workers if worker.served_runs]

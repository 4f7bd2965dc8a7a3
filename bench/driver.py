"""Measures turns through the Python client's driver, for `sidecar bench`.

Reads jobs as JSON lines ({target, runs, warm_ms, window_ms, event, artifact, bytes, pack,
mode}) and answers each with {per_sec, p50_us, p99_us}: turns/s in the window, and the round
trip of a turn of one run, from one call of its handler to the next. `mode` is "stream", all
runs over one Drive stream as `run` does it, or "unary", each call by itself. The end of the
input ends it.
"""

import asyncio
import contextlib
import json
import sys
import time
from typing import Any

from pawl import AsyncClient, AsyncTurn, Reply


class UnaryClient(AsyncClient):
    """A client whose drivers share no stream."""

    def _driving(self) -> Any:
        return contextlib.nullcontext()


async def measure(job: dict[str, Any]) -> dict[str, float]:
    warm, window = job["warm_ms"] / 1000, job["window_ms"] / 1000
    reply = Reply(event=job["event"], artifacts={job["artifact"]: "x" * job["bytes"]})
    first: list[float] = []
    seen: dict[str, float] = {}
    trips: list[float] = []
    over = asyncio.Event()

    async def handle(turn: AsyncTurn) -> Reply:
        now = time.perf_counter()
        if not first:
            first.append(now)
        if now - first[0] > warm + window:
            over.set()
            return reply
        before = seen.get(turn.run_id)
        if before is not None and before - first[0] >= warm:
            trips.append(now - before)
        seen[turn.run_id] = now
        return reply

    async with {"stream": AsyncClient, "unary": UnaryClient}[job["mode"]](
        address=job["target"]
    ) as client:
        runs = [asyncio.create_task(client.run(job["pack"], handle)) for _ in range(job["runs"])]
        ended = asyncio.create_task(over.wait())
        done, _ = await asyncio.wait({ended, *runs}, return_when=asyncio.FIRST_COMPLETED)
        for run in (ended, *runs):
            run.cancel()
        await asyncio.gather(ended, *runs, return_exceptions=True)
        for run in done - {ended}:
            run.result()  # Raises what ended it; no run ends by itself.
    trips.sort()
    return {
        "per_sec": len(trips) / window,
        "p50_us": quantile(trips, 0.5) * 1e6,
        "p99_us": quantile(trips, 0.99) * 1e6,
    }


def quantile(values: list[float], q: float) -> float:
    return values[int(q * (len(values) - 1))] if values else 0.0


for line in sys.stdin:
    try:
        answer: dict[str, Any] = asyncio.run(measure(json.loads(line)))
    except Exception as error:  # told to the bench, which names the part
        answer = {"error": repr(error)}
    print(json.dumps(answer), flush=True)

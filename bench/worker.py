"""Measures turns through the Python worker, for `sidecar bench`.

Reads jobs as JSON lines ({target, runs, warm_ms, window_ms, event, artifact, bytes}) and
answers each with {per_sec, p50_us, p99_us}: turns/s in the window, and the round trip of a
turn of one run, from assignment to the assignment of the next. The end of the input ends it.
"""

import asyncio
import json
import sys
import time
from typing import Any

from pawl import Reply, Turn, Worker


async def measure(job: dict[str, Any]) -> dict[str, float]:
    warm, window = job["warm_ms"] / 1000, job["window_ms"] / 1000
    reply = Reply(event=job["event"], artifacts={job["artifact"]: "x" * job["bytes"]})
    worker = Worker(
        address=job["target"], worker_id="bench", turns=job["runs"], drain_timeout=1.0
    )
    first: list[float] = []
    seen: dict[str, float] = {}
    trips: list[float] = []

    @worker.prompt("*")
    async def work(turn: Turn) -> Reply:
        now = time.perf_counter()
        if not first:
            first.append(now)
        if now - first[0] > warm + window:
            worker.stop()
            return reply
        before = seen.get(turn.run_id)
        if before is not None and before - first[0] >= warm:
            trips.append(now - before)
        seen[turn.run_id] = now
        return reply

    await worker.serve()
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

"""What the programs of `pawl-bench` in this directory share: jobs in, figures out."""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from pawl_client import Reply


class Turns:
    """The turns of a job: a reply for each, and the round trips within the window."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.reply = Reply(event=job["event"], artifacts={job["artifact"]: "x" * job["bytes"]})
        self._warm, self._window = job["warm_ms"] / 1000, job["window_ms"] / 1000
        self._first: float | None = None
        self._seen: dict[str, float] = {}
        self._trips: list[float] = []

    def seen(self, run_id: str) -> bool:
        """Counts a turn that begins now; false once the window is over."""
        now = time.perf_counter()
        self._first = now if self._first is None else self._first
        if now - self._first > self._warm + self._window:
            return False
        before = self._seen.get(run_id)
        if before is not None and before - self._first >= self._warm:
            self._trips.append(now - before)
        self._seen[run_id] = now
        return True

    def figures(self) -> dict[str, float]:
        """{per_sec, p50_us, p99_us}."""
        trips = sorted(self._trips)

        def quantile(q: float) -> float:
            return trips[int(q * (len(trips) - 1))] * 1e6 if trips else 0.0

        return {
            "per_sec": len(trips) / self._window,
            "p50_us": quantile(0.5),
            "p99_us": quantile(0.99),
        }


def answer(measure: Callable[[dict[str, Any]], Awaitable[dict[str, float]]]) -> None:
    """Answers each job on standard input, a line of JSON, until it ends."""

    async def measured(line: str) -> dict[str, Any]:
        return dict(await measure(json.loads(line)))

    for line in sys.stdin:
        try:
            found = asyncio.run(measured(line))
        except Exception as error:  # sent to the bench, which names the part
            found = {"error": repr(error)}
        print(json.dumps(found), flush=True)

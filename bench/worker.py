"""Measures turns through the Python worker, for `pawl-bench`.

Reads jobs as JSON lines ({target, runs, warm_ms, window_ms, event, artifact, bytes}) and
answers each with {per_sec, p50_us, p99_us}: turns/s in the window, and the round trip of a
turn of one run, from assignment to the assignment of the next. The end of the input ends it.
"""

from typing import Any

from pawl_client import Reply, Turn, Worker
from turns import Turns, answer


async def measure(job: dict[str, Any]) -> dict[str, float]:
    turns = Turns(job)
    worker = Worker(
        address=job["target"], worker_id="bench", turns=job["runs"], drain_timeout=1.0
    )

    @worker.prompt("*")
    async def work(turn: Turn) -> Reply:
        if not turns.seen(turn.run_id):
            worker.stop()
        return turns.reply

    await worker.serve()
    return turns.figures()


answer(measure)

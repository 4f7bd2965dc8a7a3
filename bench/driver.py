"""Measures turns through the Python client's driver, for `pawl-bench`.

Reads jobs as JSON lines ({target, runs, warm_ms, window_ms, event, artifact, bytes, pack,
mode}) and answers each with {per_sec, p50_us, p99_us}: turns/s in the window, and the round
trip of a turn of one run, from one call of its handler to the next. `mode` is "stream", all
runs over one work stream as `run` does it, or "unary", each call by itself. The end of the
input ends it.
"""

import asyncio
import contextlib
from typing import Any

from pawl_client import AsyncClient, AsyncTurn, Reply
from turns import Turns, answer


class UnaryClient(AsyncClient):
    """A client whose drivers share no stream."""

    def _driving(self) -> Any:
        return contextlib.nullcontext()


async def measure(job: dict[str, Any]) -> dict[str, float]:
    turns = Turns(job)
    over = asyncio.Event()

    async def handle(turn: AsyncTurn) -> Reply:
        if not turns.seen(turn.run_id):
            over.set()
        return turns.reply

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
    return turns.figures()


answer(measure)

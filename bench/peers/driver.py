"""Drives one peer. Reads one job as a line of JSON, see the functions below; the answer is a
line of JSON, but for `kill`, which tells each acknowledgement and never ends by itself."""

import asyncio
import importlib
import itertools
import json
import sys
import time
from collections.abc import Awaitable
from typing import Any

from adapters.peer import EVENTS, Peer


async def bench(peer: Peer, job: dict[str, Any]) -> dict[str, Any]:
    """{runs, warm, seconds, prefix}: that many runs at a time, one after the other, for so
    long. Answers {events, seconds, p50_us, p99_us} of the events that were acknowledged
    after the warm-up, and {all}, those of the whole time."""
    begin = time.perf_counter() + job["warm"]
    end = begin + job["seconds"]
    took: list[float] = []
    events = 0

    async def timed(call: Awaitable[None]) -> None:
        nonlocal events
        since = time.perf_counter()
        await call
        now = time.perf_counter()
        events += 1
        if begin <= now < end:
            took.append(now - since)

    async def work(lane: int) -> None:
        for n in itertools.count():
            if time.perf_counter() >= end:
                return
            await peer.loop(f"{job['prefix']}{lane}-{n}", 0, timed, lambda *_: None)

    await asyncio.gather(*(work(lane) for lane in range(job["runs"])))
    took.sort()
    return {
        "events": len(took), "seconds": job["seconds"], "all": events,
        "p50_us": took[len(took) // 2] * 1e6 if took else 0,
        "p99_us": took[int(len(took) * 0.99)] * 1e6 if took else 0,
    }


async def kill(peer: Peer, job: dict[str, Any]) -> None:
    """{lanes, open, prefix}: finishes the runs that are open ({run: next event}), then makes
    new ones until it is killed. Prints "RUN SEQ" for each acknowledgement."""

    def acknowledged(run: str, seq: int) -> None:
        sys.stdout.write(f"{run} {seq}\n")
        sys.stdout.flush()

    async def untimed(call: Awaitable[None]) -> None:
        await call

    waiting = list(job["open"].items())

    async def work(lane: int) -> None:
        while waiting:
            run, begin = waiting.pop()
            await peer.loop(run, begin, untimed, acknowledged)
        for n in itertools.count():
            await peer.loop(f"{job['prefix']}{lane}-{n}", 0, untimed, acknowledged)

    await asyncio.gather(*(work(lane) for lane in range(job["lanes"])))


async def read(peer: Peer, job: dict[str, Any]) -> dict[str, list[int]]:
    """{runs}: the numbers of the events that are stored of each, each as often as it is."""
    gate = asyncio.Semaphore(16)

    async def one(run: str) -> tuple[str, list[int]]:
        async with gate:
            stored = await peer.read(run)
        mine = [text.split(":") for text in stored if text.startswith(f"{run}:")]
        return run, sorted(int(parts[1]) for parts in mine if int(parts[1]) <= EVENTS)

    return dict(await asyncio.gather(*(one(run) for run in job["runs"])))


async def main() -> None:
    job = json.loads(sys.stdin.readline())
    adapter = importlib.import_module(f"adapters.{job['adapter']}").Adapter(job["place"])
    await adapter.open()
    answer = await {"bench": bench, "kill": kill, "read": read}[job["mode"]](adapter, job)
    print(json.dumps(answer), flush=True)
    await adapter.close()


asyncio.run(main())

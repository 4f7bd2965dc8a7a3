"""8.22: what a turn writes under way reaches who sent the A2A message, as it is written."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from conftest import ROOT
from pawl_client import AsyncTurn, Client, OutputPiece, Part, RecordKind, Reply, Turn, Worker
from pawl_client.testing import Sidecar
from workers import WAIT, serving

AGENTS = ROOT / "clients/python/tests/agents.pack.json"


@pytest.fixture(scope="module")
def served() -> Iterator[Sidecar]:
    with Sidecar(packs=[AGENTS], http=True) as process:
        yield process


def streamed(sidecar: Sidecar) -> Iterator[dict[str, Any]]:
    """What SendStreamingMessage over JSON-RPC tells, event by event."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Write."}]}
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "SendStreamingMessage",
        "params": {"message": message},
    }
    request = urllib.request.Request(
        f"http://{sidecar.http}/a2a/agents/writer",
        json.dumps(call).encode(),
        {"Content-Type": "application/json", "A2A-Version": "1.0"},
    )
    with urllib.request.urlopen(request, timeout=WAIT) as answer:
        for line in answer:
            if line.startswith(b"data:"):
                yield json.loads(line[5:])["result"]


def pieces(sidecar: Sidecar, after_each: threading.Semaphore) -> list[tuple[str, str, bool]]:
    """The artifacts' pieces as (id, text, append); lets the handler go on after each."""
    found = []
    for event in streamed(sidecar):
        update = event.get("artifactUpdate")
        if update:
            artifact = update["artifact"]
            text = "".join(part.get("text", "") for part in artifact["parts"])
            found.append((artifact["artifactId"], text, update.get("append", False)))
            after_each.release()
    return found


@pytest.mark.parametrize("flavour", ["sync", "async"])
async def test_reaches_the_sender(served: Sidecar, flavour: str) -> None:
    worker = Worker(address=served.address)
    seen = threading.Semaphore(0)  # The sender has a piece: only then the next is written.

    def written(number: int) -> OutputPiece:
        return OutputPiece(id="draft", parts=(Part(text=f"part {number}. "),), append=number > 1)

    if flavour == "sync":

        @worker.agent("writer")
        def write(turn: Turn) -> Reply:
            for number in (1, 2):
                turn.write_output(written(number))
                assert seen.acquire(timeout=WAIT)
            turn.output("so far, ", durable=True)
            assert seen.acquire(timeout=WAIT)
            turn.output("so good", durable=True)
            assert seen.acquire(timeout=WAIT)
            return Reply(output="All.")

    else:

        @worker.agent("writer")
        async def write_async(turn: AsyncTurn) -> Reply:
            for number in (1, 2):
                await turn.write_output(written(number))
                assert await asyncio.to_thread(seen.acquire, timeout=WAIT)
            await turn.output("so far, ", durable=True)
            assert await asyncio.to_thread(seen.acquire, timeout=WAIT)
            await turn.output("so good", durable=True)
            assert await asyncio.to_thread(seen.acquire, timeout=WAIT)
            return Reply(output="All.")

    async with serving(worker):
        found = await asyncio.wait_for(asyncio.to_thread(pieces, served, seen), WAIT)
    assert found == [
        ("draft", "part 1. ", False),
        ("draft", "part 2. ", True),
        ("output", "so far, ", False),
        ("output", "so good", True),
        ("output", "All.", False),
    ]


def test_of_a_run_that_is_driven_here(client: Client) -> None:
    def handler(turn: Turn) -> Reply:
        if not turn.terminal:
            turn.output("nobody sees this")
            turn.output("kept", durable=True)
            turn.write_output(OutputPiece(id="x", parts=(Part(text="also kept"),), last=True))
        return Reply(event="" if turn.terminal else "Done")

    result = client.run("steps", handler, variables={"n": 1})
    records = client.attach(result.run.run_id).records(kinds=[RecordKind.OUTPUT_WRITTEN])
    assert len(list(records)) == 2

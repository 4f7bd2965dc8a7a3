"""A handler reads the artifacts of its run."""

from __future__ import annotations

from typing import Any

import pytest

from pawl_client import AsyncTurn, Client, Reply, RunStatus, Turn, Worker
from pawl_client.testing import Sidecar
from workers import ended, serving

SEEN = [{}, {"sum": 1}, {"sum": 1, "log": "a"}]


def handler(seen: list[Any]) -> Any:
    """Notes the artifacts of each turn, before and after it writes one."""

    def handle(turn: Turn) -> Reply:
        seen.append(dict(turn.artifacts()))
        if turn.terminal:
            return Reply()
        turn.set_artifacts({"sum": 1})
        seen.append(dict(turn.artifacts()))
        return Reply(event="Done", artifacts={"log": "a"})

    return handle


def test_in_a_driven_run(client: Client) -> None:
    seen: list[Any] = []
    client.run("steps", handler(seen), variables={"n": 1})
    assert seen == SEEN


@pytest.mark.parametrize("blocking", [True, False])
async def test_in_a_worker(sidecar: Sidecar, client: Client, blocking: bool) -> None:
    seen: list[Any] = []

    async def handle(turn: AsyncTurn) -> Reply:
        seen.append(dict(await turn.artifacts()))
        if turn.terminal:
            return Reply()
        await turn.set_artifacts({"sum": 1})
        seen.append(dict(await turn.artifacts()))
        return Reply(event="Done", artifacts={"log": "a"})

    worker = Worker(address=sidecar.address)
    worker.prompt("calc")(handler(seen) if blocking else handle)
    async with serving(worker):
        assert await ended(client.start("steps", variables={"n": 1})) is RunStatus.COMPLETED
    assert seen == SEEN

"""Which handler of a worker executes what."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import STEPS
from pawl_client import (
    AsyncTurn,
    Client,
    Reply,
    RunStatus,
    StepResolved,
    Turn,
    Worker,
    current_call,
)
from pawl_client.testing import Sidecar
from workers import ended, serving

AGENTS = Path(__file__).parent / "agents.pack.json"


@pytest.fixture(scope="module")
def shared() -> Iterator[Sidecar]:
    with Sidecar(packs=[STEPS, AGENTS], allow_tools=["*"]) as process:
        yield process


@pytest.fixture
def here(shared: Sidecar) -> Iterator[Client]:
    with shared.client() as client:
        yield client


async def test_the_runs_of_an_agent(shared: Sidecar, here: Client) -> None:
    worker = Worker(address=shared.address, packs=["agents"])
    seen: list[tuple[str, str, str, str]] = []

    @worker.agent("researcher")
    def research(turn: Turn) -> Reply:
        seen.append(("research", turn.agent, turn.prompt, turn.labels["who"]))
        return Reply(output="found")

    @worker.agent("writer")
    async def write(turn: AsyncTurn) -> Reply:
        seen.append(("write", turn.agent, turn.prompt, turn.labels["who"]))
        return Reply(output="written")

    async with serving(worker):
        for agent in ("researcher", "writer"):
            run = here.start("agents", agent=agent, labels={"who": agent})
            assert await ended(run) is RunStatus.COMPLETED
    assert seen == [
        ("research", "researcher", "researcher", "researcher"),
        ("write", "writer", "writer", "writer"),
    ]


async def test_the_nearest_handler(shared: Sidecar, here: Client) -> None:
    """A prompt's own handler, then the agent's, then the prompts' "*"."""
    worker = Worker(address=shared.address, packs=["agents"])
    seen: list[str] = []

    @worker.prompt("writer")
    def own(turn: Turn) -> None:
        seen.append(f"prompt {turn.prompt}")

    @worker.agent("writer")
    @worker.agent("researcher")
    def agent(turn: Turn) -> None:
        seen.append(f"agent {turn.agent}")

    @worker.prompt("*")
    async def every(turn: AsyncTurn) -> None:
        seen.append(f"* {turn.prompt}")

    async with serving(worker):
        for name in ("writer", "researcher", "lead"):
            assert await ended(here.start("agents", agent=name)) is RunStatus.COMPLETED
    assert seen == ["prompt writer", "agent researcher", "* lead"]


async def test_every_agent(shared: Sidecar, here: Client) -> None:
    worker = Worker(address=shared.address, packs=["agents"])
    seen: list[str] = []

    @worker.agent("*")
    def every(turn: Turn) -> None:
        seen.append(turn.agent)

    async with serving(worker):
        for name in ("writer", "researcher"):
            assert await ended(here.start("agents", agent=name)) is RunStatus.COMPLETED
    assert seen == ["writer", "researcher"]


async def test_every_tool(shared: Sidecar, here: Client) -> None:
    worker = Worker(address=shared.address, packs=["steps"], turns=1, steps=2)

    @worker.prompt("calc")
    async def calc(turn: AsyncTurn) -> Reply:
        if turn.terminal:
            return Reply()
        return Reply(
            event="Done",
            artifacts={"sum": [await turn.step("add", {"a": 1, "b": 2}), await turn.step("boom")]},
        )

    @worker.tool("add")
    def add(payload: dict[str, int]) -> str:
        return f"add of {current_call().tool}"

    @worker.tool("*")
    async def every(payload: dict[str, int]) -> str:
        return f"* of {current_call().tool}"

    async with serving(worker):
        run = here.start("steps", variables={"n": 1})
        assert await ended(run) is RunStatus.COMPLETED
    assert run.artifacts()["sum"] == ["add of add", "* of boom"]
    bodies = [record.body for record in run.records(kinds=["STEP_RESOLVED"])]
    assert {b.worker for b in bodies if isinstance(b, StepResolved)} == {worker.id}


class Handler:
    """A handler may be an object whose call is a coroutine function."""

    async def __call__(self, turn: AsyncTurn) -> Reply:
        return Reply(event="" if turn.terminal else "Done")


async def test_an_object_as_handler(shared: Sidecar, here: Client) -> None:
    worker = Worker(address=shared.address, packs=["steps"])
    worker.prompt("*")(Handler())
    async with serving(worker):
        assert await ended(here.start("steps", variables={"n": 1})) is RunStatus.COMPLETED


def test_current_call_elsewhere() -> None:
    with pytest.raises(LookupError):
        current_call()

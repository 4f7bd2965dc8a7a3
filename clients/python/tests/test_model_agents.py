"""A model that asks several agents in one answer: they work at the same time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from pawl_client import AsyncTurn, Client, Reply, RunStatus, StepKind, StepRequested, Worker
from pawl_client.testing import Sidecar
from scripted import Says, Scripted
from vendors import LEAVE, awaiting
from workers import WAIT, ended, serving

AGENTS = ("north", "east", "west")


def council(most: int) -> str:
    """A lead that can ask three agents, `most` of them at once."""
    prompts: dict[str, Any] = {
        name: {"id": name, "name": name, "version": "1.0.0", "system_template": f"You are {name}."}
        for name in ("lead", *AGENTS)
    }
    prompts["lead"]["tools"] = list(AGENTS)
    bounds = {"max_pending_steps": most}
    states = {
        "ask": {"prompt_task": "lead", "on_event": {"Done": "end"}},
        "end": {"prompt_task": "lead", "terminal": True},
    }
    workflow = {"version": 2, "entry": "ask", "states": states, "engine": {"x_pawl": bounds}}
    members: dict[str, Any] = {"lead": {"state": "ask"}} | {name: {} for name in AGENTS}
    pack = {
        "id": f"council-{most}",
        "name": "Council",
        "version": "1.0.0",
        "template_engine": {"version": "v1", "syntax": "{{variable}}"},
        "prompts": prompts,
        "agents": {"entry": "lead", "members": members},
        "workflow": workflow,
    }
    return json.dumps(pack)


@pytest.fixture(scope="module")
def shared() -> Iterator[Sidecar]:
    with Sidecar(allow_tools=["*"]) as process:
        yield process


async def asked(sidecar: Sidecar, client: Client, most: int) -> int:
    """Has a model ask all three; returns how many worked at once. Each works until as many
    are there as may be."""
    client.register_pack(council(most), filename="council.json")
    pack, waiting, highest = f"council-{most}", 0, 0
    arrived = asyncio.Condition()

    async def agent(turn: AsyncTurn) -> Reply:
        nonlocal waiting, highest
        async with arrived:
            waiting += 1
            highest = max(highest, waiting)
            arrived.notify_all()
            # The last of them may be alone.
            enough = lambda: highest >= most  # noqa: E731
            await asyncio.wait_for(arrived.wait_for(enough), WAIT)
            waiting -= 1
        return Reply(output=f"{turn.agent} is clear")

    calls = [(name, {"message": f"And {name}?"}) for name in AGENTS]
    with Scripted(Says("I ask.", calls), Says("", [LEAVE]), Says("All clear.")) as endpoint:
        worker = Worker(address=sidecar.address, packs=[pack], turns=8)
        worker.prompt("lead")(awaiting("chat", endpoint.url))
        for name in AGENTS:
            worker.agent(name)(agent)
        async with serving(worker):
            run = client.start(pack, input="Is it clear?")
            assert await ended(run) is RunStatus.COMPLETED
    told = [m["content"] for m in endpoint.requests[1]["messages"] if m["role"] == "tool"]
    assert [name for name in AGENTS for text in told if f"{name} is clear" in text] == list(AGENTS)
    bodies = [record.body for record in run.records(kinds=["STEP_REQUESTED"])]
    steps = [b for b in bodies if isinstance(b, StepRequested) and b.kind is not StepKind.MODEL]
    assert [step.tool for step in steps] == list(AGENTS)
    assert [step.key for step in steps] == [f"model/1/{i}" for i in range(3)]
    return highest


async def test_three_agents_of_one_answer_work_at_once(shared: Sidecar) -> None:
    with shared.client() as client:
        assert await asked(shared, client, 3) == 3


async def test_no_more_agents_at_once_than_may_be_pending(shared: Sidecar) -> None:
    with shared.client() as client:
        assert await asked(shared, client, 2) == 2

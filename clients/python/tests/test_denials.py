"""A tool that the policy of tools refuses is in the log of the client and of the sidecar."""

from __future__ import annotations

import contextlib
import json
import logging
from pathlib import Path

import pytest

from conftest import STEPS
from pawl_client import AsyncTurn, Reply, StepRefusedError, Turn, Worker
from pawl_client.testing import Sidecar
from workers import ended, serving


def handler(turn: Turn) -> Reply:
    """Asks twice for what is denied, once for what is wrong otherwise."""
    if turn.terminal:
        return Reply()
    for tool in ("forbidden", "forbidden", "nowhere"):
        with contextlib.suppress(StepRefusedError):
            turn.step(tool)
    return Reply(event="Done")


async def awaited(turn: AsyncTurn) -> Reply:
    """As `handler`."""
    if turn.terminal:
        return Reply()
    for tool in ("forbidden", "forbidden", "nowhere"):
        with contextlib.suppress(StepRefusedError):
            await turn.step(tool)
    return Reply(event="Done")


@pytest.mark.parametrize("mode", ["blocking", "async", "worker", "async worker"])
async def test_a_denied_tool_is_logged_once(
    mode: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pack = json.loads(STEPS.read_text())
    pack["id"] = f"denied-{mode.replace(' ', '-')}"
    (file := tmp_path / "pack.json").write_text(json.dumps(pack))
    with (
        Sidecar(packs=[file], allow_tools=["add"]) as own,
        own.client() as client,
        caplog.at_level(logging.WARNING, logger="pawl_client"),
    ):
        for _ in range(2):
            if mode == "blocking":
                client.run(pack["id"], handler, variables={"n": 1})
            elif mode == "async":
                async with own.async_client() as aclient:
                    await aclient.run(pack["id"], awaited, variables={"n": 1})
            else:
                worker = Worker(address=own.address)
                worker.prompt("calc")(handler if mode == "worker" else awaited)
                async with serving(worker):
                    await ended(client.start(pack["id"], variables={"n": 1}))
        lines = [line for line in own.log().splitlines() if "tool denied by policy" in line]
    said = [r.getMessage() for r in caplog.records if "is denied" in r.getMessage()]
    assert said == [
        f"pack {pack['id']}: tool forbidden is denied: TOOL_NOT_ALLOWED: the operator's allowlist "
        'does not admit tool "forbidden" (serve --allow-tool forbidden)'
    ]
    assert len(lines) == 1
    assert "--allow-tool forbidden" in lines[0]
    assert f"pack={pack['id']}" in lines[0]

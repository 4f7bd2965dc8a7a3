"""8.5: what a tool changes elsewhere is keyed by its call, not by the attempt of it."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest

from conftest import STEPS
from pawl_client import (
    AsyncTurn,
    Client,
    FailStepError,
    FailTurnError,
    Reply,
    Run,
    RunStatus,
    StepFailedError,
    StepResolved,
    Turn,
    Worker,
    current_call,
)
from pawl_client.testing import Sidecar
from workers import WAIT, ended, serving, variant


class Ledger:
    """The world outside: it takes each key once."""

    def __init__(self) -> None:
        self.effects: Counter[str] = Counter()
        self.calls = 0

    def charge(self) -> int:
        """One call, and its attempt."""
        call = current_call()
        self.calls += 1
        self.effects[call.idempotency_key] += 1
        return call.attempt


def thrice(seconds: int) -> dict[str, object]:
    """Three attempts, of which each may take so long."""
    return {"tools": {"add": {"attempts": 3, "timeout_sec": seconds, "on_unknown": "retry"}}}


PATIENT = 60
"""Seconds for an attempt where none is late."""


@pytest.mark.parametrize("flavour", ["sync", "async"])
@pytest.mark.parametrize("fault", ["fails", "answers too late"])
async def test_a_worker_s_tool(sidecar: Sidecar, client: Client, fault: str, flavour: str) -> None:
    """The first attempt is too late after a second; where the next one is, too, because
    the machine is slow, each gets longer."""
    for seconds in (PATIENT,) if fault == "fails" else (1, 4, 16):
        status, ledger, run = await worked(sidecar, client, fault, flavour, seconds)
        assert list(ledger.effects) == [f"{run.id}/1"]
        if (status, ledger.calls) == (RunStatus.COMPLETED, 2):
            return
    pytest.fail(f"{status} after {ledger.calls} attempts of {seconds} s")


async def worked(
    sidecar: Sidecar, client: Client, fault: str, flavour: str, seconds: int
) -> tuple[RunStatus, Ledger, Run]:
    """A run of a worker whose tool's first attempt meets a fault, as it ended."""
    name = f"once-outside-{seconds}"
    client.register_pack(variant(STEPS, name, thrice(seconds)), filename="x.json")
    ledger, over = Ledger(), threading.Event()
    worker = Worker(address=sidecar.address, packs=[name], steps=2)

    def work() -> int:
        if ledger.charge() == 1:
            if fault == "answers too late":
                over.wait(WAIT)
            raise FailTurnError("LOST", "no answer")
        return 3

    if flavour == "sync":
        worker.tool("add")(lambda payload: work())
    elif fault == "fails":

        @worker.tool("add")
        async def add(payload: object) -> int:
            return work()

    else:

        @worker.tool("add")
        async def slow(payload: object) -> int:
            if ledger.charge() == 1:
                await asyncio.Event().wait()
            return 3

    @worker.prompt("calc")
    async def calc(turn: AsyncTurn) -> Reply:
        if turn.terminal:
            return Reply()
        await turn.step("add", {"a": 1, "b": 2})
        return Reply(event="Done")

    try:
        async with serving(worker):
            run = client.start(name, variables={"n": 1})
            status = await ended(run)
            over.set()
    finally:
        over.set()
    return status, ledger, run


def test_a_tool_of_a_run_that_is_driven_here(client: Client) -> None:
    client.register_pack(variant(STEPS, "once-outside", thrice(PATIENT)), filename="x.json")
    ledger = Ledger()

    def add(payload: object) -> int:
        if ledger.charge() < 3:
            raise FailTurnError("LOST", "no answer")
        return 3

    def handler(turn: Turn) -> Reply:
        if turn.terminal:
            return Reply()
        turn.step("add", {"a": 1, "b": 2})
        assert [step.idempotency_key for step in turn.steps] in ([], [f"{turn.run_id}/1"])
        return Reply(event="Done")

    result = client.run("once-outside", handler, tools={"add": add}, variables={"n": 1})
    assert result.status is RunStatus.COMPLETED
    assert ledger.calls == 3
    assert list(ledger.effects) == [f"{result.run.run_id}/1"]
    with pytest.raises(LookupError):
        current_call()


async def test_a_tool_of_a_run_that_is_driven_here_asynchronously(sidecar: Sidecar) -> None:
    ledger = Ledger()

    async def add(payload: object) -> int:
        if ledger.charge() < 3:
            raise FailTurnError("LOST", "no answer")
        return 3

    async def handler(turn: AsyncTurn) -> Reply:
        if not turn.terminal:
            await turn.step("add", {"a": 1, "b": 2})
        return Reply(event="" if turn.terminal else "Done")

    async with sidecar.async_client() as client:
        content = variant(STEPS, "once-outside", thrice(PATIENT))
        await client.register_pack(content, filename="x.json")
        result = await client.run("once-outside", handler, tools={"add": add}, variables={"n": 1})
    assert result.status is RunStatus.COMPLETED
    assert ledger.calls == 3
    assert list(ledger.effects) == [f"{result.run.run_id}/1"]


@pytest.mark.parametrize("result", ["x" * 10_000_000, object()], ids=["too large", "no json"])
def test_a_result_that_cannot_be_told_is_of_a_call_that_happened(
    client: Client, result: object
) -> None:
    """Failed definitely it would be made again, and with its turn once more."""
    again = {"tools": {"add": {"attempts": 3}}, "retry": {"max_attempts": 3}}
    client.register_pack(variant(STEPS, "refused-result", again), filename="x.json")
    ledger = Ledger()

    def add(payload: object) -> Any:
        ledger.charge()
        return result

    def handler(turn: Turn) -> Reply:
        if turn.terminal:
            return Reply()
        with pytest.raises(StepFailedError) as caught:
            turn.step("add", {"a": 1, "b": 2})
        assert "the result was refused: " in str(caught.value)
        return Reply(event="Done")

    result_of = client.run("refused-result", handler, tools={"add": add}, variables={"n": 1})
    assert result_of.status is RunStatus.COMPLETED
    assert ledger.calls == 1
    (record,) = client.attach(result_of.run.run_id).records(kinds=["STEP_RESOLVED"])
    assert isinstance(record.body, StepResolved)
    assert record.body.unknown


@pytest.mark.parametrize("unknown", [True, False])
async def test_a_tool_says_that_it_may_have_happened(
    sidecar: Sidecar, client: Client, unknown: bool
) -> None:
    """on_unknown decides then, not the attempts of on_error."""
    name = f"may-have-happened-{unknown}".lower()
    again = {"tools": {"add": {"attempts": 3, "on_unknown": "return"}}}
    client.register_pack(variant(STEPS, name, again.copy()), filename="x.json")
    worker, ledger = Worker(address=sidecar.address, packs=[name]), Ledger()

    @worker.tool("add")
    def add(payload: object) -> int:
        ledger.charge()
        raise FailStepError(
            "BANK_TIMEOUT", "no answer", non_retryable=unknown, wait=0, unknown=unknown
        )

    @worker.prompt("calc")
    async def calc(turn: AsyncTurn) -> Reply:
        if not turn.terminal:
            with pytest.raises(StepFailedError, match="no answer") as failed:
                await turn.step("add", {"a": 1, "b": 2})
            assert failed.value.unknown is unknown
            assert ("may have happened" in str(failed.value)) is unknown
        return Reply(event="" if turn.terminal else "Done")

    async with serving(worker):
        run = client.start(name, variables={"n": 1})
        assert await ended(run) is RunStatus.COMPLETED
    assert ledger.calls == (1 if unknown else 3)
    answers = [record.body for record in run.records(kinds=["STEP_RESOLVED"])]
    assert [isinstance(body, StepResolved) and body.unknown for body in answers] == (
        [True] if unknown else [False] * 3
    )

"""Turns that only wait for steps are released, and executed again with their answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from conftest import STEPS
from pawl_client import (
    AsyncTurn,
    Client,
    DeadlineError,
    Record,
    RecordKind,
    Reply,
    Run,
    RunStatus,
    StateError,
    StepStatus,
    SuspendTurn,
    Turn,
    TurnSuspended,
    Worker,
)
from pawl_client._convert import from_proto
from pawl_client._leases import LeasedTurn
from pawl_client._worker_turn import WorkerTurn
from pawl_client.testing import Sidecar
from pawl_client.v1 import record_pb2, run_pb2, worker_pb2
from workers import WAIT, ended, serving

SOON = 0.01
"""After what time a turn is suspended here; each test waits for that it was."""


@pytest.fixture(scope="module")
def shared() -> Iterator[Sidecar]:
    with Sidecar(packs=[STEPS], allow_tools=["*"]) as process:
        yield process


@pytest.fixture
def here(shared: Sidecar) -> Iterator[Client]:
    with shared.client() as client:
        yield client


@pytest.fixture(params=["sync", "async"])
def flavour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def until(run: Run, kind: RecordKind) -> Record:
    """The first record of a kind."""

    def first() -> Record:
        for record in run.transitions(kinds=[kind, RecordKind.ENDED]):
            assert record.kind is kind
            return record
        raise AssertionError("no record")

    return await asyncio.wait_for(asyncio.to_thread(first), WAIT)


def kinds(run: Run) -> list[RecordKind]:
    return [record.kind for record in run.records(kinds=list(RecordKind)[1:])]


class Gate:
    """A tool that adds once it may; counts its calls."""

    def __init__(self, address: str) -> None:
        self.open = threading.Event()
        self.calls = 0
        self.worker = Worker(address=address, steps=4)
        self.worker.tool("add")(self.add)

    def add(self, payload: dict[str, Any]) -> Any:
        self.calls += 1
        assert self.open.wait(WAIT)
        return payload["a"] + payload["b"]


async def test_the_place_of_a_turn_that_waits_is_free(
    shared: Sidecar, here: Client, flavour: str
) -> None:
    gate = Gate(shared.address)
    worker = Worker(address=shared.address, turns=1, suspend_after=SOON)
    executions: list[tuple[int, list[StepStatus]]] = []

    def ends(turn: Any) -> bool:
        return bool(turn.terminal or turn.variables["n"] == 2)

    def end(turn: Any) -> Reply:
        return Reply(event="" if turn.terminal else "Done")

    def note(turn: Any) -> None:
        executions.append((turn.attempt, [step.status for step in turn.steps]))

    if flavour == "sync":

        @worker.prompt("calc")
        def calc(turn: Turn) -> Reply:
            if ends(turn):
                return end(turn)
            note(turn)
            return Reply(event="Done", artifacts={"sum": turn.step("add", {"a": 1, "b": 2})})

    else:

        @worker.prompt("calc")
        async def calc_async(turn: AsyncTurn) -> Reply:
            if ends(turn):
                return end(turn)
            note(turn)
            return Reply(event="Done", artifacts={"sum": await turn.step("add", {"a": 1, "b": 2})})

    async with serving(gate.worker), serving(worker):
        first = here.start("steps", variables={"n": 1})
        suspended = await until(first, RecordKind.TURN_SUSPENDED)
        assert isinstance(suspended.body, TurnSuspended)
        assert suspended.body.pending == (1,)
        assert first.info().turn_suspended
        # The only place of the worker is free: another run goes through meanwhile.
        second = here.start("steps", variables={"n": 2})
        assert await ended(second) is RunStatus.COMPLETED
        assert not first.info().status.terminal
        gate.open.set()
        assert await ended(first) is RunStatus.COMPLETED
    assert first.artifacts() == {"sum": 3}
    assert executions == [(1, []), (1, [StepStatus.OK])]
    assert gate.calls == 1
    assert RecordKind.TURN_READY in kinds(first)
    assert RecordKind.TURN_FAILED not in kinds(first)


async def test_several_steps_at_once(shared: Sidecar, here: Client) -> None:
    gate = Gate(shared.address)
    worker = Worker(address=shared.address, suspend_after=SOON)
    seen: list[list[object]] = []

    @worker.prompt("calc")
    async def calc(turn: AsyncTurn) -> Reply:
        if turn.terminal:
            return Reply()
        calls = [turn.step("add", {"a": n, "b": n}, key=f"k{n}") for n in range(3)]
        seen.append(await asyncio.gather(*calls, return_exceptions=True))
        for outcome in seen[-1]:
            if isinstance(outcome, BaseException):
                raise outcome
        return Reply(event="Done", artifacts={"sum": seen[-1]})

    async with serving(gate.worker), serving(worker):
        run = here.start("steps", variables={"n": 1})
        suspended = await until(run, RecordKind.TURN_SUSPENDED)
        assert isinstance(suspended.body, TurnSuspended)
        assert len(suspended.body.pending) >= 1
        gate.open.set()
        assert await ended(run) is RunStatus.COMPLETED
    assert run.artifacts() == {"sum": [0, 2, 4]}
    assert gate.calls == 3
    assert seen[-1] == [0, 2, 4]
    assert RecordKind.TURN_FAILED not in kinds(run)


async def test_a_handler_that_swallows_it(shared: Sidecar, here: Client) -> None:
    """What an execution says that was ended does not count."""
    gate = Gate(shared.address)
    errors: list[BaseException] = []
    worker = Worker(address=shared.address, suspend_after=SOON, on_error=errors.append)
    swallowed: list[str] = []

    @worker.prompt("calc")
    def calc(turn: Turn) -> Reply:
        if turn.terminal:
            return Reply()
        try:
            return Reply(event="Done", artifacts={"sum": turn.step("add", {"a": 1, "b": 2})})
        except Exception:
            swallowed.append("by except Exception")
            raise
        except SuspendTurn:
            swallowed.append("by name")
            with pytest.raises(SuspendTurn):
                turn.set_artifacts({"log": "no longer its turn"})
            return Reply(event="Again", artifacts={"sum": "wrong"})

    async with serving(gate.worker), serving(worker):
        run = here.start("steps", variables={"n": 1})
        await until(run, RecordKind.TURN_SUSPENDED)
        gate.open.set()
        assert await ended(run) is RunStatus.COMPLETED
    assert run.artifacts() == {"sum": 3}
    assert set(swallowed) == {"by name"}
    assert errors == []
    assert run.info().visits == {"calc": 1, "end": 1}


async def test_a_call_with_a_timeout_of_its_own_waits_it_out(shared: Sidecar, here: Client) -> None:
    worker = Worker(address=shared.address, suspend_after=SOON)

    @worker.prompt("calc")
    async def calc(turn: AsyncTurn) -> Reply:
        if not turn.terminal:
            with pytest.raises(DeadlineError, match=r"no answer within 0\.1 s"):
                await turn.step("add", {"a": 1, "b": 2}, timeout=0.1)
        return Reply(event="" if turn.terminal else "Done")

    async with serving(worker):
        run = here.start("steps", variables={"n": 1})
        assert await ended(run) is RunStatus.COMPLETED
    assert RecordKind.TURN_SUSPENDED not in kinds(run)


async def test_no_turn_is_suspended_unasked(shared: Sidecar, here: Client) -> None:
    gate = Gate(shared.address)
    worker = Worker(address=shared.address)
    asked = asyncio.Event()

    @worker.prompt("calc")
    async def calc(turn: AsyncTurn) -> Reply:
        if turn.terminal:
            return Reply()
        asked.set()
        return Reply(event="Done", artifacts={"sum": await turn.step("add", {"a": 1, "b": 2})})

    async with serving(gate.worker), serving(worker):
        run = here.start("steps", variables={"n": 1})
        await asyncio.wait_for(asked.wait(), WAIT)
        await until(run, RecordKind.STEP_REQUESTED)
        gate.open.set()
        assert await ended(run) is RunStatus.COMPLETED
    assert RecordKind.TURN_SUSPENDED not in kinds(run)


def test_a_time_that_is_none() -> None:
    for name in ("suspend_after", "handler_timeout"):
        with pytest.raises(ValueError, match=f"{name}: must be greater than 0 s, or None, not 0"):
            Worker(**{name: 0})  # type: ignore[arg-type]


class FakeLink:
    """A link to a sidecar that has the answer already: there is nothing to wait for."""

    def __init__(self) -> None:
        self.refused = asyncio.Event()

    async def request_for_turn(self, leased: LeasedTurn, make: Any) -> worker_pb2.WorkReceipt:
        if make().WhichOneof("item") == "suspend_turn":
            self.refused.set()
            raise StateError("nothing", reason="NOTHING_PENDING")
        receipt = worker_pb2.WorkReceipt()
        outcome = receipt.request_step.outcomes.add(key="1")
        outcome.step.CopyFrom(run_pb2.Step(step=1, status=record_pb2.STEP_STATUS_PENDING))
        return receipt

    def warn_not_executed(self, pack: str, tool: str) -> None:
        """Another worker answers the step."""


def a_turn(link: FakeLink) -> tuple[LeasedTurn, WorkerTurn]:
    assignment = worker_pb2.TurnAssignment()
    assignment.turn.turn.turn_seq = 1
    assignment.turn.pack.id = "steps"
    held = LeasedTurn(assignment)
    return held, WorkerTurn(link, held, SOON)  # type: ignore[arg-type]


async def test_an_answer_that_comes_while_the_turn_is_suspended() -> None:
    """Nothing is suspended, and the wait goes on."""
    link = FakeLink()
    held, turn = a_turn(link)
    step = asyncio.create_task(turn.step("add"))
    await asyncio.wait_for(link.refused.wait(), WAIT)
    answer = run_pb2.Step(step=1, status=record_pb2.STEP_STATUS_OK, result_json="3")
    held.add_answers([from_proto(answer)])
    assert await asyncio.wait_for(step, WAIT) == 3
    assert not held.suspended
    assert (held.calls, held.waiting_calls) == (0, 0)


async def test_a_turn_that_does_something_else_too_is_not_suspended() -> None:
    link = FakeLink()
    held, turn = a_turn(link)
    held.calls = 1
    await turn._suspend()
    assert not link.refused.is_set()

"""Faulty handlers: their owner receives a typed error, and the run continues."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import STEPS
from pawl_client import (
    ArtifactError,
    AsyncTurn,
    Client,
    FailTurnError,
    HandlerError,
    InvalidJsonError,
    LimitError,
    RecordKind,
    Reply,
    Run,
    RunStatus,
    RunTerminalError,
    SchemaError,
    StepCall,
    StepFailedError,
    StepRejected,
    StepResolved,
    Turn,
    TurnFailed,
    TurnStaleError,
    TurnTokenError,
    UnknownEventError,
    Worker,
)
from pawl_client.testing import Sidecar
from workers import WAIT, ended, serving

SHORT = 3.0
"""Handler timeout where one never returns: longer than any that does takes."""
LEASE = Path(__file__).parent / "lease.pack.json"


@pytest.fixture(scope="module")
def shared() -> Iterator[Sidecar]:
    with Sidecar(packs=[STEPS, LEASE], allow_tools=["*"]) as process:
        yield process


@pytest.fixture
def here(shared: Sidecar) -> Iterator[Client]:
    with shared.client() as client:
        yield client


def failure(run: Run) -> TurnFailed:
    """The only failed execution of a run."""
    (record,) = run.records(kinds=[RecordKind.TURN_FAILED])
    assert isinstance(record.body, TurnFailed)
    return record.body


def code_of(failed: TurnFailed) -> str:
    assert failed.error is not None
    return failed.error.code


NEVER = object()
BAD: dict[str, tuple[Any, type[BaseException], str]] = {
    "raises": (ValueError("no"), ValueError, "ValueError"),
    "fails": (FailTurnError("NO_QUOTA", "x"), FailTurnError, "NO_QUOTA"),
    "event": (Reply(event="Nope"), UnknownEventError, "UNKNOWN_EVENT"),
    "undeclared": (
        Reply(event="Done", artifacts={"no": 1}),
        ArtifactError,
        "UNDECLARED_ARTIFACT",
    ),
    "type": (Reply(event="Done", artifacts={"log": b"x"}), ArtifactError, "ARTIFACT_TYPE"),
    "no json": (Reply(event="Done", artifacts={"sum": object()}), InvalidJsonError, "INVALID_JSON"),
    "no number": (
        Reply(event="Done", artifacts={"sum": float("nan")}),
        InvalidJsonError,
        "INVALID_JSON",
    ),
    "too large": (
        Reply(event="Done", artifacts={"log": "x" * 70_000}),
        LimitError,
        "ARTIFACT_TOO_LARGE",
    ),
    "10 MB": (Reply(event="Done", output="x" * 10_000_000), LimitError, "MESSAGE_TOO_LARGE"),
    "no reply": ("what", HandlerError, "BAD_REPLY"),
    "never returns": (NEVER, HandlerError, "HANDLER_TIMEOUT"),
}


@pytest.mark.parametrize("flavour", ["sync", "async"])
@pytest.mark.parametrize("name", BAD)
async def test_bad_handlers(shared: Sidecar, here: Client, name: str, flavour: str) -> None:
    bad, cls, code = BAD[name]
    errors: list[BaseException] = []
    over = threading.Event()
    timeout = SHORT if bad is NEVER else WAIT
    worker = Worker(address=shared.address, on_error=errors.append, handler_timeout=timeout)

    def answer(turn: Turn | AsyncTurn) -> Reply | None:
        if turn.terminal or turn.attempt > 1:
            return Reply(event="" if turn.terminal else "Done")
        if isinstance(bad, Exception):
            raise bad
        return None if bad is NEVER else bad

    if flavour == "sync":

        @worker.prompt("calc")
        def calc(turn: Turn) -> Reply:
            reply = answer(turn)
            if reply is None:
                over.wait(WAIT)
            return reply or Reply()

    else:

        @worker.prompt("calc")
        async def calc_async(turn: AsyncTurn) -> Reply:
            reply = answer(turn)
            if reply is None:
                await asyncio.Event().wait()
            return reply or Reply()

    try:
        async with serving(worker):
            run = here.start("steps", variables={"n": 1})
            assert await ended(run) is RunStatus.COMPLETED
    finally:
        over.set()
    failed = failure(run)
    assert (code_of(failed), failed.attempt, failed.next) == (code, 1, 2)
    assert [type(error) for error in errors] == [cls]


async def test_attempts_that_are_used_up(shared: Sidecar, here: Client) -> None:
    worker = Worker(address=shared.address)

    @worker.prompt("calc")
    def calc(turn: Turn) -> Reply:
        return Reply(event="Nope")

    async with serving(worker):
        run = here.start("steps", variables={"n": 1})
        assert await ended(run) is RunStatus.ESCALATED
    assert run.info().reason == "turn_failed"
    records = list(run.records(kinds=[RecordKind.TURN_FAILED]))
    assert [r.body.next for r in records if isinstance(r.body, TurnFailed)] == [2, 0]


async def test_a_refusal_that_no_attempt_changes(shared: Sidecar, here: Client) -> None:
    worker = Worker(address=shared.address)

    @worker.prompt("calc")
    async def calc(turn: AsyncTurn) -> Reply:
        raise FailTurnError("NO_QUOTA", "for good", retryable=False)

    async with serving(worker):
        run = here.start("steps", variables={"n": 1})
        assert await ended(run) is RunStatus.FAILED
    assert code_of(failure(run)) == "NO_QUOTA"


async def test_a_handler_that_returns_after_its_lease(shared: Sidecar, here: Client) -> None:
    """The handler blocks the whole event loop, including the heartbeats, until the lease ends."""
    errors: list[BaseException] = []
    executions: list[int] = []
    worker = Worker(address=shared.address, packs=["lease"], on_error=errors.append)

    @worker.prompt("hold")
    async def hold(turn: AsyncTurn) -> Reply:
        if turn.terminal:
            return Reply(output="end")
        executions.append(turn.attempt)
        if turn.attempt == 1:
            run = here.attach(turn.run_id)
            next(iter(run.transitions(kinds=["TURN_FAILED"])))
            return Reply(event="Done", output="too late")
        return Reply(event="Done", output="in time")

    async with serving(worker):
        run = here.start("lease")
        assert await ended(run) is RunStatus.COMPLETED
    failed = failure(run)
    assert (code_of(failed), failed.next) == ("LEASE_EXPIRED", 2)
    assert executions == [1, 2]
    # The worker received either the revocation, or an error when it completed the turn.
    assert all(isinstance(error, (TurnStaleError, TurnTokenError)) for error in errors)
    outputs = [r.body.output[0].text for r in run.records(kinds=["TURN_COMPLETED"])]  # type: ignore[union-attr]
    assert outputs == ["in time", "end"]


async def test_a_blocking_handler_whose_turn_was_taken_back(shared: Sidecar, here: Client) -> None:
    """A thread cannot be stopped. Its next call raises an error, and nothing that it returns
    counts."""
    told: list[BaseException] = []
    started, go, through = threading.Event(), threading.Event(), threading.Event()
    worker = Worker(address=shared.address)

    @worker.prompt("calc")
    def calc(turn: Turn) -> Reply:
        started.set()
        assert go.wait(WAIT)
        try:
            turn.set_artifacts({"log": "late"})
        except (TurnStaleError, TurnTokenError, RunTerminalError) as error:
            # RunTerminalError: the call overtook the revocation, and the sidecar refused it.
            told.append(error)
            raise
        finally:
            through.set()
        return Reply(event="Done")

    async with serving(worker):
        run = here.start("steps", variables={"n": 1})
        assert await asyncio.to_thread(started.wait, WAIT)
        await asyncio.to_thread(run.cancel)
        go.set()
        assert await asyncio.to_thread(through.wait, WAIT)
    assert len(told) == 1
    assert run.artifacts() == {}
    assert run.info().status is RunStatus.CANCELLED


PROGRAM = """
import sys, threading
from pawl_client import Worker
worker = Worker(address=sys.argv[1], packs=["steps"], drain_timeout=0.1)

@worker.prompt("calc")
def calc(turn):
    print("started", flush=True)
    threading.Event().wait()

worker.run()
print("drained", flush=True)
"""


def test_a_handler_that_never_returns_does_not_hold_up_the_end(
    shared: Sidecar, here: Client
) -> None:
    """SIGTERM ends the process. The turn goes to another worker, and uses up no attempt."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, shared.address], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        run = here.start("steps", variables={"n": 1})
        assert process.stdout.readline() == "started\n"
        process.terminate()
        assert process.wait(timeout=WAIT) == 0
        assert process.stdout.read() == "drained\n"
    finally:
        process.kill()
        process.wait(timeout=WAIT)
        process.stdout.close()  # type: ignore[union-attr]
    assert list(run.records(kinds=[RecordKind.TURN_FAILED])) == []
    run.cancel()


async def test_a_coroutine_does_not_outlive_its_worker(shared: Sidecar, here: Client) -> None:
    """A turn that still runs when the drain ends is cancelled, and delivered again."""
    worker = Worker(address=shared.address, packs=["steps"], drain_timeout=0.05)
    started, cancelled = asyncio.Event(), asyncio.Event()

    @worker.prompt("calc")
    async def calc(turn: AsyncTurn) -> Reply:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return Reply()

    async with serving(worker):
        run = here.start("steps", variables={"n": 1})
        await asyncio.wait_for(started.wait(), WAIT)
    await asyncio.wait_for(cancelled.wait(), WAIT)
    info = run.info()
    assert info.turn is not None
    assert (info.status, info.turn.attempt) == (RunStatus.RUNNING, 1)
    assert list(run.records(kinds=[RecordKind.TURN_FAILED])) == []
    run.cancel()


async def test_handlers_that_never_return_starve_no_others(shared: Sidecar, here: Client) -> None:
    over = threading.Event()
    worker = Worker(address=shared.address, handler_timeout=SHORT)

    @worker.prompt("calc")
    def calc(turn: Turn) -> Reply:
        if turn.variables["n"] == 1:
            over.wait(WAIT)
        return Reply(event="" if turn.terminal else "Done")

    try:
        async with serving(worker):
            stuck = [here.start("steps", variables={"n": 1}) for _ in range(2)]
            good = here.start("steps", variables={"n": 2})
            assert await ended(good) is RunStatus.COMPLETED
            for run in stuck:
                assert await ended(run) is RunStatus.ESCALATED
    finally:
        over.set()


@pytest.mark.parametrize("name", ["payload", "result", "raises", "no json", "never returns"])
async def test_bad_tools(shared: Sidecar, here: Client, name: str) -> None:
    errors: list[BaseException] = []
    seen: list[str] = []
    over = threading.Event()
    timeout = SHORT if name == "never returns" else WAIT
    tools = Worker(address=shared.address, on_error=errors.append, handler_timeout=timeout)
    turns = Worker(address=shared.address)
    wrong = {"type": "object", "required": ["missing"]}

    @tools.tool(
        "add",
        parameters=wrong if name == "payload" else None,
        result=wrong if name == "result" else None,
    )
    def add(payload: dict[str, int]) -> Any:
        if name == "raises":
            raise OSError("no disk")
        if name == "never returns":
            over.wait(WAIT)
        return object() if name == "no json" else {}

    @turns.prompt("calc")
    async def calc(turn: AsyncTurn) -> Reply:
        if turn.terminal:
            return Reply()
        try:
            await turn.step("add", {"a": 1, "b": 1})
        except StepFailedError as error:
            seen.append(error.reason)
        return Reply(event="Done")

    try:
        async with serving(tools), serving(turns):
            run = here.start("steps", variables={"n": 1})
            assert await ended(run) is RunStatus.COMPLETED
    finally:
        over.set()
    (record,) = run.records(kinds=["STEP_RESOLVED"])
    codes = {
        "payload": "PAYLOAD_INVALID",
        "raises": "OSError",
        "never returns": "HANDLER_TIMEOUT",
    }
    assert seen == [codes.get(name, "RESULT_INVALID")]
    assert isinstance(record.body, StepResolved)
    assert not record.body.ok
    # The effect of the function may have happened, unless the function says otherwise.
    assert record.body.unknown is (name not in ("payload", "raises"))
    assert len(errors) == 1
    assert isinstance(errors[0], (SchemaError, OSError, InvalidJsonError, HandlerError))


async def test_a_payload_that_fails_its_schema_is_not_asked_for(
    shared: Sidecar, here: Client
) -> None:
    """On the client: it checks the schema of the pack before it sends anything."""
    worker = Worker(address=shared.address)

    @worker.prompt("calc")
    async def calc(turn: AsyncTurn) -> Reply:
        if turn.attempt == 1 and not turn.terminal:
            await turn.step("add", {"a": "one", "b": 2})
        return Reply(event="" if turn.terminal else "Done")

    async with serving(worker):
        run = here.start("steps", variables={"n": 1})
        assert await ended(run) is RunStatus.COMPLETED
    failed = failure(run)
    assert code_of(failed) == "SchemaError"
    assert failed.error is not None
    assert failed.error.message == "payload of tool add: at $.a: 'one' is not of type 'number'"
    requested = [RecordKind.STEP_REQUESTED, RecordKind.STEP_REJECTED]
    assert list(run.records(kinds=requested)) == []


def test_a_payload_that_fails_its_schema_is_refused_by_the_sidecar(here: Client) -> None:
    """In the sidecar: for every caller, no tool receives a payload that the pack does not
    allow."""
    run = here.open("steps", variables={"n": 1})
    asked = run.request_steps(run.turn().turn, [StepCall("add", {"a": "one", "b": 2})])
    denial = asked.outcomes[0].denial
    assert denial is not None
    assert denial.code == "PAYLOAD_INVALID"
    (record,) = run.records(kinds=[RecordKind.STEP_REJECTED])
    assert isinstance(record.body, StepRejected)


async def test_a_result_that_is_too_large_is_an_error_of_the_tool(
    shared: Sidecar, here: Client
) -> None:
    errors: list[BaseException] = []
    worker = Worker(address=shared.address, on_error=errors.append)

    @worker.tool("add")
    def add(payload: dict[str, int]) -> str:
        return "x" * 10_000_000

    @worker.prompt("calc")
    async def calc(turn: AsyncTurn) -> Reply:
        if not turn.terminal:
            with pytest.raises(StepFailedError) as caught:
                await turn.step("add", {"a": 1, "b": 1})
            assert caught.value.reason == "MESSAGE_TOO_LARGE"
        return Reply(event="" if turn.terminal else "Done")

    async with serving(worker):
        run = here.start("steps", variables={"n": 1})
        assert await ended(run) is RunStatus.COMPLETED
    assert [type(error) for error in errors] == [LimitError]
    assert list(run.records(kinds=[RecordKind.TURN_FAILED])) == []
    (record,) = run.records(kinds=[RecordKind.STEP_RESOLVED])
    assert isinstance(record.body, StepResolved)
    assert record.body.unknown
    assert record.body.error is not None
    assert record.body.error.message.startswith("the result was refused: ")


async def test_an_owner_whose_on_error_raises(
    shared: Sidecar, here: Client, caplog: pytest.LogCaptureFixture
) -> None:
    def on_error(error: BaseException) -> None:
        raise RuntimeError("the owner's own fault")

    worker = Worker(address=shared.address, on_error=on_error)

    @worker.prompt("calc")
    def calc(turn: Turn) -> Reply:
        if turn.attempt == 1 and not turn.terminal:
            raise ValueError("no")
        return Reply(event="" if turn.terminal else "Done")

    with caplog.at_level(logging.ERROR, logger="pawl_client.worker"):
        async with serving(worker):
            run = here.start("steps", variables={"n": 1})
            assert await ended(run) is RunStatus.COMPLETED
    assert code_of(failure(run)) == "ValueError"
    assert any("on_error" in record.message for record in caplog.records)

"""8.17: no value of a handler ends its worker. The failure is recorded, and the worker takes the
next piece of work."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from conftest import STEPS
from pawl_client import (
    AsyncTurn,
    Client,
    FailTurnError,
    Fault,
    Record,
    RecordKind,
    Reply,
    RunStatus,
    StepFailedError,
    StepResolved,
    Turn,
    TurnFailed,
    Usage,
    Worker,
)
from pawl_client.testing import Sidecar
from workers import ended, serving, variant


class WordlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Foreign(BaseException):
    """An exception of a class that no code expects."""


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


LOOP: list[Any] = []
LOOP.append(LOOP)
LONG = "x" * 10_000_000
RAISED: dict[str, BaseException] = {
    "an int": FailTurnError(5),  # type: ignore[arg-type]
    "zero": FailTurnError(0),  # type: ignore[arg-type]
    "bytes": FailTurnError(b"\xff", b"\xff"),  # type: ignore[arg-type]
    "None": FailTurnError(None, None),  # type: ignore[arg-type]
    "objects": FailTurnError(object(), object()),  # type: ignore[arg-type]
    "wordless objects": FailTurnError(WordlessError(), WordlessError()),  # type: ignore[arg-type]
    "nothing": FailTurnError("", ""),
    "huge text": FailTurnError(LONG, LONG),
    "half a character": FailTurnError("\ud800", "\ud800"),
    "control characters": FailTurnError("\x00", "\x00"),
    "wordless": WordlessError(),
    "huge words": ValueError(LONG),
    "no words": ValueError(),
    "StopIteration": StopIteration(),
    "StopAsyncIteration": StopAsyncIteration(),
    "SystemExit": SystemExit(3),
    "a cancellation": asyncio.CancelledError(),
    "foreign": Foreign("what"),
    "MemoryError": MemoryError(),
}
REPLIES: dict[str, Any] = {
    "an int": 5,
    "a class": Reply,
    "event int": Reply(event=5),
    "event bytes": Reply(event=b"\xff"),
    "event half": Reply(event="\ud800"),
    "event huge": Reply(event=LONG),
    "artifacts int": Reply(artifacts=5),
    "artifacts keys": Reply(artifacts={5: 5}),
    "artifacts loop": Reply(event="Done", artifacts={"sum": LOOP}),
    "artifacts deep": Reply(event="Done", artifacts={"sum": deep(100_000)}),
    "messages int": Reply(messages=5),  # type: ignore[arg-type]
    "messages None": Reply(messages=[None]),  # type: ignore[list-item]
    "output object": Reply(output=object()),  # type: ignore[arg-type]
    "usage text": Reply(usage="much"),  # type: ignore[arg-type]
    "usage huge": Reply(usage=Usage(input_tokens=2**80)),
    "awaiting": Reply(awaiting=5),  # type: ignore[arg-type]
}
RESULTS: dict[str, Any] = {
    "an object": object(),
    "bytes": b"\xff",
    "a set": {1},
    "no number": float("nan"),
    "half a character": "\ud800",
    "a loop": LOOP,
    "deep": deep(100_000),
    "huge": LONG,
    "a fault of an int": Fault(code=5),  # type: ignore[arg-type]
}
ONCE = {"retry": {"max_attempts": 1}}


@pytest.mark.parametrize("flavour", ["sync", "async"])
async def test_turns(sidecar: Sidecar, client: Client, flavour: str) -> None:
    client.register_pack(variant(STEPS, "bad-values", ONCE), filename="x.json")
    worker = Worker(address=sidecar.address, packs=["bad-values"], handler_timeout=None)
    said: list[Any] = []

    def answer() -> Any:
        if isinstance(said[-1], BaseException):
            raise said[-1]
        return said[-1]

    if flavour == "sync":
        worker.prompt("calc")(lambda turn: answer())
    else:

        @worker.prompt("calc")
        async def calc(turn: AsyncTurn) -> Any:
            return answer()

    async with serving(worker):
        for name, bad in [*RAISED.items(), *REPLIES.items()]:
            said.append(bad)
            run = client.start("bad-values", variables={"n": 1})
            assert await ended(run) is RunStatus.ESCALATED, name
            (record,) = run.records(kinds=[RecordKind.TURN_FAILED])
            assert isinstance(record.body, TurnFailed)
            assert record.body.error is not None
            assert record.body.error.code, name
    assert len(said) == len(RAISED) + len(REPLIES)


@pytest.mark.parametrize("flavour", ["sync", "async"])
async def test_tools(sidecar: Sidecar, client: Client, flavour: str) -> None:
    client.register_pack(variant(STEPS, "bad-values", ONCE), filename="x.json")
    tools = Worker(address=sidecar.address, packs=["bad-values"], handler_timeout=None)
    turns = Worker(address=sidecar.address, packs=["bad-values"])
    table = [*RAISED.items(), *RESULTS.items()]
    left = [bad for _, bad in table]

    def answer() -> Any:
        bad = left.pop(0)
        if isinstance(bad, BaseException):
            raise bad
        return bad

    if flavour == "sync":
        tools.tool("add")(lambda payload: answer())
    else:

        @tools.tool("add")
        async def add(payload: object) -> Any:
            return answer()

    @turns.prompt("calc")
    def calc(turn: Turn) -> Reply:
        if turn.terminal:
            return Reply()
        for number, (name, _) in enumerate(table):
            with pytest.raises(StepFailedError) as caught:
                turn.step("add", {"a": 1, "b": 2}, key=str(number))
            assert caught.value.reason, name
        return Reply(event="Done")

    async with serving(tools), serving(turns):
        run = client.start("bad-values", variables={"n": 1})
        assert await ended(run) is RunStatus.COMPLETED
    assert left == []


async def test_where_it_was_raised(
    sidecar: Sidecar, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """The traceback is in the log, and in the failure up to a bound. A failure on purpose has
    none."""
    client.register_pack(variant(STEPS, "bad-values", ONCE), filename="x.json")
    worker = Worker(address=sidecar.address, packs=["bad-values"], steps=1)

    def recursing(levels: int) -> None:
        if levels:
            recursing(levels - 1)
        raise KeyError("the_innermost")

    @worker.tool("add")
    def add(payload: dict[str, int]) -> int:
        raise LookupError("of the tool") if payload["a"] else FailTurnError("MEANT", "so")

    @worker.prompt("calc")
    async def calc(turn: AsyncTurn) -> Reply:
        for a in (0, 1):
            with pytest.raises(StepFailedError) as caught:
                await turn.step("add", {"a": a, "b": 2})
            # A model may receive this message, so it has no traceback.
            assert "Traceback" not in caught.value.message
        recursing(500)
        return Reply()

    with caplog.at_level(logging.WARNING, logger="pawl_client.worker"):
        async with serving(worker):
            run = client.start("bad-values", variables={"n": 1})
            assert await ended(run) is RunStatus.ESCALATED
    (failed,) = run.records(kinds=[RecordKind.TURN_FAILED])
    assert isinstance(failed.body, TurnFailed)
    assert failed.body.error is not None
    assert failed.body.error.trace.endswith("KeyError: 'the_innermost'\n")
    assert len(failed.body.error.trace.encode()) <= 8192
    meant, raised = run.records(kinds=[RecordKind.STEP_RESOLVED])
    assert isinstance(meant.body, StepResolved)
    assert meant.body.error == Fault(code="MEANT", message="so")
    assert isinstance(raised.body, StepResolved)
    assert raised.body.error is not None
    assert "in add\n" in raised.body.error.trace
    assert "in recursing" in caplog.text
    assert "LookupError: of the tool" in caplog.text


async def test_a_short_lease(sidecar: Sidecar, client: Client) -> None:
    """The worker chooses the pause between heartbeats while it holds nothing. A turn that then
    arrives with a lease of one second is kept for as long as its handler runs. A machine that
    stops for most of a second gets a longer lease, far below that pause."""
    for seconds in (1, 2, 4):
        status, failed = await under_lease(sidecar, client, seconds)
        if status is RunStatus.COMPLETED and not failed:
            return
    pytest.fail(f"under a lease of 4 s the run is {status}: {failed}")


async def under_lease(
    sidecar: Sidecar, client: Client, seconds: int
) -> tuple[RunStatus, list[Record]]:
    """How a run ends whose handler works for longer than two leases, and what failed."""
    name = f"short-lease-{seconds}"
    bounds = ONCE | {"lease_sec": seconds}
    client.register_pack(variant(STEPS, name, bounds), filename="x.json")
    worker = Worker(address=sidecar.address, packs=[name])

    @worker.prompt("calc")
    async def calc(turn: AsyncTurn) -> Reply:
        if turn.terminal:
            return Reply()
        await asyncio.sleep(2.5 * seconds)
        return Reply(event="Done")

    async with serving(worker):
        run = client.start(name, variables={"n": 1})
        status = await ended(run)
    return status, list(run.records(kinds=[RecordKind.TURN_FAILED]))

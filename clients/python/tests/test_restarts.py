"""The sidecar is killed in the midst of calls: each takes effect once."""

from __future__ import annotations

import asyncio
import itertools
import math
import threading

import pytest

from conftest import STEPS
from pawl_client import (
    AsyncTurn,
    Client,
    CommitUnknownError,
    Reply,
    RunResult,
    RunStatus,
    Turn,
    UnavailableError,
)
from pawl_client._errors import OverloadedError, PawlError, RequestError, error_of
from pawl_client._event_reader import EventReader
from pawl_client._event_source import EventSource
from pawl_client._flow import Invoke, Operation, Sleep, attempt
from pawl_client.testing import Sidecar
from pawl_client.v1 import run_pb2
from workers import WAIT

TURNS = 150


def test_killed_in_the_midst_of_a_run() -> None:
    count = itertools.count(1)
    kills = {number: threading.Event() for number in (10, 60, 110)}

    def handler(turn: Turn) -> Reply:
        number = next(count)
        if number in kills:
            kills[number].set()
        if turn.terminal or number > TURNS:
            return Reply(event="" if turn.terminal else "Done")
        return Reply(event="Again", artifacts={"log": str(number)})

    with Sidecar(packs=[STEPS]) as own:

        def killer() -> None:
            for reached in kills.values():
                assert reached.wait(WAIT)
                own.restart()

        thread = threading.Thread(target=killer)
        thread.start()
        with own.client() as client:
            result = client.run("steps", handler, variables={"n": 1})
        thread.join(WAIT)
        assert not thread.is_alive()
    assert result.status is RunStatus.COMPLETED
    assert result.errors == ()
    assert result.run.visits == {"calc": TURNS + 1, "end": 1}
    assert result.artifacts["log"].split("\n") == [str(n) for n in range(1, TURNS + 1)]


@pytest.mark.parametrize("blocking", [True, False])
def test_events_wait_for_a_sidecar_as_long_as_the_run(
    monkeypatch: pytest.MonkeyPatch, blocking: bool
) -> None:
    tries, original = itertools.count(1), EventReader.pause
    away = threading.Event()

    def pause(self: EventReader, error: PawlError) -> float:
        seconds = original(self, error)
        self._waited += 1000.0  # As after a long time.
        if next(tries) >= 3:
            away.set()
        return min(seconds, 0.05)

    monkeypatch.setattr(EventReader, "pause", pause)
    kinds: list[str] = []

    def add(payload: object) -> int:
        own.kill()
        assert away.wait(WAIT)
        own.restart()
        return 3

    with Sidecar(packs=[STEPS], allow_tools=["*"]) as own:
        if blocking:

            def handler(turn: Turn) -> Reply:
                if turn.terminal:
                    return Reply()
                return Reply(event="Done", artifacts={"sum": turn.step("add", {"a": 1, "b": 2})})

            with own.client() as client:
                result = client.run(
                    "steps",
                    handler,
                    tools={"add": add},
                    variables={"n": 1},
                    on_output=lambda event: kinds.append(event.kind),
                )
        else:

            async def whole() -> RunResult:
                async def waiting(turn: AsyncTurn) -> Reply:
                    if turn.terminal:
                        return Reply()
                    total = await turn.step("add", {"a": 1, "b": 2})
                    return Reply(event="Done", artifacts={"sum": total})

                async with own.async_client() as other:
                    return await other.run(
                        "steps",
                        waiting,
                        tools={"add": add},
                        variables={"n": 1},
                        on_output=lambda event: kinds.append(event.kind),
                    )

            result = asyncio.run(whole())
    assert (result.status, result.artifacts["sum"]) == (RunStatus.COMPLETED, 3)
    assert kinds[-1] == "end"


def test_events_do_not_wait_without_a_limit_once_the_run_is_over() -> None:
    reader = EventReader(namespace="", source=EventSource("run", ""), reconnect_for=math.inf)
    away = UnavailableError("away", code="UNAVAILABLE")
    reader.pause(away)
    reader._waited = 1000.0
    reader.pause(away)
    reader.end_at(7)
    with pytest.raises(UnavailableError, match="away"):
        reader.pause(away)


def test_starts_are_not_repeated() -> None:
    with Sidecar(packs=[STEPS]) as own, own.client() as client:
        runs: list[str] = []

        def starter() -> None:
            runs.extend(client.open("steps", variables={"n": 1}).id for _ in range(60))

        thread = threading.Thread(target=starter)
        thread.start()
        some = itertools.islice(client.transitions(kinds=["TRANSITION"]), 10)
        assert len(list(some)) == 10
        own.restart()
        thread.join(WAIT)
        assert not thread.is_alive()
        assert len(set(runs)) == 60
        assert {info.run_id for info in client.list_runs()} == set(runs)


def operation() -> Operation[str]:
    return Operation("/x", run_pb2.GetRunRequest(), run_pb2.GetRunResponse, str)


@pytest.mark.parametrize(
    "error",
    [
        UnavailableError("away", code="UNAVAILABLE"),
        CommitUnknownError("who knows", code="UNAVAILABLE"),
        OverloadedError("busy", code="RESOURCE_EXHAUSTED", retry_after=0.001),
        error_of("ABORTED", "again", reason="PACK_CONTENDED"),
    ],
)
def test_what_is_repeated_has_the_same_request(error: PawlError) -> None:
    flow = attempt(operation(), timeout=5, retry_for=5)
    first = next(flow)
    assert isinstance(first, Invoke)
    assert isinstance(flow.throw(error), Sleep)
    second = next(flow)
    assert isinstance(second, Invoke)
    assert second.operation.request is first.operation.request
    assert second.timeout <= first.timeout
    with pytest.raises(StopIteration) as stop:
        flow.send("answer")
    assert stop.value.value == "answer"


def test_what_is_not_repeated() -> None:
    flow = attempt(operation(), timeout=5, retry_for=5)
    next(flow)
    with pytest.raises(RequestError):
        flow.throw(RequestError("wrong"))
    flow = attempt(operation(), timeout=5, retry_for=0)
    next(flow)
    with pytest.raises(UnavailableError):
        flow.throw(UnavailableError("away"))


def test_a_longer_wait_than_there_is_time_for() -> None:
    flow = attempt(operation(), timeout=1, retry_for=5)
    next(flow)
    with pytest.raises(OverloadedError):
        flow.throw(OverloadedError("busy", retry_after=60))


def test_nobody_is_there() -> None:
    with Client(address="127.0.0.1:1", retry_for=0.2) as client, pytest.raises(UnavailableError):
        client.get_pack("x")

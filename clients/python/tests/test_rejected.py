"""Answers of models that a handler rejects, against a real sidecar."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from pawl_client import (
    AsyncTurn,
    Client,
    ConversationRange,
    FailTurnError,
    ModelAnswer,
    ModelCall,
    ModelMessage,
    ModelRequest,
    Reply,
    RunResult,
    RunStatus,
    StepCall,
    StepStatus,
    ToolCallRef,
    Turn,
    TurnFailed,
)
from pawl_client.testing import Sidecar
from scripted import Says, Scripted
from vendors import LEAVE, adds, awaiting, blocking, registered

WHY = "SUM_WRONG: Count again."
SCRIPT = Says("", adds(5)), Says("", [LEAVE]), Says("", [LEAVE]), Says("Bye.")
HOW: dict[str, Any] = {"variables": {"n": 1}, "input": "Add."}


def rejecting(turn: Turn | AsyncTurn, reply: Reply, attempts: int) -> Reply:
    if turn.state == "calc" and turn.attempt <= attempts:
        raise FailTurnError("SUM_WRONG", "Count again.")
    return reply


def adding(calls: list[Any]) -> dict[str, Any]:
    """The tool, which notes that it was called."""

    def add(payload: Any) -> Any:
        calls.append(payload)
        return 6

    return {"add": add}


def checked(client: Client, result: RunResult, endpoint: Scripted, calls: list[Any]) -> None:
    """The second round was asked twice, the second time with the reason."""
    assert result.status is RunStatus.COMPLETED
    told = [json.dumps(body) for body in endpoint.requests]
    assert [WHY in body for body in told] == [False, False, True, False]
    assert len(calls) == 1
    records = client.attach(result.run.run_id).records(kinds=["TURN_FAILED"])
    bodies = [record.body for record in records]
    assert [b.rejected_step for b in bodies if isinstance(b, TurnFailed)] == [3]


def test_is_asked_anew_with_the_reason(client: Client, vendor: str) -> None:
    pack = registered(client, f"rejected-{vendor}")
    calls: list[Any] = []
    with Scripted(*SCRIPT) as endpoint:
        handler = blocking(vendor, endpoint.url)
        result = client.run(
            pack,
            lambda turn: rejecting(turn, handler(turn), 1),
            tools=adding(calls),
            **HOW,
        )
    checked(client, result, endpoint, calls)


def test_is_asked_anew_where_a_handler_awaits(sidecar: Sidecar, vendor: str) -> None:
    calls: list[Any] = []

    async def play(pack: str, endpoint: Scripted) -> RunResult:
        handler = awaiting(vendor, endpoint.url)

        async def handle(turn: AsyncTurn) -> Reply:
            return rejecting(turn, await handler(turn), 1)

        async def add(payload: Any) -> Any:
            calls.append(payload)
            return 6

        tools = {"add": add}
        async with sidecar.async_client() as client:
            return await client.run(pack, handle, tools=tools, **HOW)

    with sidecar.client() as client, Scripted(*SCRIPT) as endpoint:
        pack = registered(client, f"rejected-async-{vendor}")
        checked(client, asyncio.run(play(pack, endpoint)), endpoint, calls)


def test_is_asked_as_often_as_the_turn_has_attempts(client: Client) -> None:
    pack = registered(client, "rejected-always", bounds={"retry": {"max_attempts": 3}})
    with Scripted(Says("", [LEAVE])) as endpoint:
        handler = blocking("chat", endpoint.url)
        result = client.run(pack, lambda turn: rejecting(turn, handler(turn), 9), **HOW)
    assert result.status is RunStatus.ESCALATED
    assert [json.dumps(body).count(WHY) for body in endpoint.requests] == [0, 1, 1]


def test_stays_where_the_program_failed(client: Client) -> None:
    pack = registered(client, "rejected-not")
    with Scripted(Says("", [LEAVE]), Says("Bye.")) as endpoint:
        handler = blocking("chat", endpoint.url)

        def handle(turn: Turn) -> Reply:
            reply: Reply = handler(turn)
            if turn.attempt == 1:
                raise ConnectionError("the network")
            return reply

        result = client.run(pack, handle, **HOW)
    assert result.status is RunStatus.COMPLETED
    assert len(endpoint.requests) == 2


def test_before_a_call_that_failed_stays(client: Client) -> None:
    """The failure of the second call says nothing of the first answer."""
    bounds = {"model_calls": {"retry": {"max_attempts": 1}}}
    pack = registered(client, "rejected-earlier", bounds=bounds)
    calls: list[Any] = []
    script = Says("", adds(5)), Says(status=503), Says("", [LEAVE]), Says("Bye.")
    with Scripted(*script) as endpoint:
        result = client.run(
            pack,
            blocking("chat", endpoint.url),
            tools=adding(calls),
            **HOW,
        )
    assert result.status is RunStatus.COMPLETED
    assert (len(endpoint.requests), len(calls)) == (4, 1)


def test_stays_where_its_tools_were_called(client: Client) -> None:
    """Another answer would call them again."""
    pack = registered(client, "rejected-called")
    calls: list[Any] = []
    answers = []

    def handle(turn: Turn) -> Reply:
        if turn.state != "calc":
            return Reply(output="Bye.")
        said = ModelMessage(conversation=ConversationRange())
        step = turn.request_model(1, ModelRequest(model="m", messages=(said,))).step
        assert step is not None
        if step.status is StepStatus.PENDING:
            answers.append(step.step)
            call = ModelCall(id="c", name="add", arguments="{}")
            turn.answer_model(step.step, step.attempt, ModelAnswer(calls=(call,)))
        made = ToolCallRef(model_step=step.step, index=0)
        turn.calls([StepCall("add", {"a": 5, "b": 1}, call=made)])
        return rejecting(turn, Reply(event="Done"), 1)

    result = client.run(pack, handle, tools=adding(calls), **HOW)
    assert result.status is RunStatus.COMPLETED
    assert (answers, len(calls)) == ([1], 1)

"""Durable tool calls of a run that the caller drives."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pawl_client import (
    Client,
    FailStepError,
    RecordKind,
    Reply,
    RunStatus,
    SchemaError,
    StepFailedError,
    StepMismatchError,
    StepRefusedError,
    Turn,
    Worker,
)
from pawl_client.testing import Sidecar
from workers import serving


class Calculator:
    """Counts the calls that were really made."""

    def __init__(self) -> None:
        self.calls = 0

    def add(self, payload: dict[str, Any]) -> float:
        self.calls += 1
        return float(payload["a"] + payload["b"])


def test_a_repeated_turn_runs_no_tool_twice(client: Client) -> None:
    calculator = Calculator()

    def handler(turn: Turn) -> Reply:
        if turn.terminal:
            return Reply()
        first = turn.step("add", {"a": 1, "b": 2})
        second = turn.step("add", {"a": first, "b": 10}, key="second")
        if turn.attempt == 1:
            raise RuntimeError("after the tools")
        assert [step.result for step in turn.steps] == [3, 13]
        return Reply(event="Done", artifacts={"sum": second})

    tools = {"add": calculator.add}
    result = client.run("steps", handler, tools=tools, variables={"n": 1})
    assert result.status is RunStatus.COMPLETED
    assert result.artifacts == {"sum": 13}
    assert calculator.calls == 2
    assert result.run.tool_calls == 2


def test_a_payload_that_does_not_fit_is_not_sent(client: Client) -> None:
    def handler(turn: Turn) -> Reply:
        if not turn.terminal:
            with pytest.raises(SchemaError, match="payload of tool add: at \\$: 'b' is a required"):
                turn.step("add", {"a": 1})
        return Reply(event="" if turn.terminal else "Done")

    result = client.run("steps", handler, variables={"n": 1})
    assert result.errors == ()
    kinds = [r.kind for r in client.attach(result.run.run_id).records(kinds=list(RecordKind)[1:])]
    assert RecordKind.STEP_REQUESTED not in kinds


@pytest.mark.parametrize(
    ("tool", "reason"), [("forbidden", "TOOL_NOT_ALLOWED"), ("unheard_of", "TOOL_NOT_LISTED")]
)
def test_denied(client: Client, tool: str, reason: str) -> None:
    caught: list[StepRefusedError] = []

    def handler(turn: Turn) -> Reply:
        if not turn.terminal:
            with pytest.raises(StepRefusedError) as error:
                turn.step(tool)
            caught.append(error.value)
        return Reply(event="" if turn.terminal else "Done")

    assert client.run("steps", handler, variables={"n": 1}).status is RunStatus.COMPLETED
    assert [error.reason for error in caught] == [reason]


def test_a_known_key_with_another_payload_fails_the_attempt(client: Client) -> None:
    def handler(turn: Turn) -> Reply:
        if turn.terminal:
            return Reply()
        if turn.attempt == 1:
            turn.step("add", {"a": 1, "b": 2}, key="k")
            turn.step("add", {"a": 1, "b": 3}, key="k")
        return Reply(event="Done")

    tools = {"add": Calculator().add}
    result = client.run("steps", handler, tools=tools, variables={"n": 1})
    assert result.status is RunStatus.COMPLETED
    assert [type(error) for error in result.errors] == [StepMismatchError]


async def test_answered_by_another_program(client: Client, sidecar: Sidecar) -> None:
    """A step that has no function here waits for a worker that has one."""

    def handler(turn: Turn) -> Reply:
        if turn.terminal:
            return Reply()
        with pytest.raises(StepFailedError, match="tool add: E: m"):
            turn.step("add", {"a": 1, "b": 2})
        return Reply(event="Done")

    worker = Worker(address=sidecar.address)

    @worker.tool("add")
    def add(payload: Any) -> int:
        raise FailStepError("E", "m", non_retryable=True)

    async with serving(worker):
        result = await asyncio.to_thread(
            client.run, "steps", handler, worker_tools=["add"], variables={"n": 1}
        )
    assert (result.status, result.errors) == (RunStatus.COMPLETED, ())


def test_tools_of_the_turn(client: Client) -> None:
    turn = client.open("steps", variables={"n": 2}).turn()
    assert [tool.name for tool in turn.tools] == ["add", "boom", "forbidden"]
    assert turn.tools[0].parameters["required"] == ["a", "b"]
    assert turn.system_prompt == "Add 2."
    assert turn.variables == {"n": 2}
    assert [slot.name for slot in turn.artifact_slots] == ["blob", "log", "sum"]

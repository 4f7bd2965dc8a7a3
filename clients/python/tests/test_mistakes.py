"""A mistake of the program raises in its hand, at the first turn."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from conftest import STEPS
from pawl_client import (
    ArtifactError,
    Client,
    FailTurnError,
    HandlerError,
    InvalidJsonError,
    Message,
    PawlError,
    Reply,
    RunStatus,
    RunTerminalError,
    SchemaError,
    StepFailedError,
    StepRefusedError,
    Turn,
    UnknownEventError,
    Usage,
    Worker,
)
from pawl_client._handler_runner import HandlerRunner
from pawl_client.testing import Sidecar
from workers import ended, serving

N = {"n": 1}
SUM = {"a": 1, "b": 2}


class Point(NamedTuple):
    """A tuple whose members have names."""

    x: int
    y: int


def adds(turn: Turn) -> Reply:
    """Leaves by what the tool `add` answers."""
    if turn.terminal:
        return Reply()
    return Reply(event="Done", artifacts={"sum": turn.step("add", SUM)})


def replies(**fields: Any) -> Callable[[Turn], Reply]:
    """A handler that replies with these fields."""

    def handler(turn: Turn) -> Reply:
        return Reply(**fields)

    return handler


def texts(payload: Any) -> int:
    """A tool that promises a number."""
    return str(payload)  # type: ignore[return-value]


def typed(a: int, b: int) -> int:
    """As `texts`, with typed arguments."""
    return f"{a} and {b}"  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("handler", "tools", "kind", "reason", "words"),
    [
        (adds, None, HandlerError, "NO_HANDLER", ["'add'", "functions: none", "worker_tools"]),
        (adds, {"ad": texts}, HandlerError, "NO_HANDLER", ["functions: ad"]),
        (
            lambda turn: turn.step("forbidden", {}),
            None,
            StepRefusedError,
            "TOOL_NOT_ALLOWED",
            ["<lambda>", "--allow-tool forbidden"],
        ),
        (
            lambda turn: turn.step("nowhere", {}),
            None,
            StepRefusedError,
            "TOOL_NOT_LISTED",
            ['"nowhere"'],
        ),
        (
            lambda turn: turn.step("add", {"a": 1, "c": 2}),
            None,
            SchemaError,
            "",
            ["<lambda>", "payload of tool add", "'b' is a required"],
        ),
        (
            lambda turn: turn.step("add", [1, 2]),
            None,
            SchemaError,
            "",
            ["payload of tool add: must be a mapping", "not list"],
        ),
        (
            lambda turn: turn.step("boom", {"a": object()}),
            None,
            InvalidJsonError,
            "INVALID_JSON",
            ["payload.a", "object"],
        ),
        ({"ask": adds}, None, FailTurnError, "NO_HANDLER", ["'calc'", "['ask']"]),
        (lambda _: "Done", None, HandlerError, "BAD_REPLY", ["a Reply or None, not str"]),
        (replies(event=3), None, HandlerError, "BAD_REPLY", ["name of an event, not int"]),
        (replies(event="Nope"), None, UnknownEventError, "UNKNOWN_EVENT", ['"Nope"', "Again"]),
        (replies(artifacts=["sum"]), None, HandlerError, "BAD_REPLY", ["artifacts", "not list"]),
        (replies(artifacts={"x": 1}), None, ArtifactError, "UNDECLARED_ARTIFACT", ["artifacts[x]"]),
        (
            replies(event="Done", artifacts={"sum": object()}),
            None,
            InvalidJsonError,
            "INVALID_JSON",
            ["artifacts.sum", "object"],
        ),
        (replies(output={"a", "b"}), None, HandlerError, "BAD_REPLY", ["output", "not set"]),
        (replies(output=Point(1, 2)), None, HandlerError, "BAD_REPLY", ["output", "not Point"]),
        (replies(output=Message.of("user", "hi")), None, HandlerError, "BAD_REPLY", ["Message"]),
        (replies(messages=["hi"]), None, HandlerError, "BAD_REPLY", ["messages[0]", "not str"]),
        (replies(output=object()), None, HandlerError, "BAD_REPLY", ["output", "not object"]),
        (replies(usage=5), None, HandlerError, "BAD_REPLY", ["Usage or None, not int"]),
        (adds, {"add": lambda payload: {1}}, SchemaError, "RESULT_INVALID", ["tool add", "set"]),
        (adds, {"add": typed}, SchemaError, "RESULT_INVALID", ["tool add", "integer"]),
    ],
)
def test_a_mistake_raises_at_the_first_turn(
    client: Client,
    handler: Any,
    tools: Any,
    kind: type[PawlError],
    reason: str,
    words: list[str],
) -> None:
    run = client.open("steps", variables=N)
    with pytest.raises(kind) as caught:
        run.drive(handler, tools=tools)
    assert caught.value.reason == reason
    for word in words:
        assert word in str(caught.value)
    if kind is not SchemaError:  # The call was made, and its step has that answer.
        turn = run.info().turn
        assert turn is not None
        assert turn.attempt == 1


def test_a_payload_that_the_function_does_not_accept(client: Client) -> None:
    def handler(turn: Turn) -> Reply:
        return Reply(event="Done", artifacts={"sum": turn.step("add", {"a": 1, "b": 2.5})})

    run = client.open("steps", variables=N)
    with pytest.raises(StepFailedError, match=r"^handler .*handler of prompt calc: .*at \$\.b: "):
        run.drive(handler, tools={"add": typed})
    assert run.info().status is RunStatus.FAILED


def test_a_model_without_a_price_where_the_pack_bounds_the_cost(client: Client) -> None:
    pack = json.loads(STEPS.read_text())
    pack["id"] = "bounded"
    pack["workflow"]["engine"] = {"x_pawl": {"max_cost_usd": 1}}
    client.register_pack(json.dumps(pack))
    run = client.open("bounded", variables=N)
    with pytest.raises(PawlError, match=r"x_pawl\.prices") as caught:
        run.drive(replies(event="Done", usage=Usage(input_tokens=1, model="dear")))
    assert caught.value.reason == "MODEL_UNPRICED"
    turn = run.info().turn
    assert turn is not None
    assert turn.attempt == 1


async def test_a_worker_names_its_handler(sidecar: Sidecar, client: Client) -> None:
    errors: list[BaseException] = []
    worker = Worker(address=sidecar.address, on_error=errors.append)
    worker.prompt("calc")(lambda turn: "done")
    async with serving(worker):
        run = await asyncio.to_thread(client.start, "steps", variables=N)
        await ended(run)
    assert re.match(r"handler .*<lambda> of prompt calc: it must return a Reply", str(errors[0]))


def test_the_name_of_the_handler_is_in_the_message(client: Client) -> None:
    with pytest.raises(UnknownEventError, match=r"^handler replies\..*handler of prompt calc: "):
        client.run("steps", replies(event="Nope"), variables=N)


def test_a_corrected_program_continues_the_run(client: Client) -> None:
    run = client.open("steps", variables=N)
    with pytest.raises(HandlerError):
        run.drive(adds)
    result = run.drive(adds, tools={"add": lambda payload: payload["a"] + payload["b"]})
    assert (result.status, result.artifacts["sum"]) == (RunStatus.COMPLETED, 3)


@pytest.mark.parametrize("named", ["add", "*"])
async def test_a_tool_of_a_worker(sidecar: Sidecar, named: str) -> None:
    worker = Worker(address=sidecar.address)
    worker.tool("add")(lambda payload: payload["a"] + payload["b"])
    async with serving(worker), sidecar.async_client() as client:

        async def handler(turn: Any) -> Reply:
            if turn.terminal:
                return Reply()
            return Reply(event="Done", artifacts={"sum": await turn.step("add", SUM)})

        result = await client.run("steps", handler, worker_tools=[named], variables=N)
    assert result.artifacts["sum"] == 3


def test_worker_tools_is_no_text(client: Client) -> None:
    with pytest.raises(TypeError, match="names of tools, not the text 'add'"):
        client.run("steps", adds, worker_tools="add", variables=N)


async def test_a_worker_warns_once_of_a_tool_that_it_does_not_execute(
    sidecar: Sidecar, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    turns, tools = Worker(address=sidecar.address), Worker(address=sidecar.address)
    turns.prompt("*")(adds)
    tools.tool("add")(lambda payload: payload["a"] + payload["b"])
    with caplog.at_level(logging.WARNING, logger="pawl_client.worker"):
        async with serving(turns), serving(tools):
            for _ in range(2):
                run = await asyncio.to_thread(client.start, "steps", variables=N)
                assert await ended(run) is RunStatus.COMPLETED
    said = [r.getMessage() for r in caplog.records if "does not execute" in r.getMessage()]
    assert len(said) == 1
    assert "pack steps: this worker does not execute tool add" in said[0]
    assert said[0].endswith("tools of this worker: none")


def test_a_refused_worker_raises_without_the_frames_of_its_loop(sidecar: Sidecar) -> None:
    worker = Worker(address=sidecar.address, packs=["steps"])
    worker.prompt("clac")(adds)
    with pytest.raises(PawlError, match="clac") as caught:
        worker.run()
    assert caught.value.reason == "UNKNOWN_PROMPT"
    names = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert not [name for name in names if "asyncio" in name]


@pytest.mark.parametrize(
    ("error", "traced"),
    [
        (StepRefusedError("no call is left", reason="MAX_TOOL_CALLS"), False),
        (RunTerminalError("the sidecar refused the model call", reason="MAX_COST_USD"), False),
        (ValueError("a bug"), True),
    ],
)
def test_a_refused_call_is_one_line_in_the_log(
    caplog: pytest.LogCaptureFixture, error: Exception, traced: bool
) -> None:
    HandlerRunner("w", None, None).report("turn 1", error)
    (record,) = caplog.records
    assert record.getMessage() == f"worker w: turn 1: {type(error).__name__}: {error}"
    assert (record.exc_info is not None) is traced

"""Turns executed by a chat endpoint, from recordings, against a real sidecar."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from endpoint import Endpoint
from pawl_client import (
    Client,
    FailTurnError,
    RunResult,
    RunStatus,
    StepKind,
    StepResolved,
    TurnCompleted,
    Worker,
)
from pawl_client.models import AsyncModelHandler, ModelHandler
from pawl_client.testing import Sidecar


def add(payload: dict[str, Any]) -> Any:
    return payload["a"] + payload["b"]


def model(url: str) -> OpenAIChatModel:
    return OpenAIChatModel("gpt-5-mini", provider=OpenAIProvider(base_url=url, api_key="none"))


def played(client: Client, *names: str, rounds: int = 16) -> tuple[RunResult, Endpoint]:
    with Endpoint(*names) as endpoint:
        handler = ModelHandler(model(endpoint.url), max_rounds=rounds)
        result = client.run(
            "steps", handler, tools={"add": add}, variables={"n": 1}, input="Add 2 and 3."
        )
    return result, endpoint


def last_tool_message(endpoint: Endpoint, request: int) -> Any:
    message = endpoint.requests[request]["messages"][-1]
    assert message["role"] == "tool"
    return json.loads(message["content"])


def test_tools_then_leaving(client: Client) -> None:
    result, endpoint = played(client, "add", "leave", "text")
    assert result.status is RunStatus.COMPLETED
    assert result.artifacts == {"sum": 5, "log": "added"}
    assert result.run.tool_calls == 1
    assert result.run.tokens == 3 * 18
    assert result.output[0].text == "All done."
    first, second, third = endpoint.requests
    assert first["messages"] == [
        {"role": "system", "content": "Add 1."},
        {"role": "user", "content": "Add 2 and 3."},
    ]
    leave = first["tools"][-1]["function"]
    assert leave["name"] == "leave_state"
    assert leave["parameters"]["properties"]["event"]["enum"] == ["Again", "Ask", "Done"]
    assert set(leave["parameters"]["properties"]["artifacts"]["properties"]) == {"log", "sum"}
    assert last_tool_message(endpoint, 1) == 5
    assert second["messages"][2]["content"] == "Let me add."
    # A terminal state cannot be left, so it has no function for that.
    assert [tool["function"]["name"] for tool in third["tools"]] == ["add", "boom", "forbidden"]
    run = client.attach(result.run.run_id)
    completed = next(run.records(kinds=["TURN_COMPLETED"])).body
    assert isinstance(completed, TurnCompleted)
    # The records of the model calls have the conversation. Only the result of leaving is new.
    assert [m.role for m in completed.messages] == ["tool"]
    assert completed.conversation_through_step == 3
    assert [step.kind for step in run.info().steps] == ["MODEL"]
    asked = run.model_step(completed.conversation_through_step)
    assert [m.role for m in asked.messages] == ["user", "assistant", "tool"]
    assert asked.system == "Add 1."
    assert asked.step is not None
    assert asked.step.model is not None
    assert asked.step.model.answer is not None
    assert asked.step.model.answer.calls[0].name == "leave_state"
    assert third["messages"][0] == {"role": "system", "content": "Add 1."}
    assert len(third["messages"]) > 1


def test_two_calls_at_once(client: Client) -> None:
    result, endpoint = played(client, "add_twice", "leave", "text")
    assert result.run.tool_calls == 2
    assert [m["content"] for m in endpoint.requests[1]["messages"][-2:]] == ["5", "9"]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("leave_unknown_event", "event: one of ['Again', 'Ask', 'Done'], not 'Ship'"),
        ("leave_unknown_artifact", "artifacts: one of ['log', 'sum'], not 'nope'"),
        ("leave_wrong_type", "artifacts.log: a string, not list"),
        ("leave_artifact_beside", "log: no property of leave_state"),
        ("leave_malformed", "the arguments are no JSON"),
        ("leave_with_add", "call leave_state alone"),
        ("add_malformed", "the arguments are no JSON"),
        ("add_misfit", "payload of tool add: at $"),
        ("no_such_tool", "there is no tool 'rm_rf'"),
        ("not_allowed", "TOOL_NOT_ALLOWED"),
    ],
)
def test_the_model_is_told_and_corrects_itself(client: Client, name: str, told: str) -> None:
    result, endpoint = played(client, name, "leave", "text")
    assert result.status is RunStatus.COMPLETED
    assert result.errors == ()
    tools = [m for m in endpoint.requests[1]["messages"] if m["role"] == "tool"]
    assert any(told in message["content"] for message in tools)


def test_text_alone_does_not_move_the_run(client: Client) -> None:
    result, endpoint = played(client, "text", "leave", "text")
    assert result.status is RunStatus.COMPLETED
    assert "Call leave_state to go on" in endpoint.requests[1]["messages"][-1]["content"]


FAILURES = pytest.mark.parametrize(
    ("name", "code"),
    [
        ("refusal", "REFUSED"),
        ("filtered", "CONTENT_FILTER"),
        ("length", "TRUNCATED"),
        ("broken", "STREAM_TRUNCATED"),
        ("rate_limited", "MODEL_RATE_LIMITED"),
        ("server_error", "MODEL_503"),
    ],
)


@FAILURES
def test_what_fails_a_call(client: Client, name: str, code: str) -> None:
    """The model is asked again, in the same turn."""
    result, endpoint = played(client, name, "leave", "text")
    assert (result.status, result.errors) == (RunStatus.COMPLETED, ())
    assert endpoint.requests[0] == endpoint.requests[1]
    records = list(client.attach(result.run.run_id).records(kinds=["STEP_RESOLVED"]))
    first = records[0].body
    assert isinstance(first, StepResolved)
    assert (first.kind, first.ok, first.next) == (StepKind.MODEL, False, 2)
    assert first.error is not None
    assert first.error.code == code


def test_what_fails_an_attempt(client: Client) -> None:
    """Recorded answers are not requested again. What they cost is counted."""
    result, endpoint = played(client, "add", *["refusal"] * 3, "leave", "text")
    assert result.status is RunStatus.COMPLETED
    (error,) = result.errors
    assert isinstance(error, FailTurnError)
    assert error.reason == "REFUSED"
    assert len(endpoint.requests) == 6
    assert result.run.tokens == 6 * 18
    assert result.run.tool_calls == 1


def test_what_fails_the_run(client: Client) -> None:
    result, _ = played(client, "bad_request")
    assert result.status is RunStatus.FAILED
    assert "no such model" in str(result.errors[0])


def test_a_model_that_never_leaves(client: Client) -> None:
    result, endpoint = played(client, "text", rounds=2)
    assert (result.status, result.reason) == (RunStatus.ESCALATED, "turn_failed")
    assert [getattr(error, "reason", "") for error in result.errors] == ["MAX_ROUNDS"] * 2
    # The second execution takes all answers from the record except the last, which it requests
    # again.
    assert len(endpoint.requests) == 4
    assert "MAX_ROUNDS" in json.dumps(endpoint.requests[3])


def test_nobody_answers(client: Client) -> None:
    handler = ModelHandler(model("http://127.0.0.1:1/v1"))
    result = client.run("steps", handler, variables={"n": 1})
    assert [getattr(e, "reason", "") for e in result.errors] == ["MODEL_UNREACHABLE"] * 2


async def test_in_a_worker(sidecar: Sidecar, client: Client) -> None:
    import asyncio

    with Endpoint("add", "leave", "text") as endpoint:
        worker = Worker(address=sidecar.address, packs=["steps"])
        worker.prompt("calc")(AsyncModelHandler(model(endpoint.url)))
        worker.tool("add")(add)
        task = asyncio.create_task(worker.serve())
        run = client.start("steps", variables={"n": 1})
        waited = await asyncio.to_thread(run.wait, timeout=120)
        worker.stop()
        await task
    assert waited.run.status is RunStatus.COMPLETED
    assert run.artifacts() == {"sum": 5, "log": "added"}


def test_settings_that_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"model: must be 'provider:model' or a pydantic_ai Model, not int"
    ):
        ModelHandler(7)
    with pytest.raises(ValueError, match="Unknown model: nobody:m"):
        ModelHandler("nobody:m")
    with pytest.raises(ValueError, match="max_rounds: must be at least 1, not 0"):
        ModelHandler(model("http://127.0.0.1:1/v1"), max_rounds=0)
    with pytest.raises(ValueError, match=r"extra\.max_retries: the handler sets it itself"):
        ModelHandler(model("http://127.0.0.1:1/v1"), extra={"max_retries": 3})

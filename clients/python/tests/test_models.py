"""Turns by models of several vendors, through their own packages, against a real sidecar."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from typing import Any

import pytest

from pawl_client import (
    Awaiting,
    Client,
    Part,
    RunStatus,
    StepRequested,
    StepResolved,
    ToolCallRef,
    Worker,
)
from pawl_client.testing import Sidecar
from scripted import Says, Scripted
from vendors import LEAVE, adds, awaiting, blocking, played, registered
from workers import WAIT, ended, serving


def together(parties: int) -> Any:
    """A tool that answers only when `parties` of its calls are running."""
    barrier = threading.Barrier(parties, timeout=WAIT)

    def add(payload: dict[str, Any]) -> Any:
        barrier.wait()
        return payload["a"] + payload["b"]

    return add


def told(vendor: str, request: dict[str, Any]) -> list[Any]:
    """The results of the tools, in the order in which a request lists them."""
    if vendor == "chat":
        return [json.loads(m["content"]) for m in request["messages"] if m["role"] == "tool"]
    if vendor == "responses":
        items = [i for i in request["input"] if i.get("type") == "function_call_output"]
        return [json.loads(item["output"]) for item in items]
    blocks = [b for m in request["messages"] for b in m["content"]]
    results = [b["content"] for b in blocks if b["type"] == "tool_result"]
    return [json.loads(r if isinstance(r, str) else r[0]["text"]) for r in results]


def test_calls_of_one_answer_run_at_the_same_time(client: Client, vendor: str) -> None:
    script = Says("I add.", adds(1, 2, 3)), Says("", [LEAVE]), Says("All done.")
    result, endpoint = played(client, vendor, "steps", *script, tools={"add": together(3)})
    assert (result.status, result.errors) == (RunStatus.COMPLETED, ())
    assert told(vendor, endpoint.requests[1]) == [2, 3, 4]
    assert result.run.tokens == 3 * 15
    assert result.output[0].text == "All done."
    bodies = [
        record.body for record in client.attach(result.run.run_id).records(kinds=["STEP_REQUESTED"])
    ]
    asked = [body for body in bodies if isinstance(body, StepRequested) and body.call]
    assert [(body.step, body.call, body.key) for body in asked] == [
        (i + 2, ToolCallRef(model_step=1, index=i), f"model/1/{i}") for i in range(3)
    ]


async def test_in_a_worker(sidecar: Sidecar, client: Client, vendor: str) -> None:
    # The test has its own pack, because other tests leave unanswered calls of the tool.
    pack = registered(client, f"in-a-worker-{vendor}", bounds={})
    with Scripted(Says("", adds(1, 2)), Says("", [LEAVE]), Says("Done.")) as endpoint:
        worker = Worker(address=sidecar.address, packs=[pack], steps=2)
        worker.prompt("calc")(awaiting(vendor, endpoint.url))
        worker.tool("add")(together(2))
        async with serving(worker):
            run = client.start(pack, variables={"n": 1})
            assert await ended(run) is RunStatus.COMPLETED
    assert told(vendor, endpoint.requests[1]) == [2, 3]


async def test_in_a_client_of_coroutines(sidecar: Sidecar, vendor: str) -> None:
    arrived = asyncio.Event()
    waiting = 0

    async def add(payload: dict[str, Any]) -> Any:
        nonlocal waiting
        waiting += 1
        if waiting == 2:
            arrived.set()
        await asyncio.wait_for(arrived.wait(), WAIT)
        return payload["a"]

    with Scripted(Says("", adds(1, 2)), Says("", [LEAVE]), Says("Done.")) as endpoint:
        async with sidecar.async_client() as client:
            handler = awaiting(vendor, endpoint.url)
            result = await client.run("steps", handler, tools={"add": add}, variables={"n": 1})
    assert (result.status, result.errors) == (RunStatus.COMPLETED, ())
    assert told(vendor, endpoint.requests[1]) == [1, 2]


def test_no_more_at_once_than_may_be_pending(client: Client) -> None:
    pack = registered(client, "two-pending", bounds={"max_pending_steps": 2})
    script = Says("", adds(1, 2, 3, 4)), Says("", [LEAVE]), Says("Done.")
    result, endpoint = played(client, "chat", pack, *script, tools={"add": together(2)})
    assert (result.status, result.errors) == (RunStatus.COMPLETED, ())
    assert told("chat", endpoint.requests[1]) == [2, 3, 4, 5]


def test_thoughts_are_given_back(client: Client) -> None:
    script = Says("", adds(1), thought="hm"), Says("", [LEAVE]), Says("Done.")
    _, endpoint = played(client, "messages", "steps", *script, tools={"add": together(1)})
    said = endpoint.requests[1]["messages"][1]
    assert said["content"][0] == {"type": "thinking", "thinking": "hm", "signature": "signed"}
    assert said["content"][1]["input"] == {"a": 1, "b": 1}
    result, endpoint = played(client, "responses", "steps", *script, tools={"add": together(1)})
    kept = [item for item in endpoint.requests[1]["input"] if item.get("type") == "reasoning"]
    assert kept[0]["encrypted_content"] == "hm"
    records = client.attach(result.run.run_id).records(kinds=["STEP_RESOLVED"])
    first = next(iter(records)).body
    assert isinstance(first, StepResolved)
    usage = first.usage
    assert usage is not None
    assert (usage.cached_tokens, usage.reasoning_tokens) == (4, 2)


IMAGE = Part(data=b"\x89PNG", media_type="image/png")
PAPER = Part(data=b"%PDF", media_type="application/pdf", filename="offer.pdf")


def test_media_go_as_the_provider_wants_them(client: Client, vendor: str) -> None:
    script = Says("", [LEAVE]), Says("Done.")
    result, endpoint = played(client, vendor, "steps", *script, input=["Read.", IMAGE, PAPER])
    assert (result.status, result.errors) == (RunStatus.COMPLETED, ())
    request = endpoint.requests[0]
    content = (request.get("messages") or request["input"])[-1]["content"]
    wanted = {
        "chat": ["text", "image_url", "file"],
        "responses": ["input_text", "input_image", "input_file"],
        "messages": ["text", "image", "document"],
    }
    assert [part["type"] for part in content] == wanted[vendor]
    for part in (IMAGE, PAPER):
        assert base64.b64encode(part.data or b"").decode() in json.dumps(content)


def test_media_that_a_provider_cannot_take(client: Client, vendor: str) -> None:
    tape = Part(data=b"x", media_type="video/quicktime", filename="tape.mov")
    result, endpoint = played(client, vendor, "steps", Says("Done."), input=["See.", tape])
    assert result.status is RunStatus.FAILED
    assert "video/quicktime (tape.mov)" in str(result.errors[0])
    assert endpoint.requests == []


def test_words_of_the_pack(client: Client, vendor: str) -> None:
    prompt = {
        "parameters": {"temperature": 0.25, "max_tokens": 100},
        "tool_policy": {"tool_choice": "required"},
        "model_overrides": {
            "scripted": {"system_template_prefix": "Be brief. ", "parameters": {"top_p": 0.5}}
        },
    }
    pack = registered(client, f"worded-{vendor}", prompt)
    result, endpoint = played(client, vendor, pack, Says("", [LEAVE]), Says("Done."))
    request = endpoint.requests[0]
    assert (request["temperature"], request["top_p"]) == (0.25, 0.5)
    names = ("max_tokens", "max_output_tokens", "max_completion_tokens")
    assert 100 in map(request.get, names)
    assert request["tool_choice"] == ({"type": "any"} if vendor == "messages" else "required")
    assert "Be brief. Add 1." in json.dumps(request)
    shown = client.attach(result.run.run_id).model_step(1)
    assert shown.parameters["tool_choice"] == "required"


@pytest.mark.parametrize(
    ("vendor_", "prompt", "said"),
    [
        (
            "chat",
            {"parameters": {"top_k": 3}},
            "parameters.top_k: openai:scripted has no such parameter",
        ),
        ("messages", {"parameters": {"presence_penalty": 1}}, "parameters.presence_penalty"),
        (
            "chat",
            {"model_overrides": {"scripted": {"system_template": "For {{n}}."}}},
            "model_overrides.system_template",
        ),
        (
            "responses",
            {"model_overrides": {"scripted": {"system_template_prefix": "For {{n}}."}}},
            "model_overrides.system_template_prefix",
        ),
    ],
)
def test_words_of_the_pack_that_are_refused(
    client: Client, vendor_: str, prompt: Any, said: str
) -> None:
    pack = registered(client, f"refused-{next(iter(prompt)).replace('_', '-')}-{vendor_}", prompt)
    result, endpoint = played(client, vendor_, pack, Says("Done."))
    assert result.status is RunStatus.FAILED
    assert said in str(result.errors[0])
    assert endpoint.requests == []


def test_without_tools(client: Client) -> None:
    pack = registered(client, "no-tools", {"tool_policy": {"tool_choice": "none"}})
    result, endpoint = played(client, "chat", pack, Says("", adds(1)), Says("", [LEAVE]))
    assert result.run.tool_calls == 0
    tools = [tool["function"]["name"] for tool in endpoint.requests[0]["tools"]]
    assert tools == ["leave_state"]
    assert "there is no tool 'add'" in endpoint.requests[1]["messages"][-1]["content"]


def test_chat(client: Client, vendor: str) -> None:
    """Text is an answer to the person, and so is a question. After each, the run waits."""
    script = (
        Says("What shall I add?"),
        Says("", [("ask_user", {"question": "To which number?"})]),
        Says("", adds(2)),
        Says("It is 3.", [LEAVE]),
        Says("Bye."),
    )
    with Scripted(*script) as endpoint:
        handler = blocking(vendor, endpoint.url, chat=True)
        how: dict[str, Any] = {"tools": {"add": together(1)}}
        result = client.run("steps", handler, variables={"n": 1}, input="Hi", **how)
        assert (result.status, result.run.awaiting) == (RunStatus.WAITING, Awaiting.INPUT)
        assert result.output[0].text == "What shall I add?"
        run = client.attach(result.run.run_id)
        run.send_input("Two.")
        result = run.drive(handler, **how)
        assert result.output[0].text == "To which number?"
        run.send_input("To one.")
        result = run.drive(handler, **how)
    assert (result.status, result.errors) == (RunStatus.COMPLETED, ())
    assert len(endpoint.requests) == 5
    request = json.dumps(endpoint.requests[2])
    places = [request.index(said) for said in ("Hi", "What shall", "Two.", "To which", "To one.")]
    assert places == sorted(places)

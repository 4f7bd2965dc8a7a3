"""What the library of models drops or breaks, and Pawl corrects; against a real sidecar."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tracemalloc
from http.server import BaseHTTPRequestHandler
from typing import Any

import pydantic
import pytest
from pydantic_ai.messages import ModelResponse, TextPart

from pawl_client import (
    Client,
    JsonValue,
    ModelAnswer,
    ModelCall,
    Part,
    RunStatus,
    SchemaError,
    StepResolved,
    Turn,
    Usage,
)
from pawl_client import _pydantic_ai as library
from pawl_client._normalize import NormalizedAnswer
from pawl_client.models import ModelHandler
from scripted import USAGE, Says, Scripted
from vendors import LEAVE, awaiting, blocking, model, played, registered

BYE = Says("", [LEAVE]), Says("Bye.")


class Raw(Scripted):
    """An endpoint that sends these bodies first. A body that is not bytes lists chunks of a chat
    completion."""

    def __init__(self, *bodies: Any, **headers: str) -> None:
        super().__init__(*BYE)
        self._bodies, self.headers = list(bodies), headers

    def answer(self, path: str, body: dict[str, Any]) -> bytes | Says:
        if not self._bodies:
            return super().answer(path, body)
        self.requests.append(body)
        raw = self._bodies.pop(0)
        if isinstance(raw, bytes):
            return raw
        chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in raw]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        return "".join(f"data: {json.dumps(c)}\n\n" for c in chunks).encode() + b"data: [DONE]\n\n"

    def serve(self, request: BaseHTTPRequestHandler, data: bytes | Says) -> None:
        if not self.headers:
            super().serve(request, data)
            return
        assert isinstance(data, bytes)
        status = int(self.headers.pop("status", "200"))
        request.send_response(status)
        for name, value in self.headers.items():
            request.send_header(name.replace("_", "-"), value)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)
        self.headers = {}


class Unescaped(Scripted):
    """An endpoint that does not escape characters that some readers take for line ends."""

    def answer(self, path: str, body: dict[str, Any]) -> bytes | Says:
        data = super().answer(path, body)
        assert isinstance(data, bytes)
        for char in "\u2028\u2029\x85":
            data = data.replace(f"\\u{ord(char):04x}".encode(), char.encode())
        return data


def call(index: Any, name: str, arguments: Any, **more: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    place = {} if index is None else {"index": index}
    return {"tool_calls": [{"type": "function", "function": function, **place, **more}]}


def add(payload: dict[str, Any]) -> Any:
    return payload["a"] + payload["b"]


def asked(client: Client, endpoint: Scripted, **how: Any) -> tuple[Any, list[ModelAnswer]]:
    """A run, and the answers of its models."""
    with endpoint:
        handler = blocking("chat", endpoint.url, **how.pop("settings", {}))
        given: dict[str, Any] = {"tools": {"add": add}, "variables": {"n": 1}, "input": "Go."}
        given |= how
        result = client.run(given.pop("pack", "steps"), handler, **given)
    records = client.attach(result.run.run_id).records(kinds=["STEP_RESOLVED"])
    bodies = [record.body for record in records]
    return result, [b.answer for b in bodies if isinstance(b, StepResolved) and b.answer]


ONE, TWO = '{"a": 1, "b": 1}', '{"a": 2, "b": 2}'


@pytest.mark.parametrize(
    "deltas",
    [
        [call(0, "add", ONE, id="x"), call(0, "add", TWO, id="y")],
        [call(0, "add", ONE, id="x"), call(1, "add", TWO, id="x")],
        [call(None, "add", ONE, id="x"), call(None, "add", TWO, id="y")],
        [call(0, "add", ONE), call(1, "add", TWO)],
        [call(0, "add", {"a": 1, "b": 1}, id="x"), call(1, "add", {"a": 2, "b": 2}, id="y")],
        [call(0, "add", ONE[:5], id="x"), call(0, "", ONE[5:]), call(1, "add", TWO, id="y")],
    ],
    ids=["index-zero", "one-id", "no-index", "no-id", "objects", "pieces"],
)
def test_two_calls_are_two(client: Client, deltas: list[Any]) -> None:
    result, answers = asked(client, endpoint := Raw(deltas))
    assert (result.status, result.run.tool_calls) == (RunStatus.COMPLETED, 2)
    assert [json.loads(c.arguments) for c in answers[0].calls] == [json.loads(ONE), json.loads(TWO)]
    again = [m for m in endpoint.requests[1]["messages"] if m["role"] != "user"][1:]
    ids = [c["id"] for c in again[0]["tool_calls"]]
    assert len(set(ids)) == 2
    results = [(m["tool_call_id"], m["content"]) for m in again[1:]]
    assert results == list(zip(ids, "24", strict=True))


def test_numbers_keep_their_digits(client: Client) -> None:
    digits = '{"a": 9007199254740993, "b": 0.10000000000000000001}'
    raw = digits.replace('"', '\\"')
    text = json.dumps({"choices": [{"delta": call(0, "add", "ARGS", id="x")}]})
    wire = f"data: {text.replace('ARGS', raw)}\n\ndata: [DONE]\n\n".encode()
    bare = text.replace('"ARGS"', digits)
    objects = f"data: {bare}\n\ndata: [DONE]\n\n".encode()
    for body in (wire, objects):
        _, answers = asked(client, endpoint := Raw(body))
        told = endpoint.requests[1]["messages"][2]["tool_calls"][0]["function"]["arguments"]
        assert told == answers[0].calls[0].arguments
        assert told.replace(" ", "") == digits.replace(" ", "")


@pytest.mark.parametrize("vendor", ["chat", "messages"])
def test_characters_that_end_no_line(client: Client, vendor: str) -> None:
    odd = "a\u2028b\u2029c\x85d"
    value = {"a": odd, "b": odd}
    said = json.dumps(value, ensure_ascii=False)
    script = Says(odd, [("add", said)]), Says("", [LEAVE]), Says("Bye.")
    with Unescaped(*script) as endpoint:
        handler = blocking(vendor, endpoint.url)
        result = client.run("steps", handler, tools={"add": add}, variables={"n": 1}, input="Go.")
    assert result.status is RunStatus.COMPLETED
    assert len(endpoint.requests) == len(script)
    records = client.attach(result.run.run_id).records(kinds=["STEP_RESOLVED"])
    answers = [r.body.answer for r in records if isinstance(r.body, StepResolved) and r.body.answer]
    assert json.loads(answers[0].calls[0].arguments) == value
    assert answers[0].text == odd


@pytest.mark.parametrize("form", ["crlf", "bom", "comments", "null finish"])
def test_streams_in_other_words(client: Client, form: str) -> None:
    said = b"data:" + json.dumps({"choices": [{"delta": call(0, "add", ONE, id="x")}]}).encode()
    ends = {"crlf": b"\r\n\r\n"}.get(form, b"\n\n")
    begin = {"bom": b"\xef\xbb\xbf", "comments": b": hello\n\n\n"}.get(form, b"")
    _, answers = asked(client, Raw(begin + said + ends + b"data: [DONE]" + ends))
    assert answers[0].calls == (ModelCall(id="x", name="add", arguments=ONE),)


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        (b"<html><title>Sign in</title></html>", "MODEL_ERROR", "Sign in"),
        (b'{"error":{"message":"wait","code":"loading"}}', "MODEL_LOADING", "wait"),
        (b'{"detail":[{"msg":"too long"}]}', "MODEL_ERROR", "too long"),
        (b'data: {"error":{"message":"busy","code":503}}\n\n', "MODEL_503", "busy"),
        (b'data: {"error":"out of memory"}\n\n', "MODEL_ERROR", "out of memory"),
        (b"data: {broken\n\n", "MODEL_ERROR", "{broken"),
        (b"data: {}\n\ndata: [DONE]\n\n", "NO_ANSWER", "no text"),
        (b"", "STREAM_TRUNCATED", ""),
    ],
)
def test_what_is_no_answer_is_asked_again(
    client: Client, body: bytes, code: str, words: str
) -> None:
    result, _ = asked(client, Raw(body))
    assert (result.status, result.errors) == (RunStatus.COMPLETED, ())
    records = client.attach(result.run.run_id).records(kinds=["STEP_RESOLVED"])
    first = next(iter(records)).body
    assert isinstance(first, StepResolved)
    assert first.error is not None
    assert first.error.code == code
    assert words in first.error.message


def test_an_error_that_no_attempt_can_help_ends_the_turn(client: Client) -> None:
    event = b'data: {"error":{"message":"no","code":400}}\n\n'
    for raw in (Raw(event), Raw(b'[{"error":{"message":"no"}}]', status="400")):
        result, _ = asked(client, endpoint := raw)
        assert result.status is RunStatus.FAILED
        assert "no" in str(result.errors[0])
        assert len(endpoint.requests) == 1


def test_a_failing_call_is_made_as_often_as_the_pack_says(client: Client, vendor: str) -> None:
    """The package of the provider would make each of them three times."""
    bounds = {"model_calls": {"retry": {"max_attempts": 2, "initial_sec": 1}}}
    pack = registered(client, f"attempts-{vendor}", bounds=bounds | {"retry": {"max_attempts": 1}})
    result, endpoint = played(client, vendor, pack, Says(status=503))
    assert result.status is RunStatus.ESCALATED
    assert len(endpoint.requests) == 2


def test_counts_of_what_there_is_so_far_are_not_added_up(client: Client) -> None:
    chunks = [
        {
            "choices": [{"delta": {"content": word}}],
            "usage": {"prompt_tokens": 10, "completion_tokens": n},
        }
        for n, word in enumerate(("a ", "b ", "c"), 1)
    ]
    chunks.append({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": USAGE})
    wire = "".join(f"data: {json.dumps(c)}\n\n" for c in chunks).encode()
    result, _ = asked(client, Raw(wire))
    records = client.attach(result.run.run_id).records(kinds=["STEP_RESOLVED"])
    first = next(iter(records)).body
    assert isinstance(first, StepResolved)
    assert first.usage is not None
    assert (first.usage.input_tokens, first.usage.output_tokens) == (10, 5)


def test_ten_megabytes_are_not_read_to_their_end(client: Client) -> None:
    huge = [call(0, "add", "x" * 100_000, id="x"), *([call(0, "", "y" * 100_000)] * 100)]
    endpoint = Raw(huge)
    tracemalloc.start()
    try:
        result, _ = asked(client, endpoint)
        one, _ = asked(client, Raw(b"data: {" + b" " * 10_000_000))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    for run in (result, one):
        assert run.status is RunStatus.FAILED
        assert [getattr(e, "reason", "") for e in run.errors] == ["ANSWER_TOO_LARGE"]
    assert peak < 40_000_000  # The endpoint runs in this process and holds the whole answer.


def test_names_of_tools_that_no_endpoint_takes(client: Client) -> None:
    client.register_pack(json.dumps(PACK), filename="x.json")
    with Scripted(Says("", [("shop_add", {"a": 1, "b": 2})]), *BYE) as endpoint:
        handler = blocking("chat", endpoint.url)
        result = client.run("dotted", handler, tools={"shop.add": add}, input="Go.")
    assert result.status is RunStatus.COMPLETED
    names = [tool["function"]["name"] for tool in endpoint.requests[0]["tools"]]
    assert names == ["shop_add", "leave_state"]
    # The call reached the sidecar under its own name, which the allowlist does not contain.
    told = endpoint.requests[1]["messages"][-1]["content"]
    assert json.loads(told)["error"]["code"] == "TOOL_NOT_ALLOWED"
    assert "shop.add" in told


PACK: dict[str, Any] = {
    "id": "dotted",
    "name": "Dotted",
    "version": "1.0.0",
    "template_engine": {"version": "v1", "syntax": "{{variable}}"},
    "prompts": {
        "a": {
            "id": "a",
            "name": "A",
            "version": "1.0.0",
            "system_template": "A.",
            "tools": ["shop.add"],
        }
    },
    "tools": {
        "shop.add": {
            "name": "shop.add",
            "description": "Adds.",
            "parameters": {"type": "object", "properties": {}},
        }
    },
    "workflow": {
        "version": 2,
        "entry": "a",
        "states": {
            "a": {"prompt_task": "a", "on_event": {"Done": "b"}},
            "b": {"prompt_task": "a", "terminal": True},
        },
    },
}


def test_a_record_of_another_library_is_told_anew(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """So is a record of a version that this library cannot read. The log names the library."""
    envelopes: list[Any] = [
        {"library": "ai", "version": "6.0.0", "message": {"role": "assistant"}},
        {"library": "pydantic-ai", "version": "9.0.0", "message": {"kind": "of another form"}},
        {"places": ["text"], "items": []},
    ]
    for envelope in envelopes:
        caplog.clear()
        answer = ModelAnswer(
            parts=(Part(text="I add."),),
            calls=(ModelCall(id="c", name="add", arguments=ONE),),
            provider=envelope,
        )
        with Scripted(*BYE) as endpoint:
            ours = blocking("chat", endpoint.url)

            def handler(turn: Turn, answer: ModelAnswer = answer, ours: Any = ours) -> Any:
                return ours(Answering(turn, answer) if turn.state == "calc" else turn)

            result = client.run("steps", handler, tools={"add": add}, variables={"n": 1})
        assert (result.status, result.errors) == (RunStatus.COMPLETED, ())
        said = endpoint.requests[0]["messages"][2]
        assert said["content"] == "I add."
        assert said["tool_calls"][0]["function"]["arguments"] == ONE
        assert f"library {envelope.get('library')}" in caplog.text


class Answering:
    """A turn whose first round another caller answered."""

    def __init__(self, turn: Turn, answer: ModelAnswer) -> None:
        self._turn, self._answer = turn, answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._turn, name)

    def request_model(self, round: int, request: Any, **how: Any) -> Any:
        asked = self._turn.request_model(round, request, **how)
        if round == 1 and asked.step and asked.step.status == "PENDING":
            usage = Usage(input_tokens=1, output_tokens=1)
            self._turn.answer_model(asked.step.step, 1, self._answer, usage=usage)
            return self._turn.request_model(round, request, **how)
        return asked


def test_a_message_that_cannot_be_serialised(caplog: pytest.LogCaptureFixture) -> None:
    message = ModelResponse(parts=[TextPart("Hi.")], provider_details={"it": object()})
    answer = library.answer_of(NormalizedAnswer(message, {}), {})
    assert (answer.text, answer.provider) == ("Hi.", None)
    assert "without the library's own form" in caplog.text


def test_an_address_is_recorded_without_what_is_secret() -> None:
    message = ModelResponse(
        parts=[TextPart("Hi.")], provider_url="https://user:secret@host/v1?key=secret"
    )
    answer = library.answer_of(NormalizedAnswer(message, {}), {})
    assert answer.provider["message"]["provider_url"] == "https://host/v1"


class Sum(pydantic.BaseModel):
    sum: int
    of: list[Sum] = []


def test_a_typed_output(client: Client, vendor: str) -> None:
    """In a state that can be left, the leaving function has the schema; in others, the provider's
    own form has it."""
    wrong = ("leave_state", {"event": "Done", "output": {"sum": "many"}})
    leave = ("leave_state", {"event": "Done", "output": {"sum": 1, "of": [{"sum": 1}]}})
    script = Says("", [wrong]), Says("", [leave]), Says('{"sum": 3, "of": [{"sum": 1}]}')
    with Scripted(*script) as endpoint:
        result = client.run(
            "steps", model=model(vendor, endpoint.url), output=Sum, variables={"n": 1}, input="Go."
        )
    assert (result.status, result.errors) == (RunStatus.COMPLETED, ())
    assert result.output_as(Sum) == Sum(sum=3, of=[Sum(sum=1)])
    assert [part.json for part in result.output] == [JsonValue({"sum": 3, "of": [{"sum": 1}]})]
    assert "valid integer" in json.dumps(endpoint.requests[1])
    with pytest.raises(SchemaError, match="output: "):
        result.output_as(int)


async def test_a_typed_output_in_coroutines(sidecar: Any) -> None:
    script = (
        Says("", [("leave_state", {"event": "Done", "output": {"sum": 1}})]),
        Says('{"sum": 2}'),
    )
    with Scripted(*script) as endpoint:
        async with sidecar.async_client() as client:
            handler = awaiting("chat", endpoint.url, output={"calc": Sum})
            result = await client.run("steps", handler, variables={"n": 1}, input="Go.")
    assert result.output_as(Sum) == Sum(sum=2)


def test_a_handler_or_a_model(client: Client) -> None:
    with pytest.raises(TypeError, match="give either a handler or model=, not both"):
        client.run("steps", variables={"n": 1})
    with pytest.raises(TypeError, match="give either a handler or model=, not both"):
        client.run("steps", print, model="openai:m")
    with pytest.raises(TypeError, match="output: describes the answer of a model"):
        client.run("steps", print, output=Sum)


@pytest.mark.parametrize(
    ("hidden", "name", "words"),
    [
        ("pydantic_ai", "openai:m", "models need pydantic-ai"),
        ("openai", "openai-chat:m", r"pip install 'pawl-client\[openai\]'"),
        ("anthropic", "anthropic:m", r"pip install 'pawl-client\[anthropic\]'"),
    ],
)
def test_what_is_not_installed_is_said_in_one_line(hidden: str, name: str, words: str) -> None:
    program = f"""
import sys
sys.modules["{hidden}"] = None
import pawl_client
assert "pydantic_ai" not in sys.modules or "{hidden}" == "pydantic_ai"
from pawl_client.models import ModelHandler
try:
    ModelHandler("{name}")
except ImportError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1
    assert re.search(words, done.stdout)


def test_what_was_thought_is_told_again(client: Client) -> None:
    thoughts: list[dict[str, Any]] = [{"reasoning_content": "hm"}, call(0, "add", ONE, id="x")]
    _, answers = asked(client, endpoint := Raw(thoughts))
    said = endpoint.requests[1]["messages"][2]
    assert said["reasoning_content"] == "hm"
    assert answers[0].text == ""
    signed = call(0, "add", ONE, id="x", extra_content={"google": {"thought_signature": "sig"}})
    _, answers = asked(client, endpoint := Raw([signed]))
    (told,) = endpoint.requests[1]["messages"][2]["tool_calls"]
    assert told["extra_content"] == {"google": {"thought_signature": "sig"}}
    name = "call_" + "s" * 935
    asked(client, endpoint := Raw([call(0, "add", ONE, id=name)]))
    (told,) = endpoint.requests[1]["messages"][2]["tool_calls"]
    assert told["id"] == name


def test_the_short_form(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The endpoint and the key are read as the library reads them."""
    with Scripted(*BYE, *BYE) as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{endpoint.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-from-the-environment")
        result = client.run("steps", model="openai:gpt-5-mini", variables={"n": 1}, input="Go.")
        assert (result.status, result.errors) == (RunStatus.COMPLETED, ())
        run = client.open("steps", variables={"n": 1}, input="Go.")
        assert run.drive(model="openai-chat:gpt-5-mini").status is RunStatus.COMPLETED
    assert ["input" in request for request in endpoint.requests] == [True, True, False, False]
    assert {request["model"] for request in endpoint.requests} == {"gpt-5-mini"}
    assert ModelHandler("openai:gpt-5-mini")._options.model == "gpt-5-mini"


class Listening:
    """A turn that records its output."""

    def __init__(self, turn: Turn, shown: list[tuple[str, Any]]) -> None:
        self._turn, self._shown = turn, shown

    def __getattr__(self, name: str) -> Any:
        return getattr(self._turn, name)

    def output(self, text: str) -> None:
        self._shown.append(("output", text))

    def reasoning(self, text: str) -> None:
        self._shown.append(("reasoning", text))

    def retract_output(self, size: int) -> None:
        self._shown.append(("retract", size))


def test_what_a_model_thinks_is_shown_and_taken_back_with_what_it_said(client: Client) -> None:
    shown: list[tuple[str, Any]] = []
    half = [{"reasoning_content": "hm \ud83d"}, {"reasoning_content": "\ude00"}, {"content": "Ha"}]
    cut = "".join(f"data: {json.dumps({'choices': [{'delta': d}]})}\n\n" for d in half)
    with Raw(cut.encode()) as endpoint:
        ours = blocking("chat", endpoint.url)

        def handler(turn: Turn) -> Any:
            return ours(Listening(turn, shown) if turn.state == "calc" else turn)

        result = client.run("steps", handler, variables={"n": 1}, input="Go.")
    assert (result.status, result.errors) == (RunStatus.COMPLETED, ())
    thought = "".join(text for kind, text in shown if kind == "reasoning")
    assert thought == "hm \U0001f600"
    assert shown[-2:] == [("output", "Ha"), ("retract", len((thought + "Ha").encode()))]


def test_an_answer_that_is_paused_is_an_answer(client: Client) -> None:
    """The next round continues after it. The answer that was paid for is recorded."""
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "Searching"},
        },
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "pause_turn"},
            "usage": {"output_tokens": 1},
        },
        {"type": "message_stop"},
    ]
    wire = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
    with Raw(wire.encode()) as endpoint:
        handler = blocking("messages", endpoint.url)
        result = client.run("steps", handler, variables={"n": 1}, input="Go.")
    assert (result.status, result.errors) == (RunStatus.COMPLETED, ())
    assert [m["role"] for m in endpoint.requests[1]["messages"]] == ["user", "assistant"]
    shown = client.attach(result.run.run_id).model_step(2)
    assert [m.text for m in shown.messages] == ["Go.", "Searching"]

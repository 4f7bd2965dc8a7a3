"""Faults of models, endpoints and answers, against a real sidecar."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from pawl_client import (
    Awaiting,
    Client,
    FailTurnError,
    JsonValue,
    ModelAnswer,
    Part,
    Record,
    RecordKind,
    RunStatus,
    StepResolved,
    Turn,
    TurnCompleted,
    Worker,
)
from pawl_client._json_text import whole
from pawl_client.testing import Sidecar
from scripted import Says, Scripted
from vendors import KEY, LEAVE, adds, awaiting, blocking, played, registered
from workers import WAIT, ended, serving

BYE = Says("", [LEAVE]), Says("Bye.")


def add(payload: dict[str, Any]) -> Any:
    return payload["a"] + payload["b"]


def records(client: Client, run_id: str) -> list[Record]:
    kinds = [str(kind) for kind in RecordKind if kind is not RecordKind.UNSPECIFIED]
    return list(client.attach(run_id).records(kinds=kinds))


def faults(client: Client, run_id: str) -> list[str]:
    """Codes of the failed attempts of model calls."""
    bodies = [record.body for record in records(client, run_id)]
    return [b.error.code for b in bodies if isinstance(b, StepResolved) and b.error]


def test_a_state_that_people_move_as_well_is_a_chat_by_itself(client: Client, vendor: str) -> None:
    pack = registered(client, f"hybrid-{vendor}", orchestration="hybrid")
    with Scripted(Says("Hello!"), Says("Still here."), *BYE) as endpoint:
        handler = blocking(vendor, endpoint.url)
        result = client.run(pack, handler, variables={"n": 1}, input="Hi")
        assert (result.status, result.run.awaiting) == (RunStatus.WAITING, Awaiting.INPUT)
        assert result.output[0].text == "Hello!"
        assert "ask_user" in json.dumps(endpoint.requests[0])
        run = client.attach(result.run.run_id)
        run.send_input("And now?")
        assert run.drive(handler).output[0].text == "Still here."
        run.send_input("Done.")
        assert run.drive(handler).status is RunStatus.COMPLETED


def test_a_chat_that_is_none_by_choice(client: Client) -> None:
    pack = registered(client, "hybrid-no-chat", orchestration="hybrid")
    result, endpoint = played(client, "chat", pack, Says("Hello!"), *BYE, settings={"chat": False})
    assert result.status is RunStatus.COMPLETED
    assert "Call leave_state" in json.dumps(endpoint.requests[1])


def test_a_key_is_in_no_record_and_no_log(
    client: Client, vendor: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        result, _ = played(client, vendor, "steps", Says(status=401))
    (error,) = result.errors
    assert isinstance(error, FailTurnError)
    assert (error.reason, error.retryable) == ("MODEL_401", False)
    assert "[key]" in str(error)
    told = repr(records(client, result.run.run_id)) + caplog.text
    assert "MODEL_401" in told
    assert KEY not in told


async def test_a_worker_logs_no_key(
    sidecar: Sidecar, client: Client, vendor: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO), Scripted(Says(status=403)) as endpoint:
        worker = Worker(address=sidecar.address, packs=["steps"])
        worker.prompt("calc")(awaiting(vendor, endpoint.url))
        async with serving(worker):
            run = client.start("steps", variables={"n": 1})
            assert await ended(run) is RunStatus.FAILED
    assert "HTTP 403: no: " in caplog.text
    assert "[key]" in caplog.text
    assert KEY not in caplog.text + repr(records(client, run.id))


def test_what_is_no_part_of_the_body_is_not_recorded(client: Client, vendor: str) -> None:
    extra = {"extra_headers": {"X-Token": KEY}, "timeout": 20}
    settings = {"extra": extra | {"openai_user": "ann"} if vendor == "chat" else extra}
    result, endpoint = played(client, vendor, "steps", *BYE, settings=settings)
    assert result.status is RunStatus.COMPLETED
    assert len(endpoint.requests) == 2
    run = client.attach(result.run.run_id)
    shown = run.model_step(1).parameters
    assert shown == ({"openai_user": "ann"} if vendor == "chat" else None)
    assert KEY not in repr(records(client, run.id))


REFUSED = {"chat": "REFUSED", "responses": "REFUSED", "messages": "CONTENT_FILTER"}


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("refusal", ""),
        ("content_filter", "CONTENT_FILTER"),
        ("length", "TRUNCATED"),
        ("cut", "STREAM_TRUNCATED"),
    ],
)
def test_answers_that_are_none(client: Client, vendor: str, end: str, code: str) -> None:
    """Each of them is recorded as a failed attempt, and the answer is requested again."""
    result, endpoint = played(client, vendor, "steps", Says("Half", end=end), *BYE)
    assert (result.status, result.errors) == (RunStatus.COMPLETED, ())
    assert faults(client, result.run.run_id) == [code or REFUSED[vendor]]
    assert len(endpoint.requests) == 3


def test_a_response_that_failed_without_words(client: Client) -> None:
    result, _ = played(client, "responses", "steps", Says("Half", end="failed"), *BYE)
    assert result.status is RunStatus.COMPLETED
    assert faults(client, result.run.run_id) == ["MODEL_ERROR"]


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    "arguments", [DEEP, '{"a":NaN,"b":1}', '{"a":1,"b":"\\ud800"}', '{"a":1', "[1]", '{"a":' + DEEP]
)
def test_arguments_that_are_no_object(client: Client, vendor: str, arguments: str) -> None:
    """The model receives an error for each kind of bad arguments, and can correct itself."""
    script = Says("", [("add", arguments)]), Says("", [("leave_state", arguments)]), *BYE
    result, endpoint = played(client, vendor, "steps", *script, tools={"add": add})
    assert (result.status, result.errors) == (RunStatus.COMPLETED, ())
    assert "BAD_ARGUMENTS" in json.dumps(endpoint.requests[1])
    assert "BAD_ARGUMENTS" in json.dumps(endpoint.requests[2])
    assert len(endpoint.requests) == 4


def test_halves_of_characters_are_joined() -> None:
    assert whole("a\ud83d\ude00") == "a\U0001f600"
    assert whole("\ud83d alone") == "\ufffd alone"


def test_half_a_character_is_no_end(client: Client, vendor: str) -> None:
    result, _ = played(client, vendor, "steps", BYE[0], Says("Bye \ud83d"))
    assert (result.status, result.errors) == (RunStatus.COMPLETED, ())
    assert result.output[0].text == "Bye \ufffd"


def test_names_without_bounds(client: Client, vendor: str) -> None:
    script = Says("", [("a" * 1000, {})]), *BYE
    result, endpoint = played(client, vendor, "steps", *script)
    assert (result.status, result.errors) == (RunStatus.COMPLETED, ())
    assert "NO_SUCH_TOOL" in json.dumps(endpoint.requests[1])


def test_more_calls_than_an_answer_may_have(client: Client) -> None:
    result, endpoint = played(client, "chat", "steps", Says("", adds(*range(300))), *BYE)
    assert (result.status, result.errors) == (RunStatus.COMPLETED, ())
    assert faults(client, result.run.run_id) == ["ANSWER_INVALID"]
    assert len(endpoint.requests) == 3


class Endless(Scripted):
    """An endpoint whose first answer never ends: it sends text, or only comments of the
    stream."""

    def __init__(self, *script: Says, words: bool) -> None:
        super().__init__(*script)
        self.words, self.over = words, threading.Event()

    def serve(self, request: BaseHTTPRequestHandler, data: bytes | Says) -> None:
        if len(self.requests) > 1:
            super().serve(request, data)
            return
        assert isinstance(data, bytes)
        request.send_response(200)
        request.send_header("Content-Type", "text/event-stream")
        request.end_headers()
        piece = data.split(b"\n\n")[0] + b"\n\n" if self.words else b": here\n\n"
        try:
            while not self.over.wait(0 if self.words else 0.05):
                request.wfile.write(piece)
                request.wfile.flush()
        except OSError:
            request.close_connection = True  # The caller has closed the connection.

    def __exit__(self, *how: Any) -> None:
        self.over.set()
        super().__exit__(*how)


def test_an_answer_without_end_is_not_read_to_its_end(client: Client) -> None:
    pack = registered(client, "short-answers")
    with Endless(Says("x" * 60_000), words=True) as endpoint:
        result = client.run(pack, blocking("chat", endpoint.url), variables={"n": 1})
    assert result.status is RunStatus.FAILED
    assert [getattr(e, "reason", "") for e in result.errors] == ["ANSWER_TOO_LARGE"]
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("way", ["blocking", "awaiting"])
async def test_an_endpoint_that_never_ends(sidecar: Sidecar, client: Client, way: str) -> None:
    pack = registered(client, f"short-calls-{way}", bounds={"model_calls": {"timeout_sec": 2}})
    with Endless(Says("x"), *BYE, words=False) as endpoint:
        handler = (blocking if way == "blocking" else awaiting)("chat", endpoint.url)
        worker = Worker(address=sidecar.address, packs=[pack])
        worker.prompt("calc")(handler)
        async with serving(worker):
            run = client.start(pack, variables={"n": 1})
            assert await ended(run) is RunStatus.COMPLETED
        codes = faults(client, run.id)
    assert codes == ["MODEL_TIMEOUT"]
    assert len(endpoint.requests) == 3


def test_what_the_provider_wants_back_stays_in_its_place(client: Client) -> None:
    script = Says("First.", adds(1), thought="hm", late=True), *BYE
    _, endpoint = played(client, "messages", "steps", *script, tools={"add": add})
    said = endpoint.requests[1]["messages"][1]["content"]
    assert [block["type"] for block in said] == ["text", "thinking", "tool_use"]
    result, endpoint = played(client, "responses", "steps", *script, tools={"add": add})
    said = endpoint.requests[1]["input"][1:4]
    assert [item.get("type", item.get("role")) for item in said] == [
        "message",
        "reasoning",
        "function_call",
    ]
    answer = next(
        body.answer
        for body in (record.body for record in records(client, result.run.run_id))
        if isinstance(body, StepResolved) and body.answer
    )
    assert isinstance(answer, ModelAnswer)
    assert answer.provider["library"] == "pydantic-ai"
    kinds = [part["part_kind"] for part in answer.provider["message"]["parts"]]
    assert kinds == ["text", "thinking", "tool-call"]
    assert answer.provider_name == "openai"


def test_another_app_asks_in_its_own_words(client: Client) -> None:
    """Its request after a recorded answer is recorded as it was sent."""
    cut = Says("Half", end="cut")
    pack = registered(client, "two-apps", {"model_overrides": {"scripted": {}}})
    with Scripted(Says("", adds(1)), cut, cut, cut, *BYE) as endpoint:
        users = [{"openai_user": name} for name in ("one", "two")]
        apps = [blocking("chat", endpoint.url, extra=user) for user in users]

        def handler(turn: Turn) -> Any:
            return apps[turn.attempt - 1](turn)

        result = client.run(pack, handler, tools={"add": add}, variables={"n": 1}, input="Go.")
    assert result.status is RunStatus.COMPLETED
    assert [request["user"] for request in endpoint.requests[:5]] == ["one"] * 4 + ["two"]
    steps = [
        body.step
        for body in (record.body for record in records(client, result.run.run_id))
        if isinstance(body, StepResolved) and body.answer
    ]
    run = client.attach(result.run.run_id)
    assert run.model_step(steps[0]).parameters == {"openai_user": "one"}
    assert run.model_step(steps[1]).parameters == {"openai_user": "two"}


class Watched(Scripted):
    """An endpoint that continues once a reader has received the part of a broken answer."""

    def __init__(self, *script: Says) -> None:
        super().__init__(*script)
        self.read = threading.Event()

    def serve(self, request: BaseHTTPRequestHandler, data: bytes | Says) -> None:
        if len(self.requests) == 3:
            assert self.read.wait(WAIT)
        super().serve(request, data)


async def test_what_broke_off_is_taken_back(sidecar: Sidecar, client: Client) -> None:
    """A reader drops the half answer, and keeps what was said before."""
    half = Says("Half \u00e9", end="cut")
    with Watched(Says("First. ", adds(1)), half, Says("Whole.", [LEAVE]), BYE[1]) as endpoint:
        worker = Worker(address=sidecar.address, packs=["steps"])
        worker.prompt("calc")(awaiting("chat", endpoint.url))
        worker.tool("add")(add)
        run = client.start("steps", variables={"n": 1}, input="Go.")
        shown: dict[int, str] = {}
        resets = 0

        def watch() -> None:
            nonlocal resets
            for event in run.events():
                if event.kind == "reset":
                    resets += 1
                    shown[event.turn_seq] = ""
                elif event.kind == "text":
                    shown[event.turn_seq] = shown.get(event.turn_seq, "") + event.text
                    if "Half" in shown[event.turn_seq]:
                        endpoint.read.set()

        watcher = asyncio.create_task(asyncio.to_thread(watch))
        async with serving(worker):
            assert await ended(run) is RunStatus.COMPLETED
        await asyncio.wait_for(watcher, WAIT)
    assert resets == 1
    assert shown[1] == "First. Whole."


class Restarting(Scripted):
    """An endpoint that restarts the sidecar while it makes the first answer."""

    def __init__(self, sidecar: Sidecar, *script: Says) -> None:
        super().__init__(*script)
        self._sidecar = sidecar

    def serve(self, request: BaseHTTPRequestHandler, data: bytes | Says) -> None:
        if len(self.requests) == 1:
            self._sidecar.restart()
        super().serve(request, data)


@pytest.mark.parametrize("driven", [True, False])
async def test_a_sidecar_that_was_away_gets_the_answer(driven: bool) -> None:
    """The answer is recorded after the restart, and is not requested a second time."""
    steps = Path(__file__).parent / "steps.pack.json"
    script = Says("", adds(1)), *BYE
    flags = ["--restart-grace=30s"]
    with (
        Sidecar(packs=[steps], allow_tools=["add"], flags=flags) as own,
        Restarting(own, *script) as endpoint,
        own.client(retry_for=60, timeout=60) as client,
    ):
        if driven:
            handler = blocking("chat", endpoint.url)
            how: Any = {"variables": {"n": 1}, "input": "Go.", "tools": {"add": add}}
            result = await asyncio.to_thread(client.run, "steps", handler, **how)
            status = result.status
        else:
            worker = Worker(address=own.address, packs=["steps"])
            worker.prompt("calc")(awaiting("chat", endpoint.url))
            worker.tool("add")(add)
            async with serving(worker):
                run = client.start("steps", variables={"n": 1}, input="Go.")
                status = await ended(run)
    assert status is RunStatus.COMPLETED
    assert [len(request["messages"]) for request in endpoint.requests] == [2, 4, 2]


def test_a_budget_holds_before_it_is_spent(client: Client, vendor: str) -> None:
    """Also if the pack does not say how long an answer may be."""
    pack = registered(client, f"poor-{vendor}", bounds={"max_tokens": 4000})
    result, endpoint = played(client, vendor, pack, *BYE)
    assert (result.status, result.reason) == (RunStatus.BUDGET_EXHAUSTED, "max_tokens")
    assert endpoint.requests == []


def test_what_is_read_counts_before_it_is_spent(client: Client) -> None:
    pack = registered(
        client, "long-input", {"parameters": {"max_tokens": 100}}, {"max_tokens": 1000}
    )
    result, endpoint = played(client, "chat", pack, *BYE, input="word " * 1000)
    assert (result.status, result.reason) == (RunStatus.BUDGET_EXHAUSTED, "max_tokens")
    assert endpoint.requests == []
    result, endpoint = played(client, "chat", pack, *BYE, input="word " * 100)
    assert result.status is RunStatus.COMPLETED


SUM = {
    "type": "object",
    "properties": {"sum": {"type": "integer"}},
    "required": ["sum"],
    "additionalProperties": False,
}


def test_what_goes_into_the_body_goes_together(client: Client) -> None:
    """The request body has the parameters of the pack, the form and the caller's own
    parameters."""
    pack = registered(client, "body", {"parameters": {"temperature": 0.5}})
    extra = {"extra_body": {"service_tier": "auto"}}
    leave = ("leave_state", {"event": "Done", "output": {"sum": 2}})
    script = Says("", [leave]), Says('{"sum": 3}')
    settings = {"extra": extra, "output": SUM}
    result, endpoint = played(client, "messages", pack, *script, settings=settings)
    assert result.status is RunStatus.COMPLETED
    sent = [(r["temperature"], r["service_tier"], "output_config" in r) for r in endpoint.requests]
    assert sent == [(0.5, "auto", False), (0.5, "auto", True)]


def form_in(vendor: str, request: dict[str, Any]) -> Any:
    """The schema for text that a request sends to the endpoint."""
    if vendor == "chat":
        return (request.get("response_format") or {}).get("json_schema", {}).get("schema")
    name = {"responses": "text", "messages": "output_config"}[vendor]
    return (request.get(name) or {}).get("format", {}).get("schema")


def test_answers_in_a_form(client: Client, vendor: str) -> None:
    leave = ("leave_state", {"event": "Done", "output": {"sum": 2}})
    wrong = ("leave_state", {"event": "Done", "output": {"sum": "2"}})
    script = BYE[0], Says("", [wrong]), Says("", [leave])
    texts = Says("It is 3."), Says('{"sum": "3"}'), Says('{"sum": 3}')
    settings = {"output": {"calc": SUM}}
    result, endpoint = played(client, vendor, "steps", *script, *texts, settings=settings)
    assert (result.status, result.errors) == (RunStatus.COMPLETED, ())
    assert [part.json for part in result.output] == [JsonValue({"sum": 3})]
    # In a state that can be left, the form is in the function that leaves the state.
    forms = [form_in(vendor, request) for request in endpoint.requests]
    assert forms[:3] == [None] * 3
    assert [form["properties"] for form in forms[3:]] == [SUM["properties"]] * 3
    told = [json.dumps(request) for request in endpoint.requests]
    assert "output: it is missing" in told[1]
    assert "at $.sum" in told[2]
    assert "The answer does not fit the schema: it is no JSON" in told[4]
    assert "at $.sum" in told[5]
    run = client.attach(result.run.run_id)
    left = next(run.records(kinds=["TURN_COMPLETED"])).body
    assert isinstance(left, TurnCompleted)
    assert [part.json for part in left.output] == [JsonValue({"sum": 2})]
    assert run.model_step(4).parameters == {"response_schema": SUM}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"output": {"type": "sum"}}, "output: .*'sum' is not valid"),
        ({"output": {"calc": {"type": "sum"}}}, r"output\['calc'\]: .*'sum' is not valid"),
        ({"output": object()}, "output: <object.* has no schema"),
        ({"extra": {"tool_choice": "none"}}, "extra.tool_choice: the handler sets it itself"),
        ({"extra": {"user": {1, 2}}}, r"extra\.user: an instance of set is no JSON"),
        ({"extra": {"user": float("nan")}}, r"extra\.user: nan is no JSON"),
    ],
)
def test_settings_that_are_refused(settings: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        blocking("chat", "http://127.0.0.1:1", **settings)


def test_blobs_are_refused_by_name(client: Client, vendor: str) -> None:
    head = client.put_blob(b"\x89PNG", media_type="image/png")
    image = Part(uri=head.ref, media_type="image/png")
    result, endpoint = played(client, vendor, "steps", *BYE, input=["See.", image])
    assert result.status is RunStatus.FAILED
    assert f"a part of image/png as the address {head.ref}" in str(result.errors[0])
    assert endpoint.requests == []

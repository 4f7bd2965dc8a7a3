"""A call of a model sends the bound that it reserves to the provider. Usage that the provider
does not report counts as the bound. The tests use a real sidecar and each form of an endpoint."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.providers.litellm import LiteLLMProvider
from pydantic_ai.providers.ollama import OllamaProvider
from pydantic_ai.providers.openai import OpenAIProvider

from pawl_client import Client, FailTurnError, ModelFailure, RunStatus, _async_io
from pawl_client import _pydantic_ai as library
from pawl_client._output_schema import OutputSchema
from pawl_client._provider_request import ProviderRequest
from pawl_client.testing import Sidecar
from scripted import Says, Scripted
from vendors import KEY, VENDORS, awaiting, blocking, model, registered
from workers import WAIT

OWN = {"chat": "max_tokens", "responses": "max_output_tokens", "messages": "max_tokens"}
NAMES = {"max_tokens", "max_completion_tokens", "max_output_tokens"}
READ, BOUND = 30, 4096


class Counts(Scripted):
    """An endpoint that always gives the same answer and reports this usage. None: it reports
    none."""

    def __init__(self, read: int | None, said: int | None) -> None:
        super().__init__(Says("Again."))
        self._read, self._said = read, said

    def answer(self, path: str, body: dict[str, Any]) -> bytes | Says:
        data = super().answer(path, body)
        assert isinstance(data, bytes)
        lines = data.decode().split("\n")
        return "\n".join(self._line(line, path.endswith("/completions")) for line in lines).encode()

    def _line(self, line: str, chat: bool) -> str:
        if not line.startswith("data: {"):
            return line
        event = json.loads(line[6:])
        for holder in (event, event.get("message") or {}, event.get("response") or {}):
            if "usage" in holder or holder is event.get("message"):
                holder["usage"] = self._usage(chat)
        return f"data: {json.dumps(event)}"

    def _usage(self, chat: bool) -> dict[str, int]:
        names = (
            ("prompt_tokens", "completion_tokens") if chat else ("input_tokens", "output_tokens")
        )
        told = zip(names, (self._read, self._said), strict=True)
        return {name: count for name, count in told if count is not None}


def sent(body: dict[str, Any]) -> dict[str, int]:
    return {name: body[name] for name in NAMES if name in body}


CASES: dict[str, Any] = {
    # bounds of the pack, parameters, extra, (read, said), what is sent, requests, tokens, estimated
    "no parameter": ({"max_tokens": 9000}, {}, {}, (READ, 5000), BOUND, 1, 5030, 0),
    "a parameter": ({"max_tokens": 1600}, {"max_tokens": 100}, {}, (800, 100), 100, 1, 900, 0),
    "extra": ({"max_tokens": 1600}, {"max_tokens": 7}, {"own": 100}, (800, 100), 100, 1, 900, 0),
    "more than the bound": ({"max_tokens": 9000}, {}, {}, (READ, 60000), BOUND, 1, 60030, 0),
    "no usage": ({"max_tokens": 9000}, {}, {}, (None, None), BOUND, 2, None, None),
    "what was written is not told": (
        {"max_tokens": 5000},
        {},
        {},
        (50, None),
        BOUND,
        1,
        4146,
        4146,
    ),
    "what was read is not told": ({"max_tokens": 9000}, {}, {}, (None, 5000), BOUND, 1, None, None),
    "it is nearly used up": ({"max_tokens": 4000}, {}, {}, (READ, 5), None, 0, 0, 0),
    "no budget": ({}, {}, {}, (READ, 5), None, 3, 105, 0),
    "no budget, a parameter": ({}, {"max_tokens": 100}, {}, (READ, 5), 100, 3, 105, 0),
}


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("case", CASES)
def test_what_is_reserved_is_sent(client: Client, vendor: str, case: str) -> None:
    bounds, parameters, extra, told, max_output_tokens, asked, tokens, estimated = CASES[case]
    pack = registered(
        client,
        f"bound-{vendor}-{list(CASES).index(case)}",
        prompt={"parameters": parameters},
        bounds={"retry": 1, **bounds},
    )
    if max_output_tokens is None and vendor == "messages":
        max_output_tokens = 16384  # It requires a number: the default of the library.
    with Counts(*told) as endpoint:
        given = {"max_tokens": extra["own"]} if extra else {}
        handler = blocking(vendor, endpoint.url, max_rounds=2, extra=given)
        result = client.run(pack, handler, tools={"add": print}, variables={"n": 1}, input="Add.")
        run = result.run
    assert len(endpoint.requests) == asked, run
    if bounds:
        assert (run.status, run.reason) == (RunStatus.BUDGET_EXHAUSTED, "max_tokens")
    else:
        assert run.reason == "turn_failed"
    for body in endpoint.requests:
        assert sent(body) == ({OWN[vendor]: max_output_tokens} if max_output_tokens else {})
    if tokens is not None:
        assert (run.tokens, run.estimated_tokens) == (tokens, estimated)
    else:
        assert run.tokens == run.estimated_tokens >= asked * BOUND


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_handler_that_awaits_is_no_other(sidecar: Sidecar, vendor: str) -> None:
    async def play() -> None:
        async with sidecar.async_client() as client:
            with sidecar.client() as blocked:
                pack = registered(blocked, f"bound-async-{vendor}", bounds={"max_tokens": 9000})
            with Counts(None, None) as endpoint:
                handler = awaiting(vendor, endpoint.url)
                how: dict[str, Any] = {
                    "tools": {"add": print},
                    "variables": {"n": 1},
                    "input": "Add.",
                }
                result = await client.run(pack, handler, **how)
            assert [sent(body) for body in endpoint.requests] == [{OWN[vendor]: BOUND}] * 2
            assert result.status is RunStatus.BUDGET_EXHAUSTED
            assert result.run.tokens == result.run.estimated_tokens > 2 * BOUND

    asyncio.run(play())


class Newer(Scripted):
    """An endpoint that refuses the older name of the bound of an answer."""

    def answer(self, path: str, body: dict[str, Any]) -> bytes | Says:
        if "max_tokens" in body:
            self.requests.append(body)
            return Says(status=400)
        return super().answer(path, body)

    def serve(self, request: Any, data: bytes | Says) -> None:
        if isinstance(data, bytes):
            super().serve(request, data)
            return
        words = (
            "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        )
        body = json.dumps({"error": {"message": words, "param": "max_tokens"}}).encode()
        request.send_response(400)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)


def test_an_endpoint_that_asks_for_the_newer_name_gets_it(client: Client) -> None:
    pack = registered(client, "bound-newer", bounds={"max_tokens": 9000})
    says = Says("", [("leave_state", {"event": "Done"})]), Says("Bye.")
    with Newer(*says) as endpoint:
        result = client.run(
            pack,
            blocking("chat", endpoint.url),
            tools={"add": print},
            variables={"n": 1},
            input="x",
        )
    assert result.status is RunStatus.COMPLETED
    names = [next(iter(sent(body))) for body in endpoint.requests]
    assert names == ["max_tokens", "max_completion_tokens", "max_completion_tokens"]
    assert result.run.estimated_tokens == 0


def ask_of(**given: Any) -> ProviderRequest:
    plain: dict[str, Any] = {
        "system": "",
        "tools": (),
        "parameters": {},
        "choice": "auto",
        "messages": (),
        "schema": None,
        "extra": {},
        "max_output_tokens": BOUND,
    }
    return ProviderRequest(**(plain | given))


def test_openai_itself_is_told_by_the_newer_name() -> None:
    own = OpenAIChatModel("m", provider=OpenAIProvider(api_key=KEY))
    for one in (own, WrapperModel(own)):
        assert library.Request.of(one, ask_of(), None).settings["max_tokens"] == BOUND


@pytest.mark.parametrize("kind", ["openai", "ollama", "litellm", "wrapped"])
def test_another_endpoint_is_told_by_the_older_name(kind: str) -> None:
    url = "http://127.0.0.1:1/v1"
    other: Any = model("chat", "http://127.0.0.1:1")
    if kind == "ollama":
        other = OpenAIChatModel("m", provider=OllamaProvider(base_url=url))
    elif kind == "litellm":
        other = OpenAIChatModel("m", provider=LiteLLMProvider(api_base=url, api_key=KEY))
    elif kind == "wrapped":
        other = WrapperModel(other)
    settings = library.Request.of(other, ask_of(), None).settings
    assert settings["extra_body"] == {"max_tokens": BOUND}
    assert "max_tokens" not in settings


@pytest.mark.parametrize("stop", ["END", ["END", "FIN"]], ids=["text", "list"])
def test_where_a_model_stops(stop: Any) -> None:
    asked = ask_of(parameters={"stop": stop})
    settings = library.Request.of(model("messages", "http://127.0.0.1:1"), asked, None).settings
    assert settings["stop_sequences"] == ([stop] if isinstance(stop, str) else stop)
    assert "stop" not in settings


@pytest.mark.parametrize(("vendor", "name"), [("responses", "stop"), ("chat", "stop_sequences")])
def test_parameters_that_there_are_not(vendor: str, name: str) -> None:
    asked = ask_of(parameters={name: ["END"]})
    with pytest.raises(FailTurnError, match=f"parameters.{name}"):
        library.Request.of(model(vendor, "http://127.0.0.1:1"), asked, None)


def test_a_timeout_without_a_word_is_estimated() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        call = library.call(model("chat", url), ask_of(), 0, 0.05)

        async def play() -> None:
            async for _ in call.pieces():
                pass

        asyncio.run(play())
    assert isinstance(call.outcome, ModelFailure)
    assert call.outcome.error.code == "MODEL_TIMEOUT"
    assert call.usage.estimated


def test_what_has_come_is_taken_when_the_time_is_over() -> None:
    async def said() -> AsyncGenerator[int, None]:
        yield 1
        yield 2

    async def play() -> list[int]:
        took, clock = [], asyncio.get_running_loop().time
        over = clock() + 0.1
        async for piece in _async_io.with_timeout(said(), 0.05):
            took.append(piece)
            while clock() <= over:  # noqa: ASYNC110 - the program shows it slowly
                await asyncio.sleep(0)
        return took

    assert asyncio.run(play()) == [1, 2]


@pytest.mark.parametrize("text", ['{"a": 1}', '```json\n{"a": 1}\n```', ' ```\n{"a": 1}```\n'])
def test_a_value_in_a_fence_is_a_value(text: str) -> None:
    form = OutputSchema.of({"type": "object", "required": ["a"]})
    assert form.read(text) == ({"a": 1}, "")
    assert form.read(f"Here: {text}")[1].startswith("it is no JSON")


PROGRAM = """
import asyncio, sys
from pawl_client import AsyncClient, Client
from vendors import awaiting, blocking

mode, vendor, address, url, pack = sys.argv[1:]
how = {"tools": {"add": print}, "variables": {"n": 1}, "input": "Add.", "request_id": "once"}


async def main() -> str:
    async with AsyncClient(address=address, retry_for=60, timeout=60) as client:
        return (await client.run(pack, awaiting(vendor, url), **how)).status


if mode == "asyncio":
    print(asyncio.run(main()))
else:
    with Client(address=address, retry_for=60, timeout=60) as client:
        print(client.run(pack, blocking(vendor, url), **how).status)
"""


class Deadly(Counts):
    """An endpoint that kills the calling program and the sidecar before it answers."""

    process: subprocess.Popen[str]

    def __init__(self, sidecar: Sidecar) -> None:
        super().__init__(READ, BOUND)
        self._sidecar = sidecar

    def answer(self, path: str, body: dict[str, Any]) -> bytes | Says:
        self.requests.append(body)
        self.process.kill()
        self._sidecar.restart()
        return b""


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("mode", "vendor"), [("blocking", "chat"), ("asyncio", "messages")])
def test_no_kill_lets_more_be_asked_for_than_the_budget_holds(mode: str, vendor: str) -> None:
    """A request of a killed program may have been answered, so its bound stays reserved."""
    max_output_tokens = 9000
    flags = ["--step-grace=1s", "--restart-grace=1s"]
    with (
        Sidecar(allow_tools=["add"], flags=flags) as own,
        Deadly(own) as endpoint,
        own.client(retry_for=60, timeout=60) as client,
    ):
        pack = registered(client, "killed", bounds={"max_tokens": max_output_tokens})
        command = [sys.executable, "-c", PROGRAM, mode, vendor, own.address, endpoint.url, pack]
        codes: list[int] = []
        while 0 not in codes and len(codes) < 9:
            endpoint.process = subprocess.Popen(
                command, cwd=Path(__file__).parent, stdout=subprocess.PIPE, text=True
            )
            said = endpoint.process.communicate(timeout=WAIT)[0]
            codes.append(endpoint.process.returncode)
        run = client.open(pack, request_id="once", variables={"n": 1}, input="Add.").info()
    assert codes == [-9] * (max_output_tokens // BOUND) + [0]
    assert said == "BUDGET_EXHAUSTED\n"
    assert [sent(body) for body in endpoint.requests] == [{OWN[vendor]: BOUND}] * (
        max_output_tokens // BOUND
    )
    assert (run.reason, run.tokens <= max_output_tokens) == ("max_tokens", True)

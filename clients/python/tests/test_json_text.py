"""What a program gives becomes JSON as it is, or is refused with its place."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pawl_client
from conftest import STEPS
from pawl_client import (
    Client,
    InvalidJsonError,
    Reply,
    RequestError,
    RunStatus,
    StepFailedError,
    Turn,
    Worker,
)
from pawl_client import _requests as wire
from pawl_client._convert import parse_json
from pawl_client._json_text import dump_json
from pawl_client.testing import Sidecar
from workers import ended, serving, variant

LOOP: list[Any] = []
LOOP.append(LOOP)


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


REFUSED: dict[str, tuple[Any, str]] = {
    "not a number": (float("nan"), "nan"),
    "an infinity": (float("-inf"), "-inf"),
    "a set": ({1}, "an instance of set"),
    "an error": (ValueError("no"), "an instance of ValueError"),
    "an object": (object(), "an instance of object"),
    "a function": (print, "an instance of builtin_function_or_method"),
    "bytes": (b"x", "an instance of bytes"),
    "a decimal": (decimal.Decimal(1), "an instance of Decimal"),
    "a time": (datetime.datetime(2026, 1, 1), "an instance of datetime"),
    "half a character": ("a\ud800", "half a character"),
    "its other half": ("\udc00a", "half a character"),
    "a pair that is two": ("\ud83d\ude00", "half a character"),
    "a name that is half": ({"\ud800": 1}, "half a character"),
    "a name that is none": ({(1, 2): 1}, "a name that is an instance of tuple"),
    "itself": (LOOP, "nests more than 128 deep"),
    "very much": (deep(100_000), "nests more than 128 deep"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_value_is_refused_with_its_place(name: str) -> None:
    value, word = REFUSED[name]
    with pytest.raises(InvalidJsonError) as caught:
        dump_json({"at": [0, value]}, "result")
    assert caught.value.reason == "INVALID_JSON"
    assert caught.value.field.startswith("result.at[1]")
    assert caught.value.message.startswith(f"{caught.value.field}: ")
    assert word in caught.value.message
    assert len(caught.value.message.encode()) < 1000


def test_what_json_has_is_taken() -> None:
    value = {"a": [1, 2**70, 1.5, "\u2028\x00\U0001f600", True, None, {}, ()], "b": []}
    assert parse_json(dump_json(value, "v")) == {**value, "a": [*value["a"][:-1], []]}


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: wire.parts(["a", "\ud800"]), "parts[1]"),
        (lambda: wire.artifacts({"log": "\ud800"}), "artifacts.log"),
    ],
)
def test_a_text_is_whole_as_well(make: Callable[[], object], field: str) -> None:
    with pytest.raises(RequestError) as caught:
        make()
    assert (caught.value.reason, caught.value.field) == ("INVALID_TEXT", field)


def test_halves_that_earlier_programs_recorded_are_replaced() -> None:
    read = parse_json(r'{"a\udc00":["\uD800","\ud83d\ude00",1]}')
    assert read == {"a\ufffd": ["\ufffd", "\U0001f600", 1]}


def test_nothing_else_makes_json_of_a_programs_values() -> None:
    # In _tool_check words of a schema in a sentence, in _typed_form a payload that came as JSON;
    # in _provider_errors, _normalize and _response_repair what an endpoint said.
    known = {"_json_text.py", "_tool_check.py", "_typed_pydantic.py"}
    known |= {"_provider_errors.py", "_normalize.py", "_response_repair.py"}
    sources = Path(pawl_client.__file__).parent.glob("*.py")
    assert {path.name for path in sources if "json.dumps" in path.read_text()} == known


@pytest.mark.parametrize("mode", ["driven", "worked"])
async def test_a_result_is_refused_with_its_place(
    sidecar: Sidecar, client: Client, mode: str
) -> None:
    client.register_pack(
        variant(STEPS, "no-json", {"tools": {"add": {"on_unknown": "return"}}}), filename="x.json"
    )
    told: list[str] = []
    left = [value for value, _ in REFUSED.values()]

    def add(payload: Any) -> Any:
        return {"at": [0, left.pop(0)]}

    def calc(turn: Turn) -> Reply:
        for number in range(0 if turn.terminal else len(REFUSED)):
            with pytest.raises(StepFailedError) as caught:
                turn.step("add", {"a": 1, "b": 2}, key=str(number))
            told.append(f"{caught.value.reason}: {caught.value.message}")
        return Reply(event="" if turn.terminal else "Done")

    if mode == "driven":
        result = client.run("no-json", calc, variables={"n": 1}, tools={"add": add})
        assert result.status is RunStatus.COMPLETED
    else:
        worker = Worker(address=sidecar.address, packs=["no-json"])
        worker.prompt("calc")(calc)
        worker.tool("add")(add)
        async with serving(worker):
            run = client.start("no-json", variables={"n": 1})
            assert await ended(run) is RunStatus.COMPLETED
    assert len(told) == len(REFUSED)
    for text in told:
        assert text.startswith("RESULT_INVALID: ")
        assert "the result was refused: result.at[1]" in text

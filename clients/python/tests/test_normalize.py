"""What an answer is before it is recorded, by the table that all languages read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart

from conftest import ROOT
from pawl_client._normalize import normalize
from pawl_client._pydantic_ai import answer_of

TABLE = json.loads((ROOT / "testdata" / "model" / "normal.json").read_text())


def response(given: dict[str, Any]) -> ModelResponse:
    calls = [
        ToolCallPart(call["name"], call.get("arguments"), tool_call_id=call.get("id", ""))
        for call in given["calls"]
    ]
    details = {"refusal": given["refusal"]} if given["refusal"] else None
    texts = [TextPart(text) for text in given["texts"]]
    return ModelResponse(parts=[*texts, *calls], provider_details=details)


@pytest.mark.parametrize("case", TABLE, ids=lambda case: str(case["name"]))
def test_the_table(case: dict[str, Any]) -> None:
    given, want = case["given"], case["want"]
    told = normalize(response(given), given["round"], given["known_ids"])
    if want is None:
        assert told is None
        return
    assert told is not None
    answer = answer_of(told, {})
    assert [part.text for part in answer.parts] == want["texts"]
    calls = [
        {"id": c.id, "name": c.name, "arguments": c.arguments}
        | ({"broken_arguments": c.broken_arguments} if c.broken_arguments else {})
        for c in answer.calls
    ]
    assert calls == want["calls"]
    # Later requests repeat the library's own message, which is normal as well.
    again = normalize(told.message, given["round"], given["known_ids"])
    assert again is not None
    assert again.message == told.message


def test_halves_are_joined_everywhere() -> None:
    thought = ThinkingPart("\ud83d\ude00", signature="s\ud83d", provider_name="p")
    told = normalize(ModelResponse(parts=[thought, TextPart("a\ud83d")]), 1, [])
    assert told is not None
    assert told.message.parts == [
        ThinkingPart("\U0001f600", signature="s\ufffd", provider_name="p"),
        TextPart("a\ufffd"),
    ]
    assert normalize(ModelResponse(parts=[thought]), 1, []) is None

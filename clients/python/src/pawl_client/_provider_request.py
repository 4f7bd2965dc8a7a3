"""One request to a model, in the terms of the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pawl_client._json_text import dump_json
from pawl_client._values import Json, Message, Part

PAUSED = "pause_turn"
"""Finish reason of an answer that the provider continues when the next request repeats it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRequest:
    """One request to a model: its settings and all its messages.

    `tools` are {"name", "description", "parameters"}. `parameters` are those of the pack, with its
    names. `choice` is auto or required. `schema` is the JSON Schema of a text answer, None: any
    text. `extra` is passed to the library unchanged. `round` counts the requests of the turn, from
    1.
    """

    system: str
    tools: Sequence[Mapping[str, Any]]
    parameters: Mapping[str, Json]
    choice: str
    messages: Sequence[Message]
    schema: Mapping[str, Json] | None
    extra: Mapping[str, Any]
    round: int = 1
    max_output_tokens: int = 0
    """Most tokens of the answer, sent with the request; 0: the provider's default."""


def calls_of(message: Message) -> list[dict[str, str]]:
    """Returns the tool calls of a message as {"id", "name", "arguments"}.

    Conversations that are older than model steps have them in the form of chat completions.
    """
    calls = []
    for call in message.tool_calls or ():
        function = call.get("function", call)
        arguments = function.get("arguments") or "{}"
        calls.append({"id": call.get("id", ""), "name": function["name"], "arguments": arguments})
    return calls


def text_of(part: Part) -> str | None:
    """Returns a part as text. None means that it has no text form."""
    if part.text is not None:
        return part.text
    if part.json is not None:
        return dump_json(part.json.value, "part")
    return None


def media_of(part: Part) -> str:
    """The media type of a part, without its parameters."""
    return part.media_type.partition(";")[0].strip().lower()

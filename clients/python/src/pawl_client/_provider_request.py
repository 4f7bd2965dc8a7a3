"""One request to a model, in the words of the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pawl_client._json_text import dump_json
from pawl_client._values import Json, Message, Part

PAUSED = "pause_turn"
"""The finish of an answer that its provider goes on with, when the next request repeats it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRequest:
    """One request to a model: settings, and every message that it is shown.

    `tools` are {"name", "description", "parameters"}; `parameters` those of the pack, by its
    names; `choice` is auto or required; `schema` is that of a text, None: it has none; `extra`
    goes to the library as it is. `round` counts the requests of the turn, from 1.
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
    """The most tokens of the answer, as the request says it; 0: the provider's own default."""


def calls_of(message: Message) -> list[dict[str, str]]:
    """The tool calls of a message as {"id", "name", "arguments"}; conversations of before
    there were model steps have them in the words of chat completions."""
    calls = []
    for call in message.tool_calls or ():
        function = call.get("function", call)
        arguments = function.get("arguments") or "{}"
        calls.append({"id": call.get("id", ""), "name": function["name"], "arguments": arguments})
    return calls


def text_of(part: Part) -> str | None:
    """A part as text; None: it is none."""
    if part.text is not None:
        return part.text
    if part.json is not None:
        return dump_json(part.json.value, "part")
    return None


def media_of(part: Part) -> str:
    """The media type of a part, without its parameters."""
    return part.media_type.partition(";")[0].strip().lower()

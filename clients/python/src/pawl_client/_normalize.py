"""Normalises a model's answer before it is recorded, so that every endpoint accepts it again.

One pure function with the same rules in every language: testdata/model/normal.json is their table.
An answer is normalised once, recorded, and repeated in later requests as recorded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from pydantic_ai.messages import (
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)

from pawl_client._json_text import dump_json, whole, whole_in

_MAX_ID = 4096
"""Most bytes of a call's id in a record."""
_MADE = "pyd_ai_"
"""Prefix of the ids that the library makes where the endpoint gave none."""


@dataclass(frozen=True, slots=True)
class NormalizedAnswer:
    """An answer that can be recorded. `broken` holds the model's text for arguments that are no
    object, by the index of the call.
    """

    message: ModelResponse
    broken: dict[int, str]


def normalize(message: ModelResponse, round: int, known: Iterable[str]) -> NormalizedAnswer | None:
    """Returns the message in a form that every endpoint accepts; None if it has no content.

    `known` are the ids of calls of earlier answers.
    """
    parts = [_whole(part) for part in message.parts]
    calls = [part for part in parts if isinstance(part, ToolCallPart)]
    ids = _ids([part.tool_call_id for part in calls], round, set(known))
    broken: dict[int, str] = {}
    named: list[ModelResponsePart] = []
    for index, part in enumerate(calls):
        arguments, fault = arguments_of(part.args)
        if fault is not None:
            broken[index] = fault
        named.append(replace(part, args=arguments, tool_call_id=ids[index]))
    texts = [part.content for part in parts if isinstance(part, TextPart)]
    has_text = not calls and any(text.strip() for text in texts)
    rest = iter(named)
    kept = [
        next(rest) if isinstance(part, ToolCallPart) else part
        for part in parts
        if _has_content(part, has_text)
    ]
    refusal = (message.provider_details or {}).get("refusal")
    if not any(not isinstance(part, ThinkingPart) for part in kept) and not refusal:
        return None
    details = whole_in(message.provider_details)
    return NormalizedAnswer(replace(message, parts=kept, provider_details=details), broken)


def _has_content(part: ModelResponsePart, has_text: bool) -> bool:
    """Whether a part has content. If the answer `has_text`, blank text counts, as a separator."""
    if isinstance(part, TextPart):
        return bool(part.content) if has_text else bool(part.content.strip())
    if isinstance(part, ThinkingPart):
        return bool(part.content or part.signature)
    return True


def _whole(part: ModelResponsePart) -> ModelResponsePart:
    """Returns a part whose texts have no lone surrogates."""
    changed: dict[str, Any] = {}
    for field in fields(part):
        if field.init and isinstance(value := getattr(part, field.name), (str, dict)):
            changed[field.name] = whole_in(value)
    return replace(part, **changed)


def _ids(given: Sequence[str], round: int, known: set[str]) -> list[str]:
    """Returns a unique id for each call: the given one if a record accepts it, else a new one."""
    ids: list[str] = []
    for index, name in enumerate(given):
        if not name or name in known or name.startswith(_MADE) or len(name.encode()) > _MAX_ID:
            name = made = f"call_{round}_{index}"
            count = 1
            while name in known:
                count += 1
                name = f"{made}_{count}"
        known.add(name)
        ids.append(name)
    return ids


def arguments_of(arguments: Any) -> tuple[str, str | None]:
    """Returns the text of a JSON object, and the model's text if it is no object.

    >>> arguments_of(""), arguments_of('{"n": 1.50}'), arguments_of("[1]")
    (('{}', None), ('{"n": 1.50}', None), ('{}', '[1]'))
    """
    text = (
        json.dumps(arguments, ensure_ascii=False)
        if isinstance(arguments, dict)
        else whole(arguments or "")
    )
    if text.strip() in ("", "null"):
        return "{}", None
    text = _ESCAPE.sub(_paired, text)
    try:
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
        dump_json(value, "arguments")
    except (ValueError, RecursionError):
        return "{}", text
    return (text, None) if isinstance(value, dict) else ("{}", text)


_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\\."
)
"""Matches an escaped surrogate pair, a lone surrogate, or any other escape."""


def _paired(escape: re.Match[str]) -> str:
    """Returns the escape; that of a lone surrogate becomes U+FFFD."""
    text = escape.group()
    return "\\ufffd" if len(text) == 6 else text


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the object of these members. Raises ValueError for a name that occurs twice."""
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a name twice")
    return value


def _no_number(name: str) -> Any:
    raise ValueError(name)

"""Converts values of a program to JSON text.

A value is converted unchanged or refused with its place.
"""

from __future__ import annotations

import json
from typing import Any

from pawl_client._errors import InvalidJsonError, RequestError

_LONGEST_PLACE = 256
"""Most characters of a place that an error names."""
_DEEPEST = 128
"""Levels of nested objects and arrays that the sidecar accepts, the outermost included."""


def dump_json(value: Any, field: str, *, indent: int | None = None) -> str:
    """Returns JSON, compact unless `indent` is the number of blanks for each level.

    `field` is the name of the whole value in errors.

    Raises InvalidJsonError, which names the place of a value without a JSON form; a text with a
    lone surrogate has none.

    >>> dump_json({"a": [1, "x"]}, "payload")
    '{"a":[1,"x"]}'
    >>> dump_json({"a": [1, float("nan")]}, "payload")
    Traceback (most recent call last):
    ...
    pawl_client._errors.InvalidJsonError: payload.a[1]: nan is no JSON
    """
    try:
        separators = (",", ":" if indent is None else ": ")
        text = json.dumps(
            value, separators=separators, indent=indent, ensure_ascii=False, allow_nan=False
        )
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        place, what = _found(value, "", 1) or ("", str(error))
        raise _refusal(InvalidJsonError, "INVALID_JSON", field + place, what) from None
    return text


def whole_text(text: str, field: str) -> str:
    """Returns the same text. Raises RequestError (INVALID_TEXT) if it has a lone surrogate."""
    if _halved(text):
        raise _refusal(RequestError, "INVALID_TEXT", field, _HALF)
    return text


def whole(text: str) -> str:
    """Returns a text without lone surrogates, for text of models and of journals of earlier
    programs.

    Pairs that were separated are joined, and lone surrogates are replaced.

    >>> whole("\\ud83d\\ude00, \\ud83d")
    '😀, \ufffd'
    """
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def whole_in(value: Any) -> Any:
    """Returns a JSON value whose texts and member names have no lone surrogates."""
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, dict):
        return {whole(name): whole_in(item) for name, item in value.items()}
    return [whole_in(item) for item in value] if isinstance(value, list) else value


_HALF = "a text with half a character (a lone surrogate)"


def _halved(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)


def _refusal(cls: type[RequestError], reason: str, field: str, what: str) -> RequestError:
    shown = field if len(field) <= _LONGEST_PLACE else f"{field[:_LONGEST_PLACE]}..."
    shown = whole(shown)
    return cls(f"{shown}: {what} is no JSON", reason=reason, metadata={"field": shown})


def _found(value: Any, place: str, depth: int) -> tuple[str, str] | None:
    """Returns the first place without a JSON form, and the value found there."""
    if value is None or isinstance(value, (bool, int)):
        return None
    if isinstance(value, str):
        return (place, _HALF) if _halved(value) else None
    if isinstance(value, float):
        return None if value - value == 0 else (place, str(value))
    if not isinstance(value, (dict, list, tuple)):
        return place, f"an instance of {type(value).__name__}"
    if depth > _DEEPEST:
        return place, f"a value that nests more than {_DEEPEST} deep, or holds itself,"
    if not isinstance(value, dict):
        inner = ((f"{place}[{at}]", item) for at, item in enumerate(value))
        return next(filter(None, (_found(item, at, depth + 1) for at, item in inner)), None)
    for name, item in value.items():
        found = _name(name, place) or _found(item, f"{place}.{name}", depth + 1)
        if found:
            return found
    return None


def _name(name: Any, place: str) -> tuple[str, str] | None:
    """Returns what is wrong with the name of a member."""
    if isinstance(name, str):
        return (place, _HALF) if _halved(name) else None
    if isinstance(name, float):
        return None if name - name == 0 else (place, f"a name {name}")
    return (
        None
        if name is None or isinstance(name, (bool, int))
        else (
            place,
            f"a name that is an instance of {type(name).__name__}",
        )
    )

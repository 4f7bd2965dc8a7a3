"""The one way from a value of a program to JSON text: what is given, returned and written.

A value is taken as it is or refused with its place; nothing is replaced on the way.
"""

from __future__ import annotations

import json
from typing import Any

from pawl_client._errors import InvalidJsonError, RequestError

_LONGEST_PLACE = 256
"""The longest place that an error names, characters."""
_DEEPEST = 128
"""How deep objects and arrays nest in what the sidecar takes, the outermost counted."""


def dump_json(value: Any, field: str) -> str:
    """Compact JSON. `field` is what the value as a whole is called. Raises InvalidJsonError
    that names the place of what JSON cannot hold, half a character (a lone surrogate) among
    it.

    >>> dump_json({"a": [1, "x"]}, "payload")
    '{"a":[1,"x"]}'
    >>> dump_json({"a": [1, float("nan")]}, "payload")
    Traceback (most recent call last):
    ...
    pawl_client._errors.InvalidJsonError: payload.a[1]: nan is no JSON
    """
    try:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        place, what = _found(value, "", 1) or ("", str(error))
        raise _refusal(InvalidJsonError, "INVALID_JSON", field + place, what) from None
    return text


def whole_text(text: str, field: str) -> str:
    """The same text. Raises RequestError (INVALID_TEXT) if it has half a character."""
    if _halved(text):
        raise _refusal(RequestError, "INVALID_TEXT", field, _HALF)
    return text


def whole(text: str) -> str:
    """Text whose characters are whole: halves of them that came apart are joined, and those
    that are alone are replaced. For what models and journals of earlier programs say.

    >>> whole("\\ud83d\\ude00, \\ud83d")
    '😀, \ufffd'
    """
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def whole_in(value: Any) -> Any:
    """A JSON value whose texts, names of members too, are whole."""
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
    """The first place, and what is there, that JSON cannot hold."""
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
    """What is wrong with the name of a member."""
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

"""Repairs an endpoint's response where the library would drop or misread part of it.

It installs hooks on the HTTP client of a provider's package. They process each request and response
of a call that Pawl makes, and ignore other calls. docs/dev/adr/0089 has the table of repairs.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterator
from contextvars import ContextVar
from importlib import import_module
from typing import Any

from pawl_client._models import ModelFailure, ProviderLimits
from pawl_client._provider_errors import error_text, failure_of_error, limits_of, of_http, unusable

_SLACK = 65536
"""Bytes that one event may have in addition to those of an answer."""
_MAX_ERROR = 65536
"""Bytes of the body of an error that are read."""


class ResponseWatch:
    """Facts about the responses to one call that the library does not report."""

    def __init__(self, max_bytes: int = 0) -> None:
        self.max_bytes = max_bytes
        """Most bytes of an answer; 0: no bound."""
        self.keys: set[str] = set()
        """Secrets that were sent."""
        self.failure: ModelFailure | None = None
        """The failure that the endpoint sent in place of an answer."""
        self.limits: ProviderLimits | None = None
        self.started = False
        """The endpoint began to answer."""
        self.format_known = False
        """The response has a format whose end is known."""
        self.ended = False
        """The endpoint sent the end of the answer."""


class EndpointError(Exception):
    """The endpoint sent an error in place of an answer: `ResponseWatch.failure`."""


CURRENT_WATCH: ContextVar[ResponseWatch | None] = ContextVar("pawl_watch", default=None)


def watch_model(model: Any) -> Iterator[Any]:
    """Installs the hooks on a model's HTTP clients, and yields the clients of its provider."""
    for inner in (getattr(model, "wrapped", None), *getattr(model, "models", ())):
        if inner is not None:
            yield from watch_model(inner)
    client = getattr(model, "client", None)
    hooks = getattr(getattr(client, "_client", None), "event_hooks", None)
    if isinstance(hooks, dict):
        for name, hook in (("request", _on_request), ("response", _on_response)):
            if hook not in hooks.setdefault(name, []):
                hooks[name].append(hook)
    if client is not None:
        yield client


_SECRETS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")


async def _on_request(request: Any) -> None:
    watch = CURRENT_WATCH.get()
    if watch is None:
        return
    for name in _SECRETS:
        value = request.headers.get(name, "")
        watch.keys.update({value, value.rpartition(" ")[2]} - {""})


async def _on_response(response: Any) -> None:
    watch = CURRENT_WATCH.get()
    if watch is None:
        return
    watch.limits = limits_of(response.headers) or watch.limits
    pieces = aiter_of(response)
    if response.status_code >= 400:
        body = await _first(pieces, _MAX_ERROR)
        response.stream = _stream(response, _once(b""))
        watch.failure = of_http(response.status_code, error_text(body), response.headers)
    elif response.status_code == 200:
        watch.started, watch.failure = True, None
        events = _events(pieces, watch)
        response.stream = _stream(
            response, _repaired(events, watch, _repair_for(response.request.url))
        )
        for name in ("content-encoding", "content-length"):
            response.headers.pop(name, None)
        response.headers["content-type"] = "text/event-stream"


def aiter_of(response: Any) -> AsyncIterable[bytes]:
    """Yields the decoded body of a response piece by piece; it is closed with its stream."""
    raw = type(response)(200, headers=response.headers, stream=response.stream)
    return raw.aiter_bytes()  # type: ignore[no-any-return]


def _stream(response: Any, pieces: AsyncGenerator[bytes, None]) -> Any:
    """Returns a body in the type that the HTTP library of the response expects."""
    base = import_module(type(response).__module__.partition(".")[0]).AsyncByteStream
    old = response.stream

    class Mended(base):  # type: ignore[misc, valid-type]
        def __aiter__(self) -> Any:
            return pieces

        async def aclose(self) -> None:
            await pieces.aclose()
            await old.aclose()

    return Mended()


async def _first(pieces: AsyncIterable[bytes], max_bytes: int) -> bytes:
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) >= max_bytes:
            break
    return bytes(body[:max_bytes])


async def _once(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body


_BLANK = re.compile(rb"\r\n\r\n|\n\n|\r\r")
"""The end of an event."""
_LINE = re.compile(r"\r\n|\n|\r")
"""The end of a line. JSON may contain U+0085, U+2028 and U+2029, which end no line."""


async def _events(pieces: AsyncIterable[bytes], watch: ResponseWatch) -> AsyncGenerator[str, None]:
    """Yields the events of a stream, without their last, empty line.

    Raises EndpointError for a body that is no event stream.
    """
    max_bytes = watch.max_bytes * 2 + _SLACK if watch.max_bytes else 0
    left, first, seen = bytearray(), True, 0
    async for piece in pieces:
        left += piece
        if first and len(left) < 3:
            continue
        if first:
            left, first = left.removeprefix(b"\xef\xbb\xbf"), False
        while end := _BLANK.search(left, seen):
            yield left[: end.start()].decode(errors="replace")
            del left[: end.end()]
            seen = 0
        seen = max(0, len(left) - 3)
        if bytes(left[:8]).lstrip()[:1] in (b"{", b"[", b"<"):
            # A page or JSON instead of an event stream.
            if len(left) > _MAX_ERROR:
                break
        elif max_bytes and len(left) > max_bytes:
            watch.failure = too_large(watch.max_bytes)
            raise EndpointError
    text = left.decode(errors="replace")
    if text.lstrip()[:1] in ("{", "[", "<"):
        watch.failure = _failure_of_page(text)
        raise EndpointError
    if text.strip():
        yield text


def too_large(max_bytes: int) -> ModelFailure:
    """Returns the failure of an answer with too many bytes."""
    words = f"the answer has more than {max_bytes} bytes (max_answer_bytes)"
    failure = unusable("ANSWER_TOO_LARGE", words)
    return ModelFailure(error=failure.error, non_retryable=True)


def _failure_of_page(text: str) -> ModelFailure:
    """Returns the failure for JSON or a page in place of a stream."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return unusable("MODEL_ERROR", f"the endpoint sent no event stream: {error_text(text)}")
    error = body.get("error") if isinstance(body, dict) else None
    return failure_of_error(error if isinstance(error, dict) else body)


class _Raw(str):
    """A number with its original digits."""


def exact(value: Any) -> str:
    """Returns JSON text whose numbers keep their original digits."""
    if isinstance(value, _Raw):
        return value
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(n)}:{exact(v)}" for n, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(exact, value)) + "]"
    return json.dumps(value)


Repair = Callable[[ResponseWatch, dict[str, Any]], bool]
"""Repairs an event; returns whether it changed the event."""


async def _repaired(
    events: AsyncGenerator[str, None], watch: ResponseWatch, repair: Repair | None
) -> AsyncGenerator[bytes, None]:
    async for event in events:
        names, data = [], []
        for line in _LINE.split(event):
            field, _, value = line.partition(":")
            if field == "data":
                data.append(value.removeprefix(" "))
            elif field == "event":
                names.append(line)
        if not data:
            continue
        text = "\n".join(data)
        if text.strip() == "[DONE]":
            watch.ended = True
        else:
            text = _repaired_event(watch, text, repair)
        yield "\n".join([*names, *(f"data: {line}" for line in text.split("\n")), "", ""]).encode(
            errors="replace"
        )


def _repaired_event(watch: ResponseWatch, text: str, repair: Repair | None) -> str:
    """Returns the repaired data of an event. Raises EndpointError for an error."""
    try:
        body = json.loads(text, parse_float=_Raw, parse_constant=_Raw)
    except (ValueError, RecursionError):
        text = f"the endpoint sent an event that is not JSON: {error_text(text)}"
        watch.failure = unusable("MODEL_ERROR", text)
        raise EndpointError from None
    if not isinstance(body, dict):
        return text
    error = body.get("error")
    if body.get("type") == "response.failed":
        error = (body.get("response") or {}).get("error") or {"message": "response.failed"}
    if error or body.get("type") == "error":
        watch.failure = failure_of_error(error if isinstance(error, dict) else body)
        raise EndpointError
    return exact(body) if repair is not None and repair(watch, body) else text


def _repair_for(url: Any) -> Repair | None:
    """Returns the repair for the response format of an address. None means an unknown format."""
    path = str(url.path).rstrip("/")
    ends: dict[str, Repair] = {
        "/chat/completions": _Chat(),
        "/messages": _messages,
        "/responses": _responses,
    }
    return next((repair for end, repair in ends.items() if path.endswith(end)), None)


def _fill_counts(holder: Any, *names: str) -> bool:
    """Sets missing counts of a usage to 0, because the library would drop the whole usage.

    Returns whether it changed the usage.
    """
    usage = holder.get("usage") if isinstance(holder, dict) else None
    if not isinstance(usage, dict):
        return False
    missing = [name for name in names if type(usage.get(name)) is not int]
    usage.update(dict.fromkeys(missing, 0))
    return bool(missing)


class _Chat:
    """Repairs chat completions: several calls with the same index, and arguments that are no
    text.
    """

    def __init__(self) -> None:
        self._ids: list[str] = []
        """The ids of the calls so far, by position."""
        self._indexes: dict[Any, int] = {}
        """The position of the last call with each index."""

    def __call__(self, watch: ResponseWatch, body: dict[str, Any]) -> bool:
        watch.format_known = True
        changed = _fill_counts(body, "prompt_tokens", "completion_tokens", "total_tokens")
        choices = body.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            return changed
        if choice.get("finish_reason"):
            watch.ended = True
        calls = (choice.get("delta") or {}).get("tool_calls")
        found = [self._assign_index(call) for call in calls or () if isinstance(call, dict)]
        return changed or any(found)

    def _assign_index(self, call: dict[str, Any]) -> bool:
        """Gives a call its position. Another id is another call, even with the same index."""
        given, function = call.get("index"), call.get("function") or {}
        texts = isinstance(function.get("arguments"), (str, type(None)))
        if not texts:
            function["arguments"] = exact(function["arguments"])
        name = call.get("id") or ""
        position = self._indexes.get(given)
        fresh = bool(name or function.get("name")) if given is None else False
        if position is None or fresh or (name and self._ids[position] not in ("", name)):
            position = len(self._ids)
            self._ids.append("")
        self._indexes[given], self._ids[position] = position, name or self._ids[position]
        call["index"] = position
        return not texts or position != given


def _messages(watch: ResponseWatch, body: dict[str, Any]) -> bool:
    """Repairs Anthropic's messages."""
    watch.format_known = True
    watch.ended = watch.ended or body.get("type") == "message_stop"
    if body.get("type") == "message_start":
        return _fill_counts(body.get("message"), "input_tokens", "output_tokens")
    return body.get("type") == "message_delta" and _fill_counts(body, "output_tokens")


def _responses(watch: ResponseWatch, body: dict[str, Any]) -> bool:
    """Repairs OpenAI's responses."""
    watch.format_known = True
    ends = ("response.completed", "response.incomplete")
    watch.ended = watch.ended or body.get("type") in ends
    return _fill_counts(body.get("response"), "input_tokens", "output_tokens", "total_tokens")

"""What a conversation needs to know of a model's provider, and what its errors mean.

A dialect makes the arguments of one call of its provider's own package out of what the
contract calls messages, and reads the stream that comes back. It is pure: the loop
(`_async_executor`) makes the call.
"""

from __future__ import annotations

import base64
import email.utils
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Any

from pawl._errors import FailTurnError
from pawl._json_text import dump_json, whole, whole_in
from pawl._models import ModelAnswer, ModelCall, ModelFailure, ProviderLimits
from pawl._values import Fault, Json, Message, Part, Usage

_AGAIN = (408, 409, 425, 429)
"""HTTP statuses below 500 after which the same request may succeed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request to a model: settings, and every message that it is shown.

    `tools` are {"name", "description", "parameters"}; `parameters` those of the pack, by its
    names; `choice` is auto or required; `schema` is that of a text, None: it has none; `extra`
    goes to the provider as it is.
    """

    model: str
    system: str
    tools: Sequence[Mapping[str, Any]]
    parameters: Mapping[str, Json]
    choice: str
    messages: Sequence[Message]
    schema: Mapping[str, Json] | None
    extra: Mapping[str, Any]
    most: int = 0
    """Tokens that the answer may have, of which the provider is told; 0: its own default."""


class Draft(ABC):
    """An answer as its pieces come in."""

    def __init__(self) -> None:
        self.usage = Usage(estimated=True)
        """What was reported so far; `estimated` until all of it was."""
        self.response_id = ""
        self.model = ""
        self.size = 0
        """What came so far, in characters: not more than its bytes."""
        self.over = False
        """The provider said what it came to: there is no more of it to be fetched."""

    @abstractmethod
    def take(self, piece: Any) -> str:
        """Takes a piece of the stream; returns the text in it."""

    @abstractmethod
    def end(self) -> ModelAnswer | ModelFailure:
        """What it came to: an answer, or why it cannot be used."""


class Dialect(ABC):
    """How a provider is spoken to."""

    name: str
    """For people."""
    formats: str
    """Which argument of the call says what form a text has."""
    said: tuple[str, ...]
    """Arguments that are the conversation's own, and no extra."""
    limits: tuple[str, ...]
    """Arguments by which a provider is told how many tokens an answer may have; the first one is
    the dialect's own choice."""

    @abstractmethod
    def create(self, client: Any) -> Callable[..., Any]:
        """What makes the call; its arguments are those of `arguments`."""

    @abstractmethod
    def arguments(self, ask: Ask) -> dict[str, Any]:
        """Arguments of the call. Raises FailTurnError for what the provider cannot take."""

    @abstractmethod
    def draft(self) -> Draft:
        """An answer that begins."""

    def fetch(self, client: Any) -> Callable[..., Any] | None:
        """What fetches a response that is made without anybody listening, by its id; None:
        the provider makes none."""
        return None

    def background(self, ask: Ask) -> bool:
        """Whether the response is made without anybody listening, so that it can be fetched."""
        return False

    def another(self, error: Exception, ask: Ask) -> bool:
        """Whether the provider refused the request because it wants it in other words, which
        it gets from now on."""
        return False

    def bounded(self, ask: Ask) -> dict[str, Any]:
        """How many tokens the answer may have, by the name that the program gives in `extra`,
        else by the dialect's own."""
        names = [name for name in self.limits if name in ask.extra] or [self.limits[0]]
        return dict.fromkeys(names, ask.most) if ask.most else {}

    def check(self, parameters: Mapping[str, Json], taken: Mapping[str, str]) -> dict[str, Any]:
        """The pack's parameters under the provider's names. Raises FailTurnError."""
        given = {name: value for name, value in parameters.items() if value is not None}
        for name in given:
            if name not in taken:
                raise FailTurnError(
                    "PARAMETER_UNSUPPORTED",
                    f"parameters.{name}: {self.name} has no such parameter, only {sorted(taken)}",
                    retryable=False,
                )
        return {taken[name]: value for name, value in given.items()}

    def unsupported(self, part: Part, takes: str) -> FailTurnError:
        """The error of a part that the provider cannot take."""
        media = part.media_type or "application/octet-stream"
        name = f" ({part.filename})" if part.filename else ""
        form = "data" if part.data is not None else f"the address {part.uri}"
        return FailTurnError(
            "MEDIA_UNSUPPORTED",
            f"a part of {media}{name} as {form}: {self.name} takes {takes}",
            retryable=False,
        )


_MOST_CODE = 64


def failed(code: Any, message: Any) -> ModelFailure:
    """The failure that a provider tells in its own words.

    >>> failed("server_error", "Oh.").error.code
    'MODEL_SERVER_ERROR'
    """
    word = "".join(c if c.isalnum() and c.isascii() else "_" for c in str(code or "ERROR").upper())
    return unusable(f"MODEL_{word[:_MOST_CODE]}", str(message or ""))


def reported(counts: Any, name: str) -> bool:
    """Whether a provider tells a number of tokens at all."""
    return type(getattr(counts, name, None)) is int


def count_of(counts: Any, name: str) -> int:
    """A number of tokens as a provider tells it; what is none is 0."""
    value = getattr(counts, name, None)
    return value if type(value) is int and value > 0 else 0


def unusable(code: str, message: str) -> ModelFailure:
    """The failure of an answer that came, and cannot be used."""
    return ModelFailure(error=Fault(code=code, message=message))


def ended_badly(refusal: str, finish: str) -> ModelFailure | None:
    """Why an answer that ended so is none; None: it is one."""
    if refusal:
        return unusable("REFUSED", refusal)
    if finish == "content_filter":
        return unusable("CONTENT_FILTER", "the answer was filtered")
    if finish == "length":
        return unusable("TRUNCATED", "the answer was longer than max_tokens")
    if not finish:
        return unusable("STREAM_TRUNCATED", "the stream ended in the midst of the answer")
    return None


def patience(client: Any, seconds: float | None) -> dict[str, Any]:
    """The argument by which a call of a provider's package waits no longer than it may for
    each piece; none where the client waits less by itself."""
    own: Any = getattr(client, "timeout", None)
    least = getattr(own, "read", own)
    if seconds is None or (isinstance(least, (int, float)) and least <= seconds):
        return {}
    connect = getattr(own, "connect", None)
    if not isinstance(connect, (int, float)):
        return {"timeout": seconds}
    return {"timeout": type(own)(seconds, connect=min(connect, seconds))}


def words_of(provider: Dialect, parts: Sequence[Part]) -> str:
    """Parts where a provider takes text alone. Raises FailTurnError for another one."""
    texts = []
    for part in parts:
        text = text_of(part)
        if text is None:
            raise provider.unsupported(part, "text there")
        texts.append(text)
    return "\n".join(texts)


_LEAST_KEY = 8
"""Characters of a key; what is shorter stands for none, and is a part of many words."""
_MOST_WORDS = 4096
"""Characters of an endpoint's own words that are told."""


def discreet(client: Any, failure: ModelFailure) -> ModelFailure:
    """A failure without the keys of the endpoint, which may repeat what it was sent."""
    code, text = failure.error.code, failure.error.message
    for name in ("api_key", "auth_token"):
        key = getattr(client, name, None)
        if isinstance(key, str) and len(key) >= _LEAST_KEY:
            code, text = code.replace(key, "[key]"), text.replace(key, "[key]")
    return replace(failure, error=Fault(code=code, message=text[:_MOST_WORDS]))


def sound(answer: ModelAnswer) -> ModelAnswer:
    """An answer as the contract takes it: in whole characters, and names of bounded length."""
    return ModelAnswer(
        parts=tuple(Part(text=whole(part.text or "")) for part in answer.parts),
        calls=tuple(
            ModelCall(id=_clip(c.id), name=_clip(c.name), arguments=whole(c.arguments))
            for c in answer.calls
        ),
        refusal=whole(answer.refusal),
        finish_reason=_clip(answer.finish_reason, 128),
        model=_clip(answer.model),
        response_id=_clip(answer.response_id),
        provider=whole_in(answer.provider),
    )


def _clip(text: str, most: int = 256) -> str:
    """The first bytes of a name, as the contract bounds them."""
    return whole(text).encode()[:most].decode(errors="ignore")


def failure_of(error: Exception) -> ModelFailure:
    """What an error of a provider's package, or of the HTTP library below it, means."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        code = "MODEL_RATE_LIMITED" if status == 429 else f"MODEL_{status}"
        fault = Fault(code=code, message=str(error))
        final = status < 500 and status not in _AGAIN
        return ModelFailure(error=fault, final=final, retry_after=_retry_after(error))
    if isinstance(error, FailTurnError):
        fault = Fault(code=error.reason, message=error.message)
        return ModelFailure(error=fault, final=not error.retryable)
    classes = {cls.__name__ for cls in type(error).__mro__}
    if "APITimeoutError" in classes:
        return unusable("MODEL_TIMEOUT", str(error))
    if "APIConnectionError" in classes:
        return unusable("MODEL_UNREACHABLE", str(error))
    return unusable("MODEL_ERROR", f"{type(error).__name__}: {error}")


def broken(error: Exception) -> ModelFailure:
    """What breaks a stream in its midst, the HTTP library included."""
    if isinstance(getattr(error, "status_code", None), int):
        return failure_of(error)
    return unusable("STREAM_TRUNCATED", f"{type(error).__name__}: {error}")


_FINAL = (
    "MEDIA_UNSUPPORTED",
    "PARAMETER_UNSUPPORTED",
    "OVERRIDE_UNSUPPORTED",
    "ANSWER_TOO_LARGE",
)


def is_final(fault: Fault) -> bool:
    """Whether a recorded failure says that no further attempt can help."""
    status = fault.code.removeprefix("MODEL_")
    if fault.code.startswith("MODEL_") and status.isdigit():
        return int(status) < 500 and int(status) not in _AGAIN
    return fault.code in _FINAL


_LIMITS = ("x-ratelimit-{0}-{1}", "anthropic-ratelimit-{1}-{0}")
"""Headers in which providers tell what is left (remaining) of requests and of tokens, and
when all of it is there again (reset)."""


def limits_of(source: Any) -> ProviderLimits | None:
    """What the response of a stream or of an error tells of its provider's limits."""
    headers = getattr(getattr(source, "response", None), "headers", None)
    if headers is None:
        return None
    for name in _LIMITS:
        requests, requests_reset = _left(headers, name, "requests")
        tokens, tokens_reset = _left(headers, name, "tokens")
        if requests is not None or tokens is not None:
            return ProviderLimits(
                requests=requests,
                requests_reset=requests_reset,
                tokens=tokens,
                tokens_reset=tokens_reset,
            )
    return None


def _left(headers: Any, name: str, what: str) -> tuple[int | None, timedelta | None]:
    """What is left of one limit, until when; nothing where nobody can read it."""
    left, reset = (
        headers.get(name.format("remaining", what)),
        headers.get(name.format("reset", what)),
    )
    after = _reset(reset) if isinstance(reset, str) else None
    if after is None or not isinstance(left, str) or not left.isascii() or not left.isdigit():
        return None, None
    return int(left[:18]), after


_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_SPAN = re.compile(r"(?:\d+(?:\.\d+)?(?:h|ms|m|s))+")
_SPAN_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")


def _reset(text: str) -> timedelta | None:
    """A time of RFC 3339, "6m0s", or seconds."""
    if _SPAN.fullmatch(text):
        return _within(sum(float(n) * _UNITS[unit] for n, unit in _SPAN_PART.findall(text)))
    try:
        return _within(float(text))
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return _within((moment - datetime.now(timezone.utc)).total_seconds())
    except (TypeError, ValueError):
        return None


def _retry_after(error: Exception) -> timedelta | None:
    """How long the provider asks to wait; at most what the contract takes."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name)
        if text is None:
            continue
        try:
            return _within(float(text) * unit)
        except ValueError:
            pass
        try:
            moment = email.utils.parsedate_to_datetime(text)
            return _within((moment - datetime.now(timezone.utc)).total_seconds())
        except (TypeError, ValueError):
            continue
    return None


def _within(seconds: float) -> timedelta:
    return timedelta(seconds=min(max(seconds, 0.0), 86400.0))


def calls_of(message: Message) -> list[dict[str, str]]:
    """The tool calls of a message as {"id", "name", "arguments"}; conversations of before
    there were model steps have them in the words of chat completions."""
    calls = []
    for call in message.tool_calls or ():
        said = call.get("function", call)
        arguments = said.get("arguments") or "{}"
        calls.append({"id": call.get("id", ""), "name": said["name"], "arguments": arguments})
    return calls


def object_of(arguments: str) -> dict[str, Any]:
    """Arguments of a call for providers that want an object: what is none is told as it is."""
    try:
        value = json.loads(arguments or "{}")
        dump_json(value, "arguments")
    except (ValueError, RecursionError):
        return {"arguments": arguments}
    return value if isinstance(value, dict) else {"arguments": value}


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


def base64_of(data: bytes) -> str:
    """Bytes as text."""
    return base64.b64encode(data).decode()

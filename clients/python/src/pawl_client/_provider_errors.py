"""Reads errors and rate limits from the responses of model endpoints, in any provider's form.

Pure: it uses neither a provider's package nor the network.
"""

from __future__ import annotations

import email.utils
import html
import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

from pawl_client._json_text import whole
from pawl_client._models import ModelFailure, ProviderLimits
from pawl_client._values import Fault

_RETRYABLE = (408, 409, 425, 429)
"""HTTP statuses below 500 after which the same request may succeed."""
_STATUSES = {
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "invalid_argument": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "insufficient_quota": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "context_length_exceeded": 400,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "too_many_requests": 429,
    "resource_exhausted": 429,
}
"""HTTP status of an error by its type or code, as the endpoint sends it before a stream begins."""
_MAX_WORDS = 4096
"""Most characters of an endpoint's text in a failure."""
_MAX_CODE = 50
_MIN_KEY = 8
"""Least characters of a key that is redacted. A shorter text may be part of many words."""


def unusable(code: str, message: str) -> ModelFailure:
    """Returns the failure of a received answer that cannot be used.

    >>> unusable("NO_ANSWER", "nothing").non_retryable
    False
    """
    return ModelFailure(error=Fault(code=code, message=message[:_MAX_WORDS]))


def final(code: str, message: str) -> ModelFailure:
    """Returns a failure after which no further attempt is made."""
    return ModelFailure(error=Fault(code=code, message=message[:_MAX_WORDS]), non_retryable=True)


def of_http(status: int, text: str, headers: Mapping[str, str] | None = None) -> ModelFailure:
    """Returns the failure for the HTTP status of a response."""
    return of_status(status, f"HTTP {status}: {text}" if text else f"HTTP {status}", headers)


def of_status(status: int, message: str, headers: Mapping[str, str] | None = None) -> ModelFailure:
    """Returns the failure for a status, also for that of an error in a stream."""
    code = "MODEL_RATE_LIMITED" if status == 429 else f"MODEL_{status}"
    return ModelFailure(
        error=Fault(code=code, message=(message or f"status {status}")[:_MAX_WORDS]),
        non_retryable=status < 500 and status not in _RETRYABLE,
        retry_after=retry_after(headers or {}),
    )


def failure_of_error(error: Any) -> ModelFailure:
    """Returns the failure for an error object in a stream, or in a response with HTTP status 200.

    >>> failure_of_error({"type": "overloaded_error", "message": "Busy."}).error.code
    'MODEL_OVERLOADED_ERROR'
    >>> failure_of_error({"code": 400, "message": "No."}).non_retryable
    True
    """
    fields = error if isinstance(error, dict) else {}
    names = [fields.get(name) for name in ("code", "type", "status")]
    status = next((s for s in map(_status, names) if s), None)
    if status is not None:
        return of_status(status, error_text(error))
    name = next((name for name in names if isinstance(name, str) and name), "ERROR")
    word = "".join(c if c.isalnum() and c.isascii() else "_" for c in name.upper())
    return unusable(f"MODEL_{word[:_MAX_CODE]}", error_text(error))


def _status(name: Any) -> int | None:
    if isinstance(name, str) and name.isascii() and name.isdigit():
        name = int(name[:4])
    if type(name) is int:
        return name if 400 <= name < 600 else None
    return _STATUSES.get(name) if isinstance(name, str) else None


def error_text(body: Any) -> str:
    """Returns the text for people in the body of an error, in any form.

    >>> error_text([{"error": {"code": 400, "message": "No such field."}}])
    'No such field.'
    >>> error_text('{"detail": [{"msg": "too long"}]}')
    'too long'
    >>> error_text("<html><head><title>502 Bad Gateway</title></head></html>")
    '502 Bad Gateway'
    """
    if isinstance(body, (bytes, bytearray)):
        body = body.decode(errors="replace")
    if isinstance(body, str):
        return _error_text_of(body)
    for _ in range(8):
        if isinstance(body, list) and body:
            body = body[0]
        elif isinstance(body, dict):
            found = next(
                (body[n] for n in ("error", "message", "detail", "msg") if body.get(n)), None
            )
            if found is None:
                break
            body = found
        else:
            break
    if isinstance(body, str):
        return whole(body.strip())[:_MAX_WORDS]
    return "" if body in (None, [], {}) else whole(json.dumps(body, default=str))[:_MAX_WORDS]


def _error_text_of(text: str) -> str:
    text = text.strip()
    if text[:1] in ("{", "["):
        try:
            return error_text(json.loads(text))
        except (ValueError, RecursionError):
            return whole(text)[:_MAX_WORDS]
    if text[:1] == "<":
        title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        plain = title.group(1) if title else re.sub(r"<[^>]*>", " ", text)
        text = " ".join(html.unescape(plain).split())[:_PAGE]
    return whole(text)[:_MAX_WORDS]


_PAGE = 256
"""Most characters of an HTML page in a failure."""


def redact_keys(keys: set[str], failure: ModelFailure) -> ModelFailure:
    """Returns a failure without the endpoint's keys, which its error text may repeat."""
    code, text = failure.error.code, failure.error.message
    for key in keys:
        if len(key) >= _MIN_KEY:
            code, text = code.replace(key, "[key]"), text.replace(key, "[key]")
    return replace(failure, error=Fault(code=code, message=whole(text)))


_FINAL = (
    "MEDIA_UNSUPPORTED",
    "PARAMETER_UNSUPPORTED",
    "OVERRIDE_UNSUPPORTED",
    "REQUEST_UNSUPPORTED",
    "ANSWER_TOO_LARGE",
)


def is_final(fault: Fault) -> bool:
    """Whether a recorded failure permits no further attempt."""
    status = fault.code.removeprefix("MODEL_")
    if fault.code.startswith("MODEL_") and status.isdigit():
        return int(status) < 500 and int(status) not in _RETRYABLE
    return fault.code in _FINAL


_LIMITS = ("x-ratelimit-{0}-{1}", "anthropic-ratelimit-{1}-{0}")
"""Headers in which providers report what is left (remaining) of requests and of tokens, and when
the full amount is available again (reset).
"""


def limits_of(headers: Mapping[str, str]) -> ProviderLimits | None:
    """Returns the provider's rate limits from the headers of a response."""
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


def _left(headers: Mapping[str, str], name: str, what: str) -> tuple[int | None, timedelta | None]:
    """Returns what is left of one limit and until when; None for text that is no number."""
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
    """Parses a time of RFC 3339, a duration as "6m0s", or seconds."""
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


def retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """Returns how long the provider asks to wait, within the bounds of the contract.

    >>> retry_after({"retry-after": "1.5"})
    datetime.timedelta(seconds=1, microseconds=500000)
    >>> retry_after({"retry-after": "-1"}), retry_after({"retry-after": "soon"})
    (None, None)
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name)
        if text is None:
            continue
        try:
            seconds = float(text) * unit
        except ValueError:
            pass
        else:
            if math.isfinite(seconds) and seconds >= 0:
                return _within(seconds)
            continue
        try:
            moment = email.utils.parsedate_to_datetime(text)
            return _within((moment - datetime.now(timezone.utc)).total_seconds())
        except (TypeError, ValueError):
            continue
    return None


def _within(seconds: float) -> timedelta:
    if not math.isfinite(seconds):
        raise ValueError(f"{seconds} seconds")
    return timedelta(seconds=min(max(seconds, 0.0), 86400.0))

"""What went wrong in a handler, as the contract takes it.

Handlers are other people's code: they raise and say whatever they like. What is made of
it here is always text that the sidecar takes, since a failure that cannot be told would
leave its turn or step with a worker that is through with it.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from pawl._errors import (
    INVALID_ARGUMENTS,
    FailStepError,
    FailTurnError,
    PawlError,
    StepFailedError,
)
from pawl._values import Fault, Json

_MOST_CODE = 128
_MOST_MESSAGE = 16 * 1024
_MOST_TRACE = 8 * 1024
"""Bytes of UTF-8."""


def fault_of(error: BaseException) -> tuple[Fault, bool]:
    """What a handler's exception says of its turn, and whether a retry may help."""
    if isinstance(error, PawlError) and error.reason:
        retryable = _may_help(error)
        code, message = text_of(error.reason), text_of(error.message)
    else:
        retryable, code, message = True, type(error).__name__, text_of(error)
    fault = Fault(
        code=_cut(code, _MOST_CODE) or "ERROR",
        message=_cut(message, _MOST_MESSAGE),
        trace=trace_of(error),
    )
    return fault, retryable


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFault(Fault):
    """An error of a step: whether a further attempt is no use, and how many seconds it is
    to wait."""

    final: bool = False
    retry_after: float | None = None


def step_fault_of(error: BaseException, code: str = "") -> StepFault:
    """What a tool's exception says of its step; `code` in place of its own."""
    fault, retryable = fault_of(error)
    code = code or fault.code
    final = not retryable or code in _HOPELESS
    wait = None
    if isinstance(error, FailStepError):
        final, wait = bool(error.final), error.retry_after
        if not isinstance(wait, (int, float)):
            wait = None
    return StepFault(
        code=code,
        message=fault.message,
        trace=fault.trace,
        final=final,
        retry_after=None if final else wait,
    )


def told_of(answer: Json | Fault, final: bool, retry_after: float | None) -> Json | Fault:
    """An answer with what its giver says of further attempts. Raises ValueError: of a
    result, or both at once, they say nothing."""
    if not final and retry_after is None:
        return answer
    if not isinstance(answer, Fault) or (final and retry_after is not None):
        raise ValueError("final or retry_after say of a Fault when it is tried again")
    return StepFault(
        code=answer.code,
        message=answer.message,
        trace=answer.trace,
        final=final,
        retry_after=retry_after,
    )


_HOPELESS = frozenset({INVALID_ARGUMENTS, "PAYLOAD_INVALID"})
"""Codes of a payload that the tool does not take: it is the same in each attempt."""


def _may_help(error: PawlError) -> bool:
    """Whether another attempt may help. One would be told of the same wrong arguments."""
    if isinstance(error, FailTurnError):
        return bool(error.retryable)
    return not (isinstance(error, StepFailedError) and error.reason == INVALID_ARGUMENTS)


def rejects(error: BaseException) -> bool:
    """Whether a handler's exception refuses the work."""
    return isinstance(error, FailTurnError) and bool(error.reject)


def deliberate(error: BaseException) -> bool:
    """Whether a handler meant to raise it: where it did so is no news."""
    return isinstance(error, (FailTurnError, FailStepError))


def trace_of(error: BaseException) -> str:
    """The end of its traceback, where it was raised; empty: a handler meant to raise it,
    or it was never raised."""
    if deliberate(error) or error.__traceback__ is None:
        return ""
    try:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except Exception:
        # Its own words cannot be had; where it came from can.
        text = "".join(traceback.format_tb(error.__traceback__))
    encoded = text.encode(errors="replace")
    return encoded[-_MOST_TRACE:].decode(errors="ignore")


def text_of(value: object) -> str:
    """A value as text, whatever it is."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode(errors="replace")
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__} without words>"


def _cut(text: str, most: int) -> str:
    """The first bytes of it, no character cut in two. A character has one byte at least,
    so that what is huge is not encoded as a whole."""
    return text[:most].encode(errors="replace")[:most].decode(errors="ignore")

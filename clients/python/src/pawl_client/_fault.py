"""What went wrong in a handler, as the contract takes it.

Handlers are other people's code: they raise and say whatever they like. What is made of
it here is always text that the sidecar takes, since a failure that cannot be told would
leave its turn or step with a worker that is through with it.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from pawl_client._errors import (
    INVALID_ARGUMENTS,
    RESULT_INVALID,
    FailStepError,
    FailTurnError,
    HandlerError,
    InvalidJsonError,
    PawlError,
    SchemaError,
    StepFailedError,
)
from pawl_client._values import Fault, Json

_MAX_CODE = 128
_MAX_MESSAGE = 16 * 1024
_MAX_TRACE = 8 * 1024
"""Bytes of UTF-8."""


def fault_of(error: BaseException) -> tuple[Fault, bool]:
    """What a handler's exception says of its turn, and whether a retry may help."""
    if isinstance(error, PawlError) and error.reason:
        retryable = _is_retryable(error)
        code, message = text_of(error.reason), text_of(error.message)
    else:
        retryable, code, message = True, type(error).__name__, text_of(error)
    fault = Fault(
        code=_cut(code, _MAX_CODE) or "ERROR",
        message=_cut(message, _MAX_MESSAGE),
        trace=trace_of(error),
    )
    return fault, retryable


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFault(Fault):
    """An error of a step: whether a further attempt is no use, how many seconds it is to
    wait, and whether what the call changes elsewhere may have happened."""

    non_retryable: bool = False
    retry_after: float | None = None
    unknown: bool = False


def step_fault_of(error: BaseException, code: str = "") -> StepFault:
    """What a tool's exception says of its step; `code` in place of its own."""
    fault, retryable = fault_of(error)
    code = code or fault.code
    non_retryable = not retryable or code in _INVALID_PAYLOADS
    wait, unknown = None, _may_have_run(error)
    if isinstance(error, FailStepError):
        non_retryable, wait, unknown = (
            bool(error.non_retryable),
            error.retry_after,
            bool(error.unknown),
        )
        if not isinstance(wait, (int, float)):
            wait = None
    non_retryable = non_retryable and not unknown
    return StepFault(
        code=code,
        message=fault.message,
        trace=fault.trace,
        non_retryable=non_retryable,
        retry_after=None if non_retryable else wait,
        unknown=unknown,
    )


def refused_result(why: BaseException, code: str = "") -> StepFault:
    """The error of a step whose result cannot be told: the call did happen."""
    known = isinstance(why, PawlError) and not isinstance(why, InvalidJsonError)
    fault = step_fault_of(why, code or ("" if known else RESULT_INVALID))
    message = _cut(f"the result was refused: {fault.message}", _MAX_MESSAGE)
    return StepFault(code=fault.code, message=message, trace=fault.trace, unknown=True)


def with_retry_advice(
    answer: Json | Fault, non_retryable: bool, retry_after: float | None, unknown: bool
) -> Json | Fault:
    """An answer with what its giver says of further attempts. Raises ValueError: of a
    result, or with non_retryable, the others say nothing."""
    if not non_retryable and retry_after is None and not unknown:
        return answer
    if not isinstance(answer, Fault) or (non_retryable and (retry_after is not None or unknown)):
        raise ValueError(
            "non_retryable, or retry_after and unknown, say of a Fault when it is tried again"
        )
    return StepFault(
        code=answer.code,
        message=answer.message,
        trace=answer.trace,
        non_retryable=non_retryable,
        retry_after=retry_after,
        unknown=unknown,
    )


_INVALID_PAYLOADS = frozenset({INVALID_ARGUMENTS, "PAYLOAD_INVALID"})
"""Codes of a payload that the tool does not take: it is the same in each attempt."""


def _may_have_run(error: BaseException) -> bool:
    """Whether the function was called, and did not fail by itself: its result is none, or it
    is at work still. Nobody knows what it changed."""
    if isinstance(error, SchemaError):
        return error.reason == RESULT_INVALID
    return isinstance(error, HandlerError) and error.reason == "HANDLER_TIMEOUT"


def _is_retryable(error: PawlError) -> bool:
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
    return encoded[-_MAX_TRACE:].decode(errors="ignore")


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

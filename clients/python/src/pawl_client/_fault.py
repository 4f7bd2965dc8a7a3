"""Converts the errors of handlers to those of the contract.

Handlers are user code: their exceptions may hold any text. This module always returns text that the
sidecar accepts. An error that could not be reported would leave its turn or step with a worker that
no longer executes it.
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
    StepDeniedError,
    StepFailedError,
    StepRefusedError,
)
from pawl_client._values import Fault, Json

_MAX_CODE = 128
_MAX_MESSAGE = 16 * 1024
_MAX_TRACE = 8 * 1024
"""Longest code, message and traceback, in bytes of UTF-8."""


def fault_of(error: BaseException) -> tuple[Fault, bool]:
    """Returns the error of a turn for a handler's exception, and whether another attempt may
    succeed.
    """
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
    """An error of a step.

    `non_retryable`: no further attempt is made. `retry_after`: seconds before the next attempt.
    `unknown`: the effect of the call may have happened.
    """

    non_retryable: bool = False
    retry_after: float | None = None
    unknown: bool = False


def step_fault_of(error: BaseException, code: str = "") -> StepFault:
    """Returns the error of a step for a tool's exception; `code` replaces the exception's own
    code.
    """
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
    """Returns the error of a step whose result cannot be sent. The call did happen."""
    known = isinstance(why, PawlError) and not isinstance(why, InvalidJsonError)
    fault = step_fault_of(why, code or ("" if known else RESULT_INVALID))
    message = _cut(f"the result was refused: {fault.message}", _MAX_MESSAGE)
    return StepFault(code=fault.code, message=message, trace=fault.trace, unknown=True)


def with_retry_advice(
    answer: Json | Fault, non_retryable: bool, retry_after: float | None, unknown: bool
) -> Json | Fault:
    """Returns an answer with the caller's advice about further attempts.

    Raises ValueError for advice about a result, and for `non_retryable` together with the others.
    """
    if not non_retryable and retry_after is None and not unknown:
        return answer
    if not isinstance(answer, Fault) or (non_retryable and (retry_after is not None or unknown)):
        raise ValueError(
            "non_retryable, retry_after, unknown: only a Fault takes them, and non_retryable "
            "excludes the other two"
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
"""Codes of a payload that the tool does not accept. Each attempt has the same payload."""


def _may_have_run(error: BaseException) -> bool:
    """Whether the effect of the function is unknown: its result is invalid, or it is still
    running.
    """
    if isinstance(error, SchemaError):
        return error.reason == RESULT_INVALID
    return isinstance(error, HandlerError) and error.reason == "HANDLER_TIMEOUT"


def _is_retryable(error: PawlError) -> bool:
    """Whether another attempt of the turn may succeed.

    An error that the sidecar recorded as the answer of a call stays the same in each attempt. So
    does the refusal of a model without a price.
    """
    if isinstance(error, FailTurnError):
        return bool(error.retryable)
    if isinstance(error, (StepFailedError, StepDeniedError)):
        return error.step is None
    return not (isinstance(error, StepRefusedError) or error.reason == "MODEL_UNPRICED")


def rejects(error: BaseException) -> bool:
    """Whether a handler's exception rejects the work."""
    return isinstance(error, FailTurnError) and bool(error.reject)


def deliberate(error: BaseException) -> bool:
    """Whether the handler raised the error on purpose, so its traceback is not needed."""
    return isinstance(error, (FailTurnError, FailStepError))


def trace_of(error: BaseException) -> str:
    """Returns the end of the error's traceback; empty for a deliberate error or one never
    raised.
    """
    if deliberate(error) or error.__traceback__ is None:
        return ""
    try:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except Exception:
        # The exception's __str__ failed; the traceback alone remains.
        text = "".join(traceback.format_tb(error.__traceback__))
    encoded = text.encode(errors="replace")
    return encoded[-_MAX_TRACE:].decode(errors="ignore")


def text_of(value: object) -> str:
    """Returns any value as text."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode(errors="replace")
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__} without text>"


def _cut(text: str, most: int) -> str:
    """Returns the first bytes of a text, without splitting a character.

    A character has at least one byte, so a very long text is cut before it is encoded.
    """
    return text[:most].encode(errors="replace")[:most].decode(errors="ignore")

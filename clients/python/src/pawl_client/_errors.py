"""Every error that this package raises, and the class of each reason of the server.

The tree::

    PawlError
    +-- RequestError             the request is invalid; a repetition fails too
    |   +-- ArtifactError        an artifact is undeclared, of another type or named twice
    |   +-- InvalidJsonError     a value has no JSON form; `field` is its place
    |   +-- PackInvalidError     the document is no valid pack
    |   +-- VariablesError       a variable is missing, unknown or invalid
    |   +-- PositionError        a seq, cursor or page token cannot be read from
    +-- AuthenticationError      the token is missing, unknown or revoked
    +-- PermissionDeniedError    the principal lacks the right
    |   +-- TurnTokenError       another executor holds the turn, or a newer token fenced this one
    +-- NotFoundError            there is no run, pack, record or namespace of that name
    +-- ConflictError            another caller was first
    |   +-- IdReusedError        the idempotency id was used with another body
    |   +-- SeqMismatchError     another writer moved the run; `seq` is the transition that won
    |   +-- PackVersionTakenError  id@version already names other bytes
    |   +-- WorkerReplacedError  another worker registered with the same id
    |   +-- RunTakenOverError    another process drives the run now
    +-- StateError               the run's state does not permit the call
    |   +-- RunTerminalError     the run has ended
    |   +-- RunPausedError       the run is paused
    |   +-- UnknownEventError    the state does not declare the event; see `allowed`
    |   +-- TurnStaleError       the turn or the attempt is not the open one
    |   +-- NoOpenTurnError      no turn is open
    |   +-- AlreadyDecidedError  another approver decided about the call first
    |   +-- StepMismatchError    a known step key has another tool or payload
    |   +-- ValidatorError       what the turn said violates a validator of its prompt
    +-- LimitError               a limit of the operator is exceeded; see `limit`
    |   +-- OverloadedError      too many calls at once; try again after `retry_after` seconds
    +-- UnavailableError         the sidecar cannot be reached, or is draining
    |   +-- CommitUnknownError   the outcome is unknown; repeat the call with the same id
    +-- DeadlineError            the timeout passed; the call may still take effect
    +-- CallCancelledError       the call was cancelled
    +-- ServerError              the server failed, or its answer cannot be read
    +-- StreamGapError           a stream skipped a record
    +-- StepError                a tool call of a turn failed
    |   +-- StepRefusedError     the sidecar refused the call: a policy or a limit
    |   +-- StepDeniedError      a person denied the call, or no approval came in time
    |   +-- StepFailedError      the tool answered with an error
    |   +-- StepCancelledError   the visit or the run ended before the answer
    +-- SchemaError              a tool's payload or result does not fit its JSON Schema
    +-- HandlerError             a handler returned a value of a wrong type
    +-- FailStepError            raised by a tool to fail its step with a code
    +-- FailTurnError            raised by a handler to fail its turn with a code
    +-- SidecarError             the sidecar's process could not be started
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pawl_client._records import Record
    from pawl_client._runs import Step


INVALID_ARGUMENTS = "INVALID_ARGUMENTS"
"""Reason of a payload that the tool's function does not accept. The function was not called, and
the same payload always fails.
"""
RESULT_INVALID = "RESULT_INVALID"
"""Reason of a result that does not fit the tool's declared result."""


class PawlError(Exception):
    """Base class of all errors of this package.

    `code` is the name of the gRPC status and `reason` the server's stable error word; both are
    empty for an error that this package detected itself. `metadata` holds the server's details for
    programs, `violations` pairs of a field and what is wrong with it, and `retry_after` the seconds
    that the server asks to wait (None: it names no time).
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
        violations: tuple[tuple[str, str], ...] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        self.metadata = dict(metadata or {})
        self.violations = violations
        self.retry_after = retry_after

    @property
    def field(self) -> str:
        """Name of the invalid field of the request; empty if the server names none."""
        return self.metadata.get("field", "")

    @property
    def allowed(self) -> tuple[str, ...]:
        """Values that the server accepts here; empty if it names none."""
        text = self.metadata.get("allowed", "")
        return tuple(text.split(", ")) if text else ()

    @property
    def limit(self) -> int | None:
        """The limit that was exceeded; None if the server names none."""
        text = self.metadata.get("limit", "")
        return int(text) if text.isdigit() else None


class RequestError(PawlError):
    """The request is invalid; a repetition of the same request fails too."""


class ArtifactError(RequestError):
    """An artifact is undeclared, of another type, or named twice."""


class InvalidJsonError(RequestError, ValueError):
    """A value has no JSON form; `field` is its place."""


class PackInvalidError(RequestError):
    """The document is no valid pack; `validate_pack` lists every finding."""


class VariablesError(RequestError):
    """A variable is missing, unknown or invalid; the message names each."""


class PositionError(RequestError):
    """This store cannot read from that seq, cursor or page token."""


class AuthenticationError(PawlError):
    """The token is missing, unknown or revoked."""


class PermissionDeniedError(PawlError):
    """The principal lacks the right to make this call."""


class TurnTokenError(PermissionDeniedError):
    """Another executor holds the turn, or a newer token fenced the given one."""


class NotFoundError(PawlError):
    """The run, pack, record or namespace does not exist, or the caller may not see it."""


class ConflictError(PawlError):
    """Another caller was first."""


class IdReusedError(ConflictError):
    """The idempotency id was used before with another request body."""


class SeqMismatchError(ConflictError):
    """Another writer moved the run first.

    `winner` is the record of that change: its `principal`, its time `at`, and in its body the event
    and the state, without the artifacts that it wrote. It is None if the sidecar did not send it.

        try:
            run.emit("Approved", expected_seq=shown)
        except SeqMismatchError as lost:
            print(f"too late: {lost.principal} was first with {lost.event}")
    """

    winner: Record | None = None

    @property
    def event(self) -> str:
        """Event of the transition that won; empty if no event caused it or the sidecar sent
        none.
        """
        return str(getattr(self.winner.body, "event", "")) if self.winner else ""

    @property
    def principal(self) -> str:
        """Principal that moved the run; empty if the sidecar sent none."""
        return self.winner.principal if self.winner else ""

    @property
    def seq(self) -> int:
        """Seq of the transition that won; 0 if the sidecar sent none."""
        return int(self.metadata.get("seq", "0"))


class PackVersionTakenError(ConflictError):
    """The id and version already name a pack with other bytes. Register it under a new version."""


class WorkerReplacedError(ConflictError):
    """Another worker registered with the same id. Give each worker an id of its own."""


class RunTakenOverError(ConflictError):
    """Another process drives the run now; this process no longer executes its turns."""


class StateError(PawlError):
    """The run's state does not permit the call."""


class RunTerminalError(StateError):
    """The run has ended; a terminal run never changes again."""


class RunPausedError(StateError):
    """The run is paused; resume it first."""


class UnknownEventError(StateError):
    """The current state does not declare the event; `allowed` lists the events that it declares."""


class TurnStaleError(StateError):
    """The turn or the attempt is not the open one."""


class NoOpenTurnError(StateError):
    """The run has no open turn."""


class StepMismatchError(StateError):
    """A known step key was used with another tool or payload. The attempt fails."""


class ValidatorError(StateError):
    """What the turn said violates a validator of its prompt. The attempt fails; the next attempt
    gets the reason.
    """


class AlreadyDecidedError(StateError):
    """Another approver decided about the call first; the message names the principal, the decision
    and the time.
    """


class LimitError(PawlError):
    """A limit of the operator is exceeded; the message names the limit and its value."""


class OverloadedError(LimitError):
    """The sidecar has too many calls at once; try again after `retry_after` seconds."""


class UnavailableError(PawlError):
    """The sidecar cannot be reached, or is draining."""


class CommitUnknownError(UnavailableError):
    """The outcome of the call is unknown; repeat it with the same id to learn it."""


class DeadlineError(PawlError):
    """The timeout passed; the call may still take effect."""


class CallCancelledError(PawlError):
    """The call was cancelled."""


class ServerError(PawlError):
    """The server failed, or this client cannot read its answer."""


class StreamGapError(PawlError):
    """A stream skipped a record: the received record does not follow the last one."""


class StepError(PawlError):
    """A tool call of a turn failed."""


class StepRefusedError(StepError):
    """The sidecar refused the call: a policy or a limit of the operator or of the pack.

    `reason` is its code, for example TOOL_NOT_ALLOWED. The call was not made, and no person was
    asked. A call that a person denied raises StepDeniedError.
    """


class StepDeniedError(StepError):
    """A person denied the call, or no approval came in time; `step` is the step.

    `reason` is DENIED, and the message has the approver's reason. The call was not made, and no
    attempt follows. A call that a policy or a limit stopped raises StepRefusedError.
    """

    step: Step | None = None


class StepFailedError(StepError):
    """The tool answered with an error; `reason` is its code, `step` the step.

    If `unknown` is True, the outcome is unknown: the call may have had its effect in spite of the
    error, and a repetition may have it twice.
    """

    step: Step | None = None
    unknown: bool = False


class StepCancelledError(StepError):
    """The visit or the run ended before the answer."""


class SchemaError(PawlError):
    """A tool's payload or result does not fit its JSON Schema or its function.

    `Worker.check` raises it for a pack's parameters; `violations` then holds each difference.
    """


class HandlerError(PawlError):
    """A handler returned a value of a wrong type."""


class FailTurnError(PawlError):
    """Raised by a handler to fail its turn with a code of its own.

    `reason` is the code. `retryable` (default True): another attempt may succeed; False ends the
    run FAILED. `reject`: the agent refuses the work, and no attempt follows. The error of a tool
    call (StepFailedError, StepDeniedError, StepRefusedError) that the handler does not catch ends
    the run FAILED too, because each attempt gets the recorded answer again. Any other exception
    fails the turn as retryable, with the name of its class as the code.

    Raised after a model's answer, it rejects that answer. The next attempt of the turn asks the
    model again for that round; the request then contains the code and the message, and the rounds
    before it are answered from their records. The pack's attempts bound this, and the rejected
    answer's usage stays counted. An answer whose tool calls were made (`turn.calls`) is kept,
    because another answer would make them twice. Any other exception keeps the answer, and the next
    attempt gets it again.

    >>> FailTurnError("NO_QUOTA", "come back tomorrow").reason
    'NO_QUOTA'
    """

    def __init__(
        self, reason: str, message: str = "", *, retryable: bool = True, reject: bool = False
    ) -> None:
        super().__init__(message or reason, reason=reason)
        self.retryable = retryable and not reject
        self.reject = reject


class FailStepError(PawlError):
    """Raised by a tool to fail its step with a code of its own.

    `reason` is the code. `non_retryable`: no further attempt is made, even if the pack allows more.
    `wait`: seconds before the next attempt, at most the tool's longest pause. Any other exception
    fails the attempt with the name of its class as the code, and may be tried again.

    `unknown`: the effect of the call may have happened, as after a request without an answer. The
    pack's `on_unknown` then decides what follows, `non_retryable` is ignored, and the call's
    business key stays in use. Without `unknown`, an error says that the call had no effect.

    >>> FailStepError("NO_SUCH_ORDER", "there is no order 17", non_retryable=True).reason
    'NO_SUCH_ORDER'
    >>> FailStepError("BANK_TIMEOUT", "no answer within 30 s", unknown=True).unknown
    True
    """

    def __init__(
        self,
        reason: str,
        message: str = "",
        *,
        non_retryable: bool = False,
        wait: float | None = None,
        unknown: bool = False,
    ) -> None:
        non_retryable = non_retryable and not unknown
        super().__init__(
            message or reason, reason=reason, retry_after=None if non_retryable else wait
        )
        self.non_retryable = non_retryable
        self.unknown = unknown


class SidecarError(PawlError):
    """The sidecar's program was not found, or its process could not be started."""


class SuspendTurn(BaseException):
    """Raised by `turn.step` in a worker's handler to end the handler without an answer.

    It is no error. A worker with `suspend_after` releases the turn until its steps are answered.
    Then the handler is executed again from its beginning, and the same calls of `turn.step` return
    the recorded answers. A handler must not catch it, but may clean up in `finally`. It derives
    from BaseException, so `except Exception` does not catch it.
    """


BY_REASON: dict[str, type[PawlError]] = {
    "UNDECLARED_ARTIFACT": ArtifactError,
    "ARTIFACT_TYPE": ArtifactError,
    "DUPLICATE_ARTIFACT": ArtifactError,
    "INVALID_JSON": InvalidJsonError,
    "PACK_INVALID": PackInvalidError,
    "BAD_VARIABLES": VariablesError,
    "CURSOR_FOREIGN": PositionError,
    "CURSOR_AHEAD": PositionError,
    "SEQ_AHEAD": PositionError,
    "BAD_CURSOR": PositionError,
    "BAD_PAGE_TOKEN": PositionError,
    "TURN_TOKEN_REQUIRED": TurnTokenError,
    "TURN_TOKEN_STALE": TurnTokenError,
    "TURN_LEASED": TurnTokenError,
    "ID_REUSED": IdReusedError,
    "SEQ_MISMATCH": SeqMismatchError,
    "PACK_VERSION_TAKEN": PackVersionTakenError,
    "WORKER_REPLACED": WorkerReplacedError,
    "RUN_TERMINAL": RunTerminalError,
    "PAUSED": RunPausedError,
    "UNKNOWN_EVENT": UnknownEventError,
    "TURN_STALE": TurnStaleError,
    "NO_OPEN_TURN": NoOpenTurnError,
    "STEP_MISMATCH": StepMismatchError,
    "VALIDATOR_TRIGGERED": ValidatorError,
    "ALREADY_DECIDED": AlreadyDecidedError,
    "QUEUE_FULL": OverloadedError,
    "OVERLOADED": OverloadedError,
    "RATE_LIMITED": OverloadedError,
    "MAX_STREAMS": OverloadedError,
    "COMMIT_UNKNOWN": CommitUnknownError,
}
"""Class of each reason that has a class of its own."""

BY_CODE: dict[str, type[PawlError]] = {
    "INVALID_ARGUMENT": RequestError,
    "OUT_OF_RANGE": PositionError,
    "UNAUTHENTICATED": AuthenticationError,
    "PERMISSION_DENIED": PermissionDeniedError,
    "NOT_FOUND": NotFoundError,
    "ALREADY_EXISTS": ConflictError,
    "ABORTED": ConflictError,
    "FAILED_PRECONDITION": StateError,
    "RESOURCE_EXHAUSTED": LimitError,
    "UNAVAILABLE": UnavailableError,
    "DEADLINE_EXCEEDED": DeadlineError,
    "CANCELLED": CallCancelledError,
}
"""Class of each gRPC code, for reasons without a class of their own. Every other code is a
ServerError.
"""


def error_of(
    code: str,
    message: str,
    *,
    reason: str = "",
    metadata: Mapping[str, str] | None = None,
    violations: tuple[tuple[str, str], ...] = (),
    retry_after: float | None = None,
) -> PawlError:
    """Returns the error for a status of the server.

    >>> type(error_of("FAILED_PRECONDITION", "no", reason="PAUSED")).__name__
    'RunPausedError'
    >>> type(error_of("FAILED_PRECONDITION", "no", reason="NEW_WORD")).__name__
    'StateError'
    """
    cls = BY_REASON.get(reason) or BY_CODE.get(code, ServerError)
    return cls(
        message,
        code=code,
        reason=reason,
        metadata=metadata,
        violations=violations,
        retry_after=retry_after,
    )

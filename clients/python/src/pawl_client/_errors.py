"""Every error that this package raises, and how server reasons map to it.

The tree::

    PawlError
    +-- RequestError             the request itself is wrong
    |   +-- ArtifactError        undeclared, of another type, named twice
    |   +-- InvalidJsonError     a value that JSON cannot hold; `field` is its place
    |   +-- PackInvalidError     the document is no valid pack
    |   +-- VariablesError       a variable is missing, unknown or invalid
    |   +-- PositionError        a seq, cursor or page token that cannot be read from
    +-- AuthenticationError      no token, an unknown or a revoked one
    +-- PermissionDeniedError         the principal may not do that
    |   +-- TurnTokenError       the turn is somebody else's, or the token was fenced
    +-- NotFoundError            no such run, pack, record or namespace
    +-- ConflictError            something else was there first
    |   +-- IdReusedError        the idempotency id was used with another body
    |   +-- SeqMismatchError     another writer moved the run; `seq` is the one that won
    |   +-- PackVersionTakenError  id@version names other bytes
    |   +-- WorkerReplacedError  another worker registered with the same id
    |   +-- RunTakenOverError    another process drives the run now
    +-- StateError               the run is not in a state to do that
    |   +-- RunTerminalError     the run has ended
    |   +-- RunPausedError       the run is paused
    |   +-- UnknownEventError    the state does not declare the event; see `allowed`
    |   +-- TurnStaleError       not the open turn or attempt any more
    |   +-- NoOpenTurnError      no turn is open
    |   +-- AlreadyDecidedError  somebody else decided about the call first
    |   +-- StepMismatchError    a known step key with another tool or payload
    +-- LimitError               a limit of the operator was passed; see `limit`
    |   +-- OverloadedError      too much at once; `retry_after` says when to try again
    +-- UnavailableError         the sidecar cannot be reached, or is draining
    |   +-- CommitUnknownError   nobody knows whether it happened; same id again
    +-- DeadlineError            the timeout passed; what was asked may still happen
    +-- CallCancelledError          the call was cancelled
    +-- ServerError              a fault of the server, or an answer not understood
    +-- StreamGapError           a stream left out a record
    +-- StepError                a tool call of a turn did not end well
    |   +-- StepDeniedError      it was refused before it was made
    |   +-- StepFailedError      the tool answered with an error
    |   +-- StepCancelledError   the visit or the run ended before the answer
    +-- SchemaError              a tool's payload or result does not fit its JSON Schema
    +-- HandlerError             a handler answered with something that cannot be used
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
"""The reason of a tool whose function does not take the payload: nothing was called, and the
same payload never fits."""
RESULT_INVALID = "RESULT_INVALID"
"""The reason of a tool whose result is not what it says that it gives."""


class PawlError(Exception):
    """Base of all errors of this package.

    `code` is the gRPC status name, `reason` the stable word of the server (both empty
    where no server said anything, as of a call that the caller cancelled), `metadata` what
    the server told for programs, and `retry_after` how many seconds it asked to wait, or None.
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
        """Field of the request that is at fault; empty: none is named."""
        return self.metadata.get("field", "")

    @property
    def allowed(self) -> tuple[str, ...]:
        """Values that would have been taken; empty: none are named."""
        text = self.metadata.get("allowed", "")
        return tuple(text.split(", ")) if text else ()

    @property
    def limit(self) -> int | None:
        """Limit that was passed; None: none is named."""
        text = self.metadata.get("limit", "")
        return int(text) if text.isdigit() else None


class RequestError(PawlError):
    """The request itself is wrong; repeating it cannot help."""


class ArtifactError(RequestError):
    """An artifact is undeclared, of another type, or named twice."""


class InvalidJsonError(RequestError, ValueError):
    """A value that JSON cannot hold was given, returned or written; `field` is its place."""


class PackInvalidError(RequestError):
    """The document is no valid pack; `validate_pack` lists every finding."""


class VariablesError(RequestError):
    """A variable is missing, unknown or invalid; the message names each."""


class PositionError(RequestError):
    """A seq, cursor or page token that this store cannot read from."""


class AuthenticationError(PawlError):
    """No token, an unknown one, or a revoked one."""


class PermissionDeniedError(PawlError):
    """The principal may not do that."""


class TurnTokenError(PermissionDeniedError):
    """The turn is somebody else's, or its token was fenced by a newer one."""


class NotFoundError(PawlError):
    """No such run, pack, record or namespace, or not for the caller to see."""


class ConflictError(PawlError):
    """Something else was there first."""


class IdReusedError(ConflictError):
    """The idempotency id was used with another body."""


class SeqMismatchError(ConflictError):
    """Another writer moved the run first.

    `winner` is the record by which it did: its `principal` and `at`, and in its body the
    event and the state. The artifacts that it wrote are left out; None: the sidecar did
    not tell it.

        try:
            run.emit("Approved", expected_seq=shown)
        except SeqMismatchError as lost:
            print(f"too late: {lost.principal} was first with {lost.event}")
    """

    winner: Record | None = None

    @property
    def event(self) -> str:
        """Event of the transition that won; empty: it was none, or is not told."""
        return str(getattr(self.winner.body, "event", "")) if self.winner else ""

    @property
    def principal(self) -> str:
        """Who moved the run; empty: not told."""
        return self.winner.principal if self.winner else ""

    @property
    def seq(self) -> int:
        """Seq of the transition that won; 0: not told."""
        return int(self.metadata.get("seq", "0"))


class PackVersionTakenError(ConflictError):
    """id@version names other bytes."""


class WorkerReplacedError(ConflictError):
    """Another worker registered with the same id."""


class RunTakenOverError(ConflictError):
    """Another process drives the run now: what this one had of it is not its own any more."""


class StateError(PawlError):
    """The run is not in a state to do that."""


class RunTerminalError(StateError):
    """The run has ended; a terminal run never changes again."""


class RunPausedError(StateError):
    """The run is paused."""


class UnknownEventError(StateError):
    """The current state does not declare the event; `allowed` lists those it does."""


class TurnStaleError(StateError):
    """Not the open turn, or not its current attempt, any more."""


class NoOpenTurnError(StateError):
    """The run has no open turn."""


class StepMismatchError(StateError):
    """A known step key with another tool or payload. It fails the attempt."""


class AlreadyDecidedError(StateError):
    """Somebody else decided about the call first; the message says who, what and when."""


class LimitError(PawlError):
    """A limit of the operator was passed; the message names it and its value."""


class OverloadedError(LimitError):
    """Too much at once; `retry_after` says when to try again."""


class UnavailableError(PawlError):
    """The sidecar cannot be reached, or is draining."""


class CommitUnknownError(UnavailableError):
    """Nobody knows whether it happened; repeat it with the same id."""


class DeadlineError(PawlError):
    """The timeout passed; what was asked may still happen."""


class CallCancelledError(PawlError):
    """The call was cancelled."""


class ServerError(PawlError):
    """A fault of the server, or an answer that this client does not understand."""


class StreamGapError(PawlError):
    """A stream left out a record: it was not the successor of the last one."""


class StepError(PawlError):
    """A tool call of a turn did not end well."""


class StepDeniedError(StepError):
    """The call was refused before it was made; `reason` is the denial's code."""


class StepFailedError(StepError):
    """The tool answered with an error; `reason` is its code."""

    step: Step | None = None


class StepCancelledError(StepError):
    """The visit or the run ended before the answer."""


class SchemaError(PawlError):
    """A tool's payload or result does not fit its JSON Schema or its function, or a pack's
    parameters do not (`Worker.check`: `violations` has each difference)."""


class HandlerError(PawlError):
    """A handler answered with something that cannot be used."""


class FailTurnError(PawlError):
    """Raised by a handler to fail its turn with a code of its own.

    `retryable`: another attempt may help; else the run ends FAILED. `reject`: the agent
    refuses the work, which no attempt changes. Any other exception fails the turn as
    retryable, with the name of its class as the code.

    Behind a model's answer it rejects that answer: the turn's next attempt asks the model
    anew for that round, with the code and the message in the request, and is answered from the
    record before it. The pack's attempts bound it; what the answer consumed stays spent. An
    answer stays whose tool calls were made (`turn.calls`), since another one would make them
    twice. Behind any other exception the answer stays, and the next attempt gets it again.

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

    `non_retryable`: no further attempt can help, whatever the pack allows. `wait`: not before so
    many seconds, up to the tool's longest pause. Any other exception fails the attempt with
    the name of its class as the code, and may be tried again.

    `unknown`: what the call changes elsewhere may have happened all the same, as after a
    request that had no answer. What follows is the pack's word (`on_unknown`), not `non_retryable`,
    and the call's business key stays taken. Without it an error says that nothing happened.

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
    """The sidecar's process could not be started."""


class SuspendTurn(BaseException):
    """Raised in a worker's handler, by `turn.step`, to end it without an answer.

    It is no error: the worker was made with `suspend_after`, and has released the turn
    until its steps are answered. Then the handler is executed again from its beginning,
    and the same calls of `turn.step` give the recorded answers. Let it pass; a handler
    may clean up in `finally`. Not below Exception, so that `except Exception` lets it
    pass as well.
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
    "ALREADY_DECIDED": AlreadyDecidedError,
    "QUEUE_FULL": OverloadedError,
    "OVERLOADED": OverloadedError,
    "RATE_LIMITED": OverloadedError,
    "MAX_STREAMS": OverloadedError,
    "COMMIT_UNKNOWN": CommitUnknownError,
}
"""The class of each reason that has one of its own."""

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
"""The class of each gRPC code, for reasons that have none; all others: ServerError."""


def error_of(
    code: str,
    message: str,
    *,
    reason: str = "",
    metadata: Mapping[str, str] | None = None,
    violations: tuple[tuple[str, str], ...] = (),
    retry_after: float | None = None,
) -> PawlError:
    """The error of a server's status.

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

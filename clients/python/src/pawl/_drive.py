"""Driving a run: fetch the turn, call the handler, complete or fail the turn."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from pawl._advice import repeatable
from pawl._denials import warn_denied
from pawl._enums import RecordKind, StepStatus, StepVerdict
from pawl._errors import (
    AuthenticationError,
    CallCancelledError,
    DeadlineError,
    FailTurnError,
    HandlerError,
    LimitError,
    NoOpenTurnError,
    PawlError,
    PermissionDeniedError,
    RequestError,
    RunPausedError,
    RunTerminalError,
    ServerError,
    StateError,
    StepMismatchError,
    TurnStaleError,
    TurnTokenError,
)
from pawl._fault import deliberate, fault_of, refused_result, rejects, step_fault_of, text_of
from pawl._flow import Flow, Follow, Handle, Operation, Sleep, attempt, attempt_both, new_id
from pawl._model_calls import AnsweredModel, RequestedModel
from pawl._models import ModelAnswer, ModelFailure, ModelRequest, ProviderLimits
from pawl._operations import Runs
from pawl._outcomes import Outcome, Reply, RunResult, goes_on
from pawl._records import Record, StepCancelled, StepDecided, StepResolved, TurnFailed
from pawl._run_result import read_result
from pawl._runs import Step, StepOutcome, TurnInfo, TurnRef
from pawl._settings import Settings
from pawl._tool_call import ToolCall, within
from pawl._turn_requests import StepCall
from pawl._turn_view import denied, next_piece, result_of
from pawl._values import ArtifactLike, Fault, Json, OutputPiece, Usage, parts_of

log = logging.getLogger("pawl")
_ANSWERS = (RecordKind.STEP_RESOLVED, RecordKind.STEP_CANCELLED, RecordKind.ENDED)
_NEWS = (*_ANSWERS, RecordKind.STEP_DECIDED, RecordKind.RESUMED)
_RELEASES = (StepVerdict.APPROVED, StepVerdict.EDITED)
_MOST_REFETCHES = 5
_NOT_OF_THE_ANSWER = (
    PermissionDeniedError,
    AuthenticationError,
    CallCancelledError,
    DeadlineError,
)
"""Errors of a completion that say nothing of what the handler answered with."""
_REFUSALS = (RequestError, LimitError, ServerError, TypeError, ValueError)
"""How a result is refused that is too large, no JSON, or not what its place takes."""


def reply_of(answer: Any) -> Reply:
    """What a handler returned, as a reply. Raises HandlerError for anything else."""
    if answer is None:
        return Reply()
    if isinstance(answer, Reply):
        return answer
    raise HandlerError(
        f"a handler returns Reply or None, not {type(answer).__name__}", reason="BAD_REPLY"
    )


class _End:
    """When a wait of `timeout` seconds is over; None: never."""

    def __init__(self, timeout: float | None) -> None:
        self.timeout = timeout
        self._at = None if timeout is None else time.monotonic() + timeout

    def left(self) -> float | None:
        """Seconds until then."""
        return None if self._at is None else max(self._at - time.monotonic(), 0.001)


@dataclass(slots=True)
class Holder:
    """The holder of one turn of a run that the caller drives.

    Its token changes when the sidecar restarts; the turn stays the same.
    """

    runs: Runs
    settings: Settings
    info: TurnInfo
    turn: TurnRef
    written: bool = False

    def call(self, operation: Operation[Any]) -> Flow[Any]:
        """Makes a call with repetitions."""
        settings = self.settings
        return attempt(
            operation, timeout=settings.timeout, retry_for=settings.retry_for, driving=True
        )

    def with_token(
        self,
        make: Callable[[TurnRef], Operation[Any]],
        call: Callable[[Operation[Any]], Flow[Any]] | None = None,
    ) -> Flow[Any]:
        """Makes a call of the turn; a token that a restart fenced is replaced."""
        call = call or self.call
        for _ in range(_MOST_REFETCHES):
            try:
                return (yield from call(make(self.turn)))
            except TurnTokenError as error:
                if error.reason != "TURN_TOKEN_STALE":
                    raise
                yield from self._refetch(error)
        return (yield from call(make(self.turn)))

    def _refetch(self, error: TurnTokenError) -> Flow[None]:
        try:
            fresh = (yield from self.call(self.runs.get_turn(self.turn.run_id))).turn
        except StateError:
            # The turn is over; what happened to it is told by the repeated call.
            return
        same = (self.turn.turn_seq, self.turn.attempt) == (fresh.turn_seq, fresh.attempt)
        if not same:
            raise TurnStaleError(
                f"turn {self.turn.turn_seq} is over: the open one is {fresh.turn_seq}",
                reason="TURN_STALE",
            ) from error
        self.turn = fresh

    def set_artifacts(self, artifacts: Mapping[str, ArtifactLike]) -> Flow[None]:
        """Writes artifacts as the holder of the turn."""
        write_id = new_id()
        yield from self.with_token(
            lambda turn: self.runs.set_artifacts(
                turn.run_id, artifacts, self.info.artifact_slots, write_id, 0, turn.token
            )
        )

    def output(self, text: str) -> Flow[None]:
        """Keeps a piece of output that is for nobody in particular."""
        first, self.written = not self.written, True
        yield from self.write_output(next_piece(text, first=first))

    def write_output(self, piece: OutputPiece) -> Flow[None]:
        """Keeps a piece of output as the holder of the turn."""
        request_id = new_id()
        yield from self.with_token(lambda turn: self.runs.write_output(turn, piece, request_id))

    def step(
        self, call: StepCall, local: Callable[[Json], Any] | None, timeout: float | None
    ) -> Flow[Json]:
        """Asks for a tool call, makes it if the tool is local, returns its result."""
        (outcome,) = yield from self.request([call])
        outcome = yield from self.finish(outcome, call, local, timeout)
        refused = denied(outcome)
        if refused is not None:
            raise refused
        assert outcome.step is not None  # noqa: S101
        return result_of(outcome.step)

    def request(self, calls: Sequence[StepCall]) -> Flow[tuple[StepOutcome, ...]]:
        """Asks for tool calls, which have their keys, all in one commit."""
        request_id = new_id()
        answer = yield from self.with_token(
            lambda turn: self.runs.request_steps(turn, calls, request_id)
        )
        outcomes: tuple[StepOutcome, ...] = answer.outcomes
        warn_denied(self.info.pack.id, calls, outcomes)
        return outcomes

    def finish(
        self,
        outcome: StepOutcome,
        call: StepCall,
        local: Callable[[Json], Any] | None,
        timeout: float | None,
    ) -> Flow[StepOutcome]:
        """The step of a request once it is answered. A tool that is local is called here, and
        only while the sidecar says that the call may go out."""
        end, made = _End(timeout), 0
        while outcome.step is not None and outcome.step.status is StepStatus.PENDING:
            step = outcome.step
            if local is None:
                return dataclasses.replace(outcome, step=(yield from self._await(step, end)))
            if step.bodies_omitted:
                outcome = yield from self._again(call)
                continue
            if not _goes(step) or step.attempt <= made:
                outcome = yield from self._released(step, call, made, end)
                continue
            body, made = (yield from self._make(step, local)), step.attempt
            if body is None:
                continue
            if not body.next:
                return dataclasses.replace(outcome, step=_answered(step, body))
            if step.approval is not None:
                # The approval may be over by now: the sidecar holds the call again then.
                outcome = yield from self._again(call)
                continue
            step = dataclasses.replace(step, attempt=body.next, deadline=body.deadline)
            outcome = dataclasses.replace(outcome, step=step)
        return outcome

    def request_model(
        self, number: int, request: ModelRequest, bound: Usage | None, key: str
    ) -> Flow[RequestedModel]:
        """Asks for the call of a model in a round."""
        asked: RequestedModel = yield from self.with_token(
            lambda turn: self.runs.request_model(turn, number, request, bound, key)
        )
        return asked

    def answer_model(
        self,
        step: int,
        attempt: int,
        came: ModelAnswer | ModelFailure,
        usage: Usage | None,
        limits: ProviderLimits | None = None,
    ) -> Flow[AnsweredModel]:
        """Tells what came of the call of a model."""
        settled: AnsweredModel = yield from self.with_token(
            lambda turn: self.runs.answer_model(turn, step, attempt, came, usage, limits)
        )
        return settled

    def note_model(self, step: int, attempt: int, response_id: str) -> Flow[None]:
        """Keeps the provider's id of a response."""
        yield from self.with_token(
            lambda turn: self.runs.note_model(turn, step, attempt, response_id)
        )

    def _make(self, step: Step, local: Callable[[Json], Any]) -> Flow[StepResolved | None]:
        """Makes an attempt here; None: it is not ours any more."""
        result: Json | Fault
        call = self._call_of(step)
        try:
            result = yield Handle(within(call, local), (step.payload,))
        except Exception as error:
            result = step_fault_of(error)
        return (yield from self._resolve(step, call, result))

    def _call_of(self, step: Step) -> ToolCall:
        return ToolCall(
            run_id=self.turn.run_id,
            step=step.step,
            tool=step.tool,
            attempt=step.attempt,
            key=step.key,
            idempotency_key=step.idempotency_key,
            turn_seq=step.turn_seq,
            deadline=step.deadline,
        )

    def _resolve(
        self, step: Step, call: ToolCall, result: Json | Fault
    ) -> Flow[StepResolved | None]:
        try:
            answer = yield from self._tell(step, call, result)
        except _REFUSALS as error:
            again = isinstance(error, PawlError) and repeatable(error)
            if isinstance(result, Fault) or again:
                raise
            # The call did happen: made again with the turn, it would happen twice.
            answer = yield from self._tell(step, call, refused_result(error))
        record = answer.record
        if record is None or not isinstance(record.body, StepResolved):
            return None
        if record.body.not_before:
            # Both times are the server's, so that clocks that differ do no harm.
            yield Sleep(max(0.0, (record.body.not_before - record.at).total_seconds()))
        return record.body

    def _tell(self, step: Step, call: ToolCall, result: Json | Fault) -> Flow[Any]:
        return (
            yield from self.with_token(
                lambda turn: self.runs.resolve_step(
                    turn.run_id, step.step, step.tool, call.attempt, result, turn.token, call.usage
                )
            )
        )

    def _await(self, step: Step, end: _End) -> Flow[Step]:
        """Waits until another party answers the step, or it is not wanted any more."""

        def final(record: Record) -> bool:
            return _answers(step, record)

        record = yield from self._next(step, step.turn_seq, _ANSWERS, final, end)
        return _answered(step, record.body)

    def _released(self, step: Step, call: StepCall, made: int, end: _End) -> Flow[StepOutcome]:
        """Waits until a call is answered, or may go out in an attempt above `made`: another
        party decides about it, or says what came of the attempt before. What goes out is what
        the sidecar gives out then: it makes the digest of an approved call again, and holds
        the call again where the approval is over."""
        after = max(step.turn_seq, step.approval.decided_seq if step.approval else 0)

        def news(record: Record) -> bool:
            body = record.body
            if isinstance(body, StepDecided):
                return body.step == step.step and body.verdict in _RELEASES
            if isinstance(body, StepResolved):
                return body.step == step.step
            return record.kind is RecordKind.RESUMED or _answers(step, record)

        while True:
            record = yield from self._next(step, after, _NEWS, news, end)
            if _answers(step, record):
                answered = _answered(step, record.body)
                return StepOutcome(key=step.key, step=answered, replayed=True, denial=None)
            after = record.seq
            try:
                outcome = yield from self._again(call)
            except RunPausedError:
                continue  # Nothing goes out while the run is paused.
            now = outcome.step
            if now is None or now.status is not StepStatus.PENDING:
                return outcome
            if _goes(now) and now.attempt > made:
                return outcome

    def _again(self, call: StepCall) -> Flow[StepOutcome]:
        """The step as it is now: the request is known, and costs nothing."""
        (outcome,) = yield from self.request([call])
        return outcome

    def _next(
        self,
        step: Step,
        after: int,
        kinds: tuple[RecordKind, ...],
        enough: Callable[[Record], bool],
        end: _End,
    ) -> Flow[Record]:
        record: Record | None = yield Follow(self.turn.run_id, after, kinds, enough, end.left())
        if record is None:
            raise DeadlineError(f"step {step.step} ({step.tool}): no answer within {end.timeout} s")
        return record


def _goes(step: Step) -> bool:
    """Whether a pending call may go out: nothing holds it for a decision, and no other step
    asks what came of its attempt."""
    return not (step.inquiry or (step.approval is not None and step.approval.held))


def _answers(step: Step, record: Record) -> bool:
    """Whether a record answers a step, or says that it is not wanted any more."""
    body = record.body
    if isinstance(body, StepResolved):
        return body.step == step.step and not body.next
    if isinstance(body, StepCancelled):
        return body.step == step.step
    return record.kind is RecordKind.ENDED


def _answered(step: Step, body: Any) -> Step:
    """The step with what the record says that answers it."""
    status = StepStatus.CANCELLED
    if isinstance(body, StepResolved):
        status = StepStatus.OK if body.ok else StepStatus.ERROR
    result = body.result if isinstance(body, StepResolved) else None
    error = body.error if isinstance(body, StepResolved) else None
    return dataclasses.replace(step, status=status, result=result, error=error)


TurnMaker = Callable[[TurnInfo, Holder], Any]


@dataclass(slots=True)
class Driver:
    """Drives one run until it ends or waits for something from outside."""

    runs: Runs
    settings: Settings
    run_id: str
    handler: Callable[[Any], Any] | Mapping[str, Callable[[Any], Any]]
    make_turn: TurnMaker
    errors: list[BaseException] = field(default_factory=list)
    output: tuple[Any, ...] | None = None
    """Of the turn that was completed here; None: another one may have been since."""

    def drive(self) -> Flow[RunResult[Any]]:
        """The whole loop."""
        info: TurnInfo | None = None
        while True:
            try:
                info = info or (yield from self._call(self.runs.get_turn(self.run_id)))
            except (NoOpenTurnError, RunTerminalError):
                break
            if not info.terminal and not info.allowed_events:
                break  # Only something from outside moves the run from here.
            yield from self._until(info.not_before)
            holder = Holder(self.runs, self.settings, info, info.turn)
            goes_on, info = yield from self._execute(info, holder)
            if not goes_on:
                break
            self.output = None
        return (
            yield from read_result(
                self.runs, self.run_id, self._call, tuple(self.errors), self.output
            )
        )

    def _call(self, operation: Operation[Any]) -> Flow[Any]:
        settings = self.settings
        return attempt(
            operation, timeout=settings.timeout, retry_for=settings.retry_for, driving=True
        )

    def _execute(self, info: TurnInfo, holder: Holder) -> Flow[tuple[bool, TurnInfo | None]]:
        """Executes one turn. Whether the run may go on, and the turn that is open then;
        None: look what is open."""
        turn = self.make_turn(info, holder)
        try:
            reply = reply_of((yield Handle(self._handler_of(info), (turn,))))
        except Exception as error:
            yield from self._fail(holder, error)
            return True, None
        try:
            done = yield from self._complete(info, holder, reply)
        except (RunTerminalError, TurnStaleError) as error:
            self.errors.append(error)
            return True, None
        except _NOT_OF_THE_ANSWER:
            raise
        except (PawlError, TypeError, ValueError) as error:
            if isinstance(error, PawlError) and repeatable(error):
                raise
            # What the handler answered with cannot be taken; its turn failed.
            yield from self._fail(holder, error)
            return True, None
        self.output = parts_of(reply.output)
        return done

    def _complete(
        self, info: TurnInfo, holder: Holder, reply: Reply
    ) -> Flow[tuple[bool, TurnInfo | None]]:
        """Completes a turn. The call for the next one goes along, so that a turn is one
        exchange with the sidecar; whatever that is answered, it can be made again."""
        request_id = new_id()

        def make(ref: TurnRef) -> Operation[bool]:
            operation = self.runs.complete(ref, reply, info.artifact_slots, request_id)
            return Operation(operation.path, operation.request, operation.response, goes_on)

        def call(operation: Operation[bool]) -> Flow[tuple[bool, TurnInfo | None]]:
            following, settings = self.runs.get_turn(self.run_id), self.settings
            return attempt_both(
                operation, following, timeout=settings.timeout, retry_for=settings.retry_for
            )

        done: tuple[bool, TurnInfo | None] = yield from holder.with_token(make, call)
        return done

    def _fail(self, holder: Holder, error: Exception) -> Flow[None]:
        self.errors.append(error)
        trace = None if deliberate(error) else error
        log.warning(
            "run %s: turn %s failed: %s",
            self.run_id,
            holder.turn.turn_seq,
            text_of(error),
            exc_info=trace,
        )
        if isinstance(error, (RunTerminalError, TurnStaleError)):
            return None
        fault, retryable = fault_of(error)
        if isinstance(error, StepMismatchError):
            # The server failed the attempt already.
            return None
        request_id, reject = new_id(), rejects(error)
        try:
            outcome: Outcome = yield from holder.with_token(
                lambda ref: self.runs.fail(ref, fault, retryable, None, request_id, reject)
            )
        except (RunTerminalError, TurnStaleError):
            return None
        record = outcome.record
        if record is not None and isinstance(record.body, TurnFailed) and record.body.not_before:
            # Both times are the server's, so that clocks that differ do no harm.
            yield Sleep(max(0.0, (record.body.not_before - record.at).total_seconds()))
        return None

    def _handler_of(self, info: TurnInfo) -> Callable[[Any], Any]:
        if not isinstance(self.handler, Mapping):
            return self.handler
        for name in (info.prompt, "*"):
            if name in self.handler:
                return self.handler[name]
        raise FailTurnError(
            "NO_HANDLER",
            f"no handler for prompt {info.prompt!r}; there are {sorted(self.handler)}",
            retryable=False,
        )

    def _until(self, moment: datetime | None) -> Flow[None]:
        if moment is not None:
            left = (moment - datetime.now(timezone.utc)).total_seconds()
            if left > 0:
                yield Sleep(left)

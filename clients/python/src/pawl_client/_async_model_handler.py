"""Executes turns with a model and records each of its answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from pawl_client._async_io import closing, sleep, with_timeout
from pawl_client._async_turn import AsyncTurn
from pawl_client._enums import Disposition, StepStatus
from pawl_client._errors import (
    FailTurnError,
    LimitError,
    RequestError,
    RunTerminalError,
    TurnStaleError,
)
from pawl_client._model_calls import AnsweredModel, RequestedModel
from pawl_client._model_loop import ModelLoop, ModelOptions, RoundAnswer
from pawl_client._models import ModelAnswer, ModelFailure, ProviderLimits
from pawl_client._outcomes import Reply
from pawl_client._output_schema import OutputSchemas
from pawl_client._provider_errors import is_final, unusable
from pawl_client._runs import Step
from pawl_client._values import Fault, Usage


class AsyncModelHandler:
    """Executes turns with a model: a turn handler for AsyncClient and workers.

    `model` is `provider:model` (pydantic-ai reads the endpoint and the key from the environment) or
    a `pydantic_ai.models.Model`. It needs `pip install 'pawl-client[models]'`.

    `max_rounds` bounds the answers of one turn (default 16); the pack's tool_policy.max_rounds may
    lower it. `chat`: text that does not leave the state answers the person, and the run waits for
    the next input; the model may also ask a question. None (default) means True in states of
    orchestration hybrid or external. `output` describes a turn's output: a class that pydantic
    supports (a BaseModel, a dataclass, a TypedDict), a JSON Schema, or a mapping from prompt ids to
    these. The model is asked again for an output that does not fit. `extra` holds settings of
    pydantic-ai (`pydantic_ai.settings.ModelSettings`); they are recorded with the request, except
    for headers.

    Each answer is a record (docs/guides/models.md): a turn that is executed again, after any loss,
    reuses the recorded answers and requests only the missing ones. The pack (`model_calls.retry`)
    decides whether a failed call is repeated. Its codes are:

    - REFUSED, CONTENT_FILTER, TRUNCATED, NO_ANSWER, STREAM_TRUNCATED, MODEL_RATE_LIMITED,
      MODEL_UNREACHABLE, MODEL_TIMEOUT, MODEL_ERROR, ANSWER_INVALID: repeatable.
    - MODEL_<HTTP status>: repeatable for 408, 409, 425, 429 and from 500 on; others fail the turn
      for good.
    - MEDIA_UNSUPPORTED, PARAMETER_UNSUPPORTED, OVERRIDE_UNSUPPORTED, REQUEST_UNSUPPORTED,
      ANSWER_TOO_LARGE: fail the turn for good.
    - MAX_ROUNDS: fails the attempt.

    Raises TypeError or ValueError for an argument that it cannot use, and ImportError without
    pydantic-ai.
    """

    def __init__(
        self,
        model: Any,
        *,
        max_rounds: int = 16,
        chat: bool | None = None,
        output: Any = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self._model = library().model_of(model)
        self._options = ModelOptions(
            model=self._model.model_name,
            max_rounds=max_rounds,
            chat=chat,
            output_schemas=OutputSchemas(output),
            extra=dict(extra or {}),
        )

    async def __call__(self, turn: AsyncTurn) -> Reply:
        """Executes one turn."""
        loop = ModelLoop(turn, self._options)
        while loop.reply is None:
            calls = loop.take_answer(await _Round(self._model, turn, loop).run())
            if calls:
                loop.take_results(calls, await turn.calls(calls))
        return loop.reply


def handler_of(handler: Any, model: Any, output: Any) -> Any:
    """Returns the given handler, or a handler for the given model.

    Raises TypeError if both or neither are given, or `output` comes without `model`.
    """
    if model is None and output is not None:
        raise TypeError("output: describes the answer of a model; give model= as well")
    if (handler is None) == (model is None):
        raise TypeError("give either a handler or model=, not both or neither")
    return handler if model is None else AsyncModelHandler(model, output=output)


def library() -> Any:
    """Imports the module that calls models. Raises ImportError, which says what to install."""
    try:
        import pydantic_ai  # noqa: F401
    except ImportError as error:
        words = "models need pydantic-ai (Python 3.11): pip install 'pawl-client[models]'"
        raise ImportError(words) from error
    from pawl_client import _pydantic_ai

    return _pydantic_ai


@dataclass(frozen=True, slots=True, kw_only=True)
class _CallOutcome:
    """The answer or the failure of one call, and its usage."""

    outcome: ModelAnswer | ModelFailure
    usage: Usage
    shown: int = 0
    """Bytes of the answer that were shown to readers."""
    limits: ProviderLimits | None = None
    """The provider's rate limits, if it sent them."""


_RECORDED = -1
"""Returned in place of an attempt: the step already has a recorded answer."""


class _Round:
    """One round of a turn: its recorded answer, or a call of the model."""

    def __init__(self, model: Any, turn: AsyncTurn, loop: ModelLoop) -> None:
        self._model, self._turn, self._loop = model, turn, loop
        self._request, self._bound = loop.request(), loop.bound()
        self._max_answer_bytes = self._reserved = 0
        self._included: set[int] = set()
        self._grown = False
        """The latest request contains a message that the one before did not."""

    async def _open(self) -> Step:
        asked = await self._turn.request_model(self._loop.round, self._request, bound=self._bound)
        self._max_answer_bytes = asked.max_answer_bytes
        fresh = [
            message for message in asked.included_messages if message.seq not in self._included
        ]
        self._included.update(message.seq for message in fresh)
        self._loop.include(fresh)
        self._grown = bool(fresh)
        step = _step_of(asked)
        self._reserved = step.model.max_output_tokens if step.model else 0
        return step

    async def run(self) -> RoundAnswer:
        """Returns the answer of the round."""
        step = await self._open()
        self._grown = False  # This call's request has all messages.
        model = step.model
        if step.status is StepStatus.OK and model is not None and model.answer is not None:
            if model.answer.text:
                await self._turn.output(model.answer.text)
            usage = model.usage or Usage()
            return RoundAnswer(step=step.step, answer=model.answer, usage=usage, replayed=True)
        if model is not None and model.not_before is not None:
            await sleep(max(0.0, _until(model.not_before)))
        return await self._answer(step)

    async def _answer(self, step: Step) -> RoundAnswer:
        """Calls the model until it answers or has no attempt left."""
        seconds = None if step.deadline is None else _call_seconds(step.deadline)
        attempt = step.attempt
        while True:
            result = await self._call(seconds)
            attempt = await self._record(step.step, attempt, result)
            if result.shown and attempt:
                await self._turn.retract_output(result.shown)
            if attempt == _RECORDED:
                return await self.run()
            self._grown = self._grown and not attempt
            if not attempt and isinstance(result.outcome, ModelAnswer):
                answer = result.outcome
                return RoundAnswer(
                    step=step.step, answer=answer, usage=result.usage, replayed=False
                )

    async def _call(self, seconds: float | None) -> _CallOutcome:
        """Calls the model once and shows the text as it arrives."""
        request = self._loop.provider_request(self._reserved)
        call = library().call(self._model, request, self._max_answer_bytes, seconds)
        shown, timed_out = 0, None
        try:
            async with closing(with_timeout(call.pieces(), seconds)) as pieces:
                async for piece in pieces:
                    if piece.reasoning:
                        await self._turn.reasoning(piece.reasoning)
                    if piece.text:
                        await self._turn.output(piece.text)
                    shown += len((piece.reasoning + piece.text).encode())
        except TimeoutError as error:
            timed_out = unusable("MODEL_TIMEOUT", f"no complete answer: {error}")
        # A complete answer is paid for. It counts even if its pieces were shown too late.
        whole = isinstance(call.outcome, ModelAnswer)
        outcome = call.outcome if whole else timed_out or call.outcome
        return _CallOutcome(outcome=outcome, usage=call.usage, shown=shown, limits=call.limits)

    async def _record(self, step: int, attempt: int, result: _CallOutcome) -> int:
        """Reports the outcome of a call.

        Returns the next attempt, 0 after an answer, or _RECORDED if an answer exists already.
        """
        outcome = result.outcome
        try:
            settled = await self._turn.answer_model(
                step, attempt, outcome, usage=result.usage, limits=result.limits
            )
        except (LimitError, RequestError) as refusal:
            outcome = _refused(outcome, refusal)
            settled = await self._turn.answer_model(step, attempt, outcome, usage=result.usage)
        if settled.disposition is Disposition.IGNORED_STALE:
            # The sidecar restarted during the call, and the turn has another token. The usage
            # of the call was counted before.
            reopened = await self._open()
            if reopened.status is not StepStatus.PENDING:
                return _RECORDED
            if self._grown:
                return reopened.attempt  # The answered request lacks the new messages.
            settled = await self._turn.answer_model(
                reopened.step, reopened.attempt, outcome, usage=Usage(counted_before=True)
            )
        _check_still_open(settled)
        if isinstance(outcome, ModelAnswer):
            return 0
        if not settled.next:
            error = outcome.error
            raise FailTurnError(error.code, error.message, retryable=not outcome.non_retryable)
        await sleep(settled.wait.total_seconds() if settled.wait else 0.0)
        return settled.next


def _refused(outcome: ModelAnswer | ModelFailure, error: LimitError | RequestError) -> ModelFailure:
    """Returns the failure for an answer that the sidecar refuses. Raises all other errors."""
    if isinstance(outcome, ModelFailure):
        raise error
    if isinstance(error, RequestError):
        return unusable("ANSWER_INVALID", error.message)
    if error.reason != "ANSWER_TOO_LARGE":
        raise error
    return ModelFailure(error=Fault(code=error.reason, message=error.message), non_retryable=True)


def _step_of(asked: RequestedModel) -> Step:
    """Returns the step of a round: answered, or to be executed.

    Raises PawlError if the step was denied, or has failed.
    """
    step = asked.step
    if step is None:
        denial = asked.denial
        code, message = (denial.code, denial.message) if denial else ("DENIED", "")
        raise RunTerminalError(f"the sidecar refused the model call: {message}", reason=code)
    if step.status not in (StepStatus.PENDING, StepStatus.OK):
        fault = step.error or Fault(code="MODEL_ERROR", message="the model call has no answer")
        raise FailTurnError(fault.code, fault.message, retryable=not is_final(fault))
    return step


def _check_still_open(settled: AnsweredModel) -> None:
    """Raises PawlError if the reported answer has no effect: the run or the execution is over."""
    if settled.disposition is Disposition.IGNORED_TERMINAL or settled.ended is not None:
        raise RunTerminalError("the run has ended", reason="RUN_TERMINAL")
    if settled.disposition is Disposition.IGNORED_STALE:
        raise _over()


def _over() -> TurnStaleError:
    return TurnStaleError("this execution of the turn is over", reason="TURN_STALE")


def _call_seconds(deadline: datetime) -> float:
    """Seconds that a call may take, with time left to report its outcome."""
    left = _until(deadline)
    return max(0.001, left - min(1.0, left / 10))


def _until(moment: datetime) -> float:
    return (moment - datetime.now(timezone.utc)).total_seconds()

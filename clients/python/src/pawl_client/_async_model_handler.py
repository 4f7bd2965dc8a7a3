"""Turns executed by a model, each of whose answers is a record."""

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
    """A turn handler for AsyncClient and workers.

    `model` is `provider:model` (endpoint and key come from the environment, as pydantic-ai reads
    them) or any `pydantic_ai.models.Model`; it needs `pip install 'pawl-client[models]'`.

    `max_rounds` bounds the answers of one turn; the pack's tool_policy.max_rounds may lower
    it. `chat`: text that does not leave the state is an answer to the person, and the run
    waits for the next input; the model can ask too. None: in states of orchestration hybrid
    or external. `output` is what a turn's output has to be: a class that pydantic knows (a
    BaseModel, a dataclass, a TypedDict), a JSON Schema, or a mapping from prompt ids to these; the
    model is asked again for what does not fit. `extra` are settings of the library
    (`pydantic_ai.settings.ModelSettings`), recorded with the request except for headers.

    Every answer is a record (docs/guides/models.md): a turn that is executed again, after whatever
    loss, gets the answers that there are, and asks for the others only. A call of the model that
    fails is made again as the pack says (`model_calls.retry`), by these codes: REFUSED,
    CONTENT_FILTER, TRUNCATED, NO_ANSWER, STREAM_TRUNCATED, MODEL_RATE_LIMITED, MODEL_UNREACHABLE,
    MODEL_TIMEOUT, MODEL_ERROR, ANSWER_INVALID, MODEL_<HTTP status>; below 500 it fails the turn
    for good, but for 408, 409, 425 and 429. So do MEDIA_UNSUPPORTED, PARAMETER_UNSUPPORTED,
    OVERRIDE_UNSUPPORTED, REQUEST_UNSUPPORTED and ANSWER_TOO_LARGE; MAX_ROUNDS fails its attempt.
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
    """The handler that is given, or that of a model. Raises TypeError for both, and for none."""
    if model is None and output is not None:
        raise TypeError("output: what a model is to answer; give model= as well")
    if (handler is None) == (model is None):
        raise TypeError("give a handler, or model=, not both")
    return handler if model is None else AsyncModelHandler(model, output=output)


def library() -> Any:
    """What calls models. Raises ImportError that says what to install."""
    try:
        import pydantic_ai  # noqa: F401
    except ImportError as error:
        words = "models need pydantic-ai (Python 3.11): pip install 'pawl-client[models]'"
        raise ImportError(words) from error
    from pawl_client import _pydantic_ai

    return _pydantic_ai


@dataclass(frozen=True, slots=True, kw_only=True)
class _CallOutcome:
    """What came of a call, and what it consumed."""

    outcome: ModelAnswer | ModelFailure
    usage: Usage
    shown: int = 0
    """Bytes of it that were shown."""
    limits: ProviderLimits | None = None
    """What the provider told of its own."""


_RECORDED = -1
"""In place of an attempt: somebody told the answer before."""


class _Round:
    """One round of a turn: the record, else the model."""

    def __init__(self, model: Any, turn: AsyncTurn, loop: ModelLoop) -> None:
        self._model, self._turn, self._loop = model, turn, loop
        self._request, self._bound = loop.request(), loop.bound()
        self._max_answer_bytes = self._reserved = 0
        self._included: set[int] = set()
        self._grown = False
        """The request has something, as it was asked for last, that it had not before."""

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
        """The answer of the round."""
        step = await self._open()
        self._grown = False  # What it had to contain is asked at once.
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
        """Makes the call until it is answered, or has used up its attempts."""
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
        """Makes the call once, and shows the text as it comes in."""
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
            timed_out = unusable("MODEL_TIMEOUT", f"no whole answer: {error}")
        # A whole answer has been paid for, however late its pieces were shown.
        whole = isinstance(call.outcome, ModelAnswer)
        outcome = call.outcome if whole else timed_out or call.outcome
        return _CallOutcome(outcome=outcome, usage=call.usage, shown=shown, limits=call.limits)

    async def _record(self, step: int, attempt: int, result: _CallOutcome) -> int:
        """Tells what came of a call; gives the attempt to make next, 0 after an answer,
        _RECORDED where there is one already."""
        outcome = result.outcome
        try:
            settled = await self._turn.answer_model(
                step, attempt, outcome, usage=result.usage, limits=result.limits
            )
        except (LimitError, RequestError) as refusal:
            outcome = _refused(outcome, refusal)
            settled = await self._turn.answer_model(step, attempt, outcome, usage=result.usage)
        if settled.disposition is Disposition.IGNORED_STALE:
            # The sidecar was away meanwhile, and the turn has another token. What the call
            # consumed was counted before.
            reopened = await self._open()
            if reopened.status is not StepStatus.PENDING:
                return _RECORDED
            if self._grown:
                return reopened.attempt  # The model has not heard what was said meanwhile.
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
    """The failure of an answer that the sidecar does not take. Raises the error of another."""
    if isinstance(outcome, ModelFailure):
        raise error
    if isinstance(error, RequestError):
        return unusable("ANSWER_INVALID", error.message)
    if error.reason != "ANSWER_TOO_LARGE":
        raise error
    return ModelFailure(error=Fault(code=error.reason, message=error.message), non_retryable=True)


def _step_of(asked: RequestedModel) -> Step:
    """The step of a round that is answered, or whose call is to be made. Raises PawlError."""
    step = asked.step
    if step is None:
        denial = asked.denial
        code, message = (denial.code, denial.message) if denial else ("DENIED", "")
        raise RunTerminalError(f"the call of the model was refused: {message}", reason=code)
    if step.status not in (StepStatus.PENDING, StepStatus.OK):
        fault = step.error or Fault(code="MODEL_ERROR", message="the call came to nothing")
        raise FailTurnError(fault.code, fault.message, retryable=not is_final(fault))
    return step


def _check_still_open(settled: AnsweredModel) -> None:
    """Raises PawlError if nobody waits for what was told."""
    if settled.disposition is Disposition.IGNORED_TERMINAL or settled.ended is not None:
        raise RunTerminalError("the run has ended", reason="RUN_TERMINAL")
    if settled.disposition is Disposition.IGNORED_STALE:
        raise _over()


def _over() -> TurnStaleError:
    return TurnStaleError("the execution is over", reason="TURN_STALE")


def _call_seconds(deadline: datetime) -> float:
    """Seconds of a call, so that there is time to tell what came of it."""
    left = _until(deadline)
    return max(0.001, left - min(1.0, left / 10))


def _until(moment: datetime) -> float:
    return (moment - datetime.now(timezone.utc)).total_seconds()

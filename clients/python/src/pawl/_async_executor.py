"""Turns executed by a model, each of whose answers is a record."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Mapping
from datetime import datetime, timezone
from typing import Any

from pawl._async_turn import AsyncTurn
from pawl._awaiting import sleep
from pawl._dialect import Dialect, Draft, broken, failure_of, is_final
from pawl._enums import Disposition, StepStatus
from pawl._errors import FailTurnError, LimitError, RunTerminalError, TurnStaleError
from pawl._model_calls import AnsweredModel, RequestedModel
from pawl._models import ModelAnswer, ModelFailure
from pawl._outcomes import Reply
from pawl._runs import Step
from pawl._talk import Manner, Talk
from pawl._values import Fault, Usage


class AsyncModelHandler:
    """A turn handler whose turns a model executes, by a provider's own package.

    `max_rounds` bounds the answers of one turn; the pack's tool_policy.max_rounds may lower
    it. `chat`: text that does not leave the state is an answer to the person, and the run
    waits for the next input; the model can ask too. `extra` are further arguments of the
    provider's call.

    Every answer is a record (docs/models.md): a turn that is executed again, after whatever
    loss, gets the answers that there are, and asks for the others only.
    """

    def __init__(
        self,
        client: Any,
        dialect: Dialect,
        *,
        model: str,
        max_rounds: int,
        chat: bool,
        extra: Mapping[str, Any] | None,
    ) -> None:
        if not model:
            raise ValueError("model: a name, not empty")
        if max_rounds < 1:
            raise ValueError(f"max_rounds: 1 or more, not {max_rounds}")
        self._create, self._dialect = dialect.create(client), dialect
        self._manner = Manner(
            model=model, max_rounds=max_rounds, chat=chat, extra=dict(extra or {})
        )

    async def __call__(self, turn: AsyncTurn) -> Reply:
        """Executes one turn."""
        talk = Talk(turn, self._manner)
        while talk.reply is None:
            request = talk.request()
            asked = await turn.request_model(talk.round, request, bound=talk.bound())
            step = _step_of(asked)
            answer, usage = await self._answer(turn, talk, step)
            calls = talk.heard(step.step, answer, usage)
            if calls:
                talk.answered(calls, await turn.calls(calls))
        return talk.reply

    async def _answer(
        self, turn: AsyncTurn, talk: Talk, step: Step
    ) -> tuple[ModelAnswer, Usage | None]:
        """The answer of a round: the recorded one, or that of a call that is made now."""
        model = step.model
        if step.status is StepStatus.OK and model is not None and model.answer is not None:
            if model.answer.text:
                await turn.output(model.answer.text)
            return model.answer, model.usage
        if model is not None and model.not_before is not None:
            await sleep(_until(model.not_before))
        attempt = step.attempt
        while True:
            draft = self._dialect.draft()
            came = await self._ask(turn, talk, draft)
            settled = await _tell(turn, step.step, attempt, came, draft.usage)
            if isinstance(came, ModelAnswer) and _taken(settled):
                return came, draft.usage
            attempt = _next(came, settled)
            await sleep(settled.wait.total_seconds() if settled.wait else 0.0)

    async def _ask(self, turn: AsyncTurn, talk: Talk, draft: Draft) -> ModelAnswer | ModelFailure:
        """Makes the call once, and shows the text as it comes in."""
        try:
            stream = await self._create(**self._dialect.arguments(talk.ask()))
        except Exception as error:
            return failure_of(error)
        try:
            async with stream:
                async for piece in _pieces(stream):
                    text = draft.take(piece)
                    if text:
                        await turn.output(text)
        except _BrokenError as error:
            return broken(error.error)
        return draft.end()


class _BrokenError(Exception):
    """What a stream raised, apart from what showing its text raises."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


async def _pieces(stream: AsyncIterable[Any]) -> AsyncIterator[Any]:
    try:
        async for piece in stream:
            yield piece
    except Exception as error:
        raise _BrokenError(error) from error


async def _tell(
    turn: AsyncTurn, step: int, attempt: int, came: ModelAnswer | ModelFailure, usage: Usage
) -> AnsweredModel:
    """Tells what came of a call; an answer that is too large is no answer."""
    try:
        return await turn.answer_model(step, attempt, came, usage=usage)
    except LimitError as error:
        if isinstance(came, ModelFailure) or error.reason != "ANSWER_TOO_LARGE":
            raise
        fault = Fault(code=error.reason, message=error.message)
    settled = await turn.answer_model(
        step, attempt, ModelFailure(error=fault, final=True), usage=usage
    )
    _next(ModelFailure(error=fault, final=True), settled)
    return settled


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


def _taken(settled: AnsweredModel) -> bool:
    """Whether an answer became the record. Raises PawlError if nobody waits for it."""
    if settled.disposition is Disposition.IGNORED_TERMINAL:
        raise RunTerminalError("the run has ended", reason="RUN_TERMINAL")
    if settled.disposition is Disposition.IGNORED_STALE:
        raise TurnStaleError("the execution is over", reason="TURN_STALE")
    return True


def _next(came: ModelAnswer | ModelFailure, settled: AnsweredModel) -> int:
    """The attempt that follows a failure. Raises PawlError if there is none."""
    _taken(settled)
    if isinstance(came, ModelFailure) and not settled.next:
        error = came.error
        raise FailTurnError(error.code, error.message, retryable=not came.final)
    return settled.next


def _until(moment: datetime) -> float:
    return max(0.0, (moment - datetime.now(timezone.utc)).total_seconds())

"""Turns executed by a model, each of whose answers is a record."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from pawl._async_turn import AsyncTurn
from pawl._awaiting import closing, limited, sleep
from pawl._dialect import (
    Ask,
    Dialect,
    Draft,
    broken,
    discreet,
    failure_of,
    is_final,
    limits_of,
    patience,
    sound,
    unusable,
)
from pawl._enums import Disposition, StepStatus
from pawl._errors import FailTurnError, LimitError, RequestError, RunTerminalError, TurnStaleError
from pawl._model_calls import AnsweredModel, RequestedModel
from pawl._models import ModelAnswer, ModelFailure, ProviderLimits
from pawl._outcomes import Reply
from pawl._runs import Step
from pawl._talk import Heard, Manner, Talk
from pawl._values import Fault, Usage


class AsyncModelHandler:
    """A turn handler whose turns a model executes, by a provider's own package.

    `max_rounds` bounds the answers of one turn; the pack's tool_policy.max_rounds may lower
    it. `chat`: text that does not leave the state is an answer to the person, and the run
    waits for the next input; the model can ask too. None: in states of orchestration hybrid
    or external. `response_schema` is a JSON Schema of the texts that are an answer, which are
    JSON then, in states without a way out and with `chat`. `extra` are further arguments of
    the provider's call.

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
        chat: bool | None,
        response_schema: Mapping[str, Any] | None,
        extra: Mapping[str, Any] | None,
    ) -> None:
        given = dict(extra or {})
        for name in dialect.said:
            if name in given:
                raise ValueError(f"extra.{name}: the handler says it")
        if response_schema is not None and dialect.formats in given:
            raise ValueError(f"response_schema: extra has {dialect.formats} as well")
        self._client, self._dialect = client, dialect
        self._manner = Manner(
            model=model, max_rounds=max_rounds, chat=chat, schema=response_schema, extra=given
        )
        dialect.create(client)

    async def __call__(self, turn: AsyncTurn) -> Reply:
        """Executes one turn."""
        talk = Talk(turn, self._manner)
        while talk.reply is None:
            calls = talk.heard(await _Round(self._client, self._dialect, turn, talk).heard())
            if calls:
                talk.answered(calls, await turn.calls(calls))
        return talk.reply


@dataclass(frozen=True, slots=True, kw_only=True)
class _Came:
    """What came of a call, and what it consumed. `fetch`: the response that is made without
    anybody listening, which the next attempt has to fetch; empty: it asks anew."""

    outcome: ModelAnswer | ModelFailure
    usage: Usage
    fetch: str = ""
    shown: int = 0
    """Bytes of it that were shown."""
    limits: ProviderLimits | None = None
    """What the provider told of its own."""


_RECORDED = -1
"""In place of an attempt: somebody told the answer before."""


class _Round:
    """One round of a turn: the record, else the model."""

    def __init__(self, client: Any, dialect: Dialect, turn: AsyncTurn, talk: Talk) -> None:
        self._client, self._dialect, self._turn, self._talk = client, dialect, turn, talk
        self._request, self._bound = talk.request(), talk.bound()
        self._most = self._reserved = 0
        self._heeded: set[int] = set()
        self._grown = False
        """The request has something, as it was asked for last, that it had not before."""

    async def _open(self) -> Step:
        asked = await self._turn.request_model(self._talk.round, self._request, bound=self._bound)
        self._most = asked.max_answer_bytes
        fresh = [heed for heed in asked.heeds if heed.seq not in self._heeded]
        self._heeded.update(heed.seq for heed in fresh)
        self._talk.heeds(fresh)
        self._grown = bool(fresh)
        step = _step_of(asked)
        self._reserved = step.model.max_output_tokens if step.model else 0
        return step

    async def heard(self) -> Heard:
        """The answer of the round."""
        step = await self._open()
        self._grown = False  # What it had to contain is asked at once.
        model = step.model
        if step.status is StepStatus.OK and model is not None and model.answer is not None:
            if model.answer.text:
                await self._turn.output(model.answer.text)
            usage = model.usage or Usage()
            return Heard(step=step.step, answer=model.answer, usage=usage, replayed=True)
        if model is not None and model.not_before is not None:
            await sleep(max(0.0, _until(model.not_before)))
        return await self._answer(step)

    async def _answer(self, step: Step) -> Heard:
        """Makes the call until it is answered, or has used up its attempts."""
        allowed = None if step.deadline is None else _allowed(step.deadline)
        attempt, fetch = step.attempt, step.model.response_id if step.model else ""
        while True:
            came = await self._call(step.step, attempt, fetch, allowed)
            attempt, fetch = await self._tell(step.step, attempt, came), came.fetch
            if came.shown and attempt:
                await self._turn.retract_output(came.shown)
            if attempt == _RECORDED:
                return await self.heard()
            if attempt and self._grown:
                fetch, self._grown = "", False  # What is made there is no answer to it.
            if not attempt and isinstance(came.outcome, ModelAnswer):
                answer = came.outcome
                return Heard(step=step.step, answer=answer, usage=came.usage, replayed=False)

    async def _call(self, step: int, attempt: int, fetch: str, allowed: float | None) -> _Came:
        """Makes the call once, or fetches what was made of it."""
        ask = self._talk.ask(self._reserved)
        call = _Call(self._client, self._dialect, self._turn, ask)
        call.most_bytes, call.allowed = self._most, allowed
        outcome = await call.make(step, attempt, fetch)
        if isinstance(outcome, ModelFailure):
            outcome = discreet(self._client, outcome)
        return _Came(
            outcome=outcome,
            usage=call.usage(outcome),
            fetch=call.fetch,
            shown=call.shown,
            limits=call.limits,
        )

    async def _tell(self, step: int, attempt: int, came: _Came) -> int:
        """Tells what came of a call; gives the attempt to make next, 0 after an answer,
        _RECORDED where there is one already."""
        outcome = came.outcome
        try:
            settled = await self._turn.answer_model(
                step, attempt, outcome, usage=came.usage, limits=came.limits
            )
        except (LimitError, RequestError) as refusal:
            outcome = _refused(outcome, refusal)
            settled = await self._turn.answer_model(step, attempt, outcome, usage=came.usage)
        if settled.disposition is Disposition.IGNORED_STALE:
            # The sidecar was away meanwhile, and the turn has another token. What the call
            # consumed was counted before.
            again = await self._open()
            if again.status is not StepStatus.PENDING:
                return _RECORDED
            if self._grown:
                return again.attempt  # The model has not heard what was said meanwhile.
            settled = await self._turn.answer_model(
                again.step, again.attempt, outcome, usage=Usage(counted_before=True)
            )
        _going_on(settled)
        if isinstance(outcome, ModelAnswer):
            return 0
        if not settled.next:
            error = outcome.error
            raise FailTurnError(error.code, error.message, retryable=not outcome.final)
        await sleep(settled.wait.total_seconds() if settled.wait else 0.0)
        return settled.next


class _Call:
    """One call of a model."""

    def __init__(self, client: Any, dialect: Dialect, turn: AsyncTurn, ask: Ask) -> None:
        self.most_bytes = 0
        """What an answer may have; 0: anything."""
        self.allowed: float | None = None
        """Seconds that it may take."""
        self.draft: Draft = dialect.draft()
        self.fetch = ""
        self.shown = 0
        self.limits: ProviderLimits | None = None
        self._client, self._dialect, self._turn = client, dialect, turn
        self._ask, self._begun = ask, False
        self._noted = not dialect.background(self._ask)

    async def make(self, step: int, attempt: int, fetch: str) -> ModelAnswer | ModelFailure:
        """What came of it."""
        try:
            stream = await self._start(fetch)
        except Exception as error:
            # What is made is still there: that it could not be fetched is no reason to pay again.
            self.fetch, self.limits = fetch, limits_of(error)
            return failure_of(error)
        self.limits, self._begun = limits_of(stream), True
        try:
            async with stream:
                outcome = await self._listen(stream, step, attempt)
            self.fetch = self._left(fetch)
            return outcome
        except _BrokenError as error:
            self.fetch = self._left(fetch)
            if isinstance(error.error, TimeoutError):
                return unusable("MODEL_TIMEOUT", f"no whole answer: {error.error}")
            return broken(error.error)

    def usage(self, outcome: ModelAnswer | ModelFailure) -> Usage:
        """What it consumed, as far as that was reported. What the provider was not at work on
        consumed nothing; what is fetched by the next attempt is told with that."""
        late = isinstance(outcome, ModelFailure) and outcome.error.code == "MODEL_TIMEOUT"
        if self.fetch or not (self._begun or late):
            return Usage()
        return self.draft.usage

    def _left(self, fetch: str) -> str:
        """The response that was not heard to its end, and can be fetched."""
        if self.draft.over or not self._dialect.background(self._ask):
            return ""
        return self.draft.response_id or fetch

    async def _start(self, fetch: str) -> Any:
        """The stream of a response that is there, else of a new one."""
        settings = patience(self._client, self.allowed)
        fetching = self._dialect.fetch(self._client) if fetch else None
        if fetching is not None:
            try:
                return await fetching(fetch, **settings)
            except Exception as error:
                if getattr(error, "status_code", None) not in _GONE:
                    raise
        create = self._dialect.create(self._client)
        try:
            return await create(**settings | self._dialect.arguments(self._ask))
        except Exception as error:
            if not self._dialect.another(error, self._ask):
                raise
        return await create(**settings | self._dialect.arguments(self._ask))

    async def _listen(self, stream: Any, step: int, attempt: int) -> ModelAnswer | ModelFailure:
        """Shows the text as it comes in."""
        async with closing(self._texts(stream)) as texts:
            async for text in texts:
                if not self._noted and self.draft.response_id:
                    self._noted = True
                    await self._turn.note_model(step, attempt, self.draft.response_id)
                if self.most_bytes and self.draft.size > self.most_bytes:
                    words = f"the answer has more than {self.most_bytes} bytes"
                    fault = Fault(code="ANSWER_TOO_LARGE", message=words)
                    return ModelFailure(error=fault, final=True)
                if text:
                    await self._turn.output(text)
                    self.shown += len(text.encode(errors="replace"))
        try:
            came = self.draft.end()
            return sound(came) if isinstance(came, ModelAnswer) else came
        except Exception as error:
            raise _BrokenError(error) from error

    async def _texts(self, stream: AsyncIterable[Any]) -> AsyncGenerator[str, None]:
        """What an answer says, piece by piece. All that goes wrong is the endpoint's."""
        try:
            async with closing(limited(stream, self.allowed)) as pieces:
                async for piece in pieces:
                    yield self.draft.take(piece)
        except Exception as error:
            raise _BrokenError(error) from error


_GONE = (400, 404, 410)
"""Statuses of a response that cannot be fetched any more."""


class _BrokenError(Exception):
    """What a stream raised, apart from what showing its text raises."""

    def __init__(self, error: Exception) -> None:
        super().__init__(type(error).__name__)
        self.error = error


def _refused(outcome: ModelAnswer | ModelFailure, error: LimitError | RequestError) -> ModelFailure:
    """The failure of an answer that the sidecar does not take. Raises the error of another."""
    if isinstance(outcome, ModelFailure):
        raise error
    if isinstance(error, RequestError):
        return unusable("ANSWER_INVALID", error.message)
    if error.reason != "ANSWER_TOO_LARGE":
        raise error
    return ModelFailure(error=Fault(code=error.reason, message=error.message), final=True)


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


def _going_on(settled: AnsweredModel) -> None:
    """Raises PawlError if nobody waits for what was told."""
    if settled.disposition is Disposition.IGNORED_TERMINAL or settled.ended is not None:
        raise RunTerminalError("the run has ended", reason="RUN_TERMINAL")
    if settled.disposition is Disposition.IGNORED_STALE:
        raise _over()


def _over() -> TurnStaleError:
    return TurnStaleError("the execution is over", reason="TURN_STALE")


def _allowed(deadline: datetime) -> float:
    """Seconds of a call, so that there is time to tell what came of it."""
    left = _until(deadline)
    return max(0.001, left - min(1.0, left / 10))


def _until(moment: datetime) -> float:
    return (moment - datetime.now(timezone.utc)).total_seconds()

"""The turn of a handler that is a coroutine function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, cast

from pawl_client._errors import LimitError
from pawl_client._model_calls import AnsweredModel, RequestedModel
from pawl_client._models import ModelAnswer, ModelFailure, ModelRequest, ProviderLimits
from pawl_client._runs import StepOutcome
from pawl_client._turn_requests import StepCall
from pawl_client._turn_view import TurnView, fewer
from pawl_client._types import AsyncStepsT, ReadT, WrittenT
from pawl_client._values import Json, OutputPiece, Usage


class AsyncTurn(TurnView[ReadT], ABC, Generic[AsyncStepsT, WrittenT, ReadT]):
    """A turn for a handler that is a coroutine function.

    Its parameters say how `step` is called, what `set_artifacts` takes and what `variables`
    are; `pawl codegen` makes them of a pack.
    """

    @property
    def step(self) -> AsyncStepsT:
        """Makes a durable tool call through the sidecar and returns its result:
        `step(tool, payload, *, key="", reframe=False, timeout=None)`.

        The call is recorded before it is made. If this turn is executed again, the
        same key gives the recorded answer and no tool runs twice. `key` is by default
        the ordinal of the call in this execution, so a handler must ask for its calls
        in the same order each time, or name its keys. `timeout` is in seconds; None
        waits as long as the step's own deadline.

        Raises SchemaError (payload), StepDeniedError, StepFailedError,
        StepCancelledError, StepMismatchError, DeadlineError; and SuspendTurn, which is
        no error, in a worker with `suspend_after`.
        """
        return cast("AsyncStepsT", self._step)

    async def calls(self, calls: Sequence[StepCall]) -> tuple[StepOutcome, ...]:
        """Makes several durable tool calls at the same time, as many as the run may have
        pending; returns what became of each, in order: its step once it is answered, or its
        denial. For those that a model asked for (`StepCall.call`), in one commit. Errors as
        of `step`, except that a tool's own error is in its step.
        """
        done: list[StepOutcome] = []
        calls = [self._keyed(call) for call in calls]
        batch_size = len(calls)
        while len(done) < len(calls):
            batch = calls[len(done) : len(done) + batch_size]
            try:
                done += await self._request_batch(batch)
            except LimitError as error:
                batch_size = fewer(len(batch), error)
        return tuple(done)

    @abstractmethod
    async def _request_batch(self, calls: Sequence[StepCall]) -> Sequence[StepOutcome]: ...

    @abstractmethod
    async def request_model(
        self, round: int, request: ModelRequest, *, bound: Usage | None = None, key: str = ""
    ) -> RequestedModel:
        """Asks for the call of a model: the `round` of this turn, from 1. What was answered
        before is answered from the record. See docs/guides/models.md.

        Raises RunTerminalError, TurnStaleError, LimitError, StateError.
        """

    @abstractmethod
    async def answer_model(
        self,
        step: int,
        attempt: int,
        outcome: ModelAnswer | ModelFailure,
        *,
        usage: Usage | None = None,
        limits: ProviderLimits | None = None,
    ) -> AnsweredModel:
        """Tells what came of the call of a model, and what it consumed. Raises LimitError
        (ANSWER_TOO_LARGE), ConflictError (ANSWER_CONFLICT)."""

    @abstractmethod
    async def update_model_call(self, step: int, attempt: int, response_id: str) -> None:
        """Keeps the provider's id of a response that is being made."""

    @abstractmethod
    async def _step(
        self,
        tool: str,
        payload: Mapping[str, Json] | None = None,
        *,
        key: str = "",
        reframe: bool = False,
        timeout: float | None = None,
    ) -> Json:
        """What `step` is."""

    @abstractmethod
    async def set_artifacts(self, artifacts: WrittenT) -> None:
        """Writes artifacts in the midst of the turn; durable when it returns."""

    @abstractmethod
    async def output(self, text: str, *, durable: bool = False) -> None:
        """Shows a piece of output to those who read `Run.output`. Not a record: the final
        output is that of the reply. In a run that the caller drives it does nothing.

        `durable`: it is a record as well, and senders of A2A messages see it at once, as a
        further part of the artifact `output` of their task, which the reply's output
        replaces in the end. One commit a call: for sentences, not for tokens."""

    @abstractmethod
    async def reasoning(self, text: str) -> None:
        """Shows a piece of what the model thinks, as `output` shows what it says: in order with
        it, marked, and no part of the turn's output. No record."""

    @abstractmethod
    async def retract_output(self, size: int) -> None:
        """Takes back the last `size` bytes (UTF-8) of what `output` and `reasoning` showed, whole
        pieces: those who watch forget all of the turn, and are shown again what is left. What is
        a record stays."""

    @abstractmethod
    async def write_output(self, piece: OutputPiece) -> None:
        """Keeps a piece of output as a record, durable when it returns. Senders of A2A
        messages see it at once, as part of the artifact `piece.id` of their task. A turn
        that is executed again begins by replacing what it wrote (`append=False`)."""

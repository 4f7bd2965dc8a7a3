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
from pawl_client._values import ArtifactLike, Json, OutputPiece, Usage


class AsyncTurn(TurnView[ReadT], ABC, Generic[AsyncStepsT, WrittenT, ReadT]):
    """A turn for a handler that is a coroutine function.

    Its type parameters are the type of `step`, what `set_artifacts` accepts, and the type of
    `variables`; `pawl codegen` generates them from a pack.
    """

    @property
    def step(self) -> AsyncStepsT:
        """Makes a durable tool call through the sidecar and returns its result.

            step(tool, payload, *, key="", reframe=False, timeout=None)

        The call is recorded before it is made. If this turn is executed again, the same key returns
        the recorded answer, and no tool runs twice. `key` defaults to the ordinal of the call in
        this execution: a handler must make its calls in the same order each time, or name their
        keys. `timeout` is in seconds; None waits until the step's own deadline.

        Raises SchemaError (payload), StepRefusedError (a policy or a limit), StepDeniedError (a
        person), StepFailedError, StepCancelledError, StepMismatchError, DeadlineError. In a worker
        with `suspend_after` it also raises SuspendTurn, which is no error. In a run that a client
        drives it raises HandlerError (NO_HANDLER) for a tool that is neither in `tools` nor in
        `worker_tools`.
        """
        return cast("AsyncStepsT", self._step)

    async def calls(self, calls: Sequence[StepCall]) -> tuple[StepOutcome, ...]:
        """Makes several durable tool calls at the same time and returns their outcomes, in order.

        An outcome is the answered step or the denial. As many calls are pending at once as the run
        permits. Calls that a model requested (`StepCall.call`) are requested in one commit. Errors
        are those of `step`, except that a tool's own error is in its step.
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
        """Requests a model call: the `round` of this turn, from 1.

        A round that was answered before returns its recorded answer. See docs/guides/models.md.

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
        """Reports the answer or the failure of a model call, and its usage.

        Raises LimitError (ANSWER_TOO_LARGE), ConflictError (ANSWER_CONFLICT).
        """

    @abstractmethod
    async def update_model_call(self, step: int, attempt: int, response_id: str) -> None:
        """Stores the provider's id of a response that is still in progress."""

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
        """Implements `step`."""

    @abstractmethod
    async def artifacts(self) -> Mapping[str, ArtifactLike]:
        """Returns the values of the run's artifacts by name, those of this turn included.

        An artifact that was never written is missing. Each call reads the run. Raises
        PermissionDeniedError for a worker without the scope runs:read.
        """

    @abstractmethod
    async def set_artifacts(self, artifacts: WrittenT) -> None:
        """Writes artifacts during the turn. They are durable when it returns."""

    @abstractmethod
    async def output(self, text: str, *, durable: bool = False) -> None:
        """Shows a piece of output to the readers of the run's events.

        The piece is no record: the reply has the final output.

        `durable`: the piece is also stored as a record, and senders of A2A messages receive it at
        once, as a further part of their task's artifact `output`, which the reply's output finally
        replaces. Each durable piece costs one commit: use it for sentences, not for tokens.
        """

    @abstractmethod
    async def reasoning(self, text: str) -> None:
        """Shows a piece of the model's reasoning, in order with `output` and marked as reasoning.

        It is no part of the turn's output and no record.
        """

    @abstractmethod
    async def retract_output(self, size: int) -> None:
        """Retracts the last `size` bytes (UTF-8) of `output` and `reasoning`, in whole pieces.

        Readers discard the turn's text and receive the remaining pieces again. Records stay.
        """

    @abstractmethod
    async def write_output(self, piece: OutputPiece) -> None:
        """Stores a piece of output as a record; it is durable when the call returns.

        Senders of A2A messages receive it at once, as part of their task's artifact `piece.id`. A
        turn that is executed again begins with `append=False`, which replaces what the earlier
        execution wrote.
        """

"""The turn of a handler that is a coroutine function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic, cast

from pawl._turn_view import TurnView
from pawl._types import AsyncStepsT, ReadT, WrittenT
from pawl._values import Json, OutputPiece


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
    async def write_output(self, piece: OutputPiece) -> None:
        """Keeps a piece of output as a record, durable when it returns. Senders of A2A
        messages see it at once, as part of the artifact `piece.id` of their task. A turn
        that is executed again begins by replacing what it wrote (`append=False`)."""

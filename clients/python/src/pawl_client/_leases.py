"""The turns and steps that a worker holds."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pawl_client import _tool_call, _tracing
from pawl_client._convert import from_proto, instant, parse_json
from pawl_client._errors import SuspendTurn, TurnStaleError
from pawl_client._output_buffer import OutputBuffer
from pawl_client._runs import Step, TurnInfo, TurnRef
from pawl_client._values import Json
from pawl_client.v1 import worker_pb2

if TYPE_CHECKING:
    from pawl_client._served_run import ServedRun


class LeasedWork:
    """A turn or a step that a worker holds. `revoked` is true when the worker has lost it."""

    def __init__(self) -> None:
        self.revoked = False
        self.running: asyncio.Future[Any] | None = None
        self.served: ServedRun | None = None
        """The run of the work, if this client drives the run. Such work does not use the worker's
        capacity.
        """

    def revoke(self) -> None:
        """Stops the work. A coroutine is cancelled; a thread gets an error at its next call."""
        self.revoked = True
        if self.running is not None:
            self.running.cancel()


class LeasedStep(LeasedWork):
    """A step that a worker holds."""

    def __init__(self, assignment: worker_pb2.StepAssignment) -> None:
        super().__init__()
        self.lease = assignment.lease
        self.traceparent = assignment.traceparent
        self.payload: Json = parse_json(assignment.payload_json)
        deadline = assignment.deadline if assignment.HasField("deadline") else None
        self.call = _tool_call.ToolCall(
            run_id=assignment.lease.run_id,
            step=assignment.lease.step,
            tool=assignment.lease.tool,
            attempt=assignment.lease.attempt,
            key=assignment.key,
            idempotency_key=assignment.idempotency_key,
            turn_seq=assignment.turn_seq,
            deadline=None if deadline is None else instant(deadline),
        )

    def enter(self) -> None:
        """Makes the call and its trace the current ones of this context."""
        _tool_call.enter(self.call)
        _tracing.enter(self.traceparent)


class LeasedTurn(LeasedWork):
    """A turn that a worker holds. Its lease changes at each reconnect."""

    def __init__(self, assignment: worker_pb2.TurnAssignment) -> None:
        super().__init__()
        self.lease = assignment.lease
        self.info: TurnInfo = from_proto(assignment.turn)
        self.agent = assignment.agent
        self.traceparent = assignment.traceparent
        self.labels = dict(assignment.labels)
        self.step_requests = 0
        self.last_answer = 0
        """The MODEL step of this execution's last model request, once it is answered."""
        self.output_buffer = OutputBuffer()
        self.output_lock = asyncio.Lock()
        self.step_error: Exception | None = None
        """The last error that `turn.step` raised in this execution."""
        self.written = False
        """True after a piece of its output was recorded."""
        self.suspended = False
        """True after the turn was released. It is assigned again when its steps are answered."""
        self.calls = 0
        """Active calls of the handler; `waiting_calls` of them only wait."""
        self.waiting_calls = 0
        self._answers: dict[int, Step] = {}
        self._changed = asyncio.Event()

    def ref(self) -> TurnRef:
        """Returns the turn with the token of its current lease."""
        return replace(self.info.turn, token=self.lease.token)

    def add_answers(self, steps: list[Step]) -> None:
        """Adds answers to its steps."""
        self._answers.update({step.step: step for step in steps})
        self._changed.set()

    def revoke(self) -> None:
        super().revoke()
        self._changed.set()

    def suspend(self) -> None:
        """Ends all waits for answers; the turn is assigned again when they exist."""
        self.suspended = True
        self._changed.set()

    def check(self) -> None:
        """Raises SuspendTurn or TurnStaleError if the handler must stop."""
        if self.suspended:
            raise SuspendTurn
        if self.revoked:
            raise lease_lost(self)

    async def answer(self, step: Step, timeout: float | None) -> Step | None:
        """Waits up to `timeout` seconds for the answer of a step; None after the timeout.

        Raises TurnStaleError, SuspendTurn.
        """
        loop = asyncio.get_running_loop()
        end = None if timeout is None else loop.time() + timeout
        while step.step not in self._answers:
            self.check()
            self._changed.clear()
            left = None if end is None else end - loop.time()
            try:
                await asyncio.wait_for(self._changed.wait(), left)
            except asyncio.TimeoutError:
                return None
        return self._answers[step.step]


def lease_lost(leased: LeasedTurn) -> TurnStaleError:
    """Returns the error of a turn that the worker has lost."""
    turn = leased.info.turn
    return TurnStaleError(
        f"turn {turn.turn_seq} of {turn.run_id}: this worker has lost its lease",
        reason="TURN_STALE",
    )

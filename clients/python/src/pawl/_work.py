"""The turns and steps that a worker holds."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pawl._convert import from_proto, instant, parse_json
from pawl._enums import StepStatus
from pawl._errors import DeadlineError, PawlError, TurnStaleError
from pawl._flow import new_id
from pawl._operations import StepCall, step_request
from pawl._requests import artifacts as wire_artifacts
from pawl._runs import Step, TurnInfo, TurnRef
from pawl._turn import AsyncTurn, Turn, default_key, denied, result_of
from pawl._values import ArtifactLike, Json
from pawl.v1 import run_pb2, worker_pb2

if TYPE_CHECKING:
    from pawl._worker import Worker

_CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """The tool call that a handler makes now; see `current_call`.

    (run_id, step, attempt) identifies it: use it as idempotency key of what the tool
    does elsewhere. The payload cannot override these.
    """

    run_id: str
    step: int
    tool: str
    attempt: int
    key: str
    turn_seq: int
    deadline: datetime | None


_current: contextvars.ContextVar[ToolCall] = contextvars.ContextVar("pawl_call")


def current_call() -> ToolCall:
    """The tool call that this handler makes. Raises LookupError elsewhere."""
    return _current.get()


class Held:
    """A piece of work that is held. `revoked`: it is not the worker's any more."""

    def __init__(self) -> None:
        self.revoked = False
        self.running: asyncio.Task[Any] | None = None

    def revoke(self) -> None:
        """Stops the work: a coroutine is cancelled; a thread finds out at its next call."""
        self.revoked = True
        if self.running is not None:
            self.running.cancel()


class HeldStep(Held):
    """A step that is held."""

    def __init__(self, assignment: worker_pb2.StepAssignment) -> None:
        super().__init__()
        self.lease = assignment.lease
        self.payload: Json = parse_json(assignment.payload_json)
        deadline = assignment.deadline if assignment.HasField("deadline") else None
        self.call = ToolCall(
            run_id=assignment.lease.run_id,
            step=assignment.lease.step,
            tool=assignment.lease.tool,
            attempt=assignment.lease.attempt,
            key=assignment.key,
            turn_seq=assignment.turn_seq,
            deadline=None if deadline is None else instant(deadline),
        )

    def enter(self) -> None:
        """Makes the call the current one of this context."""
        _current.set(self.call)


class HeldTurn(Held):
    """A turn that is held. Its lease changes when the worker connects again."""

    def __init__(self, assignment: worker_pb2.TurnAssignment) -> None:
        super().__init__()
        self.lease = assignment.lease
        self.info: TurnInfo = from_proto(assignment.turn)
        self.agent = assignment.agent
        self.labels = dict(assignment.labels)
        self.asked = 0
        self.written = 0
        self.showing = asyncio.Lock()
        self._answers: dict[int, Step] = {}
        self._news = asyncio.Event()

    def ref(self) -> TurnRef:
        """The turn with the token of its lease as it is now."""
        return replace(self.info.turn, token=self.lease.token)

    def answered(self, steps: list[Step]) -> None:
        """Takes answers to its steps."""
        self._answers.update({step.step: step for step in steps})
        self._news.set()

    def revoke(self) -> None:
        super().revoke()
        self._news.set()

    async def answer(self, step: Step, timeout: float | None) -> Step:
        """Waits for the answer of a step. Raises DeadlineError, TurnStaleError."""
        loop = asyncio.get_running_loop()
        end = None if timeout is None else loop.time() + timeout
        while step.step not in self._answers:
            if self.revoked:
                raise stale(self)
            self._news.clear()
            left = None if end is None else end - loop.time()
            try:
                await asyncio.wait_for(self._news.wait(), left)
            except asyncio.TimeoutError:
                raise DeadlineError(
                    f"step {step.step} ({step.tool}): no answer within {timeout} s"
                ) from None
        return self._answers[step.step]


def stale(held: HeldTurn) -> TurnStaleError:
    """The turn is not the worker's any more."""
    turn = held.info.turn
    return TurnStaleError(
        f"turn {turn.turn_seq} of {turn.run_id} is not this worker's any more", reason="TURN_STALE"
    )


class WorkTurn(AsyncTurn):
    """A turn for a coroutine handler of a worker."""

    def __init__(self, worker: Worker, held: HeldTurn) -> None:
        super().__init__(held.info, agent=held.agent, labels=held.labels)
        self._worker, self._held = worker, held

    async def step(
        self,
        tool: str,
        payload: Mapping[str, Json] | None = None,
        *,
        key: str = "",
        reframe: bool = False,
        timeout: float | None = None,
    ) -> Json:
        """See `Turn.step`."""
        arguments = dict(payload or {})
        self.check_payload(tool, arguments)
        held, request_id = self._held, new_id()
        held.asked += 1
        call = StepCall(tool, arguments, key or default_key(held.info, held.asked), reframe)
        receipt = await self._worker._ask_turn(
            held,
            lambda: worker_pb2.WorkRequest(
                request_step=step_request("", held.ref(), [call], request_id)
            ),
        )
        outcome = from_proto(receipt.request_step.outcomes[0])
        refused = denied(outcome)
        if refused is not None:
            raise refused
        step: Step = outcome.step
        if step.status is StepStatus.PENDING:
            step = await held.answer(step, timeout)
        return result_of(step)

    async def set_artifacts(self, artifacts: Mapping[str, ArtifactLike]) -> None:
        """See `Turn.set_artifacts`."""
        held, write_id = self._held, new_id()
        writes = wire_artifacts(artifacts, self.artifact_slots)
        await self._worker._ask_turn(
            held,
            lambda: worker_pb2.WorkRequest(
                set_artifacts=run_pb2.SetArtifactsRequest(
                    run_id=self.run_id,
                    artifacts=writes,
                    write_id=write_id,
                    turn_token=held.lease.token,
                )
            ),
        )

    async def output(self, text: str) -> None:
        """See `Turn.output`."""
        async with self._held.showing:
            for piece in _pieces(text):
                await self._show(piece)

    async def _show(self, piece: bytes) -> None:
        """Sends a piece of output behind those before it."""
        held = self._held

        def make() -> worker_pb2.WorkRequest:
            return worker_pb2.WorkRequest(
                output=worker_pb2.WorkerOutput(
                    token=held.lease.token, offset=held.written, text=piece.decode()
                )
            )

        try:
            await self._worker._ask_turn(held, make)
        except PawlError as error:
            if error.reason != "CHUNK_GAP":
                raise
            # A sidecar that was restarted has lost what was shown: its readers are told.
            held.written = error.limit or 0
            await self._worker._ask_turn(held, make)
        held.written += len(piece)


def _pieces(text: str) -> list[bytes]:
    """The text as pieces of at most 64 KiB, none of which splits a character."""
    data, pieces = text.encode(errors="replace"), []
    while data:
        piece = data[:_CHUNK_BYTES].decode(errors="ignore").encode()
        pieces.append(piece)
        data = data[len(piece) :]
    return pieces


class ThreadTurn(Turn):
    """The same turn for a handler that blocks, in a thread of its own."""

    def __init__(self, turn: WorkTurn, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(turn.info, agent=turn.agent, labels=turn.labels)
        self._turn, self._loop = turn, loop

    def step(
        self,
        tool: str,
        payload: Mapping[str, Json] | None = None,
        *,
        key: str = "",
        reframe: bool = False,
        timeout: float | None = None,
    ) -> Json:
        """See `Turn.step`."""
        return self._wait(self._turn.step(tool, payload, key=key, reframe=reframe, timeout=timeout))

    def set_artifacts(self, artifacts: Mapping[str, ArtifactLike]) -> None:
        """See `Turn.set_artifacts`."""
        self._wait(self._turn.set_artifacts(artifacts))

    def output(self, text: str) -> None:
        """See `Turn.output`."""
        self._wait(self._turn.output(text))

    def _wait(self, awaitable: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(awaitable, self._loop).result()


TurnHandler = Callable[[Any], Any]
ToolHandler = Callable[[Any], "Awaitable[Json] | Json"]

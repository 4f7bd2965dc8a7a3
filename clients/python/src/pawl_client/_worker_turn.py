"""The turn as the handlers of a worker see it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from pawl_client._async_io import together
from pawl_client._async_turn import AsyncTurn
from pawl_client._convert import from_proto
from pawl_client._denials import warn_denied
from pawl_client._enums import Disposition, StepStatus
from pawl_client._errors import DeadlineError, PawlError
from pawl_client._flow import check_timeout, new_id
from pawl_client._leases import HeldTurn, stale
from pawl_client._model_calls import AnsweredModel, RequestedModel
from pawl_client._model_requests import (
    answer_model_request,
    request_model_request,
    update_model_call_request,
)
from pawl_client._models import ModelAnswer, ModelFailure, ModelRequest, ProviderLimits
from pawl_client._output_buffer import Piece
from pawl_client._requests import artifacts as wire_artifacts
from pawl_client._runs import Step, StepOutcome
from pawl_client._turn import Turn
from pawl_client._turn_requests import (
    StepCall,
    output_request,
    step_request,
    suspend_request,
)
from pawl_client._turn_view import denied, next_piece, result_of
from pawl_client._values import ArtifactLike, Json, OutputPiece, Usage
from pawl_client._worker_connection import Link
from pawl_client.v1 import run_pb2, worker_pb2

T = TypeVar("T")


class WorkTurn(AsyncTurn):
    """A turn for a coroutine handler. `suspend_after` as for `Worker`."""

    def __init__(self, link: Link, held: HeldTurn, suspend_after: float | None) -> None:
        super().__init__(held.info, agent=held.agent, labels=held.labels)
        self._link, self._held, self._suspend_after = link, held, suspend_after

    async def _step(
        self,
        tool: str,
        payload: Mapping[str, Json] | None = None,
        *,
        key: str = "",
        reframe: bool = False,
        timeout: float | None = None,
    ) -> Json:
        """See `Turn.step`."""
        check_timeout(timeout)
        arguments = dict(payload or {})
        self.check_payload(tool, arguments)
        with self._calling():
            (outcome,) = await self._request([self._keyed(StepCall(tool, arguments, key, reframe))])
            refused = denied(outcome)
            if refused is not None:
                raise refused
            assert outcome.step is not None  # noqa: S101
            return result_of(await self._answer(outcome.step, timeout))

    async def _together(self, calls: Sequence[StepCall]) -> Sequence[StepOutcome]:
        with self._calling():
            outcomes = await self._request(calls)
        return await together([partial(self._finish, outcome) for outcome in outcomes])

    async def _finish(self, outcome: StepOutcome) -> StepOutcome:
        if outcome.step is None:
            return outcome
        with self._calling():
            return replace(outcome, step=await self._answer(outcome.step, None))

    async def request_model(
        self, round: int, request: ModelRequest, *, bound: Usage | None = None, key: str = ""
    ) -> RequestedModel:
        """See `Turn.request_model`."""
        held = self._held
        with self._calling():
            receipt = await self._link.ask_turn(
                held,
                lambda: worker_pb2.WorkRequest(
                    request_model=request_model_request("", held.ref(), round, request, bound, key)
                ),
            )
        asked: RequestedModel = from_proto(receipt.request_model)
        held.last_answer = _answered(asked)
        return asked

    async def answer_model(
        self,
        step: int,
        attempt: int,
        came: ModelAnswer | ModelFailure,
        *,
        usage: Usage | None = None,
        limits: ProviderLimits | None = None,
    ) -> AnsweredModel:
        """See `Turn.answer_model`."""
        held = self._held
        with self._calling():
            receipt = await self._link.ask_turn(
                held,
                lambda: worker_pb2.WorkRequest(
                    answer_model=answer_model_request(
                        "", held.ref(), step, attempt, came, usage, limits
                    )
                ),
            )
        settled: AnsweredModel = from_proto(receipt.answer_model)
        if isinstance(came, ModelAnswer) and settled.disposition is Disposition.ACCEPTED:
            held.last_answer = step
        return settled

    async def update_model_call(self, step: int, attempt: int, response_id: str) -> None:
        """See `Turn.update_model_call`."""
        held = self._held
        with self._calling():
            await self._link.ask_turn(
                held,
                lambda: worker_pb2.WorkRequest(
                    update_model_call=update_model_call_request(
                        "", held.ref(), step, attempt, response_id
                    )
                ),
            )

    async def _request(self, calls: Sequence[StepCall]) -> tuple[StepOutcome, ...]:
        held, request_id = self._held, new_id()
        held.asked += len(calls)
        receipt = await self._link.ask_turn(
            held,
            lambda: worker_pb2.WorkRequest(
                request_step=step_request("", held.ref(), calls, request_id)
            ),
        )
        outcomes = tuple(from_proto(outcome) for outcome in receipt.request_step.outcomes)
        warn_denied(self.info.pack.id, calls, outcomes)
        return outcomes

    async def _answer(self, step: Step, timeout: float | None) -> Step:
        """The step once it is answered; until then the turn may be suspended."""
        if step.status is not StepStatus.PENDING:
            return step
        # Who gives a time means to be told when it is over, not to begin anew.
        pause = self._suspend_after if timeout is None else timeout
        with self._waiting():
            while True:
                answer = await self._held.answer(step, pause)
                if answer is not None:
                    return answer
                if timeout is not None:
                    raise DeadlineError(
                        f"step {step.step} ({step.tool}): no answer within {timeout} s"
                    )
                await self._suspend()

    async def _suspend(self) -> None:
        """Suspends the turn if all that its handler does is to wait for steps."""
        held, request_id = self._held, new_id()
        if held.calls > held.waits:
            return
        try:
            await self._link.ask_turn(
                held,
                lambda: worker_pb2.WorkRequest(
                    suspend_turn=suspend_request("", held.ref(), request_id)
                ),
            )
        except PawlError as error:
            if error.reason != "NOTHING_PENDING":  # The answers are on their way here.
                raise
        else:
            held.suspend()

    async def set_artifacts(self, artifacts: Mapping[str, ArtifactLike]) -> None:
        """See `Turn.set_artifacts`."""
        held, write_id = self._held, new_id()
        writes = wire_artifacts(artifacts, self.artifact_slots)
        with self._calling():
            await self._link.ask_turn(
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

    async def output(self, text: str, *, durable: bool = False) -> None:
        """See `Turn.output`."""
        held = self._held
        if durable:
            first, held.written = not held.written, True
            await self.write_output(next_piece(text, first=first))
        held.shown.add(text, reasoning=False)
        await self._show()

    async def reasoning(self, text: str) -> None:
        """See `Turn.reasoning`."""
        self._held.shown.add(text, reasoning=True)
        await self._show()

    async def retract_output(self, size: int) -> None:
        """See `Turn.retract_output`."""
        self._held.shown.retract(size)
        await self._show()

    async def write_output(self, piece: OutputPiece) -> None:
        """See `Turn.write_output`."""
        held, request_id = self._held, new_id()
        with self._calling():
            await self._link.ask_turn(
                held,
                lambda: worker_pb2.WorkRequest(
                    write_output=output_request("", held.ref(), piece, request_id)
                ),
            )

    async def _show(self) -> None:
        """Sends what was shown and not sent yet."""
        held = self._held
        with self._calling():
            async with held.showing:
                while (piece := held.shown.next()) is not None:
                    await self._send(piece)

    async def _send(self, piece: Piece) -> None:
        held = self._held

        def make() -> worker_pb2.WorkRequest:
            output = worker_pb2.WorkerOutput(
                token=held.lease.token,
                offset=piece.offset,
                text=piece.text,
                reset=piece.reset,
                reasoning=piece.reasoning,
            )
            return worker_pb2.WorkRequest(output=output)

        try:
            await self._link.ask_turn(held, make)
        except PawlError as error:
            if error.reason != "CHUNK_GAP":
                raise
            held.shown.again(error.limit or 0)
        else:
            held.shown.sent(piece)

    @contextlib.contextmanager
    def _calling(self) -> Iterator[None]:
        self._held.check()
        self._held.calls += 1
        try:
            yield
        finally:
            self._held.calls -= 1

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        self._held.waits += 1
        try:
            yield
        finally:
            self._held.waits -= 1


class ThreadTurn(Turn):
    """The same turn for a handler that blocks, in a thread of its own."""

    def __init__(self, turn: WorkTurn, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(turn.info, agent=turn.agent, labels=turn.labels)
        self._turn, self._loop = turn, loop

    def _step(
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

    def _keyed(self, call: StepCall) -> StepCall:
        return self._turn._keyed(call)

    def _together(self, calls: Sequence[StepCall]) -> Sequence[StepOutcome]:
        return self._wait(self._turn._together(calls))

    def request_model(
        self, round: int, request: ModelRequest, *, bound: Usage | None = None, key: str = ""
    ) -> RequestedModel:
        """See `Turn.request_model`."""
        return self._wait(self._turn.request_model(round, request, bound=bound, key=key))

    def answer_model(
        self,
        step: int,
        attempt: int,
        came: ModelAnswer | ModelFailure,
        *,
        usage: Usage | None = None,
        limits: ProviderLimits | None = None,
    ) -> AnsweredModel:
        """See `Turn.answer_model`."""
        return self._wait(self._turn.answer_model(step, attempt, came, usage=usage, limits=limits))

    def update_model_call(self, step: int, attempt: int, response_id: str) -> None:
        """See `Turn.update_model_call`."""
        self._wait(self._turn.update_model_call(step, attempt, response_id))

    def set_artifacts(self, artifacts: Mapping[str, ArtifactLike]) -> None:
        """See `Turn.set_artifacts`."""
        self._wait(self._turn.set_artifacts(artifacts))

    def output(self, text: str, *, durable: bool = False) -> None:
        """See `Turn.output`."""
        self._wait(self._turn.output(text, durable=durable))

    def reasoning(self, text: str) -> None:
        """See `Turn.reasoning`."""
        self._wait(self._turn.reasoning(text))

    def retract_output(self, size: int) -> None:
        """See `Turn.retract_output`."""
        self._wait(self._turn.retract_output(size))

    def write_output(self, piece: OutputPiece) -> None:
        """See `Turn.write_output`."""
        self._wait(self._turn.write_output(piece))

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:  # The worker has ended; this thread outlived it.
            coroutine.close()
            raise stale(self._turn._held) from None
        return future.result()


def _answered(asked: RequestedModel) -> int:
    """The step of a round that was answered before; 0: it was not."""
    step = asked.step
    return step.step if step is not None and step.status is StepStatus.OK else 0

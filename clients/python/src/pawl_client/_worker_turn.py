"""The turn that a worker's handler receives."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from pawl_client._async_io import run_all
from pawl_client._async_turn import AsyncTurn
from pawl_client._convert import from_proto
from pawl_client._denials import warn_denied
from pawl_client._enums import Disposition, StepStatus
from pawl_client._errors import DeadlineError, HandlerError, PawlError
from pawl_client._flow import check_timeout, new_id
from pawl_client._leases import LeasedTurn, lease_lost
from pawl_client._model_calls import AnsweredModel, RequestedModel
from pawl_client._models import ModelAnswer, ModelFailure, ModelRequest, ProviderLimits
from pawl_client._outcomes import values_of
from pawl_client._output_buffer import Piece
from pawl_client._requests import artifacts as wire_artifacts
from pawl_client._runs import Step, StepOutcome
from pawl_client._turn import Turn
from pawl_client._turn_requests import (
    StepCall,
    answer_model_request,
    output_request,
    request_model_request,
    step_request,
    suspend_request,
    update_model_call_request,
)
from pawl_client._turn_view import denied, next_piece, payload_of, result_of
from pawl_client._values import ArtifactLike, Json, OutputPiece, Usage
from pawl_client._worker_connection import WorkerConnection
from pawl_client.v1 import run_pb2, worker_pb2

T = TypeVar("T")


class WorkerTurn(AsyncTurn):
    """A turn for a coroutine handler. `suspend_after` is that of `Worker`."""

    def __init__(
        self, connection: WorkerConnection, leased: LeasedTurn, suspend_after: float | None
    ) -> None:
        super().__init__(leased.info, agent=leased.agent, labels=leased.labels)
        self._connection, self._leased, self._suspend_after = connection, leased, suspend_after

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
        try:
            arguments = payload_of(tool, payload)
            self.check_payload(tool, arguments)
            return await self._result(self._keyed(StepCall(tool, arguments, key, reframe)), timeout)
        except Exception as error:
            self._leased.step_error = error
            raise

    async def _result(self, call: StepCall, timeout: float | None) -> Json:
        """Makes a call and returns its result. Raises the error of a refused or failed step."""
        with self._calling():
            (outcome,) = await self._request([call])
            refused = denied(outcome)
            if refused is not None:
                raise refused
            assert outcome.step is not None  # noqa: S101
            return result_of(await self._answer(outcome.step, timeout))

    async def _request_batch(self, calls: Sequence[StepCall]) -> Sequence[StepOutcome]:
        with self._calling():
            outcomes = await self._request(calls)
        return await run_all([partial(self._finish, outcome) for outcome in outcomes])

    async def _finish(self, outcome: StepOutcome) -> StepOutcome:
        if outcome.step is None:
            return outcome
        with self._calling():
            return replace(outcome, step=await self._answer(outcome.step, None))

    async def request_model(
        self, round: int, request: ModelRequest, *, bound: Usage | None = None, key: str = ""
    ) -> RequestedModel:
        """See `Turn.request_model`."""
        leased = self._leased
        with self._calling():
            receipt = await self._connection.request_for_turn(
                leased,
                lambda: worker_pb2.WorkRequest(
                    request_model=request_model_request(
                        "", leased.ref(), round, request, bound, key
                    )
                ),
            )
        asked: RequestedModel = from_proto(receipt.request_model)
        leased.last_answer = _answered_step(asked)
        return asked

    async def answer_model(
        self,
        step: int,
        attempt: int,
        outcome: ModelAnswer | ModelFailure,
        *,
        usage: Usage | None = None,
        limits: ProviderLimits | None = None,
    ) -> AnsweredModel:
        """See `Turn.answer_model`."""
        leased = self._leased
        with self._calling():
            receipt = await self._connection.request_for_turn(
                leased,
                lambda: worker_pb2.WorkRequest(
                    answer_model=answer_model_request(
                        "", leased.ref(), step, attempt, outcome, usage, limits
                    )
                ),
            )
        settled: AnsweredModel = from_proto(receipt.answer_model)
        if isinstance(outcome, ModelAnswer) and settled.disposition is Disposition.ACCEPTED:
            leased.last_answer = step
        return settled

    async def update_model_call(self, step: int, attempt: int, response_id: str) -> None:
        """See `Turn.update_model_call`."""
        leased = self._leased
        with self._calling():
            await self._connection.request_for_turn(
                leased,
                lambda: worker_pb2.WorkRequest(
                    update_model_call=update_model_call_request(
                        "", leased.ref(), step, attempt, response_id
                    )
                ),
            )

    async def _request(self, calls: Sequence[StepCall]) -> tuple[StepOutcome, ...]:
        leased, request_id = self._leased, new_id()
        leased.step_requests += len(calls)
        receipt = await self._connection.request_for_turn(
            leased,
            lambda: worker_pb2.WorkRequest(
                request_step=step_request("", leased.ref(), calls, request_id)
            ),
        )
        outcomes = tuple(from_proto(outcome) for outcome in receipt.request_step.outcomes)
        warn_denied(self.info.pack.id, calls, outcomes)
        for outcome in outcomes:
            if outcome.step is not None:
                self._check_executed(outcome.step)
        return outcomes

    def _check_executed(self, step: Step) -> None:
        """Raises HandlerError (NO_HANDLER) for a pending step that the run's program serves
        neither itself nor by workers; in a worker it only warns.
        """
        if step.status is not StepStatus.PENDING or step.delegation or step.by_caller:
            return
        served = self._leased.served
        if served is None:
            self._connection.warn_not_executed(self.info.pack.id, step.tool)
        elif not served.executes(step.tool):
            names = ", ".join(sorted(served.handlers.tools)) or "none"
            raise HandlerError(
                f"tool {step.tool!r} has no function here; functions: {names}. Pass one in tools=, "
                f"or name the tool in worker_tools= if a worker executes it",
                reason="NO_HANDLER",
            )

    async def _answer(self, step: Step, timeout: float | None) -> Step:
        """Waits for the answer of a step. Meanwhile the turn may be suspended."""
        if step.status is not StepStatus.PENDING:
            return step
        # A handler that gives a timeout expects DeadlineError, not a new execution.
        pause = self._suspend_after if timeout is None else timeout
        with self._waiting():
            while True:
                answer = await self._leased.answer(step, pause)
                if answer is not None:
                    return answer
                if timeout is not None:
                    raise DeadlineError(
                        f"step {step.step} ({step.tool}): no answer within {timeout} s"
                    )
                await self._suspend()

    async def _suspend(self) -> None:
        """Suspends the turn if its handler only waits for steps."""
        leased, request_id = self._leased, new_id()
        if leased.calls > leased.waiting_calls:
            return
        try:
            await self._connection.request_for_turn(
                leased,
                lambda: worker_pb2.WorkRequest(
                    suspend_turn=suspend_request("", leased.ref(), request_id)
                ),
            )
        except PawlError as error:
            if error.reason != "NOTHING_PENDING":  # With this reason the answers will arrive.
                raise
        else:
            leased.suspend()

    async def set_artifacts(self, artifacts: Mapping[str, ArtifactLike]) -> None:
        """See `Turn.set_artifacts`."""
        leased, write_id = self._leased, new_id()
        writes = wire_artifacts(artifacts, self.artifact_slots)
        with self._calling():
            await self._connection.request_for_turn(
                leased,
                lambda: worker_pb2.WorkRequest(
                    set_artifacts=run_pb2.SetArtifactsRequest(
                        run_id=self.run_id,
                        artifacts=writes,
                        write_id=write_id,
                        turn_token=leased.lease.token,
                    )
                ),
            )

    async def artifacts(self) -> Mapping[str, ArtifactLike]:
        """See `Turn.artifacts`."""
        with self._calling():
            snapshot = await self._connection.snapshot(self._leased.lease.run_id)
        return values_of(snapshot.artifacts)

    async def output(self, text: str, *, durable: bool = False) -> None:
        """See `Turn.output`."""
        leased = self._leased
        if durable:
            first, leased.written = not leased.written, True
            await self.write_output(next_piece(text, first=first))
        leased.output_buffer.add(text, reasoning=False)
        await self._show()

    async def reasoning(self, text: str) -> None:
        """See `Turn.reasoning`."""
        self._leased.output_buffer.add(text, reasoning=True)
        await self._show()

    async def retract_output(self, size: int) -> None:
        """See `Turn.retract_output`."""
        self._leased.output_buffer.retract(size)
        await self._show()

    async def write_output(self, piece: OutputPiece) -> None:
        """See `Turn.write_output`."""
        leased, request_id = self._leased, new_id()
        with self._calling():
            await self._connection.request_for_turn(
                leased,
                lambda: worker_pb2.WorkRequest(
                    write_output=output_request("", leased.ref(), piece, request_id)
                ),
            )

    async def _show(self) -> None:
        """Sends the output that was not sent yet."""
        leased = self._leased
        with self._calling():
            async with leased.output_lock:
                while (piece := leased.output_buffer.next()) is not None:
                    await self._send(piece)

    async def _send(self, piece: Piece) -> None:
        leased = self._leased

        def make() -> worker_pb2.WorkRequest:
            output = worker_pb2.WorkerOutput(
                token=leased.lease.token,
                offset=piece.offset,
                text=piece.text,
                reset=piece.reset,
                reasoning=piece.reasoning,
            )
            return worker_pb2.WorkRequest(output=output)

        try:
            await self._connection.request_for_turn(leased, make)
        except PawlError as error:
            if error.reason != "CHUNK_GAP":
                raise
            leased.output_buffer.resend_from(error.limit or 0)
        else:
            leased.output_buffer.mark_sent(piece)

    @contextlib.contextmanager
    def _calling(self) -> Iterator[None]:
        self._leased.check()
        self._leased.calls += 1
        try:
            yield
        finally:
            self._leased.calls -= 1

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        self._leased.waiting_calls += 1
        try:
            yield
        finally:
            self._leased.waiting_calls -= 1


class ThreadTurn(Turn):
    """The same turn for a blocking handler in a thread."""

    def __init__(self, turn: WorkerTurn, loop: asyncio.AbstractEventLoop) -> None:
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

    def _request_batch(self, calls: Sequence[StepCall]) -> Sequence[StepOutcome]:
        return self._wait(self._turn._request_batch(calls))

    def request_model(
        self, round: int, request: ModelRequest, *, bound: Usage | None = None, key: str = ""
    ) -> RequestedModel:
        """See `Turn.request_model`."""
        return self._wait(self._turn.request_model(round, request, bound=bound, key=key))

    def answer_model(
        self,
        step: int,
        attempt: int,
        outcome: ModelAnswer | ModelFailure,
        *,
        usage: Usage | None = None,
        limits: ProviderLimits | None = None,
    ) -> AnsweredModel:
        """See `Turn.answer_model`."""
        return self._wait(
            self._turn.answer_model(step, attempt, outcome, usage=usage, limits=limits)
        )

    def update_model_call(self, step: int, attempt: int, response_id: str) -> None:
        """See `Turn.update_model_call`."""
        self._wait(self._turn.update_model_call(step, attempt, response_id))

    def artifacts(self) -> Mapping[str, ArtifactLike]:
        """See `Turn.artifacts`."""
        return self._wait(self._turn.artifacts())

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
        except RuntimeError:  # The worker ended before this thread.
            coroutine.close()
            raise lease_lost(self._turn._leased) from None
        return future.result()


def _answered_step(asked: RequestedModel) -> int:
    """Returns the step of a round that was answered before; 0 if it was not."""
    step = asked.step
    return step.step if step is not None and step.status is StepStatus.OK else 0

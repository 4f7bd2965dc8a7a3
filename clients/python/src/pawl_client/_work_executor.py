"""Executes the turns and steps that a sidecar assigns over a worker's stream."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable, Coroutine
from typing import Any

from pawl_client._convert import from_proto
from pawl_client._errors import PawlError, StateError
from pawl_client._handler_runner import HandlerRunner
from pawl_client._handlers import Handlers
from pawl_client._leases import LeasedStep, LeasedTurn, LeasedWork, lease_lost
from pawl_client._served_run import ServedRun
from pawl_client._settings import Settings
from pawl_client._step_execution import StepExecution
from pawl_client._turn_execution import TurnExecution
from pawl_client._worker_connection import WorkerConfig, WorkerConnection
from pawl_client.v1 import worker_pb2

GRACE_SECONDS = 5.0
"""Seconds that handlers, tools and releases have to end when runs are abandoned."""


class WorkExecutor:
    """Executes the turns and steps of the handlers and of the served runs. Belongs to one
    event loop.
    """

    def __init__(
        self,
        settings: Settings,
        config: WorkerConfig,
        handlers: Handlers,
        *,
        handler_timeout: float | None = None,
        suspend_after: float | None = None,
        on_error: Callable[[BaseException], None] | None = None,
    ) -> None:
        self.connection = WorkerConnection(settings, config, self._on_message, self._on_disconnect)
        self._handlers, self._suspend_after = handlers, suspend_after
        self._connect_timeout = settings.retry_for
        self._runner = HandlerRunner(config.worker_id, handler_timeout, on_error)
        self._tasks: dict[asyncio.Task[None], LeasedWork] = {}
        self.releases: dict[str, asyncio.Task[None]] = {}
        """Active releases, by run."""

    async def run(self) -> None:
        """Connects and executes, and reconnects. Raises PawlError if the sidecar refuses the worker
        for good.
        """
        names = (self._handlers.prompts, self._handlers.agents, self._handlers.tools)
        await self.connection.run(*(sorted(kind) for kind in names))

    async def serve(self, served: ServedRun) -> None:
        """Executes a run until it ends or waits for an outside input.

        Raises StateError (RUN_DRIVEN: this client drives it already), the error by which the
        sidecar refuses the run, or the error given to `ServedRun.fail`.
        """
        while (release := self.releases.get(served.run_id)) is not None:
            await asyncio.wait({release})
        if served.run_id in self.connection.served:
            raise StateError(
                f"run {served.run_id} is driven by this client already; wait for that call",
                reason="RUN_DRIVEN",
            )
        self.connection.served[served.run_id] = served
        request: asyncio.Future[Any] = asyncio.ensure_future(self.connection.serve(served))
        try:
            await asyncio.wait({request, served.over}, return_when=asyncio.FIRST_COMPLETED)
            if request.done():
                request.result()
            await served.over
            # The outcome of the last turn is not known yet.
            if turns := self._turns_of(served, revoked=False):
                await asyncio.wait(turns)
        except BaseException:
            self._give_up(served)
            # The next drive of the run must not overlap with its handler. A thread cannot be
            # stopped, and its answer is ignored.
            turns = self._turns_of(served, revoked=True)
            if coroutines := {task for task in turns if self._tasks[task].running is not None}:
                await asyncio.wait(coroutines, timeout=GRACE_SECONDS)
            raise
        finally:
            request.cancel()
            del self.connection.served[served.run_id]

    def _give_up(self, served: ServedRun) -> None:
        """Releases the run to other executors and stops its turn. Its tools may finish and
        report.
        """
        for turn in self.connection.turns.values():
            if turn.served is served:
                turn.revoke()
        release = asyncio.create_task(self.connection.release(served.run_id))
        self.releases[served.run_id] = release
        release.add_done_callback(lambda _: self.releases.pop(served.run_id))

    def _turns_of(self, served: ServedRun, *, revoked: bool) -> set[asyncio.Task[None]]:
        return {
            task
            for task, leased in self._tasks.items()
            if leased.served is served
            and isinstance(leased, LeasedTurn)
            and leased.revoked is revoked
        }

    def _on_disconnect(self, error: PawlError) -> None:
        """Fails runs that no sidecar has accepted within the time for which a call is repeated."""
        for served in list(self.connection.served.values()):
            if not served.accepted and time.monotonic() - served.since > self._connect_timeout:
                served.fail(error)

    async def drain(self, timeout: float) -> None:
        """Takes no more work, and lets active work finish within `timeout` seconds."""
        await self.connection.send_if_connected(
            worker_pb2.WorkRequest(drain=worker_pb2.WorkerDrain())
        )
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=timeout)
        for token in list(self.connection.turns):
            await self.connection.send_if_connected(
                worker_pb2.WorkRequest(release=worker_pb2.WorkRelease(turn_token=token))
            )

    async def finish_reports(self) -> None:
        """Waits up to `GRACE_SECONDS` until running tools have reported their results and pending
        releases are received. A tool call without a report may be made again."""
        steps = {task for task, leased in self._tasks.items() if isinstance(leased, LeasedStep)}
        if pending := steps | set(self.releases.values()):
            await asyncio.wait(pending, timeout=GRACE_SECONDS)

    async def close(self) -> None:
        """Ends all active work."""
        self.connection.end()
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        self._runner.close()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Messages of the sidecar

    def _on_message(self, response: worker_pb2.WorkResponse) -> None:
        item = response.WhichOneof("item")
        if item == "turn":
            self._start_turn(LeasedTurn(response.turn))
        elif item == "step":
            self._start_step(LeasedStep(response.step))
        elif item == "revoked":
            leased = self._leased(response.revoked)
            if leased is not None:
                leased.revoke()
                self._on_lease_expired(leased, response.revoked.cause)
        elif item == "step_answers":
            self._on_step_answers(response.step_answers)
        elif item == "run_unserved":
            served = self.connection.served.get(response.run_unserved.run_id)
            if served is not None:
                served.on_unserved(response.run_unserved.cause)

    def _start_turn(self, leased: LeasedTurn) -> None:
        served = self.connection.served.get(leased.lease.run_id)
        if served is not None:
            leased.served = served
            served.turn_began(leased.lease.turn_seq)
        elif not (self._handlers.prompts or self._handlers.agents):
            # The run was abandoned.
            self._return(worker_pb2.WorkRelease(turn_token=leased.lease.token))
            return
        self.connection.hold(leased)
        handlers = served.handlers if served else self._handlers
        execution = TurnExecution(
            self.connection, handlers, self._runner, leased, self._suspend_after
        )
        self._spawn(execution.execute(), leased)

    def _return(self, release: worker_pb2.WorkRelease) -> None:
        self.connection.post(worker_pb2.WorkRequest(release=release))

    def _start_step(self, leased: LeasedStep) -> None:
        served = self.connection.served.get(leased.lease.run_id)
        if served is not None and served.handlers.of_tool(leased.call.tool) is None:
            served = None
        if served is None and not self._handlers.tools:
            self._return(worker_pb2.WorkRelease(step_token=leased.lease.token))
            return
        leased.served = served
        self.connection.steps[leased.lease.token] = leased
        handlers = served.handlers if served else self._handlers
        self._spawn(
            StepExecution(self.connection, handlers, self._runner, leased).execute(), leased
        )

    def _leased(self, revoked: worker_pb2.Revocation) -> LeasedWork | None:
        if revoked.WhichOneof("work") == "turn":
            return self.connection.turns.get(revoked.turn.token)
        return self.connection.steps.get(revoked.step.token)

    def _on_lease_expired(self, leased: LeasedWork, cause: int) -> None:
        """Records the failure of a turn whose lease expired. A later result of its handler is
        ignored.
        """
        expired = cause == worker_pb2.REVOKE_CAUSE_LEASE_EXPIRED
        if expired and leased.served and isinstance(leased, LeasedTurn):
            leased.served.errors.append(lease_lost(leased))

    def _on_step_answers(self, answers: worker_pb2.StepAnswers) -> None:
        steps = [from_proto(step) for step in answers.steps]
        for turn in self.connection.turns.values():
            if (turn.lease.run_id, turn.lease.turn_seq) == (answers.run_id, answers.turn_seq):
                turn.add_answers(steps)

    def _spawn(self, work: Coroutine[Any, Any, None], leased: LeasedWork) -> None:
        context = leased.served.context if leased.served else contextvars.copy_context()
        task = context.run(asyncio.create_task, work)
        self._tasks[task] = leased
        task.add_done_callback(self._tasks.pop)


async def cancel_and_wait(task: asyncio.Task[None]) -> None:
    """Cancels a task and waits for its end.

    Until Python 3.12, `asyncio.wait_for` may lose a cancellation that arrives with its result, so
    the cancellation is repeated.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=0.5)

"""Executes what a sidecar sends over the stream of a worker."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable, Coroutine
from typing import Any

from pawl_client._convert import from_proto
from pawl_client._errors import PawlError, StateError
from pawl_client._handler_runner import Running
from pawl_client._handlers import Handlers
from pawl_client._leases import Held, HeldStep, HeldTurn, stale
from pawl_client._served_run import Served
from pawl_client._settings import Settings
from pawl_client._step_execution import StepExecution
from pawl_client._turn_execution import TurnExecution
from pawl_client._worker_connection import Link, Offer
from pawl_client.v1 import worker_pb2

LEAVE = 5.0
"""Seconds that handlers, tools and releases have to end in, where runs are given up."""


class Work:
    """Executes turns and steps: those that the handlers offer, and those of the runs that are
    served. Belongs to one event loop.

    """

    def __init__(
        self,
        settings: Settings,
        offer: Offer,
        handlers: Handlers,
        *,
        handler_timeout: float | None = None,
        suspend_after: float | None = None,
        on_error: Callable[[BaseException], None] | None = None,
    ) -> None:
        self.link = Link(settings, offer, self._take, self._missed)
        self._handlers, self._suspend_after = handlers, suspend_after
        self._patience = settings.retry_for
        self._running = Running(offer.worker_id, handler_timeout, on_error)
        self._tasks: dict[asyncio.Task[None], Held] = {}
        self.releases: dict[str, asyncio.Task[None]] = {}
        """Releases that are under way, by run."""

    async def live(self) -> None:
        """Connects and executes, again and again. Raises PawlError once the sidecar refuses
        the worker for good."""
        names = (self._handlers.prompts, self._handlers.agents, self._handlers.tools)
        await self.link.live(*(sorted(kind) for kind in names))

    async def serve(self, served: Served) -> None:
        """Executes a run until it ends or waits for something from outside.

        Raises StateError (RUN_DRIVEN: it is served here already), what ServeRun is refused
        with, what `Served.fail` was called with.
        """
        while (release := self.releases.get(served.run_id)) is not None:
            await asyncio.wait({release})
        if served.run_id in self.link.served:
            raise StateError(
                f"run {served.run_id} is driven by this client already", reason="RUN_DRIVEN"
            )
        self.link.served[served.run_id] = served
        asking: asyncio.Future[Any] = asyncio.ensure_future(self.link.serve(served))
        try:
            await asyncio.wait({asking, served.over}, return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                asking.result()
            await served.over
            # What became of the last turn is still to come.
            if turns := self._turns_of(served, revoked=False):
                await asyncio.wait(turns)
        except BaseException:
            self._give_up(served)
            # The next drive of the run does not meet its handler; a thread goes on unheard.
            turns = self._turns_of(served, revoked=True)
            if coroutines := {task for task in turns if self._tasks[task].running is not None}:
                await asyncio.wait(coroutines, timeout=LEAVE)
            raise
        finally:
            asking.cancel()
            del self.link.served[served.run_id]

    def _give_up(self, served: Served) -> None:
        """Leaves the run to others, and stops its turn. Its tools may finish: what they did
        is still reported."""
        for turn in self.link.turns.values():
            if turn.served is served:
                turn.revoke()
        release = asyncio.create_task(self.link.release(served.run_id))
        self.releases[served.run_id] = release
        release.add_done_callback(lambda _: self.releases.pop(served.run_id))

    def _turns_of(self, served: Served, *, revoked: bool) -> set[asyncio.Task[None]]:
        return {
            task
            for task, held in self._tasks.items()
            if held.served is served and isinstance(held, HeldTurn) and held.revoked is revoked
        }

    def _missed(self, error: PawlError) -> None:
        """There is no connection: a run that is not served yet waits as long as a call does."""
        for served in list(self.link.served.values()):
            if not served.taken and time.monotonic() - served.since > self._patience:
                served.fail(error)

    async def drain(self, timeout: float) -> None:
        """Takes no more work, and lets what is under way finish within so many seconds."""
        await self.link.tell(worker_pb2.WorkRequest(drain=worker_pb2.WorkerDrain()))
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=timeout)
        for token in list(self.link.turns):
            await self.link.tell(
                worker_pb2.WorkRequest(release=worker_pb2.WorkRelease(turn_token=token))
            )

    async def leave(self) -> None:
        """Lets tools at work report what they did, and releases be received, within `LEAVE`:
        the call of a tool that reports nothing may be made again."""
        steps = {task for task, held in self._tasks.items() if isinstance(held, HeldStep)}
        if waits := steps | set(self.releases.values()):
            await asyncio.wait(waits, timeout=LEAVE)

    async def close(self) -> None:
        """Ends what is under way."""
        self.link.end()
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        self._running.close()
        await asyncio.gather(*tasks, return_exceptions=True)

    # What it is sent

    def _take(self, response: worker_pb2.WorkResponse) -> None:
        item = response.WhichOneof("item")
        if item == "turn":
            self._take_turn(HeldTurn(response.turn))
        elif item == "step":
            self._take_step(HeldStep(response.step))
        elif item == "revoked":
            held = self._held(response.revoked)
            if held is not None:
                held.revoke()
                self._late(held, response.revoked.cause)
        elif item == "step_answers":
            self._answered(response.step_answers)
        elif item == "run_unserved":
            served = self.link.served.get(response.run_unserved.run_id)
            if served is not None:
                served.unserved(response.run_unserved.cause)

    def _take_turn(self, held: HeldTurn) -> None:
        served = self.link.served.get(held.lease.run_id)
        if served is not None:
            held.served = served
            served.began(held.lease.turn_seq)
        elif not (self._handlers.prompts or self._handlers.agents):
            # Of a run that was given up.
            self._give_back(worker_pb2.WorkRelease(turn_token=held.lease.token))
            return
        self.link.hold(held)
        handlers = served.handlers if served else self._handlers
        execution = TurnExecution(self.link, handlers, self._running, held, self._suspend_after)
        self._spawn(execution.execute(), held)

    def _give_back(self, release: worker_pb2.WorkRelease) -> None:
        self.link.post(worker_pb2.WorkRequest(release=release))

    def _take_step(self, held: HeldStep) -> None:
        served = self.link.served.get(held.lease.run_id)
        if served is not None and served.handlers.of_tool(held.call.tool) is None:
            served = None
        if served is None and not self._handlers.tools:
            self._give_back(worker_pb2.WorkRelease(step_token=held.lease.token))
            return
        held.served = served
        self.link.steps[held.lease.token] = held
        handlers = served.handlers if served else self._handlers
        self._spawn(StepExecution(self.link, handlers, self._running, held).execute(), held)

    def _held(self, revoked: worker_pb2.Revocation) -> Held | None:
        if revoked.WhichOneof("work") == "turn":
            return self.link.turns.get(revoked.turn.token)
        return self.link.steps.get(revoked.step.token)

    def _late(self, held: Held, cause: int) -> None:
        """A turn that took longer than its lease failed, whatever its handler will return."""
        expired = cause == worker_pb2.REVOKE_CAUSE_LEASE_EXPIRED
        if expired and held.served and isinstance(held, HeldTurn):
            held.served.errors.append(stale(held))

    def _answered(self, answers: worker_pb2.StepAnswers) -> None:
        steps = [from_proto(step) for step in answers.steps]
        for turn in self.link.turns.values():
            if (turn.lease.run_id, turn.lease.turn_seq) == (answers.run_id, answers.turn_seq):
                turn.answered(steps)

    def _spawn(self, work: Coroutine[Any, Any, None], held: Held) -> None:
        context = held.served.context if held.served else contextvars.copy_context()
        task = context.run(asyncio.create_task, work)
        self._tasks[task] = held
        task.add_done_callback(self._tasks.pop)


async def over(life: asyncio.Task[None]) -> None:
    """Ends a link. Until Python 3.12 `asyncio.wait_for` may lose a cancellation that comes
    with what it waits for, so it is said again."""
    while not life.done():
        life.cancel()
        await asyncio.wait({life}, timeout=0.5)

"""The link of a worker to its sidecar: registration, reconnects, heartbeats, credits."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import grpc

from pawl._errors import (
    AuthenticationError,
    DeadlineError,
    NotFoundError,
    PawlError,
    PermissionDeniedError,
    RequestError,
    ServerError,
    StateError,
    WorkerReplacedError,
)
from pawl._flow import Backoff
from pawl._session import WORK, Session, SessionOverError
from pawl._settings import Settings, version
from pawl._values import Json
from pawl._work import Held, HeldStep, HeldTurn, ToolHandler, TurnHandler, stale
from pawl.v1 import worker_pb2

log = logging.getLogger("pawl.worker")
_PERMANENT = (
    RequestError,
    AuthenticationError,
    PermissionDeniedError,
    NotFoundError,
    StateError,
    WorkerReplacedError,
    ServerError,
)


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """What executes a tool, and the JSON Schemas of its payload and result."""

    function: ToolHandler
    parameters: Json
    result: Json


class Link(ABC):
    """Keeps one registered stream, over as many connections as it takes."""

    id: str
    _settings: Settings
    _packs: tuple[str, ...]
    _allow_unknown: bool
    _capacity: dict[str, int]
    _prompts: dict[str, TurnHandler]
    _agents: dict[str, TurnHandler]
    _tools: dict[str, ToolEntry]
    _turns: dict[str, HeldTurn]
    _steps: dict[str, HeldStep]
    _session: Session | None
    _stopping: asyncio.Event
    _changed: asyncio.Event

    @abstractmethod
    def _take(self, response: worker_pb2.WorkResponse) -> None:
        """Takes what the sidecar sends."""

    async def _live(self) -> None:
        settings, backoff = self._settings, Backoff()
        if settings.tls is None:
            channel = grpc.aio.insecure_channel(settings.address, settings.options())
        else:
            channel = grpc.aio.secure_channel(
                settings.address, settings.tls.credentials(), settings.options()
            )
        async with channel:
            work = channel.stream_stream(
                WORK,
                request_serializer=worker_pb2.WorkRequest.SerializeToString,
                response_deserializer=worker_pb2.WorkResponse.FromString,
            )
            while True:
                try:
                    error = await self._connect(
                        Session(work(metadata=settings.metadata())), backoff
                    )
                except PawlError as refusal:
                    error = refusal
                if isinstance(error, _PERMANENT):
                    raise error
                log.info("worker %s: %s; connecting again", self.id, error)
                await asyncio.sleep(max(backoff.next(), error.retry_after or 0.0))

    async def _connect(self, session: Session, backoff: Backoff) -> PawlError:
        try:
            registered = await session.register(self._registration())
            backoff.reset()
            self._keep(registered)
            self._use(session)
            beat = asyncio.create_task(self._beat(session, registered))
            try:
                if not self._stopping.is_set():
                    await self._credit(
                        self._capacity["turns"] - len(self._turns),
                        self._capacity["steps"] - len(self._steps),
                    )
                return await session.receive(self._take)
            finally:
                beat.cancel()
                self._use(None)
        finally:
            session.close()

    def _registration(self) -> worker_pb2.WorkRequest:
        for turn in self._turns.values():
            turn.lease.step_requests = turn.asked
        registration = worker_pb2.WorkerRegistration(
            worker_id=self.id,
            client=f"pawl-python/{version()}",
            packs=self._packs,
            prompts=sorted(self._prompts),
            agents=sorted(self._agents),
            tools=sorted(self._tools),
            allow_unknown=self._allow_unknown,
            turn_capacity=self._capacity["turns"] if self._prompts or self._agents else 0,
            step_capacity=self._capacity["steps"] if self._tools else 0,
            held_turns=[turn.lease for turn in self._turns.values()],
            held_steps=[step.lease for step in self._steps.values()],
        )
        return worker_pb2.WorkRequest(namespace=self._settings.namespace, register=registration)

    def _keep(self, registered: worker_pb2.WorkerRegistered) -> None:
        """Goes on with what the sidecar lets the worker keep, and stops the rest."""
        turns = {(lease.run_id, lease.turn_seq): lease for lease in registered.kept_turns}
        steps = {(lease.run_id, lease.step): lease for lease in registered.kept_steps}
        for turn in list(self._turns.values()):
            del self._turns[turn.lease.token]
            kept = turns.get((turn.lease.run_id, turn.lease.turn_seq))
            if kept is None:
                turn.revoke()
            else:
                turn.lease = kept
                self._turns[kept.token] = turn
        for step in list(self._steps.values()):
            del self._steps[step.lease.token]
            own = steps.get((step.lease.run_id, step.lease.step))
            if own is None:
                step.revoke()
            else:
                step.lease = own
                self._steps[own.token] = step

    async def _beat(self, session: Session, registered: worker_pb2.WorkerRegistered) -> None:
        every = registered.heartbeat_interval.ToTimedelta().total_seconds() or 5.0
        while True:
            leases = [t.lease.duration.ToTimedelta().total_seconds() for t in self._turns.values()]
            await asyncio.sleep(max(min([every, *(d / 3 for d in leases if d > 0)]), 0.01))
            heartbeat = worker_pb2.WorkRequest(heartbeat=worker_pb2.WorkerHeartbeat())
            try:
                receipt = await session.ask(heartbeat)
            except SessionOverError:
                return
            except PawlError as error:
                log.warning("worker %s: heartbeat: %s", self.id, error)
                continue
            for token in receipt.heartbeat.lost:
                if token in self._turns:
                    self._turns[token].revoke()

    # Sending

    async def _ask_turn(
        self, held: HeldTurn, make: Callable[[], worker_pb2.WorkRequest]
    ) -> worker_pb2.WorkReceipt:
        try:
            return await self._ask(held, make)
        except DeadlineError:
            raise stale(held) from None

    async def _ask(
        self, held: Held, make: Callable[[], worker_pb2.WorkRequest]
    ) -> worker_pb2.WorkReceipt:
        """Makes a request under the lease as it is, again while the connection breaks
        on it. Raises the receipt's error, or DeadlineError if the work was revoked."""
        last: Session | None = None
        while True:
            session = await self._current(held, last)
            try:
                return await session.ask(make())
            except SessionOverError:
                last = session

    async def _current(self, held: Held, last: Session | None) -> Session:
        """The session, once there is another one than `last`."""
        while True:
            if held.revoked:
                raise DeadlineError("the work was revoked")
            if self._session is not None and self._session is not last:
                return self._session
            await self._changed.wait()

    def _use(self, session: Session | None) -> None:
        self._session = session
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _tell(self, request: worker_pb2.WorkRequest) -> None:
        """Sends what needs no receipt, if there is somebody to send it to."""
        if self._session is not None:
            with contextlib.suppress(SessionOverError):
                await self._session.send(request)

    async def _credit(self, turns: int, steps: int) -> None:
        if not self._stopping.is_set() and (turns > 0 or steps > 0):
            credit = worker_pb2.WorkCredits(turns=max(turns, 0), steps=max(steps, 0))
            await self._tell(worker_pb2.WorkRequest(credits=credit))

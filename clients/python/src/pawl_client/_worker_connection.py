"""The connection of a worker to its sidecar: registration, reconnects, heartbeats, credits."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc

from pawl_client._advice import repeatable
from pawl_client._async_io import open_channel
from pawl_client._convert import seconds
from pawl_client._errors import (
    AuthenticationError,
    DeadlineError,
    PawlError,
    UnavailableError,
)
from pawl_client._flow import Backoff, new_id
from pawl_client._leases import LeasedStep, LeasedTurn, LeasedWork, lease_lost
from pawl_client._operations import Runs
from pawl_client._reconnect_log import ReconnectLog
from pawl_client._runs import Snapshot
from pawl_client._settings import Settings, version
from pawl_client._status import error_from_rpc
from pawl_client._worker_session import WORK, SessionEndedError, WorkerSession
from pawl_client.v1 import worker_pb2

if TYPE_CHECKING:
    from pawl_client._served_run import ServedRun

log = logging.getLogger("pawl_client.worker")


def _release(run_id: str) -> worker_pb2.WorkRequest:
    return worker_pb2.WorkRequest(release_run=worker_pb2.ReleaseRun(run_id=run_id))


def _delivery(lease: worker_pb2.TurnLease) -> tuple[str, int, int, int]:
    """Identifies one delivery of a turn, for any token."""
    return lease.run_id, lease.turn_seq, lease.attempt, lease.delivery


def _attempt(lease: worker_pb2.StepLease) -> tuple[str, int, int]:
    """Identifies one attempt of a step, for any token."""
    return lease.run_id, lease.step, lease.attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """The id, packs and capacity of a worker."""

    worker_id: str
    packs: tuple[str, ...]
    allow_unknown: bool
    turns: int
    steps: int


class WorkerConnection:
    """Keeps one registered stream, and reconnects after lost connections.

    `turns` and `steps` are the work that the worker holds, by lease token. `served` are the runs
    that this client drives, by id. `on_message` receives the sidecar's messages except receipts;
    `on_disconnect` receives the error of each failed or lost connection.
    """

    def __init__(
        self,
        settings: Settings,
        config: WorkerConfig,
        on_message: Callable[[worker_pb2.WorkResponse], None],
        on_disconnect: Callable[[PawlError], None],
    ) -> None:
        self._settings, self._config, self._on_message, self._on_disconnect = (
            settings,
            config,
            on_message,
            on_disconnect,
        )
        self.served: dict[str, ServedRun] = {}
        self._instance = new_id()
        self._received = 0
        """The highest number of a received step; steps up to it are not sent again."""
        self.turns: dict[str, LeasedTurn] = {}
        self.steps: dict[str, LeasedStep] = {}
        self.stopping = False
        """The worker drains: it gives no more credits."""
        self._names: dict[str, list[str]] = {}
        self._warned: set[str] = set()
        """Tools of which `warn_not_executed` has warned."""
        self._reconnect_log = ReconnectLog()
        self._heartbeat_due = asyncio.Event()
        """Set when a new turn needs an earlier heartbeat."""
        self._every = self._pause = 5.0
        """Seconds between heartbeats: `_every` without turns, `_pause` with the held turns."""
        self._was_connected = False
        self._session: WorkerSession | None = None
        self._channel: grpc.aio.Channel | None = None
        self._changed = asyncio.Event()

    async def run(self, prompts: list[str], agents: list[str], tools: list[str]) -> None:
        """Connects with the names of the handlers, and reconnects.

        Raises PawlError if the sidecar refuses the worker for good. After a refused token it calls
        the token function again, if there is one: a rotated token may arrive late.
        """
        self._names = {"prompts": prompts, "agents": agents, "tools": tools}
        settings, backoff = self._settings, Backoff()
        async with open_channel(settings) as channel:
            self._channel = channel
            work = channel.stream_stream(
                WORK,
                request_serializer=worker_pb2.WorkRequest.SerializeToString,
                response_deserializer=worker_pb2.WorkResponse.FromString,
            )
            while True:
                try:
                    call = work(metadata=await self._metadata())
                    error = await self._connect(WorkerSession(call, settings), backoff)
                except PawlError as refusal:
                    error = refusal
                # After a first connection, a fault of a certificate may be a rotation under way.
                again = self._was_connected and isinstance(error, UnavailableError)
                if not (again or repeatable(error) or settings.may_renew(error)):
                    raise error
                self._log_disconnect(error)
                await asyncio.sleep(max(backoff.next(), error.retry_after or 0.0))

    async def snapshot(self, run_id: str) -> Snapshot:
        """Reads a run with its artifacts, and repeats the call while that may succeed."""
        operation = Runs(self._settings.namespace).get(run_id, 0, artifacts=True)
        end, backoff = time.monotonic() + self._settings.retry_for, Backoff()
        assert self._channel is not None  # noqa: S101
        method = self._channel.unary_unary(
            operation.path,
            request_serializer=type(operation.request).SerializeToString,
            response_deserializer=operation.response.FromString,
        )
        while True:
            metadata = await self._metadata()
            try:
                return operation.read(
                    await method(
                        operation.request, timeout=self._settings.timeout, metadata=metadata
                    )
                )
            except grpc.RpcError as failed:
                error = error_from_rpc(failed, self._settings)
            if not repeatable(error) or time.monotonic() >= end:
                raise error
            await asyncio.sleep(backoff.next())

    def warn_not_executed(self, pack: str, tool: str) -> None:
        """Warns, once for each tool, that a turn of this worker waits for another worker."""
        own = self._names.get("tools", [])
        if tool in own or "*" in own or tool in self._warned:
            return
        self._warned.add(tool)
        log.warning(
            "worker %s: pack %s: this worker does not execute tool %s, and the call waits for one "
            "that does; tools of this worker: %s",
            self._config.worker_id,
            pack,
            tool,
            ", ".join(own) or "none",
        )

    async def _metadata(self) -> tuple[tuple[str, str], ...]:
        """Returns the token. Its function may be slow, so it runs in a thread and does not block
        handlers.
        """
        timeout = self._settings.timeout
        try:
            return await asyncio.wait_for(asyncio.to_thread(self._settings.metadata), timeout)
        except asyncio.TimeoutError:
            raise AuthenticationError(
                f"token: the function did not return within {timeout} s", code="UNAUTHENTICATED"
            ) from None

    async def _connect(self, session: WorkerSession, backoff: Backoff) -> PawlError:
        try:
            registration = self._registration()
            registered = await self._register(session, registration)
            backoff.reset()
            self._was_connected = True
            self._reconnect_log.connected()
            log.info("worker %s: connected to %s", self._config.worker_id, self._settings.address)
            self._reconcile(registered)
            self._set_session(session)
            for named in registration.register.served_runs:
                if named.run_id not in self.served:  # Abandoned during the registration.
                    self.post(_release(named.run_id))
            heartbeats = asyncio.create_task(self._send_heartbeats(session, registered))
            try:
                if not self.stopping:
                    turns = sum(turn.served is None for turn in self.turns.values())
                    steps = sum(step.served is None for step in self.steps.values())
                    self.credit(self._config.turns - turns, self._config.steps - steps)
                return await session.receive(self._receive)
            finally:
                heartbeats.cancel()
                self._set_session(None)
        finally:
            session.close()

    def _receive(self, response: worker_pb2.WorkResponse) -> None:
        """Notes the number of a received step before it is processed."""
        if response.HasField("step"):
            self._received = max(self._received, response.step.delivery)
        self._on_message(response)

    async def _register(
        self, session: WorkerSession, registration: worker_pb2.WorkRequest
    ) -> worker_pb2.WorkerRegistered:
        """Registers the worker. Without an answer in time, it raises an error that permits a new
        stream.
        """
        timeout = self._settings.timeout
        try:
            return await asyncio.wait_for(session.register(registration), timeout)
        except asyncio.TimeoutError:
            raise UnavailableError(
                f"sidecar at {self._settings.place}: no answer within {timeout} s",
                code="UNAVAILABLE",
            ) from None

    def _log_disconnect(self, error: PawlError) -> None:
        """Reports a missing connection to `on_disconnect`, and logs it from time to time."""
        self._on_disconnect(error)
        seconds = self._reconnect_log.attempt_failed(error.reason or type(error).__name__)
        if seconds is None:
            return
        since = f" for {seconds:.0f} s" if seconds >= 1 else ""
        log.warning(
            "worker %s: no connection to %s%s, trying again: %s",
            self._config.worker_id,
            self._settings.address,
            since,
            error,
        )

    def _registration(self) -> worker_pb2.WorkRequest:
        for turn in self.turns.values():
            turn.lease.step_requests = turn.step_requests
        config, names = self._config, self._names
        registration = worker_pb2.WorkerRegistration(
            worker_id=config.worker_id,
            instance=self._instance,
            received_steps=self._received,
            client=f"pawl-python/{version()}",
            packs=config.packs,
            allow_unknown=config.allow_unknown,
            turn_capacity=config.turns if names["prompts"] or names["agents"] else 0,
            step_capacity=config.steps if names["tools"] else 0,
            held_turns=[turn.lease for turn in self.turns.values()],
            held_steps=[step.lease for step in self.steps.values()],
            served_runs=[
                self._serve_run(served) for served in self.served.values() if served.accepted
            ],
            batches=True,
            prompts=names["prompts"],
            agents=names["agents"],
            tools=names["tools"],
        )
        return worker_pb2.WorkRequest(namespace=self._settings.namespace, register=registration)

    def _reconcile(self, registered: worker_pb2.WorkerRegistered) -> None:
        """Continues with the work that the sidecar lets the worker keep, and stops the rest."""
        # The next delivery of a turn may arrive before the receipt that ends the previous one.
        # The worker then holds both, and only the whole lease says which one is kept.
        turns = {_delivery(lease): lease for lease in registered.kept_turns}
        steps = {_attempt(lease): lease for lease in registered.kept_steps}
        for turn in list(self.turns.values()):
            del self.turns[turn.lease.token]
            kept = turns.get(_delivery(turn.lease))
            if kept is None:
                turn.revoke()
            else:
                turn.lease = kept
                self.turns[kept.token] = turn
        for step in list(self.steps.values()):
            del self.steps[step.lease.token]
            own = steps.get(_attempt(step.lease))
            if own is None:
                step.revoke()
            else:
                step.lease = own
                self.steps[own.token] = step

    async def _send_heartbeats(
        self, session: WorkerSession, registered: worker_pb2.WorkerRegistered
    ) -> None:
        self._every = seconds(registered.heartbeat_interval) or 5.0
        self._pause = min([self._every, *map(self._pause_of, self.turns.values())])
        loop = asyncio.get_running_loop()
        last = loop.time()
        while True:
            self._heartbeat_due.clear()
            if (left := last + self._pause - loop.time()) > 0:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._heartbeat_due.wait(), left)
                continue
            last = loop.time()
            self._pause = min([self._every, *map(self._pause_of, self.turns.values())])
            heartbeat = worker_pb2.WorkRequest(
                heartbeat=worker_pb2.WorkerHeartbeat(tokens=list(self.turns))
            )
            try:
                receipt = await session.request_receipt(heartbeat)
            except SessionEndedError:
                return
            except PawlError as error:
                log.warning("worker %s: heartbeat failed: %s", self._config.worker_id, error)
                continue
            for token in receipt.heartbeat.lost:
                if token in self.turns:
                    self.turns[token].revoke()

    def _pause_of(self, turn: LeasedTurn) -> float:
        """Longest time until a heartbeat that keeps the turn, in seconds."""
        lease = seconds(turn.lease.duration)
        return max(lease / 3, 0.01) if lease > 0 else self._every

    def hold(self, turn: LeasedTurn) -> None:
        """Adds a turn, whose lease is extended from now on."""
        self.turns[turn.lease.token] = turn
        if (pause := self._pause_of(turn)) < self._pause:
            # The turn needs an earlier heartbeat than the next one due.
            self._pause = pause
            self._heartbeat_due.set()

    # Sending

    async def serve(self, served: ServedRun) -> None:
        """Registers the run as driven by this client. Raises the error of a refusal."""
        last, backoff = None, Backoff()
        while True:
            session = await self._session_after(last)
            try:
                await session.request_receipt(
                    worker_pb2.WorkRequest(serve_run=self._serve_run(served))
                )
                served.accepted = True
                return
            except SessionEndedError:
                last = session
            except PawlError as error:
                pause = max(backoff.next(), error.retry_after or 0.0)
                waited = time.monotonic() - served.since + pause
                if not repeatable(error) or waited > self._settings.retry_for:
                    raise
                await asyncio.sleep(pause)

    async def release(self, run_id: str) -> None:
        """Releases the run. Without a connection, the next registration does so, because it omits
        the run.
        """
        if self._session is not None:
            with contextlib.suppress(SessionEndedError, PawlError):
                await self._session.request_receipt(_release(run_id))

    async def _session_after(self, last: WorkerSession | None) -> WorkerSession:
        """Waits for a session other than `last`."""
        while self._session is None or self._session is last:
            await self._changed.wait()
        return self._session

    def _serve_run(self, served: ServedRun) -> worker_pb2.ServeRun:
        return worker_pb2.ServeRun(run_id=served.run_id, tools=sorted(served.handlers.tools))

    async def request_for_turn(
        self, leased: LeasedTurn, make: Callable[[], worker_pb2.WorkRequest]
    ) -> worker_pb2.WorkReceipt:
        """As `request`, but raises TurnStaleError for a revoked turn."""
        try:
            return await self.request(leased, make)
        except DeadlineError:
            raise lease_lost(leased) from None

    async def request(
        self, leased: LeasedWork, make: Callable[[], worker_pb2.WorkRequest]
    ) -> worker_pb2.WorkReceipt:
        """Makes a request under the current lease.

        It repeats the request while the connection breaks or the sidecar asks for it. Raises the
        receipt's error, or DeadlineError if the work was revoked.
        """
        last, backoff = None, Backoff()
        while True:
            session = await self._current(leased, last)
            try:
                return await session.request_receipt(make())
            except SessionEndedError:
                last = session
            except PawlError as error:
                if not repeatable(error):
                    raise
                await asyncio.sleep(max(backoff.next(), error.retry_after or 0.0))

    async def _current(self, leased: LeasedWork, last: WorkerSession | None) -> WorkerSession:
        """Waits for a session other than `last`. Raises DeadlineError for revoked work."""
        while True:
            if leased.revoked:
                raise DeadlineError("the worker has lost the lease of this work")
            if self._session is not None and self._session is not last:
                return self._session
            await self._changed.wait()

    def end(self) -> None:
        """Ends all waits for answers of the sidecar."""
        for leased in (*self.turns.values(), *self.steps.values()):
            leased.revoke()
        self._set_session(None)

    def _set_session(self, session: WorkerSession | None) -> None:
        self._session = session
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def send_if_connected(self, request: worker_pb2.WorkRequest) -> None:
        """Sends a message that needs no receipt, if there is a connection."""
        if self._session is not None:
            with contextlib.suppress(SessionEndedError):
                await self._session.send(request)

    def post(self, request: worker_pb2.WorkRequest) -> None:
        """Queues a message that needs no receipt, if there is a connection."""
        if self._session is not None:
            with contextlib.suppress(SessionEndedError):
                self._session.post(request)

    def credit(self, turns: int, steps: int) -> None:
        """Tells the sidecar how many more turns and steps the worker can take."""
        if self._session is None or self.stopping or (turns <= 0 and steps <= 0):
            return
        credit = worker_pb2.WorkCredits(turns=max(turns, 0), steps=max(steps, 0))
        with contextlib.suppress(SessionEndedError):
            self._session.post(worker_pb2.WorkRequest(credits=credit))

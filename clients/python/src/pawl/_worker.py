"""A worker: executes turns and tools for a sidecar."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import logging
import os
import platform
import re
import signal
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from pawl import _schema
from pawl._convert import from_proto
from pawl._drive import fault_of, reply_of
from pawl._errors import (
    FailTurnError,
    HandlerError,
    PawlError,
    PermissionDeniedError,
    RunTerminalError,
    StepMismatchError,
    TurnStaleError,
    TurnTokenError,
)
from pawl._flow import new_id
from pawl._link import Link, ToolEntry
from pawl._operations import complete_request, fail_request, resolve_request
from pawl._outcomes import Reply
from pawl._session import Session
from pawl._settings import DEFAULT_ADDRESS, Settings, Tls, TokenSource
from pawl._values import Fault, Json
from pawl._work import (
    Held,
    HeldStep,
    HeldTurn,
    ThreadTurn,
    ToolHandler,
    TurnHandler,
    WorkTurn,
)
from pawl.v1 import worker_pb2

log = logging.getLogger("pawl.worker")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
_LOST = (TurnStaleError, TurnTokenError, RunTerminalError)


class Worker(Link):
    """Executes turns of prompts and agents, and steps of tools, for a sidecar.

    `turns` and `steps` bound what it executes at once. `packs` are "id", "id@version" or
    digests (default: all). `worker_id` is the same over reconnects and different from
    all others that are connected (default: a fresh one). `allow_unknown` takes names
    that no pack has yet. `handler_timeout` bounds each turn's handler in seconds (default
    900, None: no bound): past it the turn fails with HANDLER_TIMEOUT, and a thread that
    goes on keeps its place among the threads. `drain_timeout` is
    how long `stop` lets handlers finish. `on_error` is told what went wrong in a
    handler or with its answer; it is logged in any case. The rest is as for `Client`.

    Handlers are functions, executed in threads, or coroutine functions. A turn handler
    takes a Turn (an AsyncTurn if it is a coroutine function) and returns a Reply or None;
    a tool handler takes the payload and returns the result as JSON. Heartbeats are sent
    by the worker while handlers run.

    >>> worker = Worker(turns=4)
    >>> from pawl import Reply, Turn
    >>> @worker.prompt("coder")
    ... def code(turn: Turn) -> Reply:
    ...     return Reply(event="Done")
    >>> @worker.tool("add")
    ... async def add(payload: dict[str, int]) -> int:
    ...     return payload["a"] + payload["b"]
    >>> worker.run()  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        address: str = DEFAULT_ADDRESS,
        namespace: str = "",
        token: TokenSource | None = None,
        tls: Tls | None = None,
        worker_id: str = "",
        packs: Sequence[str] = (),
        turns: int = 1,
        steps: int = 1,
        allow_unknown: bool = False,
        handler_timeout: float | None = 900.0,
        drain_timeout: float = 30.0,
        keepalive: float = 20.0,
        on_error: Callable[[BaseException], None] | None = None,
    ) -> None:
        for name, value in (("turns", turns), ("steps", steps)):
            if not 1 <= value <= 10_000:
                raise ValueError(f"{name}: 1 to 10000, not {value}")
        self._settings = Settings(
            address=address, namespace=namespace, token=token, tls=tls, keepalive=keepalive
        )
        self.id = worker_id or _fresh_id()
        self._packs, self._allow_unknown = tuple(packs), allow_unknown
        self._capacity = {"turns": turns, "steps": steps}
        self._handler_timeout, self._drain_timeout = handler_timeout, drain_timeout
        self._on_error = on_error
        self._prompts: dict[str, TurnHandler] = {}
        self._agents: dict[str, TurnHandler] = {}
        self._tools: dict[str, ToolEntry] = {}
        self._turns: dict[str, HeldTurn] = {}
        self._steps: dict[str, HeldStep] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._session: Session | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    # What it executes

    def prompt(self, name: str) -> Callable[[F], F]:
        """Executes the turns of a prompt; "*": of all that have no handler."""
        return self._into(self._prompts, name)

    def agent(self, name: str) -> Callable[[F], F]:
        """Executes the turns of runs of an agent, whatever their prompt; "*": of all."""
        return self._into(self._agents, name)

    def tool(self, name: str, *, parameters: Json = None, result: Json = None) -> Callable[[F], F]:
        """Executes the steps of a tool; "*": of all that have no handler.

        `parameters` and `result` are JSON Schemas. A payload or result that does not fit
        is the tool's error PAYLOAD_INVALID or RESULT_INVALID. (The sidecar checks the
        payload against the pack's own schema before it gets here.)
        """

        def register(function: F) -> F:
            self._into(self._tools, name)(ToolEntry(function, parameters, result))
            return function

        return register

    def _into(self, handlers: dict[str, Any], name: str) -> Callable[[Any], Any]:
        def register(function: Any) -> Any:
            if name in handlers:
                raise ValueError(f"{name!r} has a handler already")
            handlers[name] = function
            return function

        return register

    # Life

    def run(self) -> None:
        """Serves until SIGTERM or SIGINT, then drains: no more work is taken, and what
        is under way may finish. Call it from the main thread. Raises as `serve`."""

        async def main() -> None:
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.stop)
            await self.serve()

        asyncio.run(main())

    def stop(self) -> None:
        """Begins to drain; `serve` returns when it is done. May be called from anywhere."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)

    async def serve(self) -> None:
        """Serves until `stop`. Connects again when the connection breaks, and keeps what
        it holds. Raises PawlError if the sidecar refuses the worker for good."""
        if not (self._prompts or self._agents or self._tools):
            raise ValueError("a worker needs at least one handler")
        self._loop = asyncio.get_running_loop()
        self._stopping, self._changed = asyncio.Event(), asyncio.Event()
        self._pool = ThreadPoolExecutor(sum(self._capacity.values()), thread_name_prefix="pawl")
        life = asyncio.create_task(self._live())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({life, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not life.done():
                await self._drain()
        finally:
            for task in (life, stopping, *self._tasks):
                task.cancel()
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._loop = None
            results = await asyncio.gather(life, stopping, *self._tasks, return_exceptions=True)
        if isinstance(results[0], Exception):
            raise results[0]

    async def _drain(self) -> None:
        await self._tell(worker_pb2.WorkRequest(drain=worker_pb2.WorkerDrain()))
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=self._drain_timeout)
        for token in list(self._turns):
            await self._tell(
                worker_pb2.WorkRequest(release=worker_pb2.WorkRelease(turn_token=token))
            )

    # What it is sent

    def _take(self, response: worker_pb2.WorkResponse) -> None:
        item = response.WhichOneof("item")
        if item == "turn":
            turn = HeldTurn(response.turn)
            self._turns[turn.lease.token] = turn
            self._spawn(self._execute_turn(turn))
        elif item == "step":
            step = HeldStep(response.step)
            self._steps[step.lease.token] = step
            self._spawn(self._execute_step(step))
        elif item == "revoked":
            work = response.revoked.WhichOneof("work")
            held: Held | None = (
                self._turns.get(response.revoked.turn.token)
                if work == "turn"
                else self._steps.get(response.revoked.step.token)
            )
            if held is not None:
                held.revoke()
        elif item == "step_answers":
            self._answered(response.step_answers)

    def _answered(self, answers: worker_pb2.StepAnswers) -> None:
        steps = [from_proto(step) for step in answers.steps]
        for turn in self._turns.values():
            if (turn.lease.run_id, turn.lease.turn_seq) == (answers.run_id, answers.turn_seq):
                turn.answered(steps)

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Executing

    async def _execute_turn(self, held: HeldTurn) -> None:
        credited = False
        try:
            reply = reply_of(await self._handle_turn(held))
            if not held.revoked:
                # The credit travels with the completion: one round trip to the next turn.
                credited = not self._stopping.is_set()
                await self._complete(held, reply, credited)
        except asyncio.CancelledError:
            if not held.revoked:
                raise
        except Exception as error:
            # The credit may have been lost with the completion. One too many does no
            # harm: the capacity bounds what is held.
            credited = False
            await self._fail_turn(held, error)
        finally:
            self._turns.pop(held.lease.token, None)
        if not credited:
            await self._credit(1, 0)

    async def _handle_turn(self, held: HeldTurn) -> Any:
        handler = self._turn_handler(held)
        turn = WorkTurn(self, held)
        if _awaits(handler):
            work = handler(turn)
        else:
            loop = asyncio.get_running_loop()
            work = self._in_thread(handler, ThreadTurn(turn, loop))
        return await self._bounded(held, work, thread=not inspect.iscoroutine(work))

    async def _bounded(self, held: Held, work: Any, *, thread: bool) -> Any:
        """Awaits a handler, for as long as it may take."""
        running = asyncio.ensure_future(work)
        if not thread:
            held.running = running
        done, _ = await asyncio.wait({running}, timeout=self._handler_timeout)
        if done:
            return running.result()
        running.cancel()
        raise HandlerError(
            f"the handler did not return within {self._handler_timeout} s", reason="HANDLER_TIMEOUT"
        )

    def _in_thread(self, function: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._pool, lambda: context.run(function, *arguments))

    def _turn_handler(self, held: HeldTurn) -> TurnHandler:
        for handlers, name in (
            (self._prompts, held.info.prompt),
            (self._agents, held.agent),
            (self._prompts, "*"),
            (self._agents, "*"),
        ):
            if name in handlers:
                return handlers[name]
        raise FailTurnError("NO_HANDLER", f"no handler for prompt {held.info.prompt!r}")

    async def _complete(self, held: HeldTurn, reply: Reply, credited: bool) -> None:
        request_id = new_id()
        credit = worker_pb2.WorkCredits(turns=1) if credited else None
        slots = held.info.artifact_slots
        await self._ask_turn(
            held,
            lambda: worker_pb2.WorkRequest(
                credits=credit,
                complete_turn=complete_request("", held.ref(), reply, slots, request_id),
            ),
        )

    async def _fail_turn(self, held: HeldTurn, error: Exception) -> None:
        self._told(f"turn {held.lease.turn_seq} of {held.lease.run_id}", error)
        if held.revoked or isinstance(error, (*_LOST, StepMismatchError)):
            return
        fault, retryable = fault_of(error)
        request_id = new_id()
        with contextlib.suppress(PawlError, asyncio.CancelledError):
            await self._ask_turn(
                held,
                lambda: worker_pb2.WorkRequest(
                    fail_turn=fail_request("", held.ref(), fault, retryable, None, request_id)
                ),
            )

    async def _execute_step(self, held: HeldStep) -> None:
        try:
            answer = await self._answer(held)
            if not held.revoked:
                await self._resolve(held, answer)
        except asyncio.CancelledError:
            if not held.revoked:
                raise
        finally:
            self._steps.pop(held.lease.token, None)
        await self._credit(0, 1)

    async def _answer(self, held: HeldStep) -> Json | Fault:
        """The tool's result, or what went wrong as data."""
        tool = self._tools.get(held.call.tool) or self._tools.get("*")
        if tool is None:
            return Fault(code="NO_HANDLER", message=f"no handler for tool {held.call.tool!r}")
        name, code = held.call.tool, "PAYLOAD_INVALID"
        try:
            if tool.parameters is not None:
                _schema.check(held.payload, tool.parameters, f"payload of tool {name}")
            code = ""
            result = await self._handle_step(held, tool.function)
            code = "RESULT_INVALID"
            if tool.result is not None:
                _schema.check(result, tool.result, f"result of tool {name}")
            resolve_request("", "", 1, name, 1, result, "")  # Is it JSON at all?
            return result
        except Exception as error:
            self._told(f"step {held.call.step} of {held.call.run_id} ({name})", error)
            fault = fault_of(error)[0]
            return Fault(code=code, message=fault.message) if code else fault

    async def _handle_step(self, held: HeldStep, function: ToolHandler) -> Json:
        held.enter()
        coroutine = _awaits(function)
        work = function(held.payload) if coroutine else self._in_thread(function, held.payload)
        return await self._bounded(held, work, thread=not coroutine)

    async def _resolve(self, held: HeldStep, answer: Json | Fault) -> None:
        """Answers a step; an answer that is refused is reported as an error."""
        while True:
            try:
                await self._ask(
                    held,
                    lambda: worker_pb2.WorkRequest(
                        resolve_step=resolve_request(
                            "",
                            held.lease.run_id,
                            held.lease.step,
                            held.lease.tool,
                            held.lease.attempt,
                            answer,  # noqa: B023
                            held.lease.token,
                        )
                    ),
                )
                return
            except PawlError as error:
                self._told(f"step {held.call.step} of {held.call.run_id}: its answer", error)
                if isinstance(answer, Fault) or isinstance(error, PermissionDeniedError):
                    return
                answer = fault_of(error)[0]

    def _told(self, what: str, error: BaseException) -> None:
        log.warning("worker %s: %s: %s: %s", self.id, what, type(error).__name__, error)
        if self._on_error is not None:
            self._on_error(error)


def _awaits(function: Any) -> bool:
    """Whether a call of it has to be awaited; also for objects with a __call__."""
    call = getattr(function, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _fresh_id() -> str:
    host = re.sub(r"[^A-Za-z0-9._-]", "-", platform.node()).strip("-._") or "host"
    return f"{host[:64]}-{os.getpid()}-{uuid.uuid4().hex[:8]}"

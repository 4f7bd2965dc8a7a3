"""A worker: executes turns and tools for a sidecar."""

from __future__ import annotations

import asyncio
import os
import platform
import re
import signal
import threading
import uuid
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from pawl._convert import from_proto
from pawl._handlers import F, Handlers, ToolEntry, awaits, into, put
from pawl._held import Held, HeldStep, HeldTurn
from pawl._link import Link, Offer
from pawl._running import Running
from pawl._settings import KEEPALIVE, Settings, Tls, TokenSource, address_of, token_of
from pawl._step_execution import StepExecution
from pawl._tool_check import PackSource, check_tools
from pawl._turn_execution import TurnExecution
from pawl._typed import bind
from pawl._values import Json
from pawl.v1 import worker_pb2


class Worker:
    """Executes turns of prompts and agents, and steps of tools, for a sidecar.

    `turns` and `steps` bound what it executes at once. `packs` are "id", "id@version" or
    digests (default: all). `worker_id` is the same over reconnects and different from
    all others that are connected (default: a fresh one). `allow_unknown` takes names
    that no pack has yet. `handler_timeout` bounds each turn's handler in seconds (default
    900, None: no bound): past it the turn fails with HANDLER_TIMEOUT; a coroutine is
    cancelled, a thread goes on unheard. `drain_timeout` is how long `stop` lets handlers
    finish. `on_error` is told what went wrong in a handler or with its answer; it is
    logged in any case. The rest is as for `Client`.

    `suspend_after` (default None: never) releases a turn whose handler only waits for
    answers to its steps, once a `turn.step` without a timeout of its own has waited for
    so many seconds and no other call of the turn is being made. `turn.step` then raises
    SuspendTurn, the worker's place is free for other turns, and when the steps are
    answered the handler is executed again from its beginning, perhaps by another worker;
    the same calls of `turn.step` get the recorded answers. It is for handlers that wait
    for minutes, and do nothing besides steps that must not be done twice.

    Handlers are functions, executed in threads, or coroutine functions. A turn handler
    takes a Turn (an AsyncTurn if it is a coroutine function) and returns a Reply or None;
    a tool handler is a typed function, or takes the payload and returns the result as JSON.
    Heartbeats are sent by the worker while handlers run.

    >>> worker = Worker(turns=4)
    >>> from pawl import Reply, Turn
    >>> @worker.prompt("coder")
    ... def code(turn: Turn) -> Reply:
    ...     return Reply(event="Done")
    >>> @worker.tool("add")
    ... async def add(a: int, b: int = 1) -> int:
    ...     return a + b
    >>> worker.run()  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        address: str | None = None,
        namespace: str = "",
        token: TokenSource | None = None,
        tls: Tls | None = None,
        worker_id: str = "",
        packs: Sequence[str] = (),
        turns: int = 1,
        steps: int = 1,
        allow_unknown: bool = False,
        handler_timeout: float | None = 900.0,
        suspend_after: float | None = None,
        drain_timeout: float = 30.0,
        keepalive: float = KEEPALIVE,
        on_error: Callable[[BaseException], None] | None = None,
    ) -> None:
        for name, value in (("turns", turns), ("steps", steps)):
            if not 1 <= value <= 10_000:
                raise ValueError(f"{name}: 1 to 10000, not {value}")
        for name, seconds in (
            ("handler_timeout", handler_timeout),
            ("suspend_after", suspend_after),
        ):
            if seconds is not None and seconds <= 0:
                raise ValueError(f"{name}: more than 0 or None, not {seconds}")
        self._settings = Settings(
            address=address_of(address),
            namespace=namespace,
            token=token_of(token),
            tls=tls,
            keepalive=keepalive,
        )
        self.id = worker_id or _fresh_id()
        self._offer = Offer(
            worker_id=self.id,
            packs=tuple(packs),
            allow_unknown=allow_unknown,
            turns=turns,
            steps=steps,
        )
        self._suspend_after, self._drain_timeout = suspend_after, drain_timeout
        self._handler_timeout, self._on_error = handler_timeout, on_error
        self._handlers = Handlers()
        self._loop: asyncio.AbstractEventLoop | None = None

    # What it executes

    def prompt(self, name: str) -> Callable[[F], F]:
        """Executes the turns of a prompt; "*": of all that have no handler."""
        return into(self._handlers.prompts, name)

    def agent(self, name: str) -> Callable[[F], F]:
        """Executes the turns of runs of an agent whose prompt has no handler; "*": of
        all agents that have none."""
        return into(self._handlers.agents, name)

    def tool(self, name: str, *, parameters: Json = None, result: Json = None) -> Callable[[F], F]:
        """Executes the steps of a tool; "*": of all that have no handler.

        A function with annotations is called by name, with values that fit them: dates,
        decimals, dataclasses, models of pydantic; what it returns is told as JSON, by its
        return annotation. This needs `pip install 'pawl-sidecar[typed]'`. A payload that
        does not fit is the tool's error INVALID_ARGUMENTS, which names each place and what
        was expected there; the function is not called. A function whose first parameter has
        no annotation, or is called `payload`, and which needs no other one, gets the payload
        as it is, or made into that parameter's dataclass or model.

        `parameters` and `result` are JSON Schemas. A payload or result that does not fit
        is the tool's error PAYLOAD_INVALID or RESULT_INVALID. (The sidecar checks the
        payload against the pack's own schema before it gets here.)

        Raises ValueError: the tool has a handler already, or the function cannot be called
        so.
        """

        def register(function: F) -> F:
            bound = bind(name, function)
            entry = ToolEntry(
                bound.function, awaits(function), parameters, result, bound.parameters
            )
            put(self._handlers.tools, name, entry)
            return function

        return register

    def schemas(self) -> dict[str, Json]:
        """The JSON Schema of the arguments of each tool that is a typed function, or was
        given one: what the pack's `tools.NAME.parameters` may be."""
        return self._handlers.schemas()

    def check(self, pack: PackSource) -> None:
        """Compares the tools of a pack with the functions here: whether all payloads that
        its `tools.NAME.parameters` admit are taken, by names and types. `pack` is a document
        (a Path is read, str and bytes are the text; YAML needs PyYAML) or its mapping. A tool
        that only one side has is not compared.

        Raises SchemaError (TOOL_MISMATCH), whose message and `violations` name each
        difference.
        """
        check_tools(pack, self.schemas())

    # Life

    def run(self) -> None:
        """Serves until SIGTERM or SIGINT, then drains: no more work is taken, and what
        is under way may finish. In another thread than the main one no signal is heard:
        call `stop`. Raises as `serve`."""

        async def main() -> None:
            if threading.current_thread() is threading.main_thread():
                self._hear_signals()
            await self.serve()

        asyncio.run(main())

    def _hear_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            try:
                loop.add_signal_handler(number, self.stop)
            except NotImplementedError:  # Event loops of Windows have none.
                signal.signal(number, lambda *_: self.stop())

    def stop(self) -> None:
        """Begins to drain; `serve` returns when it is done. May be called from anywhere."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._begin_to_stop)

    def _begin_to_stop(self) -> None:
        self._link.stopping = True
        self._stopping.set()

    async def serve(self) -> None:
        """Serves until `stop`. Connects again when the connection breaks, and keeps what
        it holds. Raises PawlError if the sidecar refuses the worker for good."""
        if not self._handlers:
            raise ValueError("a worker needs at least one handler")
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        self._link = Link(self._settings, self._offer, self._take)
        self._running = Running(self.id, self._handler_timeout, self._on_error)
        self._tasks: set[asyncio.Task[None]] = set()
        names = (self._handlers.prompts, self._handlers.agents, self._handlers.tools)
        life = asyncio.create_task(self._link.live(*(sorted(kind) for kind in names)))
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({life, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not life.done():
                await self._drain()
        finally:
            for task in (stopping, *self._tasks):
                task.cancel()
            self._running.close()
            self._loop = None
            await _over(life)
            await asyncio.gather(stopping, *self._tasks, return_exceptions=True)
        if not life.cancelled() and (error := life.exception()) is not None:
            raise error

    async def _drain(self) -> None:
        await self._link.tell(worker_pb2.WorkRequest(drain=worker_pb2.WorkerDrain()))
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=self._drain_timeout)
        for token in list(self._link.turns):
            await self._link.tell(
                worker_pb2.WorkRequest(release=worker_pb2.WorkRelease(turn_token=token))
            )

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
        elif item == "step_answers":
            self._answered(response.step_answers)

    def _take_turn(self, held: HeldTurn) -> None:
        self._link.hold(held)
        turn = TurnExecution(self._link, self._handlers, self._running, held, self._suspend_after)
        self._spawn(turn.execute())

    def _take_step(self, held: HeldStep) -> None:
        self._link.steps[held.lease.token] = held
        self._spawn(StepExecution(self._link, self._handlers, self._running, held).execute())

    def _held(self, revoked: worker_pb2.Revocation) -> Held | None:
        if revoked.WhichOneof("work") == "turn":
            return self._link.turns.get(revoked.turn.token)
        return self._link.steps.get(revoked.step.token)

    def _answered(self, answers: worker_pb2.StepAnswers) -> None:
        steps = [from_proto(step) for step in answers.steps]
        for turn in self._link.turns.values():
            if (turn.lease.run_id, turn.lease.turn_seq) == (answers.run_id, answers.turn_seq):
                turn.answered(steps)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _over(life: asyncio.Task[None]) -> None:
    """Ends a link. Until Python 3.12 `asyncio.wait_for` may lose a cancellation that comes
    with what it waits for, so it is said again."""
    while not life.done():
        life.cancel()
        await asyncio.wait({life}, timeout=0.5)


def _fresh_id() -> str:
    host = re.sub(r"[^A-Za-z0-9._-]", "-", platform.node()).strip("-._") or "host"
    return f"{host[:64]}-{os.getpid()}-{uuid.uuid4().hex[:8]}"

"""A worker: executes turns and tools for a sidecar."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import re
import signal
import threading
import uuid
from collections.abc import Callable, Sequence

from pawl_client._handlers import F, Handlers, ToolEntry, is_async, register_handler, registering
from pawl_client._settings import KEEPALIVE, Settings, Tls, TokenSource, address_of, token_of
from pawl_client._tool_check import PackSource, check_tools
from pawl_client._typed_tools import bind
from pawl_client._values import Json
from pawl_client._work_executor import WorkExecutor, cancel_and_wait
from pawl_client._worker_connection import WorkerConfig

log = logging.getLogger("pawl_client.worker")


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
    >>> from pawl_client import Reply, Turn
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
        self._config = WorkerConfig(
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
        return registering(self._handlers.prompts, name)

    def agent(self, name: str) -> Callable[[F], F]:
        """Executes the turns of runs of an agent whose prompt has no handler; "*": of
        all agents that have none."""
        return registering(self._handlers.agents, name)

    def tool(self, name: str, *, parameters: Json = None, result: Json = None) -> Callable[[F], F]:
        """Executes the steps of a tool; "*": of all that have no handler.

        A function with annotations is called by name, with values that fit them: dates,
        decimals, dataclasses, models of pydantic; what it returns is told as JSON, by its
        return annotation. This needs `pip install 'pawl-client[typed]'`. A payload that
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
                bound.function, is_async(function), parameters, result, bound.parameters
            )
            register_handler(self._handlers.tools, name, entry)
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
                self._handle_signals()
            await self.serve()

        asyncio.run(main())

    def _handle_signals(self) -> None:
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
        self._connection.stopping = True
        self._stopping.set()

    async def serve(self) -> None:
        """Serves until `stop`. Connects again when the connection breaks, and keeps what
        it holds. Raises PawlError if the sidecar refuses the worker for good."""
        if not self._handlers:
            raise ValueError("a worker needs at least one handler")
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        executor = WorkExecutor(
            self._settings,
            self._config,
            self._handlers,
            handler_timeout=self._handler_timeout,
            suspend_after=self._suspend_after,
            on_error=self._on_error,
        )
        self._connection = executor.connection
        task = asyncio.create_task(executor.run())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                await executor.drain(self._drain_timeout)
        finally:
            stopping.cancel()
            await executor.close()
            self._loop = None
            await cancel_and_wait(task)
            await asyncio.gather(stopping, return_exceptions=True)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("worker %s: ends for good: %s", self.id, error)
            raise error


def _fresh_id() -> str:
    host = re.sub(r"[^A-Za-z0-9._-]", "-", platform.node()).strip("-._") or "host"
    return f"{host[:64]}-{os.getpid()}-{uuid.uuid4().hex[:8]}"

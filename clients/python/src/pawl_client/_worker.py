"""A worker: executes turns and tools for a sidecar."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import platform
import re
import signal
import threading
import uuid
from collections.abc import Callable, Sequence

from pawl_client._errors import PawlError
from pawl_client._handlers import F, Handlers, ToolEntry, is_async, register_handler, registering
from pawl_client._settings import KEEPALIVE, Tls, TokenSource, by_name_only, settings_of
from pawl_client._tool_check import PackSource, check_tools
from pawl_client._typed_tools import bind
from pawl_client._values import Json
from pawl_client._work_executor import WorkExecutor, cancel_and_wait
from pawl_client._worker_connection import WorkerConfig

log = logging.getLogger("pawl_client.worker")

_ENDINGS = ("SIGTERM", "SIGINT", "SIGBREAK")
"""Names of the signals that stop a worker. Windows alone has SIGBREAK."""


class Worker:
    """Executes turns of prompts and agents, and steps of tools, for a sidecar.

    `turns` and `steps` are how many of each it executes at once (default 1, at most 10000). `packs`
    are "id", "id@version" or digests (default: all packs). `worker_id` must differ from the ids of
    all other connected workers and stays the same over reconnects (default: a new id).
    `allow_unknown` permits handlers of names that no pack has yet. `handler_timeout` bounds the
    handler of a turn in seconds (default 900, None: no bound). After it the turn fails with
    HANDLER_TIMEOUT; a coroutine is cancelled, and the answer of a thread is ignored.
    `drain_timeout` is how many seconds `stop` waits for handlers (default 30). `on_error` receives
    each error of a handler or of its answer; the error is logged in any case. The other arguments
    are those of `Client`. Raises ValueError for a value out of range.

    `suspend_after` (seconds, default None: never) releases a turn whose handler only waits for its
    steps. It applies when a `turn.step` without a timeout has waited that long and no other call of
    the turn is being made. `turn.step` then raises SuspendTurn, and the worker can execute another
    turn. When the steps are answered, a worker executes the handler again from its beginning, and
    the same calls of `turn.step` return the recorded answers. Use it for handlers that wait for
    minutes and that, apart from steps, do no work that must not be repeated.

    Handlers are functions, executed in threads, or coroutine functions. A turn handler takes a Turn
    (a coroutine function: an AsyncTurn) and returns a Reply or None. A tool handler is a typed
    function, or takes the payload and returns the result as JSON. The worker sends heartbeats while
    handlers run.

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

    @by_name_only
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
                raise ValueError(f"{name}: must be from 1 to 10000, not {value}")
        for name, seconds in (
            ("handler_timeout", handler_timeout),
            ("suspend_after", suspend_after),
        ):
            if seconds is not None and seconds <= 0:
                raise ValueError(f"{name}: must be greater than 0 s, or None, not {seconds}")
        self._settings = settings_of(address, token, tls, namespace=namespace, keepalive=keepalive)
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
        """Registers the decorated function for the turns of a prompt; "*" for all prompts without a
        handler.

        Raises ValueError if the prompt has a handler already.
        """
        return registering(self._handlers.prompts, name)

    def agent(self, name: str) -> Callable[[F], F]:
        """Registers the decorated function for runs of an agent, for prompts that have no handler.

        "*" means all agents without a handler. Raises ValueError if the agent has a handler
        already.
        """
        return registering(self._handlers.agents, name)

    def tool(self, name: str, *, parameters: Json = None, result: Json = None) -> Callable[[F], F]:
        """Registers the decorated function for the steps of a tool; "*" for all tools without a
        handler.

        A function with annotations is called with named arguments of the annotated types: dates,
        decimals, dataclasses, pydantic models. Its result is converted to JSON by the return
        annotation. This needs `pip install 'pawl-client[typed]'`. A payload that does not fit is
        the tool's error INVALID_ARGUMENTS, which names each place and the expected type; the
        function is not called. A function receives the whole payload as one argument if its first
        parameter has no annotation or is called `payload`, and no other parameter is required. If
        that parameter is annotated with a dataclass or a pydantic model, the payload is converted
        to it.

        `parameters` and `result` are JSON Schemas. A payload or result that does not fit is the
        tool's error PAYLOAD_INVALID or RESULT_INVALID. The sidecar has checked the payload against
        the pack's own schema before.

        Raises ValueError if the tool has a handler already, or the function cannot be called in one
        of these ways.
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
        """Returns the JSON Schema of the arguments of each tool that is a typed function or was
        given one.

        A pack may use them as its `tools.NAME.parameters`.
        """
        return self._handlers.schemas()

    def check(self, pack: PackSource) -> None:
        """Checks that the functions accept all payloads that a pack's `tools.NAME.parameters`
        permit.

        It compares names and types. `pack` is a Path, which is read, the text as str or bytes, or
        the parsed document; YAML needs PyYAML. A tool that only one side has is not compared.

        Raises SchemaError (TOOL_MISMATCH); its message and `violations` name each difference.
        """
        check_tools(pack, self.schemas())

    # Life

    def run(self) -> None:
        """Serves until SIGTERM or SIGINT, then drains: it takes no more work and lets handlers
        finish. On Windows: until Ctrl+C or Ctrl+Break.

        Outside the main thread it receives no signals; call `stop`. Errors are those of `serve`.
        """

        async def main() -> None:
            with contextlib.ExitStack() as after:
                if threading.current_thread() is threading.main_thread():
                    self._handle_signals(after)
                await self.serve()

        try:
            asyncio.run(main())
        except PawlError as error:
            # The sidecar refused the worker; the frames of the event loop explain no refusal.
            raise error.with_traceback(None) from None

    def _handle_signals(self, after: contextlib.ExitStack) -> None:
        loop = asyncio.get_running_loop()
        for number in (getattr(signal, name) for name in _ENDINGS if hasattr(signal, name)):
            try:
                loop.add_signal_handler(number, self.stop)
            except NotImplementedError:  # Event loops of Windows have no signal handlers.
                before = signal.signal(number, lambda *_: self.stop())
                after.callback(signal.signal, number, before or signal.SIG_DFL)

    def stop(self) -> None:
        """Begins to drain; `serve` returns when that is done. Safe to call from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._begin_to_stop)

    def _begin_to_stop(self) -> None:
        self._connection.stopping = True
        self._stopping.set()

    async def serve(self) -> None:
        """Serves until `stop`, and reconnects after a lost connection without losing its leases.

        Raises PawlError if the sidecar refuses the worker for good, and ValueError for a worker
        without a handler.
        """
        if not self._handlers:
            raise ValueError(
                "a worker needs at least one handler; register one with prompt, agent or tool"
            )
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

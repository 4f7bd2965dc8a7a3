"""A run that a client drives: its handlers and its end."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pawl_client._errors import HandlerError, NotFoundError, RunTakenOverError
from pawl_client._handlers import (
    Handlers,
    ToolEntry,
    TurnEntry,
    check_turn_handler,
    is_async,
    name_of,
)
from pawl_client._typed_tools import local
from pawl_client._values import Part
from pawl_client.v1 import worker_pb2


@dataclass(slots=True, eq=False)
class ServedRun:
    """A run that this process executes.

    Its handlers are called in `context`, that of the caller. `errors` are the errors of its turns
    in this process; `output` is that of the last turn that was completed here.
    """

    handlers: Handlers
    worker_tools: frozenset[str] = frozenset()
    """Tools that workers execute; "*": all."""
    run_id: str = ""
    accepted: bool = False
    """The sidecar has accepted this process as its executor; later registrations name the run."""
    since: float = 0.0
    """Monotonic time of the request to execute it."""
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    errors: list[BaseException] = field(default_factory=list)
    output: tuple[Part, ...] | None = None
    mistake: Exception | None = None
    """The error of a tool's wrong result. It is raised if the run or the turn fails by it."""
    over: asyncio.Future[None] = field(init=False)
    _newest: int = 0
    _given_up: BaseException | None = None

    def begin(self) -> None:
        """Prepares the run. Must be called in the event loop that executes it."""
        self.since = time.monotonic()
        self.over = asyncio.get_running_loop().create_future()
        if self._given_up is not None:
            self.over.set_exception(self._given_up)

    def executes(self, tool: str) -> bool:
        """Whether this process executes a tool, or its caller says that workers do."""
        known = self.worker_tools
        return self.handlers.of_tool(tool) is not None or tool in known or "*" in known

    def turn_began(self, turn_seq: int) -> None:
        """Notes that a turn of it is executed here."""
        self.accepted = True  # A turn may arrive before the receipt of the serve request.
        self._newest, self.output = turn_seq, None

    def completed(self, turn_seq: int, output: tuple[Part, ...]) -> None:
        """Notes a completed turn. The next turn may begin before this is known."""
        if turn_seq == self._newest:
            self.output = output

    def on_unserved(self, cause: int) -> None:
        """Ends the run here: the sidecar has named the cause."""
        if cause == worker_pb2.UNSERVED_CAUSE_TAKEN_OVER:
            text = f"run {self.run_id}: another process drives it now"
            self.fail(RunTakenOverError(text, reason="RUN_TAKEN_OVER"))
        elif cause == worker_pb2.UNSERVED_CAUSE_REFUSED:
            text = f"run {self.run_id}: it no longer exists for this principal"
            self.fail(NotFoundError(text, reason="RUN_NOT_FOUND"))
        elif not self.over.done():
            self.over.set_result(None)

    def fail(self, error: BaseException) -> None:
        """Abandons the run and raises the error in the call that drives it."""
        self._given_up = error
        if not self.over.done():
            self.over.set_exception(error)

    def give_up(self, error: BaseException) -> None:
        """As `fail`, but also before the run is driven."""
        if self.since:
            self.fail(error)
        self._given_up = error


def handlers_of(
    handler: Callable[[Any], Any] | Mapping[str, Callable[[Any], Any]],
    tools: Mapping[str, Callable[..., Any]] | None,
    *,
    blocking: bool,
) -> Handlers:
    """Returns the handlers of a run.

    Functions are called in threads; coroutine functions, and awaitable results of functions, in the
    event loop of an asynchronous client.

    Raises TypeError for a value that is no function, a handler that cannot be called with a Turn,
    or a coroutine function for a blocking client, and ValueError for a tool that cannot be called
    with its payload.
    """
    prompts = handler if isinstance(handler, Mapping) else {"*": handler}
    entries = {name: _turns(f"handler {name!r}", each, blocking) for name, each in prompts.items()}
    if not entries:
        raise TypeError("handler: the mapping is empty; give a function, or one for each prompt")
    for name, function in (tools or {}).items():
        _check(f"tool {name!r}", function, blocking)
    bound = {name: _tool(each, blocking) for name, each in local(tools).items()}
    return Handlers(prompts=entries, tools=bound)


def names_of(worker_tools: Iterable[str]) -> frozenset[str]:
    """Returns `worker_tools` as a set. Raises TypeError for a text, which is an iterable too."""
    if isinstance(worker_tools, str):
        raise TypeError(f"worker_tools: must be names of tools, not the text {worker_tools!r}")
    return frozenset(worker_tools)


def _turns(what: str, function: Callable[[Any], Any], blocking: bool) -> TurnEntry:
    _check(what, function, blocking)
    check_turn_handler(what, function)
    if blocking:
        return TurnEntry(_refuse_coroutine(function), False, name=name_of(function))
    in_thread = not is_async(function)
    return TurnEntry(function, is_async=True, in_thread=in_thread, name=name_of(function))


def _tool(function: Callable[[Any], Any], blocking: bool) -> ToolEntry:
    if blocking:
        return ToolEntry(_refuse_coroutine(function), False, None, None, None)
    return ToolEntry(function, True, None, None, None, in_thread=not is_async(function))


def _check(what: str, function: Any, blocking: bool) -> None:
    if not callable(function):
        raise TypeError(f"{what}: must be a function, not {type(function).__name__}")
    if blocking and is_async(function):
        raise TypeError(f"{what}: a coroutine function needs AsyncClient or Worker")


def _refuse_coroutine(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns the function with a check: a coroutine result is an error, because no loop would
    run it.
    """

    def call(argument: Any) -> Any:
        value = function(argument)
        if inspect.iscoroutine(value):
            value.close()
            raise HandlerError(
                "the handler returned a coroutine, which needs AsyncClient or Worker",
                reason="BAD_REPLY",
            )
        return value

    return call

"""The handlers of a worker, by the names that they execute."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pawl_client._errors import FailTurnError
from pawl_client._values import Json

F = TypeVar("F", bound=Callable[..., Any])
TurnHandler = Callable[[Any], Any]
ToolHandler = Callable[[Any], "Awaitable[Json] | Json"]


@dataclass(frozen=True, slots=True)
class TurnEntry:
    """A handler of turns.

    `is_async`: its result must be awaited. `in_thread`: it is called in a thread, and its result is
    awaited if it is awaitable. `name` is the function's own, for messages.
    """

    function: TurnHandler
    is_async: bool
    in_thread: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """A handler of a tool.

    `parameters` and `result` are the JSON Schemas of its payload and result, `arguments` that of
    the function's own arguments, each None if unknown. `is_async` and `in_thread` are those of
    TurnEntry.
    """

    function: ToolHandler
    is_async: bool
    parameters: Json
    result: Json
    arguments: Json
    in_thread: bool = False


@dataclass(slots=True)
class Handlers:
    """Handlers by name; "*" is for names without a handler of their own."""

    prompts: dict[str, TurnEntry] = field(default_factory=dict)
    agents: dict[str, TurnEntry] = field(default_factory=dict)
    tools: dict[str, ToolEntry] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.prompts or self.agents or self.tools)

    def of_turn(self, prompt: str, agent: str) -> TurnEntry:
        """Returns the handler of a turn: that of its prompt, else of its agent, else of "*".

        Raises FailTurnError (NO_HANDLER).
        """
        for handlers, name in (
            (self.prompts, prompt),
            (self.agents, agent),
            (self.prompts, "*"),
            (self.agents, "*"),
        ):
            if name in handlers:
                return handlers[name]
        known_names = sorted({*self.prompts, *self.agents})
        text = f"no handler for prompt {prompt!r}; there are handlers for {known_names}"
        raise FailTurnError("NO_HANDLER", text)

    def schemas(self) -> dict[str, Json]:
        """Returns the JSON Schema of each tool's arguments, if it is known."""
        known = {name: tool.arguments or tool.parameters for name, tool in self.tools.items()}
        return {name: schema for name, schema in known.items() if schema is not None}

    def of_tool(self, name: str) -> ToolEntry | None:
        """Returns the handler of a tool. None means that there is none."""
        return self.tools.get(name) or self.tools.get("*")


def registering(handlers: dict[str, TurnEntry], name: str) -> Callable[[F], F]:
    """Returns a decorator that registers a turn handler.

    It raises TypeError for a function that cannot be called with a Turn.
    """

    def register(function: F) -> F:
        check_turn_handler(f"handler {name!r}", function)
        register_handler(
            handlers, name, TurnEntry(function, is_async(function), name=name_of(function))
        )
        return function

    return register


def check_turn_handler(what: str, function: Callable[..., Any]) -> None:
    """Raises TypeError for a function that cannot be called with a Turn alone."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # A function in C, or another one without a signature.
    try:
        signature.bind(None)
    except TypeError:
        raise TypeError(
            f"{what}: must be callable with one argument, a Turn, not with {signature}"
        ) from None


def register_handler(handlers: dict[str, Any], name: str, handler: Any) -> None:
    """Registers a handler. Raises ValueError if the name has one."""
    if name in handlers:
        raise ValueError(f"{name!r} has a handler already; register one handler for each name")
    handlers[name] = handler


def name_of(function: Any) -> str:
    """Returns the name of a function, or that of its class."""
    name = getattr(function, "__qualname__", "") or type(function).__name__
    return str(name)


def is_async(function: Any) -> bool:
    """Whether a call of the function must be awaited; also for objects with a __call__."""
    call = getattr(function, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)

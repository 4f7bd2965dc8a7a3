"""The handlers of a worker: which function executes what."""

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
    """What executes turns, and whether a call of it has to be awaited. `in_thread`: it is called
    in a thread, and what it returns is awaited if need be."""

    function: TurnHandler
    is_async: bool
    in_thread: bool = False


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """What executes a tool, whether a call of it has to be awaited, the JSON Schemas of
    its payload and result, and that of the function's own arguments, if it tells them.
    `in_thread` as of a TurnEntry."""

    function: ToolHandler
    is_async: bool
    parameters: Json
    result: Json
    arguments: Json
    in_thread: bool = False


@dataclass(slots=True)
class Handlers:
    """Handlers by the name of what they execute; "*" is what has no other."""

    prompts: dict[str, TurnEntry] = field(default_factory=dict)
    agents: dict[str, TurnEntry] = field(default_factory=dict)
    tools: dict[str, ToolEntry] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.prompts or self.agents or self.tools)

    def of_turn(self, prompt: str, agent: str) -> TurnEntry:
        """The handler of a turn: that of its prompt, else of its agent, else of "*".

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
        text = f"no handler for prompt {prompt!r}; there are {known_names}"
        raise FailTurnError("NO_HANDLER", text)

    def schemas(self) -> dict[str, Json]:
        """The JSON Schema of what each tool takes, where it is known."""
        known = {name: tool.arguments or tool.parameters for name, tool in self.tools.items()}
        return {name: schema for name, schema in known.items() if schema is not None}

    def of_tool(self, name: str) -> ToolEntry | None:
        """What executes a tool; None: nothing does."""
        return self.tools.get(name) or self.tools.get("*")


def registering(handlers: dict[str, TurnEntry], name: str) -> Callable[[F], F]:
    """A decorator that registers a handler of turns. It raises TypeError for a function that
    cannot be called with a Turn."""

    def register(function: F) -> F:
        check_turn_handler(f"handler {name!r}", function)
        register_handler(handlers, name, TurnEntry(function, is_async(function)))
        return function

    return register


def check_turn_handler(what: str, function: Callable[..., Any]) -> None:
    """Raises TypeError: the function cannot be called with a Turn alone."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # Of C, or otherwise without a signature.
    try:
        signature.bind(None)
    except TypeError:
        raise TypeError(f"{what}: it is called with a Turn, and it takes {signature}") from None


def register_handler(handlers: dict[str, Any], name: str, handler: Any) -> None:
    """Registers a handler. Raises ValueError if there is one under the name."""
    if name in handlers:
        raise ValueError(f"{name!r} has a handler already")
    handlers[name] = handler


def is_async(function: Any) -> bool:
    """Whether a call of it has to be awaited; also for objects with a __call__."""
    call = getattr(function, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)

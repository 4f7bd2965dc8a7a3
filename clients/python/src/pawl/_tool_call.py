"""The tool call that a handler makes now."""

from __future__ import annotations

import contextvars
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """The tool call that a handler makes now; see `current_call`.

    `idempotency_key` is "RUN/STEP", the same for every attempt of the call: hand it to
    whatever the tool changes elsewhere, so that an attempt whose answer was lost, came
    too late or was an error has no second effect there. Not `attempt`, which rises
    exactly then; nor `key`, which is unique in its visit only. The payload cannot
    override any of these.
    """

    run_id: str
    step: int
    tool: str
    attempt: int
    key: str
    idempotency_key: str
    turn_seq: int
    deadline: datetime | None

    def headers(self) -> dict[str, str]:
        """The HTTP header by which services know a repeated request: Idempotency-Key."""
        return {"Idempotency-Key": self.idempotency_key}

    def meta(self) -> dict[str, str]:
        """The same for the `_meta` of an MCP server's tools/call."""
        return {"dev.pawl/idempotency-key": self.idempotency_key}


_current: contextvars.ContextVar[ToolCall] = contextvars.ContextVar("pawl_call")


def current_call() -> ToolCall:
    """The tool call that this handler makes, in a worker or in a run that is driven
    here. Raises LookupError elsewhere."""
    return _current.get()


def enter(call: ToolCall) -> None:
    """Makes a call the current one of this context."""
    _current.set(call)


def within(call: ToolCall, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function with `call` as the current one while it runs, or is awaited."""

    def called(payload: Any) -> Any:
        before = _current.set(call)
        try:
            result = function(payload)
        finally:
            _current.reset(before)
        return _awaited(call, result) if inspect.isawaitable(result) else result

    return called


async def _awaited(call: ToolCall, result: Awaitable[Any]) -> Any:
    before = _current.set(call)
    try:
        return await result
    finally:
        _current.reset(before)

"""The tool call that a handler executes now."""

from __future__ import annotations

import contextvars
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pawl_client._values import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """The tool call that a handler executes now; see `current_call`.

    `idempotency_key` is "RUN/STEP", the same for every attempt of the call. Pass it to each service
    that the tool changes, so that a second attempt, after a lost, late or failed answer, has no
    second effect there. Do not use `attempt`, which increases in exactly these cases, or `key`,
    which is unique only in its visit. The payload cannot override any of these fields. `deadline`
    is an aware time, None: no deadline.
    """

    run_id: str
    step: int
    tool: str
    attempt: int
    key: str
    idempotency_key: str
    turn_seq: int
    deadline: datetime | None
    _reported: list[Usage] = field(default_factory=list, init=False, repr=False, compare=False)

    def spent(self, usage: Usage) -> None:
        """Reports what this attempt consumed. It is sent with the answer, a result or an error.

        A later report replaces an earlier one. Without a report, the attempt counts as its highest
        cost in the pack (x_pawl.tools.NAME.cost).

            @worker.tool("search")
            def search(payload):
                found = engine.find(payload["query"])
                pawl_client.current_call().spent(pawl_client.Usage(cost_micro_usd=found.price))
                return found.hits

        Raises TypeError for another type, ValueError for a figure that the sidecar would refuse.
        """
        _check(usage)
        self._reported[:] = [usage]

    @property
    def usage(self) -> Usage | None:
        """Usage that `spent` reported. None means that it reported none."""
        return self._reported[0] if self._reported else None

    def headers(self) -> dict[str, str]:
        """Returns the HTTP header that makes a repeated request recognisable: Idempotency-Key."""
        return {"Idempotency-Key": self.idempotency_key}

    def meta(self) -> dict[str, str]:
        """Returns the same key for the `_meta` of an MCP server's tools/call."""
        return {"dev.pawl/idempotency-key": self.idempotency_key}


_MAX = {"tool_calls": 10**6}
_FIGURES = ("input_tokens", "output_tokens", "cost_micro_usd", "tool_calls")


def _check(usage: Usage) -> None:
    """Raises TypeError or ValueError for usage that the sidecar would refuse with the whole
    answer.
    """
    if not isinstance(usage, Usage):
        raise TypeError(f"usage: must be a pawl_client.Usage, not {type(usage).__name__}")
    if len(usage.model.encode()) > 256:
        size = len(usage.model.encode())
        raise ValueError(f"model: must have at most 256 bytes, not {size}")
    for name in _FIGURES:
        given, most = getattr(usage, name), _MAX.get(name, 10**12)
        if not isinstance(given, int) or not 0 <= given <= most:
            raise ValueError(f"{name}: must be a whole number from 0 to {most}, not {given!r}")
    for part, whole in (("cached_tokens", "input_tokens"), ("reasoning_tokens", "output_tokens")):
        given, most = getattr(usage, part), getattr(usage, whole)
        if not isinstance(given, int) or not 0 <= given <= most:
            raise ValueError(f"{part}: must be from 0 to {whole} ({most}), not {given!r}")


_current: contextvars.ContextVar[ToolCall] = contextvars.ContextVar("pawl_call")


def current_call() -> ToolCall:
    """Returns the tool call that this handler executes, in a worker or in a run that is driven
    here.

    Raises LookupError outside of a tool call.
    """
    return _current.get()


def enter(call: ToolCall) -> None:
    """Makes a call the current one of this context."""
    _current.set(call)


def within(call: ToolCall, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns the function with `call` as the current one while it runs or is awaited."""

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

"""The tool call that a handler makes now."""

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
    _reported: list[Usage] = field(default_factory=list, init=False, repr=False, compare=False)

    def spent(self, usage: Usage) -> None:
        """Says what this attempt really consumed, to be told with its answer, be it a result
        or an error; a later word takes the place of an earlier one. Without a word it counts
        as what the pack says that an attempt costs at most (x_pawl.tools.NAME.cost).

            @worker.tool("search")
            def search(payload):
                found = engine.find(payload["query"])
                pawl_client.current_call().spent(pawl_client.Usage(cost_micro_usd=found.price))
                return found.hits

        Raises TypeError, ValueError for figures that the sidecar would refuse.
        """
        _check(usage)
        self._reported[:] = [usage]

    @property
    def usage(self) -> Usage | None:
        """What was said by `spent`; None: nothing."""
        return self._reported[0] if self._reported else None

    def headers(self) -> dict[str, str]:
        """The HTTP header by which services know a repeated request: Idempotency-Key."""
        return {"Idempotency-Key": self.idempotency_key}

    def meta(self) -> dict[str, str]:
        """The same for the `_meta` of an MCP server's tools/call."""
        return {"dev.pawl/idempotency-key": self.idempotency_key}


_MAX = {"tool_calls": 10**6}
_FIGURES = ("input_tokens", "output_tokens", "cost_micro_usd", "tool_calls")


def _check(usage: Usage) -> None:
    """Raises ValueError for what the sidecar would refuse: it would refuse the answer."""
    if not isinstance(usage, Usage):
        raise TypeError(f"usage: a pawl_client.Usage, not {type(usage).__name__}")
    if len(usage.model.encode()) > 256:
        raise ValueError("model: at most 256 bytes")
    for name in _FIGURES:
        given, most = getattr(usage, name), _MAX.get(name, 10**12)
        if not isinstance(given, int) or not 0 <= given <= most:
            raise ValueError(f"{name}: a whole number from 0 to {most}, not {given!r}")
    for part, whole in (("cached_tokens", "input_tokens"), ("reasoning_tokens", "output_tokens")):
        given, most = getattr(usage, part), getattr(usage, whole)
        if not isinstance(given, int) or not 0 <= given <= most:
            raise ValueError(f"{part}: from 0 to {whole} ({most}), not {given!r}")


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

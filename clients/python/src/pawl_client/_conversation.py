"""Builds the messages of a run from its events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from pawl_client._events import (
    CallResult,
    Event,
    HistoryMessage,
    MessageEvent,
    ToolResultEvent,
    TurnEndedEvent,
)
from pawl_client._values import Fault


@dataclass(slots=True)
class _Entry:
    message: HistoryMessage
    step: int
    results: dict[str, CallResult] = field(default_factory=dict)
    """Results by the id of the call."""


class Conversation:
    """Builds the history of a run from its events, given in order."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []

    def take(self, events: Iterable[Event]) -> None:
        """Adds the next events."""
        for event in events:
            if isinstance(event, ToolResultEvent) and event.call is not None:
                result = CallResult(
                    call_id=event.call_id,
                    tool=event.tool,
                    ok=event.ok,
                    result=event.result,
                    error=event.error,
                )
                self._answer(result, event)
            elif isinstance(event, MessageEvent) and event.role == "tool":
                self._answer(_call_result(event), event)
            elif isinstance(event, MessageEvent):
                self._entries.append(_Entry(_message(event), event.step))
            elif isinstance(event, TurnEndedEvent) and event.rejected_step:
                # The model is asked again for that round.
                self._entries = [one for one in self._entries if one.step != event.rejected_step]

    def messages(self) -> Iterator[HistoryMessage]:
        """Yields the history so far."""
        for entry in self._entries:
            yield entry.message
            if entry.results:
                order = [call.id for call in entry.message.calls]
                results = tuple(entry.results[call] for call in order if call in entry.results)
                yield replace(
                    entry.message, role="tool", parts=(), calls=(), refusal="", results=results
                )

    def _answer(self, result: CallResult, event: Event) -> None:
        for entry in reversed(self._entries):
            if any(call.id == result.call_id for call in entry.message.calls):
                entry.results[result.call_id] = result
                return
        unmatched = HistoryMessage(
            role="tool", results=(result,), seq=event.seq, turn_seq=event.turn_seq
        )
        self._entries.append(_Entry(unmatched, 0))


def _message(event: MessageEvent) -> HistoryMessage:
    return HistoryMessage(
        role=event.role,
        parts=event.parts,
        calls=event.calls,
        refusal=event.refusal,
        seq=event.seq,
        turn_seq=event.turn_seq,
    )


def _call_result(event: MessageEvent) -> CallResult:
    """Returns the answer to a call without a step: {"error": {"code", "message"}}, or a result."""
    values: list[Any] = [part.json.value for part in event.parts if part.json is not None]
    value = values[0] if values else "".join(part.text or "" for part in event.parts)
    error = value.get("error") if isinstance(value, dict) else None
    if isinstance(error, dict):
        fault = Fault(code=str(error.get("code", "")), message=str(error.get("message", "")))
        return CallResult(call_id=event.call_id, tool="", ok=False, result=None, error=fault)
    return CallResult(call_id=event.call_id, tool="", ok=True, result=value, error=None)

"""The events of a run, for programs that watch it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias

from pawl_client._enums import RunStatus
from pawl_client._models import ModelCall, ToolCallRef
from pawl_client._values import ArtifactLike, Fault, Json, Part, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    """Fields of all events.

    `seq` is the record of the event; for a piece of text, the newest record before it. `cursor` is
    the position after the event: `Run.events(after=cursor)` continues from there. `turn_seq` and
    `attempt` are 0 for events that belong to no turn.
    """

    run_id: str = ""
    seq: int = 0
    cursor: str = ""
    turn_seq: int = 0
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEvent(_Event):
    """A piece of the turn's text.

    The pieces of a turn after its last ResetEvent are its text: many pieces while the turn is open,
    one piece for a later reader.
    """

    kind: Literal["text"] = "text"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningEvent(_Event):
    """A piece of the model's reasoning, while the turn is open. It is not recorded."""

    kind: Literal["reasoning"] = "reasoning"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetEvent(_Event):
    """Discards all text and reasoning shown so far for this turn (`turn_seq`).

    The text that remains valid is sent again. Other turns and recorded events are not affected.
    """

    kind: Literal["reset"] = "reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallEvent(_Event):
    """A call of a tool or an agent.

    `call` is the model's tool call that it executes, with the id `call_id`; None: no model
    requested it.
    """

    kind: Literal["tool_call"] = "tool_call"
    step: int
    tool: str
    payload: Json
    call: ToolCallRef | None
    call_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultEvent(_Event):
    """The final answer to a tool call: `result`, or with `ok` False an `error`.

    `step` is 0 for a refused call.
    """

    kind: Literal["tool_result"] = "tool_result"
    step: int
    tool: str
    ok: bool
    result: Json
    error: Fault | None
    call: ToolCallRef | None
    call_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionEvent(_Event):
    """The run entered a state by an `event` from `source`; both are empty at the start."""

    kind: Literal["transition"] = "transition"
    source: str
    event: str
    to: str
    visit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactEvent(_Event):
    """An artifact was written. In the mode APPEND `value` is the appended part."""

    kind: Literal["artifact"] = "artifact"
    name: str
    value: ArtifactLike
    media_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitEvent(_Event):
    """The run waits.

    `on` is "input" (an input or an event), "auth" (an authorisation and an input), "approval" (a
    decision about a held call, with its `step`, `tool` and `digest`), "steps" (answers to `steps`),
    "timer", or "paused" (until it is resumed). `until` is when the wait ends by itself. `parts` is
    the question of an agent; its answer is an input for `step`.
    """

    kind: Literal["wait"] = "wait"
    on: Literal["input", "auth", "approval", "steps", "timer", "paused"]
    step: int = 0
    tool: str = ""
    digest: str = ""
    steps: tuple[int, ...] = ()
    parts: tuple[Part, ...] = ()
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnBeganEvent(_Event):
    """An execution of a turn may begin or continue.

    `state` is empty if the event that names it is before the reader's first cursor.
    """

    kind: Literal["turn_began"] = "turn_began"
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEndedEvent(_Event):
    """An execution of a turn is over.

    `outcome` is "completed" (with an `output` and perhaps an `event`), "failed" (with an `error`
    and the following attempt `next`, 0: none), "abandoned", or "suspended" until its steps are
    answered. `rejected_step` is the MODEL step whose answer was rejected, so that the next attempt
    asks the model again; 0: none.
    """

    kind: Literal["turn_ended"] = "turn_ended"
    outcome: Literal["completed", "failed", "abandoned", "suspended"]
    output: tuple[Part, ...] = ()
    event: str = ""
    usage: Usage | None = None
    error: Fault | None = None
    next: int = 0
    rejected_step: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundBeganEvent(_Event):
    """A model call begins: try number `try_number` of the MODEL step `step`."""

    kind: Literal["round_began"] = "round_began"
    step: int
    model: str
    try_number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundEndedEvent(_Event):
    """The model answered, or with `ok` False it did not; `next` is the following try, 0: none."""

    kind: Literal["round_ended"] = "round_ended"
    step: int
    model: str
    ok: bool
    usage: Usage | None
    finish_reason: str
    error: Fault | None
    next: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageEvent(_Event):
    """A whole message of the conversation.

    `role` is user, assistant, tool or system. `calls` are the tool calls of a model's answer, whose
    MODEL step is `step`. `call_id` is the call that a tool message answers without a step.
    """

    kind: Literal["message"] = "message"
    role: str
    parts: tuple[Part, ...]
    calls: tuple[ModelCall, ...] = ()
    call_id: str = ""
    refusal: str = ""
    step: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EndEvent(_Event):
    """The run has ended.

    `output` is that of its last completed turn that the reader has seen; `artifacts` are the last
    values by name.
    """

    kind: Literal["end"] = "end"
    status: RunStatus
    reason: str
    output: tuple[Part, ...]
    artifacts: Mapping[str, ArtifactLike] = field(default_factory=dict)


Event: TypeAlias = (
    TextEvent
    | ReasoningEvent
    | ResetEvent
    | ToolCallEvent
    | ToolResultEvent
    | TransitionEvent
    | ArtifactEvent
    | WaitEvent
    | TurnBeganEvent
    | TurnEndedEvent
    | RoundBeganEvent
    | RoundEndedEvent
    | MessageEvent
    | EndEvent
)
"""One event of a run; `kind` names its class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """The result of a model's tool call."""

    call_id: str
    tool: str
    ok: bool
    result: Json
    error: Fault | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryMessage:
    """One message of a run's history.

    An assistant's message has the `calls` of its answer; the next message, of role tool, has their
    `results` in the same order.
    """

    role: str
    parts: tuple[Part, ...] = ()
    calls: tuple[ModelCall, ...] = ()
    results: tuple[CallResult, ...] = ()
    refusal: str = ""
    seq: int = 0
    turn_seq: int = 0

    @property
    def text(self) -> str:
        """Its text parts, joined."""
        return text_of(self.parts)


def text_of(parts: tuple[Part, ...]) -> str:
    """The text parts, joined."""
    return "".join(part.text for part in parts if part.text is not None)

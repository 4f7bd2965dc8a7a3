"""The events of a run: what a program that watches it gets."""

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
    """`seq` is the record that says it; of a piece of text, the newest one before it. `cursor`
    is behind the event: `Run.events(after=cursor)` goes on from there. `turn_seq` and `attempt`
    are 0 for what belongs to no turn."""

    run_id: str = ""
    seq: int = 0
    cursor: str = ""
    turn_seq: int = 0
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEvent(_Event):
    """A piece of what the turn says. The pieces of a turn, behind its last ResetEvent, are its
    text: piece by piece while it is under way, in one piece for those who come later."""

    kind: Literal["text"] = "text"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningEvent(_Event):
    """A piece of what the model thinks, while the turn is under way. No record has it."""

    kind: Literal["reasoning"] = "reasoning"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetEvent(_Event):
    """All text and reasoning of this turn (`turn_seq`) that was shown before is void; what stays
    of it comes again. Other turns are as they were, and so is all that is a record."""

    kind: Literal["reset"] = "reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallEvent(_Event):
    """A tool, or an agent, is called. `call` is the model's call that it makes, with the id
    `call_id`; None: no model asked for it."""

    kind: Literal["tool_call"] = "tool_call"
    step: int
    tool: str
    payload: Json
    call: ToolCallRef | None
    call_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultEvent(_Event):
    """The final answer to a tool call: `result`, or with `ok` False an `error`. `step` is 0 for a
    call that was refused."""

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
    """A state was entered, by an `event` from `source`; both are empty at the beginning."""

    kind: Literal["transition"] = "transition"
    source: str
    event: str
    to: str
    visit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactEvent(_Event):
    """An artifact was written. In the mode APPEND `value` is what was added."""

    kind: Literal["artifact"] = "artifact"
    name: str
    value: ArtifactLike
    media_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitEvent(_Event):
    """The run waits: for an "input" (or an event), an authorisation and an input ("auth"), a
    decision about a held call ("approval", with its `step`, `tool` and `digest`), answers to its
    "steps", a "timer", or to be resumed ("paused"). `until` is when the wait ends by itself;
    `parts` is what an agent asks, whose answer is an input for `step`."""

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
    """An execution of a turn may begin, or go on. `state` is empty if it was said before the
    cursor that the reader began at."""

    kind: Literal["turn_began"] = "turn_began"
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEndedEvent(_Event):
    """An execution of a turn is over: "completed" with an `output` and perhaps an `event`,
    "failed" with an `error` and the attempt that follows (`next`, 0: none), "abandoned", or
    "suspended" until its steps are answered. `rejected_step`: the MODEL step whose answer was
    rejected with it, and for which the next attempt asks the model anew; 0: none was."""

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
    """A model is asked: the MODEL step `step`, for the `try_number`-th time."""

    kind: Literal["round_began"] = "round_began"
    step: int
    model: str
    try_number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundEndedEvent(_Event):
    """The model answered, or with `ok` False it did not; `next` is the try that follows, 0:
    none."""

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
    """A whole message of the conversation. `role` says who speaks: user, assistant, tool or
    system. `calls` are those of a model's answer, whose MODEL step is `step`; `call_id` is the
    call that a tool's message answers, where no tool was called for it."""

    kind: Literal["message"] = "message"
    role: str
    parts: tuple[Part, ...]
    calls: tuple[ModelCall, ...] = ()
    call_id: str = ""
    refusal: str = ""
    step: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EndEvent(_Event):
    """The run has ended. `output` is that of its last completed turn, as far as the reader has
    seen it; `artifacts` are the last values by name."""

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
"""One event of a run; `kind` says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """What a model's call came to."""

    call_id: str
    tool: str
    ok: bool
    result: Json
    error: Fault | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryMessage:
    """One message of a run's history. An assistant's has the `calls` of its answer; the next one,
    of role tool, has their `results` in the same order."""

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

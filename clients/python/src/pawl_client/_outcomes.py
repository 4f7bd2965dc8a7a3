"""Results of writing calls, and replies of handlers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar, cast

from pawl_client import _output_schema
from pawl_client._convert import enum_of, from_proto, optional, optional_record
from pawl_client._enums import Awaiting, Disposition, RunStatus
from pawl_client._errors import HandlerError, SchemaError
from pawl_client._records import Record
from pawl_client._runs import RunInfo, Snapshot, StepOutcome, TurnRef
from pawl_client._types import ReplyArtifactsT, ReplyEventT, ValuesT
from pawl_client._values import (
    CONTENT,
    Artifact,
    ArtifactLike,
    Content,
    Message,
    Usage,
    parts_of,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The effect of a call on a run; None and "" where the call does not report it.

    `record` is what the call recorded, `transition` the state that was entered, `ended` the end of
    the run, `turn` the turn that is open afterwards. `duplicate`: the id was used before, and this
    is the first answer.
    """

    record: Record | None = None
    transition: Record | None = None
    ended: Record | None = None
    state: str = ""
    status: RunStatus = RunStatus.UNSPECIFIED
    seq: int = 0
    turn: TurnRef | None = None
    queued: bool = False
    duplicate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The result of starting a run.

    `record` is its first record: the Transition into the entry, or Ended. `turn` is the open turn;
    None: none is open. `duplicate`: the `request_id` was used before, and this is the first answer.
    """

    run: RunInfo
    record: Record | None
    turn: TurnRef | None
    duplicate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcomes:
    """The results of step requests, one each, in order."""

    outcomes: tuple[StepOutcome, ...]
    ended: Record | None
    status: RunStatus
    seq: int
    duplicate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAnswer:
    """The result of answering a step."""

    disposition: Disposition
    record: Record | None
    ended: Record | None
    status: RunStatus
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """A run after a wait; `timed_out`: the timeout passed first."""

    run: RunInfo
    timed_out: bool


# Without slots: `Reply[...]()` sets an attribute, and typing ignores the failure of a frozen class
# only.
@dataclass(frozen=True, kw_only=True)
class Reply(Generic[ReplyEventT, ReplyArtifactsT]):
    """The result of a turn, returned by its handler.

    `event` is one of the turn's allowed events. If it is empty, the run ends in a terminal state
    and waits in any other. `artifacts` are written in the same commit, `output` is the final
    output, `messages` are appended to the conversation. `awaiting` makes the run wait for an input
    or an authorisation in any state; it excludes an event. `reply`: over A2A the output answers the
    sender as a message instead of a task. `conversation_through_step` is an answered MODEL step of
    the turn: the messages up to it become part of the conversation, before `messages`, without
    being stored again.

    >>> Reply(event="Success", artifacts={"note": "done"}).event
    'Success'
    """

    event: ReplyEventT | Literal[""] = ""
    artifacts: ReplyArtifactsT = field(default_factory=lambda: cast("Any", {}))
    output: Content | None = None
    messages: Sequence[Message] = ()
    usage: Usage | None = None
    awaiting: Awaiting = Awaiting.UNSPECIFIED
    reply: bool = False
    conversation_through_step: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult(Generic[ValuesT]):
    """The result of a run that has ended, or waits for an outside input.

    `artifacts` are the last values by name. `output` is that of the last completed turn, by any
    executor. `errors` are the errors of handlers in this process, in order.
    """

    run: RunInfo
    artifacts: ValuesT
    output: tuple[Any, ...]
    errors: tuple[BaseException, ...]

    @property
    def status(self) -> RunStatus:
        """Current status of the run."""
        return self.run.status

    @property
    def reason(self) -> str:
        """Why it ended, for example "completed"; empty while it is active."""
        return self.run.reason

    @property
    def cost_usd(self) -> float | None:
        """The cost of its model calls in US dollars. None means unknown: they have no price."""
        if self.run.cost_micro_usd == 0 and self.run.tokens > 0:
            return None
        return self.run.cost_micro_usd / 1_000_000

    @property
    def text(self) -> str:
        """The text of the output, without its other parts; empty if it has none."""
        return "".join(part.text for part in self.output if part.text is not None)

    def artifact(self, name: str, cls: type[T]) -> T:
        """Returns an artifact as a validated instance of a class that pydantic supports.

        Raises SchemaError (ARTIFACT_INVALID) if the artifact was not written, or does not fit.
        """
        artifacts = cast("Mapping[str, Any]", self.artifacts)
        if name not in artifacts:
            written = ", ".join(artifacts) or "none"
            text = f"artifact {name}: it was not written; written: {written}{self._incomplete()}"
            raise SchemaError(text, reason="ARTIFACT_INVALID")
        return _output_schema.artifact_of(cls, name, artifacts[name])

    def output_as(self, cls: type[T]) -> T:
        """Returns the output as a validated instance of a class that pydantic supports.

        Raises SchemaError (OUTPUT_INVALID) if there is no single JSON output, or it does not fit.
        """
        return _output_schema.instance_of(cls, self.output, self._incomplete())

    def _incomplete(self) -> str:
        """Returns why the run did not complete, for messages; empty if it did."""
        if self.status is RunStatus.COMPLETED:
            return ""
        if not self.status.terminal:
            return f"; the run has not ended: it is {self.status}"
        return f"; the run ended {self.status} ({self.reason})"


def values_of(artifacts: Sequence[Artifact]) -> dict[str, ArtifactLike]:
    """Returns the values by name."""
    return {artifact.name: artifact.value for artifact in artifacts}


def _status(message: Any) -> RunStatus:
    word: RunStatus = enum_of("pawl.v1.RunStatus", message.status)
    return word


def outcome(message: Any) -> Outcome:
    """Reads the answer of any writing call."""
    names = set(message.DESCRIPTOR.fields_by_name)

    def maybe(name: str) -> Record | None:
        return optional_record(message, name) if name in names else None

    return Outcome(
        record=maybe("record"),
        transition=maybe("transition"),
        ended=maybe("ended"),
        state=message.state if "state" in names else "",
        status=_status(message) if "status" in names else RunStatus.UNSPECIFIED,
        seq=message.seq,
        turn=optional(message, "turn") if "turn" in names else None,
        queued=message.queued if "queued" in names else False,
        duplicate=message.duplicate,
    )


def snapshot(message: Any) -> Snapshot:
    """Reads a run with the values of its artifacts."""
    return Snapshot(
        run=from_proto(message.run),
        artifacts=tuple(from_proto(item) for item in message.artifacts),
    )


def started(message: Any) -> Started:
    """Reads the answer of StartRun."""
    return Started(
        run=from_proto(message.run),
        record=optional_record(message, "record"),
        turn=optional(message, "turn"),
        duplicate=message.duplicate,
    )


def step_outcomes(message: Any) -> StepOutcomes:
    """Reads the answer of RequestStep."""
    return StepOutcomes(
        outcomes=tuple(from_proto(item) for item in message.outcomes),
        ended=optional_record(message, "ended"),
        status=_status(message),
        seq=message.seq,
        duplicate=message.duplicate,
    )


def step_answer(message: Any) -> StepAnswer:
    """Reads the answer of ResolveStep."""
    return StepAnswer(
        disposition=enum_of("pawl.v1.Disposition", message.disposition),
        record=optional_record(message, "record"),
        ended=optional_record(message, "ended"),
        status=_status(message),
        seq=message.seq,
    )


def reply_of(answer: Any) -> Reply:
    """Returns the reply of a handler's return value. Raises HandlerError for any other value."""
    if answer is None:
        return Reply()
    if isinstance(answer, Reply):
        return answer
    raise _bad_reply(f"it must return a Reply or None, not {_type(answer)}")


_FIELDS: tuple[tuple[str, tuple[type, ...], str], ...] = (
    ("event", (str,), "the name of an event"),
    ("artifacts", (Mapping,), "a mapping from names to values"),
    ("messages", (list, tuple), "a list of Message"),
    ("usage", (Usage, type(None)), "a Usage or None"),
    ("awaiting", (str,), "an Awaiting"),
)


def check_reply(reply: Reply) -> None:
    """Raises HandlerError (BAD_REPLY) for a field that is of a wrong type or has no JSON form."""
    for name, kinds, expected in _FIELDS:
        value = getattr(reply, name)
        if not isinstance(value, kinds):
            raise _bad_reply(f"Reply.{name} must be {expected}, not {_type(value)}")
    for index, message in enumerate(reply.messages):
        if not isinstance(message, Message):
            raise _bad_reply(f"Reply.messages[{index}] must be a Message, not {_type(message)}")
    try:
        parts_of(reply.output)
    except TypeError:
        raise _bad_reply(f"Reply.output must be {CONTENT}, not {_type(reply.output)}") from None


def _bad_reply(text: str) -> HandlerError:
    return HandlerError(text, reason="BAD_REPLY")


def _type(value: Any) -> str:
    return type(value).__name__

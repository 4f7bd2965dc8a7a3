"""What writing calls answer, and what handlers answer with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar, cast

from pawl_client import _output_schema
from pawl_client._convert import enum_of, from_proto, optional, optional_record
from pawl_client._enums import Awaiting, Disposition, RunStatus
from pawl_client._errors import HandlerError
from pawl_client._records import Record
from pawl_client._runs import RunInfo, Snapshot, StepOutcome, TurnRef
from pawl_client._types import ReplyArtifactsT, ReplyEventT, ValuesT
from pawl_client._values import Artifact, ArtifactLike, Content, Message, Usage

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a call did to a run; None and "" where the call does not tell.

    `record` is what it recorded, `transition` the state that was entered, `ended` the
    end of the run, `turn` the turn that is open afterwards. `duplicate`: the id was
    used before, this is the first answer.
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
    """What starting a run did.

    `record` is its first one: the Transition into the entry, or Ended. `turn` is the
    turn that is open; None: none. `duplicate`: the `request_id` was used before, this is
    the first answer.
    """

    run: RunInfo
    record: Record | None
    turn: TurnRef | None
    duplicate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcomes:
    """What became of step requests, one outcome each, in order."""

    outcomes: tuple[StepOutcome, ...]
    ended: Record | None
    status: RunStatus
    seq: int
    duplicate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAnswer:
    """What became of a step's answer."""

    disposition: Disposition
    record: Record | None
    ended: Record | None
    status: RunStatus
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """A run after a wait; `timed_out`: the time was over first."""

    run: RunInfo
    timed_out: bool


# Without slots: `Reply[...]()` sets an attribute, which only such a class refuses in peace.
@dataclass(frozen=True, kw_only=True)
class Reply(Generic[ReplyEventT, ReplyArtifactsT]):
    """What a handler makes of a turn.

    `event` is one of the turn's allowed events, or empty: the run then ends in a
    terminal state, else waits. `artifacts` are written in the same commit, `output` is
    the final output, `messages` are appended to the conversation. `awaiting` makes the
    run wait for an input or an authorisation, whatever the state; not with an event.
    `reply`: over A2A the output answers the sender as a message instead of a task.
    `conversation_through_step` is an answered MODEL step of the turn: what was said
    up to it becomes part of the conversation, before `messages`, without being stored again.

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
    """What came out of a run: ended, or waiting for something from outside.

    `artifacts` are the last values by name. `output` is that of the last turn that was
    completed, by whomever. `errors` are what went wrong in handlers of this process, in
    order.
    """

    run: RunInfo
    artifacts: ValuesT
    output: tuple[Any, ...]
    errors: tuple[BaseException, ...]

    @property
    def status(self) -> RunStatus:
        """Where the run stands."""
        return self.run.status

    @property
    def reason(self) -> str:
        """Why it ended, for example "completed"; empty while it goes on."""
        return self.run.reason

    def output_as(self, cls: type[T]) -> T:
        """The output as an instance of a class that pydantic knows, validated. Raises SchemaError
        (OUTPUT_INVALID): there is no output in JSON, or it does not fit."""
        return _output_schema.instance_of(cls, self.output)


def values_of(artifacts: Sequence[Artifact]) -> dict[str, ArtifactLike]:
    """Values by name."""
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
    """What a handler returned, as a reply. Raises HandlerError for anything else."""
    if answer is None:
        return Reply()
    if isinstance(answer, Reply):
        return answer
    raise HandlerError(
        f"a handler returns Reply or None, not {type(answer).__name__}", reason="BAD_REPLY"
    )

"""The records of a run's journal."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from pawl_client._enums import (
    Awaiting,
    Cause,
    RecordKind,
    RunStatus,
    SteerWhen,
    StepKind,
    StepVerdict,
)
from pawl_client._models import ModelAnswer, ModelRequest, ToolCallRef
from pawl_client._runs import Remote, Snapshot, StepAbout
from pawl_client._values import (
    Artifact,
    ArtifactWrite,
    Denial,
    Envelope,
    Fault,
    Json,
    Message,
    OutputPiece,
    Part,
    Usage,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirect:
    """A target that was refused on the way into a state, and the guard that did."""

    state: str
    guard: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UncompensatedEffect:
    """An effect of `step` that was not undone: the step `by` ended with `code`."""

    step: int
    tool: str
    by: int
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One entry into a state; `from_state` and `event` are empty at the start.

    `intended_state` is what the event names; it differs from `to_state` after a redirect.
    """

    from_state: str
    event: str
    to_state: str
    intended_state: str
    redirects: tuple[Redirect, ...]
    visit: int
    total_visits: int
    artifacts_written: tuple[ArtifactWrite, ...]
    uncompensated: tuple[UncompensatedEffect, ...] = ()
    """Effects that were to be undone before, and stand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputReceived:
    """Parts that were sent to a run; `queued`: they wait for the next turn.

    `envelope` is what a message to an agent said besides them; `step` the delegation
    that gets them, 0: the turn. `scopes` are those by which its agent judges the answer,
    empty without a step.
    """

    parts: tuple[Part, ...]
    message_id: str
    queued: bool
    envelope: Envelope | None
    step: int
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOpened:
    """A further turn of the same visit."""

    state: str
    inputs: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One delivery of a turn to a worker."""

    worker: str
    delivery: int
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnAssigned:
    """A turn went to a worker."""

    turn_seq: int
    attempt: int
    assigned: Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCompleted:
    """The accepted completion of a turn.

    `awaiting` is what the run waits for after it; `reply`: the output answers the sender
    as a message, not as a task.
    """

    turn_seq: int
    attempt: int
    output: tuple[Part, ...]
    messages: tuple[Message, ...]
    usage: Usage | None
    event: str
    artifacts_written: tuple[ArtifactWrite, ...]
    awaiting: Awaiting
    reply: bool
    conversation_through_step: int = 0
    """MODEL step up to which what the turn said is part of the conversation; 0: nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFailed:
    """A failed execution; `next` is the attempt that follows, 0: none."""

    turn_seq: int
    attempt: int
    error: Fault | None
    retryable: bool
    next: int
    not_before: datetime | None
    usage: Usage | None
    rejected_step: int = 0
    """The MODEL step whose answer was rejected: `next` asks the model anew; 0: none was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnAbandoned:
    """The visit was left, or the run ended, while the turn was open."""

    turn_seq: int
    attempt: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSuspended:
    """A turn that only waits for steps was released."""

    turn_seq: int
    attempt: int
    pending: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnReady:
    """A turn is offered again."""

    turn_seq: int
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalHold:
    """A call waits for a decision, which names its `digest`.

    `condition_error` says why the pack's condition could not be evaluated.
    """

    condition_error: str
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRequested:
    """A tool call that is to be made."""

    step: int
    key: str
    tool: str
    turn_seq: int
    attempt: int
    payload: Json
    reframe: bool
    deadline: datetime | None
    delegation: bool
    kind: StepKind = StepKind.UNSPECIFIED
    model: ModelRequest | None = None
    call: ToolCallRef | None = None
    request_changed: bool = False
    bound: Usage | None = None
    about: StepAbout | None = None
    """The step that this one of the sidecar's own is about; None: a turn asked for it."""
    by_caller: bool = False
    """The caller that asked for it makes the call, and no worker gets it."""
    hold: ApprovalHold | None = None
    """The call waits for a decision until `deadline`; None: it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDecided:
    """A decision about a held call, or that there was none in time.

    `payload` is what goes out instead, of EDITED; `deadline` when its outcome counts as
    unknown, or a new decision is due.
    """

    step: int
    tool: str
    verdict: StepVerdict
    digest: str
    payload: Json
    reason: str
    expires: datetime | None
    deadline: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResolved:
    """The accepted answer to a step; `next` is the attempt issued next, 0: final."""

    step: int
    tool: str
    attempt: int
    ok: bool
    result: Json
    error: Fault | None
    unknown: bool
    next: int
    deadline: datetime | None
    worker: str
    artifacts_written: tuple[ArtifactWrite, ...]
    usage: Usage | None = None
    """What it consumed, settled into this run: a delegation, a call of a model, an attempt of a
    tool that costs or tells it; None: nothing is known or counted."""
    kind: StepKind = StepKind.UNSPECIFIED
    answer: ModelAnswer | None = None
    not_before: datetime | None = None
    """When `next` may begin; None: at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRejected:
    """A refused request; nothing was issued or charged."""

    key: str
    tool: str
    turn_seq: int
    denial: Denial | None
    kind: StepKind = StepKind.UNSPECIFIED


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCancelled:
    """The visit was left or the run ended before the answer."""

    step: int
    tool: str
    reason: str
    kind: StepKind = StepKind.UNSPECIFIED
    usage: Usage | None = None
    """What is taken for consumed, since nobody will tell; None: nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcomeUnknown:
    """Nobody knows what came of an attempt: the step `by` asks."""

    step: int
    tool: str
    attempt: int
    error: Fault | None
    worker: str
    by: int
    kind: StepKind = StepKind.UNSPECIFIED


@dataclass(frozen=True, slots=True, kw_only=True)
class CompensationStarted:
    """The run's effects are undone before it ends as `status` says, or before it follows
    `event`."""

    status: RunStatus
    reason: str
    event: str
    intended_state: str
    redirects: tuple[Redirect, ...]
    effects: tuple[int, ...]
    """Steps whose effects are undone, in that order."""
    pending: tuple[int, ...]
    """Steps that are waited for before."""
    artifacts_written: tuple[ArtifactWrite, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRaised:
    """Whoever may lets the run consume more, up to these limits (0: there is none)."""

    max_tokens: int
    max_cost_micro_usd: int
    previous_max_tokens: int
    previous_max_cost_micro_usd: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Steered:
    """Something that a person said to a run that goes on."""

    text: str
    when: SteerWhen


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """What a person put away: the open turn (0: none was), up to the MODEL step
    `conversation_through_step`.

    `calls` are the steps that answer the calls of that step; 0: nobody did.
    """

    turn_seq: int
    attempt: int
    note: str
    conversation_through_step: int
    calls: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeAdded:
    """Something that the sidecar has to tell the model."""

    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUpdated:
    """News of a MODEL step that neither asks nor answers it."""

    step: int
    attempt: int
    response_id: str
    usage: Usage | None
    request_changed: bool
    request_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDelegated:
    """News of a delegation that is under way; `question` is what the agent asks."""

    step: int
    tool: str
    attempt: int
    remote: Remote | None
    question: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputWritten:
    """A piece of the output of a turn that is under way."""

    turn_seq: int
    attempt: int
    piece: OutputPiece | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactsSet:
    """A write without a transition."""

    artifacts_written: tuple[ArtifactWrite, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoChange:
    """A request with an id that was answered and changed nothing: its id is kept."""

    call: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """Nothing is assigned until the run is resumed."""

    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """Ends a pause."""

    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Seq 1 of a run that began as a copy of another, in a visit of `state` that goes on.

    `artifacts_written` are those that it begins with, `steps` how many were taken over.
    """

    run_id: str
    seq: int
    state: str
    artifacts_written: tuple[ArtifactWrite, ...]
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The last record of a run; `reason` is machine-readable, for example "completed"."""

    status: RunStatus
    reason: str
    redirects: tuple[Redirect, ...]
    artifacts_written: tuple[ArtifactWrite, ...]
    final_artifacts: tuple[Artifact, ...]
    event: str = ""
    """Event that is lost to the bound that `reason` names; "": something else ended it."""
    intended_state: str = ""
    """State that the event leads to; `redirects` says which guards refused it."""
    uncompensated: tuple[UncompensatedEffect, ...] = ()
    """Effects that were to be undone before, and stand."""


Body: TypeAlias = (
    Transition
    | InputReceived
    | TurnOpened
    | TurnAssigned
    | TurnCompleted
    | TurnFailed
    | TurnAbandoned
    | TurnSuspended
    | TurnReady
    | StepRequested
    | StepResolved
    | StepRejected
    | StepCancelled
    | StepDelegated
    | OutputWritten
    | ArtifactsSet
    | NoChange
    | ModelUpdated
    | Steered
    | Stopped
    | NoticeAdded
    | BudgetRaised
    | StepOutcomeUnknown
    | CompensationStarted
    | StepDecided
    | Paused
    | Resumed
    | Origin
    | Ended
)
"""What a record says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One immutable entry of a run's journal.

    `seq` is dense per run from 1 over all kinds; `prev_seq` is the seq of the previous
    record under the filter of the stream, 0 for the first. `body` is None, with kind
    UNSPECIFIED, for a kind that a newer server knows and this client does not.
    `snapshot` is the run as of this record, where it was asked for. `redacted`: marks stand
    for its sensitive values, since the caller lacks the scope values:sensitive.
    `erased`: the values of the run were erased, and its empty fields say nothing of them.
    """

    run_id: str
    seq: int
    prev_seq: int
    cursor: str
    at: datetime
    cause: Cause
    principal: str
    prev_hash: bytes = field(repr=False)
    hash: bytes = field(repr=False)
    kind: RecordKind
    body: Body | None
    snapshot: Snapshot | None = None
    redacted: bool = False
    erased: bool = False

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
    """A state that a guard refused on the way into another state, and the name of the guard."""

    state: str
    guard: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UncompensatedEffect:
    """An effect of `step` that was not compensated: the compensation step `by` ended with
    `code`.
    """

    step: int
    tool: str
    by: int
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One entry into a state; `from_state` and `event` are empty at the start of the run.

    `intended_state` is the state that the event names. After a redirect it differs from `to_state`.
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
    """Effects that should have been compensated before this transition, and were not."""
    awaits_input: bool = False
    """The run waits for an input, because of the `control` of `to_state`; no turn is open."""
    conversation: bool = False
    """The run is a conversation; set only in its first record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputReceived:
    """Parts that were sent to a run; `queued`: they wait for the next turn.

    `envelope` holds the other fields of a message to an agent. `step` is the delegation that
    receives the parts, 0: the turn does. `scopes` are the sender's scopes by which the delegation's
    agent judges the answer; empty without a step.
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
    """A turn was assigned to a worker."""

    turn_seq: int
    attempt: int
    assigned: Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCompleted:
    """The accepted completion of a turn.

    `awaiting` is what the run waits for afterwards. `reply`: over A2A the output answers the sender
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
    """MODEL step up to which the turn's messages become part of the conversation; 0: none of
    them.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """The validator that what a turn said, or did, violates.

    `id` is the id of the validator in the pack, or its type if it has no id. `place` names the text
    with the fault, for example "output, characters 4 to 9"; "": the turn as a whole. `reason` is
    what the model gets.
    """

    id: str
    type: str
    place: str
    reason: str


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
    """The MODEL step whose answer was rejected, so that `next` asks the model again; 0: none."""
    violation: Violation | None = None
    """The validator for which the attempt failed. None means that it failed for another reason."""


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
    """A turn can be assigned again."""

    turn_seq: int
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalHold:
    """A tool call waits for a decision; the decision must name `digest`.

    `condition_error` says why the pack's condition could not be evaluated; empty if it could.
    """

    condition_error: str
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRequested:
    """A tool call that was requested."""

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
    """The step that this step of the sidecar checks or compensates; None: a turn requested
    this step.
    """
    by_caller: bool = False
    """The caller that requested it makes the call; no worker receives it."""
    hold: ApprovalHold | None = None
    """The call waits for a decision until `deadline`. None means that it needs no decision."""
    repeatable: bool = False
    """An attempt with an unknown outcome is followed by another one: the operator trusts the MCP
    server of the tool, which says that a second call does no harm.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDecided:
    """A decision about a held call, or its timeout.

    `payload` is the replacement payload of an EDITED call. `deadline` is when the outcome counts as
    unknown, or when a new decision is due.
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
    """Usage of a delegation, a model call or a tool attempt, settled in this run; None: not known
    or not counted.
    """
    kind: StepKind = StepKind.UNSPECIFIED
    answer: ModelAnswer | None = None
    not_before: datetime | None = None
    """When `next` may begin. None means at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRejected:
    """A refused request; no step was issued, and no budget was charged."""

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
    """Usage that is assumed, because no answer will report it. None means that no usage is assumed.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcomeUnknown:
    """The outcome of an attempt is unknown; the step `by` asks whether it took effect."""

    step: int
    tool: str
    attempt: int
    error: Fault | None
    worker: str
    by: int
    kind: StepKind = StepKind.UNSPECIFIED


@dataclass(frozen=True, slots=True, kw_only=True)
class CompensationStarted:
    """The run's effects are compensated before it ends with `status`, or before it follows
    `event`.
    """

    status: RunStatus
    reason: str
    event: str
    intended_state: str
    redirects: tuple[Redirect, ...]
    effects: tuple[int, ...]
    """Steps whose effects are compensated, in this order."""
    pending: tuple[int, ...]
    """Steps that must be answered before the compensation starts."""
    artifacts_written: tuple[ArtifactWrite, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRaised:
    """A principal raised the run's budget to these limits; 0: there is no limit."""

    max_tokens: int
    max_cost_micro_usd: int
    previous_max_tokens: int
    previous_max_cost_micro_usd: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Steered:
    """A message to an active run."""

    text: str
    when: SteerWhen


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """A stop: it abandoned the open turn (0: none was open) after the MODEL step
    `conversation_through_step`.

    `calls` are the steps that answer the calls of that step; 0 stands for a call without an answer.
    """

    turn_seq: int
    attempt: int
    note: str
    conversation_through_step: int
    calls: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeAdded:
    """A notice of the sidecar for the model."""

    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalResult:
    """What one eval of the pack found.

    `prompt` is the prompt that declares the eval; "": the pack does. `turn_seq` is the judged turn
    and `visit_seq` the Transition that began the judged visit; both are 0 for the run as a whole.
    `score` is from 0 to 1. `passed` compares it with `threshold`, for example "gte 0.8"; "": the
    score has to be 1. `explanation` says why the score is less than 1, after the pack's message if
    the eval did not pass; `error` says why there is no score. `metric` is the metric that shows
    the result; "": none.
    """

    id: str
    type: str
    prompt: str
    trigger: str
    turn_seq: int
    visit_seq: int
    score: float
    passed: bool
    explanation: str
    error: str
    groups: tuple[str, ...]
    metric: str
    threshold: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """The results of the evals that were due with a commit."""

    results: tuple[EvalResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUpdated:
    """A change of a MODEL step other than its request or its answer."""

    step: int
    attempt: int
    response_id: str
    usage: Usage | None
    request_changed: bool
    request_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDelegated:
    """Progress of a delegation; `question` is what the agent asks."""

    step: int
    tool: str
    attempt: int
    remote: Remote | None
    question: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputWritten:
    """A piece of the output of an open turn."""

    turn_seq: int
    attempt: int
    piece: OutputPiece | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactsSet:
    """A write without a transition."""

    artifacts_written: tuple[ArtifactWrite, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoChange:
    """A request that changed no state; the record keeps its idempotency id."""

    call: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """Starts a pause: no work is assigned until the run is resumed."""

    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """Ends a pause."""

    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The first record of a fork, in a visit of `state` that continues.

    `artifacts_written` are the artifacts that the fork begins with, `steps` is how many steps it
    took over.
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
    """Event that the bound named in `reason` prevented; "": no event was prevented."""
    intended_state: str = ""
    """State that the event leads to; `redirects` names the guards that refused it."""
    uncompensated: tuple[UncompensatedEffect, ...] = ()
    """Effects that should have been compensated before the end, and were not."""


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
    | Evaluated
    | BudgetRaised
    | StepOutcomeUnknown
    | CompensationStarted
    | StepDecided
    | Paused
    | Resumed
    | Origin
    | Ended
)
"""The body of a record, by its kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One immutable entry of a run's journal.

    `seq` counts all records of a run from 1 without gaps. `prev_seq` is the seq of the previous
    record that matches the filter of the stream, 0 for the first. `body` is None, with kind
    UNSPECIFIED, for a kind that only a newer server knows. `snapshot` is the run as of this record,
    if it was requested. `redacted`: sensitive values are replaced by marks, because the caller
    lacks the scope values:sensitive. `erased`: the values of the run were erased, and value fields
    are empty.
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

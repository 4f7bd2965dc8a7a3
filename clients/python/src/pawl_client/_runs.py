"""Runs, turns and steps, as the sidecar returns them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pawl_client._enums import (
    ArtifactMode,
    Awaiting,
    Execution,
    RunStatus,
    StepKind,
    StepRole,
    StepStatus,
    StepVerdict,
    UnfitCause,
    WaitingKind,
)
from pawl_client._models import ModelStep, ToolCallRef
from pawl_client._values import Artifact, ArtifactHead, Denial, Fault, Json, Message


@dataclass(frozen=True, slots=True, kw_only=True)
class PackRef:
    """The pack version of a run. The digest identifies it; the version is for people."""

    id: str
    version: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAbout:
    """The step that a step of the sidecar reconciles or compensates."""

    role: StepRole
    step: int
    tool: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRef:
    """Identifies an open turn: its run and the seq of the record that opened it.

    `token` proves that its holder executes the turn; empty if it is not given.
    """

    run_id: str
    turn_seq: int
    state: str
    visit: int
    attempt: int
    token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """The agent's side of a delegation.

    `task_id` (for a local member: the child run) and `context_id` are empty until they are known;
    `card_url` is empty for a local member. `awaiting` is what the agent waits for. `answer_seq` is
    the InputReceived record that is being sent to it, 0: none.
    """

    task_id: str
    context_id: str
    card_url: str
    awaiting: Awaiting
    answer_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInfo:
    """The A2A task of a run that began with a message to an agent."""

    context_id: str
    owner: str
    tenant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkedFrom:
    """The run and the record from which a fork began.

    `visits` and `steps` were taken over; the fork's own totals do not include them.
    """

    run_id: str
    seq: int
    visits: int
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepApproval:
    """The approval of a tool call.

    `digest` identifies this call; `decide_step` requires it. `decided_by`, `decided_at` and
    `decided_seq` describe the last decision.
    """

    held: bool
    since: datetime | None
    digest: str
    verdict: StepVerdict
    decided_by: str
    decided_at: datetime | None
    expires: datetime | None
    decided_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One tool call. `payload`, `result` and `error` are None where bodies are omitted.

    `idempotency_key` is "RUN/STEP", the same for every attempt: use it as the key of what the tool
    changes elsewhere. `bodies_omitted`: the steps of one answer would exceed 16 MiB; a request of
    the same key returns the bodies. `remote` is the agent's side of a delegation; None for a tool,
    or if it is not known yet. `redacted`: bodies are omitted because the caller lacks the scope
    values:sensitive.
    """

    step: int
    key: str
    tool: str
    status: StepStatus
    attempt: int
    turn_seq: int
    deadline: datetime | None
    delegation: bool
    payload: Json
    result: Json
    error: Fault | None
    idempotency_key: str
    bodies_omitted: bool
    remote: Remote | None
    redacted: bool = False
    kind: StepKind = StepKind.UNSPECIFIED
    model: ModelStep | None = None
    """Further fields of a MODEL step; None for another kind."""
    call: ToolCallRef | None = None
    about: StepAbout | None = None
    """The step that this step of the sidecar checks or compensates; None: a turn requested
    this step.
    """
    inquiry: int = 0
    """The step that asks whether the attempt took effect; 0: none."""
    by_caller: bool = False
    """The caller that requested it makes the call; no worker receives it."""
    unknown: bool = False
    """The outcome is unknown: the call may have had its effect in spite of the error."""
    approval: StepApproval | None = None
    """The approval of the call. None means that it needs none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """The outcome of one step request: the step, or the denial."""

    key: str
    step: Step | None
    replayed: bool
    denial: Denial | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeCount:
    """How often an edge was followed."""

    state: str
    event: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The step of another run that started this one.

    `origin` is the base URL of that run's sidecar, empty: this sidecar.
    """

    run_id: str
    step: int
    attempt: int
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """The operator's limits at the start of the run. Sizes are in bytes."""

    max_transitions: int
    max_artifact_bytes: int
    max_run_artifact_bytes: int
    max_message_bytes: int
    max_queued_inputs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBudgets:
    """The budgets of a run: those of its pack, lowered by its start and by the operator.

    0 or None: there is no bound. `wall_time_excludes_waiting`: time in which the run waits for an
    outside input does not count towards `max_wall_time`.
    """

    max_total_visits: int
    max_tool_calls: int
    max_wall_time: timedelta | None
    max_steps: int
    max_reframes: int
    max_tokens: int
    max_cost_micro_usd: int
    wall_time_excludes_waiting: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Remaining:
    """The rest of each budget of a run. None means that there is no bound."""

    visits: int | None
    tool_calls: int | None
    steps: int | None
    tokens: int | None
    cost_micro_usd: int | None
    wall_time: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """The erasure of a run's values: its time, principal and reason."""

    at: datetime
    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountShare:
    """A run's share of one of the operator's accounts over runs (`Client.list_budgets`).

    It is settled in the window that began at `window_start` (None: the window never ends), and
    reserved by pending steps.
    """

    name: str
    window_start: datetime | None
    settled_tokens: int
    settled_cost_micro_usd: int
    reserved_tokens: int
    reserved_cost_micro_usd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitKey:
    """The key under which calls are counted: an entry of the operator's limits, and the value of
    its expression.
    """

    limit: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitWait:
    """A model call, or the tool call `step`, that waits for the operator's limits.

    `ahead` calls of its tenant go before it.
    """

    limits: tuple[LimitKey, ...]
    model: str
    tool: str
    step: int
    waited: timedelta
    ahead: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfitWorker:
    """A connected worker that does not have the work of a run, and the cause."""

    worker_id: str
    cause: UnfitCause


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The one thing that a run waits for now; `sentence` is for people.

    `since` is when the wait began, `due` when it ends without a person. `step`, `tool`, `model`,
    `prompt` and `attempt` name the work. `worker_id` has it, and sent its last request at `seen_at`
    and its last output at `output_at`. `workers` are at most 5 of the `connected_workers` that do
    not have it. `limit` is set for LIMIT, `events` for EVENT and TIMER, `principal` for PAUSED,
    `not_starter` for APPROVAL (the principal that started the run may not decide), and `task_id`
    for DELEGATION and for the question of an agent.
    """

    kind: WaitingKind
    sentence: str
    since: datetime | None
    due: datetime | None
    step: int
    tool: str
    model: str
    prompt: str
    attempt: int
    worker_id: str
    seen_at: datetime | None
    output_at: datetime | None
    workers: tuple[UnfitWorker, ...]
    connected_workers: int
    limit: LimitWait | None
    events: tuple[str, ...]
    principal: str
    not_starter: bool
    task_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """A run as of one record. Times are aware, in UTC; None if there is no time.

    `reason` is machine-readable ("completed", "max_visits:implement") and empty while the run is
    active. `visit_seq` is the seq of the last transition, for `expected_seq`. `artifacts` are
    heads; read values with `Run.artifacts`. `awaiting` is the outside input that it waits for,
    `status_at` when `awaiting` or the status changed last, `task` its A2A task. `forked_from` is
    None for a run that was started. An `imported` run accepts no input. `erasable`: its pack
    permits erasure; `erased` describes the erasure, None: its values were not erased.
    """

    namespace: str
    run_id: str
    pack: PackRef
    entry: str
    agent: str
    entry_override: bool
    execution: Execution
    labels: Mapping[str, str]
    status: RunStatus
    reason: str
    paused: bool
    state: str
    seq: int
    visit_seq: int
    visits: Mapping[str, int]
    edges: tuple[EdgeCount, ...]
    total_visits: int
    transitions: int
    tool_calls: int
    reframes: int
    tokens: int
    cost_micro_usd: int
    last_step: int
    created_at: datetime
    updated_at: datetime
    deadline: datetime | None
    state_timeout_at: datetime | None
    turn: TurnRef | None
    turn_not_before: datetime | None
    turn_suspended: bool
    queued_inputs: int
    allowed_events: tuple[str, ...]
    steps: tuple[Step, ...]
    artifacts: tuple[ArtifactHead, ...]
    artifact_bytes: int
    message_bytes: int
    parent: Parent | None
    depth: int
    limits: RunLimits
    awaiting: Awaiting
    status_at: datetime | None
    task: TaskInfo | None
    forked_from: ForkedFrom | None
    imported: bool
    erasable: bool
    erased: Erasure | None
    reserved_tokens: int = 0
    """What pending steps may consume at most; neither it nor `tokens` is available."""
    reserved_cost_micro_usd: int = 0
    leased: bool = False
    """It spends from the account of the run that started it."""
    accounts: tuple[AccountShare, ...] = ()
    """Its share of each of the operator's accounts over runs that count it."""
    lent_tokens: int = 0
    """The part of reserved_tokens that is leased to the runs of active agents."""
    lent_cost_micro_usd: int = 0
    estimated_tokens: int = 0
    """The part of `tokens` whose usage was not fully reported."""
    limit_waits: tuple[LimitWait, ...] = ()
    """Its calls that wait for the operator's limits at the time of the request."""
    compensating: bool = False
    """Its effects are being compensated; it assigns no turn and accepts no input."""
    conversation: bool = False
    """A user holds a conversation with it, see `Client.start`."""
    waiting: Waiting | None = None
    """What it waits for; only `Run.info`, `Run.wait` and `Client.list_runs` have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A run as of one record, with the values of its artifacts.

    `variables` are those of its start, defaults applied; `goal` is the text of its first input,
    else its variable "goal". They are None and "" unless requested. `budgets` are its current
    budgets and `request_id` is the caller's id of its start, "" if none was given; a snapshot of a
    record has neither. `redacted`: sensitive values are replaced by marks, because the caller lacks
    the scope values:sensitive.
    """

    run: RunInfo
    artifacts: tuple[Artifact, ...]
    variables: Json = None
    goal: str = ""
    request_id: str = ""
    budgets: RunBudgets | None = None
    redacted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Selects runs that match all given fields.

    `pack` is "id", "id@version" or a digest. Only lists support `unserved` (the open turn waits for
    a worker, and no connected worker serves its prompt), `reason` (of the end: this one, or one
    that begins with it and a colon), `waiting` (it waits for one of these), `created_after`
    (inclusive) and `created_before`. Times must be aware.
    """

    pack: str = ""
    statuses: Sequence[RunStatus] = ()
    state: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    parent_run_id: str = ""
    unserved: bool = False
    reason: str = ""
    created_after: datetime | None = None
    created_before: datetime | None = None
    waiting: Sequence[WaitingKind] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as the model receives it; `parameters` is its JSON Schema or None."""

    name: str
    description: str
    parameters: Json
    agent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactSlot:
    """An artifact that the state declares."""

    name: str
    media_type: str
    mode: ArtifactMode
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnInfo:
    """An open turn, ready to be executed.

    `system_prompt` is rendered. `allowed_events` are the only events that move the run; it is empty
    in a terminal state and where only outside events move the run. `terminal`: completing this turn
    ends the run. `settings` are the pack's settings for the executor (parameters, model_overrides,
    validators, ...). `remaining` is the rest of each budget, ended delegations included.
    """

    turn: TurnRef
    pack: PackRef
    prompt: str
    system_prompt: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    allowed_events: tuple[str, ...]
    steps: tuple[Step, ...]
    artifact_slots: tuple[ArtifactSlot, ...]
    variables: Json
    settings: Json
    terminal: bool
    deadline: datetime | None
    seq: int
    visit_seq: int
    suspended: bool
    not_before: datetime | None
    remaining: Remaining | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPosition:
    """A position in the output of a turn: `offset` bytes of one delivery."""

    turn_seq: int = 0
    delivery: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputChunk:
    """A piece of the output of an open turn.

    It begins at byte `offset` of the output of one `delivery`. `reset`: discard what was read of
    this turn, because it is executed again, or output before the offset is no longer kept.
    `reasoning`: it is the model's reasoning. It is no record: TurnCompleted has the final output.
    """

    turn_seq: int
    attempt: int
    delivery: int
    offset: int
    text: str
    reset: bool
    reasoning: bool

    @property
    def position(self) -> OutputPosition:
        """The position after this piece, from which a stream of the output continues.

        >>> OutputChunk(
        ...     turn_seq=1, attempt=1, delivery=1, offset=3, text="ä", reset=False, reasoning=False
        ... ).position.offset
        5
        """
        end = self.offset + len(self.text.encode())
        return OutputPosition(turn_seq=self.turn_seq, delivery=self.delivery, offset=end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The caller as the sidecar sees it: its principal, scopes and namespaces.

    The principal is "anonymous" without authentication. The scope admin includes all others.
    `namespaces` are those that exist for the caller; calls without a namespace use the first.
    """

    principal: str
    scopes: tuple[str, ...]
    namespaces: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusCount:
    """The number of runs with a status."""

    status: RunStatus
    runs: int

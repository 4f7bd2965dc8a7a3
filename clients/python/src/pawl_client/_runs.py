"""Runs, turns and steps as they are read."""

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
)
from pawl_client._models import ModelStep, ToolCallRef
from pawl_client._values import Artifact, ArtifactHead, Denial, Fault, Json, Message


@dataclass(frozen=True, slots=True, kw_only=True)
class PackRef:
    """The pack version of a run; the digest decides, the version is for people."""

    id: str
    version: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAbout:
    """The step that a step of the sidecar's own is about: whether it happened, or to undo it."""

    role: StepRole
    step: int
    tool: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRef:
    """Identity of an open turn: the run and the seq of the record that opened it.

    `token` proves that the bearer executes the turn; empty where it is not given.
    """

    run_id: str
    turn_seq: int
    state: str
    visit: int
    attempt: int
    token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """What is known of the other side of a delegation.

    `task_id` (for a local member the child run) and `context_id` are empty until they
    are known; `card_url` is empty for a local member. `awaiting`: what the agent waits
    for; `answer_seq`: the InputReceived record that is on its way to it, 0: none.
    """

    task_id: str
    context_id: str
    card_url: str
    awaiting: Awaiting
    answer_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInfo:
    """What a run that began with a message to an agent is to its sender (A2A)."""

    context_id: str
    owner: str
    tenant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkedFrom:
    """The record of another run that a run began from.

    `visits` and `steps` were taken over; the run's own totals count none of them.
    """

    run_id: str
    seq: int
    visits: int
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepApproval:
    """What there is to a call that is to be approved.

    `digest` names this very call: it is what `decide_step` asks for. `decided_by`,
    `decided_at` and `decided_seq` are of the last decision.
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
    """One tool call. `payload`, `result` and `error` are None where bodies are left out.

    `idempotency_key` is "RUN/STEP", the same for every attempt: what the tool changes
    elsewhere is keyed by it.
    `bodies_omitted`: they are left out because the steps of one answer hold 16 MiB at
    most; a request of the same key is answered with them.
    `remote` is what is known of a delegation's other side; None: nothing, or a tool.
    `redacted`: bodies are not told, since the caller lacks the scope values:sensitive.
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
    """What there is to a MODEL step besides; None: another kind."""
    call: ToolCallRef | None = None
    about: StepAbout | None = None
    """The step that this one of the sidecar's own is about; None: a turn asked for it."""
    inquiry: int = 0
    """The step that asks whether the attempt happened; 0: nobody is asked."""
    by_caller: bool = False
    """The caller that asked for it makes the call, and no worker gets it."""
    approval: StepApproval | None = None
    """What there is to a call that is to be approved; None: nobody has to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """What became of one step request: the step, or the denial."""

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
    """The step of another run that started this one; `origin` is the base URL of the
    sidecar that has that run, empty: this one."""

    run_id: str
    step: int
    attempt: int
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """The operator's bounds as of the run's start; sizes in bytes."""

    max_transitions: int
    max_artifact_bytes: int
    max_run_artifact_bytes: int
    max_message_bytes: int
    max_queued_inputs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBudgets:
    """The budgets of a run: its pack's, lowered by its start and by the operator.

    0 or None: there is no such bound. `wall_time_excludes_waiting`: the clock of
    `max_wall_time` stands while the run waits for something from outside.
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
    """What is left of each budget of a run; None: there is no such bound."""

    visits: int | None
    tool_calls: int | None
    steps: int | None
    tokens: int | None
    cost_micro_usd: int | None
    wall_time: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """That the values of a run were erased: when, by whom and why."""

    at: datetime
    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountShare:
    """What a run takes of one of the operator's accounts over runs (`Client.list_budgets`):
    settled in the window that began at `window_start` (None: it lasts for ever), and
    reserved by its steps under way."""

    name: str
    window_start: datetime | None
    settled_tokens: int
    settled_cost_micro_usd: int
    reserved_tokens: int
    reserved_cost_micro_usd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitKey:
    """What calls are counted together by: an entry of the operator's limits, and what its
    expression gives."""

    limit: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitWait:
    """A call that waits for the operator's limits: of a model, or of a tool as `step`.
    `ahead` calls of its tenant go before it."""

    limits: tuple[LimitKey, ...]
    model: str
    tool: str
    step: int
    waited: timedelta
    ahead: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """A run as of one record. Times are aware, in UTC; None where there is none.

    `reason` is machine-readable ("completed", "max_visits:implement") and empty while
    the run goes on. `visit_seq` is the seq of the last transition, for `expected_seq`.
    `artifacts` are heads; values are read with `Run.artifacts`. `awaiting` is what it
    waits for from outside, `status_at` when that or its status changed last, `task` the
    A2A task that it is. `forked_from` is None for a run that was started; one that is
    `imported` takes no input. `erasable`: its pack asks that its values can be erased;
    `erased` says that they were, and is None otherwise.
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
    """What pending steps may consume at most; `tokens` and it are not left."""
    reserved_cost_micro_usd: int = 0
    leased: bool = False
    """It spends of the account of the run that started it."""
    accounts: tuple[AccountShare, ...] = ()
    """What it takes of each of the operator's accounts over runs in which it was counted."""
    lent_tokens: int = 0
    """What of reserved_tokens is leased to the runs of agents under way."""
    lent_cost_micro_usd: int = 0
    estimated_tokens: int = 0
    """Those of `tokens` whose usage nobody reported in full."""
    waiting_for: tuple[LimitWait, ...] = ()
    """Its calls that wait for the operator's limits, as of when it was asked for."""
    compensating: bool = False
    """Its effects are being undone; no turn is handed out, and no input taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A run as of one record, with the values of its artifacts.

    `variables` are those that it was started with, defaults applied, and `goal` the text
    of its first input, else its variable "goal"; None and "" unless they were asked for.
    `budgets` are those that hold for it and `request_id` the caller's own id of its start,
    "" if none was given; a snapshot that comes with a record has neither. `redacted`: marks
    stand for its sensitive values, since the caller lacks the scope values:sensitive.
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
    """Selects runs; all that is given must hold.

    `pack` is "id", "id@version" or a digest. Only for lists are `unserved` (the open
    turn waits for a worker and none that is connected serves its prompt), `reason` (of
    the end: this one, or one that begins with it and a colon), `created_after` (started
    then or later) and `created_before`; times are aware ones.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool as a model is told of it; `parameters` is its JSON Schema or None."""

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

    `system_prompt` is rendered. `allowed_events` are the only words that move the
    run; empty in a terminal state and where only outside events move it. `terminal`:
    completing this turn ends the run. `settings` is what the pack hands to the
    executor (parameters, model_overrides, validators, ...). `remaining` is what is left
    of each budget of the run, delegations that ended included.
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
    """How far the output of a turn was read: `offset` bytes of a delivery of it."""

    turn_seq: int = 0
    delivery: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputChunk:
    """A piece of the output of a turn that is under way.

    It begins at byte `offset` of the output of a `delivery` of the turn. `reset`: forget
    what was read of this turn; it is executed anew, or what precedes the offset is not
    kept any more. `reasoning`: it is what the model thinks. It is no record: the final output
    is that of TurnCompleted.
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
        """Behind this piece; give it to `Run.output(after=...)`.

        >>> OutputChunk(
        ...     turn_seq=1, attempt=1, delivery=1, offset=3, text="ä", reset=False, reasoning=False
        ... ).position.offset
        5
        """
        end = self.offset + len(self.text.encode())
        return OutputPosition(turn_seq=self.turn_seq, delivery=self.delivery, offset=end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The caller as the sidecar knows it: its principal ("anonymous" without
    authentication) and its scopes. A holder of admin has every other one as well.
    `namespaces` are those that exist for it; calls that name none mean the first."""

    principal: str
    scopes: tuple[str, ...]
    namespaces: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusCount:
    """How many runs have a status."""

    status: RunStatus
    runs: int

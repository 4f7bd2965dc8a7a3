"""Values for operators and approvers: accounts, limits, schedules, approvals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from pawl_client._enums import ApprovalTimeout, RunStatus
from pawl_client._records import Record
from pawl_client._runs import Remaining, Step
from pawl_client._values import Artifact


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalEvent:
    """An outside event by which a run may leave its state."""

    event: str
    to_state: str
    description: str
    terminal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """An open decision: about a held call, or by an outside event.

    `call` is the held call with its arguments; `decide_step` requires its `approval.digest`. If it
    is None, the run waits for one of `events`, and `artifacts` are those of the run. `link` is the
    URL with which the person of `link_for` decides ("": none was asked for, or the call is
    sensitive); it ends at `link_expires` (None: never). Treat it as a secret.
    """

    run_id: str
    pack_id: str
    pack_version: str
    state: str
    labels: Mapping[str, str]
    since: datetime
    starter: str
    call: Step | None
    condition_error: str
    on_timeout: ApprovalTimeout
    not_starter: bool
    events: tuple[ExternalEvent, ...]
    artifacts: tuple[Artifact, ...]
    artifacts_omitted: bool
    visit_seq: int
    link: str
    link_expires: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A decision about a held call, or the fact that there was none in time.

    `record` has the principal and the time, and its body (`StepDecided`) the step, the tool, the
    verdict, the digest and the reason. The call waited from `since` to `record.at`; `since` is None
    if the values of the run were erased.
    """

    run_id: str
    pack_id: str
    pack_version: str
    labels: Mapping[str, str]
    record: Record
    since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Usage of all runs of a namespace with a label, in a window.

    `name` is for example "tenant=acme/day". At `window_end` the settled usage is reset (None: the
    window never ends). A limit of 0 means no limit. `refused` counts refused reservations since the
    sidecar started.

    >>> day = Account(name="tenant=acme/day", max_cost_micro_usd=50, settled_cost_micro_usd=30)
    >>> day.left_cost_micro_usd, day.left_tokens
    (20, None)
    """

    name: str
    window_start: datetime | None = None
    window_end: datetime | None = None
    settled_tokens: int = 0
    settled_cost_micro_usd: int = 0
    reserved_tokens: int = 0
    reserved_cost_micro_usd: int = 0
    max_tokens: int = 0
    max_cost_micro_usd: int = 0
    refused: int = 0

    @property
    def left_cost_micro_usd(self) -> int | None:
        """Cost that may still be reserved. None means that there is no limit."""
        committed = self.settled_cost_micro_usd + self.reserved_cost_micro_usd
        return _left(self.max_cost_micro_usd, committed)

    @property
    def left_tokens(self) -> int | None:
        """Tokens that may still be reserved. None means that there is no limit."""
        return _left(self.max_tokens, self.settled_tokens + self.reserved_tokens)


def _left(limit: int, committed: int) -> int | None:
    return max(0, limit - committed) if limit else None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageGroup:
    """Usage with the same values of the dimensions, in their order.

    `cost_micro_usd` is in millionths of a US dollar. `reports` counts what was settled: reports of
    turns, of calls of models, tools and agents, and estimates for calls that never reported.
    """

    values: tuple[str, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    cost_micro_usd: int = 0
    reports: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """What runs have consumed (`Client.usage`): the groups, ordered by their values, and their sum.

    `complete` is False if an older program created the store. Usage before `since` is then missing
    or incomplete; `since` is None while the store has no usage yet.
    """

    groups: tuple[UsageGroup, ...]
    total: UsageGroup
    complete: bool
    since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RaisedBudget:
    """The result of raising a run's budget.

    `record` has the principal and the reason; `remaining` is the rest of its budgets after every
    pending step has consumed its bound.
    """

    record: Record
    remaining: Remaining
    status: RunStatus
    seq: int
    duplicate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantQueue:
    """The number of waiting calls of one tenant; the tenant is empty for runs without one."""

    tenant: str
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitUse:
    """The use of one key of a limit.

    It counts open calls, calls started in the last minute and their tokens, and waiting calls by
    tenant. `held` is how long a provider asked to receive no calls.
    """

    key: str
    open: int
    started: int
    tokens: int
    held: timedelta | None
    waiting: tuple[TenantQueue, ...]
    admitted: int
    waited: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """An entry of the operator's limits, with its current use by key. 0: no bound."""

    id: str
    key: str
    concurrent: int
    per_minute: int
    tokens_per_minute: int
    uses: tuple[LimitUse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFault:
    """Why a scheduled run was not started yet. It is tried again until it starts or its instant is
    missed.
    """

    instant: datetime
    attempts: int
    since: datetime
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """An entry of the operator's schedules, which start runs at given times.

    `next` are the next instants, at most 5, none while it is `paused`. `last_at` and `last_run_id`
    describe the newest run that it started. `fault` is None without a fault.
    """

    schedule_id: str
    cron: str
    time_zone: str
    catch_up: str
    overlap: str
    jitter_sec: int
    pack: str
    agent: str
    principal: str
    scopes: tuple[str, ...]
    next: tuple[datetime, ...]
    last_at: datetime | None
    last_run_id: str
    fired: int
    missed: int
    skipped: int
    paused: bool
    fault: ScheduleFault | None

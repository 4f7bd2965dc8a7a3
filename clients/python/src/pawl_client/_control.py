"""What operators and people who answer for runs are shown: accounts, limits, schedules."""

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
    """One way out of a state that an event from outside leaves."""

    event: str
    to_state: str
    description: str
    terminal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """One thing that waits for a person.

    `call` is the held call with its arguments; its `approval.digest` is what `decide_step`
    asks for. None: an event of `events` is waited for, and `artifacts` are the run's.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What all runs of a namespace with a label have reserved and settled in a window.

    `name` is for example "tenant=acme/day"; `window_end` is when nothing is settled any
    more (None: the account is for ever). A limit of 0: there is none. `refused` counts what
    it did not hold since the sidecar began.

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
        """What may still be reserved; None: there is no limit of costs."""
        committed = self.settled_cost_micro_usd + self.reserved_cost_micro_usd
        return _left(self.max_cost_micro_usd, committed)

    @property
    def left_tokens(self) -> int | None:
        """The same of tokens."""
        return _left(self.max_tokens, self.settled_tokens + self.reserved_tokens)


def _left(limit: int, committed: int) -> int | None:
    return max(0, limit - committed) if limit else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RaisedBudget:
    """That a run may consume more: `record` has who did it and why, `remaining` what is
    left of its budgets once every pending step has consumed its bound."""

    record: Record
    remaining: Remaining
    status: RunStatus
    seq: int
    duplicate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantQueue:
    """How many calls of one tenant wait; the tenant is empty where a run has none."""

    tenant: str
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitUse:
    """What is counted under one key of a limit: calls that are open, began in the last
    minute and took so many tokens then, and who waits. `held` is how long a provider asked
    to send nothing."""

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
    """An entry of the operator's limits, with what is counted of it now, by key. 0: any
    number."""

    id: str
    key: str
    concurrent: int
    per_minute: int
    tokens_per_minute: int
    uses: tuple[LimitUse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFault:
    """Why an instant's run was not begun yet: it is tried again until it is begun, or the
    instant is missed."""

    instant: datetime
    attempts: int
    since: datetime
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """An entry of the operator's schedules: runs that begin by the clock.

    `next` are the next instants, at most 5, none while it is `paused`; `last_at` and
    `last_run_id` the newest run that it began. `fault` is None where nothing is wrong.
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

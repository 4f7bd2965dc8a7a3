"""What waits for a person: held calls, and runs that an event from outside moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from pawl_client._enums import ApprovalTimeout
from pawl_client._runs import Step
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

"""The enums of the wire contract."""

from __future__ import annotations

from enum import Enum


class _Word(str, Enum):
    """A value of an enum. It compares equal to its string.

    ``UNSPECIFIED`` stands for a value that is not set, and for a value that only a newer server
    knows.
    """

    def __str__(self) -> str:
        return str(self.value)


class RunStatus(_Word):
    """Status of a run. A run in a terminal status never changes again.

    >>> RunStatus.COMPLETED.terminal, RunStatus.WAITING.terminal
    (True, False)
    >>> RunStatus.RUNNING == "RUNNING"
    True
    """

    UNSPECIFIED = "UNSPECIFIED"
    RUNNING = "RUNNING"
    WAITING = "WAITING"
    COMPLETED = "COMPLETED"
    BUDGET_EXHAUSTED = "BUDGET_EXHAUSTED"
    ESCALATED = "ESCALATED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def terminal(self) -> bool:
        """True means that the run has ended."""
        return self not in (RunStatus.UNSPECIFIED, RunStatus.RUNNING, RunStatus.WAITING)


class Execution(_Word):
    """The executor of a run's turns."""

    UNSPECIFIED = "UNSPECIFIED"
    CALLER = "CALLER"
    WORKERS = "WORKERS"
    SIDECAR = "SIDECAR"


class Cause(_Word):
    """Why a transition happened; UNSPECIFIED on records that are no transitions."""

    UNSPECIFIED = "UNSPECIFIED"
    ENTRY = "ENTRY"
    EVENT = "EVENT"
    MAX_VISITS = "MAX_VISITS"
    TIMEOUT = "TIMEOUT"
    BUDGET = "BUDGET"


class ArtifactMode(_Word):
    """How a write changes an artifact."""

    UNSPECIFIED = "UNSPECIFIED"
    REPLACE = "REPLACE"
    APPEND = "APPEND"


class StepStatus(_Word):
    """Status of a step."""

    UNSPECIFIED = "UNSPECIFIED"
    PENDING = "PENDING"
    OK = "OK"
    ERROR = "ERROR"
    CANCELLED = "CANCELLED"


class StepKind(_Word):
    """Kind of a step; UNSPECIFIED where a record has no kind."""

    UNSPECIFIED = "UNSPECIFIED"
    TOOL = "TOOL"
    DELEGATION = "DELEGATION"
    MODEL = "MODEL"


class StepRole(_Word):
    """Why the sidecar itself requested a step."""

    UNSPECIFIED = "UNSPECIFIED"
    RECONCILE = "RECONCILE"
    COMPENSATE = "COMPENSATE"


class Awaiting(_Word):
    """The outside input that a WAITING run waits for; UNSPECIFIED: none."""

    UNSPECIFIED = "UNSPECIFIED"
    INPUT = "INPUT"
    AUTH = "AUTH"


class WaitingKind(_Word):
    """The kind of thing that a run waits for, see `Waiting`."""

    UNSPECIFIED = "UNSPECIFIED"
    APPROVAL = "APPROVAL"
    NO_WORKER = "NO_WORKER"
    WORKER = "WORKER"
    LIMIT = "LIMIT"
    TIMER = "TIMER"
    INPUT = "INPUT"
    EVENT = "EVENT"
    PAUSED = "PAUSED"
    DELEGATION = "DELEGATION"
    RETRY = "RETRY"
    CALLER = "CALLER"
    SIDECAR = "SIDECAR"


class UnfitCause(_Word):
    """The reason why a connected worker does not have a turn or step, see `UnfitWorker`."""

    UNSPECIFIED = "UNSPECIFIED"
    OTHER_PACK = "OTHER_PACK"
    NOT_SERVED = "NOT_SERVED"
    NO_CAPACITY = "NO_CAPACITY"
    DRAINING = "DRAINING"
    FULL = "FULL"
    NO_CREDIT = "NO_CREDIT"
    FREE = "FREE"


class RecordKind(_Word):
    """The kinds of records, for filters and for `Record.kind`."""

    UNSPECIFIED = "UNSPECIFIED"
    TRANSITION = "TRANSITION"
    INPUT_RECEIVED = "INPUT_RECEIVED"
    TURN_OPENED = "TURN_OPENED"
    TURN_ASSIGNED = "TURN_ASSIGNED"
    TURN_COMPLETED = "TURN_COMPLETED"
    TURN_FAILED = "TURN_FAILED"
    TURN_ABANDONED = "TURN_ABANDONED"
    TURN_SUSPENDED = "TURN_SUSPENDED"
    STEP_REQUESTED = "STEP_REQUESTED"
    STEP_RESOLVED = "STEP_RESOLVED"
    STEP_REJECTED = "STEP_REJECTED"
    STEP_CANCELLED = "STEP_CANCELLED"
    ARTIFACTS_SET = "ARTIFACTS_SET"
    PAUSED = "PAUSED"
    RESUMED = "RESUMED"
    ORIGIN = "ORIGIN"
    ENDED = "ENDED"
    TURN_READY = "TURN_READY"
    OUTPUT_WRITTEN = "OUTPUT_WRITTEN"
    STEP_DELEGATED = "STEP_DELEGATED"
    NO_CHANGE = "NO_CHANGE"
    MODEL_UPDATED = "MODEL_UPDATED"
    STEERED = "STEERED"
    STOPPED = "STOPPED"
    NOTICE_ADDED = "NOTICE_ADDED"
    BUDGET_RAISED = "BUDGET_RAISED"
    STEP_OUTCOME_UNKNOWN = "STEP_OUTCOME_UNKNOWN"
    COMPENSATION_STARTED = "COMPENSATION_STARTED"
    EVALUATED = "EVALUATED"
    STEP_DECIDED = "STEP_DECIDED"


class SteerWhen(_Word):
    """When a steering message takes effect."""

    UNSPECIFIED = "UNSPECIFIED"
    NEXT_MODEL_CALL = "NEXT_MODEL_CALL"
    NOW = "NOW"
    NEXT_TURN = "NEXT_TURN"


class Disposition(_Word):
    """The effect of a step's answer."""

    UNSPECIFIED = "UNSPECIFIED"
    ACCEPTED = "ACCEPTED"
    IGNORED_UNKNOWN_RUN = "IGNORED_UNKNOWN_RUN"
    IGNORED_TERMINAL = "IGNORED_TERMINAL"
    IGNORED_STALE = "IGNORED_STALE"
    IGNORED_DUPLICATE = "IGNORED_DUPLICATE"
    ESCALATED = "ESCALATED"


class RunOrder(_Word):
    """Order of a list of runs, by creation."""

    UNSPECIFIED = "UNSPECIFIED"
    NEWEST_FIRST = "NEWEST_FIRST"
    OLDEST_FIRST = "OLDEST_FIRST"


class WaitUntil(_Word):
    """The condition of a wait."""

    UNSPECIFIED = "UNSPECIFIED"
    TERMINAL = "TERMINAL"
    WAITING = "WAITING"


class ChangeKind(_Word):
    """How a value differs between two points: only the other has it, only the first has it, or both
    have it and it differs.
    """

    UNSPECIFIED = "UNSPECIFIED"
    ADDED = "ADDED"
    REMOVED = "REMOVED"
    CHANGED = "CHANGED"


class Severity(_Word):
    """Severity of a finding in a pack."""

    UNSPECIFIED = "UNSPECIFIED"
    ERROR = "ERROR"
    WARNING = "WARNING"


class EdgeKind(_Word):
    """The condition under which a run follows an edge."""

    UNSPECIFIED = "UNSPECIFIED"
    EVENT = "EVENT"
    MAX_VISITS = "MAX_VISITS"
    TIMEOUT = "TIMEOUT"


class Orchestration(_Word):
    """The parties that may move a run out of a state."""

    UNSPECIFIED = "UNSPECIFIED"
    INTERNAL = "INTERNAL"
    EXTERNAL = "EXTERNAL"
    HYBRID = "HYBRID"


class StepVerdict(_Word):
    """The outcome of a held call; UNSPECIFIED: it is undecided."""

    UNSPECIFIED = "UNSPECIFIED"
    APPROVED = "APPROVED"
    DENIED = "DENIED"
    EDITED = "EDITED"
    TIMED_OUT = "TIMED_OUT"
    EXPIRED = "EXPIRED"


class StepDecision(_Word):
    """A person's decision about a call."""

    UNSPECIFIED = "UNSPECIFIED"
    APPROVE = "APPROVE"
    DENY = "DENY"
    EDIT = "EDIT"


class ApprovalTimeout(_Word):
    """What happens to a held call without a decision in time."""

    UNSPECIFIED = "UNSPECIFIED"
    DENY = "DENY"
    ESCALATE = "ESCALATE"

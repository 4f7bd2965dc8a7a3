import datetime

from google.api import annotations_pb2 as _annotations_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from pawl_client.v1 import record_pb2 as _record_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Disposition(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DISPOSITION_UNSPECIFIED: _ClassVar[Disposition]
    DISPOSITION_ACCEPTED: _ClassVar[Disposition]
    DISPOSITION_IGNORED_UNKNOWN_RUN: _ClassVar[Disposition]
    DISPOSITION_IGNORED_TERMINAL: _ClassVar[Disposition]
    DISPOSITION_IGNORED_STALE: _ClassVar[Disposition]
    DISPOSITION_IGNORED_DUPLICATE: _ClassVar[Disposition]
    DISPOSITION_ESCALATED: _ClassVar[Disposition]

class RunOrder(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_ORDER_UNSPECIFIED: _ClassVar[RunOrder]
    RUN_ORDER_NEWEST_FIRST: _ClassVar[RunOrder]
    RUN_ORDER_OLDEST_FIRST: _ClassVar[RunOrder]

class WaitUntil(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WAIT_UNTIL_UNSPECIFIED: _ClassVar[WaitUntil]
    WAIT_UNTIL_TERMINAL: _ClassVar[WaitUntil]
    WAIT_UNTIL_WAITING: _ClassVar[WaitUntil]

class UnfitCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNFIT_CAUSE_UNSPECIFIED: _ClassVar[UnfitCause]
    UNFIT_CAUSE_OTHER_PACK: _ClassVar[UnfitCause]
    UNFIT_CAUSE_NOT_SERVED: _ClassVar[UnfitCause]
    UNFIT_CAUSE_NO_CAPACITY: _ClassVar[UnfitCause]
    UNFIT_CAUSE_DRAINING: _ClassVar[UnfitCause]
    UNFIT_CAUSE_FULL: _ClassVar[UnfitCause]
    UNFIT_CAUSE_NO_CREDIT: _ClassVar[UnfitCause]
    UNFIT_CAUSE_FREE: _ClassVar[UnfitCause]

class WaitingKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WAITING_KIND_UNSPECIFIED: _ClassVar[WaitingKind]
    WAITING_KIND_APPROVAL: _ClassVar[WaitingKind]
    WAITING_KIND_NO_WORKER: _ClassVar[WaitingKind]
    WAITING_KIND_WORKER: _ClassVar[WaitingKind]
    WAITING_KIND_LIMIT: _ClassVar[WaitingKind]
    WAITING_KIND_TIMER: _ClassVar[WaitingKind]
    WAITING_KIND_INPUT: _ClassVar[WaitingKind]
    WAITING_KIND_EVENT: _ClassVar[WaitingKind]
    WAITING_KIND_PAUSED: _ClassVar[WaitingKind]
    WAITING_KIND_DELEGATION: _ClassVar[WaitingKind]
    WAITING_KIND_RETRY: _ClassVar[WaitingKind]
    WAITING_KIND_CALLER: _ClassVar[WaitingKind]
    WAITING_KIND_SIDECAR: _ClassVar[WaitingKind]

class ChangeKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CHANGE_KIND_UNSPECIFIED: _ClassVar[ChangeKind]
    CHANGE_KIND_ADDED: _ClassVar[ChangeKind]
    CHANGE_KIND_REMOVED: _ClassVar[ChangeKind]
    CHANGE_KIND_CHANGED: _ClassVar[ChangeKind]
DISPOSITION_UNSPECIFIED: Disposition
DISPOSITION_ACCEPTED: Disposition
DISPOSITION_IGNORED_UNKNOWN_RUN: Disposition
DISPOSITION_IGNORED_TERMINAL: Disposition
DISPOSITION_IGNORED_STALE: Disposition
DISPOSITION_IGNORED_DUPLICATE: Disposition
DISPOSITION_ESCALATED: Disposition
RUN_ORDER_UNSPECIFIED: RunOrder
RUN_ORDER_NEWEST_FIRST: RunOrder
RUN_ORDER_OLDEST_FIRST: RunOrder
WAIT_UNTIL_UNSPECIFIED: WaitUntil
WAIT_UNTIL_TERMINAL: WaitUntil
WAIT_UNTIL_WAITING: WaitUntil
UNFIT_CAUSE_UNSPECIFIED: UnfitCause
UNFIT_CAUSE_OTHER_PACK: UnfitCause
UNFIT_CAUSE_NOT_SERVED: UnfitCause
UNFIT_CAUSE_NO_CAPACITY: UnfitCause
UNFIT_CAUSE_DRAINING: UnfitCause
UNFIT_CAUSE_FULL: UnfitCause
UNFIT_CAUSE_NO_CREDIT: UnfitCause
UNFIT_CAUSE_FREE: UnfitCause
WAITING_KIND_UNSPECIFIED: WaitingKind
WAITING_KIND_APPROVAL: WaitingKind
WAITING_KIND_NO_WORKER: WaitingKind
WAITING_KIND_WORKER: WaitingKind
WAITING_KIND_LIMIT: WaitingKind
WAITING_KIND_TIMER: WaitingKind
WAITING_KIND_INPUT: WaitingKind
WAITING_KIND_EVENT: WaitingKind
WAITING_KIND_PAUSED: WaitingKind
WAITING_KIND_DELEGATION: WaitingKind
WAITING_KIND_RETRY: WaitingKind
WAITING_KIND_CALLER: WaitingKind
WAITING_KIND_SIDECAR: WaitingKind
CHANGE_KIND_UNSPECIFIED: ChangeKind
CHANGE_KIND_ADDED: ChangeKind
CHANGE_KIND_REMOVED: ChangeKind
CHANGE_KIND_CHANGED: ChangeKind

class Run(_message.Message):
    __slots__ = ("namespace", "run_id", "pack", "entry", "agent", "entry_override", "execution", "labels", "status", "reason", "paused", "state", "seq", "visit_seq", "visits", "edges", "total_visits", "transitions", "tool_calls", "reframes", "tokens", "cost_micro_usd", "estimated_tokens", "last_step", "created_at", "updated_at", "deadline", "state_timeout_at", "turn", "turn_not_before", "turn_suspended", "queued_inputs", "allowed_events", "steps", "artifacts", "artifact_bytes", "message_bytes", "parent", "depth", "limits", "awaiting", "status_at", "task", "forked_from", "imported", "erasable", "reserved_tokens", "reserved_cost_micro_usd", "leased", "accounts", "lent_tokens", "lent_cost_micro_usd", "erased", "limit_waits", "compensating", "conversation", "waiting")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class VisitsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PACK_FIELD_NUMBER: _ClassVar[int]
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    ENTRY_OVERRIDE_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    VISIT_SEQ_FIELD_NUMBER: _ClassVar[int]
    VISITS_FIELD_NUMBER: _ClassVar[int]
    EDGES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_VISITS_FIELD_NUMBER: _ClassVar[int]
    TRANSITIONS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    REFRAMES_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    COST_MICRO_USD_FIELD_NUMBER: _ClassVar[int]
    ESTIMATED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    LAST_STEP_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    STATE_TIMEOUT_AT_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    TURN_NOT_BEFORE_FIELD_NUMBER: _ClassVar[int]
    TURN_SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    QUEUED_INPUTS_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_EVENTS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_BYTES_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    AWAITING_FIELD_NUMBER: _ClassVar[int]
    STATUS_AT_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    FORKED_FROM_FIELD_NUMBER: _ClassVar[int]
    IMPORTED_FIELD_NUMBER: _ClassVar[int]
    ERASABLE_FIELD_NUMBER: _ClassVar[int]
    RESERVED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    RESERVED_COST_MICRO_USD_FIELD_NUMBER: _ClassVar[int]
    LEASED_FIELD_NUMBER: _ClassVar[int]
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    LENT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    LENT_COST_MICRO_USD_FIELD_NUMBER: _ClassVar[int]
    ERASED_FIELD_NUMBER: _ClassVar[int]
    LIMIT_WAITS_FIELD_NUMBER: _ClassVar[int]
    COMPENSATING_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    pack: _record_pb2.PackRef
    entry: str
    agent: str
    entry_override: bool
    execution: _record_pb2.Execution
    labels: _containers.ScalarMap[str, str]
    status: _record_pb2.RunStatus
    reason: str
    paused: bool
    state: str
    seq: int
    visit_seq: int
    visits: _containers.ScalarMap[str, int]
    edges: _containers.RepeatedCompositeFieldContainer[EdgeCount]
    total_visits: int
    transitions: int
    tool_calls: int
    reframes: int
    tokens: int
    cost_micro_usd: int
    estimated_tokens: int
    last_step: int
    created_at: _timestamp_pb2.Timestamp
    updated_at: _timestamp_pb2.Timestamp
    deadline: _timestamp_pb2.Timestamp
    state_timeout_at: _timestamp_pb2.Timestamp
    turn: _record_pb2.TurnRef
    turn_not_before: _timestamp_pb2.Timestamp
    turn_suspended: bool
    queued_inputs: int
    allowed_events: _containers.RepeatedScalarFieldContainer[str]
    steps: _containers.RepeatedCompositeFieldContainer[Step]
    artifacts: _containers.RepeatedCompositeFieldContainer[_record_pb2.ArtifactHead]
    artifact_bytes: int
    message_bytes: int
    parent: Parent
    depth: int
    limits: RunLimits
    awaiting: _record_pb2.Awaiting
    status_at: _timestamp_pb2.Timestamp
    task: TaskInfo
    forked_from: ForkedFrom
    imported: bool
    erasable: bool
    reserved_tokens: int
    reserved_cost_micro_usd: int
    leased: bool
    accounts: _containers.RepeatedCompositeFieldContainer[AccountShare]
    lent_tokens: int
    lent_cost_micro_usd: int
    erased: Erasure
    limit_waits: _containers.RepeatedCompositeFieldContainer[LimitWait]
    compensating: bool
    conversation: bool
    waiting: Waiting
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., pack: _Optional[_Union[_record_pb2.PackRef, _Mapping]] = ..., entry: _Optional[str] = ..., agent: _Optional[str] = ..., entry_override: bool = ..., execution: _Optional[_Union[_record_pb2.Execution, str]] = ..., labels: _Optional[_Mapping[str, str]] = ..., status: _Optional[_Union[_record_pb2.RunStatus, str]] = ..., reason: _Optional[str] = ..., paused: bool = ..., state: _Optional[str] = ..., seq: _Optional[int] = ..., visit_seq: _Optional[int] = ..., visits: _Optional[_Mapping[str, int]] = ..., edges: _Optional[_Iterable[_Union[EdgeCount, _Mapping]]] = ..., total_visits: _Optional[int] = ..., transitions: _Optional[int] = ..., tool_calls: _Optional[int] = ..., reframes: _Optional[int] = ..., tokens: _Optional[int] = ..., cost_micro_usd: _Optional[int] = ..., estimated_tokens: _Optional[int] = ..., last_step: _Optional[int] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., updated_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., state_timeout_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., turn: _Optional[_Union[_record_pb2.TurnRef, _Mapping]] = ..., turn_not_before: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., turn_suspended: bool = ..., queued_inputs: _Optional[int] = ..., allowed_events: _Optional[_Iterable[str]] = ..., steps: _Optional[_Iterable[_Union[Step, _Mapping]]] = ..., artifacts: _Optional[_Iterable[_Union[_record_pb2.ArtifactHead, _Mapping]]] = ..., artifact_bytes: _Optional[int] = ..., message_bytes: _Optional[int] = ..., parent: _Optional[_Union[Parent, _Mapping]] = ..., depth: _Optional[int] = ..., limits: _Optional[_Union[RunLimits, _Mapping]] = ..., awaiting: _Optional[_Union[_record_pb2.Awaiting, str]] = ..., status_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., task: _Optional[_Union[TaskInfo, _Mapping]] = ..., forked_from: _Optional[_Union[ForkedFrom, _Mapping]] = ..., imported: bool = ..., erasable: bool = ..., reserved_tokens: _Optional[int] = ..., reserved_cost_micro_usd: _Optional[int] = ..., leased: bool = ..., accounts: _Optional[_Iterable[_Union[AccountShare, _Mapping]]] = ..., lent_tokens: _Optional[int] = ..., lent_cost_micro_usd: _Optional[int] = ..., erased: _Optional[_Union[Erasure, _Mapping]] = ..., limit_waits: _Optional[_Iterable[_Union[LimitWait, _Mapping]]] = ..., compensating: bool = ..., conversation: bool = ..., waiting: _Optional[_Union[Waiting, _Mapping]] = ...) -> None: ...

class Waiting(_message.Message):
    __slots__ = ("kind", "sentence", "since", "due", "step", "tool", "model", "prompt", "attempt", "worker_id", "seen_at", "output_at", "workers", "connected_workers", "limit", "events", "principal", "not_starter", "task_id")
    KIND_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    DUE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    SEEN_AT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_AT_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_WORKERS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    NOT_STARTER_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    kind: WaitingKind
    sentence: str
    since: _timestamp_pb2.Timestamp
    due: _timestamp_pb2.Timestamp
    step: int
    tool: str
    model: str
    prompt: str
    attempt: int
    worker_id: str
    seen_at: _timestamp_pb2.Timestamp
    output_at: _timestamp_pb2.Timestamp
    workers: _containers.RepeatedCompositeFieldContainer[UnfitWorker]
    connected_workers: int
    limit: LimitWait
    events: _containers.RepeatedScalarFieldContainer[str]
    principal: str
    not_starter: bool
    task_id: str
    def __init__(self, kind: _Optional[_Union[WaitingKind, str]] = ..., sentence: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., due: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., step: _Optional[int] = ..., tool: _Optional[str] = ..., model: _Optional[str] = ..., prompt: _Optional[str] = ..., attempt: _Optional[int] = ..., worker_id: _Optional[str] = ..., seen_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., output_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., workers: _Optional[_Iterable[_Union[UnfitWorker, _Mapping]]] = ..., connected_workers: _Optional[int] = ..., limit: _Optional[_Union[LimitWait, _Mapping]] = ..., events: _Optional[_Iterable[str]] = ..., principal: _Optional[str] = ..., not_starter: bool = ..., task_id: _Optional[str] = ...) -> None: ...

class UnfitWorker(_message.Message):
    __slots__ = ("worker_id", "cause")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    cause: UnfitCause
    def __init__(self, worker_id: _Optional[str] = ..., cause: _Optional[_Union[UnfitCause, str]] = ...) -> None: ...

class AccountShare(_message.Message):
    __slots__ = ("name", "window_start", "settled_tokens", "settled_cost_micro_usd", "reserved_tokens", "reserved_cost_micro_usd")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WINDOW_START_FIELD_NUMBER: _ClassVar[int]
    SETTLED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SETTLED_COST_MICRO_USD_FIELD_NUMBER: _ClassVar[int]
    RESERVED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    RESERVED_COST_MICRO_USD_FIELD_NUMBER: _ClassVar[int]
    name: str
    window_start: _timestamp_pb2.Timestamp
    settled_tokens: int
    settled_cost_micro_usd: int
    reserved_tokens: int
    reserved_cost_micro_usd: int
    def __init__(self, name: _Optional[str] = ..., window_start: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., settled_tokens: _Optional[int] = ..., settled_cost_micro_usd: _Optional[int] = ..., reserved_tokens: _Optional[int] = ..., reserved_cost_micro_usd: _Optional[int] = ...) -> None: ...

class LimitWait(_message.Message):
    __slots__ = ("limits", "model", "tool", "step", "waited", "ahead")
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    WAITED_FIELD_NUMBER: _ClassVar[int]
    AHEAD_FIELD_NUMBER: _ClassVar[int]
    limits: _containers.RepeatedCompositeFieldContainer[LimitKey]
    model: str
    tool: str
    step: int
    waited: _duration_pb2.Duration
    ahead: int
    def __init__(self, limits: _Optional[_Iterable[_Union[LimitKey, _Mapping]]] = ..., model: _Optional[str] = ..., tool: _Optional[str] = ..., step: _Optional[int] = ..., waited: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., ahead: _Optional[int] = ...) -> None: ...

class LimitKey(_message.Message):
    __slots__ = ("limit", "key")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    limit: str
    key: str
    def __init__(self, limit: _Optional[str] = ..., key: _Optional[str] = ...) -> None: ...

class RunBudgets(_message.Message):
    __slots__ = ("max_total_visits", "max_tool_calls", "max_wall_time", "max_steps", "max_reframes", "max_tokens", "max_cost_micro_usd", "wall_time_excludes_waiting")
    MAX_TOTAL_VISITS_FIELD_NUMBER: _ClassVar[int]
    MAX_TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    MAX_WALL_TIME_FIELD_NUMBER: _ClassVar[int]
    MAX_STEPS_FIELD_NUMBER: _ClassVar[int]
    MAX_REFRAMES_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_COST_MICRO_USD_FIELD_NUMBER: _ClassVar[int]
    WALL_TIME_EXCLUDES_WAITING_FIELD_NUMBER: _ClassVar[int]
    max_total_visits: int
    max_tool_calls: int
    max_wall_time: _duration_pb2.Duration
    max_steps: int
    max_reframes: int
    max_tokens: int
    max_cost_micro_usd: int
    wall_time_excludes_waiting: bool
    def __init__(self, max_total_visits: _Optional[int] = ..., max_tool_calls: _Optional[int] = ..., max_wall_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_steps: _Optional[int] = ..., max_reframes: _Optional[int] = ..., max_tokens: _Optional[int] = ..., max_cost_micro_usd: _Optional[int] = ..., wall_time_excludes_waiting: bool = ...) -> None: ...

class EdgeCount(_message.Message):
    __slots__ = ("state", "event", "count")
    STATE_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    state: str
    event: str
    count: int
    def __init__(self, state: _Optional[str] = ..., event: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class Parent(_message.Message):
    __slots__ = ("run_id", "step", "attempt", "origin")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    step: int
    attempt: int
    origin: str
    def __init__(self, run_id: _Optional[str] = ..., step: _Optional[int] = ..., attempt: _Optional[int] = ..., origin: _Optional[str] = ...) -> None: ...

class TaskInfo(_message.Message):
    __slots__ = ("context_id", "owner", "tenant")
    CONTEXT_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    context_id: str
    owner: str
    tenant: str
    def __init__(self, context_id: _Optional[str] = ..., owner: _Optional[str] = ..., tenant: _Optional[str] = ...) -> None: ...

class RunLimits(_message.Message):
    __slots__ = ("max_transitions", "max_artifact_bytes", "max_run_artifact_bytes", "max_message_bytes", "max_queued_inputs")
    MAX_TRANSITIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_ARTIFACT_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_RUN_ARTIFACT_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_QUEUED_INPUTS_FIELD_NUMBER: _ClassVar[int]
    max_transitions: int
    max_artifact_bytes: int
    max_run_artifact_bytes: int
    max_message_bytes: int
    max_queued_inputs: int
    def __init__(self, max_transitions: _Optional[int] = ..., max_artifact_bytes: _Optional[int] = ..., max_run_artifact_bytes: _Optional[int] = ..., max_message_bytes: _Optional[int] = ..., max_queued_inputs: _Optional[int] = ...) -> None: ...

class ModelStep(_message.Message):
    __slots__ = ("request", "answer", "usage", "response_id", "not_before", "request_changed", "max_output_tokens")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_ID_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_CHANGED_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    request: _record_pb2.ModelRequest
    answer: _record_pb2.ModelAnswer
    usage: _record_pb2.Usage
    response_id: str
    not_before: _timestamp_pb2.Timestamp
    request_changed: bool
    max_output_tokens: int
    def __init__(self, request: _Optional[_Union[_record_pb2.ModelRequest, _Mapping]] = ..., answer: _Optional[_Union[_record_pb2.ModelAnswer, _Mapping]] = ..., usage: _Optional[_Union[_record_pb2.Usage, _Mapping]] = ..., response_id: _Optional[str] = ..., not_before: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., request_changed: bool = ..., max_output_tokens: _Optional[int] = ...) -> None: ...

class Step(_message.Message):
    __slots__ = ("step", "key", "tool", "status", "attempt", "turn_seq", "deadline", "delegation", "payload_json", "result_json", "error", "idempotency_key", "bodies_omitted", "kind", "model", "call", "remote", "redacted", "approval", "about", "inquiry", "by_caller", "unknown")
    STEP_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TURN_SEQ_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    DELEGATION_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_JSON_FIELD_NUMBER: _ClassVar[int]
    RESULT_JSON_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    BODIES_OMITTED_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    REMOTE_FIELD_NUMBER: _ClassVar[int]
    REDACTED_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_FIELD_NUMBER: _ClassVar[int]
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    INQUIRY_FIELD_NUMBER: _ClassVar[int]
    BY_CALLER_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    step: int
    key: str
    tool: str
    status: _record_pb2.StepStatus
    attempt: int
    turn_seq: int
    deadline: _timestamp_pb2.Timestamp
    delegation: bool
    payload_json: str
    result_json: str
    error: _record_pb2.Fault
    idempotency_key: str
    bodies_omitted: bool
    kind: _record_pb2.StepKind
    model: ModelStep
    call: _record_pb2.ToolCallRef
    remote: _record_pb2.Remote
    redacted: bool
    approval: StepApproval
    about: _record_pb2.StepAbout
    inquiry: int
    by_caller: bool
    unknown: bool
    def __init__(self, step: _Optional[int] = ..., key: _Optional[str] = ..., tool: _Optional[str] = ..., status: _Optional[_Union[_record_pb2.StepStatus, str]] = ..., attempt: _Optional[int] = ..., turn_seq: _Optional[int] = ..., deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., delegation: bool = ..., payload_json: _Optional[str] = ..., result_json: _Optional[str] = ..., error: _Optional[_Union[_record_pb2.Fault, _Mapping]] = ..., idempotency_key: _Optional[str] = ..., bodies_omitted: bool = ..., kind: _Optional[_Union[_record_pb2.StepKind, str]] = ..., model: _Optional[_Union[ModelStep, _Mapping]] = ..., call: _Optional[_Union[_record_pb2.ToolCallRef, _Mapping]] = ..., remote: _Optional[_Union[_record_pb2.Remote, _Mapping]] = ..., redacted: bool = ..., approval: _Optional[_Union[StepApproval, _Mapping]] = ..., about: _Optional[_Union[_record_pb2.StepAbout, _Mapping]] = ..., inquiry: _Optional[int] = ..., by_caller: bool = ..., unknown: bool = ...) -> None: ...

class StepApproval(_message.Message):
    __slots__ = ("held", "since", "digest", "verdict", "decided_by", "decided_at", "expires", "decided_seq")
    HELD_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    DECIDED_BY_FIELD_NUMBER: _ClassVar[int]
    DECIDED_AT_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    DECIDED_SEQ_FIELD_NUMBER: _ClassVar[int]
    held: bool
    since: _timestamp_pb2.Timestamp
    digest: str
    verdict: _record_pb2.StepVerdict
    decided_by: str
    decided_at: _timestamp_pb2.Timestamp
    expires: _timestamp_pb2.Timestamp
    decided_seq: int
    def __init__(self, held: bool = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., digest: _Optional[str] = ..., verdict: _Optional[_Union[_record_pb2.StepVerdict, str]] = ..., decided_by: _Optional[str] = ..., decided_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expires: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., decided_seq: _Optional[int] = ...) -> None: ...

class RunFilter(_message.Message):
    __slots__ = ("pack", "statuses", "state", "labels", "parent_run_id", "unserved", "reason", "created_after", "created_before", "run_id_prefix", "waiting")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PACK_FIELD_NUMBER: _ClassVar[int]
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    PARENT_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    UNSERVED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CREATED_AFTER_FIELD_NUMBER: _ClassVar[int]
    CREATED_BEFORE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_PREFIX_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    pack: str
    statuses: _containers.RepeatedScalarFieldContainer[_record_pb2.RunStatus]
    state: str
    labels: _containers.ScalarMap[str, str]
    parent_run_id: str
    unserved: bool
    reason: str
    created_after: _timestamp_pb2.Timestamp
    created_before: _timestamp_pb2.Timestamp
    run_id_prefix: str
    waiting: _containers.RepeatedScalarFieldContainer[WaitingKind]
    def __init__(self, pack: _Optional[str] = ..., statuses: _Optional[_Iterable[_Union[_record_pb2.RunStatus, str]]] = ..., state: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., parent_run_id: _Optional[str] = ..., unserved: bool = ..., reason: _Optional[str] = ..., created_after: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., created_before: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., run_id_prefix: _Optional[str] = ..., waiting: _Optional[_Iterable[_Union[WaitingKind, str]]] = ...) -> None: ...

class StartRunRequest(_message.Message):
    __slots__ = ("namespace", "pack", "agent", "state", "variables_json", "input", "execution", "labels", "request_id", "max_steps", "conversation")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    PACK_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    VARIABLES_JSON_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_STEPS_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    pack: str
    agent: str
    state: str
    variables_json: str
    input: _containers.RepeatedCompositeFieldContainer[_record_pb2.Part]
    execution: _record_pb2.Execution
    labels: _containers.ScalarMap[str, str]
    request_id: str
    max_steps: int
    conversation: bool
    def __init__(self, namespace: _Optional[str] = ..., pack: _Optional[str] = ..., agent: _Optional[str] = ..., state: _Optional[str] = ..., variables_json: _Optional[str] = ..., input: _Optional[_Iterable[_Union[_record_pb2.Part, _Mapping]]] = ..., execution: _Optional[_Union[_record_pb2.Execution, str]] = ..., labels: _Optional[_Mapping[str, str]] = ..., request_id: _Optional[str] = ..., max_steps: _Optional[int] = ..., conversation: bool = ...) -> None: ...

class StartRunResponse(_message.Message):
    __slots__ = ("run", "record", "turn", "duplicate")
    RUN_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    run: Run
    record: _record_pb2.Record
    turn: _record_pb2.TurnRef
    duplicate: bool
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ..., record: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., turn: _Optional[_Union[_record_pb2.TurnRef, _Mapping]] = ..., duplicate: bool = ...) -> None: ...

class ForkedFrom(_message.Message):
    __slots__ = ("run_id", "seq", "visits", "steps")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    VISITS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    seq: int
    visits: int
    steps: int
    def __init__(self, run_id: _Optional[str] = ..., seq: _Optional[int] = ..., visits: _Optional[int] = ..., steps: _Optional[int] = ...) -> None: ...

class ForkRunRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "at_seq", "pack", "variables_json", "artifacts", "labels", "execution", "max_steps", "max_wall_time_sec", "reuse_steps", "request_id")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    AT_SEQ_FIELD_NUMBER: _ClassVar[int]
    PACK_FIELD_NUMBER: _ClassVar[int]
    VARIABLES_JSON_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    MAX_STEPS_FIELD_NUMBER: _ClassVar[int]
    MAX_WALL_TIME_SEC_FIELD_NUMBER: _ClassVar[int]
    REUSE_STEPS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    at_seq: int
    pack: str
    variables_json: str
    artifacts: _containers.RepeatedCompositeFieldContainer[_record_pb2.ArtifactWrite]
    labels: _containers.ScalarMap[str, str]
    execution: _record_pb2.Execution
    max_steps: int
    max_wall_time_sec: int
    reuse_steps: bool
    request_id: str
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., at_seq: _Optional[int] = ..., pack: _Optional[str] = ..., variables_json: _Optional[str] = ..., artifacts: _Optional[_Iterable[_Union[_record_pb2.ArtifactWrite, _Mapping]]] = ..., labels: _Optional[_Mapping[str, str]] = ..., execution: _Optional[_Union[_record_pb2.Execution, str]] = ..., max_steps: _Optional[int] = ..., max_wall_time_sec: _Optional[int] = ..., reuse_steps: bool = ..., request_id: _Optional[str] = ...) -> None: ...

class ForkRunResponse(_message.Message):
    __slots__ = ("run", "record", "turn", "duplicate")
    RUN_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    run: Run
    record: _record_pb2.Record
    turn: _record_pb2.TurnRef
    duplicate: bool
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ..., record: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., turn: _Optional[_Union[_record_pb2.TurnRef, _Mapping]] = ..., duplicate: bool = ...) -> None: ...

class DiffRunsRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "seq", "other_run_id", "other_seq")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    OTHER_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    OTHER_SEQ_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    seq: int
    other_run_id: str
    other_seq: int
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., seq: _Optional[int] = ..., other_run_id: _Optional[str] = ..., other_seq: _Optional[int] = ...) -> None: ...

class RunPoint(_message.Message):
    __slots__ = ("run_id", "seq", "pack", "state", "status", "reason", "messages")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    PACK_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    seq: int
    pack: _record_pb2.PackRef
    state: str
    status: _record_pb2.RunStatus
    reason: str
    messages: int
    def __init__(self, run_id: _Optional[str] = ..., seq: _Optional[int] = ..., pack: _Optional[_Union[_record_pb2.PackRef, _Mapping]] = ..., state: _Optional[str] = ..., status: _Optional[_Union[_record_pb2.RunStatus, str]] = ..., reason: _Optional[str] = ..., messages: _Optional[int] = ...) -> None: ...

class PathStep(_message.Message):
    __slots__ = ("seq", "event", "state", "run_id")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    seq: int
    event: str
    state: str
    run_id: str
    def __init__(self, seq: _Optional[int] = ..., event: _Optional[str] = ..., state: _Optional[str] = ..., run_id: _Optional[str] = ...) -> None: ...

class CountChange(_message.Message):
    __slots__ = ("name", "base", "other")
    NAME_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELD_NUMBER: _ClassVar[int]
    name: str
    base: int
    other: int
    def __init__(self, name: _Optional[str] = ..., base: _Optional[int] = ..., other: _Optional[int] = ...) -> None: ...

class ValueChange(_message.Message):
    __slots__ = ("path", "kind", "base_json", "other_json")
    PATH_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    BASE_JSON_FIELD_NUMBER: _ClassVar[int]
    OTHER_JSON_FIELD_NUMBER: _ClassVar[int]
    path: str
    kind: ChangeKind
    base_json: str
    other_json: str
    def __init__(self, path: _Optional[str] = ..., kind: _Optional[_Union[ChangeKind, str]] = ..., base_json: _Optional[str] = ..., other_json: _Optional[str] = ...) -> None: ...

class ArtifactChange(_message.Message):
    __slots__ = ("name", "kind", "media_type", "base_bytes", "other_bytes", "json", "text", "truncated")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    BASE_BYTES_FIELD_NUMBER: _ClassVar[int]
    OTHER_BYTES_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: ChangeKind
    media_type: str
    base_bytes: int
    other_bytes: int
    json: _containers.RepeatedCompositeFieldContainer[ValueChange]
    text: str
    truncated: bool
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[_Union[ChangeKind, str]] = ..., media_type: _Optional[str] = ..., base_bytes: _Optional[int] = ..., other_bytes: _Optional[int] = ..., json: _Optional[_Iterable[_Union[ValueChange, _Mapping]]] = ..., text: _Optional[str] = ..., truncated: bool = ...) -> None: ...

class DiffRunsResponse(_message.Message):
    __slots__ = ("base", "other", "common_path", "base_path", "other_path", "visits", "edges", "budgets", "artifacts", "variables", "truncated")
    BASE_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELD_NUMBER: _ClassVar[int]
    COMMON_PATH_FIELD_NUMBER: _ClassVar[int]
    BASE_PATH_FIELD_NUMBER: _ClassVar[int]
    OTHER_PATH_FIELD_NUMBER: _ClassVar[int]
    VISITS_FIELD_NUMBER: _ClassVar[int]
    EDGES_FIELD_NUMBER: _ClassVar[int]
    BUDGETS_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    VARIABLES_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    base: RunPoint
    other: RunPoint
    common_path: int
    base_path: _containers.RepeatedCompositeFieldContainer[PathStep]
    other_path: _containers.RepeatedCompositeFieldContainer[PathStep]
    visits: _containers.RepeatedCompositeFieldContainer[CountChange]
    edges: _containers.RepeatedCompositeFieldContainer[CountChange]
    budgets: _containers.RepeatedCompositeFieldContainer[CountChange]
    artifacts: _containers.RepeatedCompositeFieldContainer[ArtifactChange]
    variables: _containers.RepeatedCompositeFieldContainer[ValueChange]
    truncated: bool
    def __init__(self, base: _Optional[_Union[RunPoint, _Mapping]] = ..., other: _Optional[_Union[RunPoint, _Mapping]] = ..., common_path: _Optional[int] = ..., base_path: _Optional[_Iterable[_Union[PathStep, _Mapping]]] = ..., other_path: _Optional[_Iterable[_Union[PathStep, _Mapping]]] = ..., visits: _Optional[_Iterable[_Union[CountChange, _Mapping]]] = ..., edges: _Optional[_Iterable[_Union[CountChange, _Mapping]]] = ..., budgets: _Optional[_Iterable[_Union[CountChange, _Mapping]]] = ..., artifacts: _Optional[_Iterable[_Union[ArtifactChange, _Mapping]]] = ..., variables: _Optional[_Iterable[_Union[ValueChange, _Mapping]]] = ..., truncated: bool = ...) -> None: ...

class VerifyRunRequest(_message.Message):
    __slots__ = ("namespace", "run_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ...) -> None: ...

class VerifyRunResponse(_message.Message):
    __slots__ = ("ok", "entries", "records", "hash", "bad_seq", "detail", "erased")
    OK_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    BAD_SEQ_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    ERASED_FIELD_NUMBER: _ClassVar[int]
    ok: bool
    entries: int
    records: int
    hash: bytes
    bad_seq: int
    detail: str
    erased: bool
    def __init__(self, ok: bool = ..., entries: _Optional[int] = ..., records: _Optional[int] = ..., hash: _Optional[bytes] = ..., bad_seq: _Optional[int] = ..., detail: _Optional[str] = ..., erased: bool = ...) -> None: ...

class ExportRunRequest(_message.Message):
    __slots__ = ("namespace", "run_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ...) -> None: ...

class ExportRunResponse(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class ImportRunRequest(_message.Message):
    __slots__ = ("namespace", "data")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    data: bytes
    def __init__(self, namespace: _Optional[str] = ..., data: _Optional[bytes] = ...) -> None: ...

class ImportRunResponse(_message.Message):
    __slots__ = ("run", "duplicate")
    RUN_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    run: Run
    duplicate: bool
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ..., duplicate: bool = ...) -> None: ...

class EmitEventRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "event", "artifacts", "event_id", "expected_seq", "turn_token")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    EVENT_ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_SEQ_FIELD_NUMBER: _ClassVar[int]
    TURN_TOKEN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    event: str
    artifacts: _containers.RepeatedCompositeFieldContainer[_record_pb2.ArtifactWrite]
    event_id: str
    expected_seq: int
    turn_token: str
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., event: _Optional[str] = ..., artifacts: _Optional[_Iterable[_Union[_record_pb2.ArtifactWrite, _Mapping]]] = ..., event_id: _Optional[str] = ..., expected_seq: _Optional[int] = ..., turn_token: _Optional[str] = ...) -> None: ...

class EmitEventResponse(_message.Message):
    __slots__ = ("transition", "ended", "state", "status", "seq", "turn", "duplicate")
    TRANSITION_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    transition: _record_pb2.Record
    ended: _record_pb2.Record
    state: str
    status: _record_pb2.RunStatus
    seq: int
    turn: _record_pb2.TurnRef
    duplicate: bool
    def __init__(self, transition: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., ended: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., state: _Optional[str] = ..., status: _Optional[_Union[_record_pb2.RunStatus, str]] = ..., seq: _Optional[int] = ..., turn: _Optional[_Union[_record_pb2.TurnRef, _Mapping]] = ..., duplicate: bool = ...) -> None: ...

class SendInputRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "parts", "message_id", "expected_seq", "step")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_SEQ_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    parts: _containers.RepeatedCompositeFieldContainer[_record_pb2.Part]
    message_id: str
    expected_seq: int
    step: int
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., parts: _Optional[_Iterable[_Union[_record_pb2.Part, _Mapping]]] = ..., message_id: _Optional[str] = ..., expected_seq: _Optional[int] = ..., step: _Optional[int] = ...) -> None: ...

class SendInputResponse(_message.Message):
    __slots__ = ("record", "queued", "status", "seq", "turn", "duplicate")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    record: _record_pb2.Record
    queued: bool
    status: _record_pb2.RunStatus
    seq: int
    turn: _record_pb2.TurnRef
    duplicate: bool
    def __init__(self, record: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., queued: bool = ..., status: _Optional[_Union[_record_pb2.RunStatus, str]] = ..., seq: _Optional[int] = ..., turn: _Optional[_Union[_record_pb2.TurnRef, _Mapping]] = ..., duplicate: bool = ...) -> None: ...

class GetTurnRequest(_message.Message):
    __slots__ = ("namespace", "run_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ...) -> None: ...

class GetTurnResponse(_message.Message):
    __slots__ = ("turn", "pack", "prompt", "system_prompt", "messages", "tools", "allowed_events", "steps", "artifact_slots", "variables_json", "settings_json", "terminal", "deadline", "seq", "visit_seq", "suspended", "not_before", "remaining")
    TURN_FIELD_NUMBER: _ClassVar[int]
    PACK_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_PROMPT_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_EVENTS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_SLOTS_FIELD_NUMBER: _ClassVar[int]
    VARIABLES_JSON_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_JSON_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    VISIT_SEQ_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_FIELD_NUMBER: _ClassVar[int]
    REMAINING_FIELD_NUMBER: _ClassVar[int]
    turn: _record_pb2.TurnRef
    pack: _record_pb2.PackRef
    prompt: str
    system_prompt: str
    messages: _containers.RepeatedCompositeFieldContainer[_record_pb2.Message]
    tools: _containers.RepeatedCompositeFieldContainer[ToolSpec]
    allowed_events: _containers.RepeatedScalarFieldContainer[str]
    steps: _containers.RepeatedCompositeFieldContainer[Step]
    artifact_slots: _containers.RepeatedCompositeFieldContainer[ArtifactSlot]
    variables_json: str
    settings_json: str
    terminal: bool
    deadline: _timestamp_pb2.Timestamp
    seq: int
    visit_seq: int
    suspended: bool
    not_before: _timestamp_pb2.Timestamp
    remaining: Remaining
    def __init__(self, turn: _Optional[_Union[_record_pb2.TurnRef, _Mapping]] = ..., pack: _Optional[_Union[_record_pb2.PackRef, _Mapping]] = ..., prompt: _Optional[str] = ..., system_prompt: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[_record_pb2.Message, _Mapping]]] = ..., tools: _Optional[_Iterable[_Union[ToolSpec, _Mapping]]] = ..., allowed_events: _Optional[_Iterable[str]] = ..., steps: _Optional[_Iterable[_Union[Step, _Mapping]]] = ..., artifact_slots: _Optional[_Iterable[_Union[ArtifactSlot, _Mapping]]] = ..., variables_json: _Optional[str] = ..., settings_json: _Optional[str] = ..., terminal: bool = ..., deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., seq: _Optional[int] = ..., visit_seq: _Optional[int] = ..., suspended: bool = ..., not_before: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., remaining: _Optional[_Union[Remaining, _Mapping]] = ...) -> None: ...

class Remaining(_message.Message):
    __slots__ = ("visits", "tool_calls", "steps", "tokens", "cost_micro_usd", "wall_time")
    VISITS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    COST_MICRO_USD_FIELD_NUMBER: _ClassVar[int]
    WALL_TIME_FIELD_NUMBER: _ClassVar[int]
    visits: int
    tool_calls: int
    steps: int
    tokens: int
    cost_micro_usd: int
    wall_time: _duration_pb2.Duration
    def __init__(self, visits: _Optional[int] = ..., tool_calls: _Optional[int] = ..., steps: _Optional[int] = ..., tokens: _Optional[int] = ..., cost_micro_usd: _Optional[int] = ..., wall_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ToolSpec(_message.Message):
    __slots__ = ("name", "description", "parameters_json", "agent")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_JSON_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    parameters_json: str
    agent: bool
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., parameters_json: _Optional[str] = ..., agent: bool = ...) -> None: ...

class ArtifactSlot(_message.Message):
    __slots__ = ("name", "media_type", "mode", "description")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    name: str
    media_type: str
    mode: _record_pb2.ArtifactMode
    description: str
    def __init__(self, name: _Optional[str] = ..., media_type: _Optional[str] = ..., mode: _Optional[_Union[_record_pb2.ArtifactMode, str]] = ..., description: _Optional[str] = ...) -> None: ...

class ShowTurnRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "turn_seq")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_SEQ_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    turn_seq: int
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., turn_seq: _Optional[int] = ...) -> None: ...

class ShowTurnResponse(_message.Message):
    __slots__ = ("turn", "redacted")
    TURN_FIELD_NUMBER: _ClassVar[int]
    REDACTED_FIELD_NUMBER: _ClassVar[int]
    turn: GetTurnResponse
    redacted: bool
    def __init__(self, turn: _Optional[_Union[GetTurnResponse, _Mapping]] = ..., redacted: bool = ...) -> None: ...

class SetArtifactsRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "artifacts", "write_id", "expected_seq", "turn_token")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    WRITE_ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_SEQ_FIELD_NUMBER: _ClassVar[int]
    TURN_TOKEN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    artifacts: _containers.RepeatedCompositeFieldContainer[_record_pb2.ArtifactWrite]
    write_id: str
    expected_seq: int
    turn_token: str
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., artifacts: _Optional[_Iterable[_Union[_record_pb2.ArtifactWrite, _Mapping]]] = ..., write_id: _Optional[str] = ..., expected_seq: _Optional[int] = ..., turn_token: _Optional[str] = ...) -> None: ...

class SetArtifactsResponse(_message.Message):
    __slots__ = ("record", "seq", "duplicate")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    record: _record_pb2.Record
    seq: int
    duplicate: bool
    def __init__(self, record: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., seq: _Optional[int] = ..., duplicate: bool = ...) -> None: ...

class CompleteTurnRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "turn_seq", "attempt", "turn_token", "output", "messages", "usage", "event", "artifacts", "expected_seq", "request_id", "awaiting", "reply", "conversation_through_step")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_SEQ_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TURN_TOKEN_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_SEQ_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    AWAITING_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_THROUGH_STEP_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    turn_seq: int
    attempt: int
    turn_token: str
    output: _containers.RepeatedCompositeFieldContainer[_record_pb2.Part]
    messages: _containers.RepeatedCompositeFieldContainer[_record_pb2.Message]
    usage: _record_pb2.Usage
    event: str
    artifacts: _containers.RepeatedCompositeFieldContainer[_record_pb2.ArtifactWrite]
    expected_seq: int
    request_id: str
    awaiting: _record_pb2.Awaiting
    reply: bool
    conversation_through_step: int
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., turn_seq: _Optional[int] = ..., attempt: _Optional[int] = ..., turn_token: _Optional[str] = ..., output: _Optional[_Iterable[_Union[_record_pb2.Part, _Mapping]]] = ..., messages: _Optional[_Iterable[_Union[_record_pb2.Message, _Mapping]]] = ..., usage: _Optional[_Union[_record_pb2.Usage, _Mapping]] = ..., event: _Optional[str] = ..., artifacts: _Optional[_Iterable[_Union[_record_pb2.ArtifactWrite, _Mapping]]] = ..., expected_seq: _Optional[int] = ..., request_id: _Optional[str] = ..., awaiting: _Optional[_Union[_record_pb2.Awaiting, str]] = ..., reply: bool = ..., conversation_through_step: _Optional[int] = ...) -> None: ...

class CompleteTurnResponse(_message.Message):
    __slots__ = ("record", "transition", "ended", "state", "status", "seq", "turn", "duplicate")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    TRANSITION_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    record: _record_pb2.Record
    transition: _record_pb2.Record
    ended: _record_pb2.Record
    state: str
    status: _record_pb2.RunStatus
    seq: int
    turn: _record_pb2.TurnRef
    duplicate: bool
    def __init__(self, record: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., transition: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., ended: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., state: _Optional[str] = ..., status: _Optional[_Union[_record_pb2.RunStatus, str]] = ..., seq: _Optional[int] = ..., turn: _Optional[_Union[_record_pb2.TurnRef, _Mapping]] = ..., duplicate: bool = ...) -> None: ...

class FailTurnRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "turn_seq", "attempt", "turn_token", "error", "retryable", "usage", "request_id", "reject", "rejected_step")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_SEQ_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TURN_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REJECT_FIELD_NUMBER: _ClassVar[int]
    REJECTED_STEP_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    turn_seq: int
    attempt: int
    turn_token: str
    error: _record_pb2.Fault
    retryable: bool
    usage: _record_pb2.Usage
    request_id: str
    reject: bool
    rejected_step: int
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., turn_seq: _Optional[int] = ..., attempt: _Optional[int] = ..., turn_token: _Optional[str] = ..., error: _Optional[_Union[_record_pb2.Fault, _Mapping]] = ..., retryable: bool = ..., usage: _Optional[_Union[_record_pb2.Usage, _Mapping]] = ..., request_id: _Optional[str] = ..., reject: bool = ..., rejected_step: _Optional[int] = ...) -> None: ...

class FailTurnResponse(_message.Message):
    __slots__ = ("record", "ended", "status", "seq", "turn", "duplicate")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    record: _record_pb2.Record
    ended: _record_pb2.Record
    status: _record_pb2.RunStatus
    seq: int
    turn: _record_pb2.TurnRef
    duplicate: bool
    def __init__(self, record: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., ended: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., status: _Optional[_Union[_record_pb2.RunStatus, str]] = ..., seq: _Optional[int] = ..., turn: _Optional[_Union[_record_pb2.TurnRef, _Mapping]] = ..., duplicate: bool = ...) -> None: ...

class WriteOutputRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "turn_seq", "attempt", "turn_token", "piece", "request_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_SEQ_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TURN_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PIECE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    turn_seq: int
    attempt: int
    turn_token: str
    piece: _record_pb2.OutputPiece
    request_id: str
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., turn_seq: _Optional[int] = ..., attempt: _Optional[int] = ..., turn_token: _Optional[str] = ..., piece: _Optional[_Union[_record_pb2.OutputPiece, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class WriteOutputResponse(_message.Message):
    __slots__ = ("record", "seq", "duplicate")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    record: _record_pb2.Record
    seq: int
    duplicate: bool
    def __init__(self, record: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., seq: _Optional[int] = ..., duplicate: bool = ...) -> None: ...

class SuspendTurnRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "turn_seq", "attempt", "turn_token", "request_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_SEQ_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TURN_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    turn_seq: int
    attempt: int
    turn_token: str
    request_id: str
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., turn_seq: _Optional[int] = ..., attempt: _Optional[int] = ..., turn_token: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class SuspendTurnResponse(_message.Message):
    __slots__ = ("record", "status", "seq", "duplicate")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    record: _record_pb2.Record
    status: _record_pb2.RunStatus
    seq: int
    duplicate: bool
    def __init__(self, record: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., status: _Optional[_Union[_record_pb2.RunStatus, str]] = ..., seq: _Optional[int] = ..., duplicate: bool = ...) -> None: ...

class StepRequest(_message.Message):
    __slots__ = ("key", "tool", "payload_json", "reframe", "call", "by_caller")
    KEY_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_JSON_FIELD_NUMBER: _ClassVar[int]
    REFRAME_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    BY_CALLER_FIELD_NUMBER: _ClassVar[int]
    key: str
    tool: str
    payload_json: str
    reframe: bool
    call: _record_pb2.ToolCallRef
    by_caller: bool
    def __init__(self, key: _Optional[str] = ..., tool: _Optional[str] = ..., payload_json: _Optional[str] = ..., reframe: bool = ..., call: _Optional[_Union[_record_pb2.ToolCallRef, _Mapping]] = ..., by_caller: bool = ...) -> None: ...

class RequestStepRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "turn_seq", "attempt", "turn_token", "requests", "request_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_SEQ_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TURN_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    turn_seq: int
    attempt: int
    turn_token: str
    requests: _containers.RepeatedCompositeFieldContainer[StepRequest]
    request_id: str
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., turn_seq: _Optional[int] = ..., attempt: _Optional[int] = ..., turn_token: _Optional[str] = ..., requests: _Optional[_Iterable[_Union[StepRequest, _Mapping]]] = ..., request_id: _Optional[str] = ...) -> None: ...

class RequestModelRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "turn_seq", "attempt", "turn_token", "round", "key", "request", "bound", "include_required")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_SEQ_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TURN_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_REQUIRED_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    turn_seq: int
    attempt: int
    turn_token: str
    round: int
    key: str
    request: _record_pb2.ModelRequest
    bound: _record_pb2.Usage
    include_required: bool
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., turn_seq: _Optional[int] = ..., attempt: _Optional[int] = ..., turn_token: _Optional[str] = ..., round: _Optional[int] = ..., key: _Optional[str] = ..., request: _Optional[_Union[_record_pb2.ModelRequest, _Mapping]] = ..., bound: _Optional[_Union[_record_pb2.Usage, _Mapping]] = ..., include_required: bool = ...) -> None: ...

class RequestModelResponse(_message.Message):
    __slots__ = ("key", "step", "replayed", "denial", "max_answer_bytes", "remaining", "ended", "status", "seq", "included_messages")
    KEY_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    DENIAL_FIELD_NUMBER: _ClassVar[int]
    MAX_ANSWER_BYTES_FIELD_NUMBER: _ClassVar[int]
    REMAINING_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    INCLUDED_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    key: str
    step: Step
    replayed: bool
    denial: _record_pb2.Denial
    max_answer_bytes: int
    remaining: Remaining
    ended: _record_pb2.Record
    status: _record_pb2.RunStatus
    seq: int
    included_messages: _containers.RepeatedCompositeFieldContainer[_record_pb2.IncludedMessage]
    def __init__(self, key: _Optional[str] = ..., step: _Optional[_Union[Step, _Mapping]] = ..., replayed: bool = ..., denial: _Optional[_Union[_record_pb2.Denial, _Mapping]] = ..., max_answer_bytes: _Optional[int] = ..., remaining: _Optional[_Union[Remaining, _Mapping]] = ..., ended: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., status: _Optional[_Union[_record_pb2.RunStatus, str]] = ..., seq: _Optional[int] = ..., included_messages: _Optional[_Iterable[_Union[_record_pb2.IncludedMessage, _Mapping]]] = ...) -> None: ...

class AnswerModelRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "step", "attempt", "turn_token", "answer", "failure", "usage", "provider_limits")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TURN_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_LIMITS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    step: int
    attempt: int
    turn_token: str
    answer: _record_pb2.ModelAnswer
    failure: ModelFailure
    usage: _record_pb2.Usage
    provider_limits: ProviderLimits
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., step: _Optional[int] = ..., attempt: _Optional[int] = ..., turn_token: _Optional[str] = ..., answer: _Optional[_Union[_record_pb2.ModelAnswer, _Mapping]] = ..., failure: _Optional[_Union[ModelFailure, _Mapping]] = ..., usage: _Optional[_Union[_record_pb2.Usage, _Mapping]] = ..., provider_limits: _Optional[_Union[ProviderLimits, _Mapping]] = ...) -> None: ...

class ProviderLimits(_message.Message):
    __slots__ = ("requests", "requests_reset", "tokens", "tokens_reset")
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_RESET_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_RESET_FIELD_NUMBER: _ClassVar[int]
    requests: int
    requests_reset: _duration_pb2.Duration
    tokens: int
    tokens_reset: _duration_pb2.Duration
    def __init__(self, requests: _Optional[int] = ..., requests_reset: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., tokens: _Optional[int] = ..., tokens_reset: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ModelFailure(_message.Message):
    __slots__ = ("error", "non_retryable", "retry_after")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    NON_RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    error: _record_pb2.Fault
    non_retryable: bool
    retry_after: _duration_pb2.Duration
    def __init__(self, error: _Optional[_Union[_record_pb2.Fault, _Mapping]] = ..., non_retryable: bool = ..., retry_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class AnswerModelResponse(_message.Message):
    __slots__ = ("disposition", "record", "ended", "status", "seq", "next", "wait", "duplicate")
    DISPOSITION_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    disposition: Disposition
    record: _record_pb2.Record
    ended: _record_pb2.Record
    status: _record_pb2.RunStatus
    seq: int
    next: int
    wait: _duration_pb2.Duration
    duplicate: bool
    def __init__(self, disposition: _Optional[_Union[Disposition, str]] = ..., record: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., ended: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., status: _Optional[_Union[_record_pb2.RunStatus, str]] = ..., seq: _Optional[int] = ..., next: _Optional[int] = ..., wait: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., duplicate: bool = ...) -> None: ...

class UpdateModelCallRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "step", "attempt", "turn_token", "response_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TURN_TOKEN_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    step: int
    attempt: int
    turn_token: str
    response_id: str
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., step: _Optional[int] = ..., attempt: _Optional[int] = ..., turn_token: _Optional[str] = ..., response_id: _Optional[str] = ...) -> None: ...

class UpdateModelCallResponse(_message.Message):
    __slots__ = ("disposition", "record", "seq")
    DISPOSITION_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    disposition: Disposition
    record: _record_pb2.Record
    seq: int
    def __init__(self, disposition: _Optional[_Union[Disposition, str]] = ..., record: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., seq: _Optional[int] = ...) -> None: ...

class GetModelStepRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "step")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    step: int
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., step: _Optional[int] = ...) -> None: ...

class GetModelStepResponse(_message.Message):
    __slots__ = ("step", "system", "tools_json", "parameters_json", "messages", "redacted")
    STEP_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_FIELD_NUMBER: _ClassVar[int]
    TOOLS_JSON_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_JSON_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    REDACTED_FIELD_NUMBER: _ClassVar[int]
    step: Step
    system: str
    tools_json: str
    parameters_json: str
    messages: _containers.RepeatedCompositeFieldContainer[_record_pb2.Message]
    redacted: bool
    def __init__(self, step: _Optional[_Union[Step, _Mapping]] = ..., system: _Optional[str] = ..., tools_json: _Optional[str] = ..., parameters_json: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[_record_pb2.Message, _Mapping]]] = ..., redacted: bool = ...) -> None: ...

class StepOutcome(_message.Message):
    __slots__ = ("key", "step", "replayed", "denial")
    KEY_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    DENIAL_FIELD_NUMBER: _ClassVar[int]
    key: str
    step: Step
    replayed: bool
    denial: _record_pb2.Denial
    def __init__(self, key: _Optional[str] = ..., step: _Optional[_Union[Step, _Mapping]] = ..., replayed: bool = ..., denial: _Optional[_Union[_record_pb2.Denial, _Mapping]] = ...) -> None: ...

class RequestStepResponse(_message.Message):
    __slots__ = ("outcomes", "ended", "status", "seq", "duplicate")
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[StepOutcome]
    ended: _record_pb2.Record
    status: _record_pb2.RunStatus
    seq: int
    duplicate: bool
    def __init__(self, outcomes: _Optional[_Iterable[_Union[StepOutcome, _Mapping]]] = ..., ended: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., status: _Optional[_Union[_record_pb2.RunStatus, str]] = ..., seq: _Optional[int] = ..., duplicate: bool = ...) -> None: ...

class ResolveStepRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "step", "tool", "attempt", "result_json", "error", "turn_token", "non_retryable", "retry_after", "unknown", "usage")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    RESULT_JSON_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TURN_TOKEN_FIELD_NUMBER: _ClassVar[int]
    NON_RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    step: int
    tool: str
    attempt: int
    result_json: str
    error: _record_pb2.Fault
    turn_token: str
    non_retryable: bool
    retry_after: _duration_pb2.Duration
    unknown: bool
    usage: _record_pb2.Usage
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., step: _Optional[int] = ..., tool: _Optional[str] = ..., attempt: _Optional[int] = ..., result_json: _Optional[str] = ..., error: _Optional[_Union[_record_pb2.Fault, _Mapping]] = ..., turn_token: _Optional[str] = ..., non_retryable: bool = ..., retry_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., unknown: bool = ..., usage: _Optional[_Union[_record_pb2.Usage, _Mapping]] = ...) -> None: ...

class ResolveStepResponse(_message.Message):
    __slots__ = ("disposition", "record", "ended", "status", "seq")
    DISPOSITION_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    disposition: Disposition
    record: _record_pb2.Record
    ended: _record_pb2.Record
    status: _record_pb2.RunStatus
    seq: int
    def __init__(self, disposition: _Optional[_Union[Disposition, str]] = ..., record: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., ended: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., status: _Optional[_Union[_record_pb2.RunStatus, str]] = ..., seq: _Optional[int] = ...) -> None: ...

class StreamTransitionsRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "filter", "kinds", "after_seq", "after_cursor", "follow", "snapshots", "output", "output_after", "from_now", "consumer", "statuses")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    AFTER_SEQ_FIELD_NUMBER: _ClassVar[int]
    AFTER_CURSOR_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_AFTER_FIELD_NUMBER: _ClassVar[int]
    FROM_NOW_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    filter: RunFilter
    kinds: _containers.RepeatedScalarFieldContainer[_record_pb2.RecordKind]
    after_seq: int
    after_cursor: str
    follow: bool
    snapshots: bool
    output: bool
    output_after: OutputPosition
    from_now: bool
    consumer: str
    statuses: bool
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., filter: _Optional[_Union[RunFilter, _Mapping]] = ..., kinds: _Optional[_Iterable[_Union[_record_pb2.RecordKind, str]]] = ..., after_seq: _Optional[int] = ..., after_cursor: _Optional[str] = ..., follow: bool = ..., snapshots: bool = ..., output: bool = ..., output_after: _Optional[_Union[OutputPosition, _Mapping]] = ..., from_now: bool = ..., consumer: _Optional[str] = ..., statuses: bool = ...) -> None: ...

class StreamTransitionsResponse(_message.Message):
    __slots__ = ("record", "heartbeat", "output", "snapshot", "status")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    record: _record_pb2.Record
    heartbeat: Heartbeat
    output: OutputChunk
    snapshot: Snapshot
    status: _record_pb2.RunStatus
    def __init__(self, record: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., output: _Optional[_Union[OutputChunk, _Mapping]] = ..., snapshot: _Optional[_Union[Snapshot, _Mapping]] = ..., status: _Optional[_Union[_record_pb2.RunStatus, str]] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("cursor", "at")
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    cursor: str
    at: _timestamp_pb2.Timestamp
    def __init__(self, cursor: _Optional[str] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class OutputPosition(_message.Message):
    __slots__ = ("turn_seq", "delivery", "offset")
    TURN_SEQ_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    turn_seq: int
    delivery: int
    offset: int
    def __init__(self, turn_seq: _Optional[int] = ..., delivery: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class OutputChunk(_message.Message):
    __slots__ = ("turn_seq", "attempt", "delivery", "offset", "text", "reset", "reasoning")
    TURN_SEQ_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    REASONING_FIELD_NUMBER: _ClassVar[int]
    turn_seq: int
    attempt: int
    delivery: int
    offset: int
    text: str
    reset: bool
    reasoning: bool
    def __init__(self, turn_seq: _Optional[int] = ..., attempt: _Optional[int] = ..., delivery: _Optional[int] = ..., offset: _Optional[int] = ..., text: _Optional[str] = ..., reset: bool = ..., reasoning: bool = ...) -> None: ...

class Snapshot(_message.Message):
    __slots__ = ("run", "artifacts")
    RUN_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    run: Run
    artifacts: _containers.RepeatedCompositeFieldContainer[_record_pb2.Artifact]
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ..., artifacts: _Optional[_Iterable[_Union[_record_pb2.Artifact, _Mapping]]] = ...) -> None: ...

class ListTransitionsRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "kinds", "after_seq", "page_size", "page_token", "snapshots")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    AFTER_SEQ_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    kinds: _containers.RepeatedScalarFieldContainer[_record_pb2.RecordKind]
    after_seq: int
    page_size: int
    page_token: str
    snapshots: bool
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., kinds: _Optional[_Iterable[_Union[_record_pb2.RecordKind, str]]] = ..., after_seq: _Optional[int] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., snapshots: bool = ...) -> None: ...

class ListTransitionsResponse(_message.Message):
    __slots__ = ("records", "next_page_token", "snapshots")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOTS_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[_record_pb2.Record]
    next_page_token: str
    snapshots: _containers.RepeatedCompositeFieldContainer[Snapshot]
    def __init__(self, records: _Optional[_Iterable[_Union[_record_pb2.Record, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., snapshots: _Optional[_Iterable[_Union[Snapshot, _Mapping]]] = ...) -> None: ...

class GetRunRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "at_seq", "include_artifacts", "include_variables")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    AT_SEQ_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_VARIABLES_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    at_seq: int
    include_artifacts: bool
    include_variables: bool
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., at_seq: _Optional[int] = ..., include_artifacts: bool = ..., include_variables: bool = ...) -> None: ...

class GetRunResponse(_message.Message):
    __slots__ = ("run", "artifacts", "variables_json", "budgets", "goal", "request_id", "redacted")
    RUN_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    VARIABLES_JSON_FIELD_NUMBER: _ClassVar[int]
    BUDGETS_FIELD_NUMBER: _ClassVar[int]
    GOAL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REDACTED_FIELD_NUMBER: _ClassVar[int]
    run: Run
    artifacts: _containers.RepeatedCompositeFieldContainer[_record_pb2.Artifact]
    variables_json: str
    budgets: RunBudgets
    goal: str
    request_id: str
    redacted: bool
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ..., artifacts: _Optional[_Iterable[_Union[_record_pb2.Artifact, _Mapping]]] = ..., variables_json: _Optional[str] = ..., budgets: _Optional[_Union[RunBudgets, _Mapping]] = ..., goal: _Optional[str] = ..., request_id: _Optional[str] = ..., redacted: bool = ...) -> None: ...

class ListRunsRequest(_message.Message):
    __slots__ = ("namespace", "filter", "order", "page_size", "page_token")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    filter: RunFilter
    order: RunOrder
    page_size: int
    page_token: str
    def __init__(self, namespace: _Optional[str] = ..., filter: _Optional[_Union[RunFilter, _Mapping]] = ..., order: _Optional[_Union[RunOrder, str]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListRunsResponse(_message.Message):
    __slots__ = ("runs", "next_page_token")
    RUNS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[Run]
    next_page_token: str
    def __init__(self, runs: _Optional[_Iterable[_Union[Run, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class CountRunsRequest(_message.Message):
    __slots__ = ("namespace",)
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    def __init__(self, namespace: _Optional[str] = ...) -> None: ...

class CountRunsResponse(_message.Message):
    __slots__ = ("counts",)
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    counts: _containers.RepeatedCompositeFieldContainer[StatusCount]
    def __init__(self, counts: _Optional[_Iterable[_Union[StatusCount, _Mapping]]] = ...) -> None: ...

class StatusCount(_message.Message):
    __slots__ = ("status", "runs")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    status: _record_pb2.RunStatus
    runs: int
    def __init__(self, status: _Optional[_Union[_record_pb2.RunStatus, str]] = ..., runs: _Optional[int] = ...) -> None: ...

class GetCallerRequest(_message.Message):
    __slots__ = ("namespace",)
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    def __init__(self, namespace: _Optional[str] = ...) -> None: ...

class GetCallerResponse(_message.Message):
    __slots__ = ("principal", "scopes", "namespaces")
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    principal: str
    scopes: _containers.RepeatedScalarFieldContainer[str]
    namespaces: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, principal: _Optional[str] = ..., scopes: _Optional[_Iterable[str]] = ..., namespaces: _Optional[_Iterable[str]] = ...) -> None: ...

class WaitRunRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "until", "timeout")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    until: WaitUntil
    timeout: _duration_pb2.Duration
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., until: _Optional[_Union[WaitUntil, str]] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class WaitRunResponse(_message.Message):
    __slots__ = ("run", "timed_out")
    RUN_FIELD_NUMBER: _ClassVar[int]
    TIMED_OUT_FIELD_NUMBER: _ClassVar[int]
    run: Run
    timed_out: bool
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ..., timed_out: bool = ...) -> None: ...

class PauseRunRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "note", "request_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    note: str
    request_id: str
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., note: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class PauseRunResponse(_message.Message):
    __slots__ = ("record", "status", "seq", "duplicate")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    record: _record_pb2.Record
    status: _record_pb2.RunStatus
    seq: int
    duplicate: bool
    def __init__(self, record: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., status: _Optional[_Union[_record_pb2.RunStatus, str]] = ..., seq: _Optional[int] = ..., duplicate: bool = ...) -> None: ...

class ResumeRunRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "note", "request_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    note: str
    request_id: str
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., note: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class ResumeRunResponse(_message.Message):
    __slots__ = ("record", "status", "seq", "duplicate")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    record: _record_pb2.Record
    status: _record_pb2.RunStatus
    seq: int
    duplicate: bool
    def __init__(self, record: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., status: _Optional[_Union[_record_pb2.RunStatus, str]] = ..., seq: _Optional[int] = ..., duplicate: bool = ...) -> None: ...

class CancelRunRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "note", "request_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    note: str
    request_id: str
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., note: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class CancelRunResponse(_message.Message):
    __slots__ = ("ended", "status", "seq", "duplicate")
    ENDED_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    ended: _record_pb2.Record
    status: _record_pb2.RunStatus
    seq: int
    duplicate: bool
    def __init__(self, ended: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., status: _Optional[_Union[_record_pb2.RunStatus, str]] = ..., seq: _Optional[int] = ..., duplicate: bool = ...) -> None: ...

class DeleteRunRequest(_message.Message):
    __slots__ = ("namespace", "run_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ...) -> None: ...

class DeleteRunResponse(_message.Message):
    __slots__ = ("deleted_at", "deleted_by", "rule", "status", "records", "hash", "duplicate")
    DELETED_AT_FIELD_NUMBER: _ClassVar[int]
    DELETED_BY_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    deleted_at: _timestamp_pb2.Timestamp
    deleted_by: str
    rule: str
    status: _record_pb2.RunStatus
    records: int
    hash: bytes
    duplicate: bool
    def __init__(self, deleted_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., deleted_by: _Optional[str] = ..., rule: _Optional[str] = ..., status: _Optional[_Union[_record_pb2.RunStatus, str]] = ..., records: _Optional[int] = ..., hash: _Optional[bytes] = ..., duplicate: bool = ...) -> None: ...

class EraseRunRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "reason")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    reason: str
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class EraseRunResponse(_message.Message):
    __slots__ = ("erasure", "status", "records", "hash", "duplicate")
    ERASURE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    erasure: Erasure
    status: _record_pb2.RunStatus
    records: int
    hash: bytes
    duplicate: bool
    def __init__(self, erasure: _Optional[_Union[Erasure, _Mapping]] = ..., status: _Optional[_Union[_record_pb2.RunStatus, str]] = ..., records: _Optional[int] = ..., hash: _Optional[bytes] = ..., duplicate: bool = ...) -> None: ...

class Erasure(_message.Message):
    __slots__ = ("at", "by", "reason")
    AT_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    at: _timestamp_pb2.Timestamp
    by: str
    reason: str
    def __init__(self, at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., by: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class PutBlobRequest(_message.Message):
    __slots__ = ("namespace", "upload_id", "media_type", "blob_ref", "offset", "data", "last")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    UPLOAD_ID_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    BLOB_REF_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    upload_id: str
    media_type: str
    blob_ref: str
    offset: int
    data: bytes
    last: bool
    def __init__(self, namespace: _Optional[str] = ..., upload_id: _Optional[str] = ..., media_type: _Optional[str] = ..., blob_ref: _Optional[str] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ..., last: bool = ...) -> None: ...

class PutBlobResponse(_message.Message):
    __slots__ = ("blob_ref", "size", "duplicate")
    BLOB_REF_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    blob_ref: str
    size: int
    duplicate: bool
    def __init__(self, blob_ref: _Optional[str] = ..., size: _Optional[int] = ..., duplicate: bool = ...) -> None: ...

class GetBlobRequest(_message.Message):
    __slots__ = ("namespace", "blob_ref", "offset")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    BLOB_REF_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    blob_ref: str
    offset: int
    def __init__(self, namespace: _Optional[str] = ..., blob_ref: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class GetBlobResponse(_message.Message):
    __slots__ = ("size", "media_type", "offset", "data")
    SIZE_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    size: int
    media_type: str
    offset: int
    data: bytes
    def __init__(self, size: _Optional[int] = ..., media_type: _Optional[str] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

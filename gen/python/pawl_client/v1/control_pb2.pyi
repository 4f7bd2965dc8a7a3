import datetime

from google.api import annotations_pb2 as _annotations_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from pawl_client.v1 import record_pb2 as _record_pb2
from pawl_client.v1 import run_pb2 as _run_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StepDecision(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STEP_DECISION_UNSPECIFIED: _ClassVar[StepDecision]
    STEP_DECISION_APPROVE: _ClassVar[StepDecision]
    STEP_DECISION_DENY: _ClassVar[StepDecision]
    STEP_DECISION_EDIT: _ClassVar[StepDecision]

class ApprovalTimeout(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    APPROVAL_TIMEOUT_UNSPECIFIED: _ClassVar[ApprovalTimeout]
    APPROVAL_TIMEOUT_DENY: _ClassVar[ApprovalTimeout]
    APPROVAL_TIMEOUT_ESCALATE: _ClassVar[ApprovalTimeout]
STEP_DECISION_UNSPECIFIED: StepDecision
STEP_DECISION_APPROVE: StepDecision
STEP_DECISION_DENY: StepDecision
STEP_DECISION_EDIT: StepDecision
APPROVAL_TIMEOUT_UNSPECIFIED: ApprovalTimeout
APPROVAL_TIMEOUT_DENY: ApprovalTimeout
APPROVAL_TIMEOUT_ESCALATE: ApprovalTimeout

class DecideStepRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "step", "digest", "decision", "payload_json", "reason", "expires", "request_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_JSON_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    step: int
    digest: str
    decision: StepDecision
    payload_json: str
    reason: str
    expires: _timestamp_pb2.Timestamp
    request_id: str
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., step: _Optional[int] = ..., digest: _Optional[str] = ..., decision: _Optional[_Union[StepDecision, str]] = ..., payload_json: _Optional[str] = ..., reason: _Optional[str] = ..., expires: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class DecideStepResponse(_message.Message):
    __slots__ = ("decided", "status", "seq", "duplicate")
    DECIDED_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    decided: _record_pb2.Record
    status: _record_pb2.RunStatus
    seq: int
    duplicate: bool
    def __init__(self, decided: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., status: _Optional[_Union[_record_pb2.RunStatus, str]] = ..., seq: _Optional[int] = ..., duplicate: bool = ...) -> None: ...

class ListApprovalsRequest(_message.Message):
    __slots__ = ("namespace", "order", "run_id", "page_size", "page_token", "link_for")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LINK_FOR_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    order: _run_pb2.RunOrder
    run_id: str
    page_size: int
    page_token: str
    link_for: str
    def __init__(self, namespace: _Optional[str] = ..., order: _Optional[_Union[_run_pb2.RunOrder, str]] = ..., run_id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., link_for: _Optional[str] = ...) -> None: ...

class ListApprovalsResponse(_message.Message):
    __slots__ = ("approvals", "next_page_token")
    APPROVALS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    approvals: _containers.RepeatedCompositeFieldContainer[Approval]
    next_page_token: str
    def __init__(self, approvals: _Optional[_Iterable[_Union[Approval, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListDecisionsRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "to", "tool", "principal", "verdicts", "pack", "labels", "page_size", "page_token")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    PACK_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    to: _timestamp_pb2.Timestamp
    tool: str
    principal: str
    verdicts: _containers.RepeatedScalarFieldContainer[_record_pb2.StepVerdict]
    pack: str
    labels: _containers.ScalarMap[str, str]
    page_size: int
    page_token: str
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., to: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., tool: _Optional[str] = ..., principal: _Optional[str] = ..., verdicts: _Optional[_Iterable[_Union[_record_pb2.StepVerdict, str]]] = ..., pack: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., **kwargs) -> None: ...

class ListDecisionsResponse(_message.Message):
    __slots__ = ("decisions", "next_page_token", "removed_entries")
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REMOVED_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    decisions: _containers.RepeatedCompositeFieldContainer[Decision]
    next_page_token: str
    removed_entries: int
    def __init__(self, decisions: _Optional[_Iterable[_Union[Decision, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., removed_entries: _Optional[int] = ...) -> None: ...

class Decision(_message.Message):
    __slots__ = ("run_id", "pack_id", "pack_version", "labels", "record", "since")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PACK_ID_FIELD_NUMBER: _ClassVar[int]
    PACK_VERSION_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    pack_id: str
    pack_version: str
    labels: _containers.ScalarMap[str, str]
    record: _record_pb2.Record
    since: _timestamp_pb2.Timestamp
    def __init__(self, run_id: _Optional[str] = ..., pack_id: _Optional[str] = ..., pack_version: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., record: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Approval(_message.Message):
    __slots__ = ("run_id", "pack_id", "pack_version", "state", "labels", "since", "starter", "call", "condition_error", "on_timeout", "not_starter", "events", "artifacts", "artifacts_omitted", "visit_seq", "link", "link_expires")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PACK_ID_FIELD_NUMBER: _ClassVar[int]
    PACK_VERSION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    STARTER_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    CONDITION_ERROR_FIELD_NUMBER: _ClassVar[int]
    ON_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    NOT_STARTER_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_OMITTED_FIELD_NUMBER: _ClassVar[int]
    VISIT_SEQ_FIELD_NUMBER: _ClassVar[int]
    LINK_FIELD_NUMBER: _ClassVar[int]
    LINK_EXPIRES_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    pack_id: str
    pack_version: str
    state: str
    labels: _containers.ScalarMap[str, str]
    since: _timestamp_pb2.Timestamp
    starter: str
    call: _run_pb2.Step
    condition_error: str
    on_timeout: ApprovalTimeout
    not_starter: bool
    events: _containers.RepeatedCompositeFieldContainer[ExternalEvent]
    artifacts: _containers.RepeatedCompositeFieldContainer[_record_pb2.Artifact]
    artifacts_omitted: bool
    visit_seq: int
    link: str
    link_expires: _timestamp_pb2.Timestamp
    def __init__(self, run_id: _Optional[str] = ..., pack_id: _Optional[str] = ..., pack_version: _Optional[str] = ..., state: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., starter: _Optional[str] = ..., call: _Optional[_Union[_run_pb2.Step, _Mapping]] = ..., condition_error: _Optional[str] = ..., on_timeout: _Optional[_Union[ApprovalTimeout, str]] = ..., not_starter: bool = ..., events: _Optional[_Iterable[_Union[ExternalEvent, _Mapping]]] = ..., artifacts: _Optional[_Iterable[_Union[_record_pb2.Artifact, _Mapping]]] = ..., artifacts_omitted: bool = ..., visit_seq: _Optional[int] = ..., link: _Optional[str] = ..., link_expires: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ExternalEvent(_message.Message):
    __slots__ = ("event", "to_state", "description", "terminal")
    EVENT_FIELD_NUMBER: _ClassVar[int]
    TO_STATE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_FIELD_NUMBER: _ClassVar[int]
    event: str
    to_state: str
    description: str
    terminal: bool
    def __init__(self, event: _Optional[str] = ..., to_state: _Optional[str] = ..., description: _Optional[str] = ..., terminal: bool = ...) -> None: ...

class RaiseBudgetRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "max_tokens", "max_cost_micro_usd", "reason", "request_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_COST_MICRO_USD_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    max_tokens: int
    max_cost_micro_usd: int
    reason: str
    request_id: str
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., max_tokens: _Optional[int] = ..., max_cost_micro_usd: _Optional[int] = ..., reason: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class RaiseBudgetResponse(_message.Message):
    __slots__ = ("record", "remaining", "status", "seq", "duplicate")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    REMAINING_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    record: _record_pb2.Record
    remaining: _run_pb2.Remaining
    status: _record_pb2.RunStatus
    seq: int
    duplicate: bool
    def __init__(self, record: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., remaining: _Optional[_Union[_run_pb2.Remaining, _Mapping]] = ..., status: _Optional[_Union[_record_pb2.RunStatus, str]] = ..., seq: _Optional[int] = ..., duplicate: bool = ...) -> None: ...

class ListSchedulesRequest(_message.Message):
    __slots__ = ("namespace",)
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    def __init__(self, namespace: _Optional[str] = ...) -> None: ...

class ListSchedulesResponse(_message.Message):
    __slots__ = ("schedules",)
    SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    schedules: _containers.RepeatedCompositeFieldContainer[Schedule]
    def __init__(self, schedules: _Optional[_Iterable[_Union[Schedule, _Mapping]]] = ...) -> None: ...

class Schedule(_message.Message):
    __slots__ = ("schedule_id", "cron", "time_zone", "catch_up", "overlap", "jitter_sec", "pack", "agent", "principal", "scopes", "next", "last_at", "last_run_id", "fired", "missed", "skipped", "fault", "paused")
    SCHEDULE_ID_FIELD_NUMBER: _ClassVar[int]
    CRON_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    JITTER_SEC_FIELD_NUMBER: _ClassVar[int]
    PACK_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    LAST_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    FIRED_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    schedule_id: str
    cron: str
    time_zone: str
    catch_up: str
    overlap: str
    jitter_sec: int
    pack: str
    agent: str
    principal: str
    scopes: _containers.RepeatedScalarFieldContainer[str]
    next: _containers.RepeatedCompositeFieldContainer[_timestamp_pb2.Timestamp]
    last_at: _timestamp_pb2.Timestamp
    last_run_id: str
    fired: int
    missed: int
    skipped: int
    fault: ScheduleFault
    paused: bool
    def __init__(self, schedule_id: _Optional[str] = ..., cron: _Optional[str] = ..., time_zone: _Optional[str] = ..., catch_up: _Optional[str] = ..., overlap: _Optional[str] = ..., jitter_sec: _Optional[int] = ..., pack: _Optional[str] = ..., agent: _Optional[str] = ..., principal: _Optional[str] = ..., scopes: _Optional[_Iterable[str]] = ..., next: _Optional[_Iterable[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]]] = ..., last_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_run_id: _Optional[str] = ..., fired: _Optional[int] = ..., missed: _Optional[int] = ..., skipped: _Optional[int] = ..., fault: _Optional[_Union[ScheduleFault, _Mapping]] = ..., paused: bool = ...) -> None: ...

class ScheduleFault(_message.Message):
    __slots__ = ("instant", "attempts", "since", "reason", "message")
    INSTANT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    instant: _timestamp_pb2.Timestamp
    attempts: int
    since: _timestamp_pb2.Timestamp
    reason: str
    message: str
    def __init__(self, instant: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., attempts: _Optional[int] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class SteerRunRequest(_message.Message):
    __slots__ = ("namespace", "run_id", "text", "when", "request_id")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    WHEN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    run_id: str
    text: str
    when: _record_pb2.SteerWhen
    request_id: str
    def __init__(self, namespace: _Optional[str] = ..., run_id: _Optional[str] = ..., text: _Optional[str] = ..., when: _Optional[_Union[_record_pb2.SteerWhen, str]] = ..., request_id: _Optional[str] = ...) -> None: ...

class SteerRunResponse(_message.Message):
    __slots__ = ("record", "status", "seq", "turn", "duplicate")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    record: _record_pb2.Record
    status: _record_pb2.RunStatus
    seq: int
    turn: _record_pb2.TurnRef
    duplicate: bool
    def __init__(self, record: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., status: _Optional[_Union[_record_pb2.RunStatus, str]] = ..., seq: _Optional[int] = ..., turn: _Optional[_Union[_record_pb2.TurnRef, _Mapping]] = ..., duplicate: bool = ...) -> None: ...

class StopRunRequest(_message.Message):
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

class StopRunResponse(_message.Message):
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

class ListLimitsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListLimitsResponse(_message.Message):
    __slots__ = ("limits",)
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    limits: _containers.RepeatedCompositeFieldContainer[Limit]
    def __init__(self, limits: _Optional[_Iterable[_Union[Limit, _Mapping]]] = ...) -> None: ...

class Limit(_message.Message):
    __slots__ = ("id", "key", "concurrent", "per_minute", "tokens_per_minute", "uses")
    ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    CONCURRENT_FIELD_NUMBER: _ClassVar[int]
    PER_MINUTE_FIELD_NUMBER: _ClassVar[int]
    TOKENS_PER_MINUTE_FIELD_NUMBER: _ClassVar[int]
    USES_FIELD_NUMBER: _ClassVar[int]
    id: str
    key: str
    concurrent: int
    per_minute: int
    tokens_per_minute: int
    uses: _containers.RepeatedCompositeFieldContainer[LimitUse]
    def __init__(self, id: _Optional[str] = ..., key: _Optional[str] = ..., concurrent: _Optional[int] = ..., per_minute: _Optional[int] = ..., tokens_per_minute: _Optional[int] = ..., uses: _Optional[_Iterable[_Union[LimitUse, _Mapping]]] = ...) -> None: ...

class LimitUse(_message.Message):
    __slots__ = ("key", "open", "started", "tokens", "held", "waiting", "admitted", "waited")
    KEY_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    ADMITTED_FIELD_NUMBER: _ClassVar[int]
    WAITED_FIELD_NUMBER: _ClassVar[int]
    key: str
    open: int
    started: int
    tokens: int
    held: _duration_pb2.Duration
    waiting: _containers.RepeatedCompositeFieldContainer[TenantQueue]
    admitted: int
    waited: int
    def __init__(self, key: _Optional[str] = ..., open: _Optional[int] = ..., started: _Optional[int] = ..., tokens: _Optional[int] = ..., held: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., waiting: _Optional[_Iterable[_Union[TenantQueue, _Mapping]]] = ..., admitted: _Optional[int] = ..., waited: _Optional[int] = ...) -> None: ...

class TenantQueue(_message.Message):
    __slots__ = ("tenant", "calls")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    calls: int
    def __init__(self, tenant: _Optional[str] = ..., calls: _Optional[int] = ...) -> None: ...

class ListBudgetsRequest(_message.Message):
    __slots__ = ("namespace", "name_prefix", "page_size", "page_token")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_PREFIX_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name_prefix: str
    page_size: int
    page_token: str
    def __init__(self, namespace: _Optional[str] = ..., name_prefix: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListBudgetsResponse(_message.Message):
    __slots__ = ("accounts", "next_page_token")
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    accounts: _containers.RepeatedCompositeFieldContainer[Account]
    next_page_token: str
    def __init__(self, accounts: _Optional[_Iterable[_Union[Account, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Account(_message.Message):
    __slots__ = ("name", "window_start", "window_end", "settled_tokens", "settled_cost_micro_usd", "reserved_tokens", "reserved_cost_micro_usd", "max_tokens", "max_cost_micro_usd", "refused")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WINDOW_START_FIELD_NUMBER: _ClassVar[int]
    WINDOW_END_FIELD_NUMBER: _ClassVar[int]
    SETTLED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SETTLED_COST_MICRO_USD_FIELD_NUMBER: _ClassVar[int]
    RESERVED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    RESERVED_COST_MICRO_USD_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_COST_MICRO_USD_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    name: str
    window_start: _timestamp_pb2.Timestamp
    window_end: _timestamp_pb2.Timestamp
    settled_tokens: int
    settled_cost_micro_usd: int
    reserved_tokens: int
    reserved_cost_micro_usd: int
    max_tokens: int
    max_cost_micro_usd: int
    refused: int
    def __init__(self, name: _Optional[str] = ..., window_start: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., window_end: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., settled_tokens: _Optional[int] = ..., settled_cost_micro_usd: _Optional[int] = ..., reserved_tokens: _Optional[int] = ..., reserved_cost_micro_usd: _Optional[int] = ..., max_tokens: _Optional[int] = ..., max_cost_micro_usd: _Optional[int] = ..., refused: _Optional[int] = ...) -> None: ...

class QueryUsageRequest(_message.Message):
    __slots__ = ("namespace", "from_day", "to_day", "group_by", "pack", "state", "model", "tool", "labels", "page_size", "page_token")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    FROM_DAY_FIELD_NUMBER: _ClassVar[int]
    TO_DAY_FIELD_NUMBER: _ClassVar[int]
    GROUP_BY_FIELD_NUMBER: _ClassVar[int]
    PACK_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    from_day: str
    to_day: str
    group_by: _containers.RepeatedScalarFieldContainer[str]
    pack: str
    state: str
    model: str
    tool: str
    labels: _containers.ScalarMap[str, str]
    page_size: int
    page_token: str
    def __init__(self, namespace: _Optional[str] = ..., from_day: _Optional[str] = ..., to_day: _Optional[str] = ..., group_by: _Optional[_Iterable[str]] = ..., pack: _Optional[str] = ..., state: _Optional[str] = ..., model: _Optional[str] = ..., tool: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class QueryUsageResponse(_message.Message):
    __slots__ = ("groups", "next_page_token", "total", "complete", "since")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[UsageGroup]
    next_page_token: str
    total: UsageGroup
    complete: bool
    since: _timestamp_pb2.Timestamp
    def __init__(self, groups: _Optional[_Iterable[_Union[UsageGroup, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total: _Optional[_Union[UsageGroup, _Mapping]] = ..., complete: bool = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class UsageGroup(_message.Message):
    __slots__ = ("values", "input_tokens", "output_tokens", "cost_micro_usd", "reports")
    VALUES_FIELD_NUMBER: _ClassVar[int]
    INPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COST_MICRO_USD_FIELD_NUMBER: _ClassVar[int]
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[str]
    input_tokens: int
    output_tokens: int
    cost_micro_usd: int
    reports: int
    def __init__(self, values: _Optional[_Iterable[str]] = ..., input_tokens: _Optional[int] = ..., output_tokens: _Optional[int] = ..., cost_micro_usd: _Optional[int] = ..., reports: _Optional[int] = ...) -> None: ...

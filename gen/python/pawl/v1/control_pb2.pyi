import datetime

from google.api import annotations_pb2 as _annotations_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from pawl.v1 import record_pb2 as _record_pb2
from pawl.v1 import run_pb2 as _run_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

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
    __slots__ = ("schedule_id", "cron", "time_zone", "catch_up", "overlap", "jitter_sec", "pack", "agent", "principal", "scopes", "next", "last_at", "last_run_id", "fired", "missed", "skipped", "fault")
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
    def __init__(self, schedule_id: _Optional[str] = ..., cron: _Optional[str] = ..., time_zone: _Optional[str] = ..., catch_up: _Optional[str] = ..., overlap: _Optional[str] = ..., jitter_sec: _Optional[int] = ..., pack: _Optional[str] = ..., agent: _Optional[str] = ..., principal: _Optional[str] = ..., scopes: _Optional[_Iterable[str]] = ..., next: _Optional[_Iterable[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]]] = ..., last_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_run_id: _Optional[str] = ..., fired: _Optional[int] = ..., missed: _Optional[int] = ..., skipped: _Optional[int] = ..., fault: _Optional[_Union[ScheduleFault, _Mapping]] = ...) -> None: ...

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
    __slots__ = ("key", "open", "begun", "tokens", "held", "waiting", "admitted", "waited")
    KEY_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    ADMITTED_FIELD_NUMBER: _ClassVar[int]
    WAITED_FIELD_NUMBER: _ClassVar[int]
    key: str
    open: int
    begun: int
    tokens: int
    held: _duration_pb2.Duration
    waiting: _containers.RepeatedCompositeFieldContainer[TenantQueue]
    admitted: int
    waited: int
    def __init__(self, key: _Optional[str] = ..., open: _Optional[int] = ..., begun: _Optional[int] = ..., tokens: _Optional[int] = ..., held: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., waiting: _Optional[_Iterable[_Union[TenantQueue, _Mapping]]] = ..., admitted: _Optional[int] = ..., waited: _Optional[int] = ...) -> None: ...

class TenantQueue(_message.Message):
    __slots__ = ("tenant", "calls")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    calls: int
    def __init__(self, tenant: _Optional[str] = ..., calls: _Optional[int] = ...) -> None: ...

from google.api import annotations_pb2 as _annotations_pb2
from pawl.v1 import record_pb2 as _record_pb2
from pawl.v1 import run_pb2 as _run_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
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

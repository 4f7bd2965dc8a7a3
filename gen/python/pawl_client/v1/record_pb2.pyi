import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RunStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_STATUS_UNSPECIFIED: _ClassVar[RunStatus]
    RUN_STATUS_RUNNING: _ClassVar[RunStatus]
    RUN_STATUS_WAITING: _ClassVar[RunStatus]
    RUN_STATUS_COMPLETED: _ClassVar[RunStatus]
    RUN_STATUS_BUDGET_EXHAUSTED: _ClassVar[RunStatus]
    RUN_STATUS_ESCALATED: _ClassVar[RunStatus]
    RUN_STATUS_FAILED: _ClassVar[RunStatus]
    RUN_STATUS_CANCELLED: _ClassVar[RunStatus]

class Execution(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EXECUTION_UNSPECIFIED: _ClassVar[Execution]
    EXECUTION_CALLER: _ClassVar[Execution]
    EXECUTION_WORKERS: _ClassVar[Execution]
    EXECUTION_SIDECAR: _ClassVar[Execution]

class Cause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CAUSE_UNSPECIFIED: _ClassVar[Cause]
    CAUSE_ENTRY: _ClassVar[Cause]
    CAUSE_EVENT: _ClassVar[Cause]
    CAUSE_MAX_VISITS: _ClassVar[Cause]
    CAUSE_TIMEOUT: _ClassVar[Cause]
    CAUSE_BUDGET: _ClassVar[Cause]

class ArtifactMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ARTIFACT_MODE_UNSPECIFIED: _ClassVar[ArtifactMode]
    ARTIFACT_MODE_REPLACE: _ClassVar[ArtifactMode]
    ARTIFACT_MODE_APPEND: _ClassVar[ArtifactMode]

class StepStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STEP_STATUS_UNSPECIFIED: _ClassVar[StepStatus]
    STEP_STATUS_PENDING: _ClassVar[StepStatus]
    STEP_STATUS_OK: _ClassVar[StepStatus]
    STEP_STATUS_ERROR: _ClassVar[StepStatus]
    STEP_STATUS_CANCELLED: _ClassVar[StepStatus]

class StepKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STEP_KIND_UNSPECIFIED: _ClassVar[StepKind]
    STEP_KIND_TOOL: _ClassVar[StepKind]
    STEP_KIND_DELEGATION: _ClassVar[StepKind]
    STEP_KIND_MODEL: _ClassVar[StepKind]

class Awaiting(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    AWAITING_UNSPECIFIED: _ClassVar[Awaiting]
    AWAITING_INPUT: _ClassVar[Awaiting]
    AWAITING_AUTH: _ClassVar[Awaiting]

class RecordKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RECORD_KIND_UNSPECIFIED: _ClassVar[RecordKind]
    RECORD_KIND_TRANSITION: _ClassVar[RecordKind]
    RECORD_KIND_INPUT_RECEIVED: _ClassVar[RecordKind]
    RECORD_KIND_TURN_OPENED: _ClassVar[RecordKind]
    RECORD_KIND_TURN_ASSIGNED: _ClassVar[RecordKind]
    RECORD_KIND_TURN_COMPLETED: _ClassVar[RecordKind]
    RECORD_KIND_TURN_FAILED: _ClassVar[RecordKind]
    RECORD_KIND_TURN_ABANDONED: _ClassVar[RecordKind]
    RECORD_KIND_TURN_SUSPENDED: _ClassVar[RecordKind]
    RECORD_KIND_STEP_REQUESTED: _ClassVar[RecordKind]
    RECORD_KIND_STEP_RESOLVED: _ClassVar[RecordKind]
    RECORD_KIND_STEP_REJECTED: _ClassVar[RecordKind]
    RECORD_KIND_STEP_CANCELLED: _ClassVar[RecordKind]
    RECORD_KIND_ARTIFACTS_SET: _ClassVar[RecordKind]
    RECORD_KIND_PAUSED: _ClassVar[RecordKind]
    RECORD_KIND_RESUMED: _ClassVar[RecordKind]
    RECORD_KIND_ORIGIN: _ClassVar[RecordKind]
    RECORD_KIND_ENDED: _ClassVar[RecordKind]
    RECORD_KIND_TURN_READY: _ClassVar[RecordKind]
    RECORD_KIND_OUTPUT_WRITTEN: _ClassVar[RecordKind]
    RECORD_KIND_STEP_DELEGATED: _ClassVar[RecordKind]
    RECORD_KIND_NO_CHANGE: _ClassVar[RecordKind]
    RECORD_KIND_MODEL_UPDATED: _ClassVar[RecordKind]
    RECORD_KIND_BUDGET_RAISED: _ClassVar[RecordKind]
    RECORD_KIND_STEP_DECIDED: _ClassVar[RecordKind]
    RECORD_KIND_STEERED: _ClassVar[RecordKind]
    RECORD_KIND_STOPPED: _ClassVar[RecordKind]
    RECORD_KIND_NOTICE_ADDED: _ClassVar[RecordKind]
    RECORD_KIND_STEP_OUTCOME_UNKNOWN: _ClassVar[RecordKind]
    RECORD_KIND_COMPENSATION_STARTED: _ClassVar[RecordKind]
    RECORD_KIND_EVALUATED: _ClassVar[RecordKind]

class StepVerdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STEP_VERDICT_UNSPECIFIED: _ClassVar[StepVerdict]
    STEP_VERDICT_APPROVED: _ClassVar[StepVerdict]
    STEP_VERDICT_DENIED: _ClassVar[StepVerdict]
    STEP_VERDICT_EDITED: _ClassVar[StepVerdict]
    STEP_VERDICT_TIMED_OUT: _ClassVar[StepVerdict]
    STEP_VERDICT_EXPIRED: _ClassVar[StepVerdict]

class StepRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STEP_ROLE_UNSPECIFIED: _ClassVar[StepRole]
    STEP_ROLE_RECONCILE: _ClassVar[StepRole]
    STEP_ROLE_COMPENSATE: _ClassVar[StepRole]

class SteerWhen(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STEER_WHEN_UNSPECIFIED: _ClassVar[SteerWhen]
    STEER_WHEN_NEXT_MODEL_CALL: _ClassVar[SteerWhen]
    STEER_WHEN_NOW: _ClassVar[SteerWhen]
    STEER_WHEN_NEXT_TURN: _ClassVar[SteerWhen]
RUN_STATUS_UNSPECIFIED: RunStatus
RUN_STATUS_RUNNING: RunStatus
RUN_STATUS_WAITING: RunStatus
RUN_STATUS_COMPLETED: RunStatus
RUN_STATUS_BUDGET_EXHAUSTED: RunStatus
RUN_STATUS_ESCALATED: RunStatus
RUN_STATUS_FAILED: RunStatus
RUN_STATUS_CANCELLED: RunStatus
EXECUTION_UNSPECIFIED: Execution
EXECUTION_CALLER: Execution
EXECUTION_WORKERS: Execution
EXECUTION_SIDECAR: Execution
CAUSE_UNSPECIFIED: Cause
CAUSE_ENTRY: Cause
CAUSE_EVENT: Cause
CAUSE_MAX_VISITS: Cause
CAUSE_TIMEOUT: Cause
CAUSE_BUDGET: Cause
ARTIFACT_MODE_UNSPECIFIED: ArtifactMode
ARTIFACT_MODE_REPLACE: ArtifactMode
ARTIFACT_MODE_APPEND: ArtifactMode
STEP_STATUS_UNSPECIFIED: StepStatus
STEP_STATUS_PENDING: StepStatus
STEP_STATUS_OK: StepStatus
STEP_STATUS_ERROR: StepStatus
STEP_STATUS_CANCELLED: StepStatus
STEP_KIND_UNSPECIFIED: StepKind
STEP_KIND_TOOL: StepKind
STEP_KIND_DELEGATION: StepKind
STEP_KIND_MODEL: StepKind
AWAITING_UNSPECIFIED: Awaiting
AWAITING_INPUT: Awaiting
AWAITING_AUTH: Awaiting
RECORD_KIND_UNSPECIFIED: RecordKind
RECORD_KIND_TRANSITION: RecordKind
RECORD_KIND_INPUT_RECEIVED: RecordKind
RECORD_KIND_TURN_OPENED: RecordKind
RECORD_KIND_TURN_ASSIGNED: RecordKind
RECORD_KIND_TURN_COMPLETED: RecordKind
RECORD_KIND_TURN_FAILED: RecordKind
RECORD_KIND_TURN_ABANDONED: RecordKind
RECORD_KIND_TURN_SUSPENDED: RecordKind
RECORD_KIND_STEP_REQUESTED: RecordKind
RECORD_KIND_STEP_RESOLVED: RecordKind
RECORD_KIND_STEP_REJECTED: RecordKind
RECORD_KIND_STEP_CANCELLED: RecordKind
RECORD_KIND_ARTIFACTS_SET: RecordKind
RECORD_KIND_PAUSED: RecordKind
RECORD_KIND_RESUMED: RecordKind
RECORD_KIND_ORIGIN: RecordKind
RECORD_KIND_ENDED: RecordKind
RECORD_KIND_TURN_READY: RecordKind
RECORD_KIND_OUTPUT_WRITTEN: RecordKind
RECORD_KIND_STEP_DELEGATED: RecordKind
RECORD_KIND_NO_CHANGE: RecordKind
RECORD_KIND_MODEL_UPDATED: RecordKind
RECORD_KIND_BUDGET_RAISED: RecordKind
RECORD_KIND_STEP_DECIDED: RecordKind
RECORD_KIND_STEERED: RecordKind
RECORD_KIND_STOPPED: RecordKind
RECORD_KIND_NOTICE_ADDED: RecordKind
RECORD_KIND_STEP_OUTCOME_UNKNOWN: RecordKind
RECORD_KIND_COMPENSATION_STARTED: RecordKind
RECORD_KIND_EVALUATED: RecordKind
STEP_VERDICT_UNSPECIFIED: StepVerdict
STEP_VERDICT_APPROVED: StepVerdict
STEP_VERDICT_DENIED: StepVerdict
STEP_VERDICT_EDITED: StepVerdict
STEP_VERDICT_TIMED_OUT: StepVerdict
STEP_VERDICT_EXPIRED: StepVerdict
STEP_ROLE_UNSPECIFIED: StepRole
STEP_ROLE_RECONCILE: StepRole
STEP_ROLE_COMPENSATE: StepRole
STEER_WHEN_UNSPECIFIED: SteerWhen
STEER_WHEN_NEXT_MODEL_CALL: SteerWhen
STEER_WHEN_NOW: SteerWhen
STEER_WHEN_NEXT_TURN: SteerWhen

class ArtifactValue(_message.Message):
    __slots__ = ("json", "text", "data", "media_type")
    JSON_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    json: str
    text: str
    data: bytes
    media_type: str
    def __init__(self, json: _Optional[str] = ..., text: _Optional[str] = ..., data: _Optional[bytes] = ..., media_type: _Optional[str] = ...) -> None: ...

class ArtifactWrite(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: ArtifactValue
    def __init__(self, name: _Optional[str] = ..., value: _Optional[_Union[ArtifactValue, _Mapping]] = ...) -> None: ...

class ArtifactHead(_message.Message):
    __slots__ = ("name", "media_type", "mode", "seq", "writes", "bytes", "hash")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    WRITES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    name: str
    media_type: str
    mode: ArtifactMode
    seq: int
    writes: int
    bytes: int
    hash: bytes
    def __init__(self, name: _Optional[str] = ..., media_type: _Optional[str] = ..., mode: _Optional[_Union[ArtifactMode, str]] = ..., seq: _Optional[int] = ..., writes: _Optional[int] = ..., bytes: _Optional[int] = ..., hash: _Optional[bytes] = ...) -> None: ...

class Artifact(_message.Message):
    __slots__ = ("head", "value", "redacted")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    REDACTED_FIELD_NUMBER: _ClassVar[int]
    head: ArtifactHead
    value: ArtifactValue
    redacted: bool
    def __init__(self, head: _Optional[_Union[ArtifactHead, _Mapping]] = ..., value: _Optional[_Union[ArtifactValue, _Mapping]] = ..., redacted: bool = ...) -> None: ...

class Part(_message.Message):
    __slots__ = ("text", "json", "data", "uri", "media_type", "filename", "metadata_json")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    FILENAME_FIELD_NUMBER: _ClassVar[int]
    METADATA_JSON_FIELD_NUMBER: _ClassVar[int]
    text: str
    json: str
    data: bytes
    uri: str
    media_type: str
    filename: str
    metadata_json: str
    def __init__(self, text: _Optional[str] = ..., json: _Optional[str] = ..., data: _Optional[bytes] = ..., uri: _Optional[str] = ..., media_type: _Optional[str] = ..., filename: _Optional[str] = ..., metadata_json: _Optional[str] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("role", "parts", "tool_calls_json", "tool_call_id", "provider_json", "refusal", "envelope")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_JSON_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_JSON_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    ENVELOPE_FIELD_NUMBER: _ClassVar[int]
    role: str
    parts: _containers.RepeatedCompositeFieldContainer[Part]
    tool_calls_json: str
    tool_call_id: str
    provider_json: str
    refusal: str
    envelope: Envelope
    def __init__(self, role: _Optional[str] = ..., parts: _Optional[_Iterable[_Union[Part, _Mapping]]] = ..., tool_calls_json: _Optional[str] = ..., tool_call_id: _Optional[str] = ..., provider_json: _Optional[str] = ..., refusal: _Optional[str] = ..., envelope: _Optional[_Union[Envelope, _Mapping]] = ...) -> None: ...

class Envelope(_message.Message):
    __slots__ = ("message_id", "context_id", "reference_task_ids", "extensions", "metadata_json")
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_ID_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_TASK_IDS_FIELD_NUMBER: _ClassVar[int]
    EXTENSIONS_FIELD_NUMBER: _ClassVar[int]
    METADATA_JSON_FIELD_NUMBER: _ClassVar[int]
    message_id: str
    context_id: str
    reference_task_ids: _containers.RepeatedScalarFieldContainer[str]
    extensions: _containers.RepeatedScalarFieldContainer[str]
    metadata_json: str
    def __init__(self, message_id: _Optional[str] = ..., context_id: _Optional[str] = ..., reference_task_ids: _Optional[_Iterable[str]] = ..., extensions: _Optional[_Iterable[str]] = ..., metadata_json: _Optional[str] = ...) -> None: ...

class OutputPiece(_message.Message):
    __slots__ = ("id", "name", "description", "parts", "append", "last", "metadata_json")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    APPEND_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    METADATA_JSON_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    description: str
    parts: _containers.RepeatedCompositeFieldContainer[Part]
    append: bool
    last: bool
    metadata_json: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., description: _Optional[str] = ..., parts: _Optional[_Iterable[_Union[Part, _Mapping]]] = ..., append: bool = ..., last: bool = ..., metadata_json: _Optional[str] = ...) -> None: ...

class Remote(_message.Message):
    __slots__ = ("task_id", "context_id", "card_url", "awaiting", "answer_seq")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_ID_FIELD_NUMBER: _ClassVar[int]
    CARD_URL_FIELD_NUMBER: _ClassVar[int]
    AWAITING_FIELD_NUMBER: _ClassVar[int]
    ANSWER_SEQ_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    context_id: str
    card_url: str
    awaiting: Awaiting
    answer_seq: int
    def __init__(self, task_id: _Optional[str] = ..., context_id: _Optional[str] = ..., card_url: _Optional[str] = ..., awaiting: _Optional[_Union[Awaiting, str]] = ..., answer_seq: _Optional[int] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("input_tokens", "output_tokens", "cost_micro_usd", "tool_calls", "cached_tokens", "reasoning_tokens", "model", "estimated", "counted_before")
    INPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COST_MICRO_USD_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    REASONING_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    ESTIMATED_FIELD_NUMBER: _ClassVar[int]
    COUNTED_BEFORE_FIELD_NUMBER: _ClassVar[int]
    input_tokens: int
    output_tokens: int
    cost_micro_usd: int
    tool_calls: int
    cached_tokens: int
    reasoning_tokens: int
    model: str
    estimated: bool
    counted_before: bool
    def __init__(self, input_tokens: _Optional[int] = ..., output_tokens: _Optional[int] = ..., cost_micro_usd: _Optional[int] = ..., tool_calls: _Optional[int] = ..., cached_tokens: _Optional[int] = ..., reasoning_tokens: _Optional[int] = ..., model: _Optional[str] = ..., estimated: bool = ..., counted_before: bool = ...) -> None: ...

class ModelRequest(_message.Message):
    __slots__ = ("model", "previous_step", "system", "tools_json", "parameters_json", "messages", "system_hash", "tools_hash", "parameters_hash", "hash")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_STEP_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_FIELD_NUMBER: _ClassVar[int]
    TOOLS_JSON_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_JSON_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_HASH_FIELD_NUMBER: _ClassVar[int]
    TOOLS_HASH_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_HASH_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    model: str
    previous_step: int
    system: str
    tools_json: str
    parameters_json: str
    messages: _containers.RepeatedCompositeFieldContainer[ModelMessage]
    system_hash: bytes
    tools_hash: bytes
    parameters_hash: bytes
    hash: bytes
    def __init__(self, model: _Optional[str] = ..., previous_step: _Optional[int] = ..., system: _Optional[str] = ..., tools_json: _Optional[str] = ..., parameters_json: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[ModelMessage, _Mapping]]] = ..., system_hash: _Optional[bytes] = ..., tools_hash: _Optional[bytes] = ..., parameters_hash: _Optional[bytes] = ..., hash: _Optional[bytes] = ...) -> None: ...

class ModelMessage(_message.Message):
    __slots__ = ("message", "conversation", "answer", "result", "included_seq")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    INCLUDED_SEQ_FIELD_NUMBER: _ClassVar[int]
    message: Message
    conversation: ConversationRange
    answer: int
    result: ToolResult
    included_seq: int
    def __init__(self, message: _Optional[_Union[Message, _Mapping]] = ..., conversation: _Optional[_Union[ConversationRange, _Mapping]] = ..., answer: _Optional[int] = ..., result: _Optional[_Union[ToolResult, _Mapping]] = ..., included_seq: _Optional[int] = ...) -> None: ...

class ConversationRange(_message.Message):
    __slots__ = ("first", "count")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    first: int
    count: int
    def __init__(self, first: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class ToolResult(_message.Message):
    __slots__ = ("step", "call_id")
    STEP_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    step: int
    call_id: str
    def __init__(self, step: _Optional[int] = ..., call_id: _Optional[str] = ...) -> None: ...

class ModelCall(_message.Message):
    __slots__ = ("id", "name", "arguments", "broken_arguments")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    BROKEN_ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    arguments: str
    broken_arguments: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., arguments: _Optional[str] = ..., broken_arguments: _Optional[str] = ...) -> None: ...

class ModelAnswer(_message.Message):
    __slots__ = ("parts", "calls", "refusal", "finish_reason", "model", "response_id", "provider_json", "provider_name")
    PARTS_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_ID_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_JSON_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_NAME_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedCompositeFieldContainer[Part]
    calls: _containers.RepeatedCompositeFieldContainer[ModelCall]
    refusal: str
    finish_reason: str
    model: str
    response_id: str
    provider_json: str
    provider_name: str
    def __init__(self, parts: _Optional[_Iterable[_Union[Part, _Mapping]]] = ..., calls: _Optional[_Iterable[_Union[ModelCall, _Mapping]]] = ..., refusal: _Optional[str] = ..., finish_reason: _Optional[str] = ..., model: _Optional[str] = ..., response_id: _Optional[str] = ..., provider_json: _Optional[str] = ..., provider_name: _Optional[str] = ...) -> None: ...

class ToolCallRef(_message.Message):
    __slots__ = ("model_step", "index")
    MODEL_STEP_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    model_step: int
    index: int
    def __init__(self, model_step: _Optional[int] = ..., index: _Optional[int] = ...) -> None: ...

class Fault(_message.Message):
    __slots__ = ("code", "message", "trace")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    trace: str
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., trace: _Optional[str] = ...) -> None: ...

class Denial(_message.Message):
    __slots__ = ("code", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class TurnRef(_message.Message):
    __slots__ = ("run_id", "turn_seq", "state", "visit", "attempt", "token")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_SEQ_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    VISIT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    turn_seq: int
    state: str
    visit: int
    attempt: int
    token: str
    def __init__(self, run_id: _Optional[str] = ..., turn_seq: _Optional[int] = ..., state: _Optional[str] = ..., visit: _Optional[int] = ..., attempt: _Optional[int] = ..., token: _Optional[str] = ...) -> None: ...

class Assignment(_message.Message):
    __slots__ = ("worker", "delivery", "at")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    worker: str
    delivery: int
    at: _timestamp_pb2.Timestamp
    def __init__(self, worker: _Optional[str] = ..., delivery: _Optional[int] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class PackRef(_message.Message):
    __slots__ = ("id", "version", "digest")
    ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    id: str
    version: str
    digest: str
    def __init__(self, id: _Optional[str] = ..., version: _Optional[str] = ..., digest: _Optional[str] = ...) -> None: ...

class Redirect(_message.Message):
    __slots__ = ("state", "guard")
    STATE_FIELD_NUMBER: _ClassVar[int]
    GUARD_FIELD_NUMBER: _ClassVar[int]
    state: str
    guard: str
    def __init__(self, state: _Optional[str] = ..., guard: _Optional[str] = ...) -> None: ...

class Record(_message.Message):
    __slots__ = ("run_id", "seq", "prev_seq", "cursor", "at", "cause", "principal", "prev_hash", "hash", "redacted", "erased", "transition", "input_received", "turn_opened", "turn_assigned", "turn_completed", "turn_failed", "turn_abandoned", "turn_suspended", "step_requested", "step_resolved", "step_rejected", "step_cancelled", "artifacts_set", "paused", "resumed", "origin", "ended", "turn_ready", "output_written", "step_delegated", "no_change", "model_updated", "budget_raised", "step_decided", "steered", "stopped", "notice_added", "step_outcome_unknown", "compensation_started", "evaluated")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    PREV_SEQ_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    PREV_HASH_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    REDACTED_FIELD_NUMBER: _ClassVar[int]
    ERASED_FIELD_NUMBER: _ClassVar[int]
    TRANSITION_FIELD_NUMBER: _ClassVar[int]
    INPUT_RECEIVED_FIELD_NUMBER: _ClassVar[int]
    TURN_OPENED_FIELD_NUMBER: _ClassVar[int]
    TURN_ASSIGNED_FIELD_NUMBER: _ClassVar[int]
    TURN_COMPLETED_FIELD_NUMBER: _ClassVar[int]
    TURN_FAILED_FIELD_NUMBER: _ClassVar[int]
    TURN_ABANDONED_FIELD_NUMBER: _ClassVar[int]
    TURN_SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    STEP_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    STEP_RESOLVED_FIELD_NUMBER: _ClassVar[int]
    STEP_REJECTED_FIELD_NUMBER: _ClassVar[int]
    STEP_CANCELLED_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_SET_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    TURN_READY_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    STEP_DELEGATED_FIELD_NUMBER: _ClassVar[int]
    NO_CHANGE_FIELD_NUMBER: _ClassVar[int]
    MODEL_UPDATED_FIELD_NUMBER: _ClassVar[int]
    BUDGET_RAISED_FIELD_NUMBER: _ClassVar[int]
    STEP_DECIDED_FIELD_NUMBER: _ClassVar[int]
    STEERED_FIELD_NUMBER: _ClassVar[int]
    STOPPED_FIELD_NUMBER: _ClassVar[int]
    NOTICE_ADDED_FIELD_NUMBER: _ClassVar[int]
    STEP_OUTCOME_UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    COMPENSATION_STARTED_FIELD_NUMBER: _ClassVar[int]
    EVALUATED_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    seq: int
    prev_seq: int
    cursor: str
    at: _timestamp_pb2.Timestamp
    cause: Cause
    principal: str
    prev_hash: bytes
    hash: bytes
    redacted: bool
    erased: bool
    transition: Transition
    input_received: InputReceived
    turn_opened: TurnOpened
    turn_assigned: TurnAssigned
    turn_completed: TurnCompleted
    turn_failed: TurnFailed
    turn_abandoned: TurnAbandoned
    turn_suspended: TurnSuspended
    step_requested: StepRequested
    step_resolved: StepResolved
    step_rejected: StepRejected
    step_cancelled: StepCancelled
    artifacts_set: ArtifactsSet
    paused: Paused
    resumed: Resumed
    origin: Origin
    ended: Ended
    turn_ready: TurnReady
    output_written: OutputWritten
    step_delegated: StepDelegated
    no_change: NoChange
    model_updated: ModelUpdated
    budget_raised: BudgetRaised
    step_decided: StepDecided
    steered: Steered
    stopped: Stopped
    notice_added: NoticeAdded
    step_outcome_unknown: StepOutcomeUnknown
    compensation_started: CompensationStarted
    evaluated: Evaluated
    def __init__(self, run_id: _Optional[str] = ..., seq: _Optional[int] = ..., prev_seq: _Optional[int] = ..., cursor: _Optional[str] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., cause: _Optional[_Union[Cause, str]] = ..., principal: _Optional[str] = ..., prev_hash: _Optional[bytes] = ..., hash: _Optional[bytes] = ..., redacted: bool = ..., erased: bool = ..., transition: _Optional[_Union[Transition, _Mapping]] = ..., input_received: _Optional[_Union[InputReceived, _Mapping]] = ..., turn_opened: _Optional[_Union[TurnOpened, _Mapping]] = ..., turn_assigned: _Optional[_Union[TurnAssigned, _Mapping]] = ..., turn_completed: _Optional[_Union[TurnCompleted, _Mapping]] = ..., turn_failed: _Optional[_Union[TurnFailed, _Mapping]] = ..., turn_abandoned: _Optional[_Union[TurnAbandoned, _Mapping]] = ..., turn_suspended: _Optional[_Union[TurnSuspended, _Mapping]] = ..., step_requested: _Optional[_Union[StepRequested, _Mapping]] = ..., step_resolved: _Optional[_Union[StepResolved, _Mapping]] = ..., step_rejected: _Optional[_Union[StepRejected, _Mapping]] = ..., step_cancelled: _Optional[_Union[StepCancelled, _Mapping]] = ..., artifacts_set: _Optional[_Union[ArtifactsSet, _Mapping]] = ..., paused: _Optional[_Union[Paused, _Mapping]] = ..., resumed: _Optional[_Union[Resumed, _Mapping]] = ..., origin: _Optional[_Union[Origin, _Mapping]] = ..., ended: _Optional[_Union[Ended, _Mapping]] = ..., turn_ready: _Optional[_Union[TurnReady, _Mapping]] = ..., output_written: _Optional[_Union[OutputWritten, _Mapping]] = ..., step_delegated: _Optional[_Union[StepDelegated, _Mapping]] = ..., no_change: _Optional[_Union[NoChange, _Mapping]] = ..., model_updated: _Optional[_Union[ModelUpdated, _Mapping]] = ..., budget_raised: _Optional[_Union[BudgetRaised, _Mapping]] = ..., step_decided: _Optional[_Union[StepDecided, _Mapping]] = ..., steered: _Optional[_Union[Steered, _Mapping]] = ..., stopped: _Optional[_Union[Stopped, _Mapping]] = ..., notice_added: _Optional[_Union[NoticeAdded, _Mapping]] = ..., step_outcome_unknown: _Optional[_Union[StepOutcomeUnknown, _Mapping]] = ..., compensation_started: _Optional[_Union[CompensationStarted, _Mapping]] = ..., evaluated: _Optional[_Union[Evaluated, _Mapping]] = ...) -> None: ...

class Transition(_message.Message):
    __slots__ = ("from_state", "event", "to_state", "intended_state", "redirects", "visit", "total_visits", "artifacts_written", "uncompensated", "awaits_input", "conversation")
    FROM_STATE_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    TO_STATE_FIELD_NUMBER: _ClassVar[int]
    INTENDED_STATE_FIELD_NUMBER: _ClassVar[int]
    REDIRECTS_FIELD_NUMBER: _ClassVar[int]
    VISIT_FIELD_NUMBER: _ClassVar[int]
    TOTAL_VISITS_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    UNCOMPENSATED_FIELD_NUMBER: _ClassVar[int]
    AWAITS_INPUT_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    from_state: str
    event: str
    to_state: str
    intended_state: str
    redirects: _containers.RepeatedCompositeFieldContainer[Redirect]
    visit: int
    total_visits: int
    artifacts_written: _containers.RepeatedCompositeFieldContainer[ArtifactWrite]
    uncompensated: _containers.RepeatedCompositeFieldContainer[UncompensatedEffect]
    awaits_input: bool
    conversation: bool
    def __init__(self, from_state: _Optional[str] = ..., event: _Optional[str] = ..., to_state: _Optional[str] = ..., intended_state: _Optional[str] = ..., redirects: _Optional[_Iterable[_Union[Redirect, _Mapping]]] = ..., visit: _Optional[int] = ..., total_visits: _Optional[int] = ..., artifacts_written: _Optional[_Iterable[_Union[ArtifactWrite, _Mapping]]] = ..., uncompensated: _Optional[_Iterable[_Union[UncompensatedEffect, _Mapping]]] = ..., awaits_input: bool = ..., conversation: bool = ...) -> None: ...

class InputReceived(_message.Message):
    __slots__ = ("parts", "message_id", "queued", "envelope", "step", "scopes")
    PARTS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    ENVELOPE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedCompositeFieldContainer[Part]
    message_id: str
    queued: bool
    envelope: Envelope
    step: int
    scopes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, parts: _Optional[_Iterable[_Union[Part, _Mapping]]] = ..., message_id: _Optional[str] = ..., queued: bool = ..., envelope: _Optional[_Union[Envelope, _Mapping]] = ..., step: _Optional[int] = ..., scopes: _Optional[_Iterable[str]] = ...) -> None: ...

class TurnOpened(_message.Message):
    __slots__ = ("state", "inputs")
    STATE_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    state: str
    inputs: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, state: _Optional[str] = ..., inputs: _Optional[_Iterable[int]] = ...) -> None: ...

class TurnAssigned(_message.Message):
    __slots__ = ("turn_seq", "attempt", "assigned")
    TURN_SEQ_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_FIELD_NUMBER: _ClassVar[int]
    turn_seq: int
    attempt: int
    assigned: Assignment
    def __init__(self, turn_seq: _Optional[int] = ..., attempt: _Optional[int] = ..., assigned: _Optional[_Union[Assignment, _Mapping]] = ...) -> None: ...

class TurnCompleted(_message.Message):
    __slots__ = ("turn_seq", "attempt", "output", "messages", "usage", "event", "artifacts_written", "awaiting", "reply", "conversation_through_step")
    TURN_SEQ_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    AWAITING_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_THROUGH_STEP_FIELD_NUMBER: _ClassVar[int]
    turn_seq: int
    attempt: int
    output: _containers.RepeatedCompositeFieldContainer[Part]
    messages: _containers.RepeatedCompositeFieldContainer[Message]
    usage: Usage
    event: str
    artifacts_written: _containers.RepeatedCompositeFieldContainer[ArtifactWrite]
    awaiting: Awaiting
    reply: bool
    conversation_through_step: int
    def __init__(self, turn_seq: _Optional[int] = ..., attempt: _Optional[int] = ..., output: _Optional[_Iterable[_Union[Part, _Mapping]]] = ..., messages: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., event: _Optional[str] = ..., artifacts_written: _Optional[_Iterable[_Union[ArtifactWrite, _Mapping]]] = ..., awaiting: _Optional[_Union[Awaiting, str]] = ..., reply: bool = ..., conversation_through_step: _Optional[int] = ...) -> None: ...

class TurnFailed(_message.Message):
    __slots__ = ("turn_seq", "attempt", "error", "retryable", "next", "not_before", "usage", "rejected_step", "violation")
    TURN_SEQ_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    REJECTED_STEP_FIELD_NUMBER: _ClassVar[int]
    VIOLATION_FIELD_NUMBER: _ClassVar[int]
    turn_seq: int
    attempt: int
    error: Fault
    retryable: bool
    next: int
    not_before: _timestamp_pb2.Timestamp
    usage: Usage
    rejected_step: int
    violation: Violation
    def __init__(self, turn_seq: _Optional[int] = ..., attempt: _Optional[int] = ..., error: _Optional[_Union[Fault, _Mapping]] = ..., retryable: bool = ..., next: _Optional[int] = ..., not_before: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., rejected_step: _Optional[int] = ..., violation: _Optional[_Union[Violation, _Mapping]] = ...) -> None: ...

class Violation(_message.Message):
    __slots__ = ("id", "type", "place", "reason")
    ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    id: str
    type: str
    place: str
    reason: str
    def __init__(self, id: _Optional[str] = ..., type: _Optional[str] = ..., place: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class Evaluated(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[EvalResult]
    def __init__(self, results: _Optional[_Iterable[_Union[EvalResult, _Mapping]]] = ...) -> None: ...

class EvalResult(_message.Message):
    __slots__ = ("id", "type", "prompt", "trigger", "turn_seq", "visit_seq", "score", "passed", "explanation", "error", "groups", "metric", "threshold")
    ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    TRIGGER_FIELD_NUMBER: _ClassVar[int]
    TURN_SEQ_FIELD_NUMBER: _ClassVar[int]
    VISIT_SEQ_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    PASSED_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    id: str
    type: str
    prompt: str
    trigger: str
    turn_seq: int
    visit_seq: int
    score: float
    passed: bool
    explanation: str
    error: str
    groups: _containers.RepeatedScalarFieldContainer[str]
    metric: str
    threshold: str
    def __init__(self, id: _Optional[str] = ..., type: _Optional[str] = ..., prompt: _Optional[str] = ..., trigger: _Optional[str] = ..., turn_seq: _Optional[int] = ..., visit_seq: _Optional[int] = ..., score: _Optional[float] = ..., passed: bool = ..., explanation: _Optional[str] = ..., error: _Optional[str] = ..., groups: _Optional[_Iterable[str]] = ..., metric: _Optional[str] = ..., threshold: _Optional[str] = ...) -> None: ...

class TurnAbandoned(_message.Message):
    __slots__ = ("turn_seq", "attempt", "reason")
    TURN_SEQ_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    turn_seq: int
    attempt: int
    reason: str
    def __init__(self, turn_seq: _Optional[int] = ..., attempt: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class TurnSuspended(_message.Message):
    __slots__ = ("turn_seq", "attempt", "pending")
    TURN_SEQ_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    turn_seq: int
    attempt: int
    pending: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, turn_seq: _Optional[int] = ..., attempt: _Optional[int] = ..., pending: _Optional[_Iterable[int]] = ...) -> None: ...

class TurnReady(_message.Message):
    __slots__ = ("turn_seq", "attempt")
    TURN_SEQ_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    turn_seq: int
    attempt: int
    def __init__(self, turn_seq: _Optional[int] = ..., attempt: _Optional[int] = ...) -> None: ...

class StepRequested(_message.Message):
    __slots__ = ("step", "key", "tool", "turn_seq", "attempt", "payload_json", "reframe", "deadline", "delegation", "kind", "model", "call", "request_changed", "bound", "hold", "about", "by_caller", "repeatable")
    STEP_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    TURN_SEQ_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_JSON_FIELD_NUMBER: _ClassVar[int]
    REFRAME_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    DELEGATION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_CHANGED_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    BY_CALLER_FIELD_NUMBER: _ClassVar[int]
    REPEATABLE_FIELD_NUMBER: _ClassVar[int]
    step: int
    key: str
    tool: str
    turn_seq: int
    attempt: int
    payload_json: str
    reframe: bool
    deadline: _timestamp_pb2.Timestamp
    delegation: bool
    kind: StepKind
    model: ModelRequest
    call: ToolCallRef
    request_changed: bool
    bound: Usage
    hold: ApprovalHold
    about: StepAbout
    by_caller: bool
    repeatable: bool
    def __init__(self, step: _Optional[int] = ..., key: _Optional[str] = ..., tool: _Optional[str] = ..., turn_seq: _Optional[int] = ..., attempt: _Optional[int] = ..., payload_json: _Optional[str] = ..., reframe: bool = ..., deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., delegation: bool = ..., kind: _Optional[_Union[StepKind, str]] = ..., model: _Optional[_Union[ModelRequest, _Mapping]] = ..., call: _Optional[_Union[ToolCallRef, _Mapping]] = ..., request_changed: bool = ..., bound: _Optional[_Union[Usage, _Mapping]] = ..., hold: _Optional[_Union[ApprovalHold, _Mapping]] = ..., about: _Optional[_Union[StepAbout, _Mapping]] = ..., by_caller: bool = ..., repeatable: bool = ...) -> None: ...

class ApprovalHold(_message.Message):
    __slots__ = ("condition_error", "digest")
    CONDITION_ERROR_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    condition_error: str
    digest: str
    def __init__(self, condition_error: _Optional[str] = ..., digest: _Optional[str] = ...) -> None: ...

class StepDecided(_message.Message):
    __slots__ = ("step", "tool", "verdict", "digest", "payload_json", "reason", "expires", "deadline")
    STEP_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_JSON_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    step: int
    tool: str
    verdict: StepVerdict
    digest: str
    payload_json: str
    reason: str
    expires: _timestamp_pb2.Timestamp
    deadline: _timestamp_pb2.Timestamp
    def __init__(self, step: _Optional[int] = ..., tool: _Optional[str] = ..., verdict: _Optional[_Union[StepVerdict, str]] = ..., digest: _Optional[str] = ..., payload_json: _Optional[str] = ..., reason: _Optional[str] = ..., expires: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class StepResolved(_message.Message):
    __slots__ = ("step", "tool", "attempt", "ok", "result_json", "error", "unknown", "next", "deadline", "worker", "artifacts_written", "usage", "kind", "answer", "not_before")
    STEP_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    RESULT_JSON_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_FIELD_NUMBER: _ClassVar[int]
    step: int
    tool: str
    attempt: int
    ok: bool
    result_json: str
    error: Fault
    unknown: bool
    next: int
    deadline: _timestamp_pb2.Timestamp
    worker: str
    artifacts_written: _containers.RepeatedCompositeFieldContainer[ArtifactWrite]
    usage: Usage
    kind: StepKind
    answer: ModelAnswer
    not_before: _timestamp_pb2.Timestamp
    def __init__(self, step: _Optional[int] = ..., tool: _Optional[str] = ..., attempt: _Optional[int] = ..., ok: bool = ..., result_json: _Optional[str] = ..., error: _Optional[_Union[Fault, _Mapping]] = ..., unknown: bool = ..., next: _Optional[int] = ..., deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., worker: _Optional[str] = ..., artifacts_written: _Optional[_Iterable[_Union[ArtifactWrite, _Mapping]]] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., kind: _Optional[_Union[StepKind, str]] = ..., answer: _Optional[_Union[ModelAnswer, _Mapping]] = ..., not_before: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class StepRejected(_message.Message):
    __slots__ = ("key", "tool", "turn_seq", "denial", "kind")
    KEY_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    TURN_SEQ_FIELD_NUMBER: _ClassVar[int]
    DENIAL_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    key: str
    tool: str
    turn_seq: int
    denial: Denial
    kind: StepKind
    def __init__(self, key: _Optional[str] = ..., tool: _Optional[str] = ..., turn_seq: _Optional[int] = ..., denial: _Optional[_Union[Denial, _Mapping]] = ..., kind: _Optional[_Union[StepKind, str]] = ...) -> None: ...

class StepAbout(_message.Message):
    __slots__ = ("role", "step", "tool")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    role: StepRole
    step: int
    tool: str
    def __init__(self, role: _Optional[_Union[StepRole, str]] = ..., step: _Optional[int] = ..., tool: _Optional[str] = ...) -> None: ...

class UncompensatedEffect(_message.Message):
    __slots__ = ("step", "tool", "by", "code")
    STEP_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    step: int
    tool: str
    by: int
    code: str
    def __init__(self, step: _Optional[int] = ..., tool: _Optional[str] = ..., by: _Optional[int] = ..., code: _Optional[str] = ...) -> None: ...

class StepOutcomeUnknown(_message.Message):
    __slots__ = ("step", "tool", "attempt", "error", "worker", "by", "kind")
    STEP_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    step: int
    tool: str
    attempt: int
    error: Fault
    worker: str
    by: int
    kind: StepKind
    def __init__(self, step: _Optional[int] = ..., tool: _Optional[str] = ..., attempt: _Optional[int] = ..., error: _Optional[_Union[Fault, _Mapping]] = ..., worker: _Optional[str] = ..., by: _Optional[int] = ..., kind: _Optional[_Union[StepKind, str]] = ...) -> None: ...

class CompensationStarted(_message.Message):
    __slots__ = ("status", "reason", "event", "intended_state", "redirects", "effects", "pending", "artifacts_written")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    INTENDED_STATE_FIELD_NUMBER: _ClassVar[int]
    REDIRECTS_FIELD_NUMBER: _ClassVar[int]
    EFFECTS_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    status: RunStatus
    reason: str
    event: str
    intended_state: str
    redirects: _containers.RepeatedCompositeFieldContainer[Redirect]
    effects: _containers.RepeatedScalarFieldContainer[int]
    pending: _containers.RepeatedScalarFieldContainer[int]
    artifacts_written: _containers.RepeatedCompositeFieldContainer[ArtifactWrite]
    def __init__(self, status: _Optional[_Union[RunStatus, str]] = ..., reason: _Optional[str] = ..., event: _Optional[str] = ..., intended_state: _Optional[str] = ..., redirects: _Optional[_Iterable[_Union[Redirect, _Mapping]]] = ..., effects: _Optional[_Iterable[int]] = ..., pending: _Optional[_Iterable[int]] = ..., artifacts_written: _Optional[_Iterable[_Union[ArtifactWrite, _Mapping]]] = ...) -> None: ...

class StepCancelled(_message.Message):
    __slots__ = ("step", "tool", "reason", "kind", "usage")
    STEP_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    step: int
    tool: str
    reason: str
    kind: StepKind
    usage: Usage
    def __init__(self, step: _Optional[int] = ..., tool: _Optional[str] = ..., reason: _Optional[str] = ..., kind: _Optional[_Union[StepKind, str]] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ...) -> None: ...

class BudgetRaised(_message.Message):
    __slots__ = ("max_tokens", "max_cost_micro_usd", "previous_max_tokens", "previous_max_cost_micro_usd", "reason")
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_COST_MICRO_USD_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_MAX_COST_MICRO_USD_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    max_tokens: int
    max_cost_micro_usd: int
    previous_max_tokens: int
    previous_max_cost_micro_usd: int
    reason: str
    def __init__(self, max_tokens: _Optional[int] = ..., max_cost_micro_usd: _Optional[int] = ..., previous_max_tokens: _Optional[int] = ..., previous_max_cost_micro_usd: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class ModelUpdated(_message.Message):
    __slots__ = ("step", "attempt", "response_id", "usage", "request_changed", "request_hash")
    STEP_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_ID_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_CHANGED_FIELD_NUMBER: _ClassVar[int]
    REQUEST_HASH_FIELD_NUMBER: _ClassVar[int]
    step: int
    attempt: int
    response_id: str
    usage: Usage
    request_changed: bool
    request_hash: bytes
    def __init__(self, step: _Optional[int] = ..., attempt: _Optional[int] = ..., response_id: _Optional[str] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., request_changed: bool = ..., request_hash: _Optional[bytes] = ...) -> None: ...

class OutputWritten(_message.Message):
    __slots__ = ("turn_seq", "attempt", "piece")
    TURN_SEQ_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    PIECE_FIELD_NUMBER: _ClassVar[int]
    turn_seq: int
    attempt: int
    piece: OutputPiece
    def __init__(self, turn_seq: _Optional[int] = ..., attempt: _Optional[int] = ..., piece: _Optional[_Union[OutputPiece, _Mapping]] = ...) -> None: ...

class StepDelegated(_message.Message):
    __slots__ = ("step", "tool", "attempt", "remote", "question")
    STEP_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    REMOTE_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    step: int
    tool: str
    attempt: int
    remote: Remote
    question: _containers.RepeatedCompositeFieldContainer[Part]
    def __init__(self, step: _Optional[int] = ..., tool: _Optional[str] = ..., attempt: _Optional[int] = ..., remote: _Optional[_Union[Remote, _Mapping]] = ..., question: _Optional[_Iterable[_Union[Part, _Mapping]]] = ...) -> None: ...

class NoChange(_message.Message):
    __slots__ = ("call", "id")
    CALL_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    call: str
    id: str
    def __init__(self, call: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class ArtifactsSet(_message.Message):
    __slots__ = ("artifacts_written",)
    ARTIFACTS_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    artifacts_written: _containers.RepeatedCompositeFieldContainer[ArtifactWrite]
    def __init__(self, artifacts_written: _Optional[_Iterable[_Union[ArtifactWrite, _Mapping]]] = ...) -> None: ...

class Paused(_message.Message):
    __slots__ = ("note",)
    NOTE_FIELD_NUMBER: _ClassVar[int]
    note: str
    def __init__(self, note: _Optional[str] = ...) -> None: ...

class Resumed(_message.Message):
    __slots__ = ("note",)
    NOTE_FIELD_NUMBER: _ClassVar[int]
    note: str
    def __init__(self, note: _Optional[str] = ...) -> None: ...

class Steered(_message.Message):
    __slots__ = ("text", "when")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    WHEN_FIELD_NUMBER: _ClassVar[int]
    text: str
    when: SteerWhen
    def __init__(self, text: _Optional[str] = ..., when: _Optional[_Union[SteerWhen, str]] = ...) -> None: ...

class Stopped(_message.Message):
    __slots__ = ("turn_seq", "attempt", "note", "conversation_through_step", "calls")
    TURN_SEQ_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_THROUGH_STEP_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    turn_seq: int
    attempt: int
    note: str
    conversation_through_step: int
    calls: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, turn_seq: _Optional[int] = ..., attempt: _Optional[int] = ..., note: _Optional[str] = ..., conversation_through_step: _Optional[int] = ..., calls: _Optional[_Iterable[int]] = ...) -> None: ...

class NoticeAdded(_message.Message):
    __slots__ = ("code", "text")
    CODE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    code: str
    text: str
    def __init__(self, code: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class IncludedMessage(_message.Message):
    __slots__ = ("seq", "text")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    seq: int
    text: str
    def __init__(self, seq: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class Origin(_message.Message):
    __slots__ = ("run_id", "seq", "state", "artifacts_written", "steps")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    seq: int
    state: str
    artifacts_written: _containers.RepeatedCompositeFieldContainer[ArtifactWrite]
    steps: int
    def __init__(self, run_id: _Optional[str] = ..., seq: _Optional[int] = ..., state: _Optional[str] = ..., artifacts_written: _Optional[_Iterable[_Union[ArtifactWrite, _Mapping]]] = ..., steps: _Optional[int] = ...) -> None: ...

class Ended(_message.Message):
    __slots__ = ("status", "reason", "redirects", "artifacts_written", "final_artifacts", "event", "intended_state", "uncompensated")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REDIRECTS_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    FINAL_ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    INTENDED_STATE_FIELD_NUMBER: _ClassVar[int]
    UNCOMPENSATED_FIELD_NUMBER: _ClassVar[int]
    status: RunStatus
    reason: str
    redirects: _containers.RepeatedCompositeFieldContainer[Redirect]
    artifacts_written: _containers.RepeatedCompositeFieldContainer[ArtifactWrite]
    final_artifacts: _containers.RepeatedCompositeFieldContainer[Artifact]
    event: str
    intended_state: str
    uncompensated: _containers.RepeatedCompositeFieldContainer[UncompensatedEffect]
    def __init__(self, status: _Optional[_Union[RunStatus, str]] = ..., reason: _Optional[str] = ..., redirects: _Optional[_Iterable[_Union[Redirect, _Mapping]]] = ..., artifacts_written: _Optional[_Iterable[_Union[ArtifactWrite, _Mapping]]] = ..., final_artifacts: _Optional[_Iterable[_Union[Artifact, _Mapping]]] = ..., event: _Optional[str] = ..., intended_state: _Optional[str] = ..., uncompensated: _Optional[_Iterable[_Union[UncompensatedEffect, _Mapping]]] = ...) -> None: ...

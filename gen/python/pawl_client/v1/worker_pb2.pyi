import datetime

from google.api import annotations_pb2 as _annotations_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.rpc import status_pb2 as _status_pb2
from pawl_client.v1 import record_pb2 as _record_pb2
from pawl_client.v1 import run_pb2 as _run_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class UnservedCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNSERVED_CAUSE_UNSPECIFIED: _ClassVar[UnservedCause]
    UNSERVED_CAUSE_RUN_ENDED: _ClassVar[UnservedCause]
    UNSERVED_CAUSE_RUN_WAITING: _ClassVar[UnservedCause]
    UNSERVED_CAUSE_TAKEN_OVER: _ClassVar[UnservedCause]
    UNSERVED_CAUSE_REFUSED: _ClassVar[UnservedCause]

class RevokeCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REVOKE_CAUSE_UNSPECIFIED: _ClassVar[RevokeCause]
    REVOKE_CAUSE_ABANDONED: _ClassVar[RevokeCause]
    REVOKE_CAUSE_RUN_ENDED: _ClassVar[RevokeCause]
    REVOKE_CAUSE_LEASE_EXPIRED: _ClassVar[RevokeCause]
    REVOKE_CAUSE_SUPERSEDED: _ClassVar[RevokeCause]
UNSERVED_CAUSE_UNSPECIFIED: UnservedCause
UNSERVED_CAUSE_RUN_ENDED: UnservedCause
UNSERVED_CAUSE_RUN_WAITING: UnservedCause
UNSERVED_CAUSE_TAKEN_OVER: UnservedCause
UNSERVED_CAUSE_REFUSED: UnservedCause
REVOKE_CAUSE_UNSPECIFIED: RevokeCause
REVOKE_CAUSE_ABANDONED: RevokeCause
REVOKE_CAUSE_RUN_ENDED: RevokeCause
REVOKE_CAUSE_LEASE_EXPIRED: RevokeCause
REVOKE_CAUSE_SUPERSEDED: RevokeCause

class ListWorkersRequest(_message.Message):
    __slots__ = ("namespace",)
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    def __init__(self, namespace: _Optional[str] = ...) -> None: ...

class ListWorkersResponse(_message.Message):
    __slots__ = ("workers", "ready", "total_workers")
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    TOTAL_WORKERS_FIELD_NUMBER: _ClassVar[int]
    workers: _containers.RepeatedCompositeFieldContainer[ConnectedWorker]
    ready: _containers.RepeatedCompositeFieldContainer[ReadyWork]
    total_workers: int
    def __init__(self, workers: _Optional[_Iterable[_Union[ConnectedWorker, _Mapping]]] = ..., ready: _Optional[_Iterable[_Union[ReadyWork, _Mapping]]] = ..., total_workers: _Optional[int] = ...) -> None: ...

class ConnectedWorker(_message.Message):
    __slots__ = ("worker_id", "principal", "client", "packs", "prompts", "agents", "tools", "turn_capacity", "step_capacity", "turns", "steps", "held_turns", "held_steps", "connected_at", "seen_at", "draining", "served_runs", "turn_counts", "step_counts", "last_failure", "failing_more_than_peers")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    PACKS_FIELD_NUMBER: _ClassVar[int]
    PROMPTS_FIELD_NUMBER: _ClassVar[int]
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    TURN_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    STEP_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    HELD_TURNS_FIELD_NUMBER: _ClassVar[int]
    HELD_STEPS_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_AT_FIELD_NUMBER: _ClassVar[int]
    SEEN_AT_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    SERVED_RUNS_FIELD_NUMBER: _ClassVar[int]
    TURN_COUNTS_FIELD_NUMBER: _ClassVar[int]
    STEP_COUNTS_FIELD_NUMBER: _ClassVar[int]
    LAST_FAILURE_FIELD_NUMBER: _ClassVar[int]
    FAILING_MORE_THAN_PEERS_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    principal: str
    client: str
    packs: _containers.RepeatedScalarFieldContainer[str]
    prompts: _containers.RepeatedScalarFieldContainer[str]
    agents: _containers.RepeatedScalarFieldContainer[str]
    tools: _containers.RepeatedScalarFieldContainer[str]
    turn_capacity: int
    step_capacity: int
    turns: _containers.RepeatedCompositeFieldContainer[HeldWork]
    steps: _containers.RepeatedCompositeFieldContainer[HeldWork]
    held_turns: int
    held_steps: int
    connected_at: _timestamp_pb2.Timestamp
    seen_at: _timestamp_pb2.Timestamp
    draining: bool
    served_runs: int
    turn_counts: WorkCounts
    step_counts: WorkCounts
    last_failure: WorkFailure
    failing_more_than_peers: bool
    def __init__(self, worker_id: _Optional[str] = ..., principal: _Optional[str] = ..., client: _Optional[str] = ..., packs: _Optional[_Iterable[str]] = ..., prompts: _Optional[_Iterable[str]] = ..., agents: _Optional[_Iterable[str]] = ..., tools: _Optional[_Iterable[str]] = ..., turn_capacity: _Optional[int] = ..., step_capacity: _Optional[int] = ..., turns: _Optional[_Iterable[_Union[HeldWork, _Mapping]]] = ..., steps: _Optional[_Iterable[_Union[HeldWork, _Mapping]]] = ..., held_turns: _Optional[int] = ..., held_steps: _Optional[int] = ..., connected_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., seen_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., draining: bool = ..., served_runs: _Optional[int] = ..., turn_counts: _Optional[_Union[WorkCounts, _Mapping]] = ..., step_counts: _Optional[_Union[WorkCounts, _Mapping]] = ..., last_failure: _Optional[_Union[WorkFailure, _Mapping]] = ..., failing_more_than_peers: bool = ...) -> None: ...

class WorkCounts(_message.Message):
    __slots__ = ("taken", "failed", "lost")
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    taken: int
    failed: int
    lost: int
    def __init__(self, taken: _Optional[int] = ..., failed: _Optional[int] = ..., lost: _Optional[int] = ...) -> None: ...

class WorkFailure(_message.Message):
    __slots__ = ("at", "run_id", "pack", "prompt", "agent", "tool", "attempt", "lost", "error")
    AT_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PACK_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    at: _timestamp_pb2.Timestamp
    run_id: str
    pack: _record_pb2.PackRef
    prompt: str
    agent: str
    tool: str
    attempt: int
    lost: bool
    error: _record_pb2.Fault
    def __init__(self, at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., run_id: _Optional[str] = ..., pack: _Optional[_Union[_record_pb2.PackRef, _Mapping]] = ..., prompt: _Optional[str] = ..., agent: _Optional[str] = ..., tool: _Optional[str] = ..., attempt: _Optional[int] = ..., lost: bool = ..., error: _Optional[_Union[_record_pb2.Fault, _Mapping]] = ...) -> None: ...

class HeldWork(_message.Message):
    __slots__ = ("run_id", "turn_seq", "step", "tool", "attempt", "since", "deadline")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_SEQ_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    turn_seq: int
    step: int
    tool: str
    attempt: int
    since: _timestamp_pb2.Timestamp
    deadline: _timestamp_pb2.Timestamp
    def __init__(self, run_id: _Optional[str] = ..., turn_seq: _Optional[int] = ..., step: _Optional[int] = ..., tool: _Optional[str] = ..., attempt: _Optional[int] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ReadyWork(_message.Message):
    __slots__ = ("pack", "prompt", "agent", "tool", "count", "workers")
    PACK_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    pack: _record_pb2.PackRef
    prompt: str
    agent: str
    tool: str
    count: int
    workers: int
    def __init__(self, pack: _Optional[_Union[_record_pb2.PackRef, _Mapping]] = ..., prompt: _Optional[str] = ..., agent: _Optional[str] = ..., tool: _Optional[str] = ..., count: _Optional[int] = ..., workers: _Optional[int] = ...) -> None: ...

class WorkRequest(_message.Message):
    __slots__ = ("namespace", "id", "credits", "register", "heartbeat", "output", "release", "drain", "serve_run", "release_run", "complete_turn", "fail_turn", "suspend_turn", "request_step", "resolve_step", "set_artifacts", "write_output", "request_model", "answer_model", "update_model_call", "more")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    CREDITS_FIELD_NUMBER: _ClassVar[int]
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    SERVE_RUN_FIELD_NUMBER: _ClassVar[int]
    RELEASE_RUN_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_TURN_FIELD_NUMBER: _ClassVar[int]
    FAIL_TURN_FIELD_NUMBER: _ClassVar[int]
    SUSPEND_TURN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_STEP_FIELD_NUMBER: _ClassVar[int]
    RESOLVE_STEP_FIELD_NUMBER: _ClassVar[int]
    SET_ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    WRITE_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_MODEL_FIELD_NUMBER: _ClassVar[int]
    ANSWER_MODEL_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MODEL_CALL_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    id: int
    credits: WorkCredits
    register: WorkerRegistration
    heartbeat: WorkerHeartbeat
    output: WorkerOutput
    release: WorkRelease
    drain: WorkerDrain
    serve_run: ServeRun
    release_run: ReleaseRun
    complete_turn: _run_pb2.CompleteTurnRequest
    fail_turn: _run_pb2.FailTurnRequest
    suspend_turn: _run_pb2.SuspendTurnRequest
    request_step: _run_pb2.RequestStepRequest
    resolve_step: _run_pb2.ResolveStepRequest
    set_artifacts: _run_pb2.SetArtifactsRequest
    write_output: _run_pb2.WriteOutputRequest
    request_model: _run_pb2.RequestModelRequest
    answer_model: _run_pb2.AnswerModelRequest
    update_model_call: _run_pb2.UpdateModelCallRequest
    more: _containers.RepeatedCompositeFieldContainer[WorkRequest]
    def __init__(self, namespace: _Optional[str] = ..., id: _Optional[int] = ..., credits: _Optional[_Union[WorkCredits, _Mapping]] = ..., register: _Optional[_Union[WorkerRegistration, _Mapping]] = ..., heartbeat: _Optional[_Union[WorkerHeartbeat, _Mapping]] = ..., output: _Optional[_Union[WorkerOutput, _Mapping]] = ..., release: _Optional[_Union[WorkRelease, _Mapping]] = ..., drain: _Optional[_Union[WorkerDrain, _Mapping]] = ..., serve_run: _Optional[_Union[ServeRun, _Mapping]] = ..., release_run: _Optional[_Union[ReleaseRun, _Mapping]] = ..., complete_turn: _Optional[_Union[_run_pb2.CompleteTurnRequest, _Mapping]] = ..., fail_turn: _Optional[_Union[_run_pb2.FailTurnRequest, _Mapping]] = ..., suspend_turn: _Optional[_Union[_run_pb2.SuspendTurnRequest, _Mapping]] = ..., request_step: _Optional[_Union[_run_pb2.RequestStepRequest, _Mapping]] = ..., resolve_step: _Optional[_Union[_run_pb2.ResolveStepRequest, _Mapping]] = ..., set_artifacts: _Optional[_Union[_run_pb2.SetArtifactsRequest, _Mapping]] = ..., write_output: _Optional[_Union[_run_pb2.WriteOutputRequest, _Mapping]] = ..., request_model: _Optional[_Union[_run_pb2.RequestModelRequest, _Mapping]] = ..., answer_model: _Optional[_Union[_run_pb2.AnswerModelRequest, _Mapping]] = ..., update_model_call: _Optional[_Union[_run_pb2.UpdateModelCallRequest, _Mapping]] = ..., more: _Optional[_Iterable[_Union[WorkRequest, _Mapping]]] = ...) -> None: ...

class WorkResponse(_message.Message):
    __slots__ = ("registered", "turn", "step", "revoked", "step_answers", "receipt", "drain", "run_unserved", "more")
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    STEP_ANSWERS_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    RUN_UNSERVED_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    registered: WorkerRegistered
    turn: TurnAssignment
    step: StepAssignment
    revoked: Revocation
    step_answers: StepAnswers
    receipt: WorkReceipt
    drain: ServerDrain
    run_unserved: RunUnserved
    more: _containers.RepeatedCompositeFieldContainer[WorkResponse]
    def __init__(self, registered: _Optional[_Union[WorkerRegistered, _Mapping]] = ..., turn: _Optional[_Union[TurnAssignment, _Mapping]] = ..., step: _Optional[_Union[StepAssignment, _Mapping]] = ..., revoked: _Optional[_Union[Revocation, _Mapping]] = ..., step_answers: _Optional[_Union[StepAnswers, _Mapping]] = ..., receipt: _Optional[_Union[WorkReceipt, _Mapping]] = ..., drain: _Optional[_Union[ServerDrain, _Mapping]] = ..., run_unserved: _Optional[_Union[RunUnserved, _Mapping]] = ..., more: _Optional[_Iterable[_Union[WorkResponse, _Mapping]]] = ...) -> None: ...

class WorkCredits(_message.Message):
    __slots__ = ("turns", "steps")
    TURNS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    turns: int
    steps: int
    def __init__(self, turns: _Optional[int] = ..., steps: _Optional[int] = ...) -> None: ...

class WorkerRegistration(_message.Message):
    __slots__ = ("worker_id", "client", "packs", "prompts", "agents", "tools", "allow_unknown", "turn_capacity", "step_capacity", "held_turns", "held_steps", "instance", "batches", "compact_receipts", "received_steps", "served_runs")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    PACKS_FIELD_NUMBER: _ClassVar[int]
    PROMPTS_FIELD_NUMBER: _ClassVar[int]
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    ALLOW_UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    TURN_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    STEP_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    HELD_TURNS_FIELD_NUMBER: _ClassVar[int]
    HELD_STEPS_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    COMPACT_RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_STEPS_FIELD_NUMBER: _ClassVar[int]
    SERVED_RUNS_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    client: str
    packs: _containers.RepeatedScalarFieldContainer[str]
    prompts: _containers.RepeatedScalarFieldContainer[str]
    agents: _containers.RepeatedScalarFieldContainer[str]
    tools: _containers.RepeatedScalarFieldContainer[str]
    allow_unknown: bool
    turn_capacity: int
    step_capacity: int
    held_turns: _containers.RepeatedCompositeFieldContainer[TurnLease]
    held_steps: _containers.RepeatedCompositeFieldContainer[StepLease]
    instance: str
    batches: bool
    compact_receipts: bool
    received_steps: int
    served_runs: _containers.RepeatedCompositeFieldContainer[ServeRun]
    def __init__(self, worker_id: _Optional[str] = ..., client: _Optional[str] = ..., packs: _Optional[_Iterable[str]] = ..., prompts: _Optional[_Iterable[str]] = ..., agents: _Optional[_Iterable[str]] = ..., tools: _Optional[_Iterable[str]] = ..., allow_unknown: bool = ..., turn_capacity: _Optional[int] = ..., step_capacity: _Optional[int] = ..., held_turns: _Optional[_Iterable[_Union[TurnLease, _Mapping]]] = ..., held_steps: _Optional[_Iterable[_Union[StepLease, _Mapping]]] = ..., instance: _Optional[str] = ..., batches: bool = ..., compact_receipts: bool = ..., received_steps: _Optional[int] = ..., served_runs: _Optional[_Iterable[_Union[ServeRun, _Mapping]]] = ...) -> None: ...

class ServeRun(_message.Message):
    __slots__ = ("run_id", "tools")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    tools: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, run_id: _Optional[str] = ..., tools: _Optional[_Iterable[str]] = ...) -> None: ...

class ReleaseRun(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class RunUnserved(_message.Message):
    __slots__ = ("run_id", "cause")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    cause: UnservedCause
    def __init__(self, run_id: _Optional[str] = ..., cause: _Optional[_Union[UnservedCause, str]] = ...) -> None: ...

class TurnLease(_message.Message):
    __slots__ = ("run_id", "turn_seq", "attempt", "delivery", "token", "deadline", "duration", "step_requests")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_SEQ_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    STEP_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    turn_seq: int
    attempt: int
    delivery: int
    token: str
    deadline: _timestamp_pb2.Timestamp
    duration: _duration_pb2.Duration
    step_requests: int
    def __init__(self, run_id: _Optional[str] = ..., turn_seq: _Optional[int] = ..., attempt: _Optional[int] = ..., delivery: _Optional[int] = ..., token: _Optional[str] = ..., deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., step_requests: _Optional[int] = ...) -> None: ...

class StepLease(_message.Message):
    __slots__ = ("run_id", "step", "tool", "attempt", "token")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    step: int
    tool: str
    attempt: int
    token: str
    def __init__(self, run_id: _Optional[str] = ..., step: _Optional[int] = ..., tool: _Optional[str] = ..., attempt: _Optional[int] = ..., token: _Optional[str] = ...) -> None: ...

class WorkerRegistered(_message.Message):
    __slots__ = ("kept_turns", "kept_steps", "heartbeat_interval", "max_message_bytes", "turn_capacity", "step_capacity", "unknown")
    KEPT_TURNS_FIELD_NUMBER: _ClassVar[int]
    KEPT_STEPS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    TURN_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    STEP_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    kept_turns: _containers.RepeatedCompositeFieldContainer[TurnLease]
    kept_steps: _containers.RepeatedCompositeFieldContainer[StepLease]
    heartbeat_interval: _duration_pb2.Duration
    max_message_bytes: int
    turn_capacity: int
    step_capacity: int
    unknown: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, kept_turns: _Optional[_Iterable[_Union[TurnLease, _Mapping]]] = ..., kept_steps: _Optional[_Iterable[_Union[StepLease, _Mapping]]] = ..., heartbeat_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_message_bytes: _Optional[int] = ..., turn_capacity: _Optional[int] = ..., step_capacity: _Optional[int] = ..., unknown: _Optional[_Iterable[str]] = ...) -> None: ...

class TurnAssignment(_message.Message):
    __slots__ = ("lease", "turn", "agent", "labels", "traceparent")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LEASE_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    lease: TurnLease
    turn: _run_pb2.GetTurnResponse
    agent: str
    labels: _containers.ScalarMap[str, str]
    traceparent: str
    def __init__(self, lease: _Optional[_Union[TurnLease, _Mapping]] = ..., turn: _Optional[_Union[_run_pb2.GetTurnResponse, _Mapping]] = ..., agent: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., traceparent: _Optional[str] = ...) -> None: ...

class StepAssignment(_message.Message):
    __slots__ = ("lease", "payload_json", "key", "turn_seq", "requested_at", "deadline", "timeout", "pack", "traceparent", "idempotency_key", "delivery")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_JSON_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TURN_SEQ_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_AT_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    PACK_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    lease: StepLease
    payload_json: str
    key: str
    turn_seq: int
    requested_at: _timestamp_pb2.Timestamp
    deadline: _timestamp_pb2.Timestamp
    timeout: _duration_pb2.Duration
    pack: _record_pb2.PackRef
    traceparent: str
    idempotency_key: str
    delivery: int
    def __init__(self, lease: _Optional[_Union[StepLease, _Mapping]] = ..., payload_json: _Optional[str] = ..., key: _Optional[str] = ..., turn_seq: _Optional[int] = ..., requested_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., pack: _Optional[_Union[_record_pb2.PackRef, _Mapping]] = ..., traceparent: _Optional[str] = ..., idempotency_key: _Optional[str] = ..., delivery: _Optional[int] = ...) -> None: ...

class Revocation(_message.Message):
    __slots__ = ("turn", "step", "cause")
    TURN_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    turn: TurnLease
    step: StepLease
    cause: RevokeCause
    def __init__(self, turn: _Optional[_Union[TurnLease, _Mapping]] = ..., step: _Optional[_Union[StepLease, _Mapping]] = ..., cause: _Optional[_Union[RevokeCause, str]] = ...) -> None: ...

class StepAnswers(_message.Message):
    __slots__ = ("run_id", "turn_seq", "steps")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_SEQ_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    turn_seq: int
    steps: _containers.RepeatedCompositeFieldContainer[_run_pb2.Step]
    def __init__(self, run_id: _Optional[str] = ..., turn_seq: _Optional[int] = ..., steps: _Optional[_Iterable[_Union[_run_pb2.Step, _Mapping]]] = ...) -> None: ...

class WorkReceipt(_message.Message):
    __slots__ = ("id", "error", "complete_turn", "fail_turn", "suspend_turn", "request_step", "resolve_step", "set_artifacts", "heartbeat", "output", "write_output", "request_model", "answer_model", "update_model_call")
    ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_TURN_FIELD_NUMBER: _ClassVar[int]
    FAIL_TURN_FIELD_NUMBER: _ClassVar[int]
    SUSPEND_TURN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_STEP_FIELD_NUMBER: _ClassVar[int]
    RESOLVE_STEP_FIELD_NUMBER: _ClassVar[int]
    SET_ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    WRITE_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_MODEL_FIELD_NUMBER: _ClassVar[int]
    ANSWER_MODEL_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MODEL_CALL_FIELD_NUMBER: _ClassVar[int]
    id: int
    error: _status_pb2.Status
    complete_turn: _run_pb2.CompleteTurnResponse
    fail_turn: _run_pb2.FailTurnResponse
    suspend_turn: _run_pb2.SuspendTurnResponse
    request_step: _run_pb2.RequestStepResponse
    resolve_step: _run_pb2.ResolveStepResponse
    set_artifacts: _run_pb2.SetArtifactsResponse
    heartbeat: LeaseExtension
    output: OutputProgress
    write_output: _run_pb2.WriteOutputResponse
    request_model: _run_pb2.RequestModelResponse
    answer_model: _run_pb2.AnswerModelResponse
    update_model_call: _run_pb2.UpdateModelCallResponse
    def __init__(self, id: _Optional[int] = ..., error: _Optional[_Union[_status_pb2.Status, _Mapping]] = ..., complete_turn: _Optional[_Union[_run_pb2.CompleteTurnResponse, _Mapping]] = ..., fail_turn: _Optional[_Union[_run_pb2.FailTurnResponse, _Mapping]] = ..., suspend_turn: _Optional[_Union[_run_pb2.SuspendTurnResponse, _Mapping]] = ..., request_step: _Optional[_Union[_run_pb2.RequestStepResponse, _Mapping]] = ..., resolve_step: _Optional[_Union[_run_pb2.ResolveStepResponse, _Mapping]] = ..., set_artifacts: _Optional[_Union[_run_pb2.SetArtifactsResponse, _Mapping]] = ..., heartbeat: _Optional[_Union[LeaseExtension, _Mapping]] = ..., output: _Optional[_Union[OutputProgress, _Mapping]] = ..., write_output: _Optional[_Union[_run_pb2.WriteOutputResponse, _Mapping]] = ..., request_model: _Optional[_Union[_run_pb2.RequestModelResponse, _Mapping]] = ..., answer_model: _Optional[_Union[_run_pb2.AnswerModelResponse, _Mapping]] = ..., update_model_call: _Optional[_Union[_run_pb2.UpdateModelCallResponse, _Mapping]] = ...) -> None: ...

class WorkerHeartbeat(_message.Message):
    __slots__ = ("tokens",)
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    tokens: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tokens: _Optional[_Iterable[str]] = ...) -> None: ...

class LeaseExtension(_message.Message):
    __slots__ = ("leases", "lost")
    LEASES_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    leases: _containers.RepeatedCompositeFieldContainer[TurnLease]
    lost: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, leases: _Optional[_Iterable[_Union[TurnLease, _Mapping]]] = ..., lost: _Optional[_Iterable[str]] = ...) -> None: ...

class WorkerOutput(_message.Message):
    __slots__ = ("token", "offset", "text", "reset", "reasoning")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    REASONING_FIELD_NUMBER: _ClassVar[int]
    token: str
    offset: int
    text: str
    reset: bool
    reasoning: bool
    def __init__(self, token: _Optional[str] = ..., offset: _Optional[int] = ..., text: _Optional[str] = ..., reset: bool = ..., reasoning: bool = ...) -> None: ...

class OutputProgress(_message.Message):
    __slots__ = ("offset",)
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    offset: int
    def __init__(self, offset: _Optional[int] = ...) -> None: ...

class WorkRelease(_message.Message):
    __slots__ = ("turn_token", "step_token")
    TURN_TOKEN_FIELD_NUMBER: _ClassVar[int]
    STEP_TOKEN_FIELD_NUMBER: _ClassVar[int]
    turn_token: str
    step_token: str
    def __init__(self, turn_token: _Optional[str] = ..., step_token: _Optional[str] = ...) -> None: ...

class WorkerDrain(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ServerDrain(_message.Message):
    __slots__ = ("deadline",)
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    deadline: _timestamp_pb2.Timestamp
    def __init__(self, deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

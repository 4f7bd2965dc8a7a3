import datetime

from google.api import annotations_pb2 as _annotations_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from pawl_client.v1 import run_pb2 as _run_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BackupRequest(_message.Message):
    __slots__ = ("after", "partition")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    after: str
    partition: int
    def __init__(self, after: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class BackupResponse(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class CheckStoreRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CheckStoreResponse(_message.Message):
    __slots__ = ("progress", "done", "fault")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    progress: CheckCounts
    done: CheckCounts
    fault: CheckFault
    def __init__(self, progress: _Optional[_Union[CheckCounts, _Mapping]] = ..., done: _Optional[_Union[CheckCounts, _Mapping]] = ..., fault: _Optional[_Union[CheckFault, _Mapping]] = ...) -> None: ...

class CheckCounts(_message.Message):
    __slots__ = ("runs", "entries", "records", "checkpoints", "artifacts", "messages", "ids", "timers", "outbox", "ready", "indexes", "packs", "deleted")
    RUNS_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    TIMERS_FIELD_NUMBER: _ClassVar[int]
    OUTBOX_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    INDEXES_FIELD_NUMBER: _ClassVar[int]
    PACKS_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    runs: int
    entries: int
    records: int
    checkpoints: int
    artifacts: int
    messages: int
    ids: int
    timers: int
    outbox: int
    ready: int
    indexes: int
    packs: int
    deleted: int
    def __init__(self, runs: _Optional[int] = ..., entries: _Optional[int] = ..., records: _Optional[int] = ..., checkpoints: _Optional[int] = ..., artifacts: _Optional[int] = ..., messages: _Optional[int] = ..., ids: _Optional[int] = ..., timers: _Optional[int] = ..., outbox: _Optional[int] = ..., ready: _Optional[int] = ..., indexes: _Optional[int] = ..., packs: _Optional[int] = ..., deleted: _Optional[int] = ...) -> None: ...

class CheckFault(_message.Message):
    __slots__ = ("namespace_number", "run_id", "seq", "row", "detail", "partition")
    NAMESPACE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    namespace_number: int
    run_id: str
    seq: int
    row: str
    detail: str
    partition: int
    def __init__(self, namespace_number: _Optional[int] = ..., run_id: _Optional[str] = ..., seq: _Optional[int] = ..., row: _Optional[str] = ..., detail: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class GetStoreStatsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStoreStatsResponse(_message.Message):
    __slots__ = ("stats",)
    STATS_FIELD_NUMBER: _ClassVar[int]
    stats: StoreStats
    def __init__(self, stats: _Optional[_Union[StoreStats, _Mapping]] = ...) -> None: ...

class StoreStats(_message.Message):
    __slots__ = ("namespaces", "shared", "tree_bytes", "value_log_bytes")
    NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    SHARED_FIELD_NUMBER: _ClassVar[int]
    TREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    VALUE_LOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    namespaces: _containers.RepeatedCompositeFieldContainer[NamespaceStats]
    shared: _containers.RepeatedCompositeFieldContainer[RowStats]
    tree_bytes: int
    value_log_bytes: int
    def __init__(self, namespaces: _Optional[_Iterable[_Union[NamespaceStats, _Mapping]]] = ..., shared: _Optional[_Iterable[_Union[RowStats, _Mapping]]] = ..., tree_bytes: _Optional[int] = ..., value_log_bytes: _Optional[int] = ...) -> None: ...

class NamespaceStats(_message.Message):
    __slots__ = ("name", "number", "runs", "entries", "records", "deleted_runs", "blobs", "consumers", "webhooks", "push_configs", "dead_letters", "oldest_run", "newest_run", "rows", "partition")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    DELETED_RUNS_FIELD_NUMBER: _ClassVar[int]
    BLOBS_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    WEBHOOKS_FIELD_NUMBER: _ClassVar[int]
    PUSH_CONFIGS_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    OLDEST_RUN_FIELD_NUMBER: _ClassVar[int]
    NEWEST_RUN_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    name: str
    number: int
    runs: _containers.RepeatedCompositeFieldContainer[_run_pb2.StatusCount]
    entries: int
    records: int
    deleted_runs: int
    blobs: int
    consumers: int
    webhooks: int
    push_configs: int
    dead_letters: int
    oldest_run: _timestamp_pb2.Timestamp
    newest_run: _timestamp_pb2.Timestamp
    rows: _containers.RepeatedCompositeFieldContainer[RowStats]
    partition: int
    def __init__(self, name: _Optional[str] = ..., number: _Optional[int] = ..., runs: _Optional[_Iterable[_Union[_run_pb2.StatusCount, _Mapping]]] = ..., entries: _Optional[int] = ..., records: _Optional[int] = ..., deleted_runs: _Optional[int] = ..., blobs: _Optional[int] = ..., consumers: _Optional[int] = ..., webhooks: _Optional[int] = ..., push_configs: _Optional[int] = ..., dead_letters: _Optional[int] = ..., oldest_run: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., newest_run: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., rows: _Optional[_Iterable[_Union[RowStats, _Mapping]]] = ..., partition: _Optional[int] = ...) -> None: ...

class RowStats(_message.Message):
    __slots__ = ("kind", "rows", "key_bytes", "value_bytes")
    KIND_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    KEY_BYTES_FIELD_NUMBER: _ClassVar[int]
    VALUE_BYTES_FIELD_NUMBER: _ClassVar[int]
    kind: str
    rows: int
    key_bytes: int
    value_bytes: int
    def __init__(self, kind: _Optional[str] = ..., rows: _Optional[int] = ..., key_bytes: _Optional[int] = ..., value_bytes: _Optional[int] = ...) -> None: ...

class ListPartitionsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListPartitionsResponse(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[Partition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[Partition, _Mapping]]] = ...) -> None: ...

class Partition(_message.Message):
    __slots__ = ("number", "namespaces", "owner", "here")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    HERE_FIELD_NUMBER: _ClassVar[int]
    number: int
    namespaces: _containers.RepeatedScalarFieldContainer[str]
    owner: str
    here: bool
    def __init__(self, number: _Optional[int] = ..., namespaces: _Optional[_Iterable[str]] = ..., owner: _Optional[str] = ..., here: bool = ...) -> None: ...

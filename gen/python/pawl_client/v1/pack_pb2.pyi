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

class Severity(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SEVERITY_UNSPECIFIED: _ClassVar[Severity]
    SEVERITY_ERROR: _ClassVar[Severity]
    SEVERITY_WARNING: _ClassVar[Severity]

class EdgeKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EDGE_KIND_UNSPECIFIED: _ClassVar[EdgeKind]
    EDGE_KIND_EVENT: _ClassVar[EdgeKind]
    EDGE_KIND_MAX_VISITS: _ClassVar[EdgeKind]
    EDGE_KIND_TIMEOUT: _ClassVar[EdgeKind]

class Orchestration(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ORCHESTRATION_UNSPECIFIED: _ClassVar[Orchestration]
    ORCHESTRATION_INTERNAL: _ClassVar[Orchestration]
    ORCHESTRATION_EXTERNAL: _ClassVar[Orchestration]
    ORCHESTRATION_HYBRID: _ClassVar[Orchestration]
SEVERITY_UNSPECIFIED: Severity
SEVERITY_ERROR: Severity
SEVERITY_WARNING: Severity
EDGE_KIND_UNSPECIFIED: EdgeKind
EDGE_KIND_EVENT: EdgeKind
EDGE_KIND_MAX_VISITS: EdgeKind
EDGE_KIND_TIMEOUT: EdgeKind
ORCHESTRATION_UNSPECIFIED: Orchestration
ORCHESTRATION_INTERNAL: Orchestration
ORCHESTRATION_EXTERNAL: Orchestration
ORCHESTRATION_HYBRID: Orchestration

class Diagnostic(_message.Message):
    __slots__ = ("code", "severity", "pointer", "line", "column", "message", "hint")
    CODE_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    POINTER_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    code: str
    severity: Severity
    pointer: str
    line: int
    column: int
    message: str
    hint: str
    def __init__(self, code: _Optional[str] = ..., severity: _Optional[_Union[Severity, str]] = ..., pointer: _Optional[str] = ..., line: _Optional[int] = ..., column: _Optional[int] = ..., message: _Optional[str] = ..., hint: _Optional[str] = ...) -> None: ...

class Termination(_message.Message):
    __slots__ = ("agent", "bounded", "max_visits", "exact", "cycle", "also_limited_by", "bounded_by")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    BOUNDED_FIELD_NUMBER: _ClassVar[int]
    MAX_VISITS_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    CYCLE_FIELD_NUMBER: _ClassVar[int]
    ALSO_LIMITED_BY_FIELD_NUMBER: _ClassVar[int]
    BOUNDED_BY_FIELD_NUMBER: _ClassVar[int]
    agent: str
    bounded: bool
    max_visits: int
    exact: bool
    cycle: _containers.RepeatedCompositeFieldContainer[CycleEdge]
    also_limited_by: _containers.RepeatedScalarFieldContainer[str]
    bounded_by: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, agent: _Optional[str] = ..., bounded: bool = ..., max_visits: _Optional[int] = ..., exact: bool = ..., cycle: _Optional[_Iterable[_Union[CycleEdge, _Mapping]]] = ..., also_limited_by: _Optional[_Iterable[str]] = ..., bounded_by: _Optional[_Iterable[str]] = ...) -> None: ...

class CycleEdge(_message.Message):
    __slots__ = ("from_state", "event", "to_state")
    FROM_STATE_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    TO_STATE_FIELD_NUMBER: _ClassVar[int]
    from_state: str
    event: str
    to_state: str
    def __init__(self, from_state: _Optional[str] = ..., event: _Optional[str] = ..., to_state: _Optional[str] = ...) -> None: ...

class Pack(_message.Message):
    __slots__ = ("id", "version", "digest", "name", "description", "is_default", "registered_at", "size_bytes", "entry", "agents")
    ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    IS_DEFAULT_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_AT_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    id: str
    version: str
    digest: str
    name: str
    description: str
    is_default: bool
    registered_at: _timestamp_pb2.Timestamp
    size_bytes: int
    entry: str
    agents: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., version: _Optional[str] = ..., digest: _Optional[str] = ..., name: _Optional[str] = ..., description: _Optional[str] = ..., is_default: bool = ..., registered_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., size_bytes: _Optional[int] = ..., entry: _Optional[str] = ..., agents: _Optional[_Iterable[str]] = ...) -> None: ...

class GraphNode(_message.Message):
    __slots__ = ("name", "prompt", "description", "entry", "terminal", "max_visits", "on_max_visits", "orchestration", "persistent", "artifacts", "tools", "skills")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_FIELD_NUMBER: _ClassVar[int]
    MAX_VISITS_FIELD_NUMBER: _ClassVar[int]
    ON_MAX_VISITS_FIELD_NUMBER: _ClassVar[int]
    ORCHESTRATION_FIELD_NUMBER: _ClassVar[int]
    PERSISTENT_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    SKILLS_FIELD_NUMBER: _ClassVar[int]
    name: str
    prompt: str
    description: str
    entry: bool
    terminal: bool
    max_visits: int
    on_max_visits: str
    orchestration: Orchestration
    persistent: bool
    artifacts: _containers.RepeatedScalarFieldContainer[str]
    tools: _containers.RepeatedScalarFieldContainer[str]
    skills: str
    def __init__(self, name: _Optional[str] = ..., prompt: _Optional[str] = ..., description: _Optional[str] = ..., entry: bool = ..., terminal: bool = ..., max_visits: _Optional[int] = ..., on_max_visits: _Optional[str] = ..., orchestration: _Optional[_Union[Orchestration, str]] = ..., persistent: bool = ..., artifacts: _Optional[_Iterable[str]] = ..., tools: _Optional[_Iterable[str]] = ..., skills: _Optional[str] = ...) -> None: ...

class GraphEdge(_message.Message):
    __slots__ = ("from_state", "event", "to_state", "kind", "max_iterations")
    FROM_STATE_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    TO_STATE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MAX_ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    from_state: str
    event: str
    to_state: str
    kind: EdgeKind
    max_iterations: int
    def __init__(self, from_state: _Optional[str] = ..., event: _Optional[str] = ..., to_state: _Optional[str] = ..., kind: _Optional[_Union[EdgeKind, str]] = ..., max_iterations: _Optional[int] = ...) -> None: ...

class ValidatePackRequest(_message.Message):
    __slots__ = ("namespace", "content", "filename", "strict_schema", "require_bounded")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    FILENAME_FIELD_NUMBER: _ClassVar[int]
    STRICT_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_BOUNDED_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    content: bytes
    filename: str
    strict_schema: str
    require_bounded: bool
    def __init__(self, namespace: _Optional[str] = ..., content: _Optional[bytes] = ..., filename: _Optional[str] = ..., strict_schema: _Optional[str] = ..., require_bounded: bool = ...) -> None: ...

class ValidatePackResponse(_message.Message):
    __slots__ = ("ok", "digest", "id", "version", "diagnostics", "termination", "agent_terminations")
    OK_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    TERMINATION_FIELD_NUMBER: _ClassVar[int]
    AGENT_TERMINATIONS_FIELD_NUMBER: _ClassVar[int]
    ok: bool
    digest: str
    id: str
    version: str
    diagnostics: _containers.RepeatedCompositeFieldContainer[Diagnostic]
    termination: Termination
    agent_terminations: _containers.RepeatedCompositeFieldContainer[Termination]
    def __init__(self, ok: bool = ..., digest: _Optional[str] = ..., id: _Optional[str] = ..., version: _Optional[str] = ..., diagnostics: _Optional[_Iterable[_Union[Diagnostic, _Mapping]]] = ..., termination: _Optional[_Union[Termination, _Mapping]] = ..., agent_terminations: _Optional[_Iterable[_Union[Termination, _Mapping]]] = ...) -> None: ...

class RegisterPackRequest(_message.Message):
    __slots__ = ("namespace", "content", "filename", "strict_schema", "make_default", "move_version", "require_bounded")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    FILENAME_FIELD_NUMBER: _ClassVar[int]
    STRICT_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    MAKE_DEFAULT_FIELD_NUMBER: _ClassVar[int]
    MOVE_VERSION_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_BOUNDED_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    content: bytes
    filename: str
    strict_schema: str
    make_default: bool
    move_version: bool
    require_bounded: bool
    def __init__(self, namespace: _Optional[str] = ..., content: _Optional[bytes] = ..., filename: _Optional[str] = ..., strict_schema: _Optional[str] = ..., make_default: bool = ..., move_version: bool = ..., require_bounded: bool = ...) -> None: ...

class RegisterPackResponse(_message.Message):
    __slots__ = ("pack", "diagnostics", "termination", "agent_terminations", "duplicate")
    PACK_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    TERMINATION_FIELD_NUMBER: _ClassVar[int]
    AGENT_TERMINATIONS_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    pack: Pack
    diagnostics: _containers.RepeatedCompositeFieldContainer[Diagnostic]
    termination: Termination
    agent_terminations: _containers.RepeatedCompositeFieldContainer[Termination]
    duplicate: bool
    def __init__(self, pack: _Optional[_Union[Pack, _Mapping]] = ..., diagnostics: _Optional[_Iterable[_Union[Diagnostic, _Mapping]]] = ..., termination: _Optional[_Union[Termination, _Mapping]] = ..., agent_terminations: _Optional[_Iterable[_Union[Termination, _Mapping]]] = ..., duplicate: bool = ...) -> None: ...

class GetPackRequest(_message.Message):
    __slots__ = ("namespace", "pack", "include_content")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    PACK_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_CONTENT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    pack: str
    include_content: bool
    def __init__(self, namespace: _Optional[str] = ..., pack: _Optional[str] = ..., include_content: bool = ...) -> None: ...

class GetPackResponse(_message.Message):
    __slots__ = ("pack", "content", "diagnostics", "termination", "agent_terminations", "tools")
    PACK_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    TERMINATION_FIELD_NUMBER: _ClassVar[int]
    AGENT_TERMINATIONS_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    pack: Pack
    content: bytes
    diagnostics: _containers.RepeatedCompositeFieldContainer[Diagnostic]
    termination: Termination
    agent_terminations: _containers.RepeatedCompositeFieldContainer[Termination]
    tools: _containers.RepeatedCompositeFieldContainer[PackTool]
    def __init__(self, pack: _Optional[_Union[Pack, _Mapping]] = ..., content: _Optional[bytes] = ..., diagnostics: _Optional[_Iterable[_Union[Diagnostic, _Mapping]]] = ..., termination: _Optional[_Union[Termination, _Mapping]] = ..., agent_terminations: _Optional[_Iterable[_Union[Termination, _Mapping]]] = ..., tools: _Optional[_Iterable[_Union[PackTool, _Mapping]]] = ...) -> None: ...

class PackTool(_message.Message):
    __slots__ = ("name", "agent", "description", "prompts", "approve", "approval_timeout", "on_timeout", "not_starter", "dedupe", "max_calls", "cost_micro_usd", "timeout", "attempts", "on_error", "on_unknown", "reconcile", "compensate", "result_artifact", "sensitive", "mcp_digest")
    NAME_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PROMPTS_FIELD_NUMBER: _ClassVar[int]
    APPROVE_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    ON_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    NOT_STARTER_FIELD_NUMBER: _ClassVar[int]
    DEDUPE_FIELD_NUMBER: _ClassVar[int]
    MAX_CALLS_FIELD_NUMBER: _ClassVar[int]
    COST_MICRO_USD_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    ON_ERROR_FIELD_NUMBER: _ClassVar[int]
    ON_UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    RECONCILE_FIELD_NUMBER: _ClassVar[int]
    COMPENSATE_FIELD_NUMBER: _ClassVar[int]
    RESULT_ARTIFACT_FIELD_NUMBER: _ClassVar[int]
    SENSITIVE_FIELD_NUMBER: _ClassVar[int]
    MCP_DIGEST_FIELD_NUMBER: _ClassVar[int]
    name: str
    agent: bool
    description: str
    prompts: _containers.RepeatedScalarFieldContainer[str]
    approve: str
    approval_timeout: _duration_pb2.Duration
    on_timeout: str
    not_starter: bool
    dedupe: _containers.RepeatedScalarFieldContainer[str]
    max_calls: int
    cost_micro_usd: int
    timeout: _duration_pb2.Duration
    attempts: int
    on_error: str
    on_unknown: str
    reconcile: str
    compensate: str
    result_artifact: str
    sensitive: bool
    mcp_digest: str
    def __init__(self, name: _Optional[str] = ..., agent: bool = ..., description: _Optional[str] = ..., prompts: _Optional[_Iterable[str]] = ..., approve: _Optional[str] = ..., approval_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., on_timeout: _Optional[str] = ..., not_starter: bool = ..., dedupe: _Optional[_Iterable[str]] = ..., max_calls: _Optional[int] = ..., cost_micro_usd: _Optional[int] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., attempts: _Optional[int] = ..., on_error: _Optional[str] = ..., on_unknown: _Optional[str] = ..., reconcile: _Optional[str] = ..., compensate: _Optional[str] = ..., result_artifact: _Optional[str] = ..., sensitive: bool = ..., mcp_digest: _Optional[str] = ...) -> None: ...

class ListPacksRequest(_message.Message):
    __slots__ = ("namespace", "page_size", "page_token")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    page_size: int
    page_token: str
    def __init__(self, namespace: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListPacksResponse(_message.Message):
    __slots__ = ("packs", "next_page_token")
    PACKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    packs: _containers.RepeatedCompositeFieldContainer[Pack]
    next_page_token: str
    def __init__(self, packs: _Optional[_Iterable[_Union[Pack, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetPackGraphRequest(_message.Message):
    __slots__ = ("namespace", "pack", "agent")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    PACK_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    pack: str
    agent: str
    def __init__(self, namespace: _Optional[str] = ..., pack: _Optional[str] = ..., agent: _Optional[str] = ...) -> None: ...

class GetPackGraphResponse(_message.Message):
    __slots__ = ("pack", "entry", "nodes", "edges", "mermaid", "dot")
    PACK_FIELD_NUMBER: _ClassVar[int]
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    EDGES_FIELD_NUMBER: _ClassVar[int]
    MERMAID_FIELD_NUMBER: _ClassVar[int]
    DOT_FIELD_NUMBER: _ClassVar[int]
    pack: _record_pb2.PackRef
    entry: str
    nodes: _containers.RepeatedCompositeFieldContainer[GraphNode]
    edges: _containers.RepeatedCompositeFieldContainer[GraphEdge]
    mermaid: str
    dot: str
    def __init__(self, pack: _Optional[_Union[_record_pb2.PackRef, _Mapping]] = ..., entry: _Optional[str] = ..., nodes: _Optional[_Iterable[_Union[GraphNode, _Mapping]]] = ..., edges: _Optional[_Iterable[_Union[GraphEdge, _Mapping]]] = ..., mermaid: _Optional[str] = ..., dot: _Optional[str] = ...) -> None: ...

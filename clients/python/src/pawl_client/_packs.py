"""Packs, as the sidecar returns them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from pawl_client._enums import EdgeKind, Orchestration, Severity
from pawl_client._runs import PackRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One finding in a pack document.

    `pointer` is an RFC 6901 JSON pointer; `line` and `column` count from 1, 0: no place in the
    source. `hint` says how to repair it.
    """

    code: str
    severity: Severity
    pointer: str
    line: int
    column: int
    message: str
    hint: str

    def __str__(self) -> str:
        return f"{self.line}:{self.column}: {self.severity} {self.code}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleEdge:
    """One edge of an unbounded cycle."""

    from_state: str
    event: str
    to_state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Termination:
    """Whether the guards of one entry end every run.

    `max_visits` is the worst case if `bounded`, and some run reaches it if `exact`. `bounded_by` is
    "acyclic", or names of guards.
    """

    agent: str
    bounded: bool
    max_visits: int
    exact: bool
    cycle: tuple[CycleEdge, ...]
    also_limited_by: tuple[str, ...]
    bounded_by: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """A registered pack without its document."""

    id: str
    version: str
    digest: str
    name: str
    description: str
    is_default: bool
    registered_at: datetime
    size_bytes: int
    entry: str
    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackReport:
    """The result of a validation; `ok`: a registration would accept the document."""

    ok: bool
    digest: str
    id: str
    version: str
    diagnostics: tuple[Diagnostic, ...]
    termination: Termination | None
    agent_terminations: tuple[Termination, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredPack:
    """A registered pack with its warnings; `duplicate`: it was registered before."""

    pack: Pack
    diagnostics: tuple[Diagnostic, ...]
    termination: Termination | None
    agent_terminations: tuple[Termination, ...]
    duplicate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PackTool:
    """A tool or an agent of a pack, with the pack's settings for its calls, defaults applied.

    Turns of `prompts` may call it. `approve` is "never", "always" or a condition (CEL);
    `approval_timeout` is None if no call is held. `dedupe` are JSON pointers into the payload. 0
    means no bound in `max_calls`, and no declared cost in `cost_micro_usd`. `mcp_digest` is empty
    if the pack does not pin the tool of an MCP server.
    """

    name: str
    agent: bool
    description: str
    prompts: tuple[str, ...]
    approve: str
    approval_timeout: timedelta | None
    on_timeout: str
    not_starter: bool
    dedupe: tuple[str, ...]
    max_calls: int
    cost_micro_usd: int
    timeout: timedelta
    attempts: int
    on_error: str
    on_unknown: str
    reconcile: str
    compensate: str
    result_artifact: str
    sensitive: bool
    mcp_digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PackDetails:
    """A registered pack; `content` is empty unless requested."""

    pack: Pack
    content: bytes
    diagnostics: tuple[Diagnostic, ...]
    termination: Termination | None
    agent_terminations: tuple[Termination, ...]
    tools: tuple[PackTool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """One state of a compiled graph; `max_visits` 0 means no guard.

    `tools` are those that its prompt lists and does not block, agents included. `skills` filters
    the pack's skills, empty: all.
    """

    name: str
    prompt: str
    description: str
    entry: bool
    terminal: bool
    max_visits: int
    on_max_visits: str
    orchestration: Orchestration
    persistent: bool
    artifacts: tuple[str, ...]
    tools: tuple[str, ...]
    skills: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphEdge:
    """One edge of a compiled graph; `max_iterations` 0 means no bound."""

    from_state: str
    event: str
    to_state: str
    kind: EdgeKind
    max_iterations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PackGraph:
    """States and edges of one entry of a pack, also as Mermaid and DOT text."""

    pack: PackRef
    entry: str
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    mermaid: str
    dot: str

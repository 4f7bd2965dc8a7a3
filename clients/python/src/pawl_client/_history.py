"""Results of verifying, comparing, deleting and erasing runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from pawl_client._enums import ChangeKind, RunStatus
from pawl_client._runs import Erasure, PackRef
from pawl_client._values import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPoint:
    """A run at a record; `messages` counts those of its conversations."""

    run_id: str
    seq: int
    pack: PackRef
    state: str
    status: RunStatus
    reason: str
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PathStep:
    """One state of a run's path, and the event that led to it (empty: the entry)."""

    seq: int
    event: str
    state: str
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CountChange:
    """A count that differs: of a state, of an edge ("state.Event"), or of a budget."""

    name: str
    base: int
    other: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueChange:
    """One difference between two JSON documents, at a JSON pointer (RFC 6901)."""

    path: str
    kind: ChangeKind
    base: Json
    other: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactChange:
    """An artifact that differs.

    `json` holds the differences of a JSON artifact, `text` a unified diff of a text artifact.
    `truncated`: there are more differences.
    """

    name: str
    kind: ChangeKind
    media_type: str
    base_bytes: int
    other_bytes: int
    json: tuple[ValueChange, ...]
    text: str
    truncated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDiff:
    """The differences between two points of a run, or of two runs.

    Both paths begin with the same `common_path` states; `base_path` and `other_path` are what
    follows. `truncated`: one path is longer than what was returned.
    """

    base: RunPoint
    other: RunPoint
    common_path: int
    base_path: tuple[PathStep, ...]
    other_path: tuple[PathStep, ...]
    visits: tuple[CountChange, ...]
    edges: tuple[CountChange, ...]
    budgets: tuple[CountChange, ...]
    artifacts: tuple[ArtifactChange, ...]
    variables: tuple[ValueChange, ...]
    truncated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result of verifying a run's journal: the number of its `entries` and `records`, and its
    `hash`.

    Unless `ok`, `bad_seq` is the first bad record and `detail` describes the fault. `erased`: the
    values of the run were erased, so only its hash chain was verified.
    """

    ok: bool
    entries: int
    records: int
    hash: bytes = field(repr=False)
    bad_seq: int
    detail: str
    erased: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """What the store keeps of a deleted run.

    `rule` is the retention rule that deleted it, "" if a caller did. `duplicate`: it was deleted
    before.
    """

    deleted_at: datetime
    deleted_by: str
    rule: str
    status: RunStatus
    records: int
    hash: bytes = field(repr=False)
    duplicate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """What remains of a run whose values were erased: its status, its `records` and its last
    `hash`.

    They are unchanged by the erasure. `duplicate`: it was erased before.
    """

    erasure: Erasure
    status: RunStatus
    records: int
    hash: bytes = field(repr=False)
    duplicate: bool

"""What is proven and compared of the histories of runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from pawl_client._enums import ChangeKind, RunStatus
from pawl_client._runs import Erasure, PackRef
from pawl_client._values import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPoint:
    """A run at a record; `messages` are those of its conversations."""

    run_id: str
    seq: int
    pack: PackRef
    state: str
    status: RunStatus
    reason: str
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PathStep:
    """One state on the way of a run, and the event that led there (empty: the entry)."""

    seq: int
    event: str
    state: str
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CountChange:
    """A figure that differs: of a state, of an edge ("state.Event"), or of a budget."""

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

    `json` are the differences of a JSON artifact, `text` those of a text artifact as a
    unified diff; `truncated`: there are more than were told.
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
    """What differs between two points of a run, or of two runs.

    Both ways begin with `common_path` states; `base_path` and `other_path` are what
    follows. `truncated`: one of them was longer than what was told.
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
    """What was proven of a run's journal: so many `entries` and `records`, up to `hash`.

    Unless `ok`, `bad_seq` is the first bad record and `detail` what is wrong with it.
    `erased`: the values of the run were erased, and its chain alone was proven.
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
    """What is kept of a run that was deleted.

    `rule` is the rule of retention that chose it, "" if a caller did. `duplicate`: it was
    deleted before.
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
    """What is left of a run whose values were erased: how it had ended, its `records` and
    the `hash` of the last, as it was before. `duplicate`: it was erased before."""

    erasure: Erasure
    status: RunStatus
    records: int
    hash: bytes = field(repr=False)
    duplicate: bool

"""What a stream of records asks for, and how its items are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pawl import _requests as wire
from pawl._convert import from_proto, record_from_proto
from pawl._errors import PawlError, StreamGapError
from pawl._flow import Backoff, repeatable
from pawl._position import Position
from pawl._records import Record
from pawl._runs import RunFilter, Snapshot
from pawl.v1 import run_pb2

STREAM = "/pawl.v1.RunService/StreamTransitions"
"""Path of the streaming call."""


@dataclass(slots=True, kw_only=True)
class Tail:
    """One reader of records: what it asks for and where it stands.

    It decides what to do with each item and each error; the iterators of the clients
    only move bytes.
    """

    namespace: str
    position: Position
    runs: RunFilter | None = None
    kinds: Sequence[str] = ()
    follow: bool = True
    snapshots: bool = False
    reconnect_for: float = 60.0
    backoff: Backoff = field(default_factory=Backoff)
    _waited: float = 0.0
    _gaps: int = 0

    def request(self) -> run_pb2.StreamTransitionsRequest:
        """The request for all that was not yet read."""
        whole = not self.position.run_id
        return run_pb2.StreamTransitionsRequest(
            namespace=self.namespace,
            run_id=self.position.run_id,
            filter=wire.run_filter(self.runs),
            kinds=[wire.number("RecordKind", str(kind)) for kind in self.kinds],  # type: ignore[misc]
            after_seq=0 if whole else self.position.after_seq,
            after_cursor=self.position.cursor if whole else "",
            follow=self.follow,
            snapshots=self.snapshots,
        )

    def read(self, item: run_pb2.StreamTransitionsResponse) -> Record | None:
        """The record of an item, or None if it holds none that is new."""
        if item.WhichOneof("item") == "heartbeat":
            self.position.heartbeat(item.heartbeat.cursor)
            self._progress()
            return None
        if item.WhichOneof("item") != "record":
            return None
        record = record_from_proto(item.record, self._snapshot(item))
        if not self.position.accept(record):
            return None
        self._progress()
        return record

    def pause(self, error: PawlError) -> float:
        """Seconds to wait before the next connection; raises `error` if it is final."""
        if isinstance(error, StreamGapError):
            # Read again from the last good record, once; then it is the journal's.
            self._gaps += 1
            if self._gaps > 1:
                raise error
            return 0.0
        if not repeatable(error) or self._waited >= self.reconnect_for:
            raise error
        pause = max(self.backoff.next(), error.retry_after or 0.0)
        self._waited += pause
        return pause

    def _progress(self) -> None:
        self.backoff.reset()
        self._waited, self._gaps = 0.0, 0

    def _snapshot(self, item: run_pb2.StreamTransitionsResponse) -> Snapshot | None:
        if not item.HasField("snapshot"):
            return None
        return Snapshot(
            run=from_proto(item.snapshot.run),
            artifacts=tuple(from_proto(a) for a in item.snapshot.artifacts),
        )

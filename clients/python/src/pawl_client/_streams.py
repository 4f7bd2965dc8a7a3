"""Reads streams, and reconnects after lost connections."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from google.protobuf.message import Message

from pawl_client import _requests as wire
from pawl_client._advice import repeatable
from pawl_client._convert import record_from_proto
from pawl_client._errors import PawlError, StreamGapError
from pawl_client._flow import Backoff
from pawl_client._outcomes import snapshot
from pawl_client._records import Record
from pawl_client._runs import RunFilter
from pawl_client.v1 import run_pb2


@dataclass(slots=True)
class StreamPosition:
    """The position in a stream of records, of one run or of all.

    After each accepted record, `after_seq` (one run) or `cursor` (all runs) is where a reconnect
    continues. Pure: it does not read the stream itself.
    """

    run_id: str
    after_seq: int = 0
    cursor: str = ""
    _seen: dict[str, int] = field(default_factory=dict)
    ended: bool = False

    def accept(self, record: Record) -> bool:
        """Whether the record is new. Raises StreamGapError if a record before it is missing.

        A record that was accepted before is skipped, without an error.
        """
        last = self._seen.get(record.run_id)
        if last is None:
            # The first record of its run: earlier records were not requested.
            if self.run_id and record.prev_seq > self.after_seq:
                raise self._gap(record, self.after_seq)
            if self.run_id and record.seq <= self.after_seq:
                return False
        elif record.seq <= last:
            return False
        elif record.prev_seq != last:
            raise self._gap(record, last)
        self._seen[record.run_id] = record.seq
        self.cursor = record.cursor
        self.ended = record.kind == "ENDED"
        if self.run_id:
            self.after_seq = record.seq
        else:
            self._forget(record)
        return True

    def heartbeat(self, cursor: str) -> None:
        """Moves to the position up to which the server has searched."""
        if not self.run_id:
            self.cursor = cursor

    def _forget(self, record: Record) -> None:
        # An ended run has no further record. Without this, memory grows without a bound.
        if self.ended:
            self._seen.pop(record.run_id, None)

    def _gap(self, record: Record, last: int) -> StreamGapError:
        return StreamGapError(
            f"run {record.run_id}: record {record.seq} follows {record.prev_seq}, "
            f"but the last one read was {last}"
        )


T = TypeVar("T")
TRANSITIONS = "/pawl.v1.RunService/StreamTransitions"
"""Path of the call that streams records and output."""

RECONNECT_FOR = 60.0
"""Seconds after which a reader gives up a lost stream, by default."""


@dataclass(slots=True, kw_only=True)
class Reader(ABC, Generic[T]):
    """A reader of one stream: its next request and its position.

    It decides what each item and each error means; the clients only transport messages.
    """

    path: ClassVar[str]
    response: ClassVar[type[Message]]
    namespace: str
    reconnect_for: float = RECONNECT_FOR
    backoff: Backoff = field(default_factory=Backoff)
    _waited: float = 0.0
    _gaps: int = 0

    @abstractmethod
    def request(self) -> Message:
        """Returns the request for everything after the current position."""

    @abstractmethod
    def read(self, item: Any) -> T | None:
        """Returns the value of an item, or None if it has no new value."""

    def reading(self, call: Any) -> None:
        """Called with each stream that is opened for it."""

    def over(self) -> bool:
        """Whether the reader needs no further item."""
        return False

    def end(self) -> None:
        """Called when the server ended the stream. Raises an error if the stream is incomplete."""

    def pause(self, error: PawlError) -> float:
        """Returns the seconds before the next connection. Raises `error` if it is final."""
        if isinstance(error, StreamGapError):
            # Read again from the last good item, once. A second gap is the server's fault.
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


@dataclass(slots=True, kw_only=True)
class Tail(Reader[Record]):
    """A reader of records."""

    path = TRANSITIONS
    response = run_pb2.StreamTransitionsResponse
    position: StreamPosition
    runs: RunFilter | None = None
    kinds: Sequence[str] = ()
    follow: bool = True
    snapshots: bool = False
    from_now: bool = False

    def request(self) -> run_pb2.StreamTransitionsRequest:
        """See `Reader.request`."""
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
            from_now=self.from_now and not (self.position.after_seq or self.position.cursor),
        )

    def read(self, item: run_pb2.StreamTransitionsResponse) -> Record | None:
        """See `Reader.read`."""
        if item.WhichOneof("item") == "heartbeat":
            self.position.heartbeat(item.heartbeat.cursor)
            self._progress()
            return None
        if item.WhichOneof("item") != "record":
            return None
        record = record_from_proto(
            item.record, snapshot(item.snapshot) if item.HasField("snapshot") else None
        )
        if not self.position.accept(record):
            return None
        self._progress()
        return record

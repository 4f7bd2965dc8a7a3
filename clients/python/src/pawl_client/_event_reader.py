"""Reads the events of one run, and reconnects after lost connections."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pawl_client import _requests as wire
from pawl_client._convert import enum_of, from_proto, record_from_proto
from pawl_client._enums import RecordKind
from pawl_client._event_source import EventSource
from pawl_client._events import Event
from pawl_client._streams import RECONNECT_FOR, TRANSITIONS, Reader, StreamPosition
from pawl_client.v1 import run_pb2

_KINDS = [
    wire.number("RecordKind", kind.name)
    for kind in RecordKind
    if kind is not RecordKind.UNSPECIFIED
]


@dataclass(slots=True, kw_only=True)
class EventReader(Reader["tuple[Event, ...]"]):
    """A reader of the events of one run.

    It holds one item of the stream; the sender waits while the program processes it.
    """

    path = TRANSITIONS
    response = run_pb2.StreamTransitionsResponse
    source: EventSource
    follow: bool = True
    position: StreamPosition = field(init=False)
    until: int | None = None
    """The reader stops after this record. None means that it has no last record."""
    _call: Any = None
    _caught_up: bool = False

    def __post_init__(self) -> None:
        self.position = StreamPosition(self.source.run_id, self.source.after_seq)

    def request(self) -> run_pb2.StreamTransitionsRequest:
        """See `Reader.request`."""
        position = self.source.output_position
        return run_pb2.StreamTransitionsRequest(
            namespace=self.namespace,
            run_id=self.source.run_id,
            kinds=_KINDS,  # type: ignore[arg-type]
            after_seq=self.position.after_seq,
            follow=self.follow,
            statuses=True,
            output=self.follow,
            output_after=run_pb2.OutputPosition(
                turn_seq=position.turn_seq, delivery=position.delivery, offset=position.offset
            ),
        )

    def read(self, item: run_pb2.StreamTransitionsResponse) -> tuple[Event, ...] | None:
        """See `Reader.read`. Raises StreamGapError."""
        kind = item.WhichOneof("item")
        self._caught_up = kind == "heartbeat"
        if kind == "record":
            record = record_from_proto(item.record)
            if not self.position.accept(record):
                return None
            self._progress()
            return self.source.record(record, enum_of("pawl.v1.RunStatus", item.status))
        if kind == "output":
            events = self.source.chunk(from_proto(item.output))
            self._progress()
            return events
        self._progress()
        return None

    def reading(self, call: Any) -> None:
        """See `Reader.reading`."""
        self._call = call
        if self.over():
            call.cancel()

    def over(self) -> bool:
        """See `Reader.over`."""
        return self.until is not None and (self._caught_up or self.position.after_seq >= self.until)

    def end_at(self, until: int) -> None:
        """Lets the reader end after a record.

        The run no longer waits for the sidecar, so its events do not wait without a limit.
        """
        self.until, self.reconnect_for = until, min(self.reconnect_for, RECONNECT_FOR)

    def finish(self, until: int) -> None:
        """As `end_at`, and ends the call if there is nothing to read.

        Safe to call from any thread.
        """
        self.end_at(until)
        if self.over() and self._call is not None:
            self._call.cancel()

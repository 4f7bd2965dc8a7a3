"""The output of turns that are under way, piece by piece."""

from __future__ import annotations

from dataclasses import dataclass, field

from pawl import _requests as wire
from pawl._convert import from_proto
from pawl._errors import StreamGapError
from pawl._runs import OutputChunk, OutputPosition
from pawl._streams import TRANSITIONS, Reader
from pawl.v1 import run_pb2


@dataclass(slots=True, kw_only=True)
class OutputReader(Reader[OutputChunk]):
    """A reader of the output of one run."""

    path = TRANSITIONS
    response = run_pb2.StreamTransitionsResponse
    run_id: str
    after: OutputPosition = field(default_factory=OutputPosition)

    def request(self) -> run_pb2.StreamTransitionsRequest:
        """See `Reader.request`."""
        return run_pb2.StreamTransitionsRequest(
            namespace=self.namespace,
            run_id=self.run_id,
            kinds=[wire.number("RecordKind", "ENDED")],  # type: ignore[list-item]
            follow=True,
            output=True,
            output_after=run_pb2.OutputPosition(
                turn_seq=self.after.turn_seq,
                delivery=self.after.delivery,
                offset=self.after.offset,
            ),
        )

    def read(self, item: run_pb2.StreamTransitionsResponse) -> OutputChunk | None:
        """See `Reader.read`. Raises StreamGapError if a piece before it is missing."""
        if item.WhichOneof("item") != "output":
            self._progress()
            return None
        chunk: OutputChunk = from_proto(item.output)
        if not chunk.reset and self._is_old(chunk):
            return None
        self._progress()
        self.after = chunk.position
        return chunk

    def _is_old(self, chunk: OutputChunk) -> bool:
        """Whether the piece was read before; raises if one before it was left out."""
        after = self.after
        same = (chunk.turn_seq, chunk.delivery) == (after.turn_seq, after.delivery)
        if same and chunk.offset > after.offset:
            raise StreamGapError(
                f"run {self.run_id}: output of turn {chunk.turn_seq} goes on at byte"
                f" {chunk.offset}, but the last one read was {after.offset}"
            )
        return same and chunk.position.offset <= after.offset

"""Where a reader of a stream stands, and the proof that nothing was left out."""

from __future__ import annotations

from dataclasses import dataclass, field

from pawl_client._errors import StreamGapError
from pawl_client._records import Record


@dataclass(slots=True)
class Position:
    """The position of one stream of records, of one run or of all.

    After each accepted record, `after_seq` (one run) or `cursor` (all runs) is what a
    reconnect has to ask for. Pure: it does not read anything itself.
    """

    run_id: str
    after_seq: int = 0
    cursor: str = ""
    _seen: dict[str, int] = field(default_factory=dict)
    ended: bool = False

    def accept(self, record: Record) -> bool:
        """Whether the record is new. Raises StreamGapError if one before it is missing.

        A record that was accepted before is no error: it is skipped.
        """
        last = self._seen.get(record.run_id)
        if last is None:
            # The first one of its run: what is before it was not asked for.
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
        """Takes over how far the server has looked."""
        if not self.run_id:
            self.cursor = cursor

    def _forget(self, record: Record) -> None:
        # An ended run has no further record; without this, memory grows for ever.
        if self.ended:
            self._seen.pop(record.run_id, None)

    def _gap(self, record: Record, last: int) -> StreamGapError:
        return StreamGapError(
            f"run {record.run_id}: record {record.seq} follows {record.prev_seq}, "
            f"but the last one read was {last}"
        )

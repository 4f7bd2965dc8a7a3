"""The journals of sidecars that may be killed, read together as they grow."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from types import TracebackType

from pawl_client import PawlError, Record
from pawl_client.testing import Sidecar

# Neither a restart nor repeated work makes more or fewer of these.
KINDS = ("TRANSITION", "TURN_COMPLETED", "STEP_REQUESTED", "ENDED")
SILENCE_SECONDS = 60.0


class Journal:
    """Reads one sidecar's, in a thread of its own, until the sidecar is gone."""

    def __init__(self, sidecar: Sidecar, records: queue.Queue[Record]) -> None:
        self._sidecar, self._records, self._cursor = sidecar, records, ""
        self.read()

    def read(self) -> None:
        """Begins behind the last record that was read."""
        self._client = self._sidecar.client()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with contextlib.suppress(PawlError):
            for record in self._client.transitions(
                kinds=KINDS, after_cursor=self._cursor, reconnect_for=0
            ):
                self._cursor = record.cursor
                self._records.put(record)

    def close(self) -> None:
        """Call it when the sidecar is gone, or nobody waits for its records any more."""
        self._client.close()
        self._thread.join(SILENCE_SECONDS)


class Journals:
    """The records of several sidecars in the order in which they come."""

    def __init__(self, *sidecars: Sidecar) -> None:
        self._sidecars = sidecars
        self._records: queue.Queue[Record] = queue.Queue()

    def __enter__(self) -> Journals:
        self._each = {sidecar: Journal(sidecar, self._records) for sidecar in self._sidecars}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for journal in self._each.values():
            journal.close()

    def restart(self, sidecar: Sidecar) -> None:
        """Kills a sidecar, starts it again, and goes on reading at once."""
        sidecar.kill()
        self._each[sidecar].close()
        sidecar.start()
        self._each[sidecar].read()

    def __iter__(self) -> Iterator[Record]:
        """Raises TimeoutError after SILENCE_SECONDS without a record."""
        while True:
            try:
                yield self._records.get(timeout=SILENCE_SECONDS)
            except queue.Empty:
                raise TimeoutError(f"no record for {SILENCE_SECONDS} s") from None

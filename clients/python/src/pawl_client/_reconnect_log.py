"""Decides when a worker logs that it cannot reach its sidecar.

It logs each new cause at once, and then repeats with growing pauses.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_FIRST = 10.0
_LONGEST = 300.0
"""Seconds between two lines: the first and the longest pause."""


class ReconnectLog:
    """The time since a connection was lost or first tried. `clock` is in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.connected()

    def connected(self) -> None:
        """Marks the connection as established."""
        self._since: float | None = None
        self._next, self._pause = 0.0, _FIRST
        self._causes: set[str] = set()

    def attempt_failed(self, cause: str = "") -> float | None:
        """Counts a failed attempt with a one-word cause.

        Returns the seconds without a connection if a line is due now, else None.
        """
        now = self._clock()
        if self._since is None:
            self._since = self._next = now
        known = cause in self._causes
        self._causes.add(cause)
        if now < self._next:
            return None if known else now - self._since
        self._next = now + self._pause
        self._pause = min(self._pause * 2, _LONGEST)
        return now - self._since

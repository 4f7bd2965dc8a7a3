"""Buffers the output of a turn for its readers."""

from __future__ import annotations

import bisect
from dataclasses import dataclass

_CHUNK_BYTES = 64 * 1024
"""Most bytes of UTF-8 in one message of the contract."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece to send. `reset`: readers discard what was shown before."""

    offset: int
    text: str
    reasoning: bool
    reset: bool
    end: int


class OutputBuffer:
    """The text of one turn in order: reasoning and output.

    All of it is kept until the turn is over. A restarted sidecar has lost it, and gets it again
    from the offset that it names.
    """

    def __init__(self) -> None:
        self._text = bytearray()
        self._kinds: list[tuple[int, bool]] = []
        """Where text of the other kind begins, and whether it is reasoning."""
        self._sent = 0
        self._reset = False

    def add(self, text: str, *, reasoning: bool) -> None:
        """Adds text."""
        if text and (not self._kinds or self._kinds[-1][1] is not reasoning):
            self._kinds.append((len(self._text), reasoning))
        self._text += text.encode(errors="replace")

    def retract(self, size: int) -> None:
        """Removes the last `size` bytes. The rest is sent again."""
        del self._text[max(len(self._text) - size, 0) :]
        self._kinds = [kind for kind in self._kinds if kind[0] < len(self._text)]
        self._sent, self._reset = 0, True

    def next(self) -> Piece | None:
        """Returns the next piece to send. None means that all are sent."""
        start = self._sent
        if start >= len(self._text) and not self._reset:
            return None
        place = bisect.bisect_right(self._kinds, (start, True)) - 1
        reasoning = place >= 0 and self._kinds[place][1]
        end = min(start + _CHUNK_BYTES, len(self._text))
        if place + 1 < len(self._kinds):
            end = min(end, self._kinds[place + 1][0])
        # A character at the end that is incomplete is left for the next piece.
        text = self._text[start:end].decode(errors="ignore")
        return Piece(start, text, reasoning, self._reset, start + len(text.encode()))

    def mark_sent(self, piece: Piece) -> None:
        """Marks a piece as received by the sidecar."""
        self._sent, self._reset = piece.end, False

    def resend_from(self, offset: int) -> None:
        """Sends again from this byte on."""
        self._sent = offset

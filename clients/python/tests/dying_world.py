"""The world outside of an agent that a test kills: a ledger that removes no duplicates, and the
points at which the program dies.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

POINTS = (
    "before the call",
    "in the effect",
    "after the effect",
    "before the answer's record",
    "after the last answer",
)


class World:
    """The world outside, and the points at which the program dies, each once."""

    def __init__(self, directory: Path, point: str, victims: list[int]) -> None:
        self._directory, self._point, self._victims = directory, point, victims

    def note(self, **line: Any) -> None:
        """Writes a line to the ledger."""
        with (self._directory / "ledger").open("a") as file:
            file.write(json.dumps(line) + "\n")

    def lines(self) -> list[dict[str, Any]]:
        """What was written by all processes."""
        return [json.loads(line) for line in (self._directory / "ledger").read_text().splitlines()]

    def reach(self, point: str) -> None:
        """Kills the victims if this is the point, and no process was killed there before."""
        if point != self._point:
            return
        try:
            (self._directory / "died").touch(exist_ok=False)
        except FileExistsError:
            return
        for victim in self._victims:
            os.kill(victim, signal.SIGKILL)


def request_id(directory: Path, point: str, repeat: str) -> str:
    """The id of the run of a directory."""
    return f"{directory.name} {point} {repeat}".replace(" ", "-")

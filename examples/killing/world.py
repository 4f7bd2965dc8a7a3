"""What is outside of an agent that dies, as lines of files."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path


class World:
    """A model, a bank, and the points at which the agent dies."""

    def __init__(self, directory: Path, points: Sequence[str] = ()) -> None:
        self.directory, self.points = directory, points

    def write(self, name: str, line: str) -> None:
        """Appends a line to a file."""
        with (self.directory / name).open("a") as file:
            file.write(line + "\n")

    def lines(self, name: str) -> list[str]:
        """The lines of a file."""
        file = self.directory / name
        return file.read_text().splitlines() if file.exists() else []

    def reach(self, number: int) -> None:
        """Kills this process if no process was killed at this point before."""
        if self.points[number] not in self.lines("killed"):
            self.write("killed", self.points[number])
            os.kill(os.getpid(), signal.SIGKILL)

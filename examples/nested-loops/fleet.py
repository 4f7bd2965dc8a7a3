"""Two sidecars, a worker of each, and a way to kill any of them.

Sidecar A has the audit and is told where the investigator lives; B has the investigator.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from pawl_client.testing import Sidecar

HERE = Path(__file__).resolve().parent
CARD = "http://{}/a2a/security-investigation/investigator/.well-known/agent-card.json"
# Where A would be found by others; B notes it with the runs that A delegates to it.
URL_OF_A = "http://audit.example"
# How long a tool call waits for a worker that was lost, before it is made again.
GRACE = ("--step-grace=1s", "--restart-grace=3s")
GRACE_SECONDS = 20.0


class WorkerProcess:
    """A worker: a program that prints a line for each turn that it executed."""

    def __init__(self, sidecar: Sidecar, *command: str) -> None:
        self._sidecar, self._command = sidecar, command
        self._log = sidecar.path / "turns.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the program; what it prints is kept over its lives."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([*self._command, self._sidecar.address], stdout=log)

    def kill(self) -> None:
        """Kills it in the midst of whatever it does (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(GRACE_SECONDS)

    def restart(self) -> None:
        """Kills it and starts it again."""
        self.kill()
        self.start()

    def executed(self) -> list[str]:
        """A line "RUN STATE VISIT" for each turn that a handler went through."""
        return self._log.read_text().splitlines()


class Fleet:
    """All of it, as long as the block."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> Fleet:
        with ExitStack() as stack:
            self.b = Sidecar(
                packs=[HERE / "investigation.pack.yaml"],
                allow_tools=["search", "analyst"],
                flags=GRACE,
                http=True,
            )
            stack.enter_context(self.b)
            self.card = CARD.format(self.b.http)
            self.a = Sidecar(
                packs=[HERE / "audit.pack.yaml"],
                # What A does not admit, no agent that it asks may use: the lists are intersected.
                allow_tools=["investigator", "search", "analyst"],
                flags=[*GRACE, f"--agent=investigator={self.card}", f"--a2a-url={URL_OF_A}"],
            )
            stack.enter_context(self.a)
            self.auditor = WorkerProcess(self.a, sys.executable, str(HERE / "triage.py"))
            self.investigator = WorkerProcess(self.b, "node", str(HERE / "investigate.js"))
            for worker in (self.auditor, self.investigator):
                stack.callback(worker.kill)
                worker.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def victims(self) -> dict[str, Sidecar | WorkerProcess]:
        """What may be killed, by name."""
        return {
            "sidecar A": self.a,
            "sidecar B": self.b,
            "worker A": self.auditor,
            "worker B": self.investigator,
        }

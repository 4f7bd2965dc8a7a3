"""Helpers for tests of programs that use Pawl: a real sidecar and a scripted model.

with Sidecar(packs=["my.pack.json"], allow_tools=["*"]) as sidecar:
    with sidecar.client() as client:
        result = client.run("my-pack", Script({"work": [Reply(event="Done")]}))
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

from pawl_client._async_client import AsyncClient
from pawl_client._binary import sidecar_path
from pawl_client._client import Client
from pawl_client._errors import SidecarError
from pawl_client._outcomes import Reply
from pawl_client._settings import NO_TLS
from pawl_client._turn_view import TurnView

__all__ = ["Answer", "Script", "Sidecar"]

_STARTUP_SECONDS = 30.0


class Sidecar:
    """Runs a sidecar process for a test, in a temporary directory and on a free loopback port.

    `packs` are files to register, `allow_tools` is the allowlist (default: no tool), `flags` are
    further flags of `pawl serve`, and `binary` is the program (default: `sidecar_path()`). With
    `http` it also has an HTTP port, for agent cards and the gateway. A killed sidecar may be
    started again: it keeps its directory and its ports. It ignores the variables PAWL_* of the
    environment, and ends with the program that started it. Use it in a `with` statement.
    """

    def __init__(
        self,
        *,
        packs: Sequence[Path | str] = (),
        allow_tools: Sequence[str] = (),
        flags: Sequence[str] = (),
        binary: str = "",
        http: bool = False,
    ) -> None:
        self._binary = binary or sidecar_path()
        self._flags = [
            *(f"--pack={pack}" for pack in packs),
            *(f"--allow-tool={tool}" for tool in allow_tools),
            *flags,
        ]
        self._directory = tempfile.TemporaryDirectory(prefix="pawl-")
        self.path = Path(self._directory.name)
        """The directory: data/, sidecar.log, and files of the test."""
        self.address = "127.0.0.1:0"
        self.http = "127.0.0.1:0" if http else ""
        """HOST:PORT of the HTTP port; empty without one."""
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Sidecar:
        try:
            self.start()
        except BaseException:
            self._directory.cleanup()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self._directory.cleanup()

    def start(self) -> None:
        """Starts the process and waits until it serves. Raises SidecarError."""
        command = [
            self._binary,
            "serve",
            "--exit-with-stdin",
            f"--data={self.path / 'data'}",
            f"--listen={self.address}",
            *([f"--http={self.http}"] if self.http else []),
            *self._flags,
        ]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PAWL_")}
        with (self.path / "sidecar.log").open("a") as log:
            self._process = subprocess.Popen(  # noqa: S603
                command,
                stdin=subprocess.PIPE,  # It ends with this process, and the sidecar with it.
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
            )
        # The timer kills a process that neither serves nor ends, which ends the readline.
        timer = threading.Timer(_STARTUP_SECONDS, self._process.kill)
        timer.start()
        try:
            line = self._process.stdout.readline() if self._process.stdout else ""
        finally:
            timer.cancel()
        if not line:
            self.kill()
            raise SidecarError(f"the sidecar did not start:\n{self.log()}")
        ready: dict[str, Any] = json.loads(line)
        self.address, self.http = ready["grpc"], ready.get("http", "")

    def log(self) -> str:
        """Returns the log of the process so far."""
        return (self.path / "sidecar.log").read_text(errors="replace")

    def kill(self) -> None:
        """Kills the process at once (SIGKILL)."""
        self._end(subprocess.Popen.kill)

    def stop(self) -> int:
        """Stops the process after its calls have finished (SIGTERM) and returns its exit code."""
        return self._end(subprocess.Popen.terminate)

    def restart(self) -> None:
        """Kills the process and starts it again on the same data and port."""
        self.kill()
        self.start()

    def _end(self, how: Callable[[subprocess.Popen[str]], None]) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        how(process)
        code = process.wait(timeout=_STARTUP_SECONDS)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        return code

    def client(self, **settings: Any) -> Client:
        """Returns a client of this sidecar. `settings` are those of `Client`."""
        return Client(address=self.address, **{"tls": NO_TLS, **settings})

    def async_client(self, **settings: Any) -> AsyncClient:
        """Returns an asynchronous client of this sidecar. `settings` are those of `AsyncClient`."""
        return AsyncClient(address=self.address, **{"tls": NO_TLS, **settings})


Answer: TypeAlias = "Reply | Exception | None"


class Script:
    """A scripted model: for each state (or prompt), the answers of its turns in order.

    An answer is a Reply, None, or an exception, which is raised. The last answer of a state repeats
    for every further turn. `turns` holds the turns that the script received.

    >>> Script({}).turns
    []
    """

    def __init__(self, answers: Mapping[str, Sequence[Answer]]) -> None:
        self._answers = {name: list(given) for name, given in answers.items()}
        self.turns: list[TurnView] = []

    def __call__(self, turn: TurnView) -> Reply | None:
        """Returns the answer to a turn. Raises KeyError for a state that is not in the script."""
        self.turns.append(turn)
        name = turn.state if turn.state in self._answers else turn.prompt
        given = self._answers[name]
        answer = given.pop(0) if len(given) > 1 else given[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

"""Kills the agent of a library, its sidecar or both, and checks what the world outside saw.

`make kill-agents` kills at each point PAWL_AGENT_KILLS times; `make test` kills once at a few
points.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dying_world import World
from pawl_client import RunFilter
from pawl_client.testing import Sidecar

HERE = Path(__file__).parent
FLAGS = ["--step-grace=1s", "--restart-grace=1s"]
KILLS = int(os.environ.get("PAWL_AGENT_KILLS", "0"))
VICTIMS = ("app", "sidecar", "both")


def cases(points: Sequence[str], few: Sequence[tuple[str, str]]) -> pytest.MarkDecorator:
    """Parametrises a test with a point and the victims: all of them, or a few without KILLS."""
    every = [(point, victims) for point in points for victims in VICTIMS]
    return pytest.mark.parametrize(("point", "victims"), every if KILLS else few)


class Watch:
    """Starts the sidecar again when it was killed."""

    def __init__(self, sidecar: Sidecar) -> None:
        self._sidecar, self._over = sidecar, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        assert self._sidecar._process is not None
        return self._sidecar._process.pid

    def _watch(self) -> None:
        while not self._over.wait(0.02):
            process = self._sidecar._process
            if process is not None and process.poll() is not None:
                self._sidecar.restart()

    def end(self) -> None:
        self._over.set()
        self._thread.join()


def execute(
    program: str, sidecar: Sidecar, directory: Path, point: str, repeat: str, *victims: str
) -> str:
    """The output of the program, which is started again as often as it is killed."""
    arguments = [sidecar.address, str(directory), point, repeat, *victims]
    command = [sys.executable, str(HERE / program), *arguments]
    for _ in range(3):
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode >= 0:
            assert done.returncode == 0, done.stderr
            return done.stdout.strip()
    raise AssertionError("the program was killed more than once")


def kill(
    program: str, pack: str, point: str, victims: str, directory: Path, repeat: str = "repeat"
) -> None:
    """Kills at the point as often as KILLS says, and once without it. `repeat` is for the program:
    which of its tools may be called again.
    """
    with Sidecar(allow_tools=["*"], flags=FLAGS) as sidecar:
        for number in range(KILLS or 1):
            world = directory / str(number)
            world.mkdir()
            watch = Watch(sidecar)
            pids = {"app": ["me"], "sidecar": [str(watch.pid)], "both": [str(watch.pid), "me"]}
            try:
                first = execute(program, sidecar, world, point, repeat, *pids[victims])
                again = execute(program, sidecar, world, point, repeat, *pids[victims])
            finally:
                watch.end()
            assert (first, again) == ("Thank you for 2 answers.", "Thank you for 2 answers.")
            assert (world / "died").exists()
            check(World(world, "", []).lines(), point, killed_app=victims != "sidecar")
        with sidecar.client() as client:
            runs = list(client.list_runs(RunFilter(pack=pack)))
        assert [(run.status, run.tool_calls) for run in runs] == [("COMPLETED", 2)] * (KILLS or 1)


def counted(lines: list[dict[str, Any]], name: str) -> Counter[Any]:
    """How often the ledger has each value of a name."""
    return Counter(line[name] for line in lines if name in line)


def check(lines: list[dict[str, Any]], point: str, *, killed_app: bool) -> None:
    """What the world saw: twice only what was not recorded when the app died."""
    asked, charged = counted(lines, "asked"), counted(lines, "charged")
    unrecorded = {
        "before the answer's record": 1,
        "in the stream": 1,
        "in the last stream": 2,
        "after the last answer": 2,
    }.get(point)
    for answers in range(3):
        assert asked[answers] == (2 if killed_app and answers == unrecorded else 1), asked
    assert counted(lines, "looked") == {"17": 1}
    assert len(charged) == 1, "one key"
    (times,) = charged.values()
    # The tool takes the key, so the service that it changes sees one effect.
    assert times == (2 if killed_app and point == "after the effect" else 1)


def escalate(program: str, point: str, directory: Path) -> None:
    """Kills the app in a tool that may not be repeated: the run ends with the fact."""
    with Sidecar(allow_tools=["*"], flags=FLAGS) as sidecar:
        first = execute(program, sidecar, directory, point, "once", "me")
        again = execute(program, sidecar, directory, point, "once", "me")
    assert first == again == "ESCALATED tool_error:charge"
    lines = World(directory, "", []).lines()
    assert counted(lines, "charged").total() == (1 if point == "after the effect" else 0)
    assert counted(lines, "asked") == {0: 1, 1: 1}

"""An agent of pydantic-ai under SIGKILL of the app, the sidecar and both: no recorded model answer
is asked for twice, no recorded tool call is made twice, and the output is the same.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dying_agent import POINTS, World
from pawl_client import RunFilter
from pawl_client.testing import Sidecar

HERE = Path(__file__).parent
FLAGS = ["--step-grace=1s", "--restart-grace=1s"]
OUTPUT = "Thank you for 2 answers."


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


def run(sidecar: Sidecar, directory: Path, point: str, repeat: str, *victims: str) -> str:
    """The output of the program, which is started again as often as it is killed."""
    arguments = [sidecar.address, str(directory), point, repeat, *victims]
    command = [sys.executable, str(HERE / "dying_agent.py"), *arguments]
    for _ in range(3):
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode >= 0:
            assert done.returncode == 0, done.stderr
            return done.stdout.strip()
    raise AssertionError("the program was killed more than once")


def counted(lines: list[dict[str, Any]], name: str) -> Counter[Any]:
    return Counter(line[name] for line in lines if name in line)


@pytest.mark.parametrize("victims", ["app", "sidecar", "both"])
@pytest.mark.parametrize("point", POINTS)
def test_killed(point: str, victims: str, tmp_path: Path) -> None:
    with Sidecar(allow_tools=["*"], flags=FLAGS) as sidecar:
        watch = Watch(sidecar)
        pids = {"app": ["me"], "sidecar": [str(watch.pid)], "both": [str(watch.pid), "me"]}
        try:
            first = run(sidecar, tmp_path, point, "repeat", *pids[victims])
            again = run(sidecar, tmp_path, point, "repeat", *pids[victims])
        finally:
            watch.end()
        assert (first, again) == (OUTPUT, OUTPUT)
        assert (tmp_path / "died").exists()
        check(World(tmp_path, "", []).lines(), point, killed_app=victims != "sidecar")
        with sidecar.client() as client:
            (info,) = client.list_runs(RunFilter(pack="dying"))
            assert (info.status, info.tool_calls) == ("COMPLETED", 2)


def check(lines: list[dict[str, Any]], point: str, *, killed_app: bool) -> None:
    """What the world saw: twice only what was not recorded when the app died."""
    asked, charged = counted(lines, "asked"), counted(lines, "charged")
    unrecorded = {"before the answer's record": 1, "after the last answer": 2}.get(point)
    for answers in range(3):
        assert asked[answers] == (2 if killed_app and answers == unrecorded else 1), asked
    assert counted(lines, "looked") == {"17": 1}
    assert len(charged) == 1, "one key"
    (times,) = charged.values()
    # The tool takes the key, so the service that it changes sees one effect.
    assert times == (2 if killed_app and point == "after the effect" else 1)


@pytest.mark.parametrize("point", ["in the effect", "after the effect"])
def test_a_tool_that_may_not_be_repeated(point: str, tmp_path: Path) -> None:
    with Sidecar(allow_tools=["*"], flags=FLAGS) as sidecar:
        first = run(sidecar, tmp_path, point, "once", "me")
        again = run(sidecar, tmp_path, point, "once", "me")
    assert first == again == "ESCALATED tool_error:charge"
    lines = World(tmp_path, "", []).lines()
    assert counted(lines, "charged").total() == (1 if point == "after the effect" else 0)
    assert counted(lines, "asked") == {0: 1, 1: 1}

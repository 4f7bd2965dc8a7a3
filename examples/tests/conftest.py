"""What the tests of the examples share."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pawl_client import PawlError, Record, Run

EXAMPLES = Path(__file__).resolve().parents[1]
WAIT_SECONDS = 60.0
RUN_SECONDS = 100.0


@pytest.fixture(autouse=True)
def _recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """No live model, whatever the environment says."""
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def seen(run: Run, kind: str, wanted: Callable[[Any], bool]) -> Record:
    """The first record of a kind whose body is wanted, as soon as there is one."""
    found: queue.Queue[Record] = queue.Queue()

    def look() -> None:
        with contextlib.suppress(PawlError):
            for record in run.transitions(kinds=[kind]):
                if wanted(record.body):
                    found.put(record)

    threading.Thread(target=look, daemon=True).start()
    return found.get(timeout=WAIT_SECONDS)


def bodies(run: Run, *kinds: str) -> list[Any]:
    """What the records of some kinds say."""
    return [record.body for record in run.records(kinds=kinds)]


def gone(group: int) -> None:
    """Waits until no process of a group is left: one that was ended may take a moment."""
    end = time.monotonic() + WAIT_SECONDS
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < end:
            os.killpg(group, 0)
            time.sleep(0.01)
        pytest.fail("a process is left")


@contextmanager
def program(example: str, scratch: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """An example, started as its README says; afterwards nothing of it is left."""
    scratch.mkdir()
    process = subprocess.Popen(
        [str(EXAMPLES / example / "run"), *arguments],
        env=os.environ | {"TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
        process.wait(WAIT_SECONDS)
        gone(process.pid)
        assert list(scratch.iterdir()) == []
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(WAIT_SECONDS)
        for pipe in (process.stdout, process.stderr):
            assert pipe
            pipe.close()


def ran(example: str, scratch: Path, *arguments: str) -> list[str]:
    """What an example prints, without what differs from run to run."""
    with program(example, scratch, *arguments) as process:
        output, errors = process.communicate(timeout=RUN_SECONDS)
        assert process.returncode == 0, errors
    return plain(output)


def shown(example: str) -> list[str]:
    """The output that the README of an example shows."""
    text = (EXAMPLES / example / "README.md").read_text()
    return plain(text.split("```text\n")[1].split("```")[0])


def plain(output: str) -> list[str]:
    """Lines of output without what differs from run to run."""
    output = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", output)
    output = re.sub(r"\b0[0-9A-HJKMNP-TV-Z]{25}\b", "RUN", output)
    return re.sub(r"workspace: \S+", "workspace: DIRECTORY", output).splitlines()

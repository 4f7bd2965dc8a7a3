"""What the tests of both examples share."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pawl import Record, Run

EXAMPLES = Path(__file__).resolve().parents[1]
WAIT_SECONDS = 30.0


@pytest.fixture(autouse=True)
def _recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """No live model, whatever the environment says."""
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def seen(run: Run, kind: str, wanted: Callable[[Any], bool]) -> Record:
    """The first record of a kind whose body is wanted, as soon as there is one."""
    for record in run.transitions(kinds=[kind, "ENDED"]):
        if record.kind.name == kind and wanted(record.body):
            return record
    pytest.fail(f"{run} ended without the {kind} that was waited for")


def bodies(run: Run, *kinds: str) -> list[Any]:
    """What the records of some kinds say."""
    return [record.body for record in run.records(kinds=kinds)]


def ran(example: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """An example, run as its README says."""
    command = [str(EXAMPLES / example / "run"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=50)


def shown(example: str) -> list[str]:
    """The output that the README of an example shows."""
    text = (EXAMPLES / example / "README.md").read_text()
    return plain(text.split("```text\n")[1].split("```")[0])


def plain(output: str) -> list[str]:
    """Lines of output without what differs from run to run."""
    for pattern, word in (
        (r"\b01[0-9A-HJKMNP-TV-Z]{24}\b", "RUN"),
        (r"127\.0\.0\.1:\d+", "ADDRESS"),
        (r"workspace: \S+", "workspace: DIRECTORY"),
    ):
        output = re.sub(pattern, word, output)
    return output.splitlines()

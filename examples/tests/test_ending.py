"""An example that is told to end in its midst takes all that it started with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import WAIT_SECONDS, program


@pytest.mark.parametrize(
    ("example", "line"),
    [
        ("agentic-loop", "→ frame (1)\n"),
        ("approval", "→ diagnose (1)\n"),
        ("evaluator-optimizer", "→ generate (1)\n"),
        ("nested-loops", "→ triage (1)\n"),
    ],
)
def test_it_takes_everything_along(example: str, line: str, tmp_path: Path) -> None:
    arguments = [str(tmp_path / "workspace")] if example == "agentic-loop" else []
    with program(example, tmp_path / "scratch", *arguments) as process:
        assert process.stdout
        while process.stdout.readline() != line:
            assert process.poll() is None
        process.terminate()
        assert process.wait(WAIT_SECONDS) == 1

"""The examples run and print what they are for."""

from __future__ import annotations

import subprocess
import sys

from conftest import ROOT


def test_quickstart() -> None:
    program = ROOT / "examples" / "quickstart-python" / "quickstart.py"
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)], capture_output=True, text=True, timeout=120
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "  work, visit 1: Previous error (empty on first attempt): ",
        "  work, visit 2: Previous error (empty on first attempt): E2BIG: list too long",
        "  complete, visit 1: Previous error (empty on first attempt): E2BIG: list too long",
        "  1  -          (start)    -> work",
        "  5  work       Error      -> work",
        "  8  work       Success    -> complete",
        " 11  COMPLETED (completed)",
    ]

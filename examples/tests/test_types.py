"""The types that examples are written with are those of their packs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from pawl_client import sidecar_path

EXAMPLES = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(
    ("lang", "out", "pack"),
    [
        ("typescript", "agentic-loop/agentic_loop.ts", "agentic-loop/agentic-loop.pack.yaml"),
        (
            "python",
            "evaluator-optimizer/evaluator_optimizer.py",
            "evaluator-optimizer/evaluator-optimizer.pack.yaml",
        ),
    ],
)
def test_types_are_up_to_date(lang: str, out: str, pack: str) -> None:
    flags = ["codegen", f"--lang={lang}", f"--out={EXAMPLES / out}", "--check"]
    done = subprocess.run(
        [sidecar_path(), *flags, str(EXAMPLES / pack)], capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stderr) == (0, "")

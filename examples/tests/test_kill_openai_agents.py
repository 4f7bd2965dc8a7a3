"""An agent of the OpenAI Agents SDK that dies with its sidecar at five points of one run."""

from __future__ import annotations

from pathlib import Path

from conftest import ran, shown


def test_as_the_readme_says(tmp_path: Path) -> None:
    assert ran("kill-openai-agents", tmp_path / "scratch") == shown("kill-openai-agents")

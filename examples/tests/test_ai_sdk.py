"""The agent of the AI SDK that is killed: what its README shows."""

from __future__ import annotations

from pathlib import Path

from conftest import ran, shown


def test_as_the_readme_says(tmp_path: Path) -> None:
    assert ran("ai-sdk", tmp_path / "scratch") == shown("ai-sdk")

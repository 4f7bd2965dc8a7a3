"""Where the program of the sidecar is looked for, and in which order."""

from __future__ import annotations

from pathlib import Path

import pytest

from pawl_client import SidecarError, _binary, sidecar_path


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without a sidecar: a package, a PATH and nothing in them."""
    monkeypatch.delenv("PAWL_SIDECAR", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(_binary, "_PACKAGE", tmp_path / "tree" / "clients" / "pawl_client")
    return tmp_path


def program(path: Path, mode: int = 0o755) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return str(path)


def test_each_place_comes_before_the_next(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = program(places / "path" / "sidecar")
    assert sidecar_path() == on_path
    built = program(places / "tree" / "bin" / "sidecar")
    assert sidecar_path() == on_path, "bin/sidecar of a directory that is not Pawl's"
    (places / "tree" / "go.mod").touch()
    (places / "tree" / "proto" / "pawl").mkdir(parents=True)
    assert sidecar_path() == built
    carried = program(places / "tree" / "clients" / "pawl_client" / "_bin" / "sidecar")
    assert sidecar_path() == carried
    named = program(places / "named")
    monkeypatch.setenv("PAWL_SIDECAR", named)
    assert sidecar_path() == named


def test_what_is_no_program_is_passed_over(places: Path) -> None:
    program(places / "tree" / "clients" / "pawl_client" / "_bin" / "sidecar", mode=0o644)
    (places / "path" / "sidecar").mkdir(parents=True)
    with pytest.raises(SidecarError):
        sidecar_path()


def test_the_error_names_every_place(places: Path) -> None:
    with pytest.raises(SidecarError) as caught:
        sidecar_path()
    for place in ("PAWL_SIDECAR", "clients/pawl_client/_bin/sidecar", "PATH"):
        assert place in str(caught.value)


def test_a_named_one_that_is_none(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(places / "path" / "sidecar")
    monkeypatch.setenv("PAWL_SIDECAR", "/nowhere")
    with pytest.raises(SidecarError, match="PAWL_SIDECAR=/nowhere is no executable file"):
        sidecar_path()

"""Finds the sidecar's program on this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from pawl_client._errors import SidecarError

_PACKAGE = Path(__file__).resolve().parent
_NAMES = ("sidecar", "sidecar.exe")


def sidecar_path() -> str:
    """Returns the path of the `sidecar` program.

    It takes the first of: the environment variable PAWL_SIDECAR; the program in this package
    (`pawl_client/_bin/sidecar`, in wheels for one platform); the output of `make build`, if the
    package is used from Pawl's source tree; `sidecar` on the PATH. Raises SidecarError, which names
    all of them.
    """
    named = os.environ.get("PAWL_SIDECAR")
    if named:
        if not _is_program(Path(named)):
            raise SidecarError(
                f"PAWL_SIDECAR={named} is no executable file; set it to the sidecar's program"
            )
        return named
    for candidate in (*_carried(), *_built()):
        if _is_program(candidate):
            return str(candidate)
    found = shutil.which("sidecar")
    if found is None:
        raise SidecarError(
            "no sidecar found: set PAWL_SIDECAR to the program, install a wheel of pawl-client "
            f"that has it ({_PACKAGE / '_bin' / 'sidecar'}), or put `sidecar` on the PATH"
        )
    return found


def _carried() -> Iterator[Path]:
    return (_PACKAGE / "_bin" / name for name in _NAMES)


def _built() -> Iterator[Path]:
    """The program built in the source tree that contains this package, if there is one."""
    for directory in _PACKAGE.parents:
        if (directory / "go.mod").exists() and (directory / "proto" / "pawl").is_dir():
            yield directory / "bin" / "sidecar"


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)

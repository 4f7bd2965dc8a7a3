"""Where the sidecar's program is on this machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from pawl_client._errors import SidecarError

_PACKAGE = Path(__file__).resolve().parent
_NAMES = ("sidecar", "sidecar.exe")


def sidecar_path() -> str:
    """Path of the `sidecar` program.

    The environment variable PAWL_SIDECAR; else the program that this package carries
    (`pawl_client/_bin/sidecar`, in wheels that are built for one platform); else, where the
    package is used from Pawl's source tree, what `make build` left there; else
    `sidecar` on the PATH. Raises SidecarError, which names them all.
    """
    named = os.environ.get("PAWL_SIDECAR")
    if named:
        if not _is_program(Path(named)):
            raise SidecarError(f"PAWL_SIDECAR={named} is no program that can be run")
        return named
    for candidate in (*_carried(), *_built()):
        if _is_program(candidate):
            return str(candidate)
    found = shutil.which("sidecar")
    if found is None:
        raise SidecarError(
            "no sidecar: set PAWL_SIDECAR to the program, install a wheel of pawl-client with it"
            f" ({_PACKAGE / '_bin' / 'sidecar'}), or put `sidecar` on the PATH"
        )
    return found


def _carried() -> Iterator[Path]:
    return (_PACKAGE / "_bin" / name for name in _NAMES)


def _built() -> Iterator[Path]:
    """What is built in the source tree that this package is in, if it is in one."""
    for directory in _PACKAGE.parents:
        if (directory / "go.mod").exists() and (directory / "proto" / "pawl").is_dir():
            yield directory / "bin" / "sidecar"


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)

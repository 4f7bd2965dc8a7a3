"""The command `pawl`: runs the sidecar's program that this package contains."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from pawl_client._binary import sidecar_path
from pawl_client._errors import SidecarError


def main() -> None:
    """Replaces this process with `sidecar` and the same arguments; `pawl codegen` writes Python."""
    try:
        program = sidecar_path()
    except SidecarError as error:
        sys.exit(f"pawl: {error}")
    os.execv(program, ["pawl", *arguments_of(sys.argv[1:])])  # noqa: S606


def arguments_of(given: Sequence[str]) -> list[str]:
    """Returns the arguments of the sidecar.

    >>> arguments_of(["codegen", "my.pack.yaml"])
    ['codegen', '--lang=python', 'my.pack.yaml']
    >>> arguments_of(["runs", "list"])
    ['runs', 'list']
    """
    if given[:1] == ["codegen"]:
        return ["codegen", "--lang=python", *given[1:]]
    return list(given)

"""The tutorial in docs/getting-started/tutorial: every file and command, as it stands there.

A block whose first line is `# file: NAME` is a file. All `sh` blocks of a page run in one bash,
in order; a `text` block is the output of the `sh` block before it, where `…` is any text.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT
from pawl_client import sidecar_path
from workers import WAIT

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# file: (\S+)\n")
PAGES = sorted((ROOT / "docs/getting-started/tutorial").glob("[0-9]*.md"))
MARK = "==== end of block"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def matches(shown: str, printed: str) -> bool:
    pattern = ".*".join(re.escape(part) for part in shown.rstrip("\n").split("…"))
    return re.fullmatch(pattern, printed.rstrip("\n"), re.DOTALL) is not None


def test_the_tutorial_has_six_steps() -> None:
    assert [page.name[0] for page in PAGES] == list("123456")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_step_print_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    blocks = BLOCK.findall(page.read_text())
    commands: list[str] = []
    shown: list[str] = []
    for language, text in blocks:
        if named := FILE.match(text):
            (tmp_path / named[1]).write_text(text)
        elif language == "sh":
            commands.append(text)
            shown.append("")
        elif language == "text":
            shown[-1] = text
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/pawl").symlink_to(sidecar_path())
    (tmp_path / "bin/python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tmp_path / "bin/python").chmod(0o755)
    script = "set -e\n" + "".join(f"{text}\necho '{MARK}'\n" for text in commands)
    address = f"127.0.0.1:{free_port()}"
    env = os.environ | {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "PAWL_ADDR": address,
        "PAWL_LISTEN": address,
    }
    process = subprocess.Popen(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=WAIT)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, f"{out}\n{err}"
    printed = out.split(f"{MARK}\n")[:-1]
    assert len(printed) == len(shown)
    for want, got in zip(shown, printed, strict=True):
        assert matches(want, got), f"the page shows:\n{want}\nprinted:\n{got}\n{err}"

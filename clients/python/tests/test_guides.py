"""The programs of README.md, docs/getting-started and docs/guides, as they stand there.

A block of a page whose first line is `# file: NAME` is a file. The packs of a page are registered
with a sidecar that allows all tools, as `pawl dev` does. Each program runs against it. The block
behind "`python NAME` prints:" is its output.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT
from pawl_client.testing import Sidecar
from workers import WAIT

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# file: (\S+)\n")
PAGES = [
    *sorted((ROOT / "docs/getting-started").glob("python.md")),
    *sorted((ROOT / "docs/guides").glob("*.md")),
]


def programs(page: Path) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Returns the files of a page, and its Python programs with their output."""
    content = page.read_text()
    blocks = list(BLOCK.finditer(content))
    files: dict[str, str] = {}
    found: list[tuple[str, str]] = []
    for block, behind in itertools.pairwise([*blocks, None]):
        assert block
        if named := FILE.match(block[2]):
            files[named[1]] = block[2]
            if block[1] == "python":
                assert behind, f"{page}: {named[1]} has no output"
                assert behind[1] == "text", f"{page}: {named[1]} has no output"
                prose = content[block.end() : behind.start()]
                assert f"`python {named[1]}` prints:" in prose, f"{page}: how to run {named[1]}"
                found.append((named[1], behind[2]))
    assert not found or "pawl dev" in content or "pawl serve" in content, page
    return files, found


WITH_PROGRAMS = [page for page in PAGES if programs(page)[1]]


def test_the_guides_have_programs() -> None:
    assert len(WITH_PROGRAMS) >= 6


@pytest.mark.parametrize("page", WITH_PROGRAMS, ids=lambda page: page.stem)
def test_the_programs_of_a_page_print_what_the_page_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files, found = programs(page)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    packs = sorted(tmp_path.glob("*.pack.yaml"))
    flags = ["--push-allow=127.0.0.1"]
    if "pawl.yaml" in files:
        flags.append("--config=pawl.yaml")
    with Sidecar(packs=packs, allow_tools=["*"], flags=flags, http=True) as sidecar:
        env = os.environ | {"PAWL_ADDR": sidecar.address, "PAWL_URL": f"http://{sidecar.http}"}
        for name, output in found:
            command = [sys.executable, name]
            done = subprocess.run(
                command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=WAIT
            )
            assert done.returncode == 0, done.stderr
            assert done.stdout == output


# A pack that has every name of the examples of x_pawl.
EXAMPLES_PACK = """
id: examples
name: Examples
version: 1.0.0
template_engine: {version: v1, syntax: "{{variable}}"}
prompts:
  answer:
    id: answer
    name: Answer
    version: 1.0.0
    system_template: "{{name}} {{artifacts.draft}}"
    variables: [{name: name, type: string, required: true}]
    tools: [look_up, refund, T]
tools:
  look_up: {name: look_up, description: Finds.}
  refund: {name: refund, description: Refunds.}
  T:
    name: T
    description: Acts.
    parameters:
      {type: object, properties: {order: {type: string}, n: {type: number}}, required: [order]}
  R: {name: R, description: Knows.}
  C: {name: C, description: Compensates.}
workflow:
  version: 2
  entry: answer
  engine: {x_pawl: {EXAMPLE}}
  states:
    answer:
      prompt_task: answer
      on_event: {Done: check}
      artifacts: {draft: {type: text/plain}, facts: {type: application/json}}
    check: {prompt_task: answer, on_event: {Again: answer, Late: expired, Refused: talk}}
    talk: {prompt_task: answer, on_event: {Enough: wrap_up}}
    wrap_up: {prompt_task: answer, terminal: true}
    expired: {prompt_task: answer, terminal: true}
"""


def test_the_examples_of_x_pawl_are_valid() -> None:
    page = (ROOT / "docs/guides/packs.md").read_text()
    whole, of_tools = page.split("\n## x_pawl\n")[1].split("\n## ")[0].split("\n**Tools**")
    rows = re.findall(r"^\| (`.*?`) \| ", whole, re.MULTILINE)
    tools = re.findall(r"^\| (`.*?`) \| ", of_tools, re.MULTILINE)
    assert (len(rows), len(tools)) == (17, 4)

    def examples(text: str) -> str:
        return ", ".join(re.findall(r"`([^`]+)`", text))

    for row in tools:
        inside, _, beside = row.partition("; beside `tools`: ")
        rows.append(f"`tools: {{T: {{{examples(inside)}}}}}`{beside}")
    with Sidecar() as sidecar, sidecar.client() as client:
        for row in rows:
            example = examples(row)
            report = client.validate_pack(EXAMPLES_PACK.replace("EXAMPLE", example))
            errors = [str(found) for found in report.diagnostics if found.severity == "ERROR"]
            assert not errors, row

"""The first example of the README, as it stands there, with the real package of its vendor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from conftest import ROOT
from pawl.testing import Sidecar
from scripted import Says, Scripted

READMES = ("README.md", "clients/python/README.md")
SHOP = ROOT / "examples/quickstart-python"
LEAVE = ("leave_state", {"event": "Sold", "artifacts": {"receipt": "charged"}})


def first_example(readme: str) -> str:
    text = (ROOT / readme).read_text()
    return text.split("```python\n")[1].split("```")[0]


class Killing(Scripted):
    """Kills who asks for the second time, once, before it answers."""

    process: subprocess.Popen[str] | None = None

    def answer(self, path: str, body: dict[str, Any]) -> bytes | Says:
        if len(self.requests) == 1 and self.process is not None:
            process, self.process = self.process, None
            self.requests.append(body)
            process.send_signal(signal.SIGKILL)
            return b""
        return super().answer(path, body)


@pytest.mark.parametrize("readme", READMES)
def test_the_first_example_is_the_program_that_is_there(readme: str) -> None:
    assert first_example(readme) == (SHOP / "shop.py").read_text()


def test_the_commands_of_the_readme_name_what_is_there() -> None:
    text = (ROOT / "README.md").read_text()
    for name in ("shop.py", "shop.pack.yaml"):
        assert f"examples/quickstart-python/{name}" in text
        assert (SHOP / name).is_file()


def test_the_first_example_survives_a_kill() -> None:
    script = Says("", [("charge", {"order": "17"})]), Says("", [LEAVE]), Says("Thank you.")
    killing = Killing(*script)
    with (
        Sidecar(packs=[SHOP / "shop.pack.yaml"], allow_tools=["charge"]) as sidecar,
        killing,
    ):
        settings = {"OPENAI_BASE_URL": f"{killing.url}/v1", "OPENAI_API_KEY": "none"}
        command = [sys.executable, str(SHOP / "shop.py"), sidecar.address]
        codes: list[int] = []
        said: list[str] = []
        for _ in range(3):
            process = subprocess.Popen(
                command, env=os.environ | settings, stdout=subprocess.PIPE, text=True
            )
            killing.process = process if not codes else None
            said.append(process.communicate()[0])
            codes.append(process.returncode)
    assert codes == [-signal.SIGKILL, 0, 0]
    assert said[0] == ""
    assert said[1] == said[2] == "COMPLETED {'receipt': 'charged'}\n"
    # The first answer was on record, the second one was asked for again, and nothing by the
    # third start.
    said_before = [len(request["messages"]) for request in killing.requests]
    assert said_before == [2, 4, 4, 2]
    assert killing.requests[1]["messages"] == killing.requests[2]["messages"]
    assert "/2" in killing.requests[2]["messages"][3]["content"]


class Calling(Scripted):
    """Calls `charge` once in every turn that offers it, then leaves, or says its thanks."""

    charges = 0

    def answer(self, path: str, body: dict[str, Any]) -> bytes | Says:
        offered = {tool["function"]["name"] for tool in body.get("tools", [])}
        said = Says("Thank you.")
        if "charge" in offered and body["messages"][-1]["role"] != "tool":
            self.charges += 1
            said = Says("", [("charge", {"order": "17"})])
        elif "leave_state" in offered:
            said = Says("", [LEAVE])
        self._script = [said]
        return super().answer(path, body)


def test_the_first_example_charges_once_at_a_model_that_calls_what_it_is_offered() -> None:
    with (
        Sidecar(packs=[SHOP / "shop.pack.yaml"], allow_tools=["charge"]) as sidecar,
        Calling() as calling,
    ):
        settings = {"OPENAI_BASE_URL": f"{calling.url}/v1", "OPENAI_API_KEY": "none"}
        command = [sys.executable, str(SHOP / "shop.py"), sidecar.address]
        done = subprocess.run(
            command, env=os.environ | settings, stdout=subprocess.PIPE, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (0, "COMPLETED {'receipt': 'charged'}\n")
        assert calling.charges == 1

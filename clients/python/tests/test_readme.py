"""The first example of the README, as it stands there, with the real package of its vendor."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from conftest import ROOT, STEPS
from pawl.testing import Sidecar
from scripted import Says, Scripted

README = ROOT / "clients/python/README.md"
LEAVE = ("leave_state", {"event": "Done", "artifacts": {"log": "charged"}})


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


def shop() -> str:
    pack = json.loads(STEPS.read_text())
    pack["id"] = "shop"
    del pack["prompts"]["calc"]["variables"], pack["tools"]["boom"], pack["tools"]["forbidden"]
    pack["prompts"]["calc"] |= {"system_template": "Sell.", "tools": ["charge"]}
    tool = pack["tools"].pop("add") | {"name": "charge"}
    text = {"type": "string"}
    tool["parameters"] = {"type": "object", "properties": {"order": text}, "required": ["order"]}
    pack["tools"]["charge"] = tool
    return json.dumps(pack)


def test_the_first_example_survives_a_kill(tmp_path: Path) -> None:
    example = README.read_text().split("```python\n")[1].split("```")[0]
    program, pack = tmp_path / "example.py", tmp_path / "shop.json"
    program.write_text(example)
    pack.write_text(shop())
    script = Says("", [("charge", {"order": "17"})]), Says("", [LEAVE]), Says("Thank you.")
    killing = Killing(*script)
    with (
        Sidecar(packs=[pack], allow_tools=["charge"]) as sidecar,
        killing,
    ):
        settings = {"OPENAI_BASE_URL": f"{killing.url}/v1", "OPENAI_API_KEY": "none"}
        command = [sys.executable, str(program), sidecar.address]
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
    assert said[1] == said[2] == "COMPLETED {'log': 'charged'}\n"
    # The first answer was on record, the second one was asked for again, and nothing by the
    # third start.
    said_before = [len(request["messages"]) for request in killing.requests]
    assert said_before == [2, 4, 4, 2]
    assert killing.requests[1]["messages"] == killing.requests[2]["messages"]
    assert "/2" in killing.requests[2]["messages"][3]["content"]

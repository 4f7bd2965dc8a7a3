"""The first example of the README, as it stands there, with the real package of its vendor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT
from pawl_client.testing import Sidecar
from scripted import Says, Scripted
from workers import WAIT

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


def test_the_pack_of_the_readme_is_the_file_that_is_there() -> None:
    pack = (ROOT / "README.md").read_text().split("```yaml\n")[1].split("```")[0]
    assert pack == (SHOP / "shop.pack.yaml").read_text()


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
    said_before = [len(request["input"]) for request in killing.requests]
    assert said_before == [1, 3, 3, 1]
    assert killing.requests[1]["input"] == killing.requests[2]["input"]
    assert "/2" in killing.requests[2]["input"][2]["output"]


class Calling(Scripted):
    """Calls `charge` once in every turn that offers it, then leaves, or says its thanks."""

    charges = 0

    def answer(self, path: str, body: dict[str, Any]) -> bytes | Says:
        offered = {tool["name"] for tool in body.get("tools", [])}
        said = Says("Thank you.")
        if "charge" in offered and body["input"][-1].get("type") != "function_call_output":
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


HELD = "charge: {approve: always, dedupe:"
"""The option by which a person decides about each charge."""
DIES = """    with open(sys.argv[2]) as ledger:
        if len(ledger.readlines()) == 1:
            __import__("os").kill(__import__("os").getpid(), 9)
"""
LEDGER = """    with open(sys.argv[2], "a") as ledger:
        print(current_call().idempotency_key, file=ledger)
"""
ASYNC = """
import asyncio


async def main() -> None:
    from pawl_client import AsyncClient

    async with AsyncClient(address=sys.argv[1]) as client:
        result = await client.run(
            "shop", model="openai:gpt-5-mini", tools={"charge": charge}, request_id="order-17",
            input="Order 17, please.",
        )
        print(result.status, result.artifacts)


asyncio.run(main())
"""


def with_ledger(mode: str) -> str:
    """The first example, whose tool writes down outside that it was called."""
    before, end = first_example("README.md").split("    return f")
    source = f"{before}{LEDGER}    return f{end}"
    return source if mode == "blocking" else source.split("with Client(")[0] + ASYNC


@pytest.mark.parametrize(("decision", "charges"), [("APPROVE", 1), ("DENY", 0)])
@pytest.mark.parametrize("mode", ["blocking", "asyncio"])
def test_the_first_example_charges_nothing_before_a_person_approves(
    tmp_path: Path, mode: str, decision: str, charges: int
) -> None:
    pack, program, ledger = (tmp_path / name for name in ("shop.pack.yaml", "shop.py", "ledger"))
    options = "charge: {dedupe:"
    text = (SHOP / "shop.pack.yaml").read_text()
    assert text.count(options) == 1
    pack.write_text(text.replace(options, HELD))
    program.write_text(with_ledger(mode))
    ledger.touch()
    with (
        Sidecar(packs=[pack], allow_tools=["charge"]) as sidecar,
        Calling() as calling,
        sidecar.client() as client,
    ):
        run = client.open("shop", request_id="order-17", input="Order 17, please.")
        settings = {"OPENAI_BASE_URL": f"{calling.url}/v1", "OPENAI_API_KEY": "none"}
        command = [sys.executable, str(program), sidecar.address, str(ledger)]
        with subprocess.Popen(
            command, env=os.environ | settings, stdout=subprocess.PIPE, text=True
        ) as process:
            assert not run.wait(until="WAITING", timeout=WAIT).timed_out
            [waits] = client.list_approvals(run_id=run.id)
            assert waits.call is not None
            assert waits.call.approval is not None
            assert ledger.read_text() == ""
            run.decide_step(waits.call.step, waits.call.approval.digest, decision)
            assert process.communicate(timeout=WAIT)[0] == "COMPLETED {'receipt': 'charged'}\n"
        assert process.returncode == 0
        assert ledger.read_text() == f"{waits.call.idempotency_key}\n" * charges


def test_the_first_example_repeats_a_charge_that_it_died_in_under_the_same_key(
    tmp_path: Path,
) -> None:
    program, ledger = tmp_path / "shop.py", tmp_path / "ledger"
    program.write_text(with_ledger("blocking").replace(LEDGER, LEDGER + DIES))
    ledger.touch()
    with (
        Sidecar(
            packs=[SHOP / "shop.pack.yaml"], allow_tools=["charge"], flags=["--step-grace=100ms"]
        ) as sidecar,
        Calling() as calling,
    ):
        settings = {"OPENAI_BASE_URL": f"{calling.url}/v1", "OPENAI_API_KEY": "none"}
        command = [sys.executable, str(program), sidecar.address, str(ledger)]
        codes = [
            subprocess.run(command, env=os.environ | settings, timeout=WAIT, check=False).returncode
            for _ in range(2)
        ]
        assert codes == [-signal.SIGKILL, 0]
        assert calling.charges == 1
    first, second = ledger.read_text().splitlines()
    assert first == second

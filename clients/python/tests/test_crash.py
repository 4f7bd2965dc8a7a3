"""Apps, workers and the sidecar are killed while a model executes turns. Each effect exists once,
each recorded answer was requested once, and each run reads as if no process had been killed.
PAWL_KILLS sets how often processes are killed, and PAWL_SEED when."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from flaky_endpoint import FlakyEndpoint
from pawl_client import Client, Run, RunStatus, StepKind, StepResolved
from pawl_client.testing import Sidecar

HERE = Path(__file__).parent
KILLS = int(os.environ.get("PAWL_KILLS", "20"))
SEED = int(os.environ.get("PAWL_SEED", "1"))
RUNS = max(6, KILLS * 3 // 5)
PATIENCE = 60 + 5 * KILLS
WAIT = 20
"""Seconds that one call waits: less than the client tries where the sidecar is away."""
ROUNDS = 4


class Program:
    """A process that is started again as often as it is killed, until it ends by itself."""

    def __init__(self, *arguments: str) -> None:
        self._command = [sys.executable, str(HERE / "crashing.py"), *arguments]
        self._over = False
        self._process = self._start()
        self.code: int | None = None
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command)

    def _watch(self) -> None:
        while (code := self._process.wait()) and not self._over:
            if code > 0:
                break  # The process was not killed, so it failed by itself.
            self._process = self._start()
        self.code = code

    def end(self) -> None:
        self._over = True
        self._process.kill()
        self.thread.join(PATIENCE)


def check(run: Run, number: int, endpoint: FlakyEndpoint) -> None:
    """Checks that a run and its effects are the same as without any kill."""
    info = run.info()
    assert info.status is RunStatus.COMPLETED, info
    assert info.visits == {"work": 1, "end": 1}
    assert info.tool_calls == 3
    assert run.artifacts() == {"note": f"run {number}"}
    charged = {k: o for k, o in endpoint.effects.items() if k.startswith(f"{run.id}/")}
    assert sorted("".join(filter(str.isdigit, order)) for order in charged.values()) == [
        f"{number}{i}" for i in (1, 2, 3)
    ]
    bodies = [record.body for record in run.records(kinds=["STEP_RESOLVED"])]
    answers = [
        body.answer
        for body in bodies
        if isinstance(body, StepResolved) and body.kind is StepKind.MODEL and body.answer
    ]
    assert len(answers) == ROUNDS
    said = [answer.text for answer in answers]
    for i, answer in enumerate(answers):
        asked = endpoint.rounds[number, i]
        # After an answer was recorded, no process requested it again.
        assert asked.asked[-1] == answer.response_id
        # Each request contained the recorded answers word for word. The last state starts a new
        # conversation.
        assert all(heard == (said[:i] if i < ROUNDS - 1 else []) for heard in asked.heard)


@pytest.mark.timeout(PATIENCE * 2)
@pytest.mark.parametrize("mode", ["app", "worker"])
def test_killed(mode: str) -> None:
    flags = ["--step-grace=1s", "--restart-grace=1s"]
    with (
        Sidecar(packs=[HERE / "crash.pack.json"], allow_tools=["charge"], flags=flags) as sidecar,
        FlakyEndpoint(SEED, KILLS, sidecar.restart) as endpoint,
        sidecar.client(retry_for=60, timeout=60) as client,
    ):
        arguments = (mode, sidecar.address, endpoint.url, str(RUNS))
        if mode == "app":
            program = Program(*arguments)
            try:
                program.thread.join(PATIENCE)
                assert program.code == 0
            finally:
                program.end()
            runs = [started(client, "app", n) for n in range(RUNS)]
        else:
            programs = [Program(*arguments) for _ in range(2)]
            try:
                runs = [started(client, "worker", n) for n in range(RUNS)]
                for run in runs:
                    await_end(run)
            finally:
                for program in programs:
                    program.end()
        for number, run in enumerate(runs):
            check(run, number, endpoint)
        assert endpoint.left == 0, "fewer kills than were asked for"
        assert len(endpoint.effects) == 3 * RUNS


def await_end(run: Run) -> None:
    """Waits for the end of the run, however often the sidecar stops in the meantime."""
    for _ in range(PATIENCE // WAIT):
        waited = run.wait(timeout=WAIT)
        if not waited.timed_out:
            return
    raise AssertionError(run.info())


def started(client: Client, mode: str, number: int) -> Run:
    """Returns the run with a number. Starts the run if it does not exist."""
    start = client.open if mode == "app" else client.start
    return start("crash", request_id=f"{mode}-{number}", variables={"n": number}, input="Go.")

"""RFC-103's worked example: one run, its turns in Python, its tools in TypeScript.

Usage: loop.py [DIRECTORY], where the workspace of the run is written (default: a new one)
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pawl_client import (
    Client,
    Ended,
    Record,
    Run,
    StepRequested,
    StepResolved,
    Transition,
    sidecar_path,
)
from pawl_client.testing import Sidecar

import turns
from page import Page

HERE = Path(__file__).resolve().parent
PACK = HERE / "agentic-loop.pack.yaml"
TURNS = (sys.executable, str(HERE / "turns.py"))
TOOLS = ("node", str(HERE / "tools.js"))
KINDS = ("TRANSITION", "STEP_REQUESTED", "STEP_RESOLVED", "ENDED")
WIDTH = 100
GRACE_SECONDS = 20.0


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program that runs as long as the block; it drains when it is told to end."""
    process = subprocess.Popen(command)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def start(client: Client, url: str) -> Run:
    """Starts a run, whose turns and steps wait for workers."""
    return client.start(
        "agentic-loop",
        input=f"fetch web {url} and produce a 2 para critique",
        variables={"tone": "constructive"},
        max_steps=6,
    )


def show(record: Record) -> None:
    """Prints what a record says, in one line."""
    match record.body:
        case Transition(to_state=to, visit=visit):
            line = f"→ {to} ({visit})"
        case StepRequested(step=step, tool=tool, payload=payload):
            line = f"  step {step}: {tool} {json.dumps(payload)}"
        case StepResolved(step=step, ok=ok, result=result, error=error):
            line = f"  step {step}: {json.dumps(result) if ok else error}"
        case Ended(status=status, reason=reason):
            line = f"■ {status.name} ({reason})"
    print(line if len(line) <= WIDTH else line[: WIDTH - 1] + "…")


def runs(sidecar: Sidecar, *arguments: str) -> str:
    """What `pawl runs ...` prints."""
    command = [sidecar_path(), "runs", f"--addr={sidecar.address}", *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=30)
    return done.stdout


def export(sidecar: Sidecar, run: Run, directory: Path) -> None:
    """Writes the workspace of the run, and the run as RFC-103's events beside it."""
    runs(sidecar, "export", run.id, str(directory))
    events = runs(sidecar, "watch", run.id, "--format=agentic")
    (directory / "events.jsonl").write_text(events)
    last = json.loads(events.splitlines()[-1])
    print(f"{last['type']}: {last['payload']['outcome']}")
    print(f"workspace: {directory}")


def main() -> None:
    """Runs it, and prints what happened and what came out."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="pawl-"))
    with (
        Page() as page,
        Sidecar(packs=[PACK], allow_tools=["fetch", "critique"]) as sidecar,
        sidecar.client() as client,
        running(*TURNS, sidecar.address),
        running(*TOOLS, sidecar.address),
    ):
        print(f"model: {turns.handler()[0]}")
        run = start(client, page.url)
        for record in run.transitions(kinds=KINDS):
            show(record)
        export(sidecar, run, directory)
    critique = directory / "artifacts/critique.md"
    print(f"\n{critique.read_text()}" if critique.exists() else "No critique.", end="")


if __name__ == "__main__":
    main()

"""The worker of sidecar A: triages findings, has them investigated, reports.

What the model answered is in recorded.json; whoever investigates is only known to the
sidecar. A line is printed for each turn that was executed.

Usage: triage.py ADDRESS
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pawl_client import Reply, Turn, Worker

RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text())["triage"]
SEVERITIES = ("critical", "high", "none")


def shown(turn: Turn, label: str) -> Any:
    """A value that the prompt shows."""
    found = re.search(rf"{label}: (.+)", turn.system_prompt)
    return json.loads(found[1]) if found else []


def triage(turn: Turn) -> Reply:
    """Takes the finding that the model took at this visit."""
    findings = {finding["id"]: finding for finding in shown(turn, "Findings")}
    if turn.visit > len(RECORDED):
        return Reply(event="AllTriaged")
    return Reply(event="NextFinding", artifacts={"finding": findings[RECORDED[turn.visit - 1]]})


def coordinate(turn: Turn) -> Reply:
    """Delegates: the call ends when the investigation has, on whatever sidecar."""
    finding = shown(turn, "Finding")
    question = {"message": "Does this finding hold?", "variables": {"finding": finding}}
    result: Any = turn.step("investigator", question)
    verdict = result["artifacts"]["verdict"]
    return Reply(event="InvestigationComplete", artifacts={"verdicts": verdict})


def report(turn: Turn) -> Reply:
    """The verdicts that hold, worst first."""
    verdicts = [verdict for verdict in shown(turn, "Verdicts") if verdict["holds"]]
    verdicts.sort(key=lambda verdict: SEVERITIES.index(verdict["severity"]))
    lines = [f"- {v['severity']}: {v['claim']} ({v['id']})" for v in verdicts]
    return Reply(artifacts={"report": "\n".join(lines)})


def logged(handler: Callable[[Turn], Reply]) -> Callable[[Turn], Reply]:
    """Prints a line once the handler has executed a turn."""

    def execute(turn: Turn) -> Reply:
        reply = handler(turn)
        print(turn.run_id, turn.state, turn.visit, flush=True)
        return reply

    return execute


def main() -> None:
    """Serves until SIGTERM."""
    worker = Worker(address=sys.argv[1], packs=["security-audit"])
    worker.prompt("triage_findings")(logged(triage))
    worker.prompt("coordinator")(logged(coordinate))
    worker.prompt("reporter")(logged(report))
    worker.run()


if __name__ == "__main__":
    main()

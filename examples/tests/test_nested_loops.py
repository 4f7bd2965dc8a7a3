"""RFC 0009's security audit over two sidecars: undisturbed, and with everything killed."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pawl_client import Client, Run, RunFilter, RunInfo, RunStatus

import audit
from conftest import bodies, ran, shown
from fleet import URL_OF_A, Fleet

SEED = 9
RECORDED: Any = json.loads((Path(audit.__file__).parent / "recorded.json").read_text())
FINDINGS: list[str] = RECORDED["triage"]
VERDICTS = {
    "sql-login": (True, "critical"),
    "xss-search": (False, "none"),
    "weak-hash": (False, "none"),
    "file-upload": (True, "critical"),
    "secret-config": (True, "high"),
}
# Lines that searches find in shop/, in the order of the searches.
EVIDENCE = {
    "sql-login": [["login.php:2"], ["login.php:3"]],
    "xss-search": [["search.php:4", "search.php:5"], ["search.php:2"]],
    "weak-hash": [["search.php:3"]],
    "file-upload": [["upload.php:3"], ["upload.php:2"], ["config.ini:7"]],
    "secret-config": [["config.ini:3"]],
}


def inner_visits(finding: str) -> dict[str, int]:
    """How often an investigation enters each state."""
    rounds = RECORDED["investigator"][finding]["rounds"]
    return {"probe": len(EVIDENCE[finding]), "assess": len(rounds), "conclude": 1}


def test_as_the_readme_says(tmp_path: Path) -> None:
    assert ran("nested-loops", tmp_path / "scratch") == shown("nested-loops")


def test_undisturbed() -> None:
    with Fleet() as fleet, fleet.a.client() as a, fleet.b.client() as b:
        run = audit.start(a)
        audit.follow(fleet, run, {})
        check(fleet, run, b)
        # Nothing was done over, and the killing has as many moments as it thinks.
        executed = fleet.auditor.executed() + fleet.investigator.executed()
        assert set(Counter(executed).values()) == {1}
        steps = sum(info.last_step for info in [run.info(), *b.list_runs()])
        turns = len(executed)
        ends = 1 + len(list(b.list_runs()))
        assert 2 * turns + steps + ends == audit.RECORDS


@pytest.mark.timeout(180)  # A sum of waits of which each has its own, shorter deadline.
def test_everything_is_killed(capfd: pytest.CaptureFixture[str]) -> None:
    moments = audit.moments(SEED)
    assert Counter(moments.values()) == dict.fromkeys(
        ["sidecar A", "sidecar B", "worker A", "worker B"], 2
    )
    with Fleet() as fleet, fleet.a.client() as a, fleet.b.client() as b:
        run = audit.start(a)
        audit.follow(fleet, run, moments)
        check(fleet, run, b)
    killed = re.findall(r"SIGKILL to (.+), after (\d+) records", capfd.readouterr().out)
    assert [(int(count), name) for name, count in killed] == sorted(moments.items())


def check(fleet: Fleet, run: Run, b: Client) -> None:
    """What holds whatever was killed."""
    info = run.info()
    assert (info.status, info.reason) == (RunStatus.COMPLETED, "completed")
    assert dict(info.visits) == {"triage": 6, "investigate": 5, "report": 1}
    # What the investigators called counts against whoever asked them.
    called = sum(child.tool_calls for child in family(b, run.id, "investigator").values())
    assert called > 0
    assert (info.tool_calls, info.last_step, info.total_visits) == (5 + called, 5, 12)
    verdicts: Any = run.artifacts()["verdicts"]
    assert [verdict["id"] for verdict in verdicts] == FINDINGS
    assert {v["id"]: (v["holds"], v["severity"]) for v in verdicts} == VERDICTS
    check_investigations(run, b)
    check_family(fleet, run)
    for client, worker in ((run, fleet.auditor), (b, fleet.investigator)):
        runs = [client] if isinstance(client, Run) else [b.attach(i.run_id) for i in b.list_runs()]
        assert set(worker.executed()) == completed(runs)


def check_investigations(run: Run, b: Client) -> None:
    """Each finding was investigated once, and each claim put to the analyst once."""
    asked = {body.step: body.payload["variables"]["finding"]["id"] for body in requests(run)}
    children = family(b, run.id, "investigator")
    assert {step: asked[step] for step in children} == dict(enumerate(FINDINGS, 1))
    for step, child in children.items():
        finding = asked[step]
        assert (child.status, child.reason) == (RunStatus.COMPLETED, "completed")
        assert dict(child.visits) == inner_visits(finding)
        evidence: Any = b.attach(child.run_id).artifacts()["evidence"]
        assert [search["found"] for search in evidence] == EVIDENCE[finding]
        analysts = family(b, child.run_id, "analyst")
        assert len(analysts) == inner_visits(finding)["assess"]
        assert {analyst.status for analyst in analysts.values()} == {RunStatus.COMPLETED}
    assert Counter(info.agent for info in b.list_runs()) == {"investigator": 5, "analyst": 6}


def family(b: Client, parent: str, agent: str) -> dict[int, RunInfo]:
    """The runs of an agent that a run's steps began, by step: one each."""
    found = list(b.list_runs(RunFilter(parent_run_id=parent)))
    assert {info.agent for info in found} == {agent}
    by_step = {info.parent.step: info for info in found if info.parent}
    assert len(by_step) == len(found)
    return by_step


def requests(run: Run) -> list[Any]:
    """The delegations of a run."""
    return [body for body in bodies(run, "STEP_REQUESTED") if body.delegation]


def completed(runs: list[Run]) -> set[str]:
    """A line "RUN STATE VISIT" for each visit, whose turn was completed once."""
    lines = set()
    for run in runs:
        turns = [body.turn_seq for body in bodies(run, "TURN_COMPLETED")]
        assert len(turns) == len(set(turns))
        visits = [f"{run.id} {body.to_state} {body.visit}" for body in bodies(run, "TRANSITION")]
        assert len(visits) == len(turns)
        lines |= set(visits)
    return lines


def check_family(fleet: Fleet, run: Run) -> None:
    """Both sides can tell of each other, by `pawl runs show`."""
    children = re.findall(
        r"child +step (\d): investigator, ok, task (\w+) of (\S+)", audit.runs_show(fleet.a, run.id)
    )
    assert [(step, card) for step, _, card in children] == [
        (str(n), fleet.card) for n in range(1, 6)
    ]
    for step, task, _ in children:
        shown_on_b = audit.runs_show(fleet.b, task)
        assert re.search(rf"parent +step {step} of {run.id} at {URL_OF_A}\n", shown_on_b)
        assert re.search(r"child +step \d: analyst, ok, run \w+\n", shown_on_b)

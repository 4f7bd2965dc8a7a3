"""RFC 0009's example 4: what waits for a person, through restarts, clicks and intruders."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pawl_client import Client, PawlError, PermissionDeniedError, Record, Run, RunStatus, Transition

import incident
from conftest import WAIT_SECONDS, bodies, ran, shown
from incident import Office, everything, follow

WHY = "--why=the database takes at most 32 connections"


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    office = Office(tmp_path)
    with office.service, office.sidecar:
        yield office


@pytest.fixture
def app(office: Office) -> Iterator[Client]:
    with office.client("app") as client:
        yield client


@pytest.fixture
def waiting(office: Office, app: Client) -> tuple[Run, Record]:
    """A run that waits for a person, and the record since when; the agent is killed."""
    with office.agent() as agent:
        run = incident.start(app)
        record = follow(run)
        agent.kill()
        agent.wait(WAIT_SECONDS)
    assert record.body.to_state == "await_approval"  # type: ignore[union-attr]
    return run, record


def ways_out(run: Run) -> list[tuple[str, str, str]]:
    """Event, target and principal of each transition out of the waiting state."""
    return [
        (record.body.event, record.body.to_state, record.principal)
        for record in run.records()
        if isinstance(record.body, Transition) and record.body.from_state == "await_approval"
    ]


def test_as_the_readme_says(tmp_path: Path) -> None:
    assert ran("approval", tmp_path / "scratch") == shown("approval")


def test_both_are_killed_while_it_waits(office: Office, waiting: tuple[Run, Record]) -> None:
    run, since = waiting
    before = everything(run)
    office.sidecar.restart()
    with office.agent():
        assert everything(run) == before
        info = before[0]
        assert info.status is RunStatus.WAITING
        assert (info.visit_seq, set(info.allowed_events)) == (since.seq, {"Approved", "Rejected"})
        assert (info.total_visits, info.tool_calls) == (3, 3)
        assert office.clicks("oncall", run.id, "approve", f"--seq={since.seq}") == [
            (0, "Approved → execute")
        ]
        follow(run, since.seq)
    check_end(office, run, since)


def check_end(office: Office, run: Run, since: Record) -> None:
    info = run.info()
    assert (info.status, info.reason) == (RunStatus.COMPLETED, "completed")
    assert set(info.visits.values()) == {1}
    assert (info.total_visits, info.tool_calls, info.last_step) == (6, 7, 7)
    assert [body.attempt for body in bodies(run, "STEP_REQUESTED")] == [1] * 7
    assert office.service.healthy
    assert office.service.changes == ["configured 64", "restarted"]
    assert ways_out(run) == [("Approved", "execute", "oncall")]
    # The agent was never given the turn that is the person's.
    assert since.seq not in [body.turn_seq for body in bodies(run, "TURN_ASSIGNED")]


def test_a_double_click_is_one_transition(office: Office, waiting: tuple[Run, Record]) -> None:
    run, since = waiting
    approve = (run.id, "approve", f"--seq={since.seq}")
    assert office.clicks("oncall", *approve, times=2) == [
        (0, "Approved → execute"),
        (0, "Approved → execute, as before"),
    ]
    assert office.clicks("oncall", run.id, "reject", f"--seq={since.seq}") == [
        (3, "too late: it was decided otherwise")
    ]
    assert ways_out(run) == [("Approved", "execute", "oncall")]


def test_many_clicks_with_ids_of_their_own(office: Office, waiting: tuple[Run, Record]) -> None:
    run, since = waiting

    def click(number: int) -> PawlError | None:
        event = "Approved" if number % 2 else "Rejected"
        try:
            oncall.attach(run.id).emit(event, expected_seq=since.seq, event_id=f"click-{number}")
        except PawlError as error:
            return error
        return None

    with office.client("oncall") as oncall, ThreadPoolExecutor(8) as pool:
        results = list(pool.map(click, range(16), timeout=WAIT_SECONDS))
    assert results.count(None) == 1
    # Who may act is asked before expected_seq, and the state after it is the agent's.
    assert {error.reason for error in results if error} <= {"TURN_LEASED", "SEQ_MISMATCH"}
    (way,) = ways_out(run)
    assert way[0] == ("Approved" if results.index(None) % 2 else "Rejected")


@pytest.mark.parametrize("name", ["intern", "agent", "app"])
def test_nobody_else_approves(office: Office, waiting: tuple[Run, Record], name: str) -> None:
    run, since = waiting
    before = everything(run)
    with office.client(name) as client, pytest.raises(PermissionDeniedError) as caught:
        client.attach(run.id).emit("Approved", expected_seq=since.seq)
    assert caught.value.reason == "SCOPE_MISSING"
    ((code, said),) = office.clicks(name, run.id, "approve", f"--seq={since.seq}")
    assert (code, said.startswith("refused: SCOPE_MISSING")) == (4, True)
    assert everything(run) == before


def test_rejected_then_approved(office: Office, app: Client) -> None:
    with office.agent():
        run = incident.start(app)
        first = follow(run)
        ((_, text),) = office.clicks("oncall", run.id)
        assert text.splitlines() == [
            '{"target": "payments", "config": {"pool_size": 64}}',
            f"decide: human.py {run.id} {{approve,reject}} --seq {first.seq}",
        ]
        office.clicks("oncall", run.id, "reject", f"--seq={first.seq}", WHY)
        second = follow(run, first.seq)
        # Whoever still looks at the first proposal does not approve the second.
        stale: Any = office.clicks("oncall", run.id, "approve", f"--seq={first.seq}")
        assert stale == [(3, "too late: it was decided otherwise")]
        with office.client("oncall") as oncall, pytest.raises(PawlError) as caught:
            oncall.attach(run.id).emit("Approved", expected_seq=first.seq)
        assert (caught.value.reason, caught.value.metadata["seq"]) == (
            "SEQ_MISMATCH",
            str(second.seq),
        )
        office.clicks("oncall", run.id, "approve", f"--seq={second.seq}")
        follow(run, second.seq)
    assert run.info().status is RunStatus.COMPLETED
    assert {"person": WHY.removeprefix("--why=")} in run.artifacts()["diagnosis_log"]
    assert office.service.changes == ["configured 32", "restarted"]
    assert ways_out(run) == [("Rejected", "diagnose", "oncall"), ("Approved", "execute", "oncall")]


def test_ask(office: Office, app: Client, capsys: pytest.CaptureFixture[str]) -> None:
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(incident.ask, office, app)
        since = next(
            record
            for record in app.transitions(kinds=["TRANSITION"])
            if isinstance(record.body, Transition) and record.body.to_state == "await_approval"
        )
        office.clicks("oncall", since.run_id, "approve", f"--seq={since.seq}")
        asked.result(WAIT_SECONDS)
    lines = capsys.readouterr().out.splitlines()
    assert f"PAWL_TOKEN={office.tokens['oncall']}" in lines[3]
    assert lines[3].endswith(f"human.py {since.run_id}")
    assert lines[-1] == "■ COMPLETED (completed)"

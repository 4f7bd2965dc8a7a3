"""RFC 0003's evaluator and optimizer: the cap, the fan-out, the join."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pawl_client import Reply, Run, RunFilter, RunStatus, Turn, Worker
from pawl_client.testing import Sidecar

import optimizer
from conftest import WAIT_SECONDS, bodies, ran, seen, shown


@pytest.fixture
def sidecar() -> Iterator[Sidecar]:
    with Sidecar(packs=[optimizer.PACK], allow_tools=optimizer.EVALUATORS) as own:
        yield own


def optimized(sidecar: Sidecar, worker: Worker) -> str:
    """Runs it to its end; returns the run's id."""
    return asyncio.run(asyncio.wait_for(optimizer.optimize(sidecar, worker), WAIT_SECONDS)).id


def rounds(run: Run) -> list[tuple[list[Any], list[Any]]]:
    """The requests and the answers of each evaluation, in the order of the journal."""
    asked, answered = bodies(run, "STEP_REQUESTED"), bodies(run, "STEP_RESOLVED")
    assert len(asked) == len(answered)
    return [(asked[n : n + 3], answered[n : n + 3]) for n in range(0, len(asked), 3)]


def verdicts(run: Run) -> list[list[dict[str, Any]]]:
    """What each evaluation wrote."""
    return [
        write.value
        for body in bodies(run, "TRANSITION")
        for write in body.artifacts_written
        if write.name == "verdicts"
    ]


def test_as_the_readme_says(tmp_path: Path) -> None:
    assert ran("evaluator-optimizer", tmp_path / "scratch") == shown("evaluator-optimizer")


def test_one_fails_and_the_others_count(sidecar: Sidecar) -> None:
    run_id = optimized(sidecar, optimizer.worker_of(sidecar.address, optimizer.LEARNS))
    with sidecar.client() as client:
        run = client.attach(run_id)
        info = run.info()
        assert (info.status, info.state) == (RunStatus.COMPLETED, "accepted")
        assert dict(info.visits) == {"generate": 3, "evaluate": 3, "accepted": 1}
        assert info.tool_calls == 9
        for asked, answered in rounds(run):
            assert [body.tool for body in asked] == list(optimizer.EVALUATORS)
            assert len({body.turn_seq for body in asked}) == 1
            assert {body.step for body in answered} == {body.step for body in asked}
        assert [[given["by"] for given in said] for said in verdicts(run)] == (
            [list(optimizer.EVALUATORS)] * 3
        )
        second = verdicts(run)[1]
        assert [given.get("passed") for given in second] == [True, False, None]
        assert second[2] == {"by": "portable", "failed": "rejected"}
        # The evaluation itself did not fail, and was executed once.
        assert bodies(run, "TURN_FAILED") == []
        children = list(client.list_runs(RunFilter(parent_run_id=run_id)))
        assert len(children) == 9
        assert sum(child.status is RunStatus.FAILED for child in children) == 1


def test_the_cap_is_exact(sidecar: Sidecar) -> None:
    run_id = optimized(sidecar, optimizer.worker_of(sidecar.address, optimizer.STUBBORN))
    with sidecar.client() as client:
        run = client.attach(run_id)
        info = run.info()
        assert (info.status, info.state) == (RunStatus.COMPLETED, "capped")
        # Three retries are four drafts; the fourth retry is refused and not counted.
        assert dict(info.visits) == {"generate": 4, "evaluate": 4, "capped": 1}
        assert {(edge.state, edge.event): edge.count for edge in info.edges}[
            "evaluate", "Retry"
        ] == 3
        *_, last = bodies(run, "TRANSITION")
        assert (last.event, last.intended_state, last.to_state) == ("Retry", "generate", "capped")
        assert [redirect.guard for redirect in last.redirects] == ["max_iterations:evaluate.Retry"]


def answers(tool: str, body: Any) -> bool:
    return bool(body.tool == tool)


def test_joined_in_the_order_of_declaration(sidecar: Sidecar) -> None:
    """The first evaluator is answered last, and stands first."""
    held, released = threading.Event(), threading.Event()

    def hold(turn: Turn) -> Reply:
        held.set()
        assert released.wait(WAIT_SECONDS), "it was never released"
        return optimizer.accepts(turn)

    def release() -> None:
        assert held.wait(WAIT_SECONDS), "the first evaluator was never asked"
        with sidecar.client() as client:
            (info,) = (info for info in client.list_runs() if info.parent is None)
            run = client.attach(info.run_id)
            for tool in ("rejects", "portable"):
                seen(run, "STEP_RESOLVED", partial(answers, tool))
        released.set()

    worker = optimizer.worker_of(sidecar.address, optimizer.LEARNS[2:], accepts=hold)
    thread = threading.Thread(target=release)
    thread.start()
    run_id = optimized(sidecar, worker)
    thread.join(WAIT_SECONDS)
    with sidecar.client() as client:
        run = client.attach(run_id)
        ((asked, answered),) = rounds(run)
        assert [body.tool for body in asked] == list(optimizer.EVALUATORS)
        assert answered[-1].tool == "accepts"
        (said,) = verdicts(run)
        assert [given["by"] for given in said] == list(optimizer.EVALUATORS)
        assert run.info().state == "accepted"

"""What came out of a run, whoever drove it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from pawl_client._enums import RecordKind
from pawl_client._flow import Flow, Operation
from pawl_client._operations import Runs
from pawl_client._outcomes import RunResult, values_of
from pawl_client._records import TurnCompleted
from pawl_client._runs import RunInfo, Snapshot

Call: TypeAlias = Callable[[Operation[Any]], Flow[Any]]

_WINDOW, _GROWTH = 32, 8
"""Records that are looked through first, from the end; and how much more then."""
_PAGE = 1000


def read_result(
    runs: Runs,
    run_id: str,
    call: Call,
    errors: tuple[BaseException, ...] = (),
    output: tuple[Any, ...] | None = None,
) -> Flow[RunResult[Any]]:
    """The run as it is. `output` None: it is read from the records."""
    snapshot: Snapshot = yield from call(runs.get(run_id, 0, artifacts=True))
    if output is None:
        output = yield from _last_output(runs, snapshot.run, call)
    artifacts = values_of(snapshot.artifacts)
    return RunResult(run=snapshot.run, artifacts=artifacts, output=output, errors=errors)


def _last_output(runs: Runs, run: RunInfo, call: Call) -> Flow[tuple[Any, ...]]:
    """The output of the last turn that was completed, as of the run's seq."""
    until, window = run.seq, _WINDOW
    while until > 0:
        after = max(0, until - window)
        completed = yield from _last_between(runs, run.run_id, after, until, call)
        if completed is not None:
            return completed.output
        until, window = after, window * _GROWTH
    return ()


def _last_between(
    runs: Runs, run_id: str, after: int, until: int, call: Call
) -> Flow[TurnCompleted | None]:
    found: TurnCompleted | None = None
    token = ""
    while True:
        kinds = [RecordKind.TURN_COMPLETED]
        page, token = yield from call(
            runs.list_transitions(run_id, kinds, after, _PAGE, token, False)
        )
        for record in page:
            if record.seq > until:
                return found
            found = record.body
        if not token:
            return found

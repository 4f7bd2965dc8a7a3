"""What a run waits for, as the sidecar computes it."""

from __future__ import annotations

from pawl_client import Client, Execution, RunFilter, WaitingKind


def test_run_says_what_it_waits_for(client: Client) -> None:
    """The info of a run and the list agree, and the list can be filtered by it."""
    run = client.start("self-correcting", execution=Execution.WORKERS, labels={"of": "waiting"})
    waiting = run.info().waiting
    assert waiting is not None
    assert waiting.kind is WaitingKind.NO_WORKER
    assert waiting.since is not None
    assert waiting.sentence.startswith(f"No worker has the turn of the prompt {waiting.prompt}")
    chosen = RunFilter(labels={"of": "waiting"}, waiting=[WaitingKind.NO_WORKER])
    (listed,) = client.list_runs(chosen)
    assert (listed.run_id, listed.waiting) == (run.id, waiting)
    run.pause()
    paused = run.info().waiting
    assert paused is not None
    assert (paused.kind, paused.principal) == (WaitingKind.PAUSED, "anonymous")
    assert not list(client.list_runs(chosen))
    run.cancel()
    assert run.info().waiting is None

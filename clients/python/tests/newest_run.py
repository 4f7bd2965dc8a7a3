"""The newest run of an agent or graph, for the tests of the adapters of agent libraries."""

from __future__ import annotations

from pawl_client import Client, Run, RunFilter, StepRequested


def run_of(client: Client, name: str) -> Run:
    """The newest run of the pack of this name."""
    info = next(iter(client.list_runs(RunFilter(pack=name))))
    return client.attach(info.run_id)


def requested(client: Client, name: str) -> list[StepRequested]:
    """The steps of the newest run of the pack of this name."""
    records = run_of(client, name).records(kinds=["STEP_REQUESTED"])
    return [record.body for record in records if isinstance(record.body, StepRequested)]

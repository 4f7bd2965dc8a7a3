"""Runs the agent on a real sidecar, with the recorded model."""

import app
import offline
import pytest
from pawl_client import Event, RunStatus
from pawl_client.testing import Sidecar


@pytest.mark.parametrize(
    ("amount", "decision", "answer"),
    [
        (50, "", "50.00 for order 17"),
        (150, "APPROVE", "150.00 for order 17"),
        (150, "DENY", "declined"),
    ],
)
def test_refund(amount: int, decision: str, answer: str) -> None:
    held = []
    with (
        Sidecar(packs=["my-agent.pack.yaml"], allow_tools=["*"]) as sidecar,
        sidecar.client() as client,
    ):

        def decide(event: Event) -> None:
            """Plays the person who decides about the held call."""
            if event.kind == "wait" and event.on == "approval":
                held.append(event.tool)
                client.attach(event.run_id).decide_step(event.step, event.digest, decision)

        result = client.run(
            "my-agent",
            offline.model,
            tools=app.TOOLS,
            input=f"Refund order 17: {amount}",
            on_output=decide,
        )
    assert held == (["refund"] if decision else [])
    assert result.status is RunStatus.COMPLETED
    assert answer in result.output[0].text

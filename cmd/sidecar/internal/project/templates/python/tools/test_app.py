"""Runs the agent on a real sidecar, with the recorded model."""

import app
import offline
from pawl_client import RunStatus
from pawl_client.testing import Sidecar


def ask(question: str) -> str:
    """Returns what the agent answers."""
    with (
        Sidecar(packs=["my-agent.pack.yaml"], allow_tools=["*"]) as sidecar,
        sidecar.client() as client,
    ):
        result = client.run("my-agent", offline.model, tools=app.TOOLS, input=question)
    assert result.status is RunStatus.COMPLETED
    return result.output[0].text


def test_an_order_that_exists() -> None:
    assert "shipped on Monday" in ask("Where is order 17?")


def test_an_order_that_does_not_exist() -> None:
    assert "cannot find" in ask("Where is order 99?")

"""Runs the agent on a real sidecar, with the recorded model."""

import offline
from pawl_client import Reply, RunStatus, Turn
from pawl_client.testing import Sidecar


def run(model) -> str:
    """Returns what the agent publishes."""
    with Sidecar(packs=["my-agent.pack.yaml"]) as sidecar, sidecar.client() as client:
        result = client.run("my-agent", model, input="Write about ratchets.")
    assert result.status is RunStatus.COMPLETED
    return result.output[0].text


def test_the_second_draft_is_good() -> None:
    assert "draft 2" in run(offline.model)


def test_a_critic_that_is_never_content() -> None:
    def model(turn: Turn) -> Reply:
        if turn.state == "criticize":
            return Reply(event="Weak", artifacts={"review": "Again."})
        return offline.model(turn)

    assert "draft 3" in run(model)
